"""One step of CRAFT: gains of a partition, cost tables of its clusters, one pass of the rows over them.

Costs are in nats, relative to a row's background; the tables are described in src/_craft.h.
"""

import numpy as np

from cython cimport floating
from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t

from craftc._kernels._common cimport block_rows, code_t, omp_get_thread_num
from craftc._kernels.craft cimport (
    CRAFT_FAR, CRAFT_FEW, CRAFT_PAD, TILE, assign_block, categorical_gain, craft_scratch_size, levels_of, move_row,
    numeric_gain, table_lane, tile_costs,
)
from craftc._kernels.moments cimport CRAFTC_NUMERIC_CELLS, Grid
from craftc._kernels.moments import merge_partial

PAD = CRAFT_PAD
FAR = CRAFT_FAR


cdef class Tables:
    """Cost tables of K clusters over one table's columns. All arrays are allocated by the caller, C-contiguous.

    Parameters
    ----------
    n_clusters : int
        K; every table has `lanes` = K rounded up to PAD columns.
    grid : Grid
    centre, scale : ndarray (p,) of float64
        z = (x - centre) * scale.
    base, constant : ndarray (lanes,), square, linear, offset : ndarray (p, lanes), level : ndarray (n_levels, lanes)
        Filled by ``cost_tables``.
    numeric, categorical : ndarray of intp
        Columns that any cluster selected.
    """

    def __cinit__(self, Py_ssize_t n_clusters, Grid grid not None, centre, scale, base, constant, square, linear, offset, level,
                  numeric, categorical):
        repeat = TILE if max(grid.p, grid.q) <= CRAFT_FEW else 1
        self.centre, self.scale = np.tile(centre, repeat), np.tile(scale, repeat)
        self.level_offset = np.tile((grid.level_start * len(constant)).astype(np.int32), repeat)
        cdef const double[::1] centre_ = self.centre, scale_ = self.scale, base_ = base, constant_ = constant
        cdef const int32_t[::1] level_offset_ = self.level_offset
        cdef const double[:, ::1] square_ = square, linear_ = linear, offset_ = offset, level_ = level
        cdef const Py_ssize_t[::1] numeric_ = numeric, categorical_ = categorical
        self.base, self.constant, self.square, self.linear = base, constant, square, linear
        self.offset, self.level = offset, level
        self.numeric, self.categorical, self.grid = numeric, categorical, grid
        self.c.n_clusters, self.c.lanes = n_clusters, constant_.shape[0]
        self.c.n_numeric, self.c.n_categorical = numeric_.shape[0], categorical_.shape[0]
        self.c.p, self.c.q, self.c.repeat = grid.p, grid.q, repeat
        self.c.base, self.c.constant = &base_[0], &constant_[0]
        if grid.p:
            self.c.centre, self.c.scale = &centre_[0], &scale_[0]
            self.c.square, self.c.linear, self.c.offset = &square_[0, 0], &linear_[0, 0], &offset_[0, 0]
        if grid.q:
            self.c.level, self.c.level_offset = &level_[0, 0], &level_offset_[0]
        if numeric_.shape[0]:
            self.c.numeric = &numeric_[0]
        if categorical_.shape[0]:
            self.c.categorical = &categorical_[0]


def scratch_size(Tables tables not None):
    """Doubles of scratch one thread needs."""
    return craft_scratch_size(tables.c.p, tables.c.q, tables.c.lanes)


def gains(
    const int64_t[:, ::1] groups not None,  # IN  (K, width) exact moments
    Grid grid not None,
    double unit,                            # weight of one count
    const double[::1] frequency not None,   # IN  (n_levels,) background eta_0
    const double[::1] variance not None,    # IN  (p,) background sigma_0^2, grid units
    const uint8_t[::1] usable not None,     # IN  (p + q,) 0 = constant column: gain 0
    const double[:, ::1] shift not None,    # IN  (K, p) (zeta_k - zeta_0) / sigma_0
    const double[:, ::1] deviations not None,  # IN  (K, p) sum of squared deviations, weighted, grid units
    double prior,                           # alpha = kappa
    double[:, ::1] gain not None,           # OUT (K, p + q) nats, >= 0
):
    """What each (cluster, feature) saves over the background, pseudo-count penalties paid."""
    cdef Py_ssize_t k, d
    cdef double S
    with nogil:
        for k in range(groups.shape[0]):
            for d in range(grid.p):
                S = unit * groups[k, grid.first_numeric + CRAFTC_NUMERIC_CELLS * d]
                gain[k, d] = numeric_gain(S, deviations[k, d] / variance[d], shift[k, d], prior) if usable[d] and S > 0 else 0.0
            for d in range(grid.q):
                gain[k, grid.p + d] = categorical_gain(
                    &groups[k, 1 + grid.level_start_[d]], &frequency[grid.level_start_[d]], levels_of(grid, d), unit, prior,
                ) if usable[grid.p + d] else 0.0


def cost_tables(
    const int64_t[:, ::1] groups not None,  # IN  (K, width)
    Grid grid not None,
    double unit,
    const double[::1] frequency not None,   # IN  (n_levels,) eta_0
    const double[:, ::1] shift not None,    # IN  (K, p) (zeta_k - zeta_0) / sigma_0
    const double[:, ::1] precision not None,  # IN  (K, p) sigma_0^2 / sigma_k^2
    const uint8_t[:, ::1] mask not None,    # IN  (K, p + q)
    const double[::1] extra not None,       # IN  (K,) added to every row's cost of the cluster, nats
    double prior,                           # alpha
    bint background,                        # numeric background and log sigma enter (the coherent model)
    double[::1] base not None,              # OUT (lanes,)
    double[::1] constant not None,          # OUT (lanes,)
    double[:, ::1] square not None,         # OUT (p, lanes)
    double[:, ::1] linear not None,         # OUT (p, lanes)
    double[:, ::1] offset not None,         # OUT (p, lanes)
    double[:, ::1] level not None,          # OUT (n_levels, lanes)
):
    """own - background of every selected cell as a table over its value."""
    cdef Py_ssize_t k, d, t, lanes = constant.shape[0]
    with nogil:
        for k in range(lanes):
            if k < groups.shape[0]:
                table_lane(k, lanes, &groups[k, 0], grid, unit, &frequency[0] if grid.q else NULL, &shift[k, 0] if grid.p else NULL,
                           &precision[k, 0] if grid.p else NULL, &mask[k, 0], extra[k], prior, background, &base[0], &constant[0],
                           &square[0, 0] if grid.p else NULL, &linear[0, 0] if grid.p else NULL,
                           &offset[0, 0] if grid.p else NULL, &level[0, 0] if grid.q else NULL)
                continue
            base[k] = constant[k] = INFINITY
            for d in range(grid.p):
                square[d, k] = linear[d, k] = offset[d, k] = 0.0
            for t in range(grid.n_levels):
                level[t, k] = 0.0


def assign(
    const floating[:, ::1] X not None,      # IN    (n, p)
    const code_t[:, ::1] codes not None,    # IN    (n, q)
    const int64_t[::1] weight not None,     # IN    (n,) or empty = all one
    Tables tables not None,
    int32_t[::1] labels not None,           # INOUT (n,) -1 = not assigned yet
    double[::1] best not None,              # OUT   (n,) or empty: cost of the row's cluster
    double[:, ::1] scratch not None,        # WORK  (n_threads, scratch_size)
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, K, width) zeros; empty: moments are left alone
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
    int n_threads,
):
    """Move every row to its cheapest cluster and its cells to that cluster's moments; returns the rows of weight > 0 that moved.

    A row stays unless another cluster is cheaper by more than 1e-12; among the cheapest, the lowest number.
    """
    cdef Py_ssize_t block = block_rows(), n = labels.shape[0], n_blocks = (n + block - 1) // block, b, moved = 0
    cdef bint moving = partial.shape[0] > 0
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    if n_threads == 1:
        with nogil:
            for b in range(n_blocks):
                moved += assign_block(X, codes, weight, all_rows, &tables.c, tables.grid, labels, best, b * block,
                                      min((b + 1) * block, n), &scratch[0, 0], moving, groups)
        return moved
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        moved += assign_block(X, codes, weight, all_rows, &tables.c, tables.grid, labels, best, b * block,
                              min((b + 1) * block, n), &scratch[omp_get_thread_num(), 0], moving,
                              partial[omp_get_thread_num()] if moving else groups)
    if moving:
        merge_partial(partial, groups, tables.grid.first_numeric)
    return moved


def challenge(
    const floating[:, ::1] X not None,      # IN    (n, p)
    const code_t[:, ::1] codes not None,    # IN    (n, q)
    const int64_t[::1] weight not None,     # IN    (n,) or empty
    Tables tables not None,                 # of the newcomer alone
    int32_t newcomer,                       # its number
    Py_ssize_t first_row,
    int32_t[::1] labels not None,           # INOUT (n,)
    double[::1] best not None,              # INOUT (n,)
    double[:, ::1] scratch not None,        # WORK  (n_threads, scratch_size)
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, K, width) zeros; empty: moments are left alone
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
    int n_threads,
):
    """Rows from `first_row` on go to the newcomer where it is strictly cheaper; returns the rows of weight > 0 that moved."""
    cdef Py_ssize_t block = block_rows(), n = labels.shape[0], n_blocks = (n - first_row + block - 1) // block, b, moved = 0
    cdef bint moving = partial.shape[0] > 0
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    if n_threads == 1:
        with nogil:
            for b in range(n_blocks):
                moved += _challenge_block(X, codes, weight, tables, newcomer, first_row + b * block,
                                          min(first_row + (b + 1) * block, n), labels, best, &scratch[0, 0], moving, groups,
                                          all_rows)
        return moved
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        moved += _challenge_block(X, codes, weight, tables, newcomer, first_row + b * block,
                                  min(first_row + (b + 1) * block, n), labels, best, &scratch[omp_get_thread_num(), 0],
                                  moving, partial[omp_get_thread_num()] if moving else groups, all_rows)
    if moving:
        merge_partial(partial, groups, tables.grid.first_numeric)
    return moved


cdef Py_ssize_t _challenge_block(
    const floating[:, ::1] X, const code_t[:, ::1] codes, const int64_t[::1] weight, Tables tables, int32_t newcomer,
    Py_ssize_t start, Py_ssize_t stop, int32_t[::1] labels, double[::1] best, double *scratch, bint moving,
    int64_t[:, ::1] groups, const int32_t[::1] all_rows,
) noexcept nogil:
    cdef Py_ssize_t tile, first, n, r, moved = 0
    cdef double[TILE] least
    cdef int32_t[TILE] arg
    for tile in range((stop - start + TILE - 1) // TILE):
        first = start + tile * TILE
        n = min(TILE, stop - first)
        tile_costs(X, codes, all_rows, &tables.c, first, n, scratch, least, arg)
        for r in range(n):
            if least[r] < best[first + r]:
                best[first + r] = least[r]
                moved += move_row(X, codes, weight, tables.grid, first + r, &labels[first + r], newcomer, moving, groups)
    return moved


def costs(
    const floating[:, ::1] X not None,      # IN  (n, p)
    const code_t[:, ::1] codes not None,    # IN  (n, q)
    Tables tables not None,
    double[:, ::1] scratch not None,        # WORK (1, scratch_size)
    double[:, ::1] out not None,            # OUT (n, K)
):
    """Costs of every row under every cluster, relative to its background."""
    cdef Py_ssize_t n = out.shape[0], tile, first, m, r, k
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    cdef double[TILE] least
    cdef int32_t[TILE] arg
    cdef const double *cost
    with nogil:
        for tile in range((n + TILE - 1) // TILE):
            first = tile * TILE
            m = min(TILE, n - first)
            cost = tile_costs(X, codes, all_rows, &tables.c, first, m, &scratch[0, 0], least, arg)
            for r in range(m):
                for k in range(out.shape[1]):
                    out[first + r, k] = cost[r * tables.c.lanes + k]


def first_above(
    const double[::1] best not None,        # IN (n,)
    const double[::1] limit not None,       # IN (n,)
    Py_ssize_t cursor,
):
    """First row from `cursor` on whose best cost exceeds its limit, or -1."""
    cdef Py_ssize_t i = cursor, n = best.shape[0]
    with nogil:
        while i < n and best[i] <= limit[i]:
            i += 1
    return i if i < n else -1
