"""Prices of groups of rows, for kernels that move rows between priced clusters."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from craftc._kernels.craft_shared cimport Shared, Tilts, craft_sums, craft_theta, craft_tilt, tilted_t
from craftc._kernels.moments cimport Grid

cdef enum:
    PRICED = 0          # the features that lower the description length, the code of the mask included
    FREE = 1            # all features whose gain exceeds their price
    FIXED = 2           # a fixed number of the best features of each kind
    GIVEN = 3           # one mask for all clusters
    THRESHOLD = 4       # the paper's approximate budget
    SOFT = 5            # all features with a gain, at no price: random starts
    # masks of all clusters together, under the pooled background: src/craft/craft_masks.pyx
    POOLED = 6

cdef uint64_t fits_factor   # spreads cells over the table of fits

cdef struct ranked_t:
    double rank         # net gain in multiples of the tie tolerance
    double net
    Py_ssize_t feature


cdef class Pricing:
    cdef readonly Grid grid
    cdef readonly tuple arguments  # type: tuple[Any, ...]
    cdef readonly double count_weight, total, h, feature_price, code, eps_c
    cdef readonly bint mixing
    cdef public bint relative
    cdef public Shared shared  # type: Any
    cdef readonly Py_ssize_t D, n_usable, n_codes, n_numeric, n_categorical
    cdef readonly double usable_weight
    cdef readonly object centre, scale  # type: Floats
    cdef readonly object widths  # type: Positions
    cdef const double *centre_
    cdef const double *scale_
    cdef const double *mean
    cdef const double *variance
    cdef const double *variance_limit
    cdef const double *inverse_deviation
    cdef const double *frequency
    cdef const uint8_t *usable
    cdef const Py_ssize_t *n_levels
    cdef const double *price
    cdef const double *log_choose
    cdef const double *entropy
    cdef readonly Tilts tilts
    cdef const craft_tilt *tilt      # (q) n = 0: a column of shares


cdef struct parts_t:
    double *shift       # (p) (zeta - zeta_0) / sigma_0
    double *precision   # (p) sigma_0^2 / sigma^2
    double *spread      # (p) sum of squared deviations / sigma_0^2
    double *gain        # (D)
    ranked_t *ranked    # (D) for sorting
    tilted_t *tilted    # (q)


cdef Py_ssize_t parts_length(Pricing P) noexcept nogil


cdef int check_selection(Pricing P, int selection) except -1


cdef parts_t parts_in(Pricing P, double *work) noexcept nogil


cdef void fit_group(Pricing P, const int64_t *group, parts_t parts, bint alone=*) noexcept nogil


cdef double known_tilt(Pricing P, Py_ssize_t d, craft_sums sums, craft_theta *theta) noexcept nogil


cdef double known_shares(Pricing P, Py_ssize_t d, const int64_t *counts) noexcept nogil


cdef double weight_of(Pricing P, Py_ssize_t d) noexcept nogil


cdef double mask_code(Pricing P, double selected) noexcept nogil


cdef double numeric_gain(double S, double spread, double shift, double prior) noexcept nogil


cdef double categorical_gain(
    const int64_t *counts, const double *frequency, Py_ssize_t n_levels, double count_weight, double prior,
) noexcept nogil


cdef double shared_likelihood(Pricing P, const int64_t *group, parts_t parts, Py_ssize_t d) noexcept nogil


cdef double existence_cost(Pricing P, const int64_t *group) noexcept nogil


cdef double price_of(Pricing P, int selection, const int64_t *group, parts_t parts, uint8_t *mask,
                     bint alone) noexcept nogil


cdef void select_priced(Pricing P, parts_t parts, uint8_t *mask) noexcept nogil


cdef void fit_over_table(Pricing P, const int64_t *group, parts_t parts, bint alone) noexcept nogil


cdef double price_of_side(
    Pricing P, const int64_t *side, parts_t parts, const parts_t whole, const parts_t *other, uint8_t *mask,
    bint alone,
) noexcept nogil


cdef double price_of_union(
    Pricing P, const int64_t *union, parts_t parts, const parts_t one, const parts_t two, uint8_t *mask,
    bint alone,
) noexcept nogil


cdef double mixing_cost(Pricing P, const int64_t *group) noexcept nogil


cdef void price_all(
    Pricing P, int selection, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work,
    uint8_t[:, ::1] mask, double[::1] cost, bint alone,
) noexcept nogil
