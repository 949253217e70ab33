"""The search for the number of clusters: one cluster, several starts, the best of them polished, and the way down from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from craftc._common.labels import compact, first_appearance
from craftc._common.random import spread, uniform
from craftc._common.typing import Labels
from craftc.craft.clusters import cost_tables
from craftc.craft.description_length import PricedClusters
from craftc.craft.fixed_price import (
    Problem,
    Solution,
    assign_only,
    one_point,
    one_point_own_costs,
    run_starts,
    show_seed,
    side_by_side,
    start_labels,
)
from craftc.craft.merge_split import START_CLUSTERS, Partition, Search, clusters_at

_SAMPLE = 1 << 16  # rows among which start seeds are sought
_STAGE_ROWS = 1 << 14  # a larger table is searched on so many rows first
_CROSSED_AGAIN = 1 << 12  # rows up to which the starts are crossed until nothing is won
_PLUS_DRAW, _SAMPLE_DRAW, _STAGE_DRAW = 11, 12, 14  # first keys of the random streams


def automatic_outcome(problem: Problem, lines: list[Problem], given: list[Labels] | None, kind: str, wish: int | None) -> Solution:
    """The whole search: one cluster, every start, forced merges on the best, then to the wished number and down the merge path.

    Parameters
    ----------
    problem : Problem
    lines : list of Problem
        The same problem as each start sees it (somebody may follow its passes).
    given : list of labels or None
        Start partitions; they are worked on in place.
    kind : {"auto", "single", "random", "farthest"}
        Kind of the starts where none are given.
    wish : int or None
        Number of clusters to end with.
    """
    background, constant = problem.background, problem.background.cost
    search = Search(problem, problem.n_threads)
    best = search.partition(np.zeros(len(problem.table), np.int32))
    path = [constant + best.objective]
    searchable = background.weight >= 10 and bool(background.usable.any())
    if searchable and given is None and len(problem.table) > _STAGE_ROWS:
        lines, given = lines[:1], [from_a_sample(problem, lines, kind)]
    if searchable:
        best = best_of_starts(search, best, lines, given, kind)
        path.append(constant + best.objective)
        best = search.forced_merges(best)
        path.append(constant + best.objective)
    if wish is not None:
        search.towards(best, wish)
        path.append(constant + best.objective)
    order = first_appearance(search.settled(best), best.K)
    search.reorder(best, order)
    at_4 = clusters_at(problem, best, 4.0)
    merge_path, n_passes = search.merge_path(best), max(search.n_passes, 1)
    return Solution(best.labels, search.moments(best), path[-1], path, n_passes, True, problem.rules, merge_path, at_4)


def from_a_sample(problem: Problem, lines: list[Problem], kind: str) -> Labels:
    """A start for a large table: all starts searched on a sample of its rows, the best one's clusters given to every row."""
    n = len(problem.table)
    sample = problem.of_rows(spread(n, _STAGE_ROWS, problem.seed, _STAGE_DRAW))
    search = Search(sample, sample.n_threads)
    one = search.partition(np.zeros(_STAGE_ROWS, np.int32))
    best = best_of_starts(search, one, [replace(sample, on_pass=line.on_pass) for line in lines], None, kind)
    tables = PricedClusters(search.moments(best), problem.background, problem.rules).tables()
    labels = np.full(n, -1, np.int32)
    assign_only(problem.table, tables, labels, problem.threads(best.K))
    return compact(labels)


def best_of_starts(search: Search, best: Partition, lines: list[Problem], given: list[Labels] | None, kind: str) -> Partition:
    """The best end of all starts; unless they are given, crossed with each of the others in order of their J (a small table: again)."""
    ends = run_lines(search, lines, given, kind)
    for part in ends:
        if part.objective < best.objective - 1e-9:
            best = part
    if given is None:
        gain = True
        while gain:
            before = best.objective
            for part in sorted(ends, key=lambda end: end.objective):
                if part.objective > best.objective + 1e-9:
                    best = search.cross(best, part)
            gain = len(search.problem.table) <= _CROSSED_AGAIN and best.objective < before
    return best


def run_lines(search: Search, lines: list[Problem], given: list[Labels] | None, kind: str) -> list[Partition]:
    """Every start searched to its end: side by side on threads where a pass is too short to be shared, else one after the other.

    `search` learns what the lines find out.
    """
    n_starts = len(lines) if given is None else len(given)
    alone = side_by_side(lines[0], n_starts) == 1

    def run(s: int) -> tuple[Search, Partition]:
        line = Search(lines[s], lines[s].n_threads if alone else 1)
        if given is not None:
            return line, line.run(given[s], False)
        return line, line.run(*start_partition(lines[s], kind, s))

    ends = []
    for line, part in run_starts(run, n_starts, lines[0]):
        search.learn_from(line)
        ends.append(part)
    return ends


def start_partition(problem: Problem, kind: str, start: int) -> tuple[Labels, bool]:
    """Labels of a start, and whether it is to be softened: one cluster first, every fourth random, the others k-means++ like."""
    K0 = min(max(2, min(START_CLUSTERS, int(problem.background.weight // 5))), problem.cap)
    if kind == "auto":
        kind = "single" if start == 0 else "random" if start % 4 == 3 else "plus"
    if kind == "plus":
        return plus_labels(problem, K0, start), False
    return start_labels(problem, kind, K0, start), kind == "random"


def plus_labels(problem: Problem, K0: int, start: int) -> Labels:
    """Nearest of K0 seeds, drawn one by one with chance proportional to the distance to the nearest seed so far.

    The distance of a row to a seed is what the row would save in nats by a one-point cluster of its own. Seeds are sought
    among at most 65 536 rows.
    """
    n = len(problem.table)
    if n > _SAMPLE:
        draws = uniform(problem.seed, start, _SAMPLE_DRAW, np.arange(_SAMPLE))
        sample = np.unique((draws * n).astype(np.int64))
    else:
        sample = np.arange(n)
    part = problem.of_rows(sample) if n > _SAMPLE else problem
    seeds = sample[plus_seeds(part, K0, start)]
    background = problem.background
    points = [one_point(problem, int(row), 1.0) for row in seeds]
    shift = np.concatenate([point.means()[0] for point in points])
    shift = (shift - background.mean) / np.sqrt(background.variance)
    mask = np.repeat(background.usable[None], len(seeds), axis=0)
    groups = np.concatenate([point.groups for point in points])
    tables = cost_tables(groups, 1.0, background, problem.rules, shift, np.ones_like(shift), mask, np.zeros(len(seeds)))
    labels = np.full(n, -1, np.int32)
    assign_only(problem.table, tables, labels, problem.threads(len(seeds)))
    return compact(labels)


def plus_seeds(problem: Problem, K0: int, start: int) -> list[int]:
    """Rows of the seeds."""
    n = len(problem.table)
    own, best, labels = one_point_own_costs(problem), np.full(n, np.inf), np.full(n, -1, np.int32)
    row, seeds = problem.random_row(start, _PLUS_DRAW, 0), []
    for k in range(K0):
        seeds.append(row)
        show_seed(problem, row, k, labels, best)
        distance = np.maximum(best - own, 0.0)
        if len(problem.weight):
            distance *= problem.weight
        running = np.cumsum(distance)
        if not running[-1] > 1e-9:  # every distinct row is a seed
            break
        row = int(np.searchsorted(running, uniform(problem.seed, start, _PLUS_DRAW, k + 1) * running[-1], side="right"))
    return seeds
