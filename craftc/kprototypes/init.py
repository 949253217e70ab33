"""Starts: initial modes by Huang, by Cao, or of random rows, and initial means.

The draws are those of kmodes 0.12 from the same `random_state`. Where several rows are equally good kmodes
takes one that depends on an unstable sort; here it is the first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import array_of, shown
from craftc._common.typing import Array, Floats, Ints
from craftc.kprototypes.problem import MATCHING, NG, Problem

INITS = ("Huang", "Cao", "random")
Modes = NDArray[np.int32]


class Draws:
    """Random rows; a row of weight 2 is drawn like two rows."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.rng = problem, np.random.RandomState(seed)
        self._running = np.cumsum(problem.weight)

    def rows(self, size: int) -> Ints:
        """Positions of rows, drawn with replacement."""
        if not len(self._running):
            return self.rng.choice(len(self.problem), size)
        return np.searchsorted(self._running, self.rng.choice(int(self._running[-1]), size), side="right")

    def among(self, rows: Ints) -> int:
        """One of these rows."""
        return int(rows[self.rng.choice(len(rows))])

    def levels(self, size: int) -> Modes:
        """(size, q) levels of the columns, drawn in proportion to their weights."""
        problem = self.problem
        each = [self.rng.randint(0, max(total, 1), size) for total in problem.totals.tolist()]
        draws = (
            np.array(each, np.int64).reshape(-1, size) + (np.cumsum(problem.totals) - problem.totals)[:, None]
        )
        codes = np.searchsorted(problem.running, draws, side="right") - problem.grid.level_start[:, None]
        # a column without weight has no level to draw
        return np.ascontiguousarray(np.minimum(codes.T, problem.n_levels - 1), np.int32)

    def means(self, n_clusters: int) -> Floats:
        """Normal numbers with the means and deviations of the columns."""
        problem = self.problem
        return problem.mean + self.rng.randn(n_clusters, problem.grid.p) * problem.deviation


def initial_modes(init: str, problem: Problem, n_clusters: int, draws: Draws) -> Modes:
    """(K, q) modes of a start."""
    if init == "Huang":
        return huang_modes(problem, n_clusters, draws)
    if init == "Cao":
        return cao_modes(problem, n_clusters)
    return problem.codes_of(draws.rows(n_clusters))


def huang_modes(problem: Problem, n_clusters: int, draws: Draws) -> Modes:
    """Random levels, each prototype then replaced by the nearest row that equals none of the prototypes."""
    modes = draws.levels(n_clusters)
    kind = MATCHING if problem.kind == NG else problem.kind
    taken = np.zeros(len(problem), np.int32)  # prototypes that a row equals
    for mode in modes:
        taken += problem.mismatches(mode) == 0
    if len(problem.weight):
        taken += problem.weight == 0  # no prototype
    for k in range(n_clusters):
        differs = problem.mismatches(modes[k])
        distance = differs.astype(np.float64) if kind == MATCHING else problem.dissimilarities(modes[k], kind)
        free = distance.copy()
        np.putmask(free, taken != 0, np.inf)
        row = int(free.argmin())
        if taken[row]:  # all rows: the last of those farthest away
            if len(problem.weight):
                distance[problem.weight == 0] = -1.0
            row = len(problem) - 1 - int(distance[::-1].argmax())
        taken -= differs == 0
        modes[k] = problem.codes_of(row)
        taken += problem.mismatches(modes[k]) == 0
    return modes


def cao_modes(problem: Problem, n_clusters: int) -> Modes:
    """The densest row, then rows whose density times distance to the nearest prototype is largest."""
    n, q, codes = len(problem), problem.grid.q, problem.table.codes
    total = float(problem.weight.sum()) if len(problem.weight) else float(n)
    kind = MATCHING if problem.kind == NG else problem.kind
    density = np.zeros(n)
    for d in range(q):
        share = np.append(problem.counts_of(d), 0) / total / float(q)
        density += share[codes[:, d]]
    if len(problem.weight):
        density[problem.weight == 0] = -1.0
    modes = np.empty((n_clusters, q), np.int32)
    modes[0] = problem.codes_of(int(density.argmax()))
    least = np.full(n, np.inf)
    for k in range(1, n_clusters):
        np.minimum(least, problem.dissimilarities(modes[k - 1], kind) * density, out=least)
        if len(problem.weight):
            least[problem.weight == 0] = -1.0
        modes[k] = problem.codes_of(int(least.argmax()))
    return modes


def given_prototypes(init: object, problem: Problem, n_clusters: int, numeric: bool) -> tuple[Floats, Modes]:
    """Means and modes given as `init`.

    `init` (K, D), (K, p), (K, q): modes are codes (whole numbers: positions among the sorted levels), or
    levels (text). `numeric`: whether means are given as well.
    """
    p, q = problem.grid.p, problem.grid.q
    if not numeric:
        return np.empty((n_clusters, 0)), _given_modes("init", init, problem, n_clusters, q)
    if not isinstance(init, list | tuple) or len(init) != 2:
        raise ValueError(
            f"init must be one of {', '.join(map(repr, INITS))} or a list of two arrays, means "
            f"({n_clusters}, {p}) and modes ({n_clusters}, {q}), got {shown(init)}."
        )
    return _given_means("init[0]", init[0], n_clusters, p), _given_modes(
        "init[1]", init[1], problem, n_clusters, q
    )


def _given_means(name: str, init: object, n_clusters: int, p: int) -> Floats:
    means = _array(name, init, n_clusters, p)
    if means.dtype.kind == "O":
        means = _numbers_in(name, means)
    if means.dtype.kind not in "fiub" or not np.isfinite(means).all():
        raise ValueError(f"{name} must be finite numbers, the initial means, got {shown(init)}.")
    return np.ascontiguousarray(means, np.float64)


def _numbers_in(name: str, array: Array) -> Floats:
    """An array of objects as float64."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be finite numbers, the initial means, got {shown(array.tolist())}."
        ) from error


def _given_modes(name: str, init: object, problem: Problem, n_clusters: int, q: int) -> Modes:
    given = _array(name, init, n_clusters, q)
    if given.dtype.kind in "OUS":
        return _codes(name, given, problem)
    if not ((given >= 0) & (given < problem.n_levels) & (given == np.floor(given))).all():
        raise ValueError(
            f"{name} must be codes, which are positions among the sorted levels of a column, or levels as "
            f"text; these columns have {problem.n_levels.tolist()} levels, got {shown(init)}."
        )
    return np.ascontiguousarray(given, np.int32)


def _codes(name: str, given: Array, problem: Problem) -> Modes:
    """Codes of levels."""
    modes = np.empty(given.shape, np.int32)
    for d, levels in enumerate(problem.table.levels):
        code = {str(level): c for c, level in enumerate(levels)}
        for k, value in enumerate(given[:, d]):
            if str(value) not in code:
                column = problem.table.categorical_names[d]
                raise ValueError(
                    f"{name} must have levels of the columns, but column {column!r} has no level "
                    f"{shown(value)}."
                )
            modes[k, d] = code[str(value)]
    return modes


def _array(name: str, value: object, n_clusters: int, width: int) -> Array:
    """An array (K, width); one axis is one column."""
    array = array_of(name, value, f"an array ({n_clusters}, {width})")
    if array.ndim == 1:
        array = array[:, None]
    if array.shape != (n_clusters, width) or array.dtype.kind not in "fiubOUS":
        raise ValueError(
            f"{name} must have shape ({n_clusters}, {width}), one line for each of n_clusters={n_clusters} "
            f"clusters, got {array.dtype} of shape {array.shape}."
        )
    return array
