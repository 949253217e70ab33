"""What the command line says about a fitted model: clusters numbered by size, with the features that define each."""

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
from craftc.table.cluster_summary import LEADING, number
from craftc.table.moments import Moments


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
        return [] if self.mean is None or self.deviation is None else [(typical(self.mean, self.deviation, self.unit), "")]

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
        differs, typical_of = differing_features(model), _TypicalValues(model)
        gains = np.where(differs, model.feature_gains_, 0.0)
        self.clusters = []
        for number_, k in enumerate(order_by_size(sizes).tolist(), 1):
            listed = np.flatnonzero(differs[k])
            features = [
                Feature(
                    str(model.schema_.columns[d]), float(gains[k, d]), bool(model.feature_mask_[k, d]), *typical_of.cells(k, int(d))
                )
                for d in listed[np.argsort(-gains[k, listed], kind="stable")]
            ]
            margin = float(model.cluster_margins_[k])
            self.clusters.append(
                Cluster(number_, k, model.cluster_names_[k], sizes[k].item(), float(sizes[k]) / whole, margin, features)
            )

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """(K,) number of the cluster with each label."""
        return numbers_by_size(self.model.cluster_sizes_)


class _TypicalValues:
    """Typical values of columns in a cluster and in the whole table, in the units of the table."""

    def __init__(self, model: Any) -> None:
        self._schema, self._moments = model.schema_, model._moments_original_units
        total = self._moments.total()
        self._counts, self._count_of_all, self._present = self._moments.counts, total.counts[0], self._moments.present
        self._centre, self._deviation = _in_units(self._moments)
        self._centre_of_all, self._deviation_of_all = _in_units(total)
        numeric, categorical = self._schema.numeric_index.tolist(), self._schema.categorical_index.tolist()
        self._position = {d: j for j, d in enumerate(numeric)} | {d: j for j, d in enumerate(categorical)}
        self._numeric = set(numeric)

    def cells(self, k: int, d: int) -> tuple[Quantity | Shares, Quantity | Shares]:
        """Typical values of column d in cluster k, and in the whole table."""
        return self._quantities(k, self._position[d]) if d in self._numeric else self._shares(k, self._position[d])

    def _quantities(self, k: int, j: int) -> tuple[Quantity, Quantity]:
        unit = float(self._deviation_of_all[0, j])
        everywhere = Quantity(float(self._centre_of_all[0, j]), unit, unit)
        if self._present[k, j] <= 0:
            return Quantity(None, None, unit), everywhere
        return Quantity(float(self._centre[k, j]), float(self._deviation[k, j]), unit), everywhere

    def _shares(self, k: int, j: int) -> tuple[Shares, Shares]:
        """The leading levels of the cluster in both; of nearly equal cells only one level."""
        levels, start = self._schema.levels[j], self._moments.grid.level_start[j]
        at = slice(start, start + len(levels))
        own, everywhere = self._counts[k, at], self._count_of_all[at]
        leading = own if own.any() else everywhere
        order = [t for t in np.argsort(-leading, kind="stable")[:LEADING] if leading[t] > 0]
        order = order[:1] if leading[order[0]] >= 0.995 * leading.sum() else order

        def shares(counts: Floats) -> Shares:
            return Shares([(str(levels[t]), float(counts[t] / counts.sum())) for t in order] if counts.any() else [])

        return shares(own), shares(everywhere)


def _in_units(moments: Moments) -> tuple[Any, Any]:
    """Means and standard deviations, (K, p) each, in the units of the columns."""
    mean, deviations = moments.means()
    variance = deviations / np.maximum(moments.present, 1e-300)
    return moments.grid.centre + mean / moments.grid.scale, np.sqrt(variance) / moments.grid.scale


def typical(centre: float, around: float, unit: float) -> str:
    """Mean and standard deviation as "54.4 ± 9.1"; `unit` is the standard deviation in the whole table."""
    if abs(centre) < 1e-6 * unit:
        centre = 0.0
    if around < 1e-6 * unit:
        return f"all {_short(centre)}" if unit > 0 else _short(centre)
    return f"{_short(centre)} ± {_short(around)}"


def _short(value: float) -> str:
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
