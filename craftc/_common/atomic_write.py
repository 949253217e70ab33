"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file to write; it takes the place of `path` only once all is written.

    Parameters
    ----------
    path : path
        Where the file shall be. A pipe or a device (``/dev/stdout``) is written to directly.
    mode : {"w", "wb"}
        Text is UTF-8 with the line ends it is given.
    """
    target = Path(os.path.realpath(path))
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder; give the name of a file.")
    if target.exists() and not target.is_file():
        with open(target, mode, **text) as file:
            yield file
        return
    temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
    try:
        with open(temporary, mode, **text) as file:
            yield file
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
