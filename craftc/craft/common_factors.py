"""A covariance with up to three common factors: the size behind measures, the level behind answers.

A covariance of m columns has m (m - 1) / 2 parameters besides its variances, more than a table of many
columns and few rows pays for. With r factors of the loadings Lambda (m, r),

    Sigma = D^(1/2) (Lambda Lambda^T + Psi) D^(1/2),        D = diag(S), Psi diagonal,

it has r m - r (r - 1) / 2. S is an estimate from rows of the weight N and one row of prior, rho its
correlations: a factor of the eigenvalue theta of Psi^(-1/2) rho Psi^(-1/2) saves (N + 1) / 2 (theta - 1 - log
theta) nats.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from craftc._common.threads import one_blas_thread
from craftc._common.typing import Floats

FEWEST_COLUMNS = 5  # one factor has at most half of the parameters of all their correlations
_MOST_FACTORS = 3  # more describe groups, too, where these differ gradually inside
_STEPS = 8  # of the principal factors, each with new uniquenesses
_LEAST = 0.01  # uniqueness
_WORTH_THREADS = 32  # columns of matrices that BLAS could share among threads, so that bits depend on these


class CommonFactors(NamedTuple):
    """A covariance of m columns with r factors."""

    matrix: Floats  # (m, m)
    uniqueness: Floats  # (m,) Psi, shares of the variances
    r: int

    @property
    def n_parameters(self) -> int:
        """Parameters besides the variances."""
        return self.r * len(self.matrix) - self.r * (self.r - 1) // 2


def common_factors(S: Floats, weight: float, h: float) -> CommonFactors | None:
    """The factors behind S (m, m) that shorten the description of rows of this weight, at h nats a parameter;
    None: there are none.
    """
    m, deviation = len(S), np.sqrt(np.diag(S))
    rho, most = S / np.outer(deviation, deviation), min(_MOST_FACTORS, m)
    price = (m - np.arange(most)) * h  # of the first factor, the second, ...
    with one_blas_thread() if m > _WORTH_THREADS else nullcontext():
        uniqueness = 1.0 / np.diag(np.linalg.inv(rho))
        for _ in range(_STEPS):
            scale = np.sqrt(uniqueness)
            values, vectors = np.linalg.eigh(rho / np.outer(scale, scale))
            theta = np.maximum(values[: -most - 1 : -1], 1.0)
            pays = 0.5 * (weight + 1.0) * (theta - 1.0 - np.log(theta)) > price
            r = most if pays.all() else int(pays.argmin())
            if r == 0:
                return None
            loadings = scale[:, None] * vectors[:, ::-1][:, :r] * np.sqrt(theta[:r] - 1.0)
            uniqueness = np.maximum(1.0 - (loadings * loadings).sum(axis=1), _LEAST)
        matrix = loadings @ loadings.T
    np.fill_diagonal(matrix, np.diag(matrix) + uniqueness)
    return CommonFactors(matrix * np.outer(deviation, deviation), uniqueness, r)
