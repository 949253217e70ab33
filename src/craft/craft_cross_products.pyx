"""Exact sums of the products of every two numeric columns in clusters of CRAFT, and cross products of
deviations from them.

Products are summed as 128-bit integers on the grid of the moments: the sums do not depend on the order of the
additions.

A missing cell counts as it is expected from the observed cells of its row under a normal distribution of its
cluster: with missing columns m and observed ones o, and Lambda the inverse of the covariance Sigma,

    E z_m = mu_m - C Lambda_mo (z_o - mu_o),    C = Lambda_mm^-1,

and products of two missing cells have C in addition. Described by N(0, I) instead, the distribution of the
missing cells is longer by its divergence from that, the sum over the missing columns a of

    (1/2) ((E z_a)^2 + C_aa - 1 - log c_a),

with c_a the variance of column a given the earlier missing ones, too.
"""

import numpy as np

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from craftc._kernels._common cimport (
    block_rows, check, check_indices, check_threads, doubles_in, omp_get_thread_num,
)
from craftc._kernels.moments cimport (
    CRAFTC_NUMERIC_CELLS, Grid, rows_number, rows_of, rows_weight, table_rows,
)

cdef extern from "<math.h>" nogil:
    long long llrint(double)
    double log(double)

cdef extern from "craft/_cholesky.h" nogil:
    bint cholesky(double *A, Py_ssize_t m, double *half_log)
    void inverse_of_factor(double *A, Py_ssize_t m, double *work)

cdef extern from "common/_int128.h" nogil:
    ctypedef struct craftc_int128:
        uint64_t low
        uint64_t high
    craftc_int128 int128_of(int64_t a)
    craftc_int128 int128_add(craftc_int128 a, craftc_int128 b)
    craftc_int128 int128_product(int64_t a, int64_t b)
    craftc_int128 int128_scale(craftc_int128 a, int64_t b)
    craftc_int128 int128_load(const int64_t *cell)
    void int128_store(int64_t *cell, craftc_int128 a)
    double int128_double(craftc_int128 a)


# sums of weights below 2^46 stay below 2^127
cdef double FARTHEST = 2.0**40      # steps of the grid of an expected cell from the centre: the largest range
cdef double NATS = 2.0**32          # integers to a nat
cdef int64_t STEPS = 1 << 20        # squared steps of the grid: covariances are multiples of it
cdef double MOST = 2.0**58


def cross_width(Py_ssize_t n_columns) -> int:
    """Integers of the cross products of n columns, two words for each sum: products of the pairs a >= b in
    the order of (a, b); expected cells and divergences of the missing cells of every column.
    """
    return n_columns * (n_columns + 5)


def room_size(Py_ssize_t n_columns) -> int:
    """Doubles that the expectation of missing cells needs."""
    return n_columns * (2 * n_columns + 3)


cdef class Conditionals:
    """The normal distributions of P columns in K clusters, under which missing cells are expected.

    Parameters
    ----------
    centre, scale : ndarray (P,)
        z = (x - centre) * scale.
    mean : ndarray (K, P)
        In the units of z.
    covariance : ndarray (K, P, P)
    """
    cdef object arrays
    cdef Py_ssize_t K, P
    cdef const double *centre
    cdef const double *scale
    cdef const double *mean
    cdef const double *precision

    def __cinit__(self, centre: Floats, scale: Floats, mean: Floats, covariance: Floats):
        check(mean.ndim == 2 and covariance.shape == (*mean.shape, mean.shape[1]), "mean or covariance")
        check(centre.shape == scale.shape == (mean.shape[1],), "centre or scale")
        self.K, self.P = mean.shape
        precision, mean = np.array(covariance, order="C"), np.ascontiguousarray(mean)
        self.arrays = centre, scale, mean, covariance, precision
        self.centre, self.scale, self.mean = doubles_in(centre), doubles_in(scale), doubles_in(mean)
        self.precision = doubles_in(precision)
        cdef double[:, :, ::1] inverse = precision
        cdef double[::1] work = np.empty(self.P * self.P + 1)
        cdef double half_log = 0.0
        cdef Py_ssize_t k
        for k in range(self.K if self.P else 0):
            if k and np.array_equal(covariance[k], covariance[k - 1]):
                inverse[k] = inverse[k - 1]
                continue
            if not cholesky(&inverse[k, 0, 0], self.P, &half_log):
                raise ValueError(f"The covariance of cluster {k} is not positive definite.")
            inverse_of_factor(&inverse[k, 0, 0], self.P, &work[0])

    def __reduce__(self):
        return Conditionals, self.arrays[:4]

    def select(self, clusters: Positions) -> Conditionals:
        """Those of some clusters, in the given order."""
        centre, scale, mean, covariance = self.arrays[:4]
        return Conditionals(centre, scale, mean[clusters], covariance[clusters])


def cross_products(
    X not None,                             # IN    (n, p)
    weight not None,                        # IN    (n,) or empty = all one
    const int32_t[::1] labels not None,     # IN    (n,) cluster of each row, -1 = none
    Grid grid not None,
    const Py_ssize_t[::1] columns not None,  # IN   (P,) numeric columns
    Conditionals conditionals,              # IN    of the K clusters; None: no row with a cluster has a
                                            # missing cell in these columns
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, K, cross_width) zeros, and zeros afterwards
    int64_t[:, ::1] cross not None,         # INOUT (K, cross_width)
    int64_t[:, ::1] cells not None,         # WORK  (n_threads, P)
    double[:, ::1] room not None,           # WORK  (n_threads, room_size)
    int n_threads,
):
    """Add the products of the columns of every row to its cluster."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == labels.shape[0] and X.shape[1] == grid.p, "X")
    cdef table_rows table = rows_of(X, None, weight)
    cdef Py_ssize_t block = block_rows(), n = labels.shape[0], n_blocks = (n + block - 1) // block, b, t, k, i
    cdef Py_ssize_t P = columns.shape[0]
    if (cross.shape[1] != cross_width(P) or cells.shape[0] < n_threads or cells.shape[1] < P
            or partial.shape[0] < n_threads or partial.shape[1] < cross.shape[0]
            or partial.shape[2] != cross.shape[1] or room.shape[0] < n_threads
            or room.shape[1] < room_size(P)):
        raise ValueError(f"The buffers are too small for {P} columns and {n_threads} threads.")
    if conditionals is not None:
        check(conditionals.P == P and conditionals.K >= cross.shape[0], "conditionals")
    for i in range(P):
        check(0 <= columns[i] < grid.p, "columns")
    check_indices(labels, -1, cross.shape[0], "labels")
    cdef Py_ssize_t unexpected = 0
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        unexpected += _cross_block(
            &table, labels, grid, columns, conditionals, b * block, min((b + 1) * block, n),
            &cells[omp_get_thread_num(), 0], &room[omp_get_thread_num(), 0], partial[omp_get_thread_num()],
        )
    if unexpected:
        np.asarray(partial)[:] = 0
        raise ValueError("Rows have missing cells, which only conditionals expect.")
    with nogil:
        for t in range(n_threads):
            for k in range(cross.shape[0]):
                for i in range(0, cross.shape[1], 2):
                    int128_store(&cross[k, i],
                                 int128_add(int128_load(&cross[k, i]), int128_load(&partial[t, k, i])))
                memset(&partial[t, k, 0], 0, cross.shape[1] * sizeof(int64_t))


cdef Py_ssize_t _cross_block(
    const table_rows *table, const int32_t[::1] labels, Grid grid, const Py_ssize_t[::1] columns,
    Conditionals conditionals, Py_ssize_t start, Py_ssize_t stop, int64_t *cells, double *room,
    int64_t[:, ::1] cross,
) noexcept nogil:
    """Add the products of some rows; returns the rows whose missing cells nothing expects."""
    cdef Py_ssize_t i, a, b, P = columns.shape[0], unexpected = 0
    cdef int64_t w
    cdef int64_t *to
    cdef double x
    cdef bint missing
    for i in range(start, stop):
        w = rows_weight(table, i)
        if labels[i] < 0 or w == 0:
            continue
        to = &cross[labels[i], 0]
        missing = False
        for a in range(P):
            x = rows_number(table, i, columns[a])
            if x != x:
                missing = True
            else:
                cells[a] = llrint((x - grid.centre_[columns[a]]) * grid.scale_[columns[a]])
        if missing and conditionals is None:
            unexpected += 1
            continue
        if missing:
            _expect(table, i, w, grid, columns, conditionals, labels[i], cells, room, to)
        for a in range(P):
            for b in range(a + 1):
                _add(to, int128_product(cells[a], cells[b]), w)
                to += 2
    return unexpected


cdef inline void _add(int64_t *to, craftc_int128 value, int64_t w) noexcept nogil:
    if w != 1:
        value = int128_scale(value, w)
    int128_store(to, int128_add(int128_load(to), value))


cdef void _expect(
    const table_rows *table, Py_ssize_t i, int64_t w, Grid grid, const Py_ssize_t[::1] columns,
    Conditionals given, Py_ssize_t k, int64_t *cells, double *room, int64_t *to,
) noexcept nogil:
    """Expect the missing cells of a row, and add to the sums what they have besides the products of cells."""
    cdef Py_ssize_t P = given.P, m = 0, a, b, c, d
    cdef const double *mean = given.mean + k * P
    cdef const double *precision = given.precision + k * P * P
    cdef double *C = room
    cdef double *work = C + P * P
    cdef double *z = work + P * P       # of observed cells, their deviation from the mean
    cdef double *pull = z + P
    cdef Py_ssize_t *missing = <Py_ssize_t *> (pull + P)
    cdef int64_t *sums = to + P * (P + 1)
    cdef int64_t *divergence = sums + 2 * P
    cdef double x, expected, half_log
    for a in range(P):
        x = rows_number(table, i, columns[a])
        if x != x:
            missing[m] = a
            m += 1
        z[a] = (x - given.centre[a]) * given.scale[a] - mean[a]
    for a in range(m):
        pull[a] = 0.0
        for d in range(P):
            if z[d] == z[d]:
                pull[a] += precision[missing[a] * P + d] * z[d]
        for b in range(m):
            C[a * m + b] = precision[missing[a] * P + missing[b]]
    cholesky(C, m, &half_log)           # a principal part of a positive definite matrix
    inverse_of_factor(C, m, work)
    for a in range(m):
        d, c = missing[a], columns[missing[a]]
        expected = mean[d]
        for b in range(m):
            expected -= C[a * m + b] * pull[b]
            if b <= a:                  # covariances, from units of z to squared steps of the grid
                x = (C[a * m + b] / (given.scale[d] * given.scale[missing[b]])
                     * (grid.scale_[c] * grid.scale_[columns[missing[b]]]) / <double> STEPS)
                _add(to + d * (d + 1) + 2 * missing[b],
                     int128_product(llrint(max(-MOST, min(MOST, x))), STEPS), w)
        x = (expected / given.scale[d] + given.centre[d] - grid.centre_[c]) * grid.scale_[c]
        cells[d] = llrint(max(-FARTHEST, min(FARTHEST, x)))
        z[d] = (<double> cells[d] / grid.scale_[c] + grid.centre_[c] - given.centre[d]) * given.scale[d]
        z[d] = z[d] * z[d] + C[a * m + a] - 1.0
        _add(sums + 2 * d, int128_of(cells[d]), w)
    cholesky(C, m, &half_log)
    for a in range(m):
        x = 0.5 * z[missing[a]] - log(C[a * m + a])
        _add(divergence + 2 * missing[a], int128_of(llrint(min(MOST, x * NATS))), w)


def add_cross(
    int64_t[::1] cross not None,            # INOUT (cross_width,)
    const int64_t[::1] other not None,      # IN    (cross_width,)
    int64_t sign=1,
):
    """cross += sign * other: merge (1) or subtract (-1)."""
    check(other.shape[0] == cross.shape[0] and cross.shape[0] % 2 == 0, "other")
    cdef Py_ssize_t i
    for i in range(0, cross.shape[0], 2):
        int128_store(&cross[i],
                     int128_add(int128_load(&cross[i]), int128_scale(int128_load(&other[i]), sign)))


def deviations(
    const int64_t[:, ::1] groups not None,  # IN  (K, width) moments
    const int64_t[:, ::1] cross not None,   # IN  (K, cross_width)
    Grid grid not None,
    const Py_ssize_t[::1] columns not None,  # IN (P,)
    const double[::1] scale not None,       # IN  (P,) from grid steps to units of the table
    double count_weight,
    const Py_ssize_t[::1] first not None,   # IN  (m,) one cluster
    const Py_ssize_t[::1] second not None,  # IN  (m,) the cluster that it is joined with, or -1
    double[:, ::1] mean not None,           # OUT (m, P) grid steps
    double[:, ::1] divergence not None,     # OUT (m, P) nats, of the missing cells
    double[:, :, ::1] out not None,         # OUT (m, P, P) SS in units of the table
):
    """Means, and weighted cross products of deviations from them, of clusters and unions of two, exact except
    for the final rounding.
    """
    cdef Py_ssize_t P = columns.shape[0], m = first.shape[0], i
    check(groups.shape[1] == grid.width, "groups")
    check(cross.shape[0] == groups.shape[0] and cross.shape[1] == cross_width(P), "cross")
    check(scale.shape[0] == P, "scale")
    check(second.shape[0] == m, "second")
    check(mean.shape[0] == m and mean.shape[1] == P, "mean")
    check(divergence.shape[0] == m and divergence.shape[1] == P, "divergence")
    check(out.shape[0] == m and out.shape[1] == P and out.shape[2] == P, "out")
    for i in range(P):
        check(0 <= columns[i] < grid.p, "columns")
    for i in range(m):
        check(0 <= first[i] < groups.shape[0] and -1 <= second[i] < groups.shape[0], "first or second")
    with nogil:
        for i in range(m):
            _deviations(&groups[first[i], 0], &groups[second[i], 0] if second[i] >= 0 else NULL,
                        &cross[first[i], 0], &cross[second[i], 0] if second[i] >= 0 else NULL, grid, columns,
                        scale, count_weight, mean[i], divergence[i], out[i])


cdef inline craftc_int128 _sum(const int64_t *cell, const int64_t *other) noexcept nogil:
    cdef craftc_int128 total = int128_load(cell)
    return int128_add(total, int128_load(other)) if other != NULL else total


cdef void _deviations(
    const int64_t *group, const int64_t *other, const int64_t *cross, const int64_t *other_cross, Grid grid,
    const Py_ssize_t[::1] columns, const double[::1] scale, double count_weight, double[::1] mean,
    double[::1] divergence, double[:, ::1] out,
) noexcept nogil:
    """With rounded means m and rests r = sum q - m S, exact, SS_ab = sum q_a q_b - m_a sum q_b - m_b r_a -
    r_a r_b / S.
    """
    cdef Py_ssize_t a, b, t = 0, P = columns.shape[0], more = P * (P + 1)
    cdef int64_t weight = group[0] + (other[0] if other != NULL else 0), m_a, m_b
    cdef craftc_int128 sum_a, sum_b, rest_a, rest_b, product
    cdef double value
    for a in range(P):
        sum_a = _sum_of_cells(group, other, cross, other_cross, grid, columns, a)
        m_a = llrint(int128_double(sum_a) / <double> weight)
        rest_a = int128_add(sum_a, int128_scale(int128_of(weight), -m_a))
        mean[a] = <double> m_a + int128_double(rest_a) / <double> weight
        product = _sum(cross + more + 2 * (P + a),
                       other_cross + more + 2 * (P + a) if other_cross != NULL else NULL)
        divergence[a] = count_weight * int128_double(product) / NATS
        for b in range(a + 1):
            sum_b = _sum_of_cells(group, other, cross, other_cross, grid, columns, b)
            m_b = llrint(int128_double(sum_b) / <double> weight)
            rest_b = int128_add(sum_b, int128_scale(int128_of(weight), -m_b))
            product = _sum(cross + 2 * t, other_cross + 2 * t if other_cross != NULL else NULL)
            product = int128_add(product, int128_scale(sum_b, -m_a))
            product = int128_add(product, int128_scale(rest_a, -m_b))
            value = int128_double(product) - int128_double(rest_a) * int128_double(rest_b) / <double> weight
            out[a, b] = out[b, a] = count_weight * value * scale[a] * scale[b]
            t += 1


cdef craftc_int128 _sum_of_cells(
    const int64_t *group, const int64_t *other, const int64_t *cross, const int64_t *other_cross, Grid grid,
    const Py_ssize_t[::1] columns, Py_ssize_t a,
) noexcept nogil:
    """Observed and expected cells of one column."""
    cdef Py_ssize_t at = grid.first_numeric + CRAFTC_NUMERIC_CELLS * columns[a] + 1
    cdef Py_ssize_t more = columns.shape[0] * (columns.shape[0] + 1) + 2 * a
    return int128_add(_sum(group + at, other + at if other != NULL else NULL),
                      _sum(cross + more, other_cross + more if other_cross != NULL else NULL))
