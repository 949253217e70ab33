"""The searches of the feature models: exchanges, restarts that lead, and the automatic number of features."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from craftc import BPMeans, KFeatures
from craftc.bpmeans import growth, model_order, restarts
from tests.estimators.bpmeans_cases import assert_same_bits, model_of, square, sums


def of_table(X, K, **parameters):
    """The data and the settings of K-features."""
    return restarts.FeatureData(X, 1), KFeatures(K, random_state=0, **parameters)._config(0.0, K, K)


# ---- exchanges ----


@pytest.mark.parametrize("seed", range(6))
def test_an_exchange_that_cannot_catch_up_is_given_up(seed):
    data, config = of_table(sums(seed, 300, 8, K=6), 6)
    Z = np.random.default_rng(seed).random((300, 6)) < 0.5
    run = restarts.run_for(data, config, 1)
    run.start(restarts.pack(Z), 6)
    whole = restarts.run_to_convergence(run, config, None)
    run.start(restarts.pack(Z), 6)
    hopeless = restarts.run_to_convergence(run, config, None, target=-100.0 * data.scatter)
    assert hopeless.n_iter == 2 < whole.n_iter  # the first sweep shows no pace yet
    assert hopeless.path == whole.path[:2]
    run.start(restarts.pack(Z), 6)
    reached = restarts.run_to_convergence(run, config, None, target=whole.objective * 1.01 + data.scatter)
    assert reached.path == whole.path


def test_random_memberships_of_one_feature():
    rng = np.random.default_rng(0)
    Z, draws = rng.random((4000, 5)) < 0.3, rng.random(4000)
    after = restarts.unpack(restarts.redrawn(restarts.pack(Z), 2, draws), 5)
    np.testing.assert_array_equal(after[:, 2], draws < 0.5)
    np.testing.assert_array_equal(np.delete(after, 2, 1), np.delete(Z, 2, 1))


@pytest.mark.parametrize("seed", range(8))
def test_exchanged_features_are_equal_in_both_forms(seed):
    """From products of rows and from rows, also in memory that a larger model has used."""
    X = sums(seed, 40, 60, K=5)
    data, config = of_table(X, 5)
    Z = np.random.default_rng(seed).random((40, 5)) < 0.4
    states = []
    for gram in (True, False):
        run = restarts.run_for(data, config, 1, gram=gram)
        run.start(restarts.pack(Z), 5)
        for k in range(5):
            run.exchange(
                restarts.pack(Z),
                5,
                k,
                restarts.exchange_draws(config, (restarts.FeatureStream.EXCHANGE, 0), k, 3),
            )
            states.append(run.masks.copy())
    for products, rows in zip(states[:5], states[5:], strict=True):
        np.testing.assert_array_equal(products, rows)


@pytest.mark.parametrize("seed", range(4))
def test_more_rounds_never_end_higher(seed):
    data, config = of_table(sums(seed, 120, 6, K=7, noise=2.0), 6)
    run = restarts.run_for(data, config, 1)
    start = restarts.run_restart(data, config, 0, run)
    key = (restarts.FeatureStream.EXCHANGE, 0)
    ends = [
        restarts.exchange_features(data, config, start, key, run, rounds, 10_000).objective
        for rounds in range(6)
    ]
    assert ends[0] == start.objective
    assert (np.diff(ends) <= 0.0).all()
    assert ends[-1] < ends[0]


@pytest.mark.parametrize(
    "model",
    [KFeatures(5, n_init=4), BPMeans(12.0, n_init=4), BPMeans(12.0, n_init=4, collapsed=True, shuffle=True)],
)
def test_a_stopped_search_ends_at_once(model):
    """Another thread has failed: no sweep follows the present one."""
    data = restarts.FeatureData(sums(0), 1)
    config = model._config(
        *((0.0, 5, 5) if isinstance(model, KFeatures) else (12.0, 0, 64)),
        shuffle=getattr(model, "shuffle", False),
    )
    config.stop.set()
    run = restarts.run_for(data, config, 1)
    fit = restarts.run_restart(data, config, 1, run)
    assert fit.n_iter == 1
    assert not fit.converged
    assert (
        restarts.exchange_features(data, config, fit, (restarts.FeatureStream.EXCHANGE, 0), run, 4, 1000)
        is fit
    )


# ---- starts ----


@pytest.mark.parametrize("small", [True, False])
def test_restarts_are_ranked_by_their_first_sweeps(small, monkeypatch):
    if not small:
        monkeypatch.setattr(restarts, "_SMALL", 0)
    data, config = of_table(sums(1, 200, 5, K=8, noise=2.0), 6, n_init=30)
    order = restarts.ranked(data, config)
    short = replace(config, max_iter=restarts._HEAT)
    reached = [
        restarts.run_restart(data, short, r, restarts.run_for(data, short, 1)).objective for r in range(30)
    ]
    assert order[0] == int(np.argmin(reached))
    assert (np.diff(np.array(reached)[order]) > 0).all()
    assert {round(reached[r], 6) for r in order} == {round(J, 6) for J in reached}


@pytest.mark.parametrize("n_threads", [2, 3, 7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_collapsed_starts_in_parallel_on_tables_of_any_size(n_threads, shuffle, monkeypatch):
    monkeypatch.setattr(restarts, "_SMALL", 0)
    X = sums(4, 150, 5)
    one, many = (
        model_of("collapsed", n_init=5, shuffle=shuffle, n_threads=threads).fit(X)
        for threads in (1, n_threads)
    )
    assert_same_bits(one, many)


# ---- starts that grow ----


def test_growing_starts_find_the_features_that_greedy_ones_miss():
    """Greedy starts take one row after the other as a feature, 23 here, and exchanges hardly remove them."""
    rng = np.random.default_rng(110)
    X = (rng.random((100, 6)) < 0.4) @ (2.0 * rng.normal(size=(6, 10))) + 0.5 * rng.normal(size=(100, 10))
    penalty = 0.003 * square(X - X.mean(axis=0))
    model = BPMeans(penalty, n_init=2, random_state=0).fit(X)
    greedy = BPMeans(penalty, n_init=10, exchanges=False, random_state=0).fit(X)
    assert model.n_features_ <= 10
    assert model.objective_ < 0.6 * greedy.objective_


@pytest.mark.parametrize("seed", range(2))
def test_more_starts_at_a_penalty_never_end_higher(seed):
    X = sums(seed, 40, 5, K=4, noise=1.0)
    found = [BPMeans(8.0, n_init=n, random_state=seed).fit(X).objective_ for n in (1, 2, 3, 5)]
    assert (np.diff(found) <= 1e-12 * square(X)).all()


def test_as_many_starts_grow_as_their_work_allows(monkeypatch):
    data, config = of_table(sums(0), 1, n_init=4)
    config = replace(config, penalty=8.0, n_features=0, cap=64)
    assert len(growth.grown_starts(data, config)) == 4
    monkeypatch.setattr(growth, "_TOTAL", 0.0)
    alone = growth.grown_starts(data, config)
    assert len(alone) == 1
    assert alone[0].objective <= data.scatter
    monkeypatch.setattr(growth, "_STEP", 0.0)  # exchanges at the end alone
    assert len(growth.grown_starts(data, config)) == 1
    assert growth.grown_starts(data, replace(config, penalty=2.0 * data.scatter)) == []


def test_the_exchanges_of_many_features_are_limited():
    """With a penalty, by the work of a sweep, whose inverse has K^3 operations."""
    data, config = of_table(sums(0, 270, 6), 1)
    penalised = BPMeans(1.0)._config(1.0, 0, 64)
    few, many = (restarts.exchange_budget(data, penalised, K, 9) for K in (5, 64))
    assert few == 500
    assert 9 < many < 1000
    assert restarts.exchange_budget(data, config.with_features(64), 64, 9) == 6400


def test_a_stepwise_search_improves_starts_of_few_features_alone(monkeypatch):
    """With more features the solutions that grew are lower, and theirs are the exchanges."""
    improved, exchange = [], restarts.exchange_features
    monkeypatch.setattr(
        restarts,
        "exchange_features",
        lambda data, config, *rest: improved.append(config.n_features) or exchange(data, config, *rest),
    )
    X = np.random.default_rng(0).normal(size=(40, 6))
    model = KFeatures(feature_penalty=0.01 * square(X), n_init=2, random_state=0).fit(X)
    assert model.n_features_ > 8
    assert set(improved) == set(range(1, 9))


# ---- memberships of a row ----


@pytest.mark.parametrize("penalty", [6.0, 12.0])
@pytest.mark.parametrize("seed", range(4))
def test_collapsed_minimises_in_all_memberships_of_a_row_jointly(seed, penalty):
    """Section 4.1: z_n, all of it, minimises Eq. 10 given the other rows."""
    X = sums(seed, 24, 4, K=3)
    model = BPMeans(penalty, collapsed=True, assignment="exact", exchanges=False, random_state=seed).fit(X)
    Z, J = model.assignments_, model.objective_
    K = model.n_features_
    assert 1 <= K <= 8
    for row in range(24):
        for bits in range(2**K):
            other = Z.copy()
            other[row] = [bits >> k & 1 for k in range(K)]
            left = X - other @ np.linalg.lstsq(other.astype(float), X, rcond=None)[0]
            assert square(left) + K * penalty >= J * (1 - 1e-12)


@pytest.mark.parametrize("collapsed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_auto_is_exact_up_to_ten_features(seed, collapsed):
    X, shared = sums(seed), {"max_features": 10, "collapsed": collapsed, "n_init": 3, "random_state": 0}
    assert_same_bits(BPMeans(8.0, **shared).fit(X), BPMeans(8.0, assignment="exact", **shared).fit(X))


# ---- the number of features ----


def test_one_solution_for_each_number_of_features():
    """The path is that of the leading starts, and the chosen K and K - 1 are at least as good as the restarts
    of K-features alone.
    """
    X = sums(2, 200, 12, K=4)
    data = restarts.FeatureData(X, 1)
    config = KFeatures(random_state=0)._config(0.0, 0, 64)
    path, K = model_order.shortest_description(data, config)
    errors = np.array([float(of_starts[-1]) for of_starts in path.errors])
    d = model_order.dimensions_left(data, path.best(K))
    lengths = [model_order.description_length(data, path.best(k), errors[k], d) for k in range(len(errors))]
    assert K == 4 == int(np.argmin(lengths))
    assert len(errors) == K + model_order._PATIENCE + 1
    assert (np.diff(errors) <= 0).all()
    for k in (K - 1, K):
        alone = restarts.best_restarts(data, replace(config.with_features(k), exchanges=False))[-1].fit
        assert errors[k] <= alone.objective * (1 + 1e-12)


@pytest.mark.filterwarnings("ignore:Columns differ in scale")
@pytest.mark.parametrize("kind", ["as made", "repeated", "mapped", "nearly repeated", "constant", "small"])
@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_features_does_not_depend_on_columns_that_say_nothing_new(seed, kind):
    rng = np.random.default_rng(seed)
    X = sums(seed, 200, 20, K=3)
    more = {
        "as made": lambda: X,
        "repeated": lambda: np.repeat(X, 5, axis=1),
        "mapped": lambda: X @ rng.normal(size=(20, 60)),
        "nearly repeated": lambda: np.repeat(X, 4, axis=1) + 0.05 * rng.normal(size=(200, 80)),
        "constant": lambda: np.c_[X, np.zeros((200, 30))],
        "small": lambda: np.c_[X, 1e-4 * rng.normal(size=(200, 30))],
    }
    for model in (KFeatures, BPMeans):
        assert model(base="none", random_state=0, n_threads=1).fit(more[kind]()).n_features_ == 3


@pytest.mark.parametrize(("n", "D"), [(200, 20), (60, 100), (500, 5), (30, 400)])
def test_dimensions_of_normal_residuals_are_the_columns(n, D):
    """Also of fewer rows than columns, also next to features that are not in the solution."""
    rng = np.random.default_rng(n)
    noise = rng.normal(size=(n, D))
    for X in (noise, noise + 9.0 * np.outer(rng.random(n) < 0.5, rng.normal(size=D))):
        found = model_order.dimensions_left(restarts.FeatureData(X, 1), None)
        assert 0.7 * D <= found <= D


def test_the_exchanges_of_a_choice_visit_a_limited_number_of_cells(monkeypatch):
    data, config = of_table(sums(0, 400, 6, K=6, noise=2.0), 6)
    start = restarts.run_restart(data, config, 0, restarts.run_for(data, config, 1))
    ends = []
    for visits in (0, 400 * (7 * 6 + 64) * 40, 10**9):
        monkeypatch.setattr(restarts, "_VISITS", visits)
        ends.append(restarts.improved_alone(data, config, start, (restarts.FeatureStream.EXCHANGE, 0)))
    sweeps = [fit.n_iter - start.n_iter for fit in ends]
    assert sweeps[0] <= sweeps[1] <= sweeps[2]
    assert ends[0].objective >= ends[1].objective >= ends[2].objective
    assert ends[2].objective < ends[0].objective


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_starts_of_a_large_table_that_cannot_reach_the_path_are_given_up(seed, monkeypatch, capsys):
    """The solution of the path is known before the starts; a start far above it takes few sweeps."""
    rng = np.random.default_rng(seed)
    X = (3 * rng.normal(size=(8, 16)))[rng.integers(0, 8, 2000)] + rng.normal(size=(2000, 16))
    monkeypatch.setattr(restarts, "_SMALL", 0)  # as a table of many rows
    model = BPMeans(random_state=0, verbose=1).fit(X)
    lines = [line for line in capsys.readouterr().out.splitlines() if re.match(r"start \d+: .* sweeps", line)]
    sweeps = [int(re.search(r"after (\d+) sweeps", line)[1]) for line in lines[-model.n_init :]]
    assert max(sweeps) < 10
    assert model.objective_ <= KFeatures(random_state=0).fit(X).inertia_ + 8 * model.feature_penalty_


@pytest.mark.parametrize("offset", [1e3, 1e5, 1e6])
def test_an_offset_changes_no_error(offset):
    """The features of a table far from 0 are those of the table and one of every row."""
    rng = np.random.default_rng(3)
    Z, features = rng.random((100, 3)) < 0.4, rng.normal(0.0, 3.0, (3, 5))
    X = Z @ features + 0.3 * rng.normal(size=(100, 5))
    near, far = (KFeatures(3, random_state=0).fit(X + x) for x in (10.0, offset))
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-3)
