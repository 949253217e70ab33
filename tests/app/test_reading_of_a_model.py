"""`compare` and `report.write` read files and frames with texts as the model's table was read."""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc import CRAFT, report

pd = pytest.importorskip("pandas", reason="files are read with pandas")
pytest.importorskip("jinja2", reason="reports need Jinja2")

N = 120
RNG = np.random.default_rng(0)
OLD = RNG.random(N) < 0.5
RAW = pd.DataFrame(
    {
        "day": [f"{1 + i % 28:02d}/{1 + (i // 28) % 12:02d}/2023" for i in range(N)],
        "paid": [
            f"{1500 + 40 * i % 800}".replace("1", "1.", 1) if o else f"{20 + i % 9},50"
            for i, o in enumerate(OLD)
        ],
        "lang": np.where(
            OLD,
            np.array(["SQL; R", "SQL"])[RNG.integers(0, 2, N)],
            np.array(["Go", "Go; R"])[RNG.integers(0, 2, N)],
        ),
        "news": np.where(OLD, "x", ""),
        "kind": np.where(OLD, "a", "b"),
    }
)


@pytest.fixture(scope="module")
def model():
    return craftc.CRAFT(2, random_state=0).fit(craftc.read_table(RAW.drop(columns="kind")))


def test_compare_reads_new_tables_as_the_fit(model, tmp_path):
    RAW.to_csv(tmp_path / "t.csv", index=False, sep=";")
    few = RAW[:5].assign(day="05/01/2023", paid="1.500")
    few.to_csv(tmp_path / "u.csv", index=False)
    table = craftc.read_table(RAW, like=model)
    expected = craftc.compare(model, table)
    assert expected.labels.tolist() == model.labels_.tolist()
    assert expected.notes == []
    for source in (RAW, tmp_path / "t.csv", str(tmp_path / "t.csv"), [tmp_path / "t.csv"]):
        found = craftc.compare(model, source)
        assert found.labels.tolist() == expected.labels.tolist()
        assert found.drift == expected.drift
        assert any("columns that are not in the model are ignored: 'kind'" in note for note in found.notes)
    of_frame, of_file = craftc.compare(model, few), craftc.compare(model, tmp_path / "u.csv")
    assert of_frame.labels.tolist() == of_file.labels.tolist()
    assert of_frame.features()["drift"].tolist() == of_file.features()["drift"].tolist()


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        (
            "day",
            "05/21/2023",
            "'day': the model was fitted on dates with the day first, which '05/21/2023' is",
        ),
        ("paid", "many", "'paid': the model expects numbers, got 'many'"),
        ("day", "never", "'day': the model was fitted on dates, got 'never'; write the dates as in the fit"),
    ],
)
def test_cells_that_contradict_the_fit(model, column, cells, message, tmp_path):
    new = RAW.assign(**{column: cells})
    with pytest.raises(ValueError, match=message):
        craftc.compare(model, new)
    new.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=message):
        report.write(model, tmp_path / "t.csv", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_reports_read_the_table_of_the_fit(model, tmp_path):
    table = craftc.read_table(RAW, like=model)
    table["kind"] = pd.Categorical(RAW["kind"])
    report.write(model, table, tmp_path / "a.html", target="kind", title="t")
    RAW.to_csv(tmp_path / "t.csv", index=False)
    report.write(model, RAW, tmp_path / "b.html", target="kind", title="t")
    report.write(model, tmp_path / "t.csv", tmp_path / "c.html", target="kind", title="t")
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html", "c.html")]
    assert pages[0] == pages[1] == pages[2]
    with pytest.raises(ValueError, match="has no column 'x'"):
        report.write(model, tmp_path / "t.csv", tmp_path / "d.html", target="x")


def test_tables_that_need_no_reading(tmp_path):
    numbers = pd.DataFrame(RNG.normal(size=(60, 3)) + 5 * (np.arange(60) % 2)[:, None], columns=list("abc"))
    plain = craftc.CRAFT(random_state=0).fit(numbers)
    numbers.to_csv(tmp_path / "t.csv", index=False)
    assert craftc.compare(plain, tmp_path / "t.csv").labels.tolist() == plain.labels_.tolist()
    numbers.to_parquet(tmp_path / "t.parquet")
    assert craftc.compare(plain, str(tmp_path / "t.parquet")).labels.tolist() == plain.labels_.tolist()
    ready = craftc.read_table(RAW.drop(columns="kind"))
    model = craftc.CRAFT(2, random_state=0).fit(ready)
    ready.attrs = {}
    assert craftc.compare(model, ready[:40]).notes == []
    assert craftc.compare(model, ready[:40]).labels.tolist() == model.labels_[:40].tolist()


def test_lists_in_the_place_of_separated_answers():
    words = ["a", "b", "c"]
    some = [[word for bit, word in enumerate(words) if i >> bit & 1] for i in range(8)] * 10
    texts = pd.DataFrame({"o": ["|".join(each) for each in some], "x": np.arange(80.0)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(texts))
    lists = texts.assign(o=some)
    assert craftc.read_table(lists, like=model).equals(craftc.read_table(texts, like=model))


SOME = [
    [each for bit, each in enumerate(["Apple pie", "pear", "kiwi"]) if i >> bit & 1] for i in range(8)
] * 10
FORMS = {
    "semicolon": ";".join,
    "comma": ", ".join,
    "slash": " / ".join,
    "bar": "|".join,
    "upper case": lambda cell: "; ".join(cell).upper(),
    "list": list,
    "array": np.array,
    "NumPy's texts": lambda cell: [np.str_(each) for each in cell],
    "text of a list": str,
    "text of NumPy's texts": lambda cell: f"[{', '.join(f'np.str_({each!r})' for each in cell)}]",
}


@pytest.mark.parametrize("fitted", FORMS)
def test_answers_of_new_rows_in_any_form(fitted):
    """Every form says the same, whichever one the fit had."""
    tables = {
        form: pd.DataFrame({"o": [*map(write, SOME)], "x": np.arange(80.0)}) for form, write in FORMS.items()
    }
    table = craftc.read_table(tables[fitted])
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(table)
    for form, new in tables.items():
        read = craftc.read_table(new, like=model)
        assert read.to_numpy().tolist() == table.to_numpy().tolist(), form
        assert model.predict(read).tolist() == model.labels_.tolist()
        assert not any("unknown" in note for note in read.attrs["notes"])


@pytest.mark.parametrize("form", [";".join, list])
def test_cells_without_an_answer_of_the_fit_say_nothing(form):
    table = pd.DataFrame({"o": [*map(form, SOME)], "x": np.arange(80.0)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(table))
    cells = [*map(form, (["plum"], ["pear", "plum"], [])), "pear, quince", None]
    new = craftc.read_table(table[:5].assign(o=cells), like=model)
    assert new["o: pear"].astype(object).fillna("").tolist() == ["", "yes", "no", "yes", "no"]
    assert new["o: kiwi"].astype(object).fillna("").tolist() == ["", "no", "no", "no", "no"]
    note = "unknown answers are left out: 'plum', 'quince', and 1 cell(s) without another answer are missing"
    assert note in new.attrs["notes"][0]
    with pytest.warns(UserWarning, match="has no value in any of these rows"):
        model.predict(craftc.read_table(table.assign(o="plum"), like=model))


def test_answers_that_differ_in_case_only_stay_apart():
    some = [["us", "US", "uk"][i % 2 : 1 + i % 3] or ["uk"] for i in range(60)]
    table = pd.DataFrame({"o": [*map(";".join, some)], "x": np.arange(60.0)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(table, split=["o"]))
    new = craftc.read_table(table[:3].assign(o=["Us", "US;UK", "us"]), like=model)
    assert new["o: us"].astype(object).fillna("").tolist() == ["", "no", "yes"]
    assert new["o: US"].astype(object).fillna("").tolist() == ["", "yes", "no"]
    assert new["o: uk"].astype(object).fillna("").tolist() == ["", "yes", "no"]


def test_other_answers_of_a_column_that_is_split_on_request_are_a_no():
    """Where few of many answers have a column, a cell without them has none of them."""
    cells = [f"a;t{i}" if i % 3 else f"t{i};u{i}" for i in range(60)]
    table = pd.DataFrame({"o": [*cells[:-4], "a;b", "b;a", "a;b", "b"], "x": np.arange(60) / 7.0})
    first = craftc.read_table(table, split=["o"])
    assert first["o: a"].tolist()[:3] == ["no", "yes", "yes"]
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(first)
    assert craftc.read_table(table, like=model)["o: a"].tolist() == first["o: a"].tolist()


def of_times(seed=0, n=200):
    """Calls of three times of day and lengths, and their groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    hours = np.array([8.0, 14.0, 21.0])[group] + rng.normal(0.0, 0.5, n)
    times = [f"{int(x):02d}:{int(x % 1 * 60):02d}" for x in hours]
    length = rng.gamma(4.0, np.array([1.0, 3.0, 8.0])[group]).round(1)
    return pd.DataFrame({"Call time": times, "Length": length}), hours


@pytest.mark.parametrize("as_text", [False, True])
def test_times_of_day_as_fractions_of_a_day(as_text):
    frame, hours = of_times()
    model = CRAFT(random_state=0).fit(craftc.read_table(frame))
    fractions = pd.Series((hours / 24.0).round(6))
    new = frame.assign(**{"Call time": fractions.astype(str) if as_text else fractions})
    read = craftc.read_table(new, like=model)
    np.testing.assert_allclose(read["Call time"], hours, atol=1e-4)
    assert any("fractions of a day" in note for note in read.attrs["notes"])
    read = craftc.read_table(frame.assign(**{"Call time": hours}), like=model)
    np.testing.assert_allclose(read["Call time"], hours)
    with pytest.raises(ValueError, match=r"fitted on times of day, but cells are numbers, such as 730"):
        craftc.read_table(frame.assign(**{"Call time": 730}), like=model)


def test_the_order_of_slashes_says_nothing_of_dots():
    days = [(m, d) for m in range(1, 13) for d in (3, 9, 17, 25)]
    v = np.random.default_rng(0).normal(size=len(days))

    def model_of(form):
        return CRAFT().fit(
            craftc.read_table(pd.DataFrame({"d": [form.format(m, d) for m, d in days], "v": v}))
        )

    new = pd.DataFrame({"d": ["05.09.2024", "03.10.2024", "01.02.2024"], "v": [0.0, 1.0, 2.0]})
    for form, months in (("{:02d}/{:02d}/2024", [9, 10, 2]), ("{:02d}.{:02d}.2024", [5, 3, 1])):
        days_since_1970 = craftc.read_table(new, like=model_of(form))["d"].to_numpy().astype("datetime64[D]")
        assert pd.DatetimeIndex(days_since_1970).month.tolist() == months


@pytest.mark.parametrize(
    ("name", "ids", "used"),
    [
        ("Member No", np.arange(1002.0, 1202.0), False),
        ("x", np.arange(1002.0, 1202.0), False),  # a counter, whatever its name
        ("Pers.-Nr.", np.random.default_rng(0).permutation(np.arange(5000.0, 5600.0, 3.0)), False),
        ("x", np.random.default_rng(0).permutation(np.arange(5000.0, 5600.0, 3.0)), True),
        ("Nr", np.random.default_rng(0).integers(1, 30, 200).astype(float), True),
    ],
)
def test_ids_of_which_one_is_blank(name, ids, used):
    frame, _ = of_times()
    ids = ids.copy()
    ids[17] = np.nan
    read = craftc.read_table(frame.assign(**{name: ids}))
    assert (name in read.columns) == used
    ids[::5] = np.nan  # too many for ids
    assert name in craftc.read_table(frame.assign(**{name: ids})).columns
