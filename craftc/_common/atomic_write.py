"""Atomic replacement of files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_TEMPORARY = ".{}.{}.tmp"  # of a file and a process


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file for writing; it replaces `path` when the block ends without an error.

    Parameters
    ----------
    path : path
        The file to write. Pipes and devices (``/dev/stdout``) are written directly.
    mode : {"w", "wb"}
        Text is written as UTF-8 without conversion of line ends.
    """
    target = Path(os.path.realpath(path))
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder; pass the name of a file.")
    if target.exists() and not target.is_file():
        with open(target, mode, **text) as file:
            yield file
        return
    temporary = target.with_name(_TEMPORARY.format(target.name[:200], os.getpid()))
    try:
        with open(temporary, mode, **text) as file:
            yield file
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_unfinished(path: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed have left of `replacing`; none may be writing this file."""
    target = Path(os.path.realpath(path))
    for temporary in target.parent.glob(_TEMPORARY.format(glob.escape(target.name[:200]), "*")):
        temporary.unlink(missing_ok=True)
