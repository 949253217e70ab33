"""The distributions of the pooled background, for kernels that price clusters or compute costs relative to
them.
"""

from libc.stdint cimport int64_t, uint64_t

from craftc._kernels.craft_sharing cimport Sharing
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
        double skew, spread
        const double *phase
        Py_ssize_t atom
        double atom_share
    ctypedef struct craft_theta:
        double first, second, atom, log_total
    ctypedef struct craft_sums:
        double weight, first, second, atom
    craft_theta craft_no_tilt()
    double CRAFT_TILT_NEAR, CRAFT_TILT_RANKED
    double craft_tilt_fit(const craft_tilt *t, double count_weight, craft_sums cells, double near,
                          craft_theta *theta)
    bint craft_is_normal(const craft_tilt *t)
    double craft_normal_gain(const craft_tilt *t, double count_weight, craft_sums cells)
    double craft_normal_likelihood(const craft_tilt *t, double count_weight, craft_sums cells,
                                   craft_sums group)
    double craft_tilt_most(const craft_tilt *t, double count_weight, craft_sums cells)
    double craft_tilt_likelihood(double count_weight, craft_sums cells, craft_theta theta)
    craft_sums craft_tilt_sums(const craft_tilt *t, const int64_t *counts, Py_ssize_t n_levels)
    craft_sums craft_joined_sums(craft_sums one, craft_sums two)
    craft_sums craft_left_sums(craft_sums group, craft_sums cells)

cdef struct tilted_t:           # cells of one tilted column
    craft_sums sums
    craft_theta theta           # their tilt


cdef class Tilts:
    cdef readonly Grid grid
    cdef readonly object statistics, frequency, phase, weight  # type: Floats
    cdef readonly object tilted  # type: Flags
    cdef readonly bint periodic
    cdef object room, places
    cdef const craft_tilt *column       # (q) n = 0: a column of shares
    cdef const double *weight_          # (q) of the nats of a column
    cdef object equals
    cdef const Py_ssize_t *equal        # (q) the first column that may be equal to a column


cdef double fit_tilt(const craft_tilt *tilt, const int64_t *counts, Py_ssize_t n_levels, double count_weight,
                     tilted_t *cells) noexcept nogil


cdef void tilt_log_ratios(const craft_tilt *tilt, const craft_theta *theta, Py_ssize_t n_levels,
                          double *log_ratio, Py_ssize_t stride) noexcept nogil


cdef struct fit_t:              # a fit of cells of one column
    bint known
    tilted_t cells              # sums and tilt; of a column of few shares, its counts
    double gain


cdef struct pool_t:             # what is known of the pool of some clusters in feature d
    uint64_t clusters           # a bit for each
    int64_t choice              # number of the choice of masks to which they belong; 0: none
    Py_ssize_t d
    bint has_gain, has_nets
    double gain                 # of their cells; see known_tilt and known_shares


cdef Py_ssize_t widest_cells(Grid grid) noexcept nogil


cdef double categorical_likelihood(const int64_t *counts, const double *log_ratio,
                                   Py_ssize_t n_levels) noexcept nogil


cdef enum:
    SHARED_POOLS = 32   # sets of clusters to which Lloyd steps have led that the choice of masks remembers
    FEW_SHARES = 8      # levels up to which a column of shares has fits
    WORD = 64           # clusters up to which pools are found again


cdef class Fits:
    cdef readonly Py_ssize_t room
    cdef object fits, pools, nets
    cdef Py_ssize_t n_of_column, pools_of_column
    cdef fit_t *fits_               # (q, n_of_column) found again by their cells
    cdef double count_weight        # of these fits
    cdef int64_t n_choices          # of masks that have been made
    cdef pool_t *pools_             # (q, pools_of_column) found again by their clusters
    cdef double *nets_              # (q, pools_of_column, K) what clusters gain by leaving a pool


cdef class Shared:
    cdef readonly Grid grid
    cdef readonly Py_ssize_t room
    cdef readonly object group  # type: Integers
    cdef readonly object level, theta  # type: Floats
    cdef readonly Sharing sharing
    cdef readonly Fits fits  # type: Any
    cdef object work
    cdef int64_t *group_
    cdef double *level_
    cdef craft_theta *theta_         # (q) of the tilted columns
    cdef double *work_
