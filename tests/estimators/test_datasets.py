"""The tables that come with the package: contents, known clusters, refusals."""

import csv
import gzip
import os
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from craftc.datasets import load_heart, make_mixed, make_monks, make_subspaces, monk_rule
from craftc.metrics import contingency, purity
from tests.reference import craft

ROOT = Path(__file__).resolve().parents[2]
OWN_COLUMNS = {
    "2a": (8, 8, 8),
    "2c": (8, 8, 8),
    "3a": (12, 12, 13),
    "3c": (12, 12, 12),
    "4a": (9, 16, 8),
    "4c": (9, 16, 8),
}


def original(name):
    """Bytes of a table of the data collection, or a skip that says how to provide it."""
    folder = Path(os.environ.get("CRAFTC_DATA", ROOT.parent / "shared" / "data"))
    path = folder / name
    if not path.exists():
        pytest.skip(f"no {name} in {folder}; set CRAFTC_DATA to the folder of the data sets")
    return gzip.decompress(path.read_bytes())


# Heart ---------------------------------------------------------------------------------------


def test_heart_is_complete():
    heart = load_heart()
    assert heart.data.shape == (270, 13)
    assert heart.feature_names == list(heart.data.columns)
    assert heart.numeric_names == ["age", "rest_bp", "chol", "max_hr", "oldpeak", "ca"]
    assert set(heart.categorical_names) == set(heart.feature_names) - set(heart.numeric_names)
    assert (heart.data[heart.numeric_names].dtypes == np.float64).all()
    for name in heart.categorical_names:
        assert all(isinstance(level, str) for level in heart.data[name].cat.categories)
    assert not heart.data.isna().any().any()
    names, counts = np.unique(heart.target, return_counts=True)
    assert names.tolist() == heart.target_names == ["absent", "present"]
    assert counts.tolist() == [150, 120]
    assert "CC BY 4.0" in heart.DESCR
    assert "Statlog (Heart)" in heart.DESCR


def test_heart_without_pandas(monkeypatch):
    frame = load_heart().data
    monkeypatch.setitem(sys.modules, "pandas", None)
    data = load_heart().data
    assert list(data) == list(frame.columns)
    for name, column in data.items():
        np.testing.assert_array_equal(column, frame[name].to_numpy(dtype=column.dtype.type))


def test_heart_file_is_the_original():
    shipped = (resources.files("craftc") / "data" / "heart.csv").read_bytes()
    assert shipped == original("heart.csv.gz")


def test_heart_example_is_the_shipped_file():
    shipped = (resources.files("craftc") / "data" / "heart.csv").read_bytes()
    example = ROOT / "examples" / "heart.csv"
    if not example.exists():
        pytest.skip("the examples folder is not part of this installation")
    assert example.read_bytes() == shipped


# Subspaces -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", OWN_COLUMNS)
def test_subspaces_are_as_printed(layout):
    table = make_subspaces(layout, n_samples=600, random_state=0)
    numeric, D = layout in ("3a", "3c", "4c"), 36 if layout in ("3a", "3c") else 24
    assert table.data.shape == (600, D)
    assert table.categorical == ([] if numeric else list(range(D)))
    assert tuple(table.feature_mask.sum(axis=1)) == OWN_COLUMNS[layout]
    np.testing.assert_array_equal(table.data, table.numeric if numeric else table.codes)
    assert np.bincount(table.target).tolist() == ([280, 200, 120] if layout == "2c" else [200, 200, 200])
    for k, mask in enumerate(table.feature_mask):
        rows = table.data[table.target == k]
        own, other = rows[:, mask], rows[:, ~mask]
        if numeric:
            assert (own.mean(), own.std()) == pytest.approx(((1.0, 5.0, 10.0)[k], 1.0), abs=0.1)
            assert (other.mean(), other.std()) == pytest.approx((0.0, 3.0), abs=0.15)
        else:
            assert (own == 1).all()
            assert set(np.unique(other)) == {0, 1}
            assert other.mean() == pytest.approx(0.1, abs=0.02)


def descend(table, selection, model, **threshold):
    """CRAFT from the true clusters: purity, and the masks found in the order of the classes."""
    parameters = {
        "price": 60.0,
        "fraction": 1 / 3,
        "cap": 3,
        "selection": selection,
        "model": model,
        **threshold,
    }
    fitted = craft.fit(table.numeric, table.codes, table.n_levels, table.target, **parameters)
    matrix, _, _ = contingency(table.target, fitted.labels)
    assert fitted.n_clusters == 3
    return purity(table.target, fitted.labels), fitted.mask[matrix.argmax(axis=1)]


@pytest.mark.parametrize(
    ("layout", "model"), [("2a", "likelihood"), ("2a", "paper"), ("3c", "paper"), ("3c", "paper-fixed")]
)
@pytest.mark.parametrize("seed", range(3))
def test_fixed_budget_recovers_the_own_features(layout, model, seed):
    table = make_subspaces(layout, random_state=seed)
    agreement, mask = descend(table, "fixed", model)
    assert agreement >= 0.98
    np.testing.assert_array_equal(mask, table.feature_mask)


@pytest.mark.parametrize("model", ["likelihood", "paper"])
@pytest.mark.parametrize("seed", range(3))
def test_fixed_budget_nearly_recovers_a_shared_feature(model, seed):
    table = make_subspaces("2c", random_state=seed)
    agreement, mask = descend(table, "fixed", model)
    assert agreement >= 0.98
    np.testing.assert_array_equal(mask[:2], table.feature_mask[:2])
    assert (mask[2] & table.feature_mask[2]).sum() >= 7


@pytest.mark.parametrize(
    ("layout", "threshold"), [("4a", {}), ("4c", {"numeric_threshold": ("absolute", 4.0)})]
)
@pytest.mark.parametrize("model", ["likelihood", "paper"])
@pytest.mark.parametrize("seed", range(3))
def test_thresholds_recover_unequal_masks(layout, threshold, model, seed):
    table = make_subspaces(layout, random_state=seed)
    agreement, mask = descend(table, "threshold", model, **threshold)
    assert agreement >= 0.98
    np.testing.assert_array_equal(mask, table.feature_mask)


def test_the_budget_of_figure_3a_is_one_short():
    table = make_subspaces("3a", random_state=0)
    _, mask = descend(table, "fixed", "paper")
    assert not (mask & ~table.feature_mask).any()
    assert (table.feature_mask & ~mask).sum(axis=1).tolist() == [0, 0, 1]


def test_subspaces_with_other_noise_positions_and_sizes():
    own = [[0, 1], [1, 2], [5]]
    table = make_subspaces("2a", n_samples=900, own=own, elsewhere=0.3, proportions=[2, 2, 5], random_state=0)
    assert [np.flatnonzero(mask).tolist() for mask in table.feature_mask] == own
    assert np.bincount(table.target).tolist() == [200, 200, 500]
    assert table.data[~table.feature_mask[table.target]].mean() == pytest.approx(0.3, abs=0.02)
    wide = make_subspaces("3a", elsewhere=7.0, random_state=0)
    assert wide.data[~wide.feature_mask[wide.target]].std() == pytest.approx(7.0, rel=0.05)


# Mixed ---------------------------------------------------------------------------------------


def test_mixed_table_is_as_described():
    table = make_mixed(4000, 4, 5, 7, 6, shift=2.0, n_levels=3, random_state=1)
    p, q = table.numeric.shape[1], table.codes.shape[1]
    assert (p, q) == (5 + 2, 7 + 4)
    assert table.n_levels == [3] * q
    assert table.categorical == list(range(p, p + q))
    assert np.bincount(table.target).tolist() == [1000] * 4
    assert table.feature_mask.sum(axis=1).tolist() == [6] * 4
    irrelevant = np.r_[5:7, p + 7 : p + q]
    assert not table.feature_mask[:, irrelevant].any()
    chance = np.exp(2.0) / (np.exp(2.0) + 2)
    for k, mask in enumerate(table.feature_mask):
        rows = table.target == k
        means = np.abs(table.numeric[rows].mean(axis=0))
        np.testing.assert_allclose(means, 2.0 * mask[:p], atol=0.15)
        for d in range(q):
            largest = np.bincount(table.codes[rows, d], minlength=3).max() / rows.sum()
            assert largest == pytest.approx(chance if mask[p + d] else 1 / 3, abs=0.06)


def test_mixed_proportions_and_missing_cells():
    table = make_mixed(1000, 3, proportions=[5, 3, 2], missing=0.2, random_state=0)
    assert np.bincount(table.target).tolist() == [500, 300, 200]
    assert np.isnan(table.numeric).mean() == pytest.approx(0.2, abs=0.02)
    assert (table.codes == 4).mean() == pytest.approx(0.2, abs=0.02)
    p = table.numeric.shape[1]
    np.testing.assert_array_equal(np.isnan(table.data[:, p:]), table.codes == 4)


@pytest.mark.parametrize("block", [(6, 0), (0, 6)])
def test_mixed_table_of_one_kind(block):
    table = make_mixed(50, 2, *block, 3, n_own=2, random_state=0)
    assert table.numeric.shape[1] == block[0] * 3 // 2
    assert table.codes.shape[1] == block[1] * 3 // 2
    assert np.isfinite(table.data).all()


@pytest.mark.parametrize("maker", [make_subspaces, make_mixed])
def test_random_state_decides(maker):
    first, second, third = (maker(random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.data, second.data)
    np.testing.assert_array_equal(first.target, second.target)
    assert not np.array_equal(first.data, third.data)
    maker(random_state=np.random.RandomState(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_subspaces("9z"), r"layout must be one of 2a, .*; got '9z'"),
        (lambda: make_subspaces(n_samples=2), "n_samples=2 is too small for 3 clusters"),
        (lambda: make_subspaces(elsewhere=1.5), r"elsewhere must be a probability in .* '2a'; got 1.5"),
        (lambda: make_subspaces("3a", elsewhere=-1.0), "elsewhere must be a standard deviation >= 0"),
        (
            lambda: make_subspaces(own=[[0], [1]]),
            r"own must be 3 lists of columns from 0 to 23; got \[\[0\], \[1\]\]",
        ),
        (lambda: make_subspaces(own=[[0], [1], [24]]), "own must be 3 lists of columns from 0 to 23"),
        (lambda: make_subspaces(proportions=[1, 1, 0]), "proportions must be 3 positive numbers"),
        (lambda: make_mixed(2), "n_samples=2 is too small for 3 clusters"),
        (lambda: make_mixed(n_clusters=0), "n_clusters must be at least 1"),
        (lambda: make_mixed(n_numeric=0, n_categorical=0), "at least 1; got 0, 0 and 8"),
        (lambda: make_mixed(n_irrelevant=-1), "must not be negative"),
        (lambda: make_mixed(n_own=17), r"n_own must be between 0 and .* = 16; got 17"),
        (lambda: make_mixed(n_levels=1), "n_levels must be at least 2"),
        (lambda: make_mixed(shift=-1), "shift must not be negative"),
        (lambda: make_mixed(missing=1.0), "missing must be a probability below 1"),
        (lambda: make_mixed(proportions=[1, 2]), "proportions must be 3 positive numbers"),
        (lambda: make_mixed(10, proportions=[1, 1, 1000]), "is too small for 3 clusters"),
        (lambda: make_monks(4), "problem must be 1, 2 or 3; got 4"),
        (lambda: monk_rule([[1, 2, 3]], 1), r"shape \(n_samples, 6\), a1 to a6; got \(1, 3\)"),
        (
            lambda: monk_rule([[1, 1, 3, 1, 1, 1]], 1),
            "out of range: a1 to a6 start at 1 and have the maxima 3, 3, 2, 3, 4, 2; got 1 to 3",
        ),
        (lambda: monk_rule([["x"] * 6], 1), "must contain integers"),
    ],
)
def test_invalid_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# MONK's problems -----------------------------------------------------------------------------


@pytest.mark.parametrize(("problem", "positive"), [(1, 216), (2, 142), (3, 228)])
def test_monks_have_the_published_counts(problem, positive):
    monks = make_monks(problem)
    assert monks.data.shape == (432, 6)
    assert len(np.unique(monks.data, axis=0)) == 432
    assert monks.target.sum() == positive
    np.testing.assert_array_equal(monks.codes, monks.data - 1)
    assert monks.n_levels == (monks.codes.max(axis=0) + 1).tolist()


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("problem", [1, 2, 3])
def test_monk_rules_agree_with_the_files(problem, part):
    rows = list(csv.reader(original(f"monk{problem}_{part}.csv.gz").decode().splitlines()))
    table = np.array(rows[1:])
    wrong = (monk_rule(table[:, :6], problem) != table[:, 6].astype(int)).sum()
    assert wrong == (6 if (problem, part) == (3, "train") else 0)
    if part == "test":
        monks = make_monks(problem)
        np.testing.assert_array_equal(monks.data, table[:, :6].astype(int))
        np.testing.assert_array_equal(monks.target, table[:, 6].astype(int))
