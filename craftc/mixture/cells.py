"""Cells and responsibilities that a mixture can use."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from craftc._common.labels import chunks
from craftc._common.messages import array_of
from craftc._common.typing import Array, Floats
from craftc._common.validation import check_choice

INITS = ("kmeans", "random")
_NAMED = 5  # columns that a message names


def named(columns: Array, names: Array | None) -> str:
    """The first few columns by name, or by number."""
    words = [repr(str(names[d])) if names is not None else str(d) for d in columns[:_NAMED]]
    more = f" and {len(columns) - len(words)} more" if len(columns) > len(words) else ""
    return ("column " if len(columns) == 1 else "columns ") + ", ".join(words) + more


def check_cells(rows: Array, component: str, names: Array | None) -> None:
    """Raise ValueError unless the cells fit the kind of components; NaN is missing."""
    if component == "gaussian":
        return
    counts = component == "poisson"
    wrong, wanted = (_not_counts, "counts, whole numbers >= 0") if counts else (_not_binary, "0 and 1")
    bad = np.flatnonzero(np.any([wrong(rows[some]).any(axis=0) for some in chunks(len(rows))], axis=0))
    if len(bad):
        first = rows[:, bad[0]]
        raise ValueError(
            f'component="{component}" needs {wanted}; other values in {named(bad, names)} (the first: '
            f'{first[wrong(first)][0]:g}). Leave these columns out, or use component="gaussian".'
        )


def _not_counts(cells: Array) -> NDArray[np.bool_]:
    """Which cells are neither whole numbers >= 0 nor missing."""
    return np.asarray((cells < 0) | ((cells != np.floor(cells)) & ~np.isnan(cells)))


def _not_binary(cells: Array) -> NDArray[np.bool_]:
    """Which cells are neither 0 nor 1 nor missing."""
    return np.asarray((cells != 0) & (cells != 1) & ~np.isnan(cells))


def given_responsibilities(init: str | ArrayLike, n: int, K: int) -> Floats | None:
    """The responsibilities given as `init`, padded with columns of zeros to K; None if it is a name."""
    if isinstance(init, str):
        check_choice("init", init, INITS, "or responsibilities (n, K)")
        return None
    given = array_of("init", init, f"responsibilities of shape ({n}, K)")
    fits = given.ndim == 2 and len(given) == n and 1 <= given.shape[1] <= K
    if given.dtype.kind not in "fiub" or not fits:
        raise ValueError(
            f"init must be responsibilities of shape ({n}, K) with K between 1 and n_components = {K}, got "
            f"shape {given.shape} of {given.dtype}."
        )
    given = given.astype(np.float64)
    positive = np.isfinite(given).all() and given.min() >= 0
    if not positive or not np.allclose(given.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError("init must be responsibilities: finite, >= 0, with rows that sum to 1.")
    full = np.zeros((n, K))
    full[:, : given.shape[1]] = given
    return full
