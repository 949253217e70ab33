"""DP-means: the sweeps over the rows.

A serial sweep of the paper takes three kernels: `assign` moves all rows to their nearest centres in parallel,
`open_at` makes a row that is beyond its limit a centre, `reassign_to_new` compares later rows with the new
centres. `collapse` moves one row after the other.

Bounds on the distances of every row decide which rows are scanned (Hamerly 2010); the scan decides for most
of these, the exact formula for the others. See src/dpmeans/_dpmeans.h.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport INFINITY, fabsf, sqrt, sqrtf
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from craftc._kernels._common cimport (
    block_rows, check, check_at_least, check_indices, check_lengths, check_threads,
)
from craftc._kernels._team cimport team_job
from craftc._kernels.dpmeans cimport (
    DP_BOUNDED, DP_CHECKED, DP_DOWN, DP_PAD, DP_ROOT_DOWN, DP_ROOT_UP, DP_TILE, DP_UP, DP_WORTH_CLUSTERS,
    DP_WORTH_COLUMNS, Blocks, Centres, Sums, blocks_of, check_rows, check_sums, dp_add, dp_assign_tile,
    dp_below, dp_centres, dp_collapse, dp_collapsed, dp_distance, dp_drift, dp_fetch_rows, dp_not_kept,
    dp_quick_check, dp_reassign_to_new, dp_refresh, dp_row, dp_rows, dp_sums, dp_tile_rows, each_block,
)
from craftc._kernels.moments cimport rows_numeric, rows_of, table_rows

cdef extern from "float.h":
    const float FLT_MAX


cdef enum:
    MOVED, BEYOND, SCANNED      # counts of a thread
    APART = 8                   # counts between those of two threads, which then share no cache line


cdef struct Sweep:
    Blocks blocks
    const dp_centres *c
    const void *X
    dp_rows rows
    dp_drift drift              # of bounds
    const int32_t *some         # new centres, those from `first` on
    const float *gap
    const int32_t *order
    Py_ssize_t first
    float *tile                 # (n_threads, width)
    Py_ssize_t width
    Py_ssize_t *tally           # (n_threads, APART)


cdef int prepare(
    Sweep *s, Centres centres, const table_rows *table, Sums sums, Py_ssize_t start, Py_ssize_t stop,
    float *tile, Py_ssize_t width, int n_threads,
) except -1:
    """What all sweeps over rows [start, stop) need; `finished` frees it."""
    blocks_of(sums, centres.c.K, start, stop, n_threads, &s.blocks)
    s.tally = <Py_ssize_t *> calloc(n_threads * APART, sizeof(Py_ssize_t))
    if s.tally == NULL:
        free(s.blocks.places)
        raise MemoryError("No memory is left for the counts of a sweep.")
    s.c, s.X, s.tile, s.width = &centres.c, table.numeric, tile, width
    return 0


cdef tuple finished(Sweep *s, team_job job):
    """All blocks of a sweep; returns (rows of weight > 0 that moved, rows beyond the limit, rows scanned)."""
    cdef Py_ssize_t moved = 0, beyond = 0, scanned = 0
    cdef int t
    with nogil:
        each_block(&s.blocks, job, s)
        for t in range(s.blocks.n_threads):
            moved += s.tally[t * APART + MOVED]
            beyond += s.tally[t * APART + BEYOND]
            scanned += s.tally[t * APART + SCANNED]
        free(s.tally)
        free(s.blocks.places)
    return moved, beyond, scanned


# ---- rows to their nearest centres ----

def assign(
    X not None,                             # IN    (n, D)
    Centres centres not None,
    int32_t[::1] labels not None,           # INOUT (n,) 0..K-1, or without bounds -1: in the first, but not
                                            # in its sums
    float[::1] upper not None,              # INOUT (n,) bound on the distance to the own centre, < 0: beyond
                                            # the limit; empty: not kept
    float[::1] lower not None,              # INOUT (n,) bound on the distance to all others, or empty, too
    Sums sums not None,                     # INOUT
    const float[::1] drift not None,        # IN    (K,) how far centres moved since the bounds were set;
                                            # empty: there are no bounds
    const float[::1] drift_others not None,  # IN    (K,) how far any other moved
    const float[::1] half_gap not None,     # IN    (K,) half the distance to the nearest other centre
    const int32_t[::1] moved_centers not None,  # IN centres that the bounds do not cover, at most MOST_MOVED
    const float[::1] moved_gap not None,    # IN    (K,) distance to the nearest other of those
    Py_ssize_t start,
    Py_ssize_t stop,                        # rows [start, stop)
    float[:, ::1] tile not None,            # WORK  (n_threads, TILE * D)
    int n_threads,
) -> tuple[int, int, int]:
    """Move rows to their nearest centres; returns (rows of weight > 0 that moved, rows beyond the limit, rows
    scanned).
    """
    check_rows(X, centres, labels.shape[0])
    check_sums(sums, X, centres.c.K, n_threads)
    check(0 <= start <= stop <= labels.shape[0], "start or stop")
    check(upper.shape[0] == labels.shape[0] or (upper.shape[0] == 0 and drift.shape[0] == 0), "upper")
    check(lower.shape[0] == upper.shape[0], "lower")
    if drift.shape[0]:
        check_at_least(centres.c.K, "drift, drift_others, half_gap, moved_gap", drift.shape[0],
                       drift_others.shape[0], half_gap.shape[0], moved_gap.shape[0])
        check(moved_centers.shape[0] < DP_CHECKED, "moved_centers")
    check(tile.shape[0] >= n_threads and tile.shape[1] >= DP_TILE * centres.c.D, "tile")
    check_indices(labels[start:stop], 0 if drift.shape[0] else -1, centres.c.K, "labels")
    check_indices(moved_centers, 0, centres.c.K, "moved_centers")
    cdef table_rows table = rows_of(X)
    cdef Sweep s
    prepare(&s, centres, &table, sums, start, stop, &tile[0, 0], tile.shape[1], n_threads)
    s.rows.labels = &labels[0]
    s.rows.upper = &upper[0] if upper.shape[0] else NULL
    s.rows.lower = &lower[0] if lower.shape[0] else NULL
    s.drift.own = s.drift.others = s.drift.half_gap = s.drift.moved_gap = NULL
    s.drift.moved = &moved_centers[0] if moved_centers.shape[0] else NULL
    s.drift.n_moved = moved_centers.shape[0]
    s.drift.root = sqrtf(centres.c.inside) * DP_ROOT_DOWN if centres.c.inside < FLT_MAX else <float> INFINITY
    if drift.shape[0]:
        s.drift.own, s.drift.others = &drift[0], &drift_others[0]
        s.drift.half_gap, s.drift.moved_gap = &half_gap[0], &moved_gap[0]
    return finished(&s, assign_block)


cdef void assign_block(void *context, int block, int thread) noexcept nogil:
    """Rows that the bounds cannot keep where they are, a tile at a time."""
    cdef Sweep *s = <Sweep *> context
    cdef int32_t listed[DP_BOUNDED + DP_TILE]
    cdef Py_ssize_t start = s.blocks.start + block * s.blocks.rows
    cdef Py_ssize_t stop = min(start + s.blocks.rows, s.blocks.stop)
    cdef Py_ssize_t size = dp_tile_rows(), n = 0, m, r
    cdef Py_ssize_t *tally = &s.tally[thread * APART]
    cdef const dp_sums *sums = &s.blocks.places[thread]
    cdef float *tile = s.tile + thread * s.width
    if s.drift.own == NULL:
        tally[SCANNED] += stop - start
        while start < stop:
            n = min(size, stop - start)
            for r in range(n):
                listed[r] = <int32_t> (start + r)
            tally[MOVED] += dp_assign_tile(s.c, s.X, s.rows, sums, listed, n, tile, &tally[BEYOND])
            start += n
        return
    while start < stop:
        m = min(DP_BOUNDED, stop - start)
        m, start = _not_kept(s.c, s.X, s.rows, &s.drift, start, m, &listed[n]), start + m
        tally[SCANNED] += m
        n += m
        while n >= size:
            n -= size
            tally[MOVED] += dp_assign_tile(s.c, s.X, s.rows, sums, &listed[n], size, tile, &tally[BEYOND])
    if n:
        tally[MOVED] += dp_assign_tile(s.c, s.X, s.rows, sums, listed, n, tile, &tally[BEYOND])


cdef Py_ssize_t _not_kept(
    const dp_centres *c, const void *X, dp_rows rows, const dp_drift *drift, Py_ssize_t start, Py_ssize_t n,
    int32_t *listed,
) noexcept nogil:
    """The rows of [start, start + n) that may leave their clusters or their limits; where scans are long,
    quick checks keep more.
    """
    cdef Py_ssize_t m = dp_not_kept(rows, drift, start, n, listed), left = 0, r
    if c.K < DP_WORTH_CLUSTERS or c.D < DP_WORTH_COLUMNS:
        dp_fetch_rows(c, X, listed, m)
        return m
    for r in range(m):
        if not _stays(c, dp_row(X, c.single, c.D, listed[r]), rows, listed[r], drift):
            listed[left] = listed[r]
            left += 1
    return left


cdef bint _stays(
    const dp_centres *c, const void *x, dp_rows rows, Py_ssize_t i, const dp_drift *drift,
) noexcept nogil:
    """Whether the distances of a row to its own centre and the moved ones keep it; they tighten both bounds
    then.
    """
    cdef float distance[DP_CHECKED]
    cdef int32_t some[DP_CHECKED]
    cdef int32_t k = rows.labels[i]
    cdef float error, most, least = (rows.lower[i] - drift.others[k]) * DP_DOWN, others = <float> INFINITY
    cdef Py_ssize_t j
    for j in range(DP_CHECKED):
        some[j] = drift.moved[j - 1] if 0 < j <= drift.n_moved else k
    error = dp_quick_check(c, x, some, distance)
    for j in range(1, drift.n_moved + 1):
        if some[j] != k and distance[j] - error < others:
            others = distance[j] - error
    if not distance[0] + error < others:
        return False
    most = sqrtf(distance[0] + error) * DP_ROOT_UP
    if not (most <= (least if least > drift.half_gap[k] else drift.half_gap[k]) and most <= drift.root):
        return False
    others = sqrtf(others) * DP_ROOT_DOWN
    rows.upper[i] = most
    rows.lower[i] = least if least < others else others
    return True


# ---- new centres ----

def reassign_to_new(
    X not None,                             # IN    (n, D)
    Centres centres not None,
    Py_ssize_t first,                       # the centres from here on are new
    const float[::1] gap not None,          # IN    (K,) distance of every centre to the nearest other new one
    int32_t[::1] labels not None,           # INOUT (n,)
    float[::1] upper not None,              # INOUT (n,)
    float[::1] lower not None,              # INOUT (n,)
    Sums sums not None,                     # INOUT
    const int32_t[::1] order not None,      # IN    (n,) rows in the order of the visits; empty: as they are
    Py_ssize_t start,
    Py_ssize_t stop,                        # positions [start, stop) of the order
    float[:, ::1] tile not None,            # WORK  (n_threads, TILE * D)
    int n_threads,
) -> int:
    """Move rows to the nearest of the new centres where it is strictly nearer than their own; returns how
    many moved.
    """
    check_rows(X, centres, labels.shape[0])
    check_sums(sums, X, centres.c.K, n_threads)
    check(0 <= start <= stop <= labels.shape[0], "start or stop")
    check(0 <= first <= centres.c.K, "first")
    check(gap.shape[0] >= centres.c.K, "gap")
    check_lengths(labels.shape[0], "upper, lower", upper.shape[0], lower.shape[0])
    check(order.shape[0] == 0 or order.shape[0] == labels.shape[0], "order")
    check(tile.shape[0] >= n_threads and tile.shape[1] >= DP_TILE * centres.c.D, "tile")
    if order.shape[0]:
        check_indices(order[start:stop], 0, labels.shape[0], "order")
    if first == centres.c.K:
        return 0
    cdef table_rows table = rows_of(X)
    cdef const int32_t[::1] new = np.arange(first, centres.c.K, dtype=np.int32)
    cdef Sweep s
    prepare(&s, centres, &table, sums, start, stop, &tile[0, 0], tile.shape[1], n_threads)
    s.rows.labels, s.rows.upper, s.rows.lower = &labels[0], &upper[0], &lower[0]
    s.some, s.first, s.gap, s.order = &new[0], first, &gap[0], &order[0] if order.shape[0] else NULL
    return finished(&s, reassign_block)[MOVED]


cdef void reassign_block(void *context, int block, int thread) noexcept nogil:
    cdef Sweep *s = <Sweep *> context
    cdef Py_ssize_t start = s.blocks.start + block * s.blocks.rows
    s.tally[thread * APART + MOVED] += dp_reassign_to_new(
        s.c, s.some, s.first, s.gap, s.X, s.rows, &s.blocks.places[thread], s.order, start,
        min(start + s.blocks.rows, s.blocks.stop), s.tile + thread * s.width,
    )


def bound_new(
    const float[::1] gap not None,          # IN    (K,) distance of every centre to the nearest other new one
    const int32_t[::1] labels not None,     # IN    (n,)
    const float[::1] upper not None,        # IN    (n,)
    float[::1] lower not None,              # INOUT (n,)
    const int32_t[::1] order not None,      # IN    (n,) or empty
    Py_ssize_t stop,
    int n_threads,
):
    """Lower bounds of the rows at positions [0, stop), which were not compared with all new centres."""
    check(0 <= stop <= labels.shape[0], "stop")
    check_threads(n_threads)
    check_lengths(labels.shape[0], "upper, lower", upper.shape[0], lower.shape[0])
    check(order.shape[0] == 0 or order.shape[0] == labels.shape[0], "order")
    cdef Py_ssize_t block = block_rows(), b
    for b in prange((stop + block - 1) // block, nogil=True, schedule="static", num_threads=n_threads):
        _bound_new(gap, labels, upper, lower, order, b * block, min((b + 1) * block, stop))


cdef void _bound_new(
    const float[::1] gap, const int32_t[::1] labels, const float[::1] upper, float[::1] lower,
    const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef Py_ssize_t position, i
    for position in range(start, stop):
        i = order[position] if order.shape[0] else position
        lower[i] = min(lower[i], (gap[labels[i]] - fabsf(upper[i])) * DP_DOWN)


def next_beyond(
    const float[::1] upper not None,        # IN (n,)
    const int32_t[::1] order not None,      # IN (n,) or empty
    Py_ssize_t start,
    Py_ssize_t stop,
) -> int:
    """First position of [start, stop) whose row is beyond its limit, or -1."""
    check(0 <= start and stop <= upper.shape[0], "start or stop")
    check(order.shape[0] == 0 or order.shape[0] == upper.shape[0], "order")
    cdef Py_ssize_t position = start
    with nogil:
        if order.shape[0]:
            while position < stop and not upper[order[position]] < 0.0:
                position += 1
        else:
            while position < stop and not upper[position] < 0.0:
                position += 1
    return position if position < stop else -1


def open_at(
    X not None,                             # IN    (n, D)
    const double[:, ::1] mu not None,       # IN    (K, D) centres, the new one last
    double scale,                           # of the bounds
    Py_ssize_t row,                         # the row that becomes a centre
    int32_t[::1] labels not None,           # INOUT (n,)
    float[::1] upper not None,              # INOUT (n,)
    float[::1] lower not None,              # INOUT (n,)
    Sums sums not None,                     # INOUT
):
    """Move a row from its cluster to a new one of its own."""
    check(0 <= row < labels.shape[0] and 0 <= labels[row] < mu.shape[0], "row")
    check(X.ndim == 2 and X.shape[0] == labels.shape[0] and X.shape[1] == mu.shape[1], "X")
    check_lengths(labels.shape[0], "upper, lower", upper.shape[0], lower.shape[0])
    check_sums(sums, X, mu.shape[0], 1)
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t D = table.p
    cdef int32_t new = <int32_t> (mu.shape[0] - 1), old = labels[row]
    cdef dp_sums place
    sums.at(0, &place)
    dp_add(&place, rows_numeric(&table, row), table.single, D, old, row, -1)
    dp_add(&place, rows_numeric(&table, row), table.single, D, new, row, 1)
    lower[row] = min(lower[row],
                     dp_below(sqrt(dp_distance(rows_numeric(&table, row), table.single, &mu[old, 0], D))
                              * scale))
    upper[row] = 0.0
    labels[row] = new


# ---- collapsed moves ----

def collapse(
    X not None,                             # IN    (n, D)
    Centres centres not None,               # the reference, the limit and the scale of the bounds are used
    double[:, ::1] mu not None,             # INOUT (capacity, D) means
    float[:, ::1] centre not None,          # WORK  (capacity + PAD, D + 1)
    float[::1] half not None,               # WORK  (capacity + PAD,)
    float[::1] travelled not None,          # OUT   (capacity,) path length of every mean, scaled
    float[::1] shrunk not None,             # WORK  (capacity,)
    const double[::1] step not None,        # IN    (D,) grid step over the weight of a count
    double unit,                            # weight of a count
    double slack,                           # a move must win more than that
    Py_ssize_t cap,
    Py_ssize_t K,                           # numbers in use
    int32_t[::1] labels not None,           # INOUT (n,)
    float[::1] upper not None,              # INOUT (n,) bound on the distance to the own mean, inf: unknown
    float[::1] lower not None,              # INOUT (n,) bound on the root of the cost of any other cluster
    Sums sums not None,                     # INOUT
    const int32_t[::1] order not None,      # IN    (n,) or empty
    Py_ssize_t start,
    Py_ssize_t stop,                        # positions [start, stop) of the order
    float[:, ::1] tile not None,            # WORK  (n_threads, TILE * (D + 1))
) -> tuple[int, int, int, int, float, float]:
    """Collapsed moves: every row in turn goes where the objective is smallest, and the means follow.

    Returns (position reached, numbers in use, rows that moved, rows whose costs were computed, longest path
    of a mean, least share of f). The position is below `stop` where a cluster has to open and there is no
    room.
    """
    check_rows(X, centres, labels.shape[0])
    check(0 <= K <= mu.shape[0], "K")
    check(0 <= start <= stop <= labels.shape[0], "start or stop")
    check(X.ndim == 2 and X.shape[0] == labels.shape[0] and X.shape[1] == mu.shape[1], "X")
    check_sums(sums, X, max(mu.shape[0], 1), 1)
    check(centre.shape[0] >= mu.shape[0] + DP_PAD and centre.shape[1] == mu.shape[1] + 1, "centre")
    check(half.shape[0] >= mu.shape[0] + DP_PAD, "half")
    check(tile.shape[0] >= 1 and tile.shape[1] >= DP_TILE * (mu.shape[1] + 1), "tile")
    check(travelled.shape[0] == mu.shape[0], "travelled")
    check(shrunk.shape[0] >= mu.shape[0], "shrunk")
    check(step.shape[0] == mu.shape[1], "step")
    check_lengths(labels.shape[0], "upper, lower", upper.shape[0], lower.shape[0])
    check(order.shape[0] == 0 or order.shape[0] == labels.shape[0], "order")
    check_indices(labels, 0, K, "labels")
    if order.shape[0]:
        check_indices(order[start:stop], 0, labels.shape[0], "order")
    cdef table_rows table = rows_of(X)
    cdef dp_collapsed c
    cdef dp_sums place
    cdef dp_rows rows
    cdef Py_ssize_t k, at, moved = 0, computed = 0
    sums.at(0, &place)
    rows.labels, rows.upper, rows.lower = &labels[0], &upper[0], &lower[0]
    c.D, c.K, c.capacity, c.cap, c.single = table.p, K, mu.shape[0], cap, table.single
    c.mu, c.centre, c.half, c.step = &mu[0, 0], &centre[0, 0], &half[0], &step[0]
    c.ref, c.ref_single = centres.c.ref, centres.c.ref_single
    c.scale, c.reach = centres.c.scale, centres.c.reach
    c.unit, c.limit, c.slack, c.inside, c.n_clusters = unit, centres.c.limit, slack, centres.c.inside, 0
    c.travelled, c.shrunk = &travelled[0], &shrunk[0]
    with nogil:
        for k in range(c.capacity):
            shrunk[k] = 1.0
        for k in range(c.capacity + DP_PAD):
            half[k] = INFINITY
            centre[k, c.D] = 0.0
        for k in range(K):
            c.n_clusters += place.counts[k] != 0
            dp_refresh(&c, &place, k)
        for k in range(c.capacity):
            travelled[k] = 0.0
        c.far, c.least_shrunk = 0.0, 1.0
        at = dp_collapse(&c, table.numeric, rows, &place, &order[0] if order.shape[0] else NULL, start, stop,
                         &tile[0, 0], &moved, &computed)
    return at, c.K, moved, computed, c.far, c.least_shrunk


def loosen(
    const int32_t[::1] labels not None,     # IN    (n,)
    const float[::1] travelled not None,    # IN    (K,)
    float far,
    float shrunk,
    float[::1] upper not None,              # INOUT (n,)
    float[::1] lower not None,              # INOUT (n,)
):
    """Loosen the bounds of collapsed moves by the paths of the means."""
    check_lengths(labels.shape[0], "upper, lower", upper.shape[0], lower.shape[0])
    check_indices(labels, 0, travelled.shape[0], "labels")
    cdef Py_ssize_t i
    cdef float share = <float> sqrt(shrunk) * DP_DOWN
    with nogil:
        for i in range(labels.shape[0]):
            upper[i] = (upper[i] + travelled[labels[i]]) * DP_UP
            lower[i] = (lower[i] * share - far) * DP_DOWN
