"""Clusters of an earlier CRAFT that a fit keeps."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import craftc
from craftc import CRAFT

pd = pytest.importorskip("pandas", reason="columns are named by frames")

LEVELS = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])


def craft(**parameters):
    return CRAFT(random_state=0, covariance="diagonal", **parameters)


def table(seed, sizes, shift=0.0):
    """Rows of three groups; those of the first two are shifted. The last column is the group."""
    rng = np.random.default_rng(seed)
    g = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    moved = np.where(g < 2, shift, 0.0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(np.array([0.0, 6.0, 3.0])[g] + moved),
            "b": rng.normal(np.array([0.0, 5.0, 9.0])[g]),
            "noise": rng.normal(size=len(g)),
            "c": np.array(["x", "y", "z"])[(rng.random((len(g), 1)) > LEVELS[g].cumsum(axis=1)).sum(axis=1)],
        }
    )
    return frame, g


@functools.cache
def earlier():
    return craft().fit(table(0, [400, 600])[0]).rename_clusters({0: "regulars"})


@functools.cache
def later():
    X, g = table(1, [300, 300, 250], shift=0.3)
    return X, g, craft().fit(X, fixed=earlier())


def test_a_third_group_is_found_and_two_keep_their_distributions():
    X, g, model = later()
    known = earlier()
    agree = [(model.labels_ == known.predict(X))[g < 2].mean(), (model.labels_ == 2)[g == 2].mean()]
    assert model.n_clusters_ == 3
    assert min(agree) > 0.98
    for name in ("centers_", "variances_"):
        assert np.array_equal(getattr(model, name)[:2], getattr(known, name))
    assert np.array_equal(model.level_probabilities_[0][:2], known.level_probabilities_[0])
    assert model.centers_[2] == pytest.approx([3.0, 9.0, 0.0], abs=0.2)
    assert model.cluster_names_[:2] == known.cluster_names_
    assert model.cluster_sizes_.tolist() == np.bincount(model.labels_).tolist()
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.converged_
    rows = model.summary().groupby("cluster")["rows"].first()
    assert rows.tolist() == model.cluster_sizes_.tolist()
    assert any("Fixed clusters" in note for note in model._notes())


def test_groups_that_have_moved_far_are_new():
    X, _ = table(2, [300, 300], shift=2.0)
    model = craft().fit(X, fixed=earlier())
    assert model.n_clusters_ == 4
    assert model.cluster_sizes_[2:].min() > 200


@pytest.mark.parametrize("sizes", [[300, 300], [0, 300], [400, 30]])
def test_no_new_cluster_where_the_fixed_describe_the_rows(sizes):
    X, g = table(3, sizes)
    model = craft().fit(X, fixed=earlier())
    assert model.n_clusters_ == 2
    assert np.array_equal(model.labels_, earlier().predict(X)) or (model.labels_ == 1 - g).mean() > 0.98


def test_some_clusters():
    X, _, _ = later()
    known = earlier()
    for which in ([1], [known.cluster_names_[1]], np.array([1])):
        model = craft().fit(X, fixed=(known, which))
        assert model.n_clusters_ == 3
        assert np.array_equal(model.centers_[0], known.centers_[1])
        assert model.cluster_names_[0] == known.cluster_names_[1]


@pytest.mark.parametrize(("asked", "found"), [(2, 2), (3, 3), (4, 4), ((4, 6), 4), ((2, 2), 2)])
def test_number_of_clusters(asked, found):
    model = craft(n_clusters=asked).fit(later()[0], fixed=earlier())
    assert model.n_clusters_ == found
    assert np.array_equal(model.centers_[:2], earlier().centers_)


def test_weight_2_is_a_repeated_row():
    X, _, _ = later()
    twice = craft().fit(pd.concat([X, X], ignore_index=True), fixed=earlier())
    weighted = craft().fit(X, fixed=earlier(), sample_weight=np.full(len(X), 2.0))
    assert np.array_equal(twice.labels_[: len(X)], weighted.labels_)
    assert twice.objective_ == weighted.objective_
    assert np.array_equal(twice.variances_, weighted.variances_)
    assert weighted.cluster_sizes_.sum() == 2 * len(X)


def test_weights_that_are_not_whole():
    old, _ = table(0, [400, 600])
    X, _, _ = later()
    weights = np.random.default_rng(0).uniform(0.2, 1.0, len(old))
    known = craft().fit(old, sample_weight=weights)
    model = craft().fit(X, fixed=known)
    assert model.n_clusters_ == 3
    assert np.array_equal(model.variances_[:2], known.variances_)
    assert model.cluster_sizes_.sum() == pytest.approx(len(X))


def test_threads_do_not_change_a_bit():
    X, _, model = later()
    other = craft(n_threads=2).fit(X, fixed=earlier())
    assert np.array_equal(model.labels_, other.labels_)
    assert np.array_equal(model.margins_, other.margins_)
    assert model.objective_ == other.objective_


def test_saved_and_loaded(tmp_path):
    X, _, model = later()
    craftc.save_model(model, tmp_path / "model.craftc")
    loaded = craftc.load_model(tmp_path / "model.craftc")
    assert np.array_equal(loaded.predict(X), model.labels_)
    assert np.array_equal(loaded.variances_, model.variances_)
    assert loaded.summary().equals(model.summary())
    assert np.array_equal(loaded.at(2, X).cluster_sizes_, model.at(2).cluster_sizes_)


def test_a_step_of_the_merge_path_counts_rows_of_the_table():
    X, _, model = later()
    step = model.at(2, X)
    assert step.cluster_sizes_.tolist() == np.bincount(model.cut(2)).tolist()
    assert model.at(1).cluster_sizes_.tolist() == [len(X)]


def test_clusters_that_stay_again():
    X, _, model = later()
    again = craft().fit(X, fixed=model)
    assert again.n_clusters_ == 3
    assert np.array_equal(again.variances_[:3], model.variances_)
    assert again.cluster_names_ == model.cluster_names_


def test_partial_fit_in_parts():
    X, _, _ = later()
    whole = craft().fit(X, fixed=earlier()).partial_fit(X[:200])
    parts = craft().fit(X, fixed=earlier()).partial_fit(X[:90]).partial_fit(X[90:200])
    assert whole.cluster_sizes_.sum() == len(X) + 200
    assert np.array_equal(whole.cluster_sizes_, parts.cluster_sizes_)
    assert whole.objective_ == parts.objective_


def test_profile_rules_and_criteria_count_rows_of_the_table():
    X, _, model = later()
    assert model.soft_sizes_.sum() == pytest.approx(len(X))
    assert "850 (100 %)" in str(model.profile(X))
    assert model.rules().sizes.tolist() == model.cluster_sizes_.tolist()


def test_levels_and_numbers_that_the_model_has_not_seen():
    X, g, _ = later()
    model = craft().fit(
        X.assign(c=np.where(g == 2, "new", X["c"]), a=np.where(g == 2, 1e3, X["a"])), fixed=earlier()
    )
    assert (model.labels_ == 2)[g == 2].mean() > 0.98
    assert model.centers_[2, 0] > 900


def test_the_same_parameters_in_other_forms():
    frame = table(0, [400, 600])[0]
    first = craft(column_weights={"a": 2, "noise": 1}, categorical=["c"]).fit(frame)
    again = craft(column_weights={"a": 2.0, "noise": 1.0}, categorical=("c",)).fit(frame, fixed=first)
    assert again.n_clusters_ == first.n_clusters_


def test_drift_from_a_cluster_without_rows():
    frame = table(0, [400, 600])[0]
    few = craft().fit(frame[earlier().labels_ == 0], fixed=earlier())
    assert few.cluster_sizes_.min() == 0
    assert 1.0 < craftc.compare(few, frame).cluster_drift < np.inf


@pytest.mark.parametrize(
    ("parameters", "fixed", "message"),
    [
        ({}, lambda: craft(), "not fitted"),
        ({}, lambda: "model", "must be a fitted CRAFT"),
        ({}, lambda: (earlier(), [2]), r"2 is no cluster .* 0 \('regulars'\)"),
        ({}, lambda: (earlier(), ["nobody"]), "'nobody' is no cluster"),
        ({}, lambda: (earlier(), [0, "regulars"]), "given twice"),
        ({}, lambda: (earlier(), []), "list of labels or names"),
        ({"n_clusters": 1}, earlier, "less than the 2 fixed clusters"),
        ({"init": earlier}, earlier, "given together"),
        ({"min_cluster_size": 9}, earlier, "min_cluster_size"),
        ({"kinds": {"c": "ordered"}}, earlier, "kinds must be that of the model"),
        ({"null": "normal"}, earlier, "null must be that of the model"),
    ],
)
def test_bad_input(parameters, fixed, message):
    parameters = {name: value() if callable(value) else value for name, value in parameters.items()}
    with pytest.raises((ValueError, TypeError), match=message):
        craft(**parameters).fit(later()[0], fixed=fixed())


def test_bad_tables():
    X, g, model = later()
    with pytest.raises(ValueError, match="missing"):
        craft().fit(X.drop(columns="a"), fixed=earlier())
    with pytest.raises(ValueError, match="groups"):
        craft().fit(X, fixed=earlier(), groups=g)
    with pytest.raises(ValueError, match="whole numbers"):
        craft().fit(X, fixed=earlier(), sample_weight=np.full(len(X), 0.3))
    with pytest.raises(ValueError, match="no covariances"):
        CRAFT(covariance="full").fit(X, fixed=earlier())
    with pytest.raises(ValueError, match="hold covariances"):
        CRAFT(random_state=0).fit(X, fixed=CRAFT(covariance="full", random_state=0).fit(X))
    with pytest.raises(ValueError, match="fitted without fixed"):
        model.null_test(X, n=1)
    kept = craft().fit(X)
    labels = kept.labels_.copy()
    with pytest.raises(ValueError, match="not fitted"):
        kept.fit(X, fixed=craft())
    assert np.array_equal(kept.labels_, labels)


@pytest.mark.parametrize("sizes", [[300, 300, 250], [0, 300, 200]])
def test_report(tmp_path, sizes):
    pytest.importorskip("jinja2")
    X, _ = table(5, sizes)
    model = craft().fit(X, fixed=earlier())
    craftc.report.write(model, X, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (model.cluster_sizes_.min() == 0) == (min(sizes) == 0)
    assert "Fixed groups keep the figures of an earlier table" in page


def test_dask_is_refused():
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match="not Partitions"):
        craft().fit(dask.from_pandas(later()[0], npartitions=2), fixed=earlier())
