"""Exact sums of the products of every two numeric columns in clusters of CRAFT, and cross products of
deviations from them.

Products are summed as 128-bit integers on the grid of the moments: the sums do not depend on the order of the
additions.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from craftc._kernels._common cimport block_rows, check, check_indices, check_threads, omp_get_thread_num
from craftc._kernels.moments cimport (
    CRAFTC_NUMERIC_CELLS, Grid, rows_number, rows_of, rows_weight, table_rows,
)

cdef extern from "<math.h>" nogil:
    long long llrint(double)

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


def cross_width(Py_ssize_t n_columns) -> int:
    """Integers of the cross products of n columns: two words for each pair a >= b, in the order of (a, b)."""
    return n_columns * (n_columns + 1)


def cross_products(
    X not None,                             # IN    (n, p)
    weight not None,                        # IN    (n,) or empty = all one
    const int32_t[::1] labels not None,     # IN    (n,) cluster of each row, -1 = none
    Grid grid not None,
    const Py_ssize_t[::1] columns not None,  # IN   (P,) numeric columns without missing cells in rows of
                                             # weight > 0
    int64_t[:, :, ::1] partial not None,    # WORK  (n_threads, K, cross_width) zeros, and zeros afterwards
    int64_t[:, ::1] cross not None,         # INOUT (K, cross_width)
    int64_t[:, ::1] cells not None,         # WORK  (n_threads, P)
    int n_threads,
):
    """Add the products of the columns of every row to its cluster."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == labels.shape[0] and X.shape[1] == grid.p, "X")
    cdef table_rows table = rows_of(X, None, weight)
    cdef Py_ssize_t block = block_rows(), n = labels.shape[0], n_blocks = (n + block - 1) // block, b, t, k, i
    if (cross.shape[1] != cross_width(columns.shape[0]) or cells.shape[0] < n_threads
            or cells.shape[1] < columns.shape[0] or partial.shape[0] < n_threads
            or partial.shape[1] < cross.shape[0] or partial.shape[2] != cross.shape[1]):
        raise ValueError(f"The buffers are too small for {columns.shape[0]} columns and {n_threads} threads.")
    for i in range(columns.shape[0]):
        check(0 <= columns[i] < grid.p, "columns")
    check_indices(labels, -1, cross.shape[0], "labels")
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        _cross_block(&table, labels, grid, columns, b * block, min((b + 1) * block, n),
                     &cells[omp_get_thread_num(), 0], partial[omp_get_thread_num()])
    with nogil:
        for t in range(n_threads):
            for k in range(cross.shape[0]):
                for i in range(0, cross.shape[1], 2):
                    int128_store(&cross[k, i],
                                 int128_add(int128_load(&cross[k, i]), int128_load(&partial[t, k, i])))
                memset(&partial[t, k, 0], 0, cross.shape[1] * sizeof(int64_t))


cdef void _cross_block(
    const table_rows *table, const int32_t[::1] labels, Grid grid, const Py_ssize_t[::1] columns,
    Py_ssize_t start, Py_ssize_t stop, int64_t *cells, int64_t[:, ::1] cross,
) noexcept nogil:
    cdef Py_ssize_t i, a, b, P = columns.shape[0]
    cdef int64_t w
    cdef int64_t *to
    cdef craftc_int128 product
    for i in range(start, stop):
        w = rows_weight(table, i)
        if labels[i] < 0 or w == 0:
            continue
        to = &cross[labels[i], 0]
        for a in range(P):
            cells[a] = llrint((rows_number(table, i, columns[a]) - grid.centre_[columns[a]])
                              * grid.scale_[columns[a]])
            for b in range(a + 1):
                product = int128_product(cells[a], cells[b])
                if w != 1:
                    product = int128_scale(product, w)
                int128_store(to, int128_add(int128_load(to), product))
                to += 2


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
    double[:, :, ::1] out not None,         # OUT (m, P, P) SS in units of the table
):
    """Weighted cross products of deviations from the mean, of clusters and unions of two, exact except for
    the final rounding.
    """
    check(groups.shape[1] == grid.width, "groups")
    check(cross.shape[0] == groups.shape[0] and cross.shape[1] == cross_width(columns.shape[0]), "cross")
    check(scale.shape[0] == columns.shape[0], "scale")
    check(second.shape[0] == first.shape[0], "second")
    check(out.shape[0] == first.shape[0] and out.shape[1] == columns.shape[0]
          and out.shape[2] == columns.shape[0], "out")
    cdef Py_ssize_t i
    for i in range(columns.shape[0]):
        check(0 <= columns[i] < grid.p, "columns")
    for i in range(first.shape[0]):
        check(0 <= first[i] < groups.shape[0] and -1 <= second[i] < groups.shape[0], "first or second")
    with nogil:
        for i in range(first.shape[0]):
            _deviations(&groups[first[i], 0], &groups[second[i], 0] if second[i] >= 0 else NULL,
                        &cross[first[i], 0], &cross[second[i], 0] if second[i] >= 0 else NULL, grid, columns,
                        scale, count_weight, out[i])


cdef inline craftc_int128 _sum(const int64_t *cell, const int64_t *other) noexcept nogil:
    cdef craftc_int128 total = int128_load(cell)
    return int128_add(total, int128_load(other)) if other != NULL else total


cdef void _deviations(
    const int64_t *group, const int64_t *other, const int64_t *cross, const int64_t *other_cross, Grid grid,
    const Py_ssize_t[::1] columns, const double[::1] scale, double count_weight, double[:, ::1] out,
) noexcept nogil:
    """With rounded means m and rests r = sum q - m S, exact, SS_ab = sum q_a q_b - m_a sum q_b - m_b r_a -
    r_a r_b / S.
    """
    cdef Py_ssize_t a, b, t = 0, at_a, at_b
    cdef int64_t weight = group[0] + (other[0] if other != NULL else 0), m_a, m_b
    cdef craftc_int128 sum_a, sum_b, rest_a, rest_b, product
    cdef double value
    for a in range(columns.shape[0]):
        at_a = grid.first_numeric + CRAFTC_NUMERIC_CELLS * columns[a] + 1
        sum_a = _sum(group + at_a, other + at_a if other != NULL else NULL)
        m_a = llrint(int128_double(sum_a) / <double> weight)
        rest_a = int128_add(sum_a, int128_scale(int128_of(weight), -m_a))
        for b in range(a + 1):
            at_b = grid.first_numeric + CRAFTC_NUMERIC_CELLS * columns[b] + 1
            sum_b = _sum(group + at_b, other + at_b if other != NULL else NULL)
            m_b = llrint(int128_double(sum_b) / <double> weight)
            rest_b = int128_add(sum_b, int128_scale(int128_of(weight), -m_b))
            product = _sum(cross + 2 * t, other_cross + 2 * t if other_cross != NULL else NULL)
            product = int128_add(product, int128_scale(sum_b, -m_a))
            product = int128_add(product, int128_scale(rest_a, -m_b))
            value = int128_double(product) - int128_double(rest_a) * int128_double(rest_b) / <double> weight
            out[a, b] = out[b, a] = count_weight * value * scale[a] * scale[b]
            t += 1
