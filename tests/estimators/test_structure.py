"""Whether a table has structure: kinds and sentences by hand, and their facts from models and tests."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT, PaperCRAFT, load_model, save_model
from craftc.craft.answers.path import rows_to_test, structure_of
from craftc.craft.answers.stability import Stability
from craftc.datasets import load_heart, make_mixed
from craftc.describe.structure import Starts, Structure
from tests.distributed.same_fit import mixed

pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
CLEAR = Structure(3, saving=612.0, null_savings=[0.0], dependence_ratio=0.5, clear=0.97)


@pytest.fixture(scope="module")
def heart():
    table = load_heart().data
    return table, CRAFT(random_state=0).fit(table)


# ---- words ----


@pytest.mark.parametrize(
    ("changes", "kind", "groups"),
    [
        ({}, "clear", "3 clear groups"),
        ({"clear": 0.89}, "soft", "3 overlapping groups"),
        ({"clear": None}, "unknown", "3 groups"),
        ({"slices": 2}, "price", "3 groups whose number depends on the price"),
        ({"slices": 2, "dependence_ratio": 1.2}, "gradual", "3 pieces of a gradual pattern"),
        ({"dependence_ratio": 1.2}, "gradual", "3 pieces of a gradual pattern"),
        ({"overlap": 0.7, "dependence_ratio": 1.2}, "parts", "3 groups that change when rows are left out"),
        ({"agreement": [0.5, 0.9], "overlap": 0.7}, "seed", "3 groups that move with the seed"),
        ({"agreement": [0.7, 0.9], "overlap": 0.8}, "clear", "3 clear groups"),
        ({"null_savings": [612.0], "agreement": [0.5]}, "none", "3 groups without structure"),
        ({"null_savings": [500.0]}, "none", "3 groups without structure"),
        ({"null_savings": [480.0]}, "clear", "3 clear groups"),
        ({"saving": -1.0, "null_savings": [-9.0]}, "none", "3 groups without structure"),
        ({"saving": None}, "clear", "3 clear groups"),
        ({"fewer": (2, 9.0)}, "more", "3 groups, more than the 2 that would be found"),
        ({"fewer": (2, 9.0), "saving": -1.0, "null_savings": [-2.0]}, "more", None),
        ({"fewer": (2, 9.0), "saving": -2.0, "null_savings": [-2.0]}, "none", None),
        ({"fewer": (1, 9.0), "saving": -1.0, "null_savings": [-9.0]}, "none", None),
        ({"fewer": (2, 9.0), "dependence_ratio": 1.2}, "gradual", "3 pieces of a gradual pattern"),
        ({"n_clusters": 1}, "one", "1 group"),
        ({"scattered": (2, 0.1)}, "outliers", "one group with outliers"),
        ({"scattered": (1, 0.1)}, "clear", "2 clear groups and 1 cluster of possible outliers"),
        ({"scattered": (1, 0.1), "clear": 0.5}, "soft", None),
        ({"scattered": (2, 0.1), "dependence_ratio": 1.2}, "gradual", "3 pieces of a gradual pattern"),
        ({"saving": 4.0, "nearly": 5.0}, "weak", "3 weakly supported groups"),
        ({"saving": 4.0, "nearly": 5.0, "n_sampled": 100}, "clear", "3 clear groups"),
        ({"saving": 4.0, "nearly": 5.0, "fewer": (2, 9.0)}, "more", None),
        ({"column": ("a", 0.9)}, "column", "3 groups by the values of one column"),
        ({"column": ("a", 0.9), "dependence_ratio": 1.2}, "gradual", "3 pieces of a gradual pattern"),
    ],
)
def test_the_first_kind_that_holds(changes, kind, groups):
    found = replace(CLEAR, **changes)
    assert found.kind == kind
    assert groups in (None, found.groups)


def test_sentences():
    placed = "97 % of the rows are placed with at least 90 % probability"
    assert CLEAR.sentence == (
        f"Clear groups: they save 612 nats over one cluster, with permuted columns 0; {placed}."
    )
    several = replace(CLEAR, null_savings=[0.0, 3.0], n_sampled=16384, agreement=[1.0], overlap=0.9)
    assert several.sentence == (
        "Clear groups: in a sample of 16,384 rows they save 612 nats over one cluster, in 2 tables with "
        f"permuted columns 0 to 3.0; {placed}; 1 other fit agrees with them by 1.00 (adjusted Rand index); "
        "refits on 80 % of the rows overlap with them by 90 %."
    )
    assert replace(CLEAR, saving=-5.0, null_savings=[-7.0, -6.0], clear=None).sentence == (
        "No structure: 3 groups cost 5.0 nats more than one cluster, in 2 tables with permuted columns 6.0 "
        "to 7.0."
    )
    assert replace(CLEAR, fewer=(2, 9.0)).sentence == (
        "More groups than the 2 that would be found: they save 612 nats over one cluster, with permuted "
        f"columns 0; 2 groups save 9.0 nats more; {placed}."
    )
    assert (
        "links between columns save 1.2 times as much as groups"
        in replace(CLEAR, dependence_ratio=1.2).sentence
    )
    outliers = "one of them holds 95 % of the rows, and the others may be outliers"
    assert outliers in replace(CLEAR, largest=0.95).sentence
    assert "outliers" not in replace(CLEAR, largest=0.94).sentence
    factor = replace(CLEAR, dependence_ratio=1.2, links=40.0, factor=41.0)
    assert "one continuous factor behind the columns saves 1.2 times as much as groups" in factor.sentence
    assert (
        "links between columns save 40.0 nats"
        in replace(CLEAR, dependence_ratio=math.inf, links=40.0, saving=0.0).sentence
    )


def test_clusters_that_are_the_values_of_one_column():
    rng = np.random.default_rng(0)
    group = rng.choice(3, 3000, p=[0.5, 0.3, 0.2])
    job = np.where(rng.random(3000) < 0.5, group, rng.integers(0, 3, 3000))
    table = pd.DataFrame(rng.normal(size=(3000, 4)), columns=list("wxyz"))
    table["w"] += 1.5 * (group == 1)
    table["x"] += 1.5 * (group == 2)
    table["job"] = pd.Series(job).map({0: "a", 1: "b", 2: "c"})
    model = CRAFT(random_state=0, price_factor=1).fit(table)
    assert adjusted_rand_score(job, model.labels_) == 1.0
    found = model._structure()
    assert found.column[0] == "job"
    assert found.column[1] > 0.5
    assert "the values of 'job' alone tell them apart" in found.facts
    blobs = CRAFT(random_state=0).fit(make_blobs(300, 2, random_state=1)[0])  # far apart in every number
    assert blobs.n_clusters_ == 3
    assert blobs._structure().column is None


def test_a_frequent_value_that_makes_the_clusters():
    """Three groups that differ in the shares of zeros of four numbers."""
    rng = np.random.default_rng(2)
    zeros = np.array([[0.9, 0.3, 0.5, 0.5], [0.2, 0.9, 0.5, 0.1], [0.3, 0.2, 0.05, 0.8]])
    group = rng.choice(3, 800, p=(0.5, 0.3, 0.2))
    X = np.where(rng.random((800, 4)) < zeros[group], 0.0, rng.gamma(2, 50, (800, 4)).round(2))
    model = CRAFT(random_state=0).fit(pd.DataFrame(X, columns=list("abcd")))
    assert adjusted_rand_score(X[:, 1] == 0.0, model.labels_) == 1.0
    assert model._structure().column[0] == "b"


def test_rows_far_from_each_other_are_said_to_be_outliers():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(400, 6)), 8.0 * rng.normal(size=(5, 6))])
    X[200:400, :4] += 3.0
    model = CRAFT(random_state=0).fit(X)
    assert model.cluster_sizes_.min() <= 5
    found = model._structure()
    assert found.scattered[0] == 1
    assert "the rows of one of them (1 % of all) lie far apart, or one number" in found.facts
    small = np.concatenate([X[:400], rng.normal(size=(12, 6)) - 6.0])  # a small group of similar rows
    model = CRAFT(random_state=0).fit(small)
    assert model.n_clusters_ == 3
    assert model._structure().scattered is None


@pytest.mark.parametrize(
    "error", [lambda cells, rng: 10.0 * cells, lambda cells, rng: rng.normal(0, 20, cells.shape)]
)
def test_groups_are_counted_without_clusters_of_gross_errors(error):
    """Half a percent of the cells of three groups are wrong."""
    right = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 3, 800)
        X = np.column_stack([4.0 * rng.permutation(3)[group] + rng.normal(size=800) for _ in range(6)])
        X = np.where(rng.random(X.shape) < 0.005, error(X, rng), X)
        model = CRAFT(random_state=0).fit(pd.DataFrame(X.round(2)))
        assert model.n_clusters_ > 3
        right += model._structure().groups.startswith("3 clear groups and ")
    assert right >= 3


def test_a_small_group_that_differs_in_two_numbers_is_no_outlier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 6))
    X[450:, :4] += 4.0
    X[:30, :2] += 4.0
    model = CRAFT(random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert model._structure().scattered is None
    assert model._structure().groups == "3 clear groups"


def test_tails_of_groups_are_said_to_be_outliers():
    """The rows of three groups have a common scale, as in a multivariate t distribution of 3 degrees."""
    rng = np.random.default_rng(1)
    group, centres = rng.integers(0, 3, 900), 4.0 * rng.normal(size=(3, 4))
    scale = np.sqrt(rng.chisquare(3, 900) / 3.0)
    model = CRAFT(random_state=0).fit(centres[group] + rng.normal(size=(900, 4)) / scale[:, None])
    n, share = model._structure().scattered
    assert n == model.n_clusters_ - 3
    assert 0.02 <= share <= 0.2


@pytest.mark.parametrize("seed", [0, 1])
def test_a_wide_group_is_no_tail(seed):
    rng = np.random.default_rng(100 + seed)
    group = rng.choice(3, 900, p=[0.45, 0.45, 0.1])
    centres, deviation = 3.0 * rng.normal(size=(3, 5)), np.array([1.0, 1.0, 3.0])
    model = CRAFT(random_state=0).fit(centres[group] + rng.normal(size=(900, 5)) * deviation[group][:, None])
    assert model.n_clusters_ == 3
    assert model._structure().scattered is None


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("second", [2.0, np.nan])
def test_numbers_that_do_not_vary_scatter_no_rows(second):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 300)
    table = pd.DataFrame({f"c{j}": np.where(rng.random(300) < 0.9, group, 1 - group) for j in range(6)})
    table = table.astype(str).assign(a=1.0, b=second)
    table.loc[0, "b"] = 2.0
    model = CRAFT(random_state=0).fit(table)
    assert model.n_clusters_ == 2
    assert model._structure().scattered is None


def test_sentences_about_one_cluster():
    one = Structure(1, saving=0.0, null_savings=[0.0], clear=1.0)
    assert one.sentence == "No clusters found."
    assert replace(one, asked=True).sentence == ""
    assert replace(one, one_and_two=(4711.0, 4728.5)).sentence == (
        "No clusters found: one cluster costs 4,711 nats, the best partition into two 17.5 more."
    )
    assert "two 1.0 less." in replace(one, one_and_two=(20.0, 19.0)).sentence
    linked = replace(one, links=3790.0, dependence_ratio=math.inf)
    words = "columns depend on each other, and links between them save 3,790 nats."
    assert linked.sentence == f"No clusters found: {words}"
    assert replace(linked, asked=True).sentence == f"One cluster: {words}"


@given(
    st.builds(
        Structure,
        st.integers(1, 5),
        saving=st.none() | st.floats(-1e4, 1e4),
        null_savings=st.lists(st.floats(-1e4, 1e4), max_size=3),
        dependence_ratio=st.sampled_from([math.nan, 0.3, 1.0, 1.01, math.inf]),
        fewer=st.none() | st.just((1, 7.0)),
        slices=st.none() | st.integers(2, 4),
        clear=st.none() | st.floats(0.0, 1.0),
        agreement=st.lists(st.floats(-0.5, 1.0), max_size=3),
        overlap=st.none() | st.floats(0.0, 1.0),
    )
)
def test_a_sentence_does_not_contradict_itself(found):
    """Groups are called clear only if nothing in the sentence says otherwise."""
    said = found.sentence
    if said.startswith("Clear groups"):
        assert "links between columns" not in said
        assert "four times the price" not in said
        assert found.saving is None or found.saving > max([0.0, *found.null_savings])
        assert found.clear >= 0.9
        assert not found.agreement or np.mean(found.agreement) >= 0.75
    if "links between columns" in said:
        assert not said.startswith(("Clear", "Overlapping"))
    assert said.count(":") <= 1
    assert said == "" or (said[0].isupper() and said.endswith("."))


def test_seeds_that_disagree():
    assert Starts([2], [3], [10.0], []).disagreement == ""
    assert Starts([2, 0], [3, 3], [10.0, 11.0], [0.95]).disagreement == ""
    assert Starts([2, 0], [3, 4], [10.0, 22.5], [0.95]).disagreement == (
        "Seeds disagree: 1 other fit has 4 clusters, costs 12.5 nats more and agrees with this one, of seed "
        "2, by 0.95 (adjusted Rand index)."
    )
    assert Starts([2, 0, 1], [3, 3, 1], [10.0, 10.0, 510.0], [0.5, 0.0]).disagreement == (
        "Seeds disagree: 2 other fits have 1 to 3 clusters, cost 0 to 500 nats more and agree with this one, "
        "of seed 2, by 0.00 to 0.50 (adjusted Rand index)."
    )


# ---- from models ----


def test_a_model_alone(heart):
    table, model = heart
    found = structure_of(model)
    assert found.saving == model.merge_path_[-1].objective - model.objective_
    assert found.dependence_ratio == model.dependence_ratio_
    assert found.clear == pytest.approx((model.predict_proba(table).max(axis=1) >= 0.9).mean())
    assert found.largest == model.cluster_sizes_.max() / 270
    assert model.summary().attrs["structure"] == found.sentence
    assert found.kind == "gradual"
    assert structure_of(model.at(2)).clear == found.clear
    assert structure_of(model.at(1)).clear is None
    assert structure_of(model.at(1)).sentence.startswith("One cluster: columns depend on each other")
    assert structure_of(PaperCRAFT(3, random_state=0).fit(table)).sentence == ""


def test_groups_are_clear_and_a_cloud_is_gradual():
    made = make_mixed(800, 4, 6, 6, 2, random_state=0)
    model = CRAFT(categorical=made.categorical, random_state=0).fit(made.data)
    assert structure_of(model, model.null_test(made.data, 1)).kind == "clear"
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(1000, 1)) + 0.5 * rng.normal(size=(1000, 6))
    sliced = CRAFT(covariance="diagonal", random_state=0).fit(cloud)
    assert structure_of(sliced, sliced.null_test(cloud, 1)).kind == "gradual"


def test_more_groups_than_the_table_has():
    """Four blobs in three, four and many clusters; and columns in a random order."""
    X = make_blobs(240, 4, centers=4, random_state=0)[0]
    permuted = np.random.default_rng(0).permuted(X, axis=0)
    for n_clusters, kind, best in ((3, "clear", 3), (4, "clear", 4), (6, "more", 4), (60, "more", 4)):
        model = CRAFT(n_clusters, random_state=0, n_init=2).fit(X)
        found = structure_of(model, model.null_test(X, 1))
        assert (found.kind, found.n_clusters, found._best) == (kind, n_clusters, best)
        assert found.slices is None
        nothing = CRAFT(n_clusters, random_state=0, n_init=2).fit(permuted)
        assert structure_of(nothing, nothing.null_test(permuted, 1)).kind == "none"


def test_clusters_that_a_higher_price_merges(heart, tmp_path):
    """As the warning of the fit says."""
    table, warning = heart[0], ""
    for seed in range(9):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = CRAFT(random_state=seed, price_factor=0.1).fit(table)
        warning = next((said for each in caught if "would be left" in (said := str(each.message))), "")
        if warning:
            break
        assert structure_of(model).slices is None
    found = structure_of(model)
    assert f"; {found.slices} of them would be left at price_factor=0.4" in warning
    assert f"{found.slices} of them would be left at four times the price" in found.sentence
    save_model(model, tmp_path / "m")
    assert structure_of(load_model(tmp_path / "m")) == found
    assert structure_of(model.at(model.n_clusters_)).slices == found.slices
    assert structure_of(model.at(5)).slices is None
    assert structure_of(model.set_params(price_factor=1.0).fit(table)).slices is None


def test_facts_of_tests(heart):
    table, model = heart
    null, stability = model.null_test(table, 2), model.stability(table, 3, n_seeds=2)
    found = structure_of(model, null, stability, [0.25])
    assert found.null_savings == null.null_savings.tolist()
    assert found.agreement == [0.25, *stability.agreement.tolist()]
    shares = model.cluster_sizes_ / 270
    assert found.overlap == pytest.approx(float(shares @ stability.overlap.mean(axis=0)))
    overlap = np.array([[np.nan, 0.5], [np.nan, 0.7]])
    part = structure_of(model, None, Stability(overlap, np.array([1, 1]), np.empty(0)))
    assert part.overlap == pytest.approx(0.6)


def test_no_clusters_found_is_a_result():
    X = np.random.default_rng(0).normal(size=(200, 4))
    model = CRAFT(random_state=0).fit(X)
    null = model.null_test(X, 1)
    assert null.one_and_two == (model.objective_, CRAFT(2, random_state=0).fit(X).objective_)
    assert null.one_and_two[0] < null.one_and_two[1]
    assert repr(null).startswith("NullTest(no clusters found: one costs ")
    assert CRAFT(1).fit(X).null_test(X, 1).one_and_two is None
    same = np.ones((20, 2))
    assert CRAFT(random_state=0).fit(same).null_test(same, 1).one_and_two is None


def test_a_sample_is_compared_with_the_model():
    frame = mixed(20_000)
    model = CRAFT(random_state=0, n_init=2).fit(frame)
    null = model.null_test(frame, 1)
    sample = rows_to_test(model, frame, 0, None, None)[0]
    again = CRAFT(random_state=0, n_init=2).fit(sample)
    assert null.agreement == adjusted_rand_score(model.predict(sample), again.predict(sample))
    assert structure_of(model, null).agreement == [null.agreement]
    assert structure_of(model, null).n_sampled == 1 << 14
