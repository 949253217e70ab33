"""Restarts of the feature models: their table, one restart, and exchanges of features after it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData
from craftc._common.estimator import FitResult
from craftc._common.random import FeatureStream, uniform
from craftc._common.threads import aligned, parallel_map, threads_for
from craftc._common.typing import Array, Bits, Floats, Masks
from craftc._kernels import bpmeans as bpmeans_kernel
from craftc._kernels import bpmeans_rows as rows_kernel
from craftc._kernels import parallel as build

_IMPROVED = 3  # rank by J, when a restart ends, up to which exchanges improve it
ROUNDS = 4  # rounds over all features without a gain that end the exchanges
_SWEEPS = 100  # most sweeps of all exchanges from one solution, per feature
_HORIZON = 16  # sweeps as good as the last one within which an exchange must catch up
_VISITS = 200_000_000  # most cells and combinations visited by exchanges where K is chosen
WORK = 1e8  # most work of the exchanges from one solution where many are tried: at a penalty, or stepwise
_HEAT = 10  # sweeps after which starts are ranked
_WORTHWHILE = 1e-4  # share of J that an exchange must save for all features to be tried again
# difference of J up to which solutions are equally good, relative to the sum of squares around the mean, and
# to that around 0, whose rounding it is
_EQUAL, _ROUNDING = 1e-12, 1e-14
_SLACK = 1e-10  # difference of J of an exchange, relative to the sum of squares around the mean
_SMALL = 20_000_000  # products of a sweep up to which restarts run in parallel, one thread each
_GRAM_ROWS = 8192  # most rows whose inner products are all stored
_SECONDS = 0.1  # seconds between two checks for an interrupt
_SHORT = 2e8  # most visits of a short restart
_LONG, _TYPICAL = 100, 20  # assumed sweeps of a restart, and features if their number is not given
# squared mean, relative to the mean square, up to which it is rounding error
_CENTRED = {np.dtype(np.float64): 1e-20, np.dtype(np.float32): 1e-12}
_TABLE_ORDER = np.empty(0, np.int32)
NONE, MEAN, ZERO = 0, 1, 2  # the feature that a start gives to every row


class FeatureData:
    """A table (n, D), contiguous and finite, and what all restarts share: norms, the mean, and (where there
    are no more rows than columns) all inner products. `names` (D,): check the ranges of the columns.
    """

    def __init__(self, X: Array, n_threads: int, names: Sequence[str] | None = None) -> None:
        self.X, self.n_threads = X, n_threads
        self.points = DenseData(X, None, n_threads)
        if names is not None:
            self.points.check_ranges(names)
        n, D = X.shape
        largest = float(np.abs(self.points.middle).max()) + self.points.reach
        if largest > 0 and 2 * math.log2(largest) + math.log2(n * D) > 1000:
            raise ValueError(
                f"The table has values up to {largest:.3g}, and their squares would overflow: scale it down."
            )
        self.mean = self.points.mean
        self.products = self._inner_products() if n <= min(D, _GRAM_ROWS) else None
        self.norm = np.empty(n)
        if self.products is None:
            rows_kernel.norms(X, self.norm)
        else:
            self.norm = np.ascontiguousarray(np.diag(self.products))
        self.scatter = float(np.add.reduce(self.norm))
        self.mean_products = np.ascontiguousarray(self._times(self.mean[:, None])[:, 0])
        self.base = ZERO if n * float(self.mean @ self.mean) <= _CENTRED[X.dtype] * self.scatter else MEAN

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rounding(self) -> float:
        """Difference of J up to which solutions are equally good."""
        return max(_EQUAL * self.points.scatter, _ROUNDING * self.scatter)

    def _times(self, vectors: Floats) -> Floats:
        """(n, TRIALS) inner products of the rows with vectors (D, at most TRIALS)."""
        table = np.zeros((self.X.shape[1], bpmeans_kernel.TRIALS))
        table[:, : vectors.shape[1]] = vectors
        out = np.empty((len(self), bpmeans_kernel.TRIALS))
        rows_kernel.products(self.X, table, out, threads_for(self.n_threads, self.X.size))
        return out

    def _inner_products(self) -> Floats:
        """X X', on a grid so coarse that sums over the rows are exact in double precision."""
        n = len(self)
        products = aligned((n, n))
        for first in range(0, n, bpmeans_kernel.TRIALS):
            some = slice(first, min(first + bpmeans_kernel.TRIALS, n))
            products[:, some] = self._times(self.X[some].T.astype(np.float64))[:, : some.stop - first]
        largest = float(np.abs(products).max())
        if largest > 0:
            exponent = 52 - math.frexp(largest)[1] - math.ceil(math.log2(n))
            np.ldexp(products, exponent, out=products)
            np.rint(products, out=products)
            np.ldexp(products, -exponent, out=products)
        return products

    def left_over(self, features: Floats, masks: Masks) -> Floats:
        """(n,) squared distance of every row to the sum of its features, summed column by column."""
        out = np.empty(len(self))
        rows_kernel.left_over(self.X, features, masks, out, threads_for(self.n_threads, self.X.size))
        return out


@dataclass(frozen=True)
class FeatureConfig:
    """The objective of a restart, and how it is minimised."""

    penalty: float  # 0: the number of features is fixed
    n_features: int  # 0: features are added as long as J falls
    cap: int
    exact: int  # number of features up to which a row compares all combinations
    base: str  # "mean", "none" or "mixed" (odd restarts none)
    n_trials: int  # 0: 2 + log K and 1 in turn
    max_iter: int
    n_init: int
    seed: int
    exchanges: bool = True  # False: the best restart as it ends; linearly dependent features stay
    collapsed: bool = False
    reseed: bool = False
    shuffle: bool = False
    work: float = math.inf  # most work of the exchanges from one solution
    callback: Callable[[str], None] = field(default=lambda line: None)
    stop: Event = field(default_factory=Event)  # set where another thread has failed or was interrupted

    def with_features(self, K: int) -> FeatureConfig:
        """K-features with this number of features and random numbers of its own."""
        seed = self.seed + K
        return replace(self, penalty=0.0, n_features=K, cap=K, seed=seed, collapsed=False, shuffle=False)


@dataclass
class FeatureFit(FitResult):
    """The solution that a restart reached: J and the memberships, as bits (n,)."""

    masks: Masks
    n_features: int


@dataclass
class Record:
    """A solution that is the best of the first `n_starts` starts."""

    n_starts: int
    fit: FeatureFit


def run_for(
    data: FeatureData,
    config: FeatureConfig,
    n_threads: int,
    order: NDArray[np.int32] = _TABLE_ORDER,
    gram: bool = True,
) -> bpmeans_kernel.Run:
    """Memory for restarts with these settings."""
    points, most = data.points, config.exact if config.penalty else min(config.exact, config.cap)
    table = data.X, data.products if gram else None, data.norm, data.mean, data.mean_products
    search = config.penalty, config.cap, config.collapsed, config.reseed, not config.exchanges, most
    cells = (*table, points.middle, points.grid, points.step)
    return bpmeans_kernel.Run(*cells, *search, config.max_iter, order, n_threads)


def best_restarts(
    data: FeatureData, config: FeatureConfig, improve: bool = True, target: float = math.inf
) -> list[Record]:
    """Solutions that were the lowest when their start ended, after exchanges; the last is the best of all.

    No result depends on later restarts or on the number of threads: more restarts never end with a higher J.
    `target`: J of a known solution; long starts that would not reach it soon are given up.
    """
    side_by_side = restarts_in_parallel(data, config)
    run = None if side_by_side or config.shuffle else run_for(data, config, threads_within(data, config))
    fits: dict[int, FeatureFit] = {}
    small, improve = is_small(data, config), improve and config.exchanges
    if small and side_by_side and not config.shuffle:
        objectives, sweeps = _side_by_side(data, config)
    else:
        n_threads = data.n_threads if side_by_side else 1
        starts = range(config.n_init)
        found = parallel_map(
            lambda r: run_restart(data, config, r, run, target=target), starts, n_threads, config.stop
        )
        fits = dict(enumerate(found))
        objectives = np.array([fit.objective for fit in found])
        sweeps = np.array([fit.n_iter for fit in found])
    spent = np.cumsum(sweeps)

    def improved(r: int) -> Record:
        own = run or run_for(data, config, threads_within(data, config))
        fit = fits.get(r) or run_restart(data, config, r, own, report=False)
        if improve:
            budget = exchange_budget(data, config, fit.n_features, int(spent[r]))
            fit = exchange_features(
                data, config, fit, (FeatureStream.EXCHANGE, r), own, ROUNDS if small else 1, budget
            )
        return Record(r + 1, fit)

    chosen = _promising(objectives, _IMPROVED if small and improve else 1, data.rounding)
    # Python threads pay for long searches only
    long = config.collapsed or data.X.size * (config.n_features or config.cap) > _SMALL / 100
    worth = side_by_side and long
    return running_best(data, parallel_map(improved, chosen, data.n_threads if worth else 1, config.stop))


def ranked(data: FeatureData, config: FeatureConfig) -> list[int]:
    """The restarts by their J after a few sweeps, one for each value of J."""
    heat = replace(config, max_iter=min(config.max_iter, _HEAT))
    if restarts_in_parallel(data, config):
        objectives, _ = _side_by_side(data, heat)
    else:
        run = run_for(data, heat, threads_within(data, heat))
        objectives = np.array([run_restart(data, heat, r, run).objective for r in range(heat.n_init)])
    order: list[int] = []
    for r in np.argsort(objectives, kind="stable").tolist():
        if not order or objectives[r] - objectives[order[-1]] > data.rounding:
            order.append(r)
    return order


def running_best(data: FeatureData, found: list[Record]) -> list[Record]:
    """The records that are lower than all of fewer starts, by more than rounding."""
    records: list[Record] = []
    for record in sorted(found, key=lambda one: one.n_starts):
        if not records or record.fit.objective < records[-1].fit.objective - data.rounding:
            records.append(record)
    return records


def _products(data: FeatureData, config: FeatureConfig) -> int:
    """Products of a sweep."""
    return data.X.size * max(config.n_features or config.cap, 8)


def is_small(data: FeatureData, config: FeatureConfig) -> bool:
    """Whether sweeps are fast enough for exchanges to use more of them than the starts."""
    return data.products is not None or _products(data, config) < _SMALL


def restarts_in_parallel(data: FeatureData, config: FeatureConfig) -> bool:
    """Whether a restart uses one thread and several restarts run in parallel."""
    most = _SMALL if config.n_init > 1 else _SMALL / 8
    return data.products is not None or config.collapsed or _products(data, config) < most


def threads_within(data: FeatureData, config: FeatureConfig) -> int:
    """Threads within one restart."""
    return 1 if restarts_in_parallel(data, config) else threads_for(data.n_threads, data.X.size)


def parallel_restarts(data: FeatureData, config: FeatureConfig) -> tuple[Floats, NDArray[np.int64]]:
    """J and sweeps of every restart, one per thread at a time."""
    steps = config.n_features or config.cap
    n_runs = threads_for(data.n_threads, _SMALL) if config.n_init > 1 else 1
    runs = [run_for(data, config, 1) for _ in range(n_runs)]
    objectives, sweeps = np.empty(config.n_init), np.empty(config.n_init, np.int64)
    first, batch = 0, len(runs)
    while first < config.n_init:
        some = np.arange(first, min(first + batch, config.n_init))
        states = np.empty((len(some), 3), np.int64)
        started = time.perf_counter()
        bases, draws = _bases(data, config, some), random_draws(config, some, steps)
        trials, ends = _trials(config, some), objectives[first:]
        bpmeans_kernel.restarts(runs, bases, config.n_features, draws, trials, ends, states)
        for r, (K, n_iter, _) in zip(some, states, strict=True):
            config.callback(f"start {r}: {K} features after {n_iter} sweeps, J {objectives[r]:.6g}")
        sweeps[some] = states[:, 1]
        first += len(some)
        if time.perf_counter() - started < _SECONDS / 2:
            batch *= 2
    return objectives, sweeps


def _side_by_side(data: FeatureData, config: FeatureConfig) -> tuple[Floats, NDArray[np.int64]]:
    """J and sweeps of every restart; long ones sweep by sweep: a kernel call cannot be interrupted."""
    visits = _visits(data, config, config.n_features or min(config.cap, _TYPICAL))
    if visits * min(config.max_iter, _LONG) < _SHORT:
        return parallel_restarts(data, config)

    def outcome(r: int) -> tuple[float, int]:
        fit = run_restart(data, config, r, None)
        return fit.objective, fit.n_iter

    found = parallel_map(outcome, range(config.n_init), data.n_threads, config.stop)
    return np.array([objective for objective, _ in found]), np.array([n_iter for _, n_iter in found])


def _promising(objectives: Floats, most: int, tolerance: float) -> list[int]:
    """The restarts that are among the `most` lowest of those up to themselves, one for each value of J."""
    chosen: list[int] = []
    lowest: list[float] = []
    for r, objective in enumerate(objectives):
        low = len(lowest) < most or objective < lowest[-1]
        if low and all(abs(objective - other) > tolerance for other in lowest):
            lowest = sorted([*lowest, float(objective)])[:most]
            chosen.append(r)
    return chosen


def run_restart(
    data: FeatureData,
    config: FeatureConfig,
    r: int,
    run: bpmeans_kernel.Run | None,
    report: bool = True,
    target: float = math.inf,
) -> FeatureFit:
    """One restart, sweep by sweep, given up if J would not reach `target` soon."""
    if run is None:
        order = data.points.order(config.seed, r) if config.shuffle else _TABLE_ORDER
        run = run_for(data, config, threads_within(data, config), order)
    some = np.array([r])
    draws = random_draws(config, some, config.n_features or config.cap)[0]
    run.greedy(int(_bases(data, config, some)[0]), config.n_features, draws, int(_trials(config, some)[0]))
    return run_to_convergence(run, config, f"start {r}" if report else None, target)


def exchange_features(
    data: FeatureData,
    config: FeatureConfig,
    fit: FeatureFit,
    key: tuple[FeatureStream, int],
    run: bpmeans_kernel.Run,
    rounds: int,
    sweeps: int,
) -> FeatureFit:
    """Replace feature after feature where J falls, until `rounds` rounds over all yield no substantial gain.

    The features of a round are replaced by residuals of drawn rows (the best of several; in later rounds
    single ones) and by random memberships in turn. `sweeps` is an approximate budget; a larger one continues
    the same search, so that it never ends higher.
    """
    slack = max(_SLACK * data.points.scatter, data.rounding)
    turn, since = 0, 0  # since: turns after the last substantial gain
    while since < rounds * fit.n_features and sweeps > 0 and config.max_iter > 1 and not config.stop.is_set():
        k, (pairs, shuffled) = turn % fit.n_features, divmod(since // fit.n_features, 2)
        if shuffled:
            draws = uniform(config.seed, *key, turn, np.arange(len(data)))
            run.start(redrawn(fit.masks, k, draws), fit.n_features)
        else:
            draws = exchange_draws(config, key, turn, 1 if pairs else bpmeans_kernel.TRIALS)
            run.exchange(fit.masks, fit.n_features, k, draws)
        other = run_to_convergence(run, config, None, fit.objective)
        sweeps -= other.n_iter
        turn, since = turn + 1, since + 1
        if other.objective < fit.objective - slack:
            found = f"{other.n_features} features, J {other.objective:.6g}"
            config.callback(f"start {key[1]}, feature {k} exchanged: {found}")
            if other.objective < (1.0 - _WORTHWHILE) * fit.objective:
                since = 0
            other.path = [*fit.path, other.objective]
            other.n_iter += fit.n_iter
            fit = other
    return fit


def redrawn(masks: Masks, k: int, draws: Floats) -> Masks:
    """Memberships in which every other row, drawn at random, has feature k."""
    bit = np.uint64(1 << k)
    return np.asarray(np.where(draws < 0.5, masks | bit, masks & ~bit))


def run_alone(data: FeatureData, config: FeatureConfig, K: int) -> bpmeans_kernel.Run:
    """Memory for a search of about K features that runs alone, with all threads."""
    # a sweep has about four parallel regions
    return run_for(data, config, threads_for(data.n_threads, _visits(data, config, K) / 4))


def improved_alone(
    data: FeatureData,
    config: FeatureConfig,
    fit: FeatureFit,
    key: tuple[FeatureStream, int],
    rounds: int = ROUNDS,
) -> FeatureFit:
    """One solution improved by exchanges that visit a limited number of cells of any table."""
    K = fit.n_features
    budget = min(_SWEEPS * K, 1 + _VISITS // _visits(data, config, K))
    return exchange_features(data, config, fit, key, run_alone(data, config, K), rounds, budget)


def _visits(data: FeatureData, config: FeatureConfig, K: int) -> int:
    """Cells and combinations of features that a sweep visits."""
    visits = data.X.size * (K + 1)
    if config.exact >= K:
        visits += len(data) * 2**K
    return visits + 4 * len(data) * K**2 if config.collapsed else visits


def work_of_sweep(data: FeatureData, config: FeatureConfig, K: int) -> float:
    """Operations of a sweep with K features, about one per nanosecond: choices of the rows, and the inverse
    of Z'Z.
    """
    combinations = 0.25 * len(data) * 2.0**K if config.exact >= K else 0.0
    return data.X.size * (K + 1.0) + combinations + float(K) ** 3


def exchange_budget(data: FeatureData, config: FeatureConfig, n_features: int, sweeps: int) -> int:
    """Most sweeps of the exchanges from one solution; if expensive, the `sweeps` that led to it."""
    if not is_small(data, config) or config.collapsed:
        return sweeps
    most, each = _SWEEPS * n_features, work_of_sweep(data, config, n_features)
    return most if most * each <= config.work else max(sweeps, int(config.work / each))


def from_memberships(
    data: FeatureData, config: FeatureConfig, masks: Masks, n_features: int, target: float = math.inf
) -> FeatureFit:
    """The descent from given memberships, given up if J would not reach `target` soon."""
    order = data.points.order(config.seed, 1) if config.shuffle else _TABLE_ORDER
    run = run_for(data, config, threads_within(data, replace(config, n_features=n_features)), order)
    run.start(masks, n_features)
    return run_to_convergence(run, config, "given start", target)


def run_to_convergence(
    run: bpmeans_kernel.Run, config: FeatureConfig, name: str | None, target: float = math.inf
) -> FeatureFit:
    """Sweeps until convergence or max_iter, fewer if J cannot reach `target` soon; `name` for callbacks."""
    before = math.inf
    while (
        not run.advance(1, config.stop)
        and not config.stop.is_set()
        and run.objective - target <= _HORIZON * (before - run.objective)
    ):
        before = run.objective
    if build.debug() and (np.diff(run.path) > 1e-12 * (run.path[:-1] + run.scatter)).any():
        raise AssertionError(f"the objective rose: {run.path!r}")
    if name:
        config.callback(f"{name}: {run.n_features} features after {run.n_iter} sweeps, J {run.objective:.6g}")
    path, masks = run.path.tolist(), run.masks.copy()
    return FeatureFit(run.objective, path, run.n_iter, run.converged, masks, run.n_features)


def _bases(data: FeatureData, config: FeatureConfig, restarts: NDArray[np.intp]) -> NDArray[np.int32]:
    """The feature that every row has at the start of each restart."""
    bases = np.full(len(restarts), NONE if config.base == "none" else data.base, np.int32)
    if config.base == "mixed":
        bases[restarts % 2 == 1] = NONE
    return bases


def random_draws(config: FeatureConfig, restarts: NDArray[np.intp], steps: int) -> Floats:
    """(R, steps, trials) uniform numbers by (seed, restart, step, trial)."""
    trials = config.n_trials or 2 + int(math.log(steps))
    key = restarts[:, None, None], np.arange(steps)[:, None], np.arange(trials)
    return np.ascontiguousarray(uniform(config.seed, FeatureStream.FEATURE, *key))


def with_one_more(run: bpmeans_kernel.Run, config: FeatureConfig, masks: Masks, number: int) -> FeatureFit:
    """A solution with one feature less than `config` has, and the residual of a drawn row, after sweeps until
    convergence; `number` keys the draws.
    """
    draws = exchange_draws(config, (FeatureStream.GROWTH, number), 0, bpmeans_kernel.TRIALS)
    run.exchange(masks, config.n_features - 1, -1, draws)
    return run_to_convergence(run, config, None)


def exchange_draws(config: FeatureConfig, key: tuple[FeatureStream, int], turn: int, trials: int) -> Floats:
    """(trials,) uniform numbers by (seed, stream, restart, turn, trial)."""
    return np.asarray(uniform(config.seed, *key, turn, np.arange(trials)))


def _trials(config: FeatureConfig, restarts: NDArray[np.intp]) -> NDArray[np.int32]:
    """Rows drawn for every feature of a start (0: 2 + log K); one in every other start of a base."""
    trials = np.full(len(restarts), config.n_trials, np.int32)
    if config.n_trials == 0:
        trials[restarts // (2 if config.base == "mixed" else 1) % 2 == 1] = 1
    return trials


# ---- memberships ----


def choose(X: Array, features: Floats, most_exact: int, n_threads: int) -> Masks:
    """(n,) memberships of rows: best of all combinations up to `most_exact` features, else by switches."""
    n, K = len(X), len(features)
    masks, left = np.zeros(n, np.uint64), np.empty(n)
    exact = K if most_exact >= K else 0
    if K:
        threads = threads_for(n_threads, X.size * K + n * 2.0**exact)
        rows_kernel.assign(X, np.ascontiguousarray(features), exact, masks, left, threads)
    return masks


def unpack(masks: Masks, K: int) -> Bits:
    """Bits as a table (n, K)."""
    return np.asarray((masks[:, None] >> np.arange(K, dtype=np.uint64)) & np.uint64(1), dtype=bool)


def pack(Z: Bits) -> Masks:
    """A table (n, K) as bits."""
    bits = np.left_shift(np.uint64(1), np.arange(Z.shape[1], dtype=np.uint64))
    return np.asarray((Z * bits).sum(axis=1), dtype=np.uint64)
