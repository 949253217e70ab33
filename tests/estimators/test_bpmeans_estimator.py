"""The feature models as estimators: number of features, new rows, tabletop pictures, verbose output."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from craftc import BPMeans, KFeatures
from craftc.bpmeans import model_order, restarts
from tests.common import ROOT
from tests.estimators.bpmeans_cases import MODELS, assert_same_bits, every_model, model_of, square, sums
from tests.reference import bpmeans as ref

pytestmark = pytest.mark.filterwarnings("ignore:KFeatures found:UserWarning")  # tables of few or equal rows

# ---- how many features ----


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [4.0, 8.0, 40.0, 300.0, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_stepwise_takes_the_best_of_its_path(seed, penalty):
    X = sums(seed, 30 if penalty < 10.0 else 90, offset=2.0 * (seed % 2))  # small penalties have long paths
    model = KFeatures(feature_penalty=penalty, n_init=5, max_iter=50, random_state=seed, n_threads=1)
    path, best_of_first = model_order.stepwise(restarts.FeatureData(X, 1), model._config(0.0, 0, 64), penalty)
    model.fit(X)
    best, errors = int(best_of_first[-1]), np.array(path.errors)[:, -1]  # of all starts
    costs = errors + penalty * np.arange(len(errors))
    assert model.n_features_ == best == costs.argmin()
    assert errors[0] == pytest.approx(square(X), rel=1e-12)
    assert (np.diff(path.errors, axis=0) <= 0).all()
    assert (np.diff(path.errors, axis=1) <= 0).all()
    assert model.objective_ == pytest.approx(costs.min(), rel=1e-10)
    low, high = model.penalty_interval_
    assert low <= penalty <= high
    assert low == errors[best] - errors[best + 1]
    stepped = BPMeans(penalty, init="kfeatures", n_init=5, max_iter=50, random_state=seed, n_threads=1).fit(X)
    assert stepped.objective_ <= model.objective_ * (1.0 + 1e-12)


@pytest.mark.slow_except(4)
@pytest.mark.parametrize("offset", [0.0, 3.0])
@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_known_features_are_counted(seed, K, offset):
    """What all rows have in common is a feature as well."""
    rng = np.random.default_rng(seed)
    n, D = [(100, 20), (200, 8), (60, 100)][seed]
    Z = rng.random((n, K)) < 0.4
    X = Z @ rng.normal(size=(K, D)) * 2.0 + 0.5 * rng.normal(size=(n, D)) + offset * rng.normal(size=D)
    for model in (KFeatures(random_state=0, n_threads=1), BPMeans(n_init=3, random_state=0, n_threads=1)):
        assert model.fit(X).n_features_ == K + (offset > 0)
        low, high = model.penalty_interval_
        assert 0 <= low < high
    assert low <= model.feature_penalty_ <= high
    found = {tuple(column) for column in np.hstack([model.assignments_, ~model.assignments_]).T}
    assert all(tuple(column) in found for column in Z.T) or D < 20


@pytest.mark.parametrize("D", [2, 8, 30])
@pytest.mark.parametrize("seed", range(3))
def test_noise_has_no_feature(seed, D):
    X = np.random.default_rng(seed).normal(size=(200, D))
    for table in (X, X - X.mean(axis=0)):
        for model in (
            KFeatures(n_init=5, random_state=0, n_threads=1),
            BPMeans(n_init=5, random_state=0, n_threads=1),
        ):
            assert model.fit(table).n_features_ == 0
            assert model.objective_ == model.inertia_ == pytest.approx(square(table), rel=1e-12)


@every_model
def test_no_feature_at_all(name):
    """What a fit without features can be asked."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    if name in ("drop", "sweep", "reseed"):
        X = np.zeros((30, 3))
        model = model_of(name, n_features=1).fit(X)
    else:
        model = model_of(
            name, **({"feature_penalty": 1e9} if isinstance(MODELS[name].feature_penalty, float) else {})
        ).fit(X)
    assert (model.n_features_, model.features_.shape, model.assignments_.shape) == (0, (0, 3), (30, 0))
    assert model.objective_ == model.inertia_ == pytest.approx(square(X), rel=1e-13)
    assert model.penalty_interval_[1] == np.inf
    assert model.converged_
    assert model.predict(X).shape == model.transform(X).shape == (30, 0)
    assert model.predict(X).dtype == bool
    assert not model.inverse_transform(np.zeros((4, 0))).any()
    assert model.reconstruct(X[:7]).shape == (7, 3)
    assert model.get_feature_names_out().tolist() == []
    assert model.set_output(transform="pandas").transform(X).shape == (30, 0)
    assert len(model.summary()) == 0
    assert_same_bits(pickle.loads(pickle.dumps(model)), model)


@pytest.mark.slow
def test_a_warning_at_64_features():
    X = np.random.default_rng(0).normal(size=(300, 20))
    with pytest.warns(UserWarning, match="64 features, its maximum"):
        model = BPMeans(1e-3, n_init=1, random_state=0, n_threads=1).fit(X)
    assert model.n_features_ == 64
    assert model.inertia_ == pytest.approx(square(X - model.assignments_ @ model.features_), rel=1e-9)
    assert BPMeans(1e-3, n_init=1, max_features=20, random_state=0, n_threads=1).fit(X).n_features_ <= 20


# ---- the tabletop pictures ----


@pytest.fixture(scope="module")
def tabletop(data_folder):
    file = data_folder / "tabletop.npz"
    if not file.is_file():
        pytest.skip("tabletop.npz is not in CRAFTC_DATA")
    with np.load(file) as table:
        return table["X"]


@pytest.mark.parametrize(
    ("K", "bar"),
    list(zip(range(1, 9), [615.9, 423.2, 295.3, 205.8, 161.2, 150.9, 142.8, 136.1], strict=True)),
)
def test_tabletop_by_number_of_features(tabletop, K, bar):
    """The best values published by the authors (to K = 5), and better ones."""
    model = KFeatures(K, n_init=1000, random_state=0, n_threads=1).fit(tabletop)
    assert model.n_features_ == K
    assert model.objective_ <= bar + 0.05


def test_tabletop_split_in_halves(tabletop):
    assert KFeatures(1, random_state=0).fit(tabletop).objective_ == pytest.approx(615.887, abs=1e-3)


def test_tabletop_stepwise(tabletop):
    stepwise = KFeatures(feature_penalty=20.0, n_init=300, random_state=0, n_threads=1).fit(tabletop)
    stepped = BPMeans(20.0, init="kfeatures", n_init=100, random_state=0, n_threads=1).fit(tabletop)
    for model in (stepwise, stepped):
        assert model.n_features_ == 5
        assert model.objective_ <= 261.25
        assert model.penalty_interval_ == pytest.approx((11.3, 44.55), abs=0.2)  # six features reach 149.9


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("seed", range(5))
def test_tabletop_by_collapsed_bp_means_as_printed(tabletop, seed):
    """Figure 1: five features."""
    model = BPMeans(20.0, collapsed=True, assignment="exact", exchanges=False, n_init=1000, random_state=seed)
    assert model.set_params(n_threads=1).fit(tabletop).n_features_ == 5


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("seed", range(10))
def test_tabletop_by_bp_means_at_every_seed(tabletop, seed):
    assert BPMeans(20.0, random_state=seed, n_threads=1).fit(tabletop).objective_ <= 261.25


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("seed", range(12))
def test_tabletop_has_five_features_at_every_seed(tabletop, seed):
    model = KFeatures(random_state=seed, n_threads=1).fit(tabletop)
    assert model.n_features_ == 5
    assert model.inertia_ <= 161.25


def test_tabletop_counts_its_features(tabletop):
    for model in (KFeatures(random_state=0, n_threads=1), BPMeans(random_state=0, n_threads=1)):
        model.fit(tabletop)
        assert model.n_features_ == 5
        assert model.inertia_ <= 161.25
        assert model.penalty_interval_ == pytest.approx((10.8, 44.55), abs=0.8)
    assert model.penalty_interval_[0] < model.feature_penalty_ < model.penalty_interval_[1]


# ---- new rows ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [1, 2, 4, 6])
@pytest.mark.parametrize("seed", range(3))
def test_predict_is_the_nearest_of_all_sums(seed, K, dtype):
    X = sums(seed).astype(dtype)
    new = (np.repeat(X, 4, axis=0) + np.random.default_rng(seed).normal(size=(360, 6))).astype(dtype)
    model = KFeatures(K, random_state=0, n_init=3).fit(X)
    codes = ref.all_codes(model.n_features_)
    distances = np.square(new[:, None].astype(float) - codes @ model.features_).sum(axis=2)
    best = np.sort(distances, axis=1)
    clear = best[:, 1] - best[:, 0] > 1e-9
    assert clear.mean() > 0.95
    predicted = model.predict(new)
    np.testing.assert_array_equal(predicted[clear], codes[distances.argmin(axis=1)][clear])
    np.testing.assert_array_equal(model.predict(new[:1]), predicted[:1])
    np.testing.assert_array_equal(model.transform(new), predicted.astype(float))
    np.testing.assert_array_equal(model.reconstruct(new), predicted @ model.features_)
    np.testing.assert_array_equal(model.fit_transform(X), model.transform(X))
    fitted, again = (
        np.square(X - Z @ model.features_).sum(axis=1) for Z in (model.assignments_, model.predict(X))
    )
    assert (again <= fitted * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(("K", "assignment"), [(12, "auto"), (12, "exact"), (20, "sweep")])
def test_predict_of_many_features(K, assignment):
    """No flip of one feature wins; up to sixteen all combinations where that is asked for."""
    X = sums(0, 80, 30, K=8)
    model = KFeatures(K, assignment=assignment, n_init=1, random_state=0).fit(X)
    new = X + np.random.default_rng(0).normal(size=X.shape)
    predicted = model.predict(new)
    left = new - predicted @ model.features_
    for k in range(model.n_features_):
        sign = np.where(predicted[:, [k]], 1.0, -1.0)
        flipped = np.square(left + sign * model.features_[k]).sum(axis=1)
        assert (flipped >= np.square(left).sum(axis=1) * (1 - 1e-9)).all()
    if assignment == "exact":
        best = [np.square(x - ref.all_codes(K) @ model.features_).sum(axis=1).min() for x in new[:20]]
        np.testing.assert_allclose(np.square(left[:20]).sum(axis=1), best, rtol=1e-9)


def test_inverse_transform_weighs_features():
    model = KFeatures(3, random_state=0).fit(sums(0))
    weights = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_array_equal(model.inverse_transform(weights), weights @ model.features_)
    with pytest.raises(ValueError, match="one column per feature, 3, got 2"):
        model.inverse_transform(weights[:, :2])


def test_summary():
    Z = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]], dtype=bool)
    A = np.diag([9.0, 8.0, 7.0])
    table = KFeatures(init=Z).fit(Z @ A).summary()
    assert table["feature"].tolist() == [0, 1, 2]
    assert table["rows"].tolist() == [4, 3, 2]
    np.testing.assert_allclose(table["share"], [4 / 6, 3 / 6, 2 / 6])
    np.testing.assert_allclose(table["norm"], [9.0, 8.0, 7.0])
    np.testing.assert_allclose(table["alone"], [1 / 4, 1 / 3, 1 / 2])
    assert table["overlaps with"].tolist() == [1, 0, 0]
    np.testing.assert_allclose(table["overlap"], [2 / 5, 2 / 5, 1 / 5])


# ---- the estimator ----


@pytest.mark.slow_except(3)
@every_model
def test_clone_pickle_and_output_names(name):
    X = sums(0, 45)
    model = model_of(name).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert_same_bits(again, model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    copy = clone(model)
    assert not hasattr(copy, "features_")
    assert_same_bits(copy.fit(X), model)
    names = [f"{type(model).__name__.lower()}{k}" for k in range(model.n_features_)]
    assert model.get_feature_names_out().tolist() == names
    assert model.set_output(transform="pandas").transform(X).columns.tolist() == names


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("name", ["births", "collapsed", "drop", "sweep"])
def test_a_solution_as_a_start_stays(name):
    X = sums(3)
    model = model_of(name, n_init=20).fit(X)
    Z = model.assignments_.copy()
    again = model_of(name, init=Z).fit(X)
    np.testing.assert_array_equal(again.assignments_, Z)
    np.testing.assert_array_equal(model.assignments_, Z)
    assert again.objective_ == model.objective_
    assert len(again.objective_path_) == again.n_iter_ <= 2


@pytest.mark.parametrize("name", ["births", "collapsed", "drop"])
def test_it_stops_at_max_iter(name):
    Z = np.random.default_rng(0).random((90, 4)) < 0.5
    with pytest.warns(ConvergenceWarning, match="stopped after 1 sweeps"):
        model = model_of(name, max_iter=1, init=Z).fit(sums(0))
    assert (model.n_iter_, model.converged_, len(model.objective_path_)) == (1, False, 1)
    np.testing.assert_allclose(
        model.assignments_.T @ (sums(0) - model.assignments_ @ model.features_), 0.0, atol=1e-10
    )


def test_verbose_prints(capsys):
    X = sums(0)
    BPMeans(12.0, n_init=2, random_state=0).fit(X)
    assert capsys.readouterr().out == ""
    for model in (
        BPMeans(12.0, n_init=2, verbose=1),
        BPMeans(12.0, n_init=2, shuffle=True, verbose=1),
        KFeatures(3, n_init=2, verbose=1),
    ):
        model.set_params(random_state=0).fit(X)
        assert "start 1: " in capsys.readouterr().out
    KFeatures(n_init=2, random_state=0, verbose=1).fit(X)
    assert "K = 2: " in capsys.readouterr().out


def test_random_states():
    X = sums(0)
    assert_same_bits(BPMeans(12.0, random_state=3).fit(X), BPMeans(12.0, random_state=np.int64(3)).fit(X))
    first, second = (KFeatures(4, random_state=np.random.RandomState(1)).fit(X) for _ in range(2))
    assert_same_bits(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_table_chooses_k_by_a_sample(dtype):
    rng = np.random.default_rng(0)
    Z = rng.random((6000, 3)) < 0.4
    X = (Z @ (2.0 * rng.normal(size=(3, 12))) + 0.5 * rng.normal(size=(6000, 12))).astype(dtype)
    one, two = (
        KFeatures(base="none", n_init=2, random_state=0, n_threads=threads).fit(X) for threads in (1, 2)
    )
    assert one.n_features_ == 3
    assert one.penalty_interval_[0] < one.penalty_interval_[1]
    assert_same_bits(one, two)
    assert BPMeans(base="none", n_init=2, random_state=0).fit(X).n_features_ == 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("parameters", ["2, n_init=4", "init=Z"])
def test_a_forked_child_does_not_hang(parameters):
    script = (
        "import os, warnings, numpy as np; from craftc import KFeatures\n"
        "random = np.random.default_rng(0); X, Z = random.normal(size=(40, 6)), random.random((40, 2)) < "
        "0.5\n"
        f"KFeatures({parameters}, n_threads=2).fit(X)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        f"    warnings.simplefilter('ignore'); KFeatures({parameters}, n_threads=2).fit(X); os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.stdout.strip() == "7", done.stderr
