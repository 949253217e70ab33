"""Arrays in scratch files: the blocks of tables that do not fit into memory, and values of their rows.

A scratch file has no name in the file system (on POSIX systems), or is deleted when it is closed (on
Windows). Nothing is left behind, however the process ends.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import DTypeLike

from craftc._common.typing import Array

_ZEROS = 1 << 22  # bytes written at a time where the system cannot reserve space
_SMALL = 1 << 18  # bytes below which an array stays in memory: each file needs a descriptor


class Scratch:
    """A folder in which arrays are kept in files that disappear with the arrays.

    `folder`: None: the folder of the system for temporary files (the variable TMPDIR).

    Raises OSError: the folder does not exist or cannot be written to.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = os.fspath(folder) if folder is not None else tempfile.gettempdir()
        if not os.path.isdir(self.folder):
            raise NotADirectoryError(errno.ENOTDIR, "The scratch folder does not exist", self.folder)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """An array in a new scratch file, whose space is reserved; a small one in memory."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < _SMALL:
            return np.empty(shape, dtype)
        with self.file() as file:
            self._reserve(file, size)
            return mapped(file, shape, dtype)

    def file(self) -> BinaryIO:
        """A new scratch file, open for reading and writing."""
        try:
            return cast(BinaryIO, tempfile.TemporaryFile(dir=self.folder, prefix="craftc-", buffering=0))
        except OSError as error:
            raise self._named(error) from error

    def write(self, file: BinaryIO, block: Array) -> None:
        """Append a C-contiguous block to a scratch file."""
        rest = memoryview(block.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            raise self._named(error) from error

    def _reserve(self, file: BinaryIO, size: int) -> None:
        """Extend a file to this size, so that a full disk raises here and not a signal on writing."""
        try:
            if size and hasattr(os, "posix_fallocate"):
                try:
                    os.posix_fallocate(file.fileno(), 0, size)
                    return
                except OSError as error:
                    if error.errno not in (
                        errno.EINVAL,
                        errno.ENOTSUP,
                        errno.EOPNOTSUPP,
                    ):  # not by this file system
                        raise
            for start in range(0, size, _ZEROS):
                zeros = memoryview(bytes(min(_ZEROS, size - start)))
                while zeros:  # an unbuffered file may write less
                    zeros = zeros[file.write(zeros) :]
        except OSError as error:
            raise self._named(error) from error

    def _named(self, error: OSError) -> OSError:
        """The error with the scratch folder in its message."""
        full = (
            error.errno in (errno.ENOSPC, errno.EDQUOT)
            if hasattr(errno, "EDQUOT")
            else error.errno == errno.ENOSPC
        )
        advice = (
            "is full; pass another folder as scratch, or set TMPDIR"
            if full
            else f"cannot be written to ({error.strerror})"
        )
        return OSError(error.errno, f"The scratch folder {advice}", self.folder)


def release_pages(block: Array) -> None:
    """Drop the pages of an array in a scratch file from memory; they are read again on use."""
    base: object = block
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def mapped(file: BinaryIO, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """The content of a scratch file as an array, which keeps the space of the file after it is closed."""
    if not math.prod(shape):
        return np.empty(shape, dtype)
    # the buffer of a plain array: joblib opens the file of a memmap by its name, and this one has none
    return np.ndarray(shape, dtype, mmap.mmap(file.fileno(), 0))
