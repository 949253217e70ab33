"""The EM algorithm of one factor behind the columns (craftc.craft.one_factor).

Given the place t of a row, a column has the distribution p(l | t) = exp(c_l + b_l t) / sum over its levels,
with b = S a for its statistics S (levels, r), of mean 0 over the rows, and a few weights a. One step fits the
intercepts c to the expected counts of the levels, takes a step of Newton's method for the weights, and finds
the posterior distributions of the places, and with them the expected counts.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, log, sqrt
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset

from craftc._kernels._common cimport check

cdef extern from "craft/_craft_factor.h" nogil:
    Py_ssize_t simd_lines(Py_ssize_t doubles)
    double factor_expect(const double *table, const int32_t *rows, const double *weight, Py_ssize_t n,
                         Py_ssize_t D, Py_ssize_t lanes, const double *prior, double *room, double *mass,
                         double *counts)
    void factor_shares(const double *intercept, const double *tilt, const double *node, Py_ssize_t levels,
                       Py_ssize_t lanes, double *share, double *log_share)

cdef double LEAST = 1e-300      # share of a place, expected count
cdef double RIDGE = 1e-3        # of a Hessian, over its mean diagonal entry
cdef double ENOUGH = 1e-4       # share of the gain by which a last step raises it


cdef struct factor_t:
    Py_ssize_t D, lanes, R          # columns, places in whole vectors, statistics
    const Py_ssize_t *start         # (D + 1,) first level of every column
    const Py_ssize_t *size          # (D,) statistics of every column; -1: indicators of all levels but one
    const double *statistics        # (levels, R)
    const double *share0            # (levels,) over all rows
    const double *node              # (lanes,)
    uint8_t *held                   # (D,)
    double *intercept               # (levels,)
    double *tilt                    # (levels,)
    double *share                   # (levels, lanes)
    double *log_share               # (levels, lanes)
    double *counts                  # (levels, lanes) expected
    double *mean                    # (lanes, R) of the statistics at every place
    double *hessian                 # (R, R)
    double *ascent                  # (R,)
    double *weight                  # (lanes,) expected rows with a present cell


def fit(
    const int32_t[:, ::1] rows not None,        # IN    (n, D) levels, -1 where a cell is missing
    const double[::1] weight not None,          # IN    (n,)
    const Py_ssize_t[::1] starts not None,      # IN    (D + 1,) first level of every column
    const Py_ssize_t[::1] sizes not None,       # IN    (D,) statistics; -1: indicators of all levels but one
    const double[:, ::1] statistics not None,   # IN    (levels, R) of mean 0, not read where the size is -1
    const double[::1] column_weight not None,   # IN    (D,)
    const double[::1] shares not None,          # IN    (levels,) over all rows
    const double[::1] price not None,           # IN    (D,) nats that a column must save to stay
    uint8_t[::1] held not None,                 # INOUT (D,) whether the column takes part
    const double[::1] nodes not None,           # IN    (T,) places
    const double[:, ::1] places not None,       # IN    (n, T) first shares of the places in every row
    const double[::1] log_prior not None,       # IN    (T,) of the places; empty: they have weights, which
                                                # follow the rows
    const Py_ssize_t[::1] prune not None,       # IN    steps after which columns that do not pay are left out
    Py_ssize_t fewest,                          # steps
    Py_ssize_t most,                            # steps
    double enough,                              # nats at which the search ends
    double[:, ::1] log_shares not None,         # OUT   (levels, T)
) -> float:
    """Nats by which the marginal likelihood of the rows exceeds that of independent columns."""
    cdef Py_ssize_t n = rows.shape[0], D = rows.shape[1], T = nodes.shape[0], W = shares.shape[0]
    cdef Py_ssize_t lanes = simd_lines(T), R = statistics.shape[1], d, i, j, k, at, step
    check(starts.shape[0] == D + 1 and sizes.shape[0] == D and column_weight.shape[0] == D
          and price.shape[0] == D and held.shape[0] == D, "starts, sizes, column_weight, price or held")
    check(log_prior.shape[0] == T or log_prior.shape[0] == 0, "log_prior")
    check(weight.shape[0] == n and places.shape[0] == n and places.shape[1] == T, "weight or places")
    check(statistics.shape[0] == W and log_shares.shape[0] == W and log_shares.shape[1] == T,
          "statistics or log_shares")
    check(n > 0 and D > 0 and T > 0 and R > 0, "rows, nodes or statistics")
    check(starts[0] == 0 and starts[D] == W, "starts")
    for d in range(D):
        check(starts[d] < starts[d + 1] and -1 <= sizes[d] <= R, "starts or sizes")
        check(starts[d + 1] - starts[d] - 1 <= R or sizes[d] >= 0, "statistics")
    for d in range(D):
        for i in range(n):
            check(rows[i, d] < 0 or starts[d] <= rows[i, d] < starts[d + 1], "rows")
    cdef double[::1] base = np.empty(W), intercept = np.empty(W), tilt = np.zeros(W)
    cdef double[:, ::1] share = np.empty((W, lanes)), log_share = np.empty((W, lanes))
    cdef double[:, ::1] table = np.empty((W, lanes)), counts = np.zeros((W, lanes))
    cdef double[:, ::1] mean = np.empty((lanes, R))
    cdef double[:, ::1] hessian = np.empty((R, R))
    cdef double[::1] ascent = np.empty(R), expected = np.empty(lanes), node = np.zeros(lanes)
    cdef double[::1] prior = np.full(lanes, -INFINITY), mass = np.zeros(lanes), room = np.empty(lanes)
    cdef factor_t F
    cdef double total = 0.0, without = 0.0, gain = -INFINITY, former
    F.D, F.lanes, F.R = D, lanes, R
    F.start, F.size, F.share0 = &starts[0], &sizes[0], &shares[0]
    F.statistics, F.node, F.held = &statistics[0, 0], &node[0], &held[0]
    F.intercept, F.tilt, F.share, F.log_share = &intercept[0], &tilt[0], &share[0, 0], &log_share[0, 0]
    F.counts, F.mean, F.hessian = &counts[0, 0], &mean[0, 0], &hessian[0, 0]
    F.ascent, F.weight = &ascent[0], &expected[0]
    with nogil:
        for k in range(T):
            node[k] = nodes[k]
            if log_prior.shape[0]:
                prior[k] = log_prior[k]
        for at in range(W):
            base[at] = intercept[at] = log(max(shares[at], LEAST))
        _follow(&F)
        for i in range(n):
            total += weight[i]
            for k in range(T):
                mass[k] += weight[i] * places[i, k]
            for d in range(D):
                at = rows[i, d]
                if at >= 0:
                    without += weight[i] * column_weight[d] * base[at]
                    for k in range(T):
                        counts[at, k] += weight[i] * places[i, k]
        for step in range(most):
            if not log_prior.shape[0]:
                for k in range(T):
                    prior[k] = log(max(mass[k] / total, LEAST))
            _maximise(&F)
            for d in range(D):
                for at in range(starts[d], starts[d + 1]):
                    for k in range(lanes):
                        table[at, k] = column_weight[d] * log_share[at, k]
            memset(&counts[0, 0], 0, W * lanes * sizeof(double))
            memset(&mass[0], 0, lanes * sizeof(double))
            former = gain
            gain = factor_expect(&table[0, 0], &rows[0, 0], &weight[0], n, D, lanes, &prior[0], &room[0],
                                 &mass[0], &counts[0, 0]) - without
            if (step >= fewest and gain - former <= ENOUGH * fabs(gain)) or gain > enough:
                break
            for j in range(prune.shape[0]):
                if prune[j] == step:
                    _prune(&F, column_weight, price, base)
        for at in range(W):
            for k in range(T):
                log_shares[at, k] = log_share[at, k]
    return gain


cdef void _follow(factor_t *F) noexcept nogil:
    """The distributions of the columns at these intercepts and slopes."""
    cdef Py_ssize_t d, first
    for d in range(F.D):
        first = F.start[d]
        factor_shares(F.intercept + first, F.tilt + first, F.node, F.start[d + 1] - first, F.lanes,
                      F.share + first * F.lanes, F.log_share + first * F.lanes)


cdef void _maximise(factor_t *F) noexcept nogil:
    """Intercepts that fit the expected counts of the levels, then a step of Newton's method for the slopes.
    """
    cdef Py_ssize_t d, at, k
    cdef double found, expected
    for d in range(F.D):
        if not F.held[d]:
            continue
        _add_up(F, d)
        for at in range(F.start[d], F.start[d + 1]):
            found = expected = 0.0
            for k in range(F.lanes):
                found += F.counts[at * F.lanes + k]
                expected += F.share[at * F.lanes + k] * F.weight[k]
            if found > 0.0:
                F.intercept[at] += log(found / max(expected, LEAST))
    _follow(F)
    for d in range(F.D):
        if F.held[d]:
            _add_up(F, d)
            _newton(F, d)
    _follow(F)


cdef void _add_up(factor_t *F, Py_ssize_t d) noexcept nogil:
    """The expected rows with a present cell of column d at every place."""
    cdef Py_ssize_t at, k
    memset(F.weight, 0, F.lanes * sizeof(double))
    for at in range(F.start[d], F.start[d + 1]):
        for k in range(F.lanes):
            F.weight[k] += F.counts[at * F.lanes + k]


cdef void _newton(factor_t *F, Py_ssize_t d) noexcept nogil:
    """One step for the slopes of column d."""
    cdef Py_ssize_t first = F.start[d], m = F.start[d + 1] - first, r = F.size[d], R = F.R, at, k, a, b
    cdef bint indicators = r < 0
    cdef const double *share0 = F.share0 + first
    cdef const double *s
    cdef double *H = F.hessian
    cdef double residual, spread, expected, rests = 0.0, spreads = 0.0, shift, factor
    if indicators:
        r = m - 1
    for a in range(r):
        F.ascent[a] = 0.0
        for b in range(a + 1):
            H[a * R + b] = 0.0
    for k in range(F.lanes):
        for a in range(r):
            F.mean[k * R + a] = -share0[a + 1] if indicators else 0.0
    for at in range(m):
        s = F.statistics + (first + at) * R
        residual = spread = 0.0
        for k in range(F.lanes):
            expected = F.share[(first + at) * F.lanes + k] * F.weight[k]
            residual += (F.counts[(first + at) * F.lanes + k] - expected) * F.node[k]
            spread += expected * F.node[k] * F.node[k]
        if not indicators:
            for a in range(r):
                F.ascent[a] += s[a] * residual
                for k in range(F.lanes):
                    F.mean[k * R + a] += s[a] * F.share[(first + at) * F.lanes + k]
                for b in range(a + 1):
                    H[a * R + b] += s[a] * s[b] * spread
            continue
        rests, spreads = rests + residual, spreads + spread
        if at == 0:
            continue
        a = at - 1              # the indicator of this level, less its share
        F.ascent[a] += residual
        H[a * R + a] += spread
        for k in range(F.lanes):
            F.mean[k * R + a] += F.share[(first + at) * F.lanes + k]
        for b in range(r):      # - p_b spread_a in entries (a, b) and (b, a)
            if b < a:
                H[a * R + b] -= share0[b + 1] * spread
            elif b > a:
                H[b * R + a] -= share0[b + 1] * spread
            else:
                H[a * R + a] -= 2.0 * share0[a + 1] * spread
    if indicators:
        for a in range(r):
            F.ascent[a] -= share0[a + 1] * rests
            for b in range(a + 1):
                H[a * R + b] += share0[a + 1] * share0[b + 1] * spreads
    for k in range(F.lanes):
        factor = F.weight[k] * F.node[k] * F.node[k]
        for a in range(r):
            for b in range(a + 1):
                H[a * R + b] -= factor * F.mean[k * R + a] * F.mean[k * R + b]
    if not _solve(H, F.ascent, r, R):
        return
    shift = 0.0
    for a in range(r if indicators else 0):
        shift += share0[a + 1] * F.ascent[a]
    for at in range(m):
        s = F.statistics + (first + at) * R
        if indicators:
            F.tilt[first + at] += (F.ascent[at - 1] if at else 0.0) - shift
        else:
            for a in range(r):
                F.tilt[first + at] += s[a] * F.ascent[a]


cdef bint _solve(double *H, double *x, Py_ssize_t r, Py_ssize_t R) noexcept nogil:
    """x = (H + ridge)^-1 x for the lower half H of a matrix, whose Cholesky factor takes its place; False if
    it is not positive definite.
    """
    cdef Py_ssize_t a, b, c
    cdef double trace = 0.0
    for a in range(r):
        trace += H[a * R + a]
    for a in range(r):
        H[a * R + a] += RIDGE * (1.0 + trace / r)
        for b in range(a + 1):
            for c in range(b):
                H[a * R + b] -= H[a * R + c] * H[b * R + c]
            if b < a:
                H[a * R + b] /= H[b * R + b]
        if not H[a * R + a] > 0.0:
            return False
        H[a * R + a] = sqrt(H[a * R + a])
    for a in range(r):
        for c in range(a):
            x[a] -= H[a * R + c] * x[c]
        x[a] /= H[a * R + a]
    for a in range(r - 1, -1, -1):
        for c in range(a + 1, r):
            x[a] -= H[c * R + a] * x[c]
        x[a] /= H[a * R + a]
    return True


cdef void _prune(
    factor_t *F, const double[::1] column_weight, const double[::1] price, const double[::1] base,
) noexcept nogil:
    """Leave out the columns whose distributions along the factor save less than their price."""
    cdef Py_ssize_t d, at, k
    cdef double saved
    for d in range(F.D):
        saved = 0.0
        for at in range(F.start[d], F.start[d + 1]):
            for k in range(F.lanes):
                saved += F.counts[at * F.lanes + k] * (F.log_share[at * F.lanes + k] - base[at])
        if F.held[d] and column_weight[d] * saved <= price[d]:
            F.held[d] = False
            for at in range(F.start[d], F.start[d + 1]):
                F.intercept[at], F.tilt[at] = base[at], 0.0
    _follow(F)


cdef int _check_rows(const int32_t[:, ::1] rows, Py_ssize_t n_levels) except -1:
    """Raise unless all levels are from -1 to n_levels - 1."""
    cdef Py_ssize_t i, d
    cdef bint inside = True
    for i in range(rows.shape[0]):
        for d in range(rows.shape[1]):
            inside &= -1 <= rows[i, d] < n_levels
    return check(inside, "rows")


def sums_of_rows(
    const int32_t[:, ::1] rows not None,        # IN  (n, D) levels, -1 where a cell is missing
    const double[::1] of_level not None,        # IN  (levels,)
    double[::1] out not None,                   # OUT (n,)
):
    """The sum of the values of the levels of every row."""
    cdef Py_ssize_t i, d
    check(out.shape[0] == rows.shape[0], "out")
    _check_rows(rows, of_level.shape[0])
    with nogil:
        for i in range(rows.shape[0]):
            out[i] = 0.0
            for d in range(rows.shape[1]):
                if rows[i, d] >= 0:
                    out[i] += of_level[rows[i, d]]


def sums_of_levels(
    const int32_t[:, ::1] rows not None,        # IN  (n, D) levels, -1 where a cell is missing
    const double[::1] of_row not None,          # IN  (n,)
    double[::1] out not None,                   # OUT (levels,)
):
    """The sum of the values of the rows with every level."""
    cdef Py_ssize_t i, d
    check(of_row.shape[0] == rows.shape[0], "of_row")
    _check_rows(rows, out.shape[0])
    with nogil:
        for i in range(out.shape[0]):
            out[i] = 0.0
        for i in range(rows.shape[0]):
            for d in range(rows.shape[1]):
                if rows[i, d] >= 0:
                    out[rows[i, d]] += of_row[i]
