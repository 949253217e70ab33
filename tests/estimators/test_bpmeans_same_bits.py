"""Equal bits of the feature models for any number of threads, instruction set and block size."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from craftc import BPMeans, KFeatures
from craftc._common import threads as parallel
from craftc.bpmeans import restarts
from tests.common import ROOT
from tests.estimators.bpmeans_cases import MODELS, assert_same_bits, every_model, model_of, sums


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("shape", [(45, 6), (30, 50)], ids=["rows", "products"])
@every_model
def test_restarts_side_by_side_on_any_number_of_threads(name, shape, monkeypatch):
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    X = sums(1, *shape)
    parameters = (
        {"feature_penalty": 2.0 * shape[1]} if isinstance(MODELS[name].feature_penalty, float) else {}
    )
    fits = [model_of(name, n_init=11, n_threads=n_threads, **parameters).fit(X) for n_threads in (1, 2, 7)]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].predict(X), other.predict(X))


WIDE = {
    **MODELS,
    "many births": BPMeans(3.0, n_init=2),
    "capped": BPMeans(1.0, n_init=2, max_features=6),
    "shuffled": BPMeans(6.0, n_init=2, shuffle=True),
    "mixed": BPMeans(6.0, n_init=3, base="mixed", assignment="auto"),
}


@pytest.mark.slow_except(1)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:BPMeans found 64:UserWarning"
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", WIDE)
def test_rows_shared_out_on_any_number_of_threads(name, dtype, monkeypatch):
    """Small tables treated as large ones: windows of rows, births and deaths between them."""
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    monkeypatch.setattr(restarts, "_SMALL", 0)
    X = sums(2, 2600, 3, noise=1.0).astype(dtype)
    fits = [
        clone(WIDE[name]).set_params(random_state=0, n_init=2, max_iter=6, n_threads=n_threads).fit(X)
        for n_threads in (1, 2, 7)
    ]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].predict(X), other.predict(X))


@pytest.mark.parametrize("collapsed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_lonely_and_lost_features_in_windows_shared_out(seed, collapsed, monkeypatch):
    """A start whose features one row or nobody has: bits, the way of small tables and the order of births are
    the same.
    """
    X = sums(seed, 2600, 4, noise=0.5)
    Z = np.random.default_rng(seed).random((2600, 6)) < 0.3
    Z[:, 1:4] = np.random.default_rng(seed).integers(0, 2600, 3) == np.arange(2600)[:, None]
    Z[:, 5] = False
    model = BPMeans(25.0, init=Z, collapsed=collapsed, shuffle=seed % 2 == 0, random_state=seed, n_threads=1)
    small = clone(model).fit(X)
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    monkeypatch.setattr(restarts, "_SMALL", 0)
    for n_threads in (1, 2, 7):
        assert_same_bits(small, clone(model).set_params(n_threads=n_threads).fit(X))


@pytest.mark.slow_except(1)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        (KFeatures(6), np.float32),
        (BPMeans(900.0, max_features=9), np.float64),
        (BPMeans(2500.0, assignment="auto", max_features=9), np.float32),
    ],
)
def test_a_large_table_on_any_number_of_threads(model, dtype):
    n, D = 40_000, 64
    assert n * D * 8 >= restarts._SMALL
    X = sums(3, n, D, K=5, noise=1.0).astype(dtype)
    fits = [
        clone(model).set_params(n_init=1, max_iter=3, random_state=0, n_threads=n_threads).fit(X)
        for n_threads in (1, 2, 7)
    ]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
    np.testing.assert_array_equal(fits[0].predict(X[:3000]), fits[2].predict(X[:3000]))


@pytest.mark.slow
def test_the_same_bits_on_every_instruction_set_and_block_size():
    script = (
        "from craftc._common import threads; from craftc.bpmeans import restarts; threads.SMALL_WORK = 0\n"
        "import hashlib, numpy as np; from craftc import BPMeans, KFeatures\n"
        "h = hashlib.sha256()\n"
        "for seed in range(8):\n"
        "    restarts._SMALL = 0 if seed % 3 == 0 else 20_000_000\n"
        "    rng = np.random.default_rng(seed)\n"
        "    n, D = (1100, [1, 7, 8, 17][seed // 2]) if seed % 2 else (40, [40, 61, 80, 1100][seed // 2])\n"
        "    X = (rng.random((n, 4)) < 0.4) @ rng.normal(size=(4, D)) * 3 + rng.normal(size=(n, D))\n"
        "    X = X.astype([np.float32, np.float64][seed // 2 % 2])\n"
        "    for m in (KFeatures(5), KFeatures(12, assignment='sweep'), KFeatures(7, assignment='exact'), "
        "KFeatures(3, empty='reseed'),\n"
        "              BPMeans(4.0 * D, max_features=9), BPMeans(4.0 * D, collapsed=True, max_features=6),\n"
        "              BPMeans(3.0 * D, assignment='exact', max_features=7)):\n"
        "        m.set_params(n_threads=2, n_init=2, random_state=seed, max_iter=5).fit(X)\n"
        "        for a in (m.assignments_, m.objective_path_, m.features_, m.predict(X), m.objective_, "
        "m.penalty_interval_):\n"
        "            h.update(np.ascontiguousarray(a).tobytes())\n"
        "print(h.hexdigest())\n"
    )
    digests = set()
    for level, block in (("baseline", "1024"), ("v3", "8"), ("v4", "100000")):
        environment = {
            **os.environ,
            "CRAFTC_SIMD": level,
            "CRAFTC_BLOCK": block,
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1


@pytest.mark.parametrize("shape", [(90, 6), (30, 50)], ids=["rows", "products"])
@pytest.mark.parametrize("name", ["births", "collapsed", "drop", "sweep", "reseed"])
def test_a_restart_is_the_same_alone_and_among_others(name, shape):
    X, model = sums(5, *shape), model_of(name, base="mixed", n_init=9)
    free = isinstance(model, BPMeans)
    config = (
        model._config(12.0, 0, 64, collapsed=model.collapsed)
        if free
        else model._config(0.0, 4, 4, reseed=model.empty == "reseed")
    )
    alone = []
    for r in range(9):
        data = restarts.FeatureData(X, 1)
        fit = restarts.run_restart(data, config, r, restarts.run_for(data, config, 1))
        alone.append((fit.objective, fit.masks.tolist()))
    for n_threads in (1, 2, 7):
        data = restarts.FeatureData(X, n_threads)
        np.testing.assert_array_equal(restarts.parallel_restarts(data, config)[0], [J for J, _ in alone])
    data = restarts.FeatureData(X, 1)
    run = restarts.run_for(data, config, 1)  # one memory for all, in any order
    for r in (8, 3, 3, 0, 5):
        fit = restarts.run_restart(data, config, r, run)
        assert (fit.objective, fit.masks.tolist()) == alone[r]


def test_one_start_shuffled_is_the_order_of_the_table():
    X = sums(0)
    assert_same_bits(model_of("births", n_init=1).fit(X), model_of("births", n_init=1, shuffle=True).fit(X))
