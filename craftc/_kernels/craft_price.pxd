"""Prices of groups of rows, for kernels that move rows between priced clusters."""

from libc.stdint cimport int64_t, uint8_t

from craftc._kernels.moments cimport Grid

cdef enum:
    PRICED = 0          # every feature pays its description length, the mask its code
    FREE = 1            # every feature that pays its parameters
    FIXED = 2           # the best of each kind, a fixed number
    GIVEN = 3           # one mask for all, decided outside
    THRESHOLD = 4       # the paper's approximate budget
    SOFT = 5            # all features with a gain, nothing priced: random starts

cdef struct ranked_t:
    double rank         # net gain in units of the tie
    double net
    Py_ssize_t feature


cdef class Pricing:
    cdef readonly Grid grid
    cdef readonly tuple arrays
    cdef readonly double unit, total, h, eps_c, eps_v
    cdef readonly bint mixing
    cdef readonly Py_ssize_t D, n_usable, n_numeric, n_categorical
    cdef readonly object centre, scale
    cdef const double *centre_
    cdef const double *scale_
    cdef const double *mean
    cdef const double *variance
    cdef const double *inverse_deviation
    cdef const double *frequency
    cdef const uint8_t *usable
    cdef const double *price
    cdef const double *log_choose
    cdef const double *entropy


cdef struct parts_t:
    double *shift       # (p) (zeta - zeta_0) / sigma_0
    double *precision   # (p) sigma_0^2 / sigma^2
    double *gain        # (D)
    ranked_t *ranked    # (D) room to sort


cdef inline Py_ssize_t _parts_size(Pricing P) noexcept nogil:
    return 2 * P.grid.p + P.D + 3 * P.D


cdef inline parts_t _parts(Pricing P, double *work) noexcept nogil:
    cdef parts_t parts
    parts.shift = work
    parts.precision = work + P.grid.p
    parts.gain = work + 2 * P.grid.p
    parts.ranked = <ranked_t *> (work + 2 * P.grid.p + P.D)
    return parts


cdef void price_all(
    Pricing P, int selection, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work, uint8_t[:, ::1] mask,
    double[::1] cost, bint choose_given,
) noexcept nogil
