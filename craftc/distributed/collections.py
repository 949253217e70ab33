"""Dask collections."""

from __future__ import annotations

from typing import Any


def is_collection(X: Any) -> bool:
    """Whether an input is a collection of Dask; Dask is not imported."""
    return hasattr(X, "__dask_graph__") and any(each.__module__.partition(".")[0] == "dask" for each in type(X).__mro__)
