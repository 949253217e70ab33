"""Covariances of CRAFT: what they find, what they leave alone, and that everything a fitted model says agrees
with them.
"""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import craftc
from craftc import CRAFT, MixedTable, load_model, save_model
from craftc._common import threads as parallel
from craftc.craft import products
from craftc.craft.clusters import Clusters
from craftc.craft.search import covariances as covariance_search
from craftc.craft.search import forms
from tests.app.model_members import arrays_of, write_arrays
from tests.common import examples, random_table
from tests.estimators.covariance_cases import clusters_of, encoding_of, slanted, table_of


def fit(X, **parameters):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "CRAFT found|Columns .* near-duplicates", UserWarning)
        return CRAFT(random_state=0, **{"n_init": 4, **parameters}).fit(X)


def scores_of(X):
    """Scores u (n, p) of a table of numbers, the variances v (p,) inside their levels, and the excess and the
    shares (n, p) of the levels of the cells.
    """
    encoding = encoding_of(table_of(X))
    encoded = encoding.apply(table_of(X))
    places = list(zip(encoded.codes.T, encoding.numbers, strict=True))
    v = np.array([levels.axis.variance for _, levels in places])
    e = np.stack([levels.axis.excess[codes] for codes, levels in places], axis=1)
    share = np.stack([levels.shares[codes] for codes, levels in places], axis=1)
    return encoded.numeric.astype(float), v, e, share


def tied_clusters(seed, n=900, K=3, p=5, noise=1):
    """(X, truth): K clusters of one covariance, apart where it is narrow."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    A = np.ones((p, 1)) + 0.2 * rng.normal(size=(p, 1))
    X = 2.0 * rng.normal(size=(n, 1)) @ A.T + 0.6 * rng.normal(size=(n, p))
    X += (2.0 * rng.normal(size=(K, p)))[truth]
    return np.hstack([X, rng.normal(size=(n, noise))]), truth


def same_partition(a, b):
    return adjusted_rand_score(a, b) == 1.0


# ---- what they find ----


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("p", [8, 10])
@pytest.mark.parametrize("K", [2, 5])
def test_clusters_with_covariances_are_found_whole(p, K):
    """Clusters that overlap in every column, so that their normal scores stay nearly normal."""
    X, truth = slanted(K + 1, n=1200, K=K, p=p, q=0, noise=2, apart=1.5)
    diagonal, found = fit(X, covariance="diagonal"), fit(X)
    assert diagonal.n_clusters_ > K
    assert adjusted_rand_score(truth, diagonal.labels_) < 0.8
    assert found.n_clusters_ == K
    assert adjusted_rand_score(truth, found.labels_) > 0.95
    assert found.objective_ < diagonal.objective_
    assert all(
        set(range(p)) <= {*one.columns.tolist(), *range(p, p + 2)} and len(one.columns) >= p - 1
        for one in found.covariances_
    )


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_one_slanted_cloud_is_one_cluster(rho):
    rng = np.random.default_rng(4)
    X = np.sqrt(rho) * rng.normal(size=(800, 1)) + np.sqrt(1 - rho) * rng.normal(size=(800, 10))
    assert fit(X, covariance="diagonal").n_clusters_ > 1
    found = fit(X)
    assert found.n_clusters_ == 1
    correlation = found.covariances_[0].matrix / found.covariances_[0].matrix[0, 0]
    assert np.median(correlation[np.triu_indices(10, 1)]) == pytest.approx(rho, abs=0.1)


@pytest.mark.parametrize("p", [2, 6])
def test_round_clusters_stay(p):
    """A covariance of two round clusters together may be shorter than two covariances, but not than the two
    without any.
    """
    rng = np.random.default_rng([5, p])
    truth = rng.choice(4, 600)
    X = rng.normal(0, 5, (4, p))[truth] + rng.normal(size=(600, p))
    diagonal, found = fit(X, covariance="diagonal"), fit(X)
    assert found.n_clusters_ == diagonal.n_clusters_ == 4
    assert adjusted_rand_score(truth, found.labels_) > 0.93


def test_eight_round_clusters_stay():
    rng = np.random.default_rng([5, 6, 8, 0])
    truth = rng.choice(8, 600)
    X = rng.normal(0, 2, (8, 6))[truth] + rng.normal(size=(600, 6))
    found = fit(X)
    assert found.n_clusters_ == 8
    assert adjusted_rand_score(truth, found.labels_) > 0.85


def test_without_dependence_nothing_changes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) + 6 * rng.integers(0, 3, 400)[:, None] * [1, -1, 1]
    a, b = fit(X), fit(X, covariance="diagonal")
    if all(one is None for one in a.covariances_):
        np.testing.assert_array_equal(a.objective_path_, b.objective_path_)
    np.testing.assert_array_equal(a.labels_, b.labels_)


@pytest.mark.slow
def test_a_given_number_of_clusters():
    X, truth = slanted(3, n=900, K=3, p=5, q=0, apart=3.0)
    for k in (1, 2, 3, 4, 6):
        with warnings.catch_warnings():
            if k > 3:
                warnings.filterwarnings("ignore", ".* more than the columns tell apart", ConvergenceWarning)
            model = fit(X, n_clusters=k)
        assert model.n_clusters_ == k
        assert model.merge_path_[0].n_clusters == k
    assert adjusted_rand_score(truth, fit(X, n_clusters=3).labels_) > 0.95


def test_full_gives_every_cluster_a_covariance():
    X, _ = slanted(1, n=400, K=2, p=3, q=1)
    model = fit(X, covariance="full", categorical=[4])
    for one in model.covariances_:
        assert one.columns.tolist() == [0, 1, 2, 3]
    assert model.feature_mask_[:, :4].all()


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_the_matrix_is_that_of_the_scores(covariance):
    """With one row of prior: the correlations of the whole table, shrunk by a twentieth, and its variances;
    where clusters share a covariance, the variances inside them, as much nearer to those of the table.
    """
    X, _ = slanted(2, n=500, K=2, p=4, q=0)
    model = fit(X, covariance=covariance, n_clusters=2)
    u, v, _, _ = scores_of(X)

    def scatter(rows):
        return (u[rows] - u[rows].mean(axis=0)).T @ (u[rows] - u[rows].mean(axis=0)) + len(rows) * np.diag(v)

    prior = 0.95 * scatter(np.arange(500)) / 500
    np.fill_diagonal(prior, np.diag(prior) / 0.95)
    groups = [np.flatnonzero(model.labels_ == k) for k in range(2)]
    assert all(one is not None for one in model.covariances_)
    for k, (columns, matrix) in enumerate(model.covariances_):
        own = groups if covariance == "tied" else groups[k : k + 1]
        total, N = sum(map(scatter, own)), sum(map(len, own))
        inside = np.diag(total) / N / np.diag(prior)
        sd = np.sqrt(0.95 * inside + 0.05) if covariance == "tied" else np.ones(len(prior))
        some = np.ix_(columns, columns)
        expected = (total + prior * np.outer(sd, sd))[some] / (N + 1)
        np.testing.assert_allclose(matrix, expected, rtol=1e-8, atol=1e-10)


def test_columns_of_the_input_are_named():
    """Categories first and a column in parts: positions are those of the input."""
    X, _ = slanted(3, n=600, K=1, p=3, q=0, noise=0)
    rng = np.random.default_rng(0)
    paid = np.where(rng.random(600) < 0.4, 0.0, np.exp(rng.normal(size=600)))
    frame = pd.DataFrame(
        {"kind": pd.Categorical(np.arange(600) % 3), "a": X[:, 0], "paid": paid, "b": X[:, 1], "c": X[:, 2]}
    )
    (one,) = fit(frame).covariances_
    assert [frame.columns[d] for d in one.columns] == [
        "a",
        "b",
        "c",
    ]  # of "paid" only the cells above 0 are numbers


@pytest.mark.slow_except(1)
@pytest.mark.parametrize(("K", "seed"), [(2, 2), (3, 11)])
def test_clusters_of_one_shape_share_a_covariance(K, seed):
    """The form is found, and clusters that differ in place alone are neither sliced nor joined."""
    X, truth = tied_clusters(seed, K=K)
    assert adjusted_rand_score(truth, fit(X, covariance="diagonal").labels_) < 0.9
    for found in (fit(X), fit(X, covariance="tied")):
        assert found.n_clusters_ == K
        assert adjusted_rand_score(truth, found.labels_) > 0.95
        first = found.covariances_[0]
        for one in found.covariances_:
            np.testing.assert_array_equal(one.columns, first.columns)
            np.testing.assert_array_equal(one.matrix, first.matrix)
    assert fit(X).objective_ <= fit(X, covariance="full").objective_


@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
@pytest.mark.parametrize("seed", range(3))
def test_one_slanted_cloud_stays_one_in_every_form(seed, covariance):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 1)) + 0.7 * rng.normal(size=(400, 5))
    assert fit(X, covariance=covariance).n_clusters_ == 1


@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
def test_two_slanted_clusters_with_a_valley_stay_two(covariance):
    """Two parallel clouds, apart across their slant."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 1)) + 0.3 * rng.normal(size=(600, 4))
    X += 1.5 * np.outer(truth, [1.0, -1.0, 1.0, -1.0])
    found = fit(X, covariance=covariance)
    assert found.n_clusters_ == 2
    assert adjusted_rand_score(truth, found.labels_) > 0.95


# ---- one model ----


@pytest.fixture(scope="module", params=["auto", "full", "tied"])
def model_and_rows(request):
    X, _ = slanted(7, n=700, K=3, p=5, q=2, apart=2.0)
    model = fit(X, categorical=[6, 7], covariance=request.param)
    assert model.n_clusters_ > 1
    assert any(one is not None for one in model.covariances_)
    return model, X


def test_predict_and_transform_agree(model_and_rows):
    model, X = model_and_rows
    costs = model.transform(X)
    np.testing.assert_array_equal(model.predict(X), costs.argmin(axis=1))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.score(X) == pytest.approx(-costs.min(axis=1).sum())
    two = np.sort(costs, axis=1)
    np.testing.assert_allclose(model.margins(X), two[:, 1] - two[:, 0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.margins_, two[:, 1] - two[:, 0], rtol=1e-4, atol=1e-4)


def test_costs_of_rows_are_densities():
    """Costs of one cluster, less the label: the shares of the levels times the ratio of two normal densities
    of the scores, as SciPy has them, in the mean over the levels.
    """
    X, _ = slanted(5, n=500, K=1, p=3, q=0, noise=0)
    model = fit(X, n_clusters=1)
    (one,) = model.covariances_
    assert one.columns.tolist() == [0, 1, 2]
    u, v, e, share = scores_of(X)
    mean, table = u.mean(axis=0), np.diag(u.var(axis=0) + v)
    e = e - np.clip(e.mean(axis=0), 0.0, 13.0 / len(X))  # what a sample of N(0, 1) has by chance
    ratio = multivariate_normal(mean, one.matrix).logpdf(u) - multivariate_normal(mean, table).logpdf(u)
    inside = 0.5 * v @ np.diag(np.linalg.inv(one.matrix) - np.linalg.inv(table))
    expected = -np.log(share).sum(axis=1) - ratio + inside + e.sum(axis=1)
    np.testing.assert_allclose(model.transform(X)[:, 0], expected, rtol=1e-8, atol=1e-8)


def test_contributions_sum_to_the_margin(model_and_rows):
    model, X = model_and_rows
    rows = X.copy()
    rows[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    for given_rows in (X, rows):
        parts = model.explain(given_rows)
        np.testing.assert_allclose(
            parts.drop(columns=["cluster", "next"]).sum(axis=1),
            model.margins(given_rows),
            rtol=1e-9,
            atol=1e-9,
        )
    missing = np.isnan(rows)
    names = [name for name in parts.columns if name not in ("cluster", "next", "size")]
    assert (parts[names].to_numpy()[missing] == 0.0).all()


@pytest.mark.filterwarnings("ignore:Column .* has no value in any of these rows")
def test_contributions_are_conditional():
    """The first column of a block counts as in its marginal, but for the variance inside its levels, which
    counts given all other columns of the row.
    """
    X, _ = slanted(6, n=600, K=2, p=3, q=0, noise=0, apart=1.5)
    model = fit(X, covariance="full", n_clusters=2)
    assert all(one is not None and len(one.columns) == 3 for one in model.covariances_)
    only_first = X.copy()
    only_first[:, 1:] = np.nan
    sign = np.where(model.explain(X)["cluster"] == model.explain(only_first)["cluster"], 1.0, -1.0)
    first = next(iter(model.explain(X).columns[3:]))
    held = model._fitted.clusters.covariances
    inside = held.inside[0]
    more = [0.5 * (np.linalg.inv(matrix)[0, 0] - 1.0 / matrix[0, 0]) for matrix in held.matrix]
    labels = model.explain(X)["cluster"].to_numpy()
    own, other = (np.array(more)[each] * inside for each in (labels, 1 - labels))
    np.testing.assert_allclose(
        model.explain(X)[first], sign * model.explain(only_first)[first] + other - own, rtol=1e-9, atol=1e-9
    )


def test_paths_and_merges_are_consistent(model_and_rows):
    model, _ = model_and_rows
    assert model.objective_path_[-1] == model.objective_
    assert (np.diff(model.objective_path_) <= 1e-9).all()
    assert model.merge_path_[0].objective == model.objective_
    np.testing.assert_array_equal(model.merge_path_[0].labels, model.labels_)
    assert model.merge_path_[-1].n_clusters == 1
    np.testing.assert_array_equal(model.cut(model.n_clusters_), model.labels_)
    for one, mask in zip(model.covariances_, model.feature_mask_, strict=True):
        assert one is None or mask[one.columns].all()


def test_a_file_and_a_pickle_give_the_same_bits(model_and_rows, tmp_path):
    model, X = model_and_rows
    save_model(model, tmp_path / "m.craftc")
    for again in (load_model(tmp_path / "m.craftc"), pickle.loads(pickle.dumps(model))):
        assert again.objective_ == model.objective_
        np.testing.assert_array_equal(again.transform(X), model.transform(X))
        for one, other in zip(again.covariances_, model.covariances_, strict=True):
            np.testing.assert_array_equal(one.columns, other.columns)
            np.testing.assert_array_equal(one.matrix, other.matrix)


def changed(path, arrays):
    """The file with some members replaced or (None) removed, and the checksum of the new content."""
    content = {**arrays_of(path), **arrays}
    write_arrays(path, {name: array for name, array in content.items() if array is not None})
    return path


@pytest.mark.parametrize(
    "damage",
    [
        lambda columns, sums: {"_fitted.cross.columns": columns[::-1]},
        lambda columns, sums: {"_fitted.cross.columns": columns + 10},
        lambda columns, sums: {"_fitted.cross.columns": columns[:1], "_fitted.cross.sums": sums[:, :2]},
        lambda columns, sums: {"_fitted.cross.columns": None},
        lambda columns, sums: {"_fitted.cross.sums": sums[:-1]},
        lambda columns, sums: {"_fitted.cross.sums": sums[:, :-2]},
        lambda columns, sums: {"_fitted.cross.sums": sums + 1},
        lambda columns, sums: {"_fitted.cross.sums": sums.astype(np.float64)},
    ],
)
def test_damaged_sums_are_refused(model_and_rows, tmp_path, damage):
    model, _ = model_and_rows
    save_model(model, tmp_path / "m.craftc")
    held = model._fitted.clusters.covariances.cross
    with pytest.raises(ValueError, match="damaged"):
        load_model(changed(tmp_path / "m.craftc", damage(held.columns.astype(np.int64), held.sums)))


def bits_of(column, rows, bit):
    """Change one bit of one column in some rows of a mask."""

    def damage(mask):
        mask = mask.copy()
        mask[rows, column] ^= bit
        return mask

    return damage


@pytest.mark.parametrize("member", ["_fitted.mask", "_fitted.along.masks"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda mask: mask | 4,
        lambda mask: mask[:, ::-1].copy(),
        lambda mask: mask.astype(np.int64),
        bits_of(-1, slice(None), 2),  # a category in a block
        bits_of(0, slice(None), 1),  # scores are not selected, their levels are
        bits_of(0, slice(None), 2),
    ],
)
def test_damaged_masks_are_refused(model_and_rows, tmp_path, damage, member):
    model, _ = model_and_rows
    save_model(model, tmp_path / "m.craftc")
    mask = arrays_of(tmp_path / "m.craftc")[member]
    if mask.ndim == 1:  # all steps of the path, one after another
        width = model._fitted.mask.shape[1]
        damaged = damage(mask.reshape(-1, width)).reshape(-1)
    else:
        damaged = damage(mask)
    with pytest.raises(ValueError, match="damaged"):
        load_model(changed(tmp_path / "m.craftc", {member: damaged}))


def test_a_shared_covariance_has_one_block(tmp_path):
    """A file in which one of two clusters lacks a column of the block that they share."""
    X, _ = slanted(1, n=300, K=2, p=4, q=0)
    model = fit(X, covariance="tied", n_clusters=2)
    save_model(model, tmp_path / "m.craftc")
    mask = arrays_of(tmp_path / "m.craftc")["_fitted.mask"]
    held = np.flatnonzero(mask[0] & 2)
    assert len(held) > 1
    for rows in ([1], [0]):
        with pytest.raises(ValueError, match="damaged"):
            load_model(changed(tmp_path / "m.craftc", {"_fitted.mask": bits_of(held[0], rows, 2)(mask)}))


def test_a_block_has_two_columns(tmp_path):
    X, _ = slanted(1, n=300, K=2, p=2, q=0, noise=0)
    model = fit(X, covariance="full", n_clusters=2)
    save_model(model, tmp_path / "m.craftc")
    mask = arrays_of(tmp_path / "m.craftc")["_fitted.mask"]
    held = np.flatnonzero(mask[0] & 2)
    with pytest.raises(ValueError, match="damaged"):
        load_model(changed(tmp_path / "m.craftc", {"_fitted.mask": bits_of(held[0], [0], 2)(mask)}))


def test_the_c_function_refuses_covariances(model_and_rows):
    with pytest.raises(ValueError, match="covariance='diagonal'"):
        craftc.embed.CraftCosts(model_and_rows[0])


# ---- guarantees of all forms ----


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_a_covariance_never_lengthens_the_description(seed, tied):
    """J of a partition is at most that of its clusters without covariances."""
    rng = np.random.default_rng(seed)
    n, K, p, q = rng.integers(30, 150), rng.integers(1, 5), rng.integers(2, 7), rng.integers(0, 3)
    X, truth = slanted(seed, n=n, K=K, p=p, q=q, noise=rng.integers(0, 4), apart=rng.choice([0.3, 1.0, 2.5]))
    labels = np.unique(truth if rng.random() < 0.6 else rng.integers(0, K, n), return_inverse=True)[1]
    found = clusters_of(table_of(X, q), labels, tied=tied)
    without = Clusters(found.moments, found.background, replace(found.spec, tied=False))
    assert found.objective <= without.objective + 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_one_cluster_is_the_same_in_both_forms(seed):
    """A covariance of its own and one that is shared differ only in the code of the mask, which names none of
    the features besides a shared covariance.
    """
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.normal(size=(200, 1)) + 0.5 * rng.normal(size=(200, 4)), rng.normal(size=(200, seed))])
    labels = np.zeros(200, int)
    own, tied = (clusters_of(table_of(X), labels, tied=tied) for tied in (False, True))
    np.testing.assert_array_equal(own.covariances.block, tied.covariances.block)
    np.testing.assert_array_equal(own.mask, tied.mask)
    p, held = own.moments.grid.p, own.covariances.block[0].astype(bool)
    assert own.mask[0, p:][own.covariances.levels[held] - p].all()
    rest = np.count_nonzero(own.usable) - np.count_nonzero(held)
    assert tied.objective - np.log(rest + 1.0) == pytest.approx(own.objective, rel=1e-12)
    rows = encoding_of(table_of(X)).apply(table_of(X))
    np.testing.assert_allclose(own.row_costs(rows), tied.row_costs(rows), rtol=1e-9, atol=1e-9)


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
@pytest.mark.parametrize("seed", range(2))
def test_a_given_number_is_never_above_the_merge_path(seed, covariance):
    """J at a given number of clusters is at most that of the automatic fit merged down to it."""
    X, _ = slanted(seed, n=400, K=4, p=4, q=0, apart=[1.0, 2.0][seed % 2])
    automatic = fit(X, covariance=covariance, n_init=2)
    for step in automatic.merge_path_[1:]:
        if step.n_clusters > 1:
            given = fit(X, covariance=covariance, n_init=2, n_clusters=step.n_clusters)
            assert given.n_clusters_ == step.n_clusters
            assert given.objective_ <= step.objective + 1e-6


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
@pytest.mark.parametrize("seed", range(2))
def test_a_fit_is_the_best_of_its_merge_path_and_of_its_rows(seed, covariance):
    """No step is below it; where it has converged, every row is in its cheapest cluster."""
    X, _ = slanted(seed, n=500, K=3, p=3 + seed, q=1, apart=[0.7, 2.0][seed % 2])
    for n_clusters in (None, 2, 5):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = CRAFT(
                n_clusters, random_state=0, n_init=2, covariance=covariance, categorical=[X.shape[1] - 1]
            ).fit(X)
        if n_clusters is None:
            assert all(step.objective >= model.objective_ - 1e-6 for step in model.merge_path_)
        same = (model.predict(X) == model.labels_).all()
        assert same or not model.converged_
        assert model.converged_ != any(isinstance(one.message, ConvergenceWarning) for one in said)
        np.testing.assert_array_equal(model.transform(X).argmin(axis=1), model.predict(X))


# ---- any table ----


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    missing=st.sampled_from([0.0, 0.1]),
    dtype=st.sampled_from([np.float64, np.float32]),
    covariance=st.sampled_from(["auto", "full", "tied"]),
    constant=st.booleans(),
)
def test_the_objective_never_rises(seed, missing, dtype, covariance, constant):
    table = random_table(seed, p=seed % 6, missing=missing, dtype=dtype, constant=constant)
    model = CRAFT(covariance=covariance, n_init=2, random_state=seed).fit(table)
    path = model.objective_path_
    assert np.isfinite(path).all()
    if covariance == "auto":
        assert (np.diff(path) <= 1e-9 * np.maximum(1.0, np.abs(path[:-1]))).all()
    assert path[-1] == pytest.approx(model.objective_, rel=1e-12, abs=1e-9)
    assert np.isfinite(model.transform(table)).all()


@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
@pytest.mark.parametrize("seed", range(3))
def test_every_pass_and_merge_lowers_j(seed, covariance, monkeypatch):
    X, _ = slanted(seed, n=400, K=3, p=4, q=1, apart=1.0)
    seen = []
    passes = covariance_search.CovarianceSearch.passes
    merges = covariance_search.CovarianceSearch.shortest_merges

    def watched_passes(self, state, fewest=1):
        new = passes(self, state, fewest)
        assert new.objective <= state.objective
        return new

    def watched_merges(self, state, fewest=1):
        new, first = merges(self, state, fewest)
        assert new.objective <= state.objective
        assert (new is state) == (new.K == state.K)
        assert first is None or first.K == state.K - 1
        seen.append(new.K)
        return new, first

    monkeypatch.setattr(covariance_search.CovarianceSearch, "passes", watched_passes)
    monkeypatch.setattr(covariance_search.CovarianceSearch, "shortest_merges", watched_merges)
    model = fit(X, categorical=[5], n_init=2, covariance=covariance)
    assert seen
    assert all(step.objective >= model.objective_ - 1e-6 for step in model.merge_path_)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
@pytest.mark.parametrize("seed", range(2))
def test_the_same_bits_on_any_number_of_threads(monkeypatch, seed, covariance):
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    monkeypatch.setattr(forms, "_ROWS", 1000 if seed else 1 << 12)
    X, _ = slanted(seed, n=1500, K=3, p=4, q=1)
    weight = np.random.default_rng(seed).integers(1, 4, 1500).astype(float) if seed % 2 else None
    one, two, three = (
        CRAFT(n_init=2, random_state=0, categorical=[5], n_threads=n, covariance=covariance).fit(
            X, sample_weight=weight
        )
        for n in (1, 2, 3)
    )
    assert any(cov is not None for cov in one.covariances_)
    for other in (two, three):
        np.testing.assert_array_equal(one.labels_, other.labels_)
        np.testing.assert_array_equal(one.objective_path_, other.objective_path_)
        np.testing.assert_array_equal(one.transform(X), other.transform(X))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_rows_and_columns_does_not_matter(seed, tied):
    X, _ = slanted(seed, n=300, K=2, p=4, q=0)
    labels = np.random.default_rng(seed).integers(0, 2, 300)
    labels[:2] = 0, 1
    order, columns = np.random.default_rng(seed).permutation(300), np.array([2, 4, 0, 1, 3])
    a = clusters_of(table_of(X), labels, tied=tied)
    b = clusters_of(table_of(X[order]), labels[order], tied=tied)
    c = clusters_of(table_of(np.ascontiguousarray(X[:, columns])), labels, tied=tied)
    assert a.objective == b.objective
    assert a.objective == pytest.approx(c.objective, rel=1e-12)
    np.testing.assert_array_equal(a.covariances.block[:, columns], c.covariances.block)
    rows = encoding_of(table_of(X)).apply(table_of(X))
    np.testing.assert_array_equal(a.row_costs(rows)[order], b.row_costs(rows.take(order)))


@pytest.mark.parametrize("tied", [False, True])
def test_weight_two_is_the_row_twice(tied):
    X, _ = slanted(3, n=300, K=2, p=3, q=0)
    weight = np.random.default_rng(0).integers(0, 3, 300)
    labels = (X[:, 0] > 0).astype(np.int32)
    a = clusters_of(table_of(X), labels, weight=weight, tied=tied)
    b = clusters_of(table_of(np.repeat(X, weight, axis=0)), np.repeat(labels, weight), tied=tied)
    assert a.objective == pytest.approx(b.objective, rel=1e-12)  # the grids differ by rows of weight 0
    a = clusters_of(table_of(X), labels, weight=np.full(300, 2), tied=tied)
    b = clusters_of(table_of(np.repeat(X, 2, axis=0)), np.repeat(labels, 2), tied=tied)
    assert a.objective == b.objective
    np.testing.assert_array_equal(a.covariances.matrix, b.covariances.matrix)


@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
def test_weights_are_repeated_rows(covariance):
    """Whole fits from a start partition, bit for bit."""
    X, truth = slanted(5, n=300, K=3, p=4, q=0)
    weight = np.random.default_rng(0).integers(1, 4, 300)
    rows = np.repeat(np.arange(300), weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        weighted = CRAFT(covariance=covariance, init=[truth], n_init=1, random_state=0).fit(
            X, sample_weight=weight
        )
        repeated = CRAFT(covariance=covariance, init=[truth[rows]], n_init=1, random_state=0).fit(X[rows])
    assert weighted.objective_ == repeated.objective_
    np.testing.assert_array_equal(weighted.labels_[rows], repeated.labels_)


@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
def test_rows_without_weight_get_a_cluster(covariance):
    X, _ = slanted(4, n=400, K=2, p=4, q=0)
    weight = np.ones(400)
    weight[:50] = 0.0
    X[:25] += 50.0  # far from every row of weight > 0
    model = CRAFT(random_state=0, n_init=2, covariance=covariance).fit(X, sample_weight=weight)
    assert (model.labels_ >= 0).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    start = (X[:, 1] > 0).astype(int)
    own = {"random_state": 0, "n_init": 1, "covariance": covariance}
    without = CRAFT(init=[start[50:]], **own).fit(X[50:])
    with_them = CRAFT(init=[start], **own).fit(X, sample_weight=weight)
    assert with_them.objective_ == pytest.approx(without.objective_, rel=1e-12)
    assert any(one is not None for one in with_them.covariances_)


@pytest.mark.parametrize("covariance", ["auto", "tied"])
def test_bits_of_a_table_with_missing_cells(covariance):
    """Threads, weights as repeated rows, a copy that is not contiguous and cannot be written to."""
    X, truth = tied_clusters(3, n=400, K=3, p=5)
    X[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    rows, own = np.repeat(np.arange(400), 2), {"random_state": 0, "n_init": 1, "covariance": covariance}
    model = CRAFT(init=[truth], n_threads=1, **own).fit(X)
    weighted = CRAFT(init=[truth], n_threads=3, **own).fit(X, sample_weight=np.full(400, 2.0))
    twice = CRAFT(init=[truth[rows]], n_threads=3, **own).fit(X[rows])
    np.testing.assert_array_equal(weighted.labels_, twice.labels_[::2])
    assert weighted.objective_ == twice.objective_
    frozen = np.asfortranarray(X)
    frozen.flags.writeable = False
    again = CRAFT(init=[truth], n_threads=3, **own).fit(frozen)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.objective_ == model.objective_
    held = [one for one in model.covariances_ if one is not None]
    assert held
    for one, other in zip(held, [one for one in again.covariances_ if one is not None], strict=True):
        np.testing.assert_array_equal(one.matrix, other.matrix)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("K", [1, 3])
def test_equal_columns_add_no_clusters(K, copies):
    rng = np.random.default_rng(1)
    truth, far = rng.integers(0, K, 800), 3.0 * rng.normal(size=(K, 5))
    X = rng.normal(size=(800, 5)) + (far[truth] if K > 1 else 0.0)
    model = fit(np.column_stack([X, *[X[:, 0]] * copies]))
    assert model.n_clusters_ == K
    assert adjusted_rand_score(truth, model.labels_) > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_that_others_determine(dtype):
    """A copy of a column leaves the variance inside the levels, so that a covariance may hold both."""
    X, _ = slanted(2, n=500, K=2, p=4, q=0, noise=0, apart=4.0)
    Y = np.column_stack([X, X[:, 0], X[:, 1] - 2 * X[:, 2], np.full(500, 7.0)]).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # near-duplicate columns
        model = fit(Y)
    assert np.isfinite(model.objective_path_).all()
    assert np.isfinite(model.transform(Y)).all()
    assert any(one is not None for one in model.covariances_)
    for one in model.covariances_:
        if one is not None:
            assert 6 not in one.columns  # a constant
            deviation = np.sqrt(np.diag(one.matrix))
            assert np.linalg.cond(one.matrix / np.outer(deviation, deviation)) < 1e6


def test_more_columns_than_a_covariance_holds(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)) + 0.5 * rng.normal(size=(200, 65))
    with pytest.warns(UserWarning, match="at most 64"):
        model = CRAFT(n_init=2, random_state=0, covariance="full").fit(X)
    assert all(one is None for one in model.covariances_)
    monkeypatch.setattr(products, "MOST_COLUMNS", 64)
    model = CRAFT(n_init=2, random_state=0).fit(X)
    assert all(one is None for one in model.covariances_)
    assert "65 numeric columns" in model.summary().attrs["notes"][0]
    X[0, 3] = np.nan  # 64 complete columns
    model = CRAFT(n_init=2, random_state=0).fit(X)
    assert len(model.covariances_[0].columns) == 64


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((1, 3)),
        np.arange(2.0)[:, None],
        np.full((30, 2), 3.0),
        np.arange(60.0).reshape(30, 2),
        np.repeat(np.eye(3), 20, axis=0),
    ],
)
@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
def test_degenerate_tables(X, covariance):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CRAFT(covariance=covariance, random_state=0, n_init=2).fit(X)
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.transform(X)).all()


def test_views_and_read_only_input():
    X, _ = slanted(1, n=300, K=2, p=4, q=0)
    wide = np.empty((600, 10))
    wide[::2, ::2] = X
    view = wide[::2, ::2]
    X.flags.writeable = False
    np.testing.assert_array_equal(fit(X).labels_, fit(view).labels_)
    np.testing.assert_array_equal(fit(X).labels_, fit(np.asfortranarray(X)).labels_)


def test_one_category_and_far_cells():
    X, _ = slanted(1, n=300, K=2, p=3, q=0)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=pd.Categorical(["only"] * 300))
    model = fit(frame)
    far = frame.copy()
    far.iloc[0, :3] = 1e300
    assert np.isfinite(model.transform(far)).all()
    np.testing.assert_array_equal(model.transform(far)[1:], model.transform(frame)[1:])


@pytest.mark.parametrize("share", [0.02, 0.1, 0.25])
@pytest.mark.parametrize("K", [1, 3])
def test_correlated_columns_with_missing_cells(K, share):
    """Clusters and covariances are those of the complete table; new rows are assigned as the rows of fit."""
    rng = np.random.default_rng(0)
    p, truth = 6, rng.integers(0, K, 600)
    far = rng.normal(size=(K, p))
    far *= 5.0 / np.linalg.norm(far, axis=1, keepdims=True)
    common = np.sqrt(0.6) * rng.normal(size=(600, 1))
    X = common + np.sqrt(0.4) * rng.normal(size=(600, p)) + (far[truth] if K > 1 else 0.0)
    complete = fit(X)
    X[rng.random(X.shape) < share] = np.nan
    model = fit(X)
    assert model.n_clusters_ == complete.n_clusters_ == K
    assert adjusted_rand_score(truth, model.labels_) > 0.9
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    if K > 1:
        for one, other in zip(model.covariances_, complete.covariances_, strict=True):
            np.testing.assert_array_equal(one.columns, other.columns)
            np.testing.assert_allclose(one.matrix, other.matrix, atol=0.25)


@pytest.mark.parametrize(("p", "n_factors"), [(40, 1), (40, 3), (80, 6)])
@pytest.mark.parametrize("K", [1, 3])
def test_factors_behind_many_columns_are_no_clusters(K, p, n_factors):
    """Few rows of 40 columns do not pay for 780 covariances."""
    rng, n = np.random.default_rng(0), 250
    truth, far = rng.integers(0, K, n), rng.normal(size=(K, p))
    far *= 7.0 / np.linalg.norm(far, axis=1, keepdims=True)
    loadings = (0.8 if n_factors <= 3 else 0.3) * rng.normal(size=(n_factors, p))
    X = rng.normal(size=(n, n_factors)) @ loadings + 0.6 * rng.normal(size=(n, p))
    X += far[truth] if K > 1 else 0.0
    X[rng.random(X.shape) < 0.03] = np.nan
    model = fit(X)
    assert model.n_clusters_ == K
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    shared = np.array([one.matrix for one in model.covariances_])
    assert (shared == shared[0]).all()


def test_an_unknown_form():
    with pytest.raises(ValueError, match="covariance must be"):
        CRAFT(covariance="spherical").fit(np.zeros((12, 2)))


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("covariance", ["auto", "full", "tied"])
def test_forms_of_a_large_table_are_searched_in_a_sample(monkeypatch, covariance):
    monkeypatch.setattr(covariance_search, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(forms, "_ROWS", 400)
    X, truth = slanted(9, n=1500, K=2, p=10, q=0, apart=1.5)
    if covariance == "tied":
        X, truth = tied_clusters(9, n=1500, K=2, p=6)
    a, b = fit(X, covariance=covariance), fit(X, covariance=covariance)
    assert adjusted_rand_score(truth, a.labels_) > 0.95
    np.testing.assert_array_equal(a.labels_, b.labels_)


def test_a_missing_cell_outside_the_sample(monkeypatch):
    monkeypatch.setattr(covariance_search, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(forms, "_ROWS", 400)
    X, truth = slanted(9, n=1500, K=2, p=10, q=0, apart=1.5)
    complete = fit(X)
    for row in range(5):
        Y = X.copy()
        Y[row, 2] = np.nan
        model = fit(Y)
        assert adjusted_rand_score(truth, model.labels_) > 0.95
        assert model.objective_ == pytest.approx(complete.objective_, abs=60.0)


def test_a_mixed_table_object():
    X, _ = slanted(1, n=200, K=2, p=3, q=1)
    table = MixedTable.from_data(X, categorical=[4])
    assert same_partition(fit(table).labels_, fit(X, categorical=[4]).labels_)


@pytest.mark.parametrize("seed", range(5))
def test_few_rows_of_clusters_that_differ_in_means_only(seed):
    """A factor between two groups that are merged costs less than a third cluster with variances of its own,
    and more than one with means of its own.
    """
    rng, y = np.random.default_rng(seed), np.arange(30) % 3
    X = rng.normal(size=(30, 200))
    X[:, :40] += 1.5 * rng.normal(size=(3, 40))[y]
    model = CRAFT(random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    held = model.covariances_[0]
    np.testing.assert_array_equal(held.matrix, np.diag(np.diag(held.matrix)))


@pytest.mark.parametrize(("n", "p"), [(60, 10), (300, 5), (100, 40)])
def test_one_normal_cloud_of_correlated_columns_is_one_cluster(n, p):
    for seed in range(8):
        rng = np.random.default_rng(1000 * seed + n)
        X = 0.7 * rng.normal(size=(n, 1)) + rng.normal(size=(n, p))
        assert CRAFT(random_state=0, n_init=1).fit(X).n_clusters_ == 1


def test_a_normal_sample_has_the_excess_of_chance():
    rng, found = np.random.default_rng(0), []
    for n in (60, 100, 300, 1000):
        X = rng.normal(size=(n, 100))
        _, _, e, _ = scores_of(X)
        found.append(e.sum(axis=0).mean())
    assert 10.0 < min(found) < 13.0 < max(found) < 15.0


def test_groups_behind_common_factors():
    """Three groups that differ a little in many columns, with five factors inside them: principal components
    hold the noise of single columns, too.
    """
    rng = np.random.default_rng(3)
    groups = np.arange(100) % 3
    X = rng.normal(size=(100, 5)) @ (rng.normal(size=(5, 70)) * (rng.random((5, 70)) < 0.4))
    X += rng.normal(size=X.shape) * rng.gamma(2.0, 0.5, 70)
    X += (rng.normal(size=(3, 70)) * 2.0 * (rng.random((3, 70)) < 0.2))[groups]
    model = CRAFT(random_state=0).fit(X)
    assert adjusted_rand_score(groups, model.labels_) > 0.95
    assert all(len(each.columns) > 12 for each in model.covariances_)


def test_groups_in_few_rows_of_many_columns():
    """Independent columns, in which as many factors as rows would describe the groups, too."""
    rng = np.random.default_rng(3)
    groups = np.arange(40) % 2
    X = rng.normal(size=(40, 300))
    X[:, :60] += rng.normal(0, 1.5, (2, 60))[groups]
    model = CRAFT(random_state=0).fit(X)
    assert adjusted_rand_score(groups, model.labels_) == 1.0
    assert CRAFT(random_state=0).fit(X[:, 60:]).n_clusters_ == 1


@pytest.mark.parametrize(("n", "p", "K"), [(40, 40, 2), (60, 60, 3), (60, 100, 3), (45, 200, 3)])
def test_groups_far_apart_in_more_columns_than_rows(n, p, K):
    """One common factor through their centres has as many parameters as their means."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        groups = np.arange(n) % K
        X = rng.normal(size=(n, p)) + 5.0 * rng.normal(size=(K, p))[groups]
        assert adjusted_rand_score(groups, CRAFT(random_state=0, n_init=2).fit(X).labels_) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_frequent_value_of_every_column_is_one_cluster(seed):
    """The density of a cluster at its only level, which is wide, is more than the share of the level."""
    rng = np.random.default_rng(seed)
    X, none = rng.lognormal(3.0, 1.0, (1500, 8)).round(2), rng.random(1500) < 0.25
    X[none] = 0.0
    model = CRAFT(random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_ == model.labels_[none.argmax()], none)
    assert model.n_clusters_ == 2


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_a_warning_where_clusters_without_covariances_are_shorter(covariance):
    """Two humps of one of four independent columns make clusters of normal densities."""
    rng = np.random.default_rng(0)
    humps = np.where(rng.random(600) < 0.3, rng.normal(5, 0.6, 600), rng.normal(size=600))
    X = np.column_stack([humps, rng.normal(size=(600, 2)), rng.uniform(size=600)])
    assert CRAFT(random_state=0).fit(X).n_clusters_ == 1
    with pytest.warns(UserWarning, match="nats more than clusters without covariances do"):
        CRAFT(covariance=covariance, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CRAFT(2, covariance=covariance, random_state=0).fit(X)
