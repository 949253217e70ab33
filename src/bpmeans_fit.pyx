"""Starts and fits of the feature models: proposals that become features, sums of rows, least squares."""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from craftc._kernels._common cimport omp_get_thread_num
from craftc._kernels.dpmeans cimport dp_add, dp_sums

# ---- a start ----

cdef void greedy(
    descent *c, int base, Py_ssize_t n_features, const double *draws, Py_ssize_t n_columns, Py_ssize_t n_trials,
) noexcept nogil:
    """Section 5 of the paper: residuals of rows, drawn in proportion to their squares, become features.

    base: 0 no feature to start with, 1 everybody has the mean, 2 everybody has a feature that is zero (centred data). n_features: how
    many, 0: as long as J falls. draws (n_features or cap, n_columns).
    """
    cdef bp_model *m = &c.m
    cdef bp_proposals proposals
    cdef Py_ssize_t i, most = n_features if n_features else c.cap, trials
    cdef double left = c.scatter, won
    c.n_iter, c.converged = 0, False
    m.K = 0
    m.trace = 0.0
    memset(m.mask, 0, m.n * sizeof(uint64_t))
    memset(c.before, 0, m.n * sizeof(uint64_t))
    memcpy(m.residual, m.norm, m.n * sizeof(double))
    memset(m.G, 0, m.lanes * m.lanes * sizeof(double))
    if m.gram:
        memset(m.B, 0, m.n * m.lanes * sizeof(double))
        memset(m.P, 0, m.most * m.n * sizeof(double))
    else:
        memset(c.places[0].sums, 0, m.most * m.D * sizeof(int64_t))
    if base == 2 and n_features == 1:
        base = 0
    if base and most:
        _everybody(c, base)
        left = 0.0
        for i in range(m.n):
            left += m.residual[i]
    while m.K < most and left > 1e-14 * c.scatter:
        trials = n_trials if n_trials else 2 + _log(m.K + 1)
        _draw(c, left, draws + m.K * n_columns, trials, &proposals)
        won = _take_best(c, &proposals)
        if won <= (0.0 if n_features else c.penalty + 1e-12 * c.scatter):
            break
        left = 0.0
        for i in range(m.n):
            left += m.residual[i]
    if base == 2 and not n_features and m.K == 1:
        m.K = 0
        m.trace = 0.0
        memset(m.mask, 0, m.n * sizeof(uint64_t))
        memcpy(m.residual, m.norm, m.n * sizeof(double))
    if not m.gram:
        bp_lay_out(m, m.A)
    bp_new_combinations(m)


cdef void grow(descent *c, const double *draws, Py_ssize_t trials) noexcept nogil:
    """The best of the proposals becomes one more feature of a fitted state."""
    cdef bp_model *m = &c.m
    cdef bp_proposals proposals
    cdef Py_ssize_t i
    cdef double left = 0.0
    bp_propose(m, NULL, 0, m.n, 0, c.chosen, c.scratch)      # the residuals of the rows as they stand
    for i in range(m.n):
        left += m.residual[i]
    if left > 1e-14 * c.scatter and m.K < c.cap:
        _draw(c, left, draws, trials, &proposals)
        _take_best(c, &proposals)
        if not m.gram:
            bp_lay_out(m, m.A)
        bp_new_combinations(m)


cdef Py_ssize_t _log(Py_ssize_t k) noexcept nogil:
    """The natural logarithm, rounded down, of 1 to 64."""
    return (k >= 3) + (k >= 8) + (k >= 21) + (k >= 55)


cdef void _everybody(descent *c, int base) noexcept nogil:
    """Feature 0: everybody, with the mean of all rows."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i, d
    cdef double norm = 0.0
    if base == 1:
        bp_norms(c.mean, 0, m.D, 0, 1, &norm)
    m.K = 1
    m.G[0] = m.trace = norm
    if not m.gram:
        for d in range(m.D):
            m.A[d] = c.mean[d] if base == 1 else 0.0
    for i in range(m.n):
        m.mask[i] = 1
        if base == 1:
            m.residual[i] = max(0.0, m.norm[i] - 2.0 * c.mean_products[i] + norm)
            if m.gram:
                m.B[i * m.lanes] = c.mean_products[i]


cdef void _draw(descent *c, double left, const double *draws, Py_ssize_t trials, bp_proposals *p) noexcept nogil:
    """Rows in proportion to their squared residuals, and their residuals as features."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t t, i, d, k
    cdef double running, least
    cdef double *own
    cdef double[64] against
    p.n = trials
    for t in range(trials):
        i, running, least = 0, m.residual[0], draws[t] * left
        while running <= least and i < m.n - 1:
            i += 1
            running += m.residual[i]
        while i > 0 and m.residual[i] == 0.0:
            i -= 1
        p.rows[t] = i
    p.table = c.scratch
    memset(p.against, 0, sizeof(p.against))
    if m.gram:
        for t in range(trials):
            p.norm[t] = m.residual[p.rows[t]]
            bp_residual_against(m, p.rows[t], against)
            for k in range(m.K):
                p.against[k * BP_TRIALS + t] = against[k]
        return
    memset(p.table, 0, m.D * BP_TRIALS * sizeof(double))
    own = c.scratch + m.D * BP_TRIALS
    for t in range(trials):
        bp_residual(m, p.rows[t], own)
        bp_norms(own, 0, m.D, 0, 1, &p.norm[t])
        for d in range(m.D):
            p.table[d * BP_TRIALS + t] = own[d]
    cdef const void *feature
    for k in range(m.K):
        feature = m.A + k * m.D
        bp_products(&feature, 0, 1, m.D, p.table, BP_TRIALS, &p.against[k * BP_TRIALS])


cdef double _take_best(descent *c, bp_proposals *p) noexcept nogil:
    """The proposal that wins most becomes a feature, if it wins more than the penalty; returns what it wins."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t b, t, d, k, best = 0, n_blocks = (m.n + BP_BLOCK - 1) // BP_BLOCK
    cdef bint many = c.n_threads > 1
    cdef double[8] won
    cdef double total
    memset(c.parts, 0, n_blocks * BP_TRIALS * sizeof(double))
    memset(won, 0, sizeof(won))
    for b in prange(n_blocks, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
        bp_gains(m, p, b * BP_BLOCK, min((b + 1) * BP_BLOCK, m.n), -1, c.parts + b * BP_TRIALS)
    for t in range(p.n):
        total = 0.0
        for b in range(n_blocks):
            total = total + c.parts[b * BP_TRIALS + t]
        won[t] = total
        if won[t] > won[best] + 1e-12 * c.scatter:      # the first of those that rounding tells apart
            best = t
    if c.penalty > 0.0 and won[best] <= c.penalty + 1e-12 * c.scatter:
        return won[best]
    for b in prange(n_blocks, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
        bp_gains(m, p, b * BP_BLOCK, min((b + 1) * BP_BLOCK, m.n), best, c.parts + b * BP_TRIALS)
    for k in range(m.K):
        m.G[k * m.lanes + m.K] = m.G[m.K * m.lanes + k] = p.against[k * BP_TRIALS + best]
    m.G[m.K * m.lanes + m.K] = p.norm[best]
    if not m.gram:
        for d in range(m.D):
            m.A[m.K * m.D + d] = p.table[d * BP_TRIALS + best]
    m.trace += p.norm[best]
    m.K += 1
    return won[best]


# ---- the fit ----

cdef void move_sums(descent *c) noexcept nogil:
    """Rows come to the sums of their new features and leave those of their old ones."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t b, t, cell
    cdef bint many = c.n_threads > 1
    cdef int64_t *sums
    if m.gram:
        move_rows(c, 0, m.n, NULL)
        return
    for b in prange((m.n + BP_BLOCK - 1) // BP_BLOCK, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
        move_rows(c, b * BP_BLOCK, min((b + 1) * BP_BLOCK, m.n), &c.places[omp_get_thread_num() if many else 0])
    sums = c.places[0].sums
    for t in range(1, c.n_threads):
        for cell in range(m.K * m.D):
            sums[cell] += c.places[t].sums[cell]
        memset(c.places[t].sums, 0, m.K * m.D * sizeof(int64_t))


cdef void move_rows(descent *c, Py_ssize_t start, Py_ssize_t stop, dp_sums *place) noexcept nogil:
    """The same for some rows; rows form: into the sums at `place`."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i
    cdef uint64_t flips
    cdef int k, sign
    for i in range(start, stop):
        flips = m.mask[i] ^ c.before[i]
        while flips:
            k = bp_lowest(flips)
            flips &= flips - 1
            sign = 1 if m.mask[i] >> k & 1 else -1
            if m.gram:
                bp_add(m.P + k * m.n, m.S + i * m.n, sign, m.n)
            else:
                dp_add(place, bp_row(m, i), m.single, m.D, k, i, sign)


cdef void keep_features(descent *c, uint64_t keep) noexcept nogil:
    """Forget all features but these: memberships, sums, Z'Z and Q."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i, k, j, to = 0, to_j
    for i in range(m.n):
        m.mask[i] = bp_extract(m.mask[i], keep)
    for k in range(m.K):
        if not keep >> k & 1:
            continue
        if k != to and m.gram:
            memcpy(m.P + to * m.n, m.P + k * m.n, m.n * sizeof(double))
        elif k != to:
            memcpy(c.places[0].sums + to * m.D, c.places[0].sums + k * m.D, m.D * sizeof(int64_t))
        to_j = 0
        for j in range(m.K):
            if keep >> j & 1:
                m.M[to * m.lanes + to_j] = m.M[k * m.lanes + j]
                m.Q[to * m.lanes + to_j] = m.Q[k * m.lanes + j]
                to_j += 1
        to += 1
    for k in range(to, m.K):
        if m.gram:
            memset(m.P + k * m.n, 0, m.n * sizeof(double))
        else:
            memset(c.places[0].sums + k * m.D, 0, m.D * sizeof(int64_t))
    m.K = to


cdef bint tidy(descent *c) noexcept nogil:
    """Features that are empty or (with a penalty) depend on those before them go; whether any went. Z'Z is counted."""
    cdef bp_model *m = &c.m
    cdef uint64_t keep = 0
    cdef Py_ssize_t k
    bp_count_pairs(m)
    if c.penalty > 0.0:
        keep = bp_independent(m, -1)
    else:
        for k in range(m.K):
            keep |= <uint64_t> (m.M[k * m.lanes + k] > 0.0) << k
    if keep == bp_first(m.K):
        return False
    keep_features(c, keep)
    return True


cdef void refill(descent *c) noexcept nogil:
    """Features that nobody has any more get the worst fitted rows."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i, k, worst
    cdef uint64_t used = 0
    for i in range(m.n):
        used |= m.mask[i]
    for k in range(m.K):
        if used >> k & 1:
            continue
        worst = 0
        for i in range(1, m.n):
            if m.residual[i] > m.residual[worst]:
                worst = i
        m.mask[worst] |= <uint64_t> 1 << k
        m.residual[worst] = 0.0


cdef void fit(descent *c) noexcept nogil:
    """Least squares features of the memberships, their inner products, and J."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t k, b, d, K = m.K, pieces = (m.D + BP_PIECE - 1) // BP_PIECE
    cdef bint many = c.n_threads > 1 and not m.gram
    bp_pseudo_inverse(m.M, m.H, K, m.lanes, bp_first(K) if c.penalty > 0.0 else bp_independent(m, -1))
    m.trace = 0.0
    if m.gram:
        bp_fit_products(m)
        bp_gram_of_fit(m.H, m.M, m.Q, m.G, K, m.lanes)
        c.objective = c.scatter - bp_explained(m)
    else:
        for k in range(K):
            weigh(c, k)
        for b in prange(pieces, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
            bp_fit_features(m, b * BP_PIECE, min((b + 1) * BP_PIECE, m.D))
        bp_lay_out(m, m.A)
        memset(m.G, 0, m.lanes * m.lanes * sizeof(double))
        bp_inner_products(m, m.A, m.G)
        c.objective = c.scatter
        for k in range(K):
            for d in range(m.D):
                c.objective -= m.W[k * m.D + d] * m.A[k * m.D + d]
    c.objective = max(0.0, c.objective) + c.penalty * K
    for k in range(K):
        m.trace += m.G[k * m.lanes + k]
    bp_new_combinations(m)


cdef void weigh(descent *c, Py_ssize_t k) noexcept nogil:
    """Row k of Z'X from its exact sum."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t d
    cdef int64_t *sums = c.places[0].sums + k * m.D
    for d in range(m.D):
        m.W[k * m.D + d] = m.M[k * m.lanes + k] * c.middle[d] + <double> sums[d] * c.step[d]


cdef void settle(descent *c) noexcept nogil:
    """Sums and fit of the memberships as they stand, empty and dependent features dropped."""
    move_sums(c)
    tidy(c)
    memcpy(c.before, c.m.mask, c.m.n * sizeof(uint64_t))
    fit(c)
