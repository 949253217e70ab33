"""Search for a partition with bounds on its number of clusters and on their sizes, and of groups of rows that
stay together.

The partition of the free search stays where it satisfies the bounds. Otherwise the search goes on from it,
from its merge path and from k-means: passes assign all units (rows or groups) at the least cost that the
bounds allow (`transport`), and merges, splits and both in turn are accepted where they lower J. J depends on
the partition alone, as everywhere. The costs of all units under all clusters are held at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import first_appearance
from craftc._common.merge_path import MergePath
from craftc._common.random import SAMPLE_ROWS, CraftStream, spread
from craftc._common.typing import Array, Floats, Integers, Labels, Mask
from craftc.craft.block_pricing import BlockPricing
from craftc.craft.clusters import Clusters
from craftc.craft.fitted import PathClusters
from craftc.craft.products import CrossProducts, first_conditionals
from craftc.craft.search import AutomaticResult, LocalConfig
from craftc.craft.search.forms import with_scores
from craftc.craft.search.starts import kmeans_labels, low_rank_scores, scalings
from craftc.craft.search.transport import assign_within

_MAX_PASSES = 50
_TRIAL_PASSES = 8  # after a merge or split that is tried
_MOST_STEPS = 100  # merges, splits and exchanges of a start
_TRIED = 4  # merges, splits and exchanges that are followed by passes, and merges of a step of the path
_EXPECTATIONS = 3  # of the missing cells of a partition
_BEGUN = 3  # starts that are searched to their ends
_SLIGHT = 0.25  # share of the price of a parameter by which a pass must lower J while partitions are compared
_HOPELESS = 60.0  # nats by which a merge or split may raise J before passes
_ROWS = 1 << 11  # of a sample on which clusters are searched
_TOLERANCE = 1e-6  # nats by which a step must lower J

Start = tuple[Labels, Mask | None]  # labels of the rows, and masks of the clusters if they are known


@dataclass(frozen=True)
class Bounds:
    """What a partition must satisfy; weights are counts of the rows."""

    low: int  # clusters
    high: int
    least: int  # weight of every cluster
    most: int
    groups: Labels | None = None  # (n,) 0..G-1, rows of one group are in one cluster

    def hold(self, labels: Labels, weight: Integers) -> bool:
        """Whether a partition satisfies them."""
        sizes = np.zeros(int(labels.max()) + 1, np.int64)
        np.add.at(sizes, labels, weight if len(weight) else 1)
        if not self.low <= len(sizes) <= self.high or sizes.min() < self.least or sizes.max() > self.most:
            return False
        return self.groups is None or len(np.unique(_pairs(self.groups, labels))) == self.groups.max() + 1


def _pairs(groups: Labels, labels: Labels) -> NDArray[np.int64]:
    pairs: NDArray[np.int64] = groups * np.int64(labels.max() + 1) + labels
    return pairs


class Units:
    """The rows, or groups of them, that move between clusters."""

    def __init__(self, config: LocalConfig, groups: Labels | None) -> None:
        n = len(config.rows)
        weight = config.weight if len(config.weight) else np.ones(n, np.int64)
        self.groups, self.weight = groups, weight
        if groups is not None:
            self._order = np.argsort(groups, kind="stable")
            self._first = np.flatnonzero(np.diff(groups[self._order], prepend=-1))
            self.weight = np.add.reduceat(weight[self._order], self._first)
        of_rows = self.weight if groups is None else self.weight[groups]
        self._factor = np.where(of_rows > 0, weight, 1).astype(np.float64)  # rows without weight cost, too

    def __len__(self) -> int:
        return len(self.weight)

    def sums(self, values: Floats) -> Floats:
        """(m, r) sums of (n, r) values of the rows, by their weights."""
        values = values * self._factor[:, None]
        if self.groups is None:
            return values
        return np.asarray(np.add.reduceat(values[self._order], self._first, axis=0))

    def means(self, values: Floats) -> Floats:
        """(m, r) means of values of the rows."""
        return self.sums(values) / self.sums(np.ones((len(values), 1)))

    def of_rows(self, labels: Labels) -> Labels:
        """(m,) the cluster of most of the weight of every unit."""
        if self.groups is None:
            return labels.copy()
        K = int(labels.max()) + 1
        shares = np.bincount(_pairs(self.groups, labels), self._factor, len(self) * K)
        most: Labels = shares.reshape(-1, K).argmax(axis=1).astype(np.int32)
        return most

    def rows(self, labels: Labels) -> Labels:
        """(n,) the clusters of rows whose units have these labels."""
        return labels if self.groups is None else labels[self.groups]


@dataclass
class _State:
    """A partition of the units, none of whose clusters is empty."""

    labels: Labels  # (m,)
    clusters: Clusters
    cross: CrossProducts | None
    converged: bool = False

    @property
    def K(self) -> int:
        return self.clusters.moments.n_clusters

    @property
    def J(self) -> float:
        return self.clusters.objective


class ConstrainedSearch:
    """The search over partitions of these rows; `cross`: of any partition, if clusters may hold
    covariances.
    """

    def __init__(self, config: LocalConfig, cross: CrossProducts | None, bounds: Bounds) -> None:
        self.config, self.cross, self.bounds = config, cross, bounds
        self.units = Units(config, bounds.groups)
        self.tolerance = max(_TOLERANCE, config.rounding)
        self.slight = _SLIGHT * config.pricing.h
        self.n_passes = 0
        self._prices: BlockPricing | None = None
        self._halves: dict[bytes, list[Labels]] = {}  # of the units of clusters

    # ---- partitions ----

    def state(self, labels: Labels, choice: Mask | None, keep: bool = False) -> _State:
        """The state of a partition of the units; clusters without weight are dropped."""
        labels, choice = self._without_empty(labels, choice)
        config, rows = self.config, self.units.rows(labels)
        moments = config.moments(rows, int(labels.max()) + 1)
        background = config.background
        if self.cross is None:
            return _State(labels, Clusters(moments, background, config.spec, choice, keep=keep), None)
        grid, columns, K = background.grid, self.cross.columns, moments.n_clusters
        conditionals = first_conditionals(background, columns, moments)
        for _ in range(1 if conditionals is None else 1 + _EXPECTATIONS):
            sums = config.rows.cross_products(columns, grid, rows, K, conditionals, config.n_threads)
            cross = replace(self.cross, sums=sums)
            if self._prices is None:
                self._prices = BlockPricing(config.pricing, background, config.spec, cross)
            clusters = Clusters(moments, background, config.spec, choice, cross, self._prices, keep)
            conditionals = clusters.conditionals
        return _State(labels, clusters, cross)

    def _without_empty(self, labels: Labels, choice: Mask | None) -> tuple[Labels, Mask | None]:
        sizes = np.zeros(int(labels.max()) + 1 if choice is None else len(choice), np.int64)
        np.add.at(sizes, labels, self.units.weight)
        kept = np.flatnonzero(sizes)
        if len(kept) == len(sizes):
            return labels, choice
        number = np.zeros(len(sizes), np.int32)
        number[kept] = np.arange(len(kept))
        return number[labels], None if choice is None else choice[kept]

    def costs(self, state: _State) -> Floats:
        """(m, K) costs of the units."""
        return self.units.sums(state.clusters.row_costs(self.config.table))

    def adopted(self, state: _State) -> _State:
        """The partition of all units by the clusters of some of them."""
        labels = self.costs(state).argmin(axis=1).astype(np.int32)
        bounds = self.bounds
        return self.reached(self.state(labels, state.clusters.choice), bounds.low, bounds.high)

    def satisfies(self, state: _State) -> bool:
        """Whether the bounds hold."""
        bounds = replace(self.bounds, groups=None)  # units are whole groups
        return bounds.hold(state.labels, self.units.weight)

    def passes(
        self, state: _State, least_fall: float = 0.0, most: float = math.inf, max_passes: int = _MAX_PASSES
    ) -> _State | None:
        """Passes while J falls, by more than `least_fall` nats, after the bounds hold; None if no assignment
        within the bounds is found, or none with a J of at most `most`.
        """
        if len(self.config.rows) > SAMPLE_ROWS:
            least_fall = self.config.pricing.h
        bounds, price = self.bounds, np.zeros(state.K)
        for _ in range(max_passes):
            if self.config.stop.is_set():
                raise KeyboardInterrupt
            self.n_passes += 1
            labels = assign_within(self.costs(state), self.units.weight, bounds.least, bounds.most, price)
            if labels is None:
                return None
            if np.array_equal(labels, state.labels):
                return replace(state, converged=True)
            held, choice = self.satisfies(state), state.clusters.choice
            new = self.state(labels, choice)
            if held and state.J - self.tolerance <= new.J:  # the choice came to a worse one
                new = self.state(labels, choice, keep=True)
                if state.J - self.tolerance <= new.J:
                    return replace(state, converged=True)
            fell, state = state.J - new.J, new
            if most < state.J:
                return None
            if held and fell < least_fall:
                return replace(state, converged=True)
        return state

    # ---- merges and splits ----

    def merges(self, state: _State) -> Iterator[tuple[_State, tuple[int, int]]]:
        """The partitions after the most promising merges of clusters i < j, and these."""
        own, K = self.costs(state), state.K
        member = state.labels == np.arange(K)[:, None]
        to = np.array([own[each].sum(axis=0) for each in member])  # (K, K) cost of i under j
        rise = to - np.diag(to)[:, None]
        rise = np.minimum(rise, rise.T)
        rise[np.tril_indices(K)] = np.inf
        for at in np.argsort(rise, axis=None, kind="stable")[: min(_TRIED, K * (K - 1) // 2)].tolist():
            i, j = divmod(at, K)
            place = np.arange(K, dtype=np.int32)
            place[j] = i
            place[j + 1 :] -= 1
            choice = np.delete(state.clusters.choice, j, axis=0)
            choice[i] |= state.clusters.choice[j]
            yield self.state(place[state.labels], choice), (i, j)

    def splits(self, state: _State) -> Iterator[_State]:
        """The partitions after splits of single clusters by k-means, the heaviest clusters first."""
        sizes = np.bincount(state.labels, self.units.weight, state.K)
        for k in np.argsort(-sizes, kind="stable")[: 2 * _TRIED].tolist():
            units = np.flatnonzero((state.labels == k) & (self.units.weight > 0))
            key = units.tobytes()
            if key not in self._halves:
                self._halves[key] = self._in_halves(units)
            for halves in self._halves[key]:
                labels = state.labels.copy()
                labels[units[halves == 1]] = state.K
                yield self.state(labels, np.vstack([state.clusters.choice, state.clusters.choice[[k]]]))

    def _in_halves(self, units: NDArray[np.intp]) -> list[Labels]:
        """Partitions of some units into two by k-means; into halves where their scores are equal."""
        if len(units) < 2:
            return []
        found = [halves for halves in self._by_kmeans(units, 2, 0) if np.ptp(halves)]
        return found or [self._of_equal_weight(units, 2)]

    def _of_equal_weight(self, units: NDArray[np.intp], n_parts: int) -> Labels:
        """Partition of some units, in their order."""
        weight = self.units.weight[units]
        part: Labels = ((np.cumsum(weight) - weight) * n_parts // max(int(weight.sum()), 1)).astype(np.int32)
        return part

    def _by_kmeans(self, units: NDArray[np.intp], n_clusters: int, start: int) -> list[Labels]:
        """Partitions of some units by k-means on their scores; without scores, parts of equal weight."""
        weight = self.units.weight[units]
        scores = self.scores[units]
        if not scores.size:
            return [self._of_equal_weight(units, n_clusters)]
        return [
            kmeans_labels(each, weight.astype(np.float64), n_clusters, self.config.seed, start)
            for each in scalings(scores, weight.astype(np.float64))
        ]

    @cached_property
    def scores(self) -> Floats:
        """(m, r) low-rank scores of the units."""
        return self.units.means(low_rank_scores(self.config))

    def reached(self, state: _State, low: int, high: int) -> _State:
        """The state after best merges or splits until its number of clusters is from `low` to `high`."""
        while high < state.K:
            state = min((new for new, _ in self.merges(state)), key=attrgetter("J"))
        while low > state.K:
            before = state.K
            state = min(self.splits(state), key=attrgetter("J"), default=state)
            if before == state.K:  # single units are left
                break
        return state

    def _neighbours(self, state: _State) -> list[_State]:
        """Partitions after one merge or split, or both, in the order of J."""
        low, high = self.bounds.low, self.bounds.high
        merged = [new for new, _ in self.merges(state)] if state.K > 1 else []
        split = sorted(self.splits(state), key=attrgetter("J"))[:_TRIED]
        found = [new for new in merged + split if low <= new.K <= high]
        for new in split[: _TRIED // 2]:
            found += [other for other, _ in self.merges(new)]
        for new in merged[: _TRIED // 2]:
            found += self.splits(new)
        found = [new for new in found if low <= new.K <= high]
        found = [new for new in found if new.J < state.J + _HOPELESS]
        return sorted(found, key=attrgetter("J"))[: 2 * _TRIED]

    def improved(self, state: _State) -> _State:
        """Merges, splits and both in turn, each followed by passes, while one lowers J."""
        for _ in range(_MOST_STEPS):
            better = self._first_better(state, self._neighbours(state))
            if better is None:
                anew = self.state(state.labels, None)
                if state.J - self.tolerance > anew.J:
                    state = replace(anew, converged=state.converged)
                return state
            state = better
        return state

    def merged_while_shorter(self, state: _State) -> _State:
        """Merges within the bounds, each followed by passes, while one lowers J."""
        better: _State | None = state
        while better is not None:
            state, better = better, None
            if self.bounds.low < state.K:
                merged = [new for new, _ in self.merges(state) if self.satisfies(new)]
                near = [new for new in merged if new.J < state.J + _HOPELESS]
                better = self._first_better(state, sorted(near, key=attrgetter("J")))
        return state

    def _first_better(self, state: _State, trials: list[_State]) -> _State | None:
        """The first of some partitions that is shorter after passes."""
        for new in trials:
            trial = self.passes(new, self.slight, state.J + _HOPELESS, _TRIAL_PASSES)
            if trial is not None and state.J - self.tolerance > trial.J:
                return trial
        return None

    def run(self, starts: list[Start], least: float = math.inf) -> _State | None:
        """The best partition from some starts (labels of the rows), and from k-means; None: none is found.
        Starts that are far from a J of `least` are not searched to their ends.
        """
        low, high = self.bounds.low, self.bounds.high
        begun = []
        for labels, mask in starts:
            start = self.state(self.units.of_rows(labels), mask)
            begun.append(self.passes(self.reached(start, low, high), self.slight))
        near = min(max(int(starts[0][0].max()) + 1, low), high)
        counted = np.flatnonzero(self.units.weight)
        for n_clusters in range(max(low, near - 1), min(high, near + 1) + 1):
            for labels in self._by_kmeans(counted, n_clusters, n_clusters):
                every = np.zeros(len(self.units), np.int32)
                every[counted] = labels
                begun.append(self.passes(self.reached(self.state(every, None), low, high), self.slight))
        within = [state for state in begun if state is not None and self.satisfies(state)]
        found = {state.labels.tobytes(): state for state in within}
        best = sorted(found.values(), key=attrgetter("J"))[:_BEGUN]
        if best and least + _HOPELESS > best[0].J:
            best = sorted(map(self.improved, best), key=attrgetter("J"))
        return self.passes(best[0]) if best else None


# ---- the step after the free search ----


def constrained_fit(
    config: LocalConfig, result: AutomaticResult[Array], bounds: Bounds
) -> AutomaticResult[Array] | None:
    """The result of the free search if it satisfies the bounds, otherwise the best partition that does; None
    if none is found.
    """
    if bounds.hold(result.labels.astype(np.int32), config.weight):
        return result
    best: tuple[ConstrainedSearch, ConstrainedSearch, _State] | None = None
    for search, starts in _forms(config, result, bounds):
        part, rows = _of_sample(search)
        of_part = [(labels[rows], mask) for labels, mask in starts]
        state = part.run(of_part, math.inf if best is None else best[2].J)
        if state is not None and (best is None or state.J < best[2].J):
            best = search, part, state
    if best is None:
        return None
    search, part, state = best
    found: _State | None = state
    if search is not part:
        found = search.passes(search.adopted(state))
        found = None if found is None else search.passes(search.merged_while_shorter(found))
    return None if found is None else _with_path(search, found, result)


def _forms(
    config: LocalConfig, result: AutomaticResult[Array], bounds: Bounds
) -> Iterator[tuple[ConstrainedSearch, list[Start]]]:
    """The searches of the form of the free search and of the diagonal form, with starts from its path."""
    near = min(max(int(result.labels.max()) + 1, bounds.low), bounds.high)
    path = [step.labels.astype(np.int32) for step in result.merge_path]
    path = [labels for labels in path if labels.max() + 1 <= near] or path[-1:]
    of_path: list[Start] = [(labels, None) for labels in path[:_TRIED]]
    starts: list[Start] = [(result.labels.astype(np.int32), result.mask), *of_path]
    if result.cross is None:
        yield ConstrainedSearch(config, None, bounds), starts
        return
    assert config.encoding is not None
    scored = replace(
        with_scores(config, result.moments.total()),
        rows=config.rows.scored(config.encoding.with_scores()),
        spec=result.spec,
    )
    yield ConstrainedSearch(scored, result.cross, bounds), starts
    if config.spec.covariance == "auto":
        yield ConstrainedSearch(config, None, bounds), [(labels, None) for labels, _ in starts]


def _of_sample(search: ConstrainedSearch) -> tuple[ConstrainedSearch, NDArray[np.intp] | slice]:
    """The search on some of the units, if there are many rows, and the rows of these units."""
    config, bounds, n = search.config, search.bounds, len(search.units)
    if len(config.rows) <= _ROWS:
        return search, slice(None)
    units = np.arange(n)
    if n > _ROWS:
        units = spread(n, _ROWS, config.seed, CraftStream.STAGE_SAMPLE)
    rows, groups = units, bounds.groups
    if groups is not None:
        number = np.full(n, -1, np.int32)
        number[units] = np.arange(len(units))
        rows = np.flatnonzero(number[groups] >= 0)
        groups = number[groups[rows]]
    sample = config.of_sample(rows)
    share = sample.rows_weight / config.rows_weight
    slack = int(search.units.weight.max()) - 1  # units of the sample may fill clusters less exactly
    least, most = max(int(bounds.least * share) - slack, 1), math.ceil(bounds.most * share) + slack
    of_sample = replace(bounds, least=least, most=most, groups=groups)
    return ConstrainedSearch(sample, search.cross, of_sample), rows


def _with_path(
    search: ConstrainedSearch, state: _State, result: AutomaticResult[Array]
) -> AutomaticResult[Array]:
    """The result with this partition, and its merges down to one cluster, in which no row moves by itself."""
    rows = search.units.rows(state.labels)
    number = np.argsort(first_appearance(rows, state.K)).astype(np.int32)
    choice = state.clusters.choice[np.argsort(number)]
    state = replace(search.state(number[state.labels], choice, keep=True), converged=state.converged)
    clusters, K = state.clusters, state.K
    labels = search.units.rows(state.labels).astype(np.min_scalar_type(-K))
    path = MergePath(labels, K, state.J)
    along = PathClusters.begin(clusters.moments, clusters.choice, state.cross)
    objectives = [*result.path, state.J]
    merged = state
    while merged.K > 1:
        merged, (i, j) = min(search.merges(merged), key=lambda new: new[0].J)
        path.append_merge(merged.J, i, j)
        along.append(
            path.changes()[-1].place, merged.clusters.moments.groups, merged.clusters.choice, merged.cross
        )
    return AutomaticResult(
        state.J,
        objectives,
        result.n_iter + search.n_passes,
        state.converged,
        labels,
        clusters.moments,
        search.config.spec,
        path,
        along,
        None,
        clusters.choice,
        state.cross,
        clusters,
    )
