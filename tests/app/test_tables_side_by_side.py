"""Tables that stand next to or below the one that is read."""

from __future__ import annotations

import io
import re

import pandas as pd
import pytest

import craftc

N = 60
NAMES = ["area", "kind", "sales", "costs"]
ROWS = [[["north", "south"][i % 2], "abc"[i % 3], i * 7 % 31, i * 3 % 17 + 0.5] for i in range(N)]
LEGEND = [["code", "text"], ["a", "Tea"], ["b", "Milk"], ["c", "Water"]]
AGAIN = [NAMES, *([*row[:2], row[2] + 1, row[3]] for row in ROWS)]
LONGER = [["name", "score"], *([f"n{i % 4}", i % 13] for i in range(N + 9))]


def side_by_side(*tables, gap=1):
    """Tables with empty columns between them, as lines of equally many cells."""
    lines = []
    for i in range(max(map(len, tables))):
        line = []
        for t, table in enumerate(tables):
            line += [None] * gap * bool(t)
            line += table[i] if i < len(table) else [None] * len(table[0])
        lines.append(line)
    return lines


@pytest.fixture(params=["text", "sheet"])
def read(request, tmp_path):
    def read_lines(lines, **options):
        path = tmp_path / "t.file"
        if request.param == "text":
            path.write_text(pd.DataFrame(lines).to_csv(index=False, header=False))
        else:
            book = pytest.importorskip("openpyxl", reason="sheets are read with openpyxl").Workbook()
            for line in lines:
                book.active.append(line)
            content = io.BytesIO()
            book.save(content)
            path.write_bytes(content.getvalue())
        table = craftc.read_table(path, **options)
        return table, "\n".join(table.attrs["notes"])

    return read_lines


@pytest.mark.parametrize("gap", [1, 2])
@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (LEGEND, "2 columns of another table next to the rows, behind an empty column, 'code', 'text'"),
        ([["see", "page 3"]], "2 columns of another table next to the rows"),
        ([[None]] * 8 + [["note"]], "1 column of another table next to the rows"),
        (AGAIN, "4 columns of another table next to the rows, behind an empty column, 'area"),
        (LONGER, "2 columns of another table next to the rows, behind an empty column, 'name', 'score'"),
    ],
    ids=["legend", "two cells", "one cell", "the same names", "longer"],
)
def test_another_table_to_the_right(read, other, shown, gap):
    table, notes = read(side_by_side([NAMES, *ROWS], other, gap=gap))
    assert list(table) == NAMES
    assert table["sales"].tolist() == [row[2] for row in ROWS]
    assert shown in notes
    assert "all_lines=True keeps" in notes
    both = read(side_by_side([NAMES, *ROWS], other, gap=gap), all_lines=True, on_unusable="keep")[0]
    assert both.shape[1] > 4


def test_a_legend_to_the_left(read):
    table, notes = read(side_by_side(LEGEND, [NAMES, *ROWS]))
    assert list(table) == NAMES
    assert len(table) == N
    assert "another table next to the rows, behind an empty column, 'code', 'text'" in notes


def test_an_empty_column_inside_a_table(read):
    more = [["more", "most"], *([i % 5 + 0.5, i % 11] for i in range(N))]
    for own in (more, [*more[:50], *[[None, None]] * 11], [more[0], *[[None, None]] * 30, *more[31:]]):
        table, notes = read(side_by_side([NAMES, *ROWS], own))
        assert list(table) == [*NAMES, "more", "most"]
        assert (
            "Behind an empty column, as another table would be, but read with the same rows: 'more'" in notes
        )
    lines = [[None, *NAMES], *([None, *row] for row in ROWS)]
    table, notes = read(lines)
    assert list(table) == NAMES
    assert "Behind an empty column" not in notes


SECOND = [["shop", "manager", "since", "staff"], *([f"s{i}", f"m{i}", 2000 + i, 3 + i] for i in range(8))]


@pytest.mark.parametrize(
    ("second", "first"),
    [
        (SECOND, "shop"),
        ([["Our shops", None, None, None], *SECOND], "Our shops"),
        ([["kind", "text", None, None], ["a", "Tea", None, None], ["b", "Milk", None, None]], "kind"),
    ],
)
def test_another_table_below(read, second, first):
    total = ["Total", None, *(sum(row[j] for row in ROWS) for j in (2, 3))]
    lines = [["Sales"] + [None] * 3, NAMES, *ROWS, total, [None] * 4, *second]
    table, notes = read(lines)
    assert list(table) == NAMES
    assert table["sales"].tolist() == [row[2] for row in ROWS]
    assert f"{len(second)} lines of another table below the rows, the first '{first}'" in notes
    assert "1 last line, a total or footnotes, the first 'Total'" in notes
    if (found := re.search(r"skip=(\d+) reads it instead", notes)) is not None:
        assert read(lines, skip=int(found[1]), on_unusable="keep")[0].columns[0] == second[0][0]
    assert (found is None) == (second[0][1] is None)
    levels = [["north", "c", None, None], ["north", "b", 7, 4.5]]  # rows, one without numbers
    assert len(read([NAMES, *ROWS, [None] * 4, *levels])[0]) == N + 2


def test_another_table_below_blank_lines(tmp_path):
    text = pd.DataFrame([NAMES, *ROWS]).to_csv(index=False, header=False)
    (tmp_path / "t.csv").write_text(f"Sales\n\n{text}\n\ncode,text\na,Tea\nb,Milk\n\n")
    table = craftc.read_table(tmp_path / "t.csv")
    assert table.index.tolist() == list(range(N))
    assert "3 lines of another table below the rows, the first 'code'; skip=65" in str(table.attrs["notes"])
    second = craftc.read_table(tmp_path / "t.csv", skip=65, on_unusable="keep")
    assert second.to_dict("list") == {"code": ["a", "b"], "text": ["Tea", "Milk"]}


def test_lines_of_other_programs(tmp_path):
    def read(text):
        (tmp_path / "t.txt").write_text(text)
        return craftc.read_table(tmp_path / "t.txt")

    rows = [list(map(str, row)) for row in ROWS]
    plain = read("\n".join(map(",".join, [NAMES, *rows])))
    rule = "+-----+----+----+----+"
    bars = ["| " + " | ".join(row) + " |" for row in [NAMES, *rows]]
    pages = ["\n".join(map(",".join, [NAMES, *rows[at : at + 20]])) for at in (0, 20, 40)]
    for text in (
        "\n".join([rule, bars[0], rule, *bars[1:], rule, "60 rows in set (0.01 sec)"]),  # MySQL
        "\n".join([" | ".join(NAMES), rule[1:-1], *map(" | ".join, rows), "(60 rows)"]),  # PostgreSQL
        "\n".join(f"Sales   Page {i + 1} of 3\n\n{page}" for i, page in enumerate(pages)),
        "\n".join([*map(",".join, [NAMES, *rows]), "60 rows", "Time: 0.23 s"]),
        "\r\n".join([*map(",".join, [NAMES, *rows]), "\x1a"]),
        "\n".join(", ".join(f'"{cell}"' for cell in row) for row in [NAMES, *rows]),
        "\n".join(";".join(f'="{cell}"' for cell in row) for row in [NAMES, *rows]),
    ):
        pd.testing.assert_frame_equal(read(text).reset_index(drop=True), plain)


def test_totals_that_have_only_the_name_of_their_group(read):
    groups = [[row for row in ROWS if row[0] == area] for area in ("north", "south")]
    sums = [[area[0][0], None, sum(row[2] for row in area), sum(row[3] for row in area)] for area in groups]
    lines = [NAMES, *groups[0], sums[0], *groups[1], sums[1]]
    table, notes = read(lines)
    assert len(table) == N
    assert "2 lines of totals between the rows, the first 'north'" in notes
    sums[0][2] += 5
    assert len(read([NAMES, *groups[0], sums[0], *groups[1], sums[1]])[0]) > N


def test_totals_above_their_groups(read):
    groups = [ROWS[:20], ROWS[20:45], ROWS[45:]]
    names = ["label", "sales", "costs"]
    lines = [names]
    for g, group in enumerate(groups):
        lines.append([f"Group {g}", sum(row[2] for row in group), sum(row[3] for row in group)])
        lines += [[f"Item {i % 3}", row[2], row[3]] for i, row in enumerate(group)]
    table, notes = read([*lines, ["Grand Total", sum(row[2] for row in ROWS), sum(row[3] for row in ROWS)]])
    assert table["sales"].tolist() == [row[2] for row in ROWS]
    assert "3 lines of totals between the rows, the first 'Group 0'" in notes
    lines[1][1] += 1
    assert len(read(lines)[0]) == N + 3


def test_names_below_remarks_to_the_left_of_the_table(read):
    lines = [["Prepared by X"], [], ["Filter: all"], [], [None, *NAMES], *([None, *row] for row in ROWS)]
    table, notes = read([line + [None] * (5 - len(line)) for line in lines])
    assert list(table) == NAMES
    assert table["sales"].tolist() == [row[2] for row in ROWS]
    assert "2 line(s) above the column names were skipped, the first: 'Prepared by X'" in notes


def test_labels_of_groups_that_are_written_once(read):
    labels = {0: "east", 20: "north", 45: "south"}
    lines = [["area", *NAMES[1:]], *([labels.get(i), *row[1:]] for i, row in enumerate(ROWS))]
    table, notes = read(lines)
    assert "area" not in table
    assert "a different text in every row that has one; fill it down if it stands for the rows below" in notes
    lines = [["area", *NAMES[1:]], *([labels.get(i - 1), *row[1:]] for i, row in enumerate(ROWS))]
    assert "Not used (a different text in every row that has one): 'area'." in read(lines)[1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cells", [[1.5, float("inf")] * 30, [1e308] * 60, [1j] * 60])
def test_numbers_without_a_sum(cells):
    frame = pd.DataFrame({"x": cells, "y": [i * 7 % 31 for i in range(N)], "z": ["a", "b", "b"] * 20})
    assert "y" in craftc.read_table(frame)
