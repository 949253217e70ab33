"""CRAFT as a user runs it: whole fits, new rows, and the table that leads to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from .tools import Imports, quietly

new = Imports()
with new:
    from craftc import CRAFT, DPMeans, MixedTable, PaperCRAFT
    from craftc.datasets import load_heart

    from .common import frame, mixed_table
setup = new.setup

CAPPED = {"n_clusters": 5, "cluster_price": 0.0, "feature_fraction": 0.5, "max_iter": 50}


def fit(X: Any, **parameters: Any) -> CRAFT | PaperCRAFT:
    """CRAFT, or PaperCRAFT where a price is given."""
    kind = PaperCRAFT if "cluster_price" in parameters else CRAFT
    model: CRAFT | PaperCRAFT = quietly(kind(random_state=0, n_threads=1, **parameters), X)
    return model


class _Fit:
    """Time and peak memory of a fit, and guards on what it reaches."""

    parameters: dict[str, Any]
    X: Any

    def time_fit(self, *_: Any) -> None:
        fit(self.X, **self.parameters)

    def peakmem_fit(self, *_: Any) -> None:
        fit(self.X, **self.parameters)

    def track_objective(self, *_: Any) -> float:
        """Nats; lower is better."""
        return float(fit(self.X, **self.parameters).objective_)

    def track_n_iter(self, *_: Any) -> int:
        """Passes of the start that was kept."""
        return int(fit(self.X, **self.parameters).n_iter_)

    track_objective.unit = "nats"
    track_n_iter.unit = "passes"


class Mixed(_Fit):
    """A made table of 8 numbers and 8 categories, 5 clusters, two starts of a capped fit."""

    params: Any = ([1_000, 10_000], ["fixed", "free", "threshold"], ["likelihood", "paper"])
    param_names = ("rows", "selection", "model")

    def setup(self, n: int, selection: str, model: str) -> None:
        self.X = mixed_table(n, 8, 8)
        self.parameters = CAPPED | {"n_init": 2, "selection": selection, "model": model}


class Sharing(_Fit):
    """The same table, from local to global selection: CRAFT, and a capped fit of PaperCRAFT."""

    params: Any = ([1_000, 10_000], [0.0, 0.5, 1.0], ["CRAFT", "PaperCRAFT"])
    param_names = ("rows", "feature_sharing", "estimator")

    def setup(self, n: int, s: float, estimator: str) -> None:
        self.X = mixed_table(n, 8, 8)
        self.parameters = {"n_init": 2, "feature_sharing": s}
        if estimator == "PaperCRAFT":
            self.parameters |= CAPPED | {"model": "likelihood"}


class Price(_Fit):
    """The same table: the automatic price, a numeric one, and the paper's heuristic; features that pay their
    price.
    """

    params: Any = ([1_000, 10_000], ["auto", 50.0, "farthest-first"])
    param_names = ("rows", "price")

    def setup(self, n: int, price: Any) -> None:
        self.X = mixed_table(n, 8, 8)
        self.parameters = {"n_init": 4}
        if price != "auto":
            self.parameters |= {"cluster_price": price, "model": "likelihood", "selection": "priced"}
        if price == "farthest-first":
            self.parameters |= {"n_clusters": 5}


class Heart(_Fit):
    """The default fit of a small real frame, and of the same with K given."""

    params: Any = (["no arguments", "two clusters"],)
    param_names = ("fit",)

    def setup(self, asked: str) -> None:
        self.X = load_heart().data
        self.parameters = {"n_clusters": 2} if asked == "two clusters" else {}


class Small:
    """The default fit of 150 rows of 4 numbers, where a step costs more than its arithmetic."""

    params: Any = (["CRAFT", "DPMeans"],)
    param_names = ("estimator",)

    def setup(self, name: str) -> None:
        self.X = load_iris().data
        self.model = {"CRAFT": CRAFT, "DPMeans": DPMeans}[name](random_state=0, n_threads=1)

    def time_fit(self, name: str) -> None:
        quietly(self.model, self.X)


class Wide:
    """One start of more columns than rows, where candidate splits are screened."""

    params: Any = ([600, 2_400],)
    param_names = ("columns",)

    def setup(self, n_columns: int) -> None:
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(60, n_columns))
        self.X[:, :20] += 3.0 * rng.normal(size=(3, 20))[rng.integers(0, 3, 60)]

    def time_fit(self, *_: Any) -> None:
        fit(self.X, n_init=1)


class Dependent:
    """Measurements that depend on each other, more columns than clusters can select one by one."""

    params: Any = ([60, 150],)
    param_names = ("columns",)

    def setup(self, n_columns: int) -> None:
        rng = np.random.default_rng(0)
        group, K, n_factors = rng.integers(0, 5, 300), 5, 20
        loadings = rng.normal(size=(n_factors, n_columns)) * (rng.random((n_factors, n_columns)) < 0.15)
        centres = 1.5 * rng.normal(size=(K, n_factors)) * (rng.random((K, n_factors)) < 0.3)
        factors = rng.normal(size=(len(group), n_factors)) + centres[group]
        self.X = factors @ loadings + rng.normal(size=(len(group), n_columns))

    def time_fit(self, *_: Any) -> None:
        fit(self.X)


class NewRows:
    """A fitted model meets rows."""

    params: Any = ([1_000, 50_000],)
    param_names = ("rows",)

    def setup(self, n: int) -> None:
        self.model = fit(mixed_table(1_000, 8, 8), **CAPPED, selection="fixed", n_init=1)
        self.X = mixed_table(n, 8, 8)

    def time_predict(self, *_: Any) -> None:
        self.model.predict(self.X)

    def time_transform(self, *_: Any) -> None:
        self.model.transform(self.X)


class TableFromPandas:
    """A frame becomes a table."""

    params: Any = ([1_000, 50_000], ["category", "str"])
    param_names = ("rows", "text")

    def setup(self, n: int, text: str) -> None:
        self.frame = frame(n, 8, 8, text)

    def time_build(self, *_: Any) -> None:
        MixedTable.from_data(self.frame)

    def peakmem_build(self, *_: Any) -> None:
        MixedTable.from_data(self.frame)
