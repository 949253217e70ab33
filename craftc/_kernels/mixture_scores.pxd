"""Mixture with feature selection: the present q as lists of selected columns, with bounds.

See src/mixture/mixture_scores.pyx.
"""

from libc.stdint cimport int32_t, uint32_t

from craftc._kernels.mixture_updates cimport Model

cdef extern from "mixture/_mixture_scores.h" nogil:
    enum:
        MX_COLUMNS, MX_PAD, MX_TILE

    const double MX_ABOVE

    ctypedef struct mx_lists:
        Py_ssize_t K
        int32_t *component
        Py_ssize_t *stop
        uint32_t *place
        double *linear
        double *square
        double *constant
        double *reach
        double *missing

    ctypedef struct mx_bounds:
        Py_ssize_t K
        int32_t *slot
        float *behind
        double *middle
        double *norm
        double *constant
        double *moved
        double *linear
        double *square
        double *rounding
        Py_ssize_t n_gone
        int32_t *gone

    Py_ssize_t mx_runs(Py_ssize_t)
    Py_ssize_t mx_stride(Py_ssize_t)

ctypedef struct Scores:
    mx_lists lists
    mx_bounds bounds
    const Model *m
    bint missing                # whether cells may be missing
    bint bounded                # whether the passes over the rows keep bounds
    int32_t *slot               # (K) slot of every component
    # (K, 2 D + 1) by slot: linear, square, constant of the last pass with bounds; NaN: not in it
    double *last
    # (K of the lists, 3) magnitudes of constant, linear and square, of this pass and the last one
    double *size

cdef class ScoreTables:
    cdef Scores t
    cdef object arrays, bounds
    cdef int keep_bounds(self, Py_ssize_t tiles) except -1

cdef void list_components(Scores *scores, const Model *m) noexcept nogil
cdef void list_columns(void *context, int j, int thread) noexcept nogil
cdef void measure_rounding(Scores *scores) noexcept nogil
cdef void sort_slots(Scores *scores, const Py_ssize_t *order) noexcept nogil
