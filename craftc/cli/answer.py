"""What the command line says about a fitted model: its clusters from the largest to the smallest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from craftc._common.typing import Labels
from craftc.craft.base import CraftBase
from craftc.describe.facts import Facts
from craftc.describe.statistics import CategoricalColumn, Column, Parts
from craftc.describe.view import ClusterView, numbers_by_size


@dataclass(frozen=True)
class Feature:
    """A column in which a cluster differs from the whole table, by falling gain."""

    name: str
    short: str  # of at most 40 characters
    gain: float
    selected: bool
    column: Column
    levels: list[int]  # of a categorical column: the leading ones of the cluster

    def typical(self, k: int) -> Parts:
        """Typical value in cluster k; -1: in the whole table."""
        return self.column.typical(k, self.levels)

    def values(self, k: int) -> dict[str, object]:
        """The same for JSON."""
        column = self.column
        if isinstance(column, CategoricalColumn):
            shares = [] if np.isnan(column.shares[k]).any() else column.shares[k, self.levels].tolist()
            return {
                "levels": [
                    {"level": str(column.levels[t]), "share": share}
                    for t, share in zip(self.levels, shares, strict=False)
                ]
            }
        return {"mean": float(column.means[k]), "deviation": float(column.deviations[k])}


@dataclass(frozen=True)
class Cluster:
    """One cluster, with its number by size and its label in the model."""

    number: int
    label: int
    name: str
    rows: float
    share: float
    margin: float
    features: Sequence[Feature]


class Answer:
    """A fitted model, as its clusters from the largest to the smallest."""

    def __init__(self, model: CraftBase) -> None:
        self.model = model
        self.view: ClusterView = model._cluster_view()

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The clusters, largest first."""
        view, names = self.view, Facts(self.view).names()
        return [
            Cluster(
                number,
                k,
                names[k],
                view.sizes[k].item(),
                float(view.shares[k]),
                float(self.model.cluster_margins_[k]),
                [self._feature(k, d) for d in view.ranked(k)],
            )
            for number, k in enumerate(view.order.tolist(), 1)
        ]

    def _feature(self, k: int, d: int) -> Feature:
        view, column = self.view, self.view.statistics[d]
        levels = []
        if isinstance(column, CategoricalColumn):
            levels = column.leading(-1 if np.isnan(column.shares[k]).any() else k)
        return Feature(
            str(view.names[d]),
            view.short[d],
            float(view.gains[k, d]),
            bool(view.selected[k, d]),
            column,
            levels,
        )

    @cached_property
    def numbers(self) -> Labels:
        """(K,) number of the cluster with each label."""
        return numbers_by_size(self.view.sizes)
