"""Cells that can be read in two ways: decimal marks, years of two digits, ticked boxes, several answers."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pytest

import craftc
from craftc.cli import main

pd = pytest.importorskip("pandas", reason="files are read with pandas")


def column(cells, name="x"):
    return f"{name};y\n" + "".join(f"{cell};{i / 7:.3f}\n" for i, cell in enumerate(cells))


# ---- decimal marks ----


def two(first, second, mark=";", n=60, names="a,b"):
    rows = [mark.join((f'"{first[i % len(first)]}"', f'"{second[i % len(second)]}"')) for i in range(n)]
    return "\n".join([names.replace(",", mark), *rows]) + "\n"


@pytest.mark.parametrize(
    ("first", "second", "numbers"),
    [
        (["448", "2.207", "12.300"], ["17,50", "9,95"], [448, 2207, 12300]),
        (["1.000", "2.500", "10.000"], ["0,125", "3,5"], [1000, 2500, 10000]),
        (["1.234.567", "12.300", "7"], ["1.250,75", "3"], [1234567, 12300, 7]),
        (["-2.207", "448 ", "1.001"], ["17,5 €", "9,95 €"], [-2207, 448, 1001]),
        (["1,234", "2,500", "7"], ["17.50", "9.95"], [1234, 2500, 7]),
        (["1,234", "2,500", "7,001"], ["0.125", "3.5"], [1234, 2500, 7001]),
    ],
)
@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_the_decimal_mark_is_that_of_the_file(read, first, second, numbers, mark):
    points = "." in second[0]
    table, notes = read(two(first, second, mark), decimal="." if points and mark == ";" else "infer")
    assert table["a"].tolist()[:3] == numbers
    assert "'a' was read as numbers: " in notes


def test_dots_that_separate_no_thousands(read):
    for cells in (["0.448", "2.207"], ["2.2075", "1.25"], ["2.207", "1.5"], ["2.2", "12.300"]):
        table, _ = read(two(cells, ["17,50", "9,95"]))
        assert table["a"].tolist()[:2] == [float(cell) for cell in cells]
    assert read(two(["0,448", "2,207"], ["x", "y"], ","))[0]["a"].tolist()[:2] == [0.448, 2.207]


@pytest.mark.parametrize("mark", [";", ",", "\t", "|"])
def test_a_note_where_no_column_shows_the_mark(read, mark):
    cells = ["448", "2.207", "12.300", *map(str, range(20))]
    table, notes = read(two(cells, ["x", "y"], mark))
    assert table["a"].tolist()[:3] == [448, 2.207, 12.3]
    assert (
        "dots are decimal points, although they could separate thousands (decimal=',' takes them so)" in notes
    )
    assert read(two(cells, ["x", "y"], mark), decimal=",")[0]["a"].tolist()[:3] == [448, 2207, 12300]
    table, notes = read(two(["2.207", "12.300", "7.125"], ["x", "y"], mark))
    assert table["a"].tolist()[:3] == [2.207, 12.3, 7.125]
    assert ("could separate thousands" in notes) == (mark == ";")


def test_a_given_decimal_mark(read):
    assert read(two(["1,234", "2,5"], ["x", "y"]), decimal=",")[0]["a"].tolist()[:2] == [1.234, 2.5]
    assert read(two(["1,234", "2,500"], ["x", "y"]), decimal=".")[0]["a"].tolist()[:2] == [1234, 2500]
    with pytest.raises(ValueError, match="decimal must be"):
        read("a\n1\n2\n", decimal="'")


# ---- years of two digits ----

THIS_YEAR = datetime.date.today().year


def years_of(days):
    return (1970 + (days + 0.5) // 365.2425).astype(int).tolist()


def short(years, form):
    return [datetime.date(year, 1 + i % 12, 13 + i % 15).strftime(form) for i, year in enumerate(years)]


@pytest.mark.parametrize("form", ["%m/%d/%y", "%d/%m/%y", "%d-%b-%y", "%d-%m-%y", "%d.%m.%y"])
@pytest.mark.parametrize(
    ("name", "years"),
    [
        ("date of birth", [1940 + i % 50 for i in range(100)]),
        ("DOB", [THIS_YEAR - 98 + i % 97 for i in range(200)]),
        ("date", [THIS_YEAR - 80 + i % 70 for i in range(140)]),
        ("joined", [THIS_YEAR - 30 + i % 31 for i in range(62)]),
        ("due", [THIS_YEAR - 2 + i % 6 for i in range(60)]),
    ],
)
def test_years_of_two_digits(read, form, name, years):
    table, notes = read(column(short(years, form), name))
    assert years_of(table[name]) == years
    assert "years of two digits are those of" in notes
    assert "write four to change it" in notes


def test_no_date_is_far_in_the_future(read):
    table, _ = read(column(short([1900 + i for i in range(100)], "%m/%d/%y")))
    assert max(years_of(table["x"])) <= THIS_YEAR + 5
    assert "two digits" not in read(column(short([1990 + i for i in range(30)], "%m/%d/%Y")))[1]


# ---- ticked boxes ----

THREE = np.repeat([0, 1, 2], 100)
SHARES = np.array(
    [[0.9, 0.9, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1, 0.9, 0.9]]
)
TICKS = np.random.default_rng(0).random((300, 6)) < SHARES[THREE]


@pytest.mark.parametrize("tick", ["Python", 1, 1.0, "x", "TRUE", "true", True, "Yes", "ja", "✓"])
@pytest.mark.parametrize("blank", [None, "", np.nan, "?"])
def test_ticked_boxes(tick, blank):
    cells = np.where(TICKS, np.array(tick, object), np.array(blank, object))
    table = craftc.read_table(pd.DataFrame(cells, columns=list("abcdef")))
    assert table.shape == (300, 6)
    for name, ticked in zip("abcdef", TICKS.T, strict=True):
        assert table[name].nunique() == 2
        assert (
            table[name].astype(str) == table[name][ticked.argmax()]
        ).to_numpy().tolist() == ticked.tolist()
    assert any("Blank cells next to a single value are 'no'" in note for note in table.attrs["notes"])
    expected = craftc.CRAFT(random_state=0).fit(TICKS)
    model = craftc.CRAFT(random_state=0).fit(table)
    assert (model.n_clusters_, list(model.labels_)) == (3, list(expected.labels_))


@pytest.mark.parametrize("tick", ["x", "1", "TRUE", "Newsletter", "15.03 member"])
def test_ticked_boxes_of_files(read, tick):
    rows = [
        ",".join([f"{i / 7:.2f}", *(tick if each else "" for each in row)]) for i, row in enumerate(TICKS)
    ]
    table, notes = read("z,a,b,c,d,e,f\n" + "\n".join(rows) + "\n")
    assert [table[name].nunique() for name in "abcdef"] == [2] * 6
    assert "(in 'a', 'b', 'c', 'd', 'e', …); blanks='missing' leaves them so." in notes
    table, notes = read("z,a,b,c,d,e,f\n" + "\n".join(rows) + "\n", blanks="missing")
    assert "Blank" not in notes
    assert [table[name].nunique() for name in "abcdef"] == [1] * 6


@pytest.mark.parametrize("number", [2024, 400123, 2.5, -1000])
def test_a_number_that_is_no_tick(read, number):
    content = column([*[number] * 39, ""])
    table, notes = read(content)
    assert list(table) == ["y"]
    assert table.attrs["unusable"] == {"x": "one value in every row that has one"}
    assert "Blank" not in notes
    assert read(content, on_unusable="keep")[0]["x"].isna().sum() == 1


def test_numbers_of_answers_are_ticks():
    boxes = {f"q{k}": np.where(TICKS[:, k - 1], str(k), "") for k in range(1, 7)}
    table = craftc.read_table(pd.DataFrame(boxes))
    assert [sorted(set(table[name])) for name in boxes] == [
        ["0", "1"],
        *(["234"[k], "no"] for k in range(3)),
        ["5", "no"],
        ["6", "no"],
    ]


def test_ticks_of_either_case(read):
    spelled = [["x", "X"][i % 2] if each else "" for i, each in enumerate(TICKS[:, 0])]
    table, notes = read(column(spelled, "a"))
    assert (table["a"] == "X").tolist() == TICKS[:, 0].tolist()
    assert "Blank" in notes
    assert "differ only in case" not in notes
    model = craftc.CRAFT(random_state=0).fit(table)
    assert read(column(["x", "X", ""], "a"), like=model)[0]["a"].tolist() == ["X", "X", "no"]


def test_single_values_that_are_no_ticks(read):
    rows = [
        f"{['no', ''][i % 2]};{['', '3.5'][i % 2]};{['2024-01-05', ''][i % 2]};{i / 7:.3f}" for i in range(40)
    ]
    table, notes = read("a;b;c;d\n" + "\n".join(rows) + "\n")
    assert "Blank" not in notes
    assert table["a"].isna().sum() == 20
    assert table.attrs["unusable"] == dict.fromkeys("bc", "one value in every row that has one")


# ---- several answers ----

LANGUAGES = ["Python", "SQL", "R", "Java", "Go", "C++", "Rust"]
PICKED = (
    np.random.default_rng(1).random((300, 7))
    < np.array([[0.8] * 3 + [0.15] * 4, [0.15] * 3 + [0.8] * 4])[np.repeat([0, 1], 150)]
)


def answers(mark):
    return [mark.join(name for name, each in zip(LANGUAGES, row, strict=True) if each) for row in PICKED]


@pytest.mark.parametrize("mark", [";", "; ", ", ", ",", "|", " / ", "\n", ";\n"])
def test_several_answers(mark):
    frame = pd.DataFrame({"lang": answers(mark), "age": np.random.default_rng(2).normal(30, 5, 300)})
    table = craftc.read_table(frame)
    for name, picked in zip(LANGUAGES, PICKED.T, strict=True):
        assert (table[f"lang: {name}"] == "yes").tolist() == picked.tolist()
    assert any("'lang' holds several answers, separated by" in note for note in table.attrs["notes"])
    assert "lang" not in table
    whole = craftc.read_table(frame, split=[])
    assert "lang" in {*whole.columns, *whole.attrs["unusable"]}
    missing = craftc.read_table(frame, blanks="missing")
    assert (missing["lang: R"].isna() == ~PICKED.any(axis=1)).all()


@pytest.mark.parametrize("form", [list, tuple, set, np.array, lambda cell: str(list(cell))])
def test_lists_of_answers(form):
    cells = [form([name for name, each in zip(LANGUAGES, row, strict=True) if each]) for row in PICKED]
    table = craftc.read_table(pd.DataFrame({"lang": cells, "age": np.arange(300) / 7}))
    for name, picked in zip(LANGUAGES, PICKED.T, strict=True):
        assert (table[f"lang: {name}"] == "yes").tolist() == picked.tolist()


@pytest.mark.parametrize("form", [list, tuple, set, np.array])
@pytest.mark.parametrize("make", [pd.DataFrame, dict])
def test_lists_in_a_fit_lead_to_read_table(form, make):
    cells = [form(["a", "b"][: 1 + i % 2]) for i in range(40)]
    with pytest.raises(
        TypeError, match=r"'lang' has dtype .*, or pass the table craftc.read_table\(X\), which"
    ):
        craftc.CRAFT().fit(make({"age": np.arange(40) / 7, "lang": cells}))


@pytest.mark.parametrize(
    "cells",
    [
        ["Paris, France", "Lyon, France", "Rome, Italy", "Bern, Switzerland"],
        ["Smith, John", "Doe, Jane", "Lee, John", "Roth, Jane"],
        ["Black/African American", "White", "Asian/Pacific Islander", "White"],
        ["Bachelor, part-time", "Bachelor, full-time", "Master, part-time", "Master, full-time", "none"],
        ["Yes, always", "Yes, sometimes", "No"],
        ["km/h", "mph", "m/s"],
        ["good, but slow", "slow, and expensive", "expensive, I think", "fine"],
    ],
)
def test_cells_of_one_answer(cells):
    frame = pd.DataFrame({"x": [cells[i % len(cells)] for i in range(60)], "y": np.arange(60) / 7})
    table = craftc.read_table(frame)
    assert list(table.columns) == ["x", "y"]
    assert table["x"].nunique() == len(set(cells))


def test_rare_and_many_answers():
    cells = answers(";")
    for i in range(0, 300, 30):
        cells[i] = f"{cells[i]};other {i}"
    table = craftc.read_table(pd.DataFrame({"lang": cells, "age": np.arange(300) / 7}))
    assert table.shape[1] == 8
    assert any("rare answers are left out: 'other 0'" in note for note in table.attrs["notes"])
    rng = np.random.default_rng(0)
    many = [";".join(f"t{j}" for j in rng.integers(0, 5000, 3)) for _ in range(300)]
    assert craftc.read_table(pd.DataFrame({"t": many, "age": np.arange(300) / 7}))["age"].shape == (300,)


def test_an_answer_that_is_never_given_with_others_has_no_column():
    """ "None of these" says what the columns of the others do, and would be a cluster of its own."""
    rng = np.random.default_rng(0)
    picked = rng.random((600, 5)) < 0.4
    cells = [";".join(np.array(LANGUAGES[:5])[own]) or "None of these" for own in picked]
    table = craftc.read_table(pd.DataFrame({"lang": cells, "age": rng.normal(40, 9, 600)}))
    assert set(table.columns) == {*(f"lang: {name}" for name in LANGUAGES[:5]), "age"}
    assert any("'no' in each for 'None of these'" in note for note in table.attrs["notes"])
    model = craftc.CRAFT(random_state=0).fit(table)
    assert model.n_clusters_ == 1
    new = craftc.read_table(
        pd.DataFrame({"lang": ["None of these", "SQL;Cobol"], "age": [30, 40]}), like=model
    )
    assert new["lang: SQL"].tolist() == ["no", "yes"]
    assert "unknown answers are left out: 'Cobol'" in new.attrs["notes"][0]
    for name, value in (("split", []), ("decimal", ","), ("labels", {"age": "years"})):
        with pytest.raises(ValueError, match=f"{name} has no effect with like"):
            craftc.read_table(pd.DataFrame({"lang": ["SQL"], "age": [30]}), like=model, **{name: value})


def test_several_answers_that_are_never_given_with_others():
    """Such answers would be the same if none had a column; only "none" and its like need none."""
    rng = np.random.default_rng(0)
    colours = ["red/blue", "red", "blue", "green/red", "white", "black"]
    for more in ([], ["none", "Nothing"]):
        cells = rng.choice([*colours, *more], 300)
        table = craftc.read_table(pd.DataFrame({"colour": cells, "x": rng.normal(size=300)}))
        assert {name for name in table if name != "x"} == {
            f"colour: {colour}" for colour in ("red", "blue", "green", "white", "black")
        }
        assert (table["colour: black"] == "yes").tolist() == (cells == "black").tolist()
        assert ("'no' in each for" in table.attrs["notes"][0]) == bool(more)


def test_free_texts_behind_one_answer_are_this_answer():
    cells = [f"{cell};Other: {i}, {i}" if i % 3 == 0 else cell for i, cell in enumerate(answers(";"))]
    table = craftc.read_table(pd.DataFrame({"lang": cells, "age": np.arange(300) / 7}))
    assert (table["lang: Other"] == "yes").tolist() == [i % 3 == 0 for i in range(300)]
    assert (table["lang: R"] == "yes").tolist() == PICKED[:, 2].tolist()
    model = craftc.CRAFT(random_state=0).fit(table)
    new = craftc.read_table(
        pd.DataFrame({"lang": ["SQL;Other: Cobol", "SQL"], "age": [3.0, 4.0]}), like=model
    )
    assert new["lang: Other"].tolist() == ["yes", "no"]


def test_separators_in_parentheses_separate_nothing():
    names = np.array(["car (own, leased)", "bus", "bike"])
    picked = np.random.default_rng(0).random((90, 3)) < 0.5
    cells = [", ".join(names[own]) for own in picked]
    table = craftc.read_table(pd.DataFrame({"by": cells, "age": np.arange(90) / 7}))
    assert (table["by: car (own, leased)"] == "yes").tolist() == picked[:, 0].tolist()


def test_two_numbers_in_each_cell_are_not_two_answers():
    cells = [f"{i // 12};{i % 12}" for i in np.random.default_rng(0).integers(0, 144, 300)]
    table = craftc.read_table(pd.DataFrame({"age": cells, "x": np.arange(300) / 7}))
    assert not any("several answers" in note for note in table.attrs["notes"])


def test_split_and_blanks_of_the_command_line(tmp_path, capsys):
    path = tmp_path / "t.csv"
    ticks = np.where(TICKS[:, 0], "x", "")
    pd.DataFrame({"lang": answers("; "), "t": ticks, "age": np.arange(300) / 7}).to_csv(path, index=False)
    assert main(["cluster", str(path), "--json"]) == 0
    out = capsys.readouterr().out
    assert "lang: Python" in out
    assert re.search("--categorical '.+' keeps the cells whole", out)
    assert "--blanks missing leaves them so" in out
    assert main(["cluster", str(path), "--categorical", "lang", "--json"]) == 0
    assert "lang: Python" not in capsys.readouterr().out
    assert main(["cluster", str(path), "--split", "lang", "--blanks", "missing", "--quiet"]) == 0


# ---- ids ----


@pytest.mark.parametrize("twice", [1, 7, 25])
def test_ids_that_are_there_twice(read, twice):
    rng = np.random.default_rng(0)
    ids = rng.permutation(10**6)[:300]
    ids[:twice] = ids[-twice:]
    frame = pd.DataFrame(
        {"customer_id": ids, "name": [f"n{i}" for i in ids], "pay": ids * 3, "x": np.arange(300) / 7}
    )
    for table in (craftc.read_table(frame), read(frame.to_csv(index=False))[0]):
        assert list(table.columns) == ["pay", "x"]
        assert table.attrs["unusable"] == {
            "customer_id": "a different number in almost every row, and the name of an id",
            "name": "a different text in almost every row",
        }
    assert list(craftc.read_table(frame, on_unusable="keep").columns) == list(frame.columns)


@pytest.mark.parametrize("name", ["KUNDENNR", "orderNumber", "Matricule", "CustomerKey", "Rechnungsnummer"])
def test_names_of_ids(name):
    ids = np.random.default_rng(0).permutation(10**6)[:300]
    ids[:9] = ids[-9:]
    table = craftc.read_table(pd.DataFrame({name: ids, "x": np.arange(300) / 7}))
    assert list(table.columns) == ["x"]


def test_names_that_repeat_are_no_ids():
    names = [f"n{i % 40}" for i in range(50)]
    assert "n" in craftc.read_table(pd.DataFrame({"n": names, "x": np.arange(50) / 7}))


def test_more_texts_than_levels():
    n = 150_000
    frame = pd.DataFrame({"name": [f"n{i % 70_000}" for i in range(n)], "x": np.arange(n) % 91 / 7})
    table = craftc.read_table(frame)
    assert table.attrs["unusable"] == {"name": "more than 65,535 different texts"}


# ---- placeholders, footnotes, sentinels ----


@pytest.mark.parametrize(
    "placeholder",
    ["..", "Suppressed", "*", "n.d.", "#DIV/0!", "not available", "x", ":", "<LOD", "(D)", "elsewhere"],
)
@pytest.mark.parametrize("share", [3, 4, 7])
def test_placeholders_in_columns_of_numbers(read, placeholder, share):
    cells = [placeholder if i % share == 0 else f"{i}.5" for i in range(120)]
    table, notes = read(column(cells))
    assert table["x"].isna().sum() == 120 // share + (120 % share > 0)
    assert f"cells that cannot be read became missing: {placeholder!r}" in notes


def test_letters_of_most_numbers_are_no_footnotes(read):
    flats = [f"{100 + i % 40}{'CE'[i // 40 % 2]}" for i in range(160)]
    table, notes = read(column(flats))
    assert isinstance(table["x"].dtype, pd.CategoricalDtype)
    assert "footnote" not in notes


def test_words_among_numbers_stay_levels(read):
    for word in ("thirty", "none of these", "A"):
        table, _ = read(column([word if i % 3 == 0 else str(i % 20) for i in range(60)]))
        assert isinstance(table["x"].dtype, pd.CategoricalDtype)


@pytest.mark.parametrize("mark", ["*", " *", "**", "†", " (p)", "[a]", "²", " (est.)", " e", "p", "^", "(1)"])
def test_footnotes_of_numbers(read, mark):
    cells = [f"{3309 + 7 * i}{mark if i % 4 == 0 else ''}" for i in range(80)]
    table, notes = read(column(cells, "pay"))
    assert table["pay"].tolist() == [3309 + 7 * i for i in range(80)]
    assert "footnote marks removed" in notes


@pytest.mark.parametrize(
    ("sentinel", "low", "high"),
    [(-200, 647, 2040), (-99, 0, 500), (-1000, -20, 40), (-1, 3, 300), (-8, 0, 270)],
)
def test_sentinels(read, sentinel, low, high):
    rng = np.random.default_rng(0)
    values = rng.integers(low, high, 600)
    values[::50] = sentinel
    _, notes = read(column(values))
    assert f"'x' has {sentinel} in 12 rows, far from its other numbers; na_values=" in notes
    assert "far from" not in read(column(rng.integers(low, high, 600)))[1]


@pytest.mark.parametrize(
    ("codes", "n", "share", "usual"),
    [
        ((-9, -8), 600, 0.1, lambda rng, n: rng.lognormal(7.5, 0.5, n).round()),
        ((98, 99), 600, 0.02, lambda rng, n: rng.integers(0, 11, n)),
        ((8, 9), 120, 0.06, lambda rng, n: rng.integers(1, 6, n)),
    ],
)
def test_several_codes_of_a_missing_number(read, codes, n, share, usual):
    values = usual(np.random.default_rng(0), n).astype(int)
    assert "far from" not in read(column(values))[1]
    values[: int(share * n)] = np.resize(codes, int(share * n))
    _, notes = read(column(values))
    both = ", ".join(map(str, codes))
    assert f"'x' has {both} in {int(share * n)} rows, far from its other numbers" in notes


@pytest.mark.parametrize(
    ("codes", "n_rows", "low", "high"),
    [
        ((77,), 30, 1, 8),
        ((88,), 30, 1, 8),
        ((77, 88), 30, 1, 8),
        ((777,), 30, 18, 91),
        ((-1,), 30, 1, 8),
        ((-2, -1), 30, 1, 11),
        ((9,), 2, 1, 6),
        ((9,), 4, 0, 4),
        ((8, 9), 4, 1, 6),
        ((0,), 12, 100, 180),
        ((0,), 12, 70, 200),
        ((0,), 12, 45, 120),
        ((0,), 60, 18, 39),
    ],
)
def test_codes_next_to_a_scale_and_zeros_far_from_the_others(read, codes, n_rows, low, high):
    values = np.random.default_rng(0).integers(low, high, 600)
    assert "far from" not in read(column(values))[1]
    values[:n_rows] = np.resize(codes, n_rows)
    _, notes = read(column(values))
    shown = ", ".join(map(str, codes))
    assert f"'x' has {shown} in {n_rows} rows, far from its other numbers" in notes


@pytest.mark.parametrize(
    ("number", "n_rows", "usual"),
    [
        (-1, 30, lambda rng: rng.integers(0, 11, 600)),  # the next step of the scale
        (-1, 30, lambda rng: rng.choice([1, 2, 4, 7, 11], 600)),
        (7, 30, lambda rng: rng.integers(0, 4, 600)),
        (
            9,
            2,
            lambda rng: rng.choice([0, 1, 2, 3, 4, 5], 600, p=[0.4, 0.3, 0.2, 0.06, 0.03, 0.01]),
        ),  # a tail
        (9, 1, lambda rng: rng.integers(1, 6, 600)),
        (0, 12, lambda rng: rng.integers(18, 91, 600)),  # a child
        (0, 60, lambda rng: rng.lognormal(6, 0.7, 600).round() + 1),  # amounts
        (0, 200, lambda rng: rng.integers(70, 200, 600)),  # most have none
        (0, 4, lambda rng: rng.integers(70, 200, 600)),
        (0, 60, lambda rng: 100 * rng.integers(1, 30, 600) + 900 * (rng.random(600) < 0.5)),
    ],
)
def test_numbers_that_stand_for_themselves(read, number, n_rows, usual):
    values = usual(np.random.default_rng(0)).astype(int)
    values[:n_rows] = number
    assert "far from" not in read(column(values))[1]


@pytest.mark.parametrize("seed", range(10))
def test_numbers_that_are_no_codes(read, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([120, 600]))
    for values in (
        rng.normal(4, 6, n).round(),
        rng.poisson(3, n) - rng.poisson(3, n),
        rng.exponential(10, n).round() - 3,
        rng.normal(100, 300, n).round(),
        rng.normal(size=n).round(1),
        rng.integers(-3, 4, n),
        rng.geometric(0.3, n),
    ):
        assert "far from" not in read(column(values))[1]


def test_few_values_have_no_sentinel(read):
    assert "far from" not in read(column(["1.234", "2.5", "13"][i % 3] for i in range(60)))[1]


# ---- forms of single cells, of lines in quotes, and of statistics below the rows ----


@pytest.mark.parametrize("sign", ["", "₹", "Rs. "])
def test_lakhs_and_crores(read, sign):
    numbers = [1_000 + 97_531 * i for i in range(200)]

    def grouped(number):
        head, tail = f"{number:,}".replace(",", "")[:-3], f"{number:03d}"[-3:]
        pairs = [head[max(0, at - 2) : at] for at in range(len(head), 0, -2)][::-1]
        return ",".join([*pairs, tail])

    table, notes = read("x,kind\n" + "".join(f'"{sign}{grouped(n)}",{"ab"[n % 2]}\n' for n in numbers))
    assert table["x"].tolist() == numbers
    assert "thousands separators removed" in notes


@pytest.mark.parametrize("code", ["-999.99", "99.99", "-9999", "9.99"])
def test_nines_with_a_fraction_are_noted(read, code):
    cells = [code if i % 20 == 3 else f"{(i % 37) / 50:.2f}" for i in range(200)]
    table, notes = read("x,kind\n" + "".join(f"{cell},{'ab'[i % 2]}\n" for i, cell in enumerate(cells)))
    assert f"'x' has {code} in 10 rows, far from its other numbers" in notes
    assert (table["x"] == float(code)).sum() == 10


@pytest.mark.parametrize("brackets", ["{}", "()", "[]"])
def test_answers_in_brackets(read, brackets):
    some = [[word for bit, word in enumerate(("red", "blue", "green")) if i >> bit & 1] for i in range(8)]
    rows = "".join(f'"{brackets[0]}{",".join(some[i % 8])}{brackets[1]}",{i}\n' for i in range(80))
    table, _ = read("colours,x\n" + rows)
    for word in ("red", "blue", "green"):
        assert (table[f"colours: {word}"] == "yes").tolist() == [word in some[i % 8] for i in range(80)]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("around", ["lines", "cells"])
def test_single_quotes_around_lines_and_cells(read, mark, around):
    rows = [["town", "x", "kind"], *([["Ulm", "Bonn"][i % 2], f"{i / 8}", "ab"[i % 2]] for i in range(60))]
    if around == "lines":
        text = "".join(f"'{mark.join(row)}'\n" for row in rows)
    else:
        text = "".join(mark.join(f"'{cell}'" for cell in row) + "\n" for row in rows)
    table, notes = read(text)
    assert list(table) == ["town", "x", "kind"]
    assert table["x"].tolist() == [i / 8 for i in range(60)]
    assert set(table["town"]) == {"Ulm", "Bonn"}
    assert "single quotes" in notes


def test_apostrophes_are_no_quotes(read):
    text = "town,x\n" + "".join(f"'s Gravenhage{i % 2},{i}\n" for i in range(30))
    assert set(read(text)[0]["town"]) == {"'s Gravenhage0", "'s Gravenhage1"}


@pytest.mark.parametrize(
    ("last", "n_rows"),
    [
        (",{mean:.2f},{other:.2f}", 60),
        (",{mean:.1f},{other:.1f}", 60),
        ("Ø,{mean:.2f},{other:.2f}", 60),
        ("Median,30,12", 60),
        ("Std. dev.,17.5,9.1\nMin,0,{low}\nMax,59,{high}\nCount,60,60", 60),
        (",12,5", 61),  # a row without a town
        ("Max,31,12", 61),  # a name
    ],
)
def test_statistics_below_the_rows(read, last, n_rows):
    other = [(i * i) % 31 for i in range(60)]
    rows = "".join(f"{['Ulm', 'Bonn'][i % 2]},{i},{other[i]}\n" for i in range(60))
    values = {"mean": 29.5, "other": sum(other) / 60, "low": min(other), "high": max(other)}
    table, notes = read("town,x,y\n" + rows + last.format(**values) + "\n")
    assert len(table) == n_rows
    assert ("a total or footnotes" in notes) == (n_rows == 60)


def test_infinite_numbers_are_missing(read):
    cells = [["inf", "-inf", "Infinity"][i % 9] if i % 9 < 3 else f"{i / 7:.3f}" for i in range(90)]
    table, notes = read(column(cells))
    assert table["x"].isna().sum() == 30
    assert "30 cells that cannot be read became missing: 'inf', '-inf', 'Infinity'" in notes


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", object])
def test_infinite_numbers_of_a_frame_are_missing(dtype):
    cells = [[np.inf, -np.inf][i % 9] if i % 9 < 2 else i / 7 for i in range(90)]
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=dtype), "y": np.arange(90) % 7 / 3})
    table = craftc.read_table(frame)
    assert table["x"].isna().sum() == 20
    assert "'x': 20 infinite number(s) became missing." in table.attrs["notes"]
    model = craftc.CRAFT(random_state=0).fit(table)
    assert craftc.read_table(frame, like=model)["x"].isna().sum() == 20


@pytest.mark.parametrize("cells", [[b"a", b"b"] * 20, [1j, 2.0] * 20])
def test_cells_that_no_estimator_takes_are_not_kept(cells):
    frame = pd.DataFrame({"x": cells, "y": np.arange(40) % 7 / 3})
    assert "instead of numbers or text" in craftc.read_table(frame).attrs["unusable"]["x"]
    with pytest.raises(ValueError, match=r"'x' holds .* instead of numbers or text; convert it, or leave it"):
        craftc.read_table(frame, on_unusable="keep")


def test_codes_of_missing_answers_among_texts(read):
    cells = [["-99", "999"][i % 8] if i % 8 < 2 else ["red", "green", "blue"][i % 3] for i in range(90)]
    table, notes = read(column(cells))
    assert table["x"].nunique() == 5
    assert (
        "'x' has '-99', '999' among its texts, as if for missing cells; na_values=['-99', '999'] makes"
        in notes
    )
    assert read(column(cells), na_values=["-99", "999"])[0]["x"].nunique() == 3
    assert "among its texts" not in read(column(["99", "7a", "7b", "12", "x"] * 9))[1]


def test_large_codes_of_missing_numbers_are_short(read):
    cells = ["9.96921e+36" if i % 9 == 0 else f"{i / 7:.3f}" for i in range(90)]
    notes = read(column(cells))[1]
    assert "'x' has 9.96921e+36 in 10 rows, far from its other numbers; na_values=['9.96921e+36']" in notes
    assert read(column(cells), na_values=["9.96921e+36"])[0]["x"].isna().sum() == 10


def test_numbers_of_two_answers_are_no_decimals(read):
    """Codes of up to two answers ascend in a cell; decimals do not."""
    codes = ["1", "2,4", "1,3", "4", "2,3", "1,5", "3,5", "5", "4,5", "2"]
    table, notes = read(column(codes * 4, "answers"))
    assert {name for name in table if name != "y"} == {f"answers: {code}" for code in (1, 2, 3, 4, 5)}
    assert "'answers' holds several answers, separated by ','" in notes
    for cells in (
        ["1,3", "1,7", "2,3", "2,7", "3,7", "4", "5"],
        ["2,4", "1,3", "3,1", "4,5", "2,3", "5,0", "1"],
    ):
        table, notes = read(column(cells * 4))
        assert table["x"].tolist()[:2] == [float(cell.replace(",", ".")) for cell in cells[:2]]
        assert "'x' was read as numbers: decimal commas" in notes
