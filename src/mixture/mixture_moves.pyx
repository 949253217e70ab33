"""Mixture with feature selection: moves beyond the updates of q, each kept only where it raises the ELBO.

Components are ordered by size or merged; a column that every component selects is deselected in one of them.
"""

import numpy as np

from libc.math cimport exp, log
from libc.string cimport memcpy, memset

from craftc._kernels._common cimport check, doubles_out
from craftc._kernels._team cimport team, team_start, team_step
from craftc._kernels.mixture_updates cimport (
    GAUSSIAN, HALF_LN_2PI, MX_CERTAIN, Counts, Mixture, Model, Prior, above_zero, count, evidence_of_reach,
    gain_over_noise, log_beta, log_evidence, log_gamma, log_gamma_fall, no_counts, own_log_likelihood,
    pool_scatter, same_reach, selected, share_of, update_components, update_masks, update_noise,
    update_shares, update_sticks)
from craftc._kernels.team cimport Team

cdef extern from "mixture/_mixture_gain.h":
    enum:
        MG_TILE

    ctypedef struct mg_columns:
        Py_ssize_t D
        const double *b0
        const double *value
        const double *constant
        const double *linear
        const double *square
        const double *log_mean
        const double *log_rest

    ctypedef struct mg_cells:
        const double *s1
        const double *s2
        const double *more1
        const double *more2
        double other, reach, kappa, a, evidence

    double mg_gain(const mg_columns *, const mg_cells *) noexcept nogil


# ---- order of sizes ----


cdef double stick_elbo(const double *size, Py_ssize_t K, double concentration) noexcept nogil:
    """Contribution of the sizes to the ELBO once q(v) is fitted to them, without a constant: sum_k ln B(1 +
    n_k, alpha + behind_k).
    """
    cdef double value = behind_elbo(size, K, concentration)
    cdef Py_ssize_t k
    for k in range(K - 1):
        value += log_gamma(1.0 + size[k])
    return value


cdef double behind_elbo(const double *size, Py_ssize_t K, double concentration) noexcept nogil:
    """`stick_elbo` without sum_k ln Gamma(1 + n_k), k < K - 1. With n_k + behind_k = behind_{k-1}, most Gamma
    functions cancel out:

    ln Gamma(alpha + n_{K-1}) - ln Gamma(1 + alpha + n) - sum_{k < K - 2} ln(alpha + behind_k)
    """
    cdef double behind = 0.0, value = 0.0, factor = 1.0
    cdef Py_ssize_t k
    if K < 2:
        return 0.0
    for k in range(K - 1, -1, -1):
        if k < K - 2:  # one logarithm of many factors
            factor *= concentration + behind
            if not 1e-200 < factor < 1e200:
                value -= log(factor)
                factor = 1.0
        behind += size[k]
    return value - log(factor) + log_gamma_fall(concentration + size[K - 1], 1.0 + behind - size[K - 1])


cdef bint find_order(const Model *m, Py_ssize_t *order) noexcept nogil:
    """order (K): components by falling size, ties in their present order.

    Returns whether it differs from the present one.
    """
    cdef bint differs = False
    cdef Py_ssize_t k, at
    for k in range(m.K):
        at = k
        while at > 0 and m.size[order[at - 1]] < m.size[k]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
        differs |= at < k
    return differs


cdef void permute(
    double *table, Py_ssize_t K, Py_ssize_t D, const Py_ssize_t *order, double *work,
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(K):
        memcpy(work + k * D, table + order[k] * D, sizeof(double) * D)
    memcpy(table, work, sizeof(double) * K * D)


cdef bint sort_by_size(Model *m, Py_ssize_t *order, double *work) noexcept nogil:
    """Order components by falling size if that raises the ELBO; returns whether it did. work (K D + K)."""
    cdef double *by_size = work + m.K * m.D
    cdef double **tables = [m.reach, m.s1, m.s2, m.p, m.divergence, m.own.constant, m.own.linear,
                            m.own.square]
    cdef double **shares = [m.share.a, m.share.b, m.share.log_mean, m.share.log_rest, m.share.value]
    cdef Py_ssize_t k, i
    if not find_order(m, order):
        return False
    for k in range(m.K):
        by_size[k] = m.size[order[k]]
    if not stick_elbo(by_size, m.K, m.concentration) > stick_elbo(m.size, m.K, m.concentration):
        return False
    memcpy(m.size, by_size, sizeof(double) * m.K)
    for i in range(8):
        if tables[i] != NULL:  # not every model has all tables
            permute(tables[i], m.K, m.D, order, work)
    for i in range(5 if m.own_fractions else 0):
        permute(shares[i], m.K, 1, order, work)
    update_sticks(m)
    return True


# ---- merges ----


cdef bint in_lanes(const Model *m) noexcept nogil:
    """Whether gains over the noise can be computed for many columns at once: all have the same reach, and
    masks of every component.
    """
    cdef Py_ssize_t k
    if m.D < MG_TILE or m.kind != GAUSSIAN or m.tied or m.own_fractions:
        return False
    for k in range(m.K):
        if not same_reach(m, k):
            return False
    return True


cdef double gain_in_lanes(const Model *m, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """`group_gain` where `in_lanes` holds."""
    cdef mg_columns columns = mg_columns(
        D=m.D, b0=m.prior.b0, value=m.prior.value, constant=m.noise.constant, linear=m.noise.linear,
        square=m.noise.square, log_mean=m.share.log_mean, log_rest=m.share.log_rest)
    cdef double other = 0.0 if i == j else 1.0, reach = m.reach[i * m.D] + other * m.reach[j * m.D]
    cdef Counts c = no_counts()
    count(&c, &m.prior, reach)
    cdef mg_cells cells = mg_cells(
        s1=m.s1 + i * m.D, s2=m.s2 + i * m.D, more1=m.s1 + j * m.D, more2=m.s2 + j * m.D, other=other,
        reach=reach, kappa=c.kappa, a=c.a, evidence=evidence_of_reach(&c))
    return mg_gain(&columns, &cells)


cdef double group_gain(const Model *m, Py_ssize_t i, Py_ssize_t j, bint lanes=False) noexcept nogil:
    """Gain over the noise of the merged cells of components i and j: lambda, the noise and m fixed, theta and
    y at their optimum.

    i == j: of the component itself; i < 0: of component j if it is empty. Own fractions: that of component i,
    if it is not empty. lanes: `in_lanes` holds.
    """
    cdef double total = 0.0, factor = 1.0, gain, rest, high, low, reach, s1, s2
    cdef Counts c = no_counts()
    cdef Py_ssize_t d, at, other, share
    if lanes:
        return gain_in_lanes(m, i, j)
    for d in range(m.D):
        gain = 0.0
        share = share_of(m, i if i >= 0 else j, d)
        if i >= 0:
            at, other = i * m.D + d, j * m.D + d
            reach = m.reach[at] + (0.0 if i == j else m.reach[other])
            s1 = m.s1[at] + (0.0 if i == j else m.s1[other])
            s2 = m.s2[at] + (0.0 if i == j else m.s2[other])
            gain = gain_over_noise(m, &c, d, reach, s1, s2)
        if m.tied:
            total += m.p[d] * gain
            continue
        gain += m.share.log_mean[share]
        rest = m.share.log_rest[share]
        high, low = gain if gain > rest else rest, rest if gain > rest else gain
        total += high  # and ln(1 + e^(low - high)), with one logarithm of many factors below 2
        if low - high > -MX_CERTAIN:
            factor *= 1.0 + exp(low - high)
            if factor > 1e300:
                total += log(factor)
                factor = 1.0
    return total + log(factor)


cdef double merged_stick_elbo(
    const Model *m, Py_ssize_t i, Py_ssize_t j, const Py_ssize_t *order, double others, double *work,
) noexcept nogil:
    """`stick_elbo` of the sizes once i and j are merged; order: components by falling size; work (K).

    others: the sum of ln Gamma(1 + n_k) over the other components.
    """
    cdef double both = m.size[i] + m.size[j]
    cdef Py_ssize_t n = 0, k
    cdef bint placed = False
    for k in range(m.K):
        if not placed and m.size[order[k]] <= both:
            work[n] = both
            n += 1
            placed = True
        if order[k] != i and order[k] != j:
            work[n] = m.size[order[k]]
            n += 1
    work[n] = 0.0
    return others + log_gamma(1.0 + both) + behind_elbo(work, m.K, m.concentration)


cdef double fill_factorials(const Model *m, double *out) noexcept nogil:
    """out (K): ln Gamma(1 + n_k). Returns their sum."""
    cdef double total = 0.0
    cdef Py_ssize_t k
    for k in range(m.K):
        out[k] = log_gamma(1.0 + m.size[k])
        total += out[k]
    return total


cdef struct Pairs:              # of components that may be merged
    const Model *m
    bint lanes                  # `in_lanes`
    Py_ssize_t *order           # (K) components by falling size
    double *factorial           # (K) ln Gamma(1 + n_k)
    double factorials, apart    # their sum; `stick_elbo`
    double *alone               # (K) gain over the noise of a component
    double *empty               # (K) and if it were empty
    double *sizes               # (threads, K)
    double *gain                # (K, K)


cdef void fill_gain_alone(void *context, int i, int thread) noexcept nogil:
    cdef Pairs *p = <Pairs *> context
    p.alone[i] = group_gain(p.m, i, i, p.lanes) if p.m.size[i] > 0.0 else 0.0
    if i == 0 or p.m.own_fractions:
        p.empty[i] = group_gain(p.m, -1, i)


cdef void fill_pair_gains(void *context, int i, int thread) noexcept nogil:
    """The pairs of component i with later ones; 0 where one is empty."""
    cdef Pairs *p = <Pairs *> context
    cdef const Model *m = p.m
    cdef double *gain = p.gain + i * m.K
    cdef double sizes
    cdef Py_ssize_t j
    memset(gain, 0, sizeof(double) * m.K)
    for j in range(i + 1, m.K):
        if m.size[i] > 0.0 and m.size[j] > 0.0:
            sizes = merged_stick_elbo(m, i, j, p.order, p.factorials - p.factorial[i] - p.factorial[j],
                                      p.sizes + thread * m.K) - p.apart
            gain[j] = (group_gain(m, i, j, p.lanes) + p.empty[j if m.own_fractions else 0]
                       - p.alone[i] - p.alone[j] + sizes)


# ---- columns that every component selects ----


cdef struct Column:             # that every component selects, before one of them deselects it
    Py_ssize_t d
    double a, b, log_gamma_a, log_b  # of the noise precision that all columns share
    double rich, poor, value        # shapes of q(lambda) and their ln B


cdef Column column_before(const Model *m, const double *pooled, Py_ssize_t d) noexcept nogil:
    """pooled (3, D) as `update_noise` leaves it."""
    cdef Column c = Column(d=d, a=0.0, b=1.0, log_gamma_a=0.0, log_b=0.0, rich=0.0, poor=0.0, value=0.0)
    if m.kind == GAUSSIAN and not m.own_noise:
        pool_scatter(m, pooled, &c.a, &c.b)
        c.log_gamma_a, c.log_b = log_gamma(c.a), log(c.b)
    if not m.own_fractions:
        set_share(m, &c, d)
    return c


cdef void set_share(const Model *m, Column *c, Py_ssize_t share) noexcept nogil:
    cdef double all = 0.0, some = selected(m, share, &all)
    c.rich, c.poor = m.share_a + some, m.share_b + (all - some)
    c.value = log_beta(c.rich, c.poor)


cdef double noise_gain(
    const Model *m, const double *pooled, const Column *column, double reach, double s1, double s2,
) noexcept nogil:
    """Change of the log evidence of the noise if it takes these cells of the column."""
    cdef const Prior *prior = &m.noise_prior
    cdef Py_ssize_t d = column.d
    cdef double r = pooled[d], t1 = pooled[m.D + d], t2 = pooled[2 * m.D + d], before, kappa, wider
    cdef double scatter, a = column.a
    cdef Counts c = no_counts()
    if m.kind != GAUSSIAN or m.own_noise:
        before = log_evidence(prior, m.kind, &c, d, r, t1, t2)
        return log_evidence(prior, m.kind, &c, d, r + reach, t1 + s1, t2 + s2) - before
    kappa = prior.k0 + r
    wider = kappa + reach
    scatter = above_zero(t2 + s2 - (t1 + s1) * (t1 + s1) / wider) - above_zero(t2 - t1 * t1 / kappa)
    return (log_gamma(a + 0.5 * reach) - column.log_gamma_a + a * column.log_b
            - (a + 0.5 * reach) * log(column.b + 0.5 * scatter)
            + 0.5 * log(kappa / wider) - reach * HALF_LN_2PI)


cdef double deselection_gain(
    const Model *m, const double *pooled, Column *column, Py_ssize_t first, Py_ssize_t last,
) noexcept nogil:
    """Gain of the ELBO if components [first, last) deselect the column, noise and lambda refitted."""
    cdef double reach = 0.0, s1 = 0.0, s2 = 0.0, own = 0.0, p = m.p[first * m.D + column.d]
    cdef Py_ssize_t k, at
    if m.own_fractions:
        set_share(m, column, first)
    for k in range(first, last):
        at = k * m.D + column.d
        own += own_log_likelihood(m, k, column.d)
        reach += m.reach[at]
        s1 += m.s1[at]
        s2 += m.s2[at]
    return (noise_gain(m, pooled, column, reach, s1, s2) - own + log_beta(column.rich - p, column.poor + p)
            - column.value)


cdef bint all_select(const Model *m, Py_ssize_t d) noexcept nogil:
    """Whether every component that is not empty selects column d."""
    cdef Py_ssize_t k
    for k in range(m.K):
        if m.size[k] > 0.0 and not m.p[k * m.D + d] > 0.5:
            return False
    return True


cdef Py_ssize_t deselect_columns(Model *m, double margin, double *pooled) noexcept nogil:
    """Deselect columns that every component selects; returns how many. All factors except the labels' are
    then refitted.

    The noise has no data for such a column, so the updates alone never deselect it. It is deselected in the
    one component (tied: in all) where a noise fitted to its cells raises the ELBO most.
    """
    cdef Py_ssize_t deselected = 0, d, k, best_k
    cdef double best, gain
    cdef Column column
    update_components(m)
    update_noise(m, pooled)
    update_sticks(m)
    for d in range(m.D):
        if not all_select(m, d):
            continue
        best = margin
        best_k = -1
        column = column_before(m, pooled, d)
        for k in range(1 if m.tied else m.K):
            if not m.tied and not m.size[k] > 0.0:
                continue
            gain = deselection_gain(m, pooled, &column, k, m.K if m.tied else k + 1)
            if gain > best:
                best = gain
                best_k = k
        if best_k < 0:
            continue
        for k in range(best_k, m.K if m.tied else best_k + 1):
            m.p[k * m.D + d] = 0.0
        update_noise(m, pooled)
        deselected += 1
    if deselected:
        update_shares(m)
        update_masks(m)
        update_noise(m, pooled)
        update_shares(m)
    return deselected


# ---- what Python calls ----


def sort(Mixture mixture not None) -> Positions | None:
    """Order components by falling size if that raises the ELBO.

    Returns their order, None if it is unchanged.
    """
    cdef bint changed
    with nogil:
        changed = sort_by_size(&mixture.m, mixture.order, mixture.work)
    return mixture.arrays[0].copy() if changed else None


def pair_gains(Mixture mixture not None, Team helpers=None) -> Floats:
    """(K, K), upper triangle: estimated gain of the ELBO if two components are merged, theta and y refitted,
    the labels fixed.

    It leaves out the entropy of labels that the two share, so it may be too high. `helpers` share out the
    components.
    """
    cdef Model *m = &mixture.m
    cdef Pairs p
    cdef team alone
    cdef team *threads
    gain, sizes = np.empty((m.K, m.K)), np.empty((1 if helpers is None else helpers.n_threads, m.K))
    p.m, p.lanes, p.order = m, in_lanes(m), mixture.order
    p.gain, p.sizes = doubles_out(gain), doubles_out(sizes)
    p.alone, p.factorial, p.empty = mixture.work, mixture.work + m.K, mixture.work + 2 * m.K
    team_start(&alone)
    threads = &alone if helpers is None else helpers.lead()
    with nogil:
        find_order(m, p.order)
        p.apart, p.factorials = stick_elbo(m.size, m.K, m.concentration), fill_factorials(m, p.factorial)
        team_step(threads, fill_gain_alone, &p, <int> m.K)
        team_step(threads, fill_pair_gains, &p, <int> m.K)
    if helpers is not None:
        helpers.rest()
    return gain


def stick_gain(Mixture mixture not None, Py_ssize_t i, Py_ssize_t j) -> float:
    """Gain of the sizes alone if components i and j are merged."""
    cdef Model *m = &mixture.m
    check(0 <= i < m.K and 0 <= j < m.K, "i or j")
    find_order(m, mixture.order)
    cdef double *factorial = mixture.work + m.K
    cdef double others = fill_factorials(m, factorial) - factorial[i] - factorial[j]
    return (merged_stick_elbo(m, i, j, mixture.order, others, mixture.work)
            - stick_elbo(m.size, m.K, m.concentration))


def merge(Mixture mixture not None, Py_ssize_t i, Py_ssize_t j):
    """Component i takes the rows of component j: their sufficient statistics."""
    for sums in (mixture.size, mixture.reach, mixture.s1, mixture.s2):
        sums[i] += sums[j]
        sums[j] = 0.0


def deselect(Mixture mixture not None, double margin) -> int:
    """Deselect columns that every component selects in one of them (tied: in all) where the ELBO rises by
    more than `margin`.

    Returns the number of columns; all factors except that of the labels are then refitted.
    """
    cdef Py_ssize_t deselected
    with nogil:
        deselected = deselect_columns(&mixture.m, margin, mixture.pooled)
    return deselected
