"""Rules of clusters and their tree: their figures, counted by a database, and what they leave out."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import craftc
from craftc.describe.rule_search import RowHistograms, best_rule
from tests.app.test_profile import drawn

pd = pytest.importorskip("pandas", reason="tables of mixed columns are frames")


def counted(rules, table):
    """The result of the statement in a database, by row."""
    statement = craftc.to_sql(rules, "t", key="row", dialect="sqlite")
    cells = table.astype(
        {name: object for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)}
    )
    with closing(sqlite3.connect(":memory:")) as database:
        cells.assign(row=np.arange(len(table))).to_sql("t", database, index=False)
        found = pd.read_sql(statement, database).set_index("row").sort_index()
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("given", [True, False])
def test_figures_are_those_that_a_database_counts(seed, given):
    pytest.importorskip("sqlglot")
    table, _, _ = drawn(seed)
    model = craftc.CRAFT(3, random_state=0, n_init=1).fit(table)
    rules = model.rules(table) if given else model.rules(max_conditions=1)
    found = counted(rules, table)
    for n, line in enumerate(rules.frame.itertuples(), 1):
        own, holds = model.labels_ == line.cluster, found[f"rule_{n}"].to_numpy() == 1
        assert line.coverage == pytest.approx(holds[own].mean())
        assert line.precision == pytest.approx(own[holds].mean())
        assert 0 <= line.conditions <= 3
    if given:
        numbers = np.empty(model.n_clusters_, int)
        numbers[rules.order] = np.arange(1, model.n_clusters_ + 1)
        same = found["cluster"].to_numpy() == numbers[model.labels_]
        assert rules.agreement == pytest.approx(same.mean())
        assert rules.notes == []
    else:
        assert "pass X" in rules.notes[0]


def test_dialects():
    duckdb = pytest.importorskip("duckdb")
    dialects = pytest.importorskip("craftc.export.expressions").DIALECTS
    table, _, _ = drawn(6)
    rules = craftc.CRAFT(3, random_state=0, n_init=1).fit(table).rules(table)
    texts = {dialect: craftc.to_sql(rules, "t", key="row", dialect=dialect) for dialect in dialects}
    assert all(text.count("AS rule_") == 3 or "rule_3" in text for text in texts.values())
    with duckdb.connect() as database:
        database.register("t", table.assign(row=np.arange(len(table))))
        found = database.sql(texts["duckdb"]).df().set_index("row").sort_index()
    np.testing.assert_array_equal(found, counted(rules, table))


def test_one_condition_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(20):
        codes = rng.integers(0, 6, (40, 1))
        labels = rng.integers(0, 2, 40).astype(np.int32)
        weight = rng.integers(0, 3, 40).astype(float)
        size = weight[labels == 0].sum()
        for ordered in (True, False):
            histograms = RowHistograms(codes, np.array([5]), labels, weight, 2, [ordered], [0])
            found = best_rule(histograms, 0, size, 1).f1
            scores = [2 * size / (weight.sum() + size)]  # of no condition
            for subset in range(1, 32):
                levels = [t for t in range(5) if subset >> t & 1]
                if ordered and levels[-1] - levels[0] >= len(levels):
                    continue
                inside = np.isin(codes[:, 0], levels)
                hit = weight[inside & (labels == 0)].sum()
                scores.append(2 * hit / (weight[inside].sum() + size))
            # a condition and a second end have to add 0.01 each
            assert max(scores) - 0.02 - 1e-12 <= found <= max(scores) + 1e-12


def test_three_conditions_find_a_planted_box():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, (4000, 5))
    box = (codes[:, 1] <= 1) & (codes[:, 3] >= 2) & np.isin(codes[:, 4], [0, 2])
    ordered = [True, True, True, True, False]
    histograms = RowHistograms(
        codes, np.full(5, 4), box.astype(np.int32), np.ones(4000), 2, ordered, range(5)
    )
    rule = best_rule(histograms, 1, float(box.sum()), 3)
    assert (rule.coverage, rule.precision) == (1.0, 1.0)
    assert sorted(condition.column for condition in rule.conditions) == [1, 3, 4]
    assert best_rule(histograms, 1, float(box.sum()), 2).precision < 1


def test_words():
    rng = np.random.default_rng(2)
    n = 400
    group = np.arange(n) % 2
    table = pd.DataFrame(
        {
            "visits": rng.integers(0, 15, n) + 15 * group,
            "since": 19_000.0 + 500 * group + rng.integers(0, 30, n),
            "hour": (23.0 + 12 * group + rng.normal(0, 1, n)) % 24,
            "grade": pd.Categorical(
                np.array(["low", "mid", "high"])[group + (rng.random(n) < 0.3)],
                ["low", "mid", "high"],
                ordered=True,
            ),
            "contact": np.array(["Anna Meyer", "Max Weber", "Jane Doe", "Tom Ray", "Ida Fox", "Lena Ott"])[
                3 * group + np.arange(n) % 3
            ],
        }
    )
    model = craftc.CRAFT(2, kinds={"since": "date", "hour": ("periodic", 24)}, random_state=0).fit(table)
    model.rename_clusters({int(model.labels_[0]): "rare"})
    rules = model.rules(table, max_conditions=1)
    assert rules.agreement == 1
    text = str(rules)
    assert "rare: visits <= 14 (coverage 100 %, precision 100 %)" in text
    assert "visits >= 15" in text
    assert "contact" not in text
    assert "hour" not in text
    dates = craftc.CRAFT(2, kinds={"since": "date"}, random_state=0).fit(table[["since", "hour"]]).rules()
    assert "since <= 2022-0" in str(dates)


def test_weights_count_rows():
    table, weight, _ = drawn(5)
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(table, sample_weight=weight)
    rules = model.rules(table, sample_weight=weight)
    at = np.repeat(np.arange(len(table)), weight)
    repeated = craftc.CRAFT(2, init=[model.labels_[at]], n_init=1, random_state=0).fit(table.iloc[at])
    rows = rules.frame["rows"].sum()
    assert rows == len(at)
    if np.array_equal(repeated.labels_, model.labels_[at]):
        assert str(repeated.rules(table.iloc[at])) == str(rules)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of columns that are near-duplicates or left out
@pytest.mark.parametrize("name", ["heart", "crx", "hepatitis", "bridges"])
def test_the_tree_agrees_at_least_as_well_as_that_of_scikit_learn(data_folder, name):
    table = pd.read_csv(data_folder / f"{name}.csv.gz").iloc[:, :-1]
    model = craftc.CRAFT(max_clusters=6, n_init=1, random_state=0, unusable="drop").fit(table)
    rules = model.rules(table)
    used = table[list(model.schema_.columns)]
    coded = pd.get_dummies(used, dummy_na=True).astype(float)
    coded = coded.fillna(coded.median())
    peer = DecisionTreeClassifier(max_leaf_nodes=2 * model.n_clusters_, random_state=0)
    assert rules.agreement >= peer.fit(coded, model.labels_).score(coded, model.labels_) - 1e-12


def test_bad_input_says_what_to_do():
    table, _, _ = drawn(0)
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(table)
    for options, words in (
        ({"max_conditions": 0}, "max_conditions"),
        ({"max_conditions": 1.5}, "max_conditions"),
        ({"max_leaves": 0}, "max_leaves"),
        ({"sample_weight": np.ones(len(table))}, "sample_weight was passed without X"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            model.rules(**options)
    pytest.importorskip("sqlglot")
    with pytest.raises(ValueError, match="key must name"):
        craftc.to_sql(model.rules(), "t", key=[])
    one = craftc.CRAFT(1, random_state=0).fit(table).rules(table)
    assert one.frame["rule"].tolist() == ["all rows"]
    assert (one.agreement, len(one.tree)) == (1, 1)


def test_rules_of_the_model_know_missing_cells_and_leave_out_tails():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 100)
    table = pd.DataFrame(
        {
            "level": np.array(["a", "b", "c"], object)[group],
            "x": rng.normal(3.0 * group).round(1),
            "y": rng.normal(5.0 * (group == 1)).round(1),
        }
    )
    table.loc[(group == 2) & (rng.random(300) < 0.7), ["level", "x"]] = None
    model = craftc.CRAFT(random_state=0).fit(table)
    expected = model.rules()
    assert "level" in str(expected)
    for column, allowed in conditions_of(expected.root):
        assert len(allowed) == len(model._fitted.encoding.schema.levels[column]) + 1
    found = model.rules(max_conditions=1)
    holds = counted(found, table)
    for n, line in enumerate(found.frame.itertuples(), 1):
        own, inside = model.labels_ == line.cluster, holds[f"rule_{n}"].to_numpy() == 1
        assert line.coverage == pytest.approx((own & inside).sum() / own.sum())
        assert line.precision == pytest.approx((own & inside).sum() / inside.sum())
    smallest = model.cluster_sizes_.min()
    assert all(leaf.counts.sum() >= 0.01 * smallest for leaf in leaves_of(expected.root))


def conditions_of(node):
    """The conditions of a tree."""
    if node.split is not None:
        yield node.split
        for child in node.children:
            yield from conditions_of(child)


def leaves_of(node):
    """The leaves of a tree."""
    if node.split is None:
        yield node
    for child in node.children:
        yield from leaves_of(child)
