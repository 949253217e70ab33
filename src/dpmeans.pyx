"""DP-means: the sweep over the rows, exact sums, distances. The serial sweep of the paper in three phases."""

import numpy as np

from cython cimport floating
from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, frexp, ldexp, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from craftc._kernels._common cimport block_rows, omp_get_thread_num
from craftc._kernels.dpmeans cimport (
    DP_GLANCE, DP_PAD, DP_TILE, DP_WORTH_CLUSTERS, DP_WORTH_COLUMNS, DP_WORTH_SCAN, Centres, Sums, dp_above, dp_add, dp_assign, dp_below,
    dp_centres, dp_collapse, dp_collapsed, dp_distance, dp_nearest_places, dp_nearest_rows, dp_places, dp_prepare, dp_refresh, dp_rows,
    dp_show, dp_sums,
)

cdef extern from "float.h":
    const float FLT_MAX

TILE, PAD = DP_TILE, DP_PAD
MOST_FRESH = DP_GLANCE - 1
WORTH_CLUSTERS, WORTH_COLUMNS = DP_WORTH_CLUSTERS, DP_WORTH_COLUMNS


cdef class Centres:
    """Centres as the kernels read them. Arrays are kept alive.

    Parameters
    ----------
    mu : ndarray (K, D) of float64, contiguous
    ref : ndarray (D,) of float64
        A point amid the table whose cells are representable in single precision.
    reach : float
        Largest distance of a cell from `ref`, roughly.
    limit : float
        lambda^2: a row further than this from every centre may open a cluster; inf: none may.
    single : bool
        Whether the table is float32.
    """

    def __cinit__(self, mu, ref, double reach, double limit, bint single):
        cdef const double[:, ::1] m = mu
        cdef const double[::1] r = ref
        cdef Py_ssize_t K = m.shape[0], D = m.shape[1], k, d
        cdef int exponent = 0
        cdef double cell, square, most = 0.0, scaled
        frexp(reach, &exponent)
        self.c.scale = ldexp(1.0, -max(-126 if single else -1000, min(exponent, 126 if single else 1000)))
        centre = np.zeros((K + DP_PAD, D), np.float32)
        half = np.full(K + DP_PAD, np.inf, np.float32)
        ref_single = ref.astype(np.float32) if single else np.zeros(1, np.float32)
        cdef float[:, ::1] c = centre
        cdef float[::1] h = half
        cdef const float[::1] rs = ref_single
        for k in range(K):
            square = 0.0
            for d in range(D):
                cell = (m[k, d] - r[d]) * self.c.scale
                square += cell * cell
                c[k, d] = <float> cell
            h[k] = <float> (0.5 * square)
            most = max(most, square)
        self.mu, self.arrays = mu, (ref, ref_single, centre, half)
        self.c.D, self.c.K, self.c.single = D, K, single
        self.c.mu = &m[0, 0] if K else NULL
        self.c.ref, self.c.ref_single = &r[0], &rs[0]
        self.c.centre, self.c.half = &c[0, 0], &h[0]
        self.c.reach = dp_above(sqrt(most))
        self.c.limit = limit
        scaled = limit * self.c.scale * self.c.scale
        self.c.inside = INFINITY if limit == INFINITY else <float> min(scaled * (1.0 - 1e-7), FLT_MAX)
        self.c.outside = INFINITY if scaled > 1e38 else <float> (scaled * (1.0 + 1e-7))

    @property
    def scale(self):
        """What distances are multiplied with in the bounds."""
        return self.c.scale


cdef class Sums:
    """Exact sums of the rows of every cluster: integers on a grid, fine enough for their sums to stay below 2^62.

    Parameters
    ----------
    centre, scale : ndarray (D,) of float64
        q = rint((x - centre) * scale).
    weight : ndarray (n,) of int64, or empty = all one
    share : ndarray (n,) of float64, or empty
        The weights where they are not whole: w (x - centre) scale is then rounded as one product.
    unit_weight : ndarray (n,) of float64, or empty
        min(w, 1), where that is not always one.
    capacity : int
        Clusters there is room for.
    n_threads : int
    """

    def __cinit__(self, centre, scale, weight, share, unit_weight, Py_ssize_t capacity, int n_threads):
        self.centre, self.scale, self.weight, self.share, self.unit_weight = centre, scale, weight, share, unit_weight
        self.centre_, self.scale_, self.weight_, self.share_, self.unit_weight_ = centre, scale, weight, share, unit_weight
        self.n_threads = n_threads
        self.sums = np.zeros((capacity, len(centre)), np.int64)
        self.counts = np.zeros(capacity, np.int64)
        self._make_partial()

    def _make_partial(self):
        T = self.n_threads if self.n_threads > 1 else 0
        self.partial = np.zeros((T, *self.sums.shape), np.int64)
        self.partial_counts = np.zeros((T, len(self.counts)), np.int64)

    def grow(self, Py_ssize_t capacity):
        """Make room for so many clusters."""
        extra = capacity - len(self.counts)
        if extra > 0:
            self.sums = np.concatenate([self.sums, np.zeros((extra, self.sums.shape[1]), np.int64)])
            self.counts = np.concatenate([self.counts, np.zeros(extra, np.int64)])
            self._make_partial()

    def keep(self, clusters):
        """Forget all clusters but these, which are renumbered in the given order."""
        sums, counts = self.sums[clusters], self.counts[clusters]
        self.sums[:] = 0
        self.counts[:] = 0
        self.sums[: len(sums)] = sums
        self.counts[: len(counts)] = counts

    def gather(self):
        """Add every thread's share."""
        self.sums += self.partial.sum(axis=0)
        self.counts += self.partial_counts.sum(axis=0)
        self.partial[:] = 0
        self.partial_counts[:] = 0

    cdef void at(self, int thread, dp_sums *out) noexcept:
        cdef int64_t[:, ::1] sums = self.sums if thread < 0 else self.partial[thread]
        cdef int64_t[::1] counts = self.counts if thread < 0 else self.partial_counts[thread]
        out.centre, out.scale = &self.centre_[0], &self.scale_[0]
        out.sums, out.counts = &sums[0, 0], &counts[0]
        out.weight = &self.weight_[0] if self.weight_.shape[0] else NULL
        out.share = &self.share_[0] if self.share_.shape[0] else NULL
        out.unit_weight = &self.unit_weight_[0] if self.unit_weight_.shape[0] else NULL


cdef dp_sums *_places(Sums sums, int n_threads) except NULL:
    """Where every thread adds; to be freed."""
    cdef dp_sums *places = <dp_sums *> calloc(n_threads, sizeof(dp_sums))
    cdef int t
    if places == NULL:
        raise MemoryError("No memory is left for the sums of a sweep.")
    for t in range(n_threads):
        sums.at(t if n_threads > 1 else -1, &places[t])
    return places


def accumulate(
    const floating[:, ::1] X not None,      # IN    (n, D)
    const int32_t[::1] labels not None,     # IN    (n,)
    Sums sums not None,                     # INOUT
    int n_threads,
):
    """Add every row to its cluster."""
    cdef Py_ssize_t n = X.shape[0], block = block_rows(), b
    cdef dp_sums *places = _places(sums, n_threads)
    try:
        for b in prange((n + block - 1) // block, nogil=True, schedule="static", num_threads=n_threads):
            _accumulate(X, labels, &places[omp_get_thread_num()], b * block, min((b + 1) * block, n))
    finally:
        free(places)
    if n_threads > 1:
        sums.gather()


cdef void _accumulate(
    const floating[:, ::1] X, const int32_t[::1] labels, const dp_sums *place, Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, stop):
        dp_add(place, &X[i, 0], floating is float, X.shape[1], labels[i], i, 1)


def assign(
    const floating[:, ::1] X not None,      # IN    (n, D)
    Centres centres not None,
    int32_t[::1] labels not None,           # INOUT (n,) 0..K-1
    float[::1] upper not None,              # INOUT (n,) bound on the distance to the own centre, < 0: beyond the limit
    float[::1] lower not None,              # INOUT (n,) bound on the distance to all others
    Sums sums not None,                     # INOUT
    const float[::1] drift not None,        # IN    (K,) how far centres moved since; empty: the bounds say nothing
    const float[::1] drift_others not None,  # IN    (K,) how far any other moved
    const float[::1] half_gap not None,     # IN    (K,) half the distance to the nearest other centre
    const int32_t[::1] fresh not None,      # IN    centres of which the bounds say nothing
    const float[::1] fresh_gap not None,    # IN    (K,) distance to the nearest other of those
    Py_ssize_t start,
    Py_ssize_t stop,                        # rows [start, stop)
    float[:, ::1] tile not None,            # WORK  (n_threads, TILE * D)
    int n_threads,
):
    """Move rows to their nearest centres; returns (rows of weight > 0 that moved, rows beyond the limit, rows looked at)."""
    cdef Py_ssize_t block = block_rows(), b, moved = 0, n_blocks = (stop - start + block - 1) // block
    cdef Py_ssize_t[:, ::1] tally = np.zeros((n_threads, 8), np.intp)       # a cache line for each thread
    cdef dp_rows rows
    cdef const float *moves = NULL
    cdef const float *others = NULL
    cdef const float *half = NULL
    cdef const float *gap = NULL
    cdef dp_sums *places
    rows.labels, rows.upper, rows.lower = &labels[0], &upper[0], &lower[0]
    if drift.shape[0]:
        moves, others, half, gap = &drift[0], &drift_others[0], &half_gap[0], &fresh_gap[0]
    places = _places(sums, n_threads)
    try:
        for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
            moved += dp_assign(
                &centres.c, &X[0, 0], rows, &places[omp_get_thread_num()], moves, others, half,
                &fresh[0] if fresh.shape[0] else NULL, fresh.shape[0], gap, start + b * block,
                min(start + (b + 1) * block, stop),
                &tile[omp_get_thread_num(), 0], &tally[omp_get_thread_num(), 0], &tally[omp_get_thread_num(), 1],
            )
    finally:
        free(places)
    if n_threads > 1:
        sums.gather()
    return moved, int(np.sum(tally[:, 0])), int(np.sum(tally[:, 1]))


def show(
    const floating[:, ::1] X not None,      # IN    (n, D)
    Centres centres not None,
    Py_ssize_t first,                       # newcomers are the centres from here on
    const float[::1] gap not None,          # IN    (K,) distance of every centre to the nearest other newcomer
    int32_t[::1] labels not None,           # INOUT (n,)
    float[::1] upper not None,              # INOUT (n,)
    float[::1] lower not None,              # INOUT (n,)
    Sums sums not None,                     # INOUT
    const int32_t[::1] order not None,      # IN    (n,) row of every place of the walk; empty: the rows as they stand
    Py_ssize_t start,
    Py_ssize_t stop,                        # places [start, stop)
    float[:, ::1] tile not None,            # WORK  (n_threads, TILE * D)
    int n_threads,
):
    """Rows go to the nearest of the newcomers where it is strictly nearer than their own centre; returns how many moved."""
    cdef Py_ssize_t block = block_rows(), b, moved = 0, n_blocks = (stop - start + block - 1) // block
    cdef const int32_t[::1] some = np.arange(first, centres.c.K, dtype=np.int32)
    cdef dp_rows rows
    cdef dp_sums *places
    rows.labels, rows.upper, rows.lower = &labels[0], &upper[0], &lower[0]
    places = _places(sums, n_threads)
    try:
        for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
            moved += dp_show(
                &centres.c, &some[0], first, &gap[0], &X[0, 0], rows, &places[omp_get_thread_num()],
                &order[0] if order.shape[0] else NULL, start + b * block, min(start + (b + 1) * block, stop),
                &tile[omp_get_thread_num(), 0],
            )
    finally:
        free(places)
    if n_threads > 1:
        sums.gather()
    return moved


def near(
    const float[::1] gap not None,          # IN    (K,) distance of every centre to the nearest other newcomer
    const int32_t[::1] labels not None,     # IN    (n,)
    const float[::1] upper not None,        # IN    (n,)
    float[::1] lower not None,              # INOUT (n,)
    const int32_t[::1] order not None,      # IN    (n,) or empty
    Py_ssize_t stop,
    int n_threads,
):
    """How near newcomers may be to the rows at places [0, stop), which have not been shown to all of them."""
    cdef Py_ssize_t block = block_rows(), b
    for b in prange((stop + block - 1) // block, nogil=True, schedule="static", num_threads=n_threads):
        _near(gap, labels, upper, lower, order, b * block, min((b + 1) * block, stop))


cdef void _near(
    const float[::1] gap, const int32_t[::1] labels, const float[::1] upper, float[::1] lower, const int32_t[::1] order,
    Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef Py_ssize_t place, i
    for place in range(start, stop):
        i = order[place] if order.shape[0] else place
        lower[i] = min(lower[i], (gap[labels[i]] - <float> fabs(upper[i])) * <float> (1.0 - 2.4e-7))


def next_beyond(
    const float[::1] upper not None,        # IN (n,)
    const int32_t[::1] order not None,      # IN (n,) or empty
    Py_ssize_t start,
    Py_ssize_t stop,
):
    """First place of [start, stop) whose row is beyond its limit, or -1."""
    cdef Py_ssize_t place = start
    with nogil:
        if order.shape[0]:
            while place < stop and not upper[order[place]] < 0.0:
                place += 1
        else:
            while place < stop and not upper[place] < 0.0:
                place += 1
    return place if place < stop else -1


def open_at(
    const floating[:, ::1] X not None,      # IN    (n, D)
    const double[:, ::1] mu not None,       # IN    (K, D) centres, the newcomer last
    double scale,                           # of the bounds
    Py_ssize_t row,                         # the row that becomes a centre
    int32_t[::1] labels not None,           # INOUT (n,)
    float[::1] upper not None,              # INOUT (n,)
    float[::1] lower not None,              # INOUT (n,)
    Sums sums not None,                     # INOUT
):
    """The row leaves its cluster for one of its own."""
    cdef Py_ssize_t D = X.shape[1]
    cdef int32_t newcomer = <int32_t> (mu.shape[0] - 1), old = labels[row]
    cdef dp_sums place
    sums.at(-1, &place)
    dp_add(&place, &X[row, 0], floating is float, D, old, row, -1)
    dp_add(&place, &X[row, 0], floating is float, D, newcomer, row, 1)
    lower[row] = min(lower[row], dp_below(sqrt(dp_distance(&X[row, 0], floating is float, &mu[old, 0], D)) * scale))
    upper[row] = 0.0
    labels[row] = newcomer


def farthest(
    const floating[:, ::1] X not None,      # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    double scale,                           # of the bounds
    const int32_t[::1] labels not None,     # IN  (n,)
    const float[::1] upper not None,        # IN  (n,)
):
    """The row furthest from its centre among those beyond their limit (ties: the first), or -1."""
    cdef Py_ssize_t i, n = X.shape[0], D = X.shape[1], best = -1
    cdef double most = -1.0, distance
    cdef float least = 0.0
    with nogil:
        for i in range(n):
            if upper[i] < 0.0 and -upper[i] >= least:
                distance = dp_distance(&X[i, 0], floating is float, &mu[labels[i], 0], D)
                if distance > most:
                    most, best, least = distance, i, dp_below(sqrt(distance) * scale)
    return best


def nearest(
    const floating[:, ::1] X not None,      # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    int32_t[::1] labels not None,           # OUT (n,) ties: the lowest; 0 where no distance is finite
    double[::1] squared not None,           # OUT (n,) squared distances
    int n_threads,
):
    """The nearest centre of every row."""
    cdef Py_ssize_t n = X.shape[0], D = X.shape[1], K = mu.shape[0], block = block_rows(), b
    cdef dp_centres c
    cdef dp_places places
    cdef double[::1] scratch = np.empty(dp_nearest_places(D, K, NULL, &places))
    cdef float[:, ::1] tile = np.empty((n_threads, DP_TILE * D), np.float32)
    cdef bint scan
    dp_nearest_places(D, K, &scratch[0], &places)
    c.D, c.K, c.single, c.mu = D, K, floating is float, &mu[0, 0]
    scan = K >= DP_WORTH_SCAN and dp_prepare(&c, D, &places)
    for b in prange((n + block - 1) // block, nogil=True, schedule="static", num_threads=n_threads):
        _nearest(&c, X, labels, squared, b * block, min((b + 1) * block, n), &tile[omp_get_thread_num(), 0] if scan else NULL)


cdef void _nearest(
    const dp_centres *c, const floating[:, ::1] X, int32_t[::1] labels, double[::1] squared, Py_ssize_t start, Py_ssize_t stop, float *tile,
) noexcept nogil:
    cdef Py_ssize_t i
    dp_nearest_rows(c, c.D, &X[start, 0], stop - start, c.D, &labels[start], &squared[start], NULL, tile)
    for i in range(start, stop):
        labels[i] = max(labels[i], 0)


def distances(
    const floating[:, ::1] X not None,      # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    double[:, ::1] out not None,            # OUT (n, K) squared
    int n_threads,
):
    """Squared distance of every row to every centre."""
    cdef Py_ssize_t i, k, n = X.shape[0], D = X.shape[1], K = mu.shape[0]
    for i in prange(n, nogil=True, schedule="static", num_threads=n_threads):
        for k in range(K):
            out[i, k] = dp_distance(&X[i, 0], floating is float, &mu[k, 0], D)


def draw_near(
    const floating[:, ::1] X not None,      # IN    (n, D)
    const double[::1] point not None,       # IN    (D,)
    double[::1] nearest not None,           # INOUT (n,) squared distance to the nearest point so far
    int n_threads,
):
    """One more point that rows may be near to."""
    cdef Py_ssize_t i, n = X.shape[0], D = X.shape[1]
    for i in prange(n, nogil=True, schedule="static", num_threads=n_threads):
        nearest[i] = min(nearest[i], dp_distance(&X[i, 0], floating is float, &point[0], D))


def own_distances(
    const floating[:, ::1] X not None,      # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    const int32_t[::1] labels not None,     # IN  (n,)
    Py_ssize_t start,
    double[::1] out not None,               # OUT (m,) of rows [start, start + m), squared
):
    """Squared distance of every row to its own centre."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = dp_distance(&X[start + i, 0], floating is float, &mu[labels[start + i], 0], X.shape[1])


def gaps(
    const double[:, ::1] mu not None,       # IN  (K, D)
    const int32_t[::1] some not None,       # IN  distances to these centres
    double factor,
    float[::1] out not None,                # OUT (K,) factor * distance to the nearest other of them, rounded down
):
    """How near the nearest of some centres is to every centre."""
    cdef Py_ssize_t K = mu.shape[0], D = mu.shape[1], j, k
    cdef double nearest, distance
    with nogil:
        for k in range(K):
            nearest = INFINITY
            for j in range(some.shape[0]):
                if some[j] != k:
                    distance = dp_distance(&mu[some[j], 0], False, &mu[k, 0], D)
                    nearest = min(nearest, distance)
            out[k] = dp_below(sqrt(nearest) * factor)


def drifts(
    const double[:, ::1] before not None,   # IN  (K, D)
    const double[:, ::1] after not None,    # IN  (K, D)
    double scale,
    float[::1] out not None,                # OUT (K,) scale * how far a centre moved, rounded up
):
    """How far the centres moved."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(before.shape[0]):
            out[k] = dp_above(sqrt(dp_distance(&before[k, 0], False, &after[k, 0], before.shape[1])) * scale)


def collapse(
    const floating[:, ::1] X not None,      # IN    (n, D)
    Centres centres not None,               # the reference and the scale of the bounds are used
    double[:, ::1] mu not None,             # INOUT (capacity, D) means
    float[:, ::1] centre not None,          # WORK  (capacity + PAD, D + 1)
    float[::1] half not None,               # WORK  (capacity + PAD,)
    float[::1] travelled not None,          # OUT   (capacity,) way of every mean, scaled
    float[::1] shrunk not None,             # WORK  (capacity,)
    const double[::1] step not None,        # IN    (D,) grid step over the weight of a count
    double unit,                            # weight of a count
    double slack,                           # a move must win more than that
    Py_ssize_t cap,
    Py_ssize_t K,                           # numbers in use
    int32_t[::1] labels not None,           # INOUT (n,)
    float[::1] upper not None,              # INOUT (n,) bound on the distance to the own mean, inf: unknown
    float[::1] lower not None,              # INOUT (n,) bound on the root of what any other cluster costs
    Sums sums not None,                     # INOUT
    const int32_t[::1] order not None,      # IN    (n,) or empty
    Py_ssize_t start,                       # place to begin at
    Py_ssize_t stop,
    float[:, ::1] tile not None,            # WORK  (n_threads, TILE * (D + 1))
):
    """Collapsed moves: every row in turn goes where the objective is smallest, and the means follow.

    Returns (place it came to, numbers in use, rows that moved, rows that were looked at, furthest way of a mean, least share of an f);
    it stops before `stop` where a cluster has to be opened and there is no room.
    """
    cdef dp_collapsed c
    cdef dp_sums place
    cdef dp_rows rows
    cdef Py_ssize_t k, at, moved = 0, looked = 0
    sums.at(-1, &place)
    rows.labels, rows.upper, rows.lower = &labels[0], &upper[0], &lower[0]
    c.D, c.K, c.capacity, c.cap, c.single = X.shape[1], K, mu.shape[0], cap, floating is float
    c.mu, c.centre, c.half, c.step = &mu[0, 0], &centre[0, 0], &half[0], &step[0]
    c.ref, c.ref_single, c.scale, c.reach = centres.c.ref, centres.c.ref_single, centres.c.scale, centres.c.reach
    c.unit, c.limit, c.slack, c.inside, c.n_clusters = unit, centres.c.limit, slack, centres.c.inside, 0
    c.travelled, c.shrunk = &travelled[0], &shrunk[0]
    with nogil:
        for k in range(c.capacity):
            shrunk[k] = 1.0
        for k in range(c.capacity + DP_PAD):
            half[k] = INFINITY
            centre[k, c.D] = 0.0
        for k in range(K):
            c.n_clusters += place.counts[k] != 0
            dp_refresh(&c, &place, k)
        for k in range(c.capacity):
            travelled[k] = 0.0
        c.far, c.least_shrunk = 0.0, 1.0
        at = dp_collapse(&c, &X[0, 0], rows, &place, &order[0] if order.shape[0] else NULL, start, stop, &tile[0, 0], &moved, &looked)
    return at, c.K, moved, looked, c.far, c.least_shrunk


def loosen(
    const int32_t[::1] labels not None,     # IN    (n,)
    const float[::1] travelled not None,    # IN    (K,)
    float far,
    float shrunk,
    float[::1] upper not None,              # INOUT (n,)
    float[::1] lower not None,              # INOUT (n,)
):
    """The bounds of collapsed moves after the means went their ways."""
    cdef Py_ssize_t i
    cdef float share = <float> (sqrt(shrunk) * (1.0 - 2.4e-7)), more = <float> (1.0 + 2.4e-7)
    with nogil:
        for i in range(labels.shape[0]):
            upper[i] = (upper[i] + travelled[labels[i]]) * more
            lower[i] = (lower[i] * share - far) * (<float> 2.0 - more)
