"""The rows of a table with their clusters, for labels.csv and ``craftc predict``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np
from scipy.special import softmax

from craftc._common.messages import need_pandas
from craftc._common.typing import Labels
from craftc.cli.answer import numbers_by_size
from craftc.table import MixedTable

_ROWS_AT_ONCE = 1 << 16
_FORMULAS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "＝",
    "＋",
    "－",
    "＠",
)  # first characters; spreadsheets normalise the wide ones
_CRLF = "\r\n"
_DIGITS = 6  # after the point of margins (nats) and probabilities


def assignments(model: Any, table: MixedTable, labels: Labels | None = None) -> Iterator[Any]:
    """Frames of some rows each: row, cluster, cost, margin, probability, next.

    Parameters
    ----------
    model : CRAFT
        Fitted.
    table : MixedTable
        Rows of its schema.
    labels : ndarray (n,), optional
        Clusters of the rows; None: the cheapest.

    Yields
    ------
    pandas.DataFrame
        `cluster` and `next`, the cheapest of the other clusters, are numbers by size from 1. `cost` in nats,
        `margin` by how many nats the next cluster costs more. Missing: margin and next with one cluster,
        probability of a model that defines none.
    """
    pd, number_of = need_pandas(), numbers_by_size(model.cluster_sizes_)
    several = len(number_of) > 1
    for first in range(0, len(table), _ROWS_AT_ONCE):
        part = table.take(slice(first, first + _ROWS_AT_ONCE))
        n = len(part)
        costs = model.transform(part)
        own = model.predict(part) if labels is None else labels[first : first + n]
        at = np.arange(n)
        cost = costs[at, own]
        probability = (
            softmax(-costs, axis=1)[at, own] if hasattr(model, "predict_proba") else np.full(n, np.nan)
        )
        others = costs.copy()
        others[at, own] = np.inf
        following = others.argmin(axis=1)
        yield pd.DataFrame(
            {
                "row": np.arange(first, first + n),
                "cluster": number_of[own],
                "cost": cost,
                "margin": np.round(others[at, following] - cost, _DIGITS) if several else np.full(n, np.nan),
                "probability": np.round(probability, _DIGITS),
                "next": number_of[following] if several else pd.array([pd.NA] * n, dtype="Int32"),
            }
        )


def without_formulas(frame: Any) -> Any:
    """A frame with an apostrophe before the names and texts that a spreadsheet would take as formulas;
    numbers stay as they are.
    """
    is_numeric = need_pandas().api.types.is_numeric_dtype
    columns = {
        _no_formula(name): column if is_numeric(column.dtype) else column.map(_no_formula, na_action="ignore")
        for name, column in frame.items()
    }
    return need_pandas().DataFrame(columns, index=frame.index)


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write_csv(frames: Iterable[Any], file: IO[Any]) -> None:
    """Write frames with the same columns one after the other as CSV, in the form of numbers that reads back
    to the same bits.
    """
    lines: Any = _Lines(file)
    for i, frame in enumerate(frames):
        frame.to_csv(lines, index=False, header=i == 0, lineterminator="\r\n")


class _Lines:
    """Writes lines that end with CR LF with LF: the module csv quotes only cells with characters of its own
    line ends.
    """

    def __init__(self, file: IO[Any]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        """Write one line."""
        self._file.write(f"{line.removesuffix(_CRLF)}\n")
