"""One continuous factor behind the columns, against clusters: a Likert battery is no groups."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from craftc import CRAFT
from craftc._kernels import craft_factor as factor_kernel
from craftc.craft import one_factor
from craftc.craft.one_factor import OneFactor
from tests.common import assert_same_bits, random_table
from tests.estimators.test_craft_dependence import config_of
from tests.reference import factor as reference

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
    gain = model.fit(nodes, np.random.default_rng(0).dirichlet(np.ones(3), len(codes)), normal=True)
    prior = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
    expected = 0.0
    for row in codes:
        alone, along = 0.0, np.ones(3)
        for level, place in zip(row, model.places, strict=True):
            if level < place.stop - place.start:
                alone += np.log(model.shares[place][level])
                along *= np.exp(model.log_shares[place][level])
        expected += np.log(prior @ along) - alone
    assert gain == pytest.approx(expected)
    for place in model.places:
        np.testing.assert_allclose(np.exp(model.log_shares[place]).sum(axis=0), 1.0)


@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_is_its_reference(seed):
    """Numbers and categories of several widths, missing cells, weights of rows and columns, with normal
    places, which leave columns out, and with points.
    """
    rng = np.random.default_rng(seed)
    table = random_table(n=90, p=3, q=3, seed=seed)
    config, _ = config_of(table)
    codes, weight = one_factor._distinct(config.table.codes, rng.integers(1, 4, 90).astype(float))
    for nodes, normal in ((np.linspace(-2.0, 2.0, 9), True), (np.array([-0.7, 0.1, 0.8]), False)):
        model = one_factor._Factor(codes, weight, range(6), config.background, 1.0)
        model.column_weights[:] = rng.choice([0.5, 1.0, 2.0], 6)
        places = rng.dirichlet(np.ones(len(nodes)), len(codes))
        columns = [
            (np.eye(place.stop - place.start) - model.shares[place])[:, 1:] if s is None else s
            for place, s in zip(model.places, model.statistics, strict=True)
        ]
        levels = np.where(model.rows < 0, -1, model.rows - model.starts[:-1])
        expected, held = reference.fit(
            levels,
            weight,
            columns,
            model.column_weights,
            model.price,
            model.held > 0,
            nodes,
            places,
            log_softmax(-0.5 * nodes**2) if normal else [],
            one_factor._PRUNED if normal else (),
            one_factor._LEAST_PASSES,
            one_factor._PASSES,
        )
        assert model.fit(nodes, places, normal=normal) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        np.testing.assert_array_equal(model.held > 0, held)


def digest():
    """The bits of fits with normal places and with points."""
    rng, found = np.random.default_rng(0), hashlib.sha256()
    config, _ = config_of(random_table(n=90, p=3, q=3, seed=0))
    codes, weight = one_factor._distinct(config.table.codes, rng.random(90))
    for T, normal in ((21, True), (3, False), (8, False)):
        model = one_factor._Factor(codes, weight, range(6), config.background, 1.0)
        gain = model.fit(np.linspace(-2.0, 2.0, T), rng.dirichlet(np.ones(T), len(codes)), normal=normal)
        found.update(np.array(gain).tobytes() + model.log_shares.tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("instructions", ["v3", "v4"])
def test_same_bits_for_any_instruction_set(instructions):
    assert_same_bits(__name__, instructions)


def test_the_kernel_checks_what_it_reads():
    table = random_table(n=40, p=1, q=2, seed=3)
    config, _ = config_of(table)
    model = one_factor._Factor(
        *one_factor._distinct(config.table.codes, np.ones(40)), range(3), config.background, 0.0
    )
    places = np.full((len(model.rows), 2), 0.5)
    model.rows[0, 0] = len(model.counts)
    with pytest.raises(ValueError, match="rows"):
        model.fit(np.array([-1.0, 1.0]), places)
    for kernel, given in (
        (factor_kernel.sums_of_rows, model.counts),
        (factor_kernel.sums_of_levels, model.weight),
    ):
        with pytest.raises(ValueError, match="rows"):
            kernel(model.rows, given, np.empty(len(model.counts if given is model.weight else model.rows)))
    model.rows[0, 0] = 0
    with pytest.raises(ValueError, match="places"):
        model.fit(np.array([-1.0, 1.0]), places[1:])


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
