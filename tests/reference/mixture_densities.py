"""Kullback-Leibler divergences and conjugate densities of the mixture with feature selection."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.special import betaln, digamma, gammaln, multigammaln, xlogy

# ----------------------------------------------------------------------------------------
# Kullback-Leibler divergences
# ----------------------------------------------------------------------------------------


def kl_beta(a, b, a0, b0):
    """KL(Beta(a, b) || Beta(a0, b0))."""
    return (
        betaln(a0, b0)
        - betaln(a, b)
        + (a - a0) * digamma(a)
        + (b - b0) * digamma(b)
        + (a0 + b0 - a - b) * digamma(a + b)
    )


def kl_gamma(a, b, a0, b0):
    """KL(Gamma(a, b) || Gamma(a0, b0)), b the rate."""
    return (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * (np.log(b) - np.log(b0)) + a * (b0 - b) / b


# ----------------------------------------------------------------------------------------
# Densities of the cells, all columns at once
# ----------------------------------------------------------------------------------------


class NormalGamma:
    """x_d ~ N(mu_d, 1 / tau_d), mu_d | tau_d ~ N(0, 1 / (k0 tau_d)), tau_d ~ Gamma(a0, b0).

    With ``tied`` all columns have one tau: a and b are the same number in every column.
    Weights w (n, D) say how much of each cell counts.
    """

    def __init__(self, x, present, k0, a0, b0, tied=False):
        self.x, self.present, self.k0, self.a0, self.b0, self.tied = (
            np.where(present, x, 0.0),
            present,
            k0,
            a0,
            b0,
            tied,
        )

    def posterior(self, w):
        """The sum of squares is taken about the mean of the cells, not about 0."""
        w = w * self.present
        N = w.sum(axis=0)
        center = (w * self.x).sum(axis=0) / np.where(N > 0.0, N, 1.0)
        squares = (w * (self.x - center) ** 2).sum(axis=0) + self.k0 * N / (self.k0 + N) * center**2
        counts = N
        if self.tied:
            counts, squares = np.full_like(N, N.sum()), np.full_like(N, squares.sum())
        return SimpleNamespace(
            N=N,
            kap=self.k0 + N,
            mean=N * center / (self.k0 + N),
            a=self.a0 + counts / 2,
            b=self.b0 + squares / 2,
        )

    def expected(self, q):
        """E ln N(x_nd | mu_d, tau_d), (n, D); 0 for a missing cell."""
        quadratic = q.a / q.b * (self.x - q.mean) ** 2
        return self.present * (digamma(q.a) - np.log(q.b) - np.log(2 * np.pi) - 1 / q.kap - quadratic) / 2

    def kl(self, q):
        """KL(q || prior): one number per column, or their sum if tau is tied."""
        of_mean = (np.log(q.kap / self.k0) + self.k0 / q.kap - 1 + self.k0 * q.mean**2 * q.a / q.b) / 2
        of_tau = kl_gamma(q.a, q.b, self.a0, self.b0)
        return of_mean.sum() + of_tau[:1].sum() if self.tied else of_mean + of_tau

    def evidence(self, w):
        """Log evidence per column: the largest value of E loglik - KL."""
        q = self.posterior(w)
        normal = (np.log(self.k0 / q.kap) - q.N * np.log(2 * np.pi)) / 2
        return normal + gammaln(q.a) - gammaln(self.a0) + self.a0 * np.log(self.b0) - q.a * np.log(q.b)


class PoissonGamma:
    """x_nd ~ Poisson(e_n phi_d), phi_d ~ Gamma(a0, b0_d)."""

    def __init__(self, x, present, exposure, a0, b0):
        self.x, self.e, self.a0, self.b0 = np.where(present, x, 0.0), present * exposure[:, None], a0, b0
        self.constant = xlogy(self.x, self.e) - gammaln(self.x + 1)

    def posterior(self, w):
        """a = a0 + sum w x, b = b0 + sum w e."""
        return SimpleNamespace(a=self.a0 + (w * self.x).sum(axis=0), b=self.b0 + (w * self.e).sum(axis=0))

    def expected(self, q):
        """E ln Poisson(x_nd | e_n phi_d), (n, D); 0 for a missing cell."""
        return self.x * (digamma(q.a) - np.log(q.b)) - self.e * q.a / q.b + self.constant

    def kl(self, q):
        return kl_gamma(q.a, q.b, self.a0, self.b0)

    def evidence(self, w):
        """Log evidence per column: the largest value of E loglik - KL."""
        q = self.posterior(w)
        ratio = gammaln(q.a) - gammaln(self.a0) + self.a0 * np.log(self.b0) - q.a * np.log(q.b)
        return ratio + (w * self.constant).sum(axis=0)


class BetaBernoulli:
    """x_nd is 1 with probability phi_d, else 0; phi_d ~ Beta(a0, b0)."""

    def __init__(self, x, present, a0, b0):
        self.x, self.present, self.a0, self.b0 = np.where(present, x, 0.0), present, a0, b0

    def posterior(self, w):
        """a = a0 + sum w x, b = b0 + sum w (1 - x)."""
        return SimpleNamespace(
            a=self.a0 + (w * self.x).sum(axis=0), b=self.b0 + (w * self.present * (1 - self.x)).sum(axis=0)
        )

    def expected(self, q):
        """E ln p(x_nd | phi_d), (n, D); 0 for a missing cell."""
        total = digamma(q.a + q.b)
        return self.present * np.where(self.x > 0.0, digamma(q.a) - total, digamma(q.b) - total)

    def kl(self, q):
        return kl_beta(q.a, q.b, self.a0, self.b0)

    def evidence(self, w):
        """Log evidence per column: the largest value of E loglik - KL."""
        q = self.posterior(w)
        return betaln(q.a, q.b) - betaln(self.a0, self.b0)


class NormalWishart:
    """x_S ~ N(mu, Sigma), mu | Sigma ~ N(0, Sigma / k0), Sigma ~ IW(nu0 + |S| - 1, s0 I).

    S is a set of columns (booleans), w (n,) are weights of rows. One column: Normal-Gamma with
    a0 = nu0 / 2, b0 = s0 / 2.
    """

    def __init__(self, x, k0, nu0, s0):
        self.x, self.k0, self.nu0, self.s0 = x, k0, nu0, s0

    def posterior(self, w, S):
        x, dof, N = self.x[:, S], self.nu0 + S.sum() - 1, w.sum()
        center = w @ x / (N if N > 0.0 else 1.0)
        scatter = (w[:, None] * (x - center)).T @ (x - center) + self.k0 * N / (self.k0 + N) * np.outer(
            center, center
        )
        prior = self.s0 * np.eye(S.sum())
        return SimpleNamespace(
            S=S,
            N=N,
            kap=self.k0 + N,
            mean=N * center / (self.k0 + N),
            nu0=dof,
            nu=dof + N,
            Psi0=prior,
            Psi=prior + scatter,
        )

    @staticmethod
    def log_determinant(q):
        """E ln |Sigma^-1|."""
        size = q.S.sum()
        return (
            sum(digamma((q.nu - i) / 2) for i in range(size)) + size * np.log(2) - np.linalg.slogdet(q.Psi)[1]
        )

    def expected(self, q):
        """E ln N(x_nS | mu, Sigma), (n,)."""
        away, size = self.x[:, q.S] - q.mean, q.S.sum()
        quadratic = q.nu * (away * np.linalg.solve(q.Psi, away.T).T).sum(axis=1)
        return (self.log_determinant(q) - size * np.log(2 * np.pi) - size / q.kap - quadratic) / 2

    def kl(self, q):
        size = q.S.sum()
        if size == 0:
            return 0.0
        of_mean = (
            size * (np.log(q.kap / self.k0) + self.k0 / q.kap - 1)
            + self.k0 * q.nu * q.mean @ np.linalg.solve(q.Psi, q.mean)
        ) / 2
        of_sigma = (
            (q.nu - q.nu0) / 2 * (self.log_determinant(q) - size * np.log(2))
            + q.nu / 2 * (np.trace(np.linalg.solve(q.Psi, q.Psi0)) - size)
            + q.nu / 2 * np.linalg.slogdet(q.Psi)[1]
            - q.nu0 / 2 * np.linalg.slogdet(q.Psi0)[1]
            - multigammaln(q.nu / 2, size)
            + multigammaln(q.nu0 / 2, size)
        )
        return of_mean + of_sigma

    def evidence(self, w, S):
        """Log evidence of the columns S, 0 for none."""
        size = S.sum()
        if size == 0:
            return 0.0
        q = self.posterior(w, S)
        determinants = q.nu0 / 2 * np.linalg.slogdet(q.Psi0)[1] - q.nu / 2 * np.linalg.slogdet(q.Psi)[1]
        gammas = multigammaln(q.nu / 2, size) - multigammaln(q.nu0 / 2, size)
        return size / 2 * (np.log(self.k0 / q.kap) - q.N * np.log(np.pi)) + determinants + gammas
