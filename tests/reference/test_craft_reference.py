"""The reference implementation of CRAFT has the properties of the paper's objective and of the repaired one."""

from math import log

import numpy as np
import pytest

from tests.reference import craft

SELECTIONS = ("fixed", "free", "global", "threshold")
MODELS = ("likelihood", "paper", "paper-fixed")


def random_table(seed, *, n=None, p=None, q=None, missing=0.1):
    """A mixed table with some structure, holes, a start partition and a price."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 50)) if n is None else n
    p = int(rng.integers(0, 5)) if p is None else p
    q = int(rng.integers(0 if p else 1, 5)) if q is None else q
    K = int(rng.integers(1, 5))
    truth = rng.integers(K, size=n)
    n_levels = rng.integers(1, 5, size=q)
    numeric = rng.normal(size=(n, p)) + 3.0 * rng.normal(size=(K, p))[truth]
    codes = np.column_stack(
        [(truth + rng.integers(0, 2, size=n)) % T for T in n_levels] or [np.empty((n, 0), int)]
    )
    numeric[rng.random((n, p)) < missing] = np.nan
    codes = np.where(rng.random((n, q)) < missing, n_levels, codes)
    labels = rng.integers(int(rng.integers(1, 6)), size=n)
    options = {"price": float(rng.uniform(0.5, 15.0)), "fraction": float(rng.uniform(0.15, 1.0))}
    options["price"] += (p + q) * craft.price_terms(options["fraction"])[0]
    return (numeric, codes, n_levels.tolist(), labels), options


# The prior of the features -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "F0", "F_delta"),
    [(1 / 3, 0.0816, 0.0595), (0.5, 0.1021, 0.0), (0.8, 0.2117, -0.1401), (0.9, 0.3657, -0.2970)],
)
def test_price_terms_have_the_known_sizes(m, F0, F_delta):
    got_0, got_1, got_delta = craft.price_terms(m)
    assert got_0 == pytest.approx(F0, abs=5e-5)
    assert got_delta == pytest.approx(F_delta, abs=5e-5)
    assert got_1 - got_0 == pytest.approx(got_delta, abs=1e-12)


def test_price_terms_at_one_half_and_at_one():
    assert craft.price_terms(0.5)[2] == 0.0
    assert craft.price_terms(1.0) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("m", [0.02, 0.1, 0.3, 1 / 3, 0.45, 0.49])
def test_difference_of_prices_is_odd_around_one_half(m):
    assert craft.price_terms(m)[2] > 0.0
    assert craft.price_terms(1.0 - m)[2] == pytest.approx(-craft.price_terms(m)[2], abs=1e-11)


@pytest.mark.parametrize("m", [0.2, 1 / 3, 0.8])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.955])
def test_price_terms_equal_the_printed_beta_form(m, share):
    rho = share * m * (1 - m)
    s = m * (1 - m) / rho
    a = (m * (s - 1), m * (s - 1) + 1)
    b = ((1 - m) * s + m, (1 - m) * (s - 1))
    printed = [
        (av + bv) * log(av + bv) - av * log(av) - bv * log(bv) for av, bv in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(craft.price_terms(m, rho)[:2], printed, rtol=1e-9)


def test_sharing_towards_zero_leaves_the_logit():
    m = 0.3
    assert craft.price_terms(m, 1e-7)[2] == pytest.approx(log((1 - m) / m), abs=1e-4)


# The gain of a feature -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_gain_is_the_difference_of_costs(seed):
    """gain_kd = sum over the cluster of (l0 - own cost) minus the penalty of the parameters."""
    (numeric, codes, n_levels, labels), options = random_table(seed)
    fitted = craft.fit(numeric, codes, n_levels, labels, **options)
    back, rows = fitted.background, craft.as_rows(numeric, codes)
    for j, k in enumerate(fitted.clusters):
        members = [row for row, label in zip(rows, fitted.labels, strict=True) if label == j]
        for d in range(back.D):
            if not back.varies[d]:
                assert fitted.gains[j, d] == 0.0
                continue
            cells = [row[d] for row in members if not craft.is_missing(back, d, row[d])]
            before = sum(craft.background_cost(back, d, x) for x in cells)
            if d < back.p:
                zeta, variance = k.zeta[d], k.variance[d]
                own = sum(0.5 * log(variance) + (x - zeta) ** 2 / (2 * variance) for x in cells)
                ratio = back.variance[d] / variance
                penalty = 0.5 * (ratio - 1 - log(ratio))
            else:
                eta, eta_0 = k.eta[d - back.p], back.eta[d - back.p]
                own = -sum(log(eta[x]) for x in cells)
                penalty = craft.divergence(eta_0, eta)
            scale = max(1.0, abs(before), abs(own))
            assert abs(fitted.gains[j, d] - (before - own - penalty)) <= 1e-12 * scale


@pytest.mark.parametrize("seed", range(20))
def test_objective_is_the_sum_of_row_costs_and_prices(seed):
    (numeric, codes, n_levels, labels), options = random_table(seed)
    fitted = craft.fit(numeric, codes, n_levels, labels, selection="free", **options)
    back, D_delta = fitted.background, fitted.settings.F_delta
    J = craft.row_costs(numeric, codes, fitted)[np.arange(len(labels)), fitted.labels].sum()
    J += options["price"] * fitted.n_clusters + D_delta * fitted.mask.sum()
    for k in fitted.clusters:
        for d in range(back.D):
            if k.mask[d] and d < back.p:
                ratio = back.variance[d] / k.variance[d]
                J += 0.5 * (ratio - 1 - log(ratio))
            elif k.mask[d]:
                J += craft.divergence(back.eta[d - back.p], k.eta[d - back.p])
    assert fitted.objective == pytest.approx(J, rel=1e-11, abs=1e-9)


# The descent ---------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["fixed", "free", "global"])
@pytest.mark.parametrize("seed", range(100))
def test_objective_never_rises_and_the_walk_ends(seed, selection):
    (numeric, codes, n_levels, labels), options = random_table(seed)
    fitted = craft.fit(numeric, codes, n_levels, labels, selection=selection, **options)
    assert fitted.converged
    assert np.all(np.diff(fitted.path) <= 1e-8 * max(1.0, abs(fitted.path[0])))
    assert len(fitted.path) == fitted.n_iter + 1
    again = craft.objective(numeric, codes, n_levels, fitted.labels, selection=selection, **options)
    assert again == pytest.approx(fitted.objective, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("seed", range(100, 108))
def test_every_combination_gives_a_sound_result(seed, selection, model):
    (numeric, codes, n_levels, labels), options = random_table(seed)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], size=len(labels))
    weight[0] = 1.0
    fitted = craft.fit(
        numeric,
        codes,
        n_levels,
        labels,
        selection=selection,
        model=model,
        weight=weight,
        cap=6,
        seed=seed,
        **options,
    )
    K, D = fitted.mask.shape
    assert K == fitted.n_clusters <= max(6, labels.max() + 1)
    assert list(dict.fromkeys(fitted.labels.tolist())) == list(range(K))
    assert fitted.gains.shape == (K, D)
    assert np.all(fitted.gains >= 0.0)
    assert not fitted.mask[:, ~np.array(fitted.background.varies, bool)].any()
    assert np.isfinite(fitted.path).all()
    assert all(weight[fitted.labels == k].sum() > 0 for k in range(K))
    for probabilities in fitted.level_probabilities:
        sums = probabilities.sum(axis=1)
        assert np.all(np.isclose(sums, 1.0) | (sums == 0.0))
    if selection == "global":
        assert np.all(fitted.mask == fitted.mask[0])
    if model != "likelihood" and any(fitted.background.varies):
        assert fitted.mask.any(axis=1).all()
    if selection == "fixed":
        varies = np.array(fitted.background.varies, bool)
        p = fitted.background.p
        for kind in (slice(0, p), slice(p, D)):
            n = craft.budget(options["fraction"], int(varies[kind].sum()))
            assert np.all(fitted.mask[:, kind].sum(axis=1) == n)


# Invariances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("seed", range(15))
def test_shift_and_scale_of_a_column_change_nothing(seed, selection):
    (numeric, codes, n_levels, labels), options = random_table(seed, p=3)
    plain = craft.fit(numeric, codes, n_levels, labels, selection=selection, **options)
    scale, shift = np.array([4.0, 0.5, 64.0]), np.array([3.0, -8.0, 0.0])
    moved = craft.fit(
        numeric * scale + shift, codes, n_levels, labels, selection=selection, **options
    )
    np.testing.assert_array_equal(moved.labels, plain.labels)
    np.testing.assert_array_equal(moved.mask, plain.mask)
    np.testing.assert_allclose(moved.gains, plain.gains, rtol=1e-9, atol=1e-9)
    # J itself carries N log(scale) from the densities
    present = (~np.isnan(numeric)).sum(axis=0) * np.array(plain.background.varies[:3])
    assert moved.objective - present @ np.log(scale) == pytest.approx(plain.objective, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_names_of_levels_do_not_matter(seed):
    (numeric, codes, n_levels, labels), options = random_table(seed, q=3)
    rng = np.random.default_rng(seed)
    renamed = codes.copy()
    for d, T in enumerate(n_levels):
        renamed[:, d] = np.append(rng.permutation(T), T)[codes[:, d]]
    plain = craft.fit(numeric, codes, n_levels, labels, **options)
    other = craft.fit(numeric, renamed, n_levels, labels, **options)
    np.testing.assert_array_equal(other.labels, plain.labels)
    np.testing.assert_array_equal(other.mask, plain.mask)
    assert other.objective == pytest.approx(plain.objective, rel=1e-12)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("seed", range(20))
def test_weight_two_is_a_row_written_twice(seed, selection):
    (numeric, codes, n_levels, labels), options = random_table(seed)
    weight = np.random.default_rng(seed).integers(1, 3, size=len(labels))
    weighted = craft.fit(
        numeric, codes, n_levels, labels, selection=selection, weight=weight, **options
    )
    twice = craft.fit(
        *(np.repeat(block, weight, axis=0) for block in (numeric, codes)),
        n_levels,
        np.repeat(labels, weight),
        selection=selection,
        **options,
    )
    np.testing.assert_array_equal(np.repeat(weighted.labels, weight), twice.labels)
    np.testing.assert_array_equal(weighted.mask, twice.mask)
    np.testing.assert_allclose(weighted.path, twice.path, rtol=1e-10)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(10))
def test_rows_of_weight_zero_and_constant_columns_change_nothing(seed, model):
    (numeric, codes, n_levels, labels), options = random_table(seed, p=2, q=2)
    options |= {"model": model, "selection": "free"}
    plain = craft.fit(numeric, codes, n_levels, labels, **options)
    n = len(labels)
    far = np.full((1, 2), 1e3)
    odd = np.array([[n_levels[0], 0]])  # a level that only the row of weight 0 has
    wider = craft.fit(
        np.vstack([numeric, far]),
        np.hstack([np.vstack([codes + (codes == n_levels) * [1, 0], odd]), np.zeros((n + 1, 1))]),
        [n_levels[0] + 1, n_levels[1], 1],
        np.append(labels, labels.max() + 1),
        weight=np.append(np.ones(n), 0.0),
        **options,
    )
    np.testing.assert_array_equal(wider.labels[:n], plain.labels)
    np.testing.assert_array_equal(wider.mask[:, :4], plain.mask)
    assert wider.objective == pytest.approx(plain.objective, rel=1e-12)


# Small and degenerate tables -----------------------------------------------------------------


def test_one_row():
    fitted = craft.fit(np.array([[1.0, np.nan]]), np.array([[0]]), [1], [0], price=2.0)
    assert fitted.converged
    assert fitted.n_clusters == 1
    assert fitted.objective == 2.0
    assert not fitted.mask.any()


def test_all_columns_selected_at_fraction_one():
    (numeric, codes, n_levels, labels), _ = random_table(3, n=30, p=2, q=2)
    fitted = craft.fit(numeric, codes, n_levels, labels, price=4.0, fraction=1.0)
    assert np.all(fitted.mask == np.array(fitted.background.varies))


def test_a_lone_outlier_opens_a_cluster_of_its_own():
    numeric = np.append(np.linspace(-1, 1, 40), 500.0)[:, None]
    fitted = craft.fit(
        numeric, np.empty((41, 0), int), [], np.zeros(41, int), price=3.0, fraction=1.0
    )
    assert fitted.n_clusters >= 2
    assert (fitted.labels == fitted.labels[-1]).sum() == 1


def test_cap_stops_the_openings():
    (numeric, codes, n_levels, labels), options = random_table(5, n=40, p=3, q=0)
    options["price"] = 0.0
    free = craft.fit(numeric, codes, n_levels, labels * 0, **options)
    capped = craft.fit(numeric, codes, n_levels, labels * 0, cap=2, **options)
    assert free.n_clusters > 2 >= capped.n_clusters


def test_printed_masks_of_newcomers_depend_on_the_seed_alone():
    (numeric, codes, n_levels, _), _ = random_table(8, n=40, p=3, q=3, missing=0.0)
    start = np.zeros(40, int)
    options = {"price": 2.0, "model": "paper", "max_iter": 30}
    results = [
        craft.fit(numeric, codes, n_levels, start, seed=seed, **options) for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(results[0].labels, results[1].labels)
    assert results[0].path == results[1].path
    assert results[0].n_clusters > 1
    assert results[0].path != results[2].path


@pytest.mark.parametrize(
    ("option", "value"), [("selection", "best"), ("model", "exact"), ("weight", [0.0, 0.0])]
)
def test_senseless_options_are_refused(option, value):
    with pytest.raises(ValueError, match=r"none of|nothing to fit"):
        craft.fit(np.eye(2), np.empty((2, 0), int), [], [0, 1], price=1.0, **{option: value})
