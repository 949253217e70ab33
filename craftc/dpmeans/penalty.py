"""lambda^2 of DP-means from the table: farthest-first traversal, and the choice along it by description length."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData
from craftc._common.description_length import ROWS_PER_CLUSTER, description_length
from craftc._common.random import DPMeansStream, spread
from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.descent import SphericalFit

_PATIENCE = 8  # values of the path that are tried without an improvement
MOST_CHOSEN = 128
_SAMPLE = 1 << 14  # rows by which lambda^2 is chosen for larger tables
_MARGIN = 1.1
_HALVINGS = 5


def farthest_first(data: DenseData, n_clusters: int) -> tuple[NDArray[np.intp], Floats]:
    """Rows of a farthest-first traversal from the grand mean, and their squared distances when they were added (Kulis & Jordan 2012).

    The k-th distance is the lambda^2 at which serial DP-means opens about k clusters. The first row wins a tie.
    """
    X, n = data.X, len(data)
    rows, found = np.zeros(n_clusters, np.intp), np.zeros(n_clusters)
    squared, centre = np.full(n, np.inf), data.mean
    if len(data.weight):
        squared[data.weight == 0] = 0.0
    threads = threads_for(data.n_threads, 2 * X.size)
    for k in range(n_clusters):
        _kernel.update_nearest(X, centre, squared, threads)
        rows[k] = int(squared.argmax())
        found[k] = squared[rows[k]]
        centre = X[rows[k]].astype(np.float64)
    return rows, found


def choose_penalty(rows: DenseData, fit: Callable[[float], SphericalFit], cap: int) -> tuple[float, SphericalFit]:
    """The lambda^2 along the farthest-first path whose partition has the smallest description length; one cluster is a candidate.

    Parameters
    ----------
    rows : DenseData
    fit : callable
        Runs a descent at a lambda^2.
    cap : int
        Maximal number of clusters.

    Returns
    -------
    float
        lambda^2, about the largest that gives this partition; the first of the path (no row is further from the mean) if one
        cluster is best.
    SphericalFit
        The partition.
    """

    def length(found: SphericalFit) -> float:
        return description_length(found.sizes, rows.X.shape[1], found.inertia, rows.scatter)

    most = max(1, min(cap, MOST_CHOSEN, int(rows.total // ROWS_PER_CLUSTER), len(rows)))
    path = [float(penalty) for penalty in farthest_first(rows, most)[1]]
    chosen, best, k_best = path[0], fit(path[0]), 0
    for k, penalty in enumerate(path[1:], 1):
        found = fit(penalty)
        if len(found.sizes) > most or k > k_best + _PATIENCE:
            break
        if length(found) < length(best) - 1e-9:
            chosen, best, k_best = penalty, found, k
    # values up to the previous one may give the same clusters; the largest that does is the most robust to outliers
    too_large = path[max(k_best - 1, 0)]
    for _ in range(_HALVINGS if k_best else 0):
        penalty = math.sqrt(chosen) * math.sqrt(too_large)
        found = fit(penalty)
        if length(found) <= length(best) + 1e-9:
            chosen, best = penalty, found
        else:
            too_large = penalty
    return chosen, best


def choose_by_sample(rows: Any, fit: Callable[[DenseData, float], SphericalFit], cap: int, seed: int) -> tuple[float, Any]:
    """The lambda^2 of :func:`choose_penalty`; for a large table that of a sample, and the partition of all rows by its centres.

    `rows` is a LocalRows or PartitionedRows.
    """
    if rows.n_counted <= _SAMPLE:
        data = rows.gathered()
        return choose_penalty(data, partial(fit, data), cap)[0], None
    sample = rows.gathered(spread(rows.n_counted, _SAMPLE, seed, DPMeansStream.PENALTY_SAMPLE))
    penalty, best = choose_penalty(sample, partial(fit, sample), cap)
    # rows outside the sample may be further out; neither they nor small moves of the means should open clusters
    labels, largest = rows.nearest_labels(best.centers)
    return max(penalty, _MARGIN * largest), labels
