"""The masks of all clusters together under the pooled background, whose cost craft_pooled defines.

For one feature of weight w and given lam_k = log C(D, q_k + w) - log C(D, q_k), the masks solve

    min over theta of sum_k min(g_k - L_k(theta), p_d h + lam_k) + pen(theta),

a truncated sum: Lloyd steps alternate between the clusters whose cells are cheaper under theta (the pool) and
the distribution of the pool. With feature sharing (craft_sharing) the number c of clusters that select the
feature has a code of its own: for a given theta the clusters are then sorted by what they save, and the best
c of them select the feature.

Columns with the same cells in every cluster are selected together: as log C(D, q) is concave in q, all of
them or none is best.

Sweeps come to the same pools again and again. What is known of a pool of one feature, its gain and what every
cluster would gain by leaving it, depends on the partition alone, and is kept while its masks are chosen.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from craftc._kernels.craft_price cimport (
    Pricing, existence_cost, fits_factor, known_shares, known_tilt, mask_code, parts_in, parts_t,
    select_priced, weight_of,
)
from craftc._kernels.craft_shared cimport (
    SHARED_POOLS, WORD, categorical_likelihood, craft_no_tilt, craft_sums, craft_theta,
    craft_tilt_likelihood, craft_tilt_sums, pool_t, tilt_log_ratios, tilted_t, widest_cells,
)
from craftc._kernels.craft_sharing cimport column_codes, columns_code, sharing_t, sharing_tables

cdef extern from "craft/_craft_pools.h" nogil:
    bint craft_is_in(const uint64_t *pool, Py_ssize_t k)
    void craft_flip(uint64_t *pool, Py_ssize_t k)
    bint craft_same_pool(const uint64_t *pool, const uint64_t *other, Py_ssize_t n_words)
    Py_ssize_t craft_next_in(const uint64_t *pool, Py_ssize_t n_words, Py_ssize_t k)
    double craft_sum_outside(const uint64_t *pool, Py_ssize_t K, const double *of_cluster)

cdef enum:
    # single clusters from which Lloyd steps start, largest first: where a choice is continued, or one if
    # clusters times features are many
    FEW_STARTS = 4
    MANY_CHOICES = 2000
    ALL_STARTS = 24         # and where masks are chosen anew
    MOST_TOGGLED = 12       # clusters up to which single changes follow the Lloyd steps
    MOST_ROWS = 20          # clusters up to which whole masks are set or cleared
    MOST_PAIRS = 3          # and up to which one is set and another one cleared
    MOST_STEPS = 20
    MOST_SWEEPS = 30

cdef struct choice_t:       # scratch of the choice of masks
    double *theta           # distribution of a pool: a craft_theta, or log(eta / eta_0) of every level
    double slope            # code of a mask by the weight of its features; negative: that of the pricing
    double *limit           # (K) p_d h + lam_k
    double *n_equal         # (D) features with the cells of a feature, itself included; 0: of an earlier one
    Py_ssize_t n_apart      # usable features without those
    double times            # how often the feature at hand counts
    craft_sums *of_cluster  # (K) cells of one tilted feature
    double *gain            # (K) of one feature, over the distribution of the whole table
    double *own             # (K) limit - gain: cost of a distribution of its own
    int64_t *n_cells        # (K) present cells
    int64_t *cells          # moments of a pool in one feature
    craft_sums sums         # or sums of its cells, of a tilt
    pool_t *pools           # what is known of pools
    Py_ssize_t n_pools      # of one feature
    double *nets            # (..., K)
    int64_t number          # of this choice
    int64_t *order          # (K) clusters by the number of their cells
    double *n_selected      # (K) q_k, weight of the features that a cluster selects
    double *saved           # (K) by parameters of their own, over theta and the limit
    int64_t *by_saved       # (K) clusters that save most first
    sharing_t *sharing
    bint coupled            # whether the number of clusters that select a feature has a code
    Py_ssize_t n_words      # of a pool, which has one bit for every cluster
    uint64_t *best
    uint64_t *pool
    uint64_t *next_pool
    uint64_t *seen          # (SHARED_POOLS, n_words) pools to which Lloyd steps have led, the last ones
    uint8_t *mask           # (K, D)
    uint8_t *given          # (K, D)
    uint8_t *tried          # (K, D) masks from which the last sweep started
    bint ended              # whether no choice of a feature changes the masks of the last sweep
    Py_ssize_t n_starts     # with which this is known of the best masks; 0: it is not known
    double cost             # of the best pool of one feature
    int64_t rest            # and its weight
    double tolerance        # smaller differences of J may be rounding


cdef choice_t _choice(Pricing P, Py_ssize_t K) noexcept nogil:
    cdef choice_t c
    cdef Py_ssize_t widest = widest_cells(P.grid)
    c.theta = P.shared.work_
    c.cells = <int64_t *> (c.theta + widest)
    c.n_equal, c.times = <double *> (c.cells + widest), 1.0
    c.of_cluster = <craft_sums *> (c.n_equal + P.D)
    c.gain = <double *> (c.of_cluster + K)
    c.own, c.limit = c.gain + K, c.gain + 2 * K
    c.n_cells = <int64_t *> (c.limit + K)
    c.order, c.n_selected, c.slope = c.n_cells + K, <double *> (c.n_cells + 2 * K), -1.0
    c.n_words = (K + 63) // 64
    c.saved, c.by_saved = <double *> (c.n_cells + 3 * K), c.n_cells + 4 * K
    c.best = <uint64_t *> (c.n_cells + 5 * K)
    c.pool, c.next_pool, c.seen = c.best + c.n_words, c.best + 2 * c.n_words, c.best + 3 * c.n_words
    c.mask = <uint8_t *> (c.seen + SHARED_POOLS * c.n_words)
    c.given, c.tried = c.mask + K * P.D, c.mask + 2 * K * P.D
    c.tolerance = max(1e-9, P.total * max(<double> P.D, P.usable_weight) * 2.0**-46)
    c.sharing = &P.shared.sharing.parts
    c.coupled = c.sharing.share > 0.0 and K > 0
    if c.coupled:
        sharing_tables(c.sharing, K)
    P.shared.fits.n_choices += 1
    c.pools, c.n_pools, c.nets = P.shared.fits.pools_, P.shared.fits.pools_of_column, P.shared.fits.nets_
    c.number = P.shared.fits.n_choices
    return c


cdef double price_masks(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, int effort, double[:, ::1] work,
    uint8_t[:, ::1] mask,
) noexcept nogil:
    """Choose the masks of fitted groups; returns J - J_0."""
    cdef Py_ssize_t k
    cdef choice_t c = _choice(P, K)
    cdef double total
    _find_equal(P, &c, groups, K)
    total = _choose_masks(P, &c, groups, K, effort, work, mask)
    for k in range(K):
        total += existence_cost(P, &groups[k, 0]) + P.code
    return total


cdef void _find_equal(Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K) noexcept nogil:
    """Count the features with the same cells in all clusters."""
    cdef Py_ssize_t d, first
    c.n_apart = 0
    for d in range(P.D):
        c.n_equal[d] = 1.0
        if not P.usable[d]:
            continue
        first = P.grid.p + P.tilts.equal[d - P.grid.p]
        if first < d and P.usable[first] and _same_cells(P, groups, K, first, d):
            c.n_equal[first] += 1.0
            c.n_equal[d] = 0.0
        else:
            c.n_apart += 1


cdef bint _same_cells(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, Py_ssize_t d, Py_ssize_t e,
) noexcept nogil:
    """Whether two features have the same cells in every cluster."""
    cdef Py_ssize_t k
    for k in range(K):
        if memcmp(&groups[k, 0] + first_cell(P, d), &groups[k, 0] + first_cell(P, e),
                  _width(P, d) * sizeof(int64_t)) != 0:
            return False
    return True


cdef void _select_equal(Pricing P, choice_t *c, Py_ssize_t K, Py_ssize_t d, uint8_t *mask) noexcept nogil:
    """The features with the cells of feature d are selected where it is."""
    cdef Py_ssize_t e, k
    for e in range(d + 1, P.D if c.n_equal[d] > 1.0 else 0):
        if c.n_equal[e] == 0.0 and P.grid.p + P.tilts.equal[e - P.grid.p] == d:
            for k in range(K):
                mask[k * P.D + e] = mask[k * P.D + d]


# ---- cells of one feature ----

cdef Py_ssize_t first_cell(Pricing P, Py_ssize_t d) noexcept nogil:
    """Where a feature begins in a group."""
    return 1 + P.grid.level_start_[d - P.grid.p]


cdef void add_cells(Pricing P, Py_ssize_t d, int64_t *to, const int64_t *cells, int64_t sign) noexcept nogil:
    """Add the cells of one feature, or take them out; missing cells are not among them."""
    cdef Py_ssize_t t
    for t in range(_width(P, d)):
        to[t] += sign * cells[t]


cdef inline Py_ssize_t _width(Pricing P, Py_ssize_t d) noexcept nogil:
    """Levels of a feature, the missing one excluded."""
    return P.n_levels[d - P.grid.p]


cdef inline bint _is_tilted(Pricing P, Py_ssize_t d) noexcept nogil:
    return P.tilt[d - P.grid.p].n > 0


cdef void fit_levels(
    Pricing P, Py_ssize_t d, const int64_t *counts, double *log_ratio, craft_theta *theta,
) noexcept nogil:
    """log(eta / eta_0) of the cells of a column of levels, and the tilt of a tilted one; 0 for levels that do
    not occur.
    """
    cdef Py_ssize_t t
    cdef int64_t seen = 0
    cdef const double *eta = P.frequency + P.grid.level_start_[d]
    theta[0] = craft_no_tilt()
    if P.tilt[d].n:
        if P.usable[P.grid.p + d]:
            known_tilt(P, d, craft_tilt_sums(&P.tilt[d], counts, P.n_levels[d]), theta)
        tilt_log_ratios(&P.tilt[d], theta, P.n_levels[d], log_ratio, 1)
        return
    for t in range(P.n_levels[d]):
        seen += counts[t]
    for t in range(P.n_levels[d]):
        log_ratio[t] = log((P.count_weight * counts[t] + eta[t])
                           / ((P.count_weight * seen + 1.0) * eta[t])) if eta[t] > 0 else 0.0


# ---- one feature ----

cdef inline void _copy(choice_t *c, uint64_t *to, const uint64_t *pool) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(c.n_words):
        to[i] = pool[i]


cdef inline void _unselected(
    Pricing P, choice_t *c, Py_ssize_t K, Py_ssize_t d, const uint8_t *mask,
) noexcept nogil:
    """c.best: the pool of the clusters that do not select feature d."""
    cdef Py_ssize_t k
    memset(c.best, 0, c.n_words * sizeof(uint64_t))
    for k in range(K):
        c.best[k >> 6] |= <uint64_t> (mask[k * P.D + d] == 0) << (k & 63)


cdef pool_t *_pool_of(
    Pricing P, choice_t *c, Py_ssize_t K, Py_ssize_t d, const uint64_t *clusters,
) noexcept nogil:
    """What is known of a pool of feature d. Of more than 64 clusters it is known until the next call."""
    cdef uint64_t key
    cdef pool_t *pool = c.pools
    if K <= WORD:
        key = clusters[0] * fits_factor
        pool += (d - P.grid.p) * c.n_pools + (((key >> 32) * <uint64_t> c.n_pools) >> 32)
        if pool.choice == c.number and pool.clusters == clusters[0] and pool.d == d:
            return pool
    pool.clusters, pool.choice, pool.d = clusters[0], c.number, d
    pool.has_gain = pool.has_nets = False
    return pool


cdef double _cost_of_pool(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, pool_t *pool,
    const uint64_t *clusters,
) noexcept nogil:
    """Cost of a feature, gathered in c, if the clusters of a pool have one distribution of it and the others
    select it.
    """
    cdef double cost = craft_sum_outside(clusters, K, c.own)
    cdef Py_ssize_t d = pool.d
    if c.coupled:
        cost += c.sharing.code[_n_outside(c, K, clusters)]
    if craft_next_in(clusters, c.n_words, 0) >= K:
        return cost - c.times * P.price[d]      # a distribution that nothing uses is not paid for
    if not pool.has_gain:
        _pool_cells(P, c, groups, K, d, clusters)
        if _is_tilted(P, d):
            pool.gain = known_tilt(P, d - P.grid.p, c.sums, <craft_theta *> c.theta)
        else:
            pool.gain = known_shares(P, d - P.grid.p, c.cells)
        pool.has_gain = True
    if _is_tilted(P, d):
        return cost - c.times * pool.gain
    return cost - c.times * weight_of(P, d) * pool.gain


cdef const double *_nets_of_pool(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, pool_t *pool,
    const uint64_t *clusters,
) noexcept nogil:
    """(K,) what every cluster gains by a distribution of its own over that of a pool."""
    cdef double *nets = c.nets + (pool - c.pools) * K
    cdef Py_ssize_t k, d = pool.d
    cdef craft_theta theta = craft_no_tilt()
    if pool.has_nets:
        return nets
    pool.has_nets = True
    _pool_cells(P, c, groups, K, d, clusters)
    if not _is_tilted(P, d):
        fit_levels(P, d - P.grid.p, c.cells, c.theta, &theta)
    elif craft_next_in(clusters, c.n_words, 0) < K:
        known_tilt(P, d - P.grid.p, c.sums, &theta)
    for k in range(K):
        nets[k] = c.gain[k] - _likelihood(P, c, groups, d, k, theta)
    return nets


cdef void _pool_cells(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, Py_ssize_t d,
    const uint64_t *clusters,
) noexcept nogil:
    """c.cells, or c.sums of a tilted feature: the cells of some clusters."""
    cdef Py_ssize_t k = craft_next_in(clusters, c.n_words, 0), first = first_cell(P, d)
    if _is_tilted(P, d):
        memset(&c.sums, 0, sizeof(c.sums))
        while k < K:
            _add_sums(c, k)
            k = craft_next_in(clusters, c.n_words, k + 1)
        return
    memset(c.cells, 0, _width(P, d) * sizeof(int64_t))
    while k < K:
        add_cells(P, d, c.cells, &groups[k, 0] + first, 1)
        k = craft_next_in(clusters, c.n_words, k + 1)


cdef inline void _add_sums(choice_t *c, Py_ssize_t k) noexcept nogil:
    """Add the sums of a tilted feature's cells of one cluster: exact, see `craft_tilt`."""
    c.sums.weight += c.of_cluster[k].weight
    c.sums.first += c.of_cluster[k].first
    c.sums.second += c.of_cluster[k].second
    c.sums.atom += c.of_cluster[k].atom


cdef inline Py_ssize_t _n_outside(choice_t *c, Py_ssize_t K, const uint64_t *pool) noexcept nogil:
    """Clusters that are not in a pool."""
    cdef Py_ssize_t k, n = 0
    for k in range(K):
        n += not craft_is_in(pool, k)
    return n


cdef void _gather(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work, Py_ssize_t d,
) noexcept nogil:
    """Parameters and gains of all clusters in feature d, and what follows from their limits."""
    cdef Py_ssize_t k, missing = first_cell(P, d) + _width(P, d), row = work.shape[1]
    cdef parts_t parts = parts_in(P, &work[0, 0])
    for k in range(K):
        c.gain[k] = c.times * parts.gain[k * row + d]
        c.own[k] = c.limit[k] - c.gain[k]
        c.n_cells[k] = groups[k, 0] - groups[k, missing]
        if _is_tilted(P, d):
            c.of_cluster[k] = (<tilted_t *> (<double *> parts.tilted + k * row) + (d - P.grid.p)).sums


cdef inline double _likelihood(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t d, Py_ssize_t k, craft_theta theta,
) noexcept nogil:
    """Log likelihood of the cells of cluster k under a tilt, or the shares in c.theta, over the distribution
    of the whole table, times the weight of the column.
    """
    cdef double weight = c.times * weight_of(P, d)
    if _is_tilted(P, d):
        return weight * craft_tilt_likelihood(P.count_weight, c.of_cluster[k], theta)
    return weight * P.count_weight * categorical_likelihood(&groups[k, 0] + first_cell(P, d), c.theta,
                                                            _width(P, d))


cdef void _cheaper_pooled(choice_t *c, Py_ssize_t K, const double *nets, uint64_t *clusters) noexcept nogil:
    """Clusters whose cells cost less under the distribution of a pool than under one of their own and its
    price, by what they would gain by it.
    """
    cdef Py_ssize_t k
    if c.coupled:
        _best_number_pooled(c, K, nets, clusters)
        return
    memset(clusters, 0, c.n_words * sizeof(uint64_t))
    for k in range(K):
        clusters[k >> 6] |= <uint64_t> (nets[k] <= c.limit[k] + c.tolerance) << (k & 63)


cdef void _best_number_pooled(choice_t *c, Py_ssize_t K, const double *nets, uint64_t *pool) noexcept nogil:
    """The pool of least cost, where the number of clusters outside has a code; ties go to the larger pool.
    """
    cdef Py_ssize_t k, at, n = 0
    cdef double total, least
    for k in range(K):
        c.saved[k] = nets[k] - c.limit[k]
        at = k
        while at > 0 and c.saved[k] > c.saved[c.by_saved[at - 1]]:
            c.by_saved[at] = c.by_saved[at - 1]
            at -= 1
        c.by_saved[at] = k
    total, least = 0.0, c.sharing.code[0]
    for k in range(K):
        total -= c.saved[c.by_saved[k]]
        if total + c.sharing.code[k + 1] < least - c.tolerance:
            n, least = k + 1, total + c.sharing.code[k + 1]
    memset(pool, 0, c.n_words * sizeof(uint64_t))
    for k in range(n, K):
        craft_flip(pool, c.by_saved[k])


cdef bint _choose_feature(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work, Py_ssize_t d,
    uint8_t *mask, Py_ssize_t n_starts,
) noexcept nogil:
    """The clusters that select feature d and its equals, given the other features of the masks; returns
    whether any cluster changed.
    """
    cdef Py_ssize_t k, start, toggled, n_seen = 0
    cdef int _step
    cdef bint changed = False
    cdef pool_t *pool
    cdef const uint64_t *clusters = c.best
    cdef double weight = c.n_equal[d] * weight_of(P, d)
    c.times = c.n_equal[d]
    _unselected(P, c, K, d, mask)
    if c.coupled:
        c.sharing.n_columns[_n_outside(c, K, c.best)] -= weight
        column_codes(c.sharing, weight)
    for k in range(K):
        if mask[k * P.D + d]:
            c.n_selected[k] -= weight
        c.limit[k] = c.times * P.price[d] + _code(P, c, c.n_selected[k] + weight)
        c.limit[k] -= _code(P, c, c.n_selected[k])
    _gather(P, c, groups, K, work, d)
    if _too_weak(P, c, K, d):
        for k in range(K):
            changed |= mask[k * P.D + d]
            mask[k * P.D + d] = 0
        if c.coupled:
            c.sharing.n_columns[0] += weight
        return changed
    pool = _pool_of(P, c, K, d, c.best)
    c.cost, c.rest = _cost_of_pool(P, c, groups, K, pool, c.best), _weight_of(c, groups, K, c.best)
    for start in range(2 if c.coupled else 0):      # the feature of all clusters, or of none
        memset(c.pool, 0, c.n_words * sizeof(uint64_t))
        for k in range(K if start == 0 else 0):
            craft_flip(c.pool, k)
        pool, clusters = _pool_of(P, c, K, d, c.pool), c.pool
        _keep_better(c, groups, K, _cost_of_pool(P, c, groups, K, pool, c.pool), c.pool)
    _largest_first(c, K, min(K, n_starts))
    for start in range(-2, min(K, n_starts)):
        if start > -2:      # the pool of one cluster, or of none
            memset(c.pool, 0, c.n_words * sizeof(uint64_t))
            if start >= 0:
                craft_flip(c.pool, c.order[start])
            pool, clusters = _pool_of(P, c, K, d, c.pool), c.pool
        for _step in range(MOST_STEPS):
            _cheaper_pooled(c, K, _nets_of_pool(P, c, groups, K, pool, clusters), c.next_pool)
            if craft_same_pool(c.best, c.next_pool, c.n_words) or _was_seen(c, n_seen):
                break
            _copy(c, c.pool, c.next_pool)
            _copy(c, c.seen + n_seen % SHARED_POOLS * c.n_words, c.pool)
            n_seen += 1
            pool, clusters = _pool_of(P, c, K, d, c.pool), c.pool
            _keep_better(c, groups, K, _cost_of_pool(P, c, groups, K, pool, c.pool), c.pool)
    toggled = 0 if K <= MOST_TOGGLED else -1
    while toggled >= 0:
        toggled = -1
        _copy(c, c.pool, c.best)
        for k in range(K):
            craft_flip(c.pool, k)
            pool = _pool_of(P, c, K, d, c.pool)
            if _keep_better(c, groups, K, _cost_of_pool(P, c, groups, K, pool, c.pool), c.pool):
                toggled = k
            craft_flip(c.pool, k)
    for k in range(K):
        changed |= mask[k * P.D + d] == craft_is_in(c.best, k)
        mask[k * P.D + d] = not craft_is_in(c.best, k)
        if mask[k * P.D + d]:
            c.n_selected[k] += weight
    if c.coupled:
        c.sharing.n_columns[_n_outside(c, K, c.best)] += weight
    return changed


cdef inline bint _was_seen(choice_t *c, Py_ssize_t n_seen) noexcept nogil:
    """Whether Lloyd steps have led to c.next_pool before, so that the further steps are known."""
    cdef Py_ssize_t i
    for i in range(min(n_seen, SHARED_POOLS)):
        if craft_same_pool(c.seen + i * c.n_words, c.next_pool, c.n_words):
            return True
    return False


cdef bint _too_weak(Pricing P, choice_t *c, Py_ssize_t K, Py_ssize_t d) noexcept nogil:
    """Whether no selection of a feature can pay: all gains together, that of a pool included, are below the
    price of one cluster.

    Without the priors, the gain of a pool is at most the sum of its clusters' gains. It has one prior where
    they have one each: hence twice the gains.
    """
    cdef Py_ssize_t k
    cdef double gains = 0.0, least = c.limit[0], prices = -c.times * P.price[d], code = 0.0
    for k in range(K):
        gains += c.gain[k]
        prices += c.limit[k]
        least = min(least, c.limit[k])
    if c.coupled:
        code = INFINITY
        for k in range(K):
            code = min(code, c.sharing.code[k + 1] - c.sharing.code[0])
    return 2.0 * gains < min(least, prices) + code - c.tolerance


cdef bint _keep_better(
    choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, double cost, const uint64_t *pool,
) noexcept nogil:
    """Keep a pool that costs less than the best so far, or as much with more rows in it: of two clusters the
    larger one is the rest.
    """
    cdef int64_t rest = _weight_of(c, groups, K, pool) if cost <= c.cost + c.tolerance else -1
    if cost < c.cost - c.tolerance or rest > c.rest:
        c.cost, c.rest = cost, rest
        _copy(c, c.best, pool)
        return True
    return False


cdef inline int64_t _weight_of(
    choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, const uint64_t *pool,
) noexcept nogil:
    """Weight of the clusters in a pool."""
    cdef Py_ssize_t k = craft_next_in(pool, c.n_words, 0)
    cdef int64_t total = 0
    while k < K:
        total += groups[k, 0]
        k = craft_next_in(pool, c.n_words, k + 1)
    return total


cdef void _largest_first(choice_t *c, Py_ssize_t K, Py_ssize_t n) noexcept nogil:
    """The n clusters with most cells of a feature, in order; ties go to the lower cluster."""
    cdef Py_ssize_t k, at
    for k in range(K):
        at = min(k, n)
        while at > 0 and c.n_cells[k] > c.n_cells[c.order[at - 1]]:
            at -= 1
            if at + 1 < n:
                c.order[at + 1] = c.order[at]
        if at < n:
            c.order[at] = k


# ---- all features ----

cdef double _sweep(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work, uint8_t *mask,
    Py_ssize_t n_starts, const uint8_t *end=NULL, double cost_of_end=0.0,
) noexcept nogil:
    """Choose feature after feature until nothing changes; returns the cost of the features and of the codes
    of the masks.

    `end`: masks that no choice changes. A sweep that comes to them ends there.
    """
    cdef Py_ssize_t d, _turn, n_same = 0    # features in a row that have not changed
    cdef Py_ssize_t n_apart = 0             # entries in which the masks differ from `end`
    for d in range(P.D):
        _select_equal(P, c, K, d, mask)
    _count_selected(P, c, K, mask)
    for d in range(P.D):
        n_apart += _n_apart(P, K, d, mask, end) if c.n_equal[d] else 0
    for _turn in range(MOST_SWEEPS):
        for d in range(P.D):
            if not P.usable[d] or c.n_equal[d] == 0.0 or n_same == c.n_apart:
                continue
            n_apart -= _n_apart(P, K, d, mask, end)
            n_same = 0 if _choose_feature(P, c, groups, K, work, d, mask, n_starts) else n_same + 1
            _select_equal(P, c, K, d, mask)
            n_apart += _n_apart(P, K, d, mask, end)
            if end != NULL and n_apart == 0:
                c.ended = True
                return cost_of_end
        if n_same == c.n_apart:
            break
    c.ended = n_same == c.n_apart
    return _cost_of_masks(P, c, groups, K, work, mask)


cdef inline Py_ssize_t _n_apart(
    Pricing P, Py_ssize_t K, Py_ssize_t d, const uint8_t *mask, const uint8_t *end,
) noexcept nogil:
    """Clusters whose choice of feature d differs; 0 without an `end`."""
    cdef Py_ssize_t k, n = 0
    for k in range(K if end != NULL else 0):
        n += mask[k * P.D + d] != end[k * P.D + d]
    return n


cdef void _count_selected(Pricing P, choice_t *c, Py_ssize_t K, const uint8_t *mask) noexcept nogil:
    cdef Py_ssize_t k, d, n
    for k in range(K):
        c.n_selected[k] = 0.0
        for d in range(P.D):
            if mask[k * P.D + d]:
                c.n_selected[k] += weight_of(P, d)
    if c.coupled:
        memset(c.sharing.n_columns, 0, (K + 1) * sizeof(double))
        for d in range(P.D):
            if P.usable[d]:
                n = 0
                for k in range(K):
                    n += mask[k * P.D + d]
                c.sharing.n_columns[n] += weight_of(P, d)


cdef double _cost_of_masks(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work,
    const uint8_t *mask,
) noexcept nogil:
    cdef Py_ssize_t k, d
    cdef double cost = 0.0
    c.times = 1.0
    if c.coupled:       # the columns have one code, added below
        memset(c.sharing.code, 0, (K + 1) * sizeof(double))
    for d in range(P.D):
        if P.usable[d]:
            _unselected(P, c, K, d, mask)
            for k in range(K):
                c.limit[k] = P.price[d]
            _gather(P, c, groups, K, work, d)
            cost += _cost_of_pool(P, c, groups, K, _pool_of(P, c, K, d, c.best), c.best)
    for k in range(K):
        cost += _code(P, c, c.n_selected[k])
    if c.coupled:
        cost += columns_code(c.sharing)
    return cost


cdef double _choose_masks(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, int effort, double[:, ::1] work,
    uint8_t[:, ::1] mask,
) noexcept nogil:
    """The masks of least cost that are found; returns their cost.

    KEEP: the given masks. CONTINUE: from the given ones. ANEW: from the best masks against the whole
    table's distribution, from the best masks where every feature adds the same to the code of a mask (0,
    log(D) / 2 or log(D) nats), and from the given ones. THOROUGH: then each cluster selects all features, or
    none, or one selects all and another one none, and the others adapt.
    """
    cdef Py_ssize_t k, d, i, full, empty, n = K * P.D
    cdef double best
    if K == 1 and effort != KEEP:   # all features or none: the same cost
        memset(&mask[0, 0], 0, n)
    if K == 1 or effort == KEEP:
        _count_selected(P, c, K, &mask[0, 0])
        return _cost_of_masks(P, c, groups, K, work, &mask[0, 0])
    if effort == CONTINUE:
        return _sweep(P, c, groups, K, work, &mask[0, 0], _few_starts(P, K))
    memcpy(c.given, &mask[0, 0], n)
    for k in range(K):
        select_priced(P, parts_in(P, &work[k, 0]), &mask[k, 0])
    memcpy(c.tried, &mask[0, 0], n)
    best = _sweep(P, c, groups, K, work, &mask[0, 0], ALL_STARTS)
    c.n_starts = ALL_STARTS if c.ended else 0
    for i in range(3):
        c.slope = 0.5 * i * log(max(P.usable_weight, 1.0))
        memset(c.mask, 0, n)
        _sweep(P, c, groups, K, work, c.mask, ALL_STARTS)
        c.slope = -1.0
        best = _better(P, c, groups, K, work, mask, best, ALL_STARTS)
    memcpy(c.mask, c.given, n)
    best = _better(P, c, groups, K, work, mask, best, ALL_STARTS)
    for d in range(P.D if c.coupled else 0):        # from all features of all clusters
        for k in range(K):
            c.mask[k * P.D + d] = P.usable[d]
    if c.coupled:
        best = _better(P, c, groups, K, work, mask, best, ALL_STARTS)
    memcpy(c.tried, &mask[0, 0], n)     # the next sweeps have fewer starts
    for full in range(K + 1 if effort == THOROUGH and K <= MOST_ROWS else 0):
        for empty in range(K + 1):
            if full == empty or (max(full, empty) < K and K > MOST_PAIRS):
                continue
            memcpy(c.mask, &mask[0, 0], n)
            for d in range(P.D):
                if full < K:
                    c.mask[full * P.D + d] = P.usable[d]
                if empty < K:
                    c.mask[empty * P.D + d] = 0
            best = _better(P, c, groups, K, work, mask, best, _few_starts(P, K))
    return best


cdef inline Py_ssize_t _few_starts(Pricing P, Py_ssize_t K) noexcept nogil:
    return FEW_STARTS if K * P.D <= MANY_CHOICES else 1


cdef inline double _code(Pricing P, choice_t *c, double selected) noexcept nogil:
    """Code of a mask whose features have this weight."""
    return c.slope * selected if c.slope >= 0.0 else mask_code(P, selected)


cdef double _better(
    Pricing P, choice_t *c, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work,
    uint8_t[:, ::1] mask, double best, Py_ssize_t n_starts,
) noexcept nogil:
    """Sweep from c.mask; the result replaces the masks if it costs less, or as much with larger clusters as
    the rest. Returns its cost.
    """
    cdef double cost
    if memcmp(c.mask, &mask[0, 0], K * P.D) == 0 or memcmp(c.mask, c.tried, K * P.D) == 0:
        return best         # where a sweep ends, or the last one began, is nothing new
    memcpy(c.tried, c.mask, K * P.D)
    cost = _sweep(P, c, groups, K, work, c.mask, n_starts, &mask[0, 0] if c.n_starts == n_starts else NULL,
                  best)
    if cost < best - c.tolerance or (cost <= best + c.tolerance
                                     and _rest(P, groups, K, c.mask) > _rest(P, groups, K, &mask[0, 0])):
        memcpy(&mask[0, 0], c.mask, K * P.D)
        c.n_starts = n_starts if c.ended else 0
        return cost
    if c.ended and memcmp(c.mask, &mask[0, 0], K * P.D) == 0:
        c.n_starts = n_starts
    return best


cdef double _rest(Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, const uint8_t *mask) noexcept nogil:
    """Weight of the clusters in the pools of all features."""
    cdef Py_ssize_t k, d
    cdef double total = 0.0
    for k in range(K):
        for d in range(P.D):
            if not mask[k * P.D + d]:
                total += groups[k, 0] * weight_of(P, d)
    return total
