"""Merges and splits of CRAFT from exact moments: what merges of pairs add to the objective, and merges and
splits under the pooled background, each priced with the masks of all clusters.
"""

import numpy as np

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memmove

from craftc._kernels._common cimport check, check_threads, omp_get_thread_num
from craftc._kernels.craft_masks cimport CONTINUE, KEEP, add_cells, price_masks
from craftc._kernels.craft_pooled cimport check_room, share_cells, share_rest
from craftc._kernels.craft_price cimport (
    PRICED, Pricing, check_selection, fit_over_table, parts_in, parts_length, price_of_union,
)
from craftc._kernels.moments cimport moments_merge

cdef enum:
    COMPARED = 20       # clusters up to which all proposed merges are compared


def pair_deltas(
    const int64_t[:, ::1] groups not None,  # IN    (K, width)
    const double[::1] cost not None,        # IN    (K,)
    Pricing pricing not None,
    Py_ssize_t only,                        # one cluster, or -1 for all pairs
    double[:, ::1] delta not None,          # INOUT (K, K) upper triangle: cost(i + j) - cost_i - cost_j
    int64_t[:, ::1] union not None,         # WORK  (n_threads, width)
    double[:, ::1] fits not None,           # WORK  (K, parts_size)
    double[:, ::1] work not None,           # WORK  (n_threads, parts_size)
    uint8_t[:, ::1] mask not None,          # WORK  (n_threads, D)
    int n_threads,
):
    """What merging each pair of clusters would add to the objective, from summed moments alone."""
    check(-1 <= only < groups.shape[0], "only")
    check_threads(n_threads)
    check(groups.shape[1] == pricing.grid.width, "groups")
    check(cost.shape[0] == groups.shape[0], "cost")
    check(delta.shape[0] == groups.shape[0] and delta.shape[1] == groups.shape[0], "delta")
    check(union.shape[0] >= n_threads and union.shape[1] >= pricing.grid.width, "union")
    check(work.shape[0] >= n_threads and work.shape[1] >= parts_length(pricing), "work")
    check(fits.shape[0] >= groups.shape[0] and fits.shape[1] >= parts_length(pricing), "fits")
    check_selection(pricing, PRICED)
    check(mask.shape[0] >= n_threads and mask.shape[1] >= (pricing.grid.p + pricing.grid.q), "mask")
    if groups.shape[0] > 0:
        with nogil:
            _fit_all(pricing, groups, groups.shape[0], fits)
            deltas_between(groups, groups.shape[0], cost, pricing, only, &delta[0, 0], groups.shape[0], union,
                           fits, work, mask, n_threads)


cdef void _fit_all(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] fits,
) noexcept nogil:
    """Parameters and gains of the first K groups over the whole table."""
    cdef Py_ssize_t k
    for k in range(K):
        fit_over_table(P, &groups[k, 0], parts_in(P, &fits[k, 0]), True)


cdef void deltas_between(
    const int64_t[:, ::1] groups, Py_ssize_t K, const double[::1] cost, Pricing P, Py_ssize_t only,
    double *delta, Py_ssize_t stride, int64_t[:, ::1] union, double[:, ::1] fits, double[:, ::1] work,
    uint8_t[:, ::1] mask, int n_threads,
) noexcept nogil:
    """The same, of the first K groups, fitted; the rows of `delta` are `stride` numbers apart."""
    cdef Py_ssize_t i
    if n_threads == 1:
        for i in range(K):
            _deltas_of(groups, K, cost, P, only, i, delta, stride, &union[0, 0], fits, &work[0, 0],
                       &mask[0, 0], True)
        return
    for i in prange(K, schedule="dynamic", num_threads=n_threads):
        _deltas_of(groups, K, cost, P, only, i, delta, stride, &union[omp_get_thread_num(), 0], fits,
                   &work[omp_get_thread_num(), 0], &mask[omp_get_thread_num(), 0], False)


cdef void _deltas_of(
    const int64_t[:, ::1] groups, Py_ssize_t K, const double[::1] cost, Pricing P, Py_ssize_t only,
    Py_ssize_t i, double *delta, Py_ssize_t stride, int64_t *union, double[:, ::1] fits, double *work,
    uint8_t *mask, bint alone,
) noexcept nogil:
    """Pairs of cluster i with all that follow it, or with `only` alone."""
    cdef Py_ssize_t j
    if only >= 0 and i != only:
        j = max(i, only)
        i = min(i, only)
        delta[i * stride + j] = _delta(groups, cost, P, i, j, union, fits, work, mask, alone)
    for j in range(i + 1, K if only < 0 else 0):
        delta[i * stride + j] = _delta(groups, cost, P, i, j, union, fits, work, mask, alone)


cdef inline double _delta(
    const int64_t[:, ::1] groups, const double[::1] cost, Pricing P, Py_ssize_t i, Py_ssize_t j,
    int64_t *union, double[:, ::1] fits, double *work, uint8_t *mask, bint alone,
) noexcept nogil:
    cdef Py_ssize_t d, start, numeric = P.grid.first_numeric, n_numeric = P.grid.width - numeric
    union[0] = groups[i, 0] + groups[j, 0]
    for d in range(P.grid.q):
        start = 1 + P.grid.level_start_[d]
        if P.tilt[d].n == 0:        # cells of tilted columns, whose sums are known, are not read
            memcpy(union + start, &groups[i, start], P.n_levels[d] * sizeof(int64_t))
            add_cells(P, P.grid.p + d, union + start, &groups[j, start], 1)
    memcpy(union + numeric, &groups[i, 0] + numeric, n_numeric * sizeof(int64_t))
    moments_merge(union + numeric, &groups[j, 0] + numeric, 1, 0, n_numeric)
    return price_of_union(P, union, parts_in(P, work), parts_in(P, &fits[i, 0]), parts_in(P, &fits[j, 0]),
                          mask, alone) - cost[i] - cost[j]


# ---- the pooled background ----

cdef class MergeSpace:
    """Workspace of merges and splits under the pooled background.

    Parameters
    ----------
    pricing : Pricing
    capacity : int
        Largest number of clusters.
    n_threads : int

    Attributes
    ----------
    groups : ndarray (2, capacity, width) of int64, mask : ndarray (2, capacity, D) of uint8
        Clusters and masks of two candidates.
    cost : ndarray (capacity,)
        Costs of the better one.
    """

    def __cinit__(self, Pricing pricing not None, Py_ssize_t capacity, int n_threads):
        check(capacity > 0, "capacity")
        check_threads(n_threads)
        width, n_parts = pricing.grid.width, parts_length(pricing)
        self.capacity, self.n_threads = capacity, n_threads
        self.groups = np.empty((2, capacity, width), np.int64)
        self.mask = np.empty((2, capacity, pricing.D), np.uint8)
        self.cost, self.union = np.empty(capacity), np.empty((n_threads, width), np.int64)
        self.groups_, self.mask_, self.cost_ = self.groups, self.mask, self.cost
        self.one_mask = np.empty((n_threads, pricing.D), np.uint8)
        self.fits, self.work = np.empty((capacity, n_parts)), np.empty((max(capacity, n_threads), n_parts))


cdef int check_clusters(
    Pricing P, MergeSpace space, Py_ssize_t K, const int64_t[:, ::1] groups, const uint8_t[:, ::1] mask,
) except -1:
    """Raise unless the arrays hold K clusters, and the workspace and the pricing have room for them."""
    check(0 < K <= groups.shape[0], "K")
    check(groups.shape[1] == P.grid.width, "groups")
    check(mask.shape[0] >= K and mask.shape[1] == P.D, "mask")
    check(space.groups_.shape[2] == P.grid.width and space.mask_.shape[2] == P.D, "space")
    check_room(P, K, groups, space.work, space.mask_[0], space.cost_)
    return 0


def best_merge(
    const int64_t[:, ::1] groups not None,  # IN    (K, width), none empty
    const uint8_t[:, ::1] mask not None,    # IN    (K, D)
    const Py_ssize_t[:, ::1] pairs not None,  # IN  (n, 2) clusters i < j that may be merged; those behind j
                                              # move one down
    Pricing pricing not None,               # OUT   as in price_partition
    MergeSpace space not None,              # OUT   K - 1 clusters, masks and costs
) -> tuple[int, int, float]:
    """The merge of the lowest J, ties to the earlier pair: its position, which of the two candidates of the
    space it is, and J - J_0.

    A union selects what both select, or what one selects, whichever costs less; the masks are then continued
    from there.
    """
    cdef Py_ssize_t K = groups.shape[0], n, best
    cdef int at = 0
    cdef double least = 0.0
    check_clusters(pricing, space, K, groups, mask)
    check(pairs.shape[0] > 0 and pairs.shape[1] == 2, "pairs")
    for n in range(pairs.shape[0]):
        check(0 <= pairs[n, 0] < pairs[n, 1] < K, "pairs")
    with nogil:
        _fit_all(pricing, groups, K, space.fits)
        best = _best_merge(pricing, groups, K, mask, pairs, pairs.shape[0], space, &at, &least)
    return best, at, least


cdef Py_ssize_t _best_merge(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, const uint8_t[:, ::1] mask,
    const Py_ssize_t[:, ::1] pairs, Py_ssize_t n_pairs, MergeSpace space, int *best_at, double *least,
) noexcept nogil:
    """The loop of `best_merge`, of K fitted clusters; the workspace receives the fits of those left."""
    cdef Py_ssize_t n, best = -1
    cdef int at = 0
    cdef double total
    for n in range(n_pairs):
        total = _price_merge(P, groups, K, mask, pairs[n, 0], pairs[n, 1], space, at)
        if best < 0 or total < least[0]:
            best, least[0], best_at[0] = n, total, at
            at = 1 - at
    if best < n_pairs - 1:      # the fits of another merge are in the workspace
        _fit_merge(P, groups, K, pairs[best, 0], pairs[best, 1], space, best_at[0])
    share_rest(P, space.groups_[best_at[0]], K - 1, space.work, space.mask_[best_at[0]], space.cost_)
    return best


cdef void _fit_merge(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, Py_ssize_t i, Py_ssize_t j, MergeSpace space,
    int at,
) noexcept nogil:
    """Clusters after a merge, and their parameters and gains from the fits of the clusters before it."""
    cdef Py_ssize_t k, parts = parts_length(P) * sizeof(double), width = P.grid.width * sizeof(int64_t)
    for k in range(K - 1):
        memcpy(&space.groups_[at, k, 0], &groups[k + (k >= j), 0], width)
        memcpy(&space.work[k, 0], &space.fits[k + (k >= j), 0], parts)
    moments_merge(&space.groups_[at, i, 0], &groups[j, 0], 1, P.grid.first_numeric, P.grid.width)
    fit_over_table(P, &space.groups_[at, i, 0], parts_in(P, &space.work[i, 0]), True)


cdef double _price_merge(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, const uint8_t[:, ::1] mask, Py_ssize_t i,
    Py_ssize_t j, MergeSpace space, int at,
) noexcept nogil:
    """J - J_0 after a merge; the space receives clusters and masks."""
    cdef Py_ssize_t k, d
    cdef uint8_t[:, ::1] chosen = space.mask_[at]
    cdef double with_both, with_either
    _fit_merge(P, groups, K, i, j, space, at)
    for k in range(K - 1):
        memcpy(&chosen[k, 0], &mask[k + (k >= j), 0], P.D)
    for d in range(P.D):
        chosen[i, d] = mask[i, d] & mask[j, d]
    if memcmp(&mask[i, 0], &mask[j, 0], P.D) != 0:
        with_both = price_masks(P, space.groups_[at], K - 1, KEEP, space.work, chosen)
        for d in range(P.D):
            chosen[i, d] = mask[i, d] | mask[j, d]
        with_either = price_masks(P, space.groups_[at], K - 1, KEEP, space.work, chosen)
        for d in range(P.D if with_both < with_either else 0):
            chosen[i, d] = mask[i, d] & mask[j, d]
    return price_masks(P, space.groups_[at], K - 1, CONTINUE, space.work, chosen)


UNKNOWN = DELTAS_UNKNOWN


def merge_while_cheaper(
    int64_t[:, ::1] groups not None,        # INOUT (capacity, width) the first K are clusters, none empty
    uint8_t[:, ::1] mask not None,          # INOUT (capacity, D)
    double[::1] cost not None,              # INOUT (capacity,)
    int64_t[::1] shared not None,           # INOUT (width,) moments of the cells that clusters share
    Py_ssize_t K,
    double excess,                          # J - J_0 of the clusters
    double[:, ::1] deltas not None,         # INOUT (n, n), n >= K: changes of J by the merges of i < j, as
                                            # `pair_deltas` gives them
    int known,                              # UNKNOWN, or what the last call has returned
    int32_t[::1] place not None,            # INOUT (m,) cluster of each label
    Pricing pricing not None,               # OUT   as in price_partition
    MergeSpace space not None,              # WORK
    Py_ssize_t[:, ::1] pairs not None,      # WORK  (n, 2) merges that are priced exactly
    double tolerance,                       # nats by which a merge must lower J
    Py_ssize_t most,                        # merges in this call
    int n_threads_of_one,                   # for the deltas of one cluster
    int n_threads,                          # for those of all pairs
) -> tuple[int, float, int, bool]:
    """Merge the pair that lowers J most, of those cheapest against the present shared distributions, while
    one does; of more than 20 clusters the cheapest pair if it lowers J.

    The distributions, and with them the deltas of all pairs, change with every merge. Only those of the new
    cluster are computed again, until no merge lowers J; then all are. Returns K, J - J_0, what is known of
    the deltas, and whether the merges have come to their end.
    """
    cdef bint ended = False
    check_clusters(pricing, space, K, groups, mask)
    check(cost.shape[0] >= K, "cost")
    check(shared.shape[0] == pricing.grid.width, "shared")
    check(deltas.shape[0] >= K and deltas.shape[1] == deltas.shape[0], "deltas")
    check(pairs.shape[0] > 0 and pairs.shape[1] == 2, "pairs")
    check(1 <= n_threads_of_one <= space.n_threads, "n_threads_of_one")
    check(1 <= n_threads <= space.n_threads, "n_threads")
    with nogil:
        K = run_merges(pricing, space, K, groups, mask, cost, shared, &excess, deltas, &known, place, pairs,
                       tolerance, most, n_threads_of_one, n_threads, &ended)
    return K, excess, known, ended


cdef Py_ssize_t run_merges(
    Pricing P, MergeSpace space, Py_ssize_t K, int64_t[:, ::1] groups, uint8_t[:, ::1] mask, double[::1] cost,
    int64_t[::1] shared, double *excess, double[:, ::1] deltas, int *known, int32_t[::1] place,
    Py_ssize_t[:, ::1] pairs, double tolerance, Py_ssize_t most, int n_threads_of_one, int n_threads,
    bint *ended,
) noexcept nogil:
    """The loop of `merge_while_cheaper`; returns K."""
    cdef Py_ssize_t best, n_pairs, made = 0, stride = deltas.shape[0], i, j
    cdef int at = 0
    cdef double least = 0.0
    ended[0] = K <= 1
    _fit_all(P, groups, K, space.fits)
    while made < most and not ended[0]:
        if known[0] == DELTAS_UNKNOWN:
            share_cells(P, &shared[0])
            deltas_between(groups, K, cost, P, -1, &deltas[0, 0], stride, space.union, space.fits, space.work,
                           space.one_mask, n_threads)
            known[0] = DELTAS_FRESH
        n_pairs = _cheapest(&deltas[0, 0], stride, K, pairs)
        best = _best_merge(P, groups, K, mask, pairs, 1 if K > COMPARED else n_pairs, space, &at, &least)
        if K > COMPARED and least >= excess[0] - tolerance:
            best = _best_merge(P, groups, K, mask, pairs, n_pairs, space, &at, &least)
        if least < excess[0] - tolerance:
            i, j = pairs[best, 0], pairs[best, 1]
            K -= 1
            memcpy(&space.fits[0, 0], &space.work[0, 0], K * parts_length(P) * sizeof(double))
            _take(P, space, at, at, K, groups, mask, cost, shared)
            _without(&deltas[0, 0], stride, K, j)
            _join(place, i, j)
            deltas_between(groups, K, cost, P, i, &deltas[0, 0], stride, space.union, space.fits, space.work,
                           space.one_mask, n_threads_of_one)
            excess[0], known[0], made, ended[0] = least, DELTAS_STALE, made + 1, K == 1
        elif known[0] == DELTAS_FRESH:
            ended[0] = True
        else:
            known[0] = DELTAS_UNKNOWN
    return K


cdef void _take(
    Pricing P, MergeSpace space, int at, int mask_at, Py_ssize_t K, int64_t[:, ::1] groups,
    uint8_t[:, ::1] mask, double[::1] cost, int64_t[::1] shared,
) noexcept nogil:
    """Copy a candidate over the partition. Its costs and shared sums are those of the last one priced."""
    memcpy(&groups[0, 0], &space.groups_[at, 0, 0], K * P.grid.width * sizeof(int64_t))
    memcpy(&mask[0, 0], &space.mask_[mask_at, 0, 0], K * P.D)
    memcpy(&cost[0], &space.cost_[0], K * sizeof(double))
    memcpy(&shared[0], P.shared.group_, P.grid.width * sizeof(int64_t))


cdef Py_ssize_t _cheapest(
    const double *deltas, Py_ssize_t stride, Py_ssize_t K, Py_ssize_t[:, ::1] pairs,
) noexcept nogil:
    """The pairs i < j of the lowest deltas, in order, ties to the first; returns their number."""
    cdef Py_ssize_t i, j, at, n = 0
    for i in range(K):
        for j in range(i + 1, K):
            at = n
            while at > 0 and deltas[i * stride + j] < deltas[pairs[at - 1, 0] * stride + pairs[at - 1, 1]]:
                at -= 1
                if at + 1 < pairs.shape[0]:
                    pairs[at + 1, 0], pairs[at + 1, 1] = pairs[at, 0], pairs[at, 1]
            if at < pairs.shape[0]:
                pairs[at, 0], pairs[at, 1] = i, j
                n = min(n + 1, pairs.shape[0])
    return n


cdef void _without(double *deltas, Py_ssize_t stride, Py_ssize_t K, Py_ssize_t j) noexcept nogil:
    """Remove row and column j of K + 1."""
    cdef Py_ssize_t i
    cdef double *row
    for i in range(K):
        row = deltas + i * stride
        if i >= j:
            memcpy(row, row + stride, (K + 1) * sizeof(double))
        memmove(row + j, row + j + 1, (K - j) * sizeof(double))


cdef void _join(int32_t[::1] place, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Renumber after cluster j has joined cluster i < j: later clusters shift down."""
    cdef Py_ssize_t m
    for m in range(place.shape[0]):
        if place[m] == j:
            place[m] = <int32_t> i
        elif place[m] > j:
            place[m] -= 1


def split_while_cheaper(
    int64_t[:, ::1] groups not None,        # INOUT (capacity, width) the first K are clusters
    uint8_t[:, ::1] mask not None,          # INOUT (capacity, D)
    double[::1] cost not None,              # INOUT (capacity,)
    int64_t[::1] shared not None,           # INOUT (width,) moments of the cells that clusters share
    Py_ssize_t K,
    double excess,                          # J - J_0 of the clusters
    const Py_ssize_t[::1] clusters not None,  # IN  (n,) clusters that splits divide
    const int64_t[:, :, ::1] halves not None,  # IN (n, 2, width) what stays and what becomes the last
                                               # cluster, none empty
    const uint8_t[:, :, ::1] selected not None,  # IN (n, 2, D) what pays for the halves against the shared
                                                 # distributions
    Pricing pricing not None,               # OUT   as in price_partition
    MergeSpace space not None,              # WORK
    Py_ssize_t most_clusters,
    double tolerance,                       # nats by which a split must lower J
    uint8_t[::1] accepted not None,         # OUT   (n,)
) -> tuple[int, float]:
    """Accept the splits, in order, that lower J, one of a cluster; returns K and J - J_0.

    Both halves select what the cluster selected, or each what pays for it, whichever costs less; the masks
    are continued from there.
    """
    cdef Py_ssize_t n = clusters.shape[0], s, k, i
    cdef bint divided
    check_clusters(pricing, space, max(K, most_clusters), groups, mask)
    check(K > 0, "K")
    check(cost.shape[0] >= max(K, most_clusters), "cost")
    check(shared.shape[0] == pricing.grid.width, "shared")
    check(halves.shape[0] == n and halves.shape[1] == 2 and halves.shape[2] == pricing.grid.width, "halves")
    check(selected.shape[0] == n and selected.shape[1] == 2 and selected.shape[2] == pricing.D, "selected")
    check(accepted.shape[0] == n, "accepted")
    for s in range(n):
        check(0 <= clusters[s] < K, "clusters")
    with nogil:
        _fit_all(pricing, groups, K, space.fits)
        for s in range(n):
            k, divided, accepted[s] = clusters[s], False, 0
            for i in range(s):
                if clusters[i] == k and accepted[i] > 0:
                    divided = True
            if divided or K >= most_clusters:
                continue
            excess = _try_split(pricing, space, K, groups, mask, cost, shared, k, halves[s], selected[s],
                                excess, tolerance, &accepted[s])
            K += accepted[s]
    return K, excess


cdef double _try_split(
    Pricing P, MergeSpace space, Py_ssize_t K, int64_t[:, ::1] groups, uint8_t[:, ::1] mask, double[::1] cost,
    int64_t[::1] shared, Py_ssize_t k, const int64_t[:, ::1] halves, const uint8_t[:, ::1] selected,
    double excess, double tolerance, uint8_t *accepted,
) noexcept nogil:
    """Split cluster k of K fitted ones if that lowers J; returns J - J_0."""
    cdef Py_ssize_t parts = parts_length(P) * sizeof(double)
    cdef int at
    cdef double[2] total
    cdef int64_t[:, ::1] trial = space.groups_[0]
    memcpy(&trial[0, 0], &groups[0, 0], K * P.grid.width * sizeof(int64_t))
    memcpy(&trial[k, 0], &halves[0, 0], P.grid.width * sizeof(int64_t))
    memcpy(&trial[K, 0], &halves[1, 0], P.grid.width * sizeof(int64_t))
    memcpy(&space.work[0, 0], &space.fits[k, 0], parts)
    fit_over_table(P, &trial[k, 0], parts_in(P, &space.fits[k, 0]), True)
    fit_over_table(P, &trial[K, 0], parts_in(P, &space.fits[K, 0]), True)
    for at in range(2):
        memcpy(&space.mask_[at, 0, 0], &mask[0, 0], K * P.D)
        memcpy(&space.mask_[at, k, 0], &selected[0, 0] if at == 0 else &mask[k, 0], P.D)
        memcpy(&space.mask_[at, K, 0], &selected[1, 0] if at == 0 else &mask[k, 0], P.D)
        if (at == 0 or memcmp(&selected[0, 0], &mask[k, 0], P.D) != 0
                or memcmp(&selected[1, 0], &mask[k, 0], P.D) != 0):
            total[at] = price_masks(P, trial, K + 1, CONTINUE, space.fits, space.mask_[at])
        else:       # the same masks as before
            total[at] = total[0]
    at = 1 if total[1] < total[0] else 0
    accepted[0] = total[at] < excess - tolerance
    if not accepted[0]:
        memcpy(&space.fits[k, 0], &space.work[0, 0], parts)
        return excess
    share_rest(P, trial, K + 1, space.fits, space.mask_[at], space.cost_)
    _take(P, space, 0, at, K + 1, groups, mask, cost, shared)
    return total[at]
