"""CRAFT with an automatic number of clusters: several starts, merges and splits of the best, and its merge
path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import cast

import numpy as np

from craftc._common.labels import compact
from craftc._common.merge_path import MergePath
from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc._common.typing import Array, Labels
from craftc.craft.fitted import PathClusters
from craftc.craft.rows import L, S
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import (
    AutomaticResult,
    FitConfig,
    LocalConfig,
    assign_zero_weight_rows,
    n_parallel_starts,
    run_starts,
)
from craftc.craft.search.covariances import CovarianceSearch, CovarianceState
from craftc.craft.search.forms import covariance_step
from craftc.craft.search.merges import START_CLUSTERS, MergeSplitSearch, Partition, digest
from craftc.craft.search.splits import best_split
from craftc.craft.search.starts import (
    kmeans_plus_plus_labels,
    kmeans_starts,
    low_rank_scores,
    mixture_labels,
    start_labels,
)

_FEW_CLUSTERS = 8  # of every second random start
_MIXTURES = (8, 4, 2)  # components of random starts of a small table
_MIXTURE_CELLS = 1 << 15  # cells up to which a table is small
_CROSSED_AGAIN = 1 << 17  # cells up to which the starts are crossed until J stops falling
_FORCED_PASSES = 100  # passes after which half of the forced merges is assumed done
MANY_CLUSTERS = 10  # from 10 clusters on, count those left at four times the price


def fit_in_range(
    config: FitConfig[L, S],
    n_starts: int,
    starts: tuple[list[L] | None, Sequence[L]],
    init: str,
    n_clusters: tuple[int, int],
    target: int | None,
) -> AutomaticResult[S]:
    """The whole search for a number of clusters in a range: the automatic number, or the end of the range
    nearest to it. `starts`: given and further ones; `target`: the only number of the range, if it is given.
    """
    given, further = starts
    low, high = n_clusters
    kept = None if given is None else [config.rows.copied(labels) for labels in given]
    result = automatic_fit(config, n_starts, given, init, target, [*map(config.rows.copied, further)])
    nearest = min(max(result.moments.n_clusters, low), high)
    if target is not None or nearest == result.moments.n_clusters:
        return result
    return automatic_fit(config, n_starts, kept, init, nearest, further)


def automatic_fit(
    config: FitConfig[L, S],
    n_starts: int,
    given: list[L] | None,
    init: str,
    target_n_clusters: int | None,
    further: Sequence[L] = (),
) -> AutomaticResult[S]:
    """The whole search: one cluster, all starts, forced merges on the best, a target number of clusters, and
    the merge path.

    Forced merges, each followed by passes over all rows, are made on the sample if there is one, and not at
    all from given starts if N is larger than 16 384. Start partitions are `given` (and overwritten), or made
    by the rule `init`; and there are `further` ones, from which covariances and a target number of clusters
    are sought, too.
    """
    rows = config.rows
    if rows.is_partitioned and len(rows) <= SAMPLE_ROWS:  # few rows are gathered in this process
        found = automatic_fit(config.of_rows(np.arange(len(rows))), n_starts, None, init, target_n_clusters)
        if found.cross is not None and config.encoding is not None:  # labels are assigned by scores, too
            rows = rows.scored(config.encoding.with_scores())
        labels, merged = rows.adopted(found.merge_path, found.labels)
        return replace(found, labels=labels, merge_path=merged)  # type: ignore[arg-type, return-value]
    if given is not None:
        n_starts = len(given)
    background, constant = config.background, config.background.cost
    search = MergeSplitSearch(config, config.n_threads)
    best = search.partition(search.rows.one_cluster())
    path = [constant + best.objective]
    searchable = background.weight >= 10 and bool(background.usable.any())
    sampled = searchable and given is None and len(config.rows) > SAMPLE_ROWS
    forced = not sampled and (given is None or config.least_fall == 0.0)
    from_kmeans, meter = given is None, config.meter
    seeds: list[L] = []
    meter.plan(**_work(len(config.rows), sampled, forced))
    if sampled:
        best.labels = cast(L, None)  # frees n labels
        start, *seeds = from_a_sample(config, n_starts, init, target_n_clusters)
        n_starts, given = 1, [start]
    if searchable:
        if sampled:
            meter.begin("all_rows")
        else:
            meter.begin("starts", n_starts + len(further))
        best = best_of_starts(search, best, n_starts, given, init, further)
        given = None  # frees n labels
        if best.labels is None:
            best.labels = search.rows.one_cluster()
        path.append(constant + best.objective)
        meter.stage_done(best.K, path[-1])
    if searchable and forced:
        meter.begin("forced_merges", half=_FORCED_PASSES)
        best = search.forced_merges(best)
        path.append(constant + best.objective)
        meter.stage_done(best.K, path[-1])
    own = best  # the automatic partition, from whose clusters covariances are merged
    if target_n_clusters is not None and target_n_clusters != best.K:
        few = target_n_clusters <= START_CLUSTERS
        if few and from_kmeans and not sampled and isinstance(rows, LocalRows):
            seeds += cast("list[L]", kmeans_starts(config, low_rank_scores(config), target_n_clusters))
        seeds += map(rows.copied, further)
        best = best_at_n_clusters(search, best, target_n_clusters, seeds, exchanges=forced and few)
        path.append(constant + best.objective)
    if searchable and config.spec.covariance != "diagonal":
        meter.begin("covariances")
        starts = [search.partition(rows.copied(labels)) for labels in further]
        starts += [own] if own is best else [own, best]
        snapshots = [search.rows.snapshot(part.labels, part.K) for part in starts]
        masks = [part.mask[: part.K] for part in starts]
        for part in starts:
            part.labels = cast(L, None)  # no second array of labels during the step
        moments, objective = search.moments(best), constant + best.objective
        step = covariance_step(
            config, snapshots, masks, moments, objective, target_n_clusters, from_kmeans, len(further)
        )
        if step is not None:
            del best, own, starts, part
            return with_covariances(*step, path, max(search.n_passes, 1), target_n_clusters)
        best.labels = search.rows.restored(snapshots[-1])
    number_by_first_appearance(search, best)
    meter.begin("merge_path", n_clusters=best.K)
    while True:
        at_4 = n_clusters_at(search, best, 4.0) if best.K >= MANY_CLUSTERS else None
        mask, moments = best.mask[: best.K].copy(), search.moments(best)
        converged, snapshot = best.converged or best.K == 1, search.rows.snapshot(best.labels, best.K)
        steps, along, shortest = merge_path(search, best, snapshot)
        if shortest is None or target_n_clusters is not None:
            break
        best = shortest
        search.passes(best)
        number_by_first_appearance(search, best)
        path.append(constant + best.objective)
    n_passes = max(search.n_passes, 1)
    meter.begin("diagnostics")
    return AutomaticResult(
        path[-1], path, n_passes, converged, snapshot, moments, config.spec, steps, along, at_4, mask
    )


def _work(n: int, sampled: bool, forced: bool) -> dict[str, float]:
    """Expected work of every stage in hundredths of a second, measured on tables of 270 to 500 000 rows and 9
    to 14 columns.
    """
    rows, more = n / SAMPLE_ROWS, n > SAMPLE_ROWS
    return {
        "reading": 1.0 + 0.8 * rows,
        "starts": 40.0,
        "crossing": 15.0,
        "forced_merges": 10.0 if forced or sampled else 0.0,
        "all_rows": 3.0 + 1.2 * rows if sampled else 0.0,
        "covariances": 10.0 + 0.6 * rows if more else 3.0,
        "merge_path": 2.0 + 0.3 * rows,
        "diagnostics": 10.0 + 0.4 * rows if more else 3.0,
    }


def with_covariances(
    search: CovarianceSearch[L, S],
    state: CovarianceState[S],
    path: list[float],
    n_passes: int,
    target: int | None,
) -> AutomaticResult[S]:
    """The result of a search whose last step gave covariances to clusters."""
    path = [*path, state.objective]
    n_passes += search.n_passes
    meter = search.config.meter
    meter.stage_done(state.K, state.objective)
    meter.begin("merge_path", n_clusters=state.K)
    while True:
        at_4 = search.n_clusters_at(state, 4.0) if state.K >= MANY_CLUSTERS else None
        steps, along, shortest = search.merge_path(state)
        if shortest is None or target is not None:
            break
        state = search.number_by_first_appearance(search.passes(shortest))
        path.append(state.objective)
    clusters = state.clusters
    meter.begin("diagnostics")
    return AutomaticResult(
        state.objective,
        path,
        n_passes,
        state.converged or state.K == 1,
        state.before,
        clusters.moments,
        search.config.spec,
        steps,
        along,
        at_4,
        clusters.choice,
        state.cross,
        clusters,
    )


def from_a_sample(config: FitConfig[L, S], n_starts: int, init: str, target: int | None) -> list[L]:
    """Starts for a large table: the sample is searched from all starts, and all rows are assigned to the
    clusters of the best partition, and to those of the best into the target number of clusters.
    """
    sample = config.sample(SAMPLE_ROWS, CraftStream.STAGE_SAMPLE)[1]
    search, found = diagonal_partitions(sample, n_starts, init, target)
    return [config.rows.assigned(search.clusters(part).tables(), config.threads(part.K)) for part in found]


def diagonal_partitions(
    sample: LocalConfig, n_starts: int, init: str, target: int | None
) -> tuple[MergeSplitSearch[Labels, Array], list[Partition[Labels]]]:
    """The search of few rows without covariances and merge path: the best partition from all starts, after
    forced merges, and the best into the target number of clusters, if that is another one.
    """
    search = MergeSplitSearch(sample, sample.n_threads)
    one = search.partition(search.rows.one_cluster())
    constant, meter = sample.background.cost, sample.meter
    meter.begin("starts", n_starts)
    best = best_of_starts(search, one, n_starts, None, init)
    meter.stage_done(best.K, constant + best.objective)
    meter.begin("forced_merges", half=_FORCED_PASSES)
    best = search.forced_merges(best)
    meter.stage_done(best.K, constant + best.objective)
    if target is None or target == best.K or target > START_CLUSTERS:
        return search, [best]
    seeds = kmeans_starts(sample, low_rank_scores(sample), target)
    return search, [best, best_at_n_clusters(search, best, target, seeds, exchanges=True)]


def best_of_starts(
    search: MergeSplitSearch[L, S],
    best: Partition[L],
    n_starts: int,
    given: list[L] | None,
    init: str,
    further: Sequence[L] = (),
) -> Partition[L]:
    """The best result of all starts; if no starts are given, it is crossed with the others in order of J (a
    small table: repeatedly).
    """
    ends = search_starts(search, n_starts, given, init, further)
    for part in ends:
        if part.objective < best.objective - 1e-9:
            best = part
    if given is None:
        improved, constant, meter = True, search.config.background.cost, search.config.meter
        n_cells = len(search.rows) * search.rows.schema.n_columns
        meter.begin("crossing", len(ends))
        while improved:
            before = best.objective
            for part in sorted(ends, key=attrgetter("objective")):
                if part.objective > best.objective + 1e-9:
                    best = crossed(search, best, part)
                    meter.part_done(0, best.K, constant + best.objective)
            improved = n_cells <= _CROSSED_AGAIN and best.objective < before
    return best


def crossed(search: MergeSplitSearch[L, S], part: Partition[L], other: Partition[L]) -> Partition[L]:
    """The intersections of two partitions, merged and split while that lowers J; the first partition if the
    result is no better.
    """
    trial = search.partition(cast(L, common_parts(part, other, search.capacity)))
    search.merge_while_cheaper(trial)
    search.merge_until_stable(trial)
    while search.split_once(trial):
        pass
    return trial if trial.objective < part.objective - search.split_tolerance else part


def common_parts(part: Partition[L], other: Partition[L], room: int) -> Labels:
    """Labels of the intersections of two partitions, numbered by cluster of the first, then of the second.

    If there are more than `room`, the smallest are joined with the largest intersection of their cluster in
    the first partition.
    """
    first, second = cast(Labels, part.labels), cast(Labels, other.labels)
    # a row without weight may have no cluster
    cell = np.maximum(first, 0) * np.int32(other.K) + np.maximum(second, 0)
    size = np.bincount(cell, minlength=part.K * other.K).reshape(part.K, other.K)
    if np.count_nonzero(size) <= max(room, part.K):
        return compact(cell)
    largest = size.argmax(axis=1)
    rank = size.copy()
    rank[np.arange(part.K), largest] = len(cell) + 1
    kept = np.zeros(rank.size, bool)
    kept[np.argsort(-rank, axis=None, kind="stable")[: max(room, part.K)]] = True
    own = np.arange(rank.size)
    place = np.where(kept, own, np.repeat(np.arange(part.K) * other.K + largest, other.K))
    return compact(place[cell].astype(np.int32))


def search_starts(
    search: MergeSplitSearch[L, S],
    n_starts: int,
    given: list[L] | None,
    init: str,
    further: Sequence[L] = (),
) -> list[Partition[L]]:
    """The distinct results of the starts and of `further` ones; `search` learns which splits they rejected.

    All starts split their clusters and merge once, then again. A start that comes to a partition to which
    another has come ends there: the rest would be the same for both.
    """
    config, meter = search.config, search.config.meter
    n_made, n_starts = n_starts, n_starts + len(further)
    one_by_one = n_parallel_starts(config, n_starts) == 1

    def begin(start: int) -> tuple[MergeSplitSearch[L, S], Partition[L]]:
        of_start = config.of_start(start)
        own = search.again(of_start) if one_by_one else MergeSplitSearch(of_start, 1)
        if start >= n_made:
            return own, own.begin(config.rows.copied(further[start - n_made]), soft=False)
        if given is not None:
            return own, own.begin(given[start], soft=False)
        labels, soft = start_partition(config, init, start)
        return own, own.begin(cast(L, labels), soft)

    def split_once(start: int) -> bool:
        return searches[start].split_once(parts[start])

    begun = run_starts(begin, range(n_starts), config)
    searches, parts = [own for own, _ in begun], [part for _, part in begun]
    keys = [part.key for part in parts]
    came: dict[bytes, int] = {}  # the start that has come to a partition first
    ends: set[bytes] = set()
    going, n_done = list(range(n_starts)), 0
    while going:
        apart = [start for start in going if came.setdefault(keys[start], start) == start]
        going = []
        for start, fell in zip(apart, run_starts(split_once, apart, config), strict=True):
            if fell:
                keys[start] = parts[start].key
                going.append(start)
            else:
                ends.add(keys[start])
        n_reported, n_done = n_done, min(going, default=n_starts)  # reports come in the order of the starts
        for start in range(n_reported, n_done):
            meter.part_done(
                start,
                parts[start].K,
                config.background.cost + parts[start].objective,
                searches[start].n_passes,
            )
    distinct: dict[bytes, Partition[L]] = {}
    for own, part, key in zip(searches, parts, keys, strict=True):
        search.learn_from(own)
        if key in ends:
            distinct.setdefault(key, part)
    return list(distinct.values())


def start_partition(config: FitConfig[L, S], init: str, start: int) -> tuple[Labels, bool]:
    """Labels of a start, and whether it begins with soft passes.

    "auto": one cluster first, then random partitions and k-means++ in turn, because weak clusters need random
    starts. They have 20 clusters, every second random one 8. In a small table the random ones have 20, 8, 4
    and 2, and those of less than 20 are mixtures.
    """
    kind, most, mixture = init, START_CLUSTERS, False
    if init == "auto":
        kind = "single" if start == 0 else "random" if start % 2 else "k-means++"
        if kind == "random":
            small = len(config.rows) * config.rows.schema.n_columns <= _MIXTURE_CELLS
            turns = (START_CLUSTERS, *_MIXTURES) if small else (START_CLUSTERS, _FEW_CLUSTERS)
            most = turns[start // 2 % len(turns)]
            mixture = small and most < START_CLUSTERS and bool(config.background.usable.any())
    n_clusters = min(max(2, min(most, int(config.background.weight // 5))), config.max_clusters)
    if kind == "k-means++":
        return kmeans_plus_plus_labels(config, n_clusters, start), False
    labels = start_labels(config, kind, n_clusters, start)
    if mixture:
        return mixture_labels(config, labels, n_clusters), False
    return labels, kind == "random"


# ---- other numbers of clusters ----


def best_at_n_clusters(
    search: MergeSplitSearch[L, S], best: Partition[L], target: int, seeds: list[L], exchanges: bool
) -> Partition[L]:
    """The best partition into `target` clusters, or as near as the table allows: from the automatic one and
    from `seeds`, improved by `exchanges`, a split followed by a merge.
    """
    starts = [search.copy(best), *(search.partition(labels) for labels in seeds)]
    for part in starts[1:]:
        search.passes(part)
    for part in starts:
        reach_n_clusters(search, part, target)
    best = min(starts, key=lambda part: (abs(part.K - target), not part.converged, part.objective))
    improved = exchanges
    while improved:
        trial = search.copy(best)
        reach_n_clusters(search, trial, target + 1)
        reach_n_clusters(search, trial, target)
        improved = trial.K == best.K and trial.objective < best.objective - search.split_tolerance
        best = trial if improved else best
    return best


def reach_n_clusters(search: MergeSplitSearch[L, S], part: Partition[L], target: int) -> None:
    """Best merges down, or best splits up, to the target, or as near as the table allows."""
    while target < part.K:
        search.merge_best(part)
    undone: set[bytes] = set()
    while target > part.K and _split_best(search, part, undone):
        pass


def _split_best(search: MergeSplitSearch[L, S], part: Partition[L], undone: set[bytes]) -> bool:
    """The cheapest split that remains after passes over all rows; if there is none, the cheapest split
    without passes.

    `undone` are sums of clusters whose splits passes have undone; such a split is not tried again while the
    cluster stays the same.
    """
    found = [best_split(each) for each in search.splits(part, range(part.K), at_any_price=True)]
    splits = [(split.delta, k, split) for k, split in enumerate(found) if split is not None]
    splits.sort(key=itemgetter(0, 1))
    for _, k, split in splits:
        key = digest(part.groups[k])
        if key in undone:
            continue
        trial = search.copy(part)
        search.apply_split(trial, k, split)
        search.passes(trial)
        if trial.K > part.K:
            part.__dict__.update(trial.__dict__)
            return True
        undone.add(key)
    before = part.K
    if splits:
        search.apply_split(part, *splits[0][1:])
    return before < part.K


def number_by_first_appearance(search: MergeSplitSearch[L, S], part: Partition[L]) -> None:
    """Assign rows of weight 0 whose cluster was dropped, then number the clusters by first appearance."""
    config, labels = search.config, part.labels
    if len(config.weight) and isinstance(labels, np.ndarray) and (labels < 0).any():
        assign_zero_weight_rows(config, search.clusters(part).tables(), labels)
    order = search.rows.first_appearance(labels, part.K)
    search.relabel(part, np.append(np.argsort(order), -1).astype(np.int32))
    for array in (part.groups, part.cost, part.mask):
        array[: part.K] = array[order]


def merge_path(
    search: MergeSplitSearch[L, S], part: Partition[L], snapshot: S
) -> tuple[MergePath, PathClusters, Partition[L] | None]:
    """The partition, numbered by first appearance, and every partition on the way down to one cluster; their
    clusters; and the partition of the lowest J on the way, if it is below that of the first.

    `part` becomes the last of them; `snapshot` is that of its labels.
    """
    constant, rows = search.config.background.cost, search.rows
    path = rows.merge_path(snapshot, part.K, constant + part.objective)
    clusters = PathClusters.begin(search.moments(part), part.mask[: part.K])
    shortest: Partition[L] | None = None
    least = part.objective - search.split_tolerance
    while part.K > 1:
        before = rows.snapshot(part.labels, part.K)
        pair = search.merge_best(part)
        number_by_first_appearance(search, part)
        rows.append_step(path, part.K, constant + part.objective, before, part.labels, pair)
        clusters.append(path.changes()[-1].place, part.groups[: part.K], part.mask[: part.K])
        if part.objective < least:
            least, shortest = part.objective, search.copy(part)
    return path, clusters, shortest


def n_clusters_at(search: MergeSplitSearch[L, S], part: Partition[L], factor: float) -> int:
    """Clusters that are left of a partition if clusters are merged while that lowers J at `factor` times the
    price.
    """
    spec = replace(search.config.spec, price_factor=factor * search.config.spec.price_factor)
    scaled = MergeSplitSearch(replace(search.config, spec=spec), 1)
    part = search.copy(replace(part, labels=cast(L, None)))
    scaled.price(part)
    scaled.merge_while_cheaper(part)
    return part.K
