"""Totals at the top, statistics at the end, headings, legends below the rows, hidden sheets, dates."""

from __future__ import annotations

import datetime
import io

import numpy as np
import pytest

import craftc

pd = pytest.importorskip("pandas", reason="files are read with pandas")

R = np.random.default_rng(0)
N = 40
TABLE = pd.DataFrame(
    {
        "branch": [f"B{i:02d}" for i in range(N)],
        "region": R.choice(["North", "South", "West"], N),
        "sales": R.integers(100, 999, N),
        "costs": R.integers(50, 500, N),
        "kind": R.choice(["kiosk", "shop"], N),
    }
)
NUMBERS = TABLE[["sales", "costs"]]


def line(label, values, at=0):
    cells = [""] * 5
    cells[at], cells[2:4] = label, [f"{value:.2f}".removesuffix(".00") for value in values]
    return cells


def text(rows):
    return "\n".join(";".join(map(str, row)) for row in [list(TABLE), *rows]) + "\n"


ROWS = TABLE.values.tolist()
GROUPS = [(region, part) for region, part in TABLE.groupby("region")]


def test_a_total_above_the_rows(read):
    for top in (
        line("Total", NUMBERS.sum()),
        line("All branches", NUMBERS.sum()),
        line("Mean", NUMBERS.mean()),
    ):
        table, notes = read(text([top, *ROWS]))
        assert len(table) == N
        assert f"Not used: 1 first line, a total, '{top[0]}'" in notes
        assert len(read(text([top, *ROWS]), all_lines=True)[0]) == N + 1
    for top in (line("B99", [500, 300]), ["B99", "North", *NUMBERS.sum(), "shop"]):
        assert len(read(text([top, *ROWS]))[0]) == N + 1


def test_lines_of_printed_pages(read):
    pages = []
    for page in range(4):
        names = [list(TABLE)] if page else []
        head = [["", "", "", "", ""], [f"Page {page + 1} of 4", "", "", "", ""], *names]
        pages += [
            *(head if page else []),
            *ROWS[10 * page : 10 * page + 10],
            line("carried forward", [1, 2], 1),
        ]
    table, notes = read(text(pages))
    assert table.shape == (N, 4)
    assert "Not used: 7 lines of printed pages, the first 'carried forward'" in notes
    cells = [[f"Page {i}", *row[1:]] for i, row in enumerate(ROWS)]
    assert len(read(text(cells))[0]) == N


def test_a_total_whose_name_stands_behind_its_numbers(read):
    lines = "".join(f"{i * i + 3},{20 + i % 40},south\n" for i in range(60))
    assert len(read(f"spend,age,region\n{lines}")[0]) == 60
    total = sum(i * i + 3 for i in range(60))
    for name, kept in (("Total", 60), ("south", 61)):
        table, notes = read(f"spend,age,region\n{lines}{total},,{name}\n")
        assert len(table) == kept
        assert ("a total or footnotes" in notes) == (kept == 60)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("std", ["SD", "STABW", "std"])
def test_statistics_below_the_rows(read, std):
    lines = [
        line("Sum", NUMBERS.sum()),
        line("Mean", NUMBERS.mean()),
        line(std, NUMBERS.std()),
        line("Min", NUMBERS.min()),
        line("25%", NUMBERS.quantile(0.25)),
        line("Q3", NUMBERS.quantile(0.75)),
        line("Max", NUMBERS.max()),
    ]
    table, notes = read(text([*ROWS, *lines]))
    assert len(table) == N
    assert "Not used: 7 last lines, a total or footnotes, the first 'Sum'" in notes
    assert len(read(text([*ROWS, line("SD", [500, 300])]))[0]) == N + 1
    assert len(read(text([*ROWS, line("Q3", [500, 300])]))[0]) == N + 1


def test_totals_without_a_name(read):
    rows = [
        row for _, part in GROUPS for row in [*part.values.tolist(), line("", part[["sales", "costs"]].sum())]
    ]
    table, notes = read(text(rows))
    assert len(table) == N
    assert "3 lines of totals between the rows" in notes
    rows[5][0] = rows[5][1] = rows[5][4] = ""  # a row whose texts are missing
    assert len(read(text(ROWS[:10] + rows[5:6] + ROWS[10:]))[0]) == N + 1


def test_totals_without_a_name_in_a_table_of_one_column_of_texts(read):
    columns = ["region", "sales", "costs"]
    rows = [
        row
        for _, part in GROUPS
        for row in [*part[columns].values.tolist(), ["", *part[columns[1:]].sum().tolist()]]
    ]

    def n_read(rows, columns=columns):
        lines = [";".join(map(str, row[: len(columns)])) for row in [columns, *rows]]
        return len(read("\n".join(lines) + "\n")[0])

    assert n_read(rows) == N
    nameless = [i for i, row in enumerate(rows) if not row[0]]
    other = [[*row[:2], row[2] + 1] if i == nameless[1] else row for i, row in enumerate(rows)]
    assert n_read(other) == N + 3  # a sum that is none: the lines are rows without a name
    assert n_read(rows, columns[:2]) == N + 3  # of one column alone, which chance could be
    zeros = [["", 0, 0] if not row[0] else [row[0], 0, row[2] % 2] for row in rows]
    assert n_read(zeros) == N + 3


def test_headings_of_groups(read):
    rows = [row for region, part in GROUPS for row in [[region, "", "", "", ""], *part.values.tolist()]]
    table, notes = read(text(rows))
    assert len(table) == N
    assert "Not used: 3 headings of groups of rows, the first 'North'" in notes
    blank = [[f"X{i}", "", "", "", ""] for i in range(3)]  # rows without any other cell
    assert len(read(text(ROWS[:5] + blank[:1] + ROWS[5:9] + blank[1:] + ROWS[9:]))[0]) == N + 3


def test_a_legend_below_the_rows(read):
    legend = [["Legend", "", "", "", ""], ["code", "text", "", "", ""], ["N", "North", "", "", ""]]
    table, notes = read(text([*ROWS, [""] * 5, *legend]))
    assert len(table) == N
    assert "Not used: 3 lines of another table below the rows, the first 'Legend'" in notes
    assert len(read(text([*ROWS, [""] * 5, *ROWS[:3]]))[0]) == N + 3


def test_names_that_are_dates(read):
    for names in ("01.01.2023;01.02.2023", "2023-01-01;2023-02-01"):
        rows = "\n".join(f"b{i};{i * 3 % 17};{i * 5 % 19}" for i in range(N))
        table, notes = read(f"branch;{names}\n{rows}\n")
        assert list(table) == names.split(";")
        assert len(table) == N
        assert "looks like data" not in notes
    days = "\n".join(f"b{i};0{1 + i % 9}.02.2023;{i * 5 % 19}" for i in range(N))
    assert "looks like data" in read(f"b77;01.01.2023;3\n{days}\n")[1]


def test_hidden_sheets_and_rows(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="sheets are read with openpyxl")
    book = openpyxl.Workbook()
    codes, data = book.active, book.create_sheet("Data")
    for i in range(60):
        codes.append([f"k{i}", i % 7, i % 5])
    data.append(["branch", datetime.datetime(2023, 1, 1), datetime.datetime(2023, 2, 1)])
    for i in range(N):
        data.append([f"b{i}", i * 3 % 17, i * 5 % 19])
    codes.sheet_state = "hidden"
    data.row_dimensions[7].hidden = data.row_dimensions[9].hidden = True
    out = io.BytesIO()
    book.save(out)
    path = tmp_path / "t.xlsx"
    path.write_bytes(out.getvalue())
    table = craftc.read_table(path)
    assert list(table) == ["2023-01-01", "2023-02-01"]
    assert "the first that is a table and not hidden, 'Data', was read" in table.attrs["notes"][0]
    assert table.attrs["notes"][1].startswith("2 row(s) that the sheet hides, as by a filter, were read, too")
    assert len(craftc.read_table(path, sheet=0)) >= 59


# ---- the places of rows ----


@pytest.mark.parametrize("above", [[], ["Report", ""]])
@pytest.mark.parametrize("between", ["", "total", "total and blank", "blank and total"])
def test_rows_have_their_place_in_the_file(tmp_path, above, between):
    lines = []
    for region, part in GROUPS:
        total = [";".join(line(f"Total {region}", [part["sales"].sum(), part["costs"].sum()]))]
        gap = [each for word in between.split(" and ") for each in (total if word == "total" else [""])]
        lines += [*(";".join(map(str, row)) for row in part.values.tolist()), *gap]
    paths = [tmp_path / name for name in ("a.csv", "b.csv")]
    for path in paths:
        path.write_text("\n".join([*above, ";".join(TABLE), *lines]) + "\n")
    sales = [each.split(";")[2] for each in lines if each and not each.startswith("Total")]
    places = [i for i, each in enumerate(lines) if each and not each.startswith("Total")]
    table = craftc.read_table(paths[0])
    assert table.index.tolist() == places
    assert table["sales"].tolist() == list(map(float, sales))
    both = craftc.read_table(paths).index.tolist()
    assert both[: len(places)] == places
    assert np.diff(both[len(places) :]).tolist() == np.diff(places).tolist()
    assert both[len(places)] > max(places)
