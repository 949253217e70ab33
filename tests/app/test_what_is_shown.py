"""What page, summary, report and files show of tables as people have them."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
from rich.cells import cell_len

import craftc
from craftc.craft.answers.path import structure_of
from craftc.datasets import load_heart
from craftc.describe.words import distinct
from craftc.report.page import Page
from craftc.table.personal import is_personal

pd = pytest.importorskip("pandas", reason="files are read with pandas")
pytest.importorskip("jinja2", reason="reports are templates of Jinja2")

N = 300
GROUP = np.random.default_rng(0).integers(0, 2, N)
PLACES = ("Italy", "Japan", "Mexico", "France", "Spain")
QUESTION = "Please rate on the following scale how much you like the traditional cuisine of {}:"
ANSWER = "I strongly disagree with the statement about the quality of the {}"


def text_of(path):
    """The text of a page of HTML."""
    page = re.sub(r"<(style|script).*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")


@pytest.fixture
def answered(run, tmp_path):
    """Cluster a table by the shell; returns the page, the JSON document and the text of the report."""

    def answered(table, *options):
        table.to_csv(tmp_path / "t.csv", index=False)
        command = ("cluster", tmp_path / "t.csv", "--clusters", 2, *options)
        code, page, err = run(*command, "--out", tmp_path / "out")
        assert (code, err) == (0, "")
        document = json.loads(run(*command, "--json")[1])
        return page, document, text_of(tmp_path / "out" / "report.html")

    return answered


def mixed(kinds, seed=1, noise=0.1):
    """A level of each row, of its group but for some."""
    rng = np.random.default_rng(seed)
    return np.array(list(kinds), object)[
        np.where(rng.random(N) < noise, rng.integers(0, len(kinds), N), GROUP)
    ]


# ---- one rule ----


def penguin_like():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"bill": rng.normal(40 + 8 * GROUP, 2.0), "island": mixed(["Dream", "Biscoe"])})
    table["year"] = rng.integers(2007, 2010, N)
    table.loc[::9, "bill"] = np.nan
    return table


@pytest.mark.parametrize(
    "table",
    [
        load_heart().data,
        pytest.param(pd.concat([load_heart().data] * 4, ignore_index=True), marks=pytest.mark.slow),
        penguin_like(),
        pd.DataFrame({"a": np.exp(GROUP + np.random.default_rng(4).normal(0, 0.4, N)), "b": mixed("xyz")}),
    ],
    ids=["heart", "heart four times", "missing", "skewed"],
)
def test_the_report_has_the_features_of_the_summary(table):
    model = craftc.CRAFT(3, random_state=0, price_factor=1.0).fit(table)
    columns = model.schema_.encode(table)
    page = Page(model, columns, None, None, "", structure_of(model), np.arange(len(table)))
    summary = model.summary()
    for card in page.cards:
        listed = summary.loc[summary["cluster"] == card.label, "feature"].tolist()
        facts = [page.facts.of(card.k - 1, d) for d in range(page.D)]
        shown = {model.schema_.columns[fact.d] for fact in facts if fact.state != "background"}
        assert shown == set(listed).difference(["(none: like the whole table)"])
        differing = [fact.d for fact in card.facts if fact.state != "background"]
        assert [model.schema_.columns[d] for d in differing] == listed[: len(differing)]


# ---- long names ----


@pytest.mark.parametrize("most", [12, 24, 30, 40])
@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (QUESTION, PLACES),
        (ANSWER, ("food", "wine")),
        ("How satisfied are you with the {} of our service in 2024?", ("staff", "speed", "price")),
        ("income_from_agriculture_and_forestry_in_{}_of_household", ("2001", "2002")),
        ("q{} To what extent do you agree that prices have risen in recent years?", ("1", "2", "12")),
    ],
)
def test_long_names_are_cut_where_they_differ(pattern, parts, most):
    names = [*(pattern.format(part) for part in parts), "age"]
    short = distinct(names, most)
    assert len(set(short)) == len(names)
    assert max(map(len, short)) <= most
    assert all(part in name for part, name in zip(parts, short, strict=False))


@pytest.mark.parametrize("columns", ["60", "100", "160", "400"])
def test_long_columns_and_levels_on_pages_of_every_width(run, tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    levels = [ANSWER.format(part) for part in ("food", "wine")]
    table = pd.DataFrame({QUESTION.format(p): mixed(levels, seed) for seed, p in enumerate(PLACES)})
    table.to_csv(tmp_path / "t.csv", index=False)
    _, page, _ = run("cluster", tmp_path / "t.csv", "--clusters", 2, "--details")
    lines = page.splitlines()[1:]
    assert max(map(cell_len, lines)) <= min(int(columns), 160)
    assert int(columns) > 160 or max(map(cell_len, lines)) > int(columns) - 20
    details = page[page.index("Cluster 1:") : page.index("Cluster 2:")]
    assert all(place in details for place in PLACES)
    shown = {line.split("%")[0].rstrip(" 0123456789>") for line in page.splitlines() if "…" in line}
    assert len(shown) >= len(PLACES)


def test_large_gains_are_whole(run, tmp_path):
    table = pd.concat([pd.DataFrame({"a": GROUP * 9.0, "b": mixed("xy")})] * 40)
    table["a"] += np.random.default_rng(5).normal(0, 0.1, len(table))
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ("cluster", tmp_path / "t.csv", "--clusters", 2, "--price-factor", 0.001)
    page, document = run(*command, "--details")[1], json.loads(run(*command, "--json")[1])
    gain = document["clusters"][0]["features"][0]["gain"]
    assert gain > 1000
    assert f"{gain:,.0f}" in page


# ---- persons ----


def people(name, cells):
    rng = np.random.default_rng(6)
    table = pd.DataFrame({name: rng.choice(cells, N), "age": rng.normal(30 + 20 * GROUP, 3.0).round(1)})
    return table.assign(spend=np.exp(rng.normal(3 + 2 * GROUP, 0.4)).round(2))


PEOPLE = {
    "customer": [f"{a} {b}" for a in ("Anna", "Hans", "Maria") for b in ("Zweig", "Quist", "Vane")],
    "Surname": ["Zweig", "Quist", "Vane", "Yorke", "Xiang", "Underhill"],
    "e-mail": [f"user{i}@example.org" for i in range(9)],
    "contact": [f"user{i}@example.org" for i in range(9)],
    "phone": [f"555-01{i:02d}" for i in range(9)],
    "reach at": [f"+49 30 5550{i:02d}" for i in range(9)],
    "home": [f"Lindenstraße {i}" for i in range(9)],
    "Anschrift": [f"{i} Acacia Avenue" for i in range(11, 19)],
    "ZIP code": [f"0{i}501" for i in range(9)],
    "PLZ": [f"{i}0115" for i in range(1, 9)],
    "birth_place": ["Ottery", "Quimper", "Zwettl", "Yeovil", "Xanten", "Uelzen"],
}


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("name", PEOPLE)
def test_cells_that_identify_persons_are_no_examples(run, tmp_path, name):
    table = people(name, PEOPLE[name])
    table.to_csv(tmp_path / "t.csv", index=False)
    code, page, _ = run("cluster", tmp_path / "t.csv", "--categorical", name, "--out", tmp_path / "out")
    assert code == 0
    report = text_of(tmp_path / "out" / "report.html")
    assert "spend" in report
    assert not [cell for cell in PEOPLE[name] if cell in page or cell in report]
    one = craftc.CRAFT(1, random_state=0, categorical=[name]).fit(table)
    craftc.report.write(one, table, tmp_path / "one.html")
    report = text_of(tmp_path / "one.html")
    assert "values not shown" in report
    assert not [cell for cell in PEOPLE[name] if cell in report]


def test_notes_do_not_repeat_cells_that_identify_persons():
    cells = [*["Anna Zweig", "Hans Quist", "Maria Vane", "Peter Yorke", "Eva Xiang"] * 20, "anna zweig"]
    table = craftc.read_table(pd.DataFrame({"who": cells, "x": np.arange(101) % 7 + 0.5}))
    assert "personal" in " ".join(table.attrs["notes"])
    model = craftc.CRAFT(random_state=0).fit(table)
    new = pd.DataFrame({"who": ["Otto Unger", "Ida Ulm"], "x": [0.5, 1.5]})
    notes = " ".join([*table.attrs["notes"], *craftc.read_table(new, like=model).attrs["notes"]])
    assert "did not occur in fit" in notes
    assert not re.search("zweig|otto|ida ", notes, re.IGNORECASE)


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("product_name", ["Rye bread", "Milk", "Butter", "Cream cheese", "Tea"]),
        ("city", ["San Francisco", "Santa Maria", "New York", "Los Angeles", "Bern"]),
        ("occupation", ["Exec-managerial", "Sales", "Craft-repair", "Other-service", "Tech"]),
        ("room", ["Room 12", "Room 3", "Hall 2", "Room 8", "Lab 9"]),
        ("code", ["001235", "0042", "007", "0099", "0101"]),
        ("emailed", []),
        ("address_count?", []),
    ],
)
def test_columns_that_do_not_identify_persons(name, levels):
    assert is_personal(name, levels) == (name in ("emailed", "address_count?"))  # by their names, to be sure


# ---- numbers of rows and clusters ----


def test_rows_have_one_number_in_all_files(run, tmp_path):
    """The place in the file, although a line of it is no row."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"a": rng.normal(6 * GROUP, 1.0).round(3), "b": mixed("xy")})
    lines = table.to_csv(index=False).splitlines()
    lines[21:21] = [","]  # no row
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert run("cluster", tmp_path / "t.csv", "--clusters", 2, "--out", tmp_path / "out")[0] == 0
    labels = pd.read_csv(tmp_path / "out" / "labels.csv")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    rows = re.findall(r'<th scope="row" class="num">(\d+)</th>\s*<td[^>]*>([^<]*)</td>', page)
    assert len(rows) == 6
    shown = {int(row): cell for row, cell in rows}
    assert not set(shown).difference(labels["row"])
    place = {row: i for i, row in enumerate(labels["row"])}
    for row, cell in shown.items():
        of_row = table.iloc[place[row]]
        assert cell in (of_row["b"], craftc.describe.words.number(of_row["a"]))
    read = craftc.read_table(tmp_path / "t.csv")
    assert read.index.tolist() == labels["row"].tolist()
    assert labels["row"].max() == N


# ---- target ----


def test_a_target_next_to_the_base_rate(answered):
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"a": rng.normal(6 * GROUP, 1.0).round(3), "b": mixed("xy")})
    table["left"] = np.where(rng.random(N) < 0.1 + 0.2 * GROUP, "yes", "no")
    page, document, report = answered(table, "--target", "left")
    first = document["clusters"][0]
    table["cluster"] = craftc.CRAFT(2, random_state=0).fit_predict(craftc.read_table(table[["a", "b"]]))
    own = (table[table["cluster"] == first["label"]]["left"] == "no").mean()
    whole = (table["left"] == "no").mean()
    assert document["target"]["shares"]["no"] == pytest.approx(whole)
    assert first["target"]["lift"]["no"] == pytest.approx(own / whole)
    level = "no"
    if own < whole:  # the class that is more often there
        level, own, whole = "yes", 1.0 - own, 1.0 - whole
    assert f"{level} {100 * own:.0f} % ({100 * whole:.0f} %, {own / whole:.2f})" in page
    whole = (table["left"] == "no").mean()
    assert f"(one cluster {whole:.3f})" in page
    assert re.search(rf"table +{(table['left'] == 'no').sum()} +{(table['left'] == 'yes').sum()}\n", page)
    assert re.search(r"\(table \d+ %, lift \d\.\d\d\)", report)


# ---- years and dates ----


def has_commas(text, first):
    """Whether a year is written with a comma, above the end of a report, where nats are."""
    return any(f"{year:,}" in text.split("Objective")[0] for year in range(first, first + 60))


@pytest.mark.slow_except(2)
@pytest.mark.parametrize(
    ("name", "first"), [("founded", 1950), ("Year", 1720), ("Baujahr", 1840), ("model_year", 2150)]
)
def test_years_have_no_comma(answered, name, first):
    rng = np.random.default_rng(9)
    years = first + 30 * GROUP + rng.integers(0, 20, N)
    table = pd.DataFrame({name: years, "x": rng.normal(5 * GROUP, 1.0).round(2)})
    page, _, report = answered(table)
    assert f"{first + 10}"[:2] in page
    assert not has_commas(page + report, first)
    table["y"] = rng.normal(0, 1, N).round(2)
    page, _, report = answered(table, "--target", name)
    assert not has_commas(page + report, first)


# ---- advice ----


def test_names_of_advice_are_taken_by_ignore(run, tmp_path):
    rng = np.random.default_rng(10)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 1200, N), unit="D")
    tools = [";".join(np.array(["Go", "C", "R"])[rng.random(3) < 0.5]) for _ in range(N)]
    table = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "tools": tools, "x": rng.normal(5 * GROUP, 1)})
    table["twice"] = table["x"].round(3) + 1e-9
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ("cluster", tmp_path / "t.csv", "--dates", "parts", "--json")
    found = json.loads(run(*command)[1])
    made = [*found["columns"]["numeric"], *found["columns"]["categorical"]]
    linked = {each for link in found["column_links"] for each in link["columns"]}
    assert linked <= set(made)
    assert {"day weekday", "tools: Go", "twice"} <= set(made)
    for name in ("day weekday", "tools: Go", "twice"):
        code, said, err = run(*command, "--ignore", name)
        assert (code, err) == (0, ""), name
        assert json.loads(said)["columns"]["not_used"][name] == "--ignore"


def test_a_file_name_is_no_table(tmp_path):
    with pytest.raises(TypeError, match=r"There is no file 'hart\.csv'; pass a table"):
        craftc.CRAFT().fit("hart.csv")
    (tmp_path / "heart.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TypeError, match=r"pass the table craftc\.read_table\('.*heart\.csv'\)"):
        craftc.CRAFT().fit(str(tmp_path / "heart.csv"))


def test_dates_are_dates_on_axes_and_in_json(answered):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="plots are drawn with matplotlib")
    pyplot.close("all")
    pyplot.switch_backend("Agg")
    rng = np.random.default_rng(11)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(900 * GROUP + rng.integers(0, 300, N), unit="D")
    table = pd.DataFrame({"since": days.strftime("%Y-%m-%d"), "x": rng.normal(5 * GROUP, 1.0).round(2)})
    page, document, report = answered(table)
    assert "early since" in page
    assert "since is later: " in report
    features = {each["column"]: each for each in document["clusters"][0]["features"]}
    assert re.fullmatch(r"201\d-\d\d-\d\d ± [\d.]+ days", features["since"]["in_cluster"]["text"])
    read = craftc.read_table(table)
    model = craftc.CRAFT(2, random_state=0).fit(read)
    for rows in (None, read):
        ax = craftc.plot.distribution(model, "since", rows)
        labels = [label.get_text() for label in ax.get_xticklabels()]
        assert labels
        assert all(re.fullmatch(r"20\d\d-\d\d-01", label) for label in labels)
    pyplot.close("all")


def test_medians_stand_where_means_lie_on_the_other_side():
    """Of dates in two waves, most rows of a cluster are earlier than the table though their mean is later."""
    rng = np.random.default_rng(12)
    wave = rng.random(N) < 0.25
    x = np.where(GROUP, rng.normal(5.0, 0.5, N), np.where(wave, rng.normal(-20, 1, N), rng.normal(7, 0.5, N)))
    model = craftc.CRAFT(2, random_state=0).fit(pd.DataFrame({"x": x, "b": mixed("xy", noise=0.0)}))
    column = model._shown_clusters().statistics[0]
    assert column.skewed
    side = np.sign(column.centres[:-1] - column.centres[-1])
    assert (side == np.sign(column.shift[:-1])).all()
