"""Sheets with groups of columns, merged cells, totals of groups and dates of two kinds."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import craftc

pd = pytest.importorskip("pandas", reason="files are read with pandas")
openpyxl = pytest.importorskip("openpyxl", reason="sheets are read with openpyxl")

ROWS = [[f"place {i // 3}", *(f"{(7 * i + 11 * j) % 97}.5" for j in range(4))] for i in range(30)]


def text(*top, rows=ROWS):
    return "".join(",".join(row) + "\n" for row in [*(line.split(",") for line in top), *rows])


def sheet(rows, merge=(), name="Data"):
    book = openpyxl.Workbook()
    book.active.append(["Remarks"])
    page = book.create_sheet(name)
    for i, row in enumerate(rows, 1):
        for j, cell in enumerate(row, 1):
            page.cell(i, j, cell)
    for each in merge:
        page.merge_cells(each)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


# ---- names in several lines ----

YEARS = ["place", "sales 2022", "sales 2023", "costs 2022", "costs 2023"]


@pytest.mark.parametrize(
    ("top", "names"),
    [
        ([",sales,,costs,", "place,2022,2023,2022,2023"], YEARS),
        (["place,sales,,costs,", ",2022,2023,2022,2023"], YEARS),
        (["place,sales,sales,costs,costs", "place,2022,2023,2022,2023"], YEARS),
        (["place,sales,,costs,", "place,2022,2023,2024,2025"], [*YEARS[:3], "costs 2024", "costs 2025"]),
        (["Report,,,,", "by A. Lee,,,,", ",sales,,costs,", "place,2022,2023,2022,2023"], YEARS),
        (
            [",2022,,2023,", "place,sales,costs,sales,costs"],
            ["place", "2022 sales", "2022 costs", "2023 sales", "2023 costs"],
        ),
        (
            ["place,Q1,,Q2,", ",€,%,€,%"],
            ["place", "Q1 €", "Q1 %", "Q2 €", "Q2 %"],
        ),
        (
            ["place,home,,,abroad", ",new,,old,new", ",paid,open,paid,paid"],
            ["place", "home new paid", "open", "home old paid", "abroad new paid"],
        ),
        (
            [",first half,,second half,", "place,mean,sd,mean,weather", ",mm,mm,mm,°C"],
            ["place", "first half mean", "sd", "second half mean", "weather"],
        ),
    ],
)
def test_groups_of_columns(read, top, names):
    table, notes = read(text(*top))
    assert list(table.columns) == names
    assert len(table) == 30
    np.testing.assert_array_equal(table.iloc[:, 1], [float(row[1]) for row in ROWS])
    assert re.search("The column names are written in . lines, and were joined: 'place', ", notes)


@pytest.mark.parametrize(
    "top",
    [
        "place,a,a,b,b",
        ",a,a,b,b",
        "place,a,a,,b",
    ],
)
@pytest.mark.parametrize(
    "first", ["here,1999,2005,3,4", "here,5,6,7,8", "place 0,1.5,,2.5,3", "x,n/a,1,NA,-"]
)
def test_rows_below_repeated_names_are_rows(read, top, first):
    table, notes = read(text(top, first))
    assert len(table) == 31
    assert "joined" not in notes


# ---- merged cells ----


def test_a_merged_cell_holds_in_each_of_its_rows(read):
    rows = [[f"g{i // 10}" if i % 10 == 0 else None, i * 1.5, i % 7 / 2, "ab"[i % 2]] for i in range(30)]
    merge = ["A2:A11", "A12:A21", "A22:A31"]
    for name in ("Data", "Umsätze & Kosten <2024>"):
        table, notes = read(sheet([["group", "x", "y", "kind"], *rows], merge, name))
        assert table["group"].tolist() == [f"g{i // 10}" for i in range(30)]
        assert "3 merged cell(s) hold in each of their rows" in notes
    # a number, in the last column, next to an empty first column, below merged names
    cells = [[None, "x", None, "area"], [None, "in", "out", None]]
    cells += [[None, i * 1.5, i % 7 / 2, 10 * (i // 5) if i % 5 == 0 else None] for i in range(30)]
    merge = ["B1:C1", "D1:D2", *(f"D{i}:D{i + 4}" for i in range(3, 33, 5))]
    table, _ = read(sheet(cells, merge))
    assert list(table.columns) == ["in", "out", "area"]
    assert table["area"].tolist() == [10 * (i // 5) for i in range(30)]


def test_headings_over_merged_cells_are_no_rows(read):
    rows = [["a", i * 1.5, i % 7 / 2, "xy"[i % 2]] for i in range(30)]
    rows[10:10], rows[0:0] = [["South"]], [["North"]]
    cells, merge = [["kind", "x", "y", "z"], *rows], ["A2:D2", "A13:D13"]
    table, notes = read(sheet(cells, merge))
    assert table.index.tolist() == [i for i in range(32) if i not in (0, 11)]
    assert "2 heading(s) over merged cells count as empty lines, the first 'North'" in notes
    assert len(read(sheet(cells, merge), all_lines=True)[0]) == 32
    table, notes = read(sheet(cells))
    assert len(table) == 30
    assert "2 headings of groups of rows, the first 'North'" in notes
    cells = [["kind", "x", "y", "z"], ["b", 7.5, None, "x"], *rows[1:11]]  # two numbers in one cell
    assert len(read(sheet(cells, ["B2:C2"]))[0]) == 11


def test_rows_have_their_places_in_the_sheet(read):
    rows = [["a", i * 1.5, i % 7 / 2] for i in range(30)]
    rows[4:4], rows[20:20] = [[None] * 3] * 2, [[None] * 3]
    table, notes = read(sheet([["Report"], [], ["kind", "x", "y"], [], *rows]))
    assert table.index.tolist() == [i + 1 for i, row in enumerate(rows) if row[1] is not None]
    assert "Not used: 4 empty lines" in notes


# ---- totals of groups ----


def with_totals(name, nested=False):
    """Rows of three groups, a line below each that is named `name`, and the sum of the first two groups."""
    rows, sums = [], []
    for group, n in (("North", 8), ("South", 9), ("West", 1)):
        part = [[group, f"{i * 1.5 + len(rows)}", f"{(7 * i) % 31}"] for i in range(n)]
        sums.append([sum(float(row[j]) for row in part) for j in (1, 2)])
        rows += [*part, [name.format(group), *map(str, sums[-1])]]
        if nested and group == "South":
            rows.append([name.format("Land"), *(str(sums[0][j] + sums[1][j]) for j in (0, 1))])
    return rows


@pytest.mark.parametrize("nested", [False, True])
def test_totals_of_groups(read, nested):
    for name in ("{} Total", "Total {}", "Summe {}", "{} Ergebnis", "Subtotal: {}", "{} - Gesamt"):
        rows = [["area", "x", "y"], *with_totals(name, nested)]
        table, notes = read("".join(",".join(row) + "\n" for row in rows))
        assert table["area"].value_counts().to_dict() == {"South": 9, "North": 8, "West": 1}
        assert f"{3 + nested} lines of totals between the rows" in notes


def test_rows_that_are_named_like_totals(read):
    draws = np.random.default_rng(0).integers(1, 900, (150, 2)) / 10
    shops = ["Result A", "Total Wine", "Kern", "Kern", "Kern"]
    rows = [[shops[i % 5], *map(str, row)] for i, row in enumerate(draws)]
    table, notes = read("".join(",".join(row) + "\n" for row in [["shop", "x", "y"], *rows]))
    assert (len(table), notes) == (150, "")


def test_units_below_names_below_groups(read):
    top = [
        ["place", "blood", "", "life", ""],
        ["", "CRP", "Hb", "pulse", "temperature"],
        ["", "mg/l", "g/dl", "1/min", "[°C]"],
    ]
    table, _ = read(sheet([*top, *ROWS], ["A1:A3", "B1:C1", "D1:E1"]))
    assert list(table.columns) == ["place", "CRP", "Hb", "pulse", "temperature"]
    assert len(table) == len(ROWS)


def test_a_blank_line_parts_names_from_what_is_above(read):
    table, notes = read(sheet([["by:", "Lee", "", "", ""], [], ["place", "T", "p", "u", "v"], *ROWS]))
    assert list(table.columns) == ["place", "T", "p", "u", "v"]
    assert "1 line(s) above the column names were skipped" in notes


def test_formulas_without_a_result_are_missing_and_noted(read):
    rows = [["shop", "net", "gross"], *([f"s{i % 3}", i % 17, f"=B{i + 2}*1.19"] for i in range(60))]
    table, notes = read(sheet(rows))
    assert list(table.columns) == ["shop", "net"]
    assert "60 formula(s) without a stored result are missing cells" in notes


# ---- percentages ----

SHARES = [round(0.05 + 0.2 * (i % 3) + 0.001 * (i % 11), 3) for i in range(90)]


def in_percent(path, cells, formats):
    """A sheet with these cells in formats, by turns, and the text file that a spreadsheet makes of it."""
    book = openpyxl.Workbook()
    page = book.active
    page.append(["off", "kind", "z"])
    lines = ["off,kind,z"]
    for i, cell in enumerate(cells):
        page.append([cell, "abc"[i % 3], float(i % 3) + i / 100])
        page.cell(i + 2, 1).number_format = own = formats[i % len(formats)]
        shown = f"{100 * cell:.1f}%" if "%" in own and isinstance(cell, float) else cell
        lines.append(f"{shown},{'abc'[i % 3]},{float(i % 3) + i / 100}")
    book.save(path)
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")
    return path, path.with_suffix(".csv")


@pytest.mark.parametrize("form", ["0%", "0.0%", "0.00%", "[Red]0.0%;-0.0%"])
@pytest.mark.parametrize("word", ["", "tbd"])
def test_percentages_are_the_numbers_that_a_sheet_shows(tmp_path, form, word):
    cells = [word if word and i % 20 == 0 else share for i, share in enumerate(SHARES)]
    files = in_percent(tmp_path / "a.xlsx", cells, [form])
    tables = [craftc.read_table(path) for path in files]
    pd.testing.assert_frame_equal(*tables)
    assert tables[0].attrs["notes"] == tables[1].attrs["notes"]
    assert "'off' was read as numbers: '%' removed" in tables[0].attrs["notes"][0]
    assert tables[0]["off"].max() == 46
    for table in tables:
        model = craftc.CRAFT(random_state=0).fit(table)
        for path in files:
            new = craftc.read_table(path, like=model)
            assert (model.predict(new) == model.labels_).all()
            assert "none exceeds 1" not in " ".join(new.attrs["notes"])


@pytest.mark.parametrize(
    ("formats", "times"),
    [
        (["0.0%", "General"], 100),
        (["0.0%", "0.0%", "0.00"], 100),
        (["General", "General", "0.0%"], 1),
        (['0.0" %"', "0.0\\%"], 1),  # a sign that multiplies nothing
    ],
)
def test_all_numbers_of_a_column_are_of_one_scale(tmp_path, formats, times):
    path, _ = in_percent(tmp_path / "a.xlsx", SHARES, formats)
    table = craftc.read_table(path)
    np.testing.assert_allclose(table["off"], times * np.array(SHARES), rtol=1e-12)
    assert ("'%' removed" in " ".join(table.attrs["notes"])) == (times == 100)


def test_percentages_of_several_files(tmp_path):
    first, text = in_percent(tmp_path / "a.xlsx", SHARES, ["0%"])
    second, _ = in_percent(tmp_path / "b.xlsx", SHARES, ["0.0%"])
    for paths in ([first, second], [first, text]):
        table = craftc.read_table(paths)
        np.testing.assert_allclose(table["off"], 100 * np.array([*SHARES, *SHARES]), rtol=1e-12)


# ---- dates ----


@pytest.mark.parametrize(
    ("form", "every"), [("%d.%m.%Y", 2), ("%d.%m.%Y", 30), ("%d/%m/%Y", 3), ("%d %b %Y", 3), ("%d.%m.%y", 2)]
)
def test_dates_among_texts_of_another_form(form, every):
    days = pd.date_range("2024-01-03", periods=90, freq="3D")
    cells = [day.strftime(form) if (i % every == 0) else day.to_pydatetime() for i, day in enumerate(days)]
    frame = pd.DataFrame({"day": cells, "x": np.arange(90) % 7 / 2})
    for given in (frame, frame.astype({"day": str})):
        assert pd.to_datetime(craftc.read_table(given)["day"], unit="D").tolist() == days.tolist()
    model = craftc.CRAFT(1).fit(craftc.read_table(frame))
    few = frame[:3].assign(day=["05.06.2024", "2024-06-05", "2024-06-06"])
    assert craftc.read_table(few, like=model)["day"].iloc[1:].tolist() == [19879.0, 19880.0]


def test_swapped_days_and_months_are_noted():
    days = pd.date_range("2024-01-01", periods=120, freq="2D")
    cells = [day if day.day <= 12 else day.strftime("%d/%m/%Y") for day in days]
    note = craftc.read_table(pd.DataFrame({"day": cells, "x": np.arange(120) % 9 / 2})).attrs["notes"][0]
    assert "a spreadsheet may have swapped day and month" in note
    cells = [day if i % 2 else day.strftime("%d/%m/%Y") for i, day in enumerate(days)]
    note = craftc.read_table(pd.DataFrame({"day": cells, "x": np.arange(120) % 9 / 2})).attrs["notes"][0]
    assert "swapped" not in note


def test_words_among_dates_stay_categories():
    cells = ["2024-01-05", "open", "late", "2024-02-05", "none", "12"] * 10
    assert isinstance(craftc.read_table(pd.DataFrame({"due": cells}))["due"].dtype, pd.CategoricalDtype)
