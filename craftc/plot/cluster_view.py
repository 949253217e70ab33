"""What the plots show of a fitted model: clusters by size, their labels, statistics and rows; new figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import column_names
from craftc._common.typing import Array, Bits, Floats, Ints, Labels
from craftc.craft.estimator import CRAFT
from craftc.craft.summary import differing_features
from craftc.describe.statistics import CategoricalColumn, NumericColumn, column_statistics
from craftc.mixture.estimator import FeatureSelectionMixture
from craftc.reading.unusable import known_columns
from craftc.table.frames import open_source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


class PlottedColumn(NamedTuple):
    """A column of rows that are drawn."""

    values: Array  # (n,) numbers, NaN = missing; or codes of levels
    n_levels: int  # 0: numbers; otherwise the code of a missing cell


def read_rows(model: CRAFT | FeatureSelectionMixture, X: Any) -> tuple[list[PlottedColumn], Labels]:
    """The columns of a table, in the order of the model's, and the predicted cluster of every row."""
    if not isinstance(model, CRAFT):
        labels = model.predict(X)
        numbers = open_source(X).numbers(np.arange(model.n_features_in_), np.dtype(np.float64))
        return [PlottedColumn(column, 0) for column in numbers.T], labels
    schema = model.schema_
    if model.unusable == "drop":
        X = known_columns(X, schema.columns)
    table = schema.encode(X, unknown=model.unknown, estimator_name="CRAFT")
    numeric = zip(schema.numeric_index.tolist(), table.numeric.T, strict=True)
    codes = zip(schema.categorical_index.tolist(), table.codes.T, schema.n_levels.tolist(), strict=True)
    columns = {d: PlottedColumn(column, 0) for d, column in numeric}
    columns |= {d: PlottedColumn(column, n_levels) for d, column, n_levels in codes}
    return [columns[d] for d in range(schema.n_columns)], model.predict(table)


def new_figure(size: tuple[float, float]) -> Figure:
    """Create a pyplot figure of this size in inches, or raise ImportError with the command that installs
    matplotlib.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'craftc[app]'.") from error
    return plt.figure(figsize=size, layout="constrained")
