"""Files, standard input and pipes, opened without compression, and no longer than memory allows."""

from __future__ import annotations

import bz2
import difflib
import gzip
import io
import lzma
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from craftc._common.machine import available_memory
from craftc.reading.encodings import wide_encoding

HEAD = 1 << 16  # bytes from which the format is detected
SHEETS_ONLY = "{} is {}, which craftc does not read; save the table as .xlsx or .csv."

_BINARY = "{} is not a text file; save the table as .csv, for example."
_STEP = 1 << 24  # bytes between two looks at the memory that is left
_BUFFER = 1 << 20  # bytes that are read at a time
_COMPARED = 100  # characters of a name in the search for similar ones

_Packing = Callable[[Any], AbstractContextManager[Any]]
_PACKINGS: tuple[tuple[bytes, _Packing], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\0", lzma.open),
)
ZIP, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
COLUMNAR = (b"PAR1", b"ARROW1", b"FEA1")
_WITH_ZEROS = (*COLUMNAR, ZIP, OLD_EXCEL, *(magic for magic, _ in _PACKINGS))


#: Programs and readers of pyreadstat by the first bytes of a file; those of Stata begin with a version.
_LABELLED = (
    (re.compile(rb"\$FL[23]"), "SPSS", "read_sav"),
    (re.compile(rb".{0,464}SPSSPORT", re.DOTALL), "SPSS", "read_por"),
    (re.compile(rb"<stata_dta>|[\x69\x6c\x6e-\x73][\x01\x02]\x01\x00", re.DOTALL), "Stata", "read_dta"),
    (re.compile(rb"\0{12}\xc2\xea\x81\x60"), "SAS", "read_sas7bdat"),
    (re.compile(rb"HEADER RECORD\*{7}LIB"), "SAS", "read_xport"),
)


class TableError(ValueError):
    """A table or a column that cannot be used; the command line prints the message."""


class _Watched(io.RawIOBase):
    """A stream that raises MemoryError before its content no longer fits into memory a second time."""

    def __init__(self, file: io.BufferedIOBase, shown: str) -> None:
        self._file, self._shown = file, shown
        self._size, self._next = 0, _STEP

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        n = self._file.readinto(buffer)
        self._size += n
        if self._size >= self._next:
            self._next += _STEP
            available = available_memory()
            if available is not None and available < self._size:
                raise MemoryError(
                    f"{self._shown} does not fit into memory: {self._size >> 20:,} MiB have been read, and "
                    f"{available >> 20:,} MiB of memory are left. Use fewer rows, or convert it to Parquet, "
                    "which is read in batches."
                )
        return n


@dataclass
class InputFile:
    """A file, standard input ("-") or a pipe, which can be opened several times."""

    path: str
    shown: str
    data: bytes | None = None  # of what cannot be opened twice
    packings: list[_Packing] = field(default_factory=list)

    @contextmanager
    def opened(self) -> Iterator[io.BufferedReader[_Watched]]:
        """The content without compression."""
        with self._unpacked() as file, io.BufferedReader(_Watched(file, self.shown), _BUFFER) as watched:
            yield watched

    @contextmanager
    def _unpacked(self) -> Iterator[io.BufferedIOBase]:
        with ExitStack() as stack:
            file: io.BufferedIOBase = (
                io.BytesIO(self.data) if self.data is not None else stack.enter_context(open(self.path, "rb"))
            )
            for packing in self.packings:
                file = stack.enter_context(packing(file))
            yield file

    def first(self, size: int) -> bytes:
        """The first bytes of the content."""
        with self._unpacked() as file:
            head: bytes = file.read(size)
        return head

    def head(self) -> bytes:
        """The first bytes; outer compressions are recognised by their first bytes and removed."""
        while True:
            head = self.first(HEAD)
            packing = next((packing for magic, packing in _PACKINGS if head.startswith(magic)), None)
            if head.startswith(ZIP) and not self._is_office():
                packing = self._only_member
            if packing is None or len(self.packings) == 3:
                break
            self.packings.append(packing)
        if is_binary(head):
            raise TableError(_BINARY.format(self.shown))
        return head

    def _is_office(self) -> bool:
        with (
            self._unpacked() as file,
            zipfile.ZipFile(io.BytesIO(file.read()) if self.packings else file) as archive,
        ):
            names = archive.namelist()
        if "content.xml" in names:
            raise TableError(SHEETS_ONLY.format(self.shown, "an OpenDocument file"))
        return "[Content_Types].xml" in names

    @contextmanager
    def _only_member(self, file: IO[bytes]) -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(file) as archive:
            names = [
                name
                for name in archive.namelist()
                if not name.endswith("/") and not name.startswith("__MACOSX/")
            ]
            if len(names) != 1:
                raise TableError(
                    f"{self.shown} holds {len(names)} files ({', '.join(names[:5])}); pass an archive with "
                    "one table."
                )
            with archive.open(names[0]) as member:
                yield member


def is_binary(head: bytes) -> bool:
    """Whether a file that begins with these bytes is neither text nor of a format with bytes of value 0."""
    if b"\0" not in head or head.startswith(_WITH_ZEROS):
        return False
    return not (labelled_reader(head)[0] or wide_encoding(head))


def labelled_reader(head: bytes) -> tuple[str, str]:
    """The program that writes files of such first bytes, and the function that reads them; or twice ""."""
    return next(((program, name) for form, program, name in _LABELLED if form.match(head)), ("", ""))


def find_file(path: str) -> InputFile:
    """The file of this name; what cannot be opened twice is read at once."""
    if path == "-":
        if sys.stdin is None:
            raise TableError("Standard input is closed; pass the name of a file.")
        return InputFile(
            path, "standard input", _whole(cast(io.BufferedReader, sys.stdin.buffer), "standard input")
        )
    if not path or not Path(path).exists():
        raise TableError(f"There is no file {path!r}.{_similar_file(Path(path))}")
    if Path(path).is_file():
        return InputFile(path, repr(path))
    with open(path, "rb") as stream:
        return InputFile(path, repr(path), _whole(stream, repr(path)))


def _whole(stream: io.BufferedIOBase, shown: str) -> bytes:
    """All bytes of a stream, which may be endless."""
    with io.BufferedReader(_Watched(stream, shown), _BUFFER) as watched:
        content = bytearray(watched.read(HEAD))
        if is_binary(bytes(content)):
            raise TableError(_BINARY.format(shown))
        while piece := watched.read(_BUFFER):
            content += piece
    return bytes(content)


def _similar_file(path: Path) -> str:
    """A hint at files of the same folder with a similar name, or an empty string."""
    try:
        names = [other.name for other in path.parent.iterdir()]
    except OSError:
        return ""
    return did_you_mean(path.name, names)


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The hint ``" Did you mean ...?"`` with up to three similar names, or an empty string."""
    folded = {other.casefold(): other for other in reversed(names) if len(other) <= _COMPARED}
    close = difflib.get_close_matches(name[:_COMPARED].casefold(), list(folded), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(folded[other]) for other in close)}?" if close else ""
