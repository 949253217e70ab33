"""Seeds of CRAFT's start partitions by k-means++: one-point clusters that select every feature."""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from craftc._kernels._common cimport block_rows, check, check_lengths, check_threads, omp_get_thread_num
from craftc._kernels.craft cimport CostTables, craft_rows_scratch_size, empty_lane, reassign_block, table_lane
from craftc._kernels.craft_shared cimport Tilts
from craftc._kernels.moments cimport (
    CRAFTC_NUMERIC_CELLS, Grid, check_table, moments_add_row, moments_mean, rows_of, rows_weight,
    table_rows,
)

cdef double NO_DISTANCE = 1e-9      # nats of all rows together: every distinct row is a seed


def kmeans_plus_plus(
    X not None,                            # IN   (n, p)
    codes not None,                         # IN   (n, q)
    weight not None,                        # IN   (n,) or empty = all one
    CostTables tables not None,             # WORK of one cluster
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
    double[:, ::1] scratch not None,        # WORK (n_threads, scratch_size)
    int n_threads,
) -> int:
    """Draw each seed with probability proportional to the weighted distance to the nearest earlier seed;
    returns the number of seeds.

    The distance of a row to a seed is its cost under the seed's one-point cluster less that under its own, in
    nats. There are fewer seeds where all rows are at distance 0.
    """
    cdef Grid grid = tables.grid
    cdef Py_ssize_t n = own.shape[0], p = grid.p, lanes = tables.c.lanes, k, i, b
    cdef Py_ssize_t block = block_rows(), n_blocks = (n + block - 1) // block
    check_threads(n_threads)
    check_table(X, codes, n, grid.p, grid.q)
    check(tables.c.n_clusters == 1, "tables")
    check(frequency.shape[0] == grid.n_levels, "frequency")
    check_lengths(grid.p, "mean, variance", mean.shape[0], variance.shape[0])
    check(usable.shape[0] == grid.p + grid.q, "usable")
    check(tilts.grid.q == grid.q and tilts.grid.n_levels == grid.n_levels, "tilts")
    check(seeds.shape[0] == draws.shape[0], "seeds")
    check(0 <= row < n, "row")
    check_lengths(n, "labels, running", labels.shape[0], running.shape[0])
    check(scratch.shape[0] >= n_threads
          and scratch.shape[1] >= craft_rows_scratch_size(grid.p, grid.q, tables.c.lanes), "scratch")
    cdef double[::1] base = tables.base, constant = tables.constant
    cdef double[:, ::1] square = tables.square, linear = tables.linear, offset = tables.offset
    cdef double[:, ::1] level = tables.level
    cdef table_rows table = rows_of(X, codes, weight)
    cdef double[::1] best = np.full(n, np.inf)
    cdef int64_t[::1] group = np.empty(grid.width, np.int64)
    cdef double[::1] shift = np.empty(grid.p), precision = np.ones(grid.p)
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    cdef int64_t[:, ::1] no_groups = np.empty((0, 0), np.int64)
    cdef double total, target
    for k in range(1, lanes):
        empty_lane(k, lanes, grid, &base[0], &constant[0], &square[0, 0] if p else NULL,
                   &linear[0, 0] if p else NULL, &offset[0, 0] if p else NULL,
                   &level[0, 0] if grid.q else NULL)
    memset(&labels[0], 0, n * sizeof(int32_t))
    for k in range(draws.shape[0]):
        seeds[k] = row
        _fit_row(&table, row, grid, mean, variance, group, shift)
        table_lane(0, lanes, &group[0], grid, 1.0, &frequency[0] if grid.q else NULL,
                   &shift[0] if p else NULL, &precision[0] if p else NULL, &usable[0], 0.0, prior, True, NULL,
                   &base[0], &constant[0], &square[0, 0] if p else NULL,
                   &linear[0, 0] if p else NULL, &offset[0, 0] if p else NULL,
                   &level[0, 0] if grid.q else NULL, tilts.column, tilts.weight_, NULL)
        if n_threads == 1:
            with nogil:
                reassign_block(&table, tables, <int32_t> k, 0, n, labels, best, &scratch[0, 0], False,
                               no_groups, all_rows)
        else:
            for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
                reassign_block(&table, tables, <int32_t> k, b * block, min((b + 1) * block, n), labels, best,
                               &scratch[omp_get_thread_num(), 0], False, no_groups, all_rows)
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
