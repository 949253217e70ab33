"""Seeds of CRAFT's start partitions by k-means++: one-point clusters that select every feature."""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memset

from craftc._kernels._common cimport block_rows, check, check_lengths, check_threads
from craftc._kernels.craft cimport CRAFT_FAR, level_lane, numeric_lane
from craftc._kernels.craft_shared cimport Tilts
from craftc._kernels.moments cimport (
    CRAFTC_NUMERIC_CELLS, Grid, check_table, moments_add_row, moments_mean, rows_codes,
    rows_number, rows_of, rows_weight, table_rows,
)

ctypedef fused code_t:
    uint8_t
    uint16_t

cdef double NO_DISTANCE = 1e-9      # nats of all rows together: every distinct row is a seed
cdef enum:
    ROWS = 64                       # whose costs are summed together, over as many columns as stay in a cache
    COLUMNS = 32


cdef struct seed_costs:             # of one cluster: CostTables without lanes for others
    double base, constant
    double *square
    double *linear
    double *offset
    double *level


def kmeans_plus_plus(
    X not None,                            # IN   (n, p)
    codes not None,                         # IN   (n, q)
    weight not None,                        # IN   (n,) or empty = all one
    Grid grid not None,
    const double[::1] centre not None,      # IN   (p,)
    const double[::1] scale not None,       # IN   (p,)
    const double[::1] frequency not None,   # IN   (n_levels,) eta_0
    const double[::1] mean not None,        # IN   (p,) zeta_0 in grid steps
    const double[::1] variance not None,    # IN   (p,) sigma_0^2 in grid steps^2
    const uint8_t[::1] usable not None,     # IN   (p + q,)
    double prior,                           # alpha
    Tilts tilts not None,
    const double[::1] own not None,         # IN   (n,) cost of every row under its own one-point cluster
    const double[::1] draws not None,       # IN   (n_seeds,) uniform numbers
    Py_ssize_t row,                         # the first seed
    Py_ssize_t[::1] seeds not None,         # OUT  (n_seeds,)
    int32_t[::1] labels not None,           # OUT  (n,) the nearest seed of every row, ties to the earlier
    double[::1] running not None,           # WORK (n,)
    int n_threads,
) -> int:
    """Draw each seed with probability proportional to the weighted distance to the nearest earlier seed;
    returns the number of seeds.

    The distance of a row to a seed is its cost under the seed's one-point cluster less that under its own, in
    nats. There are fewer seeds where all rows are at distance 0.
    """
    cdef Py_ssize_t n = own.shape[0], p = grid.p, k, i, b, d
    cdef Py_ssize_t block = block_rows(), n_blocks = (n + block - 1) // block
    check_threads(n_threads)
    check_table(X, codes, n, grid.p, grid.q)
    check_lengths(grid.p, "centre, scale", centre.shape[0], scale.shape[0])
    check(frequency.shape[0] == grid.n_levels, "frequency")
    check_lengths(grid.p, "mean, variance", mean.shape[0], variance.shape[0])
    check(usable.shape[0] == grid.p + grid.q, "usable")
    check(tilts.grid.q == grid.q and tilts.grid.n_levels == grid.n_levels, "tilts")
    check(seeds.shape[0] == draws.shape[0], "seeds")
    check(0 <= row < n, "row")
    check_lengths(n, "labels, running", labels.shape[0], running.shape[0])
    cdef table_rows table = rows_of(X, codes, weight)
    cdef double[::1] best = np.full(n, np.inf), cells = np.empty(3 * p + grid.n_levels + 1)
    cdef seed_costs costs
    costs.square, costs.linear, costs.offset = &cells[0], &cells[0] + p, &cells[0] + 2 * p
    costs.level = &cells[0] + 3 * p
    cdef int64_t[::1] group = np.empty(grid.width, np.int64)
    cdef double[::1] shift = np.empty(grid.p), precision = np.ones(grid.p)
    cdef double total, target
    memset(&labels[0], 0, n * sizeof(int32_t))
    for k in range(draws.shape[0]):
        seeds[k] = row
        with nogil:
            _fit_row(&table, row, grid, mean, variance, group, shift)
            costs.base = costs.constant = 0.0
            memset(&cells[0], 0, cells.shape[0] * sizeof(double))
            for d in range(p):
                numeric_lane(d, 0, 1, &group[0], grid, &shift[0], &precision[0], usable[d], True,
                             &costs.constant, costs.square, costs.linear, costs.offset)
            for d in range(grid.q):
                level_lane(d, 0, 1, &group[0], grid, 1.0, &frequency[0], usable[p + d], prior, NULL,
                           costs.level, &tilts.column[d], tilts.weight_[d], NULL)
        for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
            _reassign(&table, grid, centre, scale, &costs, usable, <int32_t> k, b * block,
                      min((b + 1) * block, n), labels, best)
        with nogil:
            total = 0.0
            for i in range(n):
                total += max(best[i] - own[i], 0.0) * rows_weight(&table, i)
                running[i] = total
            if not total > NO_DISTANCE:
                row = -1
            else:
                target, row = draws[k] * total, 0
                while running[row] <= target and running[row] < total:
                    row += 1
        if row < 0:
            return k + 1
    return draws.shape[0]


cdef void _reassign(
    const table_rows *table, Grid grid, const double[::1] centre, const double[::1] scale,
    const seed_costs *costs, const uint8_t[::1] usable, int32_t k, Py_ssize_t start, Py_ssize_t stop,
    int32_t[::1] labels, double[::1] best,
) noexcept nogil:
    """Assign the rows of a block to seed k where it is strictly cheaper than all seeds before it."""
    cdef double[ROWS] cost
    cdef Py_ssize_t tile, first, n, r
    for tile in range((stop - start + ROWS - 1) // ROWS):
        first = start + tile * ROWS
        n = min(ROWS, stop - first)
        for r in range(n):
            cost[r] = _cost_of_numbers(table, first + r, grid, centre, scale, costs, usable)
        if table.q and table.wide:
            _add_levels(<const uint16_t *> rows_codes(table, first), table.q, n, grid, costs.level, cost)
        elif table.q:
            _add_levels(<const uint8_t *> rows_codes(table, first), table.q, n, grid, costs.level, cost)
        for r in range(n):
            if cost[r] < best[first + r]:
                best[first + r], labels[first + r] = cost[r], k


cdef double _cost_of_numbers(
    const table_rows *table, Py_ssize_t row, Grid grid, const double[::1] centre, const double[::1] scale,
    const seed_costs *costs, const uint8_t[::1] usable,
) noexcept nogil:
    """In the order of a table with many clusters: the constant of the row, then column by column."""
    cdef Py_ssize_t d
    cdef double sum = costs.base, cell, z
    cdef bint complete = True
    for d in range(grid.p):
        if usable[d]:
            cell = rows_number(table, row, d)
            if cell == cell:
                sum += costs.offset[d]
            else:
                complete = False
    sum = costs.constant if complete else sum
    for d in range(grid.p):
        if usable[d]:
            cell = rows_number(table, row, d)
            z = max(-CRAFT_FAR, min(CRAFT_FAR, (cell - centre[d]) * scale[d])) if cell == cell else 0.0
            sum += (costs.square[d] * z + costs.linear[d]) * z
    return sum


cdef void _add_levels(
    const code_t *codes, Py_ssize_t q, Py_ssize_t n, Grid grid, const double *level, double *cost,
) noexcept nogil:
    """Add the costs of the levels of n rows, column by column; four rows at a time keep an adder busy."""
    cdef Py_ssize_t run, from_column, to_column, d, r
    cdef const double *own
    cdef const code_t *at
    cdef double first, second, third, fourth
    for run in range((q + COLUMNS - 1) // COLUMNS):
        from_column = run * COLUMNS
        to_column = min(from_column + COLUMNS, q)
        for r in range(0, n - 3, 4):
            first, second, third, fourth = cost[r], cost[r + 1], cost[r + 2], cost[r + 3]
            for d in range(from_column, to_column):
                own, at = level + grid.level_start_[d], codes + r * q + d
                first += own[at[0]]
                second += own[at[q]]
                third += own[at[2 * q]]
                fourth += own[at[3 * q]]
            cost[r], cost[r + 1], cost[r + 2], cost[r + 3] = first, second, third, fourth
        for r in range(n // 4 * 4, n):
            for d in range(from_column, to_column):
                cost[r] += level[grid.level_start_[d] + codes[r * q + d]]


cdef void _fit_row(
    const table_rows *table, Py_ssize_t row, Grid grid, const double[::1] mean, const double[::1] variance,
    int64_t[::1] group, double[::1] shift,
) noexcept nogil:
    """Moments of the one-point cluster of a row, and its mean in standard deviations of the table."""
    cdef Py_ssize_t d
    cdef const int64_t *cell
    cdef double deviations = 0.0
    memset(&group[0], 0, grid.width * sizeof(int64_t))
    moments_add_row(&group[0], grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric, table, row,
                    1)
    for d in range(grid.p):
        cell = &group[grid.first_numeric + CRAFTC_NUMERIC_CELLS * d]
        shift[d] = ((moments_mean(cell, &deviations) if cell[0] > 0 else 0.0) - mean[d]) / sqrt(variance[d])
