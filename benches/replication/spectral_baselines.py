"""Baselines of the paper that need no other package: K-medoids (PAM) on Gower distances, and k-prototypes.

PAM: Kaufman & Rousseeuw, "Finding Groups in Data", 1990, chapter 2. k-prototypes: Huang, "Extensions to the
k-Means Algorithm for Clustering Large Data Sets with Categorical Values", 1998.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from replication.spectral_common import Data, Labels, Table

MAX_SWEEPS = 100


def gower(data: Data) -> Table:
    """(n, n) mean distance over the columns that both rows have: |difference| / range, and 0 or 1."""
    total, count = (np.zeros((len(data.X), len(data.X))) for _ in range(2))
    for name in data.numeric:
        cells = data.X[name].to_numpy(np.float64)
        apart = np.abs(cells[:, None] - cells) / max(np.nanmax(cells) - np.nanmin(cells), 1e-300)
        total += np.nan_to_num(apart)
        count += ~np.isnan(apart)
    for name in data.categorical:
        codes = pd.factorize(data.X[name])[0]
        both = (codes[:, None] >= 0) & (codes >= 0)
        total += (codes[:, None] != codes) & both
        count += both
    return total / np.maximum(count, 1)


def medoids(distances: Table, K: int) -> Labels:
    """PAM: greedy BUILD, then the best exchange of a medoid and another row until none lowers the sum of the
    distances to the medoids.
    """
    chosen = [int(distances.sum(axis=1).argmin())]
    while len(chosen) < K:
        nearest = distances[:, chosen].min(axis=1)
        chosen.append(int(np.maximum(nearest[:, None] - distances, 0.0).sum(axis=0).argmax()))
    while True:
        to_medoids = distances[:, chosen]
        own = to_medoids.argmin(axis=1)
        first = to_medoids.min(axis=1)
        others = to_medoids.copy()
        others[np.arange(len(own)), own] = np.inf
        second = others.min(axis=1)
        # change by row c as a medoid: of rows that gain in any case, and of the rows of the medoid that it
        # replaces
        gain = np.minimum(distances - first[:, None], 0.0)
        lost = np.minimum(distances, second[:, None]) - first[:, None] - gain
        change = gain.sum(axis=0) + np.stack([lost[own == k].sum(axis=0) for k in range(K)])
        k, row = np.unravel_index(change.argmin(), change.shape)
        if change[k, row] >= -1e-9 * first.sum():
            return own
        chosen[k] = int(row)


def prototypes(data: Data, K: int, seed: int, n_init: int) -> Labels:
    """k-prototypes, the best of some starts from random rows: squared distance of standardised numbers plus
    .5 per category that differs.

    .5 is Huang's proposal, half of the mean standard deviation. A missing category is a level, a missing
    number the mean.
    """
    numbers = data.X[data.numeric].astype(float)
    x = ((numbers - numbers.mean()) / numbers.std(ddof=0)).fillna(0.0).to_numpy()
    codes = np.column_stack(
        [pd.factorize(data.X[name], use_na_sentinel=False)[0] for name in data.categorical]
    )
    best, labels = np.inf, np.zeros(len(x), np.intp)
    rng = np.random.default_rng(seed)
    for _ in range(n_init):
        rows = rng.choice(len(x), K, replace=False)
        means, modes, own = x[rows], codes[rows], np.full(len(x), -1)
        for _ in range(MAX_SWEEPS):
            cost = ((x[:, None] - means) ** 2).sum(axis=2) + 0.5 * (codes[:, None] != modes).sum(axis=2)
            before, own = own, cost.argmin(axis=1)
            if (own == before).all():
                break
            for k in np.unique(own):  # an empty cluster keeps its prototype
                means[k] = x[own == k].mean(axis=0)
                modes[k] = [np.bincount(column).argmax() for column in codes[own == k].T]
        total = float(cost.min(axis=1).sum())
        if total < best:
            best, labels = total, own
    return labels
