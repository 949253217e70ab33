"""Nearest rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from craftc._common.typing import Floats


def nearest_rows(rows: Floats, queries: Floats | None, k: int) -> tuple[Floats, NDArray[np.intp]]:
    """The k rows nearest to every query: (n, k) distances and positions; without queries, to every row,
    itself left out.

    One thread: the OpenMP runtime of scikit-learn, too, cannot continue in a child that was forked after a
    parallel region.
    """
    with threadpool_limits(1, "openmp"):
        found: tuple[Floats, NDArray[np.intp]] = NearestNeighbors(n_neighbors=k).fit(rows).kneighbors(queries)
    return found
