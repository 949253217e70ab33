"""BP-means and K-features: starts, sweeps, fits, and whole restarts side by side (spec: MAD-Bayes, sections 3 and 4)."""

import numpy as np

from cython cimport floating
from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from craftc._kernels._common cimport omp_get_thread_num
from craftc._kernels.bpmeans cimport (
    BP_EXACT, BP_MARGIN, BP_MOST, BP_TILE, BP_TRIALS, Run, bp_choose, bp_collapse, bp_combinations, bp_count, bp_count_pairs, bp_explained,
    bp_extract, bp_fit_features, bp_fit_products, bp_gains, bp_gram_of_fit, bp_gram_of_sums, bp_independent, bp_inner_products, bp_lay_out,
    bp_lowest, bp_model, bp_norms, bp_others, bp_products, bp_proposals, bp_propose, bp_pseudo_inverse, bp_row, bp_scratch, bp_width,
    descent,
)
from craftc._kernels.dpmeans cimport dp_add, dp_sums

MOST, EXACT, TRIALS = BP_MOST, BP_EXACT, BP_TRIALS
cdef enum:
    BLOCK = 512                 # rows whose gains are one partial sum, and rows of a piece of parallel work
    WINDOW = 64                 # rows of the first window of a walk, on one thread
    WIDE_WINDOW = 4096          # the same on several
    COLUMNS = 256               # columns of a piece of a parallel fit
    PASSES = 100                # of bit after bit over a new row


# ---- a start ----

cdef void _greedy(descent *c, int base, Py_ssize_t n_features, const double *draws, Py_ssize_t n_columns,
                  Py_ssize_t n_trials) noexcept nogil:
    """Section 5 of the paper: residuals of rows, drawn in proportion to their squares, become features.

    base: 0 no feature to start with, 1 everybody has the mean, 2 everybody has a feature that is zero (centred data). n_features: how
    many, 0: as long as J falls. draws (n_features or cap, n_columns).
    """
    cdef bp_model *m = &c.m
    cdef bp_proposals proposals
    cdef Py_ssize_t i, most = n_features if n_features else c.cap, n_blocks = (m.n + BLOCK - 1) // BLOCK, trials
    cdef double left = c.scatter, won
    cdef bint many = c.n_threads > 1
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
        won = _take_best(c, &proposals, n_blocks, many)
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
    _new_combinations(m)


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
    cdef double[64] products
    cdef uint64_t z
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
            i = p.rows[t]
            p.norm[t] = m.residual[i]
            for k in range(m.K):
                p.against[k * BP_TRIALS + t] = m.B[i * m.lanes + k]
            z = m.mask[i]
            while z:
                for k in range(m.K):
                    p.against[k * BP_TRIALS + t] -= m.G[bp_lowest(z) * m.lanes + k]
                z &= z - 1
        return
    memset(p.table, 0, m.D * BP_TRIALS * sizeof(double))
    own = c.scratch + m.D * BP_TRIALS
    for t in range(trials):
        _residual(m, p.rows[t], own)
        bp_norms(own, 0, m.D, 0, 1, &p.norm[t])
        for d in range(m.D):
            p.table[d * BP_TRIALS + t] = own[d]
    cdef const void *feature
    for k in range(m.K):
        feature = m.A + k * m.D
        bp_products(&feature, 0, 1, m.D, p.table, BP_TRIALS, &p.against[k * BP_TRIALS])


cdef void _residual(const bp_model *m, Py_ssize_t i, double *r) noexcept nogil:
    """r = x - z A."""
    cdef Py_ssize_t d
    cdef const double *a
    cdef uint64_t z = m.mask[i]
    for d in range(m.D):
        r[d] = (<const float *> m.X)[i * m.D + d] if m.single else (<const double *> m.X)[i * m.D + d]
    while z:
        a = m.A + bp_lowest(z) * m.D
        for d in range(m.D):
            r[d] -= a[d]
        z &= z - 1


cdef double _take_best(descent *c, bp_proposals *p, Py_ssize_t n_blocks, bint many) noexcept nogil:
    """The proposal that wins most becomes a feature, if it wins more than the penalty; returns what it wins."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t b, t, d, k, best = 0
    cdef double[8] won
    cdef double total
    memset(c.parts, 0, n_blocks * BP_TRIALS * sizeof(double))
    memset(won, 0, sizeof(won))
    for b in prange(n_blocks, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
        bp_gains(m, p, b * BLOCK, min((b + 1) * BLOCK, m.n), -1, c.parts + b * BP_TRIALS)
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
        bp_gains(m, p, b * BLOCK, min((b + 1) * BLOCK, m.n), best, c.parts + b * BP_TRIALS)
    for k in range(m.K):
        m.G[k * m.lanes + m.K] = m.G[m.K * m.lanes + k] = p.against[k * BP_TRIALS + best]
    m.G[m.K * m.lanes + m.K] = p.norm[best]
    if not m.gram:
        for d in range(m.D):
            m.A[m.K * m.D + d] = p.table[d * BP_TRIALS + best]
    m.trace += p.norm[best]
    m.K += 1
    return won[best]


cdef void _new_combinations(bp_model *m) noexcept nogil:
    if 0 < m.K <= m.exact:
        bp_combinations(m, m.q, m.least)
    elif m.K == 0 and m.exact:
        m.q[0] = m.least[0] = 0.0


# ---- a sweep ----

cdef bint _sweep(descent *c) noexcept nogil:
    """Every row chooses its features; with a penalty, rows in their order, features born and lost on the way. Whether anything changed."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t place = 0, stop, i, k, first = WINDOW if c.n_threads == 1 else WIDE_WINDOW, window = first, came
    cdef bint changed = False
    if c.penalty == 0.0:
        _propose(c, 0, m.n)
        for i in range(m.n):
            changed |= m.mask[i] != c.chosen[i]
        memcpy(m.mask, c.chosen, m.n * sizeof(uint64_t))
        return changed
    memset(c.counts, 0, sizeof(c.counts))
    for i in range(m.n):
        _count(c, m.mask[i], 1)
    k = m.K
    while place < m.n:
        stop = min(place + window, m.n)
        _propose(c, place, stop)
        came = _walk(c, place, stop, &changed)
        window = 2 * window if came == stop else first
        place = came
    return changed or m.K != k


cdef void _count(descent *c, uint64_t mask, int sign) noexcept nogil:
    while mask:
        c.counts[bp_lowest(mask)] += sign
        mask &= mask - 1


cdef void _propose(descent *c, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """What rows choose if no feature is born or lost meanwhile and none of them holds one alone."""
    cdef Py_ssize_t b, from_
    if c.n_threads == 1 or stop - start < 2 * BLOCK:
        bp_propose(&c.m, c.order, start, stop, 1, c.chosen + start, c.scratch)
        return
    for b in prange((stop - start + BLOCK - 1) // BLOCK, num_threads=c.n_threads, schedule="static"):
        from_ = start + b * BLOCK
        bp_propose(&c.m, c.order, from_, min(from_ + BLOCK, stop), 1, c.chosen + from_, c.scratch + omp_get_thread_num() * c.room)


cdef Py_ssize_t _walk(descent *c, Py_ssize_t start, Py_ssize_t stop, bint *changed) noexcept nogil:
    """Rows in their order take what they chose, up to the first that loses or bears a feature; returns the place behind it."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t place, i, k, alive = 0
    cdef uint64_t flips, lonely = 0, chosen
    cdef bint event
    for k in range(m.K):
        alive += c.counts[k] > 0
        lonely |= <uint64_t> (c.counts[k] == 1) << k
    for place in range(start, stop):
        i = c.order[place] if c.order != NULL else place
        chosen, event = c.chosen[place], False
        if m.mask[i] & lonely:
            chosen = _choose_alone(c, i, lonely)
        flips = chosen ^ m.mask[i]
        m.mask[i] = chosen
        changed[0] |= flips != 0
        while flips:
            k = bp_lowest(flips)
            flips &= flips - 1
            c.counts[k] += 1 if chosen >> k & 1 else -1
            lonely &= ~(<uint64_t> 1 << k)
            lonely |= <uint64_t> (c.counts[k] == 1) << k
            if c.counts[k] == 0:
                m.trace -= m.G[k * m.lanes + k]
                m.G[k * m.lanes + k] = INFINITY
                alive -= 1
                event = True
        if m.residual[i] > c.penalty * (1.0 - 1e-6) and alive < c.cap and m.K < m.most and _bear(c, i):
            event = True
        if event:
            _new_combinations(m)
            return place + 1
    return stop


cdef uint64_t _choose_alone(descent *c, Py_ssize_t i, uint64_t lonely) noexcept nogil:
    """What a row chooses that leaves the penalty behind with a feature nobody else has."""
    cdef bp_model *m = &c.m
    cdef uint64_t chosen, alone = m.mask[i] & lonely, z = alone
    cdef const void *row = bp_row(m, i)
    cdef double *b = c.scratch
    if m.gram:
        memcpy(b, m.B + i * m.lanes, bp_width(m.K) * sizeof(double))
    else:
        bp_products(&row, m.single, 1, m.D, m.table, bp_width(m.K), b)
    while z:
        b[bp_lowest(z)] -= 0.5 * c.penalty
        z &= z - 1
    chosen = bp_choose(m, b, m.norm[i], m.mask[i], 1, m.residual + i, c.scratch + BP_TILE * BP_MOST)
    m.residual[i] = max(0.0, m.residual[i] - c.penalty * bp_count(chosen & alone))
    return chosen


cdef bint _bear(descent *c, Py_ssize_t i) noexcept nogil:
    """A row further than lambda from what its features make of it becomes a feature: its residual."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t K = m.K, k, d, j
    cdef double norm = m.residual[i], product
    cdef uint64_t z
    cdef double *r = m.A + K * m.D
    cdef double *g = m.G + K * m.lanes
    cdef const void *row = r
    if not m.gram:
        _residual(m, i, r)
        bp_norms(r, 0, m.D, 0, 1, &norm)
    if not norm - c.penalty > BP_MARGIN * (m.norm[i] + m.trace):
        m.residual[i] = norm
        return False
    memset(g, 0, m.lanes * sizeof(double))
    if m.gram:
        memcpy(g, m.B + i * m.lanes, K * sizeof(double))
        z = m.mask[i]
        while z:
            for k in range(K):
                if k != bp_lowest(z):
                    g[k] -= m.G[bp_lowest(z) * m.lanes + k]
                else:
                    g[k] -= m.G[k * m.lanes + k]
            z &= z - 1
        for j in range(m.n):
            product = m.S[i * m.n + j]
            z = m.mask[i]
            while z:
                product -= m.B[j * m.lanes + bp_lowest(z)]
                z &= z - 1
            m.B[j * m.lanes + K] = product
    elif K:
        bp_products(&row, 0, 1, m.D, m.table, bp_width(K), g)
    for k in range(K):
        m.G[k * m.lanes + K] = g[k]
    g[K] = norm
    m.K = K + 1
    if not m.gram:
        if bp_width(K) == bp_width(K + 1):
            for d in range(m.D):
                m.table[d * bp_width(K) + K] = r[d]
        else:
            bp_lay_out(m, m.A)
    m.trace += norm
    m.mask[i] |= <uint64_t> 1 << K
    m.residual[i] = 0.0
    c.counts[K] = 1
    return True


# ---- the fit ----

cdef void _move(descent *c) noexcept nogil:
    """Rows come to the sums of their new features and leave those of their old ones."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t b, t, cell
    cdef bint many = c.n_threads > 1
    cdef int64_t *sums
    if m.gram:
        _move_products(c, 0, m.n)
        return
    for b in prange((m.n + BLOCK - 1) // BLOCK, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
        _move_rows(c, b * BLOCK, min((b + 1) * BLOCK, m.n), &c.places[omp_get_thread_num() if many else 0])
    sums = c.places[0].sums
    for t in range(1, c.n_threads):
        for cell in range(m.K * m.D):
            sums[cell] += c.places[t].sums[cell]
        memset(c.places[t].sums, 0, m.K * m.D * sizeof(int64_t))


cdef void _move_rows(descent *c, Py_ssize_t start, Py_ssize_t stop, dp_sums *place) noexcept nogil:
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i
    cdef uint64_t flips
    cdef int k
    for i in range(start, stop):
        flips = m.mask[i] ^ c.before[i]
        while flips:
            k = bp_lowest(flips)
            dp_add(place, bp_row(m, i), m.single, m.D, k, i, 1 if m.mask[i] >> k & 1 else -1)
            flips &= flips - 1


cdef void _move_products(descent *c, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i, j
    cdef uint64_t flips
    cdef const double *own
    cdef double *sums
    cdef double sign
    for i in range(start, stop):
        flips = m.mask[i] ^ c.before[i]
        own = m.S + i * m.n
        while flips:
            sums = m.P + bp_lowest(flips) * m.n
            sign = 1.0 if m.mask[i] >> bp_lowest(flips) & 1 else -1.0
            for j in range(m.n):
                sums[j] += sign * own[j]
            flips &= flips - 1


cdef void _keep(descent *c, uint64_t keep) noexcept nogil:
    """Forget all features but these."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i, k, to = 0
    for i in range(m.n):
        m.mask[i] = bp_extract(m.mask[i], keep)
    for k in range(m.K):
        if not keep >> k & 1:
            continue
        if k != to and m.gram:
            memcpy(m.P + to * m.n, m.P + k * m.n, m.n * sizeof(double))
        elif k != to:
            memcpy(c.places[0].sums + to * m.D, c.places[0].sums + k * m.D, m.D * sizeof(int64_t))
        to += 1
    for k in range(to, m.K):
        if m.gram:
            memset(m.P + k * m.n, 0, m.n * sizeof(double))
        else:
            memset(c.places[0].sums + k * m.D, 0, m.D * sizeof(int64_t))
    m.K = to


cdef bint _tidy(descent *c) noexcept nogil:
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
    if bp_count(keep) == m.K:
        return False
    _keep(c, keep)
    bp_count_pairs(m)
    return True


cdef void _refill(descent *c) noexcept nogil:
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


cdef void _fit(descent *c) noexcept nogil:
    """Least squares features of the memberships, their inner products, and J."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t k, b, d, K = m.K, pieces = (m.D + COLUMNS - 1) // COLUMNS
    cdef bint many = c.n_threads > 1 and not m.gram
    cdef uint64_t independent = (<uint64_t> 1 << K) - 1 if K < BP_MOST else ~(<uint64_t> 0)
    if c.penalty == 0.0:
        independent = bp_independent(m, -1)
    bp_pseudo_inverse(m.M, m.H, K, m.lanes, independent)
    m.trace = 0.0
    if m.gram:
        bp_gram_of_sums(m)
        bp_gram_of_fit(m.H, m.M, m.Q, m.G, K, m.lanes)
        bp_fit_products(m)
        c.objective = c.scatter - bp_explained(m)
    else:
        for k in range(K):
            _weigh(c, k)
        for b in prange(pieces, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
            bp_fit_features(m, b * COLUMNS, min((b + 1) * COLUMNS, m.D))
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
    _new_combinations(m)


cdef void _weigh(descent *c, Py_ssize_t k) noexcept nogil:
    """Row k of Z'X from its exact sum."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t d
    cdef int64_t *sums = c.places[0].sums + k * m.D
    for d in range(m.D):
        m.W[k * m.D + d] = m.M[k * m.lanes + k] * c.middle[d] + <double> sums[d] * c.step[d]


# ---- collapsed ----

cdef void _prepare_collapsed(descent *c) noexcept nogil:
    """Q = Z'X X'Z, and the sums of the features as lanes."""
    cdef bp_model *m = &c.m
    if not m.gram:
        bp_lay_out(m, m.W)
        bp_inner_products(m, m.W, m.Q)
    else:
        bp_gram_of_sums(m)
    bp_gram_of_fit(m.H, m.M, m.Q, m.G, m.K, m.lanes)


cdef bint _sweep_collapsed(descent *c) noexcept nogil:
    """Every row in turn is taken out and put back where the least squares fit of the others takes it best. Whether anything changed."""
    cdef bp_model *m = &c.m
    cdef bp_others *others = <bp_others *> (c.scratch + c.room - (sizeof(bp_others) + 7) // 8)
    cdef Py_ssize_t place, i, k
    cdef bint changed = False
    cdef uint64_t chosen, keep
    cdef double[64] p
    cdef const void *row
    cdef int what
    _prepare_collapsed(c)
    for place in range(m.n):
        i = c.order[place] if c.order != NULL else place
        if m.gram:
            for k in range(m.K):
                p[k] = m.P[k * m.n + i]
        else:
            row = bp_row(m, i)
            bp_products(&row, m.single, 1, m.D, m.table, bp_width(m.K), p)
        what = bp_collapse(m, i, p, c.penalty, c.cap, 1e-10 * c.scatter, others, &chosen, c.scratch)
        if what:
            changed = True
            _change(c, i, chosen, p, what, others.keep)
    return changed


cdef void _change(descent *c, Py_ssize_t i, uint64_t chosen, double *p, int what, uint64_t keep) noexcept nogil:
    """A row takes other features (1), with one of its own beside them (2), or in place of one that only it kept up (3)."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t k, j, to_k = 0, to_j
    cdef uint64_t was, flips
    cdef double[64] delta
    cdef double[64] z
    if what == 3:
        for k in range(m.K):
            if not keep >> k & 1:
                continue
            to_j = 0
            for j in range(m.K):
                if keep >> j & 1:
                    m.M[to_k * m.lanes + to_j] = m.M[k * m.lanes + j]
                    m.Q[to_k * m.lanes + to_j] = m.Q[k * m.lanes + j]
                    to_j += 1
            p[to_k] = p[k]
            to_k += 1
        _keep(c, keep)
    elif what == 2:
        for k in range(m.K + 1):
            m.M[k * m.lanes + m.K] = m.M[m.K * m.lanes + k] = m.Q[k * m.lanes + m.K] = m.Q[m.K * m.lanes + k] = 0.0
        p[m.K] = 0.0
        chosen |= <uint64_t> 1 << m.K
        m.K += 1
    was = m.mask[i]
    c.before[i], m.mask[i] = was, chosen
    if m.gram:
        _move_products(c, i, i + 1)
    else:
        _move_rows(c, i, i + 1, &c.places[0])
    for k in range(m.K):
        z[k] = <double> (was >> k & 1)
        delta[k] = <double> (chosen >> k & 1) - z[k]
    for k in range(m.K):
        for j in range(m.K):
            m.M[k * m.lanes + j] += delta[k] * z[j] + z[k] * delta[j] + delta[k] * delta[j]
            m.Q[k * m.lanes + j] += delta[k] * p[j] + p[k] * delta[j] + delta[k] * delta[j] * m.norm[i]
    bp_pseudo_inverse(m.M, m.H, m.K, m.lanes, (<uint64_t> 1 << m.K) - 1 if m.K < BP_MOST else ~(<uint64_t> 0))
    bp_gram_of_fit(m.H, m.M, m.Q, m.G, m.K, m.lanes)
    if m.gram:
        return
    flips = was ^ chosen
    for k in range(m.K):
        if what != 1 or flips >> k & 1:
            _weigh(c, k)
    if what != 1:
        bp_lay_out(m, m.W)
        return
    while flips:
        k = bp_lowest(flips)
        for j in range(m.D):
            m.table[j * bp_width(m.K) + k] = m.W[k * m.D + j]
        flips &= flips - 1


# ---- a restart ----

cdef void _settle(descent *c) noexcept nogil:
    """Sums and fit of the memberships as they stand, empty and dependent features dropped."""
    _move(c)
    _tidy(c)
    memcpy(c.before, c.m.mask, c.m.n * sizeof(uint64_t))
    _fit(c)


cdef void _advance(descent *c, Py_ssize_t sweeps) noexcept nogil:
    """Sweeps until nothing changes, or so many."""
    cdef bint changed, first
    while sweeps > 0 and not c.converged and c.n_iter < c.max_iter:
        first = c.n_iter == 0
        if c.collapsed and first:
            _settle(c)
        if c.collapsed:
            changed = _sweep_collapsed(c)
        else:
            changed = _sweep(c)
            if c.reseed:
                _refill(c)
            _move(c)
        changed |= _tidy(c)
        memcpy(c.before, c.m.mask, c.m.n * sizeof(uint64_t))
        _fit(c)
        c.path[c.n_iter] = c.objective
        c.n_iter += 1
        sweeps -= 1
        # the features of a start are not the least squares ones yet
        c.converged = not changed and (c.collapsed or not first)


cdef class Run:
    """Memory of one restart at a time, and the state it is in.

    Parameters
    ----------
    X : ndarray (n, D) of float32 or float64, contiguous
    products : ndarray (n, n) of float64, or None
        X X' on a grid on which its sums are exact: the gram form.
    norm : ndarray (n,) of float64
    mean, mean_products : ndarray (D,), (n,)
        Mean row, and the products of the rows with it.
    middle, scale, step : ndarray (D,)
        Grid of the sums: q = rint((x - middle) scale), worth `step` each.
    penalty : float
        lambda^2; 0: a fixed number of features.
    cap : int
        Most features.
    collapsed, reseed : bool
        Collapsed moves; empty features get the worst fitted row.
    exact : int
        Features up to which all combinations are looked at.
    max_iter : int
    order : ndarray (n,) of int32, or empty
    n_threads : int
        Within the restart.
    """

    def __cinit__(self, X, products, const double[::1] norm, const double[::1] mean, const double[::1] mean_products,
                  const double[::1] middle, const double[::1] scale, const double[::1] step, double penalty, Py_ssize_t cap,
                  bint collapsed, bint reseed, int exact, Py_ssize_t max_iter, const int32_t[::1] order, int n_threads):
        # features lost and born within one sweep both need their places
        cdef Py_ssize_t n = X.shape[0], D = X.shape[1], most = BP_MOST if penalty > 0.0 else min(cap, BP_MOST), lanes = bp_width(max(most, 1)), t
        cdef bint gram = products is not None
        cdef Py_ssize_t rows = 1 if gram else most
        cdef bp_model *m = &self.c.m
        m.n, m.D, m.K, m.most, m.lanes = n, D, 0, most, lanes
        m.single, m.gram, m.exact = X.dtype == np.float32, gram, exact
        self.c.room = bp_scratch(exact) + (sizeof(bp_others) + 7) // 8 + (0 if gram else 2 * D * BP_TRIALS)
        a = {
            "X": X, "products": products, "norm": norm, "order": order, "mean": mean, "mean_products": mean_products,
            "middle": middle, "scale": scale, "step": step,
            "mask": np.zeros(n, np.uint64), "before": np.zeros(n, np.uint64), "chosen": np.zeros(n, np.uint64),
            "residual": np.zeros(n), "square": np.zeros((4, lanes, lanes)), "q": np.zeros((1 << exact) + (1 << (exact // 2))),
            "A": np.zeros((rows, D)), "W": np.zeros((rows, D)), "table": np.zeros((1 if gram else D, lanes)),
            "B": np.zeros((n if gram else 1, lanes)), "P": np.zeros((most if gram else 1, n)),
            "sums": np.zeros((n_threads, rows, 1 if gram else D), np.int64),
            "counts": np.zeros((n_threads, BP_MOST), np.int64),
            "places": np.zeros((n_threads, sizeof(dp_sums)), np.uint8),
            "path": np.zeros(max_iter), "scratch": np.zeros((n_threads, self.c.room)),
            "parts": np.zeros(((n + BLOCK - 1) // BLOCK, BP_TRIALS)),
        }
        self.arrays = a
        m.X = <const void *> <Py_ssize_t> X.ctypes.data
        m.S = <const double *> <Py_ssize_t> products.ctypes.data if gram else NULL
        m.norm = &norm[0]
        m.mask, self.c.before, self.c.chosen = _words(a["mask"]), _words(a["before"]), _words(a["chosen"])
        m.residual, m.A, m.W, m.table = _cells(a["residual"]), _cells(a["A"]), _cells(a["W"]), _cells(a["table"])
        m.B, m.P, m.q = _cells(a["B"]), _cells(a["P"]), _cells(a["q"])
        m.least = m.q + (1 << exact)
        m.G = _cells(a["square"])
        m.M, m.H, m.Q = m.G + lanes * lanes, m.G + 2 * lanes * lanes, m.G + 3 * lanes * lanes
        self.c.places = <dp_sums *> <Py_ssize_t> a["places"].ctypes.data
        for t in range(n_threads):
            self.c.places[t].centre, self.c.places[t].scale = &middle[0], &scale[0]
            self.c.places[t].sums = <int64_t *> <Py_ssize_t> a["sums"][t].ctypes.data
            self.c.places[t].counts = <int64_t *> <Py_ssize_t> a["counts"][t].ctypes.data
        self.c.middle, self.c.step, self.c.n_threads = &middle[0], &step[0], n_threads
        self.c.penalty, self.c.cap, self.c.max_iter, self.c.collapsed, self.c.reseed = penalty, cap, max_iter, collapsed, reseed
        self.c.scatter = float(np.add.reduce(norm))
        self.c.order = &order[0] if order.shape[0] else NULL
        self.c.path, self.c.scratch = _cells(a["path"]), _cells(a["scratch"])
        self.c.parts = _cells(a["parts"])
        self.c.mean, self.c.mean_products = &mean[0], &mean_products[0]

    def greedy(self, int base, Py_ssize_t n_features, const double[:, ::1] draws, Py_ssize_t n_trials):
        """Start from residuals of drawn rows; `base`: 0 none, 1 mean, 2 zero; n_features 0: as many as pay."""
        with nogil:
            _greedy(&self.c, base, n_features, &draws[0, 0], draws.shape[1], n_trials)

    def start(self, const uint64_t[::1] masks, Py_ssize_t n_features):
        """Start from memberships."""
        with nogil:
            self._begin(&masks[0], n_features, ~(<uint64_t> 0) >> (BP_MOST - n_features))

    def exchange(self, const uint64_t[::1] masks, Py_ssize_t n_features, int dropped, const double[::1] draws):
        """Start from memberships less one feature (-1: none), and the best of the proposals as one more."""
        cdef bp_model *m = &self.c.m
        cdef bp_proposals proposals
        cdef Py_ssize_t i, trials = draws.shape[0], n_blocks = (m.n + BLOCK - 1) // BLOCK
        cdef uint64_t keep = (~(<uint64_t> 0) >> (BP_MOST - n_features)) & ~(<uint64_t> (dropped >= 0) << max(dropped, 0))
        cdef double left = 0.0
        cdef int exact = m.exact
        with nogil:
            self._begin(&masks[0], n_features, keep)
            m.exact = 0
            bp_propose(m, NULL, 0, m.n, 0, self.c.chosen, self.c.scratch)      # the residuals of the rows as they stand
            m.exact = exact
            for i in range(m.n):
                left += m.residual[i]
            if left > 1e-14 * self.c.scatter and m.K < self.c.cap:
                _draw(&self.c, left, &draws[0], trials, &proposals)
                _take_best(&self.c, &proposals, n_blocks, self.c.n_threads > 1)
                if not m.gram:
                    bp_lay_out(m, m.A)
                _new_combinations(m)

    cdef void _begin(self, const uint64_t *masks, Py_ssize_t n_features, uint64_t keep) noexcept nogil:
        cdef bp_model *m = &self.c.m
        cdef Py_ssize_t i
        self.c.n_iter, self.c.converged, m.K = 0, False, bp_count(keep)
        for i in range(m.n):
            m.mask[i] = bp_extract(masks[i], keep)
        memset(self.c.before, 0, m.n * sizeof(uint64_t))
        if m.gram:
            memset(m.P, 0, m.most * m.n * sizeof(double))
        else:
            memset(self.c.places[0].sums, 0, m.most * m.D * sizeof(int64_t))
        _settle(&self.c)

    def advance(self, Py_ssize_t sweeps):
        """So many sweeps, or fewer if nothing changes any more; returns whether that is so or there were max_iter."""
        with nogil:
            _advance(&self.c, sweeps)
        return bool(self.c.converged or self.c.n_iter >= self.c.max_iter)

    @property
    def n_features(self):
        return self.c.m.K

    @property
    def n_iter(self):
        return self.c.n_iter

    @property
    def converged(self):
        return bool(self.c.converged)

    @property
    def objective(self):
        return self.c.objective

    def spare(self):
        """(K,) what the squared error would grow by without each feature: |A_k|^2 / inv(Z'Z)_kk."""
        K = self.c.m.K
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.diag(self.arrays["square"][0])[:K] / np.diag(self.arrays["square"][2])[:K]

    @property
    def features(self):
        """(K, D) least squares features; rows form."""
        return self.arrays["A"][: self.c.m.K]

    @property
    def masks(self):
        """(n,) memberships, a bit for every feature."""
        return self.arrays["mask"]

    @property
    def path(self):
        """J after every sweep."""
        return self.arrays["path"][: self.c.n_iter]


cdef uint64_t *_words(array) noexcept:
    return <uint64_t *> <Py_ssize_t> array.ctypes.data


cdef double *_cells(array) noexcept:
    return <double *> <Py_ssize_t> array.ctypes.data


def restarts(
    list runs,                              # INOUT of Run, alike, one per thread
    const int32_t[::1] bases,               # IN    (R,) base of every restart
    Py_ssize_t n_features,                  # 0: as many as pay
    const double[:, :, ::1] draws,          # IN    (R, steps, trials) uniform numbers
    const int32_t[::1] n_trials,            # IN    (R,) rows drawn for a feature, 0: more with every feature
    double[::1] objective,                  # OUT   (R,)
    int64_t[:, ::1] outcome,                # OUT   (R, 3) features, sweeps, whether nothing changed at last
):
    """Whole restarts side by side, one per thread at a time. A restart is the same alone and among others."""
    cdef Py_ssize_t R = bases.shape[0], r, n_threads = len(runs)
    cdef int t
    cdef bint many = n_threads > 1
    cdef descent **places = <descent **> calloc(n_threads, sizeof(descent *))
    if places == NULL:
        raise MemoryError("No memory is left for the restarts.")
    try:
        for t in range(n_threads):
            places[t] = &(<Run?> runs[t]).c
        for r in prange(R, nogil=True, num_threads=n_threads, use_threads_if=many, schedule="dynamic", chunksize=1):
            t = omp_get_thread_num() if many else 0
            _restart(places[t], bases[r], n_features, &draws[r, 0, 0], draws.shape[2], n_trials[r])
            objective[r] = places[t].objective
            outcome[r, 0], outcome[r, 1], outcome[r, 2] = places[t].m.K, places[t].n_iter, places[t].converged
    finally:
        free(places)


cdef void _restart(descent *c, int base, Py_ssize_t n_features, const double *draws, Py_ssize_t n_columns,
                   Py_ssize_t n_trials) noexcept nogil:
    """One restart from its start to its end."""
    _greedy(c, base, n_features, draws, n_columns, n_trials)
    _advance(c, c.max_iter)


# ---- rows and given features ----

def assign(
    const floating[:, ::1] X,               # IN  (n, D)
    const double[:, ::1] A,                 # IN  (K, D)
    int exact,                              # features up to which all combinations are looked at
    uint64_t[::1] masks,                    # OUT (n,) features of every row
    double[::1] residual,                   # OUT (n,) |x - z A|^2
    int n_threads,
):
    """The features of new rows, each row for itself: the best combination, or bit after bit from none until nothing changes."""
    cdef Py_ssize_t n = X.shape[0], D = X.shape[1], K = A.shape[0], lanes = bp_width(K), b, room
    cdef bint many = n_threads > 1
    cdef bp_model m
    memset(&m, 0, sizeof(m))
    square, q = np.zeros((lanes, lanes)), np.zeros((1 << exact) + (1 << (exact // 2)))
    table, norm = np.empty((D, lanes)), np.empty(n)
    scratch = np.empty((n_threads, bp_scratch(exact)))
    room = scratch.shape[1]
    cdef double *places = _cells(scratch)
    cdef double *norms_ = _cells(norm)
    m.n, m.D, m.K, m.most, m.lanes, m.single, m.exact = n, D, K, K, lanes, floating is float, exact
    m.X, m.norm, m.mask, m.residual = &X[0, 0], norms_, &masks[0], &residual[0]
    m.A, m.table, m.G, m.q = <double *> &A[0, 0], _cells(table), _cells(square), _cells(q)
    m.least = m.q + (1 << exact)
    masks[:] = 0
    with nogil:
        bp_lay_out(&m, m.A)
        bp_inner_products(&m, m.A, m.G)
        for b in range(K):
            m.trace += m.G[b * lanes + b]
        _new_combinations(&m)
        for b in prange((n + BLOCK - 1) // BLOCK, num_threads=n_threads, use_threads_if=many, schedule="static"):
            _assign(&m, norms_, b * BLOCK, min((b + 1) * BLOCK, n), places + (omp_get_thread_num() if many else 0) * room)


cdef void _assign(const bp_model *m, double *norm, Py_ssize_t start, Py_ssize_t stop, double *scratch) noexcept nogil:
    bp_norms(m.X, m.single, m.D, start, stop, norm)
    bp_propose(m, NULL, start, stop, PASSES, m.mask + start, scratch)


def left_over(
    const floating[:, ::1] X,               # IN  (n, D)
    const double[:, ::1] A,                 # IN  (K, D)
    const uint64_t[::1] masks,              # IN  (n,)
    double[::1] residual,                   # OUT (n,) |x - z A|^2, column by column
    int n_threads,
):
    """Squared distance of every row to what its features make of it."""
    cdef Py_ssize_t n = X.shape[0], D = X.shape[1], b
    cdef bint many = n_threads > 1
    cdef bp_model m
    memset(&m, 0, sizeof(m))
    rows = np.empty((n_threads, D))
    cdef double *places = _cells(rows)
    m.n, m.D, m.single, m.X = n, D, floating is float, &X[0, 0]
    m.A, m.mask = <double *> &A[0, 0] if A.shape[0] else NULL, <uint64_t *> &masks[0]
    for b in prange((n + BLOCK - 1) // BLOCK, nogil=True, num_threads=n_threads, use_threads_if=many, schedule="static"):
        _left_over(&m, b * BLOCK, min((b + 1) * BLOCK, n), places + (omp_get_thread_num() if many else 0) * D, &residual[0])


cdef void _left_over(const bp_model *m, Py_ssize_t start, Py_ssize_t stop, double *r, double *residual) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, stop):
        _residual(m, i, r)
        bp_norms(r, 0, m.D, 0, 1, residual + i)


def norms(
    const floating[:, ::1] X,               # IN  (n, D)
    double[::1] norm,                       # OUT (n,) |x|^2
):
    """Squared norms of the rows."""
    with nogil:
        bp_norms(&X[0, 0], floating is float, X.shape[1], 0, X.shape[0], &norm[0])


def products(
    const floating[:, ::1] X,               # IN  (n, D)
    const double[:, ::1] table,             # IN  (D, TRIALS) vectors as lanes
    double[:, ::1] out,                     # OUT (n, TRIALS)
    int n_threads,
):
    """Inner products of every row with a few vectors."""
    cdef Py_ssize_t n = X.shape[0], D = X.shape[1], b
    cdef bint many = n_threads > 1
    for b in prange((n + BP_TILE - 1) // BP_TILE, nogil=True, num_threads=n_threads, use_threads_if=many, schedule="static"):
        _products(&X[0, 0], floating is float, D, b * BP_TILE, min((b + 1) * BP_TILE, n), &table[0, 0], &out[0, 0])


cdef void _products(const void *X, bint single, Py_ssize_t D, Py_ssize_t start, Py_ssize_t stop, const double *table,
                    double *out) noexcept nogil:
    cdef const void *rows[8]
    cdef Py_ssize_t i
    for i in range(start, stop):
        rows[i - start] = <const char *> X + i * D * (sizeof(float) if single else sizeof(double))
    bp_products(rows, single, stop - start, D, table, BP_TRIALS, out + start * BP_TRIALS)
