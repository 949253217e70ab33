"""Merged cells of a sheet, whose text a reader finds in the first of them alone; hidden sheets and rows, and
formulas without a result.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

_WORKBOOK = "xl/workbook.xml"
_RANGE = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="\$?([A-Z]{1,3})\$?(\d+):\$?([A-Z]{1,3})\$?(\d+)"')
_HIDDEN_ROW = re.compile(rb'<(?:\w+:)?row\s[^>]*?hidden="(?:1|true)"[^>]*?>')
#: A formula whose result was never stored; the empty text is a result.
_UNSOLVED = re.compile(
    rb'<%bc(?:\s(?![^>]*\bt="str")[^>]*)?>\s*<%bf(?:\s[^>]*)?(?:/>|>[^<]*</%bf>)\s*'
    rb"(?:<%bv>\s*</%bv>|<%bv\s*/>)?\s*</%bc>".replace(b"%b", rb"(?:\w+:)?")
)
_PIECE, _LONGEST = 1 << 20, 200  # bytes that are read at once, and of one element


@dataclass(frozen=True)
class Merged:
    """Rows first to last and columns left to right of merged cells, from 0."""

    first: int
    last: int
    left: int
    right: int


def merged_cells(content: io.BytesIO, sheet: str) -> list[Merged]:
    """The merged cells of a sheet of a workbook (.xlsx), from top to bottom."""
    with zipfile.ZipFile(content) as archive:
        path = _path_of(archive, sheet)
        if not path:
            return []
        return sorted(set(_ranges(archive, path)), key=lambda each: (each.first, each.left))


def hidden_sheets(content: io.BytesIO) -> set[str]:
    """The names of the sheets of a workbook (.xlsx) that Excel does not show."""
    with zipfile.ZipFile(content) as archive:
        if _WORKBOOK not in archive.namelist():
            return set()
        book = ElementTree.fromstring(archive.read(_WORKBOOK))
    return {
        each.get("name", "")
        for each in book.iter()
        if each.tag.endswith("}sheet") and each.get("state", "visible") != "visible"
    }


def n_hidden_rows(content: io.BytesIO, sheet: str) -> int:
    """The rows of a sheet that Excel does not show, as after a filter."""
    with zipfile.ZipFile(content) as archive:
        path = _path_of(archive, sheet)
        return sum(1 for _ in _found(archive, path, _HIDDEN_ROW)) if path else 0


def n_unsolved_formulas(content: io.BytesIO, sheet: str) -> int:
    """The formulas of a sheet without a result, as programs write them that do not compute."""
    with zipfile.ZipFile(content) as archive:
        path = _path_of(archive, sheet)
        return sum(1 for _ in _found(archive, path, _UNSOLVED)) if path else 0


def _path_of(archive: zipfile.ZipFile, sheet: str) -> str:
    """The part of a workbook that holds a sheet; empty if it is in another place than usual."""
    folder, name = posixpath.split(_WORKBOOK)
    links = f"{folder}/_rels/{name}.rels"
    if not {_WORKBOOK, links} <= set(archive.namelist()):
        return ""
    targets = {
        each.get("Id"): each.get("Target") or "" for each in ElementTree.fromstring(archive.read(links))
    }
    for each in ElementTree.fromstring(archive.read(_WORKBOOK)).iter():
        if each.tag.endswith("}sheet") and each.get("name") == sheet:
            target = next((targets.get(value, "") for key, value in each.items() if key.endswith("}id")), "")
            path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            return path if path in archive.namelist() else ""
    return ""


def _ranges(archive: zipfile.ZipFile, path: str) -> Iterator[Merged]:
    for found in _found(archive, path, _RANGE):
        left, first, right, last = found.groups()
        yield Merged(int(first) - 1, int(last) - 1, _position(left), _position(right))


def _found(archive: zipfile.ZipFile, path: str, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """The matches of a pattern in a part of a workbook, read in pieces."""
    with archive.open(path) as part:
        rest = b""
        while piece := part.read(_PIECE):
            text, end = rest + piece, 0
            for found in pattern.finditer(text):
                yield found
                end = found.end()
            rest = text[max(end, len(text) - _LONGEST) :]


def _position(letters: bytes) -> int:
    """The position of a column from its letters: 0 for A, 26 for AA."""
    position = 0
    for letter in letters:
        position = 26 * position + letter - ord("A") + 1
    return position - 1
