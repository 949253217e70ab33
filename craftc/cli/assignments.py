"""The rows of a table with their clusters, for labels.csv and ``craftc predict``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from craftc._common.messages import need_pandas
from craftc._common.typing import Ints, Labels
from craftc.cli.columns import ColumnRoles
from craftc.craft import CRAFT
from craftc.craft.base import CraftBase
from craftc.craft.rows.scores import OUTLIER
from craftc.describe.view import numbers_of
from craftc.table import MixedTable
from craftc.table.other_ranges import warn_of_other_ranges

if TYPE_CHECKING:
    import pandas as pd

_ROWS_AT_ONCE = 1 << 16
_DIGITS = 6  # after the point of margins (nats) and probabilities


def assignments(
    model: CraftBase, table: MixedTable, labels: Labels | None = None, places: Ints | None = None
) -> Iterator[pd.DataFrame]:
    """Frames of some rows each: row, cluster, name, cost, margin, probability, next.

    `places` (n,): numbers of the rows in their file; None: 0, 1, 2, ...

    `cluster` and `next`, the cheapest of the other clusters, are numbers by size from 1, `name` is that of
    the cluster; with `outlier_price` a row that fits none has -1 and "outlier". `labels` (n,) replace the
    cheapest cluster of each row. `cost` is in nats, `margin` the nats by which `next` costs more.
    Missing: margin and next with one cluster, probability of a model that defines none.
    """
    pd, number_of = need_pandas(), numbers_of(model._fitted.by_number)
    several, clusters = len(number_of) > 1, model._fitted.clusters
    names = np.array(model.cluster_names_, object)
    n_threads = model._threads_of(min(len(table), _ROWS_AT_ONCE))
    for first in range(0, len(table), _ROWS_AT_ONCE):
        part = table.take(slice(first, first + _ROWS_AT_ONCE))
        n = len(part)
        warn_of_other_ranges(model._fitted.levels, part)
        seen = model._fitted.encoding.apply(part, n_threads=n_threads)  # once for costs and clusters
        costs = clusters.full_costs(seen).astype(model.schema_.dtype, copy=False)
        own = clusters.cheapest(seen, n_threads) if labels is None else labels[first : first + n]
        at = np.arange(n)
        cost = costs[at, own]
        probability = (
            softmax(-costs, axis=1)[at, own] if hasattr(model, "predict_proba") else np.full(n, np.nan)
        )
        others = costs.copy()
        others[at, own] = np.inf
        following = others.argmin(axis=1)
        inside = model._marked(own, seen) >= 0
        yield pd.DataFrame(
            {
                "row": at + first if places is None else places[first : first + n],
                "cluster": np.where(inside, number_of[own], OUTLIER),
                "name": np.where(inside, names[own], "outlier"),
                "cost": cost,
                "margin": np.round(others[at, following] - cost, _DIGITS) if several else np.full(n, np.nan),
                "probability": np.round(probability, _DIGITS),
                "next": number_of[following] if several else pd.array([pd.NA] * n, dtype="Int32"),
            }
        )


def encoded(fitted: CraftBase, rows: pd.DataFrame) -> MixedTable:
    """The rows as a model sees them."""
    return fitted.schema_.encode(rows, unknown=fitted.unknown, estimator_name="the model")


def labelled(model: CRAFT, roles: ColumnRoles, own_columns: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The assignments of the rows of a fit, and own columns."""
    table = roles.here
    assert table is not None  # workers that hold the rows write them: dask_cluster.write_by
    places = None
    if not isinstance(table, MixedTable):
        places = table.index.to_numpy()
        table = encoded(model, table)
    first = 0
    for frame in assignments(model, table, model._partition, places):
        own = own_columns.iloc[first : first + len(frame)].reset_index(drop=True)
        frame = frame.drop(columns="cost")
        own.columns = free_names(own.columns, frame.columns)
        yield frame.join(own)
        first += len(frame)


def free_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The names; ".table" is appended to names that are taken."""
    used, out = set(taken), []
    for name in names:
        while name in used:
            name = f"{name}.table"
        used.add(name)
        out.append(name)
    return out
