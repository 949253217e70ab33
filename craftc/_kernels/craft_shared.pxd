"""The distributions of the pooled background, for kernels that price clusters or compute costs relative to them."""

from libc.stdint cimport int64_t

from craftc._kernels.moments cimport Grid


cdef class Shared:
    cdef readonly Grid grid
    cdef readonly Py_ssize_t room
    cdef readonly object group, shift, precision, level
    cdef object work
    cdef int64_t *group_
    cdef double *shift_
    cdef double *precision_
    cdef double *level_
    cdef double *work_


cdef inline double numeric_likelihood(
    double S, double spread, double shift, double mean, double precision, double log_precision,
) noexcept nogil:
    """log likelihood of S cells under a normal distribution less that under the table's, in units of the table's deviation."""
    return 0.5 * (spread + S * shift * shift - precision * (spread + S * (shift - mean) * (shift - mean)) + S * log_precision)


cdef inline double categorical_likelihood(const int64_t *counts, const double *log_ratio, Py_ssize_t n_levels) noexcept nogil:
    """Sum of log(eta / eta_0) over the cells of a categorical column."""
    cdef Py_ssize_t t
    cdef double total = 0.0
    for t in range(n_levels):
        total += counts[t] * log_ratio[t]
    return total
