"""lambda^2 of DP-means from the table: a price by the search, a radius by farthest-first traversal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from craftc._common.cluster_moments import (
    ROWS_PER_CLUSTER,
    clearer_choice,
    consistent_choice,
    description_length,
    effective_dimensions,
    some_for_dimensions,
)
from craftc._common.dense_data import DenseData, L
from craftc._common.random import SAMPLE_ROWS, DPMeansStream, spread
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.descent import DPMeansRows, S, SphericalDescent, SphericalFit
from craftc.dpmeans.split_search import FAST, MOST_CHOSEN, MOST_PAIRED, THOROUGH, SplitSearch

# rows of a table in which clusters of few rows are sought: where others hardly describe it, and always
_MOST_REPLICATED, _ALWAYS_REPLICATED = 1 << 10, 1 << 7
_SOME = 64  # rows, about, whose distances to the others show that they may be replicates
_FAR, _CHANCE = 8.0, 60.0  # least ratio of costs of merges; rows and dimensions by which chance matters
_PAST = 2  # times the largest number that is asked for: clusters up to which the best number is sought
_PATIENCE = 8  # values of the path after the last improvement
_FEWEST_SEARCHED = 1 << 13  # rows of the sample of a wide table, at least
_CELLS_SEARCHED = 1 << 21  # cells of a sample; a wide table has fewer rows in it
_SEARCHED_TWICE = 1 << 17  # cells of a table below which a second, thorough search pays
_FEWEST_PER_CLUSTER, _MOST_PER_CLUSTER = 64, 256  # rows of the sample for each cluster that is asked for
_MODE_ROWS = 1 << 11  # rows of the sample by which the mode is chosen
_ROWS_PER_RADIUS = 4  # rows of a cluster that show its radius, at least
_MARGIN = 1.1  # factor of the largest squared distance to a centre of the sample, for rows outside it
_HALVINGS = 5  # halvings of the logarithmic interval in which the largest lambda^2 lies


def farthest_first(data: DenseData, n_clusters: int) -> tuple[NDArray[np.intp], Floats]:
    """Rows of a farthest-first traversal from the grand mean, and their squared distances when they were
    added (Kulis & Jordan 2012).

    The k-th distance is the lambda^2 at which serial DP-means opens about k clusters. The first row wins a
    tie.
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


def choose_penalty(
    rows: DenseData, fit: Callable[[float], SphericalFit[Labels]], cap: int
) -> tuple[float, SphericalFit[Labels]]:
    """The lambda^2 along the farthest-first path whose partition has the smallest description length; one
    cluster is a candidate.

    `fit`: runs a descent at a lambda^2. `cap`: maximal number of clusters.

    Returns lambda^2, about the largest that gives this partition; the first of the path (no row is
    further from the mean) if one cluster is best; and the partition.
    """

    most = max(1, min(cap, MOST_CHOSEN, int(rows.total // ROWS_PER_CLUSTER), len(rows)))
    path = [float(penalty) for penalty in farthest_first(rows, most)[1]]
    fits = cache(fit)
    while path[0] > 0 and len(fits(path[0]).sizes) > 1:  # collapsed moves count the effect on the mean, too
        path[0] *= 2.0

    def choose(dimensions: float) -> tuple[float, SphericalFit[Labels]]:
        return _along_path(path, fits, partial(_length, rows, dimensions))

    def dimensions_of(chosen: tuple[float, SphericalFit[Labels]]) -> float:
        return _dimensions(rows, chosen[1].labels)

    chosen = consistent_choice(choose, dimensions_of, _dimensions(rows, rows.one_cluster()))
    return clearer_choice(
        chosen,
        (dimensions_of(chosen), _dimensions(rows, fits(path[-1]).labels)),
        choose,
        lambda found, dimensions: _length(rows, dimensions, found[1].sizes, found[1].inertia),
        lambda found: SplitSearch(rows, labels=found[1].labels.copy()).is_clear,
    )


def _along_path(
    path: list[float], fit: Callable[[float], SphericalFit[Labels]], length: Callable[[Floats, float], float]
) -> tuple[float, SphericalFit[Labels]]:
    """The lambda^2 whose partition has the smallest description length, and the partition."""

    def length_of(found: SphericalFit[Labels]) -> float:
        return length(found.sizes, found.inertia)

    chosen, best, k_best = path[0], fit(path[0]), 0
    for k, penalty in enumerate(path[1:], 1):
        found = fit(penalty)
        if len(found.sizes) > len(path) or k > k_best + _PATIENCE:
            break
        if length_of(found) < length_of(best) - 1e-9:
            chosen, best, k_best = penalty, found, k
    # values up to the previous one may give the same clusters; the largest that does is the most robust to
    # outliers
    too_large = path[max(k_best - 1, 0)]
    for _ in range(_HALVINGS if k_best else 0):
        penalty = math.sqrt(chosen) * math.sqrt(too_large)
        found = fit(penalty)
        if length_of(found) <= length_of(best) + 1e-9:
            chosen, best = penalty, found
        else:
            too_large = penalty
    return chosen, best


def choose_by_sample(
    rows: DPMeansRows[S, L], fit: Callable[[DenseData, float], SphericalFit[Labels]], cap: int, seed: int
) -> tuple[float, S | None]:
    """lambda^2 of :func:`choose_penalty`; of a large table by a sample, with the partition of all rows."""
    if rows.n_counted <= SAMPLE_ROWS:
        data = rows.gathered()
        return choose_penalty(data, partial(fit, data), cap)[0], None
    sample = sample_of(rows, SAMPLE_ROWS, seed)
    penalty, best = choose_penalty(sample, partial(fit, sample), cap)
    # rows outside the sample may be further out; neither they nor small moves of the means should open
    # clusters
    return max(penalty, _MARGIN * rows.farthest(best.centers)[0]), rows.nearest_labels(best.centers)


def searched_centers(
    rows: DPMeansRows[S, L], penalty: float | str, n_clusters: int | None, cap: int, seed: int, whole: bool
) -> tuple[float, Floats]:
    """lambda^2 as the price of a cluster, and the centres (K, D) of the search.

    `penalty`: "auto": the middle of the prices at which neither a cut nor a merge pays. `n_clusters`:
    number of clusters; None: the number that pays at the price or, at the price "auto", gives the smallest
    description length. `cap`: the number of clusters where that would be larger. `whole`: search in all rows,
    not in a sample of a large table.
    """
    given = n_clusters if n_clusters is not None else None if isinstance(penalty, str) else cap
    if given is None:
        search = _of_any_number(rows, _PAST * cap + _PATIENCE, seed, whole)
        share = search.data.total / rows.table.total
        given = cap if cap < search.K else None
    if given is not None:
        sample = rows.counted() if whole else some_rows(rows, seed, given)
        share = sample.total / rows.table.total
        price = 0.0 if isinstance(penalty, str) else penalty * share
        schedules = [FAST, THOROUGH] if sample.X.size < _SEARCHED_TWICE else [FAST]
        searches = [SplitSearch(sample, schedule) for schedule in schedules]
        for one in searches:
            one.run(min(int(given), rows.n_counted), price)
        search = min(searches, key=lambda one: one.inertia + (one.K - 1) * price)
    if isinstance(penalty, str):
        penalty = sum(search.price_range()) / 2 / share
    return float(penalty), search.centers


def _of_any_number(rows: DPMeansRows[S, L], cap: int, seed: int, whole: bool) -> SplitSearch:
    """The search for the shortest description; again in more rows where it finds many clusters."""
    few, more = (rows.n_counted if whole else _rows_searched(rows, n) for n in (1, None))
    search = _shortest(_some(rows, few, seed), cap)
    return (
        _shortest(_some(rows, more, seed), cap) if few < min(more, _MOST_PER_CLUSTER * search.K) else search
    )


def _shortest(sample: DenseData, cap: int) -> SplitSearch:
    """The search for the shortest description, with the dimensions of the scatter within its clusters, or
    within many small ones.
    """
    most = max(1, min(cap, MOST_PAIRED, int(sample.total // ROWS_PER_CLUSTER), len(sample)))

    def choose(dimensions: float) -> tuple[SplitSearch, float]:
        search = SplitSearch(sample)
        search.choose(most, partial(_length, sample, dimensions))
        return search, dimensions

    chosen = consistent_choice(
        choose,
        lambda found: _dimensions(sample, found[0].labels),
        _dimensions(sample, sample.one_cluster()),
    )
    search, before = chosen
    found = clearer_choice(
        chosen,
        (before, _dimensions(sample, search.most_cut)),
        choose,
        lambda found, dimensions: _length(sample, dimensions, found[0].sizes, found[0].inertia),
        lambda found: found[0].is_clear,
    )[0]
    few = 1 < found.K < most // 2 and sample.total > _ALWAYS_REPLICATED
    return found if few else _replicates(sample, cap, most) or found


def _replicates(sample: DenseData, cap: int, others: int) -> SplitSearch | None:
    """Clusters of less than five rows on average that are far apart, more than the `others` at most that the
    description length may choose; None without any.

    Noise of N rows in d dimensions has clusters that are as far apart by chance with a probability of less
    than 1 in 1000, for normal and uniform rows in 1 to 10 columns.
    """
    N, most = sample.total, min(cap, MOST_PAIRED, int(sample.total // 2), len(sample) // 2)
    if not others < most or N > _MOST_REPLICATED:
        return None
    squared = _squared_distances(sample, -(-len(sample) // _SOME))
    if not _FAR * squared.min(axis=0).max() < np.median(squared):
        return None
    whole = _dimensions(sample, sample.one_cluster())

    def clear(pieces: Labels) -> float:
        return max(_FAR, math.exp(min(_CHANCE / (N * max(whole, _dimensions(sample, pieces))), 300.0)))

    search = SplitSearch(sample, THOROUGH)
    return search if search.choose_small(others + 1, most, clear) else None


def _squared_distances(sample: DenseData, step: int = 1) -> Floats:
    """(n, m) squared distances of all rows to every `step`-th row; inf of a row to itself."""
    rows = np.arange(0, len(sample), step)
    squared = np.empty((len(sample), len(rows)))
    _kernel.distances(sample.X, sample.X[rows].astype(np.float64), squared, sample.n_threads)
    squared[rows, np.arange(len(rows))] = np.inf
    return squared


def sample_of(rows: DPMeansRows[S, L], n: int, seed: int) -> DenseData:
    """n of the rows of weight > 0."""
    return rows.gathered(spread(rows.n_counted, n, seed, DPMeansStream.PENALTY_SAMPLE))


def some_rows(rows: DPMeansRows[S, L], seed: int, n_clusters: int | None = None) -> DenseData:
    """The rows of weight > 0, or those of a large table that are searched."""
    return _some(rows, _rows_searched(rows, n_clusters), seed)


def _some(rows: DPMeansRows[S, L], n: int, seed: int) -> DenseData:
    return rows.counted() if n == rows.n_counted else sample_of(rows, n, seed)


def _rows_searched(rows: DPMeansRows[S, L], n_clusters: int | None) -> int:
    """Rows in which a number of clusters is searched for, or any number."""
    n, fitting = rows.n_counted, _CELLS_SEARCHED // rows.table.n_columns
    most = (
        min(fitting, SAMPLE_ROWS)
        if n_clusters is None
        else min(max(fitting, _FEWEST_PER_CLUSTER * n_clusters), _MOST_PER_CLUSTER * n_clusters)
    )
    most = max(most, _FEWEST_SEARCHED)
    return int(n if n <= max(most, SAMPLE_ROWS) else most)


def price_path(rows: DPMeansRows[S, L], n_clusters: int, seed: int) -> Floats:
    """(n_clusters,) the price of a cluster above which no further cut pays, for K = 1, 2, ..."""
    sample = some_rows(rows, seed)
    search, found, path = SplitSearch(sample), np.empty(0), np.zeros(n_clusters)
    while len(found) < n_clusters and len(gains := search.grow(n_clusters + 1)):
        found = np.concatenate([found, gains])
    path[: len(found)] = np.minimum.accumulate(found[:n_clusters])
    path *= rows.table.total / sample.total
    return path


def _length(data: DenseData, dimensions: float, sizes: Floats, inertia: float) -> float:
    return description_length(sizes, dimensions, inertia, data.scatter)


def _dimensions(data: DenseData, labels: Labels) -> float:
    """Dimensions of the scatter within clusters; of a wide table by rows at even distances."""
    rows = some_for_dimensions(len(data), data.n_columns)
    weight = data.weight[rows].astype(np.float64) if len(data.weight) else None
    K = int(labels.max()) + 1
    return effective_dimensions(data.X[rows] - data.means(data.sums_of(labels, K), K)[labels[rows]], weight)


def paper_mode(rows: DPMeansRows[S, L], penalty: float, seed: int) -> str:
    """The mode of the paper's algorithm: "serial" where lambda^2 is above typical squared distances of two
    rows of a cluster.

    Below them serial sweeps open clusters at rows within clusters. The squared distance of two rows is twice
    that of a row and its mean, which delayed sweeps of a sample give; they only lower it, and end where
    lambda^2 is above it. Where they open too many clusters for that, nearest rows decide.
    """
    n = rows.n_counted
    sample = (
        rows.counted()
        if n <= _MODE_ROWS
        else rows.gathered(spread(n, _MODE_ROWS, seed, DPMeansStream.MODE_SAMPLE))
    )
    most = len(sample) // _ROWS_PER_RADIUS
    descent = SphericalDescent(sample, penalty, most + 1, None, sample.order(0, 0))

    def typical() -> float:
        return float(2.0 * descent.inertia / sample.total)

    path: list[float] = []
    converged = False
    while not converged and penalty < typical() and len(path) < most:
        converged = descent.run(descent.delayed, path, 1)[1]
    if penalty >= typical():
        return "serial"
    if most > descent.rows.K:
        return "delayed"
    if n <= SAMPLE_ROWS:
        return "serial"  # which is fast enough, and lambda^2 may ask for a cluster per row
    return "serial" if penalty >= np.median(_squared_distances(sample).min(axis=1)) else "delayed"
