"""Model files as arguments of commands."""

from __future__ import annotations

from pathlib import Path


def model_file(model: str) -> Path:
    """The file of a model: the argument, or model.craftc in a folder that ``craftc cluster --out`` wrote."""
    path = Path(model)
    if path.is_dir():
        path /= "model.craftc"
        if not path.exists():
            raise ValueError(
                f"The folder {model!r} has no model.craftc; pass a folder that craftc cluster --out has "
                "written."
            )
    return path
