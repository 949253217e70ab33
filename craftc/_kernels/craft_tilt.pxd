"""Exponential tilts of the distribution of a column's levels, for kernels that price groups of rows."""

from libc.stdint cimport int64_t

from craftc._kernels.moments cimport Grid

cdef extern from "craft/_craft_tilt.h" nogil:
    int CRAFT_TILT_PAD
    ctypedef struct craft_tilt:
        Py_ssize_t n
        const double *b
        const double *s1
        const double *s2
        const double *x1
        const double *x2
        const double *phase
    ctypedef struct craft_theta:
        double first, second, log_total
    double craft_tilt_fit(const craft_tilt *t, double m1, double m2, craft_theta *theta)
    int64_t craft_tilt_sums(const int64_t *counts, Py_ssize_t n_levels, const double *s1, const double *s2,
                            double *first, double *second)

cdef struct tilted_t:           # cells of one tilted column
    double weight               # number of the cells, in counts
    double first, second        # their sums of s1 and s2
    craft_theta theta           # their tilt


cdef class Tilts:
    cdef readonly Grid grid
    cdef readonly object first, second, frequency, phase  # type: Floats
    cdef readonly object tilted  # type: Flags
    cdef readonly bint periodic
    cdef object room, places
    cdef const craft_tilt *column       # (q) n = 0: a column of shares


cdef double fit_tilt(const craft_tilt *tilt, const int64_t *counts, Py_ssize_t n_levels, double count_weight,
                     tilted_t *cells) noexcept nogil


cdef double tilt_of_sums(const craft_tilt *tilt, double count_weight, double weight, double first, double second,
                         craft_theta *theta) noexcept nogil


cdef double tilt_likelihood(double count_weight, const tilted_t *cells, const craft_theta *theta) noexcept nogil


cdef void tilt_log_ratios(const craft_tilt *tilt, const craft_theta *theta, Py_ssize_t n_levels, double *log_ratio,
                          Py_ssize_t stride) noexcept nogil
