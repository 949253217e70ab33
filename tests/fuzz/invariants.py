"""What must hold of every fitted estimator, whatever the table and the parameters."""

from __future__ import annotations

import copy
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from tests.fuzz.problems import Problem, Problems, raised_on_purpose


def _of_one_cluster(model: Any) -> str:
    """Infinite where there is no second cluster."""
    return "inf" if model.n_clusters_ == 1 else ""


def _of_clusters_without_rows(model: Any) -> str:
    """Not defined for fixed clusters that have no row."""
    return f"{_of_one_cluster(model)} {'' if np.all(model.cluster_sizes_) else 'nan'}"


def _of_infinite_penalty(model: Any) -> str:
    """Infinite if the parameter is."""
    return "inf" if np.isinf(model.cluster_penalty_) else ""


#: Fitted attributes that may hold NaN or infinity: which, and why, of a model.
NOT_FINITE: dict[str, Callable[[Any], str]] = {
    **{
        f"{name}.{attribute}": rule
        for name in ("CRAFT", "PaperCRAFT")
        for attribute, rule in {
            "dependence_ratio_": lambda model: "nan inf",  # inf if only links save anything, NaN if nothing
            "margins_": _of_one_cluster,
            "cluster_margins_": _of_clusters_without_rows,
            "centers_": lambda model: "nan",  # where all cells of a cluster are missing
            "variances_": lambda model: "nan",
        }.items()
    },
    "DPMeans.cluster_penalty_": _of_infinite_penalty,
    "DPMeans.objective_": _of_infinite_penalty,
    "DPMeans.objective_path_": _of_infinite_penalty,
    "DPMeans.radius_": _of_infinite_penalty,
    "KFeatures.penalty_interval_": lambda model: "inf",  # where no feature can be dropped or added
    "BPMeans.penalty_interval_": lambda model: "inf",
    "GraphSpectralFeatures.codes_": lambda model: "nan",  # of numeric columns
    "ConvexCovariateClustering.best_": lambda model: "nan",  # no evidence without a path
    "ConvexCovariateClustering.path_": lambda model: "nan",
}
#: A number that is not finite, in a text.
NOT_A_NUMBER = re.compile(r"(?<![\w'.])[+-]?(nan|inf|infinity)(?![\w'])", re.IGNORECASE)
#: Of a page, which are not read.
MARKS = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL)
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
    if isinstance(a, pd.Index):
        return difference(a.to_numpy(), b.to_numpy(), path)
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


def check_fitted(
    found: Problems,
    model: Any,
    X: Any,
    sample_weight: Any = None,
    groups: Any = None,
    fixed: Any = None,
    **_: Any,
) -> None:
    """Collect what is wrong with a model fitted with these keywords."""
    name, weight = type(model).__name__, sample_weight
    values = {attribute: value for attribute, value in vars(model).items() if attribute.endswith("_")}
    for attribute in _properties(type(model)):
        outcome = found.attempt(f"{name}.{attribute}", getattr, model, attribute, clear=is_not_defined)
        values[attribute] = outcome.value
    for attribute, value in values.items():
        if not attribute.startswith("_"):
            allowed = NOT_FINITE.get(f"{name}.{attribute}")
            check_finite(found, f"{name}.{attribute}", value, "" if allowed is None else allowed(model))
    marks = marks_outliers(model)
    for attribute in _LABELS:
        if hasattr(model, attribute):
            check_labels(
                found,
                f"{name}.{attribute}",
                getattr(model, attribute),
                model.n_clusters_,
                name.startswith(_BY_PROTOTYPE) or fixed is not None,
                marks,
            )
    if groups is not None and not isinstance(groups, str | int):
        labels = pd.Series(np.asarray(model.labels_))
        of_clusters = labels.where(labels >= 0)  # outliers are single rows; names of groups have any type
        labels = of_clusters.groupby(np.asarray(groups, dtype=object), sort=False).nunique()
        found.check((labels <= 1).all(), f"{name}.labels_", "rows of one group are in several clusters")
    rows = numbers_of(X)
    if fixed is None and groups is None:  # which are met, whatever they cost
        most = 1.0 if weight is None else float(np.asarray(weight, dtype=np.float64).max(initial=1.0))
        check_path(found, model, rows, most)
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


def marks_outliers(model: Any) -> bool:
    """Whether -1 replaces the clusters of outliers, which the sizes of the clusters count."""
    return getattr(model, "outlier_price", None) is not None


def check_labels(
    found: Problems, what: str, labels: Any, n_clusters: int, any_order: bool = False, marks: bool = False
) -> None:
    """Collect labels that are not 0..K-1, numbered by first appearance; `any_order`: some of them, numbered
    as the prototypes; `marks`: some of them, or -1 in their place.
    """
    labels = np.asarray(labels)
    if any_order or marks:
        inside = labels.dtype == np.int32 and (
            not len(labels) or (labels.min() >= (-1 if marks else 0) and labels.max() < n_clusters)
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
        return free and model.covariance not in ("full", "tied")  # bounds are met, whatever they cost
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


def check_finite(found: Problems, what: str, value: Any, allowed: str = "", words: bool = False) -> None:
    """Collect numbers that are not finite inside a value: arrays, frames, their attrs, and records.

    Parameters
    ----------
    found : Problems
    what : str
    value : object
    allowed : str
        "nan", "inf" or "nan inf": numbers that are no problem.
    words : bool
        Whether to search the texts, too; those of a table without such cells may not say nan or inf.
    """
    for part in _parts(value):
        if isinstance(part, str):
            if words and (said := NOT_A_NUMBER.search(MARKS.sub(" ", part))):
                found.append(Problem("not finite", what, f"{said[0]!r}, {_around(said)!r}"))
                return
            continue
        ignored = np.isnan(part) & ("nan" in allowed) | np.isinf(part) & ("inf" in allowed)
        if not found.finite(what, np.where(ignored, 0.0, part)):
            return


def check_said(found: Problems, model: Any, said: Mapping[str, type[Warning]], words: bool) -> None:
    """Collect warnings of a fit that contradict its result; `words`: or say nan or inf."""
    name = type(model).__name__
    if words:
        check_finite(found, f"{name}.fit warns", list(said), words=True)
    for text in said:
        if claim := re.search(r"(?:found|opened|pays for) (\d+) (?:cluster|feature)", text):
            fitted = model.n_clusters_ if "cluster" in claim[0] else model.n_features_
            found.check(int(claim[1]) == fitted, f"{name}.fit warns", f"{fitted} in the model: {text}")
    if marks_outliers(model) and (np.asarray(model.labels_) < 0).all():
        warned = any("have the label -1" in text for text in said)
        found.check(warned, f"{name}.labels_", "no row is in a cluster, and no warning says so")
    if hasattr(model, "converged_"):
        texts = [text for text, category in said.items() if issubclass(category, ConvergenceWarning)]
        # more clusters than there are different rows are said to a model that has converged, too
        others = [text for text in texts if "more than the columns tell apart" not in text]
        agrees = not others if model.converged_ else bool(texts)
        found.check(agrees, f"{name}.converged_", f"{model.converged_}, warnings {list(said)}"[:300])


def _around(match: re.Match[str]) -> str:
    """What stands on both sides of a match."""
    return match.string[max(match.start() - 60, 0) : match.end() + 30]


def _parts(value: Any) -> Iterator[Any]:
    """Arrays of floats, and texts, inside a value."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fc":
            yield value
        elif value.dtype.kind in "OUT":
            yield from _parts(value.tolist())
    elif isinstance(value, float | np.floating | str):
        yield value
    elif hasattr(value, "columns") and hasattr(value, "shape"):  # a frame of pandas or polars
        for i in range(value.shape[1]):
            yield from _parts((value.iloc[:, i] if hasattr(value, "iloc") else value[:, i]).to_numpy())
        attrs = dict(getattr(value, "attrs", {}))
        attrs.pop("dependence_ratio", None)  # is checked as an attribute
        yield from _parts(attrs)
    elif isinstance(value, pd.Series):
        yield from _parts(value.to_numpy())
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _parts(each)
    elif isinstance(value, dict):
        yield from _parts(list(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            if each.repr:
                yield from _parts(getattr(value, each.name))
        yield from _parts(getattr(value, "frame", None))


@cache
def _properties(cls: type) -> list[str]:
    """Fitted attributes that are computed."""
    named = [name for name in dir(cls) if name.endswith("_") and not name.startswith("_")]
    return [name for name in named if isinstance(inspect.getattr_static(cls, name), property)]


def is_not_defined(error: Exception) -> bool:
    """Whether craftc says that an attribute or a method does not exist for these parameters."""
    return isinstance(error, AttributeError) and raised_on_purpose(error)
