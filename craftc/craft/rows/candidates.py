"""Candidate splits of a cluster, and the rows that leave it under them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Integers
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import craft_splits as splits_kernel
from craftc.table import MixedTable


@dataclass
class Candidates:
    """Numbered candidate splits of a cluster: the rows with one level, or the rows above the mean, leave it."""

    level_slot: NDArray[np.int32]  # (n_levels,) number of the candidate, or -1
    numeric_slot: NDArray[np.int32]  # (p,) number of the candidate, or -1
    threshold: Floats  # (p,) the mean, in standard deviations of the table

    @classmethod
    def of_group(cls, group: Integers, pricing: price_kernel.Pricing) -> tuple[Candidates, int]:
        """The candidates of a cluster with these moments, and their number."""
        grid = pricing.grid
        candidates = cls(np.empty(grid.n_levels, np.int32), np.empty(grid.p, np.int32), np.empty(grid.p))
        n = splits_kernel.propose_splits(
            group, pricing, candidates.level_slot, candidates.numeric_slot, candidates.threshold
        )
        return candidates, n

    def some(self, chosen: NDArray[np.intp]) -> Candidates:
        """Some of the candidates, in ascending order, numbered anew."""
        number = np.full(
            max(self.level_slot.max(initial=-1), self.numeric_slot.max(initial=-1)) + 2, -1, np.int32
        )
        number[chosen] = np.arange(len(chosen))  # the last entry is that of "no candidate", -1
        return Candidates(number[self.level_slot], number[self.numeric_slot], self.threshold)

    def one(self, chosen: int) -> Candidates:
        """One of the candidates, numbered 0."""
        level, numeric = ((slot == chosen) - np.int32(1) for slot in (self.level_slot, self.numeric_slot))
        return Candidates(level, numeric, self.threshold)


@dataclass
class Cells:
    """Some rows of a table.

    Parameters
    ----------
    table : MixedTable
    weight : ndarray of int64
        Counts of the rows of the table; empty: all one.
    rows : ndarray (m,) of int32
    """

    table: MixedTable
    weight: Integers
    rows: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weights(self) -> Integers:
        """(m,) counts of these rows."""
        return self.weight[self.rows] if len(self.weight) else np.ones(len(self.rows), np.int64)

    def some(self, positions: NDArray[np.intp]) -> Cells:
        """Some of these rows."""
        return Cells(self.table, self.weight, self.rows[positions])

    def leaving_moments(
        self,
        pricing: price_kernel.Pricing,
        candidates: Candidates,
        n: int,
        everything: int = -1,
        n_threads: int = 1,
    ) -> Integers:
        """(n, width) moments of the rows that leave under every candidate, and of all rows as number
        `everything`.
        """
        grid, table = pricing.grid, self.table
        threads = threads_for(n_threads, len(self) * n * (grid.p + grid.q))
        sides = np.zeros((threads, n, grid.width), np.int64)
        work = np.empty((threads, splits_kernel.split_work_size(pricing)))
        splits_kernel.split_moments(
            table.numeric,
            table.codes,
            self.weight,
            self.rows,
            pricing,
            candidates.level_slot,
            candidates.numeric_slot,
            candidates.threshold,
            everything,
            sides,
            work,
            threads,
        )
        first: Integers = sides[0]
        return first

    def leaving_rows(
        self, pricing: price_kernel.Pricing, candidates: Candidates, n: int
    ) -> NDArray[np.uint8]:
        """(m, n) 1 for the rows that leave under every candidate."""
        leaving = np.empty((len(self), n), np.uint8)
        splits_kernel.leaving_rows(
            self.table.numeric,
            self.table.codes,
            self.rows,
            pricing,
            candidates.level_slot,
            candidates.numeric_slot,
            candidates.threshold,
            leaving,
        )
        return leaving
