"""Mixture with feature selection: the variational updates of q, each the exact maximiser of the ELBO, and the
ELBO.

Gaussian, Poisson and Bernoulli columns differ in two places only: the posterior of a component's column and
the posterior of the noise. Both give three numbers that define the expected log density of a cell, E ln p(x)
= reach * constant + x * linear + x^2 * square. The likelihood of any set of rows is therefore a combination
of their (reach, sum x, sum x^2). reach is the weight of the row, for a count times its exposure.
"""

import numpy as np

from libc.math cimport exp, fabs, log, log1p
from libc.string cimport memset

from craftc._kernels._common cimport check, doubles_in, doubles_out

cdef extern from "mixture/_mixture_updates.h":
    ctypedef struct mu_gaussian:
        const double *s1
        const double *s2
        const double *b0
        const double *value
        double reach, kappa, a, digamma_a, evidence
        double *constant
        double *linear
        double *square
        double *divergence

    ctypedef struct mu_selection:
        const double *reach
        const double *s1
        const double *s2
        const double **own
        const double **noise
        const double *divergence
        const double *log_mean
        const double *log_rest
        bint one_share
        double *p

    void mu_fit(const mu_gaussian *, Py_ssize_t) noexcept nogil
    double mu_select(const mu_selection *, Py_ssize_t) noexcept nogil
    double mu_likelihood(const mu_selection *, Py_ssize_t) noexcept nogil

cdef extern from "mixture/_mixture_shared.h":
    ctypedef struct mu_noise:
        Py_ssize_t K, D
        const double *p
        const double *reach
        const double *s1
        const double *s2
        double **rest
        double k0, a0
        const double *b0
        const double *value
        bint common
        double digamma_a, log_b, tau
        double *constant
        double *linear
        double *square

    ctypedef struct mu_shares:
        Py_ssize_t K, D
        const double *p
        double prior_a, prior_b, digamma_both, log_gamma_both
        double *a
        double *b
        double *log_mean
        double *log_rest
        double *value

    void mu_pool(const mu_noise *) noexcept nogil
    double mu_fit_noise(const mu_noise *) noexcept nogil
    void mu_fit_shares(const mu_shares *) noexcept nogil
    double mu_shares_elbo(const mu_shares *) noexcept nogil

# Gamma(a, b) of a precision or a rate, Beta(a, b), and the log evidence (counts: without ln x!, x ln e)
cdef struct Posterior:
    double a, b, log_b, evidence


# ---- ln Gamma ----
# Stirling's series after a shift to x >= 10, where six terms are exact; the absolute error is a few 1e-16
# max(1, |value|). One formula on
# every platform, and without the global sign of the C library's lgamma, which threads would share.


cdef inline double stirling_rest(double x) noexcept nogil:
    """What Stirling's formula lacks, x >= 10."""
    cdef double r = 1.0 / x
    cdef double s = r * r
    return r * (1.0 / 12
                - s * (1.0 / 360
                       - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188 - s * (691.0 / 360360))))))


cdef inline double log_gamma(double x) noexcept nogil:
    cdef double shift = 1.0, s
    while x < 10.0:
        shift *= x
        x += 1.0
    s = stirling_rest(x)
    s += (x - 0.5) * log(x) - x + HALF_LN_2PI
    return s if shift == 1.0 else s - log(shift)


cdef inline double digamma(double x) noexcept nogil:
    """The derivative of ln Gamma."""
    cdef double shift = 0.0, r, s
    while x < 10.0:
        shift += 1.0 / x
        x += 1.0
    r = 1.0 / x
    s = r * r
    s = s * (1.0 / 12
             - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760))))))
    return log(x) - 0.5 * r - s - shift


cdef inline double log_gamma_fall(double x, double step) noexcept nogil:
    """ln Gamma(x) - ln Gamma(x + step), step >= 0: its error is that of a number of its own size, while both
    functions are much larger if x is.
    """
    if x < 10.0:
        return log_gamma(x) - log_gamma(x + step)
    return (stirling_rest(x) - stirling_rest(x + step) - (x - 0.5) * log1p(step / x)
            - step * (log(x + step) - 1.0))


cdef inline double log_beta(double a, double b) noexcept nogil:
    return log_gamma(min(a, b)) + log_gamma_fall(max(a, b), min(a, b))


# ---- components and noise ----


cdef inline double above_zero(double x) noexcept nogil:
    return x if x > 0.0 else 0.0


cdef inline Counts no_counts() noexcept nogil:
    return Counts(reach=-1.0, kappa=0.0, a=0.0, log_kappa=0.0, log_gamma_a=0.0, digamma_a=0.0)


cdef void count(Counts *c, const Prior *prior, double reach) noexcept nogil:
    """ln Gamma and psi are computed again only where the amount of data changed."""
    if reach == c.reach:
        return
    c.reach = reach
    c.kappa = prior.k0 + reach
    c.a = prior.a0 + 0.5 * reach
    c.log_kappa = log(prior.k0 / c.kappa)
    c.log_gamma_a = log_gamma(c.a)
    c.digamma_a = digamma(c.a)


cdef double evidence_of_reach(const Counts *c) noexcept nogil:
    """The part of a Gaussian log evidence that depends on the amount of data only."""
    return c.log_gamma_a + 0.5 * c.log_kappa - c.reach * HALF_LN_2PI


cdef inline Posterior fit(
    const Prior *prior, int kind, Counts *c, Py_ssize_t d, double reach, double s1, double s2,
) noexcept nogil:
    cdef Posterior q
    if kind == BERNOULLI:
        q.a = prior.a0 + s1
        q.b = prior.b0[d] + above_zero(reach - s1)
        q.log_b = 0.0
        q.evidence = log_beta(q.a, q.b) + prior.value[d]
    elif kind == POISSON:
        q.a = prior.a0 + s1
        q.b = prior.b0[d] + reach
        q.log_b = log(q.b)
        q.evidence = log_gamma(q.a) + prior.value[d] - q.a * q.log_b
    else:
        count(c, prior, reach)
        q.a = c.a
        q.b = prior.b0[d] + 0.5 * above_zero(s2 - s1 * s1 / c.kappa)
        q.log_b = log(q.b)
        q.evidence = c.log_gamma_a + prior.value[d] + 0.5 * c.log_kappa - reach * HALF_LN_2PI - q.a * q.log_b
    return q


cdef inline double expected(Density f, Py_ssize_t at, double reach, double s1, double s2) noexcept nogil:
    """Expected log density of cells with these sums."""
    return reach * f.constant[at] + s1 * f.linear[at] + s2 * f.square[at]


cdef inline void set_gaussian(
    Density out, Py_ssize_t at, const Counts *c, double s1, double digamma_a, double log_b, double tau,
) noexcept nogil:
    cdef double mean = s1 / c.kappa
    out.square[at] = -0.5 * tau
    out.linear[at] = tau * mean
    out.constant[at] = 0.5 * (digamma_a - log_b - LN_2PI - 1.0 / c.kappa - tau * mean * mean)


cdef inline void set_density(
    Density out, Py_ssize_t at, int kind, Posterior q, const Counts *c, double s1,
) noexcept nogil:
    if kind == GAUSSIAN:
        set_gaussian(out, at, c, s1, c.digamma_a, q.log_b, q.a / q.b)
        return
    out.square[at] = 0.0
    if kind == BERNOULLI:
        out.constant[at] = digamma(q.b) - digamma(q.a + q.b)
        out.linear[at] = digamma(q.a) - digamma(q.b)
        return
    out.linear[at] = digamma(q.a) - q.log_b
    out.constant[at] = -q.a / q.b


cdef double log_evidence(
    const Prior *prior, int kind, Counts *c, Py_ssize_t d, double reach, double s1, double s2,
) noexcept nogil:
    """Log evidence of cells with these sums under one posterior fitted to them."""
    return fit(prior, kind, c, d, reach, s1, s2).evidence


cdef double gain_over_noise(
    const Model *m, Counts *c, Py_ssize_t d, double reach, double s1, double s2,
) noexcept nogil:
    """Log evidence of cells with these sums under their own distribution, minus their expected log density
    under the noise.
    """
    return fit(&m.prior, m.kind, c, d, reach, s1, s2).evidence - expected(m.noise, d, reach, s1, s2)


cdef bint same_reach(const Model *m, Py_ssize_t k) noexcept nogil:
    """Whether all columns of a component have the same amount of data: no cell is missing."""
    cdef const double *reach = m.reach + k * m.D
    cdef Py_ssize_t d
    for d in range(1, m.D):
        if reach[d] != reach[0]:
            return False
    return m.D > 0


cdef void update_component(Model *m, Py_ssize_t k) noexcept nogil:
    """q(theta | y = 1) of one component."""
    cdef Py_ssize_t d, at = k * m.D
    cdef double reach, s1, s2
    cdef Counts c = no_counts()
    cdef Posterior q
    cdef mu_gaussian columns
    if m.kind == GAUSSIAN and same_reach(m, k):
        reach = m.reach[at]
        count(&c, &m.prior, reach)
        columns = mu_gaussian(
            s1=m.s1 + at, s2=m.s2 + at, b0=m.prior.b0, value=m.prior.value, reach=reach, kappa=c.kappa, a=c.a,
            digamma_a=c.digamma_a, evidence=evidence_of_reach(&c), constant=m.own.constant + at,
            linear=m.own.linear + at, square=m.own.square + at, divergence=m.divergence + at)
        mu_fit(&columns, m.D)
        return
    for d in range(m.D):
        at = k * m.D + d
        reach, s1, s2 = m.reach[at], m.s1[at], m.s2[at]
        q = fit(&m.prior, m.kind, &c, d, reach, s1, s2)
        set_density(m.own, at, m.kind, q, &c, s1)
        m.divergence[at] = expected(m.own, at, reach, s1, s2) - q.evidence


cdef void update_components(Model *m) noexcept nogil:
    """q(theta | y = 1) of all components."""
    cdef Py_ssize_t k
    for k in range(m.K):
        update_component(m, k)


cdef void pool_scatter(const Model *m, const double *pooled, double *a, double *b) noexcept nogil:
    """Shapes a, b of the noise precision that all columns share; pooled (3, D) as `update_noise` leaves it.
    """
    cdef const double *reach = pooled
    cdef const double *s1 = pooled + m.D
    cdef const double *s2 = pooled + 2 * m.D
    cdef Py_ssize_t d
    a[0] = m.noise_prior.a0
    b[0] = m.noise_prior.b0[0]
    for d in range(m.D):
        a[0] += 0.5 * reach[d]
        b[0] += 0.5 * above_zero(s2[d] - s1[d] * s1[d] / (m.noise_prior.k0 + reach[d]))


cdef void update_noise(Model *m, double *pooled) noexcept nogil:
    """q of the noise, from the cells that no component selects; pooled (3, D): OUT their reach, sums and
    squares.
    """
    cdef Py_ssize_t D = m.D, d
    cdef const Prior *prior = &m.noise_prior
    cdef double evidence = 0.0, likelihood = 0.0, a = 0.0, b = 1.0
    cdef double *reach = pooled
    cdef double *s1 = pooled + D
    cdef double *s2 = pooled + 2 * D
    cdef Counts c = no_counts()
    cdef Posterior q
    cdef mu_noise noise
    m.noise_divergence[0] = 0.0
    if D == 0:
        return
    noise.K, noise.D, noise.p, noise.reach, noise.s1, noise.s2 = m.K, D, m.p, m.reach, m.s1, m.s2
    noise.rest[0], noise.rest[1], noise.rest[2] = reach, s1, s2
    mu_pool(&noise)
    if m.kind == GAUSSIAN:
        noise.k0, noise.a0, noise.b0 = prior.k0, prior.a0, prior.b0
        noise.value, noise.common = prior.value, not m.own_noise
        noise.constant, noise.linear, noise.square = m.noise.constant, m.noise.linear, m.noise.square
        noise.digamma_a = noise.log_b = noise.tau = 0.0
        if noise.common:
            pool_scatter(m, pooled, &a, &b)
            noise.digamma_a, noise.log_b, noise.tau = digamma(a), log(b), a / b
            evidence = log_gamma(a) + prior.value[0] - a * noise.log_b
        m.noise_divergence[0] = mu_fit_noise(&noise) - evidence
        return
    for d in range(D):
        q = fit(prior, m.kind, &c, d, reach[d], s1[d], s2[d])
        set_density(m.noise, d, m.kind, q, &c, s1[d])
        evidence += q.evidence
        likelihood += expected(m.noise, d, reach[d], s1[d], s2[d])
    m.noise_divergence[0] = likelihood - evidence


# ---- feature selection ----


cdef inline double probability(double odds, double *entropy) noexcept nogil:
    """Probability for these log-odds; adds its entropy."""
    cdef double far = fabs(odds), less, small
    if far > MX_CERTAIN:
        return 1.0 if odds > 0.0 else 0.0
    less = exp(-far)
    small = less / (1.0 + less)
    entropy[0] += log1p(less) + far * small
    return 1.0 - small if odds > 0.0 else small


cdef inline double own_log_likelihood(const Model *m, Py_ssize_t k, Py_ssize_t d) noexcept nogil:
    """Expected log likelihood of component k's cells in column d under q(theta), minus its divergence."""
    cdef Py_ssize_t at = k * m.D + d
    return expected(m.own, at, m.reach[at], m.s1[at], m.s2[at]) - m.divergence[at]


cdef inline double selection_gain(const Model *m, Py_ssize_t k, Py_ssize_t d) noexcept nogil:
    """Increase of the ELBO, in nats, if component k selects column d."""
    cdef Py_ssize_t at = k * m.D + d
    return own_log_likelihood(m, k, d) - expected(m.noise, d, m.reach[at], m.s1[at], m.s2[at])


cdef mu_selection columns_of(const Model *m, Py_ssize_t k) noexcept nogil:
    """The columns of one component."""
    cdef Py_ssize_t at = k * m.D, share = share_of(m, k, 0)
    cdef mu_selection columns
    columns.reach, columns.s1 = m.reach + at, m.s1 + at
    columns.s2, columns.divergence = m.s2 + at, m.divergence + at
    columns.own[0], columns.own[1], columns.own[2] = m.own.constant + at, m.own.linear + at, m.own.square + at
    columns.noise[0], columns.noise[1], columns.noise[2] = m.noise.constant, m.noise.linear, m.noise.square
    columns.log_mean, columns.log_rest = m.share.log_mean + share, m.share.log_rest + share
    columns.one_share = m.own_fractions
    columns.p = m.p + at
    return columns


cdef void update_masks_of(Model *m, Py_ssize_t k) noexcept nogil:
    """q(y) of one component, where it has masks of its own."""
    cdef mu_selection columns = columns_of(m, k)
    m.mask_entropy[k] = mu_select(&columns, m.D)


cdef void update_masks(Model *m) noexcept nogil:
    """q(y)."""
    cdef Py_ssize_t k, d
    cdef double odds
    if m.all_selected:
        return
    if not m.tied:
        for k in range(m.K):
            update_masks_of(m, k)
        return
    memset(m.mask_entropy, 0, sizeof(double) * m.K)
    for d in range(m.D):
        odds = m.share.log_mean[d] - m.share.log_rest[d]
        for k in range(m.K):
            odds += selection_gain(m, k, d)
        odds = probability(odds, m.mask_entropy)
        for k in range(m.K):
            m.p[k * m.D + d] = odds


cdef inline void fit_beta(
    Beta q, Py_ssize_t i, double a, double b, double digamma_both,
) noexcept nogil:
    """Shapes a and b, and psi(a + b)."""
    q.a[i] = a
    q.b[i] = b
    q.log_mean[i] = digamma(a) - digamma_both
    q.log_rest[i] = digamma(b) - digamma_both
    q.value[i] = log_beta(a, b)


cdef inline double beta_elbo(Beta q, Py_ssize_t i, double a, double b) noexcept nogil:
    """E ln p - KL of a Beta variable whose prior and data add up to the shapes a, b; without the prior's own
    ln B.
    """
    return (a - q.a[i]) * q.log_mean[i] + (b - q.b[i]) * q.log_rest[i] + q.value[i]


cdef Py_ssize_t share_of(const Model *m, Py_ssize_t k, Py_ssize_t d) noexcept nogil:
    """Which share is the probability that component k selects column d: lambda_d, or m_k."""
    return k if m.own_fractions else d


cdef inline Py_ssize_t n_shares(const Model *m) noexcept nogil:
    return m.K if m.own_fractions else m.D


cdef double selected(const Model *m, Py_ssize_t i, double *all) noexcept nogil:
    """Sum of p_kd over the `all` masks y that share i governs."""
    cdef Py_ssize_t j, n = m.D if m.own_fractions else 1 if m.tied else m.K
    cdef double sum = 0.0
    all[0] = <double> n
    for j in range(n):
        sum += m.p[i * m.D + j if m.own_fractions else j * m.D + i]
    return sum


cdef mu_shares shares_of_columns(const Model *m) noexcept nogil:
    """q(lambda); tied components have one mask."""
    cdef mu_shares shares
    shares.K, shares.D, shares.p = min(m.K, 1) if m.tied else m.K, m.D, m.p
    shares.prior_a, shares.prior_b = m.share_a, m.share_b
    shares.digamma_both = shares.log_gamma_both = 0.0
    shares.a, shares.b = m.share.a, m.share.b
    shares.log_mean, shares.log_rest = m.share.log_mean, m.share.log_rest
    shares.value = m.share.value
    return shares


cdef void update_shares(Model *m) noexcept nogil:
    """q(lambda), or q(m_k)."""
    cdef Py_ssize_t k
    cdef double some, all = 0.0, both, digamma_both
    cdef mu_shares shares = shares_of_columns(m)
    both = m.share_a + m.share_b + (m.D if m.own_fractions else shares.K)  # all shares govern as many masks
    digamma_both = digamma(both)
    if not m.own_fractions:
        shares.digamma_both, shares.log_gamma_both = digamma_both, log_gamma(both)
        mu_fit_shares(&shares)
        return
    for k in range(m.K):
        some = selected(m, k, &all)
        fit_beta(m.share, k, m.share_a + some, m.share_b + (all - some), digamma_both)


# ---- sizes ----


cdef void update_sticks(Model *m) noexcept nogil:
    """q(v) and E ln pi."""
    cdef Py_ssize_t k
    cdef double behind = 0.0, left = 0.0, both
    for k in range(m.K - 1, -1, -1):
        if k + 1 < m.K:
            both = 1.0 + m.size[k] + m.concentration + behind
            fit_beta(m.stick, k, 1.0 + m.size[k], m.concentration + behind, digamma(both))
        behind += m.size[k]
    for k in range(m.K - 1):
        m.weight[k] = left + m.stick.log_mean[k]
        left += m.stick.log_rest[k]
    m.weight[m.K - 1] = left


# ---- ELBO ----


cdef double evidence_lower_bound(const Model *m) noexcept nogil:
    """The ELBO of the current q, without the constants that no update changes (ln x! and x ln e of counts).
    """
    cdef double elbo = m.entropy[0] - m.noise_divergence[0]
    cdef double behind = 0.0
    cdef double some, all = 0.0
    cdef Py_ssize_t k
    cdef mu_selection columns
    cdef mu_shares shares
    for k in range(m.K):
        columns = columns_of(m, k)
        elbo += m.mask_entropy[k] + mu_likelihood(&columns, m.D)
    if not m.all_selected:
        elbo -= n_shares(m) * log_beta(m.share_a, m.share_b)
    if m.own_fractions:
        for k in range(m.K):
            some = selected(m, k, &all)
            elbo += beta_elbo(m.share, k, m.share_a + some, m.share_b + (all - some))
    elif not m.all_selected:
        shares = shares_of_columns(m)
        elbo += mu_shares_elbo(&shares)
    for k in range(m.K - 1, -1, -1):
        if k + 1 < m.K:
            elbo += beta_elbo(m.stick, k, 1.0 + m.size[k], m.concentration + behind) + log(m.concentration)
        behind += m.size[k]
    return elbo


cdef int set_beta(Beta *q, array) except -1:
    q.a, q.b, q.log_mean, q.log_rest, q.value = (
        doubles_out(array[0]), doubles_out(array[1]), doubles_out(array[2]), doubles_out(array[3]),
        doubles_out(array[4]))
    return 0


cdef class Mixture:
    """q(z, v, y, theta, lambda, noise); of the responsibilities only the sufficient statistics are kept. Its
    arrays are views of its state.

    Parameters
    ----------
    K, D : int
        Components there is room for, columns.
    prior, noise_prior : (float, float, ndarray (D,))
        k0, a0, b0 of a component's columns and of the noise; isotropic noise reads b0 of the first column.
    concentration : float
        alpha.
    kind : {"gaussian", "poisson", "bernoulli"}
        Of the columns.
    own_noise : bool
        Every column has its own noise precision, otherwise all share one.
    tied : bool
        One y_d for all components.
    own_fractions : bool
        y_kd ~ Bernoulli(m_k), m_k ~ Beta(share_prior), in the place of lambda_d.
    all_selected : bool
        y_kd = 1, known: masks are not updated, and the ELBO has no lambda. Needs `tied`.
    """

    def __init__(self, Py_ssize_t K, Py_ssize_t D, prior: tuple[float, float, Floats],
                 noise_prior: tuple[float, float, Floats], double concentration, *, str kind: str,
                 bint own_noise, bint tied, bint own_fractions=False, bint all_selected=False):
        cdef Model *m = &self.m
        check(K >= 0 and D >= 0, "K or D")
        # unpacked: without bounds checks, an index is not checked in tuples either
        own_k0, own_a0, own_b0 = prior
        noise_k0, noise_a0, noise_b0 = noise_prior
        check(np.shape(own_b0) == np.shape(noise_b0) == (D,), "prior or noise_prior")
        self.size, self.weight = np.zeros(K), np.zeros(K)
        self.reach, self.s1, self.s2, self.p, self.divergence = np.zeros((5, K, D))
        self.own, self.noise = np.zeros((3, K, D)), np.zeros((3, D))
        if own_fractions and tied:
            raise ValueError("own_fractions needs masks of every component, got tied=True")
        check(tied or not all_selected, "all_selected")
        self.share, self.stick = np.ones((5, K if own_fractions else D)), np.zeros((5, K))
        (self.entropy, self.noise_divergence), self.mask_entropy = np.zeros((2, 1)), np.zeros(max(K, 1))
        if kind == "bernoulli":
            values = [np.array([-log_beta(a0, b) for b in b0]) for _, a0, b0 in (prior, noise_prior)]
        else:
            values = [a0 * np.log(b0) - log_gamma(a0) for _, a0, b0 in (prior, noise_prior)]
        self.priors = (prior, noise_prior, values)
        m.kind = {"gaussian": GAUSSIAN, "poisson": POISSON, "bernoulli": BERNOULLI}[kind]
        m.K, m.D, m.own_noise = K, D, own_noise
        m.tied, m.own_fractions, m.all_selected, m.concentration = (
            tied, own_fractions, all_selected, concentration)
        m.prior.k0, m.prior.a0 = own_k0, own_a0
        m.prior.b0, m.prior.value = doubles_in(own_b0), doubles_out(values[0])
        m.noise_prior.k0, m.noise_prior.a0 = noise_k0, noise_a0
        m.noise_prior.b0, m.noise_prior.value = doubles_in(noise_b0), doubles_out(values[1])
        m.size, m.reach, m.s1, m.s2, m.entropy = (
            doubles_out(self.size), doubles_out(self.reach), doubles_out(self.s1), doubles_out(self.s2),
            doubles_out(self.entropy))
        m.own.constant, m.own.linear = doubles_out(self.own[0]), doubles_out(self.own[1])
        m.own.square = doubles_out(self.own[2])
        m.noise.constant, m.noise.linear = doubles_out(self.noise[0]), doubles_out(self.noise[1])
        m.noise.square = doubles_out(self.noise[2])
        m.divergence, m.noise_divergence = doubles_out(self.divergence), doubles_out(self.noise_divergence)
        m.p, m.mask_entropy = doubles_out(self.p), doubles_out(self.mask_entropy)
        m.weight = doubles_out(self.weight)
        set_beta(&m.share, self.share)
        set_beta(&m.stick, self.stick)
        m.share_a = m.share_b = 1.0
        order, work, pooled = np.empty(K, np.intp), np.empty(K * D + 3 * K), np.empty(3 * D)
        self.arrays = (order, work, pooled)
        cdef Py_ssize_t[::1] order_ = order
        self.order, self.work, self.pooled = &order_[0], doubles_out(work), doubles_out(pooled)

    @property
    def share_prior(self) -> tuple[float, float]:
        """Shapes of the Beta prior of lambda_d, m kappa and (1 - m) kappa; with own fractions, of m_k."""
        return self.m.share_a, self.m.share_b

    @share_prior.setter
    def share_prior(self, shapes: tuple[float, float]):
        self.m.share_a, self.m.share_b = shapes

    @property
    def concentration(self) -> float:
        """alpha; where it is fitted, E alpha."""
        return self.m.concentration

    @concentration.setter
    def concentration(self, double alpha):
        self.m.concentration = alpha

    def state(self) -> list[Floats]:
        """Copies for `restore`: the sufficient statistics, and what one sweep passes to the next."""
        return [array.copy() for array in self._kept()]

    def restore(self, state: list[Floats]):
        """Return to a `state`; the next update computes q(theta) and q(v)."""
        for array, kept in zip(self._kept(), state, strict=True):
            array[...] = kept

    def _kept(self):
        return self.size, self.reach, self.s1, self.s2, self.entropy, self.p, self.noise, self.share

    def update_components(self):
        """q(theta | y = 1) from the sufficient statistics."""
        with nogil:
            update_components(&self.m)

    def update_masks(self):
        """q(y): the evidence of each column against the noise."""
        with nogil:
            update_masks(&self.m)

    def update_noise(self):
        """q of the noise, from the cells that no component selects."""
        with nogil:
            update_noise(&self.m, self.pooled)

    def update_shares(self):
        """q(lambda): how often a column is selected; with own fractions, how often a component selects."""
        with nogil:
            update_shares(&self.m)

    def update_sticks(self):
        """q(v) and E ln pi from the sizes."""
        with nogil:
            update_sticks(&self.m)

    def gains(self) -> Floats:
        """(K, D) increase of the ELBO, in nats, if each component selects each column."""
        cdef Py_ssize_t k, d
        out = np.empty((self.m.K, self.m.D))
        cdef double[:, ::1] o = out
        for k in range(self.m.K):
            for d in range(self.m.D):
                o[k, d] = selection_gain(&self.m, k, d)
        return out

    def elbo(self) -> float:
        """The evidence lower bound in nats, without ln x! and x ln e of counts."""
        cdef double elbo
        with nogil:
            elbo = evidence_lower_bound(&self.m)
        return elbo
