"""Tables in ARFF files (names of attributes, and rows of cells) and in JSON files (lines of objects, an array
of them, or one object that holds a table).
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from craftc._common.messages import listed, quoted
from craftc.reading.input_file import TableError

_BEGIN = re.compile(rb"(?:[ \t]*(?:%[^\r\n]*)?[\r\n]+)*[ \t]*@relation\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"\s*@attribute\s+(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|(\S+))\s+(\S.*)", re.IGNORECASE
)
_FIRST_LEVEL = re.compile(r"\{\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,}]+?)\s*[,}]")
_CELL = re.compile(r"(\d+)\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,}]+)")
_DATA = re.compile(r"^[ \t]*@data\b.*$", re.IGNORECASE | re.MULTILINE)
_LONGEST = sys.float_info.max_10_exp  # digits of a whole number that is a float64
_DEEPEST = 3  # objects around the list of rows
_Columns = dict[str, list[object]]


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


def json_columns(text: str, shown: str) -> tuple[_Columns, list[str]]:
    """The columns of a JSON text, and notes; `shown` names the file in errors."""
    records, notes = _records(text, shown)
    if len(records) == 1 and isinstance(records[0], dict):
        found = _table_in(records[0], shown)
        if isinstance(found, dict):
            return found, []
        if found is not None:
            records, notes = found
    if len(records) > 1 and all(isinstance(record, list) for record in records):
        return _of_lists(records, shown), notes
    if not all(isinstance(record, dict) for record in records):
        raise TableError(
            f'{shown} cannot be read as JSON lines: every line must be one object such as {{"age": 31}}.'
        )
    rows = [dict(_flat(record)) for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}, notes


def _whole(digits: str) -> int | str:
    """A whole number, or its digits where it is no float64: pandas 2.2 refuses a list with such a number."""
    return int(digits) if len(digits) <= _LONGEST else digits


def is_json_array(line: str | bytes) -> bool:
    """Whether a line is an array of JSON."""
    try:
        return isinstance(json.loads(line), list)
    except (ValueError, RecursionError):
        return False


_loads = functools.partial(json.loads, parse_int=_whole)


def _records(text: str, shown: str) -> tuple[list[dict[str, object]], list[str]]:
    """The values of all lines, or those of the whole text where it is one value."""
    line = 1
    try:
        first = text.lstrip().partition("\n")
        if text.lstrip().startswith("[") and not (first[2].strip() and is_json_array(first[0])):
            return _loads(text), []
        records = []
        for line, each in enumerate(text.split("\n"), 1):  # noqa: B007
            if each.strip():
                try:
                    records.append(_loads(each))
                except ValueError:
                    if records or not each.lstrip().startswith("{"):
                        raise
                    return [_loads(text)], []  # an object of several lines
        return records, []
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise TableError(f"{shown} cannot be read as JSON lines: line {line}: {reason}.") from error


def _table_in(
    one: dict[str, object], shown: str
) -> _Columns | tuple[list[dict[str, object]], list[str]] | None:
    """The table that one object holds: a list of rows, or columns; None if the object is a row."""
    names, cells = one.get("columns"), one.get("data")
    if isinstance(names, list) and isinstance(cells, list) and all(isinstance(row, list) for row in cells):
        if any(len(row) != len(names) for row in cells):
            raise TableError(f"{shown} cannot be read: the rows of 'data' need {len(names)} cells each.")
        columns = zip(*cells, strict=True) if cells else ([] for _ in names)
        return {str(name): list(column) for name, column in zip(names, columns, strict=True)}
    for depth in range(1, _DEEPEST + 1):
        lists = dict(_lists_of_objects(one, depth))
        if len(lists) > 1:
            raise TableError(
                f"{shown} holds several lists of objects, {listed(lists)}; write one of them as a file."
            )
        for path, rows in lists.items():
            return rows, [f"The rows are the list {quoted(path)} of the file's object; the rest is left out."]
    values = list(one.values())
    if len({len(v) for v in values if isinstance(v, list)}) == 1 and all(map(_is_column, values)):
        return {name: list(column) for name, column in one.items()}  # type: ignore[call-overload]
    if len(values) > 1 and all(isinstance(v, dict) and len(v) > 1 for v in values):
        keys = dict.fromkeys(key for column in values for key in column)  # type: ignore[attr-defined]
        if len(values) > len(keys) or (len(values) == len(keys) and _are_rows(values)):
            return [row for row in values if isinstance(row, dict)], [
                f"The names of the objects in the file, {listed(one)}, are left out."
            ]
        table = {name: _of_keys(column, list(keys)) for name, column in one.items()}
        if not any(isinstance(cell, dict | list) for column in table.values() for cell in column):
            return table
    return None


def _of_lists(records: Sequence[object], shown: str) -> _Columns:
    """The columns of lists of cells; the first list has the names, or is a row as well."""
    rows = [record for record in records if isinstance(record, list)]
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise TableError(f"{shown} cannot be read: its rows need {width} cells each, as the first one has.")
    headed = all(isinstance(cell, str) and cell for cell in rows[0]) and len(set(rows[0])) == width
    headed &= any(not isinstance(cell, str) for cell in rows[1])
    names = rows[0] if headed else [f"column {j + 1}" for j in range(width)]
    columns = zip(*rows[headed:], strict=True)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _are_rows(values: Sequence[object]) -> bool:
    """Whether the cells of the first object are of different types, as those of a row are."""
    first = values[0]
    return isinstance(first, dict) and len({type(cell) for cell in first.values()}) > 1


def _of_keys(column: object, keys: Sequence[str]) -> list[object]:
    return [column.get(key) for key in keys] if isinstance(column, dict) else []


def _is_column(value: object) -> bool:
    return isinstance(value, list) and len(value) > 1 and not any(isinstance(c, dict | list) for c in value)


def _lists_of_objects(
    value: Mapping[str, object], depth: int
) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """The lists of objects inside this many objects, each with its path."""
    for name, inner in value.items():
        if depth > 1 and isinstance(inner, dict):
            yield from ((f"{name}.{path}", rows) for path, rows in _lists_of_objects(inner, depth - 1))
        elif depth == 1 and _is_rows(inner):
            yield name, inner  # type: ignore[misc]


def _is_rows(value: object) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and all(isinstance(each, dict) for each in value)


def _flat(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The cells of a record; those of an object inside it are named "outer.inner"."""
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from ((f"{name}.{inner}", cell) for inner, cell in _flat(value))
        else:
            yield name, value
