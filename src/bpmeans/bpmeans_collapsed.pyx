"""Collapsed BP-means: each row is compared with the least squares features of the other rows (Eq. 10).

A row that returns as z raises the squared error by f(z) = |x - z B|^2 / (1 + z H z'), where H = inv(Z_-'Z_-)
and B = H Z_-'X belong to the other rows: with b = B x and G = B B', three quadratic forms in z. They follow
from those of all rows by one rank-one step.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memset

from craftc._kernels._bpmeans cimport (
    BP_MOST, bp_extract, bp_first, bp_model, bp_products, bp_quadratic, bp_row, bp_width, descent,
    simd_lowest,
)
from craftc._kernels.bpmeans_fit cimport (
    VISITS_AT_ONCE, dequantise_sum, fit_gram, independent_columns, inner_products, invert, keep_features,
    lay_out, move_rows, visits_of_row,
)

cdef enum:                      # what a row does
    STAY                        # nothing
    CHANGE                      # it takes other features
    OPEN                        # it takes other features, and opens one of its own
    REPLACE                     # it takes other features, and the one that it alone determined is dropped


# ---- the fit without one row ----

cdef double _increase(const other_rows *o, double norm, Py_ssize_t lanes, uint64_t mask) noexcept nogil:
    """f at z."""
    cdef double above = norm, below = 1.0
    cdef uint64_t z = mask, y
    cdef int k, j
    while z:
        k = simd_lowest(z)
        above -= 2.0 * o.b[k]
        y = mask
        while y:
            j = simd_lowest(y)
            above += o.G[k * lanes + j]
            below += o.H[k * lanes + j]
            y &= y - 1
        z &= z - 1
    return above / below if above > 0.0 else 0.0


cdef void _refit_others(
    const bp_model *m, Py_ssize_t i, const double *p, double penalty, other_rows *o,
) noexcept nogil:
    """The fit without row i from the integers, for the features that the other rows determine."""
    cdef double[BP_MOST * BP_MOST] M, Q
    cdef double[BP_MOST] own
    cdef Py_ssize_t[BP_MOST] column
    cdef Py_ssize_t k, j, source, to
    cdef uint64_t z
    memset(M, 0, sizeof(M))
    memset(Q, 0, sizeof(Q))
    o.keep = z = independent_columns(m.M, m.lanes, m.mask, m.n, m.K, i)
    o.present = bp_extract(m.mask[i], o.keep)
    o.K = 0
    while z:
        column[o.K] = simd_lowest(z)
        own[o.K] = <double> (m.mask[i] >> column[o.K] & 1)
        z &= z - 1
        o.K += 1
    for k in range(o.K):
        for j in range(o.K):
            source, to = column[k] * m.lanes + column[j], k * m.lanes + j
            M[to] = m.M[source] - own[k] * own[j]
            Q[to] = m.Q[source] - own[k] * p[column[j]] - p[column[k]] * own[j] + own[k] * own[j] * m.norm[i]
    invert(M, o.H, o.K, m.lanes)
    for k in range(o.K):
        o.b[k] = 0.0
        for j in range(o.K):
            o.b[k] += o.H[k * m.lanes + j] * (p[column[j]] - own[j] * m.norm[i])
    fit_gram(o.H, M, Q, o.G, o.K, m.lanes)
    o.cost = penalty if o.K < m.K else _increase(o, m.norm[i], m.lanes, o.present)


cdef void _leave_out(
    const bp_model *m, Py_ssize_t i, const double *p, double penalty, other_rows *o,
) noexcept nogil:
    """The fit without row i, given p = Z'X x."""
    cdef Py_ssize_t K = m.K, lanes = m.lanes, k, j
    cdef uint64_t mask = m.mask[i], z
    cdef double[BP_MOST] u, c
    cdef double leverage = 0.0, inner = m.norm[i], left = m.norm[i], s
    for k in range(K):
        u[k] = o.b[k] = c[k] = 0.0
        for j in range(K):
            o.b[k] += m.H[k * lanes + j] * p[j]
        z = mask
        while z:
            u[k] += m.H[k * lanes + simd_lowest(z)]
            c[k] -= m.G[k * lanes + simd_lowest(z)]
            z &= z - 1
        c[k] += o.b[k]
    z = mask
    while z:
        k = simd_lowest(z)
        leverage += u[k]
        inner -= o.b[k]
        left -= o.b[k] + c[k]
        z &= z - 1
    left = left if left > 0.0 else 0.0
    o.K, o.keep, o.present = K, bp_first(K), mask
    if not leverage < 1.0 - 1e-6:       # f is nearly 0 / 0: a feature may be determined by this row alone
        _refit_others(m, i, p, penalty, o)
        return
    s = 1.0 / (1.0 - leverage)
    o.cost = left * s
    for k in range(K):
        o.b[k] -= s * inner * u[k]
        for j in range(K):
            o.H[k * lanes + j] = m.H[k * lanes + j] + s * u[k] * u[j]
            o.G[k * lanes + j] = m.G[k * lanes + j] - s * (u[k] * c[j]
                                                           + c[k] * u[j]) + s * s * left * u[k] * u[j]


# ---- the features of the row ----

cdef uint64_t _flip(
    const other_rows *o, double norm, double slack, Py_ssize_t lanes, double *cost,
) noexcept nogil:
    """Bit after bit takes the value that lowers f."""
    cdef double[BP_MOST] g, h
    cdef double above = norm, below = 1.0, sign, next_above, next_below
    cdef uint64_t mask = o.present, z
    cdef Py_ssize_t k, j
    for k in range(o.K):
        g[k], h[k] = -o.b[k], 0.0
        z = mask
        while z:
            g[k] += o.G[k * lanes + simd_lowest(z)]
            h[k] += o.H[k * lanes + simd_lowest(z)]
            z &= z - 1
    z = mask
    while z:
        k = simd_lowest(z)
        above += g[k] - o.b[k]
        below += h[k]
        z &= z - 1
    for k in range(o.K):
        sign = -1.0 if mask >> k & 1 else 1.0
        next_above = above + 2.0 * sign * g[k] + o.G[k * lanes + k]
        next_below = below + 2.0 * sign * h[k] + o.H[k * lanes + k]
        if not next_above / next_below < above / below - slack:
            continue
        mask ^= <uint64_t> 1 << k
        above, below = next_above, next_below
        for j in range(o.K):
            g[j] += sign * o.G[k * lanes + j]
            h[j] += sign * o.H[k * lanes + j]
    cost[0] = above / below if above > 0.0 else 0.0
    return mask


cdef uint64_t _best(
    const other_rows *o, double norm, double slack, Py_ssize_t lanes, double *cost, double *scratch,
) noexcept nogil:
    """The lowest f of all combinations; the present one stays unless another is lower by more than slack."""
    cdef Py_ssize_t n = <Py_ssize_t> 1 << o.K, z, best = 0
    cdef double *above = scratch
    cdef double *below = scratch + n
    cdef double enough
    bp_quadratic(o.G, o.b, -2.0, norm, o.K, lanes, above)
    bp_quadratic(o.H, NULL, 0.0, 1.0, o.K, lanes, below)
    for z in range(n):
        above[z] = (above[z] if above[z] > 0.0 else 0.0) / below[z]
        best = z if above[z] < above[best] else best
    if above[best] < above[o.present] - slack:
        enough, best = above[best] + slack, 0
        while not above[best] <= enough:
            best += 1
    else:
        best = <Py_ssize_t> o.present
    cost[0] = above[best]
    return <uint64_t> best


cdef int _decide(
    const descent *c, Py_ssize_t i, const double *p, double slack, other_rows *o, uint64_t *chosen,
) noexcept nogil:
    """What row i does, and the features it takes (bits of o.keep)."""
    cdef const bp_model *m = &c.m
    cdef double cost
    _leave_out(m, i, p, c.penalty, o)
    if o.K <= m.exact:
        chosen[0] = _best(o, m.norm[i], slack, m.lanes, &cost, c.scratch)
    else:
        chosen[0] = _flip(o, m.norm[i], slack, m.lanes, &cost)
    if o.K < m.K:
        return REPLACE if cost < c.penalty - slack else STAY
    if cost > c.penalty + slack and m.K < c.cap:
        return OPEN if o.cost - c.penalty > slack else STAY
    return CHANGE if o.cost - cost > slack else STAY


# ---- a sweep ----

cdef void sweep_collapsed(descent *c) noexcept nogil:
    """Take more rows out in turn, and return each with the features of least f."""
    cdef bp_model *m = &c.m
    cdef other_rows *others = <other_rows *> (c.scratch + c.room - (sizeof(other_rows) + 7) // 8)
    cdef Py_ssize_t i, k
    cdef double visits = 0.0
    cdef uint64_t chosen
    cdef double[BP_MOST] p
    cdef const void *row
    cdef int what
    if c.place == 0:
        if not m.gram:          # Q = Z'X X'Z
            lay_out(m, m.W)
            inner_products(m, m.W, m.Q)
        fit_gram(m.H, m.M, m.Q, m.G, m.K, m.lanes)
    while c.place < m.n and visits < VISITS_AT_ONCE:
        i = c.order[c.place] if c.order != NULL else c.place
        visits += visits_of_row(c)
        if m.gram:
            for k in range(m.K):
                p[k] = m.P[k * m.n + i]
        else:
            row = bp_row(m, i)
            bp_products(&row, m.single, 1, m.D, m.table, bp_width(m.K), p)
        what = _decide(c, i, p, 1e-10 * c.scatter, others, &chosen)
        if what != STAY:
            c.changed = True
            _change(c, i, chosen, p, what, others.keep)
            visits += m.K**3
        c.place += 1


cdef void _change(
    descent *c, Py_ssize_t i, uint64_t chosen, double *p, int what, uint64_t keep,
) noexcept nogil:
    """Row i takes the chosen features; Z'Z, Q, H and G follow."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t k, j, kept = 0
    cdef uint64_t old, flips
    cdef double[BP_MOST] delta, z
    if what == REPLACE:
        for k in range(m.K):
            if keep >> k & 1:
                p[kept] = p[k]
                kept += 1
        keep_features(c, keep)
    elif what == OPEN:
        for k in range(m.K + 1):
            m.M[k * m.lanes + m.K] = m.M[m.K * m.lanes + k] = m.Q[k * m.lanes
                                                                  + m.K] = m.Q[m.K * m.lanes + k] = 0.0
        p[m.K] = 0.0
        chosen |= <uint64_t> 1 << m.K
        m.K += 1
    old = m.mask[i]
    c.before[i], m.mask[i] = old, chosen
    move_rows(c, i, i + 1, &c.places[0])
    for k in range(m.K):
        z[k] = <double> (old >> k & 1)
        delta[k] = <double> (chosen >> k & 1) - z[k]
    for k in range(m.K):
        for j in range(m.K):
            m.M[k * m.lanes + j] += delta[k] * z[j] + z[k] * delta[j] + delta[k] * delta[j]
            m.Q[k * m.lanes + j] += delta[k] * p[j] + p[k] * delta[j] + delta[k] * delta[j] * m.norm[i]
    invert(m.M, m.H, m.K, m.lanes)
    fit_gram(m.H, m.M, m.Q, m.G, m.K, m.lanes)
    if m.gram:
        return
    flips = old ^ chosen
    for k in range(m.K):
        if what != CHANGE or flips >> k & 1:
            dequantise_sum(c, k)
    if what != CHANGE:
        lay_out(m, m.W)
        return
    while flips:
        k = simd_lowest(flips)
        for j in range(m.D):
            m.table[j * bp_width(m.K) + k] = m.W[k * m.D + j]
        flips &= flips - 1
