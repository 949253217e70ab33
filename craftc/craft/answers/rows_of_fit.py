"""What a fitted CRAFT knows of the rows of its fit."""

from __future__ import annotations

import numpy as np

from craftc._common.threads import effective_n_threads
from craftc._common.typing import Array, Floats, Labels, WeightInput
from craftc.craft.fitted import FittedClusters
from craftc.table import MixedTable


class RowsOfFit:
    """The clusters of the rows of a fit, and checks that a table has these rows."""

    n_threads: int | None
    cluster_sizes_: Array
    labels_: Labels
    _fitted: FittedClusters
    _clusters_of_rows: Labels | None = None  # where `labels_` marks outliers

    @property
    def _partition(self) -> Labels | None:
        """The clusters of the rows of the fit, outliers included, unless only a collection knows them."""
        own = self._clusters_of_rows
        labels = getattr(self, "labels_", None) if own is None else own
        return labels if isinstance(labels, np.ndarray) else None

    def _marked(self, labels: Labels, table: MixedTable) -> Labels:
        """The labels of encoded rows, where those of outliers may be -1."""
        return labels

    def _n_rows(self) -> int:
        """Rows of the fit; those of a collection, or of a model that has left it, have no weights."""
        labels = getattr(self, "labels_", None)
        return len(labels) if isinstance(labels, np.ndarray) else int(self.cluster_sizes_.sum())

    def _rows_of_fit(self, columns: MixedTable, weight: WeightInput) -> tuple[MixedTable, Floats | None]:
        """The table of `fit` as the model sees it, from its columns in their original units, and its weights;
        raise ValueError for another table or other weights.

        The exact sums of the clusters show whether the rows are those of the fit, in its order; a collection
        is not checked.
        """
        table, threads = self._fitted.encoding.apply(columns), effective_n_threads(self.n_threads)
        weights = self._fitted.check_rows(table, weight, self._n_rows(), self._partition, threads)
        return table, weights
