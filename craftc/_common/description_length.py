"""Description length of a partition into spherical clusters."""

from __future__ import annotations

import math

import numpy as np

from craftc._common.typing import Floats

ROWS_PER_CLUSTER = 5  # minimum average for which the criterion can choose a number of clusters


def description_length(sizes: Floats, D: int, inertia: float, scatter: float) -> float:
    """Description length in nats of a table and its labels under spherical clusters of equal variance.

    It is the BIC of the classification likelihood, N D / 2 log(SSE / (N D)) - sum_k n_k log(n_k / N) + (K D +
    K) / 2 log N, with the SSE bounded below by 1e-14 of the total scatter.
    """
    N, K = float(sizes.sum()), len(sizes)
    spread = max(max(inertia, 1e-14 * scatter, np.finfo(float).tiny) / (N * D), np.finfo(float).tiny)
    mixing = math.fsum(size * math.log(size / N) for size in sizes.tolist())
    return float(0.5 * N * D * math.log(spread) - mixing + 0.5 * K * (D + 1) * math.log(max(N, 1.0)))
