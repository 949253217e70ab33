"""Numbers with units of one quantity, out of a whole, with labels, signs of other kinds, flags and words."""

from __future__ import annotations

import numpy as np
import pytest

import craftc

pd = pytest.importorskip("pandas", reason="files are read with pandas")

Y = np.random.default_rng(0).normal(size=300).round(3)


def read(cells, like=None):
    """The column that these cells, repeated, become, and the notes."""
    cells = list(cells)
    n = len(cells) if like is not None else 10 * (30 if len(cells) > 30 else len(cells))
    column = [cells[i % len(cells)] for i in range(max(n, len(cells)))]
    frame = pd.DataFrame({"x": column, "y": np.resize(Y, len(column))})
    table = craftc.read_table(frame, **({} if like is None else {"like": like}))
    return table["x"].tolist()[: len(cells)], " | ".join(table.attrs["notes"])


NUMBERS = {
    "months and years": (["3 mo", "2 y", "11 y", "7 y", "18 mo", "45 y"], [0.25, 2, 11, 7, 1.5, 45]),
    "years and months in a cell": (
        ["1y 6m", "16y 3m", "0y 9m", "8y 0m", "2y 3m", "4y 6m"],
        [1.5, 16.25, 0.75, 8, 2.25, 4.5],
    ),
    "weeks and days": (["33w4d", "25w0d", "38w6d", "40w0d", "29w3d", "31w1d"], None),
    "hours and bare minutes": (
        ["1h 30", "0h 45", "2h 15", "3h 0", "1h 6", "0h 12"],
        [1.5, 0.75, 2.25, 3, 1.1, 0.2],
    ),
    "milliseconds": (["850ms", "1.2s", "40ms", "99ms", "2s", "310ms"], [850, 1200, 40, 99, 2000, 310]),
    "microseconds": (
        ["850 µs", "1.2 ms", "40 µs", "99 µs", "2 ms", "310 µs"],
        [850, 1200, 40, 99, 2000, 310],
    ),
    "bytes": (["12KB", "1.5MB", "30KB", "400KB", "7KB", "2MB"], [12, 1500, 30, 400, 7, 2000]),
    "feet": (["5'6\"", "6'0\"", "5'9\"", "4'9\"", "5'3\"", "6'3\""], [5.5, 6, 5.75, 4.75, 5.25, 6.25]),
    "pounds": (["8 lb 8 oz", "7 lb 0 oz", "6 lb 4 oz", "9 lb 12 oz", "8 lb 4 oz", "5 lb 8 oz"], None),
    "kilograms": (["70 kg", "154.3 lb", "81 kg", "64 kg", "90 kg", "55 kg"], None),
    "metres": (["1m75", "1m60", "1m82", "1m68", "1m90", "1m55"], [1.75, 1.6, 1.82, 1.68, 1.9, 1.55]),
    "one day": (["1 day", "2 days", "5 days", "9 days", "4 days", "7 days"], [1, 2, 5, 9, 4, 7]),
    "one year": (
        ["< 1 Jahr", "1 Jahr", "2 Jahre", "5 Jahre", "10+ Jahre", "7 Jahre", "3 Jahre"],
        [1, 1, 2, 5, 10, 7, 3],
    ),
    "a bound with a unit": (["Less than 1 year", *map(str, range(2, 20))], [1, *range(2, 20)]),
    "out of ten": (["7/10", "9/10", "0/10", "10/10", "3/10", "5/10"], [7, 9, 0, 10, 3, 5]),
    "stars": (
        [f"{x} out of 5 stars" for x in (4.5, 3.1, 5, 2.2, 1.7, 4)],
        [4.5, 3.1, 5, 2.2, 1.7, 4],
    ),
    "ends of a scale": (["0 - not at all", *map(str, range(1, 10)), "10 - very likely"], list(range(11))),
    "ends in parentheses": (["1 (never)", "2", "3", "4", "5", "6", "7 (always)"], [1, 2, 3, 4, 5, 6, 7]),
    "hemispheres": (
        ["48.2° N", "33.9° S", "1.5° S", "52.1° N", "0.3° N", "12° S"],
        [48.2, -33.9, -1.5, 52.1, 0.3, -12],
    ),
    "east and west": (["36.3W", "22.1E", "15.3W", "27.1E", "8E", "0.5E"], [-36.3, 22.1, -15.3, 27.1, 8, 0.5]),
    "east and west in front": (
        ["W36.3", "E22.1", "W15.3", "E27.1", "E8", "E0.5"],
        [-36.3, 22.1, -15.3, 27.1, 8, 0.5],
    ),
    "minutes of arc": (
        ["48°30'0\"N", "33°15'36\"S", "1°45'0\"N", "52°6'0\"N", "10°0'0\"S", "7°30'0\"N"],
        [48.5, -33.26, 1.75, 52.1, -10, 7.5],
    ),
    "debit": (
        ["12.50 CR", "3.10 DR", "7.00 CR", "99.95 DR", "1.20 CR", "5.00 DR"],
        [12.5, -3.1, 7, -99.95, 1.2, -5],
    ),
    "arrows": (["▲ 4.2%", "▼ 2.5%", "▲ 0.7%", "▼ 2.6%", "▲ 9%", "▲ 1%"], [4.2, -2.5, 0.7, -2.6, 9, 1]),
    "flags": (["5.1", "9.8 H", "2.0 L", "4.4", "11.2 H", "6.3"], [5.1, 9.8, 2, 4.4, 11.2, 6.3]),
    "powers of ten": ([f"{x} x 10^9/L" for x in (3.1, 2.4, 5, 8.8, 1.1, 7)], [3.1, 2.4, 5, 8.8, 1.1, 7]),
    "a price for each kilogram": (
        [f"{x} €/kg" for x in (2.49, 3.1, 0.99, 12, 5.5, 7)],
        [2.49, 3.1, 0.99, 12, 5.5, 7],
    ),
    "lowest prices": ([f"ab {i}.50 €" for i in range(30)], [i + 0.5 for i in range(30)]),
    "parentheses in all cells": (["(12)", "(3)", "(7)", "(9)", "(1)", "(5)"], [12, 3, 7, 9, 1, 5]),
    "thousands with a plus": (
        ["1k+ sold", "500 sold", "2k+ sold", "30 sold", "800 sold", "7 sold"],
        [1000, 500, 2000, 30, 800, 7],
    ),
}


@pytest.mark.parametrize("form", NUMBERS)
def test_numbers_of_a_form(form):
    cells, numbers = NUMBERS[form]
    values, notes = read(cells)
    expected = {
        "weeks and days": [33 + 4 / 7, 25, 38 + 6 / 7, 40, 29 + 3 / 7, 31 + 1 / 7],
        "pounds": [8.5, 7, 6.25, 9.75, 8.25, 5.5],
        "kilograms": [70, 154.3 * 0.45359237, 81, 64, 90, 55],
    }.get(form, numbers)
    assert values == pytest.approx(expected)
    assert "'x' was read as numbers: " in notes
    assert "missing" not in notes


@pytest.mark.parametrize(
    "cells",
    [
        ["1/10", "1/20", "1/40", "1/80", "1/160", "1/320"],
        ["3 kg", "5 m", "7 s", "2 kg", "9 m", "1 s", "8 kg"],
        ["1 - retail", "2 - crafts", "3 - farming", "4 - banks", "5 - care", "6 - schools", "7"],
        ["1/5", "2/5", "3/5", "4/5", "5/5"],
        ["256GB SSD", "512GB SSD", "1TB HDD"],
        ["4'01\"", "5'38\"", "6'21\"", "4'45\"", "5'59\"", "7'30\"", "6'02\""],
    ],
)
def test_other_cells_stay_texts(cells):
    assert read(cells)[0] == cells


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (["undetectable"], 0.7),
        (["unavailable", "unknown"], 0.4),
        (["Don't know", "Refused", "N/A (other)"], 0.5),
    ],
)
def test_a_few_words_next_to_many_numbers_are_missing(words, share):
    rng = np.random.default_rng(0)
    numbers = rng.lognormal(3, 1, 400).round(1)
    absent = rng.random(400) < share
    cells = [
        words[i % len(words)] if gone else str(x)
        for i, (x, gone) in enumerate(zip(numbers, absent, strict=True))
    ]
    table = craftc.read_table(pd.DataFrame({"x": cells, "y": rng.normal(size=400)}))
    np.testing.assert_array_equal(table["x"], np.where(absent, np.nan, numbers))
    assert f"{absent.sum()} cells that cannot be read became missing" in table.attrs["notes"][0]


def test_numbers_next_to_other_texts_are_noted():
    cells = [f"{i}-{i + 2}" if i % 4 == 0 else str(i) for i in range(60)]
    values, notes = read(cells)
    assert values == cells
    assert "'x' is taken as text: next to 45 different numbers, 75 cells are none, such as '0-2'" in notes


@pytest.mark.parametrize(
    ("fitted", "new", "values"),
    [
        ("kilograms", ["110.23 lb", "500 g", "3 kg"], [50, 0.5, 3]),
        ("months and years", ["6 mo"], [0.5]),
        ("feet", ["5'3\""], [5.25]),
        ("east and west", ["5W", "6E"], [-5, 6]),
        ("east and west", ["5W"], [-5]),
        ("east and west", ["6E"], [6]),
        ("out of ten", ["4/10"], [4]),
        ("ends of a scale", ["10 - very likely"], [10]),
        ("flags", ["8.1 H"], [8.1]),
        ("one day", ["1 day"], [1]),
        ("years and months in a cell", ["2m"], [2 / 12]),
        ("years and months in a cell", ["2m", "9m", "11m"], [2 / 12, 9 / 12, 11 / 12]),
        ("kilograms", ["110.23 lb", "220.46 LBS"], [50, 100]),
        ("kilograms", ["3 Kg", "4 kgs"], [3, 4]),
    ],
)
def test_new_cells_are_read_as_those_of_the_fit(fitted, new, values):
    cells = (NUMBERS[fitted][0] * 60)[:120]
    table = craftc.read_table(pd.DataFrame({"x": cells, "y": Y[:120]}))
    model = craftc.CRAFT(random_state=0).fit(table)
    assert read(new, like=model)[0] == pytest.approx(values, rel=1e-4)


@pytest.mark.parametrize(
    ("units", "new", "values"),
    [
        (("kg", "lb"), ["110.23 lb"], [50]),
        (("km", "m"), ["500 m", "1200 m"], [0.5, 1.2]),
        (("m", "km"), ["2 m"], [2]),
        (("m", "cm"), ["90 cm"], [0.9]),
        (("h", "min"), ["90 min"], [1.5]),
        (("min", "sec"), [*["30 sec"] * 15, "46.9 min"], [*[0.5] * 15, 46.9]),
        (("min.", "sec."), ["90 sec.", "2 min"], [1.5, 2]),
        (("days", "weeks"), [*["3 days"] * 19, "2 weeks"], [*[3] * 19, 14]),
        (("m", "y"), ["2m", "1y 2m"], [2, 14]),
        (("l", "ml"), ["2 L", "250 ml"], [2, 0.25]),
        (("kg", "Kg"), ["7 KG"], [7]),
    ],
)
def test_new_rows_have_any_of_the_units_of_the_fit(units, new, values):
    often, seldom = units
    cells = [f"{i + 1} {seldom if i % 4 == 0 else often}" for i in range(120)]
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(pd.DataFrame({"x": cells, "y": Y[:120]})))
    assert read(new, like=model)[0] == pytest.approx(values, rel=1e-4)


VERSIONS = [f"{a}.{b}" for a in (1, 2, 3) for b in range(12)]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("x", VERSIONS),
        ("height", ["5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9", "5.10", "5.11", "6.0"]),
        ("section", ["1.1", "1.2", "1.10", "2.1", "2.3", "4.1"]),
        ("Version", ["1.1", "1.2", "1.10", "2.0"]),
    ],
)
def test_versions_are_categories(name, cells):
    frame = pd.DataFrame({name: (cells * 30)[:120], "y": Y[:120]})
    table = craftc.read_table(frame)
    assert table[name].tolist() == frame[name].tolist()
    (note,) = [note for note in table.attrs["notes"] if name in note]
    assert "holds versions or sections, such as '" in note
    assert f"table['{name}'].astype(float) makes it a number." in note
    model = craftc.CRAFT(random_state=0, n_init=1).fit(table)
    new = pd.DataFrame({name: ["1.1", "1.10", "1.20", "5.1", "5.10"], "y": Y[:5]})
    assert craftc.read_table(new, like=model)[name].tolist() == new[name].tolist()


@pytest.mark.parametrize(
    ("cells", "noted"),
    [
        (["1.1", "1.10", "2.5", "1.99", "2.49", "3.75", "0.8"], True),  # prices that people typed
        (["1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "2.0", "1.10"], True),
        (["1,1", "1,10", "2,5", "1,99", "2,49", "3,75", "0,8"], True),
        (["1.05", "1.1", "1.10", "1.11", "1.12", *VERSIONS], True),  # cents
        (["1", "1.0", "1.00", "2.5", "2.25", "3.75", "0.8"], False),
        (["1.10", "2.50", "1.99", "2.49", "3.75", "0.80"], False),
        ([f"{i}.{i}" for i in range(1, 25)], False),
    ],
)
def test_equal_numbers_in_different_digits(cells, noted):
    values, notes = read(cells)
    assert values == [float(cell.replace(",", ".")) for cell in cells]
    two = "'1,1' and '1,10'" if "1,1" in cells else "'1.1' and '1.10'"
    assert (f"{two} taken as one number." in notes) == noted
    assert ("taken as one number" in notes) == noted


DATES = [f"{1 + i % 28}/{1 + i % 12}/2023" for i in range(120)]


@pytest.mark.parametrize(
    ("cells", "new"),
    [
        ([f"{i}.5" for i in range(120)], "7.5"),
        ([f"{i} km" for i in range(120)], "7 km"),
        ([f"{i % 24}:{i % 60:02d}" for i in range(120)], "7:30"),
        (DATES, "13/5/2023"),
    ],
)
def test_words_that_were_missing_in_the_fit_are_missing_in_every_row(cells, new):
    cells = ["tr" if i % 9 == 0 else cell for i, cell in enumerate(cells)]
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(pd.DataFrame({"x": cells, "y": Y[:120]})))
    for some in (["tr"], ["TR", "tr"], ["tr", "tr", new]):
        values, notes = read(some, like=model)
        assert np.isnan(values).tolist() == [each != new for each in some]
        assert "that cannot be read became missing: " in notes
    with pytest.raises(ValueError, match="got 'high'"):
        read(["high", "tr"], like=model)


@pytest.mark.parametrize("cell", ["tr", "", None])
def test_rows_without_a_date_have_no_parts_of_it(cell):
    cells = ["tr" if i % 9 == 0 else f"{1 + i % 28}/{1 + i % 12}/{2020 + i % 4}" for i in range(120)]
    table = craftc.read_table(pd.DataFrame({"x": cells, "y": Y[:120]}), dates="parts")
    assert list(table) == ["x", "x weekday", "y"]
    model = craftc.CRAFT(random_state=0).fit(table)
    new = craftc.read_table(pd.DataFrame({"x": [cell], "y": [0.0]}), like=model)
    assert list(new) == list(table)
    assert new.iloc[0, :2].isna().all()
    with pytest.raises(ValueError, match="because a column holds no dates"):
        craftc.read_table(pd.DataFrame({"x": ["high"], "y": [0.0]}), like=model)
