"""Hashes of fits of every estimator: equal hashes are equal bits.

As a program: prints the instruction set that ran, then the hashes.
"""

from __future__ import annotations

import hashlib
import json
import warnings

import numpy as np
from sklearn.base import clone
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
    PaperCRAFT,
)
from craftc._common import threads
from craftc._kernels import parallel
from craftc.spectral import observed_graph
from tests.common import random_table

_rng = np.random.default_rng(0)
GROUPS = _rng.integers(0, 4, 900)
ROWS = _rng.normal(size=(900, 11)) + 4 * _rng.normal(size=(4, 11))[GROUPS]
MISSING = np.where(_rng.random(ROWS.shape) < 0.05, np.nan, ROWS)
TABLE = random_table(3, n=900, p=4, q=3)
SUMS = (_rng.random((150, 4)) < 0.4) @ _rng.normal(size=(4, 20)) * 3 + _rng.normal(size=(150, 20))
CLASSES = GROUPS[:80] % 2
LEVELS = np.floor(ROWS[:, :6])
NARROW = ROWS[:80].astype(np.float32)

#: Every estimator and what is worth a kernel of its own: an unfitted model, its rows, its classes.
MODELS = {
    "craft": (CRAFT(random_state=0, n_init=2), TABLE, None),
    "craft, priced": (
        PaperCRAFT(
            cluster_price=5.0,
            model="likelihood",
            numeric="auto",
            n_init=2,
            max_clusters=12,
            random_state=0,
        ),
        TABLE,
        None,
    ),
    "craft, covariances": (
        CRAFT(covariance="full", n_init=2, random_state=0),
        ROWS[:, :5],
        None,
    ),
    "dp-means": (DPMeans(60.0, n_init=2, polish=True, random_state=0), ROWS, None),
    "dp-means, delayed": (DPMeans(60.0, mode="delayed", random_state=0), ROWS.astype(np.float32), None),
    "dp-means, collapsed": (DPMeans(60.0, mode="collapsed", random_state=0), ROWS, None),
    "dp-means, full": (DPMeans(60.0, covariance="full-sized", random_state=0), ROWS[:, :3], None),
    "bp-means": (BPMeans(80.0, n_init=2, max_features=8, random_state=0), SUMS, None),
    "bp-means, collapsed": (BPMeans(60.0, collapsed=True, max_features=6, random_state=0), SUMS, None),
    "k-features": (KFeatures(4, n_init=3, random_state=0), SUMS.astype(np.float32), None),
    "mixture": (FeatureSelectionMixture(5, n_init=2, max_iter=30, random_state=0), MISSING, None),
    "mixture, full": (
        FeatureSelectionMixture(3, covariance="full", max_iter=20, random_state=0),
        ROWS[:, :4],
        None,
    ),
    "mixture, indicators": (
        FeatureSelectionMixture(
            5, component="bernoulli", learn_fraction="component", max_iter=20, random_state=0
        ),
        (ROWS > 1.0).astype(np.float64),
        None,
    ),
    "k-modes": (KModes(5, init="Huang", n_init=3, random_state=0), LEVELS, None),
    "k-modes, Ng": (KModes(9, cat_dissim="ng", random_state=0), LEVELS, None),
    "k-prototypes": (KPrototypes(5, n_init=3, random_state=0), TABLE, None),
    "k-prototypes, batch": (KPrototypes(17, update="batch", n_init=1, random_state=0), TABLE, None),
    "k-prototypes, labels": (
        KPrototypes(9, cat_dissim="jaccard-label", n_init=2, random_state=0),
        TABLE,
        None,
    ),
    "covariates": (ConvexCovariateClustering(1.0, sparsity=0.1), ROWS[:80], CLASSES),
    "convex": (ConvexClustering(n_clusters=4), NARROW, None),
    "spectral": (GraphSpectralFeatures(3, random_state=0), TABLE, None),
    "spectral, few values": (
        GraphSpectralFeatures(3, scaling="normal", random_state=0),
        np.column_stack([ROWS, GROUPS, GROUPS % 3]),
        None,
    ),
    "spectral, given graph": (
        GraphSpectralFeatures(3, graph=observed_graph(TABLE, random_state=0)),
        TABLE,
        None,
    ),
}


def fit(name, n_threads=None):
    """A fitted clone of a model; threads by default as OMP_NUM_THREADS says."""
    model, X, y = MODELS[name]
    fitted = clone(model).set_params(n_threads=n_threads)
    return fitted.fit(X) if y is None else fitted.fit(X, y)


def answers(name, fitted):
    """What a fitted model says of its rows, method by method."""
    X = MODELS[name][1]
    methods = ("predict", "transform", "predict_proba", "score_samples", "decision_function")
    return {method: getattr(fitted, method)(X) for method in methods if hasattr(fitted, method)}


def digest(values):
    """Hash of numbers, arrays and whatever holds them."""
    found = hashlib.sha256()
    for name in sorted(values):
        value = np.asarray(values[name])
        if value.dtype.kind in "biufc":
            found.update(f"{name} {value.shape} {value.dtype}".encode())
            found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def fitted_numbers(fitted):
    """Fitted attributes that are numbers."""
    public = {
        name: value for name, value in vars(fitted).items() if name.endswith("_") and not name.startswith("_")
    }
    return {
        name: value
        for name, value in public.items()
        if isinstance(value, (int, float, np.ndarray)) and "threads" not in name
    }


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    threads.SMALL_WORK = 0  # every kernel call is shared, however small
    found = {}
    for name in MODELS:
        fitted = fit(name)
        found[name] = digest(fitted_numbers(fitted) | answers(name, fitted))
    print(json.dumps([parallel.simd(), found]))


if __name__ == "__main__":
    main()
