"""The weights of rows: of the table of a fit, and of later ones that are compared with it or fitted again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import numpy as np

from craftc._common.messages import quoted
from craftc._common.typing import Floats
from craftc._common.validation import scaled_to_worth
from craftc.cli.arguments import WeighedOptions
from craftc.craft.answers.comparison import Comparison, Drift
from craftc.craft.base import CraftBase
from craftc.craft.fitted import WeightColumn
from craftc.reading.cells import have_leading_zeros
from craftc.reading.files import RawTable
from craftc.reading.input_file import TableError, did_you_mean
from craftc.reading.prepare import prepare
from craftc.reading.roles import Roles
from craftc.table import MixedTable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def weights_in(column: pd.DataFrame, na: Sequence[str]) -> Floats:
    """The weights of the rows, of the only column of a frame; TableError if cells are none."""
    name = str(column.columns[0])
    if have_leading_zeros([cell.strip() for cell in column[name] if isinstance(cell, str)]):
        raise TableError(f"--weight: column {quoted(name)} holds codes with leading zeros, no weights.")
    wanted = Roles(numeric=[name], kept=[name], numeric_problem="--weight needs numbers")
    read = prepare(RawTable(column), wanted, na_values=na, drop=False).frame[name]
    weights: Floats = read.to_numpy(np.float64, na_value=np.nan)
    if np.isnan(weights).any():
        raise TableError(
            f"--weight: column {quoted(name)} has {np.count_nonzero(np.isnan(weights))} missing cells; write "
            "0 for rows that count nothing."
        )
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        wrong = weights[~(np.isfinite(weights) & (weights >= 0.0))][0]
        raise TableError(f"--weight: column {quoted(name)} has {wrong:g}; weights are finite and >= 0.")
    return weights


def note_of_weights(column: str, total: float) -> str:
    """What sizes are if rows have weights."""
    return f"Rows count by their {quoted(column)}, {total:,.10g} in all: sizes are sums of it."


class LaterWeights:
    """The weights of rows that come after a fit: the column that --weight names, or else that of the fit."""

    def __init__(self, fitted: CraftBase, options: WeighedOptions) -> None:
        known, self._options = fitted._weight, options
        self.column = options.weight if known is None or options.weight is not None else known.column
        self.scaled = options.scale_weight or (known is not None and known.scaled)
        self._used = self._lacking = False

    @property
    def used(self) -> WeightColumn | None:
        """The column that weighs the rows; None if a table lacks it, or none is known."""
        return WeightColumn(self.column, self.scaled) if self.column is not None and self._used else None

    def of(self, names: Collection[str], cells: Callable[[str], pd.DataFrame]) -> Floats | None:
        """The weights of the rows of a table, not scaled; None if it lacks the column of the fit."""
        if self.column is None:
            return None
        if self.column in names:
            self._used = True
            return weights_in(cells(self.column), self._options.na)
        if self._options.weight is not None:
            known = did_you_mean(self.column, list(names))
            raise TableError(f"--weight: the table has no column {quoted(self.column)}.{known}")
        self._lacking = True
        return None

    def scale(self, weights: Floats | None) -> Floats | None:
        """The weights of all rows, scaled to the rows that they are worth if this was asked for."""
        return scaled_to_worth(weights) if self.scaled and weights is not None and weights.any() else weights

    def notes(self, total: float) -> list[str]:
        """How rows were counted, whose weights have this sum."""
        if self.column is None:
            return []
        said = [note_of_weights(self.column, total)] if self._used else []
        if self._lacking:
            rows = "Some files lack" if self._used else "The table lacks"
            said.append(
                f"Warning: {rows} the column {quoted(self.column)}, by which the rows of the fit count; each "
                "of their rows counts once here, so that shares and sizes are not comparable. --weight "
                "COLUMN names another one."
            )
        return said


class LaterRows:
    """Counts the rows of later tables, with their weights, to compare them with those of the fit."""

    def __init__(self, fitted: CraftBase, options: WeighedOptions) -> None:
        self._weights = LaterWeights(fitted, options)
        self._drift = Drift(fitted, scaled=self._weights.scaled)
        self.aside = self._weights.column  # a column that is used, though not by the model

    @property
    def weight(self) -> WeightColumn | None:
        """The column of the weights of these rows."""
        return self._weights.used

    @property
    def n_rows(self) -> int:
        return self._drift.n_rows

    def add(self, table: MixedTable, rows: pd.DataFrame | pa.Table) -> None:
        """Count rows, which are given as the model sees them, and as they are."""
        frame = nw.from_native(rows, eager_only=True)
        weights = self._weights.of(frame.columns, lambda name: frame.select(name).to_pandas())
        self._drift.add(table, weights)

    def comparison(self) -> Comparison:
        return self._drift.comparison()

    def notes(self) -> list[str]:
        """How the rows were counted."""
        return self._weights.notes(self._drift.weight) if self.n_rows else []
