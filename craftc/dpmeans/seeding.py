"""Starts of DP-means: labels of k-means, and a single centre at a random row."""

from __future__ import annotations

import numpy as np

from craftc._common.dense_data import DenseData
from craftc._common.labels import compact
from craftc._common.random import DPMeansStream, drawn, uniform
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.descent import SphericalDescent, SphericalFit
from craftc.dpmeans.rows.bounded import nearest

_STARTS = 10  # k-means++ starts; the one of the lowest error is kept
_NO_ORDER = np.empty(0, np.int32)  # rows are visited as they stand


def k_means_labels(data: DenseData, K: int, seed: int, max_iter: int) -> Labels:
    """Labels of k-means: the lowest error of ten k-means++ starts (Arthur & Vassilvitskii 2007)."""
    best: SphericalFit[Labels] | None = None
    for start in range(_STARTS):
        labels = compact(nearest(data.X, _seeds(data, K, seed, start), data.n_threads)[0])
        descent = SphericalDescent(data, 0.0, int(labels.max()) + 1, labels, _NO_ORDER)
        path: list[float] = []
        fit = descent.result(path, *descent.run(descent.serial, path, max_iter))
        if best is None or fit.objective < best.objective - 1e-12 * data.scatter:
            best = fit
    assert best is not None
    return best.labels


def random_row(data: DenseData, seed: int, start: int) -> Floats:
    """(1, D) a row, drawn in proportion to the weights."""
    draw = float(uniform(seed, DPMeansStream.ROW, start))
    return data.X[[drawn(np.cumsum(_weights(data)), draw)]].astype(np.float64)


def _seeds(data: DenseData, K: int, seed: int, start: int) -> Floats:
    """(at most K, D) different rows, drawn in proportion to the squared distance to the nearest before."""
    draws = uniform(seed, DPMeansStream.SEED, start, np.arange(K))
    squared, weights = np.full(len(data), np.inf), _weights(data)
    rows = [drawn(np.cumsum(weights), draws[0])]
    threads = threads_for(data.n_threads, 2 * data.X.size)
    while len(rows) < K:
        _kernel.update_nearest(data.X, data.X[rows[-1]].astype(np.float64), squared, threads)
        chances = weights * squared
        if not chances.any():
            break
        rows.append(drawn(np.cumsum(chances), draws[len(rows)]))
    return data.X[rows].astype(np.float64)


def _weights(data: DenseData) -> Floats:
    return data.weight.astype(np.float64) if len(data.weight) else np.ones(len(data))
