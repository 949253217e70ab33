"""Exact moments, for kernels that move rows between groups.

See src/table/_moments.h for the layout of a group.
"""

from libc.stdint cimport int64_t

cdef extern from "table/_table_rows.h" nogil:
    ctypedef struct table_rows:
        const char *numeric
        const char *codes
        const int64_t *weight
        Py_ssize_t n, p, q
        int single, wide
    const void *rows_numeric(const table_rows *t, Py_ssize_t i)
    void rows_copy_numbers(const table_rows *t, Py_ssize_t start, Py_ssize_t n, char *x)
    const void *rows_codes(const table_rows *t, Py_ssize_t i)
    double rows_number(const table_rows *t, Py_ssize_t i, Py_ssize_t d)
    Py_ssize_t rows_code(const table_rows *t, Py_ssize_t i, Py_ssize_t d)
    int64_t rows_weight(const table_rows *t, Py_ssize_t i)

cdef extern from "table/_moments.h" nogil:
    void moments_add_cell(int64_t *cell, double offset_scaled, int64_t weight)
    void moments_add_row(int64_t *group, const double *centre, const double *scale,
                         const Py_ssize_t *level_start, Py_ssize_t first_numeric, const table_rows *t,
                         Py_ssize_t i, int64_t weight)
    void moments_merge(int64_t *to, const int64_t *source, int64_t sign, Py_ssize_t first_numeric,
                       Py_ssize_t width)
    int moments_ranges(const void *x, int single, Py_ssize_t p, double *low, double *high)
    double moments_mean(const int64_t *cell, double *deviations)
    int CRAFTC_NUMERIC_CELLS


cdef class Grid:
    cdef readonly object centre, scale  # type: Floats
    cdef readonly object level_start  # type: Positions
    cdef readonly Py_ssize_t p, q, n_levels, first_numeric, width
    cdef const double *centre_
    cdef const double *scale_
    cdef const Py_ssize_t *level_start_


cdef table_rows rows_of(X, codes=*, weight=*) except *


cdef int check_table(X, codes, Py_ssize_t n, Py_ssize_t p, Py_ssize_t q) except -1


cdef int check_partial(
    const int64_t[:, :, ::1] partial, const int64_t[:, ::1] groups, Py_ssize_t width, int n_threads,
) except -1
