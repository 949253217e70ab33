"""The normal-inverse-Wishart distribution of a component with a full covariance over the columns it selects.

Sigma ~ IW(nu0 + q - 1, s0 I) on the q selected columns, so that a single column has the prior of the diagonal
model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln

from craftc._common.products import row_products, row_sums
from craftc._common.typing import Floats, Ints, Labels
from craftc.mixture.priors import Priors

_LOST = 1e-15  # share of a sum of squares that is rounding


class WishartPrior(NamedTuple):
    """mu ~ N(0, Sigma / k0), Sigma ~ IW(nu0 + q - 1, s0 I) on q columns, equations (17) to (20): one column
    has the Normal-Gamma prior of the diagonal model.
    """

    k0: float
    nu0: float
    s0: float

    @classmethod
    def of(cls, priors: Priors) -> WishartPrior:
        return cls(priors.mean_precision, priors.freedom, priors.scatter)

    def column_steps(self, size: Floats, D: int) -> Floats:
        """(K, D) log evidence that the j-th column (j = 0..D-1) adds for N rows, without that in ln |Psi|."""
        j = np.arange(D)
        gammas = gammaln((self.nu0 + size[:, None] + j) / 2) - gammaln((self.nu0 + j) / 2)
        spread = -0.5 * size * np.log(np.pi) + 0.5 * np.log(self.k0 / (self.k0 + size))
        return np.asarray(gammas + spread[:, None] + (0.5 * self.nu0 + j) * np.log(self.s0))

    def scatter_matrix(self, size: float | Floats, s1: Floats, s2: Floats) -> Floats:
        """Psi = s0 I + sum x x' - kappa m m', of one component or of all."""
        kappa = self.k0 + np.asarray(size)[..., None, None]
        return np.asarray(self.s0 * np.eye(s1.shape[-1]) + s2 - s1[..., :, None] * s1[..., None, :] / kappa)

    def fitted(
        self, column: Ints | Labels, size: float, s1: Floats, s2: Floats, factor: Floats | None = None
    ) -> NormalWishart:
        """From N, sum x (D,) and sum x x' (D, D); `factor`: upper Cholesky factor of Psi_S, if known."""
        q, kappa = len(column), self.k0 + size
        freedom, mean = self.nu0 + q - 1 + size, s1[column] / kappa
        if factor is None:
            psi = self.scatter_matrix(size, s1, s2)[np.ix_(column, column)]
            try:
                factor = np.asarray(np.linalg.cholesky(psi).T)
            except np.linalg.LinAlgError:
                raise _singular(self.s0, np.diag(psi)) from None
        squares = factor**2
        if (np.einsum("ii->i", squares) <= _LOST * squares.sum(axis=0)).any():
            raise _singular(self.s0, squares.sum(axis=0))
        log_det = 2.0 * float(np.log(np.einsum("ii->i", factor)).sum())
        evidence = self.column_steps(np.array([size]), q)[0].sum() - 0.5 * freedom * log_det
        inverse = solve_triangular(factor, np.eye(q), trans=1) if q else np.empty((0, 0))
        return NormalWishart(column.astype(np.int32), kappa, mean, freedom, inverse, log_det, float(evidence))


@dataclass(frozen=True)
class NormalWishart:
    """q(mu, Sigma) of one component: normal-inverse-Wishart on the columns it selects."""

    column: Labels  # (q,) in the order of the Cholesky factor
    kappa: float
    mean: Floats  # (q,)
    freedom: float  # nu
    inverse: Floats  # (q, q) of the lower Cholesky factor of Psi
    log_det: float  # ln |Psi|
    evidence: float

    @property
    def constant(self) -> float:
        """E ln p(x) of a row at the mean."""
        q = len(self.column)
        psi = digamma((self.freedom - np.arange(q)) / 2).sum()
        return float(0.5 * (psi - q * np.log(np.pi) - self.log_det - q / self.kappa))

    def expected(self, size: float, s1: Floats, s2: Floats) -> float:
        """E ln p of rows with these sums."""
        s, m = s1[self.column], self.mean
        scatter = (
            s2[np.ix_(self.column, self.column)] - np.outer(s, m) - np.outer(m, s) + size * np.outer(m, m)
        )
        squares = float(((self.inverse @ scatter) * self.inverse).sum())
        return size * self.constant - 0.5 * self.freedom * squares

    def squares(self, x: Floats) -> Floats:
        """(n,) (x - m)' Psi^-1 (x - m)."""
        return row_sums(row_products(x[:, self.column] - self.mean, self.inverse.T) ** 2)

    def log_density(self, x: Floats) -> Floats:
        """(n,) ln of the predictive density: multivariate Student's t."""
        q, df = len(self.column), self.freedom - len(self.column) + 1
        away = self.squares(x) / (1.0 + 1.0 / self.kappa)
        size = (
            gammaln((df + q) / 2)
            - gammaln(df / 2)
            - 0.5 * (q * np.log(np.pi * (1.0 + 1.0 / self.kappa)) + self.log_det)
        )
        return np.asarray(size - 0.5 * (df + q) * np.log1p(away))

    def draw(self, rng: np.random.RandomState, n: int) -> Floats:
        """(n, q) cells from the predictive distribution."""
        q, df = len(self.column), self.freedom - len(self.column) + 1
        if q == 0:
            return np.empty((n, 0))
        normal = rng.standard_normal((n, q)) / np.sqrt(rng.chisquare(df, (n, 1)))
        return np.asarray(
            self.mean
            + np.sqrt(1.0 + 1.0 / self.kappa) * solve_triangular(self.inverse, normal.T, lower=True).T
        )


def _singular(s0: float, squares: Floats) -> ValueError:
    """Rounding has removed the prior from columns that depend on others."""
    return ValueError(
        f"The covariance of a cluster is singular: covariance_prior={s0:g} is lost in columns whose "
        f"sums of squares reach {squares.max():.3g} in scaled units. Raise covariance_prior, use "
        "scale='standard', or leave out columns that depend on others."
    )


def pair_switches(
    prior: WishartPrior, component: NormalWishart, psi: Floats, size: float, against: Floats
) -> Floats:
    """(D, D) what the ELBO gains where two unselected columns are selected, or two selected ones dropped;
    -inf for other pairs.

    The determinant of the larger scatter follows from the conditional scatter of the two given the selected
    columns, that of the smaller one from their block of the inverse.
    """
    S, q, D = component.column, len(component.column), len(psi)
    steps = prior.column_steps(np.array([size]), D)[0]
    gains = np.full((D, D), -np.inf)
    others = np.setdiff1d(np.arange(D), S)
    if len(others) > 1:
        rows = component.inverse @ psi[np.ix_(S, others)]
        left = psi[np.ix_(others, others)] - rows.T @ rows
        added = steps[q : q + 2].sum() - component.log_det - 0.5 * (component.freedom + 2) * _log_minors(left)
        added -= against[others][:, None] + against[others]
        gains[np.ix_(others, others)] = np.where(np.eye(len(others)) > 0, -np.inf, added)
    if q > 1:
        precision = component.inverse.T @ component.inverse
        dropped = (
            component.log_det
            - steps[q - 2 : q].sum()
            - 0.5 * (component.freedom - 2) * _log_minors(precision)
        )
        dropped += against[S][:, None] + against[S]
        gains[np.ix_(S, S)] = np.where(np.eye(q) > 0, -np.inf, dropped)
    return gains


def _log_minors(matrix: Floats) -> Floats:
    """ln of the determinants of all 2 x 2 blocks of a positive definite matrix."""
    diagonal = np.maximum(np.diag(matrix), 1e-300)
    share = 1.0 - np.clip(matrix**2 / diagonal / diagonal[:, None], 0.0, 1.0 - 1e-15)
    return np.asarray(np.log(diagonal) + np.log(diagonal)[:, None] + np.log(share))


def column_evidence(prior: WishartPrior, component: NormalWishart, psi: Floats, size: float) -> Floats:
    """(D,) log evidence of every column given the selected columns: of a selected one given the others."""
    S, q = component.column, len(component.column)
    steps = prior.column_steps(np.array([size]), len(psi) + 1)[0]
    # the conditional scatter of each column given the selected ones; of a selected column given the others
    row = component.inverse @ psi[S]
    left = np.diag(psi) - np.einsum("qd,qd->d", row, row)
    left[S] = 1.0 / np.einsum("ij,ij->j", component.inverse, component.inverse)
    log_left = np.log(np.maximum(left, 1e-300))
    evidence = steps[q] - 0.5 * component.log_det - 0.5 * (component.freedom + 1) * log_left
    evidence[S] = (
        steps[max(q - 1, 0)] - 0.5 * (component.log_det - log_left[S]) - 0.5 * component.freedom * log_left[S]
    )
    return np.asarray(evidence)
