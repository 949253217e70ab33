"""Totals of groups of rows that stand between the rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import need_pandas
from craftc._common.typing import Bits, Floats, Ints
from craftc.reading.line_cells import LOOKED_AT, coded, is_blank, is_close, numbers_and_others

if TYPE_CHECKING:
    import pandas as pd

TOTAL = re.compile(
    r"(grand|sub|over ?all|column|report)?[ -]*"
    r"(totals?|totale|total general|totaux|sums?|summen?|gesamt|gesamtsumme|gesamtergebnis|insgesamt"
    r"|zwischensumme|somme|suma|somma|totaal|yhteens[aä]|razem|итого|всего|合计|总计|合計"
    r"|averages?|avg|[ø⌀]|means?|mittelwert|durchschnitt|moyenne|promedio|media"
    r"|medians?|minimum|maximum|variance|varianz|st(andar)?d\.?[ -]?dev(iation|\.)?|standardabweichung"
    r"|ergebnis|gesamtresultat)"
    r"\s*(of .{1,30}|\(.{1,30}\)|\d{4})?\s*[:=]?",
    re.IGNORECASE,
)
#: "Summe Nord", "North Total", as subtotals and pivot tables name the total of a group
_WORDS = r"(sub[ -]?)?total(es|e|s)?|(zwischen)?summe|gesamt|ergebnis|result|somme|totaux|suma|totaal|итого"
_GROUP_TOTAL = re.compile(rf"({_WORDS})\b\W.{{1,60}}|.{{1,60}}\W({_WORDS})\W*", re.IGNORECASE)
_FEW_BLANKS = 0.25  # share of the cells of a column of texts that are blank, at most, where totals have none
_FEWEST_LINES, _SHORTEST_GROUP = 8, 3  # lines, and lines for each total above a group
_HEAD = 2000  # lines in which the first group ends
_NESTED = 20  # totals from which a total of groups may count


def inner_totals(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of lines between the rows that are named as a total and hold the sums of those before them,
    from an earlier total on.
    """
    for lines in (_labelled(frame), *_without_texts(frame, keep)):
        candidates = [i for i in lines if keep[i]]
        few = bool(candidates) and 3 * len(candidates) <= keep.sum()
        if few and (found := _totals_among(frame, keep, candidates)):
            return found
    return _nameless_totals(frame, keep) or _totals_above(frame, keep)


def _nameless_totals(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of the lines without a cell in the only column of texts, if all of them hold sums of two
    columns or more.
    """
    n_blank, n_texts = _blank_texts(frame, keep)
    lines = np.flatnonzero(keep & (n_blank > 0))
    if n_texts != 1 or not 2 <= len(lines) <= keep.sum() / 3:
        return []
    cells = (numbers_and_others(frame.iloc[:, j])[0][lines] for j in range(frame.shape[1]))
    n_sums = sum(bool((np.isfinite(each) & (each != 0.0)).all()) for each in cells)
    found = _totals_among(frame, keep, lines.tolist()) if n_sums > 1 else []
    return found if len(found) == len(lines) else []


def _totals_above(frame: pd.DataFrame, keep: Bits) -> list[int]:
    """Positions of lines that hold the sums of the rows below them, up to the next one: totals above groups.

    Every line is a total or in a group; there are two groups or more, the first of several rows.
    """
    rows = np.flatnonzero(keep)
    if len(rows) > _HEAD and not _totals_of_groups_below(frame, rows[:_HEAD])[0]:
        return []
    found, whole = _totals_of_groups_below(frame, rows)
    several = len(found) > 1 and _SHORTEST_GROUP * len(found) <= len(rows) >= _FEWEST_LINES
    return [int(i) for i in rows[found]] if whole and several else []


def _totals_of_groups_below(frame: pd.DataFrame, rows: Ints) -> tuple[list[int], bool]:
    """The first of these lines that are totals above groups, and whether all others are in the groups."""
    columns, sums = [], []
    for j in range(frame.shape[1]):
        if getattr(frame.dtypes.iloc[j], "kind", "") == "c":
            continue
        values, others = numbers_and_others(frame.iloc[rows, j])
        values = np.where(np.isfinite(values), values, 0.0)
        with np.errstate(over="ignore"):
            running = np.concatenate([[0.0], np.cumsum(values)])
        if not others.any() and values.any() and np.isfinite(running).all():
            columns.append(values)
            sums.append(running)
    found: list[int] = []
    at = 0
    while columns and at < len(rows):
        least = at + (2 if found else 3)
        is_end = np.ones(max(0, len(rows) + 1 - least), bool)
        for values, running in zip(columns, sums, strict=True):
            is_end &= np.isclose(running[least:] - running[at + 1], values[at], rtol=1e-9, atol=0.011)
        if not is_end.any() or not any(values[at] for values in columns):
            return found, False
        found.append(at)
        at = least + int(is_end.argmax())
    return found, True


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
    values, other = numbers_and_others(column)
    totals = {i: float(values[i]) for i in candidates if not np.isnan(values[i])}
    if not totals:
        return None
    row = keep.copy()
    row[candidates] = False
    present = row & ~np.isnan(values)

    def running(each: Bits | Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(each)])

    return _Running(running(np.where(present, values, 0.0)), running(present), running(row & other), totals)


def _sums_among(candidates: Sequence[int], columns: Sequence[_Running], *, fewest: int) -> list[int]:
    """The candidates that hold sums of at least `fewest` rows."""
    found: list[int] = []
    starts = [0]
    for i in candidates:
        for start in [*starts[: -_NESTED - 1 : -1], 0]:
            sums = [
                is_close(column.totals[i], float(column.sums[i] - column.sums[start]))
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
    return TOTAL.fullmatch(label) is not None or _GROUP_TOTAL.fullmatch(label) is not None


def _without_texts(frame: pd.DataFrame, keep: Bits) -> list[list[int]]:
    """Positions of the lines without a text, where nearly all rows have some in several columns, and of those
    without another one than the name of the group.
    """
    n_blank, n_texts = _blank_texts(frame, keep)
    if n_texts < 2:
        return []
    least = (n_texts, max(1, n_texts - 1))
    return [np.flatnonzero(keep & (n_blank >= n)).tolist() for n in least]


def _blank_texts(frame: pd.DataFrame, keep: Bits) -> tuple[Ints, int]:
    """The number of blank cells of each line in columns of texts that nearly all rows have, and the number of
    these columns.
    """
    n_blank, n_texts = np.zeros(len(frame), np.intp), 0
    for j in range(frame.shape[1]):
        if _begins_with_texts(frame.iloc[:, j]):
            empty = is_blank(frame.iloc[:, j])
            if empty[keep].mean() < _FEW_BLANKS:
                n_blank += empty
                n_texts += 1
    return n_blank, n_texts


def _begins_with_texts(column: pd.Series) -> bool:
    """Whether most of the first cells of a column are texts that are no numbers."""
    if need_pandas().api.types.is_numeric_dtype(column.dtype):
        return False
    others = numbers_and_others(column.iloc[:LOOKED_AT])[1]
    return bool(2 * others.sum() > len(others))


def _labelled(frame: pd.DataFrame) -> list[int]:
    """Positions of the lines that are named as a total in one of the first two columns."""
    hits = np.zeros(len(frame), bool)
    pd = need_pandas()
    for j in range(min(2, frame.shape[1])):
        column = frame.iloc[:, j]
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        codes, texts = coded(column)
        is_total = [isinstance(text, str) and _names_group_total(text.strip()) for text in texts]
        hits |= np.array([*is_total, False])[codes]
    return [int(i) for i in np.flatnonzero(hits)]
