"""What holds for every fit of the feature models: the objective never rises, brute force is never undercut,
invariances.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from craftc import BPMeans, KFeatures
from craftc.bpmeans import restarts
from tests.common import examples
from tests.estimators.bpmeans_cases import MODELS, assert_same_bits, every_model, model_of, square, sums
from tests.reference import bpmeans as ref

pytestmark = pytest.mark.filterwarnings("ignore:KFeatures found:UserWarning")  # tables of few or equal rows

# ---- the objective ----


@examples(200)
@given(
    seed=st.integers(0, 10**6),
    collapsed=st.booleans(),
    penalty=st.sampled_from([0.01, 0.3, 2.0, 10.0, 1e9]),
    assignment=st.sampled_from(["sweep", "exact", "auto"]),
    init=st.sampled_from(["greedy", "kfeatures", "given"]),
    base=st.sampled_from(["mean", "none", "mixed"]),
    cap=st.sampled_from([None, 3]),
    shuffle=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_the_objective_never_rises(seed, collapsed, penalty, assignment, init, base, cap, shuffle, dtype):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    X = sums(seed, n, int(rng.integers(1, 20)), offset=2.0 * rng.integers(0, 2)).astype(dtype)
    start = rng.random((n, 3)) < 0.5 if init == "given" else init
    cap = 6 if init == "kfeatures" and cap is None else cap  # a step for every K
    model = BPMeans(
        penalty,
        collapsed=collapsed,
        assignment=assignment,
        init=start,
        base=base,
        max_features=cap,
        shuffle=shuffle,
        n_init=2,
        random_state=seed,
        n_threads=1,
    ).fit(X)
    check_state(model, X, penalty)
    assert model.n_features_ <= (cap or 64)
    if init != "given":
        assert model.objective_ <= square(X) * (1.0 + 1e-12)  # no feature at all competes
    K = model.n_features_
    assert K == 0 or np.linalg.matrix_rank(model.assignments_) == K


@examples(150)
@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 7),
    assignment=st.sampled_from(["sweep", "exact", "auto"]),
    empty=st.sampled_from(["drop", "reseed"]),
    base=st.sampled_from(["mean", "none", "mixed"]),
    given_start=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_the_error_of_k_features_never_rises(seed, K, assignment, empty, base, given_start, dtype):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    X = sums(seed, n, int(rng.integers(1, 20)), offset=2.0 * rng.integers(0, 2)).astype(dtype)
    start = rng.random((n, K)) < 0.5 if given_start else "greedy"
    model = KFeatures(
        K, assignment=assignment, empty=empty, base=base, init=start, n_init=2, random_state=seed, n_threads=1
    ).fit(X)
    check_state(model, X, 0.0)
    assert model.n_features_ <= K


def check_state(model, X, penalty):
    """Attributes agree with each other and with least squares by NumPy."""
    Z, A, path, K = model.assignments_, model.features_, model.objective_path_, model.n_features_
    scatter = square(X)
    assert (np.diff(path) <= 1e-12 * (path[:-1] + scatter)).all()
    assert model.converged_
    assert (Z.dtype, Z.shape, A.dtype, A.shape) == (bool, (len(X), K), np.float64, (K, X.shape[1]))
    assert Z.any(axis=0).all()
    np.testing.assert_allclose(
        A, ref.lstsq(Z, X.astype(np.float64)), rtol=1e-8, atol=1e-8 * float(np.abs(X).max())
    )
    assert model.inertia_ == pytest.approx(square(X - Z @ A), rel=1e-10, abs=1e-24 * scatter)
    assert model.objective_ == pytest.approx(model.inertia_ + penalty * K, rel=1e-14)
    last = model.inertia_ if isinstance(model, KFeatures) else model.objective_
    assert path[-1] == pytest.approx(last, rel=1e-9, abs=1e-12 * scatter)


BRUTE = [
    # model, share of noise tables whose optimum is reached, share of the sums (both a little below what these
    # 40 give)
    (KFeatures(3), 0.7, 0.65),
    (KFeatures(3, base="mixed"), 0.75, 0.7),
    (KFeatures(3, assignment="sweep"), 0.6, 0.6),
    (BPMeans(max_features=3), 0.55, 0.8),
    (BPMeans(max_features=3, assignment="exact"), 0.7, 0.9),
    (BPMeans(max_features=3, base="mixed", shuffle=True), 0.6, 0.8),
    (BPMeans(max_features=3, collapsed=True), 0.75, 0.9),
    (BPMeans(max_features=3, init="kfeatures"), 0.6, 0.9),
]


@cache  # every model asks for it
def brute_force(seed, planted):
    """A table, a penalty, and the lowest errors of up to three features."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(3, 6)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, D)) + rng.choice([0.0, 2.0])
    if planted:
        X = 0.05 * X + (rng.random((n, 2)) < 0.6) @ rng.normal(size=(2, D)) * 3.0
    penalty = float(np.square(X).sum(axis=1).mean() * np.exp(rng.uniform(-2.5, 0.5)))
    return X, penalty, ref.lowest_errors(X, 3)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("planted", [False, True], ids=["noise", "sums"])
@pytest.mark.parametrize(("model", "of_noise", "of_sums"), BRUTE)
def test_brute_force_is_never_undercut_and_often_reached(model, of_noise, of_sums, planted):
    """With 20 starts; tables of noise have many optima of nearly the same J."""
    reached, free = [], isinstance(model, BPMeans)
    for seed in range(40):
        X, penalty, errors = brute_force(seed, planted)
        best = ref.lowest_objective(errors, penalty if free else 0.0)
        fitted = (
            clone(model)
            .set_params(
                n_init=20, random_state=seed, n_threads=1, **({"feature_penalty": penalty} if free else {})
            )
            .fit(X)
        )
        assert best - 1e-12 * square(X) <= fitted.objective_
        reached.append(best + 1e-9 * square(X) >= fitted.objective_)
    assert np.mean(reached) >= (of_sums if planted else of_noise)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("seed", range(6))
def test_exchanges_never_hurt(seed):
    """The best restart is improved by exchanges of features, never made worse."""
    X = sums(seed)
    data = restarts.FeatureData(X, 1)
    for model in (model_of("drop", random_state=seed), model_of("births", random_state=seed)):
        config = model._config(0.0, 4, 4) if isinstance(model, KFeatures) else model._config(12.0, 0, 64)
        ends, _ = restarts.parallel_restarts(data, config)
        assert model.fit(X).objective_ <= ends.min() * (1.0 + 1e-12)


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(
        ["births", "births exact", "collapsed", "stepped", "drop", "sweep", "reseed", "stepwise"]
    ),
    n_init=st.integers(1, 6),
    exchanges=st.booleans(),
    base=st.sampled_from(["mean", "none", "mixed"]),
    shape=st.sampled_from([(30, 6), (12, 20), (60, 4)]),
)
def test_more_starts_never_end_higher(seed, name, n_init, exchanges, base, shape):
    """At a given number of features or lambda^2: one more start with the same seed, and several more."""
    X = sums(seed, *shape, offset=2.0 * (seed % 2))
    parameters = {"random_state": seed, "exchanges": exchanges, "base": base, "max_iter": 30}
    ends = [
        model_of(name, n_init=n, **parameters).fit(X).objective_ for n in (n_init, n_init + 1, n_init + 4)
    ]
    assert ends[1] <= ends[0] + 1e-11 * square(X)
    assert ends[2] <= ends[1] + 1e-11 * square(X)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("name", ["births", "stepped", "drop", "stepwise"])
def test_more_starts_where_exchanges_are_limited(name, monkeypatch):
    """Large tables give the exchanges of a solution no more sweeps than the starts up to it took, and the
    threads to a single start.
    """
    monkeypatch.setattr(restarts, "_SMALL", 4000)
    X = sums(3, 60, 5)
    ends = [model_of(name, n_init=n).fit(X).objective_ for n in range(1, 9)]
    assert (np.diff(ends) <= 1e-11 * square(X)).all()


@pytest.mark.parametrize("seed", range(3))
def test_without_exchanges_the_best_start_stays_as_it_ended(seed):
    X = sums(seed)
    data = restarts.FeatureData(X, 1)
    for model in (
        model_of("drop", random_state=seed, exchanges=False),
        model_of("births", random_state=seed, exchanges=False),
    ):
        config = model._config(0.0, 4, 4) if isinstance(model, KFeatures) else model._config(12.0, 0, 64)
        ends, _ = restarts.parallel_restarts(data, config)
        assert config.n_trials == 1
        assert model.fit(X).objective_ == pytest.approx(ends.min(), rel=1e-12)
        assert len(model.objective_path_) == model.n_iter_


# ---- moved, scaled, shuffled, laid out ----


@cache  # compared with many others
def fitted(name, dtype=np.float64):
    X = sums(0, 45).astype(dtype)
    return X, model_of(name).fit(X)


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("k", [-300, -40, 1, 7, 100, 300])
@every_model
def test_a_power_of_two_scales_every_bit(name, k):
    X, plain = fitted(name)
    scaled = model_of(name)
    if isinstance(plain.feature_penalty, float):
        scaled.set_params(feature_penalty=float(np.ldexp(plain.feature_penalty, 2 * k)))
    scaled.fit(np.ldexp(X, k))
    np.testing.assert_array_equal(plain.assignments_, scaled.assignments_)
    np.testing.assert_array_equal(scaled.features_, np.ldexp(plain.features_, k))
    np.testing.assert_array_equal(scaled.objective_path_, np.ldexp(plain.objective_path_, 2 * k))
    assert scaled.objective_ == np.ldexp(plain.objective_, 2 * k)
    assert scaled.penalty_interval_ == tuple(np.ldexp(plain.penalty_interval_, 2 * k))


def test_products_of_rows_near_the_least_float64():
    X = sums(0, 20, 31)
    plain, tiny = (KFeatures(3, n_init=3, random_state=0).fit(rows) for rows in (X, np.ldexp(X, -500)))
    np.testing.assert_array_equal(plain.assignments_, tiny.assignments_)
    np.testing.assert_array_equal(tiny.features_, np.ldexp(plain.features_, -500))
    np.testing.assert_array_equal(tiny.objective_path_, np.ldexp(plain.objective_path_, -1000))


@pytest.mark.parametrize("shape", [(60, 11), (20, 31)], ids=["rows", "products"])
@pytest.mark.parametrize("name", ["births", "collapsed", "births exact", "drop", "sweep", "reseed"])
@pytest.mark.parametrize("seed", range(3))
def test_columns_may_be_shuffled(seed, name, shape):
    X, rng = sums(seed, *shape), np.random.default_rng(seed)
    Z, order = rng.random((len(X), 4)) < 0.5, rng.permutation(X.shape[1])
    parameters = {"init": Z, "n_features": None} if "n_features" in MODELS[name].get_params() else {"init": Z}
    plain, shuffled = model_of(name, **parameters).fit(X), model_of(name, **parameters).fit(X[:, order])
    np.testing.assert_array_equal(plain.assignments_, shuffled.assignments_)
    np.testing.assert_allclose(shuffled.features_, plain.features_[:, order], atol=1e-11)
    assert plain.objective_ == pytest.approx(shuffled.objective_, rel=1e-12)


@pytest.mark.parametrize("shape", [(60, 11), (20, 31)], ids=["rows", "products"])
@pytest.mark.parametrize("name", ["drop", "sweep"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_k_features_may_be_shuffled(seed, name, shape):
    X, rng = sums(seed, *shape), np.random.default_rng(seed)
    Z, order = rng.random((len(X), 4)) < 0.5, rng.permutation(len(X))
    plain, shuffled = model_of(name, init=Z).fit(X), model_of(name, init=Z[order]).fit(X[order])
    np.testing.assert_array_equal(plain.assignments_[order], shuffled.assignments_)
    np.testing.assert_allclose(shuffled.features_, plain.features_, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(90, 6), (30, 50)], ids=["rows", "products"])
@pytest.mark.parametrize("name", ["births", "births exact", "collapsed", "drop", "sweep", "reseed"])
def test_the_order_of_features_permutes_the_result_of_exact_rows(name, shape):
    """Features of K-features by all combinations have no order; elsewhere they are tried in turn."""
    X = sums(3, *shape)
    Z = np.random.default_rng(3).random((len(X), 4)) < 0.5
    plain, turned = model_of(name, init=Z).fit(X), model_of(name, init=Z[:, ::-1]).fit(X)
    if name == "drop":
        np.testing.assert_array_equal(plain.assignments_[:, ::-1], turned.assignments_)
    assert turned.converged_


@pytest.mark.slow_except(1)
@every_model
def test_float32_is_close_to_float64(name):
    X = sums(2, 45).astype(np.float32)
    double, single = model_of(name).fit(X.astype(np.float64)), model_of(name).fit(X)
    np.testing.assert_array_equal(double.assignments_, single.assignments_)
    assert double.objective_ == pytest.approx(single.objective_, rel=1e-12)
    rounded = model_of(name).fit(sums(2, 45))
    # not J: "auto" takes its lambda^2 from the solutions for one feature less and one more, and rounding may
    # lead to others of these
    assert rounded.inertia_ == pytest.approx(single.inertia_, rel=1e-5)
    assert rounded.n_features_ == single.n_features_


@pytest.mark.parametrize("shape", [(60, 6), (30, 50)], ids=["rows", "products"])
@pytest.mark.parametrize("name", ["births", "births exact", "drop", "sweep"])
@pytest.mark.parametrize("seed", range(3))
def test_an_offset_of_ten_thousand(seed, name, shape):
    """The feature of all rows carries the offset, and the others equal those at a smaller offset.

    Not collapsed: a row moves there for 10^-10 of |X|^2 at least; the offset makes that a few per cent of
    lambda^2.
    """
    X, rng = np.rint(sums(seed, *shape) * 512) / 512, np.random.default_rng(seed)  # so that X + 10^4 is exact
    parameters = {
        "init": np.column_stack([np.ones(len(X), bool), rng.random((len(X), 3)) < 0.5]),
        "max_iter": 100,
    }
    parameters |= {"feature_penalty": 15.0 * X.shape[1]} if isinstance(MODELS[name], BPMeans) else {}
    near, far = model_of(name, **parameters).fit(X + 100.0), model_of(name, **parameters).fit(X + 1e4)
    np.testing.assert_array_equal(near.assignments_, far.assignments_)
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-8)
    np.testing.assert_allclose(far.features_[1:], near.features_[1:], atol=1e-7)
    np.testing.assert_allclose(far.features_[0] - 1e4, near.features_[0] - 100.0, atol=1e-7)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("order", ["F", "strided", "columns", "read-only"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["births", "collapsed", "drop"])
def test_any_memory_layout(name, order, dtype):
    X, expected = fitted(name, dtype)
    laid = {
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "columns": np.repeat(X, 2, axis=1)[:, ::2],
    }
    laid["read-only"] = X.copy()
    laid[order].flags.writeable = order != "read-only"
    model = model_of(name).fit(laid[order])
    assert_same_bits(model, expected)
    np.testing.assert_array_equal(model.predict(laid[order]), expected.predict(X))
    Z = np.asfortranarray(expected.assignments_)
    Z.flags.writeable = False
    parameters = {"init": Z}
    if name == "drop":
        parameters["n_features"] = None
    again = model_of(name, **parameters).fit(laid[order])
    np.testing.assert_array_equal(again.assignments_, Z)


@pytest.mark.slow
def test_data_frames_and_whole_numbers():
    X, names = np.rint(sums(0, 45)), list("abcdef")
    expected = model_of("births").fit(X)
    assert_same_bits(model_of("births").fit(X.astype(int)), expected)
    assert_same_bits(model_of("births").fit(X.tolist()), expected)
    frame = pd.DataFrame(X, columns=names)
    model = model_of("births").fit(frame)
    assert_same_bits(model, expected)
    assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == 6
    np.testing.assert_array_equal(model.predict(frame), expected.predict(X))
    np.testing.assert_array_equal(model.predict(frame[list("bacdef")]), expected.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("bacde")])


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("dtype", [bool, int, np.uint8, float])
def test_memberships_of_any_type(dtype, value):
    X = sums(0)
    Z = np.random.default_rng(0).random((90, 3)) < 0.5
    Z[:, 0] = value
    for model in (BPMeans(12.0), KFeatures()):
        model.set_params(n_threads=1)
        assert_same_bits(
            clone(model).set_params(init=Z.astype(dtype)).fit(X),
            clone(model).set_params(init=Z.tolist()).fit(X),
        )


# ---- what a table may look like ----


@every_model
def test_the_zero_matrix_needs_no_feature(name):
    for X in (np.zeros((5, 3)), np.zeros((1, 1)), np.zeros((4, 9), np.float32)):
        model = model_of(name).fit(X)
        assert (model.objective_ - model.inertia_, model.inertia_) == (0.0, 0.0)
        assert not model.features_.any()
        assert not model.reconstruct(X).any()
        assert model.converged_


@every_model
def test_one_row_and_equal_rows(name):
    for X in (
        [[0.1, 1e4 + 1 / 3]],
        np.full((9, 2), 1e4 + 0.1),
        np.full((9, 1), 1 / 3, np.float32),
        np.tile([[7.0, -20.0, 1e-3]], (9, 1)),
    ):
        price = 1e-3 * float(np.abs(X).max())
        parameters = {"feature_penalty": price} if isinstance(MODELS[name].feature_penalty, float) else {}
        model, X = model_of(name, **parameters).fit(X), np.asarray(X)
        assert model.n_features_ == 1
        assert model.assignments_.all()
        assert model.inertia_ <= 1e-24 * square(X)
        np.testing.assert_allclose(model.features_[0], X[0], rtol=1e-12)
        np.testing.assert_allclose(model.reconstruct(X), X, rtol=1e-12)


@pytest.mark.slow_except(4)
@every_model
def test_one_column_constant_columns_and_duplicates(name):
    one = sums(0, 40, 1)
    model = model_of(name).fit(one)
    check_state(model, one, getattr(model, "feature_penalty_", MODELS[name].feature_penalty or 0.0))
    X = sums(0, 40, 5)
    X[:, 2] = 3.0
    model = model_of(name).fit(X)
    np.testing.assert_allclose(
        model.assignments_.T @ (X - model.assignments_ @ model.features_), 0.0, atol=1e-9
    )
    twice = np.vstack([X, X])
    model = model_of(name).fit(twice)
    np.testing.assert_array_equal(model.predict(twice)[:40], model.predict(twice)[40:])


def test_k_features_of_copies_are_those_of_the_rows():
    X, Z = sums(1, 30, 4), np.random.default_rng(1).random((30, 3)) < 0.5
    once, twice = KFeatures(init=Z).fit(X), KFeatures(init=np.vstack([Z, Z])).fit(np.vstack([X, X]))
    np.testing.assert_array_equal(np.vstack([once.assignments_] * 2), twice.assignments_)
    np.testing.assert_allclose(once.features_, twice.features_, rtol=1e-10, atol=1e-12)
    assert twice.objective_ == pytest.approx(2.0 * once.objective_, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("empty", ["drop", "reseed"])
def test_more_features_asked_for_than_rows(n, empty):
    X = np.random.default_rng(n).normal(size=(n, 4)) + 1.0
    for K in (n, 7, 64):
        model = KFeatures(K, empty=empty, random_state=0).fit(X)
        assert model.n_features_ <= K
        if n < K:
            assert model.inertia_ <= 1e-20 * square(X)


def test_centred_data_and_one_feature():
    """The mean of centred rows is rounding: it must not tell them apart, and one feature halves them."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[:20] += [6.0, 0.0]
    X -= X.mean(axis=0)
    models = [KFeatures(1, base=base, random_state=0).fit(X) for base in ("mean", "none", "mixed")]
    for model in models:
        assert_same_bits(model, models[0])
    assert models[0].inertia_ < 0.7 * square(X)
    moved = KFeatures(1, random_state=0).fit(X + 1e-17)
    np.testing.assert_array_equal(moved.assignments_, models[0].assignments_)


@pytest.mark.parametrize("wild", [1e25, 1e150, 1e155, 1e200])
def test_a_wild_row_disturbs_no_other(wild):
    X = sums(0)
    for model in (KFeatures(4, random_state=0).fit(X), KFeatures(14, n_init=1, random_state=0).fit(X)):
        rows = np.vstack([np.full(6, wild), X])
        np.testing.assert_array_equal(model.predict(rows)[1:], model.predict(X))
        assert np.isfinite(model.reconstruct(rows)).all()
