"""A covariance with one common factor: the size behind measures, the level behind answers.

A covariance of m columns has m (m - 1) / 2 parameters besides its variances, more than a table of many
columns and few rows pays for. With one factor of the loadings lambda,

    Sigma = D^(1/2) (lambda lambda^T + Psi) D^(1/2),        D = diag(S), Psi diagonal,

it has m. From an estimate S, whose correlations are rho, and rows of the weight N with one row of prior, a
factor of the eigenvalue theta of Psi^(-1/2) rho Psi^(-1/2) saves (N + 1) / 2 (theta - 1 - log theta) nats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from craftc._common.threads import one_blas_thread
from craftc._common.typing import Floats

FEWEST_COLUMNS = 5  # of which a factor has at most half of the parameters of all correlations
_STEPS = 8  # of the principal factor, each with new uniquenesses
_LEAST = 0.01  # uniqueness


class CommonFactor(NamedTuple):
    """A covariance of m columns with one factor."""

    matrix: Floats  # (m, m)
    uniqueness: Floats  # (m,) Psi, shares of the variances


def common_factor(S: Floats, weight: float, h: float) -> CommonFactor | None:
    """The factor behind S (m, m) that shortens the description of rows of this weight, at h nats a parameter;
    None: there is none.
    """
    m, deviation = len(S), np.sqrt(np.diag(S))
    rho = S / np.outer(deviation, deviation)
    with one_blas_thread():
        uniqueness = 1.0 / np.diag(np.linalg.inv(rho))
        for _ in range(_STEPS):
            scale = np.sqrt(uniqueness)
            (theta,), vector = eigh(rho / np.outer(scale, scale), subset_by_index=[m - 1, m - 1])
            if theta <= 1.0 or 0.5 * (weight + 1.0) * (theta - 1.0 - np.log(theta)) <= m * h:
                return None
            loading = scale * vector[:, 0] * np.sqrt(theta - 1.0)
            uniqueness = np.maximum(1.0 - loading * loading, _LEAST)
    matrix = np.outer(loading, loading)
    np.fill_diagonal(matrix, np.diag(matrix) + uniqueness)
    return CommonFactor(matrix * np.outer(deviation, deviation), uniqueness)
