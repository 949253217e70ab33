"""ARFF files: names of attributes, and rows of cells."""

from __future__ import annotations

import re

from craftc.reading.input_file import TableError

_BEGIN = re.compile(rb"(?:[ \t]*(?:%[^\r\n]*)?[\r\n]+)*[ \t]*@relation\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"\s*@attribute\s+(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|(\S+))\s+(\S.*)", re.IGNORECASE
)
_FIRST_LEVEL = re.compile(r"\{\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,}]+?)\s*[,}]")
_CELL = re.compile(r"(\d+)\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,}]+)")
_DATA = re.compile(r"^[ \t]*@data\b.*$", re.IGNORECASE | re.MULTILINE)


def is_arff(head: bytes) -> bool:
    """Whether a file that begins with these bytes is in the format ARFF."""
    return _BEGIN.match(head) is not None


def arff_parts(text: str, shown: str) -> tuple[list[str], str]:
    """The names of the attributes, and the lines of data; `shown` names the file in errors."""
    data = _DATA.search(text)
    if data is None:
        raise TableError(f"{shown} is an ARFF file without @data; add its rows.")
    names, defaults = [], []
    for line in text[: data.start()].splitlines():
        if found := _ATTRIBUTE.match(line):
            names.append(next(name for name in found.groups() if name is not None).replace("\\", ""))
            level = _FIRST_LEVEL.match(found[4])
            defaults.append("0" if level is None else level[1])
    rows = [
        line for line in text[data.end() :].splitlines() if line.strip() and not line.lstrip().startswith("%")
    ]
    if rows and rows[0].lstrip().startswith("{"):
        rows = [_whole_row(row, defaults, shown) for row in rows]
    return names, "\n".join(rows) + "\n"


def _whole_row(row: str, defaults: list[str], shown: str) -> str:
    """A row of a sparse file with all its cells: 0, or the first level of an attribute, where it has none."""
    cells = list(defaults)
    for position, cell in _CELL.findall(row):
        if int(position) >= len(cells):
            raise TableError(
                f"{shown} has a cell of attribute {position} in a row, but {len(cells)} attributes."
            )
        cells[int(position)] = cell.strip()
    return ",".join(cells)
