"""Passes of k-prototypes and k-modes over the rows of a table.

The algorithms are those of Z. Huang, "Extensions to the k-means algorithm for clustering large data sets with
categorical values", Data Mining and Knowledge Discovery 2, 1998. A prototype is the mean of the numeric
columns and the mode of the categorical columns.

1. `assign`: every row to its nearest prototype, in parallel (a pass of Lloyd's algorithm, and the cost of a
   partition);
2. `move_in_order`: the rows in turn, where a row that moves changes two prototypes at once;
3. `Prototypes.refit`: all prototypes from the moments of their clusters.

The tables of dissimilarities are described in src/kprototypes/_kprototypes.h, the moments in
src/table/_moments.h.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport INFINITY, fma
from libc.stdint cimport int32_t, int64_t, uint64_t

from craftc._kernels._common cimport check, check_indices, check_threads, omp_get_thread_num
from craftc._kernels.moments cimport (
    CRAFTC_NUMERIC_CELLS, Grid, check_partial, check_table, moments_add_row, rows_code, rows_codes, rows_of,
    rows_weight, table_rows,
)
from craftc._kernels.moments import merge_partial

cdef extern from "common/_int128.h" nogil:
    ctypedef struct craftc_int128:
        uint64_t low
        uint64_t high
    craftc_int128 int128_load(const int64_t *words)
    double int128_double(craftc_int128 a)

cdef extern from "kprototypes/_kprototypes.h" nogil:
    int KP_PAD
    int KP_MATCHING
    int KP_NG
    int KP_BINARY
    int KP_LABELS
    ctypedef struct kp_tables:
        Py_ssize_t n_clusters, lanes, p, q
        int kind
        double gamma
        const double *base
        const double *mean
        const double *level
        const double *size
        const Py_ssize_t *level_start
        const Py_ssize_t *n_levels
        Py_ssize_t none
    Py_ssize_t kp_scratch_size(Py_ssize_t p, Py_ssize_t q, Py_ssize_t lanes)
    const double *kp_tile(const kp_tables *t, const void *x, int single, const void *codes, int wide,
                          Py_ssize_t first, Py_ssize_t rows, double *scratch, double *best, int32_t *arg)
    void kp_mismatches(const void *codes, int wide, Py_ssize_t n, Py_ssize_t q, const void *mode,
                       const void *n_levels, int32_t *out)

cdef enum:
    TILE = 8                # KP_TILE
    # rows whose costs are added in turn: the sum of a table does not depend on the threads
    COST_BLOCK = 1024

BLOCK = COST_BLOCK

# in the order of the enum of src/kprototypes/_kprototypes.h
KINDS = ("matching", "ng", "jaccard", "jaccard-label")  # type: tuple[str, ...]


cdef class Prototypes:
    """K prototypes, and the tables of their dissimilarities to rows.

    Parameters
    ----------
    grid : Grid
    n_levels : ndarray (q,) of intp
    kind : int
        Position of the dissimilarity of categories in KINDS.
    gamma : float
    means : ndarray (K, p) of float64
        Copied.
    modes : ndarray (K, q) of int32
        Codes of levels; copied.
    mean, mode : ndarray (p,) of float64, (q,) of int32
        Of the whole table: a cluster without values in a column has these.
    groups : ndarray (K, width) of int64
        Moments of the clusters; used under "ng" alone.
    """

    cdef readonly Grid grid
    cdef readonly object n_levels  # type: Positions
    cdef readonly object mean  # type: Floats
    cdef readonly object mode  # type: Integers32
    cdef object mean_table, level_table, sizes, bases
    cdef kp_tables c
    cdef double[:, ::1] means_
    cdef double[:, ::1] levels_
    cdef double[::1] sizes_
    cdef int32_t[:, ::1] modes_
    cdef const double[::1] mean_
    cdef const int32_t[::1] mode_

    def __cinit__(
        self, Grid grid not None, n_levels, int kind, double gamma, means: Floats, modes: Integers32, mean,
        mode, groups: Integers,
    ):
        cdef const Py_ssize_t[::1] counts = n_levels
        cdef const int64_t[:, ::1] moments = groups
        cdef Py_ssize_t K = len(means), lanes = (K + KP_PAD - 1) // KP_PAD * KP_PAD, d, k, most = 0
        cdef const double[:, ::1] given
        check(K > 0, "means")
        check(0 <= kind < len(KINDS), "kind")
        check(counts.shape[0] == grid.q, "n_levels")
        for d in range(grid.q):
            check(counts[d] > 0 and counts[d] < levels_of(grid, d), "n_levels")
            most = max(most, counts[d])
        check(means.shape == (K, grid.p), "means")
        check(modes.shape == (K, grid.q), "modes")
        check(mean.shape == (grid.p,), "mean")
        check(mode.shape == (grid.q,), "mode")
        check(moments.shape[0] == K and moments.shape[1] == grid.width, "groups")
        self.grid, self.n_levels, self.mean, self.mode = grid, n_levels, mean, mode
        self.mean_, self.mode_ = mean, mode
        given = np.ascontiguousarray(means)
        self.modes_ = np.array(modes, np.int32, order="C")
        for d in range(grid.q):
            check(0 <= self.mode_[d] < counts[d], "mode")
            for k in range(K):
                check(0 <= self.modes_[k, d] < counts[d], "modes")
        entries = most + 1 if kind == KP_LABELS else grid.n_levels
        self.mean_table, self.level_table = aligned(grid.p, lanes), aligned(entries + 1, lanes)
        self.sizes, self.bases = aligned(1, lanes)[0], aligned(1, lanes)[0]
        self.bases[K:] = INFINITY
        self.means_, self.levels_, self.sizes_ = self.mean_table, self.level_table, self.sizes
        for k in range(K):
            for d in range(grid.p):
                self.means_[d, k] = given[k, d]
        cdef const double[::1] bases = self.bases
        self.c.n_clusters, self.c.lanes, self.c.p, self.c.q = K, lanes, grid.p, grid.q
        self.c.kind, self.c.gamma, self.c.none = kind, gamma, entries
        self.c.base, self.c.size, self.c.level = &bases[0], &self.sizes_[0], &self.levels_[0, 0]
        if grid.p:
            self.c.mean = &self.means_[0, 0]
        if grid.q:
            self.c.level_start, self.c.n_levels = grid.level_start_, &counts[0]
        for k in range(K):
            fill_lane(self, k, &moments[k, 0])

    @property
    def n_clusters(self) -> int:
        """K."""
        return self.c.n_clusters

    @property
    def means(self) -> Floats:
        """(K, p) means, a copy."""
        return np.array(self.mean_table[:, :self.c.n_clusters].T, order="C")

    @property
    def modes(self) -> Integers32:
        """(K, q) codes of modes, a copy."""
        return np.array(self.modes_)

    def refit(self, const int64_t[:, ::1] groups not None):
        """Means and modes of the clusters with these (K, width) moments; of equally frequent levels the
        lowest.
        """
        cdef Py_ssize_t k, d
        check(groups.shape[0] == self.c.n_clusters and groups.shape[1] == self.grid.width, "groups")
        with nogil:
            for k in range(self.c.n_clusters):
                for d in range(self.c.p):
                    self.means_[d, k] = mean_of(self, &groups[k, 0], d)
                for d in range(self.c.q):
                    self.modes_[k, d] = mode_of(self, &groups[k, 0], d)
                fill_lane(self, k, &groups[k, 0])

    def scratch_size(self) -> int:
        """Doubles of scratch one thread needs."""
        return kp_scratch_size(self.c.p, self.c.q, self.c.lanes)


cdef object aligned(Py_ssize_t rows, Py_ssize_t lanes):
    """Zeros (rows, lanes) on a cache line."""
    room = np.zeros(rows * lanes + 8)
    skip = (64 - room.ctypes.data % 64) % 64 // 8
    return room[skip:skip + rows * lanes].reshape(rows, lanes)


cdef inline Py_ssize_t levels_of(Grid grid, Py_ssize_t d) noexcept nogil:
    """Entries of a column in the list of all levels, that of missing cells included."""
    return (grid.level_start_[d + 1] if d + 1 < grid.q else grid.n_levels) - grid.level_start_[d]


cdef double mean_of(Prototypes t, const int64_t *group, Py_ssize_t d) noexcept nogil:
    """Mean of a numeric column, from the exact sum by one division: that of whole numbers is correctly
    rounded.
    """
    cdef const int64_t *cell = group + t.grid.first_numeric + CRAFTC_NUMERIC_CELLS * d
    cdef double weight = <double> cell[0]
    if cell[0] <= 0:
        return t.mean_[d]
    return (int128_double(int128_load(cell + 1)) / t.grid.scale_[d] + weight * t.grid.centre_[d]) / weight


cdef int32_t mode_of(Prototypes t, const int64_t *group, Py_ssize_t d) noexcept nogil:
    """The most frequent level of a column; of equally frequent ones the lowest."""
    cdef const int64_t *counts = group + 1 + t.grid.level_start_[d]
    cdef Py_ssize_t level, best = 0
    for level in range(1, t.c.n_levels[d]):
        if counts[level] > counts[best]:
            best = level
    return <int32_t> best if counts[best] > 0 else t.mode_[d]


cdef void fill_lane(Prototypes t, Py_ssize_t k, const int64_t *group) noexcept nogil:
    """The table entries of one prototype."""
    cdef Py_ssize_t d, level, row
    cdef double otherwise = 1.0 if t.c.kind == KP_MATCHING or t.c.kind == KP_NG else 0.0
    t.sizes_[k] = 0.0
    if t.c.kind == KP_LABELS:
        for row in range(t.c.none):
            t.levels_[row, k] = 0.0
    else:
        for d in range(t.c.q):
            row = t.grid.level_start_[d]
            for level in range(t.c.n_levels[d]):
                t.levels_[row + level, k] = otherwise
    for d in range(t.c.q):
        mark_mode(t, k, d, t.modes_[k, d])
    if t.c.kind == KP_NG:
        weigh_modes(t, k, group)


cdef inline void mark_mode(Prototypes t, Py_ssize_t k, Py_ssize_t d, int32_t mode) noexcept nogil:
    """Enter the mode of a column into the lane of a prototype that has none there."""
    cdef Py_ssize_t row = t.grid.level_start_[d] + mode
    if t.c.kind == KP_MATCHING or t.c.kind == KP_NG:
        t.levels_[row, k] = 0.0
    elif t.c.kind == KP_BINARY and mode == 1:
        t.levels_[row, k] = 1.0
        t.sizes_[k] += 1.0
    elif t.c.kind == KP_LABELS and t.levels_[mode, k] == 0.0:
        t.levels_[mode, k] = 1.0
        t.sizes_[k] += 1.0


cdef void weigh_modes(Prototypes t, Py_ssize_t k, const int64_t *group) noexcept nogil:
    """Under KP_NG a cell that equals the mode costs 1 less its share in the cluster; nothing in an empty
    cluster.
    """
    cdef Py_ssize_t d, row
    for d in range(t.c.q):
        row = t.grid.level_start_[d] + t.modes_[k, d]
        t.levels_[row, k] = 1.0 - <double> group[1 + row] / <double> group[0] if group[0] > 0 else 0.0


cdef inline void change_mode(Prototypes t, Py_ssize_t k, Py_ssize_t d, int32_t mode) noexcept nogil:
    """Replace a mode; the lane of the prototype under KP_NG and KP_LABELS is completed by the caller."""
    cdef Py_ssize_t row = t.grid.level_start_[d]
    cdef int32_t old = t.modes_[k, d]
    t.modes_[k, d] = mode
    if t.c.kind == KP_LABELS:
        return
    if t.c.kind == KP_BINARY:
        if old == 1:
            t.levels_[row + 1, k] = 0.0
            t.sizes_[k] -= 1.0
    else:
        t.levels_[row + old, k] = 1.0
    mark_mode(t, k, d, mode)


cdef inline void add_row(
    int64_t *group, Grid grid, const table_rows *rows, Py_ssize_t i, int64_t w,
) noexcept nogil:
    """Add row i to the moments of a cluster; w < 0 takes it out."""
    moments_add_row(group, grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric, rows, i, w)


def assign(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty = all one
    Prototypes prototypes not None,
    int32_t[::1] labels not None,           # INOUT (n,) -1 = not assigned yet
    double[::1] best not None,              # OUT   (n,) or empty: cost of the row
    double[:, ::1] cost not None,           # OUT   (n_blocks, 2) weight times cost, summed over every block
                                            # of BLOCK rows, and the rest
    double[:, ::1] scratch not None,        # WORK  (n_threads, scratch_size)
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, K, width) zeros; empty: moments stay as they
                                            # are
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
    int n_threads,
) -> int:
    """Assign every row to its nearest prototype and update the moments; returns the number of rows of weight
    > 0 that moved.

    Of equally near prototypes the one of the lowest number is taken.
    """
    cdef Prototypes t = prototypes
    cdef Py_ssize_t n = labels.shape[0], n_blocks = (n + COST_BLOCK - 1) // COST_BLOCK, b, moved = 0
    cdef bint moving = partial.shape[0] > 0
    check_threads(n_threads)
    check_table(X, codes, n, t.c.p, t.c.q)
    check(best.shape[0] == 0 or best.shape[0] == n, "best")
    check(cost.shape[0] == n_blocks and cost.shape[1] == 2, "cost")
    check(scratch.shape[0] >= n_threads and scratch.shape[1] >= kp_scratch_size(t.c.p, t.c.q, t.c.lanes),
          "scratch")
    check(not moving or groups.shape[0] == t.c.n_clusters, "groups")
    check_partial(partial, groups, t.grid.width, n_threads)
    check_indices(labels, -1, t.c.n_clusters, "labels")
    cdef table_rows rows = rows_of(X, codes, weight)
    if n_threads == 1:
        with nogil:
            for b in range(n_blocks):
                moved += assign_block(&rows, &t.c, t.grid, labels, best, b * COST_BLOCK,
                                      min((b + 1) * COST_BLOCK, n), &scratch[0, 0], &cost[b, 0], moving,
                                      groups)
        return moved
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        moved += assign_block(&rows, &t.c, t.grid, labels, best, b * COST_BLOCK, min((b + 1) * COST_BLOCK, n),
                              &scratch[omp_get_thread_num(), 0], &cost[b, 0], moving,
                              partial[omp_get_thread_num()] if moving else groups)
    if moving:
        merge_partial(partial, groups, t.grid.first_numeric)
    return moved


cdef Py_ssize_t assign_block(
    const table_rows *rows, const kp_tables *t, Grid grid, int32_t[::1] labels, double[::1] best,
    Py_ssize_t start, Py_ssize_t stop, double *scratch, double *cost, bint moving, int64_t[:, ::1] groups,
) noexcept nogil:
    """Assign the rows start..stop-1; what the sum of their costs loses is summed, too, so that a row of
    weight 2 costs as much as two.
    """
    cdef Py_ssize_t first = start, n, r, moved = 0
    cdef double[TILE] least
    cdef int32_t[TILE] nearest
    cdef double total = 0.0, lost = 0.0, part, sum, added
    cdef int64_t w
    cdef int32_t old
    while first < stop:
        n = min(TILE, stop - first)
        kp_tile(t, rows.numeric if t.p else NULL, rows.single, rows.codes if t.q else NULL, rows.wide, first,
                n, scratch, least, nearest)
        for r in range(n):
            w, old = rows_weight(rows, first + r), labels[first + r]
            part = least[r] * <double> w
            sum = total + part
            added = sum - total
            lost += (total - (sum - added)) + (part - added)
            if w != 1:
                lost += fma(least[r], <double> w, -part)
            total = sum
            if best.shape[0] > 0:
                best[first + r] = least[r]
            if nearest[r] == old:
                continue
            labels[first + r] = nearest[r]
            if w == 0:
                continue
            moved += 1
            if moving:
                if old >= 0:
                    add_row(&groups[old, 0], grid, rows, first + r, -w)
                add_row(&groups[nearest[r], 0], grid, rows, first + r, w)
        first += n
    cost[0], cost[1] = total, lost
    return moved


def move_in_order(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty = all one
    Prototypes prototypes not None,         # INOUT
    Py_ssize_t first_row,
    bint fixed,                             # the prototypes stay as they are; only the shares of KP_NG change
    int32_t[::1] labels not None,           # INOUT (n,) -1 = not assigned yet, and in the end where the
                                            # weight is 0
    double[:, ::1] scratch not None,        # WORK  (1, scratch_size)
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
) -> tuple[int, int, int]:
    """Assign the rows from `first_row` on in turn to their nearest prototypes; a row that moves changes its
    two prototypes at once.

    Returns (next row, rows that moved, cluster): stops behind a row that left a cluster empty; the cluster is
    -1 if there is none.

    A mode changes where another level becomes strictly more frequent in the cluster that a row joins; in the
    cluster that it leaves, where it held the mode, to the most frequent level (the lowest of several).
    """
    cdef Prototypes t = prototypes
    cdef Py_ssize_t n = labels.shape[0], row = first_row, size, r, i, moved = 0, emptied = -1
    cdef double[TILE] best
    cdef int32_t[TILE] nearest
    cdef int32_t old, new
    cdef int64_t w
    cdef bint changed = False
    check(0 <= first_row <= n, "first_row")
    check_table(X, codes, n, t.c.p, t.c.q)
    check(scratch.shape[0] >= 1 and scratch.shape[1] >= kp_scratch_size(t.c.p, t.c.q, t.c.lanes), "scratch")
    check(groups.shape[0] == t.c.n_clusters and groups.shape[1] == t.grid.width, "groups")
    check_indices(labels, -1, t.c.n_clusters, "labels")
    cdef table_rows rows = rows_of(X, codes, weight)
    with nogil:
        while row < n and emptied < 0:
            # rows that move come in runs: the costs of the rows behind them are not used
            size = 1 if changed else min(TILE, n - row)
            kp_tile(&t.c, rows.numeric if t.c.p else NULL, rows.single, rows.codes if t.c.q else NULL,
                    rows.wide, row, size, &scratch[0, 0], best, nearest)
            changed = False
            for r in range(size):
                i, old, new = row + r, labels[row + r], nearest[r]
                w = rows_weight(&rows, i)
                if old == new or w == 0:
                    continue
                labels[i] = new
                moved += 1
                changed = move_row(t, &rows, i, old, new, w, fixed, groups)
                if old >= 0 and groups[old, 0] == 0:
                    emptied = old
                if changed or emptied >= 0:
                    size = r + 1
                    break
            row += size
    return row, moved, emptied


cdef bint move_row(
    Prototypes t, const table_rows *rows, Py_ssize_t i, Py_ssize_t old, Py_ssize_t new, int64_t w, bint fixed,
    int64_t[:, ::1] groups,
) noexcept nogil:
    """Move the cells of a row between the moments and update both prototypes; returns whether a dissimilarity
    changed.
    """
    cdef bint changed = t.c.kind == KP_NG
    add_row(&groups[new, 0], t.grid, rows, i, w)
    if old >= 0:
        add_row(&groups[old, 0], t.grid, rows, i, -w)
    if not fixed:
        changed |= update_cluster(t, rows, i, new, &groups[new, 0], True)
        if old >= 0:
            changed |= update_cluster(t, rows, i, old, &groups[old, 0], False)
    if t.c.kind == KP_NG:
        weigh_modes(t, new, &groups[new, 0])
        if old >= 0:
            weigh_modes(t, old, &groups[old, 0])
    return changed


cdef bint update_cluster(
    Prototypes t, const table_rows *rows, Py_ssize_t i, Py_ssize_t k, const int64_t *group, bint joined,
) noexcept nogil:
    """Means and modes of a cluster that row i joined or left; returns whether one changed."""
    cdef Py_ssize_t d, code
    cdef const int64_t *counts
    cdef int32_t mode
    cdef bint changed = False
    cdef double mean
    for d in range(t.c.p):
        mean = mean_of(t, group, d)
        changed |= mean != t.means_[d, k]
        t.means_[d, k] = mean
    for d in range(t.c.q):
        code, mode = rows_code(rows, i, d), t.modes_[k, d]
        if code >= t.c.n_levels[d]:
            continue
        counts = group + 1 + t.grid.level_start_[d]
        if joined:
            if counts[code] > counts[mode]:
                mode = <int32_t> code
        elif code == mode:
            mode = mode_of(t, group, d)
        if mode != t.modes_[k, d]:
            change_mode(t, k, d, mode)
            changed = True
    if changed and t.c.kind == KP_LABELS:
        fill_lane(t, k, group)
    return changed


def move_one(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty = all one
    Prototypes prototypes not None,         # INOUT
    Py_ssize_t row,
    int32_t cluster,
    int32_t[::1] labels not None,           # INOUT (n,)
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
):
    """Move one row to a cluster, as `move_in_order` does."""
    cdef Prototypes t = prototypes
    check_table(X, codes, labels.shape[0], t.c.p, t.c.q)
    check(0 <= row < labels.shape[0], "row")
    check(0 <= cluster < t.c.n_clusters, "cluster")
    check(-1 <= labels[row] < t.c.n_clusters, "labels")
    check(groups.shape[0] == t.c.n_clusters and groups.shape[1] == t.grid.width, "groups")
    cdef table_rows rows = rows_of(X, codes, weight)
    move_row(t, &rows, row, labels[row], cluster, rows_weight(&rows, row), False, groups)
    labels[row] = cluster


def mismatches(
    codes not None,                         # IN  (n, q)
    limits not None: Array,                 # IN  (2, q) of the type of the codes: the mode, and the number of
                                            # levels
    int32_t[::1] out not None,              # OUT (n,)
):
    """The number of present cells of every row that differ from the mode."""
    cdef Py_ssize_t n = out.shape[0]
    check(codes.ndim == 2 and codes.shape[0] == n and limits.ndim == 2 and limits.shape[0] == 2
          and limits.shape[1] == codes.shape[1], "codes")
    check(limits.dtype == codes.dtype, "limits")
    cdef const double[:, ::1] nothing = np.empty((n, 0)), none = np.empty((2, 0))
    cdef table_rows rows = rows_of(nothing, codes), of_mode = rows_of(none, limits)
    if n == 0 or rows.q == 0:
        out[:] = 0
        return
    with nogil:
        kp_mismatches(rows.codes, rows.wide, n, rows.q, rows_codes(&of_mode, 0), rows_codes(&of_mode, 1),
                      &out[0])
