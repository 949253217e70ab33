"""Tables of numbers as scikit-learn reads them, with errors that name the column and the cell.

scikit-learn's `validate_data` reads the table. Only where it fails are the columns looked at one by one, to
say which cell is no number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from craftc._common.estimator import FittedColumns, column_names
from craftc._common.foreign_input import A_SERIES, columns_of_records, is_records, is_series, known_input
from craftc._common.messages import listed, warn_user
from craftc._common.threads import threads_for
from craftc._common.typing import Array, Bits, Floats
from craftc._kernels import moments as _kernel
from craftc.table.frames import as_frame, open_source, warn_of_rounding
from craftc.table.kinds import ColumnKind, float_of, is_missing
from craftc.table.level_column import infinite_cell

if TYPE_CHECKING:
    import pandas as pd

    from craftc.table.mixed_table import Schema

_NO_TARGET = "no_validation"  # of scikit-learn
_NO_NUMBER = (
    "Column {!r} cannot be read as numbers: every argument must be a string or a number that fits float64, "
    "got {}; {} takes numbers only: convert or drop the column, or use CRAFT, which reads categories."
)
_NO_DATE = (
    "Column {!r} cannot be read as numbers: it holds dates or durations ({}); {} takes numbers only: drop "
    "the column, or pass the table craftc.read_table(X), which makes days of dates."
)


def refuse_categories(schema: Schema, estimator_name: str) -> None:
    """Raise TypeError if a table has categorical columns."""
    for name, levels in zip(schema.categorical_names, schema.levels, strict=True):
        raise TypeError(_NO_NUMBER.format(name, repr(levels[0] if levels else "")[:60], estimator_name))


def read_numbers(
    estimator: object,
    X: object,
    *,
    reset: bool | None,
    dtype: DTypeLike | Sequence[DTypeLike] = np.float64,
    allow_nan: bool = False,
    finite: bool = True,
    min_rows: int = 1,
    **checks: object,
) -> Array:
    """Rows of numbers as a C-contiguous array, or a CSR array where `checks` accept one.

    `reset`: whether the columns are those of a fit, which sets n_features_in_ and feature_names_in_, or are
    compared with them; None: neither. `dtype`: types that stay as they are; others become the first of them.
    `allow_nan`: whether NaN is a missing cell. `finite`: whether cells that are not finite are refused;
    otherwise the caller calls :func:`finite_ranges`. `checks`: further arguments of scikit-learn's
    `check_array`.

    Raises TypeError: a column contains text, dates or other objects. Raises ValueError: fewer than `min_rows`
    rows, other columns than in `fit`, or a number that is not finite.
    """
    X = _readable(estimator, X)
    if reset is False:
        X = _in_order(X, getattr(estimator, "feature_names_in_", None))
    if isinstance(X, Mapping) and not issparse(X):
        return _read_columns(estimator, X, reset=reset, dtype=dtype, finite=finite, allow_nan=allow_nan)
    if not checks and _is_read(X, dtype) and len(X) >= min_rows:
        if reset:
            vars(estimator).pop("feature_names_in_", None)
            vars(estimator)["n_features_in_"] = X.shape[1]
        elif reset is not None:
            validate_data(estimator, X, reset=False, skip_check_array=True)
        read = X
    else:
        options = {**checks, "dtype": dtype, "ensure_min_samples": min_rows}
        read = _validated(estimator, X, _NO_TARGET, reset, options)
        if not issparse(read):
            read = np.require(read, requirements=["C", "ALIGNED"])
        if reset:
            _warn_of_levels(X, type(estimator).__name__)
    if finite:
        check_finite(read, estimator, allow_nan, X)
    return read


def read_for(function: str, X: object, accept_sparse: str) -> tuple[Array, list[str]]:
    """Rows of numbers as `read_numbers` returns them, and their names, for a function that errors name."""
    reader = type(function, (BaseEstimator,), {})()
    return read_numbers(reader, X, reset=True, accept_sparse=accept_sparse), column_names(reader)


def read_with_target(
    estimator: object, X: object, y: object, *, allow_nan: bool = False, **checks: object
) -> tuple[Array, Array]:
    """Rows of numbers of a fit, as `read_numbers` returns them, and their targets."""
    X = _readable(estimator, X)
    _refuse_missing_targets(y)
    if isinstance(X, Mapping) and not issparse(X):
        rows = _read_columns(estimator, X, reset=True, allow_nan=allow_nan)
        named = vars(estimator).pop("feature_names_in_")
        rows, target = _validated(estimator, rows, y, True, {**checks, "dtype": np.float64})
        vars(estimator)["feature_names_in_"] = named
    else:
        rows, target = _validated(estimator, X, y, True, {**checks, "dtype": np.float64})
        _warn_of_levels(X, type(estimator).__name__)
    check_finite(rows, estimator, allow_nan, X)
    return rows, target


def _refuse_missing_targets(y: object) -> None:
    """Raise ValueError if a target is missing."""
    targets = np.asarray(y)
    if targets.ndim != 1 or targets.dtype.kind not in "fO":
        return
    if targets.dtype.kind == "f":
        missing = np.isnan(targets)
    else:
        missing = np.array(
            [is_missing(cell) or (isinstance(cell, float) and cell != cell) for cell in targets]
        )
    if missing.any():
        raise ValueError(
            f"Input y contains NaN: {int(missing.sum())} of {len(targets)} targets are missing, the first in "
            f"row {int(missing.argmax())} (counted from 0); drop these rows from X and y."
        )


def _readable(estimator: object, X: object) -> object:
    """The input as an array, a frame, or a dict of columns."""
    X = known_input(X, in_batches=False)
    if is_series(X):
        raise ValueError(A_SERIES)
    if isinstance(X, Mapping) and not issparse(X):  # a sparse array in DOK format is a mapping, too
        return dict(X)
    if is_records(X):
        return columns_of_records(X)
    return _checked_integers(X)


def _in_order(X: object, known: Array | None) -> object:
    """A frame with the columns of a fit, in their order; others as they are."""
    if known is None or not hasattr(X, "columns"):
        return X
    frame = as_frame(X)
    if frame is None or frame.columns == known.tolist() or set(frame.columns) != set(known):
        return X
    return frame.select(known.tolist()).to_native()


def _checked_integers(X: object) -> object:
    """Numbers whose integers NumPy has; warns where float64 may not represent them."""
    if isinstance(X, np.ndarray):
        for j in range(X.shape[1]) if X.ndim == 2 and X.dtype.kind in "iuO" else ():
            warn_of_rounding(X[:, j], f"x{j}")
        return X
    frame = None if isinstance(X, list | tuple) else as_frame(X)
    if frame is None:
        return X
    wide = [str(name) for name, dtype in frame.schema.items() if str(dtype).endswith("Int128")]
    for series in frame.iter_columns():
        if (series.dtype.is_integer() or series.dtype == nw.Object) and series.name not in wide:
            warn_of_rounding(series.to_numpy(), str(series.name))
    return frame.with_columns(nw.col(*wide).cast(nw.Float64)).to_native() if wide else X


def _read_columns(
    estimator: object,
    X: Mapping[str, object],
    *,
    reset: bool | None,
    dtype: DTypeLike | Sequence[DTypeLike] = np.float64,
    finite: bool = True,
    allow_nan: bool = False,
) -> Array:
    """A dict of columns; after a fit on named columns they are found by name."""
    known = None if reset or reset is None else getattr(estimator, "feature_names_in_", None)
    if known is not None:
        given = {str(name): cells for name, cells in X.items()}
        if set(given) != set(known):
            missing, more = sorted(set(known) - set(given)), sorted(set(given) - set(known))
            raise ValueError(
                f"{type(estimator).__name__} was fitted on other columns: X lacks {missing} and has {more} "
                "more; pass the columns of fit."
            )
        X = {name: given[name] for name in known}
    _explain(X, type(estimator).__name__)
    source = open_source(X)
    narrow = all(source.narrow) and any(np.dtype(each) == np.float32 for each in _kept_types(dtype))
    block = source.numbers(np.arange(len(source.names)), np.dtype(np.float32 if narrow else np.float64))
    reset = None if known is not None else reset
    rows = read_numbers(estimator, block, reset=reset, dtype=dtype, finite=False)
    if reset:
        vars(estimator)["feature_names_in_"] = np.array(source.names, dtype=object)
    if finite:
        check_finite(rows, estimator, allow_nan, X)
    return rows


def _validated(
    estimator: object, X: object, y: object, reset: bool | None, options: Mapping[str, object]
) -> Any:
    """The rows, or rows and targets, as scikit-learn reads them; an error names the column and the cell."""
    _refuse_dates(X, type(estimator).__name__)
    checks = {**options, "order": "C", "ensure_all_finite": False}
    try:
        with np.errstate(over="ignore"):  # numbers that do not fit the dtype become infinite
            if reset is None:
                return check_array(X, estimator=estimator, input_name="X", **checks)
            return validate_data(estimator, X, y, reset=reset, **checks)
    except (TypeError, ValueError):
        _explain(X, type(estimator).__name__)
        if not _has_other_cells(X):
            raise
        cells = _with_nan(X)
        named = reset or hasattr(estimator, "feature_names_in_")  # otherwise the names have been warned of
        return _validated(estimator, cells if named else cells.to_numpy(), y, reset, options)


def _kept_types(dtype: DTypeLike | Sequence[DTypeLike]) -> Sequence[DTypeLike]:
    """The types of numbers that stay as they are, from one or several."""
    return dtype if isinstance(dtype, Sequence) and not isinstance(dtype, str) else (dtype,)


def _is_read(X: object, dtype: DTypeLike | Sequence[DTypeLike]) -> TypeGuard[Array]:
    """Whether X is an array that scikit-learn would return as it is."""
    if not isinstance(X, np.ndarray) or type(X) is not np.ndarray or X.ndim != 2 or not X.size:
        return False
    return (
        X.dtype in _kept_types(dtype) and X.flags.c_contiguous and X.flags.aligned
    )  # another byte order is another type


def finite_ranges(X: Array, estimator: object, n_threads: int) -> Floats:
    """(2, D) the smallest and the largest number of every column of a C-contiguous array (n, D) of floats, in
    one pass.

    Raises ValueError: a number is not finite.
    """
    ranges = np.empty((2, X.shape[1]))
    missing = _kernel.column_ranges(
        X, np.empty(0, np.int64), ranges[0], ranges[1], threads_for(n_threads, 2 * X.size)
    )
    if missing or not np.isfinite(ranges).all():
        check_finite(X, estimator, False)
    return ranges


def check_finite(X: Array | csr_array, estimator: object, allow_nan: bool, source: object = None) -> None:
    """Raise ValueError, which names the first column, unless the cells are finite; one sum shows it, unless
    it overflows.

    A product of vectors would wake the threads of BLAS, which wait for more work on the other processors for
    milliseconds. `source`: the input as it was passed, where its columns may be others than those of the fit.
    """
    cells = X.data if issparse(X) else X.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(cells)):
            return
    missing, infinite = np.isnan(cells), np.isinf(cells)
    refused = infinite if allow_nan or not missing.any() else missing
    if not refused.any():
        return
    row, d = np.argwhere(refused.reshape(X.shape))[0] if not issparse(X) else _place(X, refused)
    of_fit = source is None or issparse(source)
    names = column_names(cast(FittedColumns, estimator)) if of_fit else open_source(source).names
    name = str(names[d])
    if refused is infinite:
        raise infinite_cell(name, repr(X.dtype), allow_nan)
    raise ValueError(
        f"Input X contains NaN: {int(missing.sum())} missing cell(s), the first in column {name!r}, row "
        f"{row} (counted from 0). {type(estimator).__name__} needs every cell: drop these rows or columns, "
        "impute them, for example with sklearn.impute.SimpleImputer, or use CRAFT, which leaves them out."
    )


def _place(X: csr_array, stored: Bits) -> tuple[int, int]:
    """Row and column of the first of some stored cells."""
    first = int(stored.argmax())
    return int(np.searchsorted(X.indptr, first, side="right")) - 1, int(X.indices[first])


def _refuse_dates(X: object, estimator_name: str) -> None:
    """Raise TypeError for dates and durations, which scikit-learn converts to numbers silently where they are
    alone, or columns of Arrow.
    """
    dtype = getattr(X, "dtype", None)
    if getattr(dtype, "kind", "") in ("m", "M"):
        raise TypeError(_NO_DATE.format("x0", dtype, estimator_name))
    frame = as_frame(X) if hasattr(X, "columns") else None
    for name, kind in frame.schema.items() if frame is not None else ():
        if frame is not None and kind.is_temporal():
            cells = frame.get_column(name).drop_nulls().head(1).to_list()
            raise TypeError(_NO_DATE.format(str(name), str([*cells, kind][0])[:60], estimator_name))


def _explain(X: object, estimator_name: str) -> None:
    """Raise an error that names the column with a cell that is no number, if there is one."""
    if issparse(X):
        return
    source = open_source(X)
    for j, (name, kind) in enumerate(zip(source.names, source.kinds, strict=True)):
        if kind not in (ColumnKind.NUMBER, ColumnKind.EMPTY):
            for cell in source.cells(j):
                if float_of(cell) is None:
                    raise TypeError(_NO_NUMBER.format(name, repr(cell)[:60], estimator_name))


def _warn_of_levels(X: object, estimator_name: str) -> None:
    """Warn of columns of a frame that hold texts or categories, and were read because these are numbers."""
    if not hasattr(X, "columns"):
        return
    source = open_source(X)
    levels = [
        name
        for j, (name, kind) in enumerate(zip(source.names, source.kinds, strict=True))
        if kind.is_categorical
        and not all(isinstance(cell, bool | np.bool_) or is_missing(cell) for cell in source.cells(j))
    ]
    if levels:
        warn_user(
            f"{estimator_name} takes numbers only and reads the texts or categories of {listed(levels)} as "
            "numbers, so that 1 is nearer to 2 than to 4. Convert or drop these columns, or use CRAFT, which "
            "reads categories."
        )


def _has_other_cells(X: object) -> TypeGuard[pd.DataFrame]:
    """Whether a data frame of pandas whose cells are numbers cannot be converted only because of nulls in
    object columns, or of levels without rows in categorical ones.
    """
    if not (hasattr(X, "isna") and hasattr(X, "columns") and hasattr(X, "dtypes")):
        return False
    if any(dtype.name == "category" for dtype in X.dtypes):
        return True
    return bool((X.dtypes != np.float64).any()) and bool(X.isna().any(axis=None))


def _with_nan(X: pd.DataFrame) -> pd.DataFrame:
    """A data frame of pandas as float64, with NaN where it has NA."""
    return X.astype(object).where(X.notna(), np.nan).astype(np.float64)
