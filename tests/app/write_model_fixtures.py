"""Write the model files that later versions must load: one per estimator, in the format of this version.

    python -m tests.app.write_model_fixtures

It writes `tests/app/models/NAME.craftc` and, next to it, `NAME.json` with the results of the model on its own
table, which `test_model_fixtures.py` compares. The tables are those of `table_of` below and do not depend on
the version of NumPy. Files that exist are kept: they are evidence that files of their version can be read, so
they are never written again. To add one, add a line to `MODELS`; after a change of a format, add a line with
a new name. `craft-2` and `craft-table-2` are the models of `craft-3` and `craft-table-3`, written in format 2
by the code at commit 9a98734.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

import craftc

FOLDER = Path(__file__).parent / "models"


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

#: Name of the file: table, model. Names end with the format.
MODELS = {
    "craft-3": ("mixed", craftc.CRAFT(random_state=0)),
    "craft-table-3": ("mixed", craftc.CRAFT(3, background="table", random_state=0)),
    "dpmeans-3": ("numbers", craftc.DPMeans(random_state=0)),
    "dpmeans-full-3": ("numbers", craftc.DPMeans(8.0, covariance="full-sized", random_state=0)),
    "dpmeans-known-3": (
        "numbers",
        craftc.DPMeans(8.0, covariance=np.diag([1.0, 2.0, 1.0, 2.0]), random_state=0),
    ),
    "kfeatures-3": ("numbers", craftc.KFeatures(3, random_state=0)),
    "bpmeans-3": ("numbers", craftc.BPMeans(9.0, random_state=0)),
    "mixture-3": ("numbers", craftc.FeatureSelectionMixture(4, random_state=0)),
    "mixture-full-3": ("numbers", craftc.FeatureSelectionMixture(4, covariance="full", random_state=0)),
    "mixture-counts-3": ("counts", craftc.FeatureSelectionMixture(4, component="poisson", random_state=0)),
    "mixture-indicators-3": (
        "indicators",
        craftc.FeatureSelectionMixture(4, component="bernoulli", random_state=0),
    ),
    "convex-3": ("numbers", craftc.ConvexClustering([1.0, 0.3])),
    "covariates-3": ("numbers", craftc.ConvexCovariateClustering([8.0, 4.0, 2.0])),
}
MODELS |= {f"{name[:-1]}4": model for name, model in MODELS.items()}
MODELS |= {
    "spectral-4": ("mixed", craftc.GraphSpectralFeatures(2, categorical=["colour", "sold"], random_state=0)),
    "kmodes-4": ("indicators", craftc.KModes(3, random_state=0)),
    "kprototypes-4": ("mixed", craftc.KPrototypes(3, n_init=2, random_state=0)),
    "kprototypes-ng-4": (
        "mixed",
        craftc.KPrototypes(3, cat_dissim="ng", update="batch", missing="category", n_init=2, random_state=0),
    ),
}


def results(model, X):
    """What a fixture stores: whatever these methods and attributes give, as JSON writes it."""
    methods = ("predict", "predict_proba", "score_samples", "transform")
    out = {name: getattr(model, name)(X).tolist() for name in methods if hasattr(model, name)}
    attributes = (
        "labels_",
        "covariate_labels_",
        "cluster_centers_",
        "features_",
        "coef_",
        "graph_",
        "objective_",
        "n_clusters_",
    )
    out |= {name: np.asarray(getattr(model, name)).tolist() for name in attributes if hasattr(model, name)}
    return out


def write(name, kind, model):
    """Fit a model, and write its file and its results."""
    X = table_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, CLASSES) if isinstance(model, craftc.ConvexCovariateClustering) else model.fit(X)
    craftc.save_model(model, FOLDER / f"{name}.craftc")
    (FOLDER / f"{name}.json").write_text(
        json.dumps({"table": kind, "results": results(model, X)}, separators=(",", ":")) + "\n"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, (kind, model) in MODELS.items():
        if not (FOLDER / f"{name}.craftc").exists():
            write(name, kind, model)
