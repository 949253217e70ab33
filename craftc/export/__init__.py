"""Models for other machines: as a statement of SQL, and as an ONNX graph."""

from craftc.export.onnx_model import to_onnx
from craftc.export.sql import to_sql

__all__ = ["to_onnx", "to_sql"]
