"""Starts of BP-means that grow: K-features for K = 1, 2, ..., each from the last with one more feature.

A start that takes residuals of rows as features until J no longer falls ends with many features of few rows,
which exchanges hardly remove. Where K features are fitted and exchanged before the next one is added, fewer
features reach the same error.
"""

from __future__ import annotations

from dataclasses import replace

from craftc._common.random import FeatureStream
from craftc._common.threads import parallel_map
from craftc.bpmeans.restarts import (
    ROUNDS,
    FeatureConfig,
    FeatureData,
    FeatureFit,
    exchange_features,
    from_memberships,
    restarts_in_parallel,
    run_for,
    run_restart,
    threads_within,
    with_one_more,
    work_of_sweep,
)

_PATIENCE = 2  # numbers of features tried without a lower J
_SWEEPS = 10  # most sweeps of the exchanges of a growing start, per feature
_ALL_SWEEPS = 100  # the same of the exchanges at its end
_STEP, _END = 2e7, 2e8  # most work of the exchanges of a step of the growth, and of those at its end
_TOTAL = 6e8  # work of all growing starts up to which another one begins


def grown_starts(data: FeatureData, config: FeatureConfig) -> list[FeatureFit]:
    """Solutions of the first growing starts: as many as a limited amount of work allows, at most `n_init`.

    The number follows from the work of the first one, and no start depends on others: more starts with the
    same seed never end with a higher J.
    """
    first, work = _grown(data, config, 0)
    n_starts = min(config.n_init, max(1, int(_TOTAL / max(work, 1.0))))
    n_threads = data.n_threads if restarts_in_parallel(data, config) else 1
    others = parallel_map(lambda r: _grown(data, config, r)[0], range(1, n_starts), n_threads, config.stop)
    return [fit for fit in (first, *others) if fit is not None]


def _grown(data: FeatureData, config: FeatureConfig, r: int) -> tuple[FeatureFit | None, float]:
    """A growing start, its end improved by exchanges, and its work."""
    best: FeatureFit | None = None
    key = (FeatureStream.GROWN_EXCHANGE, r)
    least, tried, work = data.scatter, 0, 0.0
    fit: FeatureFit | None = None
    for K in range(1, config.cap + 1):
        fixed = config.with_features(K)
        run = run_for(data, fixed, threads_within(data, fixed))
        if fit is None:
            grown = run_restart(data, fixed, r, run, report=False)
        else:
            grown = with_one_more(run, fixed, fit.masks, r)
        each = work_of_sweep(data, fixed, K)
        budget = min(_SWEEPS * K, int(_STEP / each))
        fit = exchange_features(data, fixed, grown, key, run, 1, budget)
        work += each * (grown.n_iter + budget)
        if fit.n_features < K or config.stop.is_set():
            break  # fewer features leave no residuals
        objective, tried = fit.objective + K * config.penalty, tried + 1
        if objective < least:
            best, least, tried = fit, objective, 0
        elif tried == _PATIENCE:
            break
    if best is None:
        return None, work
    K = best.n_features
    start = from_memberships(data, config, best.masks, K)
    run = run_for(data, config, threads_within(data, replace(config, n_features=K)))
    each = work_of_sweep(data, config, K)
    budget = min(_ALL_SWEEPS * K, int(_END / each))
    work += each * (start.n_iter + budget)
    config.callback(f"growing start {r}: {start.n_features} features, J {start.objective:.6g}")
    return exchange_features(data, config, start, key, run, ROUNDS, budget), work
