"""The records of delimited text: delimiter, title, and column names."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Literal, TypeAlias

from craftc._common.messages import listed
from craftc.reading.cells import NA_VALUES, NUMERIC_NA_VALUES, as_number, is_datum
from craftc.reading.dates import DATE
from craftc.reading.input_file import TableError

#: Whether the first line of a file holds the column names.
Header: TypeAlias = Literal["infer"] | bool

HEAD_ROWS = 200  # records that show delimiter and header
LONGEST_HEAD = 1 << 27  # bytes within which the first records must end
#: Cells separated by any number of blanks.
BLANKS = r"\s+"
NAMELESS = "The first line looks like data"  # the beginning of the note that a table has no names
MOST_TITLES = 20  # lines above the column names
_MOST_NAME_LINES = 3  # of groups, of groups in these, and of columns
_WORD = re.compile(r"[^\W\d_]{2}")
_UNIT = (
    r"(?:[GMkhdcmµn]?(?:Pa|bar|m[²³23]?|[lL]|g|s|Wh?|V|A|Hz|N|J|mol|cal|€)|mmHg|°[CF]?|K|ha|t|min|h|d|I?U|rpm|dB"
    r"|ppm|[%‰$£]|Stk|Stück|pcs|Mio|Tsd|T€|EUR|USD|CHF)\.?"
)
#: A unit, in brackets or not, or a quotient of units.
UNITS = re.compile(rf"[\[(]?(?:{_UNIT}|1)?(?:\s?[/·*]?\s?{_UNIT})?[\])]?")
_YEARS = (1800, 2200)
_DELIMITERS = ",;\t|"
_RARE = ("^", "~", "\xa6", "\xa7", "\xac", *map(chr, (1, 2, 28, 29, 30, 31)))  # in hardly any text
_ODD = tuple("!#&*=\\@$%+")
_FREQUENT = (":", "/")
_PART_OF_CELLS = frozenset("\"'.,;|\t-_()[]{}<>")  # separate nothing, or are tried first
#: The line that names the delimiter of a file for Excel.
_SEP = re.compile(r'"?sep=([^\r\n])"?[ \t]*\r?\n', re.IGNORECASE)


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(LONGEST_HEAD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def first_records(text: str, delimiter: str, whole: bool, skip: int) -> list[list[str]]:
    """The first records; blank lines are empty records.

    The last one may be incomplete unless this is the whole text.
    """
    lines = io.StringIO(text, newline="")
    single = (re.sub(r"[ \t]+", " ", line.strip(" \t")) for line in lines) if delimiter == BLANKS else lines
    reader = csv.reader(single, delimiter=" " if delimiter == BLANKS else delimiter, skipinitialspace=True)
    most = HEAD_ROWS + skip
    with _fields_of_any_length():
        rows = [row for _, row in zip(range(most + 1), reader, strict=False)]
    return rows[:most] if whole or len(rows) < 2 else rows[:-1]


# ---- delimiter ----


@dataclass(frozen=True)
class Delimiter:
    """What separates the cells of a line."""

    mark: str = ","
    unquote: bool = False  # whether whole lines are in quotes
    note: str = ""

    @property
    def byte(self) -> str:
        """The mark, or one of one byte in its place."""
        return self.mark if self.mark.isascii() else "\x1f"

    @property
    def is_rewritten(self) -> bool:
        """Whether the text is changed before it is parsed."""
        return self.unquote or self.byte != self.mark


#: Whether all records have equally many cells, whether the first one has several, and how many.
_Rank: TypeAlias = tuple[bool, bool, int]


def find_delimiter(text: str, whole: bool, skip: int) -> Delimiter:
    """The delimiter of the first lines: a usual one, any other character, or one inside quoted lines."""
    if named := _SEP.match(text):
        return Delimiter(named[1])
    rank, usual = _usual_delimiter(text, whole, skip)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(_in_single_quotes(line) for line in lines[: None if whole else -1]):
        mark = _usual_delimiter(unquoted_lines(text), whole, skip)[1]
        return Delimiter(mark, True, "The single quotes around lines or cells were removed.")
    if rank[:2] == (True, True):
        return Delimiter(usual)
    plain = unquoted_lines(text)
    if plain != text:
        inner, mark = _usual_delimiter(plain, whole, skip)
        if inner[:2] == (True, True):
            return Delimiter(mark, True, "Whole lines are in quotes, which were removed.")
    for candidate in (*_RARE, *_ODD, *_FREQUENT, BLANKS, *_other_marks(text)):
        if _separates(candidate, text, whole, skip):
            shown = "blanks" if candidate == BLANKS else repr(candidate)
            note = f"Cells were separated at {shown}; delimiter=',' separates them at commas."
            return Delimiter(candidate, note=note)
    return Delimiter(usual)


def _usual_delimiter(text: str, whole: bool, skip: int) -> tuple[_Rank, str]:
    """The delimiter that splits the first lines into equally many cells; ties: the most columns."""
    best: _Rank = (False, False, 1)
    delimiter = ","
    for candidate in _DELIMITERS:
        try:
            rows = [row for row in first_records(text, candidate, whole, skip)[skip:] if row]
        except csv.Error:
            continue
        start = next((i for i, row in enumerate(rows[:20]) if len(row) > 1), 0)  # after lines of a title
        width, n_equal = _width(rows[start:])
        rank = (n_equal == len(rows) - start, start == 0, width)
        if width > 1 and rank > best:
            best, delimiter = rank, candidate
    return best, delimiter


def _width(rows: list[list[str]]) -> tuple[int, int]:
    """The cells of the first record, or one more where it has no name for those of rows, and the number of
    records of that length.
    """
    width = len(rows[0]) if rows else 1
    below = {len(row) for row in rows[1:]}
    if width > 1 and len(rows) > 2 and below == {width + 1}:
        return width + 1, len(rows)
    return width, sum(len(row) == width for row in rows)


def _other_marks(text: str) -> list[str]:
    """Characters of the first line that are neither letters nor digits, and part of no cell as a rule."""
    line = text.lstrip().partition("\n")[0].strip()
    return [
        mark
        for mark in dict.fromkeys(line)
        if not (mark.isalnum() or mark.isspace() or mark in _PART_OF_CELLS)
    ]


def _separates(candidate: str, text: str, whole: bool, skip: int) -> bool:
    """Whether a character that is no usual delimiter separates the cells of all lines.

    The more often a character is part of a text, the more is asked for: names above the columns, and columns
    of numbers.
    """
    if candidate not in text and candidate != BLANKS:
        return False
    try:
        rows = [row for row in first_records(text, candidate, whole, skip)[skip:] if row]
    except csv.Error:
        return False
    width, n_equal = _width(rows)
    if candidate in _RARE and len(rows) >= 3 and sum(len(row) > 1 for row in rows) >= 0.9 * len(rows):
        return True  # the parser says which line differs
    if width < 2 or len(rows) < 3 or n_equal < len(rows) - len(rows) // 20:
        return False
    names = [name for name in rows[0] if name.strip()]
    below = [row for row in rows[1:] if len(row) == width]
    headed = len(set(names)) == len(names) > 1 and not _is_data(rows[0], below)
    columns = [[cell.strip() for cell in column] for column in zip(*below, strict=True)]
    filled = [cells for cells in columns if any(cells)]
    n_numeric = sum(
        10 * sum(as_number(cell) is not None for cell in cells) >= 9 * len(cells) for cells in filled
    )
    if not headed:
        return n_numeric == len(filled) >= 3 and as_number(rows[0][0].strip()) is not None
    return candidate in _ODD or n_numeric == len(filled) or (len(filled) >= 3 and n_numeric > 0)


_SINGLE = re.compile(r"""'[^'"]+'|'[^'"]*'([,;\t|])'[^'"]*'(?:\1'[^'"]*')*""")


def unquoted_lines(text: str) -> str:
    """The text, where each line that is one cell in quotes is replaced by its content."""
    return "".join(map(_unquoted, text.splitlines(keepends=True)))


def _in_single_quotes(line: str) -> bool:
    """Whether a line is in single quotes, or each of its cells."""
    return _SINGLE.fullmatch(line.strip()) is not None


def _unquoted(line: str) -> str:
    content = line.rstrip("\r\n")
    if _in_single_quotes(content):
        alone = content.count("'") == 2
        return (content.strip()[1:-1] if alone else content.replace("'", '"')) + line[len(content) :]
    if len(content) < 2 or not (content[0] == content[-1] == '"'):
        return line
    inner = content[1:-1]
    if inner.replace('""', "").count('"'):
        return line  # several cells
    return inner.replace('""', '"') + line[len(content) :]


# ---- header ----


def find_header(rows: list[list[str]], header: Header, skip: int, notes: list[str]) -> tuple[int, list[str]]:
    """The number of records before the first row of the table, and the names of its columns."""
    filled = [i for i, row in enumerate(rows) if i >= skip and any(cell.strip() for cell in row)]
    if not filled:
        raise TableError(f"No line is left after skip={skip}; the table has {len(rows)} lines.")
    if header == "infer" and len(filled) > 1 and "".join(rows[filled[0]]).casefold().startswith("sep="):
        del filled[0]
    width = Counter(len(rows[i]) for i in filled).most_common(1)[0][0]
    n_title, lines, names = 0, 1, list[str]()
    if header == "infer":
        joined = _lines_of_names([rows[i] for i in filled], filled, width)
        n_title, lines, names = joined or (_below_settings([rows[i] for i in filled], width), 1, [])
    if header == "infer" and not n_title and not names:
        while n_title < len(filled) - 2 and _is_title(
            rows[filled[n_title]], rows[filled[n_title + 1]], width
        ):
            n_title += 1
        n_title = max(n_title, _names_at([rows[i] for i in filled[:MOST_TITLES]], width))
    if names == [cell.strip() for cell in rows[filled[n_title + lines - 1]]]:
        n_title, lines = n_title + lines - 1, 1  # names of groups tell nothing that the names do not
    first, below = names or rows[filled[n_title]], [rows[i] for i in filled[n_title + lines :]]
    first = _with_row_names(first, below, notes)
    if n_title:
        title = ", ".join(filter(None, rows[filled[0]]))[:60]
        notes.append(f"{n_title} line(s) above the column names were skipped, the first: {title!r}.")
    if lines > 1:
        notes.append(f"The column names are written in {lines} lines, and were joined: {listed(first, 4)}.")
    absent = not names and (_is_data(first, below) if header == "infer" else not header)
    if absent and header == "infer":
        notes.append(
            f"{NAMELESS} ({', '.join(first)[:60]!r}), so the columns are named 'column "
            f"1' to 'column {len(first)}'; header=True takes it as column names."
        )
    given = ["" if absent else cell.strip().removesuffix(" 00:00:00") for cell in first]  # dates of a sheet
    names = distinct_names(given, notes)
    return filled[n_title + lines - 1] + (not absent), names


def _names_at(rows: list[list[str]], width: int) -> int:
    """The first record with a different text for each column that has cells below it, if those above are
    mostly empty; else 0. Below titles alone, names may be repeated or absent.
    """
    below_titles = True
    for i, row in enumerate(rows):
        cells = [cell.strip() for cell in row if cell.strip()]
        if len(row) == width and len(cells) >= 3:
            used = [any(each[j].strip() for each in rows[i:] if len(each) == width) for j in range(width)]
            names = len(set(cells)) == sum(used) == len(cells)
            if names or (below_titles and _head_columns(row, rows[i + 1 :])):
                return i if not any(map(is_datum, cells)) else 0
        if len(cells) > max(1, width // 2):
            return 0
        below_titles &= len(cells) == 1
    return 0


def _head_columns(row: list[str], below: list[list[str]]) -> bool:
    """Whether most cells of a record are filled and unlike those below them, which are numbers in one column
    or repeated in two.
    """
    filled = [(j, cell.strip()) for j, cell in enumerate(row) if cell.strip()]
    lines = [[cell.strip() for cell in each] for each in below if len(each) == len(row)]
    columns = [(name, [line[j] for line in lines if line[j]]) for j, name in filled]
    if 2 * len(filled) <= len(row) or any(name in cells for name, cells in columns):
        return False
    repeated = sum(2 * len(set(cells)) <= len(cells) for _, cells in columns if cells)
    return repeated >= 2 or any(_are_data(cells) for _, cells in columns)


def _below_settings(rows: list[list[str]], width: int) -> int:
    """The first record with names of columns below titles and lines of key and value, such as the settings of
    an instrument; 0 if the first lines are something else.
    """
    if width < 2:
        return 0
    last = [row for row in rows[len(rows) // 2 :][-MOST_TITLES:] if len(row) == width]
    columns = [{row[j].strip() for row in last} - {""} for j in range(width)]
    numeric = [j for j, of in enumerate(columns) if _are_data(of)]
    each = (_kind_of_line(row, columns, numeric) for row in rows[:MOST_TITLES])
    kinds = list(takewhile(lambda kind: kind not in ("row", "other"), each))
    above = max((i for i, kind in enumerate(kinds) if kind != "names"), default=-1)
    if above in (-1, len(kinds) - 1) or ("names" in kinds[:above] and kinds[above] == "title"):
        return 0
    return max(range(above + 1, len(kinds)), key=lambda i: sum(map(bool, rows[i])))


def _kind_of_line(
    row: list[str], columns: list[set[str]], numeric: list[int]
) -> Literal["title", "setting", "names", "row", "other"]:
    """What a line above rows with these cells is, by the columns of numbers, `numeric`: names have words or
    years in them, and rows have numbers.
    """
    cells = [cell.strip() for cell in row]
    filled = list(filter(None, cells))
    if len(filled) < 2:
        return "title"
    if len(row) < len(columns):
        return "setting"
    known = [j for j in numeric if cells[j] and cells[j].casefold() not in NUMERIC_NA_VALUES]
    data = [j for j in known if is_datum(cells[j])]
    if not all(_is_period(cells[j], list(columns[j])) for j in data):
        if len(data) == len(known):
            return "row"
        numbers = [number for j in data if (number := as_number(cells[j])) is not None]
        return "setting" if len(numeric) == sum(map(bool, columns)) and not _are_labels(numbers) else "other"
    occurs = any(cell in of for cell, of in zip(cells, columns, strict=False))
    different = len(set(filled)) == len(filled) and sum(map(is_datum, filled)) == len(data)
    return "names" if different and not occurs and len(known) >= min(2, len(numeric)) > 0 else "other"


def _lines_of_names(
    rows: list[list[str]], places: list[int], width: int
) -> tuple[int, int, list[str]] | None:
    """Names of columns below those of groups: the lines before them, their number of lines, and the names.

    `places`: of the records among all lines; no blank line parts names from those of groups.
    """
    filled = [sum(bool(cell.strip()) for cell in row) > max(1, width // 2) for row in rows[:MOST_TITLES]]
    n_titles = filled.index(True) if True in filled else len(filled)
    for depth in range(2, _MOST_NAME_LINES + 1):
        for i in range(min(n_titles + 1, len(filled))):
            lines, below = rows[i : i + depth], [each for each in rows[i + depth :] if len(each) == width]
            adjoin = places[i : i + depth][-1] - places[i] == depth - 1
            if adjoin and len(below) >= 2 and all(len(line) == width for line in lines):
                names = _names_of([[cell.strip() for cell in line] for line in lines], below)
                if names:
                    return i, depth, names
    return None


def _names_of(lines: list[list[str]], below: list[list[str]]) -> list[str]:
    """The names of columns that are written in several lines, none if these lines are something else."""
    if len(lines) > 2 and _are_units(lines[-1], lines[-2]):
        return _names_of(lines[:-1], below)
    *groups, last = lines
    named = [len(set(filter(None, line[1:]))) for line in groups]
    if not all(named) or all(n == len(last) - 1 for n in named):
        return []  # titles, or a name for every column
    columns = [[cell.strip() for cell in column if cell.strip()] for column in zip(*below, strict=True)]
    parts = _parts(lines)
    numeric = 0
    for cells, words in zip(columns, parts, strict=True):
        if not words or any(word in cells or word.casefold() in NUMERIC_NA_VALUES for word in words):
            return []
        labels = [word for word in words if is_datum(word)]
        if len(labels) == len(words) or not all(_is_period(label, cells) for label in labels):
            return []
        numeric += _are_data(cells)
    if not numeric:
        return []
    is_title = all(len(set(line)) == 1 for line in groups)
    if all(last) and len(set(last)) == len(last) and (is_title or all(map(_WORD.search, last))):
        return last
    count = Counter(last)
    names = [
        words[-1] if count[words[-1]] == 1 and _WORD.search(words[-1]) else " ".join(words) for words in parts
    ]
    return names if len(set(names)) == len(names) else []


def _are_units(line: list[str], above: list[str]) -> bool:
    """Whether a line below names has units and nothing else, but for names over merged cells."""
    own = [cell for cell, over in zip(line, above, strict=True) if cell and cell != over]
    return len(own) >= 2 and all(map(UNITS.fullmatch, own))


def _parts(lines: list[list[str]]) -> list[list[str]]:
    """The cells above each column from top to bottom; that of a group stands above its first column."""
    parts: list[list[str]] = []
    current = [""] * (len(lines) - 1)
    for cells in zip(*lines, strict=True):
        for level in range(len(current)):
            if cells[level]:
                current[level:] = [cells[level], *[""] * (len(current) - level - 1)]
        words = [*current, cells[-1]] if cells[-1] else list(cells)
        parts.append(list(dict.fromkeys(filter(None, words))))
    return parts


def _is_period(label: str, cells: list[str]) -> bool:
    """Whether a number or a date above a column is its name: a year or a date, unlike what is below it."""
    number = as_number(label)
    if number is None:
        return not any(map(DATE.fullmatch, cells))
    first, last = _YEARS
    years = [first <= each <= last for cell in cells if (each := as_number(cell)) is not None]
    return number.is_integer() and first <= number <= last and 2 * sum(years) < len(years)


def _with_row_names(first: list[str], below: list[list[str]], notes: list[str]) -> list[str]:
    """Names of all cells, where the first line has one less: row names, as R writes them, or nothing."""
    if not below or any(len(row) != len(first) + 1 for row in below):
        return first
    if not any(row[-1].strip() for row in below):
        return [*first, ""]
    if len({row[0] for row in below}) < len(below):
        return first
    notes.append("The first column has no name, as R writes the names of rows; it is 'row names'.")
    return ["row names", *first]


def _is_title(row: list[str], following: list[str], width: int) -> bool:
    """Whether a record above the table is a title or a comment: a single cell where the table has several."""
    if width < 2:
        return row[0].startswith("#")
    if len(row) < width:
        return sum(map(bool, row)) <= 1 or row[0].startswith("#")
    return width >= 3 and bool(row[0]) and not any(row[1:]) and all(following) and len(following) == width


def _is_data(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first record is a row: numbers above numbers, or only levels that occur below."""
    below = [row for row in below if len(row) == len(first)]
    if _are_names_again(first, below):
        return False
    numbers: list[float] = []
    repeated: list[bool] = []
    for cell, column in zip(first, zip(*below, strict=True), strict=False):
        name, cells = cell.strip(), [each.strip() for each in column]
        cells = [each for each in cells if each not in NA_VALUES and each.casefold() not in NUMERIC_NA_VALUES]
        if not cells or name in NA_VALUES:
            continue
        if _are_data(cells):
            if not is_datum(name) and name.casefold() not in NUMERIC_NA_VALUES:
                return False
            if DATE.fullmatch(name) and not any(map(DATE.fullmatch, cells)):
                return False
            number = as_number(name)
            numbers.append(0.5 if number is None else number)  # a date is no label
        else:
            repeated.append(name in cells)
    if numbers:
        return not _are_labels(numbers)
    return len(repeated) >= 2 and all(repeated)


def _are_data(cells: Collection[str]) -> bool:
    """Whether nearly all of some cells are numbers or dates."""
    return bool(cells) and 10 * sum(map(is_datum, cells)) >= 9 * len(cells)


def _are_names_again(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first record is there again and again between rows that have none of its cells, and numbers
    below one of them.
    """
    others = [row for row in below if row != first]
    if len(others) in (0, len(below)) or any(map(is_datum, first)):
        return False
    columns = [set(column) for column in zip(*others, strict=True)]
    numeric = any(map(_are_data, columns))
    return numeric and not any(cell in of for cell, of in zip(first, columns, strict=True))


def _are_labels(numbers: list[float]) -> bool:
    """Whether numbers above columns of numbers are names: years, or 0, 1, 2, ..."""
    whole = all(number.is_integer() for number in numbers)
    rising = all(b - a == 1 for a, b in pairwise(numbers))
    years = all(_YEARS[0] <= number <= _YEARS[1] for number in numbers) and sorted(set(numbers)) == numbers
    return whole and (years or (rising and len(numbers) > 1))


def distinct_names(names: Sequence[str], notes: list[str]) -> list[str]:
    """Unique column names: empty names become their position, duplicates get a number."""
    out: dict[str, None] = {}
    count: dict[str, int] = {}  # the number that a name got last
    renamed = []
    for position, name in enumerate(names):
        base = name or f"column {position + 1}"
        new = base
        while new in out:
            count[base] = count.get(base, 1) + 1
            new = f"{base}.{count[base]}"
        if name and new != name:
            renamed.append(new)
        out[new] = None
    if renamed:
        s, have = ("", "has") if len(renamed) == 1 else ("s", "have")
        notes.append(
            f"{len(renamed):,} column{s} {have} the name of another one and became {listed(renamed)}."
        )
    return list(out)
