"""Ranges of columns: a check for overflow of squares, and a warning where columns differ in scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from craftc._common.messages import warn_user
from craftc._common.random import spread
from craftc._common.typing import Array, Floats


def column_ranges(X: Array | csr_array) -> tuple[Floats, Floats]:
    """(D,) smallest and largest number of every column without NaN; inf and -inf where there is none."""
    if issparse(X):
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    low = np.fmin.reduce(X, axis=0, initial=np.inf).astype(np.float64)
    high = np.fmax.reduce(X, axis=0, initial=-np.inf).astype(np.float64)
    return low, high


# largest ratio of standard deviations without a warning; beyond, a column has 1 % of the squared distances
COMMENSURATE = 10.0
_NARROW = 0.1  # quantile of the deviations that is compared: a few narrow columns are no sign of other units
_FEWEST = 20  # rows of a table whose deviations are certain enough
ROWS_COMPARED = 10_000  # rows, spread evenly over the table, that are compared
_COLUMNS_AT_ONCE = 32  # columns copied to float64 at a time; bounds memory
_ROWS_AT_FIRST = 256  # rows that show a third value of most columns
_CENTRED = 0.25  # root mean square of means, in standard deviations, of columns that are all centred


def warn_of_unscaled_columns(
    estimator: object, X: Array, known: Floats | None = None, names: Sequence[str] | None = None
) -> None:
    """Warn if the standard deviations of columns differ by more than a factor of 10, as those of different
    units do.

    The widest column is compared with the 10 % quantile of the deviations, interpolated on a logarithmic
    scale. Units are not known, so some tables are taken for tables of one unit, whatever their deviations
    are. These are columns with a common minimum (pixels, counts), and columns that are all centred at 0
    (scores of a principal component analysis, whose variances fall; standardised columns). Columns of one or
    two values (indicators) are not compared, nor are tables of fewer than 20 rows, whose deviations are
    uncertain. At most 10 000 rows are looked at.

    ``warnings.filterwarnings("ignore", "Columns differ in scale")`` silences the warning for columns that
    share a unit all the same.

    `estimator`: fitted on the columns; its class is named, and its feature_names_in_ are used. `X` (n,
    D): finite. `known` (4, D): smallest and largest value, standard deviation and mean of every column,
    where all rows have been summed already. `names`: of the columns, where X has only some of the table's.
    """
    if len(X) < _FEWEST or X.shape[1] < 2:
        return
    if known is not None and _commensurate(known[2][known[2] > 0]):  # whichever of them are compared
        return
    rows = np.arange(len(X)) if len(X) <= ROWS_COMPARED else spread(len(X), ROWS_COMPARED, 0)
    blocks = [slice(first, first + _COLUMNS_AT_ONCE) for first in range(0, X.shape[1], _COLUMNS_AT_ONCE)]
    if known is None:
        known = np.concatenate([_scales(X[rows, block].astype(np.float64)) for block in blocks], axis=1)
    compared = np.flatnonzero(
        np.concatenate([_varied(X[:, block], rows, known[:, block]) for block in blocks])
    )
    if len(compared) < 2:
        return
    low, _, deviation, mean = known[:, compared]
    if _commensurate(deviation):
        return
    narrow, wide = int(deviation.argmin()), int(deviation.argmax())
    least = np.exp(np.quantile(np.log(deviation), _NARROW))
    commensurate = (
        deviation[wide] <= COMMENSURATE * least
        or (low == low[0]).all()
        or (np.mean((mean / deviation) ** 2) <= _CENTRED**2)
    )
    if commensurate:
        return
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    (wide_name, narrow_name) = (
        repr(str(names[j])) if names is not None else f"column {j}" for j in compared[[wide, narrow]]
    )
    warn_user(
        f"Columns differ in scale: the standard deviation of {wide_name} is {deviation[wide]:.4g}, that of "
        f"{narrow_name} {deviation[narrow]:.4g}. {type(estimator).__name__} compares them in their own "
        f"units, so that {narrow_name} has hardly any influence. Scale the columns, for example with "
        "sklearn.preprocessing.StandardScaler, or use CRAFT, which needs no scaling."
    )


def _commensurate(deviation: Floats) -> bool:
    """Whether standard deviations, if there are any, differ by no more than the factor."""
    return bool(deviation.max(initial=0.0) <= COMMENSURATE * deviation.min(initial=np.inf))


def _scales(rows: Floats) -> Floats:
    """(4, D) smallest and largest value, standard deviation and mean of every column."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    reach = high / 2 - low / 2  # unit in which squares do not overflow
    step = (rows / 2 - low / 2) / np.where(reach > 0, reach, 1.0)
    mean, deviation = low + 2.0 * reach * step.mean(axis=0), 2.0 * reach * step.std(axis=0)
    return np.array([low, high, deviation, mean])


def _varied(X: Array, rows: NDArray[np.intp], known: Floats) -> NDArray[np.bool_]:
    """(D,) whether some of the rows have a third value, between the smallest and the largest one."""
    few = X[rows[:_ROWS_AT_FIRST]]
    varied: NDArray[np.bool_] = ((few > known[0]) & (few < known[1])).any(axis=0)
    left = np.flatnonzero(~varied)
    cells = X[rows[:, None], left]
    varied[left] = ((cells > known[0, left]) & (cells < known[1, left])).any(axis=0)
    return varied
