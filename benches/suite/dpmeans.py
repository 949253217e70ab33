"""DP-means: one sweep, whole fits, and guards on what they reach. Shapes are small versions of those in benches/peers/dpmeans.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc import DPMeans
from craftc._dpmeans_search import Descent
from craftc._kernels import dpmeans as kernel
from craftc._points import Points

SHAPES = {"16 columns": (20_000, 16, 10, 2.0, 80.0), "256 columns": (3_000, 256, 30, 1.0, 450.0)}  # rows, columns, K, spread, lambda^2


def blobs(shape: str, dtype: str) -> Any:
    """Rows of unit normals around K centres."""
    n, D, K, spread, _ = SHAPES[shape]
    rng = np.random.default_rng(0)
    centres = spread * rng.normal(size=(K, D))
    return (centres[rng.integers(0, K, n)] + rng.normal(size=(n, D))).astype(dtype)


class Sweep:
    """One sweep that moves nothing, bounds off, and one with bounds on."""

    params: Any = (list(SHAPES), ["float32", "float64"], [1, 2])
    param_names = ("shape", "dtype", "threads")

    def setup(self, shape: str, dtype: str, threads: int) -> None:
        points = Points(blobs(shape, dtype), None, threads)
        self.descent = Descent(points, SHAPES[shape][-1], len(points), np.zeros(len(points), np.int32), points.order(0, 0))
        while self.descent.delayed():
            self.descent.mu = points.means(self.descent.sums, self.descent.K)

    def time_assign(self, *_: Any) -> None:
        self.descent._bounded = False
        self.descent._assign()

    def time_assign_bounded(self, *_: Any) -> None:
        self.descent._assign()


class Distances:
    """The exact formula for every row and centre."""

    params: Any = (list(SHAPES), ["float32", "float64"])
    param_names = ("shape", "dtype")

    def setup(self, shape: str, dtype: str) -> None:
        self.X = blobs(shape, dtype)
        self.mu = self.X[:30].astype(np.float64)
        self.out = np.empty((len(self.X), 30))

    def time_distances(self, *_: Any) -> None:
        kernel.distances(self.X, self.mu, self.out, 1)


class Fit:
    """A whole fit at a given lambda^2."""

    params: Any = (list(SHAPES), ["delayed", "collapsed"], [False, True])
    param_names = ("shape", "mode", "polish")

    def setup(self, shape: str, mode: str, polish: bool) -> None:
        self.X = blobs(shape, "float32")
        self.model = DPMeans(SHAPES[shape][-1], mode=mode, polish=polish, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        self.model.fit(self.X)

    def peakmem_fit(self, *_: Any) -> None:
        self.model.fit(self.X)

    def track_objective(self, *_: Any) -> float:
        """Lower is better."""
        return float(self.model.fit(self.X).objective_)

    def track_n_iter(self, *_: Any) -> int:
        """Sweeps, the polish included."""
        return int(self.model.fit(self.X).n_iter_)

    track_objective.unit = "J"
    track_n_iter.unit = "sweeps"


class Choice:
    """No argument: lambda^2 by description length."""

    params: Any = ([1_000, 50_000],)
    param_names = ("rows",)

    def setup(self, n: int) -> None:
        rng = np.random.default_rng(0)
        self.X = 3 * rng.normal(size=(6, 8))[rng.integers(0, 6, n)] + rng.normal(size=(n, 8))

    def time_fit(self, n: int) -> None:
        DPMeans(n_threads=1).fit(self.X)

    def track_objective(self, n: int) -> float:
        """J at the lambda^2 that was chosen."""
        return float(DPMeans(n_threads=1).fit(self.X).objective_)
