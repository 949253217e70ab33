"""Figures that are shown - in summaries, on the page of the command line, in its JSON, in a report - against
figures of pandas, on tables with gaps and weights whose labels are not in the order of the sizes.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import craftc
from craftc.craft.answers.stability import Stability
from craftc.report import rows as report_rows

pd = pytest.importorskip("pandas", reason="figures are compared with those of pandas")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N = 240


def made(seed, gaps=True, texts=True):
    """A table of three clusters, the first row in the smallest of them, and weights."""
    rng = np.random.default_rng(seed)
    group = np.r_[2, rng.permutation(np.repeat([0, 1, 2], [120, 80, N - 201]))]
    table = pd.DataFrame(
        {
            "x": (rng.normal(size=N) + 8.0 * group).round(2),
            "y": (rng.normal(size=N) - 8.0 * (group == 1)).round(2),
            "z": (5.0 * rng.normal(size=N)).round(1),
        }
    )
    if texts:
        level = np.where(rng.random(N) < 0.9, group, rng.integers(0, 3, N))
        table["kind"] = np.array(["red", "green", "blue"])[level]
        table["place"] = rng.choice(["north", "south"], N)
    if gaps:
        for name, share in zip(table, (0.3, 0.2, 0.1, 0.3, 0.0), strict=False):
            table.loc[rng.random(N) < share, name] = None
    return table, rng.integers(1, 5, N), group


def weighted(cells, weight):
    """Mean and deviation of cells, or shares of levels, of the rows with a value."""
    seen = cells.notna().to_numpy()
    cells, weight = cells[seen], weight[seen]
    if pd.api.types.is_numeric_dtype(cells):
        repeated = cells.repeat(weight)
        return repeated.mean(), repeated.std(ddof=0)
    return cells.repeat(weight).value_counts(normalize=True)


def assert_text(text, cells, weight):
    """A text such as "5.21 ± 2.2" or "red 55 %, blue 45 %" holds the figures of these cells."""
    figures = weighted(cells, weight)
    if isinstance(figures, tuple):
        mean, deviation = (float(part) for part in text.split(" ± "))
        size = max(abs(figures[0]), figures[1])
        assert mean == pytest.approx(figures[0], abs=2e-3 * size)
        assert deviation == pytest.approx(figures[1], rel=2e-3, abs=1e-9)
        return
    shares = dict(re.findall(r"(\w+) [<>]?(\d+) %", text))
    assert shares
    for level, share in shares.items():
        assert float(share) == pytest.approx(100 * figures[level], abs=0.51)


ESTIMATORS = {
    "CRAFT": craftc.CRAFT(random_state=0, n_init=2),
    "PaperCRAFT": craftc.PaperCRAFT(3, model="likelihood", random_state=0, n_init=2),
    "KPrototypes": craftc.KPrototypes(3, n_init=2, random_state=0),
    "DPMeans": craftc.DPMeans(n_clusters=3),
    "FeatureSelectionMixture": craftc.FeatureSelectionMixture(random_state=0, n_init=1),
    "ConvexClustering": craftc.ConvexClustering(n_clusters=3),
}
NUMBERS_ONLY = ("DPMeans", "FeatureSelectionMixture", "ConvexClustering")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_summaries(name):
    complete = name in ("DPMeans", "ConvexClustering")
    table, weight, _ = made(0, gaps=not complete, texts=name not in NUMBERS_ONLY)
    has_weights = name != "ConvexClustering"
    model = ESTIMATORS[name].fit(table, **({"sample_weight": weight} if has_weights else {}))
    weight = weight if has_weights else np.ones(N, int)
    summary, labels = model.summary(), model.labels_
    sizes = np.bincount(labels, weight)
    assert np.argsort(-sizes).tolist() != list(
        range(len(sizes))
    )  # or the order of the clusters shows nothing
    for line in summary.to_dict("records"):
        inside = labels == line["cluster"]
        assert line["rows"] == pytest.approx(weight[inside].sum())
        if name != "FeatureSelectionMixture":  # whose shares are expected ones
            assert line["share"] == pytest.approx(weight[inside].sum() / weight.sum())
        if (
            line["feature"] in table and name != "FeatureSelectionMixture"
        ):  # whose parameters are expected ones
            assert_text(line["in the cluster"], table[line["feature"]][inside], weight[inside])
            assert_text(line["in the whole table"], table[line["feature"]], weight)
    assert {line["feature"] for line in summary.to_dict("records")} & set(table)


def test_gains_per_row_are_those_of_the_rows_of_the_cluster():
    """By which the facts of a name are chosen: a small cluster has a name, too."""
    table, weight, _ = made(1)
    model = craftc.CRAFT(random_state=0, n_init=2).fit(table, sample_weight=weight)
    view = model._shown_clusters()
    np.testing.assert_allclose(view.per_row, model.feature_gains_ / model.cluster_sizes_[:, None])
    rng = np.random.default_rng(0)
    small = np.r_[np.ones(12), np.zeros(588)] > 0
    rare = pd.DataFrame({f"x{j}": rng.normal(size=600) + 3.0 * small * (j < 2) for j in range(4)})
    rare["kind"] = np.where(small, "rare", rng.choice(["a", "b"], 600))
    model = craftc.CRAFT(random_state=0, n_init=2, price_factor=1.0).fit(rare)
    assert "rare" in model.cluster_names_[model.labels_[0]]


# ---- the command line ----


@pytest.fixture
def answer(run, tmp_path):
    """The JSON document of a table, the page, the labels by number, and the table."""
    table, _, group = made(2)
    table["known"] = np.array(["p", "q", "r"])[np.where(np.arange(N) % 7 == 0, 0, group)]
    table.loc[5:20, "known"] = None
    table["amount"] = (10.0 * group + np.arange(N) % 13).astype(float)
    table.to_csv(tmp_path / "table.csv", index=False)
    arguments = ("cluster", tmp_path / "table.csv", "--ignore", "amount", "--target", "known")
    code, text, said = run(*arguments, "--json", "--out", tmp_path / "out")
    assert code == 0, said
    page = run(*arguments, "--details")[1]
    labels = pd.read_csv(tmp_path / "out" / "labels.csv")
    return json.loads(text), page, labels["cluster"].to_numpy(), table, tmp_path


def test_json(answer):
    content, _, numbers, table, folder = answer
    ones = np.ones(N, int)
    sizes = pd.Series(numbers).value_counts()
    model = craftc.load_model(folder / "out" / "model.craftc")
    assert [cluster["label"] for cluster in content["clusters"]] != list(range(len(sizes)))
    for cluster in content["clusters"]:
        inside = numbers == cluster["number"]
        assert cluster["rows"] == sizes[cluster["number"]] == inside.sum()
        assert cluster["share"] == pytest.approx(inside.mean())
        assert (model.labels_[inside] == cluster["label"]).all()
        assert cluster["margin"] == pytest.approx(model.margins_[inside].mean(), rel=1e-3)
        for feature in cluster["features"]:
            for key, rows in (("in_cluster", inside), ("in_table", ones > 0)):
                figures, found = weighted(table[feature["column"]][rows], ones[rows]), feature[key]
                if isinstance(figures, tuple):
                    assert found["mean"] == pytest.approx(figures[0], rel=1e-6, abs=1e-6)
                    assert found["deviation"] == pytest.approx(figures[1], rel=1e-6)
                    assert_text(found["text"], table[feature["column"]][rows], ones[rows])
                else:
                    for level in found["levels"]:
                        assert level["share"] == pytest.approx(figures[level["level"]])
        known = table["known"][inside].value_counts(normalize=True)
        whole = table["known"].value_counts(normalize=True)
        target = cluster["target"]
        assert target["shares"] == pytest.approx(known.to_dict())
        assert target["lift"] == pytest.approx((known / whole[known.index]).to_dict())
    assert content["target"]["shares"] == pytest.approx(table["known"].value_counts(normalize=True).to_dict())
    assert content["target"]["rows_without_value"] == 16
    assert content["missing_values"] == int(table[["x", "y", "z", "kind", "place"]].isna().sum().sum())


def test_page(answer):
    content, page, numbers, _, _ = answer
    for cluster in content["clusters"]:
        inside = numbers == cluster["number"]
        head = re.search(
            rf"Cluster {cluster['number']}: .* - ([\d,]+) rows \((\d+) %\), margin ([\d.]+)", page
        )
        assert int(head[1].replace(",", "")) == inside.sum()
        assert float(head[2]) == pytest.approx(100 * inside.mean(), abs=0.51)
        assert float(head[3]) == pytest.approx(cluster["margin"], abs=0.06 + 0.01 * cluster["margin"])
        block = page[head.end() :].split("Cluster ")[0]
        for feature in cluster["features"][:1]:
            assert feature["column"] in block


def test_a_target_of_numbers(run, tmp_path):
    table, _, group = made(3)
    table["amount"] = (10.0 * group + np.arange(N) % 23 + 0.5).astype(float)
    table.loc[3:9, "amount"] = None
    table.to_csv(tmp_path / "table.csv", index=False)
    text = run("cluster", tmp_path / "table.csv", "--target", "amount", "--json", "--out", tmp_path / "out")[
        1
    ]
    content, numbers = json.loads(text), pd.read_csv(tmp_path / "out" / "labels.csv")["cluster"]
    groups = table["amount"].groupby(numbers.to_numpy())
    for cluster in content["clusters"]:
        assert cluster["target"]["mean"] == pytest.approx(groups.mean()[cluster["number"]])
        assert cluster["target"]["deviation"] == pytest.approx(groups.std(ddof=0)[cluster["number"]])
    cells = table["amount"].dropna()
    between = ((groups.mean() - cells.mean()) ** 2 * groups.count()).sum() / len(cells)
    assert content["target"]["explained_variance"] == pytest.approx(between / cells.var(ddof=0))


def test_stability_belongs_to_the_labels(run, tmp_path, monkeypatch):
    """The overlaps are by label; clusters are shown by size."""
    made(2)[0].to_csv(tmp_path / "table.csv", index=False)

    def known(model, *_, **__):
        overlap = np.linspace(0.2, 0.8, model.n_clusters_)[None]
        return Stability(overlap, np.array([model.n_clusters_]), np.array([1.0]))

    monkeypatch.setattr(craftc.CRAFT, "stability", known)
    content = json.loads(run("cluster", tmp_path / "table.csv", "--stability", 1, "--json")[1])
    assert [cluster["label"] for cluster in content["clusters"]] != list(range(content["n_clusters"]))
    expected = np.linspace(0.2, 0.8, content["n_clusters"])
    for cluster in content["clusters"]:
        assert cluster["stability"]["mean"] == pytest.approx(expected[cluster["label"]])
        assert cluster["stability"]["lowest"] == pytest.approx(expected[cluster["label"]])
        assert cluster["stability"]["found"] == (expected[cluster["label"]] >= 0.75)


@pytest.mark.parametrize("constant", ["number", "text"])
def test_a_value_that_all_rows_of_a_cluster_have(run, tmp_path, constant):
    rng = np.random.default_rng(0)
    group = np.arange(200) % 2
    table = pd.DataFrame({"x": (rng.normal(size=200) + 8 * group).round(2)})
    table["v"] = (
        np.where(group, 3, rng.integers(5, 90, 200))
        if constant == "number"
        else np.where(group, "a", rng.choice(list("bcd"), 200))
    )
    table.to_csv(tmp_path / "table.csv", index=False)
    page = run("cluster", tmp_path / "table.csv", "--details")[1]
    content = json.loads(run("cluster", tmp_path / "table.csv", "--json")[1])
    [found] = [
        each["in_cluster"]
        for cluster in content["clusters"]
        for each in cluster["features"]
        if each["column"] == "v"
        and cluster["rows"] == 100
        and (
            each["in_cluster"].get("mean") == 3
            or each["in_cluster"].get("levels", [{}])[0].get("level") == "a"
        )
    ]
    if constant == "number":
        assert found == {"mean": 3.0, "deviation": 0.0, "text": "3 ± 0"}
        assert "3 ± 0" in page
        assert any("v 3" in cluster["name"] for cluster in content["clusters"])
    else:
        assert found == {"levels": [{"level": "a", "share": 1.0}]}


# ---- the report ----


def text_of(path):
    """The words of a page, its tags as spaces."""
    return " ".join(re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8")).split())


def test_unusual_rows_are_at_their_end(tmp_path):
    """The share of the rows of the cluster that are at least as far up, or down, of every number."""
    table, _, _ = made(4, gaps=False)
    model = craftc.CRAFT(random_state=0, n_init=2).fit(table)
    craftc.report.write(model, table, tmp_path / "page.html", null_test=None)
    text = text_of(tmp_path / "page.html")
    seen = set()
    for row, cells in re.findall(r"Row (\d+) ((?:\w+ [-\w.]+ \((?:top|bottom|in) [<\d]+ %[^)]*\) )+)", text):
        labels = model.labels_ == model.labels_[int(row)]
        for name, value, end, share in re.findall(r"(\w+) (-?[\d.]+) \((top|bottom) <?(\d+) %", cells):
            inside, own = table[name][labels], table[name][int(row)]
            assert float(value) == own
            beyond = (inside >= own).mean() if end == "top" else (inside <= own).mean()
            assert float(share) == pytest.approx(100 * beyond, abs=0.51)
            assert beyond <= 0.5 + 1.0 / labels.sum()
            seen.add(end)
    assert seen == {"top", "bottom"}


def test_sizes_of_a_report(tmp_path):
    table, _, _ = made(5)
    model = craftc.CRAFT(random_state=0, n_init=2).fit(table)
    craftc.report.write(model, table, tmp_path / "page.html", null_test=None, target=table["place"])
    text = text_of(tmp_path / "page.html")
    sizes = np.sort(np.bincount(model.labels_))[::-1].tolist()
    shown = [
        (int(n), int(share)) for n, share in re.findall(r"(?:Rows|Size) ([\d,]+) (?:rows )?\(?(\d+) %", text)
    ]
    assert shown[: len(sizes)] == [(size, round(100 * size / N)) for size in sizes]


def test_shares_and_quartiles_of_a_report():
    from craftc.report.columns import read_columns, with_rows

    table, _, _ = made(6)
    model = craftc.CRAFT(random_state=0, n_init=2).fit(table)
    read, labels = model._read_columns(table), model.labels_
    view = with_rows(model._input_clusters(), read, labels)
    columns = {column.name: column for column in read_columns(view, read, labels)}
    for place, name in enumerate(table):
        for k in range(model.n_clusters_ + 1):
            cells = table[name][labels == k] if k < model.n_clusters_ else table[name]
            assert columns[name].missing[k] == pytest.approx(cells.isna().mean())
            if name in ("kind", "place"):
                expected = cells.value_counts(normalize=True)
                found = dict(zip(columns[name].labels, columns[name].shares[k].tolist(), strict=True))
                assert {level: share for level, share in found.items() if share} == pytest.approx(
                    expected.to_dict()
                )
            else:
                quartiles = cells.quantile([0.25, 0.5, 0.75]).to_numpy()
                np.testing.assert_allclose(view.statistics[place].quartiles[k], quartiles)
    sure = report_rows.certainty(model, read, labels, np.arange(model.n_clusters_), np.arange(N))
    own = model.predict_proba(table)[np.arange(N), labels]
    np.testing.assert_allclose(sure.probability, own, rtol=1e-9)
    others = model.transform(table)
    others[np.arange(N), labels] = np.inf
    np.testing.assert_array_equal(sure.second, others.argmin(axis=1))
