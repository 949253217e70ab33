"""The code of the columns of the masks, for kernels that choose masks. See src/craft/craft_sharing.pyx."""

from libc.stdint cimport int64_t

cdef struct sharing_t:
    double share            # s; 0: masks have no code by columns
    Py_ssize_t n_rates
    const double *rate      # (n_rates) m, and
    const double *log_weight  # log of its prior probability
    Py_ssize_t K            # number of clusters in the tables below; 0: none
    double *most            # (K + 1) largest log B_m(c) of any m
    double *relative        # (K + 1, n_rates) B_m(c) over the largest
    double *log_ratio       # (K + 1, n_rates) its logarithm
    double *n_columns       # (K + 1) columns that c clusters select, the sum of their weights
    double *code            # (K + 1) what one more column costs, by its c
    double *posterior       # (n_rates)


cdef class Sharing:
    cdef readonly double share
    cdef readonly Py_ssize_t room
    cdef object rates, log_weights, work, counts
    cdef sharing_t parts


cdef void sharing_tables(sharing_t *s, Py_ssize_t K) noexcept nogil


cdef double columns_code(sharing_t *s) noexcept nogil


cdef void column_codes(sharing_t *s, double weight) noexcept nogil
