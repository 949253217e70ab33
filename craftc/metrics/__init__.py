"""How well clusters agree with classes that were known all along, and how features spread and part clusters.

Every measure of agreement takes the true labels first and the clusters second; labels are any
strings or integers, and which cluster bears which number never matters. `eigen_diffusion` and
`separability` look at a table of features instead.
"""

from craftc.metrics.agreement import (
    chance_rand_index,
    cluster_label_entropy,
    contingency,
    eigen_diffusion,
    macro_f1,
    nmi,
    purity,
    rand_index,
    separability,
    total_cluster_label_entropy,
)

__all__ = [
    "chance_rand_index",
    "cluster_label_entropy",
    "contingency",
    "eigen_diffusion",
    "macro_f1",
    "nmi",
    "purity",
    "rand_index",
    "separability",
    "total_cluster_label_entropy",
]
