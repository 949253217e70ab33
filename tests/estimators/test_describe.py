"""The description of clusters: words, numbers, names, and facts that one outlier does not change."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import craftc
from craftc import CRAFT, DPMeans, KModes, KPrototypes, PaperCRAFT, load_model, save_model
from craftc.craft.answers.path import structure_of
from craftc.datasets import load_heart
from craftc.describe import words
from craftc.describe.facts import Facts
from craftc.report.page import Page, display_order

# ---- words ----


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (0.001, "<1 %"),
        (0.005, "<1 %"),
        (0.007, "1 %"),
        (0.5, "50 %"),
        (0.994, "99 %"),
        (0.999, ">99 %"),
        (0.1 + 0.2 + 0.7, "100 %"),
    ],
)
def test_percent(share, text):
    assert words.percent(share) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.0002, "0.0002"),
        (0.00019983, "0.0001998"),
        (-3.85123e-5, "-0.00003851"),
        (4.2e-9, "4.2e-09"),
        (0.5, "0.5"),
        (54.4333, "54.43"),
        (0.99996, "1"),
        (1485.4, "1,485"),
        (12345.6, "12,346"),
        (123456789.0, "123,456,789"),
        (2026.0, "2026"),
        (2126.0, "2,126"),
        (1.5e15, "1.5e+15"),
        (math.nan, "–"),
    ],
)
def test_number(x, text):
    assert words.number(x) == text


@pytest.mark.parametrize("exponent", range(-12, 13))
@pytest.mark.parametrize("sign", [-1, 1])
def test_numbers_have_four_significant_digits(exponent, sign):
    rng = np.random.default_rng(exponent + 12)
    for x in sign * rng.uniform(1, 10, 50) * 10.0**exponent:
        assert float(words.number(x).replace(",", "")) == pytest.approx(x, rel=5.1e-4)
        deviation = abs(x) * 10.0 ** rng.integers(-6, 6)
        said = [float(part.replace(",", "")) for part in words.mean_and_deviation(x, deviation).split(" ± ")]
        assert said[1] == pytest.approx(deviation, rel=5.1e-4)
        assert said[0] == pytest.approx(x, rel=5.1e-4)
        if deviation > 1e-9 * abs(x):
            assert said[0] == pytest.approx(x, abs=0.06 * deviation)


def test_years_have_no_comma():
    assert words.mean_and_deviation(2015.31, 2.3, years=True) == "2015.3 ± 2.3"
    assert words.mean_and_deviation(-4.4e-16, 1.0) == "0 ± 1"  # of a standardised column
    assert words.mean_and_deviation(-4.4e-16, 2e-16) == "-4.4e-16 ± 2e-16"
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 100)
    table = pd.DataFrame({"year": rng.integers(1990, 2000, 200) + 20.0 * g, "x": rng.normal(5000 * g, 1)})
    summary = CRAFT(random_state=0).fit(table).summary()
    said = summary[summary["feature"] == "year"]["in the cluster"]
    assert said.str.match(r"(199|201)\d(\.\d)? ± ").all()


@pytest.mark.filterwarnings("ignore:Columns .* are near-duplicates")
def test_a_day_number_is_a_date():
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 100)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 20, 200) + 900 * g, unit="D")
    model = CRAFT(2, random_state=0).fit(craftc.read_table(pd.DataFrame({"seen": days, "x": rng.normal(g)})))
    summary = model.summary()
    said = summary[summary["feature"] == "seen"]["in the cluster"].tolist()
    assert said
    assert all(re.fullmatch(r"201[57]-\d\d-\d\d ± \d\.?\d* days", text) for text in said)


LONG = "Please rate on the following scale how much you like the traditional cuisine of {}:"


@pytest.mark.parametrize("most", [12, 20, 30, 40, 60])
@pytest.mark.parametrize(
    "names",
    [
        [LONG.format(country) for country in ("Italy", "Iran", "Mexico", "New Mexico")],
        [f"{'start ' * 20}{middle} {'end ' * 30}" for middle in ("one", "two", "three")],
        ["x" * 300 + letter + "y" * 300 for letter in "abcdefghijklm"],
        [f"Q{i} {'the same question ' * 9}" for i in range(12)],
        ["short", "names", "stay"],
    ],
)
def test_long_names_stay_different(names, most):
    short = words.distinct([*names, names[0]], most)
    assert len(set(short)) == len(names)
    assert short[-1] == short[0]
    assert max(map(len, short)) <= most
    assert all(a == b for a, b in zip(names, short, strict=False) if len(a) <= most)


def test_names_are_one_line_of_characters_that_print():
    assert words.clean("a\tb\n c") == "a b c"
    assert words.clean("a\x00b\u202ec\ud800d") == "a\ufffdb\ufffdc\ufffdd"
    assert words.clean("می\u200cخواهم") == "می\u200cخواهم"
    assert words.clean("") == "(empty text)"
    assert len(words.clean("x" * 10**6)) == 200


# ---- small numbers ----


def test_small_numbers_do_not_vanish(tmp_path):
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 100)
    ppm = np.where(g, 8e-4, 2e-4) + rng.normal(size=200) * 4e-5
    table = pd.DataFrame({"ppm": ppm, "b": g * 4 + rng.normal(size=200)})
    for model in (CRAFT(random_state=0), DPMeans(n_clusters=2, random_state=0)):
        summary = model.fit(table * [1.0, 0.0] if isinstance(model, DPMeans) else table).summary()
        for line in summary[summary["feature"] == "ppm"].to_dict("records"):
            inside = ppm[model.labels_ == line["cluster"]]
            assert line["in the cluster"] == words.mean_and_deviation(inside.mean(), inside.std())
            assert line["in the whole table"] == words.mean_and_deviation(ppm.mean(), ppm.std())
    model = CRAFT(random_state=0).fit(table)
    craftc.report.write(model, table, tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    for k in range(2):
        mean = words.number(ppm[model.labels_ == k].mean())
        assert f"{mean} on average, {words.number(ppm.mean())} in the table" in html


def test_a_small_constant_is_named_by_its_value():
    rng = np.random.default_rng(0)
    dose = np.concatenate([np.full(60, 4e-4), rng.normal(5e-3, 1e-3, 90)])
    table = pd.DataFrame({"dose": dose, "other": rng.normal(np.repeat([0, 1], [60, 90]))})
    model = CRAFT(2, random_state=0).fit(table)
    assert model.cluster_names_[model.labels_[0]].startswith("dose 0.0004")


# ---- one outlier ----


def incomes(outlier=None):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 600)
    table = pd.DataFrame(
        {
            "age": rng.normal(30 + 30 * group, 4),
            "nps": rng.normal(3 + 5 * group, 1),
            "revenue": np.exp(rng.normal(4 + 2 * group, 0.5)),
        }
    )
    if outlier is not None:
        table.loc[0, "revenue"] = outlier
    return table


def page_of(model, table):
    return Page(
        model, model.schema_.encode(table), None, None, "", structure_of(model), np.arange(len(table))
    )


@pytest.mark.parametrize("outlier", [4e5, -4e5, 1e9, 1e14])
def test_an_outlier_changes_neither_names_nor_facts(outlier, tmp_path):
    plain, spoilt = (CRAFT(2, random_state=0).fit(incomes(value)) for value in (None, outlier))
    assert sorted(spoilt.cluster_names_) == sorted(plain.cluster_names_)
    assert any("low revenue" in name for name in spoilt.cluster_names_)
    table = incomes(outlier)
    page = page_of(spoilt, table)
    for k in range(2):
        inside = table["revenue"][page.labels == k]
        fact = page.facts.of(k, 2)
        median, of_table = (words.number(x.median()) for x in (inside, table["revenue"]))
        assert fact.way == ("higher" if inside.median() > table["revenue"].median() else "lower")
        assert fact.long == f"revenue is {fact.way}: median {median}, {of_table} in the table"
    craftc.report.write(spoilt, table, tmp_path / "r.html")
    assert "in all rows" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_an_outlier_invents_no_direction():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 200)
    spread = np.exp(rng.normal(0, np.where(group, 0.1, 1.5)))
    for value in (None, 1e7):
        if value is not None:
            spread[0] = value
        model = CRAFT(2, random_state=0).fit(pd.DataFrame({"x": rng.normal(8 * group), "spread": spread}))
        facts = Facts(model._cluster_view())
        assert [facts.of(k, 1).way for k in range(2)] == ["other", "other"]
        assert not any("spread" in name for name in model.cluster_names_)


def test_a_histogram_shows_the_others_beside_an_outlier():
    x = np.append(np.random.default_rng(0).normal(size=60), 1e6)
    page = page_of(CRAFT(1).fit(x[:, None]), x[:, None])
    assert page.columns[0].edges[-1] < 10
    assert (page.columns[0].bins > 0).sum() > 10


def test_all_rows_are_said_of_one_value_only():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 150)
    table = pd.DataFrame({"other": rng.normal(6 * group), "x": np.where(group, 63.0, rng.normal(20, 3, 300))})
    table["more"], table["last"] = rng.normal(6 * group), rng.normal(6 * group)
    table.loc[0, "x"] = 4e5
    page = page_of(CRAFT(2, random_state=0).fit(table), table)
    one = next(k for k in range(2) if table["x"][page.labels == k].nunique() == 1)
    assert page.facts.of(one, 1).long.startswith("x is 63 in all rows (table ")
    table.loc[299, "x"] = 63.0001
    page = page_of(CRAFT(2, random_state=0).fit(table), table)
    assert not any("in all rows" in page.facts.of(k, 1).long for k in range(2))
    table.loc[299, "x"] = np.nan
    page = page_of(CRAFT(2, random_state=0).fit(table), table)
    assert any("in all rows with a value" in page.facts.of(k, 1).long for k in range(2))


# ---- one rule ----


@pytest.mark.filterwarnings("ignore:CRAFT found")
@pytest.mark.parametrize("copies", [1, 4])
def test_report_summary_and_model_list_the_same_features(copies):
    table = pd.concat([load_heart().data] * copies, ignore_index=True)
    model = CRAFT(random_state=0).fit(table)
    page = page_of(model, table)
    differs, (order, _) = model._fitted.differs, display_order(model)
    state = [[page.facts.of(k, d).state != "background" for d in range(page.D)] for k in range(page.K)]
    np.testing.assert_array_equal(state, differs[order])
    summary = model.summary()
    for k in range(model.n_clusters_):
        listed = set(summary[summary["cluster"] == k]["feature"])
        assert listed == {name for name, d in zip(table, differs[k], strict=True) if d}
    assert page.names == [model.cluster_names_[k] for k in order]
    for k, card in enumerate(page.cards):
        assert (
            card.name == ", ".join(fact.words for fact in card.leading) or card.leading == card.facts[:1]
        ), k


def test_columns_with_a_frequent_value_are_described_by_the_others():
    rng = np.random.default_rng(1)
    group = np.repeat([0, 1], 200)
    gain = np.where(rng.random(400) < np.where(group, 0.3, 0.85), 0, np.exp(rng.normal(7, 1, 400))).round()
    table = pd.DataFrame({"gain": gain, "x": rng.normal(6 * group), "y": rng.normal(6 * group)})
    model = CRAFT(2, random_state=0).fit(table)
    facts = Facts(model._cluster_view())
    for k in range(2):
        here, there = words.percent((gain[model.labels_ == k] > 0).mean()), words.percent((gain > 0).mean())
        assert facts.of(k, 0).long == f"gain is above 0 in {here} of rows, in {there} of the table"
    assert "gain above 0" in model.cluster_names_[model.labels_[-1]]


# ---- results of comparisons ----


def test_results_have_a_short_representation():
    heart = load_heart().data
    model = CRAFT(random_state=0).fit(heart)
    stability = model.stability(heart, n=2, n_seeds=1)
    means = ", ".join(f"{k}: {x:.2f}" for k, x in enumerate(stability.mean))
    agreement = f"agreement (ARI) with 1 other seed {stability.agreement[0]:.2f}"
    assert repr(stability) == f"Stability(2 refits; mean overlap by cluster {means}; {agreement})"
    found = craftc.compare(model, heart[heart["age"] > 55])
    k = int(np.abs(found.now - found.then).argmax())
    shares = f"{words.percent(found.then[k])} then, {words.percent(found.now[k])} now"
    assert repr(found) == (
        f"Comparison(132 rows; drift {found.drift:.3g} nats, most in the distribution of column 'age'; "
        f"cluster {k} ({found.names[k]}) {shares})"
    )


@pytest.mark.parametrize(
    "model", [CRAFT(2, n_init=1), KModes(2), KPrototypes(2), PaperCRAFT(2, n_init=1)], ids=str
)
def test_texts_that_have_no_encoding(model, tmp_path):
    """Levels and names with lone surrogates, as files of unknown encodings give them."""
    table = {
        "a": np.array(["\ud800", "b", "\ud800"] * 20, object),
        "c\udc80d": np.array(["x\udfff"] * 30 + ["y"] * 30, object),
        "n": np.r_[np.arange(30.0), 90.0 + np.arange(30.0)],
    }
    model = clone(model).fit(table)
    save_model(model, tmp_path / "model.craftc")
    again = load_model(tmp_path / "model.craftc")
    assert again.predict(table).tolist() == model.labels_.tolist()
    shown = [model.summary(), *(getattr(model, name)() for name in ("centroids",) if hasattr(model, name))]
    shown += [model.explain(table)] if hasattr(model, "explain") else []
    for frame in shown:
        text = frame.to_csv() + "".join(frame.columns)
        assert "\ufffd" in text
        text.encode()
    model._repr_html_().encode()
    "".join(getattr(model, "cluster_names_", [])).encode()


def test_clusters_without_a_clear_fact_are_named_by_the_largest_change():
    """The many rows outside a small group differ from the whole table in little."""
    rng = np.random.default_rng(0)
    few = np.arange(1000) < 30
    numbers = rng.normal(size=(1000, 4)) + 2.0 * few[:, None]
    kind = np.where(few, "AX", rng.choice(["BY", "CZ", "DW"], 1000))
    table = pd.DataFrame(numbers).add_prefix("x").assign(kind=kind)
    group, others = CRAFT(2, random_state=0).fit(table).cluster_names_
    assert group.startswith("kind AX")
    assert others == "less often kind AX"
    shifted = rng.normal(size=(1000, 4)) + 3.0 * (rng.random(1000) < 0.25)[:, None]
    names = CRAFT(2, covariance="diagonal", random_state=0).fit(shifted).cluster_names_
    assert any(re.fullmatch("rather low x[0-3]", name) for name in names)


def test_a_whole_table_with_a_covariance_differs_from_the_table_in_nothing():
    rng = np.random.default_rng(0)
    a = rng.normal(50, 10, 400)
    table = {"a": a, "b": 2 * a + rng.normal(0, 5, 400), "c": -a + rng.normal(0, 4, 400)}
    model = CRAFT(random_state=0).fit(table)
    assert model.n_clusters_ == 1
    assert model.covariances_[0].columns.tolist() == [0, 1, 2]
    assert model.cluster_names_ == ["like the whole table"]
    assert not model.feature_importances_.any()
    assert len(model.summary()) == 1
