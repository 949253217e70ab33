"""Attributes that describe the input of `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from craftc._common.estimator import frame_library
from craftc.table.mixed_table import MixedTable
from craftc.table.out_of_core import is_out_of_core


def read_input(X: Any, categorical: Any, missing: str) -> MixedTable:
    """The table of `fit`: in memory, or read in batches from files, a dataset or a stream."""
    if is_out_of_core(X):
        return MixedTable.from_parquet(X, categorical=categorical, missing=missing)
    return MixedTable.from_data(X, categorical=categorical, missing=missing)


def set_input_attributes(estimator: Any, X: Any, table: Any) -> None:
    """Set n_features_in_ and feature_names_in_ as scikit-learn does; called when nothing can be refused any
    more.

    The library of a data frame is kept as well, for tables that the estimator returns.
    """
    estimator._frame_library = frame_library(X)
    if (
        isinstance(X, MixedTable | Mapping | np.ndarray)
        or not isinstance(table, MixedTable)
        or is_out_of_core(X)
    ):
        estimator.n_features_in_ = table.schema.n_columns
        if table.schema.named:
            estimator.feature_names_in_ = np.array(table.schema.columns, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif table.schema.named and all(isinstance(name, str) for name in getattr(X, "columns", (None,))):
        estimator.n_features_in_, estimator.feature_names_in_ = (
            table.schema.n_columns,
            np.array(table.schema.columns, dtype=object),
        )
    else:
        validate_data(estimator, X, skip_check_array=True, reset=True)
