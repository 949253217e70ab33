"""A whole weight is that many equal rows, and two rows of weight 1/2 are one: in every statistic of every
estimator that takes weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

from craftc import CRAFT, DPMeans
from tests.registry import ESTIMATORS, fit, name_of, needs_classes, new, reads_categories, takes_weights

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning"),
]
N = 72
#: Modes whose fits depend on the number of rows besides their weights, and why.
OTHER_MODES = {
    ("DPMeans", "polish"): "starts visit the rows in random orders, and moves are those of one row",
    ("DPMeans", "delayed"): "a sweep opens a cluster at one of several copies",
    ("DPMeans", "collapsed"): "a row of weight 2 moves at once",
    ("DPMeans", "full"): "a row of weight 2 opens a cluster at once",
    ("DPMeans", "full-sized"): "a row of weight 2 opens a cluster at once",
    ("ConvexCovariateClustering", "admm"): "rounding decides at which iteration a rule of stopping is met",
    ("ConvexCovariateClustering", "paper"): "rounding decides at which iteration a rule of stopping is met",
    ("PaperCRAFT", "paper-fixed"): "a copy may open a cluster of its own, whose features are drawn anew",
}
#: Modes of the fast tests.
FAST = [
    ("CRAFT", "full"),
    ("DPMeans", ""),
    ("KPrototypes", ""),
    ("PaperCRAFT", "priced"),
    ("ConvexCovariateClustering", ""),
    ("FeatureSelectionMixture", "counts"),
]
MODES = [
    (name, mode)
    for name in filter(takes_weights, ESTIMATORS)
    for mode in ESTIMATORS[name].modes
    if (name, mode) not in OTHER_MODES
]
#: Estimators whose rows open clusters, are drawn, or go into folds one by one: two halves are not one row.
BY_ROW = {
    *("ConvexCovariateClustering", "DPMeans", "KModes", "KPrototypes"),
    # at a fixed price half a row saves half as much by a cluster of its own
    *(("PaperCRAFT", mode) for mode in ("", "fixed", "free", "global", "sharing", "threshold")),
}
#: Methods that answer for random rows, for positions of rows, or with another fit.
LEFT_OUT = {
    "sample",
    "null_test",
    "stability",
    "representatives",
    "outliers",
    "refit",
    "partial_fit",
    "mask_path",
}
NUMBERS_OF = {"n_clusters": 2, "n": 2}
#: Numbers in single precision, and others.
_SINGLE, _DOUBLE = 2e-6, 5e-8


def rows(model: Any, seed: int) -> tuple[pd.DataFrame, Any, Any]:
    """A table with gaps where the model takes them, whole weights, some of them 0, and a start partition."""
    rng, name = np.random.default_rng(seed), type(model).__name__
    group = np.r_[0, 1, 2, rng.choice(3, N - 3, p=[0.2, 0.5, 0.3])]
    weight = np.r_[rng.integers(1, 4, N - 12), np.zeros(12, int)]  # last: numbers of clusters follow all rows
    codes = np.where(rng.random((2, N)) < 0.85, group, rng.integers(0, 3, (2, N)))
    texts = {f"c{j}": np.array(list("uvw"))[each] for j, each in enumerate(codes)}
    means = [rng.permutation(3)[group] for _ in range(3)]
    numbers = {f"x{j}": (rng.normal(size=N) + 4.0 * mean).round(2) for j, mean in enumerate(means)}
    if getattr(model, "component", "") == "poisson":
        numbers = {column: np.abs(x).round() for column, x in numbers.items()}
    content = texts if name == "KModes" else numbers | texts if reads_categories(name) else numbers
    table = pd.DataFrame(content)
    if model.__sklearn_tags__().input_tags.allow_nan and getattr(model, "covariance", "") != "full":
        for column in table:
            table.loc[(rng.random(N) < 0.15) & (np.arange(N) > 2), column] = None
    return table, weight, group % (getattr(model, "n_clusters", None) or 3)


def started(model: Any, group: Any) -> Any:
    """A copy that starts from a partition; starts of others are drawn by weight."""
    start = np.eye(3)[group] * 0.7 + 0.1 if type(model).__name__ == "FeatureSelectionMixture" else group
    drawn = type(model).__name__ in ("KModes", "KPrototypes") or "init" not in model.get_params()
    given = (
        {"cluster_price": 2.0} if "cluster_price" in model.get_params() else {}
    )  # not from a row drawn by number
    return clone(model).set_params(**({} if drawn else {"init": start} | given))


def statistics(model: Any, table: pd.DataFrame, weight: Any, counted: Any) -> Iterator[tuple[str, Any]]:
    """All that a fitted model says by attributes and methods; of rows, the counted ones."""

    def of_counted(value: Any) -> Any:
        if isinstance(value, BaseEstimator):
            return value.summary()
        if type(value).__name__ == "MergePath":
            return [(step.n_clusters, step.objective, step.labels[counted]) for step in value]
        if isinstance(value, pd.DataFrame) and "gap" in value:  # rounding decides how far below tol it is
            value = value.assign(gap=value["gap"] <= model.tol)
        if "gap" in getattr(value, "_fields", ()):
            return value._replace(gap=value.gap <= model.tol)
        if isinstance(value, pd.DataFrame) and "labels" in value and not needs_classes(name_of(model)):
            # a path, with labels of all rows
            return value.assign(labels=[labels[counted] for labels in value["labels"]])
        if isinstance(value, np.ndarray | pd.DataFrame) and len(value) == len(table):
            return (
                value[counted]
                if isinstance(value, np.ndarray)
                else value.iloc[counted].reset_index(drop=True)
            )
        return value

    public = {name for name in {*dir(model), *vars(model)} if not name.startswith("_")}
    for name in sorted(public):
        if name.endswith("_"):
            if not hasattr(model, name):
                continue  # for other parameters
            value = getattr(model, name)
            yield name, value <= model.tol if name == "duality_gap_" else of_counted(value)
            continue
        method = getattr(model, name, None)
        if name.startswith(("fit", "set_", "get_")) or not inspect.ismethod(method) or name in LEFT_OUT:
            continue
        parameters = inspect.signature(method).parameters.values()
        given = NUMBERS_OF | {"X": table} | ({} if weight is None else {"sample_weight": weight})
        arguments = {p.name: given[p.name] for p in parameters if p.name in given}
        if all(p.name in given or p.default is not p.empty or p.kind == p.VAR_KEYWORD for p in parameters):
            try:
                yield f"{name}()", of_counted(method(**arguments))
            except AttributeError as error:  # a model without densities
                yield f"{name}()", str(error)


def difference(a: Any, b: Any) -> str:
    """How two values differ beyond rounding; nothing if they do not."""
    if isinstance(a, pd.DataFrame):
        a, b = a.to_dict("list"), b.to_dict("list")
    if not isinstance(a, dict | list | tuple | str | bool | np.ndarray | float | int | np.generic | None):
        a, b = getattr(a, "__dict__", type(a).__name__), getattr(b, "__dict__", type(b).__name__)
    if isinstance(a, dict):
        parts = (
            [(key, a[key], b.get(key)) for key in a] if isinstance(b, dict) and a.keys() == b.keys() else None
        )
    elif isinstance(a, list | tuple):
        parts = [*zip(range(len(a)), a, b, strict=True)] if len(a) == len(b) else None
    elif isinstance(a, str | bool | None):
        return "" if a == b else f"{a!r} and {b!r}"
    else:
        return _of_arrays(np.asarray(a), np.asarray(b))
    if parts is None:
        return f"{len(a)} and {len(b)} entries"
    return next((f"[{key}] {found}" for key, x, y in parts if (found := difference(x, y))), "")


def _of_arrays(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    if a.dtype.kind not in "fiub":
        return "" if a.tolist() == b.tolist() else f"{a.tolist()} and {b.tolist()}"
    tolerance = _SINGLE if np.float32 in (a.dtype, b.dtype) else _DOUBLE
    size = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    close = np.isclose(a, b, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    return "" if close.all() else f"{a[~close].ravel()[:3]} and {b[~close].ravel()[:3]}"


def assert_equal(name: str, mode: str, seed: int, halves: bool) -> None:
    """Fits of weighted and of repeated rows say the same; `halves`: of rows, and of two of weight 1/2."""
    model = new(name, **ESTIMATORS[name].modes[mode])
    table, weight, group = rows(model, seed)
    if halves:
        weight = np.full(N, 2)
    at, counted = np.repeat(np.arange(N), weight), np.flatnonzero(weight)
    classes = {"y": group % 2} if needs_classes(name) else {}
    fewer = fit(started(model, group), table, sample_weight=None if halves else weight, **classes)
    repeated_table, half = table.iloc[at].reset_index(drop=True), np.full(len(at), 0.5) if halves else None
    classes = {"y": group[at] % 2} if needs_classes(name) else {}
    more = fit(started(model, group[at]), repeated_table, sample_weight=half, **classes)
    last = np.cumsum(weight)[counted] - 1
    left_out = {"profile()"} if halves else set()  # variances of a survey count the rows
    if (
        name == "ConvexCovariateClustering"
    ):  # sums in another order: its solver may stop a few iterations later
        left_out.add("n_iter_")
    own = dict(statistics(fewer, table, None if halves else weight, counted))
    other = dict(statistics(more, repeated_table, half, last))
    assert own.keys() == other.keys()
    assert len(own) > 9
    wrong = {key: found for key in own if (found := difference(own[key], other[key]))}
    assert not wrong.keys() - left_out, wrong


@pytest.mark.parametrize(("name", "mode"), FAST)
def test_every_statistic(name, mode):
    assert_equal(name, mode, 0, halves=False)


@pytest.mark.parametrize(("name", "mode"), [each for each in FAST if BY_ROW.isdisjoint((each[0], each))])
def test_every_statistic_of_halves(name, mode):
    assert_equal(name, mode, 0, halves=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("name", "mode"), MODES)
def test_every_statistic_of_further_tables(name, mode, seed):
    assert_equal(name, mode, seed, halves=False)
    if BY_ROW.isdisjoint((name, (name, mode))):
        assert_equal(name, mode, seed, halves=True)


@pytest.mark.parametrize("scale", ["price", "radius"])
def test_penalty_path(scale):
    table, weight, _ = rows(DPMeans(), 0)
    table.iloc[5], weight[5] = 1000.0, 0  # counts for nothing, however far away
    at = np.repeat(np.arange(N), weight)
    weighted = DPMeans().penalty_path(table, 10, sample_weight=weight, scale=scale)
    distinct = weight if scale == "price" else np.minimum(weight, 1)
    repeated = DPMeans().penalty_path(table.iloc[np.repeat(np.arange(N), distinct)], 10, scale=scale)
    if scale == "price":
        np.testing.assert_allclose(weighted, repeated, rtol=1e-9)
    mean = table.iloc[at].mean()
    first = ((table[weight > 0] - mean) ** 2).sum(axis=1).max()
    if scale == "radius":
        assert weighted[0] == pytest.approx(first)
        assert weighted.max() < 1000.0


def test_stability_refits_with_the_weights():
    """Few heavy rows are a cluster; as many light ones are not."""
    rng = np.random.default_rng(0)
    group = np.arange(120) < 3
    table = rng.normal(size=(120, 3)).round(2) + 2.5 * group[:, None]
    weight = np.where(group, 40.0, 1.0)
    model = CRAFT(random_state=0, n_init=1).fit(table, sample_weight=weight)
    found = model.stability(table, n=3, n_seeds=0, sample_weight=weight)
    light = CRAFT(random_state=0, n_init=1).fit(table)
    assert light.n_clusters_ == 1 < min(model.n_clusters_, found.n_clusters.min())
    assert found.mean.min() > 0.5
