"""The number of features: K-features for K = 1, 2, ..., and the K of least cost or description length."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from craftc._common.cluster_moments import consistent_choice, some_for_dimensions
from craftc._common.random import FeatureStream, spread
from craftc._common.typing import Bits, Floats
from craftc.bpmeans.restarts import (
    WORK,
    FeatureConfig,
    FeatureData,
    FeatureFit,
    Record,
    best_restarts,
    choose,
    exchange_budget,
    exchange_features,
    from_memberships,
    improved_alone,
    pack,
    ranked,
    run_alone,
    run_for,
    run_restart,
    running_best,
    threads_within,
    unpack,
    with_one_more,
)

_CHOICE_ROWS = 4096  # rows of the sample from which a larger table chooses K
_PATH_ROUNDS = 2  # rounds of exchanges of the solutions that show which K is best
_GROWN_ROUNDS = 2  # the same of the solutions of a stepwise search that grew
_FEW = 8  # features up to which a stepwise search improves starts, too
_LEADERS = 6  # starts improved where K is best
_PATIENCE = 2  # numbers of features tried without a shorter description
_SPECTRUM = 1 << 30  # multiplications of the products whose spectrum shows the dimensions
_SINGULAR = 1e-12  # share of the largest eigenvalue up to which others are rounding errors
_HIDDEN = 2.0  # factor of the dimensions of the table: as many directions may be those of features


class ModelPath:
    """The best K-features solutions of all starts, and of the first 1, 2, ... of them; K = 0 has no record.

    errors[K] (n_init,): the squared error that the first 1, 2, ... starts reach with at most K features.
    """

    def __init__(self, data: FeatureData, n_init: int) -> None:
        self.records: list[list[Record]] = [[]]
        self.errors = [np.full(n_init, data.scatter)]

    def append(self, records: list[Record]) -> None:
        """The solutions with one more feature."""
        errors = self.errors[-1].copy()
        for record in records:
            later = errors[record.n_starts - 1 :]
            np.minimum(later, record.fit.objective, out=later)
        self.records.append(records)
        self.errors.append(errors)

    def improve(self, K: int, fit: FeatureFit) -> None:
        """Another solution for K, kept if it is better than that of all starts."""
        if fit.objective < self.errors[K][-1]:
            self.records[K].append(Record(len(self.errors[K]), fit))
            self.errors[K][-1] = fit.objective

    def best(self, K: int) -> FeatureFit | None:
        """The solution of all starts."""
        return self.records[K][-1].fit if self.records[K] else None

    def best_of_first(self, n_starts: int, K: int) -> FeatureFit | None:
        """The solution of the first starts."""
        return next((record.fit for record in reversed(self.records[K]) if record.n_starts <= n_starts), None)

    def interval(self, K: int) -> tuple[float, float]:
        """lambda^2 between which K features are better than K + 1 and K - 1."""
        errors = [float(of_starts[-1]) for of_starts in self.errors]
        low = max(errors[K] - errors[K + 1], 0.0) if len(errors) > K + 1 else 0.0  # not below 0 by rounding
        high = max(errors[K - 1] - errors[K], 0.0) if K else np.inf
        return low, high


def stepwise(data: FeatureData, config: FeatureConfig, penalty: float) -> tuple[ModelPath, NDArray[np.intp]]:
    """K-features for K = 1, 2, ... until SSE + K lambda^2 no longer falls: the path and, for the first 1, 2,
    ... starts, the best K, which may be 0.

    The path of n starts continues as long as that of any number of starts up to n does: with more starts the
    search is never shorter, and never ends with a higher cost.
    """
    path, config = ModelPath(data, config.n_init), replace(config, work=WORK)
    costs, falls = [path.errors[0]], np.ones(config.n_init, bool)
    reach = np.zeros(config.n_init, np.intp)  # the largest K of the path
    for K in range(1, config.cap + 1):
        reach[np.logical_or.accumulate(falls)] = K
        _extend(path, data, config, K)
        costs.append(path.errors[K] + K * penalty)
        if K > 1:
            falls &= costs[K] < costs[K - 1]
        if not falls.any():
            break
    tried = np.arange(len(costs))[:, None] <= reach
    return path, np.where(tried, np.array(costs), np.inf).argmin(axis=0)


def shortest_description(data: FeatureData, config: FeatureConfig) -> tuple[ModelPath, int]:
    """K-features for K = 1, 2, ..., and the K of least description length.

    The residuals of the chosen K have dimensions of their own, by which K is chosen again. A large table
    chooses K from a sample, whose features are then fitted to all rows.
    """
    if len(data) > _CHOICE_ROWS:
        return _shortest_of_sample(data, config)
    choice = _Choice(data, config)
    most = min(float(data.X.shape[1]), _HIDDEN * dimensions_left(data, None))
    best = consistent_choice(choice.shortest, lambda K: dimensions_left(data, choice.path.best(K)), most)
    return choice.path, best


class _Choice:
    """The path as far as it has been needed, and the K of least description length on it.

    One solution for each K, the leading start or the solution for K - 1 with one more feature, shows about
    which K that is. For this K and K - 1 more starts are then improved, and longer, as long as this changes
    which K is best.
    """

    def __init__(self, data: FeatureData, config: FeatureConfig) -> None:
        self.data, self.config = data, config
        self.path = ModelPath(data, config.n_init)
        self._restarts: list[list[int]] = [[]]
        self._improved = {0}  # K whose further starts have been improved

    def shortest(self, dimensions: float) -> int:
        """K at these dimensions of the residuals."""
        data, config, path = self.data, self.config, self.path

        def length(K: int) -> float:
            return description_length(data, path.best(K), float(path.errors[K][-1]), dimensions)

        lengths = [length(K) for K in range(len(path.records))]
        while len(lengths) <= config.cap and len(lengths) - 1 - int(np.argmin(lengths)) < _PATIENCE:
            self._extend()
            lengths.append(length(len(lengths)))
        if config.exchanges:
            for K in range(len(lengths) - 2, 0, -1):
                _improve_from_above(path, data, config, K)
                lengths[K] = length(K)
            tried = self._improved
            while (best := int(np.argmin(lengths))) not in tried or max(best - 1, 0) not in tried:
                K = best - 1 if best in tried else best
                tried.add(K)
                _improve(path, data, config.with_features(K), self._restarts[K][1:_LEADERS])
                lengths[K] = length(K)
        return int(np.argmin(lengths))

    def _extend(self) -> None:
        """The solution with one more feature."""
        path, K = self.path, len(self.path.records)
        config = self.config.with_features(K)
        self._restarts.append(ranked(self.data, config))
        leading = _leading(path, self.data, config, self._restarts[K][0])
        path.append([Record(config.n_init, leading)])
        config.callback(f"K = {K}: {path.errors[K][-1]:.6g}")


def _leading(path: ModelPath, data: FeatureData, config: FeatureConfig, restart: int) -> FeatureFit:
    """The better of a restart and of the solution for K - 1 with a new feature, improved by exchanges."""
    K = config.n_features
    run = run_alone(data, config, K)
    fit, fewer = run_restart(data, config, restart, run), path.best(K - 1)
    key = FeatureStream.EXCHANGE, restart
    if not config.exchanges:
        return fit
    if fewer is not None and fewer.n_features == K - 1:
        grown = with_one_more(run, config, fewer.masks, config.n_init)
        if grown.objective < fit.objective:
            fit, key = grown, (FeatureStream.GROWN_EXCHANGE, 0)
    return improved_alone(data, config, fit, key, _PATH_ROUNDS)


def _improve(path: ModelPath, data: FeatureData, config: FeatureConfig, restarts: list[int]) -> None:
    """More exchanges for the solution of the path, and for other restarts."""
    K = config.n_features
    run, best = run_alone(data, config, K), path.best(K)
    found = [((FeatureStream.EXCHANGE, r), run_restart(data, config, r, run)) for r in restarts]
    if best is not None:
        found.append(((FeatureStream.GROWN_EXCHANGE, 1), best))
    for key, fit in found:
        path.improve(K, improved_alone(data, config, fit, key))


def _shortest_of_sample(data: FeatureData, config: FeatureConfig) -> tuple[ModelPath, int]:
    some = spread(len(data), _CHOICE_ROWS, config.seed, FeatureStream.CHOICE_SAMPLE)
    sample = FeatureData(np.ascontiguousarray(data.X[some]), data.n_threads)
    path, K = shortest_description(sample, config)
    path.errors = [errors * data.scatter / sample.scatter for errors in path.errors]
    found = path.best(K)
    path.records = [[] for _ in path.records]
    if found is not None:
        fixed = config.with_features(K)
        run = run_for(sample, fixed, threads_within(sample, fixed), gram=False)
        run.start(found.masks, found.n_features)
        masks = choose(data.X, run.features, config.exact, data.n_threads)
        path.records[K] = [Record(config.n_init, from_memberships(data, fixed, masks, run.n_features))]
    return path, K


def _extend(path: ModelPath, data: FeatureData, config: FeatureConfig, K: int) -> None:
    """Append K features: the best of the restarts and of the solutions for K - 1 with one more feature."""
    config = config.with_features(K)
    fewer = [record for record in path.records[-1] if config.exchanges and record.fit.n_features == K - 1]
    # solutions of many features that grew are lower than those of starts, whatever the exchanges
    found = best_restarts(data, config, improve=K <= _FEW or not fewer)
    found += [_grown(record, data, config, K) for record in fewer]
    path.append(running_best(data, found))
    config.callback(f"K = {K}: {path.records[-1][-1].fit.objective:.6g}")


def _grown(record: Record, data: FeatureData, config: FeatureConfig, K: int) -> Record:
    """A solution for K - 1 features with one more, improved by exchanges."""
    run = run_for(data, config, threads_within(data, config))
    fit = with_one_more(run, config, record.fit.masks, record.n_starts)
    budget = exchange_budget(data, config, K, fit.n_iter)
    key = (FeatureStream.GROWN_EXCHANGE, record.n_starts)
    fit = exchange_features(data, config, fit, key, run, _GROWN_ROUNDS, budget)
    return Record(record.n_starts, fit)


def _improve_from_above(path: ModelPath, data: FeatureData, config: FeatureConfig, K: int) -> None:
    """Replace the solution for K by the one for K + 1 less its feature of least removal cost, if better."""
    config, now, more = config.with_features(K), path.best(K), path.best(K + 1)
    if now is None or more is None or more.n_features != K + 1:
        return
    run = run_for(data, config.with_features(K + 1), threads_within(data, config))
    run.start(more.masks, K + 1)
    kept = np.delete(unpack(more.masks, K + 1), int(np.argmin(run.removal_costs())), 1)
    path.improve(K, from_memberships(data, config, pack(kept), K, now.objective))


def dimensions_left(data: FeatureData, fit: FeatureFit | None) -> float:
    """Dimensions of the residuals of a solution, 1 to D: constant columns and copies of columns do not
    change it.

    The largest that the scatter W has without some of its leading directions, which may be those of features
    that are not in the solution.
    """
    n, D = data.X.shape
    rows = some_for_dimensions(n, D, _SPECTRUM)
    left = data.X[rows].astype(np.float64)
    if fit is not None and fit.n_features:
        Z = unpack(fit.masks, fit.n_features).astype(np.float64)
        left -= Z[rows] @ np.linalg.lstsq(Z, data.X.astype(np.float64), rcond=None)[0]
    largest = float(np.abs(left).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    left /= largest
    values = np.linalg.eigvalsh(left.T @ left if len(left) >= D else left @ left.T)  # ascending
    values = values[values > _SINGULAR * values[-1]]
    found = float((np.cumsum(values) ** 2 / np.cumsum(values**2)).max())
    return _of_population(float(f"{found:.3g}"), len(left), D)


def _of_population(dimensions: float, n: int, D: int) -> float:
    """Dimensions of a scatter without what n rows add to tr W^2 by chance: of n normal rows in D equal
    directions the sample has n D / (n + D + 1).
    """
    share = 1.0 / dimensions - 1.0 / n
    if n < 3 or share * D <= 1.0:
        return float(D)
    return max(1.0, min(float(D), (n - 1) * (n + 2) / n**2 / share))


def description_length(data: FeatureData, fit: FeatureFit | None, error: float, dimensions: float) -> float:
    """Description length in nats: N d / 2 log V + K d / 2 log(N S / V) + the entropy of the memberships.

    d are the dimensions of the residuals, V = SSE / (N d) is their variance and S that of the table: a
    feature is coded within S at the precision to which N rows of variance V determine it (with S = V this is
    the (K d / 2) log N of BIC).
    """
    cells = len(data) * dimensions
    least = max(1e-14 * data.scatter, np.finfo(float).tiny)
    left = max(error, least) / cells
    length = 0.5 * cells * math.log(left)
    if fit is not None and fit.n_features:
        variance = max(data.points.scatter, least) / cells
        length += 0.5 * fit.n_features * dimensions * math.log(max(len(data) * variance / left, 1.0))
        length += membership_entropy(unpack(fit.masks, fit.n_features))
    return float(length)


def membership_entropy(Z: Bits) -> float:
    """Nats of Z column by column, each alone or conditionally on the earlier column that predicts it best.

    A feature and its complement cost no more than the feature and one of every row, of the same sums.
    """
    bits = Z.astype(np.float64)
    n, K = bits.shape
    both, size = bits.T @ bits, bits.sum(axis=0)
    total: float = 0.0
    for k in range(K):
        alone = _entropy(np.array([size[k], n - size[k]]))
        given = []
        for j, common in enumerate(both[k, :k]):
            without = np.array([size[k] - common, n - size[k] - size[j] + common])
            given.append(_entropy(np.array([common, size[j] - common])) + _entropy(without))
        total += float(min([alone, *given]))
    return total


def _entropy(counts: Floats) -> float:
    """Nats of a sequence in which the two values have these counts."""
    counts = counts[counts > 0]
    return float(counts.sum() * np.log(counts.sum()) - counts @ np.log(counts)) if len(counts) else 0.0
