"""Answers of a fitted CRAFT about rows that fit no cluster and cells that are odd in the cluster of their
row; craftc/craft/rows/unusual.py defines both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.estimator import frame_library, output_frame
from craftc._common.messages import warn_user
from craftc._common.typing import Labels, OutputFrame, TableInput
from craftc.craft.answers.rules import Ruled
from craftc.craft.rows.scores import RowStatistics
from craftc.craft.rows.unusual import OUTLIER, is_whole_table, marked, outlier_scores_of, surprisals
from craftc.describe.words import percent, plural
from craftc.distributed.collections import rowwise
from craftc.table import MixedTable


class WithOutliers(Ruled):
    """Methods of a model that may leave rows out of its clusters."""

    outlier_price: float | None
    outlier_scores_: NDArray[np.float32]

    def _marked(self, labels: Labels, table: MixedTable) -> Labels:
        if self.outlier_price is None:
            return labels
        clusters = self._fitted_clusters()
        return marked(labels, outlier_scores_of(clusters, table), float(self.outlier_price), clusters)

    def _set_rows(self, statistics: RowStatistics) -> None:
        super()._set_rows(statistics)
        self.__dict__.pop("outlier_scores_", None)
        if len(statistics.outlier_scores):  # rows of a collection have theirs from `outlier_scores`
            self.outlier_scores_ = statistics.outlier_scores

    def _mark_outliers(self) -> None:
        """Mark the outliers among the labels of the fit, whose scores are known."""
        if self.outlier_price is not None:
            self._clusters_of_rows, price = self.labels_, float(self.outlier_price)
            self.labels_ = marked(self.labels_, self.outlier_scores_, price, self._fitted_clusters())
            if (self.labels_ == OUTLIER).all():
                warn_user(self._all_marked(price))

    def _all_marked(self, price: float) -> str:
        n, most = len(self.outlier_scores_), max(-float(self.outlier_scores_.min()), 0.0)
        return (
            f"All {plural(n, 'row')} have the label {OUTLIER}: no row saves more than {most:.3g} nats in a "
            f"cluster, and outlier_price={price:g} asks for more; the sizes and distributions of the "
            "clusters contain them."
        )

    def _notes(self) -> list[str]:
        notes, labels = super()._notes(), getattr(self, "labels_", None)
        if self.outlier_price is None or not isinstance(labels, np.ndarray):
            return notes
        n, price = int(np.count_nonzero(labels == OUTLIER)), float(self.outlier_price)
        if is_whole_table(self._fitted_clusters()):
            alone = "The only cluster describes every row as the table does"
            return [*notes, f"{alone}: outlier_price={price:g} leaves out none."]
        if self._clusters_of_rows is None:  # their scores are not known
            return [
                *notes,
                f"The labels of the fit mark no outliers: predict(X) does, by outlier_price={price:g}.",
            ]
        if n == len(labels):
            return [*notes, self._all_marked(price)]
        share = percent(n / max(len(labels), 1))
        return [
            *notes,
            f"{n} of {plural(len(labels), 'row')} ({share}) fit no cluster and have the label {OUTLIER}; the "
            "sizes and distributions of the clusters contain them.",
        ]

    @rowwise("outlier_score", "float32")
    def outlier_scores(self, X: TableInput) -> NDArray[np.float32]:
        """What every row costs in its cheapest cluster, less what it costs without clusters, in nats.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n,) of float32
            Higher is more unusual. Above 0 the table's own distributions of the columns describe the row
            better than any cluster. `outlier_price=P` labels the rows above -P by -1, unless the whole table
            is one cluster, in which every row has 0.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> model = CRAFT(random_state=0).fit(heart)
        >>> bool((model.outlier_scores(heart) == model.outlier_scores_).all())
        True
        """
        return outlier_scores_of(self._fitted_clusters(), self._read_new(X))

    def surprisal(self, X: TableInput) -> OutputFrame:
        """How odd every cell is in the cluster of its row, in nats.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            The columns of the model and the rows of X: minus the log probability of the cell in the cheapest
            cluster of the row, less the mean of this in the cluster. 0: as usual; 3: a cell e^3 = 20 times as
            rare as usual. Missing cells, and levels that `fit` has not seen, are NaN. A column in a
            covariance is described given the row's other cells there. Weights of columns do not count. A
            polars frame for a polars frame, otherwise pandas, with the index of X.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> model = CRAFT(random_state=0).fit(heart)
        >>> odd = model.surprisal(heart.iloc[model.outliers(1)])
        >>> odd.iloc[0].nlargest(3).index.tolist()
        ['slope', 'chest_pain', 'fbs']
        """
        columns, library = self._read_columns(X), frame_library(X)
        fitted = self._fitted_state()
        table = fitted.encoding.apply(columns)
        found = surprisals(fitted.clusters, table, fitted.encoding.source, fitted.schema.n_columns)
        index = getattr(X, "index", None) if library == "pandas" else None
        return output_frame(dict(zip(fitted.schema.columns, found.T, strict=True)), library, {}, index)
