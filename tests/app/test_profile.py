"""A Table 1: its figures against pandas and SciPy, its files, and what it refuses."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from scipy import stats

import craftc
from craftc.describe.association import holm

pd = pytest.importorskip("pandas", reason="figures are compared with those of pandas")

SEEDS = range(12)


def drawn(seed):
    """A table with gaps, its weights, and columns that take no part: of awkward names and cells."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 90))
    group = rng.integers(0, 3, n)
    table = pd.DataFrame(
        {
            "x": rng.normal(4.0 * group, 1.0).round(2),
            "count": rng.poisson(3 + 6 * group).astype("int32"),
            "single": (rng.normal(size=n) - 3 * group).astype("float32"),
            "kind": np.array(["a", "b", "c & d", "e"])[(group + (rng.random(n) < 0.2)) % 4],
            "flag": rng.random(n) < 0.2 + 0.3 * group,
            "grade": pd.Categorical(
                np.array(["low", "mid", "high"])[group], ["low", "mid", "high", "none"], ordered=True
            ),
        }
    )
    for name in ("x", "single", "kind"):
        table.loc[rng.random(n) < 0.15, name] = None
    more = pd.DataFrame({"income": rng.lognormal(size=n).round(1), "=city": rng.choice(["P", "Q"], n)})
    more.loc[rng.random(n) < 0.2, "income"] = np.nan
    return table, rng.integers(0, 4, n), more


def lookup(profile):
    """The figures as a mapping (column, level, statistic, cluster) -> value."""
    keys = ["column", "level", "statistic", "cluster"]
    figures = profile.figures
    assert not figures.duplicated(keys).any()
    return figures.set_index(keys)["value"].to_dict()


def expected(rows, sizes_of):
    """Figures of rows, repeated by their weights, as pandas computes them."""
    for name in rows.columns:
        for cluster in ("all", *sizes_of):
            cells = rows[name][np.ones(len(rows), bool) if cluster == "all" else sizes_of[cluster]]
            yield (name, "", "missing", cluster), cells.isna().sum()
            if pd.api.types.is_numeric_dtype(cells) and cells.dtype != bool:
                cells = cells.astype(float)
                yield (name, "", "mean", cluster), cells.mean()
                yield (name, "", "sd", cluster), cells.std()
                for statistic, q in (("q1", 0.25), ("median", 0.5), ("q3", 0.75)):
                    yield (name, "", statistic, cluster), cells.quantile(q)
            else:
                levels = cells.cat.categories if hasattr(cells, "cat") else rows[name].dropna().unique()
                for level in levels:
                    n = (cells == level).sum()
                    yield (name, str(level), "n", cluster), n
                    yield (name, str(level), "share", cluster), n / cells.notna().sum()


@pytest.mark.filterwarnings("ignore:Column 'grade' is a coarser copy")
@pytest.mark.slow_except(8)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_figures_are_those_of_pandas(seed, weighted):
    table, weight, more = drawn(seed)
    weight = weight if weighted else np.ones(len(table), int)
    model = craftc.CRAFT(3, random_state=0, n_init=1).fit(table, sample_weight=weight)
    profile = model.profile(
        table.join(more), also=["income", "=city"], sample_weight=weight if weighted else None
    )
    at = np.repeat(np.arange(len(table)), weight)
    rows, labels = table.join(more).iloc[at].reset_index(drop=True), model.labels_[at]
    found = lookup(profile)
    clusters = {str(k): labels == k for k in range(model.n_clusters_)}
    assert not any("predict" in note for note in profile.notes)
    compared = 0
    for key, value in expected(rows, clusters):
        assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), key
        compared += 1
    assert compared > 100
    seen = rows["income"].notna().to_numpy()
    parts = [rows["income"][seen & here] for here in clusters.values()]
    ranks = stats.kruskal(*parts).pvalue
    cross = pd.crosstab(rows["=city"], labels).to_numpy()
    both = np.array([found["income", "", "p", "all"], found["=city", "", "p", "all"]])
    np.testing.assert_allclose(both, [ranks, stats.chi2_contingency(cross).pvalue], rtol=1e-9)
    low, high = np.sort(both)
    adjusted = [found["income", "", "p (Holm)", "all"], found["=city", "", "p (Holm)", "all"]]
    np.testing.assert_allclose(np.sort(adjusted), [min(2 * low, 1), min(max(2 * low, high), 1)])
    means, sds = rows["x"].groupby(labels).mean(), rows["x"].groupby(labels).std()
    pairs = [(a, b) for a in means.index for b in range(a)]
    largest = max(abs(means[a] - means[b]) / np.sqrt((sds[a] ** 2 + sds[b] ** 2) / 2) for a, b in pairs)
    assert found["x", "", "effect size", "all"] == pytest.approx(largest)
    square = pd.crosstab(rows["kind"], labels).to_numpy()
    v = stats.contingency.association(square, method="cramer")
    assert found["kind", "", "effect size", "all"] == pytest.approx(v)
    assert ("x", "", "p", "all") not in found


def test_deviations_are_those_of_samples_and_in_summaries_those_of_the_rows():
    heart = craftc.datasets.load_heart().data
    model = craftc.CRAFT(random_state=0).fit(heart)
    of_all = model.profile(heart).frame.query("column == 'max_hr'")["all"].iloc[0]
    of_rows = model.summary().query("feature == 'max_hr'")["in the whole table"].iloc[0]
    rate = heart["max_hr"]
    assert of_all == f"{rate.mean():.1f} ± {rate.std(ddof=1):.2f}"
    assert of_rows == f"{rate.mean():.1f} ± {rate.std(ddof=0):.2f}"


@pytest.mark.parametrize("exponent", [-1000, -600, 600, 1020])
def test_numbers_of_any_scale(exponent):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": 9.0 * np.repeat([0, 1], 20) + rng.normal(size=40), "b": rng.normal(size=40)})
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(table)
    table["c"] = rng.normal(np.repeat([0.0, 3.0], 20)).clip(-5.0, 5.0)
    usual = lookup(model.profile(table, also=["c"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = lookup(model.profile(table.assign(c=np.ldexp(table["c"], exponent)), also=["c"]))
    for key, value in usual.items():
        if key[0] == "c":
            size = 2.0**exponent if key[2] in ("mean", "sd", "q1", "median", "q3") else 1.0
            assert scaled[key] == pytest.approx(value * size, rel=1e-12, nan_ok=True), key


def test_fractional_weights_have_weighted_figures_and_no_p_values():
    table, _, more = drawn(0)
    weight = np.random.default_rng(1).random(len(table))
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(table, sample_weight=weight)
    profile = model.profile(table.join(more[["income"]]), also="income", sample_weight=weight)
    found = lookup(profile)
    seen = table["x"].notna()
    x, w = table["x"][seen].to_numpy(), weight[seen]
    mean = np.average(x, weights=w)
    variance = np.average((x - mean) ** 2, weights=w) * len(x) / (len(x) - 1)  # as in R's survey
    assert found["x", "", "mean", "all"] == pytest.approx(mean)
    assert found["x", "", "sd", "all"] == pytest.approx(np.sqrt(variance))
    order = np.argsort(x)
    assert found["x", "", "median", "all"] == x[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)]
    assert np.isnan(found["income", "", "p", "all"])
    assert any("not whole" in note for note in profile.notes)
    # equal weights of any size: those of a table without weights
    same = lookup(model.profile(table, sample_weight=np.full(len(table), 0.1)))
    plain = lookup(model.profile(table))
    assert same["x", "", "sd", "1"] == pytest.approx(plain["x", "", "sd", "1"])


def test_other_rows_have_predicted_clusters_and_a_note():
    table, _, _ = drawn(3)
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(table)
    part = table.iloc[::2]
    profile = model.profile(part)
    assert any("predict" in note for note in profile.notes)
    found, labels = lookup(profile), model.predict(part)
    for k in range(2):
        assert found["rows", "", "n", str(k)] == (labels == k).sum()
    shuffled = table.iloc[::-1]
    assert any("predict" in note for note in model.profile(shuffled).notes)


def test_names_dates_periods_and_single_rows():
    rng = np.random.default_rng(5)
    n = 60
    group = np.arange(n) % 2
    table = pd.DataFrame(
        {
            "since": 19_000.0 + 300 * group + rng.integers(0, 30, n),
            "hour": (23.5 + 12 * group + rng.normal(0, 1, n)) % 24,
            "constant": np.where(group, 4.0, 9.0),
            "contact": ["Anna Meyer", "Max Weber", "Jane Doe", "Tom Ray", "Lena Fox"] * (n // 5),
        }
    )
    model = craftc.CRAFT(2, kinds={"since": "date", "hour": ("periodic", 24)}, random_state=0).fit(table)
    model.rename_clusters({0: "all", 1: "night & day"})
    profile = model.profile(table)
    frame = profile.frame
    assert list(frame.columns[2:5]) == ["all", "all (cluster 0)", "night & day"]
    text = str(profile)
    assert "2022-01-" in text
    assert "Anna" not in text
    assert "Anna" not in profile.to_html()
    assert not profile.figures["level"].str.contains("Anna").any()
    assert "∞" in text  # constants that differ
    midnight = lookup(profile)["hour", "", "mean", str(int(model.labels_[0]))]
    angle = 2 * np.pi * table["hour"][group == 0] / 24
    mean = np.angle(np.exp(1j * angle).mean()) / (2 * np.pi) * 24 % 24
    assert midnight == pytest.approx(mean)


def test_ratings_are_in_their_order_and_other_levels_by_frequency():
    marks = ["3", "10", "3", "2", "2", "2", "10", "2"] * 9
    table = pd.DataFrame({"rating": marks, "word": ["b", "b", "a", "b", "a", "b", "c", "b"] * 9})
    table["flag"] = ["1", "1", "0", "1"] * 18
    shown = craftc.CRAFT(1, random_state=0).fit(table).profile(table).frame["statistic"]
    levels = [each for each in shown if each in {*"0123abc", "10"}]
    assert levels == ["2", "3", "10", "b", "a", "c", "1", "0"]


def test_rare_levels_are_one_line_and_large_tables_have_all_figures():
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"x": rng.normal(size=400), "code": rng.integers(0, 40, 400).astype(str)})
    profile = craftc.CRAFT(1, categorical=["code"], random_state=0).fit(table).profile(table)
    shown = profile.frame["statistic"]
    assert shown.str.contains(r"^20 other levels$").sum() == 1
    shares = profile.figures.query("column == 'code' and statistic == 'n' and cluster == 'all'")["value"]
    assert len(shares) == 40
    assert shares.sum() == 400


def test_files(tmp_path):
    table, _, more = drawn(1)
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(table)
    profile = model.profile(table.join(more), also=["=city", "income"])
    html = profile.to_html(tmp_path / "a.html")
    assert html in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "c &amp; d" in html
    latex = profile.to_latex(tmp_path / "a.tex")
    assert (tmp_path / "a.tex").read_text(encoding="utf-8") == latex
    assert r"c \& d" in latex
    body = latex.split(r"\midrule")[1].split(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == len(profile.frame)
    assert {line.count(" & ") for line in rows} == {len(profile.frame.columns) - 1}
    openpyxl = pytest.importorskip("openpyxl")
    profile.to_excel(tmp_path / "a.xlsx")
    sheets = openpyxl.load_workbook(tmp_path / "a.xlsx")
    cells = [list(row) for row in sheets["profile"].iter_rows()]
    assert [cell.value for cell in cells[0]] == list(profile.frame.columns)
    (city,) = (row[0] for row in cells if row[0].value == "=city")
    assert city.data_type == "s"
    numbers = list(sheets["figures"].iter_rows(values_only=True))
    assert len(numbers) == len(profile.figures) + 1
    docx = pytest.importorskip("docx")
    profile.to_word(tmp_path / "a.docx")
    document = docx.Document(str(tmp_path / "a.docx"))
    words = [[cell.text for cell in row.cells] for row in document.tables[0].rows]
    assert words[0] == list(profile.frame.columns)
    assert [row[2:] for row in words[1:]] == profile.frame.iloc[:, 2:].to_numpy().tolist()
    assert [paragraph.text for paragraph in document.paragraphs] == profile.notes
    with pytest.raises(OSError, match="no such folder"):
        profile.to_word(tmp_path / "no such folder" / "a.docx")


def test_a_missing_package_names_its_extra(monkeypatch, tmp_path):
    table, _, _ = drawn(1)
    profile = craftc.CRAFT(2, random_state=0, n_init=1).fit(table).profile(table)
    for module, write, extra in (("docx", "to_word", "word"), ("openpyxl", "to_excel", "app")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"pip install 'craftc\[{extra}\]'"):
            getattr(profile, write)(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_bad_input_says_what_to_do():
    table, _, more = drawn(2)
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(table)
    both = table.join(more)
    for also, error, words in (
        ("nowhere", ValueError, "also: X is no frame with the columns 'nowhere'"),
        ("x", ValueError, "also: 'x' took part in the fit"),
        (3, TypeError, "also must be the name of a column or a list of names, got 3"),
        ([1], TypeError, "also must be the name of a column or a list of names"),
    ):
        with pytest.raises(error, match=words):
            model.profile(both, also=also)
    with pytest.raises(ValueError, match="sample_weight"):
        model.profile(table, sample_weight=[1.0])
    with pytest.raises(ValueError, match="also: X is no frame"):
        model.profile(model.schema_.encode(table), also="income")


def test_frames_of_other_libraries_and_arrays():
    pl = pytest.importorskip("polars")
    table, _, more = drawn(4)
    plain = table.drop(columns="grade")
    model = craftc.CRAFT(2, random_state=0, n_init=1).fit(pl.from_pandas(plain))
    frame = model.profile(pl.from_pandas(plain.join(more[["income"]])), also=["income"]).frame
    assert isinstance(frame, pl.DataFrame)
    columns = {name: plain.join(more)[name].to_numpy() for name in [*plain, "income"]}
    again = model.profile(columns, also=["income"]).frame
    assert again.equals(frame)
    numbers = np.random.default_rng(0).normal(size=(50, 2))
    of_array = craftc.PaperCRAFT(2, random_state=0).fit(numbers)
    assert of_array.profile(numbers).frame["column"].tolist()[1] == "x0"


def test_holm():
    p = np.array([0.01, np.nan, 0.04, 0.03, 1.0])
    np.testing.assert_allclose(holm(p), [0.04, np.nan, 0.09, 0.09, 1.0])
