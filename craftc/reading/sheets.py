"""Sheets of a spreadsheet: merged cells, whose text a reader finds in the first of them alone; hidden sheets
and rows; formulas without a result; cells formatted as percentages; and tables that stand next to the one
that is read, behind an empty column.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from craftc._common.messages import listed
from craftc._common.typing import Bits, Ints
from craftc.reading.cells import is_number

if TYPE_CHECKING:
    import pandas as pd

_WORKBOOK, _STYLES = "xl/workbook.xml", "xl/styles.xml"
_PERCENT_FORMATS = ("9", "10")  # of every workbook: 0% and 0.00%
#: What is shown as it is in the format of a number, and conditions such as [Red].
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\[[^\]]*\]')
_RANGE = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="\$?([A-Z]{1,3})\$?(\d+):\$?([A-Z]{1,3})\$?(\d+)"')
_HIDDEN_ROW = re.compile(rb'<(?:\w+:)?row\s[^>]*?hidden="(?:1|true)"[^>]*?>')
#: A formula whose result was never stored; the empty text is a result.
_UNSOLVED = re.compile(
    rb'<%bc(?:\s(?![^>]*\bt="str")[^>]*)?>\s*<%bf(?:\s[^>]*)?(?:/>|>[^<]*</%bf>)\s*'
    rb"(?:<%bv>\s*</%bv>|<%bv\s*/>)?\s*</%bc>".replace(b"%b", rb"(?:\w+:)?")
)
_PIECE, _LONGEST = 1 << 20, 200  # bytes that are read at once, and of one element
_SHARE_OF_LONGEST = 0.2  # lines of the table that is read, at least; shorter ones explain it
_SHORT = 0.5  # share of the lines of a table within which those of another one are
_CHANCE = 0.01  # that cells of the same table would be


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


def percent_cells(content: io.BytesIO, sheet: str) -> dict[int, set[int]]:
    """The rows, from 0, of the cells of a sheet that are formatted as percentages, by column."""
    found: dict[int, set[int]] = {}
    with zipfile.ZipFile(content) as archive:
        path, styles = _path_of(archive, sheet), _percent_styles(archive)
        if not path or not styles:
            return {}
        of_styles = rf'<(?:\w+:)?c\s(?=[^>]*\bs="(?:{"|".join(styles)})")[^>]*?\br="([A-Z]{{1,3}})(\d+)"'
        for each in _found(archive, path, re.compile(of_styles.encode())):
            found.setdefault(_position(each[1]), set()).add(int(each[2]) - 1)
    return found


def _percent_styles(archive: zipfile.ZipFile) -> list[str]:
    """The numbers of the styles of cells whose format multiplies by 100."""
    if _STYLES not in archive.namelist():
        return []
    styles = ElementTree.fromstring(archive.read(_STYLES))
    formats = {
        each.get("numFmtId", "")
        for each in styles.iter()
        if each.tag.endswith("}numFmt") and "%" in _LITERAL.sub("", each.get("formatCode", ""))
    }
    formats.update(_PERCENT_FORMATS)
    of_cells = (each for each in styles.iter() if each.tag.endswith("}cellXfs"))
    return [str(i) for each in of_cells for i, own in enumerate(each) if own.get("numFmtId") in formats]


def show_percentages(rows: pd.DataFrame, formatted: Mapping[int, set[int]]) -> list[int]:
    """Multiply by 100 the columns of a sheet most of whose numbers are formatted as percentages, as the sheet
    shows them and a text file of it has them; returns these columns. The others stay as they are: all numbers
    of a column are of one scale.
    """
    changed = []
    for column, lines in formatted.items():
        if column not in rows:
            continue
        cells = rows[column]
        numbers = cells[[is_number(cell) for cell in cells]]
        if len(numbers) and 2 * len(lines.intersection(numbers.index)) >= len(numbers):
            rows.loc[numbers.index, column] = [float(f"{100.0 * number:.15g}") for number in numbers]
            changed.append(column)
    return changed


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


@dataclass(frozen=True)
class SideBySide:
    """Columns by the table to which they belong."""

    kept: list[int]  # those of the table that is read
    other: list[int]  # those of other tables
    apart: list[int]  # those of the table that is read that stand behind an empty column

    def note(self, names: Sequence[str]) -> str:
        """What was assumed, and what changes it; `names`: of all columns."""
        if self.other:
            n, shown = len(self.other), listed([names[j] for j in self.other])
            return (
                f"Not used: {n:,} column{'s' if n > 1 else ''} of another table next to the rows, behind an "
                f"empty column, {shown}; all_lines=True keeps such columns."
            )
        return (
            f"Behind an empty column, as another table would be, but read with the same rows: "
            f"{listed([names[j] for j in self.apart])}; leave out what does not belong to them."
        )


def side_by_side(filled: Bits, names: Sequence[str]) -> SideBySide | None:
    """The columns that belong to another table; None if no empty column is between others.

    `filled` (n, D): cells, that of the name of a column first. `names`: of the columns, as they are written.

    The table that is read is the first that is not much shorter than the longest. Columns with its names are
    another table. So are those of a few lines, or of lines below its last one.
    """
    blocks = _blocks(np.asarray(filled.any(axis=0)))
    if len(blocks) < 2:
        return None
    lines = [np.flatnonzero(filled[:, block].any(axis=1)) for block in blocks]
    longest = max(map(len, lines))
    main = next(b for b, own in enumerate(lines) if len(own) >= _SHARE_OF_LONGEST * longest)
    own_names = [[names[j] for j in block] for block in blocks]
    other, apart = list[int](), list[int]()
    for b, block in enumerate(blocks):
        if b != main:
            again = len(block) > 1 and own_names[b] == own_names[main]
            (other if again or _is_other(lines[b], lines[main]) else apart).extend(block)
    return SideBySide(sorted([*blocks[main], *apart]), other, apart)


def _blocks(used: Bits) -> list[list[int]]:
    """The columns between empty ones."""
    blocks: list[list[int]] = []
    for j in np.flatnonzero(used).tolist():
        if blocks and blocks[-1][-1] == j - 1:
            blocks[-1].append(j)
        else:
            blocks.append([j])
    return blocks


def _is_other(own: Ints, main: Ints) -> bool:
    """Whether lines with a cell of one block belong to another table than those of the main one."""
    if np.count_nonzero(own > main[-1]) > 1:
        return True
    share = float(own[-1] + 1 - own[0]) / len(main)
    few = len(own) == 1 or share ** (len(own) - 1) < _CHANCE
    return bool(own[-1] < main[-1]) and share <= _SHORT and few
