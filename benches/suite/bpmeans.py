"""Feature models: one start, the stepwise search, a sweep of a long table, and guards on what they reach."""

from __future__ import annotations

from typing import Any

import numpy as np

from .tools import Imports

new = Imports()
with new:
    from craftc import BPMeans, KFeatures
    from craftc._kernels import bpmeans_rows as kernel
    from craftc.bpmeans import restarts
setup = new.setup


def tabletop_like(n: int = 100) -> Any:
    """As many rows as columns, centred: four signals and an offset, each signal in every other row."""
    rng = np.random.default_rng(0)
    Z = rng.random((n, 4)) < 0.5
    X = Z @ (0.25 * rng.normal(size=(4, n))) + 0.1 * rng.normal(size=(n, n))
    return X - X.mean(axis=0)


def long_table(n: int, D: int, K: int, dtype: str = "float64") -> Any:
    """Sums of K features with unit noise, and the memberships."""
    rng = np.random.default_rng(0)
    Z = rng.random((n, K)) < 0.4
    return (Z @ (2 * rng.normal(size=(K, D))) + rng.normal(size=(n, D))).astype(dtype), Z


class Start:
    """K-features on a small table: one start from its draw to its end, exchanges included."""

    params: Any = ([5, 8], ["sweep", "exact"])
    param_names = ("features", "assignment")

    def setup(self, K: int, assignment: str) -> None:
        self.X = tabletop_like()
        self.model = KFeatures(K, assignment=assignment, n_init=1, random_state=0, n_threads=1)
        self.many = KFeatures(K, assignment=assignment, n_init=100, random_state=0, n_threads=1)

    def time_one_start(self, *_: Any) -> None:
        self.model.fit(self.X)

    def time_100_starts(self, *_: Any) -> None:
        self.many.fit(self.X)

    def track_objective(self, *_: Any) -> float:
        """Lower is better."""
        return float(self.many.fit(self.X).objective_)

    track_objective.unit = "J"


class Search:
    """How many features: stepwise at a lambda^2, and by description length."""

    params: Any = (["stepwise", "description length"],)
    param_names = ("choice",)

    def setup(self, choice: str) -> None:
        self.X = tabletop_like()
        self.model = KFeatures(
            feature_penalty=2.0 if choice == "stepwise" else None, n_init=30, random_state=0, n_threads=1
        )

    def time_fit(self, choice: str) -> None:
        self.model.fit(self.X)

    def track_objective(self, choice: str) -> float:
        """Squared error + 2 K."""
        self.model.fit(self.X)
        return float(self.model.inertia_ + 2.0 * self.model.n_features_)

    def track_n_features(self, choice: str) -> int:
        return int(self.model.fit(self.X).n_features_)

    track_objective.unit = "J"
    track_n_features.unit = "features"


class Automatic:
    """How many features by description length: noise, the wide values of one column, and many rows, where
    a sample decides.
    """

    params: Any = (
        ["200 x 5 noise", "2000 x 3 noise", "200 x 3 one wide column", "50000 x 64"],
        ["KFeatures", "BPMeans"],
    )
    param_names = ("table", "model")

    def setup(self, table: str, name: str) -> None:
        rng = np.random.default_rng(1)
        self.X = {
            "200 x 5 noise": lambda: rng.normal(size=(200, 5)),
            "2000 x 3 noise": lambda: rng.normal(size=(2000, 3)),
            "200 x 3 one wide column": lambda: rng.normal(size=(200, 3)) * [1e3, 1.0, 1.0],
            "50000 x 64": lambda: long_table(50_000, 64, 8)[0],
        }[table]()
        self.model = (KFeatures if name == "KFeatures" else BPMeans)(random_state=0, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        self.model.fit(self.X)

    def track_n_features(self, *_: Any) -> int:
        return int(self.model.fit(self.X).n_features_)

    def track_objective(self, *_: Any) -> float:
        """Lower is better at the same number of features."""
        return float(self.model.fit(self.X).inertia_)

    track_n_features.unit = "features"
    track_objective.unit = "J"


class Sweep:
    """BP-means on 20 000 x 64: one sweep over all rows and the features after it."""

    params: Any = (["float32", "float64"],)
    param_names = ("dtype",)
    number = 1  # a sweep leaves other memberships behind

    def setup(self, dtype: str) -> None:
        rng = np.random.default_rng(1)
        X, Z, penalty = *long_table(20_000, 64, 8, dtype), 2000.0
        data = restarts.FeatureData(X, 1)
        self.run = restarts.run_for(data, BPMeans(penalty)._config(penalty, 0, 64), 1)
        self.run.start(
            restarts.pack(Z ^ (rng.random(Z.shape) < 0.1)), 8
        )  # a tenth of the memberships is wrong

    def time_sweep(self, *_: Any) -> None:
        self.run.advance(1)


class Rows:
    """20 000 x 64, features given: memberships by sweeps and by all combinations, what they leave over, inner
    products.
    """

    params: Any = (["float32", "float64"],)
    param_names = ("dtype",)

    def setup(self, dtype: str) -> None:
        self.X, Z = long_table(20_000, 64, 8, dtype)
        self.A = 2 * np.random.default_rng(0).normal(size=(8, 64))
        self.lanes = np.ascontiguousarray(self.A.T)
        self.masks, self.residual = np.zeros(len(Z), np.uint64), np.empty(len(Z))
        self.out = np.empty((len(Z), 8))

    def time_assign(self, dtype: str) -> None:
        self.masks.fill(0)
        kernel.assign(self.X, self.A, 0, self.masks, self.residual, 1)

    def time_assign_exact(self, dtype: str) -> None:
        kernel.assign(self.X, self.A, 10, self.masks, self.residual, 1)

    def time_left_over(self, dtype: str) -> None:
        kernel.left_over(self.X, self.A, self.masks, self.residual, 1)

    def time_products(self, dtype: str) -> None:
        kernel.products(self.X, self.lanes, self.out, 1)


class Fit:
    """BP-means at a given lambda^2, from the paper's start."""

    params: Any = ([False, True],)
    param_names = ("collapsed",)

    def setup(self, collapsed: bool) -> None:
        self.X = tabletop_like()
        self.model = BPMeans(4.0, collapsed=collapsed, n_init=20, random_state=0, n_threads=1)

    def time_fit(self, collapsed: bool) -> None:
        self.model.fit(self.X)

    def peakmem_fit(self, collapsed: bool) -> None:
        self.model.fit(self.X)

    def track_objective(self, collapsed: bool) -> float:
        """Lower is better."""
        return float(self.model.fit(self.X).objective_)

    track_objective.unit = "J"


class LongTable:
    """A whole fit of 20 000 x 64, given K or lambda^2, and the memberships of its rows."""

    params: Any = (["KFeatures", "BPMeans"],)
    param_names = ("model",)

    def setup(self, name: str) -> None:
        self.X, _ = long_table(20_000, 64, 8, "float32")
        given = {"n_init": 1, "random_state": 0, "n_threads": 1}
        self.model = KFeatures(8, **given) if name == "KFeatures" else BPMeans(40_000.0, **given)
        self.fitted = KFeatures(8, **given).fit(self.X[:1_000])

    def time_fit(self, name: str) -> None:
        self.model.fit(self.X)

    def time_predict(self, name: str) -> None:
        self.fitted.transform(self.X)

    def peakmem_fit(self, name: str) -> None:
        self.model.fit(self.X)

    def track_objective(self, name: str) -> float:
        """Lower is better; unit noise leaves 20 000 x 64 less what the features take."""
        return float(self.model.fit(self.X).objective_)

    track_objective.unit = "J"
