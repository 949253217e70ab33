"""Splits of a CRAFT cluster: candidates, exact moments of the rows that leave under each, screening in wide
tables, and prices.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport INFINITY, atan2, cos, sin
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from craftc._kernels._common cimport (
    block_rows, check, check_indices, check_lengths, check_threads, omp_get_thread_num,
)
from craftc._kernels.craft_passes cimport run_passes
from craftc._kernels.craft_passes import pass_scratch_size, slab_size
from craftc._kernels.craft_price cimport (
    FREE, PRICED, Pricing, check_selection, fit_over_table, parts_in, parts_length, parts_t, price_all,
    price_of_side,
)
from craftc._kernels.craft_shared cimport craft_sums, craft_tilt, craft_tilt_sums
from craftc._kernels.moments cimport (
    Grid, check_table, moments_merge, rows_code, rows_of, rows_weight, table_rows,
)


def propose_splits(
    const int64_t[::1] group not None,      # IN  (width,)
    Pricing pricing not None,
    int32_t[:, ::1] level_slot not None,    # OUT (1 or 2, n_levels) numbers of the candidates under which a
                                            # level leaves, or -1; two of them if a column is periodic
) -> int:
    """Candidate splits of a cluster, numbered in order: each of the three most frequent levels of a column,
    the levels above the mean of an ordered column, two half circles of a periodic one.
    """
    check(group.shape[0] == pricing.grid.width, "group")
    check(level_slot.shape[0] == 1 + pricing.tilts.periodic, "level_slot")
    check(level_slot.shape[1] == pricing.grid.n_levels, "level_slot")
    cdef int32_t n
    with nogil:
        n = _propose(group, pricing, pricing.grid, level_slot)
    return n


cdef int32_t _propose(
    const int64_t[::1] group, Pricing P, Grid grid, int32_t[:, ::1] level_slot,
) noexcept nogil:
    cdef Py_ssize_t d, t, _turn, n_levels, occurring, best
    cdef const int64_t *counts
    cdef int32_t n = 0
    for t in range(grid.n_levels):
        level_slot[0, t] = -1
        level_slot[level_slot.shape[0] - 1, t] = -1
    for d in range(grid.q):
        n_levels, counts = P.n_levels[d], &group[1 + grid.level_start_[d]]
        occurring = 0
        for t in range(n_levels):
            occurring += counts[t] > 0
        if occurring < 2 or not P.usable[grid.p + d]:
            continue
        if P.tilt[d].n:
            if P.tilt[d].phase == NULL:
                n = _propose_above(P, d, counts, &level_slot[0, grid.level_start_[d]], n)
            else:
                n = _propose_halves(P, d, counts, &level_slot[0, grid.level_start_[d]],
                                    &level_slot[1, grid.level_start_[d]], n)
            continue
        for _turn in range(1 if occurring == 2 else 3):
            best = -1
            for t in range(n_levels):
                if (counts[t] > 0 and level_slot[0, grid.level_start_[d] + t] < 0
                        and (best < 0 or counts[t] > counts[best])):
                    best = t
            level_slot[0, grid.level_start_[d] + best] = n
            n += 1
    return n


cdef int32_t _propose_above(
    Pricing P, Py_ssize_t d, const int64_t *counts, int32_t *slot, int32_t n,
) noexcept nogil:
    """The levels above the cluster's mean of s1 leave; if there are cells at an atom, which has no place in
    the order, also those below, and the atom. Returns the number of candidates so far.
    """
    cdef const craft_tilt *tilt = &P.tilt[d]
    cdef craft_sums cells = craft_tilt_sums(tilt, counts, P.n_levels[d])
    cdef int32_t before = n
    cdef Py_ssize_t t
    # the rounding of s1 must not put a level at the mean above it
    cdef double mean = cells.first / max(cells.weight - cells.atom, 1.0) + 1e-6
    for t in range(P.n_levels[d]):
        if t != tilt.atom and tilt.s1[t] > mean:
            slot[t] = n
    n = _counted(counts, P.n_levels[d], slot, n)
    if cells.atom > 0.0:
        for t in range(P.n_levels[d] if n > before else 0):
            if t != tilt.atom and slot[t] < 0:
                slot[t] = n
        n = _counted(counts, P.n_levels[d], slot, n)
        slot[tilt.atom] = n
        n = _counted(counts, P.n_levels[d], slot, n)
    return n


cdef int32_t _propose_halves(
    Pricing P, Py_ssize_t d, const int64_t *counts, int32_t *first, int32_t *second, int32_t n,
) noexcept nogil:
    """Half a period from the mean direction on, and half a period around the axis, leave; returns the number
    of candidates so far.
    """
    cdef const double *phase = P.tilt[d].phase
    cdef double c = 0.0, s = 0.0, c2 = 0.0, s2 = 0.0, direction, axis
    cdef Py_ssize_t t
    for t in range(P.n_levels[d]):
        c += counts[t] * cos(phase[t])
        s += counts[t] * sin(phase[t])
        c2 += counts[t] * cos(2.0 * phase[t])
        s2 += counts[t] * sin(2.0 * phase[t])
    direction, axis = atan2(s, c), 0.5 * atan2(s2, c2)
    for t in range(P.n_levels[d]):
        if sin(phase[t] - direction) > 1e-9:
            first[t] = n
    n = _counted(counts, P.n_levels[d], first, n)
    for t in range(P.n_levels[d]):
        if cos(phase[t] - axis) > 1e-9:
            second[t] = n
    return _counted(counts, P.n_levels[d], second, n)


cdef int32_t _counted(const int64_t *counts, Py_ssize_t n_levels, int32_t *slot, int32_t n) noexcept nogil:
    """n + 1 if some cells leave under candidate n and others stay; otherwise n, without the candidate."""
    cdef Py_ssize_t t, leaving = 0, staying = 0
    for t in range(n_levels):
        if slot[t] == n:
            leaving += counts[t] > 0
        else:
            staying += counts[t] > 0
    if leaving and staying:
        return n + 1
    for t in range(n_levels):
        if slot[t] == n:
            slot[t] = -1
    return n


def screen_splits(
    const double[:, ::1] cells not None,    # IN  (m, W) weighted cells, integers
    const int32_t[::1] rows not None,       # IN  the rows that leave under the candidates, one candidate
                                            # after the other
    const Py_ssize_t[::1] begin not None,   # IN  (C + 1,) their first positions
    const double[::1] sums not None,        # IN  (W,) of the columns of cells
    const double[::1] size not None,        # IN  (C,) weight of the rows that leave
    double total,                           # weight of all rows
    const double[::1] per_column not None,  # IN  (W,) 1 / (total^2 variance), 0 for a column that counts
                                            # nothing
    const double[::1] per_split not None,   # IN  (C,) factor of the squared excess: half a chi-squared in
                                            # steps, scaled to the cluster
    const Py_ssize_t[::1] first not None,   # IN  (D + 1,) columns of cells of every feature
    const double[::1] floor not None,       # IN  (D,) price of every feature, steps
    double[:, ::1] work not None,           # WORK (m + 1, columns of cells that are screened at once, at
                                            # least those of a feature)
    int64_t[::1] score not None,            # OUT (C,) sum over the features of what exceeds their prices,
                                            # steps
):
    """Net gains of many candidate splits by chi-squared. The sums over rows are sums of integers below 2^53,
    hence exact.

    All candidates are screened against a few columns at a time, whose cells are copied so that they stay in
    cache.
    """
    cdef Py_ssize_t c, i, d, m = cells.shape[0], D = floor.shape[0], C = size.shape[0]
    cdef Py_ssize_t width = work.shape[1], last, at, n
    check(begin.shape[0] == C + 1 and begin[0] >= 0 and begin[C] <= rows.shape[0], "begin")
    check_lengths(cells.shape[1], "sums, per_column", sums.shape[0], per_column.shape[0])
    check_lengths(C, "per_split, score", per_split.shape[0], score.shape[0])
    check(first.shape[0] == D + 1, "first")
    check(work.shape[0] > m, "work")
    check_indices(rows, 0, m, "rows")
    for c in range(C):
        check(begin[c] <= begin[c + 1], "begin")
    for d in range(D + 1):
        check((first[d - 1] if d > 0 else 0) <= first[d] <= cells.shape[1], "first")
        check(d == 0 or first[d] - first[d - 1] <= width, "work")
    if D == 0 or C == 0 or m == 0 or width == 0 or cells.shape[1] == 0:
        for c in range(C):
            score[c] = 0
        return
    cdef const int32_t *row = &rows[0] if rows.shape[0] else NULL
    cdef double *block = &work[0, 0] + width
    with nogil:
        for c in range(C):
            score[c] = 0
        d = 0
        while d < D:
            last = d + 1
            while last < D and first[last + 1] - first[d] <= width:
                last += 1
            at, n = first[d], first[last] - first[d]
            for i in range(m):
                memcpy(block + i * width, &cells[i, 0] + at, n * sizeof(double))
            for c in range(C):
                _add_rows(block, width, n, row + begin[c], begin[c + 1] - begin[c], &work[0, 0])
                score[c] += _net_gain(&work[0, 0], &sums[0] + at, &per_column[0] + at, &first[d], &floor[d],
                                      last - d, size[c], total, per_split[c])
            d = last


cdef void _add_rows(
    const double *cells, Py_ssize_t width, Py_ssize_t n, const int32_t *rows, Py_ssize_t n_rows, double *out,
) noexcept nogil:
    """Sums of some rows of n cells; four rows at a time, so that the sums are loaded and stored less often.
    """
    cdef Py_ssize_t r, j
    cdef const double *a
    cdef const double *b
    cdef const double *c
    cdef const double *d
    memset(out, 0, n * sizeof(double))
    for r in range(0, n_rows - 3, 4):
        a, b = cells + rows[r] * width, cells + rows[r + 1] * width
        c, d = cells + rows[r + 2] * width, cells + rows[r + 3] * width
        for j in range(n):
            out[j] += (a[j] + b[j]) + (c[j] + d[j])
    for r in range(n_rows - n_rows % 4, n_rows):
        a = cells + rows[r] * width
        for j in range(n):
            out[j] += a[j]


cdef int64_t _net_gain(
    const double *leaving, const double *sums, const double *per_column, const Py_ssize_t *first,
    const double *floor, Py_ssize_t n, double size, double total, double per_split,
) noexcept nogil:
    """Sum over n features of what exceeds their prices."""
    cdef Py_ssize_t d, j
    cdef double excess, gain
    cdef int64_t score = 0
    for d in range(n):
        gain = 0.0
        for j in range(first[d] - first[0], first[d + 1] - first[0]):
            excess = total * leaving[j] - size * sums[j]
            gain += excess * excess * per_column[j]
        gain = gain * per_split - floor[d]
        if gain > 0:
            score += <int64_t> gain
    return score


cdef int _check_candidates(
    X, codes, const int32_t[::1] rows, Grid grid, const int32_t[:, ::1] level_slot, Py_ssize_t n_sides,
) except -1:
    """Raise unless rows and columns lie in the table, which has levels only, and sides are from -1 to n_sides
    - 1.
    """
    check(grid.p == 0, "numeric columns")
    check_table(X, codes, X.shape[0] if X.ndim else -1, grid.p, grid.q)
    cdef Py_ssize_t layer
    check(1 <= level_slot.shape[0] <= 2 and level_slot.shape[1] == grid.n_levels, "level_slot")
    for layer in range(level_slot.shape[0]):
        check_indices(level_slot[layer], -1, n_sides, "sides of levels")
    check_indices(rows, 0, X.shape[0], "rows")
    return 0


def leaving_rows(
    X not None,                            # IN  (n, p)
    codes not None,                         # IN  (n, q)
    const int32_t[::1] rows not None,       # IN  (m,) rows of the cluster
    Pricing pricing not None,
    const int32_t[:, ::1] level_slot not None,  # IN  (1 or 2, n_levels)
    uint8_t[:, ::1] leaving not None,       # OUT (m, C) 1 for the rows that leave under every candidate
):
    """The rows that leave the cluster under every candidate split."""
    cdef Grid grid = pricing.grid
    check(leaving.shape[0] == rows.shape[0], "leaving")
    _check_candidates(X, codes, rows, grid, level_slot, leaving.shape[1])
    cdef table_rows table = rows_of(X, codes, None)
    cdef Py_ssize_t[::1] columns = np.empty(grid.q, np.intp)       # those with candidates
    cdef Py_ssize_t q = 0, a, d, i, t, end, layer
    if leaving.shape[0] == 0 or leaving.shape[1] == 0:
        return
    with nogil:
        for d in range(grid.q):
            end = grid.level_start_[d + 1] if d + 1 < grid.q else grid.n_levels
            for t in range(grid.level_start_[d], end):
                if level_slot[0, t] >= 0 or level_slot[level_slot.shape[0] - 1, t] >= 0:
                    columns[q] = d
                    q += 1
                    break
        memset(&leaving[0, 0], 0, leaving.shape[0] * leaving.shape[1])
        for i in range(rows.shape[0]):
            for a in range(q):
                t = grid.level_start_[columns[a]] + rows_code(&table, rows[i], columns[a])
                for layer in range(level_slot.shape[0]):
                    if level_slot[layer, t] >= 0:
                        leaving[i, level_slot[layer, t]] = 1


def split_moments(
    X not None,                             # IN  (n, p)
    codes not None,                         # IN  (n, q)
    weight not None,                        # IN  (n,) or empty
    const int32_t[::1] rows not None,       # IN  (m,) rows of the cluster
    Pricing pricing not None,
    const int32_t[:, ::1] level_slot not None,  # IN  (1 or 2, n_levels)
    Py_ssize_t everything,                  # number of the side that takes all rows, or -1
    int64_t[:, :, ::1] sides not None,      # INOUT (n_threads, C, width) zeros; the sums end in sides[0]
    Py_ssize_t[:, ::1] work not None,       # WORK (n_threads, q)
    int n_threads,
):
    """Moments of the rows that leave the cluster under every candidate split, in one pass over its rows."""
    check_threads(n_threads)
    check(sides.shape[0] >= n_threads and sides.shape[2] == pricing.grid.width, "sides")
    check(work.shape[0] >= n_threads and work.shape[1] >= pricing.grid.q, "work")
    check(-1 <= everything < sides.shape[1], "everything")
    _check_candidates(X, codes, rows, pricing.grid, level_slot, sides.shape[1])
    cdef table_rows table = rows_of(X, codes, weight)
    cdef Py_ssize_t block = block_rows(), m = rows.shape[0], n_blocks = (m + block - 1) // block, b, t, c
    if n_threads == 1:
        with nogil:
            _split_rows(&table, rows, pricing, level_slot, everything, sides[0],
                        &work[0, 0], 0, m)
        return
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        _split_rows(&table, rows, pricing, level_slot, everything,
                    sides[omp_get_thread_num()], &work[omp_get_thread_num(), 0], b * block,
                    min((b + 1) * block, m))
    with nogil:
        for t in range(1, sides.shape[0]):
            for c in range(sides.shape[1]):
                moments_merge(&sides[0, c, 0], &sides[t, c, 0], 1, pricing.grid.first_numeric,
                              pricing.grid.width)


cdef void _split_rows(
    const table_rows *table, const int32_t[::1] rows, Pricing P, const int32_t[:, ::1] level_slot,
    Py_ssize_t everything, int64_t[:, ::1] sides, Py_ssize_t *levels, Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    """Every row is added to the sides that contain it; `levels` receives those of its cells."""
    cdef Py_ssize_t i, d, row, q = P.grid.q, layer
    cdef int64_t w
    for i in range(start, stop):
        row = rows[i]
        w = rows_weight(table, row)
        if w == 0:
            continue
        for d in range(q):
            levels[d] = P.grid.level_start_[d] + rows_code(table, row, d)
        if everything >= 0:
            _add_row(&sides[everything, 0], levels, q, w)
        for layer in range(level_slot.shape[0]):
            for d in range(q):
                if level_slot[layer, levels[d]] >= 0:
                    _add_row(&sides[level_slot[layer, levels[d]], 0], levels, q, w)


cdef inline void _add_row(int64_t *group, const Py_ssize_t *levels, Py_ssize_t q, int64_t w) noexcept nogil:
    cdef Py_ssize_t j
    group[0] += w
    for j in range(q):
        group[1 + levels[j]] += w


def split_scores(
    const int64_t[::1] group not None,      # IN  (width,)
    double cost,                            # of the group
    const int64_t[:, ::1] sides not None,   # IN  (C, width)
    Pricing pricing not None,
    double[::1] score not None,             # OUT (C,) cost(side) + cost(rest) - cost, +inf where a side is
                                            # empty
    int64_t[:, ::1] rest not None,          # WORK (n_threads, width)
    double[:, ::1] work not None,           # WORK (1 + 2 * n_threads, parts_size)
    uint8_t[:, ::1] mask not None,          # WORK (n_threads, D)
    int n_threads,
):
    """What every candidate split would add to the objective."""
    check_threads(n_threads)
    check(group.shape[0] == pricing.grid.width, "group")
    check(sides.shape[1] == pricing.grid.width, "sides")
    check(score.shape[0] == sides.shape[0], "score")
    check(rest.shape[0] >= n_threads and rest.shape[1] >= pricing.grid.width, "rest")
    check(work.shape[0] > 2 * n_threads and work.shape[1] >= parts_length(pricing), "work")
    check_selection(pricing, PRICED)
    check(mask.shape[0] >= n_threads and mask.shape[1] >= (pricing.grid.p + pricing.grid.q), "mask")
    cdef Py_ssize_t c
    fit_over_table(pricing, &group[0], parts_in(pricing, &work[0, 0]), False)
    if n_threads == 1:
        with nogil:
            for c in range(sides.shape[0]):
                _split_score(group, cost, &sides[c, 0], pricing, &score[c], &rest[0, 0], work, 0, &mask[0, 0],
                             False)
        return
    for c in prange(sides.shape[0], nogil=True, schedule="dynamic", num_threads=n_threads):
        _split_score(group, cost, &sides[c, 0], pricing, &score[c], &rest[omp_get_thread_num(), 0], work,
                     omp_get_thread_num(), &mask[omp_get_thread_num(), 0], False)


cdef void _split_score(
    const int64_t[::1] group, double cost, const int64_t *side, Pricing P, double *score, int64_t *rest,
    double[:, ::1] work, int thread, uint8_t *mask, bint alone,
) noexcept nogil:
    """Score of one candidate; the first row of `work` has the parts of the group, followed by two for every
    thread.
    """
    cdef parts_t whole = parts_in(P, &work[0, 0])
    cdef parts_t leaving = parts_in(P, &work[1 + 2 * thread, 0])
    cdef parts_t staying = parts_in(P, &work[2 + 2 * thread, 0])
    score[0] = INFINITY
    if side[0] == 0 or side[0] == group[0]:
        return
    memcpy(rest, &group[0], P.grid.width * sizeof(int64_t))
    moments_merge(rest, side, -1, P.grid.first_numeric, P.grid.width)
    score[0] = price_of_side(P, side, leaving, whole, NULL, mask, alone) - cost
    score[0] += price_of_side(P, rest, staying, whole, &leaving, mask, alone)


cdef enum:
    MOST_PROMISING = 3      # candidates that passes follow


def local_splits(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty
    const int32_t[::1] rows not None,       # IN    (m,) rows of the cluster
    const int64_t[::1] group not None,      # IN    (width,) its moments
    double cost,                            # of the cluster
    Pricing pricing not None,
    Py_ssize_t max_passes,
    double[::1] slab not None,              # WORK  as in `passes`, for two clusters and one thread
    double[:, ::1] scratch not None,        # WORK
    double[:, ::1] work not None,           # WORK  (3, parts_size)
    double[::1] path not None,              # WORK  (max_passes + 1,)
    int32_t[:, ::1] sides not None,         # OUT   (most <= 3, m) 1 for the rows that leave
    int64_t[:, :, ::1] groups not None,     # OUT   (most, 2, width) what stays, what leaves
    uint8_t[:, :, ::1] mask not None,       # OUT   (most, 2, D)
    double[:, ::1] costs not None,          # OUT   (most, 2)
) -> int:
    """The most promising splits of a cluster of few rows, each after passes with its two sides; returns their
    number.

    Features are free in the passes: two weak halves may differ before the codes of their masks pay. Splits
    that end with an empty side are dropped.
    """
    cdef Pricing P = pricing
    cdef Grid grid = P.grid
    cdef Py_ssize_t most = sides.shape[0], m = rows.shape[0], n, c, i, found = 0, K, promising
    cdef Py_ssize_t[MOST_PROMISING] best
    check(0 < most <= MOST_PROMISING and sides.shape[1] == m, "sides")
    check(groups.shape[0] == most and groups.shape[1] == 2 and groups.shape[2] == grid.width, "groups")
    check(mask.shape[0] == most and mask.shape[1] == 2 and mask.shape[2] == P.D, "mask")
    check(costs.shape[0] == most and costs.shape[1] == 2, "costs")
    check(group.shape[0] == grid.width, "group")
    check(0 <= max_passes < path.shape[0], "max_passes")
    check(work.shape[0] >= 3 and work.shape[1] >= parts_length(P), "work")
    check(slab.shape[0] >= slab_size(P, 2), "slab")
    check(scratch.shape[0] > 0 and scratch.shape[1] >= pass_scratch_size(P, 2), "scratch")
    check_selection(P, PRICED)
    cdef int32_t[:, ::1] level_slot = np.empty((1 + P.tilts.periodic, grid.n_levels), np.int32)
    cdef int32_t[::1] number = np.empty(2, np.int32)
    cdef Py_ssize_t[::1] levels = np.empty(grid.q, np.intp)
    n = _propose(group, P, grid, level_slot)
    if n == 0 or m == 0:
        return 0
    _check_candidates(X, codes, rows, grid, level_slot, n)
    cdef table_rows table = rows_of(X, codes, weight)
    cdef int64_t[:, ::1] leaving = np.zeros((n, grid.width), np.int64)
    cdef int64_t[:, :, ::1] no_partial = np.empty((0, 0, 0), np.int64)
    cdef double[::1] score = np.empty(n)
    cdef bint converged = False
    with nogil:
        _split_rows(&table, rows, P, level_slot, -1, leaving, &levels[0], 0, m)
        fit_over_table(P, &group[0], parts_in(P, &work[0, 0]), True)
        for c in range(n):
            _split_score(group, cost, &leaving[c, 0], P, &score[c], &groups[0, 0, 0], work, 0,
                         &mask[0, 0, 0], True)
        promising = _lowest(score, leaving, best, most)
        for i in range(promising):
            c, K = best[i], 2
            _begin_sides(&table, rows, P, level_slot, c, sides[found])
            memcpy(&groups[found, 0, 0], &group[0], grid.width * sizeof(int64_t))
            memcpy(&groups[found, 1, 0], &leaving[c, 0], grid.width * sizeof(int64_t))
            moments_merge(&groups[found, 0, 0], &leaving[c, 0], -1, grid.first_numeric, grid.width)
            run_passes(&table, rows, sides[found], groups[found], &K, P, FREE, max_passes, 0.0, slab,
                       scratch, no_partial, work, mask[found], costs[found], path, number, 1, &converged)
            if K == 2:
                price_all(P, PRICED, groups[found], 2, work, mask[found], costs[found], True)
            found += K == 2
    return found


cdef Py_ssize_t _lowest(
    double[::1] score, const int64_t[:, ::1] leaving, Py_ssize_t *best, Py_ssize_t most,
) noexcept nogil:
    """Positions of up to `most` finite scores, lowest first; within 1e-9 the earlier position is first. Of
    candidates under which rows of the same moments leave, as of equal columns, one is chosen.

    The scores of the chosen ones become infinite.
    """
    cdef Py_ssize_t n = 0, c, i
    cdef double least
    while n < most:
        least = INFINITY
        for c in range(score.shape[0]):
            least = min(least, score[c])
        if least == INFINITY:
            break
        c = 0
        while score[c] > least + 1e-9:
            c += 1
        score[c] = INFINITY
        for i in range(n):
            if memcmp(&leaving[c, 0], &leaving[best[i], 0], leaving.shape[1] * sizeof(int64_t)) == 0:
                break
        else:
            best[n] = c
            n += 1
    return n


cdef void _begin_sides(
    const table_rows *table, const int32_t[::1] rows, Pricing P, const int32_t[:, ::1] level_slot,
    Py_ssize_t candidate, int32_t[::1] side,
) noexcept nogil:
    """1 for the rows that leave under one candidate, 0 for the others."""
    cdef Py_ssize_t i, d, t, layer
    for d in range(P.grid.q):
        for layer in range(level_slot.shape[0]):
            if _has_candidate(P, d, &level_slot[layer, 0], candidate):
                for i in range(rows.shape[0]):
                    t = P.grid.level_start_[d] + rows_code(table, rows[i], d)
                    side[i] = level_slot[layer, t] == candidate


cdef bint _has_candidate(
    Pricing P, Py_ssize_t d, const int32_t *level_slot, Py_ssize_t candidate,
) noexcept nogil:
    """Whether levels of a column leave under a candidate."""
    cdef Py_ssize_t t
    for t in range(P.grid.level_start_[d], P.grid.level_start_[d] + P.n_levels[d]):
        if level_slot[t] == candidate:
            return True
    return False
