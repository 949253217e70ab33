"""Exact moments of groups of rows as integer sums, which do not depend on the order of the additions.

src/table/_moments.h defines the layout of a group.
"""

import numpy as np

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBuffer_Release, PyObject_GetBuffer
from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from craftc._kernels._common cimport check, check_indices, check_threads, omp_get_thread_num
from craftc._kernels.moments cimport (
    CRAFTC_NUMERIC_CELLS, moments_add_row, moments_mean, moments_merge, moments_ranges, rows_number,
    rows_numeric, rows_weight, table_rows,
)

NUMERIC_CELLS = CRAFTC_NUMERIC_CELLS

cdef extern from "common/_int128.h" nogil:
    ctypedef struct craftc_int128:
        uint64_t low
        uint64_t high
    craftc_int128 limbs_add(craftc_int128 a, craftc_int128 b)
    craftc_int128 limbs_scale(craftc_int128 a, int64_t b)
    craftc_int128 limbs_of(int64_t a)
    craftc_int128 limbs_product(int64_t a, int64_t b)
    craftc_int128 int128_add(craftc_int128 a, craftc_int128 b)
    craftc_int128 int128_product(int64_t a, int64_t b)
    craftc_int128 int128_scale(craftc_int128 a, int64_t b)
    double int128_double(craftc_int128 a)

cdef extern from "table/_moments_ranges.h" nogil:
    int moments_ranges_of_rows(const void *x, int single, Py_ssize_t p, Py_ssize_t n, double *low,
                               double *high)

cdef extern from "table/_moments_sums.h" nogil:
    void moments_add_rows(int64_t *group, const double *centre, const double *scale,
                          const Py_ssize_t *level_start, Py_ssize_t first_numeric, const table_rows *t,
                          Py_ssize_t start, const int32_t *list, Py_ssize_t n)
    Py_ssize_t moments_run(const table_rows *t)
    enum:
        MOMENTS_RUN
        MOMENTS_GROUPS

cdef enum:
    LEVEL_ROWS = 4096       # whose levels are written at once
    LEVEL_CELLS = 16        # of a column whose levels are searched for together
    # numbers between the results of two threads, which then have no pair of cache lines in common
    APART = 16


cdef class Grid:
    """Layout of a group: the integer grid of every numeric column, and the position of every level.

    Parameters
    ----------
    centre, scale : ndarray (p,) of float64, contiguous
        q = rint((x - centre) * scale).
    level_start : ndarray (q,) of intp, contiguous
        Position of the first level of every categorical column in the list of all levels, in which a missing
        level follows each column.
    n_levels : int
        Length of that list.
    """

    def __cinit__(self, centre, scale, level_start, Py_ssize_t n_levels):
        cdef const double[::1] c = centre, s = scale
        cdef const Py_ssize_t[::1] start = level_start
        cdef Py_ssize_t d
        if s.shape[0] != c.shape[0]:
            raise ValueError(f"centre and scale need one value for each numeric column, got {c.shape[0]} and "
                             f"{s.shape[0]}.")
        for d in range(start.shape[0]):
            if not 0 <= start[d] < n_levels or (d > 0 and start[d] <= start[d - 1]):
                raise ValueError(f"level_start must increase within 0..{n_levels - 1}, got "
                                 f"{list(level_start)}.")
        if n_levels < 0:
            raise ValueError(f"n_levels must be >= 0, got {n_levels}.")
        self.centre, self.scale, self.level_start = centre, scale, level_start
        self.p, self.q, self.n_levels = c.shape[0], start.shape[0], n_levels
        self.first_numeric = 1 + n_levels
        self.width = self.first_numeric + CRAFTC_NUMERIC_CELLS * self.p
        if self.p:
            self.centre_, self.scale_ = &c[0], &s[0]
        if self.q:
            self.level_start_ = &start[0]

    def __reduce__(self):
        return Grid, (self.centre, self.scale, self.level_start, self.n_levels)


cdef table_rows rows_of(X, codes=None, weight=None) except *:
    """The rows of a table: X (n, p) float64 or float32, codes (n, q) uint8 or uint16, weight (n,) int64 or
    empty = all one.

    One kernel reads every kind of table, so that it is compiled once. The caller keeps the arrays alive.
    """
    cdef table_rows rows
    cdef Py_ssize_t[2] shape
    rows.single = _block(X, "X", 2, "df", &rows.numeric, shape) == c"f"
    rows.n, rows.p = shape[0], shape[1]
    rows.codes, rows.q, rows.wide, rows.weight = NULL, 0, False, NULL
    if codes is not None:
        rows.wide = _block(codes, "codes", 2, "BH", &rows.codes, shape) == c"H"
        rows.q = shape[1]
        if shape[0] != rows.n:
            raise ValueError(f"X and codes need the same number of rows, got {rows.n} and {shape[0]}.")
    if weight is not None:
        _block(weight, "weight", 1, "lq", <const char **> &rows.weight, shape)
        if shape[0] == 0:
            rows.weight = NULL
        elif shape[0] != rows.n:
            raise ValueError(f"weight needs one value for each of the {rows.n} rows, or none, got "
                             f"{shape[0]}.")
    return rows


cdef char _block(array, str name, int ndim, str formats, const char **first, Py_ssize_t *shape) except? 0:
    """First element and shape of a C-contiguous array of one of the formats; returns the format."""
    cdef Py_buffer view
    cdef int j
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    try:
        if view.ndim != ndim or chr(view.format[0]) not in formats:
            raise ValueError(f"{name} needs {ndim} dimensions and one of the formats {', '.join(formats)}, "
                             f"got an array of {view.ndim} "
                             f"dimensions and dtype {array.dtype}.")
        first[0] = <const char *> view.buf
        for j in range(ndim):
            shape[j] = view.shape[j]
        return view.format[0]
    finally:
        PyBuffer_Release(&view)


cdef int check_table(X, codes, Py_ssize_t n, Py_ssize_t p, Py_ssize_t q) except -1:
    """Raise unless X has the shape (n, p) and `codes` (n, q)."""
    check(X.ndim == 2 and X.shape[0] == n and X.shape[1] == p, "X")
    return check(codes.ndim == 2 and codes.shape[0] == n and codes.shape[1] == q, "codes")


cdef int check_partial(
    const int64_t[:, :, ::1] partial, const int64_t[:, ::1] groups, Py_ssize_t width, int n_threads,
) except -1:
    """Raise unless `partial`, if not empty, has room for the groups (K, width) of every thread."""
    if partial.shape[0] == 0:
        return 0
    check(partial.shape[0] >= n_threads and partial.shape[1] == groups.shape[0]
          and partial.shape[2] == width, "partial")
    return check(groups.shape[1] == width, "groups")


def column_ranges(
    X not None,                            # IN  (n, p), NaN = missing
    weight not None,                        # IN  (n,) or empty = all one
    double[::1] low not None,               # OUT (p,) +inf without observed values
    double[::1] high not None,              # OUT (p,) -inf without observed values
    int n_threads,
) -> bool:
    """Minimum and maximum of the observed values of every column, over rows with weight > 0; returns whether
    a cell of these is missing.
    """
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[1] == low.shape[0], "X")
    check(high.shape[0] == low.shape[0], "high")
    cdef table_rows rows = rows_of(X, None, weight)
    cdef Py_ssize_t p = rows.p, d
    cdef int t, missing = 0
    cdef double[:, :, ::1] found = np.full((n_threads, 2, p + APART), np.inf)
    for t in prange(n_threads, nogil=True, schedule="static", num_threads=n_threads):
        missing += _ranges(&rows, t * rows.n // n_threads, (t + 1) * rows.n // n_threads, found[t])
    for d in range(p):
        low[d], high[d] = INFINITY, -INFINITY
        for t in range(n_threads):
            low[d] = min(low[d], found[t, 0, d])
            high[d] = max(high[d], found[t, 1, d])
        low[d] += 0.0       # -0 to 0: rows are not compared in their order
        high[d] += 0.0
    return missing > 0


cdef int _ranges(
    const table_rows *rows, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] found,
) noexcept nogil:
    cdef Py_ssize_t i, d
    cdef int missing = 0
    for d in range(rows.p):
        found[1, d] = -INFINITY
    if rows.weight == NULL:
        return moments_ranges_of_rows(rows_numeric(rows, start), rows.single, rows.p, stop - start,
                                      &found[0, 0], &found[1, 0])
    for i in range(start, stop):
        if rows_weight(rows, i) != 0:
            if rows.single:
                missing |= moments_ranges(rows_numeric(rows, i), 1, rows.p, &found[0, 0], &found[1, 0])
            else:
                missing |= moments_ranges(rows_numeric(rows, i), 0, rows.p, &found[0, 0], &found[1, 0])
    return missing


def accumulate(
    X not None,                            # IN   (n, p)
    codes not None,                         # IN   (n, q)
    weight not None,                        # IN   (n,) or empty = all one
    const int32_t[::1] labels not None,     # IN   (n,) group of each row, -1 = none
    Grid grid not None,
    int64_t[:, :, ::1] partial not None,    # WORK (n_threads, >= K, width), zeros
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
    int n_threads,
):
    """Add every row to the group of its label."""
    check_threads(n_threads)
    check_table(X, codes, labels.shape[0], grid.p, grid.q)
    check(n_threads == 1
          or (partial.shape[0] >= n_threads and partial.shape[1] >= groups.shape[0]
              and partial.shape[2] == grid.width), "partial")
    check(groups.shape[1] == grid.width, "groups")
    check_indices(labels, -1, groups.shape[0], "labels")
    cdef table_rows rows = rows_of(X, codes, weight)
    cdef Py_ssize_t n = labels.shape[0], run = moments_run(&rows), n_runs = (n + run - 1) // run, r
    if n_threads == 1 or n_runs == 1:
        with nogil:
            for r in range(n_runs):
                _accumulate_run(&rows, labels, grid, r * run, min((r + 1) * run, n), groups)
        return
    for r in prange(n_runs, nogil=True, schedule="static", num_threads=n_threads):
        _accumulate_run(&rows, labels, grid, r * run, min((r + 1) * run, n),
                        partial[omp_get_thread_num(), :groups.shape[0]])
    merge_partial(partial, groups, grid.first_numeric)


cdef void _accumulate_run(
    const table_rows *rows, const int32_t[::1] labels, Grid grid, Py_ssize_t start, Py_ssize_t stop,
    int64_t[:, ::1] groups,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t w
    if rows.weight == NULL and groups.shape[0] <= MOMENTS_GROUPS:
        _accumulate_together(rows, labels, grid, start, stop, groups)
    elif rows.weight == NULL:   # the compiler leaves the products with a weight of 1 out
        for i in range(start, stop):
            if labels[i] >= 0:
                moments_add_row(&groups[labels[i], 0], grid.centre_, grid.scale_, grid.level_start_,
                                grid.first_numeric, rows, i, 1)
    else:
        for i in range(start, stop):
            w = rows_weight(rows, i)
            if labels[i] >= 0 and w != 0:
                moments_add_row(&groups[labels[i], 0], grid.centre_, grid.scale_, grid.level_start_,
                                grid.first_numeric, rows, i, w)


cdef void _accumulate_together(
    const table_rows *rows, const int32_t[::1] labels, Grid grid, Py_ssize_t start, Py_ssize_t stop,
    int64_t[:, ::1] groups,
) noexcept nogil:
    """The rows of one group after the other."""
    cdef Py_ssize_t i, k, K = groups.shape[0], n = 0
    cdef int32_t[MOMENTS_RUN] by_group
    # of the rows of a group in that list; those of no group come last
    cdef Py_ssize_t[MOMENTS_GROUPS + 1] first
    if K == 1:
        for i in range(start, stop):
            by_group[n] = <int32_t> (i - start)
            n += labels[i] + 1
        moments_add_rows(&groups[0, 0], grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric,
                         rows, start, by_group, n)
        return
    for k in range(K + 1):
        first[k] = 0
    for i in range(start, stop):
        first[labels[i] if labels[i] >= 0 else K] += 1
    for k in range(1, K + 1):
        first[k] += first[k - 1]
    for i in range(stop - 1, start - 1, -1):
        k = labels[i] if labels[i] >= 0 else K
        first[k] -= 1
        by_group[first[k]] = <int32_t> (i - start)
    for k in range(K):
        if first[k + 1] > first[k]:
            moments_add_rows(&groups[k, 0], grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric,
                             rows, start, &by_group[first[k]], first[k + 1] - first[k])


def merge_partial(
    int64_t[:, :, ::1] partial not None,    # INOUT (n_threads, >= K, width), zeroed again
    int64_t[:, ::1] groups not None,        # INOUT (K, width)
    Py_ssize_t first_numeric,
):
    """Add the partial sums of every thread to the groups."""
    check(0 <= first_numeric <= groups.shape[1]
          and (groups.shape[1] - first_numeric) % CRAFTC_NUMERIC_CELLS == 0, "first_numeric")
    check(groups.shape[0] <= partial.shape[1] and groups.shape[1] == partial.shape[2], "groups")
    cdef Py_ssize_t t, k, i, width = groups.shape[1]
    with nogil:
        for t in range(partial.shape[0]):
            for k in range(groups.shape[0]):
                moments_merge(&groups[k, 0], &partial[t, k, 0], 1, first_numeric, width)
                for i in range(width):
                    partial[t, k, i] = 0


def merge(
    int64_t[::1] group not None,            # INOUT (width,)
    const int64_t[::1] other not None,      # IN    (width,)
    int64_t sign,
    Py_ssize_t first_numeric,
):
    """group += sign * other: merge (1) or subtract (-1)."""
    check(0 <= first_numeric <= group.shape[0]
          and (group.shape[0] - first_numeric) % CRAFTC_NUMERIC_CELLS == 0, "first_numeric")
    check(other.shape[0] == group.shape[0], "other")
    moments_merge(&group[0], &other[0], sign, first_numeric, group.shape[0])


def means(
    const int64_t[:, ::1] groups not None,  # IN  (K, width)
    Py_ssize_t first_numeric,
    double[:, ::1] mean not None,           # OUT (K, p) in grid units, 0 without observed values
    double[:, ::1] deviations not None,     # OUT (K, p) sum of squared deviations from the mean, grid units^2
):
    """Mean and sum of squared deviations of every numeric column of every group, exact except for the final
    rounding.
    """
    check(0 <= first_numeric and first_numeric + CRAFTC_NUMERIC_CELLS * mean.shape[1] <= groups.shape[1],
          "first_numeric")
    check(mean.shape[0] == groups.shape[0], "mean")
    check(deviations.shape[0] == groups.shape[0] and deviations.shape[1] == mean.shape[1], "deviations")
    cdef Py_ssize_t k, d
    with nogil:
        for k in range(groups.shape[0]):
            for d in range(mean.shape[1]):
                mean[k, d] = deviations[k, d] = 0.0
                if groups[k, first_numeric + CRAFTC_NUMERIC_CELLS * d] > 0:
                    mean[k, d] = moments_mean(&groups[k, first_numeric + CRAFTC_NUMERIC_CELLS * d],
                                              &deviations[k, d])


def int128_check(
    uint64_t a_low, uint64_t a_high, uint64_t b_low, uint64_t b_high, int64_t factor,
) -> tuple[Any, Any, float]:
    """For the tests: (a + b, a * factor, signed a_low * factor, factor as 128 bits) by limbs and by the
    arithmetic in use, and float(a).
    """
    cdef craftc_int128 a, b
    a.low, a.high = a_low, a_high
    b.low, b.high = b_low, b_high
    return (
        (limbs_add(a, b), limbs_scale(a, factor), limbs_product(<int64_t> a_low, factor), limbs_of(factor)),
        (int128_add(a, b), int128_scale(a, factor), int128_product(<int64_t> a_low, factor),
         limbs_of(factor)),
        int128_double(a),
    )


# ---- codes of levels ----

def write_levels(
    X not None,                             # IN  (n, p)
    const double[::1] bounds not None,      # IN  (all,) ascending inside every column: cells above bounds[l]
                                            # lie above level l
    const Py_ssize_t[::1] first not None,   # IN  (p + 1,) of every column among the bounds
    const Py_ssize_t[::1] place not None,   # IN  (p,) columns of the codes, or -1: the column is left out
    codes not None,                         # OUT (n, q) uint8 or uint16; a missing cell: the number of levels
    int n_threads,
):
    """Write the level of every cell of numeric columns."""
    cdef table_rows table = rows_of(X, codes)
    cdef Py_ssize_t n = table.n, p = place.shape[0], d, b, n_blocks = (n + LEVEL_ROWS - 1) // LEVEL_ROWS
    cdef Py_ssize_t most = 65535 if table.wide else 255
    check_threads(n_threads)
    check(table.p == p, "X")
    check(codes.flags.writeable, "codes")
    check(first.shape[0] == p + 1 and first[0] == 0 and first[p] == bounds.shape[0], "first")
    for d in range(p):
        check(first[d] <= first[d + 1], "first")
        check(-1 <= place[d] < table.q, "place")
        check(first[d + 1] - first[d] + 1 <= most, "bounds")
    if p == 0:
        return
    cdef const double *every = &bounds[0] if bounds.shape[0] else NULL
    if n_threads == 1:
        with nogil:
            _write_levels(&table, every, first, place, 0, n)
        return
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        _write_levels(&table, every, first, place, b * LEVEL_ROWS, min((b + 1) * LEVEL_ROWS, n))


cdef void _write_levels(
    const table_rows *table, const double *bounds, const Py_ssize_t[::1] first,
    const Py_ssize_t[::1] place, Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef Py_ssize_t tile, i, d, r, n, m, half
    cdef const double *of_column
    cdef double[LEVEL_CELLS] x
    cdef Py_ssize_t[LEVEL_CELLS] below
    for r in range(LEVEL_CELLS):
        x[r] = 0.0
    for tile in range((stop - start + LEVEL_CELLS - 1) // LEVEL_CELLS):
        i = start + tile * LEVEL_CELLS
        m = min(LEVEL_CELLS, stop - i)
        for d in range(place.shape[0]):
            if place[d] < 0:
                continue
            n, of_column = first[d + 1] - first[d], bounds + first[d]
            for r in range(m):
                x[r] = rows_number(table, i + r, d)
            for r in range(LEVEL_CELLS):
                below[r] = 0
            while n > 1:        # the number of bounds below x, by halves without a branch
                half = n // 2
                for r in range(LEVEL_CELLS):
                    below[r] += half & -<Py_ssize_t> (of_column[below[r] + half - 1] < x[r])
                n -= half
            if n == 1:
                for r in range(LEVEL_CELLS):
                    below[r] += of_column[below[r]] < x[r]
            for r in range(m):
                if x[r] != x[r]:
                    below[r] = first[d + 1] - first[d] + 1
            if table.wide:
                for r in range(m):
                    (<uint16_t *> table.codes)[(i + r) * table.q + place[d]] = <uint16_t> below[r]
            else:
                for r in range(m):
                    (<uint8_t *> table.codes)[(i + r) * table.q + place[d]] = <uint8_t> below[r]
