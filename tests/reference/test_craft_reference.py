"""The reference of CRAFT against the figures and identities of the paper."""

from math import log

import numpy as np
import pytest

from tests.reference import craft
from tests.reference.craft_cases import random_case


@pytest.mark.parametrize(
    ("m", "F0", "F_delta"),
    [(1 / 3, 0.0816, 0.0595), (0.5, 0.1021, 0.0), (0.8, 0.2117, -0.1401), (0.9, 0.3657, -0.2970)],
)
def test_price_terms_have_the_known_sizes(m, F0, F_delta):
    got_0, got_1, got_delta = craft.price_terms(m)
    assert got_0 == pytest.approx(F0, abs=5e-5)
    assert got_delta == pytest.approx(F_delta, abs=5e-5)
    assert got_1 - got_0 == pytest.approx(got_delta, abs=1e-12)


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
    printed = [(av + bv) * log(av + bv) - av * log(av) - bv * log(bv) for av, bv in zip(a, b, strict=True)]
    np.testing.assert_allclose(craft.price_terms(m, rho)[:2], printed, rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_printed_score_of_a_category_is_the_divergence_of_the_cluster(seed):
    """G_d - G_kd = S KL(eta_kd || eta_0d), hence never negative; a difference of entropies can be."""
    (numeric, codes, n_levels, labels), options = random_case(seed)
    fitted = craft.fit(numeric, codes, n_levels, labels, model="paper", max_iter=3, **options)
    back = fitted.background
    for k in fitted.clusters:
        scores = craft.printed_scores(k, back)
        for d in range(back.p, back.D):
            if back.varies[d] and k.S[d] > 0.0:
                eta = craft.smoothed(k.counts[d - back.p], back.eta[d - back.p], 0.0)
                expected = k.S[d] * craft.divergence(eta, back.eta[d - back.p])
                assert scores[d] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_gain_is_the_difference_of_costs(seed):
    """gain_kd = sum over the cluster of (l0 - own cost) minus the penalty of the parameters."""
    (numeric, codes, n_levels, labels), options = random_case(seed)
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
    (numeric, codes, n_levels, labels), options = random_case(seed)
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
