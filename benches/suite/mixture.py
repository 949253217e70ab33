"""FeatureSelectionMixture: one sweep, whole fits, new rows, and guards on what they reach.

Small versions of benches/peers/mixture.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .tools import Imports, Replay, quietly

new = Imports()
with new:
    from craftc import FeatureSelectionMixture
setup = new.setup
moves = Imports()
with moves:
    from craftc._kernels import mixture_moves
    from craftc._kernels.mixture_updates import Mixture
seeding = Imports()
with seeding:
    from craftc._kernels import mixture_start

SHAPES = {
    "60 columns": (600, 60, 6),
    "20 columns": (20_000, 20, 10),
    "256 columns": (2_000, 256, 10),
}  # rows, columns, clusters


def clusters(shape: str, dtype: str = "float64", missing: float = 0.0) -> Any:
    """Every cluster has a distribution of its own in half of the columns, drawn, and the common noise in the
    others.
    """
    n, D, K = SHAPES[shape]
    rng = np.random.default_rng(0)
    z, own, means = rng.integers(0, K, n), rng.random((K, D)) < 0.5, rng.normal(0, 3, (K, D))
    noise = rng.normal(size=(n, D))
    X = np.where(own[z], means[z] + noise, 3 * noise).astype(dtype)
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


def counts(n: int = 1_000, D: int = 200, K: int = 8) -> Any:
    """Documents of lengths 20 to 200 from K mixtures of words."""
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(D, 0.1), K)
    return np.array(
        [
            rng.multinomial(length, words[k])
            for length, k in zip(rng.integers(20, 200, n), rng.integers(0, K, n), strict=True)
        ]
    )


class Sweep:
    """Fits of 2 and of 12 sweeps from the same start, merges off: a tenth of their difference is a sweep."""

    params: Any = (list(SHAPES), ["float64", "float32"], [2, 12])
    param_names = ("shape", "dtype", "sweeps")

    def setup(self, shape: str, dtype: str, sweeps: int) -> None:
        self.X = clusters(shape, dtype)
        few = {"max_iter": sweeps, "tol": 0.0, "merge": False, "n_init": 1}
        self.model = FeatureSelectionMixture(20, random_state=0, n_threads=1, **few)

    def time_sweeps(self, *_: Any) -> None:
        quietly(self.model, self.X)


class Switches:
    """What a fit with full covariances calls, once more: switches of features, column by column."""

    number = 1

    def setup(self) -> None:
        self.calls = switches().ready()

    def time_calls(self) -> None:
        self.calls()


@lru_cache(maxsize=1)
def switches() -> Replay:
    X, model = (
        clusters("60 columns"),
        FeatureSelectionMixture(20, covariance="full", n_init=1, random_state=0, n_threads=1),
    )
    return Replay("mixture_full.switch_columns", lambda: quietly(model, X))


class Moves:
    """Estimated gains of all pairs of 40 components with sufficient statistics of drawn rows."""

    def setup(self) -> None:
        moves.setup()
        K, D = 40, 60
        rng, ones = np.random.default_rng(0), np.ones(D)
        try:
            q = Mixture(
                K,
                D,
                (0.1, 1.0, 0.5 * ones),
                (0.1, 1.0, ones),
                5.0,
                kind="gaussian",
                own_noise=False,
                tied=False,
            )
        except TypeError as error:
            raise NotImplementedError("This commit has no kinds of columns.") from error
        q.size[:] = rng.uniform(1.0, 50.0, K)
        q.reach[:], q.s1[:] = q.size[:, None], q.size[:, None] * rng.normal(size=(K, D))
        q.s2[:], q.p[:] = q.size[:, None] + q.s1**2 / q.size[:, None], rng.random((K, D))
        q.update_noise()
        q.update_shares()
        self.mixture = q

    def time_pair_gains(self) -> None:
        mixture_moves.pair_gains(self.mixture)


class Seeds:
    """Rows that start k-means: centres with three trials each, and as many exchanges."""

    params: Any = ([20, 100],)
    param_names = ("centres",)

    def setup(self, K: int) -> None:
        seeding.setup()
        rng = np.random.default_rng(0)
        self.cells, self.draws = (
            np.ascontiguousarray(clusters("60 columns").T),
            rng.random(1 + 3 * (K - 1) + K),
        )

    def time_seed_rows(self, K: int) -> None:
        mixture_start.seed_rows(self.cells, np.ones(self.cells.shape[1]), self.draws, K, 3, K, True)


class Halves:
    """What a fit calls to cut every component in two, once more."""

    def setup(self) -> None:
        self.calls = halves().ready()

    def time_calls(self) -> None:
        self.calls()


@lru_cache(maxsize=1)
def halves() -> Replay:
    X, model = clusters("20 columns"), FeatureSelectionMixture(20, n_init=1, random_state=0, n_threads=1)
    return Replay("mixture_split.split_gains", lambda: quietly(model, X))


class Fit:
    """A whole fit, one thread."""

    params: Any = (list(SHAPES), ["local", "shared"], [0.0, 0.05])
    param_names = ("shape", "selection", "missing")

    def setup(self, shape: str, selection: str, missing: float) -> None:
        self.X = clusters(shape, missing=missing)
        self.model = FeatureSelectionMixture(20, selection=selection, n_init=2, random_state=0, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        quietly(self.model, self.X)

    def peakmem_fit(self, *_: Any) -> None:
        quietly(self.model, self.X)

    def track_objective(self, *_: Any) -> float:
        """-ELBO, nats; lower is better."""
        return float(quietly(self.model, self.X).objective_)

    def track_n_clusters(self, *_: Any) -> int:
        return int(quietly(self.model, self.X).n_clusters_)

    track_objective.unit = "nats"
    track_n_clusters.unit = "clusters"


class Kinds:
    """Whole fits of the other models."""

    params: Any = (["counts", "full", "feature noise", "learned fraction"],)
    param_names = ("kind",)

    def setup(self, kind: str) -> None:
        parameters: dict[str, Any] = {
            "counts": {"component": "poisson"},
            "full": {"covariance": "full"},
            "feature noise": {"noise": "feature"},
            "learned fraction": {"learn_fraction": True},
        }[kind]
        self.X = counts() if kind == "counts" else clusters("60 columns")
        self.model = FeatureSelectionMixture(20, n_init=1, random_state=0, n_threads=1, **parameters)

    def time_fit(self, kind: str) -> None:
        quietly(self.model, self.X)

    def track_objective(self, kind: str) -> float:
        """-ELBO, nats; lower is better."""
        return float(quietly(self.model, self.X).objective_)

    track_objective.unit = "nats"


class NewRows:
    """A fitted model meets rows."""

    params: Any = ([1_000, 20_000],)
    param_names = ("rows",)

    def setup(self, n: int) -> None:
        X = clusters("20 columns")
        self.X = X[:n]
        self.model = FeatureSelectionMixture(12, n_init=1, random_state=0, n_threads=1).fit(X[:2_000])

    def time_predict(self, n: int) -> None:
        self.model.predict(self.X)

    def time_predict_proba(self, n: int) -> None:
        self.model.predict_proba(self.X)

    def time_score_samples(self, n: int) -> None:
        self.model.score_samples(self.X)
