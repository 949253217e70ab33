"""Rows that are drawn with a fitted model: their cells and their clusters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from craftc._common.typing import Array, Labels
from craftc.craft.estimator import CRAFT
from craftc.reading.unusable import known_columns
from craftc.table.frames import open_source


class Cells(NamedTuple):
    """A column of a table."""

    values: Array  # (n,) numbers, NaN = missing; or codes of levels
    n_levels: int  # 0: numbers; otherwise the code of a missing cell


def read_rows(model: Any, X: Any) -> tuple[list[Cells], Labels]:
    """The columns of a table, in the order of the model's, and the predicted cluster of every row."""
    if not isinstance(model, CRAFT):
        labels = model.predict(X)
        numbers = open_source(X).numbers(np.arange(model.n_features_in_), np.dtype(np.float64))
        return [Cells(column, 0) for column in numbers.T], labels
    schema = model.schema_
    if model.unusable == "drop":
        X = known_columns(X, schema.columns)
    table = schema.encode(X, unknown=model.unknown, estimator_name="CRAFT")
    columns = dict(
        zip(schema.numeric_index.tolist(), (Cells(column, 0) for column in table.numeric.T), strict=True)
    )
    codes = zip(schema.categorical_index.tolist(), table.codes.T, schema.n_levels.tolist(), strict=True)
    columns |= {d: Cells(column, n_levels) for d, column, n_levels in codes}
    return [columns[d] for d in range(schema.n_columns)], model.predict(table)
