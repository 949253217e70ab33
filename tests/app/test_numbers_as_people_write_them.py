"""Numbers with dashes for cents, bounds in words, thousands and millions, and units in some cells."""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc.reading.input_file import TableError

pd = pytest.importorskip("pandas", reason="files are read with pandas")


def numbers_of(cells):
    """The numbers that a column of these cells, often repeated, becomes, and the notes."""
    table = pd.DataFrame({"x": list(cells) * 9, "y": [i * 7 % 31 for i in range(9 * len(cells))]})
    table = craftc.read_table(table)
    return table["x"].tolist()[: len(cells)], " | ".join(table.attrs["notes"])


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["5.-", "12.50", "1'200.-", "7.95", "19.-", "3.10"], [5, 12.5, 1200, 7.95, 19, 3.1]),
        (
            ["Fr. 5.–", "Fr. 12.50", "Fr. 8.--", "Fr. 7.95", "Fr. 19.—", "Fr. 3.10"],
            [5, 12.5, 8, 7.95, 19, 3.1],
        ),
        (["5,- €", "12,50 €", "1.200,-- €", "7,95 €", "19,— €", "3,10 €"], [5, 12.5, 1200, 7.95, 19, 3.1]),
        (["-.50", "12.50", "8.-", "7.95", "19.-", "3.10"], [0.5, 12.5, 8, 7.95, 19, 3.1]),
        (["-.50", "-12.50", "8.-", "7.95", "-19.-", "3.10"], [-0.5, -12.5, 8, 7.95, -19, 3.1]),
        (["5-", "12.50-", "8", "7.95", "19-", "3.10"], [-5, -12.5, 8, 7.95, -19, 3.1]),
        (["–5", "–12.50", "8", "7.95", "–19", "3.10"], [-5, -12.5, 8, 7.95, -19, 3.1]),
    ],
)
def test_dashes_of_prices_are_no_signs(cells, numbers):
    read, notes = numbers_of(cells)
    assert read == numbers
    assert ("dashes in the place of cents" in notes) == any(mark in cells[2] for mark in (".-", ".–", ",-"))


@pytest.mark.parametrize(
    ("cells", "numbers", "noted"),
    [
        (
            ["Rs.1,09,825/-", "Rs.7/-", "Rs.45/-", "Rs.5/-", "Rs.8/-", "Rs.9/-"],
            [109825, 7, 45, 5, 8, 9],
            "cents",
        ),
        (
            ["$ 120.5", "$ -", "$ (8)", "$ 7", "$ 9", "$ 3"],
            [120.5, 0, -8, 7, 9, 3],
            "'$ -' taken as 0",
        ),
        (["120,5 €", "- €", "8 €", "7 €", "9 €", "3 €"], [120.5, 0, 8, 7, 9, 3], "such as '- €' taken as 0"),
        (["8.25 ℃", "-0.5 ℃", "9 ℃", "7 ℃", "2 ℃", "3 ℃"], [8.25, -0.5, 9, 7, 2, 3], "'°C' removed"),
    ],
)
def test_signs_of_accounts_and_of_degrees(cells, numbers, noted):
    read, notes = numbers_of(cells)
    assert read == numbers
    assert noted in notes


@pytest.mark.parametrize("mark", [";", ",", "\t"])
def test_dots_that_certainly_separate_thousands(mark, tmp_path):
    people = [37 * i**2 + 11 for i in range(70)]
    rows = [f"{people[i]:,}".replace(",", ".") + f"{mark}{i % 7}" for i in range(70)]

    def read(lines, **options):
        (tmp_path / "t.csv").write_text("\n".join([f"people{mark}x", *lines]))
        table = craftc.read_table(tmp_path / "t.csv", **options)
        return table["people"].tolist(), " ".join(table.attrs["notes"])

    found, notes = read(rows)
    assert found == people
    assert "dots separate thousands (decimal='.' takes them as decimal points)" in notes
    assert read([f"{row}.5" for row in rows])[0][-1] == people[-1] / 1000  # another column has decimal points
    assert read(rows[:30])[0][-1] == people[29] / 1000  # too few to be sure

    priced, notes = read([f"{row.split(mark)[0]} €{mark}{row.split(mark)[1]}" for row in rows])
    assert priced == people
    assert "'€' removed; dots separate thousands" in notes
    few, notes = read([f"{row.split(mark)[0]} €{mark}{row.split(mark)[1]}" for row in rows[:30]])
    assert few[-1] == people[29] / 1000
    assert "dots are decimal points, although they could separate thousands" in notes


@pytest.mark.parametrize(("text", "number"), [("1.306,50", 1306.5), ("1.306", 1306.0), ("12.306", 12306.0)])
@pytest.mark.parametrize("whole", [False, True])
def test_texts_with_decimal_commas_among_numbers_of_a_spreadsheet(text, number, whole, tmp_path):
    numbers = np.random.default_rng(0).normal(number, number / 10, 60).round(0 if whole else 2)
    cells = [text if i % 5 == 0 else each for i, each in enumerate(numbers.tolist())]
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"sales": cells, "x": np.arange(60) % 7 + 0.5}).to_excel(path, index=False)
    table = craftc.read_table(path)
    assert table["sales"].tolist() == [number if i % 5 == 0 else each for i, each in enumerate(numbers)]
    assert f"texts such as '{text}' among its numbers have decimal commas" in " ".join(table.attrs["notes"])
    small = [text if i % 5 == 0 else each / 1000 for i, each in enumerate(numbers.tolist())]
    pd.DataFrame({"sales": small, "x": np.arange(60) % 7 + 0.5}).to_excel(path, index=False)
    if "," not in text:  # the size of the numbers shows a decimal point
        assert craftc.read_table(path)["sales"][0] == number / 1000
        assert craftc.read_table(path, decimal=".")["sales"][0] == number / 1000


@pytest.mark.parametrize(
    "bound",
    [
        "65+",
        "65 +",
        "over 65",
        "65 and older",
        "65 years or more",
        "65+ years",
        "über 65",
        "65 und mehr",
    ],
)
def test_bounds_in_words_are_their_number(bound):
    unit = " years" if "years" in bound else ""
    read, notes = numbers_of([*(f"{age}{unit}" for age in (18, 25, 31, 42, 47, 59, 61)), bound])
    assert read == [18, 25, 31, 42, 47, 59, 61, 65]
    assert f"bounds such as {bound!r} taken as their number" in notes


@pytest.mark.parametrize("rough", ["ca. 61", "ca.61", "~61", "≈ 61", "about 61", "etwa 61", "approx. 61"])
def test_a_column_of_rough_numbers_holds_numbers(rough):
    read, notes = numbers_of([rough.replace("61", str(n)) for n in range(61, 71)])
    assert read == list(range(61, 71))
    assert f"rough numbers such as {rough!r} taken as their number" in notes


def test_marks_of_school_are_levels():
    for cells in (["1", "1-", "2+", "2", "2-", "3+"], ["1", "1-", "2", "2-", "3", "3-", "4", "4-"]):
        assert numbers_of(cells)[0] == cells


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["850", "1.2k", "3.4k", "12", "77", "10k"], [850, 1200, 3400, 12, 77, 10_000]),
        (["€110.5M", "€565K", "€1.2M", "€0", "€75K", "€8M"], [110.5e6, 565e3, 1.2e6, 0, 75e3, 8e6]),
        (
            ["1,5 Mio. €", "2 Mrd. €", "3,25 Mio. €", "7 Tsd. €", "9 Mio. €", "4 Mio. €"],
            [1.5e6, 2e9, 3.25e6, 7e3, 9e6, 4e6],
        ),
        (["₹1.5 Cr", "₹20 Lakh", "₹3 Cr", "₹7 Lakh", "₹9 Cr", "₹4 Cr"], [15e6, 2e6, 30e6, 7e5, 90e6, 40e6]),
        (["1.5k", "2k", "3.2k", "7k", "9k", "4k"], [1.5, 2, 3.2, 7, 9, 4]),
        (["£1.74m", "£850k", "£2m", "(£3.5m)", "-£77k", "£0"], [1.74e6, 85e4, 2e6, -3.5e6, -77e3, 0]),
        (["1,74m €", "850k €", "2 m €", "3,5 m €", "77k €", "9k €"], [1.74e6, 85e4, 2e6, 3.5e6, 77e3, 9e3]),
        (["$1.743m", "$2m", "$3.1m", "$4m", "$5.5m", "$7m"], [1.743, 2, 3.1, 4, 5.5, 7]),
        (["1.7bn", "850m", "2bn", "35m", "77m", "9m"], [1.7e9, 85e7, 2e9, 35e6, 77e6, 9e6]),
        (["1.7m", "850k", "512", "3.5m", "77k", "9k"], [1.7e6, 85e4, 512, 3.5e6, 77e3, 9e3]),
        (["1.7m", "8 m", "5 m", "3.5m", "7m", "9m"], [1.7, 8, 5, 3.5, 7, 9]),
        (["5m", "30s", "2m", "45s", "7m", "9m"], [5, 0.5, 2, 0.75, 7, 9]),
        (["700 m", "1.5 km", "0.8 km", "30 m", "77 m", "9 m"], [700, 1500, 800, 30, 77, 9]),
        (["12B", "7", "14B", "9", "3", "22"], [12, 7, 14, 9, 3, 22]),
    ],
)
def test_thousands_and_millions_are_multiplied_out_where_they_differ(cells, numbers):
    read, notes = numbers_of(cells)
    assert read == numbers
    assert ("multiplied out" in notes) == (max(numbers) >= 1000 and "km" not in "".join(cells))


def test_new_rows_have_the_scale_of_the_fit():
    cells = ["€1.5M", "€565K", "€1.2M", "€900K", "€75K", "€8M", "€7.1M"] * 9
    table = pd.DataFrame({"x": cells, "n": [str(i * 11 % 13) for i in range(63)]})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(table))
    for cell in ("€1.5M", "€1500K", "1500000"):
        new = craftc.read_table(table[:2].assign(x=cell, n="1.2k"), like=model)
        assert new["x"].tolist() == [1.5e6, 1.5e6]
        assert new["n"].tolist() == [1200.0, 1200.0]
    followers = table.assign(x=["1.7m", "850k", "512", "3.5m", "77k", "9k", "12k"] * 9)
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(followers))
    assert craftc.read_table(followers[:2].assign(x="1.5m"), like=model)["x"].tolist() == [1.5e6, 1.5e6]
    all_thousands = pd.DataFrame({"x": [f"{i * 7 % 31}k" for i in range(63)], "n": table["n"] + " kg"})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(all_thousands))
    with pytest.raises(TableError, match="fitted on numbers with 'k'"):
        craftc.read_table(all_thousands.assign(x="2M"), like=model)


@pytest.mark.parametrize(
    ("form", "cells", "numbers"),
    [
        ("${}.50", ["$1.2k", "$3k", "$7.50"], [1200, 3000, 7.5]),
        ("{},50 €", ["1,2 Mio €", "3 Mio. €"], [1.2e6, 3e6]),
        ("{} kg", ["1.2k kg", "7 kg"], [1200, 7]),
        ("{} Mio €", ["3 Mio €", "4 Mio €"], [3, 4]),
    ],
)
def test_new_rows_in_thousands_of_the_unit_of_the_fit(form, cells, numbers):
    fit = pd.DataFrame({"x": [form.format(3 + i * 7 % 31) for i in range(63)], "n": np.arange(63) * 11 % 13})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(fit))
    new = pd.DataFrame({"x": cells, "n": 1})
    assert craftc.read_table(new, like=model)["x"].tolist() == numbers
    with pytest.raises(TableError, match="but the cells have '°C', as in '3 ℃'"):
        craftc.read_table(new.assign(x="3 ℃"), like=model)


@pytest.mark.parametrize("form", ["{} %", "{}.5 kg", "{} °C", "1 h {} min", "{}:15:00"])
@pytest.mark.parametrize("zero", ["0", "0.0", "0,00"])
@pytest.mark.parametrize("every", [2, 10])
def test_zero_has_every_unit(form, zero, every):
    cells = [zero if i % every == 0 else form.format(5 + i * 7 % 31) for i in range(100)]
    table = craftc.read_table(pd.DataFrame({"duration": cells, "y": np.arange(100) * 7 % 31}))
    assert (table["duration"] == 0.0).tolist() == [cell == zero for cell in cells]
    assert "cannot be read" not in " | ".join(table.attrs["notes"])


def test_zero_next_to_two_units():
    assert numbers_of(["0", "1 kg", "500 g", "2 kg", "3 kg", "250 g", "7 kg"])[0] == [
        0,
        1,
        0.5,
        2,
        3,
        0.25,
        7,
    ]
    read, notes = numbers_of(["0", "12 kg", "7", "31 kg", "45", "52 kg", "60"])
    assert read == [0, 12, 7, 31, 45, 52, 60]
    assert "numbers without 'kg' taken as numbers with it" in notes


def test_a_unit_in_some_cells():
    read, notes = numbers_of(["12 kg", "7", "31 kg", "45", "52 kg", "60"])
    assert read == [12, 7, 31, 45, 52, 60]
    assert "numbers without 'kg' taken as numbers with it" in notes
    texts = [f"{i} mmol/L" if i % 2 else f"{18 * i} mg/dL" for i in range(1, 41)]
    read, notes = numbers_of(texts)
    assert read == texts
    assert "'x' holds numbers with different units ('mmol/L', 'mg/dL') and is taken as text" in notes
    assert numbers_of([f"{i} %" if i % 2 else f"{i / 100}" for i in range(1, 41)])[0][0] == "1 %"


def test_separated_thousands_are_no_decimal_points():
    cells = ["1.235", "0", "1.234.568", "155", "7.000", "42"]
    read, notes = numbers_of(cells)
    assert read == [1235, 0, 1_234_568, 155, 7000, 42]
    assert "dots are decimal points" not in notes
    table = pd.DataFrame({"x": cells * 9, "y": list("ab") * 27})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(table))
    assert craftc.read_table(table[:1], like=model)["x"][0] == 1235


@pytest.mark.parametrize("absent", ["k.A.", "#NV", "—", "---", "\\N", "keine Angabe", "(blank)"])
def test_words_for_nothing_are_missing_in_numbers_and_noted_in_texts(absent):
    n = range(60)
    table = pd.DataFrame(
        {
            "x": [absent if i % 4 == 1 else str(i % 3) for i in n],
            "t": [absent if i % 4 == 1 else "ab"[i % 2] for i in n],
        }
    )
    read = craftc.read_table(table)
    assert read["x"].isna().sum() == 15
    assert read["t"].isna().sum() == 0
    assert f"'t': in text columns the cells {absent!r} are levels" in " ".join(read.attrs["notes"])


@pytest.mark.parametrize(
    "name", ["customer_id", "PLZ", "zip code", "sku", "KundenNr", "Postleitzahl", "shopId"]
)
def test_codes_that_are_used_as_numbers_are_noted(name):
    table = pd.DataFrame(
        {name: [1000 + i * 7 % 13 for i in range(60)], "y": [i * 11 % 17 for i in range(60)]}
    )
    note = f"'{name}' has the name of a code and is used as a number; kinds={{'{name}': 'category'}} makes it"
    assert note in " | ".join(craftc.read_table(table).attrs["notes"])
    for other in ("number of rooms", "n_children", "year", "valid", "paid", "grid"):
        notes = " | ".join(craftc.read_table(table.rename(columns={name: other})).attrs["notes"])
        assert "name of a code" not in notes


def test_both_decimal_marks_in_one_column():
    cells = ["3.5", "3,5", "12", "0,25", "7.75", "1.234,5", "2,345.6"]
    read, notes = numbers_of(cells)
    assert read == [3.5, 3.5, 12, 0.25, 7.75, 1234.5, 2345.6]
    assert "both decimal marks" in notes
    read, notes = numbers_of([*cells, "8.5", "9.5", "10.5", "1,234"])
    assert np.isnan(read[-1])
    assert "became missing: '1,234'" in notes
    cells = ["1.234", "2.345", "3.456", "12.5", "0,7", "4.125"]
    assert numbers_of(cells)[0] == [1.234, 2.345, 3.456, 12.5, 0.7, 4.125]


def test_ticks_of_several_kinds():
    for cells in (["x", "X", "✓", ""], ["✓", "✔", ""], ["☑", ""]):
        table = pd.DataFrame({"x": cells * 20, "y": [i * 7 % 31 for i in range(20 * len(cells))]})
        table = craftc.read_table(table)
        assert table["x"].nunique() == 2
        assert (table["x"] == "no").sum() == 20


@pytest.mark.parametrize("text", [None, "22.12.2022"])
def test_days_of_a_spreadsheet_among_dates(text, tmp_path):
    days = pd.date_range("2021-03-01", periods=60)
    serial = (days - pd.Timestamp("1899-12-30")).days.tolist()
    cells = [serial[i] if i % 5 == 0 else day.to_pydatetime() for i, day in enumerate(days)]
    cells[7] = text or cells[7]
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"day": cells, "x": np.arange(60) % 7 + 0.5}).to_excel(path, index=False)
    table = craftc.read_table(path)
    expected = (days - pd.Timestamp("1970-01-01")).days.to_numpy(copy=True)
    expected[7] = expected[7] if text is None else (pd.Timestamp("2022-12-22") - pd.Timestamp(0)).days
    assert table["day"].tolist() == expected.tolist()
    notes = " ".join(table.attrs["notes"])
    assert f"numbers such as {serial[0]} among its dates are days of a spreadsheet" in notes
    cells[::5] = [7 * i for i in range(12)]  # no days
    pd.DataFrame({"day": cells, "x": np.arange(60) % 7 + 0.5}).to_excel(path, index=False)
    assert "days of a spreadsheet" not in " ".join(craftc.read_table(path).attrs["notes"])


def test_numbers_with_the_apostrophe_of_a_text():
    read, notes = numbers_of(["'1306", "'1421.5", "'9", "'-30", "'77", "'1,250"])
    assert read == [1306, 1421.5, 9, -30, 77, 1250]
    assert "thousands separators removed" in notes


@pytest.mark.parametrize("mark", [".", ","])
def test_no_thousands_stand_before_an_exponent(mark):
    numbers = [1.639, 85.17, 0.1661, 204.5, 7.003, 3.25]
    cells = [f"{number:.3E}".replace(".", mark) for number in numbers]
    assert numbers_of(cells)[0] == numbers
    assert numbers_of([f"{number:.3E}".replace(".", ",") + " kg" for number in numbers])[0] == numbers
    table = pd.DataFrame({"x": cells * 9, "y": ["1.234", "2.345", "7.001"] * 18, "z": np.arange(54) % 7})
    read = craftc.read_table(table)["y"].tolist()[:2]
    assert read == ([1.234, 2.345] if mark == "." else [1234, 2345])


def test_letters_of_statistics_behind_numbers():
    cells = ["5.5 b", "6.1 p", "-0.3", "7", "5.9 e", "6.4", "8.25 bu"]
    read, notes = numbers_of(cells)
    assert read == [5.5, 6.1, -0.3, 7, 5.9, 6.4, 8.25]
    assert "flags 'b', 'bu', 'e', 'p' removed" in notes
    fit = pd.DataFrame({"x": cells * 9, "y": np.arange(63) * 7 % 31})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(fit))
    assert craftc.read_table(fit[:2].assign(x="4.5 p"), like=model)["x"].tolist() == [4.5, 4.5]


@pytest.mark.parametrize("minus", "-−–")
@pytest.mark.parametrize("every", [2, 20])
@pytest.mark.parametrize(
    ("small", "large", "ratio"),
    [
        ("{:.0f} ms", "{:.3f} s", 1000),
        ("{:.0f} m", "{:.3f} km", 1000),
        ("{:.0f} g", "{:.3f} kg", 1000),
        ("{:.0f} MB", "{:.3f} GB", 1000),
        ("{:.0f} min", "{:.2f} h", 60),
    ],
)
def test_negative_numbers_of_two_units(minus, every, small, large, ratio):
    sizes = [ratio * (i * 7 % 20 + 1) / 10 for i in range(100)]
    signs = [-1 if i % every == 0 else 1 for i in range(100)]
    cells = [
        (minus if sign < 0 else "") + (small.format(size) if size < ratio else large.format(size / ratio))
        for size, sign in zip(sizes, signs, strict=True)
    ]
    read, notes = numbers_of([*cells, cells[1]])
    unit = 1.0 if f"converted to '{small.split()[-1]}'" in notes else 1.0 / ratio
    np.testing.assert_allclose(read[:100], unit * np.array(sizes) * signs, rtol=1e-2)
    assert "became missing" not in notes


@pytest.mark.parametrize("minus", "-−–")
def test_negative_numbers_with_flags(minus):
    numbers = [(i * 7 % 50 - 25) / 4 for i in range(50)]
    cells = [
        f"{number}{' L' if number < -2 else ' H' if number > 2 else ''}".replace("-", minus)
        for number in numbers
    ]
    read, notes = numbers_of(cells)
    assert read == numbers
    assert "flags 'H', 'L' removed" in notes


@pytest.mark.parametrize(
    "form", ["{}{} h {} min", "{}{}h{}m", "{}PT{}H{}M", "{}{} days {} h", "{}{} ft {} in"]
)
def test_negative_numbers_of_several_parts(form):
    cells = [form.format("-" if i % 20 == 0 else "", i * 7 % 9 + 1, i * 5 % 11) for i in range(100)]
    minor = 24 if "days" in form else 12 if "ft" in form else 60
    sizes = np.array([(i * 7 % 9 + 1 + i * 5 % 11 / minor) * (-1) ** (i % 20 == 0) for i in range(100)])
    np.testing.assert_allclose(numbers_of(cells)[0], sizes * (24 if "days" in form else 1))


@pytest.mark.parametrize(
    "name",
    ["Number of inhabitants", "No. of visits", "Nr. of followers", "number_of_shares", "numOfViews"],
)
def test_the_number_of_something_is_no_id(name):
    counts = [int(i * 7919 % 99_991) for i in range(1, 100)]
    table = pd.DataFrame({"y": np.arange(99) * 7 % 31})
    assert name in craftc.read_table(table.assign(**{name: counts}))
    for other in ("Number", "Nr.", "No. official", "account number"):
        assert other in craftc.read_table(table.assign(**{other: counts})).attrs["unusable"]


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("{ft} ft {inch} in", "cm"),
        ("{ft}'{inch}\"", "cm"),
        ("{ft} ft {inch}", "m"),
        ("{inch2} in", "cm"),
        ("{ft} st {inch} lb", "kg"),
        ("{ft} st {inch}", "kg"),
    ],
)
def test_feet_and_stones_next_to_metric_units(form, unit):
    sizes = [60 + i * 7 % 13 for i in range(60)]
    step, parts = {"cm": (2.54, 12), "m": (0.0254, 12), "kg": (0.45359237, 14)}[unit]
    cells = [
        form.format(ft=size // parts, inch=size % parts, inch2=size)
        if i % 3 == 0
        else f"{size * step:.4f} {unit}"
        for i, size in enumerate(sizes)
    ]
    read, notes = numbers_of(cells)
    np.testing.assert_allclose(read, np.array(sizes) * step, rtol=1e-4)
    assert f"'{unit}'" in notes


def test_quantities_of_several_parts_next_to_another_unit_are_noted():
    cells = [f"{50 + i} kg" if i % 3 else f"{i} h {i % 14} min" for i in range(60)]
    read, notes = numbers_of(cells)
    assert read == cells
    assert "'x' holds numbers with different units ('kg', 'h min') and is taken as text" in notes


def test_few_whole_numbers_are_categories_with_one_note():
    columns = {"a": [1, 2, 3] * 20, "b": ["5", "7", "8", "1"] * 15, "c": [0, 1] * 30, "y": range(60)}
    table = craftc.read_table(pd.DataFrame(columns).assign(y=np.arange(60) * 7 % 31))
    assert table.attrs["notes"] == [
        "'a', 'b': whole numbers with at most 5 values are categories; table['a'].astype(float) makes one a "
        "number."
    ]
    table["a"] = table["a"].astype(float)
    model = craftc.CRAFT(random_state=0).fit(table)
    assert "a" in model.schema_.numeric_names
    new = craftc.read_table(pd.DataFrame(columns).assign(y=3), like=model)
    assert new["a"].tolist() == columns["a"]
