"""Comparison of a fit on partitions with the fit of the whole table, and tables for it."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd

NUMBERS = (
    "n_clusters_",
    "objective_",
    "objective_path_",
    "n_iter_",
    "converged_",
    "dependence_ratio_",
    "column_links_",
    "cluster_names_",
    "feature_importances_",
    "cluster_margins_",
    "cluster_price_",
    "price_factor_",
    "cluster_sizes_",
    "feature_mask_",
    "feature_gains_",
    "centers_",
    "variances_",
    "level_probabilities_",
    "levels_",
    "n_features_in_",
)
OF_ROWS = ("labels_", "margins_")


def computed(values):
    """An array of what may be a lazy collection."""
    return np.asarray(values.compute() if hasattr(values, "__dask_graph__") else values)


def equal(a, b):
    """Whether two values are equal to the last bit; NaN equals NaN."""
    if a is None or b is None:
        return a is b
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    a, b = computed(a), computed(b)
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def differences(far, here):
    """The names of the fitted values of two models that differ."""
    found = [name for name in NUMBERS if not equal(getattr(far, name), getattr(here, name))]
    found += [
        name for name in OF_ROWS if hasattr(here, name) and not equal(getattr(far, name), getattr(here, name))
    ]
    if not equal(far.covariances_, here.covariances_):
        found.append("covariances_")
    if not equal(far.representatives(5), here.representatives(5)) or not equal(
        far.outliers(20), here.outliers(20)
    ):
        found.append("typical and unusual rows")
    if not equal(far.similarity(), here.similarity()):
        found.append("similarity")
    return found + differences_of_path(far.merge_path_, here.merge_path_)


def differences_of_path(far, here):
    """The steps of two merge paths that differ."""
    if far.objectives() != here.objectives():
        return [f"path {far.objectives()} instead of {here.objectives()}"]
    found = []
    for a, b in zip(far, here, strict=True):
        found += [
            f"{name} of K={b.n_clusters}"
            for name in ("merged", "labels", "heirs")
            if not equal(getattr(a, name), getattr(b, name))
        ]
    return found


def differences_of_levels(far, here, every=False):
    """The levels on the merge path at which two models differ."""
    found = []
    K = here.n_clusters_
    for k in range(1, K + 1) if every else sorted({1, min(2, K), (K + 1) // 2}):
        a, b = far.at(k), here.at(k)
        names = set(NUMBERS) - {"cluster_margins_", "n_iter_"}
        found += [f"{name} at {k}" for name in sorted(names) if not equal(getattr(a, name), getattr(b, name))]
        found += [f"labels_ at {k}"] if not equal(a.labels_, b.labels_) else []
        found += [f"cut({k})"] if not equal(far.cut(k), here.cut(k)) else []
    return found


def outcome(fit):
    """The model or the error of a fit, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fit()
        except (ValueError, TypeError) as error:
            model = error
    return model, sorted(str(each.message) for each in caught if issubclass(each.category, UserWarning))


def cut(X, borders):
    """The rows of a table between every two borders."""
    take = (lambda a, b: X.iloc[a:b]) if hasattr(X, "iloc") else (lambda a, b: X[a:b])
    return [take(a, b) for a, b in pairwise(borders)]


def even(n, parts):
    """Borders of parts of about equal length."""
    return np.linspace(0, n, parts + 1).astype(int).tolist()


def mixed(n, seed=0, n_clusters=6, missing=0.05, dtype=np.float64):
    """Numbers, texts, ordered and unordered categories and booleans, in clusters, with missing cells."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_clusters, n)
    place = rng.normal(size=(n_clusters, 3)) * 4.0
    frame = pd.DataFrame((rng.normal(size=(n, 3)) + place[group]).astype(dtype), columns=["a", "b", "c"])
    frame["skewed"] = np.exp(rng.normal(size=n) + group % 2).astype(dtype)
    frame["spike"] = np.where(rng.random(n) < 0.4, 0.0, rng.normal(size=n) + group).astype(dtype)
    frame["few"] = rng.integers(0, 4, n) + 2 * (group % 3)
    frame["text"] = np.array(["x", "y", "z", "w"], object)[
        np.where(rng.random(n) < 0.8, group % 4, rng.integers(0, 4, n))
    ]
    frame["ordered"] = pd.Categorical.from_codes(
        np.where(rng.random(n) < 0.8, group % 3, rng.integers(0, 3, n)),
        ["low", "mid", "high", "never"][:4],
        ordered=True,
    )
    frame["unordered"] = pd.Categorical.from_codes(
        np.where(rng.random(n) < 0.7, group % 5, rng.integers(0, 5, n)), list("vutsr")
    )
    frame["flag"] = rng.random(n) < 0.2 + 0.6 * (group % 2)
    if missing:
        for name in ("a", "spike", "text", "unordered"):
            frame.loc[rng.random(n) < missing, name] = None
    return frame
