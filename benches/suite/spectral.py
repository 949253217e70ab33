"""GraphSpectralFeatures: the likelihood and the factorisation, whole fits, features of rows, and guards on
what a fit reaches.

Small versions of benches/peers/spectral.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .tools import Imports, Replay, quietly

new = Imports()
with new:
    from craftc import GraphSpectralFeatures, MixedTable
    from craftc.datasets import load_heart
    from craftc.spectral.factorization import Factoriser, default_factors
setup = new.setup

NUMERIC = 6
LEVELS = (2, 5, 6, 7, 8, 14, 16, 41)  # as Adult's
TABLES = ["heart", "census, 500 rows", "census, 2000 rows"]
CENSUS = TABLES[1:]


@lru_cache(maxsize=2)
def table(name: str) -> MixedTable:
    """Heart, or numbers and levels that lean on one of eight kinds of rows, a fiftieth of them missing."""
    if name == "heart":
        return MixedTable.from_data(load_heart().data)
    n, rng = int(name.split()[1]), np.random.default_rng(0)
    kind = rng.integers(8, size=n)
    numbers = rng.normal(size=(8, NUMERIC))[kind] + rng.normal(size=(n, NUMERIC))
    levels = np.column_stack(
        [
            np.where(rng.random(n) < 0.4, (kind * 3 + d) % many, many * rng.random(n) ** 2)
            for d, many in enumerate(LEVELS)
        ]
    )
    X = np.concatenate([numbers, np.floor(levels)], axis=1)
    X[rng.random(X.shape) < 0.02] = np.nan
    return MixedTable.from_data(X, categorical=list(range(NUMERIC, X.shape[1])))


def started(name: str, **parameters: Any) -> GraphSpectralFeatures:
    """After two steps, so that no weight is zero."""
    return quietly(GraphSpectralFeatures(max_iter=2, random_state=0, n_threads=1, **parameters), table(name))


class Likelihood:
    """Value and gradient, once."""

    params: Any = (TABLES, ["codes", "dense"])
    param_names = ("table", "conditionals")

    def setup(self, name: str, conditionals: str) -> None:
        model = started(name, conditionals=conditionals)
        hat = None if conditionals == "codes" else model._approximation(model._encoding, table(name))
        self.likelihood, self.at = model._likelihood(model._encoding, table(name), hat), model._parameters

    def time_value_gradient(self, *_: Any) -> None:
        self.likelihood(self.at)


class Factorisation:
    """Nonnegative factors, all sweeps; and by singular vectors."""

    params: Any = (TABLES,)
    param_names = ("table",)

    def setup(self, name: str) -> None:
        encoding = started(name)._encoding
        self.factoriser, self.k = Factoriser(encoding, table(name), 1.0, 1), default_factors(encoding.p)

    def time_hals(self, *_: Any) -> None:
        self.factoriser.hals(self.k, 0)

    def time_svd(self, *_: Any) -> None:
        self.factoriser.svd(self.k)

    def track_residual(self, *_: Any) -> float:
        """After all sweeps; lower is better."""
        return float(self.factoriser.hals(self.k, 0).residual[-1])

    track_residual.unit = "of the squares"


class HalsSweeps:
    """What a fit calls, once more: sweeps from given factors."""

    params: Any = (TABLES,)
    param_names = ("table",)
    number = 1

    def setup(self, name: str) -> None:
        self.calls = hals_sweeps(name).ready()

    def time_calls(self, name: str) -> None:
        self.calls()


@lru_cache(maxsize=1)
def hals_sweeps(name: str) -> Replay:
    return Replay(
        "spectral_factor.hals",
        lambda: quietly(GraphSpectralFeatures(random_state=0, n_threads=1), table(name)),
    )


class Fit:
    """From a table to the graph and its basis; the long table by way of a sample."""

    params: Any = ([*TABLES, "census, 20000 rows"],)
    param_names = ("table",)

    def setup(self, name: str) -> None:
        self.table = table(name)
        self.model = GraphSpectralFeatures(random_state=0, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        quietly(self.model, self.table)

    def peakmem_fit(self, *_: Any) -> None:
        quietly(self.model, self.table)

    def track_objective(self, *_: Any) -> float:
        """Penalised, per row; lower is better."""
        return float(quietly(self.model, self.table).objective_)

    def track_steps(self, *_: Any) -> int:
        return int(quietly(self.model, self.table).n_iter_)

    track_objective.unit = "nats"
    track_steps.unit = "steps"


class Options:
    """Fits with the lasso."""

    params: Any = (TABLES[:2], ["l1"])
    param_names = ("table", "way")

    def setup(self, name: str, way: str) -> None:
        self.table = table(name)
        self.model = GraphSpectralFeatures(l1=0.1, l2=0.0, random_state=0, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        quietly(self.model, self.table)

    def track_objective(self, *_: Any) -> float:
        return float(quietly(self.model, self.table).objective_)

    track_objective.unit = "nats"


class Rows:
    """What a fitted model does with rows."""

    params: Any = (CENSUS,)
    param_names = ("table",)

    def setup(self, name: str) -> None:
        self.table, self.model = table(name), started(name)
        self.features = self.model.transform(self.table)

    def time_transform(self, name: str) -> None:
        self.model.transform(self.table)

    def peakmem_transform(self, name: str) -> None:
        self.model.transform(self.table)

    def time_inverse_transform(self, name: str) -> None:
        self.model.inverse_transform(self.features)

    def time_score(self, name: str) -> None:
        self.model.score(self.table)
