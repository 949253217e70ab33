"""Variational Dirichlet process mixture with feature selection, word for word: the reference implementation
of the kernels.

Guan, Dy & Jordan, "A Unified Probabilistic Model for Global and Local Unsupervised Feature
Selection", ICML 2011; section numbers are those of the specification. Nothing here is fast: every
update and the whole bound are taken from scratch, row by row, from densities and not from moments.

Row n belongs to component k with probability r_nk. In component k a cell of column d comes from
the component (y_kd = 1, probability p_kd) or from the noise of the column (y_kd = 0):

    pi_k = v_k prod_{j<k} (1 - v_j),   v_k ~ Beta(1, alpha), v_K = 1
    y_kd ~ Bernoulli(lambda_d),        lambda_d ~ Beta(m kappa, (1 - m) kappa), kappa = m (1 - m) / rho - 1

    q = q(z) q(v) q(lambda) q(noise) prod_kd q(y_kd) q(theta_kd | y_kd),   q(theta_kd | y_kd = 0) = prior.

A missing cell has no factor: it counts nowhere. In the mode "shared" one y_d serves all components; in the
mode "all" every y is 1, and there is no lambda. Where alpha is learned, alpha ~ Gamma(s1, s2) and q(alpha) is
a Gamma distribution (Blei & Jordan, 2006): q(v) then sees E alpha. Two extensions of section 3 of the paper:
m ~ Beta(gamma, beta) where m is learned, equation (8); and fractions of the components, y_kd ~ Bernoulli(m_k)
with m_k ~ Beta(gamma, beta) in place of lambda_d, so that q(m_k) takes the place of q(lambda_d). A row of
weight w equals w rows.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, entr, expit, logsumexp
from scipy.stats import beta

from tests.reference.mixture_densities import (
    BetaBernoulli,
    NormalGamma,
    PoissonGamma,
    kl_beta,
    kl_gamma,
)
from tests.reference.mixture_split import split

SMALLEST = 2.0**-60  # a smaller responsibility is none
ROUGH = 3e-3  # nats per row that a sweep gains when starts are compared
DEFAULT_RHO = {"local": 0.01, "global": 0.2, "shared": 0.2, "all": 0.2}
STATE = ("R", "p", "q", "q_noise", "A", "B", "m", "g1", "g2", "w")  # rebound by the updates


# ----------------------------------------------------------------------------------------
# Preparation of the table
# ----------------------------------------------------------------------------------------


def varying(X):
    """Columns with two different present cells; the others are no part of the model."""
    return np.array([len(np.unique(column[~np.isnan(column)])) > 1 for column in X.T], dtype=bool)


def standardised(X, scale, weight):
    """z = (x - mean) s with the moments of the present cells, so that the prior mean is 0."""
    w = weight[:, None] * ~np.isnan(X)
    means = np.nansum(w * X, axis=0) / w.sum(axis=0)
    variances = np.nansum(w * (X - means) ** 2, axis=0) / w.sum(axis=0)
    if scale == "standard":
        s = 1 / np.sqrt(variances)
    elif scale == "scalar" and len(variances):
        s = 1 / np.sqrt(variances.mean())
    else:
        s = 1.0
    return (X - means) * s


def exposures(X, weight):
    """e_n = sum of the present cells of the row / sum of the rates of their columns, and the rates."""
    present = ~np.isnan(X)
    counts = np.where(present, X, 0.0)
    rates = weight @ counts / (weight @ present)
    expected = present @ rates
    return counts.sum(axis=1) / np.where(expected > 0.0, expected, 1.0), rates


# ----------------------------------------------------------------------------------------
# Diagonal and count models
# ----------------------------------------------------------------------------------------


class ReferenceMixture:
    """Mixture with feature selection, Gaussian or Poisson cells that are independent given the component.

    Parameters
    ----------
    X : array (n, columns)
        nan = missing. Columns without variance are left out of the model.
    R0 : array (n, K)
        Responsibilities of the start.
    component : {"gaussian", "poisson", "bernoulli"}
    selection : {"local", "global", "shared", "all"}
    noise : {"isotropic", "feature"}
        One tau_0, or one per column; a Poisson always has one rate per column.
    scale : {"none", "scalar", "standard"}
    feature_fraction, feature_variance : float
        m and rho; rho from ``selection`` if not given.
    concentration : float or "auto"
        alpha; "auto": learned, from 5.
    concentration_prior : (float, float)
        s1 and s2 of a learned alpha.
    mean_precision_prior, degrees_of_freedom_prior, covariance_prior : float
        k0, nu0 and s0 of Gaussian components.
    fraction_prior : (float, float)
        gamma and beta of the fractions that are learned.
    own_fractions : bool
        A fraction m_k of every component.
    weight : array (n,)
        Weights of the rows.

    Attributes
    ----------
    R : (n, K), N : (K,), p : (K, D)
        D counts the varying columns, ``columns`` tells them; p has equal rows in the mode "shared".
    q, q_noise : posteriors of theta (one per component) and of the noise
    A, B : (D,), q(lambda_d) = Beta(A_d, B_d); with own fractions (K, 1), q(m_k)
    g1, g2 : (K - 1,), q(v_k) = Beta(g1_k, g2_k)
    """

    def __init__(
        self,
        X,
        R0,
        *,
        component="gaussian",
        selection="local",
        noise="isotropic",
        scale="scalar",
        feature_fraction=0.5,
        feature_variance=None,
        concentration=5.0,
        concentration_prior=(1.0, 1.0),
        mean_precision_prior=0.1,
        degrees_of_freedom_prior=2.0,
        covariance_prior=1.0,
        fraction_prior=(1.0, 1.0),
        own_fractions=False,
        weight=None,
    ):
        X, self.R = np.array(X, dtype=np.float64), np.array(R0, dtype=np.float64)
        self.weight = np.ones(len(self.R)) if weight is None else np.asarray(weight, dtype=np.float64)
        self.n, self.K = self.weight.sum(), self.R.shape[1]
        self.fraction_prior, self.own_fractions = fraction_prior, own_fractions
        self.all, self.shared = selection == "all", selection in ("shared", "all")
        self.wishart = mean_precision_prior, degrees_of_freedom_prior, covariance_prior
        self.m, self.learn_alpha = float(feature_fraction), concentration == "auto"
        self.alpha_prior, start = concentration_prior, 5.0 if self.learn_alpha else float(concentration)
        shape = concentration_prior[0] + self.K - 1
        self.w = shape, shape / start  # q(alpha), or a Gamma distribution of this mean
        self.rho = DEFAULT_RHO[selection] if feature_variance is None else float(feature_variance)
        known = ("gaussian", "poisson", "bernoulli"), ("isotropic", "feature"), ("none", "scalar", "standard")
        if any(value not in values for value, values in zip((component, noise, scale), known, strict=True)):
            raise ValueError("unknown component, noise or scale")
        if not self.kappa(self.m) > 0.0:
            raise ValueError("rho must be below m (1 - m)")
        self.columns = varying(X)
        self.D = int(self.columns.sum())
        self.density, self.noise_density = self.densities(X[:, self.columns], component, noise, scale)
        self.elbo_path_ = []
        self.p = self.start_masks()
        self.theta()
        self.noise()
        self.shares()
        self.sticks()

    def densities(self, X, component, noise, scale):
        """Densities of the components and of the noise, priors included."""
        present = ~np.isnan(X)
        if component == "poisson":
            exposure, rates = exposures(X, self.weight)
            density = PoissonGamma(X, present, exposure, a0=1.0, b0=1 / rates)
            return density, density
        if component == "bernoulli":
            density = BetaBernoulli(X, present, 1.0, 1.0)
            return density, density
        z, (k0, nu0, s0) = standardised(X, scale, self.weight), self.wishart
        return NormalGamma(z, present, k0, nu0 / 2, s0 / 2), NormalGamma(
            z, present, 0.1, 1.0, 1.0, tied=noise == "isotropic"
        )

    def start_masks(self):
        return np.full((self.K, self.D), 1.0 if self.all else self.m)

    # ------------------------------------------------------------------------------------
    # Expectations
    # ------------------------------------------------------------------------------------

    @property
    def W(self):
        """Responsibilities times the weights of the rows."""
        return self.R * self.weight[:, None]

    @property
    def N(self):
        return self.W.sum(axis=0)

    @property
    def alpha(self):
        """E alpha."""
        return self.w[0] / self.w[1]

    def kappa(self, m):
        return m * (1 - m) / self.rho - 1

    def own_masks(self):
        """The y that exist: one row of them in the mode "shared"."""
        return self.p[:1] if self.shared else self.p

    def log_shares(self):
        """E ln lambda_d and E ln(1 - lambda_d), or E ln m_k and E ln(1 - m_k) in columns."""
        total = digamma(self.A + self.B)
        return digamma(self.A) - total, digamma(self.B) - total

    def log_sizes(self):
        """E ln pi_k (K,); the last stick is 1."""
        total = digamma(self.g1 + self.g2)
        taken = np.append(digamma(self.g1) - total, 0.0)
        left = np.append(0.0, np.cumsum(digamma(self.g2) - total))
        return taken + left

    def cluster_densities(self):
        """sum_d p_kd E ln p(x_nd | theta_kd), (n, K)."""
        return np.stack([self.density.expected(self.q[k]) @ self.p[k] for k in range(self.K)], axis=1)

    def cluster_kl(self):
        """sum_kd p_kd KL(q(theta_kd | 1) || prior); given y = 0 the divergence is 0."""
        return sum(self.p[k] @ self.density.kl(self.q[k]) for k in range(self.K))

    def log_joint(self):
        """E ln pi_k + sum_d [p_kd E ln p(x_nd | theta_kd) + (1 - p_kd) E ln p(x_nd | noise_d)], (n, K)."""
        return (
            self.log_sizes()
            + self.cluster_densities()
            + self.noise_density.expected(self.q_noise) @ (1 - self.p).T
        )

    def noise_likelihoods(self):
        """sum_n r_nk E ln p(x_nd | noise_d), (K, D)."""
        return self.W.T @ self.noise_density.expected(self.q_noise)

    # ------------------------------------------------------------------------------------
    # Bound
    # ------------------------------------------------------------------------------------

    def bound(self):
        """Lower bound of ln p(z) with all constants; z is the scaled X."""
        log_in, log_out = self.log_shares()
        y = self.own_masks()
        a0, b0 = self.share_prior()
        cells_and_rows = (self.W * self.log_joint()).sum() + (self.weight @ entr(self.R)).sum()
        masks = (y * log_in + (1 - y) * log_out + entr(y) + entr(1 - y)).sum()
        masks += self.log_fraction_prior(self.m) * (not self.own_fractions)
        masks -= kl_beta(self.A, self.B, a0, b0).sum()
        divergences = (
            self.cluster_kl() + np.sum(self.noise_density.kl(self.q_noise)) + self.stick_divergence()
        )
        return float(cells_and_rows + masks * (not self.all) - divergences)

    def stick_divergence(self):
        """KL of q(v), or of q(v) q(alpha), from the prior."""
        if not self.learn_alpha:
            return kl_beta(self.g1, self.g2, 1.0, self.alpha).sum()
        log_alpha = digamma(self.w[0]) - np.log(self.w[1])
        log_rest = digamma(self.g2) - digamma(self.g1 + self.g2)
        log_prior = (log_alpha + (self.alpha - 1) * log_rest).sum()
        return -beta(self.g1, self.g2).entropy().sum() - log_prior + kl_gamma(*self.w, *self.alpha_prior)

    def share_prior(self):
        """Shapes of the prior of lambda_d, or of m_k."""
        return (
            self.fraction_prior
            if self.own_fractions
            else (self.m * self.kappa(self.m), (1 - self.m) * self.kappa(self.m))
        )

    def log_fraction_prior(self, m):
        """ln Beta(m; gamma, beta); 0 for a uniform prior."""
        a, b = self.fraction_prior
        return (a - 1) * np.log(m) + (b - 1) * np.log(1 - m) - betaln(a, b)

    # ------------------------------------------------------------------------------------
    # Updates
    # ------------------------------------------------------------------------------------

    def theta(self):
        """q(theta_kd | y_kd = 1), whatever p_kd."""
        self.q = [self.density.posterior(self.W[:, k : k + 1]) for k in range(self.K)]

    def masks(self):
        """Equations (12) to (14): log-odds of y_kd."""
        if self.all:
            return
        fits = np.stack(
            [
                self.W[:, k] @ self.density.expected(self.q[k]) - self.density.kl(self.q[k])
                for k in range(self.K)
            ]
        )
        odds = fits - self.noise_likelihoods()
        if self.shared:
            odds = np.tile(odds.sum(axis=0), (self.K, 1))
        log_in, log_out = self.log_shares()
        self.p = expit(odds + log_in - log_out)

    def noise(self):
        """Cells weighted by sum_k r_nk (1 - p_kd)."""
        self.q_noise = self.noise_density.posterior(self.W @ (1 - self.p))

    def shares(self):
        """Equations (15) and (16): q(lambda_d)."""
        y, (a, b) = self.own_masks(), self.share_prior()
        along = {"axis": 1, "keepdims": True} if self.own_fractions else {"axis": 0}
        self.A, self.B = a + y.sum(**along), b + (1 - y).sum(**along)

    def fraction(self):
        """The m of the largest bound with kappa >= .05, kept if the bound does not fall."""
        log_in, log_out = (part.sum() for part in self.log_shares())

        def part_of_bound(m):
            a, b = m * self.kappa(m), (1 - m) * self.kappa(m)
            return -self.D * betaln(a, b) + (a - 1) * log_in + (b - 1) * log_out + self.log_fraction_prior(m)

        room = 0.25 - 1.05 * self.rho
        if room <= 0.0:
            return
        ends = 0.5 - np.sqrt(room), 0.5 + np.sqrt(room)
        m = float(
            minimize_scalar(
                lambda m: -part_of_bound(m), bounds=ends, method="bounded", options={"xatol": 1e-10}
            ).x
        )
        if part_of_bound(m) >= part_of_bound(self.m):
            self.m = m

    def sticks(self):
        """Equation (10): q(v_k) = Beta(1 + N_k, alpha + mass behind k), K - 1 of them."""
        self.g1 = 1 + self.N[:-1]
        self.g2 = self.alpha + behind(self.N)

    def concentration(self):
        """q(alpha) where alpha is learned."""
        if self.learn_alpha:
            log_rest = digamma(self.g2) - digamma(self.g1 + self.g2)
            self.w = self.alpha_prior[0] + self.K - 1, self.alpha_prior[1] - log_rest.sum()

    def responsibilities(self):
        """Equation (11); an empty component stays empty."""
        alive = self.N > 0.0
        logs = self.log_joint()[:, alive]
        R = np.zeros_like(self.R)
        R[:, alive] = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        R[R < SMALLEST] = 0.0
        self.R = R

    def stick_term(self, N):
        """E ln pi and KL(v) together, with q(v) at its optimum for these sizes: the part of the bound that
        the order changes.
        """
        return (betaln(1 + N[:-1], self.alpha + behind(N)) - betaln(1.0, self.alpha)).sum()

    def sort(self):
        """Components by falling size, if the bound rises."""
        order = np.argsort(-self.N, kind="stable")
        if (order != np.arange(self.K)).any() and self.stick_term(self.N[order]) > self.stick_term(self.N):
            self.R, self.p, self.q = self.R[:, order], self.p[order], [self.q[k] for k in order]
            if self.own_fractions:
                self.A, self.B = self.A[order], self.B[order]
            self.sticks()

    # ------------------------------------------------------------------------------------
    # Fit
    # ------------------------------------------------------------------------------------

    def sweep(self, learn_fraction=False):
        """All updates once: list of (name, bound after it)."""
        return self.apply(
            "theta",
            "masks",
            "noise",
            "shares",
            *["fraction"] * learn_fraction,
            "sticks",
            "responsibilities",
            "sort",
            "concentration",
        )

    def apply(self, *names):
        steps = []
        for name in names:
            getattr(self, name)()
            steps.append((name, self.bound()))
        return steps

    def converge(self, least, max_iter, learn_fraction=False):
        """Sweeps until one raises the bound by no more than ``least``, or ``elbo_path_`` has max_iter
        entries.
        """
        before = self.bound()
        while len(self.elbo_path_) < max_iter:
            after = self.sweep(learn_fraction)[-1][1]
            self.elbo_path_.append(after)
            if after - before <= least:
                break
            before = after

    def merge_gain(self, i, j):
        """Estimated rise of the bound if components i and j become one.

        lambda, noise and m are held, theta and y are taken at their optimum.
        """
        log_in, log_out = (np.broadcast_to(part, self.p.shape) for part in self.log_shares())
        r_i, r_j = self.W[:, i : i + 1], self.W[:, j : j + 1]

        def score(r, k):
            noise = (r * self.noise_density.expected(self.q_noise)).sum(axis=0)
            return np.logaddexp(self.density.evidence(r) + log_in[k], noise + log_out[k]).sum()

        if self.shared:
            gain = self.p[0] @ (
                self.density.evidence(r_i + r_j) - self.density.evidence(r_i) - self.density.evidence(r_j)
            )
        else:
            gain = score(r_i + r_j, i) + score(0 * r_i, j) - score(r_i, i) - score(r_j, j)
        sizes = self.N
        sizes[i], sizes[j] = sizes[i] + sizes[j], 0.0
        return gain + self.stick_term(-np.sort(-sizes)) - self.stick_term(self.N)

    def promising_pairs(self):
        """Pairs of components with an estimated gain, best first."""
        pairs = [(-self.merge_gain(i, j), i, j) for i, j in combinations(np.flatnonzero(self.N > 0.0), 2)]
        return [(i, j) for negative_gain, i, j in sorted(pairs) if -negative_gain > 1e-9 * abs(self.bound())]

    def merge(self, learn_fraction=False):
        """Try all promising pairs at once, each component in one pair; then one pair at a time; whether one
        raised the bound.
        """
        pairs, apart = self.promising_pairs(), []
        for pair in pairs:
            if not {k for one in apart for k in one} & set(pair):
                apart.append(pair)

        def join(i, j):
            self.R[:, i], self.R[:, j] = self.R[:, i] + self.R[:, j], 0.0

        attempts = [apart] * (len(apart) > 1) + [[pair] for pair in pairs]
        return self.first_that_gains(attempts, join, self.bound(), self.kept(), learn_fraction)

    def kept(self):
        """What the updates rebind."""
        return {name: getattr(self, name) for name in STATE}

    def first_that_gains(self, attempts, move, before, kept, learn_fraction):
        """From the state `kept`, make the first list of moves after which a sweep raises the bound above
        `before`; whether there was one.

        Only the sweep of an accepted attempt enters ``elbo_path_``.
        """
        for attempt in attempts:
            for name, value in kept.items():
                setattr(
                    self, name, value.copy() if name in ("R", "p", "A", "B") else value
                )  # which moves write into
            for pair in attempt:
                move(*pair)
            after = self.sweep(learn_fraction)[-1][1]
            if after > before + 1e-9 * abs(before):
                self.elbo_path_.append(after)
                return True
        for name, value in kept.items():
            setattr(self, name, value)
        return False

    def move(self, max_iter, learn_fraction=False):
        """A merge and a release, unless ``elbo_path_`` has max_iter entries; whether there was one."""
        merged = len(self.elbo_path_) < max_iter and self.merge(learn_fraction)
        released = len(self.elbo_path_) < max_iter and self.release()
        if released:
            self.elbo_path_.append(self.bound())
        return merged or released

    def ascend(self, least, max_iter, merge, learn_fraction):
        """Sweeps until one raises the bound by no more than ``least``, then moves; again as long as there are
        moves.
        """
        while len(self.elbo_path_) < max_iter:
            self.converge(least, max_iter, learn_fraction)
            if not (merge and self.move(max_iter, learn_fraction)):
                break

    def release_gain(self, components, d):
        """Rise of the bound if these components leave column d to the noise, which is fitted anew, as is
        lambda_d.
        """
        weights = self.W @ (1 - self.p)
        more = weights.copy()
        more[:, d] += self.W[:, components].sum(axis=1)

        def noise(weights):
            q = self.noise_density.posterior(weights)
            return (weights * self.noise_density.expected(q)).sum() - np.sum(self.noise_density.kl(q))

        own = sum(
            self.W[:, k] @ self.density.expected(self.q[k])[:, d] - self.density.kl(self.q[k])[d]
            for k in components
        )
        y, (a, b), p = self.own_masks(), self.share_prior(), self.p[components[0], d]
        y = y[components[0]] if self.own_fractions else y[:, d]
        a, b = a + y.sum(), b + (1 - y).sum()
        return noise(more) - noise(weights) - own + betaln(a - p, b + p) - betaln(a, b)

    def release(self):
        """A column that all components select is left by the one (shared: by all) by which the bound rises
        most; whether one was.
        """
        if self.all:
            return False
        start, kept = self.bound(), self.kept()
        alive = np.flatnonzero(self.N > 0.0)
        for factor in (self.theta, self.noise, self.sticks):
            factor()
        released = False
        for d in range(self.D):
            if not (self.p[alive, d] > 0.5).all():
                continue
            groups = [list(range(self.K))] if self.shared else [[k] for k in alive]
            gains = [self.release_gain(components, d) for components in groups]
            best = int(np.argmax(gains))
            if gains[best] > 1e-9 * max(1.0, abs(start)):
                self.p = self.p.copy()
                self.p[groups[best], d] = 0.0
                self.noise()
                released = True
        if released:
            self.apply("shares", "masks", "noise", "shares")
            if self.bound() > start + 1e-9 * abs(start):
                return True
        for name, value in kept.items():
            setattr(self, name, value)
        return False

    def fit(self, tol, max_iter, merge=True, learn_fraction=False):
        """Ascend as all starts do before they are compared, until sweeps gain less than the rough tolerance;
        again after every split.

        Then ascend to tol n, and the closing updates.
        """
        rough = max(ROUGH, tol) * self.n
        self.ascend(rough, max_iter, merge, learn_fraction)
        while merge and len(self.elbo_path_) < max_iter and split(self, learn_fraction):
            self.ascend(rough, max_iter, merge, learn_fraction)
        self.ascend(tol * self.n, max_iter, merge, learn_fraction)
        self.apply(
            "theta",
            "masks",
            "noise",
            "shares",
            *["fraction"] * learn_fraction,
            "sticks",
            "concentration",
            "responsibilities",
        )
        self.elbo_ = self.bound()
        labels = self.R.argmax(axis=1)
        shown = list(dict.fromkeys(labels.tolist()))
        self.labels_ = np.array([shown.index(k) for k in labels])
        self.n_clusters_ = len(shown)
        self.feature_probabilities_ = np.zeros((len(shown), len(self.columns)))
        self.feature_probabilities_[:, self.columns] = self.p[shown]
        self.feature_mask_ = self.feature_probabilities_ > 0.5
        return self


def behind(N):
    """Mass behind each but the last component."""
    return np.array([N[k + 1 :].sum() for k in range(len(N) - 1)])
