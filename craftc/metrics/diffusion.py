"""Spectrum and separation of a table of features: eigen-diffusion and the separability criterion."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc.metrics.checks import check_features, check_labels

_ROUNDING = 1e-12  # eigenvalues below this share of the largest are rounding errors
_REPEATED = 1e-28  # share of the total scatter that repeated rows can have by rounding alone


def eigen_diffusion(features: Any) -> float:
    """Decay rate of the eigenvalues of the covariance of features: alpha in lambda_k ~ alpha^k.

    The eigenvalues are sorted in descending order; those below 1e-12 of the largest are rounding errors and excluded. The least-squares
    line of ln lambda_k against k has slope ln alpha. The paper's printed formula was not available: this definition depends on the features
    alone and decreases when the spectrum decays faster, but its values may differ from those of the paper.

    Parameters
    ----------
    features : array-like or data frame of shape (n_samples, n_features)
        Finite numbers of any type; computed in float64.

    Returns
    -------
    float
        alpha in (0, 1]. At 1 all eigenvalues are equal; at 0.5 each is about half of the previous one; near 0 a single direction has nearly
        all variance. It is invariant to translation, rotation and a common scale of all features.

    Raises
    ------
    ValueError
        If `features` is not two-dimensional, has fewer than two rows, or contains anything but finite numbers; or if fewer than two
        eigenvalues exceed rounding error, so that no decay rate is defined.

    Notes
    -----
    Compare alpha only at equal numbers of features. An alpha below that of principal components is no evidence for a learned graph, because
    random graphs give it too: with the printed formula, a reference implementation found it in 21 of 24 runs with random graphs on the
    paper's four data sets, and in 78 of 96 with learned graphs.

    References
    ----------
    Sahoo & Chakraborty, "Graph Spectral Feature Learning for Mixed Data of Categorical and
    Numerical Type", arXiv 2005.02817, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.metrics import eigen_diffusion
    >>> cross = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(eigen_diffusion(cross), 12)  # variances 8/3 and 2/3
    0.25
    """
    centred = _centred(check_features(features))
    values = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    logs = np.log(values[values > _ROUNDING * values[0]])
    if len(logs) < 2:
        raise ValueError(
            f"eigen_diffusion needs at least two eigenvalues of the covariance above rounding error, got {len(logs)} from features of "
            f"shape {centred.shape}; pass features that vary in at least two directions."
        )
    steps = np.arange(len(logs)) - (len(logs) - 1) / 2.0
    return min(float(np.exp(steps @ logs / (steps @ steps))), 1.0)


def separability(features: Any, labels: Any) -> float:
    """Separation of clusters relative to their width: J = tr(S_w^+ S_b).

    S_w is the mean within-cluster scatter and S_b the mean between-cluster scatter, every row with weight 1/n. S_w^+ is the inverse of S_w,
    or its pseudo-inverse where S_w is singular. The paper's printed formula was not available: this is the usual criterion of that name,
    but its values may differ from those of the paper.

    Parameters
    ----------
    features : array-like or data frame of shape (n_samples, n_features)
        Finite numbers of any type; computed in float64.
    labels : array-like of shape (n_samples,)
        Clusters or classes: strings or integers.

    Returns
    -------
    float
        J >= 0; 0 if all clusters have the same mean; larger is better separated. It is invariant to translation, rotation and a common
        scale of all features, and to any invertible linear map while S_w is regular.

    Raises
    ------
    ValueError
        If `features` is not two-dimensional, has fewer than two rows, or contains anything but finite numbers; if labels are missing or
        neither strings nor integers; if the two lengths differ.

    Notes
    -----
    Directions without within-cluster scatter (eigenvalues of S_w below 1e-12 of the largest) are excluded, however well they separate the
    clusters: clusters that are single points give 0. Scale the features similarly first, otherwise narrow features are excluded too.

    Adding a feature never decreases J while S_w stays regular: compare only equal numbers of features. A J above that of principal
    components is weak evidence for a learned graph: with the printed formula, a reference implementation found it in 236 of 288 runs with
    learned graphs on the paper's four data sets, and in 39 of 72 with random graphs. The formula here gave 47 of 288 and 7 of 480
    (docs/spectral.md), so the paper's J probably has another definition.

    References
    ----------
    Sahoo & Chakraborty, "Graph Spectral Feature Learning for Mixed Data of Categorical and
    Numerical Type", arXiv 2005.02817, 2020. Fukunaga, "Introduction to Statistical Pattern
    Recognition", 2nd edition, 1990, section 10.2.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.metrics import separability
    >>> features = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> round(separability(features, ["a", "a", "b", "b"]), 12)  # S_w = 1, S_b = 25
    25.0
    >>> round(separability(features, ["a", "b", "b", "a"]), 12)  # both means are 6
    0.0
    """
    values, names = check_features(features), check_labels(labels, "labels")
    if len(values) != len(names):
        raise ValueError(f"features has {len(values)} rows and labels has {len(names)} labels; pass one label per row.")
    centred = _centred(values)
    _, first, codes, sizes = np.unique(names, return_index=True, return_inverse=True, return_counts=True)
    # subtract the first row of the cluster before its mean, so that a cluster of one repeated row has width exactly 0
    away = centred - centred[first][codes]
    shift = np.column_stack([np.bincount(codes, column) for column in away.T]) / sizes[:, None]
    away -= shift[codes]
    means = centred[first] + shift
    within, between = away.T @ away, means.T @ (means * sizes[:, None])
    widths, directions = np.linalg.eigh(within)
    wide = widths > max(_ROUNDING * widths[-1], _REPEATED * (np.trace(within) + np.trace(between)))
    along = directions[:, wide]
    return float((((between @ along) * along).sum(axis=0) / widths[wide]).sum())


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred rows, scaled by a power of two that brings the largest value near 1, so that no square overflows or underflows.

    The first row is subtracted before the mean, so that a constant column becomes exactly 0; halving keeps the difference finite.
    """
    away = values / 2.0 - values[0] / 2.0
    away = np.ldexp(away, -int(np.frexp(np.abs(away).max())[1]))
    centred: NDArray[np.float64] = away - away.mean(axis=0)
    return centred
