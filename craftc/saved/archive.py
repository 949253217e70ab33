"""The container of a model file: a zip archive of plain arrays and one JSON text, which is read without
executing anything in it.

An ``.npz`` archive, never of pickled objects. Its member ``model`` is the JSON text (UTF-8), the head: format
name and version, name of the estimator, parameters and values of the fit; the other members are arrays. The
member ``checksum`` is the SHA-256 of all others. It is compared before anything else is read, so that a
changed file never gives other results in silence.

A damaged or hostile file cannot ask for much more memory than its own length: the members together are at
most `_MOST_EXPANDED` times as long as the file (and the head, whose Python objects are larger,
`_MOST_EXPANDED_HEAD` times), and the type and the shape of an array are compared with the size of its member
before its data are read.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import warnings
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from craftc._common.atomic_write import replacing

FORMAT, VERSION = "craftc-model", 1

Arrays = dict[str, NDArray[Any]]

_HEAD = "model"
_CHECKSUM = "checksum"
_MOST_DEFLATED = 1032  # bytes that one byte of a deflated member can expand to
_MOST_EXPANDED = 64  # bytes of all members to a byte of the file
_SMALL = 100_000_000  # bytes of all members that are never refused
_MOST_EXPANDED_HEAD, _SMALL_HEAD = 16, 16_000_000  # the same of the head
_CHUNK = 1 << 20  # bytes
_LONG = 300  # characters of a problem, which may quote the file
_FOREIGN = "{} is not a craftc model; pass a file that craftc.save_model wrote."
_DAMAGED = "{} is damaged or cut short ({}); copy it again, or save the model again."
_NEWER = "{} was written by a newer craftc (format {}, this one reads up to {}); update craftc."
_UNKNOWN = "{} holds a fitted {!r}, which this craftc does not know; update craftc."
_TOO_LARGE = "{} needs {:.0f} MB of memory, more than this process can have; load it where more is free."


def write_archive(path: str | os.PathLike[str], head: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model file, which replaces `path` once all is written; `head` has values of JSON."""
    try:
        text = json.dumps({"format": FORMAT, "format_version": VERSION, **head}, allow_nan=False).encode()
    except (TypeError, ValueError) as error:  # before anything is written
        raise type(error)(f"The model holds a value that a model file cannot store: {error}.") from error
    members = {_HEAD: np.frombuffer(text, np.uint8), **arrays}
    with replacing(path, "wb") as file:
        if not file.seekable():
            _write_members(file, members, zipfile.ZIP_STORED)
            return
        _write_members(file, members, zipfile.ZIP_DEFLATED)
        size = sum(array.nbytes for array in arrays.values())
        if not _possible(file.tell(), len(text), size):  # would be refused on loading
            file.seek(0)
            file.truncate()
            _write_members(file, members, zipfile.ZIP_STORED)


def _write_members(file: IO[bytes], members: Arrays, compression: int) -> None:
    """Write the archive, the checksum last."""
    digests = {}
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in members.items():
            with _member(archive, name, compression) as member:
                hashed = _Hashed(member)
                out = cast(IO[bytes], hashed)
                np.lib.format.write_array(out, np.asanyarray(array), version=(1, 0), allow_pickle=False)
            digests[name] = hashed.digest.digest()
        with _member(archive, _CHECKSUM, compression) as member:
            np.lib.format.write_array(member, _checksum(digests), version=(1, 0), allow_pickle=False)


def _member(archive: zipfile.ZipFile, name: str, compression: int) -> IO[bytes]:
    info = zipfile.ZipInfo(f"{name}.npy")  # a constant date: the same model gives the same bytes
    info.compress_type = compression
    return archive.open(info, "w", force_zip64=True)


class _Hashed:
    """A file for writing that computes the digest of what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.file.write(data)


def _checksum(digests: Mapping[str, bytes]) -> NDArray[np.uint8]:
    """SHA-256 over the names and the digests of the members, in the order of their names."""
    total = hashlib.sha256()
    for name in sorted(digests):
        total.update(json.dumps([name, digests[name].hex()]).encode())
    return np.frombuffer(total.digest(), np.uint8)


def _possible(length: int, head: int, arrays: int) -> bool:
    """Whether a file of this length may have a head and arrays of these sizes."""
    return head <= max(_SMALL_HEAD, _MOST_EXPANDED_HEAD * length) and head + arrays <= max(
        _SMALL, _MOST_EXPANDED * length
    )


class Archive:
    """A model file that is open for reading, from a binary file that can seek."""

    def __init__(self, file: IO[bytes]) -> None:
        length = file.seek(0, io.SEEK_END)
        file.seek(0)
        self._zip = zipfile.ZipFile(file)
        members = self._zip.infolist()
        self._members = {info.filename.removesuffix(".npy"): info for info in members}
        self.head: dict[str, Any] = {}  # the JSON text
        if _HEAD in self:  # otherwise the file of another program
            demand(len(self._members) == len(members), "it has two members of one name")
            demand(
                sum(info.compress_size for info in members) <= length, "its members are longer than the file"
            )
            head = self._members[_HEAD].file_size
            self.n_bytes = sum(info.file_size for info in members)
            demand(_possible(length, head, self.n_bytes - head), "its members are too large for its length")

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read_head(self) -> bool:
        """Read `head` and compare the checksum; False if the archive is that of another program."""
        if _HEAD not in self:
            return False
        text = self.array(_HEAD, "uint8", (None,)).tobytes().decode()
        head = json.loads(text, parse_constant=_no_constant)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            return False
        self.head = head
        if type(head.get("format_version")) is not int or not isinstance(head.get("estimator"), str):
            return False
        digests = {name: self._digest(info) for name, info in self._members.items() if name != _CHECKSUM}
        same = np.array_equal(self.array(_CHECKSUM, "uint8", (32,)), _checksum(digests))
        demand(same, "its contents do not have its checksum")
        return True

    def _digest(self, info: zipfile.ZipInfo) -> bytes:
        digest = hashlib.sha256()
        with self._zip.open(info) as member:
            while chunk := member.read(_CHUNK):
                digest.update(chunk)
        return digest.digest()

    def array(
        self, name: str, dtype: str | Collection[str] | None, shape: tuple[int | None, ...] | None = None
    ) -> NDArray[Any]:
        """One array; raise unless its type and shape are as given, before its data are read.

        `dtype` names the types that are allowed; None: any of numbers, text or dates. None in `shape`: any
        length.
        """
        demand(name in self._members, f"{name} is missing")
        info = self._members[name]
        known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        demand(known, f"{name} has an unknown compression")
        with self._zip.open(info) as member:
            demand(np.lib.format.read_magic(member) == (1, 0), f"{name} has an unknown format")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # a header of Python 2
                    found, _, kind = np.lib.format.read_array_header_1_0(member)
            except Exception as error:  # of Python's tokenizer and parser, too
                raise ValueError(f"{name} has a header that cannot be read") from error
            dtypes = [dtype] if isinstance(dtype, str) else dtype
            allowed = kind.kind in "biufUM" if dtypes is None else str(kind) in dtypes
            demand(allowed, f"{name} has dtype {kind}")
            fits = shape is None or len(found) == len(shape)
            fits &= all(b in (None, a) for a, b in zip(found, shape or (), strict=False))
            demand(fits and min(found, default=0) >= 0, f"{name} has shape {found}")
            size = math.prod(found) * kind.itemsize
            possible = info.file_size <= _MOST_DEFLATED * info.compress_size
            possible &= member.tell() + size == info.file_size
            demand(possible, f"{name} has another size than shape {found} needs")
            member.seek(0)
            array: NDArray[Any] = np.asarray(np.lib.format.read_array(member, allow_pickle=False), order="C")
        return array


@contextmanager
def reading(path: str | os.PathLike[str], estimators: Collection[str]) -> Iterator[Archive]:
    """Open a model file of one of these estimators; an error in the block means a damaged file."""
    name = repr(os.fspath(path))
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError(_FOREIGN.format(name))
        archive = None
        try:
            archive = Archive(file)
            known = archive.read_head()
        except Exception as error:
            raise _reported(error, name, archive) from error
        if not known:
            raise ValueError(_FOREIGN.format(name))
        written, estimator = archive.head["format_version"], archive.head["estimator"]
        if estimator not in estimators:
            raise ValueError(_UNKNOWN.format(name, estimator))
        if written > VERSION:
            raise ValueError(_NEWER.format(name, written, VERSION))
        try:
            demand(written == VERSION, f"its format is {written}")
            with np.errstate(all="ignore"):  # what is not finite is refused as such
                yield archive
        except Exception as error:
            raise _reported(error, name, archive) from error


def _reported(error: Exception, name: str, archive: Archive | None) -> Exception:
    """The error of a file that cannot be read: whatever its contents raise, the file is damaged."""
    if isinstance(error, MemoryError) and archive is not None:  # its sizes are possible
        return MemoryError(_TOO_LARGE.format(name, archive.n_bytes / 1e6))
    problem = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
    return ValueError(_DAMAGED.format(name, problem if len(problem) <= _LONG else f"{problem[:_LONG]}…"))


def demand(holds: bool, otherwise: str) -> None:
    """Raise ValueError unless a condition on the contents of a file holds."""
    if not holds:
        raise ValueError(otherwise)


def _no_constant(text: str) -> float:
    raise ValueError(f"it contains {text}")
