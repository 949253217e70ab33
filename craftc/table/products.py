"""Columns that are products or quotients of other columns: revenue of quantity and price, BMI of weight and
height.

They are sums of logarithms, and count twice what is already in the table as sums do
(:mod:`craftc.table.sums`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.threads import one_blas_thread
from craftc._common.typing import Floats
from craftc.table.extremes import extremes_of_others
from craftc.table.rates import rates_of_others
from craftc.table.sums import (
    FEWEST_ROWS,
    SAMPLE_ROWS,
    WIDEST,
    is_measured,
    most_dependent,
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
        if _holds(product, left[place], parts, cells, positive, units):
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


def _holds(
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
