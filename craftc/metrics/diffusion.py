"""Spectrum and separation of a table of features: eigen-diffusion and the separability criterion."""

from __future__ import annotations

import numpy as np

from craftc._common.typing import Floats, FrameInput, RowsInput
from craftc.metrics.checks import check_features, check_labels


def eigen_diffusion(features: FrameInput) -> float:
    """How evenly variance is spread over the eigenvectors: alpha = (sum lambda)^2 / (l sum lambda^2).

    lambda are the eigenvalues of the covariance of l features. alpha l is the effective number of directions
    (the participation ratio).

    Parameters
    ----------
    features : array-like or data frame of shape (n_samples, n_features)
        Finite numbers of any type; computed in float64.

    Returns
    -------
    float
        alpha in [1/l, 1]. At 1 all eigenvalues are equal; at 1/l a single direction has all variance. It is
        invariant to translation, rotation and a common scale of all features.

    Raises
    ------
    ValueError
        `features` is not a table of finite numbers with two rows, or no feature varies.

    Notes
    -----
    Compare alpha only at equal numbers of features. An alpha below that of principal components is no
    evidence for a learned graph, because random graphs often give it too (docs/spectral.md).

    References
    ----------
    Sahoo & Chakraborty, arXiv 2005.02817, 2020, section IV-A1.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.metrics import eigen_diffusion
    >>> cross = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(eigen_diffusion(cross), 3)  # variances in the ratio 4 : 1, (4 + 1)^2 / (2 (16 + 1))
    0.735
    """
    centred = _centred(check_features(features), "eigen_diffusion")
    scatter = centred.T @ centred
    # the sum of squared eigenvalues of a symmetric matrix is that of its entries
    alpha = np.trace(scatter) ** 2 / (len(scatter) * (scatter**2).sum())
    return float(np.clip(alpha, 1.0 / len(scatter), 1.0))


def separability(features: FrameInput, labels: RowsInput) -> float:
    """Share of the scatter that lies between clusters: J = Tr S_B / Tr S_T.

    S_T is the total scatter of the rows around their mean, S_B that of the cluster means, every cluster with
    its number of rows.

    Parameters
    ----------
    features : array-like or data frame of shape (n_samples, n_features)
        Finite numbers of any type; computed in float64.
    labels : array-like of shape (n_samples,)
        Clusters or classes: strings or integers.

    Returns
    -------
    float
        J in [0, 1]; 0 if all clusters have the same mean, 1 if the rows of every cluster are equal; larger is
        better separated. It is invariant to translation, rotation and a common scale of all features.

    Raises
    ------
    ValueError
        As for `eigen_diffusion`, or labels are missing, neither strings nor integers, or not one per row.

    Notes
    -----
    J is dominated by the features of largest variance, and rises with the number of clusters: compare equal
    numbers of clusters, and of features on a common scale. A J above that of principal components is frequent
    but not universal for learned graphs, and less frequent for random ones (docs/spectral.md).

    References
    ----------
    Sahoo & Chakraborty, arXiv 2005.02817, 2020, section IV-A2.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.metrics import separability
    >>> features = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> round(separability(features, ["a", "a", "b", "b"]), 3)  # S_B = 25, S_T = 26
    0.962
    >>> round(separability(features, ["a", "b", "b", "a"]), 12)  # both means are 6
    0.0
    """
    values, names = check_features(features), check_labels(labels, "labels")
    if len(values) != len(names):
        raise ValueError(
            f"features has {len(values)} rows and labels has {len(names)} labels; pass one label per row."
        )
    centred = _centred(values, "separability")
    _, codes, sizes = np.unique(names, return_inverse=True, return_counts=True)
    means = np.column_stack([np.bincount(codes, column) for column in centred.T]) / sizes[:, None]
    return min(float((sizes[:, None] * means**2).sum() / (centred**2).sum()), 1.0)


def _centred(values: Floats, measure: str) -> Floats:
    """Rows less their mean, scaled by a power of two, so that no square overflows or underflows."""
    # less the first row, a constant column is exactly 0; halving keeps the difference finite
    away = values / 2.0 - values[0] / 2.0
    if not away.any():
        found = f"got equal rows of {values.shape[1]} feature(s); pass others."
        raise ValueError(f"{measure} needs at least one feature that varies, {found}")
    away = np.ldexp(away, -int(np.frexp(np.abs(away).max())[1]))
    centred: Floats = away - away.mean(axis=0)
    return centred
