"""Properties of CRAFT on any table: monotone, exact, the same bits however the work is cut."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from craftc import CRAFT, MixedTable, PaperCRAFT
from craftc._common import threads as parallel
from craftc.craft.parameters import price_terms
from craftc.datasets import load_heart
from tests.common import ROOT, examples, fixed_price, random_table


def assert_same_bits(a, b):
    """Two fitted models agree to the last bit."""
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_array_equal(a.feature_mask_, b.feature_mask_)
    np.testing.assert_array_equal(a.feature_gains_, b.feature_gains_)
    np.testing.assert_array_equal(a.objective_path_, b.objective_path_)
    assert a.objective_ == b.objective_


def from_data(X, q, **parameters):
    """PaperCRAFT on an array whose last q columns are categories."""
    parameters = {"selection": "fixed", "numeric": "raw", **parameters}
    return fixed_price(categorical=list(range(X.shape[1] - q, X.shape[1])), **parameters).fit(X)


@examples(250)
@given(
    seed=st.integers(0, 10**6),
    selection=st.sampled_from(["fixed", "free"]),
    sharing=st.sampled_from([0.0, 0.1, 0.6, 0.99, 1.0]),
    fraction=st.sampled_from([0.2, 0.5, 0.8, 1.0]),
    price=st.sampled_from([0.0, 1.0, 8.0, 40.0]),
    missing=st.sampled_from([0.0, 0.1, 0.6]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_the_objective_never_rises(seed, selection, sharing, fraction, price, missing, dtype):
    table = random_table(seed, missing=missing, dtype=dtype)
    price += price_terms(fraction)[0] * table.shape[1]  # Lambda = lambda + D F_0: an empty cluster never pays
    model = fixed_price(
        cluster_price=price,
        numeric="raw",
        selection=selection,
        feature_sharing=sharing,
        feature_fraction=fraction,
        n_init=2,
        random_state=seed,
        max_clusters=12,
    ).fit(table)
    path = model.objective_path_
    assert (np.diff(path) <= 1e-9 * np.maximum(1.0, np.abs(path[:-1]))).all()
    assert model.converged_
    assert path[-1] == pytest.approx(model.objective_, rel=1e-12, abs=1e-9)


@pytest.fixture
def always_parallel(monkeypatch):
    """Every kernel call is shared out, however small."""
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("model", ["likelihood", "paper"])
def test_the_same_bits_on_any_number_of_threads(always_parallel, seed, model):
    table = random_table(seed, n=5000, p=3, q=3)
    weight = np.random.default_rng(seed).random(5000)
    fits = [
        quiet_fit(
            PaperCRAFT(cluster_price=30.0, model=model, n_init=2, max_iter=8).set_params(
                random_state=seed, n_threads=n_threads
            ),
            table,
            weight if seed % 2 else None,
        )
        for n_threads in (1, 2, 3, 7)
    ]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].transform(table), other.transform(table))


def quiet_fit(model, table, weight=None):
    """Fit that may stop at max_iter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(table, sample_weight=weight)


@pytest.mark.slow
def test_the_same_bits_on_every_instruction_set_and_block_size():
    script = (
        "from craftc._common import threads; threads.SMALL_WORK = 0\n"
        "import hashlib, numpy as np; from craftc import PaperCRAFT; from tests.common import random_table\n"
        "h = hashlib.sha256()\n"
        "for seed in range(5):\n"
        "    t = random_table(seed, n=1500)\n"
        "    m = PaperCRAFT(cluster_price=5.0, model='likelihood', n_init=2, max_clusters=12, "
        "random_state=seed,\n"
        "              max_iter=100, n_threads=3).fit(t)\n"
        "    for a in (m.labels_, m.objective_path_, m.feature_gains_, m.transform(t)):\n"
        "        h.update(np.ascontiguousarray(a).tobytes())\n"
        "print(h.hexdigest())\n"
    )
    digests = set()
    for level, block in (("baseline", "1024"), ("v3", "8"), ("v4", "100"), ("v4", "1024"), ("v4", "100000")):
        environment = {**os.environ, "CRAFTC_SIMD": level, "CRAFTC_BLOCK": block, "PYTHONPATH": str(ROOT)}
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


@pytest.mark.parametrize("seed", range(20))
def test_whole_weights_are_repeated_rows(seed):
    table = random_table(seed, n=60)
    rng = np.random.default_rng(seed)
    weight, labels = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    weight[0] = 2
    rows = np.repeat(np.arange(60), weight)
    parameters = {"cluster_price": 200.0, "selection": "fixed", "numeric": "raw"}
    weighted = fixed_price(init=labels, **parameters).fit(table, sample_weight=weight)
    repeated = fixed_price(init=labels[rows], **parameters).fit(table.take(rows))
    # the numbering is by first appearance among all rows, weightless ones included
    pairs = {(a, b) for a, b in zip(weighted.labels_[rows], repeated.labels_, strict=True)}
    assert len(pairs) == weighted.n_clusters_ == repeated.n_clusters_
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-13)
    np.testing.assert_array_equal(np.sort(weighted.cluster_sizes_), np.sort(repeated.cluster_sizes_))


@pytest.mark.parametrize("seed", range(10))
def test_columns_may_be_shifted_scaled_and_shuffled(seed):
    rng = np.random.default_rng(seed)
    p, q = 3, 3
    table = random_table(seed, n=80, p=p, q=q)
    X = np.where(table.codes == table.n_levels, np.nan, table.codes.astype(float))
    X = np.concatenate([table.numeric, X], axis=1)
    labels = rng.integers(0, 3, 80)
    plain = from_data(X, q, init=labels, cluster_price=5.0)
    moved = X.copy()
    moved[:, :p] = moved[:, :p] * [2.0, -3.0, 1e4] + [5.0, -1.0, 1e3]
    scaled = from_data(moved, q, init=labels, cluster_price=5.0)
    np.testing.assert_array_equal(plain.labels_, scaled.labels_)
    np.testing.assert_allclose(plain.feature_gains_, scaled.feature_gains_, rtol=1e-6, atol=1e-6)
    recoded = X.copy()
    recoded[:, p:] = 7.0 - recoded[:, p:]
    np.testing.assert_array_equal(
        plain.labels_, from_data(recoded, q, init=labels, cluster_price=5.0).labels_
    )
    order = rng.permutation(80)
    shuffled = from_data(X[order], q, init=labels[order], n_clusters=3, cluster_price=0.0)
    straight = from_data(X, q, init=labels, n_clusters=3, cluster_price=0.0)
    assert shuffled.objective_ == pytest.approx(
        straight.objective_, rel=1e-13
    )  # no openings: the order of rows is free


def test_a_constant_column_changes_nothing():
    heart = load_heart().data
    labels = np.arange(len(heart)) % 3
    plain = fixed_price(init=labels, cluster_price=10.0).fit(heart)
    constant = fixed_price(init=labels, cluster_price=10.0).fit(
        heart.assign(always=1.0, same=pd.Categorical(["x"] * len(heart)))
    )
    np.testing.assert_array_equal(plain.labels_, constant.labels_)
    assert plain.objective_ == constant.objective_
    assert not constant.feature_mask_[:, -2:].any()
    assert (constant.feature_gains_[:, -2:] == 0).all()


def test_one_row_one_category_all_constant():
    one = CRAFT().fit(np.array([[1.0, 2.0]]))
    assert one.labels_.tolist() == [0]
    assert one.objective_ == 0.0  # nothing to describe, and log 1 = 0
    flat = CRAFT().fit(pd.DataFrame({"a": [1.0] * 6, "b": pd.Categorical(["x"] * 6)}))
    assert flat.n_clusters_ == 1
    assert not flat.feature_mask_.any()
    assert (flat.predict(pd.DataFrame({"a": [2.0], "b": ["x"]})) == 0).all()


def test_rewarded_features_do_not_open_clusters_for_ever():
    # m > 1/2 rewards features, so at price 0 every cluster is worth having: the passes end all the same
    for seed in range(40):
        table = random_table(seed, missing=0.5)
        model = fixed_price(
            min(5, len(table)),
            cluster_price=0.0,
            selection="fixed",
            feature_fraction=0.9,
            numeric="raw",
            n_init=2,
            random_state=seed,
        ).fit(table)
        assert model.n_clusters_ <= 5


def test_no_feature_selection_uses_every_column():
    model = fixed_price(3, feature_fraction=1.0, cluster_price=0.0, selection="fixed", random_state=0).fit(
        load_heart().data
    )
    assert model.feature_mask_.all()


def test_global_selection_shares_one_mask():
    model = PaperCRAFT(4, feature_sharing=1.0, random_state=0).fit(load_heart().data)
    assert model.n_clusters_ > 1
    assert (model.feature_mask_ == model.feature_mask_[0]).all()


@pytest.mark.parametrize("order", ["C", "F", "strided", "read-only"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_memory_layout(order, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)).astype(dtype)
    X[:30] += 4
    expected = CRAFT(n_clusters=2, random_state=0).fit(X)
    given_X = {
        "C": X,
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "read-only": X.copy(),
    }[order]
    given_X.flags.writeable = order != "read-only"
    assert_same_bits(CRAFT(n_clusters=2, random_state=0).fit(given_X), expected)
    assert expected.transform(given_X).dtype == dtype


def test_float32_is_close_to_float64():
    heart = load_heart().data.copy()
    single = heart.copy()
    for name in load_heart().numeric_names:
        single[name] = single[name].astype(np.float32)
    a = CRAFT(n_clusters=3, random_state=0).fit(
        heart.astype(dict.fromkeys(load_heart().numeric_names, float))
    )
    b = CRAFT(n_clusters=3, random_state=0).fit(single)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-6)


def test_more_starts_never_hurt_and_the_seed_decides():
    heart = load_heart().data
    options = {"covariance": "diagonal", "random_state": 3}  # covariances begin from one partition
    few, many = (CRAFT(n_init=n, **options).fit(heart) for n in (2, 10))
    assert many.objective_ <= few.objective_ + 1e-9
    assert_same_bits(few, CRAFT(n_init=2, **options).fit(heart))


def test_a_list_of_starts_keeps_the_best():
    heart = load_heart().data
    starts = [np.arange(270) % 4, np.zeros(270, int), np.arange(270) // 90]
    singles = [fixed_price(init=start, cluster_price=12.0).fit(heart).objective_ for start in starts]
    assert fixed_price(init=starts, cluster_price=12.0).fit(heart).objective_ == min(singles)


def test_labels_are_numbered_by_first_appearance():
    model = CRAFT(n_clusters=5, random_state=1).fit(load_heart().data)
    first = [int(np.flatnonzero(model.labels_ == k)[0]) for k in range(model.n_clusters_)]
    assert first == sorted(first)


def test_predict_knows_columns_and_levels_by_name():
    heart = load_heart().data
    model = CRAFT(n_clusters=3, random_state=0).fit(heart)
    np.testing.assert_array_equal(model.predict(heart), model.labels_)
    np.testing.assert_array_equal(model.predict(heart[heart.columns[::-1]]), model.labels_)
    strange = heart.head(3).copy()
    strange["thal"] = pd.Categorical(["never seen", "never seen", strange["thal"].iloc[2]])
    assert model.predict(strange).shape == (3,)
    blank = strange.copy()
    blank["thal"] = blank["thal"].where(blank["thal"] != "never seen")
    np.testing.assert_array_equal(
        model.transform(strange), model.transform(blank)
    )  # unseen costs like missing
    with pytest.raises(ValueError, match="thal"):
        CRAFT(n_clusters=3, random_state=0, unknown="error").fit(heart).predict(strange)


def test_a_wild_new_row_has_a_finite_cost():
    model = CRAFT(n_clusters=2, random_state=0).fit(np.random.default_rng(0).normal(size=(50, 2)))
    assert np.isfinite(model.transform(np.array([[1e300, -1e300]]))).all()


def test_pickle_and_output_names():
    heart = load_heart().data
    model = CRAFT(n_clusters=2, random_state=0).fit(heart)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(heart), model.transform(heart))
    assert list(model.get_feature_names_out()) == ["craft0", "craft1"]
    frame = model.set_output(transform="pandas").transform(heart)
    assert list(frame.columns) == ["craft0", "craft1"]


def test_one_fitted_model_serves_many_threads():
    table = random_table(0, n=4000, p=3, q=3)
    model = CRAFT(n_clusters=3, n_init=2, random_state=0).fit(table)
    expected, wrong = model.transform(table), []

    def work():
        for _ in range(5):
            wrong.append(
                not np.array_equal(model.transform(table), expected)
                or not np.array_equal(model.predict(table), model.labels_)
            )

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(wrong)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_hang():
    script = (
        "import os, warnings, numpy as np; from craftc import CRAFT; from craftc._common import threads; "
        "threads.SMALL_WORK = 0\n"
        "X = np.random.default_rng(0).normal(size=(3000, 3)); CRAFT(n_clusters=2, n_init=1, "
        "n_threads=2).fit(X)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    warnings.simplefilter('ignore'); CRAFT(n_clusters=2, n_init=1, n_threads=2).fit(X); "
        "os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.stdout.strip() == "7", done.stderr


def test_summary_reads_like_the_data():
    heart = load_heart().data
    model = CRAFT(n_clusters=2, random_state=0).fit(heart)
    summary = model.summary()
    assert list(summary.columns) == [
        "cluster",
        "rows",
        "share",
        "feature",
        "gain",
        "distribution",
        "in the cluster",
        "in the whole table",
    ]
    assert summary.groupby("cluster")["rows"].first().tolist() == model.cluster_sizes_.tolist()
    for k, part in summary.groupby("cluster"):
        assert (part["gain"].diff().dropna() <= 0).all()
        assert set(part["feature"]) >= set(heart.columns[model.feature_mask_[k]])
        assert set(part["distribution"]) == {"own"}
    ages = heart.loc[model.labels_ == 0, "age"]
    line = summary[(summary["cluster"] == 0) & (summary["feature"] == "age")]["in the cluster"]
    if len(line):
        assert line.item().startswith(f"{ages.mean():.1f}"[:3])


def test_a_table_is_built_once():
    heart = load_heart().data
    table = MixedTable.from_data(heart)
    assert_same_bits(
        CRAFT(n_clusters=2, random_state=0).fit(table), CRAFT(n_clusters=2, random_state=0).fit(heart)
    )


def test_verbose_prints(capsys):
    fixed_price(2, cluster_price=0.0, n_init=2, random_state=0, verbose=2).fit(load_heart().data)
    printed = capsys.readouterr().out
    assert "start 3/3" in printed  # the third has one cluster
    assert "pass 1" in printed


def test_the_papers_score_prefers_the_level_that_only_the_cluster_has():
    rows = np.repeat([0, 1], [100, 900])
    own = (rows == 0) * 1.0
    rare = np.r_[np.ones(60), np.zeros(940)]  # in 60 % of the cluster and nowhere else: S KL = 104 nats
    common = np.r_[
        np.ones(75), np.zeros(25), np.arange(900) % 2
    ]  # in 75 % of the cluster and half of the others: 11 nats
    model = PaperCRAFT(
        2, categorical=[0, 1, 2, 3], cluster_price=0.0, feature_fraction=0.75, init=rows, n_init=1
    )
    model.fit(np.column_stack([own, own, rare, common]))
    assert model.feature_mask_[0].tolist() == [True, True, True, False]


def test_the_papers_numeric_score_is_the_standard_deviation_itself():
    rng = np.random.default_rng(0)
    rows = np.repeat([0, 1], 50)
    X = np.column_stack([rng.normal(50.0 * rows, 1.0), rng.normal(0.0, 0.1, 100)])
    for model, mask in (
        ("paper", [False, True]),
        ("paper-fixed", [False, True]),
        ("paper-relative", [True, False]),
    ):
        assert PaperCRAFT(2, model=model, cluster_price=0.0, init=rows, n_init=1).fit(
            X
        ).feature_mask_.tolist() == [mask, mask]


def test_starts_of_the_papers_model_are_not_compared_by_its_flat_objective():
    wine = load_wine().data
    for seed in range(3):
        for n_clusters in (None, 3):
            assert PaperCRAFT(n_clusters, random_state=seed).fit(wine).n_clusters_ > 1


def test_the_papers_models_keep_the_columns_unless_asked():
    heart = load_heart().data
    for model in ("paper", "paper-relative", "paper-fixed"):
        auto, raw, rank = (
            PaperCRAFT(3, model=model, numeric=numeric, random_state=0).fit(heart)
            for numeric in ("auto", "raw", "rank")
        )
        assert_same_bits(auto, raw)
        assert rank.objective_ != raw.objective_


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_an_absolute_threshold_is_in_the_squared_units_of_the_columns(unit):
    rng = np.random.default_rng(0)
    rows = np.repeat([0, 1], 100)
    X = unit * np.column_stack([rng.normal(20.0 * rows, 1.0), rng.normal(20.0 * rows, 3.0)])
    parameters = {"selection": "threshold", "cluster_price": 10.0, "numeric": "raw", "init": rows}
    model = fixed_price(numeric_threshold=("absolute", 4.0 * unit**2), **parameters).fit(X)
    assert model.feature_mask_.tolist() == [[True, False]] * 2
    assert fixed_price(numeric_threshold=0.5, **parameters).fit(X).feature_mask_.all()


def test_weights_that_sum_to_one_and_masked_ones():
    X = np.random.default_rng(0).normal(size=(300, 3)) + 6.0 * (np.arange(300) % 2)[:, None]
    with pytest.warns(UserWarning, match="counts 1 rows in all.*worth 300: multiply them by 300"):
        assert CRAFT(random_state=0).fit(X, sample_weight=np.full(300, 1 / 300)).n_clusters_ == 1
    assert CRAFT(random_state=0).fit(X, sample_weight=np.full(300, 0.5)).n_clusters_ == 2
    masked = np.ma.array(np.ones(300), mask=np.arange(300) < 20)
    with pytest.raises(TypeError, match="sample_weight is a masked array"):
        CRAFT().fit(X, sample_weight=masked)
