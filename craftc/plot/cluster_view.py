"""What the plots show of a fitted model: clusters and their labels, columns and rows; new figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Array, Ints, Labels
from craftc.craft.base import CraftBase
from craftc.describe.facts import Facts, names_of
from craftc.describe.overview import HtmlOverview
from craftc.describe.view import ClusterView
from craftc.describe.words import CELL, distinct, shortened
from craftc.mixture.estimator import FeatureSelectionMixture
from craftc.reading.unusable import known_columns
from craftc.table.frames import open_source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ClusterModel: TypeAlias = CraftBase | FeatureSelectionMixture

#: Colour of a cluster, and of the whole table.
CLUSTER, TABLE, TABLE_LINE = "#0B7A75", "#C9CED6", "#7C8590"
#: Behind text on a drawing; an outline of the letters would save them as curves.
HALO = {"boxstyle": "square,pad=0.08", "facecolor": "#FFFFFFB0", "edgecolor": "none"}
_LONG = 48  # characters of a label
_LETTER = 0.068  # inches of a letter in 8 points


class DrawnClusters:
    """The clusters of a fitted model, with the labels of axes.

    `function`: the plot, for errors. `by_input`: whether each answer is a column, as in the table.
    """

    def __init__(self, model: object, function: str, *, by_input: bool = False) -> None:
        if not isinstance(model, HtmlOverview):
            raise TypeError(
                f"plot.{function} draws the clusters of CRAFT and FeatureSelectionMixture, got "
                f"{type(model).__name__}."
            )
        check_is_fitted(model)
        grouped: ClusterView = model._shown_clusters()
        self.view = model._input_clusters() if by_input else grouped
        self.facts = Facts(self.view)
        names, K = names_of(grouped), len(self.view.sizes)
        self.labels = [
            f"cluster {k}" if names is None else plain(shortened(f"{k}: {names[k]}", _LONG)) for k in range(K)
        ]

    def columns(self, most: int = CELL) -> list[str]:
        """Names of the D columns, shortened."""
        return [plain(name) for name in distinct(self.view.columns, most)]

    def position(self, feature: object) -> int:
        """Position of a column that is given by its name or by its position."""
        names, features = list(map(str, self.view.names)), list(map(str, self.view.features))
        if isinstance(feature, int | np.integer) and not isinstance(feature, bool):
            if 0 <= feature < len(names):
                return int(feature)
        elif str(feature) in (*names, *features):
            return (names if str(feature) in names else features).index(str(feature))
        shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        wanted = f"a column of the model or its position, got {feature!r}"
        raise ValueError(f"feature must be {wanted}; the columns are {shown}.")

    def chosen(self, clusters: ArrayLike | None) -> Ints:
        """The clusters to draw, by default all, the largest first."""
        if clusters is None:
            return self.view.order
        wanted, K = np.atleast_1d(np.asarray(clusters)), len(self.view.sizes)
        whole = wanted.ndim == 1 and wanted.size and wanted.dtype.kind in "iu"
        if not whole or wanted.min() < 0 or wanted.max() >= K:
            raise ValueError(f"clusters must be numbers of clusters from 0 to {K - 1}, got {clusters!r}.")
        return np.asarray(wanted, np.intp)


def plain(text: str) -> str:
    """A text that matplotlib shows as it is."""
    return text.replace("$", r"\$")


def inches(texts: Sequence[str]) -> float:
    """About the width of the longest of some texts in 8 points."""
    return _LETTER * max(map(len, texts))


class PlottedColumn(NamedTuple):
    """A column of rows that are drawn."""

    values: Array  # (n,) numbers, NaN = missing; or codes of levels
    n_levels: int  # 0: numbers; otherwise the code of a missing cell


def read_rows(model: ClusterModel, X: Any) -> tuple[list[PlottedColumn], Labels]:
    """The columns of a table, in the order of the model's, and the predicted cluster of every row; of an
    outlier the cheapest one.
    """
    if not isinstance(model, CraftBase):
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
    labels = model.predict(table)
    outliers = np.flatnonzero(labels < 0)  # of a model with `outlier_price`
    if len(outliers):
        labels[outliers] = model.transform(table.take(outliers)).argmin(axis=1)
    return [columns[d] for d in range(schema.n_columns)], labels


def new_figure(size: tuple[float, float]) -> Figure:
    """A new pyplot figure of this size in inches."""
    try:
        import matplotlib.pyplot as plt

        from craftc.plot.figure import PaperFigure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'craftc[app]'.") from error
    return plt.figure(figsize=size, layout="constrained", FigureClass=PaperFigure)
