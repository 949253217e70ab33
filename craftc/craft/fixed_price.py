"""The search of CRAFT: start partitions, passes over the rows, clusters that open.

A pass equals the word-for-word loop over the rows: every row against the clusters that existed before it, in
parallel; then a serial walk over the few rows dear enough to open a cluster, each newcomer shown at once to the rows behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Event
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from craftc._common.convergence import State, iterate_until_converged, visit_in_order
from craftc._common.labels import chunks, compact, first_appearance, renumber
from craftc._common.merge_path import MergeStep
from craftc._common.random import uniform
from craftc._common.threads import aligned, map_side_by_side, threads_for
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft as _kernel
from craftc.craft.clusters import Background, Rules, cost_tables, selection_odds, top
from craftc.craft.description_length import clusters_of, feature_prices
from craftc.table import MixedTable
from craftc.table.moments import Moments

T = TypeVar("T")

_WORTH_A_THREAD, _WORTH_ALL_THREADS = 20_000, 4_000_000  # cells of a table whose starts run side by side
_NO_MOMENTS = np.empty((0, 0, 0), np.int64), np.empty((0, 0), np.int64)  # for kernels that are to leave moments alone
_CHUNK = 8192  # rows at a time where a temporary per cell is needed
_MASK_DRAW, _REPAIR_DRAW, _ROW_DRAW, _LABEL_DRAW = 1, 2, 3, 4  # first keys of the random streams


@dataclass
class Problem:
    """A table to be partitioned, and what every start of the search shares."""

    table: MixedTable
    weight: Integers
    background: Background
    rules: Rules
    cap: int
    max_iter: int
    seed: int
    n_threads: int
    unit_weight: Floats | None = None  # min(w, 1) of every row, None = all one
    on_pass: Callable[[int, int, float], None] | None = None  # (pass, clusters, objective)
    total: float | None = None  # weight of the rows, where they are only some of the background's
    stop: Event = field(default_factory=Event)  # set: whoever works on this problem should give up

    def threads(self, n_clusters: int) -> int:
        """Threads for one pass over n_clusters."""
        lanes = -(-n_clusters // _kernel.PAD)
        grid = self.background.grid
        return threads_for(self.n_threads, len(self.table) * (grid.p + grid.q) * lanes)

    def scratch(self, tables: _kernel.Tables, n_threads: int) -> Floats:
        """Room for every thread, each on cache lines of its own."""
        return aligned((n_threads, _kernel.scratch_size(tables)))

    def random_row(self, *key: int) -> int:
        """A row of weight > 0 drawn by key."""
        draw = uniform(self.seed, *key)
        if not len(self.weight):
            return int(draw * len(self.table))
        positive = np.flatnonzero(self.weight)
        return int(positive[int(draw * len(positive))])

    def of_rows(self, rows: NDArray[np.intp]) -> Problem:
        """The same problem for some of the rows, under the whole table's background."""
        weight = self.weight[rows] if len(self.weight) else self.weight
        unit = None if self.unit_weight is None else self.unit_weight[rows]
        total = float(weight.sum()) * self.background.unit if len(weight) else float(len(rows))
        return replace(self, table=self.table.take(rows), weight=weight, unit_weight=unit, total=total)

    @cached_property
    def limits(self) -> Floats:
        """Opening limits that do not depend on the clusters' masks."""
        return opening_limits(self, np.empty(0, np.uint8))


@dataclass
class Solution:
    """A partition that the search ended with; what leaves the search is numbered by first appearance."""

    labels: Labels
    moments: Moments
    objective: float
    path: list[float]
    n_iter: int
    converged: bool
    rules: Rules
    merge_path: Sequence[MergeStep] = ()
    clusters_at_4: int | None = None  # left at four times the price


def descend(problem: Problem, labels: Labels | None, start: int = 0) -> Solution:
    """Passes from a start partition (None: the paper's start, one cluster around a random row) until nothing moves.

    The labels are worked on in place.
    """
    rules, background = problem.rules, problem.background
    walk = Walk(problem, start)
    if labels is None:
        labels = np.full(len(problem.table), -1, np.int32)
        moments, tables = walk.first_cluster()
        path = []
    else:
        n_clusters = int(labels.max()) + 1
        moments = Moments.of_partition(
            background.grid, background.unit, problem.table, problem.weight, labels, n_clusters, problem.n_threads
        )
        drop_empty(moments, labels)
        clusters = clusters_of(moments, background, rules)
        tables, walk.mask, path = clusters.tables(), clusters.mask, [clusters.objective]

    monotone, seen = rules.monotone(int(background.usable.sum())), set[bytes]()

    def one_pass() -> tuple[State, float]:
        nonlocal tables
        moved = walk.sweep(tables, labels, moments)
        drop_empty(moments, labels)
        clusters = clusters_of(moments, background, rules)
        tables, walk.mask = clusters.tables(), clusters.mask
        state: State = "moving" if moved else "converged"
        if rules.coherent and not monotone and moved:  # the paper's random newcomers leave a cycle by themselves
            now = labels.tobytes()
            if now in seen:
                if not walk.may_open:
                    return "cycling", clusters.objective
                walk.may_open, now = False, b""
                seen.clear()
            seen.add(now)
        return state, clusters.objective

    def told(n_iter: int, objective: float) -> None:
        if problem.on_pass:
            problem.on_pass(n_iter, moments.n_clusters, objective)

    slack = (lambda objective: 1e-9 * max(1.0, abs(objective))) if monotone else None
    n_iter, converged = iterate_until_converged(one_pass, path, problem.max_iter, slack=slack, callback=told, stop=problem.stop)
    settle_weightless(problem, tables, labels)
    return Solution(labels, moments, path[-1], path, n_iter, converged, rules)


def drop_empty(moments: Moments, labels: Labels) -> None:
    """Remove clusters without weight; the others keep their order. Rows of weight 0 left behind get label -1."""
    kept = np.flatnonzero(moments.groups[:, 0])
    if len(kept) < moments.n_clusters:
        number = np.full(moments.n_clusters + 1, -1, np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        renumber(labels, number)
        moments.keep(kept)


def settle_weightless(problem: Problem, tables: _kernel.Tables, labels: Labels) -> None:
    """Give rows of weight 0 that lost their cluster the nearest one."""
    if len(problem.weight) and (labels < 0).any():
        assign_only(problem.table, tables, labels, 1)


def assign_only(table: MixedTable, tables: _kernel.Tables, labels: Labels, n_threads: int) -> None:
    """Move every row to its cheapest cluster; no moments."""
    scratch = aligned((n_threads, _kernel.scratch_size(tables)))
    _kernel.assign(
        table.numeric, table.codes, np.empty(0, np.int64), tables, labels, np.empty(0), scratch, *_NO_MOMENTS, n_threads
    )


class Walk:
    """The passes of one start: assignment, openings, and what newcomers look like.

    Parameters
    ----------
    problem : Problem
    start : int
        Number of the start; random draws of the paper's model belong to it.
    """

    def __init__(self, problem: Problem, start: int) -> None:
        self.problem, self.start = problem, start
        self.mask: Mask = np.zeros((1, problem.background.usable.size), np.uint8)
        self.n_opened = 0
        self.may_open = True

    def sweep(self, tables: _kernel.Tables, labels: Labels, moments: Moments) -> int:
        """One pass; labels and moments follow. Returns the rows of weight > 0 that moved."""
        problem, table = self.problem, self.problem.table
        threads = problem.threads(moments.n_clusters)
        opening = self.may_open and moments.n_clusters < problem.cap
        best = np.empty(len(table) if opening else 0)
        groups, partial = moments.workplace(threads)
        moved: int = _kernel.assign(
            table.numeric, table.codes, problem.weight, tables, labels, best, problem.scratch(tables, threads),
            partial, groups, threads,
        )  # fmt: skip
        if opening:
            openings = _Openings(self, best, labels, moments)
            visit_in_order(openings, len(table), len(table))
            moved += openings.moved
        return moved

    def first_cluster(self) -> tuple[Moments, _kernel.Tables]:
        """The paper's start: one cluster, still empty, that looks like a random row; its mask is drawn with chance m."""
        problem = self.problem
        row = problem.random_row(self.start, _ROW_DRAW, 0)
        moments = Moments(problem.background.grid, problem.background.unit, 1, problem.n_threads)
        tables, self.mask = self.newcomer(row, np.full(problem.background.usable.size, problem.rules.fraction))
        self.n_opened = 1
        return moments, tables

    def newcomer(self, row: int, odds: Floats | None = None) -> tuple[_kernel.Tables, Mask]:
        """Cost tables and (1, D) mask of the one-point cluster of a row."""
        problem = self.problem
        rules, background = problem.rules, problem.background
        unit = 1.0 if problem.unit_weight is None or not rules.coherent else float(problem.unit_weight[row])
        point = one_point(problem, row, unit)
        if rules.coherent:
            gains = one_point_gains(problem, slice(row, row + 1), np.array([unit]))
            mask, _ = newcomer_mask(gains, background, rules, self.mask[0])
        else:
            mask = self._random_mask(odds)
        tables = point_tables(point, mask, problem)
        return tables, mask

    def _random_mask(self, odds: Floats | None) -> Mask:
        """The paper's draw: Bernoulli with the mean of nu_v over the clusters; one feature at least."""
        problem, usable = self.problem, self.problem.background.usable
        if odds is None:
            zero, one, _ = selection_odds(problem.rules.fraction, problem.rules.sharing)
            odds = np.where(self.mask > 0, one, zero).mean(axis=0)
        draw = uniform(problem.seed, self.start, _MASK_DRAW, self.n_opened, np.arange(usable.size))
        mask = ((draw < odds) & (usable > 0)).astype(np.uint8)
        if not mask.any() and usable.any():
            candidates = np.flatnonzero(usable)
            mask[candidates[int(uniform(problem.seed, self.start, _REPAIR_DRAW, self.n_opened) * len(candidates))]] = 1
        single: Mask = mask[None]
        return single


@dataclass
class _Openings:
    """The openings of one pass. The walk has one window: every newcomer is shown at once to all the rows behind it."""

    walk: Walk
    best: Floats  # (n,) cost of each row's cluster
    labels: Labels
    moments: Moments
    moved: int = 0

    def __post_init__(self) -> None:
        problem = self.walk.problem
        whole = problem.rules.selection == "global"
        self.limits = opening_limits(problem, self.walk.mask[0]) if whole else problem.limits

    def may_open(self) -> bool:
        return self.moments.n_clusters < self.walk.problem.cap

    def next_candidate(self, start: int, stop: int) -> int:
        row: int = _kernel.first_above(self.best, self.limits, start)
        return row

    def open_at(self, row: int, stop: int) -> None:
        """The newcomer looks like the row, which is the first to join it."""
        problem, table = self.walk.problem, self.walk.problem.table
        tables, mask = self.walk.newcomer(row)
        number = self.moments.open()
        self.walk.mask = np.concatenate([self.walk.mask, mask])
        self.walk.n_opened += 1
        self.best[row] = np.inf
        threads = problem.threads(1)
        groups, partial = self.moments.workplace(threads)
        self.moved += _kernel.challenge(
            table.numeric, table.codes, problem.weight, tables, number, row, self.labels, self.best,
            problem.scratch(tables, threads), partial, groups, threads,
        )  # fmt: skip

    def compare_all(self, start: int, stop: int) -> None:
        raise AssertionError("a walk of one window shows every newcomer as it opens")


def one_point(problem: Problem, row: int, unit: float) -> Moments:
    """Moments of one row with weight `unit`."""
    one = np.zeros(1, np.int32)
    return Moments.of_partition(
        problem.background.grid, unit, problem.table.take(np.array([row])), np.empty(0, np.int64), one, 1
    )


def point_tables(point: Moments, mask: Mask, problem: Problem) -> _kernel.Tables:
    """Cost tables of a one-point cluster: mean there, deviation of the whole table (paper: 1)."""
    background, rules = problem.background, problem.rules
    shift = (point.means()[0] - background.mean) / np.sqrt(background.variance)
    precision = np.ones_like(shift)
    extra = np.zeros(1)
    if not rules.coherent:
        precision = background.unit_precision[None].copy()
        extra += rules.f_delta * mask.sum()
    return cost_tables(point.groups, point.unit, background, rules, shift, precision, mask, extra)


def one_point_gains(problem: Problem, rows: slice, unit: Floats) -> Floats:
    """(rows, D) gains of the one-point clusters of some rows, weight `unit` (rows,) each; missing cells 0."""
    background = problem.background
    p = background.grid.p
    numeric, codes = problem.table.numeric[rows], problem.table.codes[rows]
    gains = np.zeros((len(numeric), p + len(background.grid.level_start)))
    z = (numeric.astype(np.float64) - background.centre) * background.scale
    gains[:, :p] = np.nan_to_num(0.5 * unit[:, None] * z * z, copy=False)
    for d, start in enumerate(background.grid.level_start):
        eta = background.frequency[start + codes[:, d].astype(np.intp)]
        with np.errstate(divide="ignore", invalid="ignore"):
            own = (unit + eta) * np.log((unit + eta) / ((unit + 1.0) * eta))
            gains[:, p + d] = np.where(eta > 0, own - (1.0 - eta) * np.log(unit + 1.0), 0.0)
    return gains * background.usable


def newcomer_mask(gains: Floats, background: Background, rules: Rules, shared: Mask) -> tuple[Mask, Floats]:
    """(rows, D) features a one-point cluster starts with - its own best, all that pay, or the shared mask - and (rows,) their price."""
    if rules.selection == "priced":
        return priced_mask(gains, background, rules)
    if rules.selection == "global":
        mask = np.repeat(shared[None], len(gains), axis=0)
    elif rules.selection == "free":
        mask = ((gains > rules.f_delta) & (background.usable > 0)).astype(np.uint8)
    else:
        p, (n_numeric, n_categorical) = background.grid.p, background.budget(rules.fraction)
        numeric = top(gains[:, :p], background.usable[:p], n_numeric)
        categorical = top(gains[:, p:], background.usable[p:], n_categorical)
        mask = np.concatenate([numeric, categorical], axis=1).astype(np.uint8)
    return mask, rules.f_delta * mask.sum(axis=1)


def priced_mask(gains: Floats, background: Background, rules: Rules) -> tuple[Mask, Floats]:
    """(rows, D) features that pay their description length and (rows,) that length, mask code included."""
    price, log_choose = feature_prices(background, rules)
    usable = np.flatnonzero(background.usable)
    net = gains[:, usable] - price[usable]
    order = np.argsort(-net, axis=1, kind="stable")
    value = np.cumsum(np.take_along_axis(net, order, axis=1), axis=1)
    value = np.concatenate([np.zeros((len(gains), 1)), value], axis=1) - log_choose
    unit = 1e-9 * np.maximum(1.0, np.abs(net).max(axis=1, initial=0.0))
    q = np.argmax(value >= value.max(axis=1, keepdims=True) - unit[:, None], axis=1)
    mask = np.zeros(gains.shape, np.uint8)
    mask[:, usable] = np.argsort(order, axis=1) < q[:, None]
    return mask, (mask * price).sum(axis=1) + log_choose[q] + np.log(len(usable) + 1.0)


def opening_limits(problem: Problem, shared: Mask) -> Floats:
    """(n,) best cost above which a row opens its own cluster; +inf for rows of weight 0."""
    rules, background, n = problem.rules, problem.background, len(problem.table)
    limits = np.empty(n)
    for rows in chunks(n):
        size = rows.stop - rows.start
        unit = np.ones(size) if problem.unit_weight is None else problem.unit_weight[rows]
        if rules.coherent:
            gains = one_point_gains(problem, rows, unit)
            mask, features = newcomer_mask(gains, background, rules, shared)
            saved = np.where(mask > 0, gains, 0.0).sum(axis=1)
            price = (rules.price or 0.0) + features - saved + 1e-9
            with np.errstate(divide="ignore", invalid="ignore"):
                limits[rows] = np.where(unit > 0, price / unit, np.inf)
        else:
            price = (rules.price or 0.0) - background.categorical_row_costs(problem.table.codes[rows]) + 1e-9
            limits[rows] = np.where(unit > 0, price, np.inf)
    return limits


def start_labels(problem: Problem, kind: str, n_clusters: int, start: int) -> Labels:
    """(n,) a start partition: "single", "random" or "farthest" (nearest of n_clusters farthest-first seeds)."""
    labels = np.zeros(len(problem.table), np.int32)
    if kind == "single" or n_clusters == 1 or not problem.background.usable.any():
        return labels
    if kind == "farthest":
        return compact(farthest_first(problem, n_clusters, start)[0])
    for rows in chunks(len(labels)):
        draws = uniform(problem.seed, start, _LABEL_DRAW, np.arange(rows.start, rows.stop, dtype=np.uint64))
        labels[rows] = (draws * n_clusters).astype(np.int32)
    return compact(labels)


def by_first_appearance(solution: Solution) -> Solution:
    """The solution with its clusters in the order they first occur; the labels in place."""
    order = first_appearance(solution.labels, solution.moments.n_clusters)
    renumber(solution.labels, np.argsort(order).astype(np.int32))
    return replace(solution, moments=solution.moments.select(order))


def show_seed(problem: Problem, row: int, k: int, labels: Labels, best: Floats) -> None:
    """Rows go to seed k where its one-point cluster, all features selected, is strictly cheaper than the seeds before it."""
    table, everything = problem.table, problem.background.usable[None].copy()
    tables, threads = point_tables(one_point(problem, row, 1.0), everything, problem), problem.threads(1)
    _kernel.challenge(
        table.numeric, table.codes, problem.weight, tables, k, 0, labels, best,
        problem.scratch(tables, threads), *_NO_MOMENTS, threads,
    )  # fmt: skip


def farthest_first(problem: Problem, n_seeds: int, start: int) -> tuple[Labels, float, int]:
    """Farthest-first traversal by one-point clusters that select every feature.

    The distance of a row to a seed is, in the coherent model, what the row would save in nats by a cluster of its own
    instead of the seed's: 0 for the same cells. In the paper's model it is the absolute cost d_nk.

    Returns
    -------
    labels : ndarray (n,) of int32
        Nearest seed of every row (ties: the earlier).
    radius : float
        Distance of the farthest row to its nearest seed.
    row : int
        That row.
    """
    table, background, n = problem.table, problem.background, len(problem.table)
    whole = replace(problem, rules=Rules(model=problem.rules.model, fraction=1.0))
    own = one_point_own_costs(whole) if whole.rules.coherent else -background.categorical_row_costs(table.codes)
    labels, best = np.full(n, -1, np.int32), np.full(n, np.inf)
    row = problem.random_row(start, _ROW_DRAW, 1)
    radius = 0.0
    for k in range(n_seeds):
        show_seed(whole, row, k, labels, best)
        row, radius = farthest_row(best, own, problem.weight)
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


def one_point_own_costs(problem: Problem) -> Floats:
    """(n,) cost of every row, relative to the background, under its own one-point cluster with all features."""
    background, n = problem.background, len(problem.table)
    p, own = background.grid.p, np.zeros(len(problem.table))
    for rows in chunks(n):
        gains = one_point_gains(problem, rows, np.ones(rows.stop - rows.start))
        own[rows] -= gains[:, :p].sum(axis=1)
        for d, level in enumerate(background.grid.level_start):
            eta = background.frequency[level + problem.table.codes[rows, d].astype(np.intp)]
            known = (eta > 0) & (background.usable[p + d] > 0)
            own[rows] -= np.log(np.where(known, (1.0 + eta) / np.where(known, 2.0 * eta, 1.0), 1.0))
    return own


def farthest_first_price(problem: Problem, n_clusters: int) -> float:
    """Lambda by the paper's heuristic: the distance after n_clusters farthest-first seeds, scaled to the share m of features.

    The rest of the features stand under the background, which only the paper's absolute costs contain.
    """
    fraction = problem.rules.fraction
    _, radius, row = farthest_first(problem, n_clusters, 0)
    if problem.rules.coherent:
        return fraction * radius
    return fraction * radius + (1 - fraction) * float(problem.background.categorical_row_costs(problem.table.codes[[row]])[0])


def with_price(problem: Problem, price: float) -> Problem:
    """The same problem at a cluster price Lambda."""
    return replace(problem, rules=replace(problem.rules, price=price))


def side_by_side(problem: Problem, n_starts: int) -> int:
    """Threads on which starts run side by side: where a pass is too short to be shared, but a whole start is worth a thread."""
    if n_starts == 1:
        return 1
    cells = len(problem.table) * (problem.background.grid.p + problem.background.grid.q)
    return problem.n_threads if _WORTH_A_THREAD <= cells <= _WORTH_ALL_THREADS else 1


def run_starts(run: Callable[[int], T], n_starts: int, problem: Problem) -> list[T]:
    """The result of every start, in order; on an interrupt the others give up at their next pass."""
    return map_side_by_side(run, range(n_starts), side_by_side(problem, n_starts), problem.stop)


def best_of(solutions: list[Solution]) -> Solution:
    """The solution of the lowest objective (ties: the earlier start)."""
    best = solutions[0]
    for solution in solutions[1:]:
        if solution.objective < best.objective - 1e-9:
            best = solution
    return best
