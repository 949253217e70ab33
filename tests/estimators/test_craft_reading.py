"""What a fitted CRAFT answers about its clusters: names, typical and unusual rows, similarity, stability,
another table.
"""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc import CRAFT, MixedTable, PaperCRAFT
from craftc.craft.answers.stability import jaccard
from craftc.datasets import load_heart

pd = pytest.importorskip("pandas", reason="tables with columns of several types need pandas")


@pytest.fixture(scope="module")
def people():
    """A table whose clusters and names are known: families, students, retired people."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [160, 100, 60])

    def level(shares):
        return [rng.choice(list(shares[g]), p=list(shares[g].values())) for g in group]

    return pd.DataFrame(
        {
            "role": level(
                [{"Husband": 0.9, "Single": 0.1}, {"Single": 1.0}, {"Husband": 0.5, "Single": 0.5}]
            ),
            "work": level([{"office": 0.7, "trade": 0.3}, {"study": 0.95, "trade": 0.05}, {"none": 1.0}]),
            "member": level([{"yes": 0.9, "no": 0.1}, {"no": 0.95, "yes": 0.05}, {"no": 0.9, "yes": 0.1}]),
            "age": rng.normal([40, 21, 71], [6, 2, 5], (320, 3))[np.arange(320), group],
            "height": rng.normal(170, 8, 320),
        }
    ).assign(sex=lambda t: np.where(t["role"] == "Husband", "Male", rng.choice(["Male", "Female"], 320)))


@pytest.fixture(scope="module")
def fitted(people):
    return CRAFT(3, random_state=0).fit(people)


def test_names(fitted):
    names = [fitted.cluster_names_[fitted.labels_[row]] for row in (0, 160, 300)]
    assert names == ["office, member yes", "study, often Female", "work none, high age"]


def test_a_name_does_not_repeat_itself():
    """A number that a category repeats, a column that another implies, and a column that shares its
    information are named once.
    """
    rng = np.random.default_rng(0)
    role = rng.permutation(np.repeat(["Husband", "Wife", "Single"], [150, 60, 190]))
    job = np.where(rng.random(400) < 0.9, np.where(role == "Single", "study", "office"), "trade")
    table = pd.DataFrame(
        {
            "role": role,
            "role_number": pd.Series(role).map({"Husband": 0.0, "Wife": 1.0, "Single": 5.0}),
            "job": job,
        }
    )
    table["sex"] = np.where(
        role == "Husband", "Male", np.where(role == "Wife", "Female", rng.choice(["Male", "Female"], 400))
    )
    with pytest.warns(UserWarning, match="near-duplicates"):
        model = CRAFT(3, random_state=0).fit(table)
    names = [
        model.cluster_names_[model.labels_[np.flatnonzero(role == each)[0]]]
        for each in ("Husband", "Wife", "Single")
    ]
    assert names[0].startswith("Husband")
    assert "Male" not in names[0]
    assert not any(
        "role_number" in name and ("Husband" in name or "Wife" in name or "Single" in name) for name in names
    )


def test_names_of_one_column():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(m, 1, (80, 1)) for m in (0, 40, 80, 120)])
    names = CRAFT(4, random_state=0).fit(X).cluster_names_
    assert names == ["low x0", "x0 near 40", "x0 near 80", "high x0"]


def test_equal_values_have_no_rounding_error_in_a_name():
    rng = np.random.default_rng(0)
    spend = np.append(np.zeros(60), rng.normal(3.3, 0.7, 90))
    table = pd.DataFrame({"spend": spend, "other": rng.normal(np.repeat([0, 5], [60, 90]))})
    assert abs(CRAFT(2, random_state=0).fit(table).centers_[0, 0]) < 1e-9
    assert "spend 0" in CRAFT(2, random_state=0).fit(table).cluster_names_[0].split(", ")


def test_equal_names_are_numbered_by_size():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(m, 1, (n, 1)) for m, n in ((0, 30), (15, 110), (100, 100), (115, 40))])
    names = CRAFT(4, random_state=0).fit(X).cluster_names_
    assert names == ["low x0 (2)", "low x0", "high x0", "high x0 (2)"]


def test_hostile_names_stay_on_one_line(people):
    table = people.rename(columns={"work": "w\n\x1b[31m<script>"}).replace("study", "st\nudy\x07" + "y" * 100)
    for name in CRAFT(3, random_state=0).fit(table).cluster_names_:
        assert name.isprintable()
        assert len(name) < 110


def test_importances(fitted):
    importances = fitted.feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances[list(fitted.feature_names_in_).index("height")] == 0.0
    assert (importances >= 0).all()
    assert (
        not CRAFT(1, random_state=0)
        .fit(np.random.default_rng(0).normal(size=(40, 2)))
        .feature_importances_.any()
    )


def test_properties_need_a_fit():
    for name in ("cluster_names_", "feature_importances_"):
        assert not hasattr(CRAFT(), name)


def test_representatives_and_outliers(fitted, people):
    density, margin = fitted.score_samples(people), fitted.margins(people)
    for k, rows in enumerate(fitted.representatives(4)):
        members = np.flatnonzero((fitted.labels_ == k) & (margin >= np.log(9)))
        first = np.sort(np.unique(density[members], return_index=True)[1])  # rows of equal levels
        members = members[first]
        assert rows.tolist() == members[np.argsort(-density[members])][:4].tolist()
        assert (rows == fitted.representatives(4, people)[k]).all()
    lowest = np.argsort(density, kind="stable")[:7]
    assert fitted.outliers(7).tolist() == lowest.tolist() == fitted.outliers(7, people).tolist()
    with pytest.raises(ValueError, match="keeps 32"):
        fitted.representatives(33)
    assert len(fitted.representatives(33, people)[0]) == 33
    with pytest.raises(ValueError, match="n must be"):
        fitted.outliers(0)
    with pytest.raises(AttributeError, match="no density"):
        PaperCRAFT(3, random_state=0).fit(people).outliers()


def test_rows_with_missing_cells_and_equal_rows_are_not_typical(people):
    table = pd.concat([people, people.iloc[:160]], ignore_index=True)
    table.loc[::2, "height"] = np.nan
    model = CRAFT(3, random_state=0).fit(table)
    for rows in model.representatives(10):
        assert not table.iloc[rows].isna().any(axis=None)
        assert not table.iloc[rows].duplicated().any()


def test_rows_of_weight_zero_are_neither(people):
    weight = np.ones(len(people))
    weight[CRAFT(3, random_state=0).fit(people).outliers(5)] = 0.0
    model = CRAFT(3, random_state=0).fit(people, sample_weight=weight)
    assert (weight[model.outliers(20)] > 0).all()
    assert all((weight[rows] > 0).all() for rows in model.representatives(20))


def test_similarity_is_the_integral():
    """Against a sum over the levels, whose probabilities in every cluster follow from `transform`."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(0, 1, (300, 1)), rng.normal(4, 0.7, (200, 1))])
    model = CRAFT(2, random_state=0).fit(X)
    values = model._fitted.encoding.numbers[0].values
    probability = np.exp(-model.transform(values[:, None])) / (model.cluster_sizes_ / 500)
    np.testing.assert_allclose(probability.sum(axis=0), 1.0)
    expected = np.sqrt(probability[:, 0] * probability[:, 1]).sum()
    np.testing.assert_allclose(model.similarity(), [[1, expected], [expected, 1]], rtol=1e-6)


def test_similarity_of_categories_and_of_covariances():
    levels = pd.DataFrame(
        {"a": ["x", "y"] * 100 + ["z", "z", "z", "y"] * 50, "b": ["u"] * 180 + ["v"] * 220}, dtype="category"
    )
    model = CRAFT(2, random_state=0).fit(levels)
    expected = np.prod([np.sqrt(shares[0] * shares[1]).sum() for shares in model.level_probabilities_])
    np.testing.assert_allclose(model.similarity()[0, 1], expected, rtol=1e-12)
    rng = np.random.default_rng(3)
    one = np.linalg.cholesky([[1, 0.9], [0.9, 1]])
    X = np.concatenate(
        [rng.normal(size=(300, 2)) @ one.T, rng.normal(size=(300, 2)) @ (one * [[1], [-1]]).T + [9, 0]]
    )
    model = CRAFT(2, random_state=0).fit(X)
    (_, A), (_, B) = model.covariances_
    scores = model._fitted.encoding.apply(MixedTable.from_data(X)).numeric.astype(float)
    one, other = (scores[model.labels_ == k].mean(axis=0) for k in range(2))
    middle, apart = (A + B) / 2, one - other
    det = np.linalg.det
    expected = np.exp(-apart @ np.linalg.solve(middle, apart) / 8) * np.sqrt(
        np.sqrt(det(A) * det(B)) / det(middle)
    )
    np.testing.assert_allclose(model.similarity()[1, 0], expected, rtol=1e-6)
    with pytest.raises(AttributeError, match="no density"):
        PaperCRAFT(2, random_state=0).fit(X).similarity()


def test_stability_tells_clusters_from_slices(fitted, people):
    firm = fitted.stability(people, n=5, n_seeds=2)
    assert firm.overlap.shape == (5, 3)
    assert (firm.mean > 0.9).all()
    assert (firm.lowest <= firm.mean).all()
    assert (firm.found == 1.0).all()
    assert (firm.agreement > 0.9).all()
    assert (firm.n_clusters == 3).all()
    X = np.random.default_rng(4).normal(size=(300, 4))
    slices = CRAFT(4, random_state=0).fit(X).stability(X, n=5, n_seeds=0)
    assert slices.mean.mean() < 0.6
    assert len(slices.agreement) == 0
    for other in (people.head(10), people[::-1]):
        with pytest.raises(ValueError, match="pass the table of fit"):
            fitted.stability(other)


def test_rows_in_another_order_are_not_the_table_of_fit(fitted, people, tmp_path):
    assert len(fitted.at(2, people).margins_) == len(people)
    with pytest.raises(ValueError, match="in another order"):
        fitted.at(2, people[::-1])
    craftc.report.write(fitted, people, tmp_path / "page.html")
    with pytest.raises(ValueError, match="in another order"):
        craftc.report.write(fitted, people[::-1], tmp_path / "other.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    weight = np.linspace(0.5, 2.0, len(people))
    weighted = CRAFT(3, random_state=0).fit(people, sample_weight=weight)
    assert len(weighted.at(2, people, weight).margins_) == len(people)
    with pytest.raises(ValueError, match="in another order"):
        weighted.at(2, people, weight[::-1])


def test_stability_takes_the_weights_and_the_columns_of_fit(people):
    weight = np.where(np.arange(320) < 100, 0.0, 1.0)
    table = people.assign(when=pd.Timestamp("2026-01-01"), constant=1)
    with pytest.warns(UserWarning, match="are not used"):
        model = CRAFT(3, unusable="drop", random_state=0).fit(table, sample_weight=weight)
    counted = CRAFT(3, random_state=0).fit(people[weight > 0])
    found = model.stability(table, n=3, n_seeds=1, sample_weight=weight)
    np.testing.assert_array_equal(found.overlap.shape, (3, 3))
    assert found.mean.min() > 0.8
    assert counted.n_clusters_ == model.n_clusters_
    with pytest.raises(
        ValueError, match=r"weight of 220 in all, these one of 320; pass the sample_weight of fit"
    ):
        model.stability(table)


def test_a_cluster_without_rows_in_a_part_has_no_overlap():
    found = craftc.craft.answers.stability.Stability(
        np.array([[0.5, np.nan], [1.0, np.nan]]), np.array([2, 2]), np.empty(0)
    )
    np.testing.assert_array_equal(found.mean, [0.75, np.nan])
    np.testing.assert_array_equal(found.lowest, [0.5, np.nan])
    np.testing.assert_array_equal(found.found, [0.5, np.nan])


def test_jaccard_by_hand():
    found = jaccard(np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1]), 3)
    np.testing.assert_array_equal(found, [2 / 3, 2 / 3, np.nan])


@pytest.mark.filterwarnings("ignore:Column .* has no value in any of these rows")
def test_compare_two_quarters(fitted, people):
    same = craftc.compare(fitted, people)
    assert same.cluster_drift == pytest.approx(0.0, abs=1e-12)
    assert same.drift < 0.02
    fewer = craftc.compare(fitted, people.iloc[80:])
    np.testing.assert_allclose(fewer.now.sum(), 1.0)
    k = fitted.labels_[0]
    assert fewer.now[k] < fewer.then[k]
    share = np.bincount(fitted.labels_[80:], minlength=3) / 240
    np.testing.assert_allclose(fewer.now, share)
    then = np.bincount(fitted.labels_) + 0.5
    divergence = (share * np.log(share / (then / then.sum()))).sum()
    np.testing.assert_allclose(fewer.cluster_drift, divergence - (1 / 240 + 1 / 320))  # 2 parameters
    taller = craftc.compare(fitted, people.assign(height=people["height"] + 20.0))
    features = taller.features()
    assert features["feature"][0] == "height"
    assert features["drift"][0] > 1.0
    assert features["drift"][1] < 0.05
    assert list(taller.clusters()["cluster"]) == np.argsort(-fitted.cluster_sizes_).tolist()
    for changed in (
        people.assign(work=people["work"].where(people.index == 0, "new")),
        people.assign(work=None),
        people.assign(work=people["work"].where(people.index > 160)),
    ):
        features = craftc.compare(fitted, changed).features()
        assert features["feature"][0] == "work"
        assert features["drift"][0] > 0.3
    weight = (np.arange(320) >= 80).astype(float)
    weighted = craftc.compare(fitted, people, sample_weight=weight)
    np.testing.assert_allclose(weighted.now, fewer.now)
    np.testing.assert_allclose(weighted.feature_drift, fewer.feature_drift)
    repeated = craftc.compare(fitted, people.iloc[np.repeat(np.arange(320), 1 + np.arange(320) % 3)])
    counted = craftc.compare(fitted, people, sample_weight=1 + np.arange(320) % 3)
    assert (counted.n_rows, repeated.n_rows) == (320, 639)
    for name in ("now", "sizes", "feature_drift", "missing", "cluster_drift", "scores", "score_drift"):
        np.testing.assert_allclose(getattr(counted, name), getattr(repeated, name), atol=1e-12, err_msg=name)
    with pytest.raises(TypeError, match="needs a fitted CRAFT"):
        craftc.compare(craftc.DPMeans(), people)
    with pytest.raises(ValueError, match="0 sample"):
        craftc.compare(fitted, people.iloc[:0])


def test_the_table_and_the_weights_of_the_fit_have_not_drifted():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 600)
    gone = rng.random(600) < np.where(group == 2, 0.5, 0.05)
    rows = pd.DataFrame(
        {
            "a": rng.normal(2.0 * group).round(2),
            "b": np.array(["x", "y", "z"])[np.where(rng.random(600) < 0.7, group, 0)],
            "c": np.where(gone, np.nan, rng.poisson(2 + 3 * group)),
        }
    )
    weight = np.where(group == 2, 6, 1)
    weighted = CRAFT(random_state=0).fit(rows, sample_weight=weight)
    same = craftc.compare(weighted, rows, sample_weight=weight)
    assert same.drift == 0.0
    np.testing.assert_allclose(*same.missing)
    np.testing.assert_allclose(same.now, same.then)
    assert same.scores[0] == pytest.approx(same.scores[1])
    assert craftc.compare(weighted, rows).drift > 0.1


def test_frames_of_the_library_that_was_given():
    pl = pytest.importorskip("polars", reason="polars is not installed")
    heart = load_heart().data
    model = CRAFT(random_state=0).fit(pl.from_pandas(heart))
    other = CRAFT(random_state=0).fit(heart)
    summary = model.summary()
    assert isinstance(summary, pl.DataFrame)
    pd.testing.assert_frame_equal(pd.DataFrame(summary.to_dict(as_series=False)), other.summary())
    assert isinstance(model.explain(pl.from_pandas(heart)), pl.DataFrame)
    assert isinstance(craftc.compare(model, heart).clusters(), pl.DataFrame)


def test_a_feature_that_is_called_cluster():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        rng.normal(size=(60, 2)) + 9.0 * np.repeat([[0], [1]], 30, axis=0), columns=["cluster", "b"]
    )
    assert list(CRAFT(2, random_state=0).fit(X).explain(X).columns) == [
        "cluster",
        "next",
        "size",
        "cluster (feature)",
        "b",
    ]
