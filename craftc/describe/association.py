"""Differences of a column between clusters: effect sizes, and tests of columns that made no clusters.

Weights of rows are whole numbers of rows wherever a test is computed.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc

from craftc._common.typing import Floats, Labels


def standardised_difference(means: Floats, deviations: Floats, period: float = 0.0) -> float:
    """The largest difference of the means of two clusters, over the root of the mean of their variances.

    NaN unless two clusters have a mean and a deviation, infinity between constants that differ. `period`: of
    a periodic column; the difference is then the shorter way round.
    """
    known = np.flatnonzero(np.isfinite(means) & np.isfinite(deviations))
    means, deviations, period = (
        means / 2.0,
        deviations / 2.0,
        period / 2.0,
    )  # whose differences do not overflow
    first, second = (known[at] for at in np.triu_indices(len(known), 1))
    away = np.abs(means[first] - means[second])
    away = np.minimum(away, period - away) if period else away
    pooled = np.hypot(deviations[first], deviations[second]) / np.sqrt(2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(away == 0.0, 0.0, away / pooled)
    return float(found.max()) if len(found) else np.nan


def _without_empty(counts: Floats) -> Floats:
    """A table of counts without its empty rows and columns."""
    counts = counts[counts.sum(axis=1) > 0]
    return counts[:, counts.sum(axis=0) > 0]


def cramers_v(counts: Floats) -> float:
    """Cramer's V of counts (K, T), without correction; NaN unless two rows and two columns have cells."""
    counts = _without_empty(counts)
    if min(counts.shape) < 2:
        return np.nan
    total = counts.sum()
    expected = counts.sum(axis=1)[:, None] * counts.sum(axis=0) / total
    squares = float(((counts - expected) ** 2 / expected).sum())
    return float(np.sqrt(squares / total / (min(counts.shape) - 1)))


def chi_squared(counts: Floats) -> float:
    """p value of the chi-squared test of counts (K, T), with Yates' correction of a 2 x 2 table; NaN unless
    two rows and two columns have cells.
    """
    counts = _without_empty(counts)
    if min(counts.shape) < 2:
        return np.nan
    from scipy.stats import chi2_contingency  # slow to import

    return float(chi2_contingency(counts).pvalue)


def kruskal_wallis(values: Floats, labels: Labels, weight: Floats, n_clusters: int) -> float:
    """p value of the Kruskal-Wallis test with its correction for ties; NaN unless two clusters have values
    and two values differ.
    """
    distinct, place = np.unique(values, return_inverse=True)
    per_value = np.bincount(place, weight, len(distinct))
    ranks = np.cumsum(per_value) - per_value + (per_value + 1.0) / 2.0
    sizes = np.bincount(labels, weight, n_clusters)
    sums = np.bincount(labels, weight * ranks[place], n_clusters)
    n, used = float(weight.sum()), sizes > 0
    if used.sum() < 2 or (per_value > 0).sum() < 2:
        return np.nan
    ties = 1.0 - float((per_value**3 - per_value).sum()) / (n**3 - n)
    centred = sums[used] / sizes[used] - (n + 1.0) / 2.0
    statistic = 12.0 / (n * (n + 1.0)) * float((sizes[used] * centred**2).sum()) / ties
    return float(chdtrc(used.sum() - 1, statistic))


def holm(p_values: Floats) -> Floats:
    """p values adjusted by Holm's method for how many of them are known; NaN stays."""
    out = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return out
