"""lambda^2 of DP-means from the table: farthest-first traversal, and the choice along it by description length."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from craftc._common.description_length import ROWS_PER_CLUSTER, description_length
from craftc._common.points import Points
from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.descent import Outcome

_PATIENCE = 8  # values of the path tried without a better one
MOST_CHOSEN = 128
_HALVINGS = 5


def farthest_first(points: Points, n_clusters: int) -> tuple[NDArray[np.intp], Floats]:
    """Rows of a farthest-first traversal from the grand mean, and their squared distances when they were added (Kulis & Jordan 2012).

    The k-th distance is the lambda^2 at which serial DP-means opens about k clusters. Ties go to the first row; it ends early
    where all rows coincide with one that was added.
    """
    X, n = points.X, len(points)
    rows, found = np.zeros(n_clusters, np.intp), np.zeros(n_clusters)
    nearest, centre = np.full(n, np.inf), points.mean
    if len(points.weight):
        nearest[points.weight == 0] = 0.0
    threads = threads_for(points.n_threads, 2 * X.size)
    for k in range(n_clusters):
        _kernel.draw_near(X, centre, nearest, threads)
        rows[k] = int(nearest.argmax())
        found[k] = nearest[rows[k]]
        centre = X[rows[k]].astype(np.float64)
    return rows, found


def choose_penalty(rows: Points, fit: Callable[[float], Outcome], cap: int) -> tuple[float, Outcome]:
    """The lambda^2 along the farthest-first path whose partition has the least description length; one cluster competes.

    Parameters
    ----------
    rows : Points
    fit : callable
        Descends at a lambda^2.
    cap : int
        Most clusters.

    Returns
    -------
    float
        lambda^2, about the largest that gives this partition; the first of the path (no row is further from the mean) when one
        cluster is best.
    Outcome
        The partition.
    """

    def length(outcome: Outcome) -> float:
        return description_length(outcome.sizes, rows.X.shape[1], outcome.inertia, rows.scatter)

    most = max(1, min(cap, MOST_CHOSEN, int(rows.total // ROWS_PER_CLUSTER), len(rows)))
    path = [float(penalty) for penalty in farthest_first(rows, most)[1]]
    chosen, best, k_best = path[0], fit(path[0]), 0
    for k, penalty in enumerate(path[1:], 1):
        outcome = fit(penalty)
        if len(outcome.sizes) > most or k > k_best + _PATIENCE:
            break
        if length(outcome) < length(best) - 1e-9:
            chosen, best, k_best = penalty, outcome, k
    # anything up to the value before may give the same clusters: the largest that does is safest from stray rows
    too_much = path[max(k_best - 1, 0)]
    for _ in range(_HALVINGS if k_best else 0):
        penalty = math.sqrt(chosen) * math.sqrt(too_much)
        outcome = fit(penalty)
        if length(outcome) <= length(best) + 1e-9:
            chosen, best = penalty, outcome
        else:
            too_much = penalty
    return chosen, best
