"""The searches of the feature models: restarts, stepwise K, and the choice of K by description length."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData
from craftc._common.random import spread, uniform
from craftc._common.threads import aligned, map_side_by_side, threads_for
from craftc._common.typing import Floats, Masks
from craftc._kernels import bpmeans as _kernel
from craftc._kernels import bpmeans_rows as _rows
from craftc._kernels import parallel as _build

_FEATURE_DRAW, _EXCHANGE_DRAW, _CHOICE_DRAW = 31, 32, 33  # first keys of the random streams
_IMPROVED = 3  # restarts whose ends are improved by exchanges
_TRIES = 3  # replacements tried for a feature
_CHOICE_ROWS = 4096  # a larger table chooses K by so many rows
_SWEEPS = 100  # times K: sweeps of all exchanges from one end
_WORTHWHILE = 1e-4  # share of J that an exchange must win for all features to be tried again
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
        self.points = DenseData(X, None, n_threads)
        n, D = X.shape
        largest = float(np.abs(self.points.middle).max()) + self.points.reach
        if largest > 0 and 2 * math.log2(largest) + math.log2(n * D) > 1000:
            raise ValueError(f"The table has cells of size {largest:.3g}, and their squares would overflow: scale it down.")
        self.mean = self.points.mean
        self.products = self._inner_products() if n <= min(D, _GRAM_ROWS) else None
        self.norm = np.empty(n)
        if self.products is None:
            _rows.norms(X, self.norm)
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
        _rows.products(self.X, table, out, threads_for(self.n_threads, self.X.size))
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
        _rows.left_over(self.X, features, masks, out, threads_for(self.n_threads, self.X.size))
        return out


@dataclass(frozen=True)
class Plan:
    """What a restart minimises, and how.

    penalty 0: a fixed number of features. n_features 0: as many as pay. exact: features up to which all combinations of a row are
    looked at. base: "mean", "none" or "mixed" (odd restarts none). n_trials 0: 2 + log K and 1 in turn.
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
        plan.penalty, plan.cap, plan.collapsed, plan.reseed, plan.exact if plan.penalty else min(plan.exact, plan.cap), plan.max_iter,
        order, n_threads,
    )  # fmt: skip


def best_restart(rows: Rows, plan: Plan) -> Outcome:
    """The lowest J of all restarts, the ends of the best of them improved by exchanges of single features.

    A restart is the same alone and among others, on any number of threads.
    """
    small, n_threads = _is_small(rows, plan), _threads(rows, plan)
    run = None if plan.shuffle or small else run_for(rows, plan, n_threads)
    outcomes: dict[int, Outcome] = {}
    if small and not plan.shuffle:
        ends, sweeps = _side_by_side(rows, plan)
    else:
        outcomes = {r: _one(rows, plan, r, run) for r in range(plan.n_init)}
        ends = np.array([outcome.objective for outcome in outcomes.values()])
        sweeps = sum(outcome.n_iter for outcome in outcomes.values())

    def improved(r: int) -> Outcome:
        own = run or run_for(rows, plan, n_threads)
        outcome = outcomes.get(r) or _one(rows, plan, r, own, tell=False)
        # where sweeps are dear, exchanges take no more of them than the restarts did
        budget = _SWEEPS * outcome.n_features if small and not plan.collapsed else sweeps
        return _improve(rows, plan, outcome, r, own, _TRIES if small else 1, budget)

    chosen = _first_distinct(ends, _IMPROVED if small else 1, 1e-9 * rows.scatter)
    worth = small and rows.X.size * (plan.n_features or plan.cap) > _SMALL / 100  # Python threads for long ways only
    return min(map_side_by_side(improved, chosen, rows.n_threads if worth else 1), key=lambda outcome: outcome.objective)


def _is_small(rows: Rows, plan: Plan) -> bool:
    """Whether a restart keeps to one thread, several of them side by side."""
    work = rows.X.size * max(plan.n_features or plan.cap, 8)
    return rows.products is not None or work < (_SMALL if plan.n_init > 1 else _SMALL / 8)


def _threads(rows: Rows, plan: Plan) -> int:
    """Threads within one restart."""
    return 1 if _is_small(rows, plan) else threads_for(rows.n_threads, rows.X.size)


def _side_by_side(rows: Rows, plan: Plan) -> tuple[Floats, int]:
    """J of every restart, one per thread at a time, and the sweeps they took together."""
    steps = plan.n_features or plan.cap
    runs = [run_for(rows, plan, 1) for _ in range(threads_for(rows.n_threads, _SMALL) if plan.n_init > 1 else 1)]
    ends, first, batch, sweeps = np.empty(plan.n_init), 0, len(runs), 0
    while first < plan.n_init:
        some = np.arange(first, min(first + batch, plan.n_init))
        told = np.empty((len(some), 3), np.int64)
        since = time.perf_counter()
        _kernel.restarts(
            runs, _bases(rows, plan, some), plan.n_features, _draws(plan, some, steps), _trials(plan, some), ends[first:], told
        )
        for r, (K, n_iter, _) in zip(some, told, strict=True):
            plan.told(f"start {r}: {K} features after {n_iter} sweeps, J {ends[r]:.6g}")
        first += len(some)
        sweeps += int(told[:, 1].sum())
        if time.perf_counter() - since < _SECONDS / 2:
            batch *= 2
    return ends, sweeps


def _first_distinct(ends: Floats, most: int, apart: float) -> list[int]:
    """The restarts of lowest J, one for every J."""
    chosen: list[int] = []
    for r in np.argsort(ends, kind="stable"):
        if not chosen or ends[r] > ends[chosen[-1]] + apart:
            chosen.append(int(r))
        if len(chosen) == most:
            break
    return chosen


def _one(rows: Rows, plan: Plan, r: int, run: _kernel.Run | None, tell: bool = True) -> Outcome:
    """One restart, sweep by sweep."""
    if run is None:
        run = run_for(rows, plan, _threads(rows, plan), rows.points.order(plan.seed, r))
    some = np.array([r])
    draws = _draws(plan, some, plan.n_features or plan.cap)[0]
    run.greedy(int(_bases(rows, plan, some)[0]), plan.n_features, draws, int(_trials(plan, some)[0]))
    return _finish(run, plan, f"start {r}" if tell else None)


def _improve(rows: Rows, plan: Plan, outcome: Outcome, r: int, run: _kernel.Run, tries: int, sweeps: int) -> Outcome:
    """Feature after feature is exchanged for the residual of a drawn row, where J falls, until it hardly does for any.

    tries: replacements for a feature; sweeps: about so many altogether.
    """
    slack, turn, k, left = 1e-10 * rows.scatter, 0, 0, outcome.n_features
    while left > 0 and sweeps > 0 and plan.max_iter > 1:
        left -= 1
        for attempt in range(tries):
            # first the best of several rows, then single ones
            draws = uniform(plan.seed, _EXCHANGE_DRAW, r, turn, np.arange(_kernel.TRIALS if attempt == 0 else 1))
            turn += 1
            run.exchange(outcome.masks, outcome.n_features, k % outcome.n_features, draws)
            other = _finish(run, plan, None)
            sweeps -= other.n_iter
            if other.objective < outcome.objective - slack:
                plan.told(f"start {r}, feature {k % outcome.n_features} exchanged: {other.n_features} features, J {other.objective:.6g}")
                if other.objective < (1.0 - _WORTHWHILE) * outcome.objective:
                    left = other.n_features
                other.path = np.append(outcome.path, other.objective)
                other.n_iter += outcome.n_iter
                outcome = other
                break
        if outcome.n_features == 0:
            break
        k += 1
    return outcome


def from_memberships(rows: Rows, plan: Plan, masks: Masks, n_features: int) -> Outcome:
    """The descent from given memberships."""
    order = rows.points.order(plan.seed, 1) if plan.shuffle else _NO_ORDER
    run = run_for(rows, plan, _threads(rows, replace(plan, n_features=n_features)), order)
    run.start(masks, n_features)
    return _finish(run, plan, "given start")


def _finish(run: _kernel.Run, plan: Plan, name: str | None) -> Outcome:
    while not run.advance(1):
        pass
    if _build.debug() and (np.diff(run.path) > 1e-12 * (run.path[:-1] + run.scatter)).any():
        raise AssertionError(f"the objective rose: {run.path!r}")
    if name:
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


def _trials(plan: Plan, restarts: NDArray[np.intp]) -> NDArray[np.int32]:
    """Rows drawn for every feature of a start; 0: 2 + log K. Every other start of a base draws one, which finds what greed misses."""
    trials = np.full(len(restarts), plan.n_trials, np.int32)
    if plan.n_trials == 0:
        trials[restarts // (2 if plan.base == "mixed" else 1) % 2 == 1] = 1
    return trials


@dataclass
class Path:
    """The best K-features solutions for K = 0, 1, ...: entry K is None where K = 0."""

    outcomes: list[Outcome | None]
    errors: list[float]

    def interval(self, K: int) -> tuple[float, float]:
        """lambda^2 between which K features are better than one less and one more."""
        low = self.errors[K] - self.errors[K + 1] if len(self.errors) > K + 1 else 0.0
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
    """K-features for K = 1, 2, ..., and the K whose solution tells the table in the fewest nats.

    A large table chooses K by a sample of its rows; the features found there are then fitted to all.
    """
    if len(rows) > _CHOICE_ROWS:
        return _shortest_by_sample(rows, plan)
    path = Path([None], [rows.scatter])

    def best() -> int:
        lengths = [description_length(rows, outcome, error) for outcome, error in zip(path.outcomes, path.errors, strict=True)]
        return int(np.argmin(lengths))

    for K in range(1, plan.cap + 1):
        _add(path, rows, plan, K)
        if K - best() >= _PATIENCE:
            break
    for K in range(len(path.errors) - 2, 0, -1):
        _lessen(path, rows, plan, K)
    return path, best()


def _shortest_by_sample(rows: Rows, plan: Plan) -> tuple[Path, int]:
    few = Rows(np.ascontiguousarray(rows.X[spread(len(rows), _CHOICE_ROWS, plan.seed, _CHOICE_DRAW)]), rows.n_threads)
    path, K = shortest(few, plan)
    path.errors = [error * rows.scatter / few.scatter for error in path.errors]
    found = path.outcomes[K]
    path.outcomes = [None] * len(path.outcomes)
    if found is not None:
        run = run_for(few, plan.with_features(K), _threads(few, plan.with_features(K)), gram=False)
        run.start(found.masks, found.n_features)
        masks = choose(rows.X, run.features, plan.exact, rows.n_threads)
        path.outcomes[K] = from_memberships(rows, plan.with_features(K), masks, run.n_features)
    return path, K


def _add(path: Path, rows: Rows, plan: Plan, K: int) -> None:
    """K features: the best of the restarts and of the solution for K - 1 with one more."""
    plan = plan.with_features(K)
    outcome, before = best_restart(rows, plan), path.outcomes[-1]
    if before is not None and before.n_features == K - 1:
        run = run_for(rows, plan, _threads(rows, plan))
        run.exchange(before.masks, K - 1, -1, uniform(plan.seed, _EXCHANGE_DRAW, plan.n_init, 0, np.arange(_kernel.TRIALS)))
        grown = _finish(run, plan, None)
        grown = _improve(rows, plan, grown, plan.n_init + 1, run, 1, _SWEEPS * K if _is_small(rows, plan) else grown.n_iter)
        outcome = grown if grown.objective < outcome.objective else outcome
    plan.told(f"K = {K}: {outcome.objective:.6g}")
    path.outcomes.append(outcome)
    path.errors.append(min(outcome.objective, path.errors[-1]))


def _lessen(path: Path, rows: Rows, plan: Plan, K: int) -> None:
    """K features from the solution for K + 1 less one, where that is better."""
    plan, now, more = plan.with_features(K), path.outcomes[K], path.outcomes[K + 1]
    if now is None or more is None or more.n_features != K + 1:
        return
    Z, dropped = unpack(more.masks, K + 1), list(range(K + 1))
    if not _is_small(rows, plan):  # only the feature that is missed least
        run = run_for(rows, plan.with_features(K + 1), _threads(rows, plan))
        run.start(more.masks, K + 1)
        dropped = [int(np.argmin(run.spare()))]
    fewer = min((from_memberships(rows, plan, pack(np.delete(Z, k, 1)), K) for k in dropped), key=lambda outcome: outcome.objective)
    if fewer.objective < now.objective:
        path.outcomes[K], path.errors[K] = fewer, fewer.objective


def description_length(rows: Rows, outcome: Outcome | None, error: float) -> float:
    """Nats to tell the table by its features: N D / 2 log V + K D / 2 log(N S / V) + the memberships.

    V = SSE / (N D) is the variance that is left and S that of the table: a feature's D numbers are told within S as finely as N rows
    of variance V determine them (with S = V this is the (K D / 2) log N of BIC).
    """
    n, D = rows.X.shape
    least = max(1e-14 * rows.scatter, np.finfo(float).tiny)
    left = max(error, least) / (n * D)
    length = 0.5 * n * D * math.log(left)
    if outcome is not None and outcome.n_features:
        spread = max(rows.points.scatter, least) / (n * D)
        length += 0.5 * outcome.n_features * D * math.log(max(n * spread / left, 1.0))
        length += membership_entropy(unpack(outcome.masks, outcome.n_features))
    return float(length)


def membership_entropy(Z: NDArray[np.bool_]) -> float:
    """Nats to tell Z column by column, each alone or beside the column before it that says most about it.

    So a feature and its complement cost no more than the feature beside one that everybody has, which makes the same sums.
    """
    bits = Z.astype(np.float64)
    n, K = bits.shape
    both, size = bits.T @ bits, bits.sum(axis=0)
    told: float = 0.0
    for k in range(K):
        alone = _entropy(np.array([size[k], n - size[k]]))
        given = [
            _entropy(np.array([both[k, j], size[j] - both[k, j]]))
            + _entropy(np.array([size[k] - both[k, j], n - size[k] - size[j] + both[k, j]]))
            for j in range(k)
        ]
        told += float(min([alone, *given]))
    return told


def _entropy(counts: Floats) -> float:
    """Nats to tell which of two kinds each of some things is."""
    counts = counts[counts > 0]
    return float(counts.sum() * np.log(counts.sum()) - counts @ np.log(counts)) if len(counts) else 0.0


def choose(X: NDArray[Any], features: Floats, most_exact: int, n_threads: int) -> Masks:
    """(n,) the features that every row chooses of given ones: the best combination of up to `most_exact`, else bit after bit from none."""
    n, K = len(X), len(features)
    masks, left = np.zeros(n, np.uint64), np.empty(n)
    exact = K if most_exact >= K else 0
    if K:
        work = X.size * K + n * 2.0**exact
        _rows.assign(X, np.ascontiguousarray(features), exact, masks, left, threads_for(n_threads, work))
    return masks


def unpack(masks: Masks, K: int) -> NDArray[np.bool_]:
    """Bits as a table (n, K)."""
    return np.asarray((masks[:, None] >> np.arange(K, dtype=np.uint64)) & np.uint64(1), dtype=bool)


def pack(Z: NDArray[np.bool_]) -> Masks:
    """A table (n, K) as bits."""
    bits = np.left_shift(np.uint64(1), np.arange(Z.shape[1], dtype=np.uint64))
    return np.asarray((Z * bits).sum(axis=1), dtype=np.uint64)
