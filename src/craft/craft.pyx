"""CAF, the inner loop of CRAFT: one pass that assigns rows, opens clusters, and updates their parameters and
features.

CAF is Algorithm 2 of V. K. Garg, C. Rudin and T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature
selecTion", AISTATS 2016. A pass consists of

1. `assign`: every row to the cheapest of the clusters that existed before the pass, in parallel
   (`assign_block` is the loop over rows);
2. `first_above` and `reassign_if_cheaper`: rows whose cost exceeds their threshold are visited in order. Each
   may open a cluster, and later rows are compared with it immediately;
3. `cost_tables`, for the next pass: costs of all cell values under the clusters, whose features
   src/craft/craft_price.pyx has selected.

Costs are in nats, relative to the cost of a row under the background. Cost tables are described in
src/craft/_craft.h.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from craftc._kernels._common cimport (
    block_rows, check, check_indices, check_shapes, check_threads, omp_get_thread_num,
)
from craftc._kernels.craft cimport (
    CRAFT_CERTAIN, CRAFT_FAR, CRAFT_FEW, CRAFT_PAD, CRAFT_SCREENED, CRAFT_UNSURE, TILE, craft_certainty,
    craft_cheapest, craft_costs_of, craft_fill, craft_round, craft_rounded_size, craft_rows_scratch_size,
    craft_scratch_size, craft_screen_tile, craft_tables,
)
from craftc._kernels.craft_shared cimport Shared, Tilts, craft_tilt, fit_tilt, tilt_log_ratios, tilted_t
from craftc._kernels.moments cimport (
    CRAFTC_NUMERIC_CELLS, Grid, check_partial, check_table, moments_add_row, rows_code, rows_codes,
    rows_copy_numbers, rows_of, rows_weight, table_rows,
)
from craftc._kernels.moments import merge_partial

PAD = CRAFT_PAD
FAR = CRAFT_FAR  # type: float

cdef enum:
    UNSURE_TILES = 32       # of a block that screening may leave open before they are counted
    WHOLE_TABLE = 2         # entry of a mask: the column has the distribution of the whole table


cdef class CostTables:
    """Cost tables of K clusters over the columns of a table. The caller allocates all arrays, which are
    C-contiguous.

    Parameters
    ----------
    n_clusters : int
        K; every table has `lanes` = K rounded up to PAD columns.
    grid : Grid
    centre, scale : ndarray (p,) of float64
        z = (x - centre) * scale.
    base, constant : ndarray (lanes,), square, linear, offset : ndarray (p, lanes), level : ndarray (n_levels,
    lanes)
        Filled by ``cost_tables``.
    numeric, categorical : ndarray of intp
        Columns that any cluster selected.
    """

    def __cinit__(self, Py_ssize_t n_clusters, Grid grid not None, centre, scale, base, constant, square,
                  linear, offset, level, numeric, categorical):
        repeat = TILE if max(grid.p, grid.q) <= CRAFT_FEW else 1
        check(grid.n_levels * len(constant) < 2 ** 31, "level")  # offsets have 32 bits
        self.centre, self.scale = repeated(centre, repeat), repeated(scale, repeat)
        self.level_offset = repeated((grid.level_start * len(constant)).astype(np.int32), repeat)
        cdef const double[::1] centre_ = self.centre, scale_ = self.scale, base_ = base, constant_ = constant
        cdef const int32_t[::1] level_offset_ = self.level_offset
        cdef const double[:, ::1] square_ = square, linear_ = linear, offset_ = offset, level_ = level
        cdef const Py_ssize_t[::1] numeric_ = numeric, categorical_ = categorical
        cdef Py_ssize_t lanes = constant_.shape[0], d
        check(0 < n_clusters <= lanes, "n_clusters")
        check(len(centre) == grid.p and len(scale) == grid.p, "centre or scale")
        check(base_.shape[0] == lanes, "base")
        check_shapes(grid.p, lanes, "square, linear, offset", square_.shape, linear_.shape, offset_.shape)
        check(level_.shape[0] == grid.n_levels and level_.shape[1] == lanes, "level")
        for d in range(numeric_.shape[0]):
            check(0 <= numeric_[d] < grid.p, "numeric")
        for d in range(categorical_.shape[0]):
            check(0 <= categorical_[d] < grid.q, "categorical")
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

    def __reduce__(self):
        rows = np.concatenate([self.base[None], self.constant[None], self.square, self.linear, self.offset,
                               self.level])
        centre, scale = self.centre[:self.c.p], self.scale[:self.c.p]
        return _copied_tables, (self.c.n_clusters, self.grid, centre, scale, rows, self.numeric,
                                self.categorical)


cdef repeated(array, Py_ssize_t times):
    """(times * n,) the numbers of an array, again and again."""
    out = np.empty((times, len(array)), array.dtype)
    out[:] = array
    return out.reshape(-1)


def tables_in(
    n_clusters: int, grid: Grid, centre: Floats, scale: Floats, rows: Floats, numeric: Positions,
    categorical: Positions,
) -> CostTables:
    """Cost tables from the rows (2 + 3 p + n_levels, lanes) base, constant, square, linear, offset and level,
    on a cache line.
    """
    p = grid.p
    check(rows.ndim == 2 and rows.shape[0] == 2 + 3 * p + grid.n_levels, "rows")
    square, linear, offset = rows[2:2 + 3 * p].reshape(3, p, rows.shape[1])
    return CostTables(n_clusters, grid, centre, scale, rows[0], rows[1], square, linear, offset,
                      rows[2 + 3 * p:], numeric, categorical)


def _copied_tables(n_clusters, grid, centre, scale, rows, numeric, categorical):
    """Cost tables from rows that need not be on a cache line."""
    room = np.empty(rows.size + CRAFT_PAD)
    skip = (64 - room.ctypes.data % 64) % 64 // 8
    copied = room[skip:skip + rows.size].reshape(rows.shape)
    copied[:] = rows
    return tables_in(n_clusters, grid, centre, scale, copied, numeric, categorical)


def scratch_size(CostTables tables not None) -> int:
    """Doubles of scratch one thread needs, gathered rows included."""
    return craft_rows_scratch_size(tables.c.p, tables.c.q, tables.c.lanes)


cdef int check_scratch(const double[:, ::1] scratch, CostTables tables, int n_threads) except -1:
    check_threads(n_threads)
    return check(scratch.shape[0] >= n_threads and scratch.shape[1] >= craft_rows_scratch_size(
        tables.c.p, tables.c.q, tables.c.lanes), "scratch")


def assign(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty = all one
    CostTables tables not None,
    int32_t[::1] labels not None,           # INOUT (n,) -1 = not assigned yet
    double[::1] best not None,              # OUT   (n,) or empty: cost of the row's cluster
    double[:, ::1] scratch not None,        # WORK  (n_threads, scratch_size)
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, K, width) zeros; empty: moments stay as they
                                            # are
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
    int n_threads,
) -> int:
    """Assign every row to its cheapest cluster and update the moments; returns the number of rows of weight >
    0 that moved.

    A row moves only if that saves more than 1e-12 nats; of equally cheap clusters the one of the lowest
    number is taken.
    """
    check_scratch(scratch, tables, n_threads)
    check(groups.shape[0] >= tables.c.n_clusters or partial.shape[0] == 0, "groups")
    check_table(X, codes, labels.shape[0], tables.c.p, tables.c.q)
    check(best.shape[0] == 0 or best.shape[0] == labels.shape[0], "best")
    check_partial(partial, groups, tables.grid.width, n_threads)
    check_indices(labels, -1, tables.c.n_clusters, "labels")
    cdef table_rows table = rows_of(X, codes, weight)
    cdef Py_ssize_t block = block_rows(), n = labels.shape[0], n_blocks = (n + block - 1) // block
    cdef Py_ssize_t b, moved = 0
    cdef bint moving = partial.shape[0] > 0
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    cdef craft_tables t = tables.c
    cdef double[::1] rounded
    if best.shape[0] == 0 and n >= CRAFT_SCREENED:
        rounded = np.empty(craft_rounded_size(t.p, tables.grid.n_levels, t.lanes) + CRAFT_PAD)
        # on a cache line
        craft_round(&t, tables.grid.n_levels,
                    &rounded[(64 - <size_t> &rounded[0] % 64) % 64 // sizeof(double)])
    if n_threads == 1:
        with nogil:
            for b in range(n_blocks):
                moved += assign_block(&table, all_rows, &t, tables.grid, labels, best, b * block,
                                      min((b + 1) * block, n), &scratch[0, 0], moving, groups)
        return moved
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        moved += assign_block(&table, all_rows, &t, tables.grid, labels, best, b * block,
                              min((b + 1) * block, n), &scratch[omp_get_thread_num(), 0], moving,
                              partial[omp_get_thread_num()] if moving else groups)
    if moving:
        merge_partial(partial, groups, tables.grid.first_numeric)
    return moved


cdef Py_ssize_t assign_block(
    const table_rows *table, const int32_t[::1] rows, const craft_tables *t, Grid grid, int32_t[::1] labels,
    double[::1] best, Py_ssize_t start, Py_ssize_t stop, double *scratch, bint moving, int64_t[:, ::1] groups,
) noexcept nogil:
    """Assign the rows at positions start..stop-1 to their cheapest clusters; a row moves only if that saves
    more than 1e-12 nats.
    """
    cdef Py_ssize_t tile, first, at, n, r, i, moved = 0, unsure = 0
    cdef const void *x = NULL
    cdef const void *codes = NULL
    cdef const double *begin[TILE]
    cdef double[TILE] least
    cdef int32_t[TILE] cheapest
    cdef const double *cost
    cdef int32_t old, new
    cdef double c
    cdef craft_certainty certainty
    cdef bint found, screened = t.rounded.constant != NULL and best.shape[0] == 0
    for tile in range((stop - start + TILE - 1) // TILE):
        first = start + tile * TILE
        n = min(TILE, stop - first)
        at = find_tile(table, rows, t, first, n, scratch, &x, &codes)
        if screened and 2 * unsure <= tile + UNSURE_TILES:      # most tiles of the block are certain
            certainty = craft_screen_tile(t, x, table.single, codes, table.wide, at, n, &labels[first],
                                          scratch, cheapest)
            if certainty == CRAFT_CERTAIN:
                for r in range(n):
                    i = first + r
                    if cheapest[r] != labels[i]:
                        moved += move_row(table, grid, rows[i] if rows.shape[0] else i, &labels[i],
                                          cheapest[r], moving, groups)
            if certainty != CRAFT_UNSURE:
                continue
            unsure += 1
        craft_fill(t, x, table.single, codes, table.wide, at, n, scratch, begin)
        cost = craft_costs_of(t, begin, n, scratch, least)
        found = False
        for r in range(n):
            i, old, c = first + r, labels[first + r], least[r]
            if old >= 0 and cost[r * t.lanes + old] <= c + 1e-12:
                if best.shape[0] > 0:
                    best[i] = cost[r * t.lanes + old]
                continue
            if best.shape[0] > 0:
                best[i] = c
            if not found:       # in most tiles of late passes no row moves
                craft_cheapest(t, cost, least, cheapest)
                found = True
            # where no cluster has a finite cost the row stays, or begins in cluster 0
            new = cheapest[r] if cheapest[r] >= 0 else max(old, 0)
            if new != old:
                moved += move_row(table, grid, rows[i] if rows.shape[0] else i, &labels[i], new, moving,
                                  groups)
    return moved


cdef inline Py_ssize_t find_tile(
    const table_rows *table, const int32_t[::1] rows, const craft_tables *t, Py_ssize_t first, Py_ssize_t n,
    double *scratch, const void **x, const void **codes,
) noexcept nogil:
    """Where n <= TILE rows from position `first` on lie, of the table or of the listed rows: two blocks, and
    their first row there.

    Listed rows are copied to the end of the scratch.
    """
    cdef Py_ssize_t r, row_bytes = t.p * (4 if table.single else 8)
    cdef Py_ssize_t code_bytes = t.q * (2 if table.wide else 1)
    cdef char *number
    cdef char *code
    if rows.shape[0] == 0:
        x[0], codes[0] = table.numeric if t.p else NULL, table.codes if t.q else NULL
        return first
    number = <char *> (scratch + craft_scratch_size(t.p, t.q, t.lanes))
    code = <char *> (scratch + craft_scratch_size(t.p, t.q, t.lanes) + TILE * t.p)
    for r in range(n):
        rows_copy_numbers(table, rows[first + r], 1, number + r * row_bytes)
        if t.q:
            memcpy(code + r * code_bytes, rows_codes(table, rows[first + r]), code_bytes)
    x[0], codes[0] = number, code
    return 0


cdef const double *tile_costs(
    const table_rows *table, const int32_t[::1] rows, const craft_tables *t, Py_ssize_t first, Py_ssize_t n,
    double *scratch, double *least,
) noexcept nogil:
    """Costs of n <= TILE rows from position `first` on."""
    cdef const double *begin[TILE]
    cdef const void *x = NULL
    cdef const void *codes = NULL
    cdef Py_ssize_t at = find_tile(table, rows, t, first, n, scratch, &x, &codes)
    craft_fill(t, x, table.single, codes, table.wide, at, n, scratch, begin)
    return craft_costs_of(t, begin, n, scratch, least)


cdef inline Py_ssize_t move_row(
    const table_rows *table, Grid grid, Py_ssize_t row, int32_t *label, int32_t new, bint moving,
    int64_t[:, ::1] groups,
) noexcept nogil:
    """Assign the row to cluster `new` and move its cells between the moments; returns whether the row has
    weight.
    """
    cdef int64_t w = rows_weight(table, row)
    cdef int32_t old = label[0]
    label[0] = new
    if w == 0:
        return 0
    if moving:
        if old >= 0:
            moments_add_row(&groups[old, 0], grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric,
                            table, row, -w)
        moments_add_row(&groups[new, 0], grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric,
                        table, row, w)
    return 1


def first_above(
    const double[::1] best not None,        # IN (n,)
    const double[::1] limit not None,       # IN (n,)
    Py_ssize_t cursor,
) -> int:
    """First row from `cursor` on whose best cost exceeds its limit, or -1."""
    check(0 <= cursor, "cursor")
    check(limit.shape[0] == best.shape[0], "limit")
    cdef Py_ssize_t i = cursor, n = best.shape[0]
    with nogil:
        while i < n and best[i] <= limit[i]:
            i += 1
    return i if i < n else -1


def reassign_if_cheaper(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty
    CostTables tables not None,             # of the new cluster alone
    int32_t new_cluster,                    # its number
    Py_ssize_t first_row,
    int32_t[::1] labels not None,           # INOUT (n,)
    double[::1] best not None,              # INOUT (n,)
    double[:, ::1] scratch not None,        # WORK  (n_threads, scratch_size)
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, K, width) zeros; empty: moments stay as they
                                            # are
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
    int n_threads,
) -> int:
    """Assign the rows from `first_row` on to the new cluster where it is strictly cheaper; returns the rows
    of weight > 0 that moved.
    """
    check_scratch(scratch, tables, n_threads)
    check(0 <= first_row <= labels.shape[0], "first_row")
    check(0 <= new_cluster < groups.shape[0] or partial.shape[0] == 0, "new_cluster")
    check_table(X, codes, labels.shape[0], tables.c.p, tables.c.q)
    check(best.shape[0] == labels.shape[0], "best")
    check_partial(partial, groups, tables.grid.width, n_threads)
    if partial.shape[0]:
        check_indices(labels, -1, groups.shape[0], "labels")
    cdef table_rows table = rows_of(X, codes, weight)
    cdef Py_ssize_t block = block_rows(), n = labels.shape[0]
    cdef Py_ssize_t n_blocks = (n - first_row + block - 1) // block, b, moved = 0
    cdef bint moving = partial.shape[0] > 0
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    if n_threads == 1:
        with nogil:
            for b in range(n_blocks):
                moved += reassign_block(&table, tables, new_cluster, first_row + b * block,
                                        min(first_row + (b + 1) * block, n), labels, best, &scratch[0, 0],
                                        moving, groups, all_rows)
        return moved
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        moved += reassign_block(&table, tables, new_cluster, first_row + b * block,
                                min(first_row + (b + 1) * block, n), labels, best,
                                &scratch[omp_get_thread_num(), 0], moving,
                                partial[omp_get_thread_num()] if moving else groups, all_rows)
    if moving:
        merge_partial(partial, groups, tables.grid.first_numeric)
    return moved


cdef Py_ssize_t reassign_block(
    const table_rows *table, CostTables tables, int32_t new_cluster, Py_ssize_t start, Py_ssize_t stop,
    int32_t[::1] labels, double[::1] best, double *scratch, bint moving, int64_t[:, ::1] groups,
    const int32_t[::1] all_rows,
) noexcept nogil:
    cdef Py_ssize_t tile, first, n, r, moved = 0
    cdef double[TILE] least
    for tile in range((stop - start + TILE - 1) // TILE):
        first = start + tile * TILE
        n = min(TILE, stop - first)
        tile_costs(table, all_rows, &tables.c, first, n, scratch, least)
        for r in range(n):
            if least[r] < best[first + r]:
                best[first + r] = least[r]
                moved += move_row(table, tables.grid, first + r, &labels[first + r], new_cluster, moving,
                                  groups)
    return moved


def costs(
    X not None,                             # IN  (n, p)
    codes not None,                         # IN  (n, q)
    CostTables tables not None,
    double[:, ::1] scratch not None,        # WORK (1, scratch_size)
    double[:, ::1] out not None,            # OUT (n, K)
):
    """Costs of every row under every cluster, relative to its background."""
    check_scratch(scratch, tables, 1)
    check(out.shape[1] == tables.c.n_clusters, "out")
    check_table(X, codes, out.shape[0], tables.c.p, tables.c.q)
    cdef table_rows table = rows_of(X, codes)
    cdef Py_ssize_t n = out.shape[0], tile, first, m, r, k
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    cdef double[TILE] least
    cdef const double *cost
    with nogil:
        for tile in range((n + TILE - 1) // TILE):
            first = tile * TILE
            m = min(TILE, n - first)
            cost = tile_costs(&table, all_rows, &tables.c, first, m, &scratch[0, 0], least)
            for r in range(m):
                for k in range(out.shape[1]):
                    out[first + r, k] = cost[r * tables.c.lanes + k]


def level_costs(
    codes not None,                         # IN  (n, q)
    const Py_ssize_t[::1] first not None,   # IN  (q,) position of the first level of every column
    const double[::1] level not None,       # IN  (n_levels,) cost of every level
    double[::1] cost not None,              # OUT (n,) summed in the order of the columns
):
    """Costs of the levels of every row."""
    check(codes.ndim == 2, "codes")
    cdef table_rows table = rows_of(np.empty((len(codes), 0), np.float32), codes)
    cdef Py_ssize_t i, d, at
    cdef bint inside = True
    check(table.q == first.shape[0], "first")
    check(cost.shape[0] == table.n, "cost")
    with nogil:
        for i in range(table.n):
            cost[i] = 0.0
            for d in range(table.q):
                at = first[d] + rows_code(&table, i, d)
                if 0 <= at < level.shape[0]:
                    cost[i] += level[at]
                else:
                    inside = False
    check(inside, "first or codes")


def cost_tables(
    const int64_t[:, ::1] groups not None,  # IN  (K, width)
    Grid grid not None,
    double count_weight,
    centre: Floats,                         # IN  (p,) of the result
    scale: Floats,                          # IN  (p,) of the result
    const double[::1] frequency not None,   # IN  (n_levels,) eta_0
    const double[:, ::1] shift not None,    # IN  (K, p) (zeta_k - zeta_0) / sigma_0
    const double[:, ::1] precision not None,  # IN  (K, p) sigma_0^2 / sigma_k^2
    const uint8_t[:, ::1] mask not None,    # IN  (K, p + q) 1: a distribution of its own, 2: that of the
                                            # whole table, 0: the shared one
    const double[::1] extra not None,       # IN  (K,) added to every row's cost of the cluster, nats
    double prior,                           # alpha
    bint background,                        # numeric background and log sigma enter (the coherent model)
    Shared shared,                          # costs are relative to these distributions; None: to that of the
                                            # whole table
    Tilts tilts not None,
    rows not None: Floats,                  # OUT (2 + 3 p + n_levels, lanes) as in `tables_in`, kept by the
                                            # result
) -> CostTables:
    """Cost tables of K clusters: own cost less background cost of every selected cell, as tables over its
    value.
    """
    cdef double[:, ::1] room = rows
    cdef Py_ssize_t a, d, k, K = groups.shape[0], lanes = room.shape[1], p = grid.p
    check(0 < K <= lanes and room.shape[0] == 2 + 3 * p + grid.n_levels, "rows")
    check(groups.shape[1] == grid.width, "groups")
    check(frequency.shape[0] == grid.n_levels, "frequency")
    check_shapes(K, p, "shift, precision", shift.shape, precision.shape)
    check(mask.shape[0] == K and mask.shape[1] == p + grid.q, "mask")
    check(extra.shape[0] == K, "extra")
    check(tilts.grid.q == grid.q and tilts.grid.n_levels == grid.n_levels, "tilts")
    cdef const double *frequency_ = &frequency[0] if grid.q else NULL
    cdef double *base = &room[0, 0]
    cdef double *square = base + 2 * lanes
    cdef double *linear = square + p * lanes
    cdef double *offset = linear + p * lanes
    cdef double *level = offset + p * lanes
    numeric, categorical = _selected(mask, 0, p), _selected(mask, p, grid.q)
    cdef const Py_ssize_t[::1] numeric_ = numeric, categorical_ = categorical
    rows[2:] = 0.0
    with nogil:
        for k in range(lanes):      # to a lane of padding no row can be assigned
            base[k] = base[lanes + k] = extra[k] if k < K else INFINITY
        for a in range(numeric_.shape[0]):
            for k in range(K):
                d = numeric_[a]
                numeric_lane(d, k, lanes, &groups[k, 0], grid, &shift[k, 0], &precision[k, 0], mask[k, d],
                             background, base + lanes, square, linear, offset)
        for a in range(categorical_.shape[0]):
            for k in range(K):
                d = categorical_[a]
                level_lane(d, k, lanes, &groups[k, 0], grid, count_weight, frequency_, mask[k, p + d], prior,
                           shared.level_ if shared is not None else NULL, level, &tilts.column[d],
                           tilts.weight_[d], NULL)
    return tables_in(K, grid, centre, scale, rows, numeric, categorical)


cdef _selected(const uint8_t[:, ::1] mask, Py_ssize_t first, Py_ssize_t n):
    """Those of n features, from the first of them on, that any cluster selects."""
    cdef Py_ssize_t k, d, found = 0
    cdef bint any_selected
    selected = np.empty(n, np.intp)
    cdef Py_ssize_t[::1] columns = selected
    for d in range(n):
        any_selected = False
        for k in range(mask.shape[0]):
            any_selected |= mask[k, first + d]
        if any_selected:
            columns[found] = d
            found += 1
    return selected[:found]


cdef void numeric_lane(
    Py_ssize_t d, Py_ssize_t k, Py_ssize_t lanes, const int64_t *group, Grid grid, const double *shift,
    const double *precision, uint8_t selected, bint background, double *constant, double *square,
    double *linear, double *offset,
) noexcept nogil:
    """Numeric column d of cluster k in tables of all columns, which are 0 there; its C is added to the
    constant.
    """
    cdef Py_ssize_t at = d * lanes + k
    cdef double half, m
    if selected and group[grid.first_numeric + CRAFTC_NUMERIC_CELLS * d] > 0:
        half, m = 0.5 * precision[d], shift[d]
        square[at] = half - 0.5 if background else half
        linear[at] = -2.0 * half * m
        offset[at] = half * m * m - (0.5 * log(precision[d]) if background else 0.0)
        constant[k] += offset[at]


cdef void level_lane(
    Py_ssize_t d, Py_ssize_t k, Py_ssize_t lanes, const int64_t *group, Grid grid, double count_weight,
    const double *frequency, uint8_t selected, double prior, const double *shared_level, double *level,
    const craft_tilt *tilt, double weight, const tilted_t *fitted,
) noexcept nogil:
    """Column d of levels of cluster k in tables of all columns, which are 0 there.

    The background is the distribution of the whole table, or the shared one (not NULL). `weight` multiplies
    the costs. `fitted`: the tilt of the cluster, where it is known.
    """
    cdef tilted_t cells
    cdef Py_ssize_t n_levels = levels_of(grid, d), first = grid.level_start_[d], at = first * lanes + k, t
    cdef const int64_t *counts = group + 1 + first
    cdef const double *eta = frequency + first
    cdef int64_t seen = 0
    for t in range(n_levels):
        seen += counts[t]
    if selected == WHOLE_TABLE:
        for t in range(n_levels if shared_level != NULL else 0):
            level[at + t * lanes] = shared_level[first + t]
    elif selected and seen > 0 and tilt.n:
        if fitted == NULL:
            fit_tilt(tilt, counts, n_levels, count_weight, &cells)
        tilt_log_ratios(tilt, &(cells if fitted == NULL else fitted[0]).theta, n_levels, level + at, lanes)
        for t in range(n_levels):
            level[at + t * lanes] = -level[at + t * lanes]
            if shared_level != NULL:
                level[at + t * lanes] += shared_level[first + t]
    elif selected and seen > 0:
        for t in range(n_levels):
            if eta[t] > 0:
                level[at + t * lanes] = -log((count_weight * counts[t] + prior * eta[t])
                                             / ((count_weight * seen + prior) * eta[t]))
                if shared_level != NULL:
                    level[at + t * lanes] += shared_level[first + t]
    for t in range(n_levels if weight != 1.0 else 0):
        level[at + t * lanes] *= weight


cdef Py_ssize_t levels_of(Grid grid, Py_ssize_t d) noexcept nogil:
    """Levels of categorical column d, its missing level excluded."""
    return (grid.level_start_[d + 1] if d + 1 < grid.q else grid.n_levels) - grid.level_start_[d] - 1
