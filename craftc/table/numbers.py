"""Tables of numbers as scikit-learn reads them, with errors that name the column and the cell.

scikit-learn's `validate_data` reads the table. Only where it fails are the columns looked at one by one, to
say which cell is no number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_array, validate_data

from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._kernels import moments as _kernel
from craftc.table.frames import as_frame, open_source
from craftc.table.kinds import Kind

_NO_TARGET = "no_validation"  # of scikit-learn
_NO_NUMBER = (
    "Column {!r} cannot be read as numbers: every argument must be a string or a number that fits float64, "
    "got {}; {} takes numbers only: convert or drop the column, or use CRAFT, which reads categories."
)


def read_numbers(
    estimator: Any,
    X: Any,
    y: Any = _NO_TARGET,
    *,
    reset: bool | None,
    dtype: Any = np.float64,
    allow_nan: bool = False,
    finite: bool = True,
    min_rows: int = 1,
    **checks: Any,
) -> Any:
    """Rows of numbers as a C-contiguous array or a CSR array.

    `y`: checked together with X where it is passed; the result is a pair then. `reset`: whether the
    columns are those of a fit, which sets n_features_in_ and feature_names_in_, or are compared with
    them; None: neither. `dtype`: types that stay as they are; others become the first of them.
    `allow_nan`: whether NaN is a missing cell. `finite`: whether cells that are not finite are refused;
    if not, the caller does that by :func:`finite_ranges`. `min_rows`: tables with fewer rows are refused.
    `**checks`: further arguments of scikit-learn's `check_array`.

    Raises TypeError: a column contains text, dates or other objects. Raises ValueError: the table has too
    few rows, other columns than in `fit`, or a number that is not finite.
    """
    if isinstance(X, Mapping) and not issparse(X):  # a sparse array in DOK format is a mapping, too
        raise TypeError(
            f"{type(estimator).__name__} takes an array or a data frame, got {type(X).__name__}; pass "
            "pandas.DataFrame(X)."
        )
    if not checks and y is _NO_TARGET and _is_read(X, dtype) and len(X) >= min_rows:
        if reset:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = X.shape[1]
        elif reset is not None:
            validate_data(estimator, X, reset=False, skip_check_array=True)
        if finite:
            _check_finite(X, estimator, allow_nan)
        return X
    options = {
        **checks,
        "dtype": dtype,
        "order": "C",
        "ensure_all_finite": False,
        "ensure_min_samples": min_rows,
    }
    _refuse_dates(X, type(estimator).__name__)
    try:
        with np.errstate(over="ignore"):  # numbers that do not fit the dtype become infinite
            if reset is None:
                read = check_array(X, estimator=estimator, input_name="X", **options)
            else:
                read = validate_data(estimator, X, y, reset=reset, **options)
    except (TypeError, ValueError) as error:
        _explain(X, type(estimator).__name__)
        if not _has_nulls(X):
            raise error
        numbers, options = (
            _with_nan(X),
            {**checks, "dtype": dtype, "allow_nan": allow_nan, "finite": finite, "min_rows": min_rows},
        )
        return read_numbers(estimator, numbers, y, reset=reset, **options)
    if finite:
        _check_finite(read[0] if isinstance(read, tuple) else read, estimator, allow_nan)
    return read


def _is_read(X: Any, dtype: Any) -> bool:
    """Whether X is an array that scikit-learn would return as it is."""
    if type(X) is not np.ndarray or X.ndim != 2 or not X.size:
        return False
    kept = dtype if isinstance(dtype, Sequence) else (dtype,)
    return X.dtype in kept and X.flags.c_contiguous and X.flags.aligned  # another byte order is another type


def finite_ranges(X: NDArray[Any], estimator: Any, n_threads: int) -> Floats:
    """(2, D) the smallest and the largest number of every column of a C-contiguous array (n, D) of floats, in
    one pass.

    Raises ValueError: a number is not finite.
    """
    ranges = np.empty((2, X.shape[1]))
    missing = _kernel.column_ranges(
        X, np.empty(0, np.int64), ranges[0], ranges[1], threads_for(n_threads, 2 * X.size)
    )
    if missing or not np.isfinite(ranges).all():
        with np.errstate(over="ignore", invalid="ignore"):
            assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
    return ranges


def _check_finite(X: Any, estimator: Any, allow_nan: bool) -> None:
    """Raise ValueError unless the cells are finite; one sum shows it, unless it overflows.

    A product of vectors would wake the threads of BLAS, which wait for more work on the other processors for
    milliseconds.
    """
    cells = X.data if issparse(X) else X.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(cells.sum()):
            assert_all_finite(X, allow_nan=allow_nan, estimator_name=type(estimator).__name__, input_name="X")


def _refuse_dates(X: Any, estimator_name: str) -> None:
    """Raise TypeError for dates and durations alone, which scikit-learn converts to numbers without a word."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind in ("m", "M"):
        raise TypeError(_NO_NUMBER.format("x0", X.dtype, estimator_name))
    if hasattr(X, "columns"):
        frame = as_frame(X)
        if isinstance(frame, nw.DataFrame) and frame.shape[1] and frame[:, 0].dtype.is_temporal():
            raise TypeError(_NO_NUMBER.format(str(frame.columns[0]), frame[:, 0].dtype, estimator_name))


def _explain(X: Any, estimator_name: str) -> None:
    """Raise an error that names the column of a table that cannot be read; return if the columns are not the
    reason.
    """
    if issparse(X):
        return
    source = open_source(X)
    frame: Any = as_frame(X) if source.named else np.asarray(X, dtype=object)
    for j, (name, kind) in enumerate(zip(source.names, source.kinds, strict=True)):
        if kind not in (Kind.NUMBER, Kind.EMPTY):
            for cell in frame[:, j].to_list() if source.named else frame[:, j]:
                if not _is_number(cell):
                    raise TypeError(_NO_NUMBER.format(name, repr(cell)[:60], estimator_name))


def _has_nulls(X: Any) -> bool:
    """Whether columns of objects or of nullable types are the only reason why a data frame of pandas cannot
    be converted.
    """
    return (
        hasattr(X, "isna")
        and hasattr(X, "columns")
        and bool((X.dtypes != np.float64).any())
        and bool(X.isna().any(axis=None))
    )


def _with_nan(X: Any) -> Any:
    """A data frame of pandas as float64, with NaN where it has NA."""
    return X.astype(object).where(X.notna(), np.nan).astype(np.float64)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
