"""Model files as arguments of commands."""

from __future__ import annotations

import os
from pathlib import Path

from craftc.craft.base import CraftBase
from craftc.saved.save_and_load import load_model


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


def clusters_of(model: str, threads: int | None, table: str, out: str | None = None) -> CraftBase:
    """The model of a command, which no result overwrites."""
    path = model_file(model)
    if out is not None and os.path.exists(out):
        for name in (path, table):
            if os.path.exists(name) and os.path.samefile(out, name):
                raise ValueError(f"--out {out!r} would overwrite an input file; pass another name.")
    fitted = load_model(path)
    if not isinstance(fitted, CraftBase):
        raise ValueError(
            f"{os.fspath(path)!r} holds a fitted {type(fitted).__name__}; this command needs a CRAFT."
        )
    fitted.n_threads = threads
    return fitted
