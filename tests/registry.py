"""Every public estimator, once: what tests of all estimators need and cannot read off the class.

To add an estimator, add its entry to `ESTIMATORS`. The class itself says whether it reads categories, takes
weights or needs classes, and what its whole-number parameters and methods are.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

import craftc
from craftc._common.validation import Choice, Constraint, Number
from craftc.craft.parameters import NumberOfClusters

Parameters = dict[str, Any]


class Estimator(NamedTuple):
    """What the tests use one estimator for."""

    share: float  # of the fuzz cases
    short: dict[str, tuple[Any, ...]]  # for fits of a few rows: the value of `new`, and others for the fuzz
    contract: tuple[Parameters, ...]  # checked by scikit-learn's check_estimator
    modes: dict[str, Parameters]  # parameters, besides the short ones, that run code of their own


ESTIMATORS = {
    "BPMeans": Estimator(
        0.08,
        {"feature_penalty": (10.0, 1.0, 0.1), "max_features": (6,), "n_init": (1,)},
        (
            {},
            {"feature_penalty": 1.0, "collapsed": True},
            {"feature_penalty": 5.0, "init": "kfeatures", "n_init": 2},
        ),
        {
            "": {"feature_penalty": "auto", "max_features": None, "n_init": 2},
            "exact": {"feature_penalty": 2.0, "assignment": "exact", "n_init": 2},
            "collapsed": {"feature_penalty": 2.0, "collapsed": True, "n_init": 2},
        },
    ),
    "CRAFT": Estimator(
        0.13,
        {"n_init": (1, 2)},
        (
            {"n_init": 2},
            {"covariance": "diagonal", "n_init": 2},
            {"missing": "error", "n_init": 2},
        ),
        {
            "": {"n_init": 2},
            "diagonal": {"covariance": "diagonal", "n_init": 2},
            "full": {"covariance": "full", "n_init": 2},
            "tied": {"covariance": "tied", "n_init": 2},
            "sizes": {"max_cluster_size": 0.7, "n_init": 2},
        },
    ),
    "ConvexClustering": Estimator(
        0.07,
        {"fusion_penalty": (0.1, 0.01, 1.0, 10.0), "max_iter": (300,)},
        (
            {},
            {"n_clusters": 3},
            {"fusion_penalty": 0.1, "solver": "admm"},
        ),
        {
            "": {"fusion_penalty": None, "n_clusters": 1},
            "admm": {"solver": "admm"},
        },
    ),
    "ConvexCovariateClustering": Estimator(
        0.07,
        {"fusion_penalty": (1.0, 0.1, 10.0, 100.0), "max_iter": (300,)},
        ({}, {"fusion_penalty": 1.0, "sparsity": 1.0}, {"fusion_penalty": 1.0, "solver": "admm"}),
        {
            "": {},
            "path": {"fusion_penalty": None},
            "sparse": {"sparsity": 0.5},
            "admm": {"solver": "admm", "max_iter": 200},
            "paper": {"solver": "paper", "max_iter": 50},
        },
    ),
    "DPMeans": Estimator(
        0.16,
        {},
        (
            {},
            {"mode": "delayed", "n_init": 2},
            {"mode": "collapsed", "polish": True},
            {"covariance": "full-sized"},
        ),
        {
            "": {},
            "polish": {"cluster_penalty": 5.0, "polish": True, "n_init": 3},
            "delayed": {"cluster_penalty": 5.0, "mode": "delayed"},
            "collapsed": {"cluster_penalty": 5.0, "mode": "collapsed"},
            "full": {"cluster_penalty": 5.0, "covariance": "full", "covariance_prior": 1.0},
            "full-sized": {"cluster_penalty": 5.0, "covariance": "full-sized", "covariance_prior": 1.0},
        },
    ),
    "FeatureSelectionMixture": Estimator(
        0.1,
        {"n_components": (3, 1, 2, 4, 5), "n_init": (1,), "max_iter": (50,)},
        (  # not component="poisson" or "bernoulli": the checks' tables hold fractions, which they refuse
            {"n_components": 5},
            {"n_components": 3, "selection": "shared", "noise": "feature", "learn_fraction": True},
            {"n_components": 4, "learn_fraction": "component", "fraction_prior": (0.5, 0.5)},
            {"n_components": 3, "covariance": "full"},
        ),
        {
            "": {"n_components": 4, "n_init": 2},
            "global": {"n_components": 4, "selection": "global"},
            "shared": {"n_components": 4, "selection": "shared", "noise": "feature"},
            "learnt": {"n_components": 4, "learn_fraction": True, "merge": False},
            "counts": {"n_components": 4, "component": "poisson"},
            "full": {"covariance": "full"},
        },
    ),
    "GraphSpectralFeatures": Estimator(
        0.1,
        {"grid_size": (8,), "max_iter": (100,)},
        (
            {},
            {"conditionals": "dense", "missing": "category"},
            {"l1": 0.05, "factorization": "svd"},
            {"n_components": 2, "groups": "logistic", "missing": "error"},
        ),
        {
            "": {"n_components": 2, "grid_size": 32},
            "dense": {"n_components": 2, "conditionals": "dense"},
            "logistic": {"n_components": 2, "groups": "logistic", "unary": False},
            "free": {"n_components": 2, "unary": "free"},
            "sparse": {"n_components": 2, "l1": 0.05},
            "svd": {"n_components": 2, "factorization": "svd"},
        },
    ),
    "KFeatures": Estimator(
        0.08,
        {"n_features": (2, 1, 3, 4), "n_init": (1,)},
        ({}, {"n_features": 3}),
        {
            "": {"n_features": None, "n_init": 2},
            "exact": {"n_features": 3, "assignment": "exact", "n_init": 2},
            "reseed": {"n_features": 3, "empty": "reseed", "assignment": "sweep", "n_init": 2},
        },
    ),
    "KModes": Estimator(
        0.06,
        {"n_clusters": (3, 1, 2, 4, 5), "n_init": (2,)},
        ({}, {"n_clusters": 3, "update": "batch", "missing": "error"}),
        {"": {}, "Huang": {"init": "Huang"}},
    ),
    "KPrototypes": Estimator(
        0.08,
        {"n_clusters": (3, 1, 2, 4, 5), "n_init": (2,)},
        (
            {"n_init": 2},
            {"n_clusters": 3, "update": "batch", "init": "Cao", "n_init": 2},
            {"missing": "error", "n_init": 2},
        ),
        {
            "": {},
            "batch": {"update": "batch"},
            "Cao, Ng": {"init": "Cao", "cat_dissim": "ng"},
            "labels": {"init": "random", "cat_dissim": "jaccard-label"},
        },
    ),
    "PaperCRAFT": Estimator(
        0.07,
        {"n_init": (1, 2), "model": ("likelihood", "paper", "paper-relative", "paper-fixed")},
        (
            {"n_clusters": 3, "cluster_price": 0.0, "model": "likelihood", "n_init": 2},
            {"cluster_price": 9.0, "model": "likelihood", "selection": "priced", "n_init": 2},
        ),
        {
            "": {"cluster_price": 2.0, "n_init": 2, "max_clusters": 6},
            "fixed": {"n_clusters": 2, "model": "likelihood", "cluster_price": 2.0, "n_init": 2},
            "free": {
                "n_clusters": 2,
                "model": "likelihood",
                "selection": "free",
                "cluster_price": 2.0,
                "n_init": 2,
            },
            "global": {"model": "likelihood", "feature_sharing": 1.0, "n_init": 2, "max_clusters": 6},
            "sharing": {"model": "likelihood", "feature_sharing": 0.4, "n_init": 2, "max_clusters": 6},
            "threshold": {"model": "likelihood", "selection": "threshold", "n_init": 2, "max_clusters": 6},
            "priced": {"model": "likelihood", "selection": "priced", "numeric": "auto", "n_init": 2},
            "paper-fixed": {"model": "paper-fixed", "cluster_price": 2.0, "n_init": 2, "max_clusters": 6},
        },
    ),
}


def public_estimators() -> list[str]:
    """Names of the estimators that craftc exports."""
    named = {name: getattr(craftc, name) for name in craftc.__all__}
    return sorted(
        name for name, each in named.items() if isinstance(each, type) and issubclass(each, BaseEstimator)
    )


def new(name: str, **parameters: Any) -> Any:
    """An unfitted estimator whose fits of a few rows are short, with a seed if it takes one."""
    cls = getattr(craftc, name)
    short = {parameter: values[0] for parameter, values in ESTIMATORS[name].short.items()}
    seed = {"random_state": 0} if takes_seed(name) else {}
    return cls(**(seed | short | parameters))


def modes() -> dict[str, Any]:
    """An unfitted estimator of every mode, by "Name" or "Name, mode"."""
    return {
        f"{name}, {mode}" if mode else name: new(name, **parameters)
        for name, entry in ESTIMATORS.items()
        for mode, parameters in entry.modes.items()
    }


def name_of(model: Any) -> str:
    """The name of the estimator."""
    return type(model).__name__


def fit(model: Any, X: Any, **keywords: Any) -> Any:
    """The fitted model; one that needs classes gets two of them, in turn."""
    if needs_classes(name_of(model)) and "y" not in keywords:
        keywords["y"] = np.arange(len(X)) % 2
    return model.fit(X, **keywords)


def suited(model: Any, X: Any) -> Any:
    """Rows of numbers as the model can read them: whole numbers for k-modes, counts for Poisson columns."""
    if name_of(model) == "KModes":
        return np.floor(X)
    return np.floor(np.abs(X)) if getattr(model, "component", "") == "poisson" else X


def takes_seed(name: str) -> bool:
    """Whether the estimator has a parameter random_state."""
    return "random_state" in inspect.signature(getattr(craftc, name)).parameters


def takes_weights(name: str) -> bool:
    """Whether `fit` takes sample_weight."""
    return "sample_weight" in inspect.signature(getattr(craftc, name).fit).parameters


def needs_classes(name: str) -> bool:
    """Whether `fit` needs y."""
    return bool(getattr(craftc, name)().__sklearn_tags__().target_tags.required)


def reads_categories(name: str) -> bool:
    """Whether tables may have categorical columns."""
    return bool(getattr(craftc, name)().__sklearn_tags__().input_tags.categorical)


def constraints(name: str) -> dict[str, Constraint]:
    """The constraint of every parameter that has one in the table of the class."""
    return dict(getattr(craftc, name)._constraints)


def counts(name: str) -> list[str]:
    """Parameters that are whole numbers, or may be."""

    def whole(constraint: Constraint | None) -> bool:
        if isinstance(constraint, Choice):
            return whole(constraint.other)
        return isinstance(constraint, NumberOfClusters) or (
            isinstance(constraint, Number) and constraint.whole
        )

    own = [parameter for parameter, constraint in constraints(name).items() if whole(constraint)]
    return own + ["n_init"] * ("n_init" in inspect.signature(getattr(craftc, name)).parameters)


#: Arguments of methods that would be long with others.
SHORT_ARGUMENTS: dict[str, Parameters] = {
    "mask_path": {"feature_sharing": (0.0, 1.0)},
    "null_test": {"n": 1},
    "stability": {"n": 1, "n_seeds": 1},
}
#: Kinds of arguments of methods by the name of the parameter: X a table, k a number of clusters or rows.
_KINDS = {"X": "X", "n": "k", "n_clusters": "k", "n_samples": "k", "top": "k"}


def methods(name: str) -> dict[str, str]:
    """Methods of a fitted model, and the kinds of their arguments; Z is a result of transform.

    The arguments are the table, the numbers and those without a default. Methods that need others are left
    out.
    """
    cls = getattr(craftc, name)
    found = {}
    for method in dir(cls):
        if method.startswith(("_", "fit", "set_", "get_params", "get_metadata")):
            continue
        if not callable(getattr(cls, method)):
            continue
        given = [
            each
            for i, each in enumerate(list(inspect.signature(getattr(cls, method)).parameters.values())[1:])
            if each.default is each.empty or (i == 0 and each.name == "X") or _KINDS.get(each.name) == "k"
            if each.name not in SHORT_ARGUMENTS.get(method, {})
        ]
        if all(each.name in _KINDS for each in given):
            kinds = "".join(_KINDS[each.name] for each in given)
            found[method] = "Z" if method == "inverse_transform" else kinds
    return found | {"_repr_html_": ""}
