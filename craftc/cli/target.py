"""Comparison of clusters with a column that was not used for clustering: known classes, or a quantity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc import metrics
from craftc._common.messages import need_pandas
from craftc._common.typing import Floats
from craftc.describe.columns import NumericColumn, typical_text
from craftc.describe.statistics import MOST_NUMBERED_CLASSES, amounts
from craftc.describe.words import clean, lift, percent, with_share

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Classes:
    name: str
    n_missing: int  # rows without a class, which are excluded
    classes: list[str]  # from the most to the least frequent
    counts: NDArray[np.int64]  # (K, n_classes) rows of each cluster, by size, and class
    purity: float | None  # None without any class
    nmi: float | None  # None with fewer than two classes, as ari
    ari: float | None

    def of_cluster(self, position: int) -> str:
        """The class of a cluster whose share exceeds the table's most, as in the report, both shares and
        their ratio, the lift: "present 79 % (44 %, 1.80)".
        """
        counts = self.counts[position]
        if not counts.any():
            return ""
        shares = counts / counts.sum()
        best = int((shares - self.shares).argmax())
        share, of_table = float(shares[best]), float(self.shares[best])
        text = with_share(clean(self.classes[best]), share)
        return f"{text} ({percent(of_table)}, {lift(share, of_table)})"

    @property
    def shares(self) -> Floats:
        """(n_classes,) shares of the classes in the whole table."""
        return np.asarray(self.counts.sum(axis=0) / max(self.counts.sum(), 1))

    def agreement(self) -> str:
        """The line of measures."""
        if self.purity is None:
            return "no value in any row"
        measures = [("purity", self.purity), ("NMI", self.nmi), ("ARI", self.ari)]
        text = ", ".join(f"{name} {value:.3f}" for name, value in measures if value is not None)
        return text.replace(", NMI", f" (one cluster {self.shares[0]:.3f}), NMI")

    def values(self, position: int) -> dict[str, object]:
        """Shares of the classes in a cluster, and what these are times those of the table, for JSON."""
        counts = self.counts[position]
        shares = counts / max(counts.sum(), 1)
        named = [each for each in zip(self.classes, shares, self.shares, strict=True) if each[1] > 0]
        return {
            "shares": {name: float(share) for name, share, _ in named},
            "lift": {name: float(share / of_table) for name, share, of_table in named},
        }

    def measures(self) -> dict[str, object]:
        """Agreement, for JSON."""
        measures = {"purity": self.purity, "nmi": self.nmi, "ari": self.ari}
        shares = dict(zip(self.classes, self.shares.tolist(), strict=True))
        return {"kind": "classes", "classes": self.classes, "shares": shares, **measures}


@dataclass(frozen=True)
class Amounts:
    """Clusters and a quantity."""

    name: str
    n_missing: int  # rows without a value, which are excluded
    column: NumericColumn  # in the clusters, by size, and in the whole table
    explained: float  # share of the variance that lies between the clusters

    def of_cluster(self, position: int) -> str:
        return typical_text(parts) if (parts := self.column.typical(position)) else ""

    def agreement(self) -> str:
        whole = typical_text(self.column.typical(-1))
        return f"{whole} in the whole table; clusters explain {percent(self.explained)} of the variance"

    def values(self, position: int) -> dict[str, object]:
        column = self.column
        return {"mean": float(column.means[position]), "deviation": float(column.deviations[position])}

    def measures(self) -> dict[str, object]:
        return {"kind": "numbers", **self.values(-1), "explained_variance": self.explained}


def without_infinities(target: pd.Series, notes: list[str]) -> pd.Series:
    """A target whose infinite values are missing, which adds a note."""
    if not need_pandas().api.types.is_float_dtype(target.dtype):
        return target
    infinite = np.isinf(target.to_numpy(np.float64, na_value=np.nan))
    if infinite.any():
        notes.append(
            f"{str(target.name)!r} is infinite in {int(infinite.sum())} row(s), which are taken as rows "
            "without a value."
        )
    return target.mask(infinite)


def compare(name: str, target: pd.Series, positions: NDArray[np.int32], n_clusters: int) -> Classes | Amounts:
    """Compare a target with the position of every row's cluster; at most 20 distinct numbers are classes."""
    present = target.notna().to_numpy()
    n_missing = int((~present).sum())
    target, positions = target[present], positions[present]
    types = need_pandas().api.types
    if (
        types.is_numeric_dtype(target.dtype)
        and not types.is_bool_dtype(target.dtype)
        and target.nunique() > MOST_NUMBERED_CLASSES
    ):
        return _amounts(name, n_missing, target.to_numpy(np.float64), positions, n_clusters)
    codes, names = need_pandas().factorize(target.map(str), sort=True)
    if not len(names):
        return Classes(name, n_missing, [], np.zeros((n_clusters, 0), np.int64), None, None, None)
    counts = np.bincount(positions * len(names) + codes, minlength=n_clusters * len(names))
    counts = counts.reshape(n_clusters, -1)
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    nmi, ari, classes = None, None, [str(each) for each in names[order]]
    if len(names) > 1:
        nmi, ari = metrics.nmi(codes, positions), metrics.adjusted_rand_index(codes, positions)
    return Classes(name, n_missing, classes, counts[:, order], metrics.purity(codes, positions), nmi, ari)


def _amounts(
    name: str, n_missing: int, values: Floats, positions: NDArray[np.int32], n_clusters: int
) -> Amounts:
    count = np.bincount(positions, minlength=n_clusters)
    exponent = int(np.frexp(np.abs(values).max())[1])
    ends = float(values.min()), float(values.max())
    values = np.ldexp(values, -exponent)  # squares neither overflow nor vanish
    mean, deviation = float(values.mean()), float(values.std())
    with np.errstate(invalid="ignore"):
        means = mean + np.bincount(positions, values - mean, n_clusters) / count
        # once more, so that the mean of equal values is exact
        means += np.bincount(positions, values - means[positions], n_clusters) / count
        deviations = np.sqrt(np.bincount(positions, (values - means[positions]) ** 2, n_clusters) / count)
    between = float(np.nansum(count * (means - mean) ** 2)) / len(values)
    explained = between / deviation**2 if deviation > 0 else 0.0
    means, deviations = np.append(means, mean), np.append(deviations, deviation)
    column = amounts(name, np.ldexp(means, exponent), np.ldexp(deviations, exponent), ends)
    return Amounts(name, n_missing, column, explained)
