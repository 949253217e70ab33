"""Input of estimators: tables, arrays, frames, and files that are read in batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.estimator import FittedColumns
from craftc._common.own_names import remember_input
from craftc._common.typing import Array, FileInput
from craftc.table.numbers import check_finite, read_numbers
from craftc.table.out_of_core import is_out_of_core, read_blocks

#: Fitted arrays that kernels read, by column, and the attribute that is their number of rows.
_BY_COLUMN = {"cluster_centers_": "n_clusters_", "features_": "n_features_"}


def check_fitted_arrays(model: FittedColumns) -> None:
    """Raise ValueError if a fitted array has been replaced by one that kernels cannot read."""
    for name, length in _BY_COLUMN.items():
        array = getattr(model, name, None)
        if array is None:
            continue
        shape = (getattr(model, length), model.n_features_in_)
        whole = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.flags.c_contiguous
        if not whole or array.shape != shape:
            found = (
                f"{array.dtype} of shape {array.shape}"
                if isinstance(array, np.ndarray)
                else type(array).__name__
            )
            raise ValueError(
                f"{name} must be a C-contiguous array of float64 of shape {shape}, {length} and "
                f"n_features_in_, as fit has set it, got {found}; fit again."
            )


class DenseInput:
    """Input of numbers: float32 stays float32, everything else becomes float64."""

    n_features_in_: int
    feature_names_in_: Array

    def _read_rows(self, X: object, reset: bool, **checks: Any) -> Array:
        """The rows as a C-contiguous array; `reset`: set n_features_in_ and names, else compare."""
        checks |= {"dtype": [np.float64, np.float32]}
        if not reset:
            check_fitted_arrays(self)
        if is_out_of_core(X):
            return self._read_batches(X, reset, checks)
        rows = read_numbers(self, X, reset=reset, **checks)
        if reset:
            remember_input(self, X)
        return rows

    def _read_batches(self, X: FileInput, reset: bool, checks: dict[str, Any]) -> Array:
        """The rows of files, a dataset or a stream, in a scratch file; columns are found by name."""
        known = None if reset else getattr(self, "feature_names_in_", None)
        read = read_blocks(X, None, None, None if known is None else known.tolist(), None)
        names = np.array(read.plan.names, dtype=object)
        finite = checks.pop("finite", True)
        # the columns of the block have been chosen by name
        rows = read_numbers(
            self, read.numeric, reset=reset if known is None else None, finite=False, **checks
        )
        if reset:
            self.feature_names_in_ = names
            remember_input(self, None)
        if finite:
            check_finite(rows, self, checks.get("allow_nan", False))
        return rows
