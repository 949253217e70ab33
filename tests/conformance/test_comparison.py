"""The comparison with other packages: every method labels a mixed table; factor scores are those of PCA."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="the comparison reads frames")
comparison = importlib.import_module("benches.peers.comparison")


def mixed(n=80):
    """Two groups in two numbers and two categories, with missing cells."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % 2
    frame = pd.DataFrame(
        {
            "x": rng.normal(6.0 * group),
            "y": rng.normal(-6.0 * group),
            "a": np.where(rng.random(n) < 0.9, np.array(["p", "q"])[group], "r"),
            "b": np.array(["u", "v"])[group],
        }
    ).astype({"a": object, "b": object})
    frame.loc[3, "x"], frame.loc[5, "a"] = np.nan, None
    return comparison.Table(frame, ["x", "y"], ["a", "b"], group)


@pytest.mark.parametrize("name", comparison.METHODS)
def test_methods_label_every_row(name, monkeypatch):
    monkeypatch.setattr(comparison, "MOST", 3)
    method, table = comparison.METHODS[name], mixed()
    pytest.importorskip(method.module.partition(".")[0], reason="the method is that of another package")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in [2] * method.given + [None] * method.own:
            labels = method.labels(table, k, 0)
            assert labels.shape == (len(table.frame),)
            assert 2 <= comparison.count(labels) <= 10
            assert comparison.adjusted_rand_score(table.truth, labels) > 0.15


def test_factor_scores_are_principal_components_of_numbers_and_correspondence_of_categories():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    numbers = comparison.famd(comparison.Table(frame, list("abcd"), [], np.zeros(50)))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = np.sort(np.linalg.eigvalsh(Z.T @ Z))[::-1][: numbers.shape[1]]
    np.testing.assert_allclose((numbers**2).sum(axis=0), expected)
    levels = pd.DataFrame({"a": list("xyz") * 20, "b": list("uuvv") * 15})
    scores = comparison.famd(comparison.Table(levels, [], ["a", "b"], np.zeros(60)))
    assert scores.shape[1] == 2  # 3 + 2 - 2 axes of variance 1: two are kept
    np.testing.assert_allclose((scores**2).mean(axis=0), 1.0)


def test_cells_say_why_there_is_no_score():
    answered = comparison.Outcome([2, 3], [0.25, 0.35], [0.5, 0.7])
    assert comparison.cell(answered, True) == "2-3; .30"
    assert comparison.seconds(answered) == "0.6"
    assert comparison.cell(comparison.Outcome(failure="> 120 s"), True) == "> 120 s"
    assert comparison.cell(comparison.Outcome(failure="ValueError: no"), False) == "-"
