"""The search of partitions with covariances against the reference implementation: passes, merges, the run of
both, the comparison of forms.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT, MixedTable
from craftc.craft.background import scored_total
from craftc.craft.rows import local
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import EncodedRows, forms
from craftc.craft.search.covariances import CovarianceSearch
from craftc.craft.search.forms import prior_of
from craftc.craft.search.starts import kmeans_starts, low_rank_scores
from craftc.table.levels import LevelEncoding
from tests.estimators.covariance_cases import NO_WEIGHT, config_of, problem_of, slanted
from tests.reference import covariance, pooled
from tests.reference import covariance_search as reference


def case(seed, n=50, K=4, weighted=False, missing=0.0):
    """A table, labels that cut its clusters into slices, and weights or none; of the numbers a share is
    missing.
    """
    q = seed % 2
    X, truth = slanted(seed, n=n, K=2 + seed % 2, p=2 + seed % 2, q=q, apart=2.0)
    slices = truth * 3 + np.searchsorted(np.quantile(X[:, 0], [0.35, 0.65]), X[:, 0])
    labels = np.unique(np.minimum(slices, K - 1), return_inverse=True)[1].astype(np.int32)
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 4, n) if weighted else NO_WEIGHT
    X[:, : X.shape[1] - q][rng.random((n, X.shape[1] - q)) < missing] = np.nan
    return X, q, labels, weight


def both(seed, tied, **shape):
    """The search of the package and of the reference with the state of the same labels."""
    X, q, labels, weight = case(seed, **shape)
    config, columns = config_of(X, q, weight, "auto", tied)
    t = problem_of(X, q, weight if len(weight) else None)
    prior = prior_of(config.rows, config.background, columns, 1)
    np.testing.assert_allclose(prior, covariance.prior(t, covariance.block_columns(t)), rtol=1e-7, atol=1e-9)
    search = CovarianceSearch(config, columns, prior)
    other = reference.Search(t, tied=tied)
    return search, search.begin(labels, None), other, other.state(labels)


def assert_same(search, state, expected):
    np.testing.assert_array_equal(search.labels_of(state), expected.labels)
    assert state.objective == pytest.approx(expected.J, rel=1e-9)
    p = state.clusters.moments.grid.p
    np.testing.assert_array_equal(state.clusters.mask[:, p:].astype(bool), expected.mask)


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_scores_follow_from_counts_of_levels(seed):
    """Missing cells, an empty column, weights, and rows of weight 0, whose scores are outside the range of
    the others.
    """
    rng, n = np.random.default_rng(seed), 300
    X = np.column_stack(
        [rng.normal(size=(n, 2)) ** 3, rng.normal(size=(n, 2)).round(), rng.integers(0, 3, n)]
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:2, :4] = 50.0
    weights = rng.integers(0, 4, n) * (0.5 if seed % 4 == 2 else 1.0) if seed % 2 == 0 else None
    if weights is not None:
        weights[:2] = 0.0
    table = MixedTable.from_data(X, categorical=[4])

    def encode(rows, weights):
        return LevelEncoding.of_tallies(rows.schema, rows.tallies(weights, 1))

    encoded = EncodedRows.of_table(table, weights, 1, encode)
    encoding, unit, rows = encoded.encoding.with_scores(), encoded.background.count_weight, encoded.rows
    total = rows.moments(rows.grid(), unit, rows.one_cluster(), 1, 1)
    found, rows = scored_total(encoding, total), rows.scored(encoding)
    expected = rows.moments(rows.grid(), unit, rows.one_cluster(), 1, 1)
    assert found.unit == expected.unit
    np.testing.assert_array_equal(found.groups, expected.groups)
    np.testing.assert_array_equal(found.grid.centre, expected.grid.centre)
    np.testing.assert_array_equal(found.grid.scale, expected.grid.scale)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_changes_of_j_by_merges(seed, tied, weighted, missing):
    search, state, other, expected = both(seed, tied, weighted=weighted, missing=missing)
    assert_same(search, state, expected)
    above = np.triu_indices(state.K, 1)
    np.testing.assert_allclose(
        search.pair_deltas(state)[above], other.pair_deltas(expected)[above], rtol=1e-7, atol=1e-6
    )
    ranks = search.tied_deltas(state)[above]
    np.testing.assert_allclose(ranks, other.ranked_tied_deltas(expected)[above], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(ranks, other.tied_deltas(expected)[above], rtol=0.01, atol=0.03)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_merge_and_its_passes(seed, tied, missing):
    """Down to one cluster, J of every state is that of its rows."""
    search, state, other, expected = both(seed, tied, missing=missing)
    while state.K > 1:
        assert_same(search, state, expected)
        after = search.passes(state)
        expected_after = other.passes(expected)
        assert_same(search, after, expected_after)
        assert after.converged == expected_after.converged
        i, j = reference.best_pair(other.pair_deltas(expected) + other.tied_deltas(expected))
        state, expected = search.merge(state, i, j), other.merge(expected, i, j)


@pytest.mark.slow_except(8)
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_run_of_passes_and_merges(seed, tied, far, missing):
    search, state, other, expected = both(seed, tied, missing=missing)
    assert_same(search, search.run(state, 1, far=far), other.run(expected, far=far))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_soft_length(seed, tied):
    search, state, other, expected = both(seed, tied, weighted=seed == 1, missing=0.15 * (seed == 2))
    found = forms.soft_objective(search.config, state.clusters, search.labels_of(state))
    assert found == pytest.approx(covariance.soft_length(other.t, expected), rel=1e-9)
    assert found <= state.objective + 1e-9


@pytest.mark.slow_except(4)
@pytest.mark.parametrize("form", ["auto", "full", "tied"])
@pytest.mark.parametrize("target", [None, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_the_comparison_of_forms(seed, target, form):
    X, q, labels, _ = case(seed)
    config, columns = config_of(X, q, covariance=form)
    t = problem_of(X, q)
    p, K = config.background.grid.p, labels.max() + 1
    masks = pooled.best_masks(t, reference.Search(t).state(labels).stats)[1]
    bits = np.hstack([np.zeros((K, p), np.uint8), masks.astype(np.uint8)])
    scores = low_rank_scores(config) if seed else np.empty((len(X), 0))

    def seeds(n_clusters):
        return kmeans_starts(config, scores, n_clusters)

    expected = reference.best_form(t, [(labels, masks)], seeds, target, covariances=form)
    prior = prior_of(config.rows, config.background, columns, 1)
    found = forms.best_form(config, columns, prior, [(labels, bits)], seeds, target)
    assert (found is None) == (expected is None)
    if found is not None:
        search, state, softer = found
        assert search.config.spec.tied == expected[0]
        # two starts may end in one partition, numbered in two ways, whose J differs by rounding
        assert state.objective == pytest.approx(expected[1].J, rel=1e-9)
        assert adjusted_rand_score(search.labels_of(state), expected[1].labels) == 1.0
        if form == "auto":
            diagonal = reference.of_masks(t, labels, masks)
            saved = [now.J - reference.length(t, now, target) for now in (expected[1], diagonal)]
            assert softer == pytest.approx(saved[0] - saved[1], abs=1e-5)


def starts_of(config, n_clusters):
    return kmeans_starts(config, low_rank_scores(config), n_clusters)


def scores_by_hand(config, weight):
    """Principal components of the first statistics of numbers and the indicators of categories."""
    tilts, background, parts = config.background.tilts, config.background, []
    for d, start in enumerate(background.grid.level_start):
        codes, T = config.table.codes[:, d].astype(int), int(background.level_widths[d]) - 1
        if tilts.tilted[d]:
            parts.append(np.append(tilts.statistics[0, start : start + T], 0.0)[codes][:, None])
        else:
            member = (codes[:, None] == np.arange(T)).astype(float)
            share = weight @ member / weight.sum()
            parts.append(((member - share) / np.sqrt(share * (T - 1)))[:, share > 0])
    X = np.hstack(parts)
    X = (X - weight @ X / weight.sum()) * np.sqrt(weight / weight.sum())[:, None]
    return np.linalg.svd(X, full_matrices=False)[1] ** 2


@pytest.mark.parametrize("q", [0, 1])
def test_low_rank_scores_hold_four_fifths_of_the_variance(q):
    X, _ = slanted(1, n=200, K=3, p=5, q=q)
    weight = np.random.default_rng(0).integers(0, 3, 200)
    config, _ = config_of(X, q, weight)
    scores, variances = low_rank_scores(config), scores_by_hand(config, weight.astype(float))
    r = max(2, 1 + int(np.argmax(np.cumsum(variances) >= 0.8 * variances.sum())))
    assert scores.shape == (200, r)
    found = (weight @ (scores * scores)) / weight.sum()
    np.testing.assert_allclose(found, variances[:r], rtol=1e-8)
    np.testing.assert_allclose(weight @ scores, 0.0, atol=1e-9 * np.abs(scores).max() * 200)


@pytest.mark.parametrize("K", [2, 5])
def test_starts_by_kmeans_are_fixed_points(K):
    """Every row is nearest to the mean of its cluster, in the scores and in scores of variance 1."""
    X, _ = slanted(2, n=300, K=3, p=4, q=1)
    config, _ = config_of(X, 1)
    scores = low_rank_scores(config)
    starts = kmeans_starts(config, scores, K)
    assert len(starts) == 2
    for labels, each in zip(starts, (scores, scores / scores.std(axis=0)), strict=True):
        assert {*labels.tolist()} == {*range(labels.max() + 1)}
        assert labels.max() < K
        means = np.array([each[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
        distance = ((each[:, None] - means) ** 2).sum(axis=2)
        moves = np.count_nonzero(distance.argmin(axis=1) != labels)
        assert moves <= 0.03 * len(labels)  # at most 20 passes


@pytest.mark.parametrize("seed", range(3))
def test_starts_by_kmeans_count_weights(seed):
    """A row of weight 2 is two rows, one of weight 0 is none."""
    X, _ = slanted(seed, n=200, K=3, p=4, q=1)
    weight = np.random.default_rng(seed).integers(0, 3, 200)
    rows = np.repeat(np.arange(200), weight)
    weighted = starts_of(config_of(X, 1, weight)[0], 4)
    repeated = starts_of(config_of(X[rows], 1)[0], 4)
    for one, other in zip(weighted, repeated, strict=True):
        assert adjusted_rand_score(one[rows], other) == 1.0


def test_starts_by_kmeans_of_few_or_constant_columns():
    assert starts_of(config_of(np.zeros((20, 2)))[0], 3) == []
    assert starts_of(config_of(np.arange(3.0)[:, None])[0], 1) == []
    one = starts_of(config_of(np.arange(40.0)[:, None])[0], 3)
    assert all(labels.max() == 2 for labels in one)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_that_follow_moved_rows_are_those_of_all_rows(monkeypatch, weighted):
    X, _ = slanted(3, n=600, K=4, p=4, q=2)
    weight = np.random.default_rng(0).integers(0, 3, len(X)) if weighted else None
    whole = CRAFT(random_state=0).fit(X, sample_weight=weight)
    followed, after = [], LocalRows.sums_after

    def counting(self, before, place, labels, *sums):
        followed.append(4 * np.count_nonzero(place[before] != labels) < len(labels))
        return after(self, before, place, labels, *sums)

    monkeypatch.setattr(local, "_MANY", 0)
    monkeypatch.setattr(LocalRows, "sums_after", counting)
    moved = CRAFT(random_state=0).fit(X, sample_weight=weight)
    assert any(followed)
    assert moved.objective_ == whole.objective_
    np.testing.assert_array_equal(moved.objective_path_, whole.objective_path_)
    np.testing.assert_array_equal(moved.labels_, whole.labels_)


def test_a_range_is_that_of_the_clusters_with_covariances():
    """Eight long clouds, which the diagonal form cuts into more pieces than the range has."""
    rng = np.random.default_rng(0)
    cloud, along = rng.integers(0, 8, 4000), rng.normal(size=(8, 4))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    X = 9.0 * rng.normal(size=(8, 4))[cloud] + 8.0 * rng.normal(size=(4000, 1)) * along[cloud]
    X += 0.3 * rng.normal(size=X.shape)
    options = {"random_state": 0, "n_init": 2, "price_factor": 1}
    assert CRAFT(covariance="diagonal", **options).fit(X).n_clusters_ > 22
    free, bounded = CRAFT(**options).fit(X), CRAFT((2, 22), **options).fit(X)
    assert free.n_clusters_ < 22
    np.testing.assert_array_equal(bounded.labels_, free.labels_)
    assert bounded.objective_ == free.objective_


def test_many_groups_of_few_rows_in_many_columns():
    """Ten groups of ten rows are more than the clusters with which k-means starts."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(10), 10)
    X = 2.0 * rng.normal(size=(10, 30))[group] + rng.normal(size=(100, 30))
    model = CRAFT(random_state=0).fit(X)
    assert adjusted_rand_score(group, model.labels_) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_extend_in_their_own_directions(seed):
    """One factor in eight columns or more is cheaper than all correlations of a cluster."""
    rng = np.random.default_rng(seed)
    group = np.arange(400) % 2
    sign = rng.choice([-1.0, 1.0], (2, 10))[group]
    X = 2.2 * rng.normal(size=(2, 10))[group] + sign * (
        rng.normal(size=(400, 1)) + 0.8 * rng.normal(size=(400, 10))
    )
    model = CRAFT(random_state=0).fit(X)
    assert adjusted_rand_score(group, model.labels_) > 0.95
