"""The searches of the feature models: restarts, stepwise K, and the choice of K by description length (spec: MAD-Bayes, 3 and 5)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels import bpmeans as _kernel
from craftc._moments import Floats
from craftc._parallel import aligned, threads_for
from craftc._points import Points
from craftc._random import uniform

Masks = NDArray[np.uint64]

_FEATURE_DRAW = 31  # first key of its random stream
_SMALL = 20_000_000  # products of a sweep up to which a restart keeps to one thread and several go side by side
_GRAM_ROWS = 8192  # most rows whose inner products are all held
_SECONDS = 0.1  # of restarts between two looks for an interrupt, and between two lines of a report
_CENTRED = {np.dtype(np.float64): 1e-20, np.dtype(np.float32): 1e-12}  # a mean below this share of the squares is rounding
_PATIENCE = 2  # numbers of features tried without a shorter description
_NO_ORDER = np.empty(0, np.int32)
NONE, MEAN, ZERO = 0, 1, 2  # the feature a start gives to everybody


class Rows:
    """A table and what all restarts share: norms, the mean, and (where there are no more rows than columns) all inner products.

    Parameters
    ----------
    X : ndarray (n, D) of float32 or float64, contiguous, finite
    n_threads : int
    """

    def __init__(self, X: NDArray[Any], n_threads: int) -> None:
        self.X, self.n_threads = X, n_threads
        self.points = Points(X, None, n_threads)
        self.points.check_width()
        self.mean = self.points.mean
        n, D = X.shape
        self.products = self._inner_products() if n <= min(D, _GRAM_ROWS) else None
        self.norm = np.empty(n)
        if self.products is None:
            _kernel.norms(X, self.norm)
        else:
            self.norm = np.ascontiguousarray(np.diag(self.products))
        self.scatter = float(np.add.reduce(self.norm))
        self.mean_products = np.ascontiguousarray(self._times(self.mean[:, None])[:, 0])
        self.base = ZERO if n * float(self.mean @ self.mean) <= _CENTRED[X.dtype] * self.scatter else MEAN

    def __len__(self) -> int:
        return len(self.X)

    def _times(self, vectors: Floats) -> Floats:
        """(n, TRIALS) products with a few vectors (D, at most TRIALS)."""
        table = np.zeros((self.X.shape[1], _kernel.TRIALS))
        table[:, : vectors.shape[1]] = vectors
        out = np.empty((len(self), _kernel.TRIALS))
        _kernel.products(self.X, table, out, threads_for(self.n_threads, self.X.size))
        return out

    def _inner_products(self) -> Floats:
        """X X', on a grid so coarse that sums over the rows are exact in double precision."""
        n = len(self)
        products = aligned((n, n))
        for first in range(0, n, _kernel.TRIALS):
            some = slice(first, min(first + _kernel.TRIALS, n))
            products[:, some] = self._times(self.X[some].T.astype(np.float64))[:, : some.stop - first]
        largest = float(np.abs(products).max())
        if largest > 0:
            grid = math.ldexp(1.0, 52 - math.frexp(largest)[1] - math.ceil(math.log2(n)))
            np.rint(products * grid, out=products)
            products /= grid
        return products

    def left_over(self, features: Floats, masks: Masks) -> Floats:
        """(n,) squared distance of every row to the sum of its features, worked out column by column."""
        out = np.empty(len(self))
        _kernel.left_over(self.X, features, masks, out, threads_for(self.n_threads, self.X.size))
        return out


@dataclass(frozen=True)
class Plan:
    """What a restart minimises, and how.

    penalty 0: a fixed number of features. n_features 0: as many as pay. exact: features up to which all combinations of a row are
    looked at. bases: "mean", "none" or "mixed" (odd restarts none).
    """

    penalty: float
    n_features: int
    cap: int
    exact: int
    base: str
    n_trials: int
    max_iter: int
    n_init: int
    seed: int
    collapsed: bool = False
    reseed: bool = False
    shuffle: bool = False
    told: Callable[[str], None] = field(default=lambda line: None)

    def with_features(self, K: int) -> Plan:
        """K-features with so many; its random numbers are its own."""
        return replace(self, penalty=0.0, n_features=K, cap=K, seed=self.seed + K, collapsed=False, shuffle=False)


@dataclass
class Outcome:
    """Where a restart ended: a bit for every feature of a row, J, and how it got there."""

    masks: Masks
    n_features: int
    objective: float
    path: Floats
    n_iter: int
    converged: bool


def run_for(rows: Rows, plan: Plan, n_threads: int, order: NDArray[np.int32] = _NO_ORDER, gram: bool = True) -> _kernel.Run:
    """Memory for restarts of a plan."""
    points = rows.points
    return _kernel.Run(
        rows.X, rows.products if gram else None, rows.norm, rows.mean, rows.mean_products, points.middle, points.grid, points.step,
        plan.penalty, plan.cap, plan.collapsed, plan.reseed, min(plan.exact, plan.cap), plan.max_iter, order, n_threads,
    )  # fmt: skip


def best_restart(rows: Rows, plan: Plan) -> Outcome:
    """The restart of lowest J, the first of several; each is the same alone and among others, on any number of threads."""
    n, D = rows.X.shape
    steps = plan.n_features or plan.cap
    small = rows.products is not None or n * D * max(steps, 8) < _SMALL
    side_by_side = threads_for(rows.n_threads, _SMALL) if small and plan.n_init > 1 and not plan.shuffle else 1
    within = 1 if small else rows.n_threads
    if plan.shuffle:
        return min((_one(rows, plan, r, within) for r in range(plan.n_init)), key=lambda outcome: outcome.objective)
    runs = [run_for(rows, plan, within) for _ in range(side_by_side)]
    if not small:
        return min((_one(rows, plan, r, within, runs[0]) for r in range(plan.n_init)), key=lambda outcome: outcome.objective)
    first, batch = 0, side_by_side
    while first < plan.n_init:
        some = np.arange(first, min(first + batch, plan.n_init))
        objective, told = np.empty(len(some)), np.empty((len(some), 3), np.int64)
        since = time.perf_counter()
        _kernel.restarts(runs, _bases(rows, plan, some), plan.n_features, _draws(plan, some, steps), plan.n_trials, first, objective, told)
        for r, J, (K, n_iter, _) in zip(some, objective, told, strict=True):
            plan.told(f"start {r}: {K} features after {n_iter} sweeps, J {J:.6g}")
        first += len(some)
        if time.perf_counter() - since < _SECONDS / 2:
            batch *= 2
    _, objective, K, n_iter, converged, masks, path = min((run.best() for run in runs if run.best()[0] >= 0), key=lambda b: (b[1], b[0]))
    return Outcome(masks.copy(), K, objective, path.copy(), n_iter, converged)


def _one(rows: Rows, plan: Plan, r: int, n_threads: int, run: _kernel.Run | None = None) -> Outcome:
    """One restart, sweep by sweep."""
    order = rows.points.order(plan.seed, r) if plan.shuffle else _NO_ORDER
    run = run or run_for(rows, plan, n_threads, order)
    some = np.array([r])
    run.greedy(int(_bases(rows, plan, some)[0]), plan.n_features, _draws(plan, some, plan.n_features or plan.cap)[0], plan.n_trials)
    return _finish(run, plan, f"start {r}")


def from_memberships(rows: Rows, plan: Plan, masks: Masks, n_features: int) -> Outcome:
    """The descent from given memberships."""
    n, D = rows.X.shape
    small = rows.products is not None or n * D * max(n_features, 8) < _SMALL
    order = rows.points.order(plan.seed, 1) if plan.shuffle else _NO_ORDER
    run = run_for(rows, plan, 1 if small else rows.n_threads, order)
    run.start(masks, n_features)
    return _finish(run, plan, "given start")


def _finish(run: _kernel.Run, plan: Plan, name: str) -> Outcome:
    while not run.advance(1):
        pass
    plan.told(f"{name}: {run.n_features} features after {run.n_iter} sweeps, J {run.objective:.6g}")
    return Outcome(run.masks.copy(), run.n_features, run.objective, run.path.copy(), run.n_iter, run.converged)


def _bases(rows: Rows, plan: Plan, restarts: NDArray[np.intp]) -> NDArray[np.int32]:
    """The feature that everybody has at the start of every restart."""
    bases = np.full(len(restarts), NONE if plan.base == "none" else rows.base, np.int32)
    if plan.base == "mixed":
        bases[restarts % 2 == 1] = NONE
    return bases


def _draws(plan: Plan, restarts: NDArray[np.intp], steps: int) -> Floats:
    """(R, steps, trials) uniform numbers by (seed, restart, step, trial)."""
    trials = plan.n_trials or 2 + int(math.log(steps))
    key = restarts[:, None, None], np.arange(steps)[:, None], np.arange(trials)
    return np.ascontiguousarray(uniform(plan.seed, _FEATURE_DRAW, *key))


@dataclass
class Path:
    """The best K-features solutions for K = 0, 1, ...: entry K is None where K = 0."""

    outcomes: list[Outcome | None]
    errors: list[float]

    def interval(self, K: int) -> tuple[float, float]:
        """lambda^2 between which K features are better than one less and one more."""
        low = self.errors[K] - self.errors[K + 1] if K + 1 < len(self.errors) else 0.0
        high = self.errors[K - 1] - self.errors[K] if K else np.inf
        return low, high


def stepwise(rows: Rows, plan: Plan, penalty: float) -> tuple[Path, int]:
    """K-features for K = 1, 2, ... until SSE + K lambda^2 no longer falls; which K of them, or none, is best."""
    path = Path([None], [rows.scatter])
    costs = [rows.scatter]
    for K in range(1, plan.cap + 1):
        _add(path, rows, plan, K)
        costs.append(path.errors[K] + K * penalty)
        if K > 1 and not costs[K] < costs[K - 1]:
            break
    return path, int(np.argmin(costs))


def shortest(rows: Rows, plan: Plan) -> tuple[Path, int]:
    """K-features for K = 1, 2, ..., and the K whose solution tells the table in the fewest nats."""
    path = Path([None], [rows.scatter])
    lengths = [description_length(rows, None, rows.scatter)]
    for K in range(1, plan.cap + 1):
        _add(path, rows, plan, K)
        lengths.append(description_length(rows, path.outcomes[K], path.errors[K]))
        if K - int(np.argmin(lengths)) >= _PATIENCE:
            break
    return path, int(np.argmin(lengths))


def _add(path: Path, rows: Rows, plan: Plan, K: int) -> None:
    outcome = best_restart(rows, plan.with_features(K))
    plan.told(f"K = {K}: {outcome.objective:.6g}")
    path.outcomes.append(outcome)
    path.errors.append(min(outcome.objective, path.errors[-1]))


def description_length(rows: Rows, outcome: Outcome | None, error: float) -> float:
    """Nats to tell the table: N D / 2 log(SSE / (N D)) + K D / 2 log N + sum_k N h(share of feature k), h the entropy of a bit."""
    n, D = rows.X.shape
    length = 0.5 * n * D * math.log(max(error, 1e-14 * rows.scatter, np.finfo(float).tiny) / (n * D))
    if outcome is not None:
        share = _shares(outcome)
        inside = share[(share > 0) & (share < 1)]
        length += 0.5 * outcome.n_features * D * math.log(n) - n * float(inside @ np.log(inside) + (1 - inside) @ np.log1p(-inside))
    return length


def _shares(outcome: Outcome) -> Floats:
    """(K,) share of the rows that have each feature."""
    return np.asarray(unpack(outcome.masks, outcome.n_features).mean(axis=0))


def unpack(masks: Masks, K: int) -> NDArray[np.bool_]:
    """Bits as a table (n, K)."""
    return np.asarray((masks[:, None] >> np.arange(K, dtype=np.uint64)) & np.uint64(1), dtype=bool)


def pack(Z: NDArray[np.bool_]) -> Masks:
    """A table (n, K) as bits."""
    bits = np.left_shift(np.uint64(1), np.arange(Z.shape[1], dtype=np.uint64))
    return np.asarray((Z * bits).sum(axis=1), dtype=np.uint64)
