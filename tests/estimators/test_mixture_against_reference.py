"""The mixture with feature selection equals its reference implementation in NumPy: the ELBO after every
single update, and whole fits.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc import FeatureSelectionMixture
from craftc._kernels import mixture_moves
from craftc.mixture.priors import checked_priors
from craftc.mixture.variational import DiagonalModel
from tests.common import examples
from tests.reference.mixture import ReferenceMixture

SETTINGS = st.fixed_dictionaries(
    {
        "component": st.sampled_from(["gaussian", "gaussian", "poisson", "bernoulli"]),
        "selection": st.sampled_from(["local", "global", "shared", "all"]),
        "noise": st.sampled_from(["isotropic", "feature"]),
        "scale": st.sampled_from(["scalar", "standard", "none"]),
        "concentration": st.sampled_from([5.0, 0.3, "auto"]),
        "concentration_prior": st.sampled_from([(1.0, 1.0), (3.0, 0.2)]),
        "wishart": st.sampled_from([(0.1, 2.0, 1.0), (0.1, 2.0, 1.0), (2.0, 0.7, 0.3)]),
        "feature_fraction": st.sampled_from([0.5, 0.5, 0.35]),
        "feature_variance": st.sampled_from([None, None, 0.003, 0.19]),
    }
)
LEARN = st.sampled_from([False, "shared", "component"])
PRIORS = st.sampled_from([(1.0, 1.0), (0.3, 0.4), (5.0, 2.0)])
MISSING = st.sampled_from(["none", "few", "many", "rows and columns"])


def random_rows(seed, component="gaussian", missing="none", most=24):
    """Up to three clusters that differ in some columns; one column may be constant.

    Columns in the thousands, units or thousandths.
    """
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(2, most + 1)), int(rng.integers(1, 7))
    group, tells = rng.integers(0, 3, n), rng.random(D) < 0.6
    if component == "poisson":
        rates = np.where(tells, rng.gamma(1.0, 6.0, (3, D)), rng.gamma(1.0, 6.0, D))
        X = rng.poisson(rates[group] * rng.gamma(4.0, 0.25, (n, 1))).astype(float)
    elif component == "bernoulli":
        X = (rng.random((n, D)) < np.where(tells, rng.random((3, D)), rng.random(D))[group]).astype(float)
    else:
        X = (
            rng.normal(size=(n, D)) * np.where(tells, 0.3, 1.0)
            + tells * rng.normal(0, 2, (3, D))[group]
            + rng.normal(0, 3, D)
        )
        X *= 10.0 ** rng.integers(-3, 4)
    if rng.random() < 0.2:
        X[:, rng.integers(D)] = 1.0 if component == "bernoulli" else 3.0
    X[rng.random((n, D)) < {"few": 0.05, "many": 0.4}.get(missing, 0.0)] = np.nan
    if missing == "rows and columns":
        X[rng.integers(n)] = np.nan
        X[1:, rng.integers(D)] = np.nan
    X[0, np.isnan(X).all(axis=0)] = 1.0
    return X


def random_start(seed, n):
    """Responsibilities: soft, hard, or with components that are empty from the start."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, 7))
    R = rng.dirichlet(np.full(K, 0.7), n) if rng.random() < 0.5 else np.eye(K)[rng.integers(0, K, n)]
    if rng.random() < 0.3:
        R = np.insert(R, int(rng.integers(K + 1)), 0.0, axis=1)
    return R


def model_of(R, parameters, **more):
    """The estimator for such a start."""
    return FeatureSelectionMixture(R.shape[1], init=R, n_threads=1, **parameters, **more)


def random_weight(seed, n):
    """None, whole numbers, or fractions; all above 0."""
    rng = np.random.default_rng(seed)
    return [None, rng.integers(1, 4, n).astype(float), rng.gamma(2.0, 0.5, n) + 0.01][seed % 3]


def fractions_of(parameters, learn, prior):
    """(parameters, those of the estimator, those of the reference) that say how fractions are learned;
    parameters without a role are left out.
    """
    wishart = parameters.get("wishart", (0.1, 2.0, 1.0))
    parameters = {name: value for name, value in parameters.items() if name != "wishart"}
    if parameters.get("component") == "gaussian":
        names = "mean_precision_prior", "degrees_of_freedom_prior", "covariance_prior"
        parameters |= dict(zip(names, wishart, strict=True))
    if parameters.get("concentration") != "auto":
        parameters.pop("concentration_prior", None)
    if parameters["selection"] == "all":
        parameters.pop("feature_fraction", None)
        return False, parameters | {"feature_variance": None}, {}, {}
    if (learn == "component" and parameters["selection"] == "shared") or (
        learn == "shared" and parameters["feature_variance"] == 0.19
    ):
        learn = False  # one y_d has no fractions; one m alone is left with that variance
    if learn == "component":
        parameters = parameters | {"feature_variance": None}
    if not learn:
        return learn, parameters, {}, {}
    return (
        learn,
        parameters,
        {"learn_fraction": learn, "fraction_prior": prior},
        {
            "own_fractions": learn == "component",
            "fraction_prior": prior,
        },
    )


def both(seed, parameters, missing, theirs, weight=None, **more):
    """The variational model and the reference after the same start."""
    X = random_rows(seed, parameters["component"], missing)
    R = random_start(seed + 1, len(X))
    estimator = model_of(R, parameters, **more)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Columns without variance", UserWarning)
        weight = random_weight(seed, len(X))
        data = estimator._scaled_data(estimator._read(X, reset=True), weight)
    model = DiagonalModel(data, checked_priors(estimator), 1)
    model.start_from(R)
    return model, ReferenceMixture(X, R, weight=weight, **parameters, **theirs)


def assert_close(ours, theirs, name="", slack=1e-8):
    assert abs(ours - theirs) <= slack * max(1.0, abs(theirs)), (name, ours, theirs)


@examples(200)
@given(seed=st.integers(0, 10**6), parameters=SETTINGS, missing=MISSING, learn=LEARN, prior=PRIORS)
def test_the_elbo_after_every_single_update(seed, parameters, missing, learn, prior):
    """m after lambda, as in the reference; a sweep of the model updates it last, which is equivalent (whole
    fits below).
    """
    learn, parameters, ours, theirs = fractions_of(parameters, learn, prior)
    model, ref = both(seed, parameters, missing, theirs, **ours)
    learn = learn == "shared"
    q = model.mixture
    assert_close(model.elbo(), ref.bound(), "start")
    steps = [
        ("theta", q.update_components),
        ("masks", q.update_masks),
        ("noise", q.update_noise),
        ("shares", q.update_shares),
        *[("fraction", model.factors.update_fraction)] * learn,
        ("sticks", q.update_sticks),
        ("responsibilities", None),
        ("sort", lambda: mixture_moves.sort(q)),
        ("concentration", model.factors.update_concentration),
    ]
    before = ref.bound()
    for _ in range(4):
        for name, step in steps:
            if step:
                step()
            else:
                proba = np.empty((len(model.data), int((q.size > 0).sum())))
                alive = q.size > 0
                model.rows.e_step(q, 1, linear=model.scaling.linear, proba=proba)
            getattr(ref, name)()
            if (
                name == "fraction"
            ):  # a maximum says where it lies to half the digits only: both go on from the same
                assert model.factors.fraction == pytest.approx(ref.m, abs=1e-6)
                ref.m = model.factors.fraction
            elbo = ref.bound()
            assert_close(model.elbo(), elbo, name)
            assert elbo >= before - 1e-9 * max(1.0, abs(elbo)), name
            before = elbo
            if name == "responsibilities":
                np.testing.assert_allclose(proba, ref.R[:, alive], rtol=0, atol=1e-8)
                assert not ref.R[:, ~alive].any()
        np.testing.assert_allclose(q.size, ref.N, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(q.p, ref.p, rtol=0, atol=1e-8)


@examples(150, derandomize=True)  # a merge or a stop may hang on rounding, though rarely
@given(
    seed=st.integers(0, 10**6),
    parameters=SETTINGS,
    missing=MISSING,
    learn=LEARN,
    prior=PRIORS,
    merge=st.booleans(),
    most=st.sampled_from([3, 40]),
)
def test_whole_fits(seed, parameters, missing, learn, prior, merge, most):
    X = random_rows(seed, parameters["component"], missing)
    check_fit(
        X,
        random_start(seed + 1, len(X)),
        parameters,
        learn,
        merge,
        most,
        prior=prior,
        weight=random_weight(seed, len(X)),
    )


def check_fit(X, R, parameters, learn, merge, most=40, tol=1e-4, prior=(1.0, 1.0), weight=None):
    learn, parameters, ours, theirs = fractions_of({"feature_variance": None} | parameters, learn, prior)
    model = model_of(R, parameters, merge=merge, max_iter=most, tol=tol, **ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns, few sweeps
        model.fit(X, sample_weight=weight)
    ref = ReferenceMixture(X, R, weight=weight, **parameters, **theirs).fit(
        tol, most, merge, learn == "shared"
    )
    assert model.n_iter_ == len(model.elbo_path_) == len(ref.elbo_path_) <= most
    slack = (
        1e-6 if learn == "shared" else 1e-8
    )  # m has half the digits, and the ELBO is no longer flat there after the next update
    np.testing.assert_allclose(model.elbo_path_, ref.elbo_path_, rtol=slack, atol=slack)
    assert_close(model.elbo_, ref.elbo_, slack=slack)
    np.testing.assert_array_equal(model.labels_, ref.labels_)
    assert model.n_clusters_ == ref.n_clusters_
    np.testing.assert_allclose(model.feature_probabilities_, ref.feature_probabilities_, rtol=0, atol=1e-5)
    clear = abs(ref.feature_probabilities_ - 0.5) > 1e-5
    np.testing.assert_array_equal(model.feature_mask_[clear], ref.feature_mask_[clear])
    found = list(dict.fromkeys(ref.R.argmax(axis=1).tolist()))
    fraction = (ref.A / (ref.A + ref.B))[found, 0] if learn == "component" else 1.0 if ref.all else ref.m
    assert_close(model.concentration_, ref.alpha, "concentration", 1e-4)
    np.testing.assert_allclose(model.feature_fraction_, fraction, rtol=0, atol=1e-5)
    check_posterior(model, ref, 1e-4 if learn else 1e-6)
    return model, ref


def check_posterior(model, ref, slack):
    """What densities and samples are made of: q(theta) and the noise for the last responsibilities, the
    expected shares.
    """
    ours, found = model._posterior, list(dict.fromkeys(ref.R.argmax(axis=1).tolist()))
    ref.theta()
    if ref.all:  # gains are those over one distribution of the whole table
        ref.p = 0.0 * ref.p
    ref.noise()
    names = (
        {"a": "a", "b": "b"} if ours.scaling.linear else {"a": "a", "b": "b", "mean": "mean", "kappa": "kap"}
    )
    for columns, q in zip(
        (*ours.clusters, ours.background), (*(ref.q[k] for k in found), ref.q_noise), strict=True
    ):
        for name, theirs in names.items():
            np.testing.assert_allclose(
                getattr(columns, name), getattr(q, theirs), rtol=slack, atol=slack, err_msg=name
            )
    broken = ref.g1 / (ref.g1 + ref.g2)
    share = (np.append(broken, 1.0) * np.append(1.0, np.cumprod(1.0 - broken)))[found]
    np.testing.assert_allclose(model.weights_, share / share.sum(), rtol=0, atol=slack)


@pytest.mark.slow_except(4)
@pytest.mark.parametrize("learn", [False, "shared", "component"])
@pytest.mark.parametrize("selection", ["local", "global", "shared"])
@pytest.mark.parametrize("component", ["gaussian", "poisson"])
def test_fits_that_merge(component, selection, learn):
    """Three clusters, their rows dealt to two components each: few rows in many columns stay where they are
    until they are joined.
    """
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 12)
    if component == "poisson":
        X = rng.poisson(rng.gamma(1.0, 8.0, (3, 40))[group]).astype(float)
    else:
        X = rng.normal(size=(36, 40)) + rng.normal(0, 1, (3, 40))[group]
    R = np.eye(6)[2 * group + np.arange(36) % 2]
    parameters = {"component": component, "selection": selection, "scale": "scalar", "concentration": 0.8}
    model, _ = check_fit(X, R, parameters, learn, merge=True, most=200)
    apart, _ = check_fit(X, R, parameters, learn, merge=False, most=200)
    assert model.n_clusters_ == 3 < apart.n_clusters_
    assert model.converged_
    assert apart.converged_
    assert model.elbo_ > apart.elbo_
    np.testing.assert_array_equal(model.labels_, group)


@pytest.mark.parametrize("seed", range(12))
def test_moves_beyond_the_updates(seed):
    """From known labels, where all components select columns, which are deselected one after the other, until
    convergence.
    """
    rng = np.random.default_rng(seed)
    n, D, K = int(rng.integers(20, 90)), int(rng.integers(2, 9)), int(rng.integers(2, 6))
    group, tells = rng.integers(0, 3, n), rng.random((3, D)) < 0.5
    parameters = {
        "component": "poisson" if seed % 4 == 3 else "gaussian",
        "selection": ("local", "global", "shared")[seed % 3],
        "noise": ("isotropic", "feature")[seed // 2 % 2],
        "scale": ("scalar", "standard", "none")[seed // 3 % 3],
    }
    if parameters["component"] == "poisson":
        X = rng.poisson(rng.gamma(1, 3, (3, D))[group]).astype(float)
    else:
        X = np.where(
            tells[group],
            rng.normal(0, 4, (3, D))[group] + rng.normal(size=(n, D)),
            3 * rng.normal(size=(n, D)),
        )
    R = np.eye(K)[np.minimum(group, K - 1)]
    model, ref = (
        model_of(R, parameters, max_iter=400).fit(X),
        ReferenceMixture(X, R, **parameters).fit(1e-6, 400),
    )
    np.testing.assert_allclose(model.elbo_path_, ref.elbo_path_, rtol=1e-8)
    np.testing.assert_array_equal(model.labels_, ref.labels_)
    np.testing.assert_array_equal(model.feature_mask_, ref.feature_mask_)
    assert_close(model.elbo_, ref.elbo_)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("component", ["gaussian", "poisson", "bernoulli"])
def test_weights_are_repeated_rows(component, covariance):
    """From the same responsibilities: the ELBO and all parameters to rounding; rows of weight 0 only get
    labels.
    """
    if covariance == "full" and component != "gaussian":
        pytest.skip("full covariances are Gaussian")
    rng = np.random.default_rng(1)
    X = random_rows(4, component, "none" if covariance == "full" else "few", most=40)
    X = np.vstack([X, X + (component == "gaussian") * 0.01 * rng.normal(size=X.shape)])
    weight, R = rng.integers(0, 4, len(X)), rng.dirichlet([0.5, 0.5, 0.5], len(X))
    options = {"covariance": covariance, "merge": covariance == "diagonal", "component": component}
    weighted = FeatureSelectionMixture(3, init=R, **options).fit(X, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight)
    repeated = FeatureSelectionMixture(3, init=R[rows], **options).fit(X[rows])
    assert_close(weighted.elbo_, repeated.elbo_)
    np.testing.assert_allclose(weighted.elbo_path_, repeated.elbo_path_, rtol=1e-8)
    for attribute in (
        "weights_",
        "feature_probabilities_",
        "feature_gains_",
        "means_",
        "variances_",
        "cluster_sizes_",
        "scale_",
    ):
        np.testing.assert_allclose(
            getattr(weighted, attribute),
            getattr(repeated, attribute),
            rtol=1e-6,
            atol=1e-8,
            err_msg=attribute,
        )
    np.testing.assert_array_equal(weighted.labels_[rows], repeated.labels_)
    np.testing.assert_array_equal(weighted.labels_, weighted.predict(X))
    present = weight > 0
    absent = FeatureSelectionMixture(3, init=R[present], **options).fit(
        X[present], sample_weight=weight[present]
    )
    assert absent.elbo_ == weighted.elbo_
    np.testing.assert_array_equal(absent.labels_, weighted.labels_[present])


def test_rows_of_weight_0_may_be_anything():
    X = random_rows(3, most=40)
    far = np.vstack([X, np.full((2, X.shape[1]), 1e6)])
    weight = np.append(np.ones(len(X)), [0.0, 0.0])
    plain = FeatureSelectionMixture(4, random_state=0).fit(X)
    model = FeatureSelectionMixture(4, random_state=0).fit(far, sample_weight=weight)
    assert model.elbo_ == plain.elbo_
    np.testing.assert_array_equal(model.labels_[: len(X)], plain.labels_)
    np.testing.assert_array_equal(model.labels_, model.predict(far))


def test_fractions_of_clusters():
    """Two clusters that select many columns, one that selects few: its fraction is low."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 80)
    many = np.arange(30) < np.array([27, 27, 3])[:, None]
    X = np.where(
        many[group],
        rng.normal(0, 3, (3, 30))[group] + rng.normal(size=(240, 30)),
        3 * rng.normal(size=(240, 30)),
    )
    model = FeatureSelectionMixture(8, learn_fraction="component", random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, group)
    assert (model.feature_mask_ == many).mean() > 0.97
    np.testing.assert_allclose(model.feature_fraction_, [28 / 32, 28 / 32, 4 / 32], atol=0.05)
    tight = FeatureSelectionMixture(
        8, learn_fraction="component", fraction_prior=(300.0, 300.0), random_state=0
    ).fit(X)
    np.testing.assert_allclose(tight.feature_fraction_, 0.5, atol=0.03)


def test_parameters_without_a_role_warn():
    X = random_rows(5, most=40)
    with pytest.warns(
        UserWarning, match="fraction_prior has no role with learn_fraction=False and is ignored"
    ):
        FeatureSelectionMixture(3, fraction_prior=(2.0, 2.0), random_state=0).fit(X)
    with pytest.warns(
        UserWarning, match="feature_variance has no role with learn_fraction='component' and is ignored"
    ):
        FeatureSelectionMixture(3, learn_fraction="component", feature_variance=0.1, random_state=0).fit(X)
    for parameters, name, reason in (
        ({"selection": "all", "feature_fraction": 0.4}, "feature_fraction", 'selection="all"'),
        ({"concentration_prior": (2.0, 1.0)}, "concentration_prior", "concentration=5.0"),
        ({"component": "poisson", "covariance_prior": 2.0}, "covariance_prior", 'component="poisson"'),
    ):
        with pytest.warns(UserWarning, match=f"{name} has no role with {reason} and is ignored"):
            FeatureSelectionMixture(3, random_state=0, **parameters).fit(np.arange(40.0).reshape(20, 2) % 7)


def test_a_fitted_concentration_follows_the_number_of_clusters():
    """Many clusters of equal size have a larger alpha than two; the prior decides where it is strong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) * 0.1

    def concentration(K, **parameters):
        model = FeatureSelectionMixture(20, concentration="auto", random_state=0, **parameters)
        model.fit(X + 5.0 * rng.normal(size=(K, 6))[np.arange(400) % K])
        assert model.n_clusters_ == K
        assert (np.diff(model.elbo_path_) > -1e-9 * abs(model.elbo_)).all()
        return model.concentration_

    few, many = concentration(2), concentration(12)
    assert few < 1.0 < many
    assert concentration(2, concentration_prior=(3e4, 1e4)) == pytest.approx(3.0, rel=0.01)


def test_gains_without_selection_are_over_one_distribution():
    """Columns that differ between clusters gain, others lose what their parameters cost."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 6)) + np.array([3.0, -3.0, 2.0, 0.0, 0.0, 0.0]) * group[:, None]
    for covariance in ("diagonal", "full"):
        model = FeatureSelectionMixture(
            4, selection="all", covariance=covariance, noise="feature", random_state=0
        ).fit(X)
        assert model.feature_mask_.all()
        assert model.feature_fraction_ == 1.0
        assert len(np.unique(group * 10 + model.labels_)) == model.n_clusters_ == 2
        total = model.feature_gains_.sum(axis=0)
        assert total[:3].min() > 20.0
        assert total[3:].max() < 0.0
