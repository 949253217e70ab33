"""ConvexCovariateClustering and ConvexClustering: passes over edges, whole paths, fits of rows, and guards on what they reach.

Small versions of benches/peers/covariates.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from craftc import ConvexClustering, ConvexCovariateClustering
from craftc._kernels.covariates import edge_pass
from craftc.covariates import knn_similarity

SHAPES = {"40 x 400": (40, 400), "200 x 400": (200, 400)}  # covariates x rows
ROWS = {"300 x 2": (300, 2), "1000 x 10": (1000, 10)}
BLOCKS = 16  # parts that edges are cut into


def graph(name: str) -> tuple[int, Any]:
    """Nodes and edges, sorted by their first node."""
    if name == "complete":
        return 1000, np.ascontiguousarray(np.stack(np.triu_indices(1000, 1), axis=1), np.int32)
    near = knn_similarity(np.random.default_rng(0).normal(size=(5000, 5))).tocoo()
    once = near.row < near.col
    edge = np.stack([near.row[once], near.col[once]], axis=1)
    return 5000, np.ascontiguousarray(edge[np.lexsort(edge.T[::-1])], np.int32)


def classes(shape: str) -> tuple[Any, Any, Any]:
    """(X, y, S): ten groups of covariates that speak for one of four classes each; similar in ten blocks that straddle these groups."""
    d, n = SHAPES[shape]
    rng = np.random.default_rng(0)
    group, y = np.arange(d) * 10 // d, np.arange(n) % 4
    block = (np.arange(d) + d // 20) % d * 10 // d
    X = 0.5 * (group % 4 == y[:, None]) + rng.normal(size=(n, d))
    return X, y, 0.9 * (block[:, None] == block)


def points(shape: str) -> Any:
    n, D = ROWS[shape]
    rng = np.random.default_rng(0)
    return 4.0 * rng.normal(size=(10, D))[rng.integers(10, size=n)] + rng.normal(size=(n, D))


class EdgePass:
    """Ten passes over all edges, four classes."""

    params: Any = (["8 nearest", "complete"], [1, 2])
    param_names = ("graph", "threads")

    def setup(self, name: str, threads: int) -> None:
        rng, (nodes, edge) = np.random.default_rng(0), graph(name)
        count, q = len(edge), 3
        step, lam, fused = np.full(count, 0.3), np.zeros((count, q)), np.zeros(count, np.uint8)
        sums, work = np.zeros((nodes, q)), np.zeros((BLOCKS, nodes, q))
        self.arguments = rng.normal(size=(nodes, q)), edge, rng.random(count), step, 1.0, lam, fused, sums, work, threads

    def time_passes(self, *_: Any) -> None:
        for _ in range(10):
            edge_pass(*self.arguments)


class Path:
    """Forty penalties, with the evidence that chooses one of them."""

    params: Any = (list(SHAPES), ["certified", "admm"])
    param_names = ("shape", "solver")

    def setup(self, shape: str, solver: str) -> None:
        self.X, self.y, S = classes(shape)
        penalties = len(self.y) * 2.0 ** (-0.25 * np.arange(40))
        self.model = ConvexCovariateClustering(penalties, similarity=S, solver=solver, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        _quietly(self.model, self.X, self.y)

    def peakmem_fit(self, *_: Any) -> None:
        _quietly(self.model, self.X, self.y)

    def track_objective(self, *_: Any) -> float:
        """The sum over the path, nats; lower is better."""
        return float(_quietly(self.model, self.X, self.y).path_.objective.sum())

    def track_gap(self, *_: Any) -> float:
        """The largest of the path, relative."""
        return float(_quietly(self.model, self.X, self.y).path_.gap.max())

    def track_n_clusters(self, *_: Any) -> int:
        return int(_quietly(self.model, self.X, self.y).n_clusters_)

    track_objective.unit = "nats"
    track_gap.unit = "of the dual bound"
    track_n_clusters.unit = "clusters"


class Rows:
    """ConvexClustering, the whole path down to ten clusters."""

    params: Any = (list(ROWS),)
    param_names = ("shape",)

    def setup(self, shape: str) -> None:
        self.X = points(shape)
        self.model = ConvexClustering(n_clusters=10, n_threads=1)

    def time_fit(self, shape: str) -> None:
        _quietly(self.model, self.X)

    def peakmem_fit(self, shape: str) -> None:
        _quietly(self.model, self.X)

    def track_gap(self, shape: str) -> float:
        """The largest of the path, relative."""
        return float(_quietly(self.model, self.X).path_.gap.max())

    def track_n_clusters(self, shape: str) -> int:
        return int(_quietly(self.model, self.X).n_clusters_)

    track_gap.unit = "of the dual bound"
    track_n_clusters.unit = "clusters"


class Solvers:
    """ConvexClustering at one penalty, from nothing."""

    params: Any = (list(ROWS), ["certified", "ama", "admm"])
    param_names = ("shape", "solver")

    def setup(self, shape: str, solver: str) -> None:
        self.X = points(shape)
        self.model = ConvexClustering(2.5, solver=solver, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        _quietly(self.model, self.X)

    def track_objective(self, *_: Any) -> float:
        """Half squared distances and penalty; lower is better."""
        return float(_quietly(self.model, self.X).objective_)

    def track_gap(self, *_: Any) -> float:
        return float(_quietly(self.model, self.X).duality_gap_)

    def track_n_clusters(self, *_: Any) -> int:
        return int(_quietly(self.model, self.X).n_clusters_)

    track_objective.unit = "half squares"
    track_gap.unit = "of the dual bound"
    track_n_clusters.unit = "clusters"


def _quietly(model: Any, X: Any, y: Any = None) -> Any:
    """A fit that may run out of steps without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)
