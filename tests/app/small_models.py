"""Small models of every estimator on tables of 60 rows, which do not depend on the version of NumPy."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone

import craftc


def table_of(kind):
    """Columns of 60 rows in three groups: "numbers", "counts", "indicators", or "mixed" with texts and
    missing cells.
    """
    row = np.arange(60)
    group = row % 3
    noise = np.stack([(row * step % 59) / 59.0 - 0.5 for step in (7, 11, 17, 23)], axis=1)
    numbers = noise + np.array([[0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 2.0, 0.0], [0.0, 5.0, 2.0, 0.0]])[group]
    if kind == "counts":
        return np.floor(4.0 * np.abs(numbers))
    if kind == "indicators":
        return (numbers > 1.0).astype(np.float64)
    if kind == "mixed":
        age = np.where(row % 13 == 5, np.nan, 40.0 + 8.0 * numbers[:, 0])
        return {
            "age": age,
            "size": np.round(numbers[:, 1], 3),
            "colour": [("red", "green", "blue")[int(g) if i % 5 else 0] for i, g in enumerate(group)],
            "sold": [("yes", "no")[int(i % 7 < 3 + g)] for i, g in enumerate(group)],
        }
    return numbers


CLASSES = np.array(["north", "south", "west"])[np.arange(60) % 3]

#: Table and model.
MODELS = {
    "craft": ("mixed", craftc.CRAFT(random_state=0)),
    "craft-paper": ("mixed", craftc.PaperCRAFT(3, random_state=0)),
    "dpmeans": ("numbers", craftc.DPMeans(random_state=0)),
    "dpmeans-full": ("numbers", craftc.DPMeans(8.0, covariance="full-sized", random_state=0)),
    "dpmeans-known": (
        "numbers",
        craftc.DPMeans(8.0, covariance=np.diag([1.0, 2.0, 1.0, 2.0]), random_state=0),
    ),
    "kfeatures": ("numbers", craftc.KFeatures(3, random_state=0)),
    "bpmeans": ("numbers", craftc.BPMeans(9.0, random_state=0)),
    "mixture": ("numbers", craftc.FeatureSelectionMixture(4, random_state=0)),
    "mixture-full": ("numbers", craftc.FeatureSelectionMixture(4, covariance="full", random_state=0)),
    "mixture-counts": ("counts", craftc.FeatureSelectionMixture(4, component="poisson", random_state=0)),
    "mixture-indicators": (
        "indicators",
        craftc.FeatureSelectionMixture(4, component="bernoulli", random_state=0),
    ),
    "convex": ("numbers", craftc.ConvexClustering([1.0, 0.3])),
    "covariates": ("numbers", craftc.ConvexCovariateClustering([8.0, 4.0, 2.0])),
    "spectral": ("mixed", craftc.GraphSpectralFeatures(2, categorical=["colour", "sold"], random_state=0)),
    "kmodes": ("indicators", craftc.KModes(3, random_state=0)),
    "kprototypes": ("mixed", craftc.KPrototypes(3, n_init=2, random_state=0)),
    "kprototypes-ng": (
        "mixed",
        craftc.KPrototypes(3, cat_dissim="ng", update="batch", missing="category", n_init=2, random_state=0),
    ),
}


def fitted(name):
    """The fitted model and its rows."""
    kind, model = MODELS[name]
    X, model = table_of(kind), clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, CLASSES) if isinstance(model, craftc.ConvexCovariateClustering) else model.fit(X)
    return model, X
