"""What the command line says about a fitted model: clusters numbered by size, with the features that define
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats
from craftc.cli.text import Parts, after, name_of
from craftc.craft.summary import differing_features
from craftc.describe.frames import LEADING, short_number
from craftc.describe.statistics import CategoricalColumn, NumericColumn, column_statistics

_NEARLY_ALL = 0.995  # share of the cells from which only the leading level is shown


def order_by_size(sizes: NDArray[Any]) -> NDArray[np.intp]:
    """The labels of clusters from the largest to the smallest; of equal ones the lower label first."""
    return np.argsort(-sizes, kind="stable")


def numbers_by_size(sizes: NDArray[Any]) -> NDArray[np.int32]:
    """The number 1, 2, ... of the cluster with each label: 1 is the largest."""
    number_of = np.empty(len(sizes), np.int32)
    number_of[order_by_size(sizes)] = np.arange(1, len(sizes) + 1, dtype=np.int32)
    return number_of


@dataclass(frozen=True)
class Quantity:
    """A numeric column in a group of rows; None where all cells are missing."""

    mean: float | None
    deviation: float | None
    unit: float  # standard deviation in the whole table

    def parts(self) -> Parts:
        """The cell "54.4 ± 9.1"."""
        return (
            []
            if self.mean is None or self.deviation is None
            else [(typical(self.mean, self.deviation, self.unit), "")]
        )

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {"mean": self.mean, "deviation": self.deviation}


@dataclass(frozen=True)
class Shares:
    """Leading levels of a categorical column in a group of rows, with their shares of the present cells."""

    levels: list[tuple[str, float]]

    def parts(self) -> Parts:
        """The cell "male 97 %, female 3 %", or "2: 73 %, 1: 27 %"."""
        return [(name := name_of(level), after(name, share)) for level, share in self.levels]

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {"levels": [{"level": level, "share": share} for level, share in self.levels]}


@dataclass(frozen=True)
class Feature:
    """A column in which a cluster differs from the whole table, by falling gain."""

    name: str
    gain: float
    selected: bool
    cluster: Quantity | Shares
    table: Quantity | Shares


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


@dataclass
class Answer:
    """A fitted model, as its clusters from the largest to the smallest.

    Parameters
    ----------
    model : CRAFT
        Fitted.
    """

    model: Any
    clusters: list[Cluster] = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        sizes, whole = model.cluster_sizes_, float(model.cluster_sizes_.sum())
        differs, columns = (
            differing_features(model),
            column_statistics(model._moments_original_units, model.schema_),
        )
        gains = np.where(differs, model.feature_gains_, 0.0)
        self.clusters = []
        for number_, k in enumerate(order_by_size(sizes).tolist(), 1):
            listed = np.flatnonzero(differs[k])
            features = [
                Feature(
                    str(model.schema_.columns[d]),
                    float(gains[k, d]),
                    bool(model.feature_mask_[k, d]),
                    *_typical_values(columns[d], k),
                )
                for d in listed[np.argsort(-gains[k, listed], kind="stable")]
            ]
            margin = float(model.cluster_margins_[k])
            self.clusters.append(
                Cluster(
                    number_,
                    k,
                    model.cluster_names_[k],
                    sizes[k].item(),
                    float(sizes[k]) / whole,
                    margin,
                    features,
                )
            )

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """(K,) number of the cluster with each label."""
        return numbers_by_size(self.model.cluster_sizes_)


def _typical_values(
    column: NumericColumn | CategoricalColumn, k: int
) -> tuple[Quantity | Shares, Quantity | Shares]:
    """Typical values of a column in cluster k, and in the whole table: of a categorical one the leading
    levels of the cluster in both.
    """
    if isinstance(column, NumericColumn):
        everywhere = Quantity(column.mean, column.deviation, column.deviation)
        if np.isnan(column.means[k]):
            return Quantity(None, None, column.deviation), everywhere
        return Quantity(float(column.means[k]), float(column.deviations[k]), column.deviation), everywhere
    own, whole = column.shares[k], column.share
    leading = whole if np.isnan(own).any() else own
    order = [t for t in np.argsort(-leading, kind="stable")[:LEADING] if leading[t] > 0]
    order = order[:1] if leading[order[0]] >= _NEARLY_ALL else order

    def of(share: Floats) -> Shares:
        return Shares(
            [] if np.isnan(share).any() else [(str(column.levels[t]), float(share[t])) for t in order]
        )

    return of(own), of(whole)


def typical(centre: float, around: float, unit: float) -> str:
    """Mean and standard deviation as "54.4 ± 9.1"; `unit` is the standard deviation in the whole table."""
    if abs(centre) < 1e-6 * unit:
        centre = 0.0
    if around < 1e-6 * unit:
        return f"all {short_number(centre)}" if unit > 0 else short_number(centre)
    return f"{short_number(centre)} ± {short_number(around)}"
