"""Tables and partitions the benchmarks of CRAFT share; each is made once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc import MixedTable
from craftc._common.validation import integer_weights
from craftc._kernels.moments import Grid
from craftc.craft.background import Background
from craftc.craft.paper.clusters import PaperClusters
from craftc.craft.parameters import ModelSpec
from craftc.datasets import make_mixed
from craftc.table.moments import Moments, integer_grid

SEED = 20160509


@lru_cache(maxsize=4)
def made(n: int, p: int, q: int, k: int = 5) -> Any:
    """A made mixed table: k clusters, half of the p + q columns are own features of some."""
    return make_mixed(n, k, p, q, 0, n_own=max((p + q) // 2, 1), n_levels=4, missing=0.02, random_state=SEED)


@lru_cache(maxsize=4)
def mixed_table(n: int, p: int, q: int, k: int = 5, dtype: str = "float64") -> MixedTable:
    """The same, ready for the kernels."""
    bunch = made(n, p, q, k)
    return MixedTable.from_data(bunch.data, categorical=bunch.categorical, dtype=dtype)


@lru_cache(maxsize=2)
def frame(n: int, p: int, q: int, text: str = "category") -> Any:
    """The same as a pandas frame whose categories are "category" or plain text ("str")."""
    import pandas as pd

    bunch = made(n, p, q)
    levels = np.array(["north", "east", "south", "west", None], dtype=object)
    columns: dict[str, Any] = {f"number {j}": bunch.numeric[:, j] for j in range(p)}
    for d in range(q):
        columns[f"level {d}"] = pd.Series(levels[bunch.codes[:, d]], dtype=text)
    return pd.DataFrame(columns)


@dataclass
class Partition:
    """A table cut into clusters: all that one step of a fit is given."""

    table: MixedTable
    grid: Grid
    weight: NDArray[np.int64]
    unit: float
    labels: NDArray[np.int32]
    moments: Moments
    background: Background
    clusters: PaperClusters


@lru_cache(maxsize=2)
def partition(n: int, p: int, q: int, k: int, dtype: str = "float64") -> Partition:
    """The clusters of a made table, a fifth of the rows put elsewhere; half the features each."""
    table = mixed_table(n, p, q, k, dtype)
    rng = np.random.default_rng(SEED)
    labels = made(n, p, q, k).target.astype(np.int32)
    stray = rng.random(n) < 0.2
    labels[stray] = rng.integers(0, k, int(stray.sum()))
    weight, unit = integer_weights(None)
    grid = integer_grid(table, weight)
    everything = np.zeros(n, np.int32)
    background = Background(Moments.of_partition(grid, unit, table, weight, everything, 1))
    moments = Moments.of_partition(grid, unit, table, weight, labels, k)
    clusters = PaperClusters(moments, background, ModelSpec(selection="fixed", fraction=0.5))
    return Partition(table, grid, weight, unit, labels, moments, background, clusters)
