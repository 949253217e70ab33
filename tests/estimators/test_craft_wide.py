"""CRAFT on tables of hundreds of columns, where candidate splits are screened."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT
from craftc.craft.search import splits
from craftc.craft.search.splits import distinct_divisions, gains_of_all, net_gains


def wide_table(seed, n=100, n_columns=400, n_own=20, categorical=False):
    """Three clusters that differ in a few of many columns."""
    rng = np.random.default_rng(seed)
    target = rng.integers(3, size=n)
    means = np.zeros((3, n_columns))
    means[:, :n_own] = 1.5 * rng.normal(size=(3, n_own))
    X = rng.normal(size=(n, n_columns)) + means[target]
    return (np.digitize(X, [-0.7, 0.7]).astype(float) if categorical else X), target


@pytest.mark.parametrize("weighted", [False, True])
def test_screening_is_half_of_chi_squared_less_the_price(weighted):
    rng = np.random.default_rng(0)
    m, p, widths = 60, 3, np.array([2, 3, 4])
    weight = rng.integers(1, 4, m) if weighted else np.ones(m, np.int64)
    z = np.rint(rng.normal(size=(m, p)) * 256) / 256  # representable in the grid of the screening
    codes = np.stack([rng.integers(T, size=m) for T in widths], axis=1).astype(np.uint8)
    leaving = (rng.random((m, 5)) < 0.4).astype(np.uint8)
    leaving[:, 4] = 1  # divides nothing
    price = np.full(p + len(widths), 0.25)
    times = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    scores = net_gains(z[:, :, None], codes, weight, widths + 1, leaving, price, times, 2.0 * weight.sum())
    rows = np.repeat(np.arange(m), weight)
    for c in range(4):
        side = leaving[rows, c]
        expected = 0.0
        for d in range(p):
            r2 = np.corrcoef(side, z[rows, d])[0, 1] ** 2
            expected += max(0.0, times[d] * len(rows) * r2 - 0.25)
        for d in range(len(widths)):
            table = np.zeros((2, widths[d]))
            np.add.at(table, (side, codes[rows, d]), 1)
            chi2 = chi2_contingency(table, correction=False).statistic
            expected += max(0.0, times[p + d] * chi2 - 0.25)
        assert scores[c] / 1024 == pytest.approx(expected, abs=(p + len(widths)) / 1024)
    assert scores[4] == 0


def test_missing_cells_of_a_categorical_column_count_nothing():
    codes = np.array([[0], [0], [1], [1], [2], [2]], np.uint8)  # 2: missing
    leaving = (codes == 2).astype(np.uint8)
    args = (
        np.empty((6, 0, 2)),
        codes,
        np.ones(6, np.int64),
        np.array([3]),
        leaving,
        np.zeros(1),
        np.ones(1),
        6.0,
    )
    present = np.array([[1], [1], [0], [0], [0], [0]], np.uint8)
    assert net_gains(*args)[0] < net_gains(*args[:4], present, *args[5:])[0]


@pytest.mark.parametrize("heavy", [1, 3, 1000])
def test_all_columns_together_by_products_of_rows(heavy):
    """The sum of chi-squared over all columns, up to one factor and the rounding of cells."""
    rng = np.random.default_rng(0)
    m, n_columns = 60, 500
    cells, weight = np.rint(rng.normal(size=(m, n_columns)) * 256), rng.integers(1, heavy + 1, m) * 1.0
    mean = weight @ cells / weight.sum()
    scale = 1.0 / np.sqrt(weight @ (cells - mean) ** 2 / weight.sum())
    leaving = (rng.random((m, 8)) < 0.4).astype(np.uint8)
    leaving[:, 7] = 1  # divides nothing
    found = gains_of_all(cells, weight, leaving, scale)
    assert found[7] == 0.0
    size = weight @ leaving[:, :7]
    sums = (leaving[:, :7].T * weight) @ ((cells - mean) * scale)
    expected = (sums**2).sum(axis=1) / (size * (weight.sum() - size))
    np.testing.assert_allclose(found[:7] / expected, found[0] / expected[0], rtol=0.02 if heavy < 9 else 0.2)


def test_few_of_many_candidates_are_compared_with_every_column(monkeypatch):
    rng = np.random.default_rng(3)
    X, target = wide_table(3, n=80, n_columns=300)
    own = (target == rng.integers(3)).astype(np.uint8)
    leaving = np.column_stack([(X[:, 20:] > 0).astype(np.uint8), own])
    z, price = np.rint(X * 256)[:, :, None] / 256, np.full(300, 6.0)
    args = z, np.empty((80, 0), np.uint8), np.ones(80, np.int64), np.empty(0, np.intp), leaving, price
    args = *args, np.ones(300), 80.0
    every = net_gains(*args)
    monkeypatch.setattr(splits, "_MOST_SCREENED", 16)
    some = net_gains(*args)
    compared = np.flatnonzero(some >= 0)
    assert len(compared) == 16
    np.testing.assert_array_equal(some[compared], every[compared])
    assert every.argmax() == some.argmax() == leaving.shape[1] - 1


def test_candidates_that_divide_the_rows_alike_count_once():
    leaving = np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 1, 1, 0, 1]], np.uint8)
    assert distinct_divisions(leaving).tolist() == [0, 2]
    assert distinct_divisions(np.repeat(leaving, 9, axis=1)).tolist() == [0, 18]


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("categorical", [False, True])
def test_screened_splits_find_what_all_splits_find(categorical, monkeypatch):
    X, target = wide_table(0, n_columns=300, categorical=categorical)
    columns = list(range(300)) if categorical else []
    screened = CRAFT(random_state=0, categorical=columns).fit(X)
    monkeypatch.setattr(splits, "_MOST_CANDIDATES", 10**9)
    full = CRAFT(random_state=0, categorical=columns).fit(X)
    assert screened.objective_ <= full.objective_ + 1e-6 * abs(full.objective_)
    assert adjusted_rand_score(target, screened.labels_) > 0.8


def test_bits_of_a_wide_fit_do_not_depend_on_threads():
    X, _ = wide_table(1, n_columns=300)
    fits = [CRAFT(random_state=0, n_threads=t).fit(X) for t in (1, 2, 3)]
    assert len({fit.objective_ for fit in fits}) == 1
    assert all((fit.labels_ == fits[0].labels_).all() for fit in fits)


@pytest.mark.slow
def test_weight_two_equals_a_repeated_row_in_a_wide_fit():
    X, target = wide_table(2, n=60)
    weighted = CRAFT(init=target).fit(X, sample_weight=np.full(60, 2))
    repeated = CRAFT(init=np.repeat(target, 2)).fit(np.repeat(X, 2, axis=0))
    assert weighted.objective_ == repeated.objective_
    assert (np.repeat(weighted.labels_, 2) == repeated.labels_).all()
