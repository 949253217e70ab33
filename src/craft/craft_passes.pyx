"""Passes of CRAFT under the description-length price: fully parallel, because no clusters open, and repeated
until convergence.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from craftc._kernels._common cimport block_rows, check, check_indices, check_threads, omp_get_thread_num
from craftc._kernels.craft cimport (
    CRAFT_FEW, CRAFT_PAD, CRAFT_SCREENED, TILE, assign_block, craft_round, craft_rounded_size,
    craft_rows_scratch_size, craft_tables, level_lane, levels_of, numeric_lane,
)
from craftc._kernels.craft import tables_in
from craftc._kernels.craft_masks cimport CONTINUE
from craftc._kernels.craft_merges cimport (
    DELTAS_UNKNOWN, MergeSpace, check_clusters as check_clusters_of_merges, run_merges,
)
from craftc._kernels.craft_pooled cimport price_pooled
from craftc._kernels.craft_price cimport (
    POOLED, Pricing, check_selection, mixing_cost, parts_in, parts_length, parts_t, price_all,
)
from craftc._kernels.moments cimport Grid, check_table, moments_merge, rows_of, table_rows


cdef Py_ssize_t lanes_for(Py_ssize_t n_clusters) noexcept nogil:
    """n_clusters rounded up to whole vectors. No negative operand: cdivision rounds towards 0."""
    return (n_clusters + CRAFT_PAD - 1) // CRAFT_PAD * CRAFT_PAD


def slab_size(Pricing pricing not None, Py_ssize_t capacity) -> int:
    """Doubles of the cost tables of `capacity` clusters, in double and in single precision, with level
    offsets and lists of columns.
    """
    cdef Grid grid = pricing.grid
    return (tables_size(grid, lanes_for(capacity))
            + craft_rounded_size(grid.p, grid.n_levels, lanes_for(capacity)))


cdef Py_ssize_t tables_size(Grid grid, Py_ssize_t lanes) noexcept nogil:
    """Doubles of cost tables, level offsets and lists of columns; whole cache lines."""
    return (lanes * (2 + 3 * grid.p + grid.n_levels) + TILE * grid.q + grid.p + grid.q + 15) // 8 * 8


def pass_scratch_size(Pricing pricing not None, Py_ssize_t capacity) -> int:
    """Doubles of scratch one thread of a pass needs, gathered rows included."""
    return craft_rows_scratch_size(pricing.grid.p, pricing.grid.q, lanes_for(capacity))


cdef int check_clusters(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, const double[:, ::1] work,
    const uint8_t[:, ::1] mask,
) except -1:
    """Raise unless the buffers have the width of the pricing and room for K clusters."""
    if not 0 <= K <= min(groups.shape[0], mask.shape[0], work.shape[0]):
        raise ValueError(f"The buffers are too small for {K} clusters.")
    check(groups.shape[1] == P.grid.width, "groups")
    check(mask.shape[1] == P.D, "mask")
    check(work.shape[1] >= parts_length(P), "work")
    return 0


cdef int check_priced(
    Pricing P, int selection, const int64_t[:, ::1] groups, Py_ssize_t K, const double[:, ::1] work,
    const uint8_t[:, ::1] mask, const double[::1] cost,
) except -1:
    """The same, with room for the costs and a rule of selection that the pricing allows."""
    check_clusters(P, groups, K, work, mask)
    if K > cost.shape[0]:
        raise ValueError(f"The buffers are too small for {K} clusters.")
    if selection == POOLED:
        check(P.shared is not None and P.shared.room >= K, "pricing")
    else:
        check_selection(P, selection)
    return 0


cdef int check_rows(X, codes, const int32_t[::1] labels, Py_ssize_t n, Py_ssize_t K, Pricing P) except -1:
    """Raise unless a table fits the pricing, and n labels its clusters."""
    check_table(X, codes, X.shape[0] if X.ndim else -1, P.grid.p, P.grid.q)
    check(labels.shape[0] == n, "labels")
    check(K >= (n > 0), "K")
    check_indices(labels, -1, K, "labels")
    return 0


cdef int check_space(
    Pricing P, Py_ssize_t K, const double[::1] slab, const double[:, ::1] scratch, const double[::1] path,
    Py_ssize_t max_passes, int n_threads,
) except -1:
    if (slab.shape[0] < slab_size(P, K) or scratch.shape[1] < pass_scratch_size(P, K)
            or scratch.shape[0] < n_threads or path.shape[0] <= max_passes):
        raise ValueError(f"The buffers are too small for {K} clusters and {n_threads} threads.")
    return 0


def passes(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty
    const int32_t[::1] rows not None,       # IN    (m,) the rows to partition, empty = all
    int32_t[::1] labels not None,           # INOUT (m,) or (n,)
    int64_t[:, ::1] groups not None,        # INOUT (capacity, width) moments of the clusters
    Py_ssize_t K,                           # clusters at the start, none empty
    Pricing pricing not None,
    int selection,
    Py_ssize_t max_passes,
    double least_fall,                      # a pass that lowers the summed costs by less is the last; 0: a
                                            # pass that moves no row
    double[::1] slab not None,              # WORK  (slab_size,) on a cache line
    double[:, ::1] scratch not None,        # WORK  (n_threads, pass_scratch_size) on cache lines
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, capacity, width) zeros
    double[:, ::1] work not None,           # WORK  (capacity, parts_size)
    uint8_t[:, ::1] mask not None,          # INOUT (capacity, D)
    double[::1] cost not None,              # OUT   (capacity,) of the clusters that are left
    double[::1] path not None,              # OUT   (max_passes + 1,) J less the cost of the background,
                                            # before and after every pass
    int n_threads,
) -> tuple[int, int, bool]:
    """Batch passes until no row moves: assign all rows to fixed clusters, drop empty clusters, then update
    parameters and masks.

    Returns the numbers of clusters left and of passes, and whether they converged. Labels, moments, masks and
    costs always agree.
    """
    check_threads(n_threads)
    check_priced(pricing, selection, groups, K, work, mask, cost)
    check_rows(X, codes, labels, rows.shape[0] if rows.shape[0] else len(X), K, pricing)
    check(max_passes >= 0, "max_passes")
    check(n_threads == 1
          or (partial.shape[0] >= n_threads and partial.shape[1] >= K
              and partial.shape[2] == pricing.grid.width), "partial")
    check_indices(rows, 0, X.shape[0], "rows")
    check_space(pricing, K, slab, scratch, path, max_passes, n_threads)
    cdef table_rows table = rows_of(X, codes, weight)
    cdef Py_ssize_t made
    cdef bint converged = False
    cdef int32_t[::1] number = np.empty(max(K, 1), np.int32)
    with nogil:
        made = run_passes(&table, rows, labels, groups, &K, pricing, selection, max_passes,
                          least_fall, slab, scratch, partial, work, mask, cost, path, number, n_threads,
                          &converged)
    return K, made, converged


cdef Py_ssize_t run_passes(
    const table_rows *table, const int32_t[::1] rows, int32_t[::1] labels, int64_t[:, ::1] groups,
    Py_ssize_t *K, Pricing P, int selection, Py_ssize_t max_passes, double least_fall,
    double[::1] slab, double[:, ::1] scratch, int64_t[:, :, ::1] partial, double[:, ::1] work,
    uint8_t[:, ::1] mask, double[::1] cost, double[::1] path, int32_t[::1] number, int n_threads,
    bint *converged,
) noexcept nogil:
    """The loop of `passes`; returns the number of passes."""
    cdef Py_ssize_t made = 0, moved = 1
    path[0] = _price(P, selection, groups, K[0], work, mask, cost)
    while made < max_passes and moved > 0:
        moved = _one_pass(table, rows, labels, groups, K[0], P, slab, scratch, partial, work, mask, n_threads)
        made += 1
        path[made] = path[made - 1]
        if moved > 0:
            K[0] = _drop_empty(labels, groups, mask, K[0], number)
            path[made] = _price(P, selection, groups, K[0], work, mask, cost)
        if least_fall > 0.0 and path[made - 1] - path[made] < least_fall:
            moved = 0
    converged[0] = moved == 0
    return made


def passes_and_merges(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty
    int32_t[::1] labels not None,           # INOUT (n,)
    int64_t[:, ::1] groups not None,        # INOUT (capacity, width) moments of the clusters
    Py_ssize_t K,                           # clusters at the start, none empty
    Pricing pricing not None,               # OUT   as in price_partition
    Py_ssize_t max_passes,                  # in a row
    double least_fall,                      # as in `passes`
    double[::1] slab not None,              # WORK  (slab_size,) on a cache line
    double[:, ::1] scratch not None,        # WORK  (1, pass_scratch_size) on cache lines
    double[:, ::1] work not None,           # WORK  (capacity, parts_size)
    uint8_t[:, ::1] mask not None,          # INOUT (capacity, D)
    double[::1] cost not None,              # OUT   (capacity,)
    int64_t[::1] shared not None,           # OUT   (width,) moments of the cells that clusters share
    double[::1] path not None,              # WORK  (max_passes + 1,)
    MergeSpace space not None,              # WORK
    Py_ssize_t n_pairs,                     # merges whose exact J is computed
    double tolerance,                       # nats by which a merge must lower J
) -> tuple[int, float, int, bool]:
    """Passes and merges under the pooled background, in turn until no merge lowers J: a small table, on one
    thread.

    The same as `passes` and `craft_merges.merge_while_cheaper` by turns. Returns K, J - J_0, the number of
    passes, and whether the last ones converged.
    """
    check_priced(pricing, POOLED, groups, K, work, mask, cost)
    check_rows(X, codes, labels, len(X), K, pricing)
    check(max_passes >= 0, "max_passes")
    check_space(pricing, K, slab, scratch, path, max_passes, 1)
    check_clusters_of_merges(pricing, space, K, groups, mask)
    check(shared.shape[0] == pricing.grid.width, "shared")
    check(n_pairs > 0, "n_pairs")
    cdef table_rows table = rows_of(X, codes, weight)
    cdef Py_ssize_t made, total = 0, before = 0, i
    cdef int known
    cdef bint converged = False, ended = False
    cdef double excess = 0.0
    cdef double[:, ::1] deltas = np.empty((K, K))
    cdef int32_t[::1] place = np.empty(K, np.int32), every_row = place[:0]
    cdef Py_ssize_t[:, ::1] pairs = np.empty((n_pairs, 2), np.intp)
    cdef int64_t[:, :, ::1] no_partial = np.empty((0, 0, 0), np.int64)
    with nogil:
        while before != K:
            pricing.relative = False
            made = run_passes(&table, every_row, labels, groups, &K, pricing, POOLED, max_passes,
                              least_fall, slab, scratch, no_partial, work, mask, cost, path, place, 1,
                              &converged)
            total, excess, before, known = total + made, path[made], K, DELTAS_UNKNOWN
            memcpy(&shared[0], pricing.shared.group_, pricing.grid.width * sizeof(int64_t))
            for i in range(K):
                place[i] = <int32_t> i
            K = run_merges(pricing, space, K, groups, mask, cost, shared, &excess, deltas, &known, place,
                           pairs, tolerance, K, 1, 1, &ended)
            for i in range(labels.shape[0] if K < before else 0):
                if labels[i] >= 0:
                    labels[i] = place[labels[i]]
    return K, excess, total, converged


def pass_tables(
    Pricing pricing not None,
    const int64_t[:, ::1] groups not None,  # IN  (capacity, width)
    Py_ssize_t K,
    double[:, ::1] work not None,           # IN  (capacity, parts_size) as `price` has left it
    const uint8_t[:, ::1] mask not None,    # IN  (capacity, D)
    slab not None: Floats,                  # OUT (slab_size,) on a cache line, kept by the result
) -> CostTables:
    """Cost tables of the next pass over K clusters, for rows that are elsewhere."""
    cdef double[::1] slab_ = slab
    cdef Grid grid = pricing.grid
    check_clusters(pricing, groups, K, work, mask)
    if slab_.shape[0] < slab_size(pricing, K):
        raise ValueError(f"The buffers are too small for {K} clusters.")
    cdef craft_tables tables
    slab[:tables_size(grid, lanes_for(K))] = 0.0     # columns that no cluster selects are not written
    tables = _tables(pricing, groups, K, work, mask, &slab_[0])
    numeric = np.array([tables.numeric[d] for d in range(tables.n_numeric)], np.intp)
    categorical = np.array([tables.categorical[d] for d in range(tables.n_categorical)], np.intp)
    rows = slab[:tables.lanes * (2 + 3 * grid.p + grid.n_levels)].reshape(-1, tables.lanes)
    return tables_in(K, grid, pricing.centre[:grid.p], pricing.scale[:grid.p], rows, numeric, categorical)


def drop_empty(
    int64_t[:, ::1] groups not None,        # INOUT (capacity, width)
    uint8_t[:, ::1] mask not None,          # INOUT (capacity, D)
    Py_ssize_t K,
) -> tuple[int, Integers32]:
    """Remove clusters without weight; returns how many are left, and the (K,) new number of every cluster or
    -1.
    """
    number = np.empty(max(K, 1), np.int32)
    if not 0 <= K <= min(groups.shape[0], mask.shape[0]):
        raise ValueError(f"The buffers are too small for {K} clusters.")
    kept = _drop_empty(np.empty(0, np.int32), groups, mask, K, number)
    return kept, number[:K]


def price(
    Pricing pricing not None,
    int selection,
    const int64_t[:, ::1] groups not None,  # IN    (capacity, width)
    Py_ssize_t K,
    double[:, ::1] work not None,           # OUT   (capacity, parts_size)
    uint8_t[:, ::1] mask not None,          # INOUT (capacity, D)
    double[::1] cost not None,              # OUT   (capacity,)
) -> float:
    """Masks and costs of all clusters as between two passes; returns J less the cost of the background."""
    check_priced(pricing, selection, groups, K, work, mask, cost)
    return _price(pricing, selection, groups, K, work, mask, cost)


cdef double _price(
    Pricing P, int selection, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work,
    uint8_t[:, ::1] mask, double[::1] cost,
) noexcept nogil:
    """Masks and costs of all clusters; returns J less the cost of the background."""
    cdef double total = 0.0
    cdef Py_ssize_t k
    if selection == POOLED:
        return price_pooled(P, groups, K, CONTINUE, work, mask, cost)
    price_all(P, selection, groups, K, work, mask, cost, True)
    for k in range(K):
        total += cost[k]
    return total


cdef Py_ssize_t _drop_empty(
    int32_t[::1] labels, int64_t[:, ::1] groups, uint8_t[:, ::1] mask, Py_ssize_t K, int32_t[::1] number,
) noexcept nogil:
    """Remove clusters without weight; the others keep their order and masks.

    Rows of weight 0 may end at -1.
    """
    cdef Py_ssize_t k, i, kept = 0
    for k in range(K):
        number[k] = -1
        if groups[k, 0] > 0:
            if kept < k:
                memcpy(&groups[kept, 0], &groups[k, 0], groups.shape[1] * sizeof(int64_t))
                memcpy(&mask[kept, 0], &mask[k, 0], mask.shape[1])
            number[k] = <int32_t> kept
            kept += 1
    if kept < K:
        for i in range(labels.shape[0]):
            if labels[i] >= 0:
                labels[i] = number[labels[i]]
    return kept


cdef Py_ssize_t _one_pass(
    const table_rows *table, const int32_t[::1] rows, int32_t[::1] labels, int64_t[:, ::1] groups,
    Py_ssize_t K, Pricing P, double[::1] slab, double[:, ::1] scratch, int64_t[:, :, ::1] partial,
    double[:, ::1] work, const uint8_t[:, ::1] mask, int n_threads,
) noexcept nogil:
    cdef Py_ssize_t block = block_rows(), m = labels.shape[0], n_blocks = (m + block - 1) // block
    cdef Py_ssize_t b, t, k, moved = 0
    cdef craft_tables tables = _tables(P, groups, K, work, mask, &slab[0])
    cdef double[::1] no_best = slab[:0]
    if m >= CRAFT_SCREENED:
        craft_round(&tables, P.grid.n_levels, &slab[0] + tables_size(P.grid, tables.lanes))
    if n_threads == 1 or n_blocks == 1:
        for b in range(n_blocks):
            moved += assign_block(table, rows, &tables, P.grid, labels, no_best, b * block,
                                  min((b + 1) * block, m), &scratch[0, 0], True, groups)
        return moved
    for b in prange(n_blocks, schedule="static", num_threads=n_threads):
        moved += assign_block(table, rows, &tables, P.grid, labels, no_best, b * block,
                              min((b + 1) * block, m), &scratch[omp_get_thread_num(), 0], True,
                              partial[omp_get_thread_num()])
    for t in range(n_threads):
        for k in range(K):
            moments_merge(&groups[k, 0], &partial[t, k, 0], 1, P.grid.first_numeric, P.grid.width)
            memset(&partial[t, k, 0], 0, P.grid.width * sizeof(int64_t))
    return moved


cdef craft_tables _tables(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work, const uint8_t[:, ::1] mask,
    double *slab,
) noexcept nogil:
    """Cost tables of the clusters in the slab, of columns that any of them selects; the cost of every row
    contains the mixing cost.
    """
    cdef craft_tables t
    cdef Py_ssize_t lanes = lanes_for(K), k, d, j
    cdef double *base = slab
    cdef double *constant = base + lanes
    cdef double *square = constant + lanes
    cdef double *linear = square + P.grid.p * lanes
    cdef double *offset = linear + P.grid.p * lanes
    cdef double *level = offset + P.grid.p * lanes
    cdef Py_ssize_t *columns = <Py_ssize_t *> (level + P.grid.n_levels * lanes)
    cdef int32_t *level_offset = <int32_t *> (columns + P.D)
    cdef parts_t parts
    cdef bint any_selected
    for k in range(lanes):      # to a lane of padding no row can be assigned
        base[k] = constant[k] = mixing_cost(P, &groups[k, 0]) if k < K else INFINITY
    t.n_clusters, t.lanes, t.p, t.q = K, lanes, P.grid.p, P.grid.q
    t.repeat = TILE if max(P.grid.p, P.grid.q) <= CRAFT_FEW else 1
    t.n_numeric = t.n_categorical = 0
    for d in range(P.D):
        any_selected, j = False, d - P.grid.p
        for k in range(K):
            any_selected |= mask[k, d]
        if not any_selected:
            continue
        if d < P.grid.p:
            columns[t.n_numeric] = d
            t.n_numeric += 1
            memset(square + d * lanes, 0, lanes * sizeof(double))
            memset(linear + d * lanes, 0, lanes * sizeof(double))
            memset(offset + d * lanes, 0, lanes * sizeof(double))
        else:
            columns[P.grid.p + t.n_categorical] = j
            t.n_categorical += 1
            memset(level + P.grid.level_start_[j] * lanes, 0,
                   (levels_of(P.grid, j) + 1) * lanes * sizeof(double))
        for k in range(K):
            parts = parts_in(P, &work[k, 0])
            if d < P.grid.p:
                numeric_lane(d, k, lanes, &groups[k, 0], P.grid, parts.shift, parts.precision, mask[k, d],
                             True, constant, square, linear, offset)
            else:
                level_lane(j, k, lanes, &groups[k, 0], P.grid, P.count_weight, P.frequency, mask[k, d], 1.0,
                           P.shared.level_ if P.relative else NULL, level, &P.tilt[j], P.tilts.weight_[j],
                           &parts.tilted[j])
    for j in range(t.repeat):
        for d in range(P.grid.q):
            level_offset[j * P.grid.q + d] = <int32_t> (P.grid.level_start_[d] * lanes)
    t.numeric, t.categorical = columns, columns + P.grid.p
    t.centre, t.scale, t.level_offset = P.centre_, P.scale_, level_offset
    t.base, t.constant, t.square, t.linear, t.offset, t.level = base, constant, square, linear, offset, level
    t.rounded.constant = NULL
    return t
