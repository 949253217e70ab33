"""Matrix products whose bits do not depend on the batch (BLAS gives no such guarantee), and nearest rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from threadpoolctl import threadpool_limits

from craftc._common.typing import Array, Floats

_CELLS = 1 << 18  # cells of the rows of one sparse product; bounds its memory


def row_products(rows: Array | csr_array, factor: Array) -> Floats:
    """(n, m) product of rows (n, D), dense or sparse, and a factor (D, m), added in order of columns."""
    if issparse(rows):
        return np.asarray(rows @ factor)
    n, D = rows.shape
    out = np.empty((n, factor.shape[1]))
    step = max(1, _CELLS // max(D, 1))
    for first in range(0, n, step):  # as a sparse matrix without zeros, whose rows are multiplied one by one
        part = np.ascontiguousarray(rows[first : first + step], np.float64)
        each = np.tile(np.arange(D), len(part)), np.arange(len(part) + 1) * D
        out[first : first + step] = csr_array((part.reshape(-1), *each), part.shape) @ factor
    return out


def row_sums(rows: Array) -> Floats:
    """(n,) sums of rows (n, D); columns are added in their order, whatever the layout of the memory."""
    out = np.zeros(len(rows))
    for column in rows.T:
        out += column
    return out


def nearest_rows(rows: Floats, queries: Floats | None, k: int) -> tuple[Floats, NDArray[np.intp]]:
    """The k rows nearest to every query: (n, k) distances and positions; without queries, to every row,
    itself left out.

    One thread: the OpenMP runtime of scikit-learn, too, cannot continue in a child that was forked after a
    parallel region.
    """
    from sklearn.neighbors import NearestNeighbors

    with threadpool_limits(1, "openmp"):
        found: tuple[Floats, NDArray[np.intp]] = NearestNeighbors(n_neighbors=k).fit(rows).kneighbors(queries)
    return found
