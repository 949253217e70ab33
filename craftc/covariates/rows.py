"""Rows of a fit and new ones: weights, missing cells, and the covariates less their means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from craftc._common.typing import Bits, Floats
from craftc._fusion.datafits import Matrix

_LARGE, _SPARSE = 10**6, 0.1  # entries of a dense table, and share of nonzeros, from which it becomes sparse


class Covariates(NamedTuple):
    """The covariates (n, d) as given, for the evidence, and less their means `centre` (d,).

    The intercept compensates the means; steps lose fewer digits where columns are far from the origin.
    """

    given: Matrix
    centred: Matrix
    centre: Floats

    @classmethod
    def of(cls, X: Matrix, solver: str, weight: Floats | None) -> Covariates:
        """Centre a dense table, unless for the paper; a large one with few nonzeros becomes sparse."""
        if isinstance(X, np.ndarray) and X.size > _LARGE and np.count_nonzero(X) < _SPARSE * X.size:
            X = csr_array(X)
        if not isinstance(X, np.ndarray) or solver == "paper":
            return cls(X, X, np.zeros(X.shape[1]))
        centre = X.mean(axis=0) if weight is None else np.asarray(weight @ X / weight.sum())
        return cls(X, X - centre, centre)


def missing_cells(X: Matrix) -> Bits | None:
    """Which of the stored cells are NaN; None if none is."""
    cells = X if isinstance(X, np.ndarray) else X.data
    return np.isnan(cells) if cells.size and np.isnan(cells.min()) else None


def present_means(X: Matrix, weight: Floats | None) -> Floats:
    """(d,) means of the cells that are present; NaN where none is."""
    weight = np.ones(X.shape[0]) if weight is None else weight
    missing = missing_cells(X)
    gone = None if missing is None else _like(X, missing.astype(np.float64)).T @ weight
    sums = filled(X, np.zeros(X.shape[1])).T @ weight
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / (weight.sum() - (0.0 if gone is None else gone)))


def filled(X: Matrix, means: Floats) -> Matrix:
    """The table with these numbers (d,) in place of missing cells."""
    missing = missing_cells(X)
    if missing is None:
        return X
    if isinstance(X, np.ndarray):
        return np.where(missing, means, X)
    return _like(X, np.where(missing, means[X.indices], X.data))


def _like(X: Matrix, cells: Floats) -> Matrix:
    """A table with these cells where X has some."""
    return cells if isinstance(X, np.ndarray) else csr_array((cells, X.indices, X.indptr), X.shape)
