"""Columns that are sums of other columns: a total, a difference, the last of the shares of a whole.

Such a column counts twice what is already in the table, and rows with a large total look like a cluster
although nothing but the sum connects the columns. Relations are looked for in up to 2 000 rows and confirmed
in all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.typing import Floats

_SAMPLE = 2000  # rows in which relations are looked for
_FEWEST = 30  # rows that show a relation, and three for each number
_WIDEST = 500  # numbers among which sums are looked for
_EXACT = 1e-9  # rounding of float64 in sums, relative to the largest cell
# largest deviation by rounded cells, in standard deviations of the column: of a sum, of shares of a whole
_ROUNDED, _PARTS = 1e-4, 0.05
_DECIMALS = 6
_SHOWN = 4  # columns that a reason names


def sums_of_others(numbers: Mapping[str, NDArray[np.floating]], kept: Collection[str] = ()) -> dict[str, str]:
    """The columns to leave out, each with the reason: ``{"total": "the sum of 'rent' and 'food'"}``.

    `numbers`: cells of numeric columns, NaN where one is missing; indicators, of two values, take no part.
    `kept`: columns that stay.

    Of a sum and its parts the column is left out that depends most on the others: the total. Where parts add
    up to a constant, it is one of them. Columns that repeat one other column are not meant here.
    """
    names = [name for name, cells in numbers.items() if _is_measured(cells)]
    if not 3 <= len(names) <= _WIDEST:
        return {}
    X = np.column_stack([numbers[name] for name in names]).astype(np.float64)
    X = X[~np.isnan(X).any(axis=1)]
    if len(X) < max(_FEWEST, 3 * len(names)) or not np.isfinite(X).all():
        return {}
    sample = X[_sample(len(X))]
    out: dict[str, str] = {}
    left = list(range(len(names)))
    while (found := _relation(sample[:, left], X[:, left])) is not None:
        involved = [left[i] for i in [*found.parts, found.column]]
        free = [j for j in involved if names[j] not in kept]
        dropped = _most_dependent(sample, involved, free or [left[found.column]])
        if free:
            parts = [j for j in involved if j != dropped]
            out[names[dropped]] = _reason(_solved(X, dropped, parts), names)
        left.remove(dropped)
    return out


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


def _is_measured(cells: NDArray[np.floating]) -> bool:
    """Whether a column has three or more values."""
    low, high = np.fmin.reduce(cells, initial=np.inf), np.fmax.reduce(cells, initial=-np.inf)
    return bool(((cells > low) & (cells < high)).any())


@dataclass(frozen=True)
class _Relation:
    """A column as a sum of others: x[column] = constant + coefficients @ x[parts]."""

    column: int
    parts: list[int]
    coefficients: Floats
    constant: float


def _relation(sample: Floats, X: Floats) -> _Relation | None:
    """The first column that is a sum of earlier ones.

    Earlier columns are made orthogonal (Gram-Schmidt); a column is solved for them only where little is left
    of it.
    """
    centred = sample - sample.mean(axis=0)
    size = np.sqrt((centred * centred).sum(axis=0))
    varies = size > _EXACT * np.abs(sample).max(axis=0) * np.sqrt(len(sample))
    basis: list[int] = []
    Q = np.empty((len(sample), sample.shape[1]))
    for j in np.flatnonzero(varies).tolist():
        rest, k = centred[:, j] / size[j], len(basis)
        for _ in range(2):
            rest = rest - Q[:, :k] @ (rest @ Q[:, :k])
        left = float(np.sqrt(rest @ rest))
        if left < _PARTS and k > 1:
            found = _solved(sample, j, basis)
            if _holds(found, sample) and _holds(found, X):
                return found
        if left > _EXACT:
            Q[:, k] = rest / left
            basis.append(j)
    return None


def _solved(X: Floats, column: int, parts: Sequence[int]) -> _Relation:
    """Least squares; coefficients near -1, 0 and 1 are these, and parts of coefficient 0 are left out."""
    mean = X.mean(axis=0)
    centred = X - mean
    scale = np.sqrt((centred * centred).mean(axis=0))
    parts = list(parts)
    solved = np.linalg.lstsq(centred[:, parts] / scale[parts], centred[:, column], rcond=None)[0]
    coefficients = solved / scale[parts]
    whole = np.round(coefficients)
    if np.abs(whole).max() == 1.0 and _deviation(X, column, parts, whole) < _PARTS * scale[column]:
        coefficients = whole
    used = np.abs(coefficients) * scale[parts] > _ROUNDED * scale[column]
    parts = [j for j, each in zip(parts, used, strict=True) if each]
    coefficients = coefficients[used]
    return _Relation(column, parts, coefficients, float(np.median(X[:, column] - X[:, parts] @ coefficients)))


def _deviation(X: Floats, column: int, parts: list[int], coefficients: Floats) -> float:
    rest = X[:, column] - X[:, parts] @ coefficients
    return float(rest.std())


def _holds(relation: _Relation, X: Floats) -> bool:
    """Whether a relation of three or more columns holds in every row, but for the rounding of cells."""
    parts, weights = relation.parts, relation.coefficients
    if len(parts) < 2:
        return False
    y = X[:, relation.column]
    rest = np.abs(y - X[:, parts] @ weights - relation.constant)
    exact = _EXACT * (np.abs(y).max() + np.abs(X[:, parts]).max(axis=0) @ np.abs(weights))
    if rest.max() <= exact:
        return True
    if not np.isin(weights, (-1.0, 1.0)).all():
        return False
    units = np.array([_unit(X[:, j]) for j in [relation.column, *parts]])
    shares = bool((weights < 0.0).all())
    bound = _PARTS if shares else _ROUNDED
    return bool(rest.max() <= units.sum() / 2 * (1 + 1e-6) and rest.std() <= bound * y.std())


def _unit(x: Floats) -> float:
    """The unit to which cells are rounded: 1, .1, ...; 0 if they have more than six decimals."""
    for decimals in range(_DECIMALS + 1):
        if np.abs(np.round(x, decimals) - x).max() <= _EXACT * max(1.0, float(np.abs(x).max())):
            return float(10.0**-decimals)
    return 0.0


def _most_dependent(sample: Floats, involved: list[int], free: list[int]) -> int:
    """The column whose squared correlations with the others have the largest sum; the last of equal ones."""
    squares = np.corrcoef(sample[:, involved], rowvar=False) ** 2
    score = {j: round(float(total), 6) for j, total in zip(involved, squares.sum(axis=0), strict=True)}
    return max(free, key=lambda j: (score[j], j))


def _reason(relation: _Relation, names: Sequence[str]) -> str:
    """``the sum of 'a' and 'b'``, ``'a' less 'b'``, ``100 less 'a' and 'b'``, ``a weighted sum of ...``."""
    weights = relation.coefficients
    if not np.isin(weights, (-1.0, 1.0)).all():
        return f"a weighted sum of {_listed(relation.parts, names)}"
    added = [j for j, weight in zip(relation.parts, weights, strict=True) if weight > 0.0]
    taken = [j for j, weight in zip(relation.parts, weights, strict=True) if weight < 0.0]
    constant = float(f"{relation.constant:.4g}")
    terms = [f"{constant:g}"] if abs(constant) > 1e-6 or not added else []
    if added:
        terms.append(_listed(added, names))
    whole = f"the sum of {' and '.join(terms)}" if len(terms) + len(added) > 2 or len(added) > 1 else terms[0]
    return f"{whole} less {_listed(taken, names)}" if taken else whole


def _listed(columns: Sequence[int], names: Sequence[str]) -> str:
    shown = [quoted(names[j]) for j in columns[:_SHOWN]]
    if len(columns) > _SHOWN:
        shown.append(f"{len(columns) - _SHOWN} others")
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _sample(n: int) -> NDArray[np.intp]:
    """Rows of the whole table at equal distances."""
    return np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.intp)) if n else np.empty(0, np.intp)
