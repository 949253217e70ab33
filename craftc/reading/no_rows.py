"""Lines of a table that are no rows: empty ones, totals, footnotes, and repeated column names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import need_pandas, quoted
from craftc._common.typing import Bits, Floats
from craftc.reading.cells import NA_VALUES, NUMERIC_NA_VALUES, as_number, is_datum
from craftc.reading.inner_totals import TOTAL, inner_totals
from craftc.reading.line_cells import LOOKED_AT, coded, filled_cells, is_blank, is_close, numbers_in, occurs
from craftc.reading.part_lines import headings, lower_table
from craftc.reading.quantities import UNIT_NAMES
from craftc.reading.records import UNITS

if TYPE_CHECKING:
    import pandas as pd

#: Statistics whose names could be levels, so that their numbers decide.
_EXTREME: dict[str, Callable[[Floats], float]] = {
    **dict.fromkeys(("std", "sd", "stdev", "stabw", "stdabw"), lambda x: float(np.std(x, ddof=1))),
    **dict.fromkeys(("25%", "q1"), lambda x: float(np.quantile(x, 0.25))),
    **dict.fromkeys(("50%", "q2"), np.median),
    **dict.fromkeys(("75%", "q3"), lambda x: float(np.quantile(x, 0.75))),
    "min": np.min,
    "max": np.max,
    "count": np.size,
    "n": np.size,
    "anzahl": np.size,
}
_FOOTER = re.compile(
    r"(sources?|quellen?|fuente|fonte|notes?|anmerkung(en)?|remarks?|hinweise?|legend|stand|as of"
    r"|(last )?updated?|exported|generated|created|printed|report|©|\(c\)|copyright|disclaimer|end of"
    r"|applied filters?)\b.*"
    r"|[*†‡©¹²³].*|\[?\d{1,2}[\])] .*|-{2,}.*|\(?\d[\d,. ]* (rows?|records?|zeilen)\b.*",
    re.IGNORECASE | re.DOTALL,
)
#: "a) estimated", "(p) provisional", "[1] revised", "e = estimated", "Checked: A. Lee"
_MARKED = re.compile(
    r"\[[^\[\]]{1,3}\]\s.+|\(?[^\s()]{1,3}\)\s.+|[^\s=]{1,5}\s?=\s.+|[^\W\d_][^:]{0,30}:(\s.*)?", re.DOTALL
)
_SOURCE = re.compile(r"(sources?|quellen?|fuente|fonte|notes?|anmerkung(en)?|hinweise?)\s*:", re.IGNORECASE)
_TYPE = re.compile(
    r"(tiny|small|big|medium)?int(eger)?(32|64)?|string|str|text|(n?var)?char(acter)?( ?\(\d+\))?|double"
    r"|float(32|64)?|real|decimal|number|numeric|bool(ean)?|date|datetime|timestamp|time|long|factor"
    r"|categor(y|ical)|nominal|ordinal|continuous|discrete|object|ratio|interval",
    re.IGNORECASE,
)
#: A unit, a type, or the form of dates and times, "dd/mm/yyyy".
_UNIT = re.compile(rf"{UNITS.pattern}|(?i:{_TYPE.pattern})|(?i:[dtmyjahs]{{1,4}}([:./-][dtmyjahs]{{1,4}})+)")
_PAGE = re.compile(
    r"(.{1,80}\W)?(seite|blatt|page|sheet|p[aá]gina)\s*\d+\s*(of|von|de|sur|di|/)\s*\d+"
    r"|(seite|blatt|page|sheet|p[aá]gina)\s*\d+|übertrag|(carried|brought) forward|report à nouveau",
    re.IGNORECASE,
)
_RULED = re.compile(r"[-+=_|:* ]*[-=_]{3}[-+=_|:* ]*|\x1a")  # +-----+-----+, and the end of a file of DOS
_RULE = re.compile(r":?[-=]{2,}:?")  # between the names and the rows of Markdown
_MOST_GAPS = 20  # empty lines between tables
_MOST_CAPTIONS = 3  # lines below the names
_NUMERIC = 0.9  # share of the different cells of a column of numbers
_LAST = 30  # lines at the end of a table among which footnotes are
_FEWEST = 10  # rows above a line of sums without a name, and above a remark of any words
_NEARLY = 0.9  # share of the rows with a cell in a full column
_FULL_COLUMNS = 3  # above a remark of any words, at least


def without_no_rows(
    frame: pd.DataFrame,
    named: bool = True,
    n_above: int | None = None,
    blank_above: Mapping[int, int] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of a table, with their own labels, and notes about the lines that were set aside.

    `named`: whether the table may have names of its columns, so that its first lines may explain them.
    `n_above`: lines of the file above the rows; `blank_above`: rows below blank lines, which `frame` lacks,
    each with the number of these.
    """
    if len(frame) < 3 or not frame.shape[1]:
        return frame, []
    notes: list[str] = []
    keep = np.ones(len(frame), bool)
    empty = empty_lines(frame)
    if empty.any() and not empty.all() and not _is_sparse(frame):
        keep &= ~empty
        notes.append(f"{_lines(int(empty.sum()), 'empty line')}.")
    again = _repeated_names(frame) & keep
    if again.any():
        keep &= ~again
        notes.append(f"{_lines(int(again.sum()), 'repeated line')} of column names.")
    for what, found in _lines_of_forms(frame, keep).items():
        keep[found] = False
        shown = quoted(_first_text(frame.iloc[found[0]]))
        notes.append(f"{_lines(len(found), 'line')} {what}, the first {shown}.")
    below = _captions(frame, keep) if named else []
    if below:
        keep[below] = False
        cells = [cell for _, cell in filled_cells(frame.iloc[below[0]])]
        instead = ""
        if n_above is not None and len(set(cells)) == frame.shape[1]:
            instead = f"; skip={n_above + (blank_above or {}).get(0, 0) + below[0]} takes it as the names"
        shown = quoted(", ".join(cells))
        notes.append(
            f"{_lines(len(below), 'line')} of types, units or titles below the names, {shown}{instead}."
        )
    _set_last_lines_aside(frame, keep, notes)
    first = int(np.flatnonzero(keep)[0]) if keep.any() else 0
    gaps = dict.fromkeys(np.flatnonzero(empty & ~keep).tolist(), 0) | dict(blank_above or {})
    if (gaps or len(filled_cells(frame.iloc[first])) == 1) and _set_part_lines_aside(
        frame, gaps, keep, notes, n_above
    ):
        _set_last_lines_aside(frame, keep, notes)
    inner = inner_totals(frame, keep)
    if inner:
        keep[inner] = False
        shown = quoted(_first_text(frame.iloc[inner[0]]))
        notes.append(f"{_lines(len(inner), 'line')} of totals between the rows, the first {shown}.")
    if _is_first_total(frame, keep):
        top = int(np.flatnonzero(keep)[0])
        keep[top] = False
        notes.append(f"{_lines(1, 'first line')}, a total, {quoted(_first_text(frame.iloc[top]))}.")
    if keep.all() or keep.sum() < 2:
        return frame, []
    notes[-1] = f"{notes[-1].removesuffix('.')}; all_lines=True keeps such lines."
    return frame.loc[keep], notes


def _set_last_lines_aside(frame: pd.DataFrame, keep: Bits, notes: list[str]) -> None:
    """Leave out totals and footnotes at the end; a note says so."""
    if last := _last_lines(frame, keep):
        keep[last] = False
        shown = quoted(_first_text(frame.iloc[last[0]]))
        notes.append(f"{_lines(len(last), 'last line')}, a total or footnotes, the first {shown}.")


def _set_part_lines_aside(
    frame: pd.DataFrame, gaps: Mapping[int, int], keep: Bits, notes: list[str], n_above: int | None
) -> bool:
    """Leave out another table below the rows, and headings of groups of rows; notes say so. Returns whether
    the last rows are others.
    """
    filled = ~np.column_stack([is_blank(frame.iloc[:, j]) for j in range(frame.shape[1])])
    lower = lower_table(filled, sorted(gaps), keep) or _table_with_names(frame, filled, sorted(gaps), keep)
    if lower:
        keep[lower] = False
        shown = quoted(_first_text(frame.iloc[lower[0]]))
        skip = ""
        if n_above is not None and filled[lower[0]].sum() > 1:
            blank = max((n for row, n in gaps.items() if row <= lower[0]), default=0)
            skip = f"; skip={n_above + blank + lower[0]} reads it instead"
        notes.append(
            f"{_lines(len(lower), 'line')} of another table below the rows, the first {shown}{skip}."
        )
    if above := headings(filled, keep):
        keep[above] = False
        shown = quoted(_first_text(frame.iloc[above[0]]))
        notes.append(f"{_lines(len(above), 'heading')} of groups of rows, the first {shown}.")
    return bool(lower)


def _lines(n: int, which: str) -> str:
    return f"Not used: {n:,} {which}{'s' if n > 1 else ''}"


def empty_lines(frame: pd.DataFrame) -> Bits:
    """Which rows have no cell."""
    empty = np.ones(len(frame), bool)
    for j in range(frame.shape[1]):
        empty &= is_blank(frame.iloc[:, j])
        if not empty.any():
            break
    return empty


def _is_sparse(frame: pd.DataFrame) -> bool:
    """Whether empty cells are answers in every column: it has one value, or none."""
    for j in range(frame.shape[1]):
        cells = {str(cell).strip() for cell in coded(frame.iloc[:, j])[1]}
        if len(cells.difference(NA_VALUES)) > 1:
            return False
    return True


def _repeated_names(frame: pd.DataFrame) -> Bits:
    """Which rows have the names of their columns as cells."""
    same = np.ones(len(frame), bool)
    for j, name in enumerate(map(str, frame.columns)):
        codes, cells = coded(frame.iloc[:, j])
        same &= np.array([*(str(cell).strip() == name for cell in cells), False])[codes]
        if not same.any():
            break
    return same


def _first_text(row: pd.Series) -> str:
    return next((cell for _, cell in filled_cells(row)), "")


def _lines_of_forms(frame: pd.DataFrame, keep: Bits) -> dict[str, list[int]]:
    """Positions of lines of one cell that is a rule, and of few cells with the number of a page or a sum that
    is carried to the next page, by what they are.
    """
    if frame.shape[1] < 2:
        return {}
    forms = {"of rules": (_RULED, 1), "of printed pages": (_PAGE, max(1, frame.shape[1] - 2))}
    found: dict[str, set[int]] = {what: set() for what in forms}
    for j in range(frame.shape[1]):
        codes, cells = coded(frame.iloc[:, j])
        texts = [cell.strip() if isinstance(cell, str) else "" for cell in cells]
        for what, (form, _) in forms.items():
            is_one = np.array([*(form.fullmatch(text) is not None for text in texts), False])
            if is_one.any():
                found[what].update(np.flatnonzero(is_one[codes] & keep).tolist())
    few = {
        what: sorted(i for i in lines if len(filled_cells(frame.iloc[i])) <= forms[what][1])
        for what, lines in found.items()
    }
    return {what: lines for what, lines in few.items() if lines}


def _captions(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of lines of types, units or titles directly below the column names."""
    rows = np.flatnonzero(keep)[: LOOKED_AT + _MOST_CAPTIONS]
    numeric = [need_pandas().api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes]
    if all(numeric):
        return []
    is_one = _has_units if any(numeric) else _is_caption
    for n in range(min(_MOST_CAPTIONS, len(rows) - 3), 0, -1):
        below = frame.iloc[rows[n:]]
        if all(is_one(filled_cells(frame.iloc[i]), below) for i in rows[:n].tolist()):
            return [int(i) for i in rows[:n]]
    return []


def _table_with_names(frame: pd.DataFrame, filled: Bits, gaps: Sequence[int], keep: Bits) -> list[int]:
    """Positions of the lines below an empty one that begin with names of columns of their own: different
    texts, some of them below numbers, and none occurs above.
    """
    for gap in gaps if len(gaps) <= _MOST_GAPS else ():
        above, below = np.flatnonzero(keep[:gap]), gap + np.flatnonzero(keep[gap:])
        several = [i for i in below[: _MOST_CAPTIONS + 1].tolist() if filled[i].sum() > 1]
        if len(above) < 3 or not several or several[0] == below[-1]:
            continue
        rows, row = frame.iloc[above], filled_cells(frame.iloc[several[0]])
        texts = {cell for _, cell in row if not is_datum(cell)}
        outside = np.setdiff1d(np.flatnonzero(filled[below].any(axis=0)), [j for j, _ in row])
        if len(texts) < len(row) or len(outside) or any(occurs(cell, rows.iloc[:, j]) for j, cell in row):
            continue
        if any(numbers_in(rows.iloc[:, j]) is not None for j, _ in row):
            return [int(i) for i in below]
    return []


def _has_units(row: list[tuple[int, str]], below: pd.DataFrame) -> bool:
    """Whether a line has units or types above at least two columns of numbers, and nothing else but texts
    above others.
    """
    units = [_is_unit(cell) for _, cell in row]
    if sum(units) < 2:
        return False
    above = [_above_numbers(cell, below.iloc[:, j]) for j, cell in row]
    if None in above or not all(unit or numeric for unit, numeric in zip(units, above, strict=True)):
        return False
    return sum(unit and numeric is True for unit, numeric in zip(units, above, strict=True)) >= 2


def _is_unit(cell: str) -> bool:
    named = _UNIT.fullmatch(cell) is not None or cell.strip("[]()").casefold() in UNIT_NAMES
    return named and not is_datum(cell)


def _is_caption(row: list[tuple[int, str]], below: pd.DataFrame) -> bool:
    """Whether the cells of a line are words for types, rules, or texts above columns of numbers."""
    if row and all(_RULE.fullmatch(cell) for _, cell in row):
        return True
    if len(row) >= 2 and all(_TYPE.fullmatch(cell) for _, cell in row):
        return not all(occurs(cell, below.iloc[:, j]) for j, cell in row)
    above = [_above_numbers(cell, below.iloc[:, j]) for j, cell in row]
    return None not in above and sum(map(bool, above)) >= 2


def _above_numbers(cell: str, column: pd.Series) -> bool | None:
    """Whether a cell is a text above numbers, which may have it as their unit; None if it could be one of the
    cells below.
    """
    texts = {str(each).strip() for each in coded(column)[1]}.difference(NA_VALUES)
    texts = {text for text in texts if text.casefold() not in NUMERIC_NA_VALUES}
    if cell in texts:
        return None
    bare = (text.removesuffix(cell).removeprefix(f"{cell} ").strip() for text in texts)
    numeric = bool(texts) and sum(map(is_datum, bare)) >= _NUMERIC * len(texts)
    return None if numeric and (is_datum(cell) or cell.casefold() in NUMERIC_NA_VALUES) else numeric


def _last_lines(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of totals and footnotes at the end of a table."""
    found: list[int] = []
    rows = np.flatnonzero(keep)
    last = [(i, filled_cells(frame.iloc[i])) for i in rows[: -_LAST - 1 : -1].tolist()]
    n_alone = next((n for n, (_, row) in enumerate(last) if len(row) > 1), 0)  # one cell says less than a row
    for i, row in last:
        n_above = len(rows) - max(n_alone, len(found) + 1)
        begins = row and (_names_statistic(row[0][1]) or _SOURCE.match(row[0][1]))
        if n_above < 2 or not (len(row) == 1 or begins):
            break
        above = frame.iloc[rows[:n_above]]
        follows = len(found) > 0 and len(last[len(found) - 1][1]) == 1
        if not (_is_total(row, above) or _is_footnote(row, above) or _is_remark(row, above, follows)):
            break
        found.append(i)
    n_above = len(rows) - len(found) - 1
    if n_above >= _FEWEST:
        row, above = filled_cells(frame.iloc[rows[n_above]]), frame.iloc[rows[:n_above]]
        texts = [(j, cell) for j, cell in row if as_number(cell) is None]
        numbers = [one for one in row if one not in texts]
        if numbers and len(texts) <= 1:
            new = not any(occurs(cell, above.iloc[:, j]) for j, cell in texts)
            if new and _is_sum(numbers, above):
                found.append(int(rows[n_above]))
    return sorted(found)


def _names_statistic(label: str) -> bool:
    return TOTAL.fullmatch(label) is not None or label.casefold().strip(" .:") in _EXTREME


def _is_total(row: list[tuple[int, str]], above: pd.DataFrame) -> bool:
    """Whether the first cell of a line is the word for a total, which no other row has."""
    if not row:
        return False
    j, label = row[0]
    if occurs(label, above.iloc[:, j]):
        return False
    extreme = _EXTREME.get(label.casefold().strip(" .:"))
    if extreme is None:
        return TOTAL.fullmatch(label) is not None
    n = len(above)  # without the other statistics
    while n and (before := filled_cells(above.iloc[n - 1])) and _names_statistic(before[0][1]):
        n -= 1
    columns = [(as_number(cell), cell, numbers_in(above.iloc[:n, at])) for at, cell in row[1:]]
    return bool(columns) and all(
        number is not None
        and values is not None
        and len(values) > 1
        and (is_close(number, extreme(values)) or _is_mean(number, text, extreme(values)))
        for number, text, values in columns
    )


def _is_first_total(frame: pd.DataFrame, keep: Bits) -> bool:
    """Whether the first row holds the sums or means of all others, and has a name or blanks of its own."""
    rows = np.flatnonzero(keep)
    if len(rows) <= _FEWEST:
        return False
    row = filled_cells(frame.iloc[rows[0]])
    numbers = [(j, cell) for j, cell in row if as_number(cell) is not None]
    texts = [(j, cell) for j, cell in row if as_number(cell) is None]
    few = len(row) < frame.shape[1] or any(_names_statistic(cell) for _, cell in texts)
    if not numbers or not few or len(texts) > 1:
        return False
    below = frame.iloc[rows[1:]]
    return not any(occurs(cell, below.iloc[:, j]) for j, cell in texts) and _is_sum(numbers, below)


def _is_footnote(row: list[tuple[int, str]], above: pd.DataFrame) -> bool:
    """Whether a line is one text where rows have several cells."""
    if not row or above.shape[1] < 2:
        return False
    j, text = row[0]
    if _SOURCE.match(text) is not None and not occurs(text, above.iloc[:, j]):
        return True
    if len(row) != 1:
        return False
    column = above.iloc[:, j]
    if as_number(text) is not None or occurs(text, column):
        return False
    others = [str(cell).strip() for cell in coded(column)[1][:200]]
    others = [cell for cell in others if cell not in NA_VALUES]
    if not others or all(as_number(cell) is not None for cell in others):
        return True
    alone = above.shape[1] > 2 and len(text) > 2 * max(map(len, others)) and " " in text
    return alone or _FOOTER.fullmatch(text) is not None


def _is_remark(row: list[tuple[int, str]], above: pd.DataFrame, follows: bool) -> bool:
    """Whether a line is one text in the first column, unlike the cells above it, below rows of several.

    It has a mark in front, or is no code below codes, or is much longer than a few levels. `follows`: whether
    another remark is below it, so that more words than in any other cell are enough.
    """
    if len(row) != 1 or row[0][0] != 0 or len(above) < _FEWEST or above.shape[1] < _FULL_COLUMNS:
        return False
    text, column = row[0][1], above.iloc[:, 0]
    full = sum(is_blank(above.iloc[:, j]).mean() <= 1.0 - _NEARLY for j in range(above.shape[1]))
    if full < _FULL_COLUMNS or is_datum(text) or occurs(text, column):
        return False
    others = [str(cell).strip() for cell in coded(column)[1]]
    others = [cell for cell in others if cell not in NA_VALUES and not _names_statistic(cell)]
    if _MARKED.fullmatch(text):
        return not any(map(_MARKED.fullmatch, others))
    words = text.split()
    if others and all(map(_has_digit, others)):
        return not _has_digit(text) or _is_numbered_text(words, others)
    if others and 2 * len(others) <= len(above) and len(text) > 3 * max(map(len, others)):
        return True
    return follows and len(words) > max((len(cell.split()) for cell in others), default=len(words))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_numbered_text(words: list[str], others: list[str]) -> bool:
    """Whether a text has several words, the first of another form than that of any code."""
    forms = {_form(cell) for cell in others}
    return len(words) > 1 and not any(" " in form for form in forms) and _form(words[0]) not in forms


def _form(text: str) -> str:
    """A text with 9 for its digits, and a for its letters."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", text))


def _is_sum(row: list[tuple[int, str]], above: pd.DataFrame) -> bool:
    """Whether the numbers of a line are the sums of the rows above it, or their means where it has empty
    cells.
    """
    numbers = [(j, as_number(cell)) for j, cell in row]
    if not numbers or any(number is None for _, number in numbers):
        return False
    if len(row) == above.shape[1] > 1 and len(above) < 2 * _FEWEST:
        return False
    row_texts, sums, means = dict(row), 0, 0
    for j, number in numbers:
        values = numbers_in(above.iloc[:, j])
        if values is None:
            return False
        total, largest = float(values.sum()), float(np.abs(values).max(initial=0.0))
        if is_close(float(number or 0.0), total) and abs(total) > largest:
            sums += 1
        elif not len(values) or not _is_mean(float(number or 0.0), row_texts[j], float(values.mean())):
            return False
        elif np.ptp(values) > 0.0:
            means += 1
    return sums > 0 or (means >= 2 and len(row) < above.shape[1])


def _is_mean(number: float, text: str, mean: float) -> bool:
    """Whether a number is a mean as it was rounded in its text."""
    decimals = len(text.strip().replace(",", ".").rpartition(".")[2]) if re.search("[.,]", text) else 2
    return abs(number - mean) <= max(0.011, 0.51 * 10.0**-decimals)
