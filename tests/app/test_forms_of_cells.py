"""Cells that can be read in two ways: decimal marks, years of two digits, ticked boxes, several answers."""

from __future__ import annotations

import datetime

import pytest

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
    assert (table["a"].tolist()[:3], notes) == ([2.207, 12.3, 7.125], "")


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
