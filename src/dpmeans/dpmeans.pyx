"""DP-means: centres, exact sums of rows, distances. The sweeps over the rows are those of dpmeans_sweep."""

import numpy as np

from cython.parallel cimport parallel, prange
from libc.math cimport INFINITY, frexp, ldexp, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from craftc._kernels._common cimport block_rows, check, check_indices, check_threads, omp_get_thread_num
from craftc._kernels._team cimport team_end, team_help, team_job, team_start, team_step
from craftc._kernels.dpmeans cimport (
    DP_CHECKED, DP_PAD, DP_TILE, DP_WORTH_CLUSTERS, DP_WORTH_COLUMNS, DP_WORTH_SCAN, Blocks, Sums, dp_above,
    dp_add_rows, dp_below, dp_beyond_rows, dp_centres, dp_distance, dp_nearest_places, dp_nearest_rows,
    dp_own_distances, dp_places, dp_prepare, dp_sum_rows, dp_sums,
)
from craftc._kernels.moments cimport rows_numeric, rows_of, table_rows
from craftc._kernels.parallel import first_aligned

cdef extern from "float.h":
    const float FLT_MAX

cdef enum:
    FEWEST = 128    # rows of a block, at least, where several threads share out rows
    PIECES = 16     # blocks for each of them, at least, of a table that is long enough
    # clusters between the sums of two threads, which then have no pair of cache lines in common
    APART = 16

TILE, PAD = DP_TILE, DP_PAD
MOST_MOVED = DP_CHECKED - 1
WORTH_CLUSTERS, WORTH_COLUMNS = DP_WORTH_CLUSTERS, DP_WORTH_COLUMNS


cdef class Centres:
    """Centres as the kernels read them. Arrays are kept alive.

    Parameters
    ----------
    mu : ndarray (K, D) of float64, contiguous
    ref : ndarray (D,) of float64
        A point within the table whose cells are representable in single precision.
    reach : float
        Largest distance of a cell from `ref`, roughly.
    limit : float
        lambda^2: a row further than this from every centre may open a cluster; inf: none may.
    single : bool
        Whether the table is float32.
    """

    def __cinit__(self, mu, ref: Floats, double reach, double limit, bint single):
        cdef const double[:, ::1] m = mu
        cdef const double[::1] r = ref
        cdef Py_ssize_t K = m.shape[0], D = m.shape[1], k, d
        cdef int exponent = 0
        cdef double cell, square, most = 0.0, scaled
        check(D > 0 and r.shape[0] == D, "ref")
        frexp(reach, &exponent)
        self.c.scale = ldexp(1.0, -max(-126 if single else -1000, min(exponent, 126 if single else 1000)))
        centre = np.zeros((K + DP_PAD, D), np.float32)
        half = np.empty(K + DP_PAD, np.float32)
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
        for k in range(K, K + DP_PAD):
            h[k] = INFINITY
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
    def scale(self) -> float:
        """Factor of the distances in the bounds."""
        return self.c.scale


cdef class Sums:
    """Exact sums of the rows of every cluster: integers on a grid, fine enough for their sums to stay below
    2^62.

    Parameters
    ----------
    centre, scale : ndarray (D,) of float64
        q = rint((x - centre) * scale).
    weight : ndarray (n,) of int64, or empty = all one
    share : ndarray (n,) of float64, or empty
        The weights if they are not integers: w (x - centre) scale is then rounded as one product.
    unit_weight : ndarray (n,) of float64, or empty
        min(w, 1), if any weight is below 1.
    capacity : int
        Clusters there is room for.
    n_threads : int
    """

    def __cinit__(self, centre, scale, weight, share, unit_weight, Py_ssize_t capacity, int n_threads):
        self.centre, self.scale, self.weight = centre, scale, weight
        self.share, self.unit_weight = share, unit_weight
        self.centre_, self.scale_, self.weight_ = centre, scale, weight
        self.share_, self.unit_weight_ = share, unit_weight
        check(self.scale_.shape[0] == self.centre_.shape[0], "scale")
        check(capacity >= 0, "capacity")
        check_threads(n_threads)
        self.n_threads = n_threads
        self._make_room(capacity)

    def _make_room(self, Py_ssize_t capacity):
        """Allocate sums for every thread, each on cache lines of its own; the first become the totals."""
        cdef Py_ssize_t rows = capacity + APART, D = self.centre_.shape[0], skip
        room = np.zeros(self.n_threads * rows * D + 8, np.int64)
        skip = first_aligned(room.view(np.float64))
        self.of_threads = room[skip : room.size - 8 + skip].reshape(self.n_threads, rows, D)
        self.counts_of_threads = np.zeros((self.n_threads, capacity + APART), np.int64)
        self.sums, self.counts = self.of_threads[0, :capacity], self.counts_of_threads[0, :capacity]

    def grow(self, Py_ssize_t capacity):
        """Make room for `capacity` clusters."""
        sums, counts = self.sums, self.counts
        if capacity > len(counts):
            self._make_room(capacity)
            self.sums[: len(sums)], self.counts[: len(counts)] = sums, counts

    def keep(self, clusters: Positions):
        """Keep these clusters alone, renumbered in the given order."""
        sums, counts = self.sums[clusters], self.counts[clusters]
        self.clear()
        self.sums[: len(sums)] = sums
        self.counts[: len(counts)] = counts

    def clear(self):
        """Sums of no rows."""
        self.sums[:] = 0
        self.counts[:] = 0

    cdef void at(self, int thread, dp_sums *out) noexcept:
        cdef int64_t[:, ::1] sums = self.of_threads[thread]
        cdef int64_t[::1] counts = self.counts_of_threads[thread]
        out.centre, out.scale = &self.centre_[0], &self.scale_[0]
        out.sums, out.counts = &sums[0, 0], &counts[0]
        out.weight = &self.weight_[0] if self.weight_.shape[0] else NULL
        out.share = &self.share_[0] if self.share_.shape[0] else NULL
        out.unit_weight = &self.unit_weight_[0] if self.unit_weight_.shape[0] else NULL


cdef int check_rows(X, Centres centres, Py_ssize_t n) except -1:
    """Raise unless X has n rows, and the columns and the type for which the centres were made."""
    return check(X.ndim == 2 and X.shape[0] == n and X.shape[1] == centres.c.D
                 and rows_of(X).single == centres.c.single, "X")


cdef int check_sums(Sums sums, X, Py_ssize_t n_clusters, int n_threads) except -1:
    """Raise unless the sums have the columns and weights of X, and room for the clusters and threads."""
    cdef Py_ssize_t n = X.shape[0]
    check_threads(n_threads)
    check(n_threads == 1 or n_threads <= sums.n_threads, "n_threads")
    check(sums.centre_.shape[0] == X.shape[1] and 1 <= n_clusters <= len(sums.counts), "sums")
    check(sums.weight_.shape[0] in (0, n), "weight")
    check(sums.share_.shape[0] in (0, n), "share")
    check(sums.unit_weight_.shape[0] in (0, n), "unit_weight")
    return 0


# ---- blocks of rows for several threads ----

cdef int blocks_of(
    Sums sums, Py_ssize_t K, Py_ssize_t start, Py_ssize_t stop, int n_threads, Blocks *out,
) except -1:
    """Blocks of rows for the first K sums; `out.places` is to be freed."""
    cdef int t
    out.places = <dp_sums *> calloc(n_threads, sizeof(dp_sums))
    if out.places == NULL:
        raise MemoryError("No memory is left for the sums of a sweep.")
    for t in range(n_threads):
        sums.at(t, &out.places[t])
    out.D, out.K = sums.centre_.shape[0], K
    set_blocks(out, start, stop, n_threads)
    return 0


cdef void set_blocks(Blocks *out, Py_ssize_t start, Py_ssize_t stop, int n_threads) noexcept nogil:
    """As many rows in a block as keep all threads busy to the end; one block for one thread."""
    out.start, out.stop, out.n_threads, out.rows = start, stop, n_threads, max(1, stop - start)
    if n_threads > 1:
        out.rows = min(block_rows(), max(FEWEST, out.rows // (PIECES * n_threads)))


cdef void share_out(Blocks *b, team_job job, void *context) noexcept nogil:
    """The leader of a team: job(context, block, thread) for every block of rows, then the sums of all
    threads.
    """
    team_step(&b.threads, job, context, <int> ((b.stop - b.start + b.rows - 1) // b.rows))
    if b.n_threads > 1:
        team_step(&b.threads, join_sums, b, <int> b.K)


cdef void each_block(Blocks *b, team_job job, void *context) noexcept nogil:
    """A team of threads that does this alone."""
    team_start(&b.threads)
    with parallel(num_threads=b.n_threads, use_threads_if=b.n_threads > 1):
        if omp_get_thread_num() == 0:
            share_out(b, job, context)
            team_end(&b.threads)
        else:
            team_help(&b.threads, omp_get_thread_num())


cdef void join_sums(void *blocks, int cluster, int thread) noexcept nogil:
    """The sums of a cluster, in the place of the first thread; those of the others are 0 again."""
    cdef const Blocks *b = <const Blocks *> blocks
    cdef Py_ssize_t at
    cdef int t
    for t in range(1, b.n_threads):
        for at in range(cluster * b.D, (cluster + 1) * b.D):
            b.places[0].sums[at] += b.places[t].sums[at]
            b.places[t].sums[at] = 0
        b.places[0].counts[cluster] += b.places[t].counts[cluster]
        b.places[t].counts[cluster] = 0


cdef struct Additions:
    Blocks blocks
    table_rows table
    const int32_t *labels


cdef void add_block(void *context, int block, int thread) noexcept nogil:
    cdef Additions *a = <Additions *> context
    cdef Py_ssize_t start = block * a.blocks.rows, stop = min(start + a.blocks.rows, a.blocks.stop)
    cdef const dp_sums *place = &a.blocks.places[thread]
    if a.labels == NULL:
        dp_sum_rows(place, a.table.numeric, a.table.single, a.table.p, start, stop)
    else:
        dp_add_rows(place, a.table.numeric, a.table.single, a.table.p, a.labels, start, stop)


def accumulate(
    X not None,                             # IN    (n, D)
    const int32_t[::1] labels,              # IN    (n,) or None: all rows belong to the first cluster
    Sums sums not None,                     # INOUT
    int n_threads,
):
    """Add every row to its cluster."""
    check(X.ndim == 2 and (labels is None or X.shape[0] == labels.shape[0]), "X")
    check_sums(sums, X, 1, n_threads)
    cdef Additions a
    a.table, a.labels = rows_of(X), NULL
    if labels is not None and labels.shape[0]:
        check_indices(labels, 0, len(sums.counts), "labels")
        a.labels = &labels[0]
    blocks_of(sums, len(sums.counts), 0, a.table.n, n_threads, &a.blocks)
    with nogil:
        each_block(&a.blocks, add_block, &a)
    free(a.blocks.places)


def farthest(
    X not None,                             # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    double scale,                           # of the bounds
    const int32_t[::1] labels not None,     # IN  (n,)
    const float[::1] upper not None,        # IN  (n,)
) -> int:
    """The row furthest from its centre among those beyond their limit (ties: the first), or -1."""
    check(X.ndim == 2 and X.shape[0] == labels.shape[0] and X.shape[1] == mu.shape[1], "X")
    check(upper.shape[0] == labels.shape[0], "upper")
    check_indices(labels, 0, mu.shape[0], "labels")
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t i, n = table.n, D = table.p, best = -1
    cdef double most = -1.0, distance
    cdef float least = 0.0
    with nogil:
        for i in range(n):
            if upper[i] < 0.0 and -upper[i] >= least:
                distance = dp_distance(rows_numeric(&table, i), table.single, &mu[labels[i], 0], D)
                if distance > most:
                    most, best, least = distance, i, dp_below(sqrt(distance) * scale)
    return best


def nearest(
    X not None,                             # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    int32_t[::1] labels not None,           # OUT (n,) ties: the lowest; 0 where no distance is finite
    double[::1] squared not None,           # OUT (n,) squared distances
    int n_threads,
):
    """The nearest centre of every row."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == labels.shape[0] and X.shape[1] == mu.shape[1], "X")
    check(mu.shape[0] >= 1, "mu")
    check(squared.shape[0] == labels.shape[0], "squared")
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t n = table.n, D = table.p, K = mu.shape[0], block = block_rows(), b
    cdef dp_centres c
    cdef dp_places places
    cdef double[::1] scratch = np.empty(dp_nearest_places(D, K, NULL, &places))
    cdef float[:, ::1] tile = np.empty((n_threads, DP_TILE * D), np.float32)
    cdef bint scan
    dp_nearest_places(D, K, &scratch[0], &places)
    c.D, c.K, c.single, c.mu = D, K, table.single, &mu[0, 0]
    scan = K >= DP_WORTH_SCAN and dp_prepare(&c, D, &places)
    for b in prange((n + block - 1) // block, nogil=True, schedule="static", num_threads=n_threads):
        _nearest(&c, &table, labels, squared, b * block, min((b + 1) * block, n),
                 &tile[omp_get_thread_num(), 0] if scan else NULL)


cdef void _nearest(
    const dp_centres *c, const table_rows *table, int32_t[::1] labels, double[::1] squared, Py_ssize_t start,
    Py_ssize_t stop, float *tile,
) noexcept nogil:
    cdef Py_ssize_t i
    dp_nearest_rows(c, c.D, rows_numeric(table, start), stop - start, c.D, &labels[start], &squared[start],
                    NULL, tile)
    for i in range(start, stop):
        labels[i] = max(labels[i], 0)


def beyond(
    X not None,                             # IN  (n, D)
    Centres centres not None,               # at least one
    const double[::1] share not None,       # IN  (n,) by which squared distances count, at most 1; or empty
    uint8_t[::1] out not None,              # OUT (n,)
    int n_threads,
):
    """Whether the rows are further than the limit from all centres."""
    check_threads(n_threads)
    check_rows(X, centres, out.shape[0])
    check(centres.c.K >= 1, "centres")
    check(share.shape[0] in (0, out.shape[0]), "share")
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t n = table.n, block = block_rows(), b
    cdef float[:, ::1] tile = np.empty((n_threads, DP_TILE * table.p), np.float32)
    for b in prange((n + block - 1) // block, nogil=True, schedule="static", num_threads=n_threads):
        dp_beyond_rows(&centres.c, rows_numeric(&table, b * block), min(block, n - b * block),
                       &share[b * block] if share.shape[0] else NULL, &out[b * block],
                       &tile[omp_get_thread_num(), 0])


def leaders(
    X not None,                             # IN  (n, D)
    const Py_ssize_t[::1] rows not None,    # IN  rows that may be leaders, in order
    const double[::1] share not None,       # IN  (n,) by which squared distances count, at most 1; or empty
    double limit,
    double[:, ::1] found not None,          # OUT (m, D) their cells
) -> tuple[int, int]:
    """The first of some rows, and in order each that is further than the limit from all leaders before it
    (Hartigan 1975).

    Returns their number and the position among the rows up to which they were sought: the end, or where there
    was no more room.
    """
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t n = 0, position = 0, D = table.p, i, k, d
    cdef double unit
    cdef const void *x
    check(found.shape[1] == D, "found")
    check(share.shape[0] in (0, table.n), "share")
    for position in range(rows.shape[0]):
        check(0 <= rows[position] < table.n, "rows")
    position = 0
    with nogil:
        while position < rows.shape[0] and n < found.shape[0]:
            i = rows[position]
            x, unit, k = rows_numeric(&table, i), share[i] if share.shape[0] else 1.0, 0
            while k < n and dp_distance(x, table.single, &found[k, 0], D) * unit > limit:
                k += 1
            if k == n:
                for d in range(D):
                    found[n, d] = (<const float *> x)[d] if table.single else (<const double *> x)[d]
                n += 1
            position += 1
    return n, position


def distances(
    X not None,                             # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    double[:, ::1] out not None,            # OUT (n, K) squared
    int n_threads,
):
    """Squared distance of every row to every centre."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == out.shape[0] and X.shape[1] == mu.shape[1], "X")
    check(out.shape[1] == mu.shape[0], "out")
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t i, k, n = table.n, D = table.p, K = mu.shape[0]
    for i in prange(n, nogil=True, schedule="static", num_threads=n_threads):
        for k in range(K):
            out[i, k] = dp_distance(rows_numeric(&table, i), table.single, &mu[k, 0], D)


def pair_distances(
    const double[:, ::1] mu not None,       # IN  (K, D)
    double[:, ::1] out not None,            # OUT (K, K) squared
):
    """Squared distances of all pairs of centres."""
    check(out.shape[0] == mu.shape[0] and out.shape[1] == mu.shape[0], "out")
    cdef Py_ssize_t K = mu.shape[0], D = mu.shape[1], j, k
    with nogil:
        for k in range(K):
            out[k, k] = 0.0
            for j in range(k):
                out[k, j] = out[j, k] = dp_distance(&mu[j, 0], False, &mu[k, 0], D)


cdef struct Own:
    Blocks blocks
    table_rows table
    const double *mu
    const int32_t *labels
    double *squared


cdef void own_block(void *context, int block, int thread) noexcept nogil:
    cdef const Own *o = <const Own *> context
    cdef Py_ssize_t start = block * o.blocks.rows, stop = min(start + o.blocks.rows, o.blocks.stop)
    dp_own_distances(o.table.numeric, o.table.single, o.table.p, o.mu, o.labels, o.squared, start, stop)


def own_distances(
    X not None,                             # IN  (n, D)
    const double[:, ::1] mu not None,       # IN  (K, D)
    const int32_t[::1] labels not None,     # IN  (n,) -1 = none
    double[::1] squared not None,           # OUT (n,) 0 where there is none
    int n_threads,
):
    """Squared distance of every row to the centre of its cluster."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == labels.shape[0] and X.shape[1] == mu.shape[1], "X")
    check(squared.shape[0] == labels.shape[0], "squared")
    check_indices(labels, -1, mu.shape[0], "labels")
    cdef Own o
    o.table = rows_of(X)
    if o.table.n == 0:
        return
    o.mu, o.labels, o.squared, o.blocks.K = &mu[0, 0], &labels[0], &squared[0], 0
    set_blocks(&o.blocks, 0, o.table.n, n_threads)
    with nogil:
        each_block(&o.blocks, own_block, &o)


def update_nearest(
    X not None,                             # IN    (n, D)
    const double[::1] point not None,       # IN    (D,)
    double[::1] nearest not None,           # INOUT (n,) squared distance to the nearest point so far
    int n_threads,
):
    """Update the distances of all rows after one more point was added."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == nearest.shape[0] and X.shape[1] == point.shape[0], "X")
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t i, n = table.n, D = table.p
    for i in prange(n, nogil=True, schedule="static", num_threads=n_threads):
        nearest[i] = min(nearest[i], dp_distance(rows_numeric(&table, i), table.single, &point[0], D))


def gaps(
    const double[:, ::1] mu not None,       # IN  (K, D)
    const int32_t[::1] some not None,       # IN  distances to these centres
    double factor,
    float[::1] out not None,                # OUT (K,) factor * distance to the nearest other of them, rounded
                                            # down
):
    """How near the nearest of some centres is to every centre."""
    check(out.shape[0] == mu.shape[0], "out")
    check_indices(some, 0, mu.shape[0], "numbers of centres")
    cdef Py_ssize_t K = mu.shape[0], D = mu.shape[1], j, k, one
    cdef double distance
    cdef double[::1] nearest = np.empty(K)
    cdef uint8_t[::1] among = np.empty(K, np.uint8)
    with nogil:
        for k in range(K):
            nearest[k], among[k] = INFINITY, False
        for j in range(some.shape[0]):
            among[some[j]] = True
        for j in range(some.shape[0]):
            one = some[j]
            for k in range(K):
                if k < one if among[k] else k != one:       # each pair of them once
                    distance = dp_distance(&mu[one, 0], False, &mu[k, 0], D)
                    nearest[k] = min(nearest[k], distance)
                    if among[k]:
                        nearest[one] = min(nearest[one], distance)
        for k in range(K):
            out[k] = dp_below(sqrt(nearest[k]) * factor)


def means(
    const int64_t[:, ::1] sums not None,    # IN  (K or more, D)
    const int64_t[::1] counts not None,     # IN  (K or more,)
    const double[::1] middle not None,      # IN  (D,) mean = middle + sum / count * step
    const double[::1] step not None,        # IN  (D,)
    double[:, ::1] out not None,            # OUT (K, D) the middle where there are no rows
):
    """Means of clusters from their sums."""
    check(sums.shape[0] >= out.shape[0] and sums.shape[1] == out.shape[1], "sums")
    check(counts.shape[0] >= out.shape[0], "counts")
    check(middle.shape[0] == out.shape[1] and step.shape[0] == out.shape[1], "middle or step")
    cdef Py_ssize_t k, d
    cdef double count
    with nogil:
        for k in range(out.shape[0]):
            count = <double> max(counts[k], 1)
            for d in range(out.shape[1]):
                out[k, d] = middle[d] + <double> sums[k, d] / count * step[d]


def scatter_between(
    const double[:, ::1] mu not None,       # IN  (K, D)
    const int64_t[::1] counts not None,     # IN  (K or more,)
    const double[::1] mean not None,        # IN  (D,)
) -> float:
    """sum_k count_k |mu_k - mean|^2, a compensated sum (Neumaier 1974)."""
    check(counts.shape[0] >= mu.shape[0], "counts")
    check(mean.shape[0] == mu.shape[1], "mean")
    cdef Py_ssize_t k
    cdef double total = 0.0, lost = 0.0, part, sum
    with nogil:
        for k in range(mu.shape[0]):
            part = <double> counts[k] * dp_distance(&mu[k, 0], False, &mean[0], mu.shape[1])
            sum = total + part
            lost += (total - sum) + part if total >= part else (part - sum) + total
            total = sum
    return total + lost


def drifts(
    const double[:, ::1] before not None,   # IN  (K, D)
    const double[:, ::1] after not None,    # IN  (K, D)
    double scale,
    float[::1] out not None,                # OUT (K,) scale * how far a centre moved, rounded up
):
    """How far the centres moved."""
    check(after.shape[0] == before.shape[0] and after.shape[1] == before.shape[1], "after")
    check(out.shape[0] == before.shape[0], "out")
    cdef Py_ssize_t k
    with nogil:
        for k in range(before.shape[0]):
            out[k] = dp_above(sqrt(dp_distance(&before[k, 0], False, &after[k, 0], before.shape[1])) * scale)
