"""Seeded random parameters of every estimator: valid values, seldom used ones, and values that no parameter
may have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import craftc

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


def draw(rng: np.random.Generator, name: str, n: int, d: int) -> dict[str, Any]:
    """Parameters of the estimator of this name for a table of n rows and d columns; one of them is nonsense
    at times.
    """
    chosen = _fixed(rng, name)
    values = _values(rng, name, max(n, 1), max(d, 1))
    for parameter in values:
        value = values[parameter][rng.integers(len(values[parameter]))]
        if rng.random() < 0.15 and (rng.random() < 0.03 or _allowed(name, parameter, value)):
            chosen[parameter] = value
    kind = rng.random()
    if kind < 0.06 and "random_state" in values:
        seed = SEEDS[rng.integers(len(SEEDS))]
        chosen["random_state"] = seed(3) if callable(seed) else seed
    elif kind < 0.12:
        chosen["n_threads"] = THREADS[rng.integers(len(THREADS))]
    elif kind < 0.2:
        parameter = list(values)[rng.integers(len(values))]
        chosen[parameter] = _NONSENSE[rng.integers(len(_NONSENSE))]
    return chosen


def _allowed(name: str, parameter: str, value: Any) -> bool:
    """Whether the table of constraints of the estimator allows a value."""
    constraint = getattr(craftc, name)._constraints.get(parameter)
    try:
        if constraint is not None:
            constraint.check(parameter, value)
    except (TypeError, ValueError):
        return False
    return True


def _fixed(rng: np.random.Generator, name: str) -> dict[str, Any]:
    """Parameters that differ from the defaults so that a case is short."""
    few: dict[str, dict[str, Any]] = {
        "CRAFT": {"n_init": int(rng.integers(1, 3))},
        "DPMeans": {},
        "BPMeans": {"n_init": 1, "feature_penalty": float(rng.choice([0.1, 1.0, 10.0])), "max_features": 6},
        "KFeatures": {"n_init": 1, "n_features": int(rng.integers(1, 5))},
        "KModes": {"n_clusters": int(rng.integers(1, 6)), "n_init": 2},
        "KPrototypes": {"n_clusters": int(rng.integers(1, 6)), "n_init": 2},
        "FeatureSelectionMixture": {"n_components": int(rng.integers(1, 6)), "n_init": 1, "max_iter": 50},
        "ConvexCovariateClustering": {
            "fusion_penalty": float(rng.choice([0.1, 1.0, 10.0, 100.0])),
            "max_iter": 300,
        },
        "ConvexClustering": {"fusion_penalty": float(rng.choice([0.01, 0.1, 1.0, 10.0])), "max_iter": 300},
        "GraphSpectralFeatures": {"grid_size": 8, "max_iter": 100},
    }
    seed = {} if name.startswith("Convex") else {"random_state": int(rng.integers(5))}
    return few[name] | seed | {"n_threads": 1}


def _values(rng: np.random.Generator, name: str, n: int, d: int) -> dict[str, list[Any]]:
    labels = rng.integers(0, 3, n)
    shared: dict[str, list[Any]] = {
        "n_init": [1, 2, 3],
        "max_iter": [1, 2, 50],
        "random_state": [0, 3, 2**40],
        "verbose": [0, 2],
    }
    if name == "CRAFT":
        return shared | {
            "n_clusters": [1, 2, 3, 5, "suggested", n, n + 5],
            "background": ["pooled", "table"],
            "covariance": ["auto", "diagonal", "full"],
            "cluster_price": ["auto", "farthest-first", 0.0, 0.5, 10.0, 1e6, 1e300],
            "price_factor": ["auto", 1.0, 0.1, 3.0, 1e-300, 1e300],
            "selection": ["priced", "fixed", "free", "threshold", "global"],
            "feature_fraction": [0.1, 0.5, 1.0, 1e-12],
            "feature_variance": [0.01, 0.1, 0.24, 1e-9],
            "categorical_threshold": [0.0, 0.5, 0.95, 2.0],
            "numeric_threshold": [0.0, 0.5, ("absolute", 1.0), ("absolute", 1e300), 2.0],
            "model": ["likelihood", "paper", "paper-relative", "paper-fixed"],
            "numeric": ["auto", "raw", "rank"],
            "categorical": ["auto", [0], [d - 1], ["c0"], [True] + [False] * (d - 1), [], [d]],
            "missing": ["ignore", "category", "error"],
            "unknown": ["ignore", "error"],
            "unusable": ["error", "drop"],
            "max_clusters": [1, 2, 5, 1000, 10**6],
            "init": [
                "auto",
                "single",
                "random",
                "farthest",
                labels,
                [labels, labels[::-1]],
                labels * 7,
                labels[:-1],
            ],
        }
    if name == "DPMeans":
        return shared | {
            "cluster_penalty": ["auto", 0.0, 1e-300, 0.1, 1.0, 10.0, 1e300, float("inf")],
            "n_clusters": [None, 1, 2, 3, n, n + 1, 10**6],
            "max_clusters": [None, 1, 2, 10, 10**6],
            "mode": ["auto", "serial", "delayed", "collapsed", "lowest"],
            "polish": ["auto", False, True],
            "covariance": [
                "spherical",
                "full",
                "full-sized",
                np.eye(d),
                np.eye(d) * 1e-9,
                np.stack([np.eye(d)] * 2),
                np.ones((d, d)),
            ],
            "init": ["auto", "single", "random-row", "random", "farthest", labels, labels[:-1]],
            "covariance_prior": [None, 0.0, 1e-300, 0.1, 1e300],
            "covariance_price": [None, 0.0, 1.0, 100.0],
        }
    if name in ("BPMeans", "KFeatures"):
        features = {
            "assignment": ["auto", "sweep", "exact"],
            "base": ["mean", "none", "mixed"],
            "init": [
                "greedy",
                rng.integers(0, 2, (n, 2)),
                rng.integers(0, 2, (n, 2)).astype(float),
                rng.integers(0, 3, (n, 2)),
            ],
            "exchanges": [True, False],
            "n_trials": [None, 1, 3, 8],
        }
        if name == "BPMeans":
            own: dict[str, list[Any]] = {
                "feature_penalty": ["auto", 1e-300, 1e-3, 1.0, 1e300],
                "max_features": [None, 1, 3, 20, 64],
                "collapsed": [False, True],
                "shuffle": [False, True],
            }
            features["init"].append("kfeatures")
        else:
            own = {
                "n_features": [None, 1, 2, 12, 20, 64],
                "feature_penalty": [None, 0.1, 1.0, 1e300],
                "empty": ["drop", "reseed"],
            }
        return shared | features | own
    if name in ("KModes", "KPrototypes"):
        modes = np.zeros((2, d), int)
        own: dict[str, list[Any]] = {
            "init": ["Huang", "Cao", "random", "cao", modes, modes + 7, [[0.0] * d] * 2]
        }
        if name == "KPrototypes":
            own = {
                "init": [
                    "Huang",
                    "Cao",
                    "random",
                    [rng.normal(size=(2, d)), np.empty((2, 0))],
                    [modes, modes],
                    modes,
                ],
                "gamma": [None, 0.0, 1.0, 1e-300, 1e100],
                "num_dissim": ["euclidean", "manhattan"],
            }
        return (
            shared
            | own
            | {
                "n_clusters": [1, 2, 3, 9, n, n + 1, 10**6],
                "cat_dissim": ["matching", "ng", "jaccard", "jaccard-label"],
                "update": ["online", "batch"],
                "categorical": ["auto", [0], [d - 1], ["c0"], [True] + [False] * (d - 1), [True] * d, 0, [d]],
                "missing": ["ignore", "category", "error"],
                "unknown": ["ignore", "error"],
                "n_jobs": [None, 1, 2, -1],
            }
        )
    if name == "FeatureSelectionMixture":
        responsibilities = rng.dirichlet(np.ones(2), n)
        return shared | {
            "n_components": [1, 2, 4, 8, 20],
            "selection": ["local", "global", "shared"],
            "component": ["gaussian", "poisson", "bernoulli"],
            "covariance": ["diagonal", "full"],
            "noise": ["isotropic", "feature"],
            "feature_fraction": [0.5, 0.1, 0.99, 1e-9],
            "feature_variance": [None, 0.01, 0.2, 1e-12],
            "learn_fraction": [False, True, "shared", "component"],
            "fraction_prior": [(1.0, 1.0), (0.1, 0.1), (1e-300, 1.0), (1e300, 1.0), [2, 3]],
            "concentration": [5.0, 1e-12, 1e12, 1e300],
            "scale": ["auto", "scalar", "standard", "none"],
            "merge": [True, False],
            "init": ["kmeans", "random", responsibilities, responsibilities * 2, responsibilities[:-1]],
            "tol": [1e-6, 0.0, 1e3],
        }
    if name == "GraphSpectralFeatures":
        del shared["n_init"]
        return shared | {
            "n_components": [1, 2, 5, 100],
            "objective": ["pseudo", "observed"],
            "laplacian": ["signed", "abs"],
            "l2": [0.1, 0.0, 1e-12, 1e6],
            "l1": [0.0, 0.01, 1e6],
            "categorical": ["auto", [0], ["c0"], [True] + [False] * (d - 1)],
            "normalized": [True, False],
            "skip_first": [False, True],
            "conditionals": ["codes", "dense"],
            "groups": ["softmax", "logistic"],
            "unary": [False, True, "free"],
            "scaling": ["range", "normal"],
            "beta": [2.0, 0.1, 1e-12, 50.0],
            "eps": [None, 0.01, 1.0],
            "grid_size": [2, 8, 32],
            "factorization": ["hals", "svd"],
            "n_factors": [None, 1, 3, 50],
            "indicator_weight": [1.0, 1e-6, 1e6],
            "sign": [-1, 1],
            "theta0": [1.0, 0.0, -1.0, 1e6],
            "rate": [None, 0.1, 1e6],
            "n_steps": [None, 0, 3],
            "missing": ["ignore", "category", "error"],
            "unknown": ["ignore", "error"],
            "tol": [1e-4, 1e-9, 10.0],
        }
    square = np.abs(rng.normal(size=(d, d) if name == "ConvexCovariateClustering" else (n, n)))
    square = square + square.T
    path = [
        None,
        1.0,
        0.0,
        1e-300,
        1e300,
        [3.0, 2.0, 1.0],
        np.array([1.0, 0.1]),
        [1.0, 2.0],
        np.geomspace(100, 0.01, 8),
    ]
    shared = {"fusion_penalty": path, "tol": [1e-6, 1e-2, 1e-15], "max_iter": [1, 3, 300], "verbose": [0, 2]}
    if name == "ConvexCovariateClustering":
        return shared | {
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
            "ridge": [0.1, 0.0, 1e-12, 1e12],
            "sparsity": [0.0, 0.5, 1e6, 2.0 ** -np.arange(5)],
            "solver": ["certified", "admm", "paper"],
            "selection": ["evidence", "evidence-full"],
        }
    return shared | {
        "n_clusters": [None, 1, 2, n, n + 1],
        "weights": [
            "gaussian-knn",
            square,
            square * 1e300,
            np.zeros_like(square),
            square[:-1],
            lambda X: np.ones((len(X), len(X))),
        ],
        "n_neighbors": [1, 3, 8, 1000],
        "solver": ["certified", "admm"],
    }
