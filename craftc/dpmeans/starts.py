"""The starts of a fit of DP-means: lambda^2, start partitions, and the best of the descents, wherever the
rows are.

Without a start that the user names, mode "auto" searches for the partition (`split_search`) where the number
of clusters is given, bounded or open. With lambda^2 alone it is the paper's algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Generic, Protocol

import numpy as np
from numpy.typing import ArrayLike

from craftc._common.dense_data import DenseData, L
from craftc._common.estimator import warn_not_converged, warn_of_exact_choice, warn_of_fewer_clusters
from craftc._common.labels import compact
from craftc._common.messages import warn_user
from craftc._common.random import SAMPLE_ROWS
from craftc._common.typing import Floats, Labels
from craftc._common.validation import check_choice
from craftc.dpmeans.descent import DPMeansRows, S, SphericalDescent, SphericalFit, Sweeps, limit_of
from craftc.dpmeans.penalty import choose_by_sample, paper_mode, sample_of, searched_centers, some_rows
from craftc.dpmeans.rows.bounded import nearest
from craftc.dpmeans.split_search import MOST_CHOSEN, MOST_PAIRED, SplitSearch, merge_costs

INITS = ("auto", "single", "random", "random-row", "farthest")
NO_CAP = np.iinfo(np.int32).max  # maximal number of clusters without a limit
# relative fall of J, the last or the expected next one, that ends the sweeps of a large table in mode "auto"
_TOLERANCE = 1e-4
_MANY = 100  # clusters above which a warning asks whether lambda^2 is too small
_START_CLUSTERS = 8  # clusters of a random or farthest start when no parameter gives a number
_LOWEST_CYCLES = 8  # cuts, merges and moves of mode "lowest", at most
_LOWEST_FALL = 1e-3  # relative fall of J of a cycle below which mode "lowest" ends
_LOWEST_SWEEPS = 6  # sweeps of collapsed moves in a cycle


class DPMeansParameters(Protocol):
    """The parameters of a `DPMeans`."""

    cluster_penalty: float | str
    n_clusters: int | None
    max_clusters: int | None
    mode: str
    polish: bool | str
    covariance: str | Floats
    covariance_price: float | None
    init: str | ArrayLike
    n_init: int
    max_iter: int
    verbose: int


class Starts(Generic[S, L]):
    """Descents with the parameters of a model.

    `limit`: squared distance beyond which new rows open clusters: lambda^2 of the paper's algorithm, or
    the largest of the search's partition.
    """

    def __init__(self, model: DPMeansParameters, rows: DPMeansRows[S, L], seed: int) -> None:
        self.model, self.rows, self.seed = model, rows, seed
        self.cap = NO_CAP if model.max_clusters is None else int(model.max_clusters)
        self.n_asked = None if model.n_clusters is None else int(model.n_clusters)
        self.mode = "serial" if model.mode == "auto" else model.mode

    @property
    def is_search(self) -> bool:
        """Whether the partition is searched for by cuts and merges."""
        model = self.model
        if not (isinstance(model.init, str) and model.init == "auto"):
            return False
        asked = isinstance(model.cluster_penalty, str) or model.max_clusters is not None
        return model.mode == "lowest" or (model.mode == "auto" and asked)

    def searched(self) -> tuple[float, SphericalFit[L]]:
        """lambda^2 as the price of a cluster, and the partition of the search after sweeps over all rows."""
        model, rows = self.model, self.rows
        if (self.n_asked or 0) > self.cap:
            raise ValueError(
                f"n_clusters={model.n_clusters!r} is more than max_clusters={model.max_clusters!r}; leave "
                "one out, or lower n_clusters."
            )
        whole = model.mode == "lowest"
        penalty, centers = searched_centers(
            rows, model.cluster_penalty, self.n_asked, self.cap, self.seed, whole
        )
        cap = self.cap
        self.mode, self.cap = "nearest", 0  # clusters open in the search alone
        fit = self.exchanged(penalty, self.descend(penalty, rows.one_cluster(), 0, centers))
        if whole:  # from the partition of mode "auto" on
            self.mode, free = "collapsed", self.n_asked is None
            self.cap = cap if free else len(fit.centers)
            labels = lowest(rows.counted(), penalty, self.cap, fit.centers, free)
            fit = self.descend(penalty, rows.labels_of_all(labels), 0)
            self.limit = rows.farthest(fit.centers, fit.labels)[0]
        return penalty, fit

    def exchanged(self, penalty: float, fit: SphericalFit[L]) -> SphericalFit[L]:
        """Exchange the cheapest merge for a cluster at the farthest row while that lowers the inertia."""
        self.limit, cells = self.rows.farthest(fit.centers, fit.labels)
        while 2 < len(fit.sizes) <= MOST_PAIRED:
            costs = merge_costs(fit.centers, fit.sizes)
            k, j = np.unravel_index(costs.argmin(), costs.shape)
            if self.limit <= costs[k, j]:
                break
            merged = fit.sizes[[k, j]] @ fit.centers[[k, j]] / fit.sizes[[k, j]].sum()
            centers = np.concatenate(
                [np.delete(fit.centers, [k, j], axis=0), merged[None], cells[None].astype(np.float64)]
            )
            found = self.descend(penalty, self.rows.one_cluster(), 0, centers)
            if found.inertia >= fit.inertia:
                break
            fit = found
            self.limit, cells = self.rows.farthest(fit.centers, fit.labels)
        return fit

    def warn_of(self, K: int, converged: bool, penalty: float, n: int, inertia: float) -> None:
        """Warn where a model of K clusters of n rows has not converged, has fewer clusters than asked for, or
        suspiciously many, or those of equal rows.
        """
        model, spherical = self.model, not str(self.model.covariance).startswith("full")
        if not converged:
            remedy = "raise max_iter"
            if spherical and self.mode == "delayed" and model.mode == "auto":
                remedy = (
                    "every sweep opens one cluster: raise max_iter or cluster_penalty, or pass "
                    "mode='serial', which opens one for every row beyond lambda"
                )
            warn_not_converged(model, int(model.max_iter), "sweeps", remedy)
        asked = spherical or model.covariance_price is None  # a price varies the number of clusters
        if asked and self.is_search and self.n_asked is not None:
            warn_of_fewer_clusters(model, K, self.n_asked)
        elif asked and model.mode == "auto" and self.n_asked not in (None, K):
            warn_user(
                f"DPMeans ended with {K} clusters, not n_clusters={self.n_asked}: a given init only "
                "takes lambda^2 from that number; leave init out to find as many clusters."
            )
        chosen = self.is_search and self.n_asked is None and isinstance(model.cluster_penalty, str)
        if K > 1 and spherical and chosen and inertia == 0.0:
            warn_of_exact_choice(model, f"{K} clusters of equal rows", "n_clusters, or use CRAFT")
        at_most = chosen and K == MOST_CHOSEN and model.max_clusters is None
        many = penalty > 0 and max(_MANY, n / 10) < K and not (self.is_search and self.n_asked is not None)
        if at_most:
            warn_user(
                f"DPMeans chose {K} clusters, the most that it tries where they are not far apart; more may "
                "describe the table better still, as they do where there are no round groups. Give "
                "max_clusters or n_clusters for a coarser answer."
            )
        elif many and chosen:
            warn_user(
                f"DPMeans chose {K} clusters for {n} rows: their description is the shortest, but has "
                f"{n / K:.3g} rows for each. Give max_clusters or n_clusters for a coarser answer."
            )
        elif many:
            warn_user(
                f"DPMeans opened {K} clusters for {n} rows: lambda^2 = {penalty:.4g} is not larger than "
                "typical squared distances within clusters. Try a larger cluster_penalty, or n_clusters or "
                "max_clusters."
            )

    def best(self, given: S | None = None) -> tuple[float, SphericalFit[L]]:
        """lambda^2, and the descent with the lowest J; labels that are given are the only start."""
        if self.is_search:
            return self.searched()
        penalty, chosen = self.penalty()
        self.limit = penalty
        self.mode = (
            paper_mode(self.rows, penalty, self.seed) if self.model.mode == "auto" else self.model.mode
        )
        centers, path = self.first_centers(penalty) if given is None and chosen is None else (None, [])
        scatter = self.rows.table.scatter
        best: SphericalFit[L] | None = None
        for start in range(int(self.model.n_init) if given is None else 1):
            labels = (
                given if given is not None else copy(chosen) if chosen is not None else self.labels(start)
            )
            fit = self.descend(penalty, labels, start, *((centers, path) if start == 0 else ()))
            if best is None or fit.objective < best.objective - 1e-12 * scatter:
                best = fit
        assert best is not None
        return penalty, best

    def first_centers(self, penalty: float) -> tuple[Floats | None, list[float]]:
        """In mode "auto", the centres from which the sweeps over all rows start, and J after every sweep over
        all rows before.

        Delayed sweeps open a cluster each, most of them in a sample of a large table. Two clusters may stay
        together, with all rows within lambda of their mean: clear cuts part them. The first clusters of
        serial sweeps of a large table open at its rows, and sweeps over a sample move their centres.
        """
        model, rows = self.model, self.rows
        large, most = rows.n_counted > SAMPLE_ROWS, int(model.max_iter)
        if (
            model.mode != "auto"
            or model.init not in ("auto", "single")
            or not (large or (self.mode == "delayed" and most > 1))
        ):
            return None, []
        leaders: Floats | None = None
        if self.mode == "delayed":
            sample = sample_of(rows, SAMPLE_ROWS, self.seed) if large else rows.counted()
        else:
            leaders = rows.leaders(limit_of(rows.table, penalty), self.cap)
            sample = some_rows(rows, self.seed, len(leaders))
            if len(leaders) == 1 or len(sample) == rows.n_counted:
                return leaders, []
        descent = SphericalDescent(sample, penalty, self.cap, None, sample.order(0, 0))
        if leaders is not None:
            descent.rows.replace_centers(leaders)
        path: list[float] = []
        converged = descent.run(
            descent.sweep(self.mode), path, most if large else most - 1, tolerance=_TOLERANCE
        )[1]
        if large:  # these are sweeps over a sample
            path = []
        if self.mode == "serial" or not converged:
            return descent.rows.mu, path
        search = SplitSearch(sample, labels=descent.rows.labels)
        search.cut_clear(self.cap, penalty * sample.total / rows.table.total)
        return search.centers, path

    def penalty(self) -> tuple[float, S | None]:
        """lambda^2: given, by the heuristic, or chosen; for a large table also the start partition."""
        model, seed = self.model, self.seed
        if not isinstance(model.cluster_penalty, str):
            return float(model.cluster_penalty), None
        if self.n_asked is not None:
            most = len(self.rows) + 1  # distance 0, as all after it
            return float(self.rows.farthest_first(min(self.n_asked, most))[2][-1]), None

        def fit(rows: DenseData, penalty: float) -> SphericalFit[Labels]:
            descent = SphericalDescent(
                rows, penalty, min(self.cap, MOST_CHOSEN + 1), None, rows.order(seed, 0)
            )
            path: list[float] = []
            return descent.result(path, *descent.run(descent.sweep(self.mode), path, int(model.max_iter)))

        return choose_by_sample(self.rows, fit, self.cap, seed)

    def labels(self, start: int) -> S:
        """The start partition of a start."""
        model, rows = self.model, self.rows
        if model.init in ("auto", "single", "random-row"):
            return rows.one_cluster()
        K = min(int(self.n_asked or model.max_clusters or _START_CLUSTERS), len(rows))
        if model.init == "random":
            return rows.random_labels(K, self.seed, start)
        seeds, cells, _ = rows.farthest_first(K)
        return rows.nearest_labels(cells[np.unique(seeds, return_index=True)[1]])

    def descend(
        self, penalty: float, labels: S, start: int, centers: Floats | None = None, path: Sequence[float] = ()
    ) -> SphericalFit[L]:
        """One start until convergence.

        With `centers`, the first sweep compares the rows with these; `path` has J after the sweeps over all
        rows that led to them.
        """
        model = self.model
        descent: Sweeps[L] = self.rows.sweeps(penalty, self.cap, labels, self.seed, start)
        path = list(path)

        def callback(n_iter: int, objective: float) -> None:
            if model.verbose > 1:
                print(f"start {start}, sweep {n_iter}: {descent.rows.K} clusters, J {objective:.6g}")

        left, before = int(model.max_iter) - len(path), len(path)
        if centers is not None:
            descent.rows.replace_centers(centers)
        if isinstance(model.init, str) and model.init == "random-row":
            descent.rows.replace_centers(self.rows.random_row(self.seed, start))
            if self.mode == "collapsed":  # its moves need the means of the rows
                before, left = descent.run(descent.serial, path, 1, callback)[0], left - 1
        tolerance = _TOLERANCE if model.mode == "auto" and len(self.rows) > SAMPLE_ROWS else 0.0
        n_iter, converged = descent.run(descent.sweep(self.mode), path, left, callback, tolerance, ahead=True)
        n_iter += before
        if isinstance(descent, SphericalDescent) and polishes(model):
            n_iter += descent.polish(path, callback)
        fit = descent.result(path, n_iter, converged)
        if model.verbose > 0:
            print(f"start {start}: {len(fit.sizes)} clusters after {n_iter} sweeps, J {fit.objective:.6g}")
        return fit


def polishes(model: DPMeansParameters) -> bool:
    """Whether collapsed moves end every start."""
    return not isinstance(model.polish, str) and bool(model.polish)


def check_partitioned(model: DPMeansParameters, sample_weight: object) -> None:
    """Raise ValueError if a fit on partitions is not defined with these parameters."""
    if isinstance(model.init, str):
        check_choice("init", model.init, INITS)
    problem = ""
    if model.mode in ("collapsed", "lowest"):
        problem = "sweeps that do not move the means with every row; pass mode='auto', 'serial' or 'delayed'"
    elif polishes(model):
        problem = "polish=False; a polish moves the means with every row"
    elif not (isinstance(model.covariance, str) and model.covariance == "spherical"):
        problem = "covariance='spherical'; gather a sample of the rows for other covariances"
    elif not isinstance(model.init, str):
        problem = "a start that is named, such as init='auto', not labels of the rows"
    elif model.mode in ("auto", "serial") and model.n_init > 1:
        problem = "rows in order; pass n_init=1 or mode='delayed', which does not depend on the order"
    elif sample_weight is not None:
        problem = "rows without weights; repeat rows instead of passing sample_weight"
    if problem:
        raise ValueError(f"A fit on Partitions or a Dask collection needs {problem}.")


def lowest(data: DenseData, price: float, cap: int, centers: Floats, free: bool) -> Labels:
    """Labels of the partition with the lowest J that cuts, merges and moves of single rows find.

    `data`: rows of weight > 0. `price`: lambda^2, of a cluster. `cap`: maximal number of clusters.
    `centers` (K, D): of the start. `free`: whether the number of clusters may change.
    """
    search = SplitSearch(data, labels=compact(nearest(data.X, centers, data.n_threads)[0]))
    before = math.inf
    for _ in range(_LOWEST_CYCLES):
        if free:
            while len(search.grow(cap, price)):
                pass
            search.shrink(cap, price)
        descent = SphericalDescent(data, price, cap if free else 0, search.labels.copy(), data.order(0, 0))
        descent.run(descent.sweep("collapsed"), [], _LOWEST_SWEEPS)
        search.relabel(descent.rows.labels)
        if before - descent.objective <= _LOWEST_FALL * descent.objective:
            break
        before = descent.objective
    return search.labels
