"""What the plots of clusters show of a fitted model: clusters by size, their labels, and statistics of every
column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import column_names
from craftc._common.typing import Bits, Floats, Ints
from craftc.craft.estimator import CRAFT
from craftc.craft.summary import differing_features
from craftc.describe.statistics import CategoricalColumn, NumericColumn, column_statistics
from craftc.mixture.estimator import FeatureSelectionMixture

#: Colour of a cluster, and of the whole table.
CLUSTER, TABLE, TABLE_LINE = "#0B7A75", "#C9CED6", "#7C8590"
_LONG = 48  # characters of a label
_LETTER = 0.068  # inches of a letter in 8 points


class ClusterView:
    """A fitted model as the plots read it.

    Parameters
    ----------
    model : CRAFT or FeatureSelectionMixture
    function : str
        Name of the plot, for errors.

    Attributes
    ----------
    columns : list of str
        Names of the D input columns.
    statistics : list of NumericColumn or CategoricalColumn
        Of the D input columns.
    sizes : ndarray (K,)
    order : ndarray (K,) of int
        Clusters, the largest first.
    differs : ndarray (K, D) of bool
        Features in which a cluster differs from the whole table.
    shared : ndarray (K, D) of bool
        Features of which a cluster has the distribution of two or more clusters.
    gains : ndarray (K, D)
        Nats.
    """

    def __init__(self, model: Any, function: str) -> None:
        if not isinstance(model, CRAFT | FeatureSelectionMixture):
            raise TypeError(
                f"plot.{function} draws the clusters of CRAFT and FeatureSelectionMixture, got "
                f"{type(model).__name__}."
            )
        check_is_fitted(model)
        self.sizes: Floats = np.asarray(model.cluster_sizes_, np.float64)
        self.order: Ints = np.argsort(-self.sizes, kind="stable")
        self.gains: Floats = model.feature_gains_
        self.statistics: Sequence[NumericColumn | CategoricalColumn]
        self.differs: Bits
        if isinstance(model, CRAFT):
            self.columns = [str(name) for name in model.schema_.columns]
            self.statistics = column_statistics(model._moments_original_units, model.schema_)
            self.differs = differing_features(model)
        else:
            self.columns = [str(name) for name in column_names(model)]
            scaling = model._posterior.scaling
            own = zip(
                model.means_.T,
                np.sqrt(model.variances_.T),
                scaling.mean,
                np.sqrt(scaling.variance),
                strict=True,
            )
            self.statistics = [
                NumericColumn(means, deviations, float(mean), float(sd))
                for means, deviations, mean, sd in own
            ]
            self.differs = model.feature_mask_
        selected = np.asarray(model.feature_mask_)
        self.shared: Bits = ~selected & ((~selected).sum(axis=0) > 1)
        self.importances: Floats = np.where(self.differs, self.gains, 0.0).sum(axis=0)
        names = getattr(model, "cluster_names_", None)  # the mixture has none
        self.labels = [
            f"cluster {k}" if names is None else shortened(f"{k}: {names[k]}") for k in range(len(self.sizes))
        ]

    @property
    def shares(self) -> Floats:
        """(K,) shares of the rows."""
        return np.asarray(self.sizes / self.sizes.sum())

    def position(self, feature: Any) -> int:
        """Position of a column that is given by its name or by its position."""
        if isinstance(feature, int | np.integer) and not isinstance(feature, bool):
            if 0 <= feature < len(self.columns):
                return int(feature)
        elif str(feature) in self.columns:
            return self.columns.index(str(feature))
        raise ValueError(
            f"feature must be a column of the model or its position, got {feature!r}; the columns are "
            f"{self._listed()}."
        )

    def _listed(self) -> str:
        shown = ", ".join(map(repr, self.columns[:12]))
        return shown if len(self.columns) <= 12 else f"{shown}, ..."

    def chosen(self, clusters: Iterable[int] | int | None) -> Ints:
        """The clusters to draw, by default all, the largest first."""
        if clusters is None:
            return self.order
        wanted = np.atleast_1d(np.asarray(clusters))
        K = len(self.sizes)
        if (
            wanted.ndim != 1
            or not wanted.size
            or wanted.dtype.kind not in "iu"
            or wanted.min() < 0
            or wanted.max() >= K
        ):
            raise ValueError(f"clusters must be numbers of clusters from 0 to {K - 1}, got {clusters!r}.")
        return np.asarray(wanted, np.intp)


def shortened(text: str, most: int = _LONG) -> str:
    """At most `most` characters of a text that matplotlib shows as it is."""
    text = " ".join(text.split())
    short = text if len(text) <= most else text[: most - 1].rstrip() + "…"
    return short.replace("$", r"\$")


def inches(texts: Iterable[str]) -> float:
    """About the width of the longest of some texts in 8 points."""
    return _LETTER * max(map(len, texts))


def percent(share: float) -> str:
    """Whole per cent; 0 and 100 only where they are exact."""
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"
