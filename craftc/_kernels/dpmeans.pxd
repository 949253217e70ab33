"""Nearest centres and exact sums of rows, see src/dpmeans/_dpmeans.h."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from craftc._kernels._team cimport team, team_job

cdef extern from "dpmeans/_dpmeans.h" nogil:
    ctypedef struct dp_centres:
        Py_ssize_t D, K
        int single
        const double *mu
        const double *ref
        const float *ref_single
        double scale
        const float *centre
        const float *half
        float reach
        double limit
        float inside, outside
    ctypedef struct dp_rows:
        int32_t *labels
        float *upper
        float *lower
    ctypedef struct dp_drift:
        const float *own
        const float *others
        const float *half_gap
        const int32_t *moved
        Py_ssize_t n_moved
        const float *moved_gap
        float root
    ctypedef struct dp_sums:
        const double *centre
        const double *scale
        int64_t *sums
        int64_t *counts
        const int64_t *weight
        const double *share
        const double *unit_weight
    ctypedef struct dp_collapsed:
        Py_ssize_t D, K, n_clusters, capacity, cap
        int single
        double *mu
        float *centre
        float *half
        const double *step
        const double *ref
        const float *ref_single
        double scale, unit, limit, slack
        float reach, inside
        float *travelled
        float *shrunk
        float far, least_shrunk
    ctypedef struct dp_places:
        pass
    enum:
        DP_TILE
        DP_BOUNDED
        DP_CHECKED
        DP_WORTH_CLUSTERS
        DP_WORTH_COLUMNS
        DP_WORTH_SCAN
        DP_PAD
    const float DP_UP, DP_DOWN, DP_ROOT_UP, DP_ROOT_DOWN
    const void *dp_row(const void *X, int single, Py_ssize_t D, Py_ssize_t i)
    void dp_fetch_rows(const dp_centres *c, const void *X, const int32_t *some, Py_ssize_t n)
    float dp_above(double distance)
    float dp_below(double distance)
    double dp_distance(const void *x, int single, const double *mu, Py_ssize_t D)
    void dp_own_distances(
        const void *X, int single, Py_ssize_t D, const double *mu, const int32_t *labels, double *squared,
        Py_ssize_t start, Py_ssize_t stop)
    Py_ssize_t dp_not_kept(dp_rows rows, const dp_drift *drift, Py_ssize_t start, Py_ssize_t n,
                           int32_t *rows_left)
    Py_ssize_t dp_tile_rows()
    Py_ssize_t dp_assign_tile(
        const dp_centres *c, const void *X, dp_rows rows, const dp_sums *sums, const int32_t *tile_rows,
        Py_ssize_t n, float *tile, Py_ssize_t *beyond_limit)
    float dp_quick_check(const dp_centres *c, const void *x, const int32_t *some, float *distance)
    void dp_add(const dp_sums *sums, const void *x, int single, Py_ssize_t D, int32_t cluster, Py_ssize_t i,
                int sign)
    void dp_add_rows(
        const dp_sums *sums, const void *X, int single, Py_ssize_t D, const int32_t *labels, Py_ssize_t start,
        Py_ssize_t stop)
    void dp_sum_rows(const dp_sums *sums, const void *X, int single, Py_ssize_t D, Py_ssize_t start,
                     Py_ssize_t stop)
    int64_t dp_cut_rows(
        const dp_sums *sums, const void *X, int single, Py_ssize_t D, const int32_t *labels,
        const double *origins, const double *directions, uint8_t *sides, Py_ssize_t start, Py_ssize_t stop)
    void dp_refresh(dp_collapsed *c, const dp_sums *sums, Py_ssize_t k)
    Py_ssize_t dp_collapse(
        dp_collapsed *c, const void *X, dp_rows rows, const dp_sums *sums, const int32_t *order,
        Py_ssize_t start, Py_ssize_t stop, float *tile, Py_ssize_t *moved, Py_ssize_t *computed)
    Py_ssize_t dp_reassign_to_new(
        const dp_centres *c, const int32_t *some, Py_ssize_t first, const float *gap, const void *X,
        dp_rows rows, const dp_sums *sums, const int32_t *order, Py_ssize_t start, Py_ssize_t stop,
        float *tile)
    Py_ssize_t dp_nearest_places(Py_ssize_t D, Py_ssize_t K, double *scratch, dp_places *places)
    bint dp_prepare(dp_centres *c, Py_ssize_t stride, dp_places *places)
    void dp_nearest_rows(
        const dp_centres *c, Py_ssize_t centre_stride, const void *x, Py_ssize_t n, Py_ssize_t x_stride,
        int32_t *labels, double *squared, double *rows, float *tile)
    void dp_beyond_rows(const dp_centres *c, const void *x, Py_ssize_t n, const double *share,
                        uint8_t *beyond, float *tile)


cdef class Centres:
    cdef readonly object mu  # type: Floats
    cdef tuple arrays
    cdef dp_centres c


cdef class Sums:
    cdef readonly object centre, scale, share, unit_weight  # type: Floats
    cdef readonly object weight, sums, counts  # type: Integers
    cdef object of_threads, counts_of_threads
    cdef readonly int n_threads
    cdef const int64_t[::1] weight_
    cdef const double[::1] share_
    cdef const double[::1] unit_weight_
    cdef const double[::1] centre_
    cdef const double[::1] scale_
    cdef void at(self, int thread, dp_sums *out) noexcept


cdef int check_rows(X, Centres centres, Py_ssize_t n) except -1
cdef int check_sums(Sums sums, X, Py_ssize_t n_clusters, int n_threads) except -1


cdef struct Blocks:             # of rows [start, stop), shared out among threads with sums of their own
    dp_sums *places             # of every thread; in the end the first are those of all
    Py_ssize_t D, K, start, stop, rows
    int n_threads
    team threads


cdef int blocks_of(Sums sums, Py_ssize_t K, Py_ssize_t start, Py_ssize_t stop, int n_threads,
                   Blocks *out) except -1
cdef void share_out(Blocks *blocks, team_job job, void *context) noexcept nogil
cdef void each_block(Blocks *blocks, team_job job, void *context) noexcept nogil
