"""The report of a model: counts and facts by hand, every kind of table and target, text that looks like HTML,
size, same bytes.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import craftc
from craftc import CRAFT, DPMeans, MixedTable, PaperCRAFT, report
from craftc.craft.answers.stability import Stability
from craftc.datasets import load_heart
from craftc.describe import words
from craftc.describe.facts import Facts
from craftc.describe.statistics import column_statistics
from craftc.describe.view import ClusterView, Links
from craftc.report.assigning import page_profile
from craftc.report.columns import Pairs, read_columns, with_rows
from craftc.report.figures import figure
from craftc.report.merge_tree import merge_tree
from craftc.table.moments import Moments, integer_grid
from tests.common import fixed_price

pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")

LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2], np.int32)
TABLE = {
    "level": np.array(["a", "a", "a", "b", "b", "b", "c", None], dtype=object),
    "few": np.array([1.0, 1, 1, 2, 2, 2, 3, np.nan]),
    "same": np.array(["x"] * 8, dtype=object),
}


class Text(HTMLParser):
    """The visible text of a page, the names of its elements, and the numbers of rows of its tables."""

    def __init__(self, html):
        super().__init__()
        self.words, self.elements, self.attributes = [], [], []
        self._hidden = 0
        self.feed(html)
        self.text = " ".join(" ".join(self.words).replace("\u00a0", " ").split())

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += [name for name, _ in attributes]
        self._hidden += tag in ("style", "script")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data):
        if not self._hidden:
            self.words.append(data)


@pytest.fixture(scope="module")
def heart():
    data = load_heart()
    return data.data, np.asarray(data.target), CRAFT(random_state=0).fit(data.data)


@pytest.fixture(scope="module")
def groups():
    """600 rows in three groups, with an own level and a mean each, and missing cells."""
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], [300, 200, 100])
    x = rng.normal(size=600) + np.array([0.0, 6.0, 6.0])[truth]
    x[::10] = np.nan
    level = np.where(rng.random(600) < 0.9, np.array(["red", "blue", "green"])[truth], "grey")
    frame = pd.DataFrame(
        {
            "x": x,
            "colour": level,
            "shape": np.array(["round", "round", "square"])[truth],
            "noise": rng.normal(size=600),
        }
    )
    return frame, truth, CRAFT(random_state=0).fit(frame)


def page(tmp_path, model, table, **options):
    path = tmp_path / "report.html"
    report.write(model, table, path, **options)
    return path.read_text(encoding="utf-8")


# ---- counts ----


def view_of(frame, labels, gains=None, differs=None, links=None):
    """A view of a partition: all columns differ."""
    table, K = MixedTable.from_data(frame), int(labels.max()) + 1
    grid = integer_grid(table, np.empty(0, np.int64))
    moments = Moments.of_partition(grid, 1.0, table, np.empty(0, np.int64), labels, K)
    shape = K, table.schema.n_columns
    differs = np.ones(shape, bool) if differs is None else np.asarray(differs, bool)
    gains = np.ones(shape) if gains is None else np.asarray(gains, float)
    columns = column_statistics(moments, table.schema)
    view = ClusterView(
        table.schema.columns, columns, moments.sizes, differs, differs, gains, links or Links()
    )
    return with_rows(view, table, labels), table


def columns_of(frame, labels):
    view, table = view_of(frame, labels)
    return read_columns(view, table, labels)


def test_counts_of_a_column_of_levels():
    column = columns_of(TABLE, LABELS)[0]
    assert column.labels == ["a", "b", "c"]
    np.testing.assert_array_equal(column.counts, [[3, 1, 0, 0], [0, 2, 0, 0], [0, 0, 1, 1]])
    np.testing.assert_allclose(column.shares, [[0.75, 0.25, 0], [0, 1, 0], [0, 0, 1], [3 / 7, 3 / 7, 1 / 7]])
    np.testing.assert_allclose(column.missing, [0, 0, 0.5, 1 / 8])


def test_counts_of_a_column_of_few_numbers():
    column = columns_of(TABLE, LABELS)[1]
    assert (column.style, column.labels) == ("values", ["1", "2", "3"])
    np.testing.assert_allclose(column.statistics.means, [1.25, 2, 3, 12 / 7])
    np.testing.assert_allclose(column.statistics.deviations[:3], [np.sqrt(3 / 16), 0, 0])
    np.testing.assert_allclose(column.statistics.missing, [0, 0, 0.5, 1 / 8])
    np.testing.assert_equal(column.statistics.value, [np.nan, 2, 3, np.nan])
    np.testing.assert_equal(column.statistics.quartiles[0], [1, 1, 1.25])


def test_a_frequent_value_is_a_bar_of_its_own():
    x = np.concatenate([np.zeros(60), np.arange(1, 41)])
    column = columns_of({"x": x, "y": x * 2}, np.repeat([0, 1], 50).astype(np.int32))[0]
    assert (column.style, column.labels) == ("bands", ["0", "1 – 13", "14 – 26", "27 – 40"])
    np.testing.assert_array_equal(column.counts, [[50, 0, 0, 0, 0], [10, 13, 13, 14, 0]])


def test_a_histogram_counts_every_row_and_bands_hold_an_eighth():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=4000), rng.integers(0, 3, 4000).astype(np.int32)
    x[:100] = np.nan
    column = columns_of({"x": x, "y": x}, labels)[0]
    np.testing.assert_array_equal(column.bins.sum(axis=1), np.bincount(labels[100:], minlength=3))
    assert column.counts[:, -1].sum() == 100
    np.testing.assert_allclose(column.shares[-1], np.full(8, 1 / 8), atol=0.02)
    inner = (x > column.edges[3]) & (x < column.edges[4]) & (labels == 1)
    assert column.bins[1, 3] == inner.sum()
    np.testing.assert_allclose(column.statistics.means[:3], [np.nanmean(x[labels == k]) for k in range(3)])


def test_rare_levels_count_together():
    names = np.array([f"level {i:03d}" for i in range(400)] * 2 + ["often"] * 200, dtype=object)
    column = columns_of({"a": names, "b": names}, np.zeros(1000, np.int32))[0]
    assert column.n_codes == 250
    assert column.labels[-1] == "152 rare levels"
    assert column.counts.sum() == 1000
    assert column.counts[0, -2] == 304


def test_columns_that_say_the_same():
    columns = columns_of({**TABLE, "copy": TABLE["level"]}, LABELS)
    pairs = Pairs(columns)
    assert pairs.alike(0, 3) == pytest.approx(1.0)
    assert pairs.alike(0, 1) == pytest.approx(1.0)
    assert pairs.alike(0, 2) == 0.0
    np.testing.assert_allclose(pairs.joint(3, 0), np.diag([3, 3, 1]) / 7)


# ---- facts ----


def test_a_coarser_copy(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 300)
    table = pd.DataFrame({"age": age, "band": np.digitize(age, [31, 46, 62]).astype(str)})
    with pytest.warns(UserWarning, match="coarser copy"):
        model = CRAFT(random_state=0).fit(table)
    text = Text(page(tmp_path, model, table)).text
    assert "band is a coarser copy of age" in text
    assert "say the same" not in text
    inches = pd.DataFrame({"cm": (cm := rng.normal(np.repeat([160.0, 190.0], 150), 3.0).round(1))})
    inches["inch"], inches["x"] = (cm / 2.54).round(1), rng.normal(np.repeat([0.0, 5.0], 150), 1.0).round(1)
    with pytest.warns(UserWarning, match="near-duplicates"):
        model = CRAFT(random_state=0).fit(inches)
    assert "cm and inch say the same" in Text(page(tmp_path, model, inches)).text


def facts_of(frame, labels, gains=None, differs=None, links=None):
    return Facts(view_of(frame, labels, gains, differs, links)[0])


def test_own_and_shared():
    labels = np.repeat([0, 1, 2, 3], 25).astype(np.int32)
    x = np.linspace(0, 1, 100) + np.array([5.0, 5, 0, -5])[labels]
    facts = facts_of(
        {"x": x, "c": np.array(["a", "b", "b", "z"], dtype=object)[labels]},
        labels,
        differs=[[1, 1], [1, 1], [0, 1], [1, 0]],
    )
    assert [facts.of(k, 0).way for k in range(4)] == ["higher", "higher", "lower", "lower"]
    assert [facts.of(k, 0).state for k in range(4)] == ["shared", "shared", "background", "own"]
    assert [facts.of(k, 1).state for k in range(4)] == ["own", "shared", "shared", "background"]
    assert facts.of(0, 0).others == [1]
    assert facts.of(0, 0).shared_with == "2"
    assert facts.of(2, 1).others == [1]


def test_facts_in_words():
    labels = np.repeat([0, 1], [40, 60]).astype(np.int32)
    frame = {
        "level": np.array((["a"] * 16 + ["b"] * 16 + ["c"] * 8) + (["d"] * 50 + ["a"] * 10), dtype=object),
        "x": np.concatenate([np.full(40, 7.0), np.linspace(0, 3, 60)]),
        "y": np.concatenate([np.linspace(4.9, 5.1, 40), np.linspace(0, 10, 60)]),
    }
    facts = facts_of(frame, labels)
    assert facts.of(0, 0).long == "level is b or c in 60 % of rows, in 24 % of the table"
    assert facts.of(1, 0).cell == "d: 83 %"
    assert facts.of(0, 1).long == "x is 7 in all rows (table mean 3.7)"
    assert facts.of(1, 1).long == "x is lower: 1.5 on average, 3.7 in the table"
    assert facts.of(0, 2).long == "y spreads less: 5 ± 0.0592, table 5 ± 2.274"
    assert facts.of(0, 2).sign == "◆"


def test_leading_facts_do_not_repeat_each_other():
    labels = np.repeat([0, 1], 50).astype(np.int32)
    number = np.repeat([1.0, 2.0], 50)
    frame = {
        "number": number,
        "word": np.array(["one", "two"], dtype=object)[labels],
        "x": np.linspace(0, 1, 100) + 3 * (labels == 0),
    }
    repeated = Links({(0, 1): 1.0, (0, 2): 0.8, (1, 2): 0.8})
    facts = facts_of(frame, labels, [[90, 80, 70], [90, 80, 70]], links=repeated)
    assert [fact.words for fact in facts.leading(0)] == ["one", "high x"]
    facts.view.links.alike[1, 2] = 0.95
    assert [fact.words for fact in facts.leading(0)] == ["one"]


def test_bars_show_six_levels_at_most():
    levels = np.array([f"l{i}" for i in range(9)] * 10 + ["l0"] * 10, dtype=object)
    column = columns_of({"a": levels, "b": levels}, np.repeat([0, 1], 50).astype(np.int32))[0]
    bars = figure(column, 0).bars
    assert [bar.label for bar in bars] == ["l0", "l1", "l2", "l3", "l4", "4 others"]
    assert sum(bar.table for bar in bars) == pytest.approx(1.0)


# ---- the page ----


def test_sections_of_a_page(heart, tmp_path):
    table, target, model = heart
    text = Text(page(tmp_path, model, table, target=target, title="heart")).text
    sizes = sorted(np.bincount(model.labels_).tolist(), reverse=True)
    assert f"The 270 rows fall into {model.n_clusters_} pieces of a gradual pattern" in text
    saving = words.nats(model.merge_path_[-1].objective - model.objective_)
    assert f"They save {saving} nats over one cluster, with permuted columns 0; links between" in text
    assert "Permuted columns." in text
    assert text.count(f"{sizes[0]} ({words.percent(sizes[0] / 270)}") >= 2
    for heading in (
        "Before you use this",
        "Overview",
        "How many groups, and which are close",
        "Where the clusters lie",
        "Which features make which cluster",
        "How to tell the clusters apart by hand",
        "All columns by cluster",
        "Each cluster",
        "Columns that hang together",
        "How sure",
        "Reproduce",
        "Method, in short",
    ):
        assert heading in text
    for name in [*model.cluster_names_, *model.schema_.columns]:
        assert name in text
    assert f"{model.objective_:,.2f} nats with {model.n_clusters_} clusters" in text
    clear = model.predict_proba(table)[np.arange(270), model.labels_] >= 0.9
    assert f"{words.percent(clear.mean())} of the rows are placed" in text
    assert "stability = model.stability(table)" in text


def test_map_rules_and_all_columns(heart, tmp_path):
    table, _, model = heart
    html = page(tmp_path, model, table)
    text = Text(html).text
    assert html.count('class="area"') == html.count('class="dots"') == model.n_clusters_ == 2
    assert html.count("h0") >= 270
    assert re.search(r"also in question: 2 for \d+ % of its rows", text)
    rules = model.rules(table)
    for rule in rules.rules:
        assert rules.text(rule.conditions) in text
        assert words.percent(rule.coverage) in text
    assert f"which gives {words.percent(rules.agreement)} of the rows their cluster" in text
    for cell in model.profile(table).frame["all"]:
        assert cell in text
    one = Text(page(tmp_path, model.at(1), table)).text
    assert "Where the clusters lie" not in one
    assert "All columns by cluster" not in one


def test_a_table_of_many_columns_and_clusters_has_the_important_columns():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(30), 10)
    frame = {f"x{d}": rng.normal(size=300) + (truth if d == 7 else 0) for d in range(300)}
    model = fixed_price(30, cluster_price=0.0, init=[truth]).fit(frame)
    view = model._input_clusters()
    ranked = np.argsort(-view.importances, kind="stable").tolist()
    names = [str(k) for k in range(30)]
    profile, shown = page_profile(model.schema_.encode(frame), model.labels_, view, names, ranked)
    assert 100 < shown < 300
    assert "x7" in [column.name for column in profile.columns]
    assert [column.name for column in profile.columns] == [f"x{d}" for d in sorted(ranked[:shown])]


def test_same_bytes_from_every_kind_of_table(heart, tmp_path):
    table, target, model = heart
    frame = pd.DataFrame(table)
    first = page(tmp_path, model, frame, target=target)
    assert page(tmp_path, model, frame, target=target) == first
    assert page(tmp_path, model, {name: frame[name].to_numpy() for name in frame}, target=target) == first
    assert page(tmp_path, model, model.schema_.encode(frame), target=target) == first
    for library in ("polars", "pyarrow"):
        other = pytest.importorskip(library)
        assert (
            page(
                tmp_path,
                model,
                other.table(dict(frame)) if library == "pyarrow" else other.from_pandas(frame),
                target=target,
            )
            == first
        )


def test_the_target_may_be_a_column_of_the_table(groups, tmp_path):
    frame, truth, model = groups
    kinds = np.array(["first", "second", "third"])[truth]
    expected = page(tmp_path, model, frame, target=pd.Series(kinds, name="kind"))
    assert page(tmp_path, model, frame.assign(kind=kinds), target="kind") == expected
    assert (
        page(
            tmp_path,
            model,
            {**{name: frame[name].to_numpy() for name in frame}, "kind": kinds},
            target="kind",
        )
        == expected
    )
    assert "The target, kind, took no part" in expected
    assert page(tmp_path, model, frame, target=kinds) != expected  # an array has no name


def test_targets_of_classes_numbers_and_many_classes(groups, tmp_path):
    frame, truth, model = groups
    text = Text(page(tmp_path, model, frame, target=np.array(["yes", "no", "no"])[truth])).text
    first = model.labels_ == np.bincount(model.labels_).argmax()
    share = (truth[first] == 0).mean()
    assert f"yes {words.percent(share)} (table 50 %, lift {share / 0.5:.2f})" in text
    y = np.where(truth == 0, 10.0, 20.0) + np.linspace(-1, 1, 600)
    text = Text(page(tmp_path, model, frame, target=y)).text
    assert "(table 15" in text
    assert "quarters of the table" in text
    text = Text(page(tmp_path, model, frame, target=[f"class {i % 12}" for i in range(600)])).text
    assert "9 others (75 % of the table)" in text
    half = np.where(np.arange(600) % 2, "seen", None)
    assert (
        "50 % of its cells are missing and do not count"
        in Text(page(tmp_path, model, frame, target=half)).text
    )


def test_missing_cells_are_said(groups, tmp_path):
    frame, _, model = groups
    text = Text(page(tmp_path, model, frame)).text
    assert "60 rows have missing cells" in text
    assert "In x (10 %)" in text


def test_own_and_shared_features_are_marked(groups, tmp_path):
    frame, _, model = groups
    html = page(tmp_path, model, frame)
    assert model.n_clusters_ == 3
    assert '<b>shape</b> <span class="tag own-tag">own</span>' in html  # square, in the third group alone
    assert re.search(r'<b>x</b> <span class="tag">shared with [23]</span>', html)


def test_unusual_rows_are_those_of_most_cost(groups, tmp_path):
    frame, _, model = groups
    cost = model.transform(frame)[np.arange(600), model.labels_]
    html = page(tmp_path, model, frame)
    card = html[html.index('<article id="c1"') : html.index('<article id="c2"')]
    members = np.flatnonzero(model.labels_ == np.bincount(model.labels_).argmax())
    worst = members[np.argsort(-cost[members], kind="stable")[:3]]
    shown = re.findall(r'<span class="vh">Row </span>(\d+)', card)
    assert shown == [*map(str, worst)]


def test_shares_of_unusual_cells_are_those_of_rows_with_a_value_and_usual_cells_are_not_shown(tmp_path):
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 200)
    frame = pd.DataFrame({"x": rng.normal(6.0 * group), "same": np.where(group, 1.0, 0.0), "level": "usual"})
    frame.loc[::2, "level"] = None
    frame.loc[[5, 15, 25, 205], "level"] = "odd"  # 3 of 100, and 1 of 100
    html = page(tmp_path, CRAFT(random_state=0).fit(frame), frame)
    shown = set(re.findall(r"level odd</b>[^(]*\((in [^,]*),", html.replace("\u00a0", " ")))
    assert shown == {"in 3 %", "in 1 %"}
    assert "0.0 nats" not in html


def test_units_of_columns_are_on_the_page(tmp_path):
    rng = np.random.default_rng(0)
    minutes = rng.integers(5, 90, 300)
    text = {
        "wait": [f"{m // 60}h {m % 60}m" for m in minutes],
        "paid": [f"{x:.2f} €" for x in rng.gamma(3, 20, 300)],
        "n": rng.poisson(9, 300),
    }
    for groups in (False, True):
        more = {"level": np.where((minutes < 40) ^ (np.arange(300) % 9 == 0), "a", "b")} if groups else {}
        table = craftc.read_table(pd.DataFrame(text | more))
        model = CRAFT(random_state=0).fit(table)
        assert model.n_clusters_ == 1 + groups
        assert "Units: wait in hours, paid in €." in Text(page(tmp_path, model, table)).text
    plain = table[["n", "level"]]
    assert "Units:" not in page(tmp_path, CRAFT(random_state=0).fit(plain), plain)


def test_one_cluster(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=200), "y": rng.normal(size=200), "c": rng.choice(["red", "blue"], 200)}
    )
    text = Text(page(tmp_path, CRAFT(random_state=0).fit(frame), frame, target=frame["x"] > 0)).text
    assert "The 200 rows do not fall into groups" in text
    assert "The columns" in text
    assert "Unusual rows" in text
    for absent in ("Overview", "Merge tree", "Which features make", "How sure", "Probability"):
        assert absent not in text


def many_groups(n_clusters, n_columns=10, size=60):
    """Groups that differ in most of ten columns of six levels each, and the groups as a start partition."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(n_clusters), size)
    frame = {}
    for d in range(n_columns):
        level = np.where(
            rng.random(len(truth)) < 0.9,
            rng.integers(0, 6, n_clusters)[truth],
            rng.integers(0, 6, len(truth)),
        )
        frame[f"column_{d}"] = np.array([f"level {v}" for v in range(6)], dtype=object)[level]
    return pd.DataFrame(frame), truth


def test_all_clusters_are_shown(tmp_path):
    frame, truth = many_groups(18)
    model = CRAFT(init=[truth], random_state=0).fit(frame)
    assert model.n_clusters_ == 18
    html = page(tmp_path, model, frame)
    assert "18 groups" in html
    assert html.count("<article") == 18
    assert html.count("Figures and rows") == 6  # cards after the twelfth are closed
    assert "16 groups" in page(tmp_path, model.at(16), frame)


def test_merge_tree_of_a_path():
    frame, truth = many_groups(6)
    model = CRAFT(init=[truth], random_state=0).fit(frame)
    path, sizes = model.merge_path_, np.bincount(model.labels_)
    order = np.argsort(-sizes, kind="stable")
    tree = merge_tree(path, sizes[order], np.argsort(order))
    assert sorted(tree.order) == list(range(6))
    one, best = path[-1].objective, min(step.objective for step in path)
    assert tree.saving == pytest.approx(one - path[0].objective)
    assert tree.kept[3] == pytest.approx((one - path[3].objective) / (one - best))
    assert tree.words.count(" joins ") == 5
    first = [number + 1 for number in sorted(np.argsort(order)[list(path[1].merged)].tolist())]
    assert {int(word) for word in tree.words.split(" at ")[0].split(" joins ")} == set(first)
    alone = CRAFT(1).fit(frame)
    assert merge_tree(alone.merge_path_, np.array([360]), np.array([0])) is None


def test_more_clusters_than_pay_for_themselves(heart, tmp_path):
    table, _, found = heart
    model = CRAFT(4, random_state=0).fit(table)
    assert found.n_clusters_ == 2
    assert min(model.merge_path_, key=lambda step: step.objective).n_clusters == 2
    text = Text(page(tmp_path, model, table)).text
    assert "4 groups were asked for, 2 would be found" in text
    assert "2 clusters keep 100 %" in text
    tree = merge_tree(model.merge_path_, np.bincount(model.labels_), np.arange(4))
    assert tree.kept[2] == 1.0
    assert tree.kept[4] < 1.0
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 2))
    text = Text(page(tmp_path, CRAFT(5, random_state=0).fit(noise), noise)).text
    assert "One description of all rows is as short or shorter" in text
    assert "5 groups were asked for, 1 would be found" in text


def merged_leaves(path, step):
    """The cluster at a step of every cluster of the first step, by the heirs."""
    now = np.arange(path[0].n_clusters)
    for each in path[1 : step + 1]:
        now = np.asarray(each.heirs)[now]
    return now


def test_stability_in_figures(heart, tmp_path):
    table, _, model = heart
    label = int(np.bincount(model.labels_).argmax())
    overlap = np.tile([0.5, 0.5], (4, 1))
    overlap[:, label] = [1.0, 0.9, 0.8, 0.7]
    stability = Stability(overlap, np.array([2, 2, 2, 3]), np.array([0.8, 1.0]))
    text = Text(page(tmp_path, model, table, stability=stability)).text
    assert "4 fits, each on 80 % of the rows" in text
    assert "85 % 70 % 75 % stable" in text
    assert "50 % 50 % 0 % unstable" in text
    assert "2 in 3, 3 in 1." in text
    assert "0.9 on average, 0.8 at least" in text
    assert "Some groups change when rows are left out" in text
    other = Stability(np.ones((4, 3)), np.full(4, 3), np.ones(0))
    with pytest.raises(ValueError, match="has 2 clusters, stability is of 3"):
        page(tmp_path, model, table, stability=other)
    with pytest.raises(TypeError, match=r"stability must be the result of model\.stability"):
        page(tmp_path, model, table, stability=overlap)


def test_one_refit_or_none(heart, tmp_path, monkeypatch):
    """One table with permuted columns, unless its result is given or left out."""
    table, _, model = heart
    null_test = model.null_test(table, 1)
    by_default, fit, fits = page(tmp_path, model, table), CRAFT.fit, []
    monkeypatch.setattr(CRAFT, "fit", lambda *given, **named: fits.append(1) or fit(*given, **named))
    assert page(tmp_path, model, table) == by_default
    assert len(fits) == 1
    assert page(tmp_path, model, table, null_test=null_test) == by_default
    assert "permuted columns" not in page(tmp_path, model, table, null_test=None).casefold()
    assert len(fits) == 1
    with pytest.raises(TypeError, match="null_test must be the result of"):
        page(tmp_path, model, table, null_test=3)
    with pytest.raises(ValueError, match="has 1 clusters, null_test is of 2"):
        page(tmp_path, model.at(1), table, null_test=null_test)


def headline(tmp_path, model, table, **options):
    html = page(tmp_path, model, table, **options)
    return [
        Text(found).text
        for found in re.findall(r'<h1>(.*?)</h1>|<p class="lead">(.*?)</p>', html)
        for found in found
        if found
    ]


def test_headlines_say_what_the_structure_is(groups, tmp_path):
    frame, _, model = groups
    h1, lead = headline(tmp_path, model, frame)
    assert h1.startswith("The 600 rows fall into 3 clear groups, which differ mainly in ")
    assert lead.startswith("They save ")
    moves = Stability(np.ones((1, 3)), np.array([3]), np.array([0.5]))
    h1, lead = headline(tmp_path, model, frame, stability=moves)
    assert h1.startswith("The 600 rows fall into 3 groups that move with the seed, which differ")
    assert "1 other fit agrees with them by 0.50 (adjusted Rand index)" in lead
    lost = Stability(np.full((1, 3), 0.4), np.array([3]), np.empty(0))
    h1, lead = headline(tmp_path, model, frame, stability=lost)
    assert h1.startswith("The 600 rows fall into 3 groups that change when rows are left out")
    assert lead.endswith("refits on 80 % of the rows overlap with them by 40 %.")
    noise = np.random.default_rng(0).normal(size=(200, 3))
    h1, lead = headline(tmp_path, CRAFT(3, random_state=0).fit(noise), noise)
    assert h1 == "The 200 rows show no structure: 3 groups describe them no better than one."
    assert re.match(r"3 groups cost [\d.]+ nats more than one cluster, with permuted columns ", lead)
    h1, lead = headline(tmp_path, CRAFT(random_state=0).fit(noise), noise)
    assert h1 == "The 200 rows do not fall into groups: one description fits them all."
    assert re.fullmatch(r"One cluster costs [\d,]+ nats, the best partition into two [\d.]+ more\.", lead)
    equal = replace(model.null_test(frame, 1), null_savings=np.array([1e6]))
    h1, lead = headline(tmp_path, model, frame, null_test=equal)
    assert h1 == ("The 600 rows show no structure: columns in a random order make groups of the same worth.")


def test_weights_arrays_and_prices(tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(300, 4)) + 5 * rng.integers(0, 2, (300, 1))).astype(np.float32)
    weighted = CRAFT(random_state=0).fit(X, sample_weight=rng.integers(1, 4, 300).astype(float))
    text = Text(page(tmp_path, weighted, X)).text
    assert "The fit counted rows by weight" in text
    assert "sample_weight=weights" in text
    assert "craftc cluster" not in text
    priced = fixed_price(cluster_price=100.0, random_state=0).fit(X)
    text = Text(page(tmp_path, priced, X)).text
    assert "there is no merge tree" in text
    assert "at the price given" in text


def test_text_that_looks_like_html_is_text(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 60)
    evil = [
        "<script>alert(1)</script>",
        "\"'><img src=x onerror=alert(1)>",
        "</style></title>{{ 7*7 }}{% raw %}",
    ]
    frame = pd.DataFrame(
        {
            "<script>alert(2)</script>": np.array(evil, dtype=object)[truth],
            "' onmouseover='alert(3)": rng.normal(size=180) + 5 * truth,
            "a_very_" * 40: rng.normal(size=180),
        }
    )
    model = CRAFT(random_state=0).fit(frame)
    html = page(
        tmp_path,
        model,
        frame,
        target=np.array(evil, dtype=object)[truth],
        title="</title><script>alert(4)</script>",
    )
    plain = page(tmp_path, *plain_model(frame, truth))
    hostile, harmless = Text(html), Text(plain)
    assert set(hostile.elements) == set(harmless.elements)
    assert set(hostile.attributes) == set(harmless.attributes)
    assert hostile.elements.count("script") == 2
    assert "<script>alert(2)</script>" in hostile.text
    assert "7*7" in hostile.text


def plain_model(frame, truth):
    """The same table with harmless names and levels."""
    other = frame.set_axis(["a_level", "number", "noise"], axis=1).assign(
        a_level=np.array(["one", "two", "three"])[truth]
    )
    return CRAFT(random_state=0).fit(other), other


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "_and_more" * 20])
def test_fifty_clusters_and_two_hundred_columns_stay_small(tmp_path, more):
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(50), 30)
    frame = {}
    for d in range(100):
        frame[f"number_of_things_{d}{more}"] = rng.normal(size=1500) + 3 * rng.normal(size=50)[truth]
        level = np.where(rng.random(1500) < 0.7, rng.integers(0, 8, 50)[truth], rng.integers(0, 8, 1500))
        frame[f"category_of_things_{d}{more}"] = np.array(
            [f"a level of name {v}{more}" for v in range(8)], dtype=object
        )[level]
    model = fixed_price(50, cluster_price=0.0, init=[truth]).fit(
        pd.DataFrame(frame)
    )  # without a merge path, which takes most of the time
    assert model.n_clusters_ == 50
    html = page(tmp_path, model, pd.DataFrame(frame), target=truth)
    assert len(html.encode()) < 2_000_000
    assert "170 further columns" in html


def test_bad_input(heart, tmp_path, monkeypatch):
    table, target, model = heart
    path = tmp_path / "bad.html"
    for arguments, options, error, message in [
        ((CRAFT(), table), {}, ValueError, "not fitted"),
        ((model, table[:100]), {}, ValueError, "has 100 rows, but the model was fitted on 270"),
        (
            (model, table),
            {"target": target[:5]},
            ValueError,
            "one value for each of the 270 rows of the table, got 5",
        ),
        ((model, table), {"target": "no such column"}, ValueError, "no column 'no such column'"),
        ((model, table), {"target": [None] * 270}, ValueError, "has no value"),
    ]:
        with pytest.raises(error, match=message):
            report.write(*arguments, path, **options)
    assert not path.exists()
    with pytest.raises(TypeError, match="clusters of a CRAFT, got DPMeans"):
        report.write(DPMeans(), table, path)
    printed = PaperCRAFT(3, random_state=0).fit(table)
    with pytest.raises(ValueError, match="model='paper' does not define"):
        report.write(printed, table, path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'craftc\[app\]'"):
        report.write(model, table, path)


def test_report_is_imported_when_it_is_used():
    assert craftc.report is report


def test_a_target_that_the_model_uses(tmp_path):
    heart = load_heart().data
    model = CRAFT(2, n_init=1, random_state=0).fit(heart)
    with pytest.raises(ValueError, match="'sex' is a column of the model"):
        report.write(model, heart, tmp_path / "r.html", target="sex")
    with pytest.raises(TypeError, match=r"must be the result of model.stability"):
        report.write(model, heart, tmp_path / "r.html", stability=5)
    assert not (tmp_path / "r.html").exists()
