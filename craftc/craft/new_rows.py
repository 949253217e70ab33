"""New rows under a fitted CRAFT: their clusters and costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.threads import effective_n_threads, threads_for
from craftc._common.validation import check_weight
from craftc.craft.clusters import pass_work
from craftc.craft.probabilities import Probabilities
from craftc.distributed.collections import rowwise
from craftc.reading.unusable import known_columns
from craftc.table import MixedTable
from craftc.table.estimator_input import read_input
from craftc.table.out_of_core import is_out_of_core


class NewRows(Probabilities):
    """Methods of `CRAFT` for new rows; columns and levels are matched by name."""

    def _read_new(self: Any, X: Any) -> MixedTable:
        table = self._read_columns(X)
        encoded: MixedTable = self._encoding.apply(table)
        return encoded

    def _read_columns(self: Any, X: Any) -> MixedTable:
        """The columns of the model in their original units."""
        check_is_fitted(self)
        if is_out_of_core(X):  # the table of fit; new rows come in batches
            X = read_input(X, list(self.schema_.categorical_names), self.missing)
        elif self.unusable == "drop":
            X = known_columns(X, self.schema_.columns)
        table: MixedTable = self.schema_.encode(X, unknown=self.unknown, estimator_name=type(self).__name__)
        return table

    @rowwise("cluster", "int32")
    def predict(self: Any, X: Any) -> NDArray[np.int32]:
        """Cheapest cluster of every row; columns and levels are matched by name.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy
            The columns of `fit`, in any order if they have names.

        Returns
        -------
        ndarray (n,) of int32
        """
        table = self._read_new(X)
        labels = np.full(len(table), -1, np.int32)
        work = pass_work(len(table), len(self._encoding.source), self.n_clusters_)
        threads = threads_for(effective_n_threads(self.n_threads), work)
        self._clusters.assign(table, np.empty(0, np.int64), labels, threads)
        return labels

    def score(self: Any, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the summed cost of the rows under their cheapest cluster, nats; higher is better.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        float
        """
        table = self._read_new(X)
        weight = check_weight(sample_weight, len(table))
        least = self._clusters.full_costs(table).min(axis=1)
        return -float(least.sum() if weight is None else (least * weight).sum())
