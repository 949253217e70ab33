"""Starts of the feature models: residuals of drawn rows become features (section 5 of the paper)."""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from craftc._kernels._bpmeans cimport (
    BP_BLOCK, BP_MOST, BP_TRIALS, bp_gains, bp_model, bp_new_combinations, bp_norms, bp_products,
    bp_proposals, bp_propose, bp_residual, bp_residual_against, descent,
)
from craftc._kernels.bpmeans_fit cimport lay_out


cdef void greedy(
    descent *c, int base, Py_ssize_t n_features, const double *draws, Py_ssize_t n_columns,
    Py_ssize_t n_trials,
) noexcept nogil:
    """Residuals of rows, drawn in proportion to their squares, become features.

    base: 0 no initial feature, 1 every row has the mean, 2 every row has a feature that is zero (centred
    data). n_features: how many features, 0: as long as J falls. draws (n_features or cap, n_columns).
    """
    cdef bp_model *m = &c.m
    cdef bp_proposals proposals
    cdef Py_ssize_t i, most = n_features if n_features else c.cap, trials
    cdef double left = c.scatter, gain
    c.n_iter, c.converged, c.place = 0, False, 0
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
        _add_base(c, base)
        left = 0.0
        for i in range(m.n):
            left += m.residual[i]
    while m.K < most and left > 1e-14 * c.scatter:
        trials = n_trials if n_trials else trials_for(m.K + 1)
        _draw(c, left, draws + m.K * n_columns, trials, &proposals)
        gain = _add_best(c, &proposals)
        if gain <= (0.0 if n_features else c.penalty + 1e-12 * c.scatter):
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
        lay_out(m, m.A)
    bp_new_combinations(m)


cdef void add_feature(descent *c, const double *draws, Py_ssize_t trials) noexcept nogil:
    """The best of the proposals becomes one more feature of a fitted state."""
    cdef bp_model *m = &c.m
    cdef bp_proposals proposals
    cdef Py_ssize_t i
    cdef double left = 0.0
    bp_propose(m, NULL, 0, m.n, 0, c.chosen, c.scratch)      # residuals under the present memberships
    for i in range(m.n):
        left += m.residual[i]
    if left > 1e-14 * c.scatter and m.K < c.cap:
        _draw(c, left, draws, trials, &proposals)
        _add_best(c, &proposals)
        if not m.gram:
            lay_out(m, m.A)
        bp_new_combinations(m)


cdef Py_ssize_t trials_for(Py_ssize_t k) noexcept nogil:
    """Rows drawn for feature k of 1 to 64: 2, and the natural logarithm of k, rounded down."""
    return 2 + (k >= 3) + (k >= 8) + (k >= 21) + (k >= 55)


cdef void _add_base(descent *c, int base) noexcept nogil:
    """Feature 0 of every row: the mean of all rows (base 1), or zero (base 2)."""
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


cdef void _draw(
    descent *c, double left, const double *draws, Py_ssize_t trials, bp_proposals *p,
) noexcept nogil:
    """Draw rows in proportion to their squared residuals; their residuals are the proposals."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t t, i, d, k
    cdef double running, least
    cdef double *own
    cdef double[BP_MOST] against
    cdef const void *feature
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
    memset(p.norm, 0, sizeof(p.norm))
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
    for k in range(m.K):
        feature = m.A + k * m.D
        bp_products(&feature, 0, 1, m.D, p.table, BP_TRIALS, &p.against[k * BP_TRIALS])


cdef double _add_best(descent *c, bp_proposals *p) noexcept nogil:
    """Add the proposal of largest gain as a feature if the gain exceeds the penalty; returns the gain."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t b, t, d, k, best = 0, n_blocks = (m.n + BP_BLOCK - 1) // BP_BLOCK
    cdef bint many = c.n_threads > 1
    cdef double[BP_TRIALS] gain
    cdef double total
    memset(c.parts, 0, n_blocks * BP_TRIALS * sizeof(double))
    memset(gain, 0, sizeof(gain))
    for b in prange(n_blocks, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
        bp_gains(m, p, b * BP_BLOCK, min((b + 1) * BP_BLOCK, m.n), -1, c.parts + b * BP_TRIALS)
    for t in range(p.n):
        total = 0.0
        for b in range(n_blocks):
            total = total + c.parts[b * BP_TRIALS + t]
        gain[t] = total
        if gain[t] > gain[best] + 1e-12 * c.scatter:    # among gains that differ by rounding alone, the first
            best = t
    if c.penalty > 0.0 and gain[best] <= c.penalty + 1e-12 * c.scatter:
        return gain[best]
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
    return gain[best]
