"""Every estimator with random tables, parameters, weights and methods."""

from __future__ import annotations

import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

import craftc
from craftc._common import threads
from tests.fuzz import parameters, tables
from tests.fuzz.invariants import (
    check_finite,
    check_fitted,
    check_labels,
    check_said,
    copied,
    difference,
    is_not_defined,
    marks_outliers,
    numbers_of,
)
from tests.fuzz.problems import Outcome, Problems
from tests.registry import (
    ESTIMATORS,
    SHORT_ARGUMENTS,
    fit,
    methods,
    name_of,
    needs_classes,
    new,
    reads_categories,
    takes_weights,
)

AREA = "estimators"
SHARE = 6.0

NAMES = list(ESTIMATORS)
WEIGHTED = frozenset(filter(takes_weights, NAMES))
MIXED = frozenset(filter(reads_categories, NAMES))
METHODS = {name: methods(name) for name in NAMES}
_BITS = (
    "predict",
    "predict_proba",
    "score_samples",
    "transform",
    "decision_function",
)  # results compared to the last bit
#: Results that may be: with one cluster, of missing cells, of clusters that are in no part of the rows.
_NOT_FINITE = {"margins": "inf", "surprisal": "nan", "stability": "nan"}
#: Keywords of fit that are drawn.
KEYWORDS = ("y", "sample_weight", "groups", "fixed", "categorical")
_COUNTS = (
    1,
    2,
    3,
    5,
    0,
    -1,
    10**6,
    10**30,
    1.5,
    "auto",
    "x",
    None,
    True,
    float("nan"),
    np.int64(2),
    [1],
)


def prepare() -> dict[str, Any]:
    """A fitted model of every estimator; imports what the children use, so that each need not."""
    import polars
    import pyarrow

    assert polars.__name__
    assert pyarrow.__name__
    rows = np.random.default_rng(0).normal(size=(12, 2))
    models = {}
    for name in NAMES:
        models[name] = fit(new(name, n_threads=1), rows)
        with io.BytesIO() as file:
            pickle.dump(models[name], file)
    for module in ("model_file", "plot", "report"):
        getattr(craftc, module, None)
    return models


def case(seed: int, state: Any, folder: Path) -> Problems:
    """One estimator: fit it, check the result, call methods."""
    rng = np.random.default_rng([seed, 1])
    np.random.seed(seed % 2**32)  # noqa: NPY002 for random_state=None
    found = Problems()
    shares = np.array([each.share for each in ESTIMATORS.values()])
    name = str(rng.choice(NAMES, p=shares / shares.sum()))
    table = tables.table(rng, mixed=0.5 if name in MIXED else 0.06)
    if name == "GraphSpectralFeatures" and _shape(table.value)[1] < 2:  # has no graph
        table = tables.table(rng, mixed=0.5)
    n, d = _shape(table.value)
    chosen = parameters.draw(rng, name, n, d)
    keywords = _keywords(rng, name, table)
    with np.printoptions(threshold=10):
        given = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
        print(f"{name}({given})\n{keywords!r}\n{table.name}: {table.value!r}"[:1500])
    with redirect_stdout(io.StringIO()), _small_work(0 if rng.random() < 0.1 else threads.SMALL_WORK):
        model = getattr(craftc, name)(**chosen)
        before = None if _is_iterator(table.value) else copied((table.value, keywords))
        outcome = found.attempt(
            f"{name}.fit", model.fit, table.value, clear=_of_the_caller(chosen), **keywords
        )
        changed = None if before is None else difference((table.value, keywords), before, "input")
        found.check(changed is None, f"{name}.fit changes its input", str(changed))
        if outcome.done:
            check_said(found, model, outcome.said, numbers_of(table.value) is not None)
            _after_fit(found, rng, model, table, keywords, folder)
        else:
            _refused_after_fit(found, copied(state[name]), chosen, table, keywords)
    return found


@contextmanager
def _small_work(most: int) -> Iterator[None]:
    """Use threads for more than this number of cell visits; all tables here are small."""
    before = threads.SMALL_WORK
    threads.SMALL_WORK = most
    try:
        yield
    finally:
        threads.SMALL_WORK = before


def _keywords(rng: np.random.Generator, name: str, table: tables.Table) -> dict[str, Any]:
    """Weights, groups, fixed clusters or classes for fit."""
    n, d = _shape(table.value)
    taken = inspect.signature(getattr(craftc, name).fit).parameters
    keywords: dict[str, Any] = {"y": _classes(rng, n)} if needs_classes(name) else {}
    if takes_weights(name):
        if rng.random() < 0.35:
            keywords["sample_weight"] = tables.weights(rng, n).value
        if "groups" in taken and rng.random() < 0.08:
            keywords["groups"] = tables.groups(rng, n).value
        if "fixed" in taken and rng.random() < 0.08:
            keywords["fixed"] = _fixed(rng, name, table)
        if "categorical" in taken and rng.random() < 0.08:
            choices = parameters.values(rng, name, max(n, 1), max(d, 1))["categorical"]
            keywords["categorical"] = choices[rng.integers(len(choices))]
    return keywords


def _classes(rng: np.random.Generator, n: int) -> Any:
    """Classes of n rows; at times what is none."""
    y: Any = rng.integers(0, rng.integers(2, 4), n)
    kind = rng.integers(20)
    if kind == 0:
        y = np.zeros(n)
    elif kind == 1:
        y = y + 0.5
    elif kind == 2:
        y = y[:-1]
    elif kind == 3:
        y = None
    elif kind < 8:
        y = np.array(["no", "yes", "maybe"], dtype=object)[y]
    return y


def _fixed(rng: np.random.Generator, name: str, table: tables.Table) -> Any:
    """Clusters of another model of the table, or of another table; or what is none."""
    former = new(name, n_clusters=int(rng.integers(1, 4)), n_threads=1)
    kind = rng.integers(10)
    if kind < 8 and not _is_iterator(table.value):
        rows = rng.normal(size=(12, 2)) if kind == 0 else table.value
        with Problems().watching("fit"), suppress(ValueError, TypeError):
            former.fit(rows)
    choices = [[], [0], [0, 0], [5], ["x"], [-1], 0, [0.5]]
    return (former, choices[rng.integers(len(choices))]) if kind in (1, 2, 9) else former


def _after_fit(
    found: Problems,
    rng: np.random.Generator,
    model: Any,
    table: tables.Table,
    keywords: dict[str, Any],
    folder: Path,
) -> None:
    name = name_of(model)
    X = table.value
    check_fitted(found, model, X, **keywords)
    checks: list[Callable[[], None]] = [
        lambda: _refit(found, model, X, keywords),
        lambda: _stored(found, model, X, folder),
        lambda: _refused(found, rng, model, X, keywords),
        lambda: _repeated(found, rng, model, X),
    ]
    checks[rng.choice(4, p=[0.3, 0.4, 0.2, 0.1])]()
    methods = list(METHODS[name])
    for method in rng.choice(methods, min(3, len(methods)), replace=False):
        _call(found, rng, model, str(method), table)


def _call(found: Problems, rng: np.random.Generator, model: Any, method: str, table: tables.Table) -> None:
    """Call a method of a fitted model with random arguments."""
    name, what = name_of(model), f"{name_of(model)}.{method}"
    new = tables.another(rng, table)
    arguments: list[Any] = []
    for kind in METHODS[name][method]:
        if kind == "X":
            arguments.append(new.value)
        elif kind == "k":
            arguments.append(_COUNTS[rng.integers(len(_COUNTS))])
        elif kind == "Z":
            arguments.append(_codes(rng, model))
    if method == "sample" and arguments[0] in (10**6, 10**30):
        arguments[0] = 7  # any number of rows may be drawn
    call = getattr(model, method, None)
    if call is None:
        return  # not defined for these parameters
    outcome = found.attempt(what, call, *arguments, clear=is_not_defined, **SHORT_ARGUMENTS.get(method, {}))
    if not outcome.done:
        return
    value = outcome.value
    if method == "at":
        check_labels(found, f"{what}.labels_", value.labels_, value.n_clusters_, marks=marks_outliers(value))
        found.attempt(f"{what}.predict", value.predict, table.value)
    else:
        of_numbers = all(numbers_of(each.value) is not None for each in (table, new))
        if method == "_repr_html_":
            value = value.partition('<div id="sk-')[0]  # scikit-learn lists attributes
        check_finite(found, what, value, _NOT_FINITE.get(method, ""), words=of_numbers)
    if method == "predict_proba":
        found.check(
            (np.asarray(value) >= 0).all() and np.allclose(np.sum(value, axis=1), 1.0, atol=1e-9),
            what,
            "do not sum to 1",
        )
    if method == "predict" and name in WEIGHTED and not needs_classes(name):
        found.check(
            not len(value) or (np.min(value) >= -1 and np.max(value) < model.n_clusters_),
            what,
            "no such cluster",
        )
    if method == "cut":
        check_labels(found, what, value, int(np.max(value)) + 1 if len(value) else 0)


def _of_the_caller(chosen: dict[str, Any]) -> Callable[[Exception], bool]:
    """Whether an error may be that of a function among the parameters, which raises what it likes."""
    called = any(callable(value) for value in chosen.values())
    return lambda error: called


def _codes(rng: np.random.Generator, model: Any) -> Any:
    """An argument of inverse_transform: of the right width as a rule."""
    width = int(getattr(model, "n_features_", 0) or len(getattr(model, "components_", [0])))
    Z = tables.numbers(rng, int(rng.integers(0, 6)), max(0, width + int(rng.choice([0, 0, 0, 0, 1, -1]))))
    return tables.container(rng, Z, "codes").value if rng.random() < 0.3 else Z


def _results(found: Problems, model: Any, X: Any, what: str) -> list[Outcome]:
    """Results of all methods that must agree to the last bit."""
    return [
        found.attempt(f"{what}.{each}", getattr(model, each), X) for each in _BITS if hasattr(model, each)
    ]


def _same_results(found: Problems, a: list[Outcome], b: list[Outcome], what: str) -> None:
    for x, y in zip(a, b, strict=True):
        if found.check(x.done == y.done, what, f"one is refused: {x.error or y.error}") and x.done:
            different = difference(x.value, y.value)
            found.check(different is None, what, str(different))


def _refit(found: Problems, model: Any, X: Any, keywords: dict[str, Any]) -> None:
    """The same parameters, other threads: the same bits."""
    name = name_of(model)
    seed = getattr(model, "random_state", 0)
    if seed is None or isinstance(seed, np.random.RandomState | np.random.Generator) or _is_iterator(X):
        return  # the first fit has drawn from it
    again = sklearn.clone(model).set_params(n_threads=3)
    with _small_work(0):
        outcome = found.attempt(f"{name}.fit again", again.fit, X, **keywords)
    if found.check(outcome.done, f"{name}.fit again", "is refused"):
        _same_state(found, f"{name}.fit with other threads", again, model)


def _same_state(found: Problems, what: str, a: Any, b: Any) -> None:
    """Compare the fitted attributes of two models."""
    first, second = ({k: v for k, v in vars(each).items() if k.endswith("_")} for each in (a, b))
    different = difference(first, second)
    found.check(different is None, what, str(different))


def _stored(found: Problems, model: Any, X: Any, folder: Path) -> None:
    """A pickle and a model file give the same bits."""
    name = name_of(model)
    if _is_iterator(X):
        return
    expected = _results(found, model, X, name)
    if not any(callable(value) or isinstance(value, type) for value in model.get_params(deep=False).values()):
        outcome = found.attempt(f"{name}: pickle", lambda: pickle.loads(pickle.dumps(model)))
        if outcome.done:
            _same_state(found, f"{name}: pickle", outcome.value, model)
            _same_results(found, _results(found, outcome.value, X, name), expected, f"{name}: pickle")
    path = folder / "model.craftc"
    if not found.attempt(f"{name}: save_model", craftc.save_model, model, path).done:
        found.check(False, f"{name}: save_model", "is refused")
        return
    outcome = found.attempt(f"{name}: load_model", craftc.load_model, path)
    if found.check(outcome.done, f"{name}: load_model", f"is refused: {outcome.error}"):
        _same_results(found, _results(found, outcome.value, X, name), expected, f"{name}: load_model")


def _refused(found: Problems, rng: np.random.Generator, model: Any, X: Any, keywords: dict[str, Any]) -> None:
    """A fit that is refused leaves the fitted model as it was."""
    name = name_of(model)
    n, d = _shape(X)
    old = model.get_params(deep=False)
    bad = X
    kind = rng.integers(4)
    if kind == 0 and name in WEIGHTED:
        keywords = keywords | {"sample_weight": -np.ones(n)}
    elif kind == 1:
        bad = tables.not_a_table(rng, n, d).value
    elif kind == 2:
        bad = np.full((max(n, 1), d + 1), np.inf)
        keywords = keywords | ({"y": np.arange(len(bad)) % 2} if "y" in keywords else {})
    else:
        model.set_params(**parameters.draw(rng, name, n, d) | {"n_threads": 0})
    before = copied(vars(model))
    outcome = found.attempt(f"{name}.fit", model.fit, bad, **keywords)
    if outcome.done:
        check_fitted(found, model, bad, **keywords)
        return
    different = difference(vars(model), before)
    found.check(different is None, f"{name}.fit, refused, changes the model", str(different))
    model.set_params(**old)
    if not _is_iterator(X):
        for each in _BITS:
            if hasattr(model, each):
                outcome = found.attempt(f"{name}.{each}", getattr(model, each), X)
                found.check(outcome.done, f"{name}.{each} after a refused fit", "is refused")
                break


def _refused_after_fit(
    found: Problems, model: Any, chosen: dict[str, Any], table: tables.Table, keywords: dict[str, Any]
) -> None:
    """What was refused by a new estimator, by a fitted one."""
    name = name_of(model)
    model.set_params(**chosen)
    before = copied(vars(model))
    if found.attempt(f"{name}.fit", model.fit, table.value, clear=_of_the_caller(chosen), **keywords).done:
        found.check(
            _is_iterator(table.value), f"{name}.fit", "is refused by a new estimator, but not by a fitted one"
        )
        return
    different = difference(vars(model), before)
    found.check(different is None, f"{name}.fit, refused, changes the model", str(different))


def _repeated(found: Problems, rng: np.random.Generator, model: Any, X: Any) -> None:
    """Weight 2 is the row twice, where that is promised."""
    name = name_of(model)
    rows = numbers_of(X)
    if rows is None or not isinstance(X, np.ndarray) or name not in ("CRAFT", "DPMeans"):
        return
    n = len(rows)
    start, weight = rng.integers(0, 3, n), rng.integers(1, 4, n)
    if name == "DPMeans":
        if (
            model.mode != "serial"
            or model.polish
            or not isinstance(model.covariance, str)
            or model.covariance != "spherical"
        ):
            return
        model = sklearn.clone(model).set_params(init="single", n_init=1)
        first, second = model, sklearn.clone(model)
        compared = ("labels_", "cluster_centers_", "cluster_sizes_")
    else:
        if name == "PaperCRAFT" and model.model != "likelihood" and isinstance(model.cluster_price, str):
            return  # this price starts from a row that is drawn by its number
        first, second = (
            sklearn.clone(model).set_params(init=start),
            sklearn.clone(model).set_params(init=np.repeat(start, weight)),
        )
        compared = ("labels_", "objective_", "cluster_sizes_", "feature_mask_", "feature_gains_")
    one = found.attempt(f"{name}.fit", first.fit, X, sample_weight=weight)
    two = found.attempt(f"{name}.fit", second.fit, np.repeat(X, weight, axis=0))
    if not one.done or not two.done:
        return
    for attribute in compared:
        a, b = getattr(first, attribute), getattr(second, attribute)
        different = difference(np.repeat(a, weight) if attribute == "labels_" else a, b, attribute)
        if not found.check(different is None, f"{name}: weight 2 is not the row twice", str(different)):
            return


def _shape(X: Any) -> tuple[int, int]:
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2:
        return int(shape[0]), int(shape[1])
    if isinstance(X, list) and X and isinstance(X[0], list):
        return len(X), len(X[0])
    return 5, 2


def _is_iterator(X: Any) -> bool:
    return hasattr(X, "__next__")
