"""The rows that fit no cluster well, and which of their cells are odd, for the page and the JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.typing import Floats
from craftc.cli.assignments import encoded
from craftc.craft import CRAFT
from craftc.describe.columns import CategoricalColumn, NumericColumn
from craftc.describe.view import numbers_of
from craftc.table import MixedTable
from craftc.table.personal import is_personal

if TYPE_CHECKING:
    import pandas as pd

_ROWS, _CELLS = 3, 3  # that are shown, and cells of each
_ODD = 1.0  # nats of a cell that is shown


@dataclass
class OddCell:
    column: str
    value: str
    surprisal: float  # nats


@dataclass
class UnusualRow:
    """A row of the table, the number of its cluster, -1 for an outlier, and its odd cells."""

    row: int
    cluster: int
    score: float  # nats that it costs in its cluster, less those without clusters
    cells: list[OddCell]

    @property
    def text(self) -> str:
        cells = "; ".join(f"{each.column} {each.value} ({each.surprisal:+.1f})" for each in self.cells)
        return f"row {self.row} ({self.score:+.1f}): {cells or 'no cell alone is odd'}"


def unusual_rows(model: CRAFT, table: pd.DataFrame | MixedTable) -> list[UnusualRow]:
    """The rows of the highest outlier scores above 0."""
    worst = np.argsort(-model.outlier_scores_, kind="stable")[:_ROWS]
    worst = worst[model.outlier_scores_[worst] > 0.0]
    if model.n_clusters_ == 1 or not len(worst):
        return []
    if isinstance(table, MixedTable):
        rows, places = table.take(worst), worst
    else:
        rows, places = encoded(model, table.iloc[worst]), table.index.to_numpy()[worst]
    odd, number_of = np.asarray(model.surprisal(rows), np.float64), numbers_of(model._fitted.by_number)
    found = []
    for i, at in enumerate(worst.tolist()):
        label = int(model.labels_[at])
        found.append(
            UnusualRow(
                int(places[i]),
                int(number_of[label]) if label >= 0 else label,
                float(model.outlier_scores_[at]),
                _odd_cells(model, rows, i, odd[i]),
            )
        )
    return found


def _odd_cells(model: CRAFT, rows: MixedTable, i: int, odd: Floats) -> list[OddCell]:
    """The cells of row i with the largest surprisals, most first; none that may identify persons."""
    view, schema = model._input_clusters(), rows.schema
    numeric = {j: d for d, j in enumerate(schema.numeric_index.tolist())}
    categorical = {j: d for d, j in enumerate(schema.categorical_index.tolist())}
    cells: list[OddCell] = []
    for j in np.argsort(-np.nan_to_num(odd, nan=-np.inf), kind="stable").tolist():
        column, name = view.statistics[j], view.columns[j]
        if len(cells) == _CELLS or not odd[j] >= _ODD:
            break
        if isinstance(column, NumericColumn):
            value = column.text(float(rows.numeric[i, numeric[j]]))
        else:
            assert isinstance(column, CategoricalColumn)
            value = column.texts[int(rows.codes[i, categorical[j]])]
        if not is_personal(name, column.texts if isinstance(column, CategoricalColumn) else ()):
            cells.append(OddCell(name, value, float(odd[j])))
    return cells
