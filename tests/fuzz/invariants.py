"""What must hold of every fitted estimator, whatever the table and the parameters."""

from __future__ import annotations

import copy
import types
from typing import Any

import numpy as np
import pandas as pd

from tests.fuzz.problems import Problems

#: Fitted attributes that may hold NaN or infinity, and why.
NOT_FINITE = {
    "CRAFT.dependence_ratio_": "inf if only links save anything, NaN if nothing does",
    "PaperCRAFT.dependence_ratio_": "the price is not automatic",
    **{
        f"{name}.{attribute}": reason
        for name in ("CRAFT", "PaperCRAFT")
        for attribute, reason in {
            "margins_": "inf where there is no second cluster",
            "cluster_margins_": "inf where there is no second cluster",
            "centers_": "NaN where all cells of a cluster are missing",
            "variances_": "NaN where all cells of a cluster are missing",
        }.items()
    },
    "DPMeans.cluster_penalty_": "inf if the parameter is",
    "DPMeans.objective_": "inf if the parameter cluster_penalty is",
    "DPMeans.objective_path_": "inf if the parameter cluster_penalty is",
    "KFeatures.penalty_interval_": "inf where no feature can be dropped or added",
    "BPMeans.penalty_interval_": "inf where no feature can be dropped or added",
    "GraphSpectralFeatures.codes_": "NaN for numeric columns",
    "ConvexCovariateClustering.best_": "no evidence without a path",
    "ConvexCovariateClustering.path_": "no evidence without a path",
}
_ROUNDING = 1e-9
_BY_PROTOTYPE = ("KModes", "KPrototypes")  # clusters are numbered as their prototypes
_LABELS = ("labels_", "covariate_labels_")
#: Estimators whose objective never rises; for the others the condition on the parameters.
_MONOTONE = (
    "DPMeans",
    "BPMeans",
    "KFeatures",
    "KModes",
    "KPrototypes",
    "FeatureSelectionMixture",
    "GraphSpectralFeatures",
    "CRAFT",
    "PaperCRAFT",
)


def difference(a: Any, b: Any, path: str = "") -> str | None:
    """Where two values differ in type, shape or bits; None if they are equal."""
    if type(a) is not type(b):
        return f"{path}: {type(a).__name__} and {type(b).__name__}"
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{path}: {a.dtype} {a.shape} and {b.dtype} {b.shape}"
        if a.dtype.kind == "O":
            return difference(a.tolist(), b.tolist(), path)
        return None if a.tobytes() == b.tobytes() else f"{path}: {_first(a, b)}"
    if isinstance(a, float | np.floating | complex):
        return None if np.asarray(a).tobytes() == np.asarray(b).tobytes() else f"{path}: {a!r} and {b!r}"
    if isinstance(a, pd.DataFrame | pd.Series):
        same = difference(list(a.index), list(b.index), f"{path}.index") if a.index is not b.index else None
        if isinstance(a, pd.Series):
            return same or difference(a.to_numpy(), b.to_numpy(), path)
        names = difference(list(a.columns), list(b.columns), f"{path}.columns")
        cells = (
            difference(a.iloc[:, i], b.iloc[:, i], f"{path}[{i}]") for i in range(min(a.shape[1], b.shape[1]))
        )
        return same or names or next(filter(None, cells), None)
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return f"{path}: keys {sorted(map(str, a.keys() ^ b.keys()))}"
        return next(filter(None, (difference(a[key], b[key], f"{path}.{key}") for key in a)), None)
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return f"{path}: length {len(a)} and {len(b)}"
        return next(
            filter(
                None, (difference(x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True)))
            ),
            None,
        )
    if hasattr(a, "__dict__") and not isinstance(a, type | types.FunctionType | types.ModuleType):
        return difference(a.__getstate__(), b.__getstate__(), path)  # without values that are kept for reuse
    if a is b or isinstance(a, types.FunctionType):
        return None
    equal = a == b
    return (
        None
        if equal is NotImplemented or bool(np.all(equal)) or type(a).__eq__ is object.__eq__
        else f"{path}: {a!r} and {b!r}"[:200]
    )


def _first(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> str:
    at = np.flatnonzero((a != b).ravel())
    if not len(at):
        return "the sign of a zero, or the bits of a NaN"
    return f"{len(at)} of {a.size}, first {a.flat[at[0]]!r} and {b.flat[at[0]]!r}"


def copied(value: Any) -> Any:
    """A deep copy for a later comparison."""
    return copy.deepcopy(value)


def numbers_of(X: Any) -> np.ndarray[Any, Any] | None:
    """The table as float64, or None if it is not a plain table of finite numbers."""
    try:
        array = np.asarray(X)
    except Exception:  # of any library: not a table of numbers
        return None
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        return None
    array = array.astype(np.float64)
    return array if np.isfinite(array).all() else None


def check_fitted(found: Problems, model: Any, X: Any, weight: Any) -> None:
    """Collect what is wrong with a fitted model."""
    name = type(model).__name__
    for attribute, value in vars(model).items():
        if (
            attribute.endswith("_")
            and not attribute.startswith("_")
            and f"{name}.{attribute}" not in NOT_FINITE
        ):
            for part in _floats(value):
                if not found.finite(f"{name}.{attribute}", part):
                    break
    marks = getattr(model, "outlier_price", None) is not None
    if marks:  # -1 replaces the clusters of outliers, which the sizes count
        known = set(range(-1, model.n_clusters_))
        found.check(set(model.labels_.tolist()) <= known, f"{name}.labels_", "no label of a cluster")
    for attribute in _LABELS:
        if hasattr(model, attribute) and not marks:
            check_labels(
                found,
                f"{name}.{attribute}",
                getattr(model, attribute),
                model.n_clusters_,
                name.startswith(_BY_PROTOTYPE),
            )
    rows = numbers_of(X)
    check_path(
        found,
        model,
        rows,
        1.0 if weight is None else float(np.asarray(weight, dtype=np.float64).max(initial=1.0)),
    )
    if rows is not None and rows.size:
        weights = (
            np.ones(len(rows))
            if weight is None
            else np.broadcast_to(np.asarray(weight, dtype=np.float64), len(rows))
        )
        check_squares(found, model, rows, weights)
        if hasattr(model, "cluster_sizes_") and len(model.labels_) == len(rows) and not marks:
            sizes = np.bincount(model.labels_, weights, model.n_clusters_)
            close = np.allclose(model.cluster_sizes_, sizes, rtol=_ROUNDING, atol=_ROUNDING * sizes.sum())
            found.check(close, f"{name}.cluster_sizes_", f"{model.cluster_sizes_} for {sizes}")


def check_labels(found: Problems, what: str, labels: Any, n_clusters: int, any_order: bool = False) -> None:
    """Collect labels that are not 0..K-1, numbered by first appearance; `any_order`: some of them, numbered
    as the prototypes.
    """
    labels = np.asarray(labels)
    if any_order:
        inside = labels.dtype == np.int32 and (
            not len(labels) or (labels.min() >= 0 and labels.max() < n_clusters)
        )
        found.check(inside, what, f"labels of {n_clusters} clusters: {np.unique(labels)[:5]}")
        return
    if found.check(labels.dtype.kind == "i", what, f"dtype {labels.dtype}") and len(labels):
        values, first = np.unique(labels, return_index=True)
        found.check(
            np.array_equal(values, np.arange(n_clusters)),
            what,
            f"labels {values[:5]}... for {n_clusters} clusters",
        )
        found.check((np.diff(first) > 0).all(), what, "not numbered by first appearance")


def check_path(found: Problems, model: Any, rows: Any, most: float) -> None:
    """Collect an objective that rises by more than rounding, where the method is monotone; `most` is the
    largest weight.
    """
    name = type(model).__name__
    if name not in _MONOTONE or not _monotone(model):
        return
    path = np.asarray(
        model.epoch_costs_ if name.startswith(_BY_PROTOTYPE) else model.objective_path_, dtype=np.float64
    )
    if len(path) < 2 or not np.isfinite(path).all():
        return
    allowed = _ROUNDING * float(np.abs(path).max())
    if name in ("DPMeans", "BPMeans", "KFeatures"):
        if rows is None or not rows.size:
            return  # the rounding of their sums of squares is not known
        allowed += 1e-12 * most * float(((rows - rows.mean(axis=0)) ** 2).sum())
    rise = float(np.diff(path).max())
    where = f"by {rise:.6g} at {int(np.diff(path).argmax())} of {len(path)}, allowed {allowed:.3g}"
    found.check(rise <= allowed, f"{name}.objective_path_ rises", where)


def _monotone(model: Any) -> bool:
    name = type(model).__name__
    if name in ("CRAFT", "PaperCRAFT") and (model.n_clusters is not None or model.max_clusters < 100):
        return False  # the number of clusters is met, whatever it costs
    if name == "CRAFT":
        free = model.min_cluster_size is None and model.max_cluster_size is None
        return free and model.covariance != "full"  # bounds are met, whatever they cost
    if name == "PaperCRAFT":
        return bool(model.model == "likelihood" and model.selection in ("priced", "fixed"))
    if name == "DPMeans":
        return (
            isinstance(model.covariance, str)
            and model.covariance == "spherical"
            and np.isfinite(model.cluster_penalty_)
        )
    if name.startswith(_BY_PROTOTYPE):
        return bool(model.update == "batch")
    if name == "KFeatures":
        return bool(model.empty == "drop")
    if name == "GraphSpectralFeatures":
        return model.graph is None
    return True


def check_squares(found: Problems, model: Any, X: np.ndarray[Any, Any], weight: np.ndarray[Any, Any]) -> None:
    """Collect squared errors and centres that differ from a recomputation in long double."""
    name = type(model).__name__
    wide = X.astype(np.longdouble)
    if name in ("BPMeans", "KFeatures"):
        left = wide - model.assignments_.astype(np.longdouble) @ model.features_.astype(np.longdouble)
        error, size = (left**2).sum(), (wide**2).sum()
        _check_close(found, f"{name}.inertia_", model.inertia_, error, 1e-12 * size)
        penalty = model.feature_penalty_ if name == "BPMeans" else (model.feature_penalty or 0.0)
        _check_close(
            found,
            f"{name}.objective_",
            model.objective_,
            model.inertia_ + np.longdouble(model.n_features_) * penalty,
            0.0,
        )
    if name == "DPMeans" and isinstance(model.covariance, str) and model.covariance == "spherical":
        error, unit = np.longdouble(0), _unit(weight)
        weight = np.where(weight > unit / 2.0, weight, 0.0)  # what rounds to 0 counts as 0
        for k in range(model.n_clusters_):
            rows, share = wide[model.labels_ == k], weight[model.labels_ == k].astype(np.longdouble)[:, None]
            mean = (share * rows).sum(axis=0) / max(share.sum(), np.longdouble(1e-4000))
            error += (share * (rows - mean) ** 2).sum()
            reach = float(np.ptp(X, axis=0).max()) if np.abs(X).max() < 1e307 else np.inf
            away = float(np.abs(model.cluster_centers_[k] - mean).max())
            rounding = _ROUNDING + float(4 * len(rows) * unit / max(share.sum(), 1e-300))
            close = away <= rounding * reach + 1e-15 * np.abs(X).max() + 1e-300
            found.check(close, f"{name}.cluster_centers_", f"{away:.3g} from the mean of the rows")
        middle = wide - (wide * weight[:, None]).sum(axis=0) / weight.sum()
        size = (weight[:, None] * middle**2).sum()
        size += 1e-20 * weight.sum() * (wide**2).max()  # long double is rounded, too
        _check_close(found, f"{name}.inertia_", model.inertia_, error, 1e-12 * size)
        if np.isfinite(model.cluster_penalty_):
            price = np.longdouble(model.cluster_penalty_) * (model.n_clusters_ - 1)
            _check_close(found, f"{name}.objective_", model.objective_, error + price, 1e-12 * size)


def _unit(weight: np.ndarray[Any, Any]) -> float:
    """To what sample weights are rounded: whole numbers are exact."""
    total = float(weight.sum())
    exact = total <= 2.0**46 and bool((weight == np.floor(weight)).all())
    return 0.0 if exact else float(2.0 ** (np.frexp(total)[1] - 46))


def _check_close(found: Problems, what: str, value: float, expected: Any, allowed: Any) -> None:
    if not np.isfinite(value) or not np.isfinite(float(expected)):
        return  # reported as not finite, or beyond float64
    away = abs(np.longdouble(value) - expected)
    found.check(
        away <= _ROUNDING * abs(expected) + allowed + 1e-300, what, f"{value!r} for {float(expected)!r}"
    )


def _floats(value: Any) -> list[Any]:
    """Arrays of floats inside a value."""
    if isinstance(value, np.ndarray):
        return [value] if value.dtype.kind == "f" else []
    if isinstance(value, float | np.floating):
        return [value]
    if isinstance(value, pd.DataFrame):
        return [part for column in value for part in _floats(value[column].to_numpy())]
    if isinstance(value, list | tuple):
        return [part for each in value for part in _floats(each)]
    if isinstance(value, dict):
        return [part for each in value.values() for part in _floats(each)]
    return []
