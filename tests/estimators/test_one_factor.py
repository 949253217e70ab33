"""One continuous factor behind the columns, against clusters: a Likert battery is no groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from craftc import CRAFT
from craftc.craft import one_factor
from craftc.craft.one_factor import OneFactor
from tests.common import random_table
from tests.estimators.test_craft_dependence import config_of

CUTS = [-1.2, -0.4, 0.4, 1.2]
LETTERS = np.array(list("EDCBA"))


def battery(place, seed, items=8):
    """Answers of five ordered letters to items that depend on the places of the rows, and a noise column."""
    rng = np.random.default_rng(seed)
    answers = place[:, None] * rng.choice([-1.0, 1.0], items)
    answers += rng.logistic(scale=0.5, size=answers.shape)
    frame = pd.DataFrame({f"q{j}": LETTERS[np.digitize(x, CUTS)] for j, x in enumerate(answers.T)})
    return frame.assign(noise=rng.choice(list("xyz"), len(place)))


def factor_of(table, weight=None):
    config, _ = config_of(table, weight)
    weights = np.ones(len(table)) if weight is None else np.asarray(weight, float)
    columns = range(table.schema.n_columns)
    return one_factor.one_factor(config.table.codes, weights, columns, config.background, 2.0)


@pytest.mark.parametrize("seed", range(3))
def test_one_trait_is_a_gradual_pattern(seed):
    """Links of pairs of five levels cost 16 parameters each and save nothing."""
    rng = np.random.default_rng(seed)
    model = CRAFT(random_state=0).fit(battery(rng.normal(size=400), seed))
    assert model.n_clusters_ > 1
    factor = model._fitted.links.factor
    assert factor.saving > 2.0 * model._fitted.links.saving
    assert not factor.separate
    assert model.dependence_ratio_ > 1.0
    assert {*model._on_factor} == set(range(8))  # and not the noise
    structure = model.summary().attrs["structure"]
    assert structure.startswith("Pieces of a gradual pattern")
    assert "one continuous factor behind the columns saves" in structure


def test_page_and_report_name_the_columns_of_the_factor(tmp_path, capsys):
    pytest.importorskip("jinja2")
    pytest.importorskip("click")
    from craftc.cli import main

    items = battery(np.random.default_rng(0).normal(size=400), 0)
    items.to_csv(tmp_path / "items.csv", index=False)
    assert main(["cluster", str(tmp_path / "items.csv"), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "strongest links" not in said
    names = said.partition("on the factor: ")[2].partition("\n\n")[0].replace(",", " ").split()
    assert sorted(names) == [f"q{j}" for j in range(8)]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert f"lies behind {', '.join(names[:-1])} and {names[-1]}." in page


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("places", [[-1.0, 1.0], [-1.6, 0.0, 1.6]])
def test_groups_are_no_trait(seed, places):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, len(places), 400)
    model = CRAFT(random_state=0).fit(battery(np.array(places)[group], seed))
    factor, path = model._fitted.links.factor, model.merge_path_
    assert factor.separate or factor.saving <= path[-1].objective - path[0].objective  # no rival is not asked
    assert model.dependence_ratio_ <= 1.0
    assert "gradual" not in model.summary().attrs["structure"]


def test_links_of_columns_without_clusters_do_not_count():
    """Two groups, and besides them a number that follows another one closely."""
    rng = np.random.default_rng(0)
    n, age = 500, rng.uniform(20, 80, 500)
    group = rng.integers(0, 2, n)
    far = {f"x{j}": rng.normal(2.4 * group) for j in range(4)}
    frame = pd.DataFrame({**far, "age": age, "income": age + rng.normal(size=n)})
    model = CRAFT(random_state=0).fit(frame)
    assert model.n_clusters_ == 2
    assert model.column_links_[0][:2] == ("age", "income")
    saved = model.merge_path_[-1].objective - model.merge_path_[0].objective
    assert model.column_links_[0][2] > saved
    assert model.dependence_ratio_ <= 1.0


def test_the_gain_is_that_of_the_marginal_likelihood():
    table = random_table(n=60, p=2, q=3, seed=1)
    config, _ = config_of(table)
    codes = np.unique(config.table.codes.astype(np.int64), axis=0)
    model = one_factor._Factor(codes, np.ones(len(codes)), range(5), config.background, 0.0)
    nodes = np.array([-1.0, 0.0, 1.0])
    gain = model.fit(nodes, np.random.default_rng(0).dirichlet(np.ones(3), len(codes)), prune=True)
    prior = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
    expected = 0.0
    for row in codes:
        alone, along = 0.0, np.ones(3)
        for level, place in zip(row, model.places, strict=True):
            if level < place.stop - place.start:
                alone += model.base[place][level]
                along *= np.exp(model.log_shares[place][level])
        expected += np.log(prior @ along) - alone
    assert gain == pytest.approx(expected)
    for place in model.places:
        np.testing.assert_allclose(np.exp(model.log_shares[place]).sum(axis=0), 1.0)


def test_weights_equal_repeated_rows_bit_for_bit():
    table = random_table(n=80, p=2, q=3, seed=2)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    repeated = np.random.default_rng(1).permutation(np.repeat(np.arange(80), weight))
    assert factor_of(table, weight) == factor_of(table.take(repeated))


def test_tables_without_a_factor():
    noise = np.random.default_rng(0).normal(size=(200, 5))
    assert CRAFT(2, random_state=0).fit(noise)._fitted.links.factor == OneFactor()
    assert CRAFT(2, random_state=0).fit(noise[:, :1])._fitted.links.factor == OneFactor()
    missing = np.full((30, 3), np.nan)
    missing[:, 0], missing[:3, 1], missing[-3:, 2] = np.arange(30.0), [1.0, 2.0, 3.0], [5.0, 1.0, 2.0]
    assert CRAFT(2, random_state=0).fit(missing)._fitted.links.factor == OneFactor()
