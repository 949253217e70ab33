"""CRAFT as a mixture: soft sizes, entropy, log-likelihood, parameters, AIC, BIC and ICL against NumPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from craftc import CRAFT, PaperCRAFT, load_model, save_model
from craftc.datasets import load_heart
from craftc.distributed import Partitions
from tests.distributed.same_fit import cut, even, mixed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
NAMES = ("assignment_entropy_", "log_likelihood_", "n_parameters_", "aic_", "bic_", "icl_")


def entropy_of(P):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(P > 0, P * np.log(P), 0.0).sum(axis=1)


def check(model, X, weight=None):
    """All criteria from the probabilities and the log densities of the rows."""
    w = np.ones(len(X)) if weight is None else weight
    P, log_density = model.predict_proba(X), model.score_samples(X)
    np.testing.assert_allclose(model.soft_sizes_, w @ P, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(model.soft_sizes_.sum(), w.sum(), rtol=1e-6)
    np.testing.assert_allclose(model.assignment_entropy_, w @ entropy_of(P), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(model.log_likelihood_, w @ log_density, rtol=1e-7)
    p, L = model.n_parameters_, model.log_likelihood_
    assert model.aic_ == -2 * L + 2 * p
    assert model.bic_ == pytest.approx(-2 * L + p * np.log(w.sum()))
    assert model.icl_ == pytest.approx(model.bic_ + 2 * model.assignment_entropy_)
    attrs = model.summary().attrs
    assert attrs["soft_sizes"] == model.soft_sizes_.tolist()
    for name in NAMES:
        assert attrs[name.rstrip("_")] == getattr(model, name)
    clear = w @ (P.max(axis=1) >= 0.9) / w.sum()
    assert attrs["clearly_placed"] == pytest.approx(clear)
    K = model.n_clusters_
    relative = 1 - w @ entropy_of(P) / (w.sum() * np.log(K)) if K > 1 else 1.0
    assert attrs["relative_entropy"] == pytest.approx(relative, abs=1e-5)


@pytest.fixture(scope="module")
def heart():
    return load_heart().data


@pytest.mark.parametrize(
    "options", [{}, {"n_clusters": 4}, {"n_clusters": 1}, {"covariance": "full"}, {"covariance": "tied"}]
)
def test_criteria_of_a_mixed_table(options):
    X = mixed(400)
    check(CRAFT(random_state=0, **options).fit(X), X)


def test_criteria_with_covariances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    X = np.concatenate([X, X + 9.0])
    model = CRAFT(random_state=0).fit(X)
    assert any(each is not None for each in model.covariances_)
    check(model, X)


def test_criteria_with_weights(heart):
    weight = np.random.default_rng(0).choice([0.0, 0.5, 2.0], 270)
    check(CRAFT(random_state=0).fit(heart, sample_weight=weight), heart, weight)


def test_weight_two_is_a_row_twice(heart):
    start = CRAFT(2, random_state=0).fit(heart).labels_
    twice = pd.concat([heart, heart], ignore_index=True)
    one = CRAFT(2, init=start).fit(heart, sample_weight=np.full(270, 2.0))
    other = CRAFT(2, init=np.tile(start, 2)).fit(twice)
    np.testing.assert_allclose(one.soft_sizes_, other.soft_sizes_, rtol=1e-12)
    for name in NAMES:
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12)


def test_criteria_of_the_coherent_paper_model(heart):
    check(PaperCRAFT(3, model="likelihood", random_state=0).fit(heart), heart)


def test_latent_class_analysis_by_hand():
    """Categories in which all clusters differ: weights and shares of levels, as a latent class model has."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 900)
    cells = np.array([rng.permutation(4)[group] for _ in range(6)])
    cells = np.where(rng.random(cells.shape) < 0.4, rng.integers(0, 4, cells.shape), cells).T
    X = pd.DataFrame(np.array(list("abcd"), object)[cells], columns=list("uvwxyz"))
    X.iloc[::7, 0] = None
    model = CRAFT(3, random_state=0).fit(X)
    weights = model.cluster_sizes_ / 900
    log = np.tile(np.log(weights), (900, 1))
    for d, name in enumerate(X):
        levels = {level: t for t, level in enumerate(model.levels_[d])}
        codes = X[name].map(levels)
        seen = codes.notna().to_numpy()
        log[seen] += np.log(model.level_probabilities_[d][:, codes[seen].astype(int)].T)
    likelihood = np.exp(log)
    assert (model.feature_mask_.sum(axis=0) >= 2).all()  # the third then has a distribution of its own, too
    assert model.log_likelihood_ == pytest.approx(np.log(likelihood.sum(axis=1)).sum(), rel=1e-8)
    P = likelihood / likelihood.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.soft_sizes_, P.sum(axis=0), rtol=1e-6)
    assert model.n_parameters_ == 2 + 3 * 6 * 3


def reference_parameters(model, kinds, levels):
    """By the rule of the documentation, from the masks alone. `levels` of every column that occur."""
    K, total = model.n_clusters_, model.n_clusters_ - 1
    for d, (kind, T) in enumerate(zip(kinds, levels, strict=True)):
        own = int(model.feature_mask_[:, d].sum())
        different = own + 1 if own < K else own
        if T < 2:
            continue
        if kind == "category" or T == 2:
            total += different * (T - 1)
        else:  # tilts by a value and its square, or by cosine and sine
            total += T - 1 + (2 * different if different > 1 else 0)
    return total


def test_parameters_of_every_kind_of_column():
    rng = np.random.default_rng(2)
    group = np.repeat([0, 1, 2], 150)
    answers = pd.Categorical.from_codes(
        np.clip(group + rng.integers(0, 3, 450), 0, 4), list("abcde"), ordered=True
    )
    X = pd.DataFrame(
        {
            "number": rng.normal(size=450) + 4.0 * group,
            "few": rng.integers(0, 5, 450) + 4.0 * (group == 1),
            "two": (rng.random(450) < 0.1 + 0.8 * (group == 2)).astype(float),
            "same": 1.0,
            "hour": (8.0 * group + rng.normal(0, 1.5, 450)).round() % 24,
            "word": np.array(list("xyz"), object)[np.where(rng.random(450) < 0.2, 0, group)],
            "answer": answers,
        }
    )
    model = CRAFT(random_state=0, covariance="diagonal", kinds={"hour": ("periodic", 24)}).fit(X)
    assert model.n_clusters_ == 3
    assert model._fitted.encoding.codes == ["few"]
    columns = list(model.schema_.columns)
    levels = [min(X[name].nunique(), 64) for name in columns]
    kinds = ["category" if name in ("word", "few") else "tilted" for name in columns]
    levels[columns.index("number")] = len(model._fitted.encoding.numbers[0].values)
    assert 50 <= levels[columns.index("number")] <= 64
    assert model.n_parameters_ == reference_parameters(model, kinds, levels)
    one = model.at(1, X)
    assert one.n_parameters_ == sum(T - 1 for T in levels if T > 1)
    normal = CRAFT(1, null="normal").fit(X[["number", "word"]])
    assert normal.n_parameters_ == 2 + 2


def test_parameters_of_covariances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) + 3.0 * rng.normal(size=(400, 1))
    model = CRAFT(1, covariance="full").fit(X)
    tables = sum(len(own.values) - 1 for own in model._fitted.encoding.numbers)
    assert model.n_parameters_ >= tables + 3


@pytest.mark.parametrize("K", [1, 2, 3])
def test_parameters_of_a_shared_covariance(K):
    """Clusters that share a covariance have means of their own, but share m variances and the pairs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) + 3.0 * rng.normal(size=(400, 1))
    X += 9.0 * rng.integers(0, K, 400)[:, None] * [1.0, -1.0, 0.0]
    own, tied = (CRAFT(K, covariance=form, random_state=0).fit(X) for form in ("full", "tied"))
    assert all(len(each.columns) == 3 for model in (own, tied) for each in model.covariances_)
    assert own.n_parameters_ - tied.n_parameters_ == (K - 1) * (3 + 3)


def test_partitions_and_threads_give_the_same_bits():
    X = mixed(500)
    here = CRAFT(random_state=0, n_threads=1).fit(X)
    others = [CRAFT(random_state=0, n_threads=2).fit(X)]
    others += [CRAFT(random_state=0).fit(Partitions(cut(X, even(500, n)))) for n in (1, 4)]
    for other in others:
        np.testing.assert_array_equal(other.soft_sizes_, here.soft_sizes_)
        assert [getattr(other, name) for name in NAMES] == [getattr(here, name) for name in NAMES]


def test_models_that_do_not_know_the_rows(heart, tmp_path):
    model = CRAFT(3, random_state=0).fit(heart)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.soft_sizes_, model.soft_sizes_)
    assert again.icl_ == model.icl_
    check(model.at(2, heart), heart)
    for other in (model.at(2), CRAFT(), PaperCRAFT(2, random_state=0).fit(heart)):
        for name in ("soft_sizes_", "assignment_entropy_", "aic_", "bic_", "icl_"):
            assert not hasattr(other, name)
    assert "bic" not in model.at(2).summary().attrs
    changed = PaperCRAFT(2, model="likelihood", random_state=0).fit(heart)
    assert hasattr(changed, "bic_")
    changed.set_params(model="paper").fit(heart)
    assert not hasattr(changed, "bic_")


@pytest.mark.parametrize("name", ["n_parameters_", "aic_", "bic_", "icl_", "log_likelihood_", "soft_sizes_"])
def test_criteria_before_a_fit(name):
    with pytest.raises(NotFittedError, match="This CRAFT instance is not fitted yet"):
        getattr(CRAFT(), name)
    assert not hasattr(CRAFT(), name)
