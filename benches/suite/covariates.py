"""ConvexCovariateClustering and ConvexClustering: passes over edges, whole paths, fits of rows, and guards on
what they reach.

Small versions of benches/peers/covariates.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from .tools import Imports, Replay, quietly

new = Imports()
with new:
    from craftc import ConvexClustering, ConvexCovariateClustering
    from craftc._kernels.covariates import edge_pass
    from craftc.covariates import knn_similarity
setup = new.setup

SHAPES = {"40 x 400": (40, 400), "120 x 200": (120, 200)}  # covariates x rows
ROWS = {"300 x 2": (300, 2), "200 x 10": (200, 10)}
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
    """(X, y, S): ten groups of covariates that speak for one of four classes each; similar in ten blocks that
    straddle these groups.
    """
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

    params: Any = (["8 nearest", "complete"],)
    param_names = ("graph",)

    def setup(self, name: str) -> None:
        rng, (nodes, edge) = np.random.default_rng(0), graph(name)
        count, q = len(edge), 3
        step, lam, fused = np.full(count, 0.3), np.zeros((count, q)), np.zeros(count, np.uint8)
        sums, work = np.zeros((nodes, q)), np.zeros((BLOCKS, nodes, q))
        self.arguments = (
            rng.normal(size=(nodes, q)),
            edge,
            rng.random(count),
            step,
            1.0,
            lam,
            fused,
            sums,
            work,
            1,
        )

    def time_passes(self, name: str) -> None:
        for _ in range(10):
            edge_pass(*self.arguments)


class Steps:
    """What a certified path calls, once more: terms of Newton's steps, components of fused edges, flows of
    the merge test.
    """

    params: Any = (
        ["covariates.newton_terms", "covariates.components", "covariates.flows"],
        ["120 x 200", "300 x 2"],
    )
    param_names = ("kernel", "shape")
    number = 1

    def setup(self, kernel: str, shape: str) -> None:
        self.calls = steps(kernel, shape).ready()

    def time_calls(self, *_: Any) -> None:
        self.calls()


@lru_cache(maxsize=1)
def steps(kernel: str, shape: str) -> Replay:
    if shape in ROWS:
        return Replay(kernel, lambda: quietly(ConvexClustering(n_clusters=10, n_threads=1), points(shape)))
    return Replay(kernel, lambda: quietly(*path_of(shape, "certified")))


def path_of(shape: str, solver: str) -> tuple[Any, Any, Any]:
    """A model of fifteen penalties, and what it is fitted to."""
    X, y, S = classes(shape)
    penalties = len(y) * 2.0 ** (-0.7 * np.arange(15))
    return ConvexCovariateClustering(penalties, similarity=S, solver=solver, n_threads=1), X, y


class SparseLoss:
    """What an ADMM on sparse texts of twenty classes calls, once more: loss, gradients, products with the
    Hessian, Gram matrices.
    """

    params: Any = (
        [
            f"multinomial.{name}"
            for name in ("evaluate", "gradient", "hessian_product", "class_curvature", "weighted_gram")
        ],
    )
    param_names = ("kernel",)
    number = 1

    def setup(self, kernel: str) -> None:
        self.calls = of_texts(kernel).ready()

    def time_calls(self, _: str) -> None:
        self.calls()


@lru_cache(maxsize=1)
def of_texts(kernel: str) -> Replay:
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 20
    X = csr_array(
        np.where(rng.random((4000, 200)) < 0.1 + 0.1 * (np.arange(200) % 20 == y[:, None]), 1.0, 0.0)
    )
    model = ConvexCovariateClustering(
        4.0, similarity=knn_similarity(rng.normal(size=(200, 5))), solver="admm", n_threads=1
    )
    return Replay(kernel, lambda: quietly(model, X, y))


class Path:
    """Fifteen penalties, with the evidence that chooses one of them."""

    params: Any = (list(SHAPES), ["certified", "admm"])
    param_names = ("shape", "solver")

    def setup(self, shape: str, solver: str) -> None:
        self.fit = path_of(shape, solver)

    def time_fit(self, *_: Any) -> None:
        quietly(*self.fit)

    def peakmem_fit(self, *_: Any) -> None:
        quietly(*self.fit)

    def track_objective(self, *_: Any) -> float:
        """The sum over the path, nats; lower is better."""
        return float(quietly(*self.fit).path_.objective.sum())

    def track_gap(self, *_: Any) -> float:
        """The largest of the path, relative."""
        return float(quietly(*self.fit).path_.gap.max())

    def track_n_clusters(self, *_: Any) -> int:
        return int(quietly(*self.fit).n_clusters_)

    track_objective.unit = "nats"
    track_gap.unit = "of the dual bound"
    track_n_clusters.unit = "clusters"


class NewRows:
    """A fitted classifier meets 20 000 rows."""

    params: Any = (list(SHAPES),)
    param_names = ("shape",)

    def setup(self, shape: str) -> None:
        X, y, S = classes(shape)
        self.model = quietly(ConvexCovariateClustering(0.1 * len(y), similarity=S, n_threads=1), X, y)
        self.X = np.resize(X, (20_000, X.shape[1]))

    def time_predict_proba(self, shape: str) -> None:
        self.model.predict_proba(self.X)

    def time_transform(self, shape: str) -> None:
        self.model.transform(self.X)


class Rows:
    """ConvexClustering, the whole path down to ten clusters."""

    params: Any = (list(ROWS),)
    param_names = ("shape",)

    def setup(self, shape: str) -> None:
        self.X = points(shape)
        self.model = ConvexClustering(n_clusters=10, n_threads=1)

    def time_fit(self, shape: str) -> None:
        quietly(self.model, self.X)

    def peakmem_fit(self, shape: str) -> None:
        quietly(self.model, self.X)

    def track_gap(self, shape: str) -> float:
        """The largest of the path, relative."""
        return float(quietly(self.model, self.X).path_.gap.max())

    def track_n_clusters(self, shape: str) -> int:
        return int(quietly(self.model, self.X).n_clusters_)

    track_gap.unit = "of the dual bound"
    track_n_clusters.unit = "clusters"


class Solvers:
    """ConvexClustering at one penalty, from nothing."""

    params: Any = (list(ROWS), ["certified", "admm"])
    param_names = ("shape", "solver")

    def setup(self, shape: str, solver: str) -> None:
        self.X = points(shape)
        self.model = ConvexClustering(2.5, solver=solver, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        quietly(self.model, self.X)

    def track_objective(self, *_: Any) -> float:
        """Half squared distances and penalty; lower is better."""
        return float(quietly(self.model, self.X).objective_)

    def track_gap(self, *_: Any) -> float:
        return float(quietly(self.model, self.X).duality_gap_)

    def track_n_clusters(self, *_: Any) -> int:
        return int(quietly(self.model, self.X).n_clusters_)

    track_objective.unit = "half squares"
    track_gap.unit = "of the dual bound"
    track_n_clusters.unit = "clusters"
