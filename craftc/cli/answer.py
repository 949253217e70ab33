"""What the command line says about a fitted model: its clusters from the largest to the smallest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from craftc._common.typing import Labels
from craftc.craft.base import CraftBase
from craftc.describe.facts import Facts
from craftc.describe.statistics import CategoricalColumn, Parts
from craftc.describe.view import ClusterView, numbers_by_size


@dataclass(frozen=True)
class Cluster:
    """One cluster, with its number by size and its label in the model."""

    number: int
    label: int
    name: str
    rows: float
    share: float
    margin: float
    features: Sequence[int]  # columns in which it differs from the whole table, by falling gain


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
                view.ranked(k),
            )
            for number, k in enumerate(view.order.tolist(), 1)
        ]

    @cached_property
    def numbers(self) -> Labels:
        """(K,) number of the cluster with each label."""
        return numbers_by_size(self.view.sizes)

    def typical(self, k: int, d: int) -> tuple[Parts, Parts]:
        """Typical values of a column in cluster k and in the whole table, of the levels leading in k."""
        column = self.view.statistics[d]
        levels = self._levels(k, d)
        return column.typical(k, levels), column.typical(-1, levels)

    def values(self, k: int, d: int, *, whole: bool) -> dict[str, object]:
        """The value in cluster k, or in the whole table, for JSON."""
        column, group = self.view.statistics[d], -1 if whole else k
        if not isinstance(column, CategoricalColumn):
            return {"mean": float(column.means[group]), "deviation": float(column.deviations[group])}
        known = not np.isnan(column.shares[group]).any()
        shares = [(t, float(column.shares[group, t])) for t in self._levels(k, d) if known]
        return {"levels": [{"level": str(column.levels[t]), "share": share} for t, share in shares]}

    def _levels(self, k: int, d: int) -> list[int]:
        """The leading levels of a column in cluster k; in the whole table, if the cluster has no values."""
        column = self.view.statistics[d]
        if not isinstance(column, CategoricalColumn):
            return []
        return column.leading(-1 if np.isnan(column.shares[k]).any() else k)
