"""Seeds and start partitions of CRAFT: one-point clusters, farthest-first traversal, k-means++."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from craftc._common.labels import chunks, compact
from craftc._common.random import CraftStream, uniform
from craftc._common.threads import aligned
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_seeding as seeding_kernel
from craftc.craft.background import one_point_costs
from craftc.craft.clusters import NO_MOMENTS, Clusters, assign_only, cost_tables
from craftc.craft.dependence import LEAST_PART, PARTS
from craftc.craft.parameters import ModelSpec
from craftc.craft.products import FEWEST_OWN_COLUMNS, common_factors
from craftc.craft.rows import L, S
from craftc.craft.search import FitConfig
from craftc.table.moments import Moments

_SAMPLE = 1 << 16  # rows among which seeds are sought
_MOST_LEVELS = 32  # of a category that enters low-rank scores
_MOST_SCORES = 1 << 10  # columns of low-rank scores, indicators included; a table with more has none
_VARIANCE = 0.8  # share of the variance that low-rank scores hold
_KMEANS_RUNS, _KMEANS_PASSES = 4, 20
_EM_STEPS = 6  # after which the parameters of a mixture are near enough to those of its groups
_EM_STEPS_OF_START = 20  # from a random partition


def one_point_clusters(config: FitConfig[L, S], rows: NDArray[np.intp], count_weight: float) -> Moments:
    """Moments of clusters of one row each, of weight `count_weight`."""
    labels = np.arange(len(rows), dtype=np.int32)
    return Moments.of_partition(
        config.background.grid,
        count_weight,
        config.table.take(rows),
        np.empty(0, np.int64),
        labels,
        len(rows),
    )


def one_point_tables(point: Moments, mask: Mask, config: FitConfig[L, S]) -> craft_kernel.CostTables:
    """Cost tables of a one-point cluster: its mean is the row, its standard deviation that of the table
    (paper: 1).
    """
    background, spec = config.background, config.spec
    shift = (point.means()[0] - background.mean) / np.sqrt(background.variance)
    precision = np.ones_like(shift)
    extra = np.zeros(1)
    if not spec.coherent:
        precision = background.unit_precision[None].copy()
        extra += spec.f_delta * mask.sum()
    return cost_tables(point.groups, point.unit, background, spec, shift, precision, mask, extra)


def start_labels(config: FitConfig[L, S], kind: str, n_clusters: int, start: int) -> Labels:
    """(n,) a start partition: "single", "random" or "farthest" (nearest of n_clusters farthest-first seeds);
    clusters may be empty.
    """
    labels = np.zeros(len(config.table), np.int32)
    if kind == "single" or n_clusters == 1 or not config.background.usable.any():
        return labels
    if kind == "farthest":
        return farthest_first(config, n_clusters, start)[0]
    for rows in chunks(len(labels)):
        draws = uniform(
            config.seed, start, CraftStream.LABEL, np.arange(rows.start, rows.stop, dtype=np.uint64)
        )
        labels[rows] = (draws * n_clusters).astype(np.int32)
    return labels


def reassign_to_seed(config: FitConfig[L, S], row: int, k: int, labels: Labels, best: Floats) -> None:
    """Assign rows to seed k where its one-point cluster with all features is strictly cheaper than all seeds
    before it.
    """
    table, everything = config.table, config.background.usable[None].copy()
    tables, threads = (
        one_point_tables(one_point_clusters(config, np.array([row]), 1.0), everything, config),
        config.threads(1),
    )
    craft_kernel.reassign_if_cheaper(
        table.numeric,
        table.codes,
        config.weight,
        tables,
        k,
        0,
        labels,
        best,
        aligned((threads, craft_kernel.scratch_size(tables))),
        *NO_MOMENTS,
        threads,
    )


def farthest_first(config: FitConfig[L, S], n_seeds: int, start: int) -> tuple[Labels, float, int]:
    """Farthest-first traversal by one-point clusters that select every feature: the nearest seed of every row
    (ties: the earlier), the distance of the farthest row to its nearest seed, and that row.

    In the coherent model the distance of a row to a seed is the cost under the seed's cluster less the cost
    under the row's own one-point cluster, in nats; it is 0 for equal rows. In the paper's model it is the
    absolute cost d_nk.
    """
    table, background, n = config.table, config.background, len(config.table)
    whole = replace(config, spec=ModelSpec(model=config.spec.model, fraction=1.0))
    own = (
        one_point_costs(background, table)
        if whole.spec.coherent
        else -background.categorical_row_costs(table.codes)
    )
    labels, best = np.full(n, -1, np.int32), np.full(n, np.inf)
    row = config.random_row(start, CraftStream.ROW, 1)
    radius = 0.0
    for k in range(n_seeds):
        reassign_to_seed(whole, row, k, labels, best)
        row, radius = farthest_row(best, own, config.weight)
        if radius <= 1e-9:  # every distinct row is a seed
            break
    return labels, radius, row


def farthest_row(best: Floats, own: Floats, weight: Integers) -> tuple[int, float]:
    """Row of weight > 0 with the largest best - own (ties: the first), and that distance, at least 0."""
    row, radius = 0, -np.inf
    for rows in chunks(len(best)):
        distance = best[rows] - own[rows]
        if len(weight):
            distance[weight[rows] == 0] = -np.inf
        i = int(distance.argmax())
        if distance[i] > radius:
            row, radius = rows.start + i, float(distance[i])
    return row, max(radius, 0.0)


def farthest_first_price(config: FitConfig[L, S], n_clusters: int) -> float:
    """Lambda by the paper's heuristic: the distance after n_clusters farthest-first seeds, scaled to the
    share m of features.

    The other features are modelled by the background, which only the paper's absolute costs contain.
    """
    fraction = config.spec.fraction
    _, radius, row = farthest_first(config, n_clusters, 0)
    if config.spec.coherent:
        return fraction * radius
    return fraction * radius + (1 - fraction) * float(
        config.background.categorical_row_costs(config.table.codes[[row]])[0]
    )


def kmeans_plus_plus_labels(config: FitConfig[L, S], n_seeds: int, start: int) -> Labels:
    """Label of the nearest of n_seeds seeds, drawn as by k-means++ from at most 65 536 rows; clusters may be
    empty.

    Each seed is drawn with probability proportional to the distance to the nearest earlier seed. That
    distance is the cost under the seed's cluster less the cost under the row's own one-point cluster, in
    nats.
    """
    n = len(config.table)
    if n <= _SAMPLE:
        return kmeans_plus_plus_seeds(config, n_seeds, start)[1]
    draws = uniform(config.seed, start, CraftStream.SEED_SAMPLE, np.arange(_SAMPLE))
    sample = np.unique((draws * n).astype(np.int64))
    seeds = sample[kmeans_plus_plus_seeds(config.of_rows(sample), n_seeds, start)[0]]
    background = config.background
    points = one_point_clusters(config, seeds, 1.0)
    shift = (points.means()[0] - background.mean) / np.sqrt(background.variance)
    mask = np.repeat(background.usable[None], len(seeds), axis=0)
    tables = cost_tables(
        points.groups, 1.0, background, config.spec, shift, np.ones_like(shift), mask, np.zeros(len(seeds))
    )
    labels = np.full(n, -1, np.int32)
    assign_only(config.table, tables, labels, config.threads(len(seeds)))
    return labels


def kmeans_plus_plus_seeds(
    config: FitConfig[L, S], n_seeds: int, start: int
) -> tuple[NDArray[np.intp], Labels]:
    """Rows of the seeds, and the nearest seed of every row."""
    table, background, threads = config.table, config.background, config.threads(1)
    draws = uniform(config.seed, start, CraftStream.SEED, np.arange(1, n_seeds + 1))
    seeds, labels = np.empty(n_seeds, np.intp), np.empty(len(table), np.int32)
    n = seeding_kernel.kmeans_plus_plus(
        table.numeric,
        table.codes,
        config.weight,
        background.grid,
        background.centre,
        background.scale,
        background.frequency,
        background.mean,
        background.variance,
        background.usable,
        config.spec.prior,
        background.tilts,
        config.own_costs,
        draws,
        config.random_row(start, CraftStream.SEED, 0),
        seeds,
        labels,
        np.empty(len(table)),
        threads,
    )
    return seeds[:n], labels


# ---- mixtures ----


def mixture_labels(config: FitConfig[L, S], labels: Labels, n_clusters: int) -> Labels:
    """The likeliest component of every row after EM steps from a random partition, in which every component
    has its own distribution of every feature.

    In few rows, groups whose categories overlap are found from soft labels only.
    """
    mask = np.repeat(config.background.usable[None], n_clusters, axis=0)
    moments = config.moments(cast(L, labels), n_clusters)
    clusters = Clusters(moments, config.background, config.spec, mask, keep=True)
    return compact(mixture(config, clusters, _EM_STEPS_OF_START).argmax(axis=1).astype(np.int32))


def mixture(config: FitConfig[L, S], clusters: Clusters, n_steps: int = _EM_STEPS) -> Floats:
    """(n, K) probabilities of the clusters of every row of a table in memory, after steps of the EM
    algorithm, in which the clusters keep their features.
    """
    table, grid, mask = config.table, config.background.grid, clusters.mask
    background = config.background.of_parts(PARTS)
    probabilities = _probabilities(config, clusters)
    for _ in range(n_steps):
        rows, own = np.nonzero(probabilities >= LEAST_PART)
        weight = np.rint(probabilities[rows, own] * PARTS).astype(np.int64)
        if len(config.weight):
            weight *= config.weight[rows]
        if not np.bincount(own, weight, len(mask)).all():  # a cluster has lost its rows
            break
        moments = Moments.of_partition(
            grid, background.count_weight, table.take(rows), weight, own.astype(np.int32), len(mask)
        )
        clusters = Clusters(moments, background, config.spec, mask, keep=True)
        probabilities = _probabilities(config, clusters)
    return probabilities


def _probabilities(config: FitConfig[L, S], clusters: Clusters) -> Floats:
    """(n, K) probabilities of the clusters of every row."""
    return np.asarray(softmax(-clusters.row_costs(config.table), axis=1))


# ---- k-means on low-rank scores ----


def low_rank_scores(config: FitConfig[L, S]) -> Floats:
    """(n, r) principal components of the columns that hold most of their variance, r >= 2 where there are as
    many.

    An ordered column enters by the first statistic of its levels (an atom is 0), a category by the indicators
    of its levels, each of variance 1 in all, times the weight of the column; a missing cell is the mean.
    """
    background, codes = config.background, config.table.codes
    tilts, frequency, parts = background.tilts, background.frequency, []
    for d, start in enumerate(background.grid.level_start):
        width = int(background.level_widths[d])
        levels, cells = slice(start, start + width), codes[:, d].astype(np.intp)
        if not background.usable[background.grid.p + d]:
            continue
        root_weight = np.sqrt(tilts.weight[d])
        if tilts.tilted[d]:
            parts.append(root_weight * tilts.statistics[0, levels][cells][:, None])
        elif width - 1 <= _MOST_LEVELS:
            share = frequency[levels]
            occurs = np.flatnonzero(share > 0)
            root = np.sqrt(share[occurs] * (len(occurs) - 1))
            cell = (cells[:, None] == occurs) - share[occurs] * (cells < width - 1)[:, None]
            parts.append(root_weight * cell / root)
    if not parts or sum(part.shape[1] for part in parts) > _MOST_SCORES:
        return np.empty((len(codes), 0))
    X, weight = np.hstack(parts), row_weights(config)
    X -= weight @ X / weight.sum()
    values, vectors = np.linalg.eigh(X.T @ (X * weight[:, None]))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    positive = int(np.count_nonzero(values > 1e-9 * values[0]))
    r = 1 + int(np.searchsorted(np.cumsum(values), _VARIANCE * values.sum()))
    return np.asarray(X @ vectors[:, : min(max(r, 2), positive)])


def factor_scores(config: FitConfig[L, S], columns: NDArray[np.intp], rho: Floats) -> list[Floats]:
    """One entry, (n, r) scores of variance 1 of the common factors of many numeric columns with the
    correlations rho; no entry if there are none.

    The first principal components of many columns hold what is of one column alone, too, in which k-means
    finds no groups that differ a little in many columns.
    """
    if len(columns) < FEWEST_OWN_COLUMNS:
        return []
    found = common_factors(rho[None], np.array([float(config.rows_weight)]), config.pricing.h)
    if found is None:
        return []
    weight, root = row_weights(config), np.sqrt(found.uniqueness[0])
    cells = config.table.numeric[:, columns]
    present = ~np.isnan(cells)
    n = np.maximum(weight @ present, 1.0)
    z = np.where(present, cells - weight @ np.where(present, cells, 0.0) / n, 0.0)
    z /= np.sqrt(weight @ (z * z) / n) * root
    vectors = np.linalg.eigh(rho / np.outer(root, root))[1][:, ::-1]
    return [scalings(z @ vectors[:, : found.r[0]], weight)[1]]


def kmeans_starts(
    config: FitConfig[L, S], scores: Floats, n_clusters: int, further: Sequence[Floats] = ()
) -> list[Labels]:
    """Starts by k-means on low-rank scores (n, r) of the columns, as they are and each of variance 1, and on
    further ones; none if there are no scores.
    """
    n_clusters = min(n_clusters, config.max_clusters, int(config.rows_weight // 2))
    if n_clusters < 2 or not scores.size:
        return []
    weight = row_weights(config)
    return [
        kmeans_labels(each, weight, n_clusters, config.seed, start)
        for start, each in enumerate([*scalings(scores, weight), *further])
    ]


def scalings(scores: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Scores (n, r) as they are, and each of variance 1."""
    spread = weight @ (scores * scores)
    return scores, scores / np.sqrt(np.where(spread > 0, spread, 1.0))


def row_weights(config: FitConfig[L, S]) -> Floats:
    """(n,) weights of the rows."""
    return np.asarray(config.weight, np.float64) if len(config.weight) else np.ones(len(config.rows))


def kmeans_labels(scores: Floats, weight: Floats, n_clusters: int, seed: int, start: int) -> Labels:
    """(n,) clusters of k-means on scores (n, r), the best of four runs from seeds of k-means++; at most
    n_clusters, numbered without gaps.
    """
    best, least = np.zeros(len(scores), np.int32), np.inf
    rows = np.column_stack([scores, np.ones(len(scores))])  # one product gives distances, one sums and sizes
    for run in range(_KMEANS_RUNS):
        draws = uniform(seed, start, CraftStream.KMEANS_SEED, run, np.arange(n_clusters))
        nearest, seeds = np.ones(len(scores)), []
        for draw in draws:
            total = np.cumsum(weight * nearest)
            seeds.append(
                int(np.searchsorted(total, draw * total[-1], side="right").clip(max=len(scores) - 1))
            )
            distance = ((scores - scores[seeds[-1]]) ** 2).sum(axis=1)
            nearest = np.minimum(nearest, distance) if len(seeds) > 1 else distance
        centres, labels = scores[seeds], best
        for _ in range(_KMEANS_PASSES):
            distances = rows @ np.column_stack([-2.0 * centres, (centres * centres).sum(axis=1)]).T
            labels, before = distances.argmin(axis=1).astype(np.int32), labels
            if np.array_equal(labels, before):
                break
            sums = (labels == np.arange(len(centres))[:, None]) * weight @ rows
            size = sums[:, -1:]
            centres = np.where(size > 0, sums[:, :-1] / np.maximum(size, 1.0), centres)
        within = float(weight @ ((scores - centres[labels]) ** 2).sum(axis=1))
        if within < least - 1e-9:
            best, least = labels, within
    return compact(best)
