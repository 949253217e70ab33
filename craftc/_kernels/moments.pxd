"""Exact moments, for kernels that move rows between groups. See src/_moments.h for the layout of a group."""

from libc.stdint cimport int64_t
from craftc._kernels._common cimport code_t

cdef extern from "_moments.h" nogil:
    void moments_add_cell(int64_t *cell, double offset_scaled, int64_t weight)
    void moments_merge(int64_t *to, const int64_t *source, int64_t sign, Py_ssize_t first_numeric, Py_ssize_t width)
    ctypedef struct moments_cell:
        pass
    void moments_prepare(moments_cell *cell, Py_ssize_t at, double offset_scaled, int64_t weight)
    void moments_add_prepared(int64_t *group, const moments_cell *cell, int64_t weight)
    double moments_mean(const int64_t *cell, double *deviations)
    int CRAFTC_NUMERIC_CELLS


cdef class Grid:
    cdef readonly object centre, scale, level_start
    cdef readonly Py_ssize_t p, q, n_levels, first_numeric, width
    cdef const double *centre_
    cdef const double *scale_
    cdef const Py_ssize_t *level_start_


cdef inline void add_row(
    int64_t *group, const double *centre, const double *scale, const Py_ssize_t *level_start, Py_ssize_t first_numeric,
    Py_ssize_t p, Py_ssize_t q, const void *x, bint single, const code_t *codes, int64_t weight,
) noexcept nogil:
    """Add one row (weight < 0: take it out) to a group. x and codes point at the row."""
    cdef Py_ssize_t d
    cdef double cell
    cdef int64_t *at = group + 1
    group[0] += weight
    for d in range(q):
        at[level_start[d] + codes[d]] += weight
    at = group + first_numeric
    for d in range(p):
        cell = (<const float *> x)[d] if single else (<const double *> x)[d]
        if cell == cell:
            moments_add_cell(at, (cell - centre[d]) * scale[d], weight)
        at += CRAFTC_NUMERIC_CELLS
