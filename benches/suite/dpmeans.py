"""DP-means: one sweep, whole fits, and guards on what they reach.

Shapes are small versions of those in benches/peers/dpmeans.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .tools import Imports

new = Imports()
with new:
    from craftc import DPMeans
    from craftc._common.dense_data import DenseData
    from craftc._kernels import dpmeans as kernel
    from craftc._kernels import dpmeans_cuts as cuts
    from craftc.dpmeans.descent import SphericalDescent
setup = new.setup

SHAPES = {
    "16 columns": (20_000, 16, 10, 2.0, 80.0),
    "256 columns": (3_000, 256, 30, 1.0, 450.0),
}  # rows, columns, K, spread, lambda^2


def blobs(shape: str, dtype: str) -> Any:
    """Rows of unit normals around K centres."""
    n, D, K, spread, _ = SHAPES[shape]
    rng = np.random.default_rng(0)
    centres = spread * rng.normal(size=(K, D))
    return (centres[rng.integers(0, K, n)] + rng.normal(size=(n, D))).astype(dtype)


class Sweep:
    """One sweep that moves nothing, bounds off, and ten with bounds on."""

    params: Any = (list(SHAPES), ["float32", "float64"])
    param_names = ("shape", "dtype")

    def setup(self, shape: str, dtype: str) -> None:
        data = DenseData(blobs(shape, dtype), None, 1)
        descent = SphericalDescent(
            data, SHAPES[shape][-1], len(data), np.zeros(len(data), np.int32), data.order(0, 0)
        )
        self.rows = descent.rows
        while descent.delayed():
            self.rows.update_means()

    def time_assign(self, *_: Any) -> None:
        self.rows.forget_bounds()
        self.rows.assign()

    def time_assign_bounded(self, *_: Any) -> None:
        for _sweep in range(10):
            self.rows.assign()


class Distances:
    """The exact formula for every row and centre; and distances to a new centre, where they are less."""

    params: Any = (list(SHAPES), ["float32", "float64"])
    param_names = ("shape", "dtype")

    def setup(self, shape: str, dtype: str) -> None:
        self.X = blobs(shape, dtype)
        self.mu = self.X[:30].astype(np.float64)
        self.out, self.nearest = np.empty((len(self.X), 30)), np.full(len(self.X), np.inf)
        self.labels = np.arange(len(self.X), dtype=np.int32) % 30
        self.data, self.sides = DenseData(self.X, None, 1), np.zeros(len(self.X), np.uint8)
        self.sums = self.data.no_sums(60)

    def time_distances(self, *_: Any) -> None:
        kernel.distances(self.X, self.mu, self.out, 1)

    def time_two_means(self, *_: Any) -> None:
        self.sums.clear()
        data, (origins, directions) = self.data, np.array((self.mu, self.mu))
        cuts.two_means(
            self.X,
            self.labels,
            origins,
            directions,
            self.sides,
            self.sums,
            data.middle,
            data.step,
            True,
            2,
            7,
            0.0,
            1,
        )

    def time_update_nearest(self, *_: Any) -> None:
        for centre in self.mu:
            kernel.update_nearest(self.X, centre, self.nearest, 1)


class _Fit:
    """Time and peak memory of a fit, and guards on what it reaches."""

    X: Any
    model: Any

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


class Fit(_Fit):
    """A whole fit at a given lambda^2."""

    params: Any = (list(SHAPES), ["delayed", "collapsed"], [False, True])
    param_names = ("shape", "mode", "polish")

    def setup(self, shape: str, mode: str, polish: bool) -> None:
        self.X = blobs(shape, "float32")
        self.model = DPMeans(SHAPES[shape][-1], mode=mode, polish=polish, n_threads=1)


class Asked(_Fit):
    """5000 rows of 8 columns: the number of clusters by description length and given, lambda^2 given; the
    lowest J; full covariances.
    """

    params: Any = (["no arguments", "six clusters", "lowest", "serial", "full covariances"],)
    param_names = ("fit",)

    def setup(self, asked: str) -> None:
        rng = np.random.default_rng(0)
        self.X = 3 * rng.normal(size=(6, 8))[rng.integers(0, 6, 5_000)] + rng.normal(size=(5_000, 8))
        parameters: dict[str, Any] = {
            "no arguments": {},
            "six clusters": {"n_clusters": 6},
            "lowest": {"cluster_penalty": 120.0, "mode": "lowest"},
            "serial": {"cluster_penalty": 120.0, "mode": "serial"},
            "full covariances": {"cluster_penalty": 60.0, "covariance": "full"},
        }[asked]
        self.model = DPMeans(n_threads=1, **parameters)


class NewRows:
    """A fitted model meets rows."""

    params: Any = (list(SHAPES),)
    param_names = ("shape",)

    def setup(self, shape: str) -> None:
        self.X = blobs(shape, "float32")
        self.model = DPMeans(SHAPES[shape][-1], mode="delayed", n_threads=1).fit(self.X[:2_000])

    def time_predict(self, shape: str) -> None:
        self.model.predict(self.X)

    def time_transform(self, shape: str) -> None:
        self.model.transform(self.X)
