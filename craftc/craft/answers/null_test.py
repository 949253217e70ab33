"""Whether a table has structure: fits of tables with permuted columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from craftc._common.merge_path import objectives_of
from craftc._common.random import SAMPLE_ROWS, CraftStream, spread, uniform
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Array, DaskClient, Floats, Ints, TableInput, WeightInput
from craftc.craft.answers.stability import agreement_of, refit
from craftc.craft.base import CraftBase
from craftc.describe.words import nats, number, plural, range_of
from craftc.distributed.open_input import FitTable, open_input
from craftc.table import MixedTable

if TYPE_CHECKING:
    from craftc.distributed.partitioned_table import PartitionedTable


@dataclass(frozen=True, repr=False)
class NullTest:
    """Savings of clusters in a table and in tables without structure; the result of ``CRAFT.null_test``.

    Attributes
    ----------
    saving : float
        Nats by which the clusters of the table are shorter than one cluster; below 0 if a given number of
        clusters costs more.
    n_clusters : int
        Clusters of the table.
    null_savings : ndarray (n,) of float64
        The same saving in every table with permuted columns.
    null_n_clusters : ndarray (n,) of int
        Clusters of these tables.
    n_rows : int
        Rows of these tables.
    sampled : bool
        Whether they are a sample of the table, on which `saving` and `n_clusters` are those of a refit.
    one_and_two : (float, float) or None
        J of one cluster, and of the best partition into two, in nats, if no clusters were found.
    agreement : float or None
        Adjusted Rand index of this refit with the model on the sample; None if it is the whole table.
    """

    saving: float
    n_clusters: int
    null_savings: Floats
    null_n_clusters: Ints
    n_rows: int
    sampled: bool
    one_and_two: tuple[float, float] | None = None
    agreement: float | None = None

    @property
    def p_value(self) -> float:
        """(1 + tables with permuted columns that save at least as much) / (n + 1)."""
        return (1 + int((self.null_savings >= self.saving).sum())) / (len(self.null_savings) + 1)

    def __repr__(self) -> str:
        saves = f"{plural(self.n_clusters, 'cluster')} save {nats(self.saving)} nats"
        if self.n_clusters == 1:
            saves = "1 cluster"
        if self.one_and_two is not None:
            one, two = self.one_and_two
            saves = f"no clusters found: one costs {nats(one)} nats, the best two {nats(two)}"
        tables = plural(len(self.null_savings), "table")
        rows = f" of {plural(self.n_rows, 'row')}" if self.sampled else ""
        null = f"{range_of(self.null_savings.tolist(), nats)} nats"
        K = range_of(self.null_n_clusters.tolist(), str)
        of_null = f"{tables}{rows} with permuted columns: {null}, {K} cluster{'' if K == '1' else 's'}"
        return f"NullTest({saves}; {of_null}; p = {number(self.p_value)})"


def null_test(
    model: CraftBase, X: FitTable, n: int, seed: int, sample_weight: WeightInput, client: DaskClient | None
) -> NullTest:
    """Refits of a model on tables with permuted columns, of at most 16 384 rows."""
    table, weight, sampled = rows_to_test(model, X, seed, sample_weight, client)
    found, agreement, one_and_two = model, None, None
    if sampled:
        found = refit(model, table, weight, seed)
        agreement = agreement_of([model, found], table)[0]
    if found.n_clusters_ == 1 and not model._asked:
        two = refit(model, table, weight, seed, parameters={"n_clusters": 2})
        one_and_two = (found.objective_, two.objective_) if two.n_clusters_ == 2 else None
    null = [refit(model, permuted(table, seed, i), weight, seed + i) for i in range(n)]
    return NullTest(
        saving_of_clusters(found),
        int(found.n_clusters_),
        np.array([saving_of_clusters(each) for each in null]),
        np.array([each.n_clusters_ for each in null]),
        len(table),
        sampled,
        one_and_two,
        agreement,
    )


def saving_of_clusters(model: CraftBase) -> float:
    """Nats by which the clusters of a model are shorter than one cluster."""
    return float(objectives_of(model.merge_path_)[-1][1] - model.objective_)


def rows_to_test(
    model: CraftBase, X: FitTable, seed: int, sample_weight: WeightInput, client: DaskClient | None
) -> tuple[MixedTable, Floats | None, bool]:
    """The rows of weight > 0 of the table of fit and their weights, or a sample of them; and whether it is a
    sample.
    """
    weight = None
    with open_input(X, client) as source:
        whole: MixedTable | PartitionedTable
        if source.place == "partitions":
            if sample_weight is not None:
                raise ValueError("The rows of Partitions or a Dask collection have no weights.")
            threads = effective_n_threads(model.n_threads)
            whole = source.read("auto", model.missing, threads, model.schema_.kinds)
        else:
            whole = model._read_columns(cast("TableInput", X))
            weight = model._rows_of_fit(whole, sample_weight)[1]
        rows = np.arange(len(whole)) if weight is None else np.flatnonzero(weight)
        if sampled := len(rows) > SAMPLE_ROWS:
            rows = rows[spread(len(rows), SAMPLE_ROWS, seed, CraftStream.NULL_SAMPLE)]
        table = model.schema_.encode(whole.take(rows))
    return table, None if weight is None else weight[rows], sampled


def permuted(table: MixedTable, seed: int, i: int) -> MixedTable:
    """A table in which every column has its cells in an order of its own, missing ones among them."""
    schema = table.schema

    def block(cells: Array, columns: Sequence[int]) -> Array:
        out = np.empty_like(cells)
        for d, j in enumerate(columns):
            draws = uniform(seed, CraftStream.PERMUTATION, i, j, np.arange(len(cells)))
            out[:, d] = cells[np.argsort(draws, kind="stable"), d]
        return out

    numeric = block(table.numeric, schema.numeric_index.tolist())
    return MixedTable._trusted(numeric, block(table.codes, schema.categorical_index.tolist()), schema)
