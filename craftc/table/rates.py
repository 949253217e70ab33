"""Columns that are another column times, or plus, one number for each value of a third: prices less a
discount, net and gross at the rate of a country.

Like products (:mod:`craftc.table.products`) they count twice what is already in the table, and the values of
the third column would look like clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.typing import Floats
from craftc.table.sums import FEWEST_ROWS, unit_of

_MOST_VALUES, _FEWEST_EACH = 20, 5  # of the third column, and rows with each
_WIDEST = 60  # numbers, and columns of few values, among which rates are looked for
_FIRST_ROWS = 120  # in which rates are looked for
_STEPS = 0.2  # largest part of the range of differences that is not between their few values
_REST = 1e-3  # largest share of the variance of quotients inside the values of the third column
_OWN = 0.1  # share of the variance of each of the two numbers that is inside, at least
_EXACT = 1e-9  # rounding of float64, relative to the largest cell

Codes = NDArray[np.integer]


def rates_of_others(
    numbers: Mapping[str, NDArray[np.floating]], codes: Mapping[str, Codes], kept: Collection[str] = ()
) -> dict[str, str]:
    """The columns to leave out, each with the reason:
    ``{"paid": "'price' times a number for each 'discount'"}``.

    `numbers`: cells of numeric columns, NaN where one is missing; `codes`: of categorical columns, -1 for a
    missing cell; `kept`: columns that stay.
    """
    n = max(map(len, numbers.values()), default=0)
    if n < FEWEST_ROWS:
        return {}
    some = np.linspace(0, n - 1, _FIRST_ROWS).astype(np.intp)
    names = [name for name, cells in numbers.items() if _n_values(cells[some]) > _MOST_VALUES]
    few = dict(_few_values(numbers, codes, some)) if 2 <= len(names) <= _WIDEST else {}
    if not few or len(few) > _WIDEST:
        return {}
    cells = {name: np.asarray(numbers[name], np.float64) for name in names}
    sample = np.column_stack([cells[name][some] for name in names])
    logs = np.log(np.where((sample <= 0.0).any(axis=0), np.nan, sample))
    out: dict[str, str] = {}
    for word, own in (("plus", sample), ("times", logs)):
        for i, j in _of_few_differences(own):
            x, y = names[i], names[j]
            if {x, y} & out.keys() or {x, y} <= {*kept}:
                continue
            dropped, other = (y, x) if y not in kept else (x, y)
            for third, groups in few.items():
                if third in (x, y) or not _differ_by(own[:, [i, j]], groups[some]):
                    continue
                if _holds(cells[dropped], cells[other], groups, word == "times"):
                    out[dropped] = f"{quoted(other)} {word} a number for each {quoted(third)}"
                    break
    return out


def _of_few_differences(cells: Floats) -> list[tuple[int, int]]:
    """The pairs i < j of columns whose difference takes a few values, nearly."""
    first, second = np.triu_indices(cells.shape[1], 1)
    rest = np.sort(cells[:, second] - cells[:, first], axis=0)  # NaN comes last
    gaps = np.nan_to_num(np.diff(rest, axis=0))
    whole = gaps.sum(axis=0)
    between = np.partition(gaps, -_MOST_VALUES, axis=0)[-_MOST_VALUES:].sum(axis=0)
    few = (whole > 0.0) & (whole - between <= _STEPS * whole)
    return list(zip(first[few].tolist(), second[few].tolist(), strict=True))


def _differ_by(pair: Floats, codes: Codes) -> bool:
    """Whether two columns, which vary among the rows of each code, differ by one number there."""
    rest = pair[:, 1] - pair[:, 0]
    if not _inside(rest, codes) <= _REST * np.nanvar(rest):
        return False
    return all(_inside(own, codes) >= _OWN * np.nanvar(own) for own in pair.T)


def _few_values(
    numbers: Mapping[str, NDArray[np.floating]], codes: Mapping[str, Codes], some: Codes
) -> Iterator[tuple[str, Codes]]:
    """The columns of two to 20 values, which are frequent, as codes; -1 for a missing cell. `some`: rows."""
    for name, own in codes.items():
        if 2 <= int(own.max(initial=-1)) + 1 <= _MOST_VALUES and _are_frequent(own):
            yield name, own
    for name, cells in numbers.items():
        if name in codes or _n_values(cells[some]) > _MOST_VALUES:
            continue
        values = np.unique(cells[~np.isnan(cells)])
        if 2 <= len(values) <= _MOST_VALUES:
            own = np.where(np.isnan(cells), -1, np.searchsorted(values, cells))
            if _are_frequent(own):
                yield name, own


def _n_values(cells: NDArray[np.floating]) -> int:
    return len(np.unique(cells[~np.isnan(cells)]))


def _are_frequent(codes: Codes) -> bool:
    counts = np.bincount(codes[codes >= 0])
    return bool(counts[counts > 0].min(initial=_FEWEST_EACH) >= _FEWEST_EACH)


def _inside(values: Floats, codes: Codes) -> float:
    """The variance of values inside the groups of rows of one code."""
    present = ~np.isnan(values) & (codes >= 0)
    values, codes = values[present], codes[present]
    if not len(values):
        return np.inf
    count = np.bincount(codes)
    mean = np.bincount(codes, values) / np.maximum(count, 1)
    return float(np.square(values - mean[codes]).mean())


def _holds(y: Floats, x: Floats, codes: Codes, quotient: bool) -> bool:
    """Whether y is x times, or plus, one number for each code in every row, but for the rounding of cells."""
    present = ~np.isnan(y) & ~np.isnan(x) & (codes >= 0)
    y, x, codes = y[present], x[present], codes[present]
    if len(y) < FEWEST_ROWS or (quotient and min(y.min(), x.min()) <= 0.0):
        return False
    rest = np.log(y / x) if quotient else y - x
    units = np.array([unit_of(y), unit_of(x)])
    n, sum_y, sum_x = (np.bincount(codes, each) for each in (np.ones(len(y)), y, x))
    used = n > 0.0
    middle = np.zeros(len(n))  # hardly moved by the rounding of cells
    middle[used] = np.log(sum_y[used] / sum_x[used]) if quotient else (sum_y - sum_x)[used] / n[used]
    bound = units[0] / y + units[1] / x if quotient else units.sum() + _EXACT * np.abs(y).max()
    near = np.abs(rest - middle[codes]) <= 0.6 * bound + 1e-9
    spread = np.bincount(codes, np.square(rest - middle[codes])).sum() / len(rest)
    return bool(near.all() and spread <= _REST * np.var(rest))
