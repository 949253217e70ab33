"""Tables that the benchmarks share; each is made once per process.

Names of the package alone: asv imports every file of the suite on every commit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from craftc import MixedTable
from craftc.datasets import make_mixed

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
