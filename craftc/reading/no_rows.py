"""Lines of a table that are no rows: empty ones, totals, footnotes, and repeated column names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import need_pandas, quoted
from craftc._common.typing import Bits, Floats, Ints
from craftc.reading.cells import NA_VALUES, NUMERIC_NA_VALUES, as_number, is_datum
from craftc.reading.part_lines import headings, lower_table
from craftc.table.kinds import is_absent

if TYPE_CHECKING:
    import pandas as pd

_TOTAL = re.compile(
    r"(grand|sub|over ?all|column|report)?[ -]*"
    r"(totals?|totale|total general|totaux|sums?|summen?|gesamt|gesamtsumme|gesamtergebnis|insgesamt"
    r"|zwischensumme|somme|suma|somma|totaal|yhteens[aä]|razem|итого|всего|合计|总计|合計"
    r"|averages?|means?|mittelwert|durchschnitt|moyenne|promedio|media"
    r"|medians?|minimum|maximum|variance|varianz|st(andar)?d\.?[ -]?dev(iation|\.)?|standardabweichung"
    r"|ergebnis|gesamtresultat)"
    r"\s*(of .{1,30}|\(.{1,30}\)|\d{4})?\s*[:=]?",
    re.IGNORECASE,
)
#: "Summe Nord", "North Total", as subtotals and pivot tables name the total of a group
_WORDS = r"(sub[ -]?)?total(es|e|s)?|(zwischen)?summe|gesamt|ergebnis|result|somme|totaux|suma|totaal|итого"
_GROUP_TOTAL = re.compile(rf"({_WORDS})\b\W.{{1,60}}|.{{1,60}}\W({_WORDS})\W*", re.IGNORECASE)
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
_SOURCE = re.compile(r"(sources?|quellen?|fuente|fonte|notes?|anmerkung(en)?|hinweise?)\s*:", re.IGNORECASE)
_TYPE = re.compile(
    r"(tiny|small|big|medium)?int(eger)?(32|64)?|string|str|text|(n?var)?char(acter)?( ?\(\d+\))?|double"
    r"|float(32|64)?|real|decimal|number|numeric|bool(ean)?|date|datetime|timestamp|time|long|factor"
    r"|categor(y|ical)|nominal|ordinal|continuous|discrete|object|ratio|interval",
    re.IGNORECASE,
)
_PAGE = re.compile(
    r"(seite|blatt|page|sheet|p[aá]gina)\s*\d+(\s*(of|von|de|sur|di|/)\s*\d+)?|übertrag"
    r"|(carried|brought) forward|report à nouveau",
    re.IGNORECASE,
)
_RULE = re.compile(r":?[-=]{2,}:?")  # between the names and the rows of Markdown
_MOST_CAPTIONS, _LOOKED_AT = 3, 200  # lines below the names, and rows that show what columns hold
_NUMERIC = 0.9  # share of the different cells of a column of numbers
_LAST = 30  # lines at the end of a table among which footnotes are
_FEWEST = 10  # rows above a line of sums without a name
_ROUNDING = 1e-6
_FEW_BLANKS = 0.25  # share of the cells of a column of texts that are blank, at most, where totals have none
_NESTED = 20  # totals from which a total of groups may count


def without_no_rows(frame: pd.DataFrame, named: bool = True) -> tuple[pd.DataFrame, list[str]]:
    """The rows of a table, with their own labels, and notes about the lines that were set aside.

    `named`: whether the table may have names of its columns, so that its first lines may explain them.
    """
    if len(frame) < 3 or not frame.shape[1]:
        return frame, []
    notes: list[str] = []
    keep = np.ones(len(frame), bool)
    empty = _empty(frame)
    if empty.any() and not empty.all() and not _is_sparse(frame):
        keep &= ~empty
        notes.append(f"{_lines(int(empty.sum()), 'empty line')}.")
    again = _repeated_names(frame) & keep
    if again.any():
        keep &= ~again
        notes.append(f"{_lines(int(again.sum()), 'repeated line')} of column names.")
    pages = _page_lines(frame, keep)
    if pages:
        keep[pages] = False
        shown = quoted(_first_text(frame.iloc[pages[0]]))
        notes.append(f"{_lines(len(pages), 'line')} of printed pages, the first {shown}.")
    below = _captions(frame, keep) if named else []
    if below:
        keep[below] = False
        shown = ", ".join(cell for _, cell in _cells(frame.iloc[below[0]]))
        notes.append(
            f"{_lines(len(below), 'line')} of types, units or titles below the names, {quoted(shown)}."
        )
    first = int(np.flatnonzero(keep)[0]) if keep.any() else 0
    if empty.any() or len(_cells(frame.iloc[first])) == 1:
        _set_part_lines_aside(frame, empty, keep, notes)
    last = _last_lines(frame, keep)
    if last:
        keep[last] = False
        shown = quoted(_first_text(frame.iloc[last[0]]))
        notes.append(f"{_lines(len(last), 'last line')}, a total or footnotes, the first {shown}.")
    inner = _inner_totals(frame, keep)
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


def _set_part_lines_aside(frame: pd.DataFrame, empty: Bits, keep: Bits, notes: list[str]) -> None:
    """Leave out another table below the rows, and headings of groups of rows; notes say so."""
    filled = ~np.column_stack([_is_blank(frame.iloc[:, j]) for j in range(frame.shape[1])])
    if not keep[empty].any() and (legend := lower_table(filled, empty, keep)):
        keep[legend] = False
        shown = quoted(_first_text(frame.iloc[legend[0]]))
        notes.append(f"{_lines(len(legend), 'line')} of another table below the rows, the first {shown}.")
    if above := headings(filled, keep):
        keep[above] = False
        shown = quoted(_first_text(frame.iloc[above[0]]))
        notes.append(f"{_lines(len(above), 'heading')} of groups of rows, the first {shown}.")


def _lines(n: int, which: str) -> str:
    return f"Not used: {n:,} {which}{'s' if n > 1 else ''}"


def _coded(column: pd.Series) -> tuple[Ints, list[object]]:
    """Codes of the cells, -1 for missing ones, and the distinct cells."""
    try:
        codes, cells = need_pandas().factorize(column)
    except TypeError:  # lists
        codes, cells = need_pandas().factorize(column.map(str, na_action="ignore"))
    return codes, list(cells)


def _is_blank(column: pd.Series) -> Bits:
    """Which cells of a column are empty."""
    blank = column.isna().to_numpy(bool)
    if column.dtype == object or need_pandas().api.types.is_string_dtype(column.dtype):
        codes, texts = _coded(column)
        is_na = [isinstance(text, str) and text.strip() in NA_VALUES for text in texts]
        blank = blank | np.array([*is_na, True])[codes]
    result: Bits = blank
    return result


def _empty(frame: pd.DataFrame) -> Bits:
    """Which rows have no cell."""
    empty = np.ones(len(frame), bool)
    for j in range(frame.shape[1]):
        empty &= _is_blank(frame.iloc[:, j])
        if not empty.any():
            break
    return empty


def _is_sparse(frame: pd.DataFrame) -> bool:
    """Whether empty cells are answers in every column: it has one value, or none."""
    for j in range(frame.shape[1]):
        cells = {str(cell).strip() for cell in _coded(frame.iloc[:, j])[1]}
        if len(cells.difference(NA_VALUES)) > 1:
            return False
    return True


def _repeated_names(frame: pd.DataFrame) -> Bits:
    """Which rows have the names of their columns as cells."""
    same = np.ones(len(frame), bool)
    for j, name in enumerate(map(str, frame.columns)):
        codes, cells = _coded(frame.iloc[:, j])
        same &= np.array([*(str(cell).strip() == name for cell in cells), False])[codes]
        if not same.any():
            break
    return same


def _cells(row: pd.Series) -> list[tuple[int, str]]:
    """The filled cells of a row: position and text."""
    cells = [(j, "" if is_absent(cell) else str(cell).strip()) for j, cell in enumerate(row.tolist())]
    return [(j, cell) for j, cell in cells if cell not in NA_VALUES]


def _first_text(row: pd.Series) -> str:
    return next((cell for _, cell in _cells(row)), "")


def _page_lines(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of the numbers of pages, and of sums that are carried from page to page."""
    found = set[int]()
    for j in range(frame.shape[1]):
        codes, cells = _coded(frame.iloc[:, j])
        is_one = [isinstance(cell, str) and _PAGE.fullmatch(cell.strip()) is not None for cell in cells]
        found.update(np.flatnonzero(np.array([*is_one, False])[codes] & keep).tolist())
    most = max(1, frame.shape[1] - 2)
    return sorted(i for i in found if len(_cells(frame.iloc[i])) <= most)


def _captions(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of lines of types, units or titles directly below the column names."""
    rows = np.flatnonzero(keep)[: _LOOKED_AT + _MOST_CAPTIONS]
    found: list[int] = []
    if any(need_pandas().api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes):
        return found
    for n in range(min(_MOST_CAPTIONS, len(rows) - 3), 0, -1):
        below = frame.iloc[rows[n:]]
        if all(_is_caption(_cells(frame.iloc[i]), below) for i in rows[:n].tolist()):
            return [int(i) for i in rows[:n]]
    return found


def _is_caption(row: list[tuple[int, str]], below: pd.DataFrame) -> bool:
    """Whether the cells of a line are words for types, rules, or texts above columns of numbers."""
    if row and all(_RULE.fullmatch(cell) for _, cell in row):
        return True
    if len(row) >= 2 and all(_TYPE.fullmatch(cell) for _, cell in row):
        return not all(_occurs(cell, below.iloc[:, j]) for j, cell in row)
    above_numbers = 0
    for j, cell in row:
        texts = {str(each).strip() for each in _coded(below.iloc[:, j])[1]}.difference(NA_VALUES)
        texts = {text for text in texts if text.casefold() not in NUMERIC_NA_VALUES}
        if cell in texts:
            return False
        numeric = bool(texts) and sum(map(is_datum, texts)) >= _NUMERIC * len(texts)
        if numeric and (is_datum(cell) or cell.casefold() in NUMERIC_NA_VALUES):
            return False
        above_numbers += numeric
    return above_numbers >= 2


def _last_lines(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of totals and footnotes at the end of a table."""
    found: list[int] = []
    rows = np.flatnonzero(keep)
    for i in rows[: -_LAST - 1 : -1].tolist():
        n_above = len(rows) - len(found) - 1
        row = _cells(frame.iloc[i])
        begins = row and (_names_statistic(row[0][1]) or _SOURCE.match(row[0][1]))
        if n_above < 2 or not (len(row) == 1 or begins):
            break
        above = frame.iloc[rows[:n_above]]
        if not (_is_total(row, above) or _is_footnote(row, above)):
            break
        found.append(i)
    n_above = len(rows) - len(found) - 1
    if n_above >= _FEWEST:
        row = _cells(frame.iloc[rows[n_above]])
        named = bool(row) and as_number(row[0][1]) is None
        numbers, above = row[1:] if named else row, frame.iloc[rows[:n_above]]
        if numbers and all(as_number(cell) is not None for _, cell in numbers):
            new = not named or not _occurs(row[0][1], above.iloc[:, row[0][0]])
            if new and _is_sum(numbers, above):
                found.append(int(rows[n_above]))
    return sorted(found)


def _names_statistic(label: str) -> bool:
    return _TOTAL.fullmatch(label) is not None or label.casefold().strip(" .:") in _EXTREME


def _is_total(row: list[tuple[int, str]], above: pd.DataFrame) -> bool:
    """Whether the first cell of a line is the word for a total, which no other row has."""
    if not row:
        return False
    j, label = row[0]
    if _occurs(label, above.iloc[:, j]):
        return False
    extreme = _EXTREME.get(label.casefold().strip(" .:"))
    if extreme is None:
        return _TOTAL.fullmatch(label) is not None
    n = len(above)  # without the other statistics
    while n and (before := _cells(above.iloc[n - 1])) and _names_statistic(before[0][1]):
        n -= 1
    columns = [(as_number(cell), cell, _numbers(above.iloc[:n, at])) for at, cell in row[1:]]
    return bool(columns) and all(
        number is not None
        and values is not None
        and len(values) > 1
        and (_is_close(number, extreme(values)) or _is_mean(number, text, extreme(values)))
        for number, text, values in columns
    )


def _is_first_total(frame: pd.DataFrame, keep: Bits) -> bool:
    """Whether the first row holds the sums or means of all others, and has a name or blanks of its own."""
    rows = np.flatnonzero(keep)
    if len(rows) <= _FEWEST:
        return False
    row = _cells(frame.iloc[rows[0]])
    numbers = [(j, cell) for j, cell in row if as_number(cell) is not None]
    texts = [(j, cell) for j, cell in row if as_number(cell) is None]
    few = len(row) < frame.shape[1] or any(_names_statistic(cell) for _, cell in texts)
    if not numbers or not few or len(texts) > 1:
        return False
    below = frame.iloc[rows[1:]]
    return not any(_occurs(cell, below.iloc[:, j]) for j, cell in texts) and _is_sum(numbers, below)


def _is_footnote(row: list[tuple[int, str]], above: pd.DataFrame) -> bool:
    """Whether a line is one text where rows have several cells."""
    if not row or above.shape[1] < 2:
        return False
    j, text = row[0]
    if _SOURCE.match(text) is not None and not _occurs(text, above.iloc[:, j]):
        return True
    if len(row) != 1:
        return False
    column = above.iloc[:, j]
    if as_number(text) is not None or _occurs(text, column):
        return False
    others = [str(cell).strip() for cell in _coded(column)[1][:200]]
    others = [cell for cell in others if cell not in NA_VALUES]
    if not others or all(as_number(cell) is not None for cell in others):
        return True
    alone = above.shape[1] > 2 and len(text) > 2 * max(map(len, others)) and " " in text
    return alone or _FOOTER.fullmatch(text) is not None


def _occurs(text: str, column: pd.Series) -> bool:
    return bool((column.astype(object).map(lambda cell: str(cell).strip(), na_action="ignore") == text).any())


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
        values = _numbers(above.iloc[:, j])
        if values is None:
            return False
        total, largest = float(values.sum()), float(np.abs(values).max(initial=0.0))
        if _is_close(float(number or 0.0), total) and abs(total) > largest:
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


def _is_close(a: float, b: float) -> bool:
    return abs(a - b) <= max(_ROUNDING * abs(b), 0.011)


def _numbers(column: pd.Series) -> Floats | None:
    """The numbers of a column; None if some cells are none."""
    values, others = _numbers_and_others(column)
    if others.any():
        return None
    present: Floats = values[np.isfinite(values)]
    return present


def _inner_totals(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of lines between the rows that are named as a total and hold the sums of those before them,
    from an earlier total on.
    """
    for lines in (_labelled(frame), _without_texts(frame, keep)):
        candidates = [i for i in lines if keep[i]]
        few = bool(candidates) and 3 * len(candidates) <= keep.sum()
        if few and (found := _totals_among(frame, keep, candidates)):
            return found
    return []


def _totals_among(frame: pd.DataFrame, keep: Bits, candidates: Sequence[int]) -> list[int]:
    """The candidates that hold the sums of the rows before them; none if few of them do."""
    columns = [
        column for j in range(frame.shape[1]) if (column := _running(frame.iloc[:, j], keep, candidates))
    ]
    found = _sums_among(candidates, columns, fewest=2)
    if found:  # of a group of one row, where other groups show what the lines are
        found = _sums_among(candidates, columns, fewest=1)
    return found if 2 * len(found) >= len(candidates) else []


@dataclass
class _Running:
    """A column of numbers: sums, numbers and other cells in the rows before each row, and those of totals."""

    sums: Floats
    present: Floats
    others: Floats
    totals: dict[int, float]


def _running(column: pd.Series, keep: Bits, candidates: Sequence[int]) -> _Running | None:
    """None if no line of a total has a number here."""
    values, other = _numbers_and_others(column)
    totals = {i: float(values[i]) for i in candidates if not np.isnan(values[i])}
    if not totals:
        return None
    row = keep.copy()
    row[candidates] = False
    present = row & ~np.isnan(values)

    def running(each: Bits | Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(each)])

    return _Running(running(np.where(present, values, 0.0)), running(present), running(row & other), totals)


def _numbers_and_others(column: pd.Series) -> tuple[Floats, Bits]:
    """The number of each cell, NaN where it is none, and which cells hold something else."""
    if need_pandas().api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan), np.zeros(len(column), bool)
    codes, cells = _coded(column)
    texts = ["" if is_absent(cell) else str(cell).strip() for cell in cells]
    numbers = [None if text in NA_VALUES else as_number(text) for text in texts]
    is_other = [number is None and text not in NA_VALUES for number, text in zip(numbers, texts, strict=True)]
    values = np.array([*(np.nan if number is None else number for number in numbers), np.nan])
    return values[codes], np.array([*is_other, False])[codes]


def _sums_among(candidates: Sequence[int], columns: Sequence[_Running], *, fewest: int) -> list[int]:
    """The candidates that hold sums of at least `fewest` rows."""
    found: list[int] = []
    starts = [0]
    for i in candidates:
        for start in [*starts[: -_NESTED - 1 : -1], 0]:
            sums = [
                _is_close(column.totals[i], float(column.sums[i] - column.sums[start]))
                for column in columns
                if i in column.totals
                and column.others[i] == column.others[start]
                and column.present[i] - column.present[start] >= fewest
            ]
            if sums and all(sums):
                found.append(i)
                starts.append(i + 1)
                break
    return found


def _names_group_total(label: str) -> bool:
    return _TOTAL.fullmatch(label) is not None or _GROUP_TOTAL.fullmatch(label) is not None


def _without_texts(frame: pd.DataFrame, keep: Bits) -> Iterator[int]:
    """Positions of the lines without any text, where nearly all rows have one in several columns."""
    blank, n_texts = keep.copy(), 0
    for j in range(frame.shape[1]):
        if not _begins_with_texts(frame.iloc[:, j]):
            continue
        empty = _is_blank(frame.iloc[:, j])
        if empty[keep].mean() < _FEW_BLANKS:
            blank &= empty
            n_texts += 1
        if not blank.any():
            break
    return iter(np.flatnonzero(blank).tolist() if n_texts >= 2 else [])


def _begins_with_texts(column: pd.Series) -> bool:
    """Whether most of the first cells of a column are texts that are no numbers."""
    if need_pandas().api.types.is_numeric_dtype(column.dtype):
        return False
    others = _numbers_and_others(column.iloc[:_LOOKED_AT])[1]
    return bool(2 * others.sum() > len(others))


def _labelled(frame: pd.DataFrame) -> Iterator[int]:
    """Positions of the lines that are named as a total in one of the first two columns."""
    hits = np.zeros(len(frame), bool)
    pd = need_pandas()
    for j in range(min(2, frame.shape[1])):
        column = frame.iloc[:, j]
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        codes, texts = _coded(column)
        is_total = [isinstance(text, str) and _names_group_total(text.strip()) for text in texts]
        hits |= np.array([*is_total, False])[codes]
    return iter(np.flatnonzero(hits).tolist())
