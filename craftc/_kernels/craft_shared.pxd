"""The distributions of the pooled background, for kernels that price clusters or compute costs relative to
them.
"""

from libc.stdint cimport int64_t

from craftc._kernels.craft_tilt cimport craft_theta
from craftc._kernels.moments cimport Grid

cdef extern from "craft/_craft_shared.h" nogil:
    double craft_numeric_likelihood(double S, double spread, double shift, double mean, double precision,
                                    double log_precision)
    double craft_categorical_likelihood(const int64_t *counts, const double *log_ratio, Py_ssize_t n_levels)
    ctypedef struct craft_fit:
        int64_t feature
        int64_t cells[5]
        double shift, precision, log_precision, gain
    bint craft_fit_is_of(const craft_fit *fit, Py_ssize_t d, const int64_t *cells)

cdef enum:
    SHARED_POOLS = 32   # sets of clusters that the choice of masks remembers
    SHARED_FITS = 65536  # and most distributions of pools


cdef class Shared:
    cdef readonly Grid grid
    cdef readonly Py_ssize_t room
    cdef readonly object group  # type: Integers
    cdef readonly object shift, precision, level  # type: Floats
    cdef object log_precision, work, fits
    cdef int64_t *group_
    cdef double *shift_
    cdef double *precision_
    cdef double *log_precision_
    cdef double *level_
    cdef readonly object theta  # type: Floats
    cdef craft_theta *theta_         # (q) of the tilted columns
    cdef double *work_
    cdef Py_ssize_t n_fits          # a power of 2
    cdef craft_fit *fits_           # (n_fits) found again by their cells
    cdef double count_weight        # of these fits
