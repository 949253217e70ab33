"""Peak memory of default fits beyond the table, per row.

The smallest table has the shape of Adult, the others 8 numbers and 8 levels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .tools import Imports, map_arrays, peak_beyond, quietly

new = Imports()
with new:
    from craftc import CRAFT, DPMeans, MixedTable

    from .common import mixed_table
setup = new.setup

ROWS = [48_842, 1_000_000, 10_000_000]
WARM = 20_000  # rows of the fit before that is measured
BLOCK = 1_000_000  # rows that are drawn at once


def blobs(n: int, D: int) -> Any:
    """Rows of unit normals around eight centres."""
    rng = np.random.default_rng(0)
    centres, X = 3 * rng.normal(size=(8, D)), np.empty((n, D), np.float32)
    for first in range(0, n, BLOCK):
        rows = X[first : first + BLOCK]
        rows[:] = centres[rng.integers(0, 8, len(rows))] + rng.normal(size=rows.shape)
    return X


def table(n: int) -> MixedTable:
    return (
        mixed_table(n, 6, 8)
        if n < BLOCK
        else MixedTable.from_data(levelled(n), categorical=list(range(8, 16)))
    )


def levelled(n: int) -> Any:
    """Eight numbers around eight centres, and eight columns of ten levels."""
    X = np.empty((n, 16), np.float32)
    X[:, :8] = blobs(n, 8)
    X[:, 8:] = np.random.default_rng(1).integers(0, 10, (n, 8), dtype=np.int8)
    return X


class Fit:
    """Default fits on one thread."""

    params: Any = (["CRAFT", "DPMeans"], ROWS)
    param_names = ("estimator", "rows")
    timeout = 600

    def setup(self, name: str, n: int) -> None:
        map_arrays()
        make = table if name == "CRAFT" else partial(blobs, D=16)
        self.X = make(n)
        self.model = (
            CRAFT(random_state=0, n_threads=1) if name == "CRAFT" else DPMeans(random_state=0, n_threads=1)
        )
        first = slice(min(n, WARM))
        quietly(
            self.model, self.X.take(first) if name == "CRAFT" else self.X[first]
        )  # loads the code that long tables need

    def track_bytes_per_row(self, name: str, n: int) -> float:
        return peak_beyond(lambda: quietly(self.model, self.X)) / n

    track_bytes_per_row.unit = "bytes"
