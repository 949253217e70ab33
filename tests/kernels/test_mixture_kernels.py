"""The kernels of the mixture against NumPy and SciPy: gamma functions, one pass over the rows, merges,
states.
"""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest
from scipy.special import betaln, digamma, entr, expit, gammaln, logsumexp, xlogy

from craftc import FeatureSelectionMixture
from craftc._kernels import mixture_moves, mixture_split, mixture_start
from craftc._kernels.mixture import Rows
from craftc._kernels.mixture_updates import Mixture
from craftc.mixture.priors import checked_priors
from craftc.mixture.variational import DiagonalModel, MixtureConfig
from tests.estimators.mixture_cases import synthetic
from tests.reference.mixture import ReferenceMixture
from tests.reference.mixture_split import all_halves

DUST = 2.0**-60


def mixture(
    K,
    D,
    *,
    counts=False,
    own_noise=False,
    tied=False,
    prior=(0.1, 1.0, 0.5),
    noise=(0.1, 1.0, 1.0),
    concentration=5.0,
):
    """A mixture with nothing in it."""
    own, noise = ((k0, a0, np.full(D, b0)) for k0, a0, b0 in (prior, noise))
    return Mixture(
        K,
        D,
        own,
        noise,
        concentration,
        kind="poisson" if counts else "gaussian",
        own_noise=own_noise,
        tied=tied,
    )


# ---- sticks ----


def log_beta(count, b):
    """ln B(1 + count, b) of a whole count: Gamma(b + 1 + count) / Gamma(b) is a product."""
    return gammaln(1.0 + count) - np.log(b + np.arange(count + 1)).sum()


@pytest.mark.parametrize("concentration", [1e-3, 5.0, 30.0, 1e6, 1e9])
def test_sticks_do_not_round_large_gamma_functions(concentration):
    sizes = np.array([17, 5, 3, 1])
    behind = sizes[::-1].cumsum()[::-1] - sizes
    q = mixture(4, 1, concentration=concentration)
    q.size[:] = sizes
    q.update_sticks()
    expected = [log_beta(*each) for each in zip(sizes[:3], concentration + behind[:3], strict=True)]
    np.testing.assert_allclose(q.stick[4, :3], expected, rtol=1e-13)
    merged = [log_beta(22, concentration + 4), log_beta(3, concentration + 1), log_beta(1, concentration)]
    assert mixture_moves.stick_gain(q, 0, 1) == pytest.approx(sum(merged) - sum(expected), abs=1e-10)


# ---- updates over the columns of a component ----


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("D", [1, 7, 8, 9, 16, 37])
def test_masks_of_a_component(D, counts):
    """p = 1 / (1 + exp(-odds)), rounded to 0 and 1 where the rest is below 2^-60, and its entropy."""
    rng = np.random.default_rng(D)
    q = mixture(3, D, counts=counts)
    q.reach[:], q.s1[:], q.s2[:] = rng.gamma(2.0, 1.0, (3, 3, D))
    q.own[:], q.noise[:], q.divergence[:] = (
        rng.normal(size=(3, 3, D)),
        rng.normal(size=(3, D)),
        rng.normal(size=(3, D)),
    )
    q.share[2:4] = rng.normal(0.0, 10.0 ** rng.uniform(-2, 2.5, D), (2, D))
    sums = np.stack([q.reach, q.s1, q.s2])
    odds = q.share[2] - q.share[3] + (sums * (q.own - q.noise[:, None])).sum(axis=0) - q.divergence
    q.update_masks()
    p = expit(odds)
    np.testing.assert_allclose(q.p, p, rtol=1e-12, atol=DUST)
    certain = np.abs(odds) > 41.6
    assert np.isin(q.p[certain], [0.0, 1.0]).all()
    entropy = np.where(certain, 0.0, entr(p) + entr(expit(-odds))).sum(axis=1)
    np.testing.assert_allclose(q.mask_entropy, entropy, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("D", [1, 7, 8, 9, 16, 37])
def test_columns_with_the_same_data_are_fitted_as_others(D):
    """The same numbers and one more column of another reach, which is fitted column by column."""
    rng = np.random.default_rng(D)
    alike, other = mixture(2, D), mixture(2, D + 1)
    for q in (alike, other):
        q.reach[:] = [[7.25], [0.0]]
    alike.s1[0] = 7.25 * rng.normal(size=D)
    alike.s2[0] = alike.s1[0] ** 2 / 7.25 + rng.gamma(1.0, 1.0, D)
    other.s1[:, :D], other.s2[:, :D], other.reach[:, D] = alike.s1, alike.s2, 1.5
    alike.update_components()
    other.update_components()
    for ours, theirs in ((alike.own, other.own[:, :, :D]), (alike.divergence, other.divergence[:, :D])):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-13)


# ---- ln Gamma and digamma ----


@pytest.mark.parametrize("size", 10.0 ** np.array([-8, -3, -1, 0, 0.3, 0.99, 1, 1.01, 2, 4, 9, 15]))
def test_gamma_functions_by_the_shares(size):
    """q(lambda) of columns with p = 0 is Beta(a, 1 + b); E ln, E ln(1 - .) and ln B are kept."""
    for other in (1e-3, 1.0, 7.5, 1e6):
        q = mixture(1, 1, tied=True)
        q.share_prior = size, other
        q.update_shares()
        a, b = size, other + 1.0
        assert q.share[:2, 0].tolist() == [a, b]
        for ours, theirs, scale in (
            (q.share[2, 0], digamma(a) - digamma(a + b), abs(digamma(a)) + abs(digamma(a + b))),
            (q.share[3, 0], digamma(b) - digamma(a + b), abs(digamma(b)) + abs(digamma(a + b))),
            (q.share[4, 0], betaln(a, b), abs(gammaln(a)) + abs(gammaln(b)) + abs(gammaln(a + b))),
        ):
            assert abs(ours - theirs) <= 1e-15 * (4.0 + 4.0 * scale)


@pytest.mark.parametrize("D", [1, 5, 8, 19])
def test_shares_and_noise_do_not_depend_on_other_columns(D):
    """Columns share vectors, in which some values are shifted to 10 and others are not: each column has the
    bits it has alone.
    """
    rng = np.random.default_rng(D)
    p = rng.uniform(size=(9, D)) * (rng.uniform(size=D) < 0.7)
    reach = rng.gamma(1.0, 10.0 ** rng.uniform(-6, 5, D), (9, D))
    mean = rng.normal(0.0, 2.0, (9, D))
    s1, s2 = reach * mean, reach * (mean**2 + rng.gamma(1.0, 1.0, (9, D)))

    def fitted(columns):
        q = mixture(9, len(columns), own_noise=True)
        q.share_prior = 0.003, 4.0
        q.p[:], q.reach[:], q.s1[:], q.s2[:] = (a[:, columns] for a in (p, reach, s1, s2))
        q.update_shares()
        q.update_noise()
        return q

    q = fitted(np.arange(D))
    for d in range(D):
        alone = fitted([d])
        np.testing.assert_array_equal(q.share[:, d], alone.share[:, 0])
        np.testing.assert_array_equal(q.noise[:, d], alone.noise[:, 0])
    a, b = 0.003 + p.sum(axis=0), 4.0 + 9 - p.sum(axis=0)
    np.testing.assert_allclose(
        q.share, [a, b, digamma(a) - digamma(a + b), digamma(b) - digamma(a + b), betaln(a, b)], rtol=1e-12
    )
    rest = ((1 - p) * [reach, s1, s2]).sum(axis=1)
    kappa, a = 0.1 + rest[0], 1.0 + rest[0] / 2
    b = 1.0 + (rest[2] - rest[1] ** 2 / kappa) / 2
    constant = (digamma(a) - np.log(b) - np.log(2 * np.pi) - 1 / kappa - a / b * (rest[1] / kappa) ** 2) / 2
    np.testing.assert_allclose(q.noise, [constant, a / b * rest[1] / kappa, -a / b / 2], rtol=1e-10)
    evidence = gammaln(a) - a * np.log(b) + (np.log(0.1 / kappa) - rest[0] * np.log(2 * np.pi)) / 2
    divergence = float(((q.noise * rest).sum(axis=0) - evidence).sum())
    assert q.noise_divergence[0] == pytest.approx(divergence, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("reach", [0.0, 1e-9, 0.5, 3.0, 250.0, 1e7])
def test_the_posterior_of_a_column(reach):
    """E ln N and KL by the digamma, the evidence by ln Gamma: what remains of both is the gain."""
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(0, 2, 5), rng.gamma(1.0, 1.0, 5)
    s1, s2 = reach * mean, reach * (variance + mean**2)
    q = mixture(1, 5)
    q.reach[0], q.s1[0], q.s2[0] = reach, s1, s2
    q.update_components()
    kappa, a = 0.1 + reach, 1.0 + reach / 2
    b = 0.5 + (reach * variance + 0.1 * reach / kappa * mean**2) / 2
    np.testing.assert_allclose(q.own[2, 0], -a / b / 2, rtol=1e-7)
    np.testing.assert_allclose(q.own[1, 0], a / b * s1 / kappa, rtol=1e-7, atol=1e-300)
    constant = (digamma(a) - np.log(b) - np.log(2 * np.pi) - 1 / kappa - a / b * (s1 / kappa) ** 2) / 2
    np.testing.assert_allclose(q.own[0, 0], constant, rtol=1e-7)
    evidence = (
        gammaln(a)
        - gammaln(1.0)
        + np.log(0.5)
        - a * np.log(b)
        + (np.log(0.1 / kappa) - reach * np.log(2 * np.pi)) / 2
    )
    np.testing.assert_allclose(q.gains()[0], evidence, rtol=1e-7, atol=1e-12)  # the noise has no data yet


def test_the_posterior_of_a_rate():
    q = mixture(1, 4, counts=True, prior=(1.0, 1.0, 0.3), noise=(1.0, 1.0, 0.3))
    q.reach[0], q.s1[0] = [0.0, 0.7, 12.0, 3000.0], [0.0, 3.0, 40.0, 1e6]
    q.update_components()
    a, b = 1.0 + q.s1[0], 0.3 + q.reach[0]
    np.testing.assert_allclose(q.own[1, 0], digamma(a) - np.log(b), rtol=1e-13)
    np.testing.assert_allclose(q.own[0, 0], -a / b, rtol=1e-14)
    assert not q.own[2].any()
    np.testing.assert_allclose(q.gains()[0], gammaln(a) + np.log(0.3) - a * np.log(b), rtol=1e-12, atol=1e-14)


def expected_weights(N, concentration):
    """E ln pi from the sizes of the components."""
    behind = N.sum() - np.cumsum(N)[:-1]
    total = digamma(1 + concentration + N[:-1] + behind)
    left = np.append(0.0, np.cumsum(digamma(concentration + behind) - total))
    return np.append(digamma(1 + N[:-1]) - total, 0.0) + left


def test_the_sticks():
    q = mixture(5, 1, concentration=2.5)
    q.size[:] = N = np.array([4.0, 0.0, 2.25, 1e5, 3.0])
    q.update_sticks()
    behind = np.array([N[k + 1 :].sum() for k in range(4)])
    np.testing.assert_allclose(q.stick[:2, :4], [1 + N[:4], 2.5 + behind], rtol=1e-15)
    np.testing.assert_allclose(q.weight, expected_weights(N, 2.5), rtol=1e-12)


# ---- one pass over the rows ----


def random_pass(seed, n, D, K=5, *, counts=False, missing=False, dtype=np.float64):
    """(mixture, rows, z, exposure, present): densities of any kind, some columns not selected, one component
    empty.
    """
    rng = np.random.default_rng(seed)
    width = D + 3
    column = (
        np.sort(rng.permutation(width)[:D]).astype(np.int32) if seed % 2 else np.arange(D, dtype=np.int32)
    )
    X = rng.poisson(3.0, (n, width)).astype(float) if counts else rng.normal(1.0, 2.0, (n, width))
    if seed % 2 == 0:
        X = np.ascontiguousarray(X[:, :D])
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
        X[n // 2] = np.nan
    X = X.astype(dtype)
    centre, scale = (np.zeros(D), np.ones(D)) if counts else (rng.normal(size=D), rng.gamma(2.0, 0.5, D))
    exposure = rng.gamma(2.0, 0.5, n) if counts else None
    q = mixture(K, D, counts=counts)
    q.own[:2], q.noise[:2] = rng.normal(size=(2, K, D)) / np.sqrt(D), rng.normal(size=(2, D)) / np.sqrt(D)
    if not counts:
        q.own[2], q.noise[2] = -rng.gamma(1.0, 1.0, (K, D)) / np.sqrt(D), -rng.gamma(1.0, 1.0, D) / np.sqrt(D)
    q.p[:] = rng.random((K, D)) * (rng.random((K, D)) < 0.6)
    q.p[-1] = 0.0
    q.weight[:], q.size[:] = np.log(rng.dirichlet(np.ones(K))), 1.0
    q.size[2:3] = 0.0
    z = (X[:, column].astype(float) - centre) * scale
    present = ~np.isnan(z)
    rows = Rows(X, column, centre, scale, exposure, missing, K)
    return q, rows, np.where(present, z, 0.0), np.ones(n) if exposure is None else exposure, present


def scores(q, z, e, present):
    """(n, K) scores of rows under components."""
    constant, linear, square = (own - noise for own, noise in zip(q.own, q.noise[:, None], strict=True))
    return (
        q.weight
        + (present * e[:, None]) @ (q.p * constant).T
        + z @ (q.p * linear).T
        + z**2 @ (q.p * square).T
    )


SHAPES = [
    (1, 1),
    (1, 70),
    (5, 3),
    (31, 7),
    (32, 8),
    (33, 9),
    (100, 63),
    (65, 64),
    (70, 65),
    (40, 130),
    (1300, 4),
    (700, 20),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("n", "D"), SHAPES)
def test_responsibilities_and_their_sums(n, D, counts, missing, dtype):
    q, rows, z, e, present = random_pass(n + D, n, D, counts=counts, missing=missing, dtype=dtype)
    alive = np.flatnonzero(q.size > 0)
    assert len(alive) == 4
    logs = scores(q, z, e, present)[:, alive]
    expected = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    proba, label, evidence = np.empty((n, len(alive))), np.empty(n, np.int32), np.empty(n)
    rows.e_step(q, 1, gather=False, linear=counts, proba=proba, label=label, evidence=evidence)
    assert len(rows) == n
    np.testing.assert_allclose(proba, expected, rtol=1e-9, atol=2 * DUST)
    assert not proba[expected < 0.9 * DUST].any()
    np.testing.assert_allclose(evidence, logsumexp(logs, axis=1), rtol=1e-10, atol=1e-10)
    clear = np.ptp(np.sort(logs, axis=1)[:, -2:], axis=1) > 1e-9
    np.testing.assert_array_equal(label[clear], logs.argmax(axis=1)[clear])
    assert not q.s1.any()  # nothing was gathered
    again = np.empty_like(proba)
    rows.e_step(q, 1, linear=counts, proba=again)
    np.testing.assert_array_equal(proba, again)
    check_sums(q, alive, proba, z, e, present)
    sums = [getattr(q, name).copy() for name in ("size", "reach", "s1", "s2", "entropy")]
    for n_threads in (2, 5):
        q.size[:] = np.isin(np.arange(5), alive)
        rows.e_step(q, n_threads, linear=counts)
        for name, kept in zip(("size", "reach", "s1", "s2", "entropy"), sums, strict=True):
            np.testing.assert_array_equal(getattr(q, name), kept)


def check_sums(q, alive, r, z, e, present):
    full = np.zeros((len(r), len(q.size)))
    full[:, alive] = r
    close = {"rtol": 1e-11, "atol": 1e-11 * max(1.0, float((z**2).sum()))}
    np.testing.assert_allclose(q.size, full.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(q.reach, full.T @ (present * e[:, None]), **close)
    np.testing.assert_allclose(q.s1, full.T @ z, **close)
    np.testing.assert_allclose(q.s2, full.T @ z**2, **close)
    assert q.entropy[0] == pytest.approx(-xlogy(full, full).sum(), rel=1e-9, abs=1e-11 * len(r))
    dead = np.setdiff1d(np.arange(len(q.size)), alive)
    assert not any(getattr(q, name)[dead].any() for name in ("size", "reach", "s1", "s2"))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("n", "D"), SHAPES)
def test_hard_and_given_responsibilities(n, D, missing):
    q, rows, z, e, present = random_pass(n + D, n, D, missing=missing)
    alive, best = np.flatnonzero(q.size > 0), np.empty(n, np.int32)
    label = np.empty(n, np.int32)
    rows.e_step(q, 1, gather=False, label=best)
    rows.e_step(q, 1, hard=True, label=label)
    np.testing.assert_array_equal(label, best)
    check_sums(q, alive, np.eye(len(alive))[best], z, e, present)
    assert q.entropy[0] == 0.0
    given = np.random.default_rng(n).dirichlet(np.full(5, 0.3), n)
    given[:, 3] = 0.0
    q.size[:] = 1.0
    rows.e_step(q, 1, given=given)
    check_sums(q, np.arange(5), given, z, e, present)


def test_one_component_takes_all_rows():
    q, rows, z, e, present = random_pass(0, 50, 6, K=1)
    proba, evidence = np.empty((50, 1)), np.empty(50)
    rows.e_step(q, 1, proba=proba, evidence=evidence)
    assert (proba == 1.0).all()
    assert (q.size[0], q.entropy[0]) == (50.0, 0.0)
    np.testing.assert_allclose(evidence, scores(q, z, e, present)[:, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("far", [30.0, 41.0, 42.0, 800.0, 1e6])
def test_what_is_certain_is_certain(far):
    """A component that is 2^60 times less likely gets nothing, and the other all of it."""
    q = mixture(2, 1)
    q.size[:], q.weight[:] = 1.0, [0.0, -far]
    proba = np.empty((3, 2))
    Rows(np.zeros((3, 1)), np.zeros(1, np.int32), np.zeros(1), np.ones(1), None, False, 2).e_step(
        q, 1, proba=proba
    )
    np.testing.assert_allclose(proba[:, 0], 1.0)
    if far > 41.6:
        assert (proba == [1.0, 0.0]).all()
        assert q.size.tolist() == [3.0, 0.0]
    else:
        np.testing.assert_allclose(proba[:, 1], np.exp(-far), rtol=1e-12)


def test_the_exponential_is_good_to_the_last_digits():
    x = -np.random.default_rng(0).uniform(0, 41.5, 5000)
    q = mixture(2, 1)
    q.size[:], q.p[1], q.own[1, 1] = 1.0, 1.0, 1.0
    proba = np.empty((5000, 2))
    Rows(x[:, None], np.zeros(1, np.int32), np.zeros(1), np.ones(1), None, False, 2).e_step(
        q, 1, gather=False, proba=proba
    )
    np.testing.assert_allclose(proba[:, 1] / proba[:, 0], np.exp(x), rtol=1e-15)


# ---- bounds of sweeps ----

TILE = 32
CERTAIN = 60 * np.log(2.0)


def separate_model(seed, n=700, D=20, K=9, component="gaussian", weighted=False):
    """A model after its start, with rows in clear and in unclear clusters."""
    rng = np.random.default_rng(seed)
    far = rng.choice([1.0, 16.0], size=(6, 1)) * rng.normal(size=(6, D)) / np.sqrt(D)
    X = far[rng.integers(6, size=n)] + rng.normal(size=(n, D))
    if component == "bernoulli":
        X = (X > 0.5).astype(float)
    estimator = FeatureSelectionMixture(K, component=component, random_state=seed, n_threads=1)
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    model = DiagonalModel(
        estimator._scaled_data(estimator._read(X, reset=True), weight), checked_priors(estimator), 1
    )
    model.start_by_kmeans(seed, 0, MixtureConfig(100, 1e-6, True, Event()), 6)
    return model


def gaps(model):
    """(tiles, K) how far a component is behind the best one in the last pass, for all rows of a tile."""
    q, rows = model.mixture, model.rows
    alive = q.size > 0
    z = rows.cells(rows.order.astype(np.intp)).T
    logs = scores(q, z, np.ones(len(z)), np.ones_like(z))
    behind = logs[:, alive].max(axis=1, keepdims=True) - logs
    return alive, np.stack([behind[i : i + TILE].min(axis=0) for i in range(0, len(z), TILE)])


@pytest.mark.parametrize(
    ("component", "weighted"), [("gaussian", False), ("gaussian", True), ("bernoulli", False)]
)
@pytest.mark.parametrize(("seed", "D"), [(0, 20), (1, 3), (2, 150), (3, 20)])
def test_bounds_never_leave_out_a_component_that_is_within_reach(seed, D, component, weighted):
    """Sweeps with the bounds of all sweeps before have the bits of sweeps without, through merges, returns to
    a state and sorting.
    """
    model = separate_model(seed, D=D, component=component, weighted=weighted)
    fresh = separate_model(seed, D=D, component=component, weighted=weighted)
    q, state, rng, left_out = model.mixture, None, np.random.default_rng(seed), 0
    for step in range(40):
        model.sweeps(0.0, -np.inf, 1)
        fresh.pause()  # its next sweep starts without bounds
        fresh.sweeps(0.0, -np.inf, 1)
        for ours, theirs in zip(q.state(), fresh.mixture.state(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        alive = np.flatnonzero(q.size > 0)
        if step % 7 == 3 and len(alive) > 3:
            i, j = rng.choice(alive, 2, replace=False)
            for each in (model, fresh):
                mixture_moves.merge(each.mixture, i, j)
        if step == 10:
            state = q.state()
        if step in (13, 22):
            for each in (model, fresh):
                each.mixture.restore(state)
        left_out += int((model.rows.behind() > CERTAIN).sum())
    assert left_out > 0 or component == "bernoulli"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("D", [15, 20])  # lanes are 8 columns
def test_bounds_are_below_the_gaps(seed, D):
    model, checked = separate_model(seed, D=D), 0
    q = model.mixture
    for _ in range(25):
        weight = expected_weights(q.size, model.priors.concentration)
        model.sweeps(0.0, -np.inf, 1)
        if np.allclose(q.weight, weight, rtol=1e-9):  # components were not sorted after the pass
            alive, behind = gaps(model)
            bounds = model.rows.behind()
            assert (bounds[:, alive] <= behind[:, alive] * (1 + 1e-9) + 1e-9).all()
            checked += 1
    assert checked > 3
    assert (bounds > CERTAIN).mean() > 0.2


def test_sweeps_with_bounds_have_the_same_bits_for_any_number_of_threads():
    model, fits = separate_model(0, n=2500), []
    q, state = model.mixture, model.mixture.state()
    for n_threads in (1, 2, 3, 8):
        q.restore(state)
        model.rows.visit(model.order)  # no bounds of the sweeps before
        elbo = np.empty(30)
        assert model.rows.sweep(q, 0.0, -np.inf, elbo, model.scaling.linear, n_threads) == 30
        fits.append((elbo, model.rows.behind(), *(array.copy() for array in q.state())))
    for other in fits[1:]:
        for ours, theirs in zip(fits[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_rows_with_missing_cells_keep_no_bounds():
    model, _ = model_and_reference(0, "gaussian", "local")
    model.sweeps(0.0, -np.inf, 2)
    assert model.rows.behind() is None


@pytest.mark.parametrize(
    ("n", "D", "counts", "missing"), [(1, 1, False, False), (700, 20, False, True), (4200, 7, True, True)]
)
def test_rows_in_another_order_have_the_same_results(n, D, counts, missing):
    q, rows, z, e, present = random_pass(n + D, n, D, counts=counts, missing=missing)
    another = np.random.default_rng(n).permutation(n).astype(np.int32)
    outputs = []
    for order in (False, True):
        if order:
            rows.visit(another)
        proba, best, evidence = np.empty((n, 4)), np.empty(n, np.int32), np.empty(n)
        rows.e_step(q, 1, gather=False, linear=counts, proba=proba, label=best, evidence=evidence)
        outputs.append((proba, best, evidence))
    for ours, theirs in zip(*outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(rows.order, another)
    alive = np.flatnonzero(q.size > 0)
    rows.e_step(q, 1, linear=counts)
    check_sums(q, alive, proba, z, e, present)
    q.size[:] = 1.0
    given = np.random.default_rng(n).dirichlet(np.full(5, 0.3), n)
    rows.e_step(q, 1, given=given)
    check_sums(q, np.arange(5), given, z, e, present)


def test_kept_cells_have_the_same_results():
    """Passes of k-means keep the cells of a small table; later passes read these."""
    q, rows, *_ = random_pass(0, 700, 20, dtype=np.float32)
    order = np.random.default_rng(0).permutation(700).astype(np.int32)
    outputs = []
    for step in ("read", "kept", "in another order", "kept again"):
        if step == "in another order":
            rows.visit(order)
        if step.startswith("kept"):
            kept = mixture(5, 20)
            rows.start(kept, np.arange(5))
            rows.kmeans(kept, 1, 1)
        proba, evidence = np.empty((700, 4)), np.empty(700)
        rows.e_step(q, 1, gather=False, proba=proba, evidence=evidence)
        outputs.append((proba, evidence))
    for others in outputs[1:]:
        for ours, theirs in zip(outputs[0], others, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_an_order_has_every_row():
    rows = Rows(np.zeros((5, 2)), np.arange(2, dtype=np.int32), np.zeros(2), np.ones(2), None, False, 3)
    for wrong in ([0, 1, 2, 3], [0, 1, 2, 3, 5], [-1, 1, 2, 3, 4]):
        with pytest.raises(ValueError, match="order"):
            rows.visit(np.array(wrong, np.int32))


def chain(centres):
    """Centres (K, D) from one far from the first one, each followed by the nearest one left."""
    squared = ((centres[:, None] - centres) ** 2).sum(axis=2)
    found = [int(squared[0].argmax())]
    while len(found) < len(centres):
        left = np.setdiff1d(np.arange(len(centres)), found)
        found.append(int(left[squared[found[-1]][left].argmin()]))
    return found


@pytest.mark.parametrize(
    ("n", "K", "D", "group"),
    [(1, 1, 1, 1), (50, 1, 3, 20), (700, 5, 2, 10**9), (700, 9, 13, 150), (40, 20, 0, 7)],
)
def test_rows_of_near_components_are_visited_together(n, K, D, group):
    """In every group of rows: by the place of their component along a chain, then by that of the second one,
    then as they stand.
    """
    rng = np.random.default_rng(n + K)
    centres = rng.normal(size=(K, D))
    label, second = rng.integers(0, K, (2, n)).astype(np.int32)
    place = np.argsort(chain(centres))
    parts = [np.arange(start, min(start + group, n)) for start in range(0, n, group)]
    expected = np.concatenate([rows[np.lexsort((place[second[rows]], place[label[rows]]))] for rows in parts])
    found = mixture_start.visiting_order(label, second, np.ascontiguousarray(centres.T), group)
    np.testing.assert_array_equal(found, expected)


def test_orders_of_wrong_input():
    label, centres = np.array([0, 1, 2], np.int32), np.zeros((2, 3))
    for arguments, name in (
        ((label[:2], label, centres, 4), "second"),
        ((label + 1, label, centres, 4), "label"),
        ((label, label - 1, centres, 4), "second"),
        ((label, label, centres, 0), "group"),
        ((label, label, centres[0], 4), "centres"),
    ):
        with pytest.raises(ValueError, match=name):
            mixture_start.visiting_order(*arguments)
    assert mixture_start.visiting_order(label[:0], label[:0], centres, 4).tolist() == []


# ---- centres ----


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("n", "D"), SHAPES)
def test_rows_as_first_components(n, D, counts, dtype):
    q, rows, z, e, present = random_pass(n + D, n, D, counts=counts, missing=True, dtype=dtype)
    index = np.random.default_rng(0).integers(0, n, min(n, 3))
    np.testing.assert_array_equal(rows.cells(index), np.where(present, z, np.nan)[index].T)
    rows.start(q, index)
    some = len(index)
    np.testing.assert_array_equal(q.size, np.arange(5) < some)
    np.testing.assert_array_equal(q.s1[:some], z[index])
    np.testing.assert_array_equal(
        q.reach[:some], (present * e[:, None])[index] if counts else np.ones((some, D))
    )
    assert not q.s1[some:].any()
    assert not q.reach[some:].any()
    assert (q.p == 1.0).all()


def test_rows_that_are_not_there():
    q, rows, *_ = random_pass(0, 5, 3)
    for index in ([5], [-1], [0] * 6):
        with pytest.raises(ValueError, match="index"):
            rows.start(q, np.array(index))
    for index in ([5], [0, -1]):
        with pytest.raises(ValueError, match="index"):
            rows.cells(np.array(index))


@pytest.mark.parametrize(("n", "D"), [(40, 3), (700, 20), (2600, 8), (900, 130)])
def test_kmeans(n, D):
    """Against passes in NumPy; the same bits in one call and in several, for any number of threads."""
    rng = np.random.default_rng(n)
    X = 3 * rng.normal(size=(4, D))[rng.integers(4, size=n)] + rng.normal(size=(n, D))
    rows = Rows(X, np.arange(D, dtype=np.int32), np.zeros(D), np.ones(D), None, False, 5)
    index = rng.permutation(n)[:5]
    centres = X[index]
    for _ in range(4):
        by_distance = np.argsort(((X[:, None] - centres) ** 2).sum(axis=2), axis=1)
        label = by_distance[:, 0]
        centres = np.array([X[label == k].mean(axis=0) for k in range(5)])
    fits = []
    for passes, n_threads in (([4], 1), ([4], 2), ([4], 7), ([1, 2, 1], 3)):
        q, found, second = mixture(5, D), *np.empty((2, n), np.int32)
        rows.start(q, index)
        for some in passes:
            changed = rows.kmeans(q, some, n_threads, found, second)
        fits.append((changed, q.size.copy(), q.s1.copy(), q.s2.copy()))
        np.testing.assert_array_equal(found, label)
        np.testing.assert_array_equal(second, by_distance[:, 1])
    np.testing.assert_allclose(fits[0][1], np.bincount(label, minlength=5))
    np.testing.assert_allclose(fits[0][2] / fits[0][1][:, None], centres, rtol=1e-9, atol=1e-9)
    for other in fits[1:]:
        for ours, theirs in zip(fits[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert not rows.kmeans(q, 500, 2)


# ---- on the way ----


def model_and_reference(seed, component, selection, missing=0.1, K=5, concentration=5.0, D=6):
    """A model and the reference after the same sweeps; one component is empty, one nearly so."""
    rng = np.random.default_rng(seed)
    n = 40
    group = rng.integers(0, 3, n)
    X = rng.normal(size=(n, D)) + rng.normal(0, 2, (3, D))[group]
    if component == "poisson":
        X = rng.poisson(rng.gamma(1.0, 6.0, (3, D))[group]).astype(float)
    if component == "bernoulli":
        X = (rng.random((n, D)) < rng.random((3, D))[group]).astype(float)
    X[rng.random((n, D)) < missing] = np.nan
    R = np.insert(rng.dirichlet(np.full(K - 1, 0.3), n), 2, 0.0, axis=1)
    parameters = {
        "component": component,
        "selection": selection,
        "scale": "scalar",
        "concentration": concentration,
    }
    own = selection == "own fractions"
    parameters["selection"] = "local" if own else selection
    estimator = FeatureSelectionMixture(
        K, init=R, n_threads=1, learn_fraction="component" if own else False, **parameters
    )
    model = DiagonalModel(
        estimator._scaled_data(estimator._read(X, reset=True), None), checked_priors(estimator), 1
    )
    model.start_from(R)
    ref = ReferenceMixture(X, R, own_fractions=own, **parameters)
    for _ in range(2):
        model.sweeps(model.elbo(), 0.0, 1)
        ref.sweep()
    return model, ref


@pytest.mark.parametrize("selection", ["local", "global", "shared", "own fractions"])
@pytest.mark.parametrize("component", ["gaussian", "poisson", "bernoulli"])
@pytest.mark.parametrize("seed", range(4))
def test_gains_of_pairs(seed, component, selection):
    check_gains_of_pairs(*model_and_reference(seed, component, selection))


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("selection", ["local", "global", "shared", "own fractions"])
@pytest.mark.parametrize("D", [7, 8, 29, 4099, 4111])
def test_gains_of_pairs_without_missing_cells(D, selection):
    """Whole tiles of columns, and the rest."""
    check_gains_of_pairs(*model_and_reference(D, "gaussian", selection, missing=0.0, D=D))


def check_gains_of_pairs(model, ref):
    gains = mixture_moves.pair_gains(model.mixture)
    alive = np.flatnonzero(ref.N > 0)
    assert 1 < len(alive) < 5
    expected = np.zeros((5, 5))
    for i in alive:
        for j in alive[alive > i]:
            expected[i, j] = ref.merge_gain(i, j)
    np.testing.assert_allclose(gains, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("component", ["gaussian", "poisson"])
def test_merge_adds_sums_and_restore_undoes_it(component):
    model, _ = model_and_reference(0, component, "local")
    q = model.mixture
    i, j = np.flatnonzero(q.size > 0)[:2]
    kept, state = [array.copy() for array in (q.size, q.reach, q.s1, q.s2)], q.state()
    path = model.sweeps(0.0, -np.inf, 3)
    q.restore(state)
    for array, before in zip((q.size, q.reach, q.s1, q.s2), kept, strict=True):
        np.testing.assert_array_equal(array, before)
    mixture_moves.merge(q, i, j)
    for array, before in zip((q.size, q.reach, q.s1, q.s2), kept, strict=True):
        np.testing.assert_array_equal(array[i], before[i] + before[j])
        assert not array[j].any()
        others = np.setdiff1d(np.arange(5), [i, j])
        np.testing.assert_array_equal(array[others], before[others])
    model.sweeps(0.0, -np.inf, 2)
    assert q.size[np.setdiff1d(np.arange(5), [i, j])].sum() <= len(model.data)
    assert not np.array_equal(q.size, kept[0])
    q.restore(state)
    np.testing.assert_array_equal(model.sweeps(0.0, -np.inf, 3), path)  # the same bits once more
    assert all(array is not before for array, before in zip(q.state(), state, strict=True))


def test_sweeps_end_when_the_gain_is_small():
    model, _ = model_and_reference(1, "gaussian", "local", missing=0.0)
    q, state, before = model.mixture, model.mixture.state(), model.elbo()
    path = model.sweeps(before, -np.inf, 30)
    assert len(path) == 30
    rises = np.diff(np.append(before, path))
    assert (rises >= -1e-9 * abs(before)).all()
    for least in (1e-6, 1e-3, 0.1):
        q.restore(state)
        stopped = model.sweeps(before, least, 30)
        made = int(np.argmax(rises <= least)) + 1 if (rises <= least).any() else 30
        np.testing.assert_array_equal(stopped, path[:made])


@pytest.mark.parametrize("selection", ["local", "shared", "own fractions"])
@pytest.mark.parametrize("component", ["gaussian", "poisson"])
def test_sweeps_have_the_same_bits_for_any_number_of_threads(component, selection):
    """Many short steps: threads that wake late find steps begun, or over."""
    model, _ = model_and_reference(3, component, selection, K=4, D=9)
    q, state, fits = model.mixture, model.mixture.state(), []
    for n_threads in (1, 2, 3, 8):
        q.restore(state)
        elbo = np.empty(200)
        assert model.rows.sweep(q, 0.0, -np.inf, elbo, model.scaling.linear, n_threads) == 200
        fits.append((elbo, *(array.copy() for array in q.state())))
    for other in fits[1:]:
        for ours, theirs in zip(fits[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_sorting_raises_the_elbo_and_permutes_all_tables():
    model, ref = model_and_reference(2, "gaussian", "local", concentration=0.5)
    q = model.mixture
    order = np.random.default_rng(0).permutation(5)
    for array in (q.size, q.reach, q.s1, q.s2, q.p, q.divergence):
        array[:] = array[order]
    q.own[:] = q.own[:, order]
    q.update_sticks()
    before, rows = (
        model.elbo(),
        {k: (q.p[k].tolist(), q.s2[k].tolist(), q.own[:, k].tolist()) for k in range(5)},
    )
    sizes = q.size.copy()
    mixture_moves.sort(q)
    assert model.elbo() > before
    falling = np.argsort(-sizes, kind="stable")
    np.testing.assert_array_equal(q.size, sizes[falling])
    for place, k in enumerate(falling):
        assert (q.p[place].tolist(), q.s2[place].tolist(), q.own[:, place].tolist()) == rows[k]
    sorted_elbo = model.elbo()
    mixture_moves.sort(q)
    assert model.elbo() == sorted_elbo
    many = mixture(
        5, 1, concentration=50.0
    )  # the last component takes what is left, so that it should be the largest
    many.size[:] = [1.0, 2.0, 3.0, 4.0, 30.0]
    mixture_moves.sort(many)
    assert many.size.tolist() == [1.0, 2.0, 3.0, 4.0, 30.0]
    np.testing.assert_allclose(q.size, ref.N[np.argsort(-ref.N, kind="stable")], rtol=1e-8, atol=1e-12)


# ---- halves ----


@pytest.mark.parametrize("selection", ["local", "global", "shared", "own fractions"])
@pytest.mark.parametrize("component", ["gaussian", "poisson", "bernoulli"])
@pytest.mark.parametrize("seed", range(4))
def test_halves(seed, component, selection):
    model, ref = model_and_reference(seed, component, selection, K=4)
    halves, expected = model.halves(), all_halves(ref)
    if selection == "shared" and not expected:  # no column is selected, and halves keep the common mask
        assert not halves.gain.any()
        return
    assert expected
    for k in range(4):
        gain, weights = expected.get(k, (0.0, np.zeros((2, 40))))
        assert halves.gain[k] == pytest.approx(gain, rel=1e-8, abs=1e-7)
        np.testing.assert_array_equal(halves.size[k], weights.sum(axis=1))
        np.testing.assert_allclose(halves.sums[k, 1], weights @ ref.density.x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(halves.sums[k, 2], weights @ ref.density.x**2, rtol=1e-9, atol=1e-9)
    q, state, k = model.mixture, model.mixture.state(), max(expected)
    empty = int(np.flatnonzero(q.size == 0)[0])
    mixture_split.split(q, k, empty, halves.size[k], halves.sums[k])
    assert [q.size[k], q.size[empty]] == halves.size[k].tolist()
    np.testing.assert_array_equal(np.stack([q.reach, q.s1, q.s2])[:, [k, empty]], halves.sums[k])
    q.restore(state)
    np.testing.assert_array_equal(model.halves().gain, halves.gain)


def halves_arguments(n_threads=1):
    """Arguments of `split_gains` for 300 rows of up to four clusters, one component of the mixture empty."""
    X = synthetic("local", 0, n=300)[0].astype(np.float32)
    estimator = FeatureSelectionMixture(5, n_threads=1)
    data = estimator._scaled_data(estimator._read(X, reset=True), np.linspace(0.5, 2.0, 300))
    model = DiagonalModel(data, checked_priors(estimator), 1)
    label = np.random.default_rng(0).choice([0, 1, 3, 4], 300)
    model.start_from(np.eye(5)[label])
    return [
        model.mixture,
        model.rows,
        np.argsort(label),
        np.searchsorted(np.sort(label), np.arange(6)),
        n_threads,
    ]


def test_halves_have_the_same_bits_for_any_number_of_threads():
    one = mixture_split.split_gains(*halves_arguments())
    assert (one[0][[0, 1, 3, 4]] > 0.0).all()
    assert one[0][2] == 0.0
    for n_threads in (2, 3, 16):
        for ours, theirs in zip(mixture_split.split_gains(*halves_arguments(n_threads)), one, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (2, np.full(300, 300)),
        (2, np.full(300, -1)),
        (2, np.zeros(0, np.intp)),
        (2, np.zeros(300, np.int32)),
        (3, np.zeros(6, np.intp)),
        (3, np.array([0, 100, 50, 300, 300, 300])),
        (3, np.array([0, 300])),
        (3, np.array([-1, 0, 0, 0, 0, 300])),
        (4, 0),
        (0, mixture(5, 2)),
    ],
)
def test_what_split_gains_refuses(place, wrong):
    arguments = halves_arguments()
    arguments[place] = wrong
    with pytest.raises(ValueError, match=r"kernel|mismatch|n_threads"):
        mixture_split.split_gains(*arguments)


def test_halves_need_an_empty_component():
    arguments = halves_arguments()
    arguments[0].size[:] = 1.0
    with pytest.raises(ValueError, match="mixture"):
        mixture_split.split_gains(*arguments)
    q = mixture(3, 2)
    for k, empty, size, sums in ((0, 0, 2, 2), (3, 0, 2, 2), (0, -1, 2, 2), (0, 1, 3, 2), (0, 1, 2, 3)):
        with pytest.raises(ValueError, match="kernel"):
            mixture_split.split(q, k, empty, np.ones(size), np.ones((3, 2, sums)))
