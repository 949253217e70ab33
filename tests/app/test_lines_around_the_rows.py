"""Lines that people write above, below and between the names and the rows of a table."""

from __future__ import annotations

import io

import pytest

import craftc

pd = pytest.importorskip("pandas", reason="files are read with pandas")
openpyxl = pytest.importorskip("openpyxl", reason="sheets are read with openpyxl")

N = 60


def book(rows):
    """The content of a workbook; empty texts are empty cells."""
    out, made = io.BytesIO(), openpyxl.Workbook()
    for row in rows:
        made.active.append([None if cell == "" else cell for cell in row])
    made.save(out)
    return out.getvalue()


def text(rows, width):
    return "".join(",".join([*map(str, row), *[""] * (width - len(row))]) + "\n" for row in rows)


@pytest.fixture(params=["xlsx", "csv"])
def table_of(request, tmp_path):
    """Reads lines as a table, from a sheet and from a text."""

    def table_of(rows, **options):
        rows = [list(row) for row in rows]
        options = options or {"on_unusable": "keep"}
        path = tmp_path / f"t.{request.param}"
        width = max(map(len, rows))
        path.write_bytes(book(rows) if request.param == "xlsx" else text(rows, width).encode())
        return craftc.read_table(path, **options)

    return table_of


# ---- titles above repeated and absent names ----

SITES = [[f"S{i}", 40 + 7 * i % 60, i % 11 / 10, 41 + 5 * i % 60, "ab"[i % 2]] for i in range(N)]
NAMES = ["Site", "Score", "Share", "Score", "Kind"]
TITLES = [
    [["Quarterly survey"], ["as of 2024-03-31"]],
    [["Quarterly survey"], [""], ["as of 2024-03-31"]],
    [["Quarterly survey"], ["as of 2024-03-31"], ["confidential"], [""]],
]


@pytest.mark.parametrize("titles", TITLES)
@pytest.mark.parametrize(
    ("names", "read_as"),
    [
        (NAMES, ["Site", "Score", "Share", "Score.2", "Kind"]),
        (["Site", "Score", "Kind", "Score", "Kind"], ["Site", "Score", "Kind", "Score.2", "Kind.2"]),
        (["Site", "Score", "", "Score", "Kind"], ["Site", "Score", "column 3", "Score.2", "Kind"]),
    ],
)
def test_titles_above_repeated_names(table_of, titles, names, read_as):
    for above in (titles, titles[:1]):
        table = table_of([*above, names, *SITES])
        assert list(table.columns) == read_as
        assert len(table) == N
        assert table["Score"].tolist() == [row[1] for row in SITES]
        assert any("above the column names were skipped" in note for note in table.attrs["notes"])


def test_titles_above_repeated_names_of_categories(table_of):
    rows = [[["yes", "no"][i % 2], ["low", "high"][i % 3 // 2], ["a", "b", "c"][i % 3]] for i in range(N)]
    names = ["answer", "level", "answer"]
    table = table_of([*TITLES[0], names, *rows])
    assert list(table.columns) == ["answer", "level", "answer.2"]


def test_rows_below_sparse_ones_are_no_names(table_of):
    rows = [["S0"], ["S1"], ["S2", "x", "x", "u", "v"], *(["S", "x", "y", 3, 4] for _ in range(N))]
    table = table_of([["Site", "a", "b", "c", "d"], *rows])
    assert list(table.columns) == ["Site", "a", "b", "c", "d"]
    table = table_of([["Site"], *rows[:2], ["S2", "x", "y", 3, 4], *rows[3:]])
    assert table.columns[0] == "Site"


# ---- units below the names ----

PEOPLE = [
    [f"P{i}", 20 + 49 * i * i % 60, 50.5 + 3 * i % 40, 150.5 + 11 * i % 40, 1 + i % 9, "abc"[i % 3]]
    for i in range(N)
]
FIELDS = ["Person", "Age", "Weight", "Height", "Score", "Kind"]


@pytest.mark.parametrize(
    "units",
    [
        ["", "years", "kg", "cm", "", ""],
        ["", "Jahre", "[kg]", "(cm)", "", ""],
        ["", "", "kg", "cm", "", ""],
        ["", "int", "double", "double", "", "text"],
        ["", "years", "kg", "cm", "points", ""],
    ],
)
def test_units_of_some_columns(table_of, units):
    table = table_of([FIELDS, units, *PEOPLE])
    assert len(table) == N
    assert table["Score"].tolist() == [row[4] for row in PEOPLE]
    assert any("1 line of types, units or titles below the names" in note for note in table.attrs["notes"])
    model = craftc.CRAFT(random_state=0).fit(table[["Age", "Weight", "Kind"]])
    new = table_of([FIELDS, units, *PEOPLE[:5]], like=model)
    assert new["Age"].tolist() == table["Age"].tolist()[:5]


@pytest.mark.parametrize(
    "first",
    [
        ["", "", "kg", "", "", ""],
        ["P", "years", "kg", "cm", "", ""],
        ["1", "years", "kg", "cm", "", ""],
        ["", "years", "kg", "cm", 5, ""],
        ["", "years", "kg", "cm", "", "a"],
        ["", "refused", "refused", "unknown", "", ""],
    ],
)
def test_first_rows_with_few_units(tmp_path, first):
    path = tmp_path / "t.xlsx"
    path.write_bytes(book([FIELDS, first, *PEOPLE]))
    assert len(craftc.read_table(path)) == N + 1


def test_units_that_the_cells_have_too(table_of):
    rows = [[f"{20 + 7 * i % 60} Jahre", f"{i + 1},5", i % 9, "ab"[i % 2]] for i in range(N)]
    rows = [[row[0], row[1].replace(",", "."), *row[2:]] for row in rows]
    table = table_of([["Alter", "Umsatz", "Zahl", "Art"], ["Jahre", "EUR", "", ""], *rows])
    assert table["Alter"].tolist() == [20 + 7 * i % 60 for i in range(N)]


# ---- remarks, totals and averages below the rows ----

CODES = [f"C-{1000 + 37 * i}" for i in range(N)]
PEOPLES_NAMES = [f"{'ABCDEFGHKL'[i % 10]}{'aeiou'[i // 10]}{'nrst'[i % 4]}o" for i in range(50)] + [
    "Miller"
] * 10
LEVELS = ["red", "green", "blue"] * 20
CASES = {"codes": CODES, "names": PEOPLES_NAMES, "levels": LEVELS, "numbers": list(range(1, N + 1))}
VALUES = [["xyz"[i % 3], 100.5 + 13 * i % 50, 10.5 + 7 * i % 40] for i in range(N)]
SUMS = [round(sum(row[j] for row in VALUES), 1) for j in (1, 2)]
MEANS = [round(each / N, 2) for each in SUMS]
HEAD = ["Client", "Type", "Sales", "Cost"]
MARKED = ["a) preliminary", "(1) estimated", "(p) provisional", "(*) estimado", "p = provisional", "Nota: x"]
MARKED += ["Geprüft: Müller", "Anzahl: 60", "Count: 60", "(c) 2024 ACME", "[a] revised"]


def rows_of(first):
    return [HEAD, *([name, *row] for name, row in zip(first, VALUES, strict=True))]


@pytest.mark.parametrize("first", CASES)
@pytest.mark.parametrize("average", ["Average", "Ø", "Mittelwert", "avg"])
def test_remarks_below_totals(table_of, first, average):
    sums = [["Total", "", *SUMS], [average, "", *MEANS]]
    for ends in (sums, [*sums, ["Source: SAP"], ["(p) provisional"]], [["Source: SAP"], ["(p) provisional"]]):
        table = table_of([*rows_of(CASES[first]), *ends])
        assert table["Sales"].tolist() == [row[1] for row in VALUES]


@pytest.mark.parametrize("first", CASES)
def test_marked_remarks(tmp_path, first):
    for remark in MARKED:
        path = tmp_path / "t.xlsx"
        path.write_bytes(book([*rows_of(CASES[first]), ["Total", "", *SUMS], [remark]]))
        assert len(craftc.read_table(path, on_unusable="keep")) == N, remark


@pytest.mark.parametrize("remark", ["Confidential", "Ende der Liste", "END", "1 preliminary"])
def test_remarks_below_codes(table_of, remark):
    table = table_of([*rows_of(CODES), ["Total", "", *SUMS], [remark]])
    assert len(table) == N


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("codes", "C-99"),
        ("codes", "D-1234567"),
        ("names", "Miller"),
        ("names", "Lee"),
        ("names", "van der Berg"),
        ("names", "Confidential"),
        ("levels", "red"),
        ("levels", "pink"),
        ("levels", "dark blue"),
        ("numbers", 61),
    ],
)
def test_last_rows_of_one_cell(table_of, first, last):
    assert len(table_of([*rows_of(CASES[first]), [last]])) == N + 1


def test_last_rows_with_marks(table_of):
    titles = [f"Film: part {i}" if i % 9 == 0 else f"Film {i}" for i in range(N)]
    assert len(table_of([*rows_of(titles), ["Alien: Covenant"]])) == N + 1
    assert len(table_of([*rows_of(CODES), ["p = provisional", "x"]])) == N + 1
    assert (
        len(table_of([["title", "kind"], *([t, "ab"[i % 2]] for i, t in enumerate(CODES)), ["p = 3"]]))
        == N + 1
    )
    sparse = [
        HEAD,
        *(
            [name, *(v if i % 3 == k else "" for k, v in enumerate(row))]
            for i, (name, row) in enumerate(zip(CODES, VALUES, strict=True))
        ),
    ]
    assert len(table_of([*sparse, ["a) none"]])) == N + 1
    assert len(table_of([["text"], *([t] for t in CODES), ["a) none"]])) == N + 1
