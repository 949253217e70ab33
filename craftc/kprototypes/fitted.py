"""The prototypes of a fitted model, and the nearest of them for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import threads_for
from craftc._common.typing import Array, Floats, Integers, Ints, Labels
from craftc._kernels.moments import Grid
from craftc.kprototypes.descent import PrototypeDescent
from craftc.kprototypes.problem import NG, NO_WEIGHT, Problem, moments_of, nearest, prototypes_of
from craftc.table import MixedTable, Schema
from craftc.table.level_column import Level
from craftc.table.moments import ExactSums


@dataclass
class Prototypes:
    """Means and modes of K clusters."""

    kind: int  # position of the dissimilarity of categories in KINDS of the kernel
    gamma: float
    means: Floats  # (K, p)
    modes: NDArray[np.int32]  # (K, q)
    mean: Floats  # (p,) of the whole table
    mode: NDArray[np.int32]  # (q,)
    sums: ExactSums  # of the rows by their labels
    # (K, width) moments of the clusters from which the shares of Ng's dissimilarity follow; None with
    # other dissimilarities
    members: Integers | None

    @property
    def grid(self) -> Grid:
        """The grid of the sums."""
        return self.sums.grid

    @property
    def n_levels(self) -> Ints:
        """(q,) levels of the categorical columns."""
        return self.sums.n_levels

    @classmethod
    def of(cls, problem: Problem, best: PrototypeDescent) -> Prototypes:
        """Those of the best start."""
        sums = ExactSums.of(moments_of(problem, best.labels, len(best.means)))
        members = best.groups if problem.kind == NG else None
        of_table = problem.mean, problem.mode
        return cls(problem.kind, problem.gamma, best.means, best.modes, *of_table, sums, members)

    def nearest(self, table: MixedTable, n_threads: int) -> tuple[Labels, Floats]:
        """(n,) the nearest prototype of every row, and (n,) their dissimilarities."""
        return self._among(slice(None), table, n_threads)

    def dissimilarities(self, table: MixedTable, n_threads: int) -> Floats:
        """(n, K) dissimilarities of all rows and prototypes."""
        K = len(self.means)
        return np.stack([self._among(slice(k, k + 1), table, n_threads)[1] for k in range(K)], axis=1)

    def _among(self, some: slice, table: MixedTable, n_threads: int) -> tuple[Labels, Floats]:
        members = None if self.members is None else self.members[some]
        prototypes = prototypes_of(self, self.means[some], self.modes[some], members)
        work = len(table) * (table.numeric.shape[1] + table.codes.shape[1]) * len(self.means[some])
        least = np.empty(len(table))
        labels, _ = nearest(
            table.numeric, table.codes, NO_WEIGHT, prototypes, threads_for(n_threads, work), best=least
        )
        return labels, least


def centroid_columns(prototypes: Prototypes, schema: Schema) -> list[Array]:
    """The values of the prototypes in every input column, in input order."""
    columns: list[Array] = [np.empty(0)] * schema.n_columns
    for j, d in enumerate(schema.numeric_index):
        columns[d] = prototypes.means[:, j]
    for j, d in enumerate(schema.categorical_index):
        levels = schema.levels[j]
        columns[d] = array_of_levels([levels[code] for code in prototypes.modes[:, j]])
    return columns


def centroid_array(prototypes: Prototypes, schema: Schema) -> Array:
    """(K, D) numeric columns first, as kmodes has them; objects unless all are numbers, or all text."""
    columns = centroid_columns(prototypes, schema)
    ordered = [columns[d] for d in [*schema.numeric_index, *schema.categorical_index]]
    kinds = {
        "text" if column.dtype.kind == "U" else "objects" if column.dtype == object else "numbers"
        for column in ordered
    }
    return np.column_stack(ordered if len(kinds) == 1 else [column.astype(object) for column in ordered])


def array_of_levels(levels: Sequence[Level]) -> Array:
    """Levels as an array of numbers or text; of objects if they are mixed."""
    kinds = {isinstance(level, str) for level in levels}
    return np.array(levels) if len(kinds) == 1 else np.array(levels, dtype=object)
