"""Columns that are computed from other columns: products and quotients (revenue of quantity and price, BMI of
weight and height); another column times, or plus, one number for each value of a third (net and gross at the
rate of a country); the largest or the smallest of several (the best of several tries, whether any symptom is
there); ranges and ranks of a column that is left out.

Like sums (:mod:`craftc.table.sums`) they count twice what is already in the table. Products are sums of
logarithms; the values of the third column would look like clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.threads import one_blas_thread
from craftc._common.typing import Floats
from craftc.table.sums import (
    FEWEST_ROWS,
    SAMPLE_ROWS,
    WIDEST,
    is_indicator,
    is_measured,
    most_dependent,
    named,
    sums_of_others,
    unit_of,
)

_POSITIVE = 0.5  # share of the rows in which a column of a product is not zero, at least
_REST = 0.1  # largest rest of a logarithm that others may explain, in standard deviations
_NEAR = 0.05  # largest distance of an exponent from a half or a whole number
_ROUNDED = 0.02  # largest unit of measured cells, in medians of the column
_AS_DEPENDENT = 0.75  # share of the dependence of the most dependent column that a later one has
_MOST_PARTS, _LARGEST = 4, 3.0  # factors, and their exponents
_SPREAD = 1.02  # quotient of the 98th and the 2nd percentile of a column, at least
_EXPONENTS = {0.5: "½", 1.0: "", 1.5: "^1.5", 2.0: "²", 2.5: "^2.5", 3.0: "³"}
_MOST_VALUES = 20  # of the third column of a rate
_WIDEST = 60  # numbers, and columns of few values, among which rates are looked for
_ROWS_FOR_RATES = 120  # in which rates are looked for
_STEPS = 0.2  # largest part of the range of differences that is not between their few values
_INSIDE = 1e-3  # largest share of the variance of quotients inside the values of the third column
_OWN = 0.1  # share of the variance of each of the two numbers that is inside, at least
_EXACT = 1e-9  # rounding of float64, relative to the largest cell
Codes = NDArray[np.integer]
_ROWS_FOR_PARTS = 64  # in which the parts of an extreme are looked for
_FEWEST_EACH = 5  # rows of each value or range, or in which a part alone is the largest, at least
_MOST_RANGES = 20  # of a column
_MISPLACED = 0.01  # share of the rows in another range, at most: the column was rounded after it was divided
_DIGITS = 9  # of numbers; others are rounding
_WIDE, _AROUND = 5.0, 5  # least gap between groups, in the mean distance of that many values on each side
_VALLEY = 0.75  # rows between two ranges, as a share of those on the sparser side, at least
_RANKED = 0.999  # least correlation of the ranks of a copy on another scale


@dataclass(frozen=True)
class _Product:
    """A column as constant * prod(x[parts] ** exponents)."""

    parts: list[int]
    exponents: Floats
    constant: float

    def said(self, names: Sequence[str]) -> str:
        """``'qty' times 'price'``, ``proportional to 'weight' / 'height'²``."""
        above, below = (
            [
                quoted(name) + _EXPONENTS[abs(power)]
                for name, power in zip(names, self.exponents.tolist(), strict=True)
                if sign * power > 0.0
            ]
            for sign in (1.0, -1.0)
        )
        text = " times ".join(above) or "1"
        text += f" / {below[0]}" if len(below) == 1 else f" / ({' times '.join(below)})" if below else ""
        return text if abs(self.constant - 1.0) < 1e-3 else f"proportional to {text}"


def derived_columns(
    numbers: Mapping[str, NDArray[np.floating]],
    codes: Mapping[str, NDArray[np.integer]],
    kept: Collection[str] = (),
) -> dict[str, str]:
    """The columns to leave out because they follow from others, each with the reason: sums, products,
    extremes, and another column at one rate for each value of a third.

    `numbers`: cells of numeric columns and of indicators, NaN where one is missing; `codes`: of categorical
    columns, -1 for a missing cell; `kept`: columns that stay.
    """
    out: dict[str, str] = {}

    def left() -> dict[str, NDArray[np.floating]]:
        return {name: cells for name, cells in numbers.items() if name not in out}

    for found_among in (sums_of_others, products_of_others, extremes_of_others):
        out |= found_among(left(), kept)
    return out | rates_of_others(left(), {name: codes[name] for name in codes if name not in out}, kept)


def products_of_others(
    numbers: Mapping[str, NDArray[np.floating]], kept: Collection[str] = ()
) -> dict[str, str]:
    """The columns to leave out, each with the reason: ``{"revenue": "'quantity' times 'price'"}``.

    `numbers`: cells of numeric columns, NaN where one is missing; `kept`: columns that stay. Of a product and
    its factors the column is left out that depends most on the others.
    """
    names = [name for name, cells in numbers.items() if is_measured(cells)]
    if len(names) > WIDEST:
        return {}
    names = [name for name in names if _is_a_size(numbers[name])]
    if len(names) < 3:
        return {}
    cells = np.column_stack([np.asarray(numbers[name], np.float64) for name in names])
    cells = cells[np.isfinite(cells).all(axis=1)]
    chosen = _often_positive(cells)
    if len(chosen) < 3:
        return {}
    names, cells = [names[j] for j in chosen], cells[:, chosen]
    positive = cells[(cells > 0.0).all(axis=1)]
    some = np.unique(np.linspace(0, len(positive) - 1, min(len(positive), SAMPLE_ROWS)).astype(np.intp))
    sample = np.log(positive[some])
    units = np.array([unit_of(column) for column in cells.T])
    left, out = list(range(len(names))), {}
    with one_blas_thread():  # more threads wait for longer than this takes
        while (found := _first_product(cells, positive, sample, units, left)) is not None:
            free = [j for j in found if names[j] not in kept]
            dropped = most_dependent(sample, found, free or found[-1:], latest=_AS_DEPENDENT)
            if free:
                parts = [j for j in found if j != dropped]
                product = _solved(sample[:, dropped], sample[:, parts])
                if product is not None:
                    out[names[dropped]] = product.said([names[parts[i]] for i in product.parts])
            left.remove(dropped)
    return out


def _is_a_size(cells: NDArray[np.floating]) -> bool:
    """Whether a column has no negative cell, many positive ones, and values of different sizes: the logarithm
    of a narrow range, as of years, is nearly linear.
    """
    present = cells[~np.isnan(cells)]
    above = present[present > 0.0]
    if (present < 0.0).any() or len(above) < _POSITIVE * len(present):
        return False
    low, high = np.quantile(above, [0.02, 0.98])
    return bool(high > _SPREAD * low)


def _often_positive(cells: Floats) -> list[int]:
    """As many columns as possible, in order, that have enough rows in which all of them are positive."""
    zero = cells <= 0.0
    order = np.argsort(zero.sum(axis=0), kind="stable")
    n_positive = (~np.logical_or.accumulate(zero[:, order], axis=1)).sum(axis=0)
    enough = np.flatnonzero(n_positive >= np.maximum(FEWEST_ROWS, 3 * np.arange(1, len(order) + 1)))
    return sorted(order[: enough[-1] + 1].tolist()) if len(enough) else []


def _first_product(
    cells: Floats, positive: Floats, sample: Floats, units: Floats, left: list[int]
) -> list[int] | None:
    """The first of the columns `left` that is a product of earlier ones, after its factors."""
    x = sample[:, left]
    centred = x - x.mean(axis=0)
    size = np.sqrt((centred * centred).sum(axis=0))
    R = np.linalg.qr(centred / size, mode="r")
    rest = np.abs(np.diagonal(R))
    for place in np.flatnonzero(rest < _REST).tolist():
        basis = np.flatnonzero(rest[:place] >= 1e-6)
        if len(basis) < 2:
            continue
        product = _solved(x[:, place], x[:, basis])
        if product is None:
            continue
        parts = [left[i] for i in basis[product.parts]]
        if _is_product(product, left[place], parts, cells, positive, units):
            return [*parts, left[place]]
    return None


def _solved(y: Floats, x: Floats) -> _Product | None:
    """Least squares of logarithms, with exponents that are halves or whole numbers; None if some are not."""
    centred = x - x.mean(axis=0)
    weights = np.linalg.lstsq(centred, y - y.mean(), rcond=None)[0]
    exponents = np.round(2.0 * weights) / 2.0
    parts = np.flatnonzero(exponents)
    if not 2 <= len(parts) <= _MOST_PARTS or np.abs(exponents).max() > _LARGEST:
        return None
    rest = y - x[:, parts] @ exponents[parts]
    near = np.abs(weights - exponents) * centred.std(axis=0) <= _NEAR * y.std()
    if not near.all() or rest.std() > _REST * y.std():
        return None
    return _Product(parts.tolist(), exponents[parts], float(np.exp(np.median(rest))))


def _is_product(
    product: _Product, j: int, parts: list[int], cells: Floats, positive: Floats, units: Floats
) -> bool:
    """Whether the column is the product in every row, but for the rounding of cells."""
    logs, own = np.log(positive[:, parts]), np.log(positive[:, j])
    rest = np.abs(own - logs @ product.exponents - np.log(product.constant))
    unit = np.where(units < _ROUNDED * np.median(positive, axis=0), units, 0.0)  # others are counts
    bound = units[j] / positive[:, j] + (unit[parts] / positive[:, parts]) @ np.abs(product.exponents)
    if not (rest <= 0.51 * bound + 1e-6).all():
        return False
    zeros = cells[(cells[:, [*parts, j]] == 0.0).any(axis=1)]
    above = [part for part, power in zip(parts, product.exponents, strict=True) if power > 0.0]
    defined = (zeros[:, [part for part in parts if part not in above]] > 0.0).all(axis=1)
    with_zero = (zeros[:, above] == 0.0).any(axis=1) & defined
    return bool((zeros[with_zero, j] == 0.0).all())


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
    some = np.linspace(0, n - 1, _ROWS_FOR_RATES).astype(np.intp)
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
                if _is_rate(cells[dropped], cells[other], groups, word == "times"):
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
    if not _inside(rest, codes) <= _INSIDE * np.nanvar(rest):
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


def _is_rate(y: Floats, x: Floats, codes: Codes, quotient: bool) -> bool:
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
    return bool(near.all() and spread <= _INSIDE * np.var(rest))


def extremes_of_others(
    numbers: Mapping[str, NDArray[np.floating]], kept: Collection[str] = ()
) -> dict[str, str]:
    """The columns to leave out, each with the reason: ``{"best": "the largest of 'first' and 'second'"}``.

    `numbers`: cells of numeric columns and of indicators, NaN where one is missing; columns with missing
    cells take no part. `kept`: columns that stay.
    """
    names = [name for name, cells in numbers.items() if is_measured(cells) or is_indicator(cells)]
    if not 3 <= len(names) <= WIDEST:
        return {}
    n = len(numbers[names[0]])
    if n < FEWEST_ROWS:
        return {}
    out: dict[str, str] = {}
    some = np.linspace(0, n - 1, min(n, _ROWS_FOR_PARTS)).astype(np.intp)
    sample = np.column_stack([np.asarray(numbers[name], np.float64)[some] for name in names])
    equal = sample[:, :, None] == sample[:, None, :]
    for words, sign in (("the largest", 1.0), ("the smallest", -1.0)):
        part_of = np.all(sign * sample[:, :, None] <= sign * sample[:, None, :], axis=0)
        np.fill_diagonal(part_of, False)
        in_every_row = np.all((equal & part_of).any(axis=1), axis=0)
        for j in np.flatnonzero(in_every_row & (part_of.sum(axis=0) > 1)).tolist():
            parts = [names[i] for i in np.flatnonzero(part_of[:, j]).tolist() if names[i] not in out]
            if names[j] in kept or names[j] in out:
                continue
            y, *x = (sign * np.asarray(numbers[name], np.float64) for name in (names[j], *parts))
            own = _parts(y, np.column_stack(x)) if x else []
            if len(own) > 1:
                which = named([parts[i] for i in own])
                out[names[j]] = f"{'any or all' if is_indicator(y) else words} of {which}"
    return out


def _parts(y: Floats, x: Floats) -> list[int]:
    """The columns of x whose largest one is y in every row; none if there are no such columns."""
    left = np.flatnonzero((x <= y[:, None]).all(axis=0) & (x < y[:, None]).any(axis=0))
    equal = x[:, left] == y[:, None]
    if not equal.any(axis=1).all():
        return []
    for i in np.argsort(equal.sum(axis=0), kind="stable").tolist():  # the rarest first
        without = equal.copy()
        without[:, i] = False
        if without.any(axis=1).all():
            equal = without
    alone = equal[equal.sum(axis=1) == 1].sum(axis=0)
    needed = np.flatnonzero(equal.any(axis=0))
    return left[needed].tolist() if len(needed) and (alone[needed] >= _FEWEST_EACH).all() else []


def follow_from(
    derived: Mapping[str, str],
    numbers: Mapping[str, NDArray[np.floating]],
    codes: Mapping[str, NDArray[np.integer]],
    kept: Collection[str] = (),
) -> dict[str, str]:
    """The columns to leave out with the columns `derived`, whose reasons name the columns from which they
    follow and which stay, each with the reason: ``{"class": "ranges of 'bmi'"}``.

    `numbers`: cells of numeric columns, NaN where one is missing; `codes`: of categorical columns, -1 for a
    missing cell; `kept`: columns that stay.
    """
    gone = [name for name in derived if is_measured(numbers[name])]
    out: dict[str, str] = {}
    for name in gone:
        x = np.asarray(numbers[name], np.float64)
        for other in {**numbers, **codes}:
            if other in (*gone, *kept, *out) or quoted(other) in derived[name]:
                continue
            if other in codes and _are_ranges(x, codes[other]):
                out[other] = f"ranges of {quoted(name)}"
            elif other in numbers and _is_ranked(x, np.asarray(numbers[other], np.float64)):
                out[other] = f"{quoted(name)} on another scale"
    return out


def _are_ranges(x: Floats, codes: NDArray[np.integer]) -> bool:
    """Whether each code is that of a range of the numbers x."""
    present = ~np.isnan(x) & (codes >= 0)
    x, codes = x[present], codes[present]
    used, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if not 2 <= len(used) <= _MOST_RANGES or len(x) < FEWEST_ROWS or counts.min() < _FEWEST_EACH:
        return False
    middles = np.array([np.median(x[codes == code]) for code in range(len(used))])
    order = np.argsort(middles, kind="stable")
    parts = [x[codes == code] for code in order]
    cuts = [
        (np.quantile(low, 1.0 - _MISPLACED) + np.quantile(high, _MISPLACED)) / 2.0
        for low, high in pairwise(parts)
    ]
    if (np.diff(cuts) <= 0.0).any():
        return False
    rank = np.argsort(order)[codes]
    if (np.searchsorted(cuts, x) != rank).mean() > _MISPLACED:
        return False
    pairs = zip(pairwise(parts), cuts, strict=True)
    return not any(_are_apart(np.sort(np.concatenate(both)), float(cut)) for both, cut in pairs)


def _are_apart(rows: Floats, cut: float) -> bool:
    """Whether ascending numbers of two groups have a gap or a valley at a cut between them, as groups have
    and ranges have not.
    """
    scale = max(float(np.abs(rows).max()), 1e-300)
    _, first = np.unique(np.round(rows / scale, _DIGITS), return_index=True)
    values = rows[first]
    at = max(int(np.searchsorted(values, cut, side="right")) - 1, 0)
    if at + 1 >= len(values):
        return False
    steps, gap = np.diff(values[max(0, at - _AROUND) : at + _AROUND + 2]), values[at + 1] - values[at]
    apart = gap * (len(steps) - 1) > _WIDE * (steps.sum() - gap)
    return bool(apart) or is_valley(rows, float(values[at]))


def is_valley(rows: Floats, highest: float) -> bool:
    """Whether numbers of two ranges are rare between their medians; the lower range ends at `highest`."""
    low, high = np.median(rows[rows <= highest]), np.median(rows[rows > highest])
    thirds, values = np.linspace(low, high, 4), np.unique(rows)
    between = 0.5 * (values[1:] + values[:-1])  # where no value is on an edge of a third
    edges = between[np.abs(between - thirds[:, None]).argmin(axis=1)]
    widths = np.diff(edges)
    if widths.min() <= 0.0:
        edges, widths = thirds, np.diff(thirds)
    counts = np.histogram(rows, edges)[0] * widths.mean() / widths
    fewer = min(counts[0], counts[2]) - counts[1]
    return bool(
        counts[1] < _VALLEY * min(counts[0], counts[2]) and fewer > 3.0 * np.sqrt(fewer + 2.0 * counts[1])
    )


def _is_ranked(x: Floats, y: Floats) -> bool:
    """Whether y ranks the rows as x does, or in reverse."""
    present = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[present], y[present]
    if len(x) < FEWEST_ROWS or not is_measured(x) or not is_measured(y):
        return False
    ranks = np.vstack([np.unique(cells, return_inverse=True)[1] for cells in (x, y)])
    steps = np.diff(y[np.lexsort((y, x))])
    against = min((steps < 0.0).mean(), (steps > 0.0).mean())
    return bool(abs(float(np.asarray(np.corrcoef(ranks))[0, 1])) >= _RANKED and against <= _MISPLACED)
