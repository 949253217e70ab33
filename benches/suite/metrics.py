"""Scores of clusters against classes, and of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from .tools import Imports

new = Imports()
with new:
    from craftc import metrics
setup = new.setup

AGREEMENT = [
    "purity",
    "nmi",
    "rand_index",
    "chance_rand_index",
    "cluster_label_entropy",
    "total_cluster_label_entropy",
    "macro_f1",
    "contingency",
]


def score(name: str) -> Any:
    """A score by its name; past commits lack some."""
    if not hasattr(metrics, name):
        raise NotImplementedError(f"This commit has no metrics.{name}.")
    return getattr(metrics, name)


class Agreement:
    """50 000 rows, 12 classes, 20 clusters; a third of the rows is where chance put them."""

    params: Any = (AGREEMENT, ["int", "str"])
    param_names = ("score", "labels")

    def setup(self, name: str, kind: str) -> None:
        self.score, rng = score(name), np.random.default_rng(0)
        true = rng.integers(12, size=50_000)
        found = np.where(rng.random(len(true)) < 1 / 3, rng.integers(20, size=len(true)), true)
        self.labels = (true, found) if kind == "int" else (true.astype(str), found.astype(str))

    def time_score(self, *_: Any) -> None:
        self.score(*self.labels)


class Features:
    """20 000 rows of 30 features."""

    params: Any = (["eigen_diffusion", "separability"],)
    param_names = ("score",)

    def setup(self, name: str) -> None:
        self.score, rng = score(name), np.random.default_rng(0)
        labels = rng.integers(12, size=20_000)
        X = rng.normal(size=(12, 30))[labels] + rng.normal(size=(20_000, 30))
        self.given = (X, labels) if name == "separability" else (X,)

    def time_score(self, name: str) -> None:
        self.score(*self.given)
