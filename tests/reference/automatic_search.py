"""The search for the number of clusters: merges, splits, forced merges, starts."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import numpy as np

from tests.reference.automatic import (
    FORCED_PAIRS,
    FORCED_TRIES,
    LOCAL_PASSES,
    QUANTUM,
    SPLIT_SLACK,
    accept,
    costs,
    distances,
    gains,
    masks,
    move,
    partition,
    passes,
    problem,
    soften,
    sums,
)

# ----------------------------------------------------------------------------------------
# Merges
# ----------------------------------------------------------------------------------------


def first_lowest(values):
    """Index of the first value that no other undercuts by more than 1e-9; None if there is none."""
    values = np.asarray(values, float)
    if not np.any(values < np.inf):
        return None
    return int(np.argmax(values <= values.min() + QUANTUM))


def ascending(values):
    """Indices of the finite values, lowest first; within 1e-9 the earlier comes first."""
    left = np.array(values, float)
    while (i := first_lowest(left)) is not None:
        yield i
        left[i] = np.inf


def pair_deltas(t, now):
    """Delta_ij = cost(i+j) - cost_i - cost_j for i < j, infinite elsewhere (K, K)."""
    delta = np.full((now.K, now.K), np.inf)
    i, j = np.triu_indices(now.K, 1)
    if len(i):
        delta[i, j] = costs(t, now.stats[i] + now.stats[j], now.shared) - now.cost[i] - now.cost[j]
    return delta


def united(t, now, i, j):
    """The partition with the clusters i < j in one; it keeps number i."""
    return partition(t, np.where(now.labels == j, i, now.labels))


def descend(t, now, log):
    """Passes, then the merges that pay, until no merge was made."""
    while True:
        now = passes(t, now, log)
        merged = False
        while now.K > 1:
            delta = pair_deltas(t, now)
            i, j = divmod(first_lowest(delta.ravel()), now.K)
            if not delta.min() < -QUANTUM:
                break
            now, merged = accept(log, "merge", now, united(t, now, i, j)), True
        if not merged:
            return now


def row_set(rows):
    """A set of row numbers as a key."""
    return np.asarray(rows, np.int64).tobytes()


def forced_merges(t, now, log, failed=None):
    """Merge pairs that nearly pay although J rises; keep what passes and splits make of it.

    Pairs are taken by Delta, the first five whose union has not been tried yet.
    """
    tried, failed = set(), set() if failed is None else failed
    helped = True
    while helped:
        helped = False
        candidates = []
        for pair in ascending(pair_deltas(t, now).ravel()):
            i, j = divmod(pair, now.K)
            union = row_set(np.flatnonzero((now.labels == i) | (now.labels == j)))
            if union not in tried:
                candidates.append((i, j, union))
            if len(candidates) == FORCED_PAIRS:
                break
        for i, j, union in candidates:
            if len(tried) == FORCED_TRIES:
                break
            tried.add(union)
            moves = []
            other = grow(t, passes(t, united(t, now, i, j), moves), moves, failed)
            if other.J < now.J - SPLIT_SLACK:
                log.extend(moves)
                now, helped = accept(log, "forced", now, other), True
                break
    return now


# ----------------------------------------------------------------------------------------
# Splits
# ----------------------------------------------------------------------------------------


def split_candidates(t, rows):
    """Ways to cut a cluster in two, in order of creation: True for the rows of side b.

    A categorical column gives its three most frequent levels, each against the rest (one if only
    two occur), a numeric one the cells above the mean. Missing cells are on side a.
    """
    weight, candidates = t.weight[rows], []
    for j in range(t.Q):
        of_column = np.flatnonzero(t.column == j)
        count = weight @ t.levels[np.ix_(rows, of_column)]
        occur = np.flatnonzero(count > 0.0)
        frequent = sorted(occur, key=lambda level: (-count[level], level))
        for level in frequent[: {0: 0, 1: 0, 2: 1}.get(len(occur), 3)]:
            candidates.append(t.levels[rows, of_column[level]] > 0.0)
    for d in range(t.P):
        z, cells = t.Z[rows, d], t.present[rows, d]
        if cells.any():
            mean = np.average(z[cells], weights=weight[cells])
            candidates.append(cells & (z > mean + QUANTUM))
    return [b for b in candidates if b.any() and not b.all()]


def cut(t, rows, cost, b, shared=None):
    """Delta of the cluster of these rows (which costs ``cost``) when side b leaves it."""
    return costs(t, sums(t, rows, b, 2), shared).sum() - cost


def local_passes(t, rows, cost, b, shared=None):
    """At most 10 passes between the sides of a cut: Delta and side b, or None if a side empties."""
    side = b.astype(int)
    for _ in range(LOCAL_PASSES):
        stats = sums(t, rows, side, 2)
        moved = move(t, rows, side, stats, masks(t, stats, gains(t, stats), shared))
        if np.array_equal(moved, side):
            break
        side = moved
        if side.min() == side.max():
            return None
    return cut(t, rows, cost, side, shared), side == 1


def best_split(t, now, k, at_any_price=False):
    """The best cut of cluster k after local passes: Delta and the rows of side b, or None."""
    here = np.flatnonzero(now.labels == k)  # among the rows of positive weight
    rows = t.rows[here]
    candidates = split_candidates(t, rows)
    scores = [cut(t, rows, now.cost[k], b, now.shared) for b in candidates]
    polished = [
        local_passes(t, rows, now.cost[k], candidates[c], now.shared) for c in islice(ascending(scores), 3)
    ]
    polished = [result for result in polished if result is not None]
    if not polished and at_any_price and candidates:
        c = next(iter(ascending(scores)), None)
        polished = [] if c is None else [(scores[c], candidates[c])]
    if not polished:
        return None
    delta, b = polished[first_lowest([delta for delta, _ in polished])]
    return delta, here[b]


def grow(t, now, log, failed=None):
    """Split all clusters that pay it together and descend, until none does.

    A set of rows in ``failed`` is not tried again. Under "threshold" passes may raise J; splits
    after which J is not lower than before are taken back, and that is the end: without this rule
    splits and passes could undo each other for ever.
    """
    failed = set() if failed is None else failed
    while True:
        deltas, sides = np.full(now.K, np.inf), {}
        for k in range(now.K):
            name = row_set(np.flatnonzero(now.labels == k))
            if now.stats[k, 0] < 4.0 or name in failed:
                continue
            found = best_split(t, now, k)
            if found is not None and found[0] < -SPLIT_SLACK:
                deltas[k], sides[k] = found
            else:
                failed.add(name)
        labels, K = now.labels.copy(), now.K
        for k in ascending(deltas):
            if t.k_max > K:
                labels[sides[k]] = K
                K += 1
        if now.K == K:
            return now
        moves = []
        other = descend(t, accept(moves, "split", now, partition(t, labels)), moves)
        if not other.J < now.J - QUANTUM:  # only thresholds: their masks do not minimise J
            return now
        log.extend(moves)
        now = other


# ----------------------------------------------------------------------------------------
# The search
# ----------------------------------------------------------------------------------------


def best_merge(t, now):
    """The cheapest merge, whatever it costs, and passes."""
    i, j = divmod(first_lowest(pair_deltas(t, now).ravel()), now.K)
    return passes(t, united(t, now, i, j), [])


def with_n_clusters(t, now, n_clusters):
    """Go on with the best merges or the best splits until there are n_clusters clusters."""
    while n_clusters < now.K:
        now = best_merge(t, now)
    while n_clusters > now.K:
        found = [best_split(t, now, k, True) if now.stats[k, 0] >= 2.0 else None for k in range(now.K)]
        deltas = [np.inf if result is None else result[0] for result in found]
        wider = None
        for k in sorted(range(now.K), key=lambda k: (deltas[k], k)):
            if found[k] is None:
                continue
            labels = now.labels.copy()
            labels[found[k][1]] = now.K
            after = passes(t, partition(t, labels), [])
            if wider is None:
                wider = partition(t, labels)  # the cheapest as it stands, if no split survives the passes
            if after.K > now.K:
                wider = after
                break
        if wider is None:
            break
        now = wider
    return now


def all_labels(t, now):
    """Labels of all rows, by first appearance, and the clusters in that order.

    Rows of weight 0 go to the cheapest cluster (ties: lowest number).
    """
    everyone = np.arange(len(t.weight))
    labels = distances(t, everyone, now.stats, now.mask).argmin(axis=1)
    labels[t.rows] = now.labels
    order = list(dict.fromkeys(labels.tolist()))
    return np.argsort(order)[labels], order


def search(t, starts, forced=True):
    """The best of K = 1 and of all starts, polished: partition, J of the starts, moves."""
    one = partition(t, np.zeros(len(t.rows), int))
    best, objectives, log = one, [], []
    for start in starts if t.N >= 10.0 else []:
        soft = isinstance(start, tuple)
        labels = np.asarray(start[0] if soft else start)[t.rows]
        if soft:
            if start[1] != "soft":
                raise ValueError(f"a start is labels or (labels, 'soft'), not (.., {start[1]!r})")
            labels = soften(t, labels)
        now = grow(t, descend(t, partition(t, labels), log), log)
        objectives.append(now.J)
        if now.J < best.J - QUANTUM:
            best = now
    if forced and objectives:
        best = forced_merges(t, best, log)
    return best, objectives, log


def fit(
    numeric,
    codes,
    n_levels,
    starts,
    *,
    price_factor=1.0,
    selection="priced",
    fraction=0.5,
    categorical_threshold=0.95,
    numeric_threshold=0.5,
    k_max=100,
    n_clusters=None,
    weight=None,
    forced=True,
):
    """Search the partition of lowest J.

    Parameters
    ----------
    numeric : array (n, p)
        Floats, NaN = missing.
    codes : array (n, q)
        Integers in 0..n_levels[d]; ``n_levels[d]`` = missing.
    n_levels : sequence of q ints
    starts : list
        Labels, or (labels, "soft") for a start that is softened first. One cluster always
        competes; under a total weight of 10 nothing else does.
    n_clusters : int, optional
        A requested K: from the result of the search on, by merges or splits.
    forced : bool
        Whether the best start is polished by forced merges.

    Returns
    -------
    SimpleNamespace
        ``labels`` (by first appearance), ``objective``, ``n_clusters``, ``costs`` (K,), ``mask``
        and ``gains`` (K, p+q) in kernel order, ``start_objectives``, ``merge_path`` (a list of
        (K, J, labels) from the result to one cluster) and ``log``, the accepted moves with
        ``kind`` ("pass", "merge", "split", "forced"), ``before``, ``after`` and ``K``. The moves
        of the requested K and of the merge path, where J may rise, are not in it.
    """
    t = problem(
        numeric,
        codes,
        n_levels,
        price_factor=price_factor,
        selection=selection,
        fraction=fraction,
        categorical_threshold=categorical_threshold,
        numeric_threshold=numeric_threshold,
        k_max=k_max,
        weight=weight,
    )
    now, objectives, log = search(t, starts, forced)
    if n_clusters is not None:
        now = with_n_clusters(t, now, n_clusters)

    labels, order = all_labels(t, now)
    mask, gain = np.zeros((now.K, t.all_columns), bool), np.zeros((now.K, t.all_columns))
    mask[:, t.columns], gain[:, t.columns] = now.mask[order], now.gain[order]
    path, step = [(now.K, now.J, labels)], now
    while step.K > 1:
        step = best_merge(t, step)
        path.append((step.K, step.J, all_labels(t, step)[0]))
    return SimpleNamespace(
        labels=labels,
        objective=now.J,
        n_clusters=now.K,
        costs=now.cost[order],
        mask=mask,
        gains=gain,
        start_objectives=objectives,
        merge_path=path,
        log=log,
    )
