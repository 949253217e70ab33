"""Seeded random parameters of every estimator: valid values, seldom used ones, and values that no parameter
may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import craftc
from craftc._common.validation import _COMMON, Choice, Constraint, Flag, Number, RandomState
from tests.registry import ESTIMATORS, constraints, takes_seed

_NONSENSE = (
    None,
    True,
    False,
    0,
    -1,
    -(10**30),
    10**30,
    2**31,
    2**63,
    1.5,
    -0.0,
    1e-320,
    1e300,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "auto",
    "nonsense",
    b"auto",
    (),
    [],
    {},
    (1, 2),
    [0.5, "a"],
    1j,
    np.float32(2),
    np.int64(3),
    np.bool_(True),
    np.array(1.0),
    np.array([]),
    np.array([1.0, np.nan]),
    np.array(["a", "b"]),
    object(),
    int,
    len,
)
#: Values of `random_state` and `n_threads`, which are not drawn for nonsense alone.
SEEDS = (
    0,
    1,
    7,
    2**31,
    2**32,
    2**63,
    2**64,
    10**30,
    -1,
    1.5,
    "a",
    None,
    np.int64(5),
    True,
    np.random.RandomState,
    np.random.default_rng,
)
THREADS = (
    None,
    1,
    2,
    -1,
    -100,
    3,
    0,
    2.0,
    2.5,
    "2",
    True,
    float("nan"),
    float("inf"),
    10**5,
    10**9,
    10**30,
    np.int64(2),
    [1],
)


#: Numbers from which those are drawn that the constraint of a parameter allows.
_WHOLE = (1, 2, 3, 5, 9, 20, 64, 1000, 10**6)
_REAL = (0.0, 1e-300, 1e-12, 1e-6, 0.01, 0.1, 0.24, 0.5, 1.0, 3.0, 10.0, 50.0, 1e6, 1e12, 1e300, -1.0)
#: In place of those where larger numbers would make a case long.
_SHORT = {
    "n_init": (1, 2, 3),
    "max_iter": (1, 2, 50),
    "verbose": (0, 2),
    "grid_size": (2, 8, 32),
    "n_components": (1, 2, 4, 8, 20, 100),
}


def draw(rng: np.random.Generator, name: str, n: int, d: int) -> dict[str, Any]:
    """Parameters of the estimator of this name for a table of n rows and d columns; one of them is nonsense
    at times.
    """
    chosen = {each: _one(rng, short) for each, short in ESTIMATORS[name].short.items()} | {"n_threads": 1}
    if takes_seed(name):
        chosen["random_state"] = int(rng.integers(5))
    possible = values(rng, name, max(n, 1), max(d, 1))
    for parameter, choices in possible.items():
        value = _one(rng, choices)
        if rng.random() < 0.15 and (rng.random() < 0.03 or _allowed(name, parameter, value)):
            chosen[parameter] = value
    kind = rng.random()
    if kind < 0.06 and takes_seed(name):
        seed = _one(rng, SEEDS)
        chosen["random_state"] = seed(3) if callable(seed) else seed
    elif kind < 0.12:
        chosen["n_threads"] = _one(rng, THREADS)
    elif kind < 0.2:
        chosen[_one(rng, list(possible))] = _one(rng, _NONSENSE)
    return chosen


def _one(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[rng.integers(len(choices))]


def _allowed(name: str, parameter: str, value: Any) -> bool:
    """Whether the table of constraints of the estimator allows a value."""
    constraint = constraints(name).get(parameter)
    try:
        if constraint is not None:
            constraint.check(parameter, value)
    except (TypeError, ValueError):
        return False
    return True


def values(rng: np.random.Generator, name: str, n: int, d: int) -> dict[str, list[Any]]:
    """Values of every parameter: what its constraint allows, and arrays that fit the table."""
    arrays = _arrays(rng, name, n, d)
    found = {
        parameter: [
            *_SHORT.get(parameter, ()),
            *([] if parameter in _SHORT else _of_constraint(parameter, constraint)),
            *arrays.get(parameter, ()),
        ]
        for parameter, constraint in {**constraints(name), **_COMMON}.items()
        if parameter in _parameters(name)
    }
    return found | {parameter: more for parameter, more in arrays.items() if parameter not in found}


@cache
def _parameters(name: str) -> frozenset[str]:
    """Names of the parameters of an estimator."""
    return frozenset(getattr(craftc, name)().get_params())


def _of_constraint(parameter: str, constraint: Constraint) -> list[Any]:
    """Values that a constraint allows."""
    choices = list(getattr(constraint, "options", ()))
    if isinstance(constraint, Choice) and constraint.other is not None:
        return choices + _of_constraint(parameter, constraint.other)
    if isinstance(constraint, Flag):
        return [False, True]
    if isinstance(constraint, RandomState):
        return [0, 3, 2**40]
    if isinstance(constraint, Number):
        bounds = [each for each in (constraint.least, constraint.most) if each is not None]
        for value in (*(_WHOLE if constraint.whole else _REAL), *bounds, None, float("inf")):
            try:
                constraint.check(parameter, int(value) if constraint.whole and value else value)
            except (TypeError, ValueError, OverflowError):
                continue
            choices.append(value)
    return choices


def _arrays(rng: np.random.Generator, name: str, n: int, d: int) -> dict[str, list[Any]]:
    """Values that no constraint names: starts, columns, matrices, functions, names of another package."""
    labels, modes = rng.integers(0, 3, n), np.zeros((2, d), int)
    responsibilities = rng.dirichlet(np.ones(2), n)
    size = 0  # a square matrix of many rows takes long, and few estimators read one
    if not _parameters(name).isdisjoint(("similarity", "weights")):
        size = d if name == "ConvexCovariateClustering" else n
    square = np.abs(rng.normal(size=(size, size)))
    square = square + square.T
    chosen = [
        rng.integers(0, 2, (n, 2)),
        rng.integers(0, 2, (n, 2)).astype(float),
        rng.integers(0, 3, (n, 2)),
    ]
    starts = {
        "BPMeans": ["greedy", "kfeatures", *chosen],
        "KFeatures": ["greedy", *chosen],
        "KModes": ["Huang", "Cao", "random", "cao", modes, modes + 7, [[0.0] * d] * 2],
        "KPrototypes": [
            "Huang",
            "Cao",
            "random",
            [rng.normal(size=(2, d)), np.empty((2, 0))],
            [modes, modes],
            modes,
        ],
        "FeatureSelectionMixture": [
            "kmeans",
            "random",
            responsibilities,
            responsibilities * 2,
            responsibilities[:-1],
        ],
    }
    labelled = ["auto", "single", "random-row", "random", "farthest", labels, labels[:-1], labels * 7]
    covariances = [np.eye(d), np.eye(d) * 1e-9, np.stack([np.eye(d)] * 2), np.ones((d, d))]
    arrays: dict[str, list[Any]] = {
        "init": starts.get(name, [*labelled, [labels, labels[::-1]]]),
        "n_clusters": [n, n + 5, *([(1, 3), (2, n), (n, n + 5), [3, 2]] if name == "CRAFT" else [])],
        "min_cluster_size": [1, 2, n // 3, 0.3, 1.0, n + 1],
        "max_cluster_size": [n, n // 2 + 1, 2, 0.6, 1.0, 1e300],
        "categorical": ["auto", [0], [d - 1], ["c0"], [True] + [False] * (d - 1), [True] * d, [], 0, [d]],
        "kinds": [
            *[None, {}, {0: "ordered"}, {"c0": "ordered"}, {0: "periodic"}, {"c0": ("periodic", 3.0)}],
            *[{0: ("periodic", 1e-300)}, {0: ("periodic", 1e300)}, {0: "ignore"}, {"c0": "category"}],
            *[{d - 1: "category", 0: "date"}, {"c0": ["a", "b", "c"]}, {0: [0, 1, 2]}, {d: "number"}],
        ],
        "column_weights": [
            *[None, {}, {0: 2.0}, {"c0": 0}, {0: 0.3, d - 1: 1e3}, {0: 1e-3}, dict.fromkeys(range(d), 0.0)],
            *[{d: 1.0}, {0: -1.0}, {0: 1e300}, {"c0": "2"}, [1.0] * d],
        ],
        "missing": ["ignore", "category", "error"],
        "n_jobs": [None, 1, 2, -1],
        "numeric_threshold": [0.0, 0.5, ("absolute", 1.0), ("absolute", 1e300), 2.0],
        "feature_variance": [0.01, 0.1, 0.24, 1e-9],
        "num_dissim": ["euclidean", "manhattan"],
        "learn_fraction": [False, True, "shared", "component"],
        "concentration_prior": [(1.0, 1.0), (1e-6, 1e6), (1e6, 1e-6), (0.0, 1.0), [2, 3]],
        "fraction_prior": [(1.0, 1.0), (0.1, 0.1), (1e-300, 1.0), (1e300, 1.0), [2, 3]],
        "fusion_penalty": [
            None,
            1.0,
            0.0,
            1e-300,
            1e300,
            [3.0, 2.0, 1.0],
            np.array([1.0, 0.1]),
            [1.0, 2.0],
            np.geomspace(100, 0.01, 8),
        ],
        "graph": [None, np.ones((d, d)), np.zeros((d, d)), np.full((d, d), -1e300), np.ones((d, d + 1))],
        "similarity": [
            None,
            "correlation",
            "knn",
            square,
            square * 1e300,
            np.zeros_like(square),
            -square,
            lambda X: np.ones((d, d)),
        ],
        "sparsity": [0.0, 0.5, 1e6, 2.0 ** -np.arange(5)],
        "weights": [
            "gaussian-knn",
            square,
            square * 1e300,
            np.zeros_like(square),
            square[:-1],
            lambda X: np.ones((len(X), len(X))),
        ],
        "unary": [False, True, "free"],
        "eps": [None, 0.01, 1.0],
        "sign": [-1, 1],
    }
    if name == "DPMeans":
        arrays["covariance"] = ["spherical", "full", "full-sized", *covariances]
    return {parameter: more for parameter, more in arrays.items() if parameter in _parameters(name)}
