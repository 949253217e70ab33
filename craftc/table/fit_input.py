"""Conversion of the input of `fit` to a mixed table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from craftc.table.mixed_table import MixedTable


def read_table(estimator: Any, X: Any, *, categorical: Any, missing: str) -> MixedTable:
    """Convert the input of `fit` to a table, and set n_features_in_ and feature_names_in_ as scikit-learn does."""
    table = MixedTable.from_data(X, categorical=categorical, missing=missing)
    if isinstance(X, MixedTable):
        estimator.n_features_in_ = table.schema.n_columns
        if table.schema.named:
            estimator.feature_names_in_ = np.array(table.schema.columns, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    else:
        validate_data(estimator, X, skip_check_array=True, reset=True)
    return table
