"""Agreement of clusters with known classes, separation of clusters and the spectrum of feature tables.

Measures of agreement take the true labels first and the clusters second. Labels are strings or integers; a
permutation of the cluster numbers does not change the value. `cost_silhouette` takes a fitted clustering and
its table; `eigen_diffusion` and `separability` take a table of features. All raise ValueError if labels are
missing, neither strings nor integers, or differ in number from the rows, and if a table of features is not
two-dimensional with two rows and finite numbers.
"""

from craftc.metrics.agreement import (
    adjusted_rand_index,
    chance_rand_index,
    cluster_label_entropy,
    contingency,
    macro_f1,
    nmi,
    purity,
    rand_index,
    total_cluster_label_entropy,
)
from craftc.metrics.diffusion import eigen_diffusion, separability
from craftc.metrics.silhouette import cost_silhouette

__all__ = [
    "adjusted_rand_index",
    "chance_rand_index",
    "cluster_label_entropy",
    "contingency",
    "cost_silhouette",
    "eigen_diffusion",
    "macro_f1",
    "nmi",
    "purity",
    "rand_index",
    "separability",
    "total_cluster_label_entropy",
]
