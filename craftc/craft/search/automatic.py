"""CRAFT with an automatic number of clusters: several starts, merges and splits of the best, and its merge
path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from craftc._common.random import SAMPLE_ROWS, CraftStream, spread
from craftc._common.typing import Labels
from craftc.craft.diagnostics import MANY_CLUSTERS
from craftc.craft.search.config import CraftResult, FitConfig, n_parallel_starts, run_starts
from craftc.craft.search.covariances import CovarianceSearch, CovarianceState, covariance_step
from craftc.craft.search.merges import START_CLUSTERS, MergeSplitSearch, Partition
from craftc.craft.search.path import merge_path, n_clusters_at, number_by_first_appearance, reach_n_clusters
from craftc.craft.search.pooled import PooledSearch
from craftc.craft.search.starts import kmeans_plus_plus_labels, start_labels

_FEW_CLUSTERS = 8  # of every second random start under the pooled background
_CROSSED_AGAIN = 1 << 12  # rows up to which the starts are crossed until J stops falling
_FORCED_PASSES = 100  # of forced merges of which half is expected to be done


def automatic_fit(
    config: FitConfig,
    start_configs: Sequence[FitConfig],
    given: list[Labels] | None,
    init: str,
    target_n_clusters: int | None,
) -> CraftResult:
    """The whole search: one cluster, all starts, forced merges on the best, a target number of clusters, and
    the merge path.

    Forced merges, each followed by passes over all rows, are made on the sample if there is one, and not at
    all from given starts if N is larger than 16 384.

    Parameters
    ----------
    config : FitConfig
    start_configs : sequence of FitConfig
        One for each start; they differ in their callbacks only.
    given : list of labels or None
        Start partitions, overwritten.
    init : {"auto", "single", "random", "farthest"}
        Start partitions where none are given.
    target_n_clusters : int or None
        Number of clusters of the result; None: automatic.
    """
    background, constant = config.background, config.background.cost
    search = search_of(config, config.n_threads)
    best = search.partition(search.rows.one_cluster())
    path = [constant + best.objective]
    searchable = background.weight >= 10 and bool(background.usable.any())
    sampled = searchable and given is None and len(config.table) > SAMPLE_ROWS
    forced = not sampled and (given is None or config.least_fall == 0.0)
    meter = config.meter
    meter.plan(**_work(len(config.table), sampled, forced))
    if sampled:
        best.labels = None  # as long as the table
        start_configs, given = start_configs[:1], [from_a_sample(config, start_configs, init)]
    if searchable:
        if sampled:
            meter.begin("all_rows")
        else:
            meter.begin("starts", len(start_configs) if given is None else len(given))
        best = best_of_starts(search, best, start_configs, given, init)
        given = None  # as long as the table, too
        if best.labels is None:
            best.labels = search.rows.one_cluster()
        path.append(constant + best.objective)
        meter.stage_done(best.K, path[-1])
    if searchable and forced:
        meter.begin("forced_merges", half=_FORCED_PASSES)
        best = search.forced_merges(best)
        path.append(constant + best.objective)
        meter.stage_done(best.K, path[-1])
    if target_n_clusters is not None and target_n_clusters > best.K:
        reach_n_clusters(search, best, target_n_clusters)
        path.append(constant + best.objective)
    if searchable and config.spec.with_covariances:
        meter.begin("covariances")
        best.labels = search.rows.snapshot(best.labels, best.K)  # no second array of labels during the step
        step = covariance_step(
            config, best.labels, search.moments(best), best.mask[: best.K], target_n_clusters
        )
        if step is not None:
            del best
            return with_covariances(*step, path, max(search.n_passes, 1))
        best.labels = search.rows.restored(best.labels)
    if target_n_clusters is not None and target_n_clusters < best.K:
        reach_n_clusters(search, best, target_n_clusters)
        path.append(constant + best.objective)
    number_by_first_appearance(search, best)
    meter.begin("merge_path", n_clusters=best.K)
    at_4 = n_clusters_at(search, best, 4.0) if best.K >= MANY_CLUSTERS else None
    mask = best.mask[: best.K].copy() if config.spec.pooled else None
    converged, moments, snapshot = (
        best.converged or best.K == 1,
        search.moments(best),
        search.rows.snapshot(best.labels, best.K),
    )
    steps, n_passes = merge_path(search, best, snapshot), max(search.n_passes, 1)
    meter.begin("diagnostics")
    return CraftResult(
        path[-1], path, n_passes, converged, snapshot, moments, config.spec, *steps, at_4, mask
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


def search_of(config: FitConfig, n_threads: int) -> MergeSplitSearch:
    """The search under the background of the model."""
    return PooledSearch(config, n_threads) if config.spec.pooled else MergeSplitSearch(config, n_threads)


def with_covariances(
    search: CovarianceSearch, state: CovarianceState, path: list[float], n_passes: int
) -> CraftResult:
    """The result of a search whose last step gave covariances to clusters."""
    path = [*path, state.objective]
    n_passes += search.n_passes
    meter = search.config.meter
    meter.stage_done(state.K, state.objective)
    meter.begin("merge_path", n_clusters=state.K)
    at_4 = search.n_clusters_at(state, 4.0) if state.K >= MANY_CLUSTERS else None
    steps, clusters = search.merge_path(state), state.clusters
    mask = clusters.diagonal_mask if search.config.spec.pooled else None
    meter.begin("diagnostics")
    return CraftResult(
        state.objective,
        path,
        n_passes,
        True,
        state.before,
        clusters.moments,
        search.config.spec,
        *steps,
        at_4,
        mask,
        state.cross,
        clusters,
    )


def from_a_sample(config: FitConfig, start_configs: Sequence[FitConfig], init: str) -> Any:
    """A start for a large table: all starts are searched on a sample, and all rows are assigned to the
    clusters of the best.

    A price factor above 1 is multiplied by the sample's share of the table, but not below 1, because gains
    are proportional to the rows: a cluster that pays for itself in the table then also does in the sample.
    """
    n = len(config.table)
    sample = config.of_rows(spread(n, SAMPLE_ROWS, config.seed, CraftStream.STAGE_SAMPLE))
    factor, share = config.spec.price_factor, sample.rows_weight / config.rows_weight
    sample = replace(sample, spec=replace(config.spec, price_factor=max(min(factor, 1.0), factor * share)))
    search = search_of(sample, sample.n_threads)
    one = search.partition(search.rows.one_cluster())
    constant, meter = config.background.cost, config.meter
    meter.begin("starts", len(start_configs))
    best = best_of_starts(
        search, one, [replace(sample, callback=start.callback) for start in start_configs], None, init
    )
    meter.stage_done(best.K, constant + best.objective)
    meter.begin("forced_merges", half=_FORCED_PASSES)
    best = search.forced_merges(best)
    meter.stage_done(best.K, constant + best.objective)
    return config.rows.assigned(search.clusters(best).tables(), config.threads(best.K))


def best_of_starts(
    search: MergeSplitSearch,
    best: Partition,
    start_configs: Sequence[FitConfig],
    given: list[Any] | None,
    init: str,
) -> Partition:
    """The best result of all starts; if no starts are given, it is crossed with the others in order of J (a
    small table: repeatedly).
    """
    ends = search_starts(search, start_configs, given, init)
    for part in ends:
        if part.objective < best.objective - 1e-9:
            best = part
    if given is None:
        improved, constant, meter = True, search.config.background.cost, search.config.meter
        meter.begin("crossing", len(ends))
        while improved:
            before = best.objective
            for part in sorted(ends, key=lambda end: end.objective):
                if part.objective > best.objective + 1e-9:
                    best = search.cross(best, part)
                    meter.part_done(0, best.K, constant + best.objective)
            improved = len(search.config.table) <= _CROSSED_AGAIN and best.objective < before
    return best


def search_starts(
    search: MergeSplitSearch, start_configs: Sequence[FitConfig], given: list[Any] | None, init: str
) -> list[Partition]:
    """The distinct results of the starts; `search` learns which splits they rejected.

    All starts split their clusters and merge once, then again. One that comes to a partition to which another
    has come ends there: what follows is the same for both.
    """
    config, meter = start_configs[0], search.config.meter
    n_starts = len(start_configs) if given is None else len(given)
    one_by_one = n_parallel_starts(config, n_starts) == 1

    def begin(start: int) -> tuple[MergeSplitSearch, Partition]:
        own = search.again(start_configs[start]) if one_by_one else search_of(start_configs[start], 1)
        labels, soft = start_partition(config, init, start) if given is None else (given[start], False)
        return own, own.begin(labels, soft)

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
    distinct: dict[bytes, Partition] = {}
    for own, part, key in zip(searches, parts, keys, strict=True):
        search.learn_from(own)
        if key in ends:
            distinct.setdefault(key, part)
    return list(distinct.values())


def start_partition(config: FitConfig, init: str, start: int) -> tuple[Labels, bool]:
    """Labels of a start, and whether it begins with soft passes.

    "auto": one cluster first, then k-means++ and random partitions of 20 clusters; every fourth start is
    random. Under the pooled background every second one is, because weak clusters need them, and every fourth
    has 8 clusters.
    """
    kind, most = init, START_CLUSTERS
    if init == "auto":
        every = 2 if config.spec.pooled else 4
        kind = "single" if start == 0 else "random" if start % every == every - 1 else "k-means++"
        if config.spec.pooled and start % 4 == 3:
            most = _FEW_CLUSTERS
    n_clusters = min(max(2, min(most, int(config.background.weight // 5))), config.max_clusters)
    if kind == "k-means++":
        return kmeans_plus_plus_labels(config, n_clusters, start), False
    return start_labels(config, kind, n_clusters, start), kind == "random"
