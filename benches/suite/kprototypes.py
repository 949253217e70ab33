"""k-prototypes and k-modes: one pass, whole fits, and guards on what they reach."""

from __future__ import annotations

from typing import Any

import numpy as np

from .tools import Imports, quietly

new = Imports()
with new:
    from craftc import KModes, KPrototypes, MixedTable
    from craftc._common.validation import integer_weights
    from craftc.kprototypes.init import Draws, initial_modes
    from craftc.kprototypes.problem import MATCHING, Problem, Workplace
    from craftc.table.moments import integer_grid

    from .common import made, mixed_table
setup = new.setup

SHAPES = {
    "20 000 x (8 + 8)": (20_000, 8, 8, 16),
    "2 000 x (0 + 35)": (2_000, 0, 35, 19),
}  # rows, numbers, levels, K


def table_of(shape: str) -> MixedTable:
    n, p, q, _ = SHAPES[shape]
    if p:
        return mixed_table(n, p, q)
    bunch = made(n, 1, q)
    return MixedTable.from_data(
        np.where(bunch.codes == 4, np.nan, bunch.codes.astype(float)), categorical=[True] * q
    )


class Pass:
    """A pass of Lloyd's algorithm, a pass over the rows in order, and the modes of a start."""

    params: Any = (list(SHAPES),)
    param_names = ("shape",)

    def setup(self, shape: str) -> None:
        table, K = table_of(shape), SHAPES[shape][-1]
        weight, unit = integer_weights(None)
        self.problem = Problem(table, weight, unit, integer_grid(table, weight), MATCHING, None, 1)
        self.draws, self.K = Draws(self.problem, 0), K
        modes = initial_modes("Cao", self.problem, K, self.draws)
        self.prototypes = self.problem.prototypes(self.draws.means(K), modes)
        self.work = Workplace(self.problem, K, 1)

    def time_assign(self, *_: Any) -> None:
        """The first pass, in which all rows move."""
        self.work.clear()
        self.work.assign(self.prototypes)

    def time_nearest(self, *_: Any) -> None:
        self.work.nearest(self.prototypes)

    def time_move_in_order(self, *_: Any) -> None:
        """From the same partition: the prototypes change with the rows that move."""
        self.work.clear()
        self.work.assign(self.prototypes)
        prototypes = self.problem.prototypes(self.prototypes.means, self.prototypes.modes)
        self.work.move_in_order(prototypes, 0, False)

    def time_huang(self, *_: Any) -> None:
        initial_modes("Huang", self.problem, self.K, self.draws)

    def time_cao(self, *_: Any) -> None:
        initial_modes("Cao", self.problem, self.K, self.draws)


class Fit:
    """A whole fit on one thread."""

    params: Any = (list(SHAPES), ["online", "batch"])
    param_names = ("shape", "update")

    def setup(self, shape: str, update: str) -> None:
        _, p, _, K = SHAPES[shape]
        self.X = table_of(shape)
        kind = KPrototypes if p else KModes
        self.model: Any = kind(K, init="Huang", n_init=2, update=update, random_state=0, n_threads=1)

    def time_fit(self, *_: Any) -> None:
        quietly(self.model, self.X)

    def peakmem_fit(self, *_: Any) -> None:
        quietly(self.model, self.X)

    def track_objective(self, *_: Any) -> float:
        """Lower is better."""
        quietly(self.model, self.X)
        return float(self.model.cost_)

    track_objective.unit = "cost"
