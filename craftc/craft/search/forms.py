"""The last step of the automatic search: forms of clusters in which numeric columns depend on each other.

Under the diagonal form a slanted cloud is cut into slices. Two more forms are searched, in which a cluster
may hold a covariance of its own, and in which all clusters share one. Every form is searched by the objective
J of its partition (`craftc.craft.search.covariances`), from the clusters of the diagonal form and from
k-means. Hard labels of overlapping clusters cost what one ellipsoid does not pay, so that forms are compared
by the description length with soft labels,

    L = J - sum_n (c_{n z_n} + log sum_k exp(-c_nk)),       c_nk: the cost of row n in cluster k.

Forms are searched on at most 4 096 rows; all rows are assigned to the clusters of the best, which then has to
be shorter than the diagonal form for all rows, too, with what soft labels save in the sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from craftc._common.random import CraftStream
from craftc._common.typing import Floats, Labels, Mask
from craftc.craft.background import Background, scored_total
from craftc.craft.clusters import Clusters
from craftc.craft.products import (
    MOST_OWN_COLUMNS,
    SHRINKAGE,
    Scatter,
    conditionals_of,
    covariance_columns,
    first_conditionals,
    most_columns,
    n_covariance_columns,
)
from craftc.craft.rows import L, RowStore, S
from craftc.craft.search import FitConfig, drop_empty
from craftc.craft.search.covariances import CovarianceSearch, CovarianceState
from craftc.craft.search.starts import factor_scores, kmeans_starts, low_rank_scores
from craftc.table.moments import Moments

_ROWS = 1 << 12  # among which forms are searched
_EM_STEPS = 10  # for the correlations of a table with missing cells
_KMEANS_CLUSTERS = 8  # of the first start by k-means, where the number of clusters is not given
_FEW_ROWS, _MANY_LEFT = 10, 0.75  # rows for a column, and share of these clusters that is left


class Form(NamedTuple):
    """What the search of the forms has found in a sample."""

    search: CovarianceSearch[Labels, Labels]
    state: CovarianceState[Labels]
    softer: float  # nats that soft labels save here more than under the diagonal form; 0 for a target


def covariance_step(
    config: FitConfig[L, S],
    snapshots: list[S],
    masks: list[Mask],
    moments: Moments,
    objective: float,
    target: int | None,
    from_kmeans: bool,
    n_further: int = 0,
) -> tuple[CovarianceSearch[L, S], CovarianceState[S]] | None:
    """The last step of the automatic search from partitions with these masks; the last is that of the
    diagonal form, with these moments and this J. None if that stays.

    `target` is the number of clusters of the result, if the diagonal form has as many; None: automatic. The
    first `n_further` partitions are starts of either.
    `from_kmeans`: whether k-means starts the search, too.
    """
    assert config.encoding is not None
    most = most_columns(config.spec.covariance)
    if not 2 <= n_covariance_columns(config.encoding, moments.total(), most) <= most:
        return None
    rows, encoding = config.rows, config.encoding.with_scores()
    whole = scored_total(encoding, moments.total())
    config = with_scores(config, whole)
    background = config.background
    positions, sample = config.sample(_ROWS, CraftStream.COVARIANCE_SAMPLE)
    sample = replace(sample, rows=sample.rows.scored(encoding))
    columns = covariance_columns(background, most)
    if len(columns) < 2:
        return None
    prior = prior_of(sample.rows, background, columns, config.n_threads)
    masks = [np.hstack([np.zeros((len(mask), background.grid.p), np.uint8), mask]) for mask in masks]
    labels = [rows.labels_at(snapshot, positions) for snapshot in snapshots]
    starts = list(zip(labels, masks, strict=True))
    scores, further = np.empty((len(positions), 0)), list[Floats]()
    if from_kmeans:
        scores, further = low_rank_scores(sample), factor_scores(sample, columns, prior)
    found: list[tuple[CovarianceSearch[L, S], CovarianceState[S]]] = []
    shortest = config.spec.covariance == "auto"

    @cache
    def seeds(n_clusters: int) -> list[Labels]:
        return kmeans_starts(sample, scores, n_clusters, further)

    for n_clusters in [None] if target is None else [None, min(target, len(masks[-1]))]:
        begun = starts if n_clusters else starts[: n_further + 1]
        form = best_form(sample, columns, prior, begun, seeds, n_clusters)
        if form is None:
            continue
        if len(positions) < len(rows):
            spec = replace(config.spec, tied=form.search.config.spec.tied)
            of_all = replace(config, spec=spec, rows=rows.scored(encoding))
            search: CovarianceSearch[L, S] = CovarianceSearch(of_all, columns, prior)
            state = search.adopted(form.state.clusters, n_clusters or 1)
            # the price of a cluster weighs more in a sample than in the table
            softer = form.softer * config.rows_weight / sample.rows_weight
            if not shortest or target or state.objective - softer < objective:
                found.append((search, state))
        else:  # the sample is the table
            found.append((form.search, form.state))  # type: ignore[arg-type]
    if target is not None:
        K = min(target, len(masks[-1]))
        found = [(search, search.passes(search.merged_down(state, K), K)) for search, state in found]
        found = [(search, state) for search, state in found if state.K == K]
    if not found:
        return None
    search, state = min(found, key=lambda one: one[1].objective)
    if target is not None and shortest and objective <= state.objective:
        return None
    return search, search.number_by_first_appearance(state)


def prior_of(
    rows: RowStore[L, S], background: Background, columns: NDArray[np.intp], n_threads: int
) -> Floats:
    """(P, P) R, the correlations of all rows, shrunk towards 0; with missing cells by the EM algorithm."""
    grid, labels = background.grid, rows.one_cluster()
    whole = rows.moments(grid, background.count_weight, labels, 1, n_threads)
    conditionals = first_conditionals(background, columns, whole)
    for _ in range(1 if conditionals is None else _EM_STEPS):
        sums = rows.cross_products(columns, grid, labels, 1, conditionals, n_threads)
        found = Scatter.of_groups(background, columns, whole.groups, sums, whole.unit)
        if conditionals is not None:
            matrix = (found.deviations + np.eye(len(columns))) / (whole.sizes[0] + 1.0)
            conditionals = conditionals_of(background, columns, found.mean, matrix)
    deviation = np.sqrt(np.diag(found.deviations[0]))
    prior: Floats = (1.0 - SHRINKAGE) * found.deviations[0] / np.outer(deviation, deviation)
    np.fill_diagonal(prior, 1.0)
    return prior


def with_scores(config: FitConfig[L, S], whole: Moments) -> FitConfig[L, S]:
    """The same configuration of rows with the scores of their levels, whose moments as one cluster are
    `whole`. The rows themselves receive scores where they are read.
    """
    assert config.encoding is not None
    encoding = config.encoding.with_scores()
    return replace(config, background=Background(whole, encoding), encoding=encoding)


def best_form(
    config: FitConfig[Labels, Labels],
    columns: NDArray[np.intp],
    prior: Floats,
    starts: list[tuple[Labels, Mask]],
    seeds: Callable[[int], list[Labels]],
    target: int | None,
) -> Form | None:
    """The partition of the form with the shortest description, from start partitions with their masks and
    the best of `seeds`, partitions by k-means into a number of clusters; clusters with covariances of their
    own also start from clusters with a shared one. k-means makes twice as many clusters, too, where the form
    is then shorter than the diagonal one; and, in few rows, where the diagonal form finds too few groups,
    while nearly all of them are left. None: the partition of the diagonal form, the last start.

    Partitions into a target number of clusters are compared by J, because their labels are equally hard.
    """
    spec, fewest = config.spec, target or 1
    N = config.rows_weight
    n_seeds = target or min(_KMEANS_CLUSTERS, int(N // 10))
    several = target is None and n_seeds == _KMEANS_CLUSTERS
    few_rows = _FEW_ROWS * len(columns) > N
    at_starts = [without_empty_clusters(config, *start) for start in starts]
    shortest, least = spec.covariance == "auto", np.inf
    if shortest:
        labels, mask = at_starts[-1]
        diagonal = Clusters(config.moments(labels, len(mask)), config.background, spec, mask, keep=True)
        least = diagonal.objective if target else soft_objective(config, diagonal, labels)
    found: list[tuple[float, CovarianceSearch[Labels, Labels], CovarianceState[Labels]]] = []

    def by_kmeans(n_clusters: int, search: CovarianceSearch[Labels, Labels]) -> list[CovarianceState[Labels]]:
        """The best of `seeds`."""
        begun = [search.begin(labels, None) for labels in seeds(n_clusters)]
        return sorted(begun, key=attrgetter("objective"))[:1]

    forms = {"full": [False], "tied": [True]}.get(spec.covariance, [True, False])
    for tied in forms if len(columns) <= MOST_OWN_COLUMNS else [True]:
        search = CovarianceSearch(replace(config, spec=replace(spec, tied=tied)), columns, prior)
        begun = by_kmeans(n_seeds, search)
        begun += [search.begin(labels, mask) for labels, mask in at_starts]
        begun += [search.begin(other.labels_of(end), None) for _, other, end in found]
        ends = [search.run(state, fewest) for state in begun if fewest <= state.K]
        if target is not None:
            ends = [search.merged_down(end, target) for end in ends]
        ends = [end for end in ends if fewest <= end.K]
        if ends:
            end, n = min(ends, key=attrgetter("objective")), n_seeds
            own = length(search, end, target)
            while several and 10 * n <= N:
                shorter = n == n_seeds and 20 * n <= N and own < least
                if not (shorter or (few_rows and _MANY_LEFT * n <= end.K)):
                    break
                n *= 2
                ends = [end, *(search.run(state, fewest) for state in by_kmeans(n, search))]
                end = min(ends, key=attrgetter("objective"))
                own = length(search, end, target)
            found.append((own, search, end))
    if not found:
        return None
    _, search, end = min(found, key=itemgetter(0))
    if target is None:
        end = search.run(end, fewest, far=True)
    own, softer = length(search, end, target), 0.0
    if shortest:
        if least <= own + search.tolerance:
            return None
        softer = (end.objective - own) - (diagonal.objective - least)
    held = end.clusters.covariances
    return Form(search, end, softer) if held is not None and held.replaced.any() else None


def length(
    search: CovarianceSearch[Labels, Labels], state: CovarianceState[Labels], target: int | None
) -> float:
    """L of an automatic partition, J of one into a target number of clusters, nats."""
    if target is not None:
        return state.objective
    return soft_objective(search.config, state.clusters, search.labels_of(state))


def without_empty_clusters(
    config: FitConfig[Labels, Labels], labels: Labels, mask: Mask
) -> tuple[Labels, Mask]:
    """A partition of a sample with its masks, without the clusters that the sample has missed."""
    labels, left = drop_empty(config.rows, config.moments(labels, len(mask)), labels)
    return labels, mask[left]


def soft_objective(config: FitConfig[Labels, Labels], clusters: Clusters, labels: Labels) -> float:
    """L, nats: the description length in which a row of several clusters is described by all of them."""
    table, weight, less = config.table, config.weight, 0.0
    for rows, costs, *_ in clusters.costs_in_chunks(table):
        own = costs[np.arange(len(costs)), labels[rows]] + logsumexp(-costs, axis=1)
        less += float(own @ weight[rows] if len(weight) else own.sum())
    return clusters.objective - less * config.background.count_weight
