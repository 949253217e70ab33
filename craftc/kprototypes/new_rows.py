"""New rows under fitted prototypes: the nearest of them, and the dissimilarities to all."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import check_overflow, finite_result
from craftc._common.typing import Array, ColumnSelection, Floats, Labels, TableInput, WeightInput
from craftc._common.validation import check_weight
from craftc.distributed.collections import feature_names_out, rowwise
from craftc.kprototypes.fitted import Prototypes
from craftc.table import MixedTable, Schema
from craftc.table.declared import are_categorical


class PrototypePrediction(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of :class:`craftc.KModes` and :class:`craftc.KPrototypes`."""

    n_clusters_: int
    schema_: Schema
    unknown: str
    _prototypes: Prototypes

    def _threads(self) -> int:
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def _new_rows(self, X: TableInput) -> MixedTable:
        check_is_fitted(self)
        return self.schema_.encode(X, unknown=self.unknown, estimator_name=type(self).__name__)

    def predict(self, X: TableInput, categorical: ColumnSelection | int | None = None) -> Labels:
        """The nearest prototype of every row; columns and levels are matched by name.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D) or MixedTable
            The columns of `fit`, in any order if they have names.
        categorical : int, or list of names or positions, optional
            The categorical columns; must be those of `fit`. Needed by kmodes, but not here.

        Returns
        -------
        ndarray (n,) of int32
        """
        check_is_fitted(self)
        if categorical is not None:
            self._check_same_columns(categorical)
        return self._nearest(self._new_rows(X))[0]

    def _nearest(self, table: MixedTable) -> tuple[Labels, Floats]:
        """(n,) the nearest prototype of every row, and (n,) their dissimilarities; raise if one overflows."""
        labels, least = self._prototypes.nearest(table, self._threads())
        check_overflow(type(self).__name__, least)
        return labels, least

    def _check_same_columns(self, categorical: ColumnSelection | int) -> None:
        schema, given = self.schema_, as_columns(categorical)
        if not are_categorical(given, schema.columns, schema.named, schema.categorical_index.tolist()):
            raise ValueError(
                "categorical must name the categorical columns of fit, "
                f"{list(self.schema_.categorical_names)}, got {categorical!r}; leave it out."
            )

    @rowwise(feature_names_out, lambda model: model.schema_.dtype)
    @finite_result
    def transform(self, X: TableInput) -> Array:
        """Dissimilarity of every row to every prototype.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D) or MixedTable
            The columns of `fit`, in any order if they have names.

        Returns
        -------
        ndarray (n, K)
            The dissimilarity that `fit` minimises. The dtype is that of the numeric columns.
        """
        table = self._new_rows(X)
        out = self._prototypes.dissimilarities(table, self._threads())
        return out.astype(self.schema_.dtype, copy=False)

    @finite_result
    def score(self, X: TableInput, y: object = None, sample_weight: WeightInput = None) -> float:
        """Minus the summed dissimilarities of the rows and their nearest prototypes; higher is better.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D) or MixedTable
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        float
        """
        table = self._new_rows(X)
        weight = check_weight(sample_weight, len(table))
        least = self._nearest(table)[1]
        return -float(least.sum() if weight is None else (least * weight).sum())


def as_columns(given: ColumnSelection | int) -> ColumnSelection:
    """Categorical columns; kmodes takes one as its position."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return [int(given)]
    return given  # type: ignore[return-value]  # `column_mask` refuses a bool
