"""Short fits of every estimator, and hashes of what they find."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from craftc import (
    CRAFT,
    BPMeans,
    ConvexClustering,
    ConvexCovariateClustering,
    DPMeans,
    FeatureSelectionMixture,
    GraphSpectralFeatures,
    KFeatures,
    KModes,
    KPrototypes,
)
from tests.conformance.fingerprints import digest, fitted_numbers

KINDS = 12


def hash_of_fit(number: int, n_threads: int = 1) -> str:
    """Hash of the fitted numbers of one fit: its kind follows from the number, as its table does."""
    rng = np.random.default_rng(number)
    n, d, kind = int(rng.integers(10, 60)), int(rng.integers(2, 6)), number % KINDS
    X = rng.normal(size=(n, d)) + 5.0 * rng.integers(0, 3, (n, 1)) * rng.integers(0, 2, (1, d))
    seed = {"random_state": number, "n_threads": n_threads}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "craftc uses one thread", RuntimeWarning)  # in a forked child
        warnings.filterwarnings("ignore", category=UserWarning)
        if kind == 0:
            model = CRAFT(n_init=1, **seed).fit(_frame(rng, X))
        elif kind == 1:
            model = CRAFT(cluster_price=3.0, selection="fixed", n_init=1, **seed).fit(
                X, sample_weight=rng.random(n) + 0.1
            )
        elif kind == 2:
            model = DPMeans(**seed).fit(X)
        elif kind == 3:
            model = DPMeans(9.0, mode=("serial", "delayed", "collapsed")[number // KINDS % 3], **seed).fit(
                X.astype(np.float32)
            )
        elif kind == 4:
            model = BPMeans(20.0, n_init=1, max_features=4, **seed).fit(X)
        elif kind == 5:
            model = KFeatures(2, n_init=1, **seed).fit(X)
        elif kind == 6:
            model = FeatureSelectionMixture(3, n_init=1, max_iter=20, **seed).fit(X)
        elif kind == 7:
            model = ConvexCovariateClustering(1.0, n_threads=n_threads, max_iter=200).fit(X, np.arange(n) % 2)
        elif kind == 8:
            model = ConvexClustering(0.5, n_threads=n_threads, max_iter=200).fit(X)
        elif kind == 9:
            model = KPrototypes(3, n_init=2, update=("online", "batch")[number // KINDS % 2], **seed).fit(
                _frame(rng, X)
            )
        elif kind == 10:
            model = KModes(3, init="Huang", n_init=2, **seed).fit(np.floor(X))
        else:
            model = GraphSpectralFeatures(2, grid_size=8, max_iter=50, **seed).fit(_frame(rng, X))
    return digest(fitted_numbers(model))


def _frame(rng: np.random.Generator, X: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    frame["group"] = np.array(["a", "b", "c"], dtype=object)[rng.integers(0, 3, len(X))]
    frame.loc[rng.random(len(X)) < 0.1, "x0"] = np.nan
    return frame
