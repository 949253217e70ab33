"""Rows of a report: how certain they are, and which are typical or unusual in their cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.typing import Floats, Ints, Labels
from craftc.craft.answers.interpretation import Interpreted
from craftc.describe.words import percent
from craftc.report.columns import DrawnColumn
from craftc.report.target import Target
from craftc.table import MixedTable

if TYPE_CHECKING:
    from craftc.craft.base import CraftBase

BETWEEN = 0.6  # probability below which a row lies between clusters
_ROWS = 1 << 15  # whose probabilities are computed at a time
_SHOWN = 3
_CANDIDATES = 30  # typical rows; the ones that differ are shown
_APART = 2  # cells in which two typical rows differ
_LEAST_ODD = 0.05  # nats of a cell that is odd, as far as they are shown


@dataclass
class Certainty:
    """Of every row: its number, cost and probability of its cluster, and the next cluster, in the page's
    order.
    """

    number: Ints
    cost: Floats
    probability: Floats
    second: Labels


def certainty(model: CraftBase, table: MixedTable, labels: Labels, order: Ints, numbers: Ints) -> Certainty:
    """Probabilities of all rows; `order` holds the model's label of every cluster of the page."""
    out = Certainty(numbers, np.empty(len(table)), np.empty(len(table)), np.full(len(table), -1, np.int32))
    for first in range(0, len(table), _ROWS):
        rows = slice(first, first + _ROWS)
        cost = np.asarray(model.transform(table.take(rows)), dtype=np.float64)[:, order]
        own, each = labels[rows], np.arange(len(cost))
        out.cost[rows] = cost[each, own]
        likelihood = np.exp(cost.min(axis=1, keepdims=True) - cost)
        out.probability[rows] = likelihood[each, own] / likelihood.sum(axis=1)
        if len(order) > 1:
            cost[each, own] = np.inf
            out.second[rows] = cost.argmin(axis=1)
    return out


@dataclass
class Row:
    """One row of the table: its number, cells, probability and target."""

    number: int
    cells: list[str]
    why: list[str]  # how rare each cell is; empty for a typical row
    probability: str
    target: str = ""


def typical(
    candidates: Ints, columns: list[DrawnColumn], table: MixedTable, sure: Certainty, target: Target | None
) -> list[Row]:
    """The first of a cluster's best described rows that differ in two of these columns, or else one."""
    columns = [column for column in columns if not column.personal]
    cells = {int(i): [column.cell(table, int(i)) for column in columns] for i in candidates[:_CANDIDATES]}
    chosen: list[int] = []
    for apart in range(min(_APART, len(columns)), 0, -1):
        for i, row in cells.items():
            differs = all(sum(a != b for a, b in zip(row, cells[j], strict=True)) >= apart for j in chosen)
            if len(chosen) < _SHOWN and i not in chosen and differs:
                chosen.append(i)
    return [_row(i, cells[i], [], sure, target) for i in chosen]


def _row(i: int, cells: list[str], why: list[str], sure: Certainty, target: Target | None) -> Row:
    of_target = "" if target is None else target.cell(i)
    return Row(int(sure.number[i]), cells, why, percent(float(sure.probability[i])), of_target)


def unusual(
    model: CraftBase,
    members: Ints,
    columns: list[DrawnColumn],
    table: MixedTable,
    sure: Certainty,
    target: Target | None,
) -> list[Row]:
    """The rows that their cluster describes worst, with the cells that are oddest in it, by `surprisal`, or
    rarest; cells that may identify persons are not among them.
    """
    worst = members[np.argsort(-sure.cost[members], kind="stable")[:_SHOWN]].tolist()
    odd = np.zeros((len(worst), len(columns)))
    if isinstance(model, Interpreted):
        odd = np.nan_to_num(np.asarray(model.surprisal(table.take(np.array(worst, np.intp))), np.float64))
    rare: list[list[tuple[float, float, str, str]]] = [[] for _ in worst]
    for j, column in ((j, each) for j, each in enumerate(columns) if not each.personal):
        values = (table.numeric if column.numeric else table.codes)[:, column.place]
        inside = values[members]
        for found, i, own in zip(rare, worst, (-odd[:, j]).tolist(), strict=True):
            value, cell = values[i], f"{column.short} {column.cell(table, i)}"
            if column.numeric and not np.isnan(value):
                present = max(int((~np.isnan(inside)).sum()), 1)
                above, below = int((inside >= value).sum()) / present, int((inside <= value).sum()) / present
                tail, words = min(above, below), "top" if above < below else "bottom"
                found.append((own, tail, cell, f"{words} {percent(tail)}"))
            elif not column.numeric and value < len(table.levels[column.place]):
                known = inside < len(table.levels[column.place])
                share = int((inside == value).sum()) / max(int(known.sum()), 1)
                found.append((own, share, cell, f"in {percent(share)}"))
    rows = []
    for i, found in zip(worst, rare, strict=True):
        rarest = sorted(found, key=lambda each: each[:2])[:_SHOWN]
        odder = sum(-own >= _LEAST_ODD for own, *_ in rarest)
        rarest = rarest[: max(odder, 1)] if rarest and rarest[0][0] else rarest
        nats = [f"{why}, {-own:+.1f} nats" if own else why for own, _, _, why in rarest]
        rows.append(_row(i, [cell for _, _, cell, _ in rarest], nats, sure, target))
    return rows
