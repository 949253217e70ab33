"""CRAFT at a fixed cluster price: passes until convergence, in which rows may open clusters.

A pass equals the sequential loop of the paper. All rows are compared with the clusters that existed before
the pass, in parallel; then rows whose cost exceeds their threshold are visited in order. Each may open a
cluster, and later rows are compared with it immediately.

Passes move rows, and never a whole cluster: a start with many clusters would keep them at any price. So
clusters are merged or closed where passes end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from craftc._common.convergence import State, iterate_until_converged, visit_in_order
from craftc._common.labels import chunks, first_appearance, join, numbering, renumber
from craftc._common.random import CraftStream, uniform
from craftc._common.threads import aligned
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft as craft_kernel
from craftc._kernels import moments as moments_kernel
from craftc.craft.background import choose_features, one_point_gains
from craftc.craft.paper.clusters import (
    PaperClusters,
    comparable_objective,
    next_prices,
)
from craftc.craft.parameters import ModelSpec, selection_odds
from craftc.craft.rows import S
from craftc.craft.search import (
    CraftResult,
    FitConfig,
    assign_zero_weight_rows,
    drop_empty,
    n_parallel_starts,
    run_starts,
)
from craftc.craft.search.starts import one_point_clusters, one_point_tables, start_labels
from craftc.table.moments import Moments

_TRIED = 16  # merges that are priced with all clusters where their features depend on each other

Config = FitConfig[Labels, NDArray[np.signedinteger]]
LocalConfig = FitConfig[Labels, NDArray[np.signedinteger]]


def merge_while_cheaper(
    config: Config, moments: Moments, labels: Labels, clusters: PaperClusters
) -> PaperClusters:
    """Merge the pair of clusters that lowers J most as long as J falls, or all clusters into one; moments and
    labels change in place. The clusters themselves are returned where nothing is gained.
    """
    pairs, spec = _Pairs(config, moments), config.spec
    tried = _TRIED if spec.is_global or spec.couples else 1
    while moments.n_clusters > 1:
        candidates = pairs.cheapest(tried)
        joined = [(_after(moments, k, j), _mask_after(clusters, k, j)) for k, j in candidates]
        prices = [PaperClusters(after, config.background, spec, mask).objective for after, mask in joined]
        best = int(np.argmin(prices))
        found = PaperClusters.after(joined[best][0], config.background, spec, joined[best][1])
        if not _is_lower(found, clusters):
            break
        k, j = candidates[best]
        number = numbering(moments.n_clusters)
        join(number, k, j)
        config.rows.renumbered(labels, number)
        moments.groups[k] = _sum(moments, k, j)
        moments.keep(np.delete(np.arange(moments.n_clusters), j))
        clusters = found
        pairs.merge(moments, k, j)
    if moments.n_clusters > 1:
        total = moments.total()
        one = PaperClusters(total, config.background, spec)
        if _is_lower(one, clusters):
            labels[labels > 0] = 0
            moments.groups[0] = total.groups[0]
            moments.keep(np.arange(1))
            clusters = one
    return clusters


def close_while_cheaper(
    config: Config, moments: Moments, labels: Labels, clusters: PaperClusters
) -> PaperClusters:
    """Close the cluster whose rows, at their second cheapest cluster, cost least more, as long as that is
    less than its price: the reverse of an opening. Its rows move there.

    Used where J does not compare partitions (see `comparable_objective`).
    """
    price = config.spec.price or 0.0
    while moments.n_clusters > 1:
        rise, second = _rise_without(config, labels, clusters)
        k = int(rise.argmin())
        if not rise[k] < price - 1e-9 * max(1.0, price):
            break
        np.copyto(labels, second, where=labels == k)
        number = numbering(moments.n_clusters)
        number[k + 1 : -1] -= 1
        config.rows.renumbered(labels, number)
        found = config.moments(labels, moments.n_clusters - 1)
        moments.groups[: found.n_clusters] = found.groups
        moments.keep(np.arange(found.n_clusters))
        clusters = PaperClusters(moments, config.background, config.spec)
    return clusters


def _rise_without(config: Config, labels: Labels, clusters: PaperClusters) -> tuple[Floats, Labels]:
    """(K,) by how much the costs of the rows of every cluster rise at their cheapest other cluster, and (n,)
    that cluster.
    """
    table, K = config.table, len(clusters.mask)
    rise, second = np.zeros(K), np.empty(len(table), np.int32)
    for rows in chunks(len(table)):
        costs = clusters.full_costs(table.take(np.arange(rows.start, rows.stop)))
        own, at = np.maximum(labels[rows], 0), np.arange(len(costs))  # rows of weight 0 may have no cluster
        before = costs[at, own]
        costs[at, own] = np.inf
        second[rows] = costs.argmin(axis=1)
        weight = config.weight[rows] * config.background.count_weight if len(config.weight) else 1.0
        rise += np.bincount(own, (costs.min(axis=1) - before) * weight, K)
    return rise, second


def _is_lower(found: PaperClusters, now: PaperClusters) -> bool:
    return found.objective < now.objective - 1e-9 * max(1.0, abs(now.objective))


def _sum(moments: Moments, k: int, j: int) -> Integers:
    """(width,) integers of two clusters together."""
    both: Integers = moments.groups[k].copy()
    moments_kernel.merge(both, moments.groups[j], 1, moments.grid.first_numeric)
    return both


def _after(moments: Moments, k: int, j: int) -> Moments:
    """The moments after a merge of j into k < j."""
    after = moments.select(np.delete(np.arange(moments.n_clusters), j))
    after.groups[k] = _sum(moments, k, j)
    return after


def _mask_after(clusters: PaperClusters, k: int, j: int) -> Mask:
    """(K - 1, D) features from which those after a merge are sought: the two clusters share theirs."""
    mask = clusters.mask.copy()
    mask[k] |= mask[j]
    return np.delete(mask, j, axis=0)


class _Pairs:
    """What the merge of every pair of clusters saves if clusters select their features alone."""

    def __init__(self, config: Config, moments: Moments) -> None:
        self._config, self._spec = config, replace(config.spec, feature_sharing=0.0)
        self._costs = self._alone(moments.select(np.arange(moments.n_clusters)))
        K = moments.n_clusters
        self._saved = np.full((K, K), -np.inf)  # above the diagonal
        for k in range(K - 1):
            self._price(moments, k, np.arange(k + 1, K))

    def _alone(self, moments: Moments) -> Floats:
        """(K,) costs of clusters."""
        return PaperClusters(moments, self._config.background, self._spec).costs

    def _price(self, moments: Moments, k: int, others: NDArray[np.intp]) -> None:
        if not len(others):
            return
        both = moments.select(others)
        for at, j in enumerate(others.tolist()):
            both.groups[at] = _sum(moments, k, j)
        saved = self._costs[k] + self._costs[others] - self._alone(both)
        self._saved[np.minimum(k, others), np.maximum(k, others)] = saved

    def merge(self, moments: Moments, k: int, j: int) -> None:
        """Follow a merge of j into k < j, which the moments have made."""
        self._costs = np.delete(self._costs, j)
        self._saved = np.delete(np.delete(self._saved, j, 0), j, 1)
        self._costs[k] = self._alone(moments.select(np.array([k])))[0]
        self._price(moments, k, np.delete(np.arange(moments.n_clusters), k))

    def cheapest(self, most: int) -> list[tuple[int, int]]:
        """Up to `most` pairs k < j that save most, the best first; ties: the first clusters."""
        order = np.argsort(-self._saved, axis=None, kind="stable")[: min(most, self._saved.size)]
        k, j = np.unravel_index(order, self._saved.shape)
        return [(a, b) for a, b in zip(k.tolist(), j.tolist(), strict=True) if a < b]


@dataclass
class FixedPriceResult(CraftResult[S]):
    """A partition found at a fixed price of a cluster."""

    mask: Mask | None  # (K, D) features that clusters select, where these depend on each other


def fixed_price_fit(
    config: LocalConfig, n_starts: int, given: list[Labels] | None, init: str, n_expected: int
) -> FixedPriceResult[NDArray[np.signedinteger]]:
    """The start with the lowest `comparable_objective`; ties: the earlier start.

    Start partitions are `given` (and overwritten), or made by the rule `init` with `n_expected` clusters.
    """
    thresholds, meter = OpeningThresholds(config), config.meter
    parallel = n_parallel_starts(config, n_starts) > 1
    meter.plan(reading=0.02, starts=0.93, diagnostics=0.05)
    # clusters that open and merge from one cluster are a start of their own
    from_one = config.spec.coherent and given is None and init != "single"
    meter.begin("starts", n_starts + from_one)

    def run(start: int) -> FixedPriceResult[Labels]:
        own = replace(config.of_start(start), n_threads=1) if parallel else config.of_start(start)
        if given is not None:
            labels: Labels | None = given[start]
        else:
            labels = _start_partition(own, init if start < n_starts else "single", n_expected, start)
        result = descend(own, thresholds, labels, start)
        meter.part_done(start, result.moments.n_clusters, result.objective, result.n_iter)
        return result

    results = run_starts(run, range(n_starts + from_one), config)
    meter.begin("diagnostics")
    best, lowest = results[0], math.inf
    for result in results:
        objective = comparable_objective(result.objective, result.moments, config.background, config.spec)
        if objective < lowest - 1e-9:
            best, lowest = result, objective
    order = first_appearance(best.labels, best.moments.n_clusters)
    renumber(best.labels, np.argsort(order).astype(np.int32))
    return replace(
        best,
        labels=config.rows.snapshot(best.labels, len(order)),
        moments=best.moments.select(order),
        mask=None if best.mask is None else best.mask[order],
    )


def _start_partition(config: LocalConfig, init: str, n_expected: int, start: int) -> Labels | None:
    """Labels of a start; None: the paper's start, one cluster around a random row."""
    if init == "auto":
        if not config.spec.coherent:
            return None
        init = ("random", "farthest")[start % 2]
    return start_labels(config, init, n_expected, start)


def descend(
    config: LocalConfig, thresholds: OpeningThresholds, labels: Labels | None, start: int = 0
) -> FixedPriceResult[Labels]:
    """Passes from a start partition until convergence.

    The labels are overwritten; None: one cluster around a random row.
    """
    spec, background = config.spec, config.background
    descent = FixedPriceDescent(config, thresholds, start)
    if labels is None:
        labels = np.full(len(config.table), -1, np.int32)
        moments, tables = descent.first_cluster()
        path = []
    else:
        moments = config.moments(labels, int(labels.max()) + 1)
        drop_empty(config.rows, moments, labels)
        clusters = PaperClusters(moments, background, spec)
        tables, descent.mask, path = clusters.tables(), clusters.mask, [clusters.objective]
    closes = spec.coherent or moments.n_clusters > 1  # the paper starts from one cluster and closes none

    monotone, seen = _is_monotone(spec, int(background.usable.sum())), set[bytes]()
    close = merge_while_cheaper if spec.coherent else close_while_cheaper

    def one_pass() -> tuple[State, float]:
        nonlocal tables
        moved = descent.one_pass(tables, labels, moments)
        _, kept = drop_empty(config.rows, moments, labels)
        clusters = PaperClusters.after(moments, background, spec, descent.mask[kept])
        tables, descent.mask = clusters.tables(), clusters.mask
        state = _state(moved)
        if state != "moving" and closes:
            fewer = close(config, moments, labels, clusters)
            if fewer is not clusters:
                clusters, state = fewer, "moving"
                tables, descent.mask = clusters.tables(), clusters.mask
                # the objective may rise in a pass, so that clusters might open and merge for ever
                descent.may_open &= monotone
        return state, clusters.objective

    def _state(moved: int) -> State:
        if not moved:
            return "converged"
        if spec.coherent and not monotone:  # random masks of new clusters leave it
            now = labels.tobytes()
            if now in seen:
                if not descent.may_open:
                    return "cycling"
                descent.may_open, now = False, b""
                seen.clear()
            seen.add(now)
        return "moving"

    def callback(n_iter: int, objective: float) -> None:
        if config.callback:
            config.callback(1, moments.n_clusters, objective)

    slack = (lambda objective: 1e-9 * max(1.0, abs(objective))) if monotone else None
    n_iter, converged = iterate_until_converged(
        one_pass, path, config.max_iter, slack=slack, callback=callback, stop=config.stop
    )
    assign_zero_weight_rows(config, tables, labels)
    mask = descent.mask if spec.couples else None
    return FixedPriceResult(path[-1], path, n_iter, converged, labels, moments, spec, mask)


def _is_monotone(spec: ModelSpec, n_features: int) -> bool:
    """Whether the objective provably never rises: masks are exact, and no empty cluster would lower it."""
    price = spec.price or 0.0
    exact = spec.coherent and spec.selection != "threshold"
    return exact and price + min(spec.f_delta, 0.0) * n_features >= 0.0


class FixedPriceDescent:
    """The passes of one start: assignment, new clusters and their masks. The number of the start is a key of
    the random draws of the paper's model; `thresholds` are shared by all starts.
    """

    def __init__(self, config: LocalConfig, thresholds: OpeningThresholds, start: int) -> None:
        self.config, self.thresholds, self.start = config, thresholds, start
        self.mask: Mask = np.zeros((1, config.background.usable.size), np.uint8)
        self.n_opened = 0
        self.may_open = True

    def one_pass(self, tables: craft_kernel.CostTables, labels: Labels, moments: Moments) -> int:
        """One pass; updates labels and moments and returns the number of rows of weight > 0 that moved."""
        config, table = self.config, self.config.table
        threads = config.threads(moments.n_clusters)
        opening = self.may_open and moments.n_clusters < config.max_clusters
        best = np.empty(len(table) if opening else 0)
        groups, partial = moments.workplace(threads)
        moved: int = craft_kernel.assign(
            table.numeric,
            table.codes,
            config.weight,
            tables,
            labels,
            best,
            aligned((threads, craft_kernel.scratch_size(tables))),
            partial,
            groups,
            threads,
        )
        if opening:
            visitor = _ClusterOpener(self, best, labels, moments)
            visit_in_order(visitor, len(table), len(table))
            moved += visitor.moved
        return moved

    def first_cluster(self) -> tuple[Moments, craft_kernel.CostTables]:
        """The paper's start: one cluster, still empty, at a random row; each feature is selected with
        probability m.
        """
        config = self.config
        row = config.random_row(self.start, CraftStream.ROW, 0)
        moments = Moments(config.background.grid, config.background.count_weight, 1, config.n_threads)
        tables, self.mask = self.new_cluster(
            row, np.full(config.background.usable.size, config.spec.fraction)
        )
        self.n_opened = 1
        return moments, tables

    def new_cluster(self, row: int, odds: Floats | None = None) -> tuple[craft_kernel.CostTables, Mask]:
        """Cost tables and (1, D) mask of the one-point cluster of a row."""
        config = self.config
        weight = (
            float(config.capped_weight[row])
            if config.capped_weight is not None and config.spec.coherent
            else 1.0
        )
        if config.spec.coherent:
            gains = one_point_gains(config.background, config.table, slice(row, row + 1), np.array([weight]))
            mask, _ = new_cluster_masks(config, gains, self.mask)
        else:
            mask = self._random_mask(odds)
        return one_point_tables(one_point_clusters(config, np.array([row]), weight), mask, config), mask

    def _random_mask(self, odds: Floats | None) -> Mask:
        """The paper's random mask: Bernoulli draws with the mean of nu_v over the clusters, and at least one
        feature.
        """
        config, usable = self.config, self.config.background.usable
        if odds is None:
            zero, one, _ = selection_odds(config.spec.fraction, config.spec.variance)
            odds = np.where(self.mask > 0, one, zero).mean(axis=0)
        draw = uniform(config.seed, self.start, CraftStream.MASK, self.n_opened, np.arange(usable.size))
        mask = ((draw < odds) & (usable > 0)).astype(np.uint8)
        if not mask.any() and usable.any():
            candidates = np.flatnonzero(usable)
            at = uniform(config.seed, self.start, CraftStream.MASK_REPAIR, self.n_opened)
            mask[candidates[int(at * len(candidates))]] = 1
        single: Mask = mask[None]
        return single


@dataclass
class _ClusterOpener:
    """The rows of one pass that may open a cluster.

    They are one window: every new cluster is compared with all later rows at once.
    """

    descent: FixedPriceDescent
    best: Floats  # (n,) cost of the cluster of each row
    labels: Labels
    moments: Moments
    moved: int = 0

    def __post_init__(self) -> None:
        self.threshold = self.descent.thresholds.given(self.descent.mask)

    def may_open(self) -> bool:
        return self.moments.n_clusters < self.descent.config.max_clusters

    def next_candidate(self, start: int, stop: int) -> int:
        row: int = craft_kernel.first_above(self.best, self.threshold, start)
        return row

    def open_at(self, row: int, stop: int) -> None:
        config, table = self.descent.config, self.descent.config.table
        tables, mask = self.descent.new_cluster(row)
        number = self.moments.open()
        self.descent.mask = np.concatenate([self.descent.mask, mask])
        self.descent.n_opened += 1
        if config.spec.couples:  # with another cluster the features of the next one have other prices
            self.threshold = self.descent.thresholds.given(self.descent.mask)
        self.best[row] = np.inf  # the row is the first to join
        threads = config.threads(1)
        groups, partial = self.moments.workplace(threads)
        self.moved += craft_kernel.reassign_if_cheaper(
            table.numeric,
            table.codes,
            config.weight,
            tables,
            number,
            row,
            self.labels,
            self.best,
            aligned((threads, craft_kernel.scratch_size(tables))),
            partial,
            groups,
            threads,
        )

    def compare_all(self, start: int, stop: int) -> None:
        raise AssertionError("with a single window every new cluster is compared as it opens")


class OpeningThresholds:
    """Costs above which rows open clusters; computed when first needed."""

    def __init__(self, config: LocalConfig) -> None:
        self.config = config

    def given(self, others: Mask) -> Floats:
        """(n,) thresholds where clusters have these masks (K, D)."""
        spec = self.config.spec
        return _thresholds(self.config, others) if spec.is_global or spec.couples else self._independent

    @cached_property
    def _independent(self) -> Floats:
        """(n,) thresholds that do not depend on the masks of other clusters."""
        return _thresholds(self.config, np.empty((0, 0), np.uint8))


def _thresholds(config: LocalConfig, others: Mask) -> Floats:
    """(n,) cost above which a row opens its own cluster; +inf for rows of weight 0."""
    spec, n = config.spec, len(config.table)
    thresholds, price = np.empty(n), spec.price or 0.0
    for rows in chunks(n):
        weight = (
            np.ones(rows.stop - rows.start) if config.capped_weight is None else config.capped_weight[rows]
        )
        if spec.coherent:
            _, features = new_cluster_masks(
                config, one_point_gains(config.background, config.table, rows, weight), others
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                thresholds[rows] = np.where(weight > 0, (price + features + 1e-9) / weight, np.inf)
        else:
            cost = price - config.background.categorical_row_costs(config.table.codes[rows]) + 1e-9
            thresholds[rows] = np.where(weight > 0, cost, np.inf)
    return thresholds


def new_cluster_masks(config: LocalConfig, gains: Floats, others: Mask) -> tuple[Mask, Floats]:
    """(n, D) features of one-point clusters by their gains (n, D), and their net cost (n,), where the others
    have the masks `others` (K, D).

    They select by the rule of these clusters, but for "threshold": the entropy and variance of one point are
    0, so the fixed budget is used.
    """
    spec, pricing = config.spec, config.pricing
    selection = "fixed" if spec.selection == "threshold" else spec.selection
    if spec.is_global:
        return choose_features(pricing, "global", gains, shared=others[0])
    if not spec.couples:
        return choose_features(pricing, selection, gains)
    prices, without = next_prices(others, spec)
    mask, cost = choose_features(pricing, selection, gains - prices)
    return mask, cost + without
