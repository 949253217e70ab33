"""Clusters of CRAFT that hold a full covariance of some of their numeric columns (a block): choice of
columns, costs of rows.

In units of the table (z = (x - zeta_0) / sigma_0) a block of m columns costs a row, with mu and Sigma of the
cluster,

    (1/2) log det Sigma + (1/2) |L^-1 (z - mu)|^2,      Sigma = L L^T = (SS + R) / (S + 1)

with SS the cross products of deviations from mu over the S rows, and R, the correlations of the whole table,
the one row of prior. It saves (S + 1)/2 (sum_d log Sigma_dd - log det Sigma) + (1/2) log det R nats over
independent columns with the variances Sigma_dd, and 0 in a cluster without rows. A row with missing cells
costs the marginal of its observed columns.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport INFINITY, NAN, exp, log, sqrt
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset

from craftc._kernels._common cimport (
    block_rows, check, check_indices, check_lengths, check_shapes, check_threads, doubles_in,
    omp_get_thread_num,
)
from craftc._kernels.craft cimport (
    CRAFT_FAR, CRAFT_PAD, TILE, CostTables, craft_cheapest, craft_least, craft_rows_scratch_size, tile_costs,
)
from craftc._kernels.moments cimport check_table, rows_number, rows_of, rows_weight, table_rows

cdef extern from "craft/_cholesky.h" nogil:
    bint cholesky(double *A, Py_ssize_t m, double *half_log)
    double lower_solve(const double *L, Py_ssize_t m, double *x)
    void inverse_of_factor(double *A, Py_ssize_t m, double *work)

cdef extern from "craft/_covariance.h" nogil:
    void covariance_costs(const double *inverse, const double *mean, const Py_ssize_t *position, Py_ssize_t m,
                          double start, const double *z, const double *background, double *work,
                          double *total)
    void covariance_white(const double *inverse, const Py_ssize_t *position, Py_ssize_t m, double start,
                          const double *z, const double *background, double *white, double *total)
    void covariance_distances(const double *mean, Py_ssize_t m, Py_ssize_t lanes, const double *white,
                              const double *total, Py_ssize_t rows, double *cost)

cdef double WORTH = 1e-6        # nats by which a block must shorten the description
cdef double CHANCE = 3.0        # standard deviations of log Z that are chance
cdef double ROUGH = 0.1         # of log Z, by the rounding of numbers to levels


# ---- normal densities of levels ----

def log_norms(
    const double[:, ::1] mean not None,     # IN  (m, P) of normal densities of columns
    const double[:, ::1] variance not None,  # IN (m, P)
    const double[::1] weight not None,      # IN  (m,) of the rows
    const double[:, ::1] score not None,    # IN  (P, T) of the levels of every column
    const double[:, ::1] log_level not None,  # IN (P, T) log b_l less the log density of N(0, 1) at the score
    const Py_ssize_t[::1] lengths not None,  # IN (P,) levels of every column
    const double[::1] inside not None,      # IN  (P,) variances inside the levels
    double[:, ::1] out not None,            # OUT (m, P) log Z beyond chance, or 0
):
    """Z = sum over the levels of b_l N(z_l; mean, variance) / N(z_l; 0, 1), less what the variance inside the
    levels costs; its log has a standard deviation of about 1 / sqrt(weight).
    """
    cdef Py_ssize_t i, d, at, m = mean.shape[0], P = mean.shape[1]
    cdef double most, total, half
    check(weight.shape[0] == m, "weight")
    check_shapes(m, P, "variance, out", variance.shape, out.shape)
    check(score.shape[0] == P and log_level.shape[0] == P and log_level.shape[1] == score.shape[1],
          "score or log_level")
    check_lengths(P, "lengths, inside", lengths.shape[0], inside.shape[0])
    for d in range(P):
        check(0 < lengths[d] <= score.shape[1], "lengths")
    with nogil:
        for i in range(m):
            for d in range(P):
                half, most, total = 0.5 / variance[i, d], -INFINITY, 0.0
                for at in range(lengths[d]):
                    most = max(most, log_level[d, at] - half * (score[d, at] - mean[i, d]) ** 2)
                for at in range(lengths[d]):
                    total += exp(log_level[d, at] - half * (score[d, at] - mean[i, d]) ** 2 - most)
                out[i, d] = max(0.0, most + log(total) - 0.5 * log(variance[i, d])
                                - (half - 0.5) * inside[d] - max(ROUGH, CHANCE / sqrt(weight[i])))


# ---- choice of the columns ----

def choice_work_size(Py_ssize_t n_columns) -> int:
    """Doubles of scratch that the choice of one block needs."""
    return 3 * n_columns * n_columns + 2 * n_columns


def choose_blocks(
    const double[:, :, ::1] deviation not None,  # IN (m, P, P) SS in units of the table
    const double[::1] weight not None,      # IN  (m,) S
    const uint8_t[:, ::1] selected not None,  # IN (m, P) columns that the group has selected
    const double[:, ::1] rise not None,     # IN  (m, P) nats by which a normal density of a column instead of
                                            # what the group has lengthens the description
    const double[:, ::1] code not None,     # IN  (m, P + 1) nats by which naming 0, 1, ... further columns
                                            # lengthens it
    const double[:, ::1] prior not None,    # IN  (P, P) R
    double h,                               # price of one parameter
    bint full,                              # all columns, whatever they save
    double[:, ::1] work not None,           # WORK (n_threads, choice_work_size)
    uint8_t[:, ::1] block not None,         # OUT (m, P)
    double[::1] saving not None,            # OUT (m,) nats, prices and further columns paid
    int n_threads,
):
    """Columns of the block of every group, and what it saves.

    A block starts from the selected columns and from all columns. A column leaves while that shortens the
    description, the best first. Ties go to the lower column, and to the start from the selected columns.
    """
    check_threads(n_threads)
    check(deviation.shape[2] == deviation.shape[1], "deviation")
    check_lengths(deviation.shape[0], "weight, saving", weight.shape[0], saving.shape[0])
    check_shapes(deviation.shape[0], deviation.shape[1], "selected, rise, block", selected.shape, rise.shape,
                 block.shape)
    check(prior.shape[0] == deviation.shape[1] and prior.shape[1] == deviation.shape[1], "prior")
    check(code.shape[0] == deviation.shape[0] and code.shape[1] == deviation.shape[1] + 1, "code")
    check(work.shape[0] >= n_threads, "work")
    cdef Py_ssize_t m = deviation.shape[0], P = deviation.shape[1], i
    if work.shape[0] < n_threads or work.shape[1] < choice_work_size(P):
        raise ValueError(f"The buffers are too small for {P} columns and {n_threads} threads.")
    if n_threads == 1:
        with nogil:
            for i in range(m):
                saving[i] = _choose(deviation[i], weight[i], selected[i], rise[i], code[i], prior, h, full,
                                    &work[0, 0], block[i])
        return
    for i in prange(m, nogil=True, schedule="dynamic", num_threads=n_threads):
        saving[i] = _choose(deviation[i], weight[i], selected[i], rise[i], code[i], prior, h, full,
                            &work[omp_get_thread_num(), 0], block[i])


cdef double _choose(
    const double[:, ::1] deviation, double weight, const uint8_t[::1] selected, const double[::1] rise,
    const double[::1] code, const double[:, ::1] prior, double h, bint full, double *work,
    uint8_t[::1] block,
) noexcept nogil:
    cdef Py_ssize_t P = deviation.shape[0], d, start
    cdef double value, best = WORTH
    cdef double *variance = work + 3 * P * P
    cdef Py_ssize_t *column = <Py_ssize_t *> (variance + P)
    cdef Py_ssize_t m
    for d in range(P):
        block[d] = 0
        variance[d] = (deviation[d, d] + prior[d, d]) / (weight + 1.0)
    for start in range(1 if full else 0, 2):
        m = 0
        for d in range(P):
            if start == 1 or selected[d]:
                column[m] = d
                m += 1
        if m < 2:
            continue
        value = _reduce(deviation, weight, variance, selected, rise, code, prior, h, full, work, column, &m)
        if full or value > best:
            best = value
            memset(&block[0], 0, P)
            for d in range(m):
                block[column[d]] = 1
        if full:
            return value
    return best if best > WORTH else 0.0


cdef double _reduce(
    const double[:, ::1] deviation, double weight, const double *variance, const uint8_t[::1] selected,
    const double[::1] rise, const double[::1] code, const double[:, ::1] prior, double h, bint full,
    double *work, Py_ssize_t *column, Py_ssize_t *size,
) noexcept nogil:
    """Remove columns while that shortens the description; returns what the block saves, less its prices."""
    cdef Py_ssize_t m = size[0], P = deviation.shape[0], i, j, d, added = 0, worst
    cdef double half_log, prior_half_log, value, net, most
    cdef double *V = work           # of the correlations of Sigma
    cdef double *R = work + P * P   # of those of the prior
    cdef double *L = work + 2 * P * P
    for i in range(m):
        for j in range(m):
            R[i * m + j] = prior[column[i], column[j]]
            V[i * m + j] = (deviation[column[i], column[j]] + R[i * m + j]) / (weight + 1.0) \
                / sqrt(variance[column[i]] * variance[column[j]])
    if not cholesky(V, m, &half_log) or not cholesky(R, m, &prior_half_log):
        size[0] = 0
        return 0.0
    value = prior_half_log - (weight + 1.0) * half_log - 0.5 * m * (m - 1) * h
    for i in range(m):
        value -= rise[column[i]]
        added += not selected[column[i]]
    value -= code[added]
    if full:
        return value
    inverse_of_factor(V, m, L)
    inverse_of_factor(R, m, L)
    d = m
    while d > 1:                # columns 0..m-1 of V and R; removed ones have column[] = -1
        worst, most = -1, 1e-9
        for i in range(m):
            if column[i] < 0:
                continue
            net = ((d - 1) * h - 0.5 * (weight + 1.0) * log(V[i * m + i]) + 0.5 * log(R[i * m + i])
                   + rise[column[i]])
            if not selected[column[i]]:
                net += code[added] - code[added - 1]
            if net > most + 1e-9:
                worst, most = i, net
        if worst < 0:
            break
        value += most
        if not selected[column[worst]]:
            added -= 1
        column[worst] = -1
        d -= 1
        _leave(V, m, column, worst)
        _leave(R, m, column, worst)
    j = 0
    for i in range(m):
        if column[i] >= 0:
            column[j] = column[i]
            j += 1
    size[0] = j
    return value if j > 1 else 0.0


cdef void _leave(double *A, Py_ssize_t m, const Py_ssize_t *column, Py_ssize_t one) noexcept nogil:
    """The inverse of a matrix without one row and column, from that with it; other columns that have left are
    negative.
    """
    cdef Py_ssize_t i, j
    cdef double own, pivot = A[one * m + one]
    for i in range(m):
        if column[i] >= 0:
            own = A[i * m + one] / pivot
            for j in range(m):      # the ones that have left, too: a loop without branches
                A[i * m + j] -= own * A[one * m + j]


def block_savings(
    const double[:, :, ::1] matrix not None,  # IN (K, P, P) Sigma
    const uint8_t[:, ::1] block not None,   # IN  (K, P)
    const double[::1] weight not None,      # IN  (K,) S
    const double[:, ::1] prior not None,    # IN  (P, P) R
    double h,                               # price of one parameter
    double[::1] saving not None,            # OUT (K,) nats, 0 without a block
):
    """What blocks save in clusters that select their columns anyway: (S + 1)/2 (sum_d log Sigma_dd - log det
    Sigma) + (1/2) log det R - m (m - 1)/2 h.
    """
    cdef Py_ssize_t K = matrix.shape[0], P = matrix.shape[1], k, a, c, m
    cdef double half_log = 0.0, prior_half_log = 0.0, correlated
    cdef bint definite = True
    check(matrix.shape[2] == P, "matrix")
    check(prior.shape[0] == P and prior.shape[1] == P, "prior")
    check(block.shape[0] == K and block.shape[1] == P, "block")
    check(weight.shape[0] == K and saving.shape[0] == K, "weight or saving")
    cdef double[::1] factor = np.empty(P * P + 1)
    cdef Py_ssize_t[::1] column = np.empty(P + 1, np.intp)
    with nogil:
        for k in range(K):
            m = 0
            for a in range(P):
                if block[k, a]:
                    column[m] = a
                    m += 1
            correlated = 0.0
            for a in range(m):
                correlated += 0.5 * log(matrix[k, column[a], column[a]])
                for c in range(a + 1):
                    factor[a * m + c] = matrix[k, column[a], column[c]]
            definite = definite and cholesky(&factor[0], m, &half_log)
            for a in range(m):
                for c in range(a + 1):
                    factor[a * m + c] = prior[column[a], column[c]]
            definite = definite and cholesky(&factor[0], m, &prior_half_log)
            saving[k] = ((weight[k] + 1.0) * (correlated - half_log) + prior_half_log
                         - 0.5 * m * (m - 1) * h)
    if not definite:
        raise ValueError("The covariance of a block is not positive definite.")


# ---- costs of rows ----

cdef class Blocks:
    """The blocks of the clusters of one model, for the costs of rows. Arrays are C-contiguous and kept alive.

    Parameters
    ----------
    columns : ndarray (P,) of intp
        Numeric columns that blocks may hold.
    centre, scale : ndarray (P,)
        z = (x - centre) * scale.
    shift, precision : ndarray (P,)
        Mean and inverse variance of the background of every column, in units of the table: 0 and 1 for the
        table itself.
    cluster : ndarray (B,) of intp
        Clusters that have a block.
    member : ndarray (B, P) of uint8
        Their columns.
    mean : ndarray (B, P)
        mu, in units of the table.
    covariance : ndarray (B, P, P)
        Sigma, in units of the table; entries of other columns are not read.
    inside : ndarray (P,)
        Variances inside the levels, in units of the table. The cost tables count them by the precision of the
        whole block; for a row with missing cells the rest is added here.
    """

    cdef readonly object columns, cluster  # type: Positions
    cdef readonly object centre, scale, shift, precision, mean, covariance  # type: Floats
    cdef readonly object member  # type: Flags
    cdef readonly object inside  # type: Floats
    cdef const double *inside_
    cdef object arrays
    cdef Py_ssize_t P, n, largest
    cdef const Py_ssize_t *columns_
    cdef const Py_ssize_t *cluster_
    cdef const Py_ssize_t *position     # (n, P) the columns of every block, as positions in `columns`
    cdef const Py_ssize_t *size         # (n,)
    cdef const double *centre_
    cdef const double *scale_
    cdef const double *shift_
    cdef const double *precision_
    cdef const double *half_log_precision
    cdef const double *mean_            # (n, P) those of the block first
    cdef const double *concentration    # (n, P, P) those of Sigma^-1 first, in rows of the size of the block
    cdef const double *inverse          # (n, P, P) L^-1, in the same way
    cdef const double *half_log_det     # (n,)
    # of the clusters that all share one block, or NULL
    cdef const double *white            # (m, lanes) L^-1 mu
    cdef const double *pull             # (n, m) Sigma^-1 mu
    cdef const double *square           # (n,) mu' Sigma^-1 mu

    def __cinit__(self, columns, centre, scale, shift, precision, cluster, member, mean, covariance, inside):
        cdef Py_ssize_t B = len(cluster), P = len(columns), b, i, j, m
        self.columns, self.centre, self.scale = columns, centre, scale
        self.shift, self.precision = shift, precision
        self.cluster, self.member, self.mean, self.covariance = cluster, member, mean, covariance
        self.inside = inside
        position, size = np.zeros((B, P), np.intp), np.zeros(B, np.intp)
        packed, concentration = np.zeros((B, P)), np.zeros((B, P * P))
        inverse, half_log = np.zeros((B, P * P)), np.zeros(B)
        cdef Py_ssize_t[:, ::1] position_ = position
        cdef Py_ssize_t[::1] size_ = size
        cdef double[:, ::1] packed_ = packed, concentration_ = concentration, inverse_ = inverse
        cdef double[::1] half_log_ = half_log
        cdef const uint8_t[:, ::1] member_ = member
        cdef const double[:, ::1] given_mean = mean
        cdef const double[:, :, ::1] given = covariance
        if (member_.shape[0] != B or member_.shape[1] != P or given_mean.shape[0] != B
                or given_mean.shape[1] != P
                or given.shape[0] != B or given.shape[1] != P or given.shape[2] != P):
            raise ValueError(f"Blocks need one row of every array for each of {B} clusters and {P} columns.")
        for array in (columns, centre, scale, shift, precision, inside):
            check(len(array) == P, "columns, centre, scale, shift, precision or inside")
        cdef bint same, shared = B > 1      # block as that of the cluster before; all, from the first on
        for b in range(B):
            m = 0
            for i in range(P):
                if member_[b, i]:
                    position_[b, m], packed_[b, m] = i, given_mean[b, i]
                    m += 1
            size_[b] = m
            same = (b > 0 and np.array_equal(member[b], member[b - 1])
                    and np.array_equal(covariance[b], covariance[b - 1]))
            shared = shared and cluster[b] == b and (same or b == 0)
            if same:
                concentration_[b], inverse_[b] = concentration_[b - 1], inverse_[b - 1]
                half_log_[b] = half_log_[b - 1]
                continue
            for i in range(m):
                for j in range(m):
                    concentration_[b, i * m + j] = given[b, position_[b, i], position_[b, j]]
            if not cholesky(&concentration_[b, 0], m, &half_log_[b]):
                raise ValueError(f"The covariance of cluster {cluster[b]} is not positive definite.")
            inverse_of_factor(&concentration_[b, 0], m, &inverse_[b, 0])  # leaves L^-1 there
        half_log_precision = 0.5 * np.log(precision)
        self.arrays = position, size, packed, concentration, inverse, half_log, half_log_precision
        self.P, self.n, self.largest = P, B, int(size.max()) if B else 0
        self.columns_, self.cluster_ = _indices(columns), _indices(cluster)
        self.position, self.size = _indices(position), _indices(size)
        self.centre_, self.scale_ = doubles_in(centre), doubles_in(scale)
        self.shift_, self.precision_ = doubles_in(shift), doubles_in(precision)
        self.inside_ = doubles_in(inside)
        self.half_log_precision, self.half_log_det = doubles_in(half_log_precision), doubles_in(half_log)
        self.mean_, self.inverse = doubles_in(packed), doubles_in(inverse)
        self.concentration = doubles_in(concentration)
        self.white = self.pull = self.square = NULL
        if shared and size_[0]:
            m = size_[0]
            white = np.zeros((m, (B + CRAFT_PAD - 1) // CRAFT_PAD * CRAFT_PAD))
            white[:, :B] = inverse[:1, :m * m].reshape(m, m) @ packed[:, :m].T
            pull = np.ascontiguousarray(packed[:, :m] @ concentration[0, :m * m].reshape(m, m))
            square = (pull * packed[:, :m]).sum(axis=1)
            self.arrays += (white, pull, square)
            self.white, self.pull, self.square = doubles_in(white), doubles_in(pull), doubles_in(square)

    def __reduce__(self):
        return Blocks, (self.columns, self.centre, self.scale, self.shift, self.precision, self.cluster,
                        self.member, self.mean, self.covariance, self.inside)


cdef const Py_ssize_t *_indices(array) except? NULL:
    cdef const Py_ssize_t[::1] view = array.reshape(-1)
    return &view[0] if view.shape[0] else NULL


cdef int _check_blocks(CostTables tables, Blocks blocks) except -1:
    """Raise unless the columns and clusters of the blocks are those of the tables."""
    cdef Py_ssize_t j
    for j in range(blocks.P):
        check(0 <= blocks.columns_[j] < tables.c.p, "columns of blocks")
    for j in range(blocks.n):
        check(0 <= blocks.cluster_[j] < tables.c.n_clusters, "clusters of blocks")
    return 0


cdef Py_ssize_t _scratch_size(CostTables tables, Blocks blocks) noexcept nogil:
    cdef Py_ssize_t marginal = blocks.largest * (blocks.largest + 4)
    return (craft_rows_scratch_size(tables.c.p, tables.c.q, tables.c.lanes) + 3 * TILE * blocks.P
            + (marginal + 7) // 8 * 8)


def scratch_size(CostTables tables not None, Blocks blocks not None) -> int:
    """Doubles of scratch that one thread needs for the costs of rows, whole cache lines."""
    return _scratch_size(tables, blocks)


def assign(
    X not None,                             # IN    (n, p)
    codes not None,                         # IN    (n, q)
    weight not None,                        # IN    (n,) or empty = all one
    CostTables tables not None,             # of the features outside the blocks, mixing costs included
    Blocks blocks not None,
    int32_t[::1] labels not None,           # INOUT (n,) -1 = not assigned yet
    double[:, ::1] scratch not None,        # WORK  (n_threads, scratch_size) on cache lines
    int n_threads,
) -> int:
    """Assign every row to its cheapest cluster; returns the number of rows of weight > 0 that moved.

    A row moves only if that saves more than 1e-12 nats; of equally cheap clusters the one of the lowest
    number is taken.
    """
    check_threads(n_threads)
    check_table(X, codes, labels.shape[0], tables.c.p, tables.c.q)
    check(scratch.shape[0] >= n_threads, "scratch")
    check_indices(labels, -1, tables.c.n_clusters, "labels")
    _check_blocks(tables, blocks)
    cdef table_rows table = rows_of(X, codes, weight)
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    cdef Py_ssize_t block = block_rows(), n = labels.shape[0], n_blocks = (n + block - 1) // block
    cdef Py_ssize_t b, moved = 0
    if scratch.shape[0] < n_threads or scratch.shape[1] < _scratch_size(tables, blocks):
        raise ValueError(f"The scratch is too small for {n_threads} threads.")
    if n_threads == 1:
        with nogil:
            for b in range(n_blocks):
                moved += _assign_block(&table, all_rows, tables, blocks, labels, b * block,
                                       min((b + 1) * block, n), &scratch[0, 0])
        return moved
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        moved += _assign_block(&table, all_rows, tables, blocks, labels, b * block, min((b + 1) * block, n),
                               &scratch[omp_get_thread_num(), 0])
    return moved


cdef Py_ssize_t _assign_block(
    const table_rows *table, const int32_t[::1] all_rows, CostTables tables, Blocks blocks,
    int32_t[::1] labels, Py_ssize_t start, Py_ssize_t stop, double *scratch,
) noexcept nogil:
    cdef Py_ssize_t tile, first, n, r, lanes = tables.c.lanes, moved = 0
    cdef int32_t new, old
    cdef const double *cost
    cdef double[TILE] least
    cdef int32_t[TILE] cheapest
    cdef bint found
    for tile in range((stop - start + TILE - 1) // TILE):
        first = start + tile * TILE
        n = min(TILE, stop - first)
        cost = _tile_costs(table, all_rows, tables, blocks, first, n, scratch)
        craft_least(&tables.c, cost, least)
        found = False
        for r in range(n):
            old = labels[first + r]
            if old >= 0 and cost[r * lanes + old] <= least[r] + 1e-12:
                continue
            if not found:       # in most tiles of late passes no row moves
                craft_cheapest(&tables.c, cost, least, cheapest)
                found = True
            # where no cluster has a finite cost the row stays, or begins in cluster 0
            new = cheapest[r] if cheapest[r] >= 0 else max(old, 0)
            if new != old:
                labels[first + r] = new
                moved += rows_weight(table, first + r) != 0
    return moved


def costs(
    X not None,                             # IN   (n, p)
    codes not None,                         # IN   (n, q)
    CostTables tables not None,
    Blocks blocks not None,
    double[:, ::1] scratch not None,        # WORK (1, scratch_size) on cache lines
    double[:, ::1] out not None,            # OUT  (n, K)
):
    """Costs of every row under every cluster, relative to its background."""
    check_table(X, codes, out.shape[0], tables.c.p, tables.c.q)
    check(scratch.shape[0] >= 1, "scratch")
    _check_blocks(tables, blocks)
    cdef table_rows table = rows_of(X, codes)
    cdef const int32_t[::1] all_rows = np.empty(0, np.int32)
    cdef Py_ssize_t n = out.shape[0], tile, first, m, r, k
    cdef const double *cost
    if scratch.shape[0] < 1 or scratch.shape[1] < _scratch_size(tables, blocks):
        raise ValueError("The scratch is too small.")
    with nogil:
        for tile in range((n + TILE - 1) // TILE):
            first = tile * TILE
            m = min(TILE, n - first)
            cost = _tile_costs(&table, all_rows, tables, blocks, first, m, &scratch[0, 0])
            for r in range(m):
                for k in range(out.shape[1]):
                    out[first + r, k] = cost[r * tables.c.lanes + k]


cdef const double *_tile_costs(
    const table_rows *table, const int32_t[::1] all_rows, CostTables tables, Blocks B, Py_ssize_t first,
    Py_ssize_t n, double *scratch,
) noexcept nogil:
    """(TILE, lanes) costs of n <= TILE rows: cost tables, and the blocks on top."""
    cdef Py_ssize_t f, r, b
    cdef double cell
    cdef double[TILE] total
    cdef bint[TILE] incomplete
    cdef double *cost = <double *> tile_costs(table, all_rows, &tables.c, first, n, scratch, total)
    cdef double *z = scratch + craft_rows_scratch_size(tables.c.p, tables.c.q, tables.c.lanes)
    cdef double *background = z + TILE * B.P
    cdef double *work = background + TILE * B.P
    for r in range(TILE):
        incomplete[r] = False
    for f in range(B.P):
        for r in range(TILE):
            cell = (rows_number(table, first + r, B.columns_[f])
                    - B.centre_[f]) * B.scale_[f] if r < n else 0.0
            if cell != cell:
                z[f * TILE + r], background[f * TILE + r], incomplete[r] = NAN, 0.0, True
                continue
            cell = max(-CRAFT_FAR, min(CRAFT_FAR, cell))
            z[f * TILE + r] = cell
            cell -= B.shift_[f]
            background[f * TILE + r] = 0.5 * B.precision_[f] * cell * cell - B.half_log_precision[f]
    if B.white != NULL and B.n == tables.c.n_clusters:
        _shared_costs(B, z, background, n, tables.c.lanes, work, total, cost)
        return cost
    for b in range(B.n):
        _block_costs(B, b, z, background, incomplete, n, work, total)
        for r in range(n):
            cost[r * tables.c.lanes + B.cluster_[b]] += total[r]
    return cost


cdef void _shared_costs(
    Blocks B, const double *z, const double *background, Py_ssize_t n, Py_ssize_t lanes, double *work,
    double *total, double *cost,
) noexcept nogil:
    """Add the costs of the rows of a tile under the block that all clusters share, less those of the
    background.
    """
    cdef Py_ssize_t r, m = B.size[0]
    covariance_white(B.inverse, B.position, m, B.half_log_det[0], z, background, work, total)
    covariance_distances(B.white, m, lanes, work, total, n, cost)
    for r in range(n):
        if work[(m - 1) * TILE + r] != work[(m - 1) * TILE + r]:
            _shared_marginal(B, z + r, total[r], work + m * TILE, cost + r * lanes)


cdef void _block_costs(
    Blocks B, Py_ssize_t b, const double *z, const double *background, const bint *incomplete, Py_ssize_t n,
    double *work, double *total,
) noexcept nogil:
    """Costs of the rows of a tile under one block, less those of the background."""
    cdef Py_ssize_t r, m = B.size[b], n_missing
    cdef double change = 0.0
    covariance_costs(B.inverse + b * B.P * B.P, B.mean_ + b * B.P, B.position + b * B.P, m, B.half_log_det[b],
                     z, background, work, total)
    for r in range(n):
        if incomplete[r]:
            n_missing = _without_missing(B, b, z + r, work + m * TILE, &change)
            if n_missing:
                total[r] += change - _pull(B, b, work + r, n_missing, work + m * TILE)


# A row with missing columns m costs the marginal of the observed ones o. With y the deviation of the row from
# the mean, 0 where a cell is missing, and Lambda the inverse of Sigma,
#
#     log det Sigma_oo = log det Sigma + log det Lambda_mm,
#     y_o' Sigma_oo^-1 y_o = y' Lambda y - |G^-1 Lambda_mo y_o|^2,        Lambda_mm = G G^T,
#     diag(Sigma_oo^-1) = diag(Lambda_oo) - diag(Lambda_om Lambda_mm^-1 Lambda_mo).

cdef Py_ssize_t _without_missing(
    Blocks B, Py_ssize_t b, const double *z, double *work, double *change,
) noexcept nogil:
    """The number of missing cells of a row in a block; their positions and G in `work`; and what the row
    costs more for them, whatever its observed cells.
    """
    cdef Py_ssize_t m = B.size[b], n = 0, i, a, c
    cdef const Py_ssize_t *position = B.position + b * B.P
    cdef const double *own = B.concentration + b * B.P * B.P
    cdef Py_ssize_t *missing = <Py_ssize_t *> work
    cdef double *G = work + m
    cdef double *x = G + m * m
    for i in range(m):
        if z[position[i] * TILE] != z[position[i] * TILE]:
            missing[n] = i
            n += 1
    if n == 0:
        return 0
    for a in range(n):
        for c in range(a + 1):
            G[a * n + c] = own[missing[a] * m + missing[c]]
    cholesky(G, n, change)          # a principal part of a positive definite matrix
    for i in range(m):
        if z[position[i] * TILE] == z[position[i] * TILE] and B.inside_[position[i]] > 0.0:
            for a in range(n):
                x[a] = own[missing[a] * m + i]
            change[0] -= 0.5 * lower_solve(G, n, x) * B.inside_[position[i]]
    return n


cdef double _pull(
    Blocks B, Py_ssize_t b, const double *y, Py_ssize_t n, double *work,
) noexcept nogil:
    """(1/2) |G^-1 Lambda_mo y_o|^2 of a row with n missing cells, prepared in `work`."""
    cdef Py_ssize_t m = B.size[b], i, a
    cdef const double *own = B.concentration + b * B.P * B.P
    cdef const Py_ssize_t *missing = <const Py_ssize_t *> work
    cdef double *x = work + m + m * m
    for a in range(n):
        x[a] = 0.0
        for i in range(m):
            x[a] += own[missing[a] * m + i] * y[i * TILE]
    return 0.5 * lower_solve(work + m, n, x)


cdef void _shared_marginal(
    Blocks B, const double *z, double start, double *work, double *cost,
) noexcept nogil:
    """Add the costs of a row with missing cells under the block that all clusters share.

    With x its cells and mu' the mean of a cluster, 0 where a cell is missing, y' Lambda y = x' Lambda x - 2
    mu'' Lambda x + mu'' Lambda mu', and Lambda mu' is known but for the missing cells.
    """
    cdef Py_ssize_t m = B.size[0], b, i, j, a, c, n
    cdef const Py_ssize_t *missing = <const Py_ssize_t *> work
    cdef const double *mean
    cdef const double *pull
    cdef double *G = work + m
    cdef double *x = G + m * m
    cdef double *y = x + m
    cdef double *u = y + m              # Lambda x
    cdef double own, total, change = 0.0
    n = _without_missing(B, 0, z, work, &change)
    for i in range(m):
        y[i] = z[B.position[i] * TILE]
        if y[i] != y[i]:
            y[i] = 0.0
    total = 0.0
    for i in range(m):
        u[i] = 0.0
        for j in range(m):
            u[i] += B.concentration[i * m + j] * y[j]
        total += u[i] * y[i]
    change += start + 0.5 * total
    for b in range(B.n):
        mean, pull, total = B.mean_ + b * B.P, B.pull + b * m, B.square[b]
        for i in range(m):
            total -= 2.0 * mean[i] * u[i]
        for a in range(n):
            own = 0.0                   # Lambda_mm mu_m
            for c in range(n):
                own += B.concentration[missing[a] * m + missing[c]] * mean[missing[c]]
            i = missing[a]
            total += mean[i] * (2.0 * (u[i] - pull[i]) + own)
            x[a] = u[i] - pull[i] + own
        cost[b] += change + 0.5 * (total - lower_solve(G, n, x))
