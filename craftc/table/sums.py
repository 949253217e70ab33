"""Columns that are sums of other columns: a total, a mean, a difference, the last of the shares of a whole.

Such a column counts twice what is already in the table, and rows with a large total look like a cluster
although nothing but the sum connects the columns. Relations are looked for in up to 2 000 rows and confirmed
in all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.threads import one_blas_thread
from craftc._common.typing import Bits, Floats

SAMPLE_ROWS = 2000  # rows in which relations are looked for
FEWEST_ROWS = 30  # rows that show a relation, and three for each number
WIDEST = 500  # numbers among which sums are looked for
_EXACT = 1e-9  # rounding of float64 in sums, relative to the largest cell
# largest deviation by rounded cells, in standard deviations of the column: of a sum, of shares of a whole
_ROUNDED, _PARTS = 1e-4, 0.05
_PERCENT = 0.2  # of shares in whole percent
_AS_ROUNDED = 1.25  # and their deviation, in that of independent roundings, at most
_MOST_SHARES = 50  # columns before one in whole percent: solving for more takes long
_WHOLES = (1.0, 100.0)  # whose parts are shares
_DECIMALS = 6
_SHOWN = 4  # columns that a reason names


def sums_of_others(numbers: Mapping[str, NDArray[np.floating]], kept: Collection[str] = ()) -> dict[str, str]:
    """The columns to leave out, each with the reason: ``{"total": "the sum of 'rent' and 'food'"}``.

    `numbers`: cells of numeric columns, NaN where one is missing; indicators, of two values, may be parts of
    a sum, as symptoms of their number, but are none themselves. `kept`: columns that stay.

    Of a sum of three parts or more the total is left out, of another relation the column that depends most on
    the others. Columns that repeat one other column are not meant here.
    """
    measured = [name for name, cells in numbers.items() if is_measured(cells)]
    names = [*(name for name, cells in numbers.items() if is_indicator(cells)), *measured]
    if not measured or len(measured) > WIDEST:
        return {}
    complete = _complete(numbers, names)
    if len(names) > WIDEST or complete.sum() < _fewest(names):
        names, complete = measured, _complete(numbers, measured)
    columns = [numbers[name][complete].astype(np.float64) for name in names]
    n = len(columns[0])
    if len(names) < 3 or n < _fewest(names) or not all(np.isfinite(cells).all() for cells in columns):
        return {}
    some = np.unique(np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.intp))
    sample = _stacked(columns, range(len(names)))[some]
    out: dict[str, str] = {}
    left, first = list(range(len(names))), len(names) - len(measured)
    with one_blas_thread():  # more threads wait for longer than this takes
        while (involved := _first_sum(columns, sample, left, first)) is not None:
            free = [j for j in involved if j >= first and names[j] not in kept]
            dropped = _total(columns, involved)
            if dropped not in free:
                dropped = most_dependent(sample, involved, free or involved[-1:])
            if free:
                parts = [j for j in involved if j != dropped]
                found = _solved(columns[dropped], _stacked(columns, parts))
                out[names[dropped]] = found.said([names[parts[i]] for i in found.parts])
            left.remove(dropped)
    return out


def _complete(numbers: Mapping[str, NDArray[np.floating]], names: Sequence[str]) -> Bits:
    """The rows without a missing cell in these columns."""
    complete = np.ones(len(numbers[names[0]]), bool)
    for name in names:
        complete &= ~np.isnan(numbers[name])
    return complete


def _fewest(names: Sequence[str]) -> int:
    """Rows that show a relation of these columns, at least."""
    return max(FEWEST_ROWS, 3 * len(names))


def numbers_or_flags(codes: NDArray[np.integer], levels: Sequence[object]) -> Floats | None:
    """The numbers of a categorical column; 0 and 1 where it has two other levels, in order; else None."""
    numbers = numbers_of(codes, levels)
    texts = [str(level) for level in levels if level is not None]
    if numbers is not None or len(texts) != 2:
        return numbers
    order = [None if level is None else sorted(texts).index(str(level)) for level in levels]
    return numbers_of(codes, order)


def numbers_of(codes: NDArray[np.integer], levels: Sequence[object]) -> Floats | None:
    """The cells of a categorical column whose levels are all numbers: scores of an answer, for example.

    `codes` index `levels`; -1 or a level None is a missing cell.
    """
    try:
        numbers = [np.nan if level is None else float(str(level)) for level in levels]
    except ValueError:
        return None
    cells: Floats = np.array([*numbers, np.nan])[codes]
    return cells


def is_measured(cells: NDArray[np.floating]) -> bool:
    """Whether a column has three or more values."""
    low, high = np.fmin.reduce(cells, initial=np.inf), np.fmax.reduce(cells, initial=-np.inf)
    return bool(((cells > low) & (cells < high)).any())


def is_indicator(cells: NDArray[np.floating]) -> bool:
    """Whether a column has two values."""
    low, high = np.fmin.reduce(cells, initial=np.inf), np.fmax.reduce(cells, initial=-np.inf)
    return bool(low < high) and not is_measured(cells)


@dataclass(frozen=True)
class _Sum:
    """A column as constant + weights @ x[parts], of other columns x."""

    parts: list[int]
    weights: Floats
    constant: float

    @property
    def plain(self) -> bool:
        """Whether columns are only added and taken away."""
        return bool(np.isin(self.weights, (-1.0, 1.0)).all())

    @property
    def of_mean(self) -> int | None:
        """Which column is the mean of the others: its place in `parts`, -1 for the column itself, or None."""
        n = len(self.weights)
        if n < 2 or self.constant != 0.0:
            return None
        if (self.weights == 1.0 / n).all():
            return -1
        largest = int(self.weights.argmax())
        of_part = np.where(np.arange(n) == largest, n, -1.0)  # a = 3 mean - b - c
        return largest if (self.weights == of_part).all() else None

    @property
    def shares(self) -> bool:
        """Whether the column is what others leave of a whole."""
        return bool((self.weights < 0.0).all())

    def holds(self, y: Floats, x: Floats) -> bool:
        """Whether the column y is the sum of `x` (n, parts) in every row, but for the rounding of cells."""
        rest = np.abs(y - x @ self.weights - self.constant)
        if rest.max() <= _EXACT * (np.abs(y).max() + np.abs(x).max(axis=0) @ np.abs(self.weights)):
            return True
        units = np.array([unit_of(y), *map(unit_of, x.T)])
        if self.of_mean is not None:
            most = (units[0] + units[1:] @ np.abs(self.weights)) / 2
            return bool(rest.max() <= most * (1 + 1e-6) and rest.std() <= _PARTS * y.std())
        if not self.plain:
            return False
        if rest.max() > units.sum() / 2 * (1 + 1e-6):
            return False
        if self.shares and np.isclose(self.constant, _WHOLES).any():
            deviation = np.sqrt((rest * rest).mean())
            if deviation <= min(_PERCENT * y.std(), _AS_ROUNDED * np.sqrt(units @ units / 12.0)):
                return True
        return bool(rest.std() <= (_PARTS if self.shares else _ROUNDED) * y.std())

    def said(self, names: Sequence[str]) -> str:
        """``the sum of 'a' and 'b'``, ``100 less 'a' and 'b'``, ``a weighted sum of 'a' and 'b'``."""
        if self.of_mean == -1:
            return f"the mean of {named(names)}"
        if not self.plain:
            return f"a weighted sum of {named(names)}"
        pairs = list(zip(names, self.weights, strict=True))
        added = [name for name, weight in pairs if weight > 0.0]
        taken = [name for name, weight in pairs if weight < 0.0]
        constant = float(f"{self.constant:.4g}")
        terms = [f"{constant:g}"] if abs(constant) > 1e-6 or not added else []
        if added:
            terms.append(named(added))
        several = len(terms) > 1 or len(added) > 1
        whole = f"the sum of {' and '.join(terms)}" if several else terms[0]
        return f"{whole} less {named(taken)}" if taken else whole


def _first_sum(columns: Sequence[Floats], sample: Floats, left: list[int], first: int) -> list[int] | None:
    """The first of the columns `left` that is a sum of earlier ones, after its parts; columns before `first`
    are only parts.

    The diagonal of R in X = Q R is what is left of a column without the earlier ones. Only where that is
    little is the column solved for them.
    """
    x = sample[:, left]
    centred = x - x.mean(axis=0)
    size = np.sqrt((centred * centred).sum(axis=0))
    varies = np.flatnonzero(size > _EXACT * np.abs(x).max(axis=0) * np.sqrt(len(x)))
    R = np.linalg.qr(centred[:, varies] / size[varies], mode="r")
    rest = np.abs(np.diagonal(R))
    for place in np.flatnonzero(rest < _PERCENT).tolist():
        basis = varies[:place][rest[:place] > _EXACT]
        j = varies[place]
        if len(basis) < 2 or left[j] < first:
            continue
        if rest[place] >= _PARTS and (len(basis) > _MOST_SHARES or not _is_percent(x[:, j])):
            continue
        found = _solved(x[:, j], x[:, basis])
        own = basis[found.parts]
        parts = [left[i] for i in own]
        if (
            len(parts) > 1
            and found.holds(x[:, j], x[:, own])
            and found.holds(columns[left[j]], _stacked(columns, parts))
        ):
            return [*parts, left[j]]
    return None


def _solved(y: Floats, x: Floats) -> _Sum:
    """Least squares; weights near -1, 0 and 1 are these, and columns of weight 0 are left out."""
    mean = x.mean(axis=0)
    centred = x - mean
    scale, size = np.sqrt((centred * centred).mean(axis=0)), y.std()
    weights = np.linalg.lstsq(centred / scale, y - y.mean(), rcond=None)[0] / scale
    whole = np.round(weights)
    rounded = np.flatnonzero(whole)
    most = _PERCENT if (whole <= 0.0).all() else _PARTS
    if np.abs(whole).max() == 1.0 and (y - x @ whole).std() < most * size:
        plain = _Sum([], whole[rounded], float(np.median(y - x @ whole)))
        if len(rounded) == len(whole) or plain.holds(y, x[:, rounded]):
            weights = whole
    n = max(1, round(1.0 / max(weights.max(), 1.0 / len(weights))))  # columns of a mean, by its weight
    near = np.round(weights * n) / n
    mean = _Sum(np.flatnonzero(near).tolist(), near[near != 0.0], 0.0)
    if mean.of_mean is not None and mean.holds(y, x[:, mean.parts]):
        return mean
    parts = np.flatnonzero(np.abs(weights) * scale > _ROUNDED * size)
    weights = weights[parts]
    without = _Sum(parts.tolist(), weights, 0.0)
    if without.holds(y, x[:, parts]):  # the median of rounded cells is hardly ever 0
        return without
    return _Sum(parts.tolist(), weights, float(np.median(y - x[:, parts] @ weights)))


def _is_percent(x: Floats) -> bool:
    """Whether cells may be shares in whole percent."""
    whole = 1.0 if x.max() <= 1.0 else 100.0
    return bool(x.min() >= 0.0 and x.max() <= whole and unit_of(x) == whole / 100.0)


def unit_of(x: Floats) -> float:
    """The unit to which cells are rounded: 1, .1, ...; 0 if they have more than six decimals."""
    for decimals in range(_DECIMALS + 1):
        if np.abs(np.round(x, decimals) - x).max() <= _EXACT * max(1.0, float(np.abs(x).max())):
            return float(10.0**-decimals)
    return 0.0


def _total(columns: Sequence[Floats], involved: Sequence[int]) -> int | None:
    """The mean of others, or the plain sum of three or more, if one is; the last column depends on others."""
    *parts, last = involved
    found = _solved(columns[last], _stacked(columns, parts))
    if (mean := found.of_mean) is not None:
        return last if mean < 0 else parts[found.parts[mean]]
    if len(parts) < 3 or not found.plain or len(found.parts) < len(parts):
        return None
    signs = [*found.weights.tolist(), -1.0]
    alone = [j for j, sign in zip(involved, signs, strict=True) if signs.count(sign) == 1]
    return alone[0] if alone else None


def most_dependent(sample: Floats, involved: list[int], free: list[int], latest: float = 1.0) -> int:
    """The column whose squared correlations with the others have the largest sum, or the last one with this
    share of it.
    """
    squares = np.corrcoef(sample[:, involved], rowvar=False) ** 2
    score = {j: round(float(total), 6) for j, total in zip(involved, squares.sum(axis=0), strict=True)}
    return max(j for j in free if score[j] >= latest * max(score[each] for each in free))


def named(names: Sequence[str]) -> str:
    shown = [quoted(name) for name in names]
    if len(shown) > _SHOWN + 1:
        shown[_SHOWN:] = [f"{len(shown) - _SHOWN} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _stacked(columns: Sequence[Floats], positions: Iterable[int]) -> Floats:
    return np.column_stack([columns[j] for j in positions])
