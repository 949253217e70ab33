"""Tables as people have them: files of every kind, and cells in every form."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import json
import lzma
import random
import subprocess
import sys
import time
import zipfile
from decimal import Decimal

import numpy as np
import pytest

import craftc
from craftc import CRAFT
from craftc.reading.cells import as_number
from tests.common import ROOT

pd = pytest.importorskip("pandas", reason="files are read with pandas")
pl = pytest.importorskip("polars", reason="a frame that is not of pandas")

COLOURS = ["red", "green", "blue"]
WEATHER = [{"town": COLOURS[i % 3], "rain": i * 1.5, "sun": 10 - i * 0.25} for i in range(30)]
CSV = "town,rain,sun\n" + "".join(f"{row['town']},{row['rain']},{row['sun']}\n" for row in WEATHER)


def column(cells, name="x"):
    """A CSV text of one column of these cells, and a column of numbers with fractions."""
    return f"{name};y\n" + "".join(f"{cell};{i / 7:.3f}\n" for i, cell in enumerate(cells))


def cycle(cells, n=30):
    return [cells[i % len(cells)] for i in range(n)]


# ---- files ----


def zipped(text):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data/weather.csv", text)
        archive.writestr("__MACOSX/._weather.csv", "x")
    return buffer.getvalue()


def excel(*sheets, **options):
    buffer = io.BytesIO()
    with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
        for i, sheet in enumerate(sheets):
            sheet.to_excel(writer, sheet_name=f"s{i}", index=False, **options)
    return buffer.getvalue()


def binary(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


WAYS = {
    "semicolon": CSV.replace(",", ";"),
    "tab": CSV.replace(",", "\t"),
    "bar": CSV.replace(",", "|"),
    "utf-16": CSV.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + CSV.encode(),
    "carriage returns": CSV.replace("\n", "\r"),
    "quotes": "".join('"' + line.replace(",", '","') + '"\n' for line in CSV.splitlines()),
    "blank lines": CSV.replace("\n", "\n\n"),
    "title": "Weather of 2024\n\n" + CSV,
    "title of a sheet": "Weather of 2024,,\n" + CSV,
    "comments": "# made by hand\n# twice, or three times\n" + CSV,
    "gzip": gzip.compress(CSV.encode(), mtime=0),
    "bzip2": bz2.compress(CSV.encode()),
    "xz": lzma.compress(CSV.encode()),
    "zip": zipped(CSV),
    "gzip in zip": zipped(gzip.compress(CSV.encode(), mtime=0)),
    "JSON lines": "\n".join(map(json.dumps, WEATHER)),
    "JSON array": json.dumps(WEATHER, indent=1),
    "Excel": excel(pd.DataFrame(WEATHER)),
    "Excel below a title": excel(pd.DataFrame(WEATHER), startrow=3, startcol=1),
    "Parquet": binary(pd.DataFrame(WEATHER).to_parquet),
    "Feather": binary(pd.DataFrame(WEATHER).to_feather),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_content_decides_the_format(read, way):
    expected, notes = read(CSV)
    assert notes == ""
    found, notes = read(WAYS[way], "table.dat")
    if way == "blank lines":
        expected = expected.set_axis(range(1, 2 * len(expected), 2))
    pd.testing.assert_frame_equal(found, expected, check_index_type=False)
    assert ("above the column names" in notes) == (way in ("title", "title of a sheet", "comments"))


def test_standard_input(monkeypatch, read):
    class Stdin:
        buffer = io.BytesIO(gzip.compress(CSV.encode()))

    monkeypatch.setattr("sys.stdin", Stdin)
    pd.testing.assert_frame_equal(craftc.read_table("-"), read(CSV)[0])


def test_several_sheets_and_several_files(read):
    _, notes = read(excel(pd.DataFrame(WEATHER), pd.DataFrame(WEATHER)))
    assert "The file has 2 sheets; the first, 's0', was read; sheet='...' names another." in notes
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.csv", CSV)
        archive.writestr("b.csv", CSV)
    with pytest.raises(ValueError, match=r"holds 2 files \(a.csv, b.csv\)"):
        read(buffer.getvalue())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, the lines before have 2"),
        (b'a,b\n1,x\n2,"y\n3,z\n4,w\n', "a quote that opens in line 3 is not closed"),
        (b'Title\n\na,b\n1,x\n2,"y\n3,z\n', "a quote that opens in line 5 is not closed"),
        (b"a\0b", "is not a text file"),
        (b"PK\x03\x04xx", "cannot be read"),
        (b"PAR1xx", "cannot be read"),
        (b"\x1f\x8bxx", "cannot be read"),
        (b"\xd0\xcf\x11\xe0xx", r"before 2007 \(.xls\).*save the table as .xlsx"),
        (b'{"a": 1}\n{"a": \n', "line 2"),
        (b'[{"a": 1}, 2]', "every line must be one object"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply|line 1"),
    ],
)
def test_files_that_are_no_tables(read, content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


def test_names_of_files(tmp_path):
    (tmp_path / "sales.csv").write_text(CSV)
    with pytest.raises(ValueError, match=r"There is no file .*Did you mean 'sales.csv'"):
        craftc.read_table(tmp_path / "sale.csv")
    with pytest.raises(ValueError, match="There is no file"):
        craftc.read_table("https://example.org/t.csv")
    with pytest.raises(TypeError, match="needs the name of a file or a data frame, got list"):
        craftc.read_table([[1, 2]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": 0}, "header must be 'infer', True or False, got 0"),
        ({"skip": -1}, "skip must be a number of lines"),
        ({"skip": 99}, "No line is left after skip=99"),
        ({"on_unusable": "x"}, "on_unusable must be"),
        ({"dates": "x"}, "dates must be"),
        ({"na_values": "NA"}, "na_values must be a list"),
    ],
)
def test_bad_arguments(read, options, message):
    with pytest.raises(ValueError, match=message):
        read(CSV, **options)


# ---- header ----


def test_a_table_without_header(read):
    rows = "".join(
        f"{20 + i % 40}.5,{i % 2},{['male', 'female'][i % 2]},{['S', 'C', 'Q'][i % 3]}\n" for i in range(60)
    )
    table, notes = read(rows)
    assert table.shape == (60, 4)
    assert list(table.columns) == ["column 1", "column 2", "column 3", "column 4"]
    assert "The first line looks like data ('20.5, 0, male, S')" in notes
    assert read(rows, header=True)[0].shape == (59, 4)
    assert read("p,x\ne,y\n" * 20)[0].shape == (40, 2)
    named, notes = read("a,b,c,d\n" + rows, header=False)
    assert (len(named), notes.count("looks like data")) == (61, 0)


@pytest.mark.parametrize("header", ["country,2019,2020,2021", ",0,1,2", "town,rain,sun,wind", "n/a,a,b,c"])
def test_names_that_look_like_numbers(read, header):
    rows = "".join(f"{COLOURS[i % 3]},{i * 0.7:.1f},{i * 1.1:.1f},{i * 1.3:.1f}\n" for i in range(30))
    table, _ = read(f"{header}\n{rows}")
    assert table.shape == (30, 4)


def test_skip(read):
    content = "made,by,hand\nover two lines,1,2\n" + CSV
    table, _ = read(content, skip=2)
    pd.testing.assert_frame_equal(table, read(CSV)[0])


@pytest.mark.parametrize("n", [199, 200, 3000])
def test_skip_of_many_lines(read, n):
    """More than those by which the format is seen, with other delimiters in them."""
    table, _ = read("".join(f"# note {i}; x\n" for i in range(n)) + CSV, skip=n)
    pd.testing.assert_frame_equal(table, read(CSV)[0])


# ---- numbers ----


@pytest.mark.parametrize(
    ("cells", "numbers", "note"),
    [
        (["$1,200", "$85.50", "$3"], [1200, 85.5, 3], "'$' removed; thousands separators removed"),
        (["3,50 €", "12 €", "7,25 €"], [3.5, 12, 7.25], "'€' removed; decimal commas"),
        (["EUR 3.50", "EUR 12", "-EUR 7"], [3.5, 12, -7], "'EUR' removed"),
        (["12%", "1.5 %", "-3%"], [12, 1.5, -3], "'%' removed"),
        (["1,234", "12,345,678", "5"], [1234, 12345678, 5], "thousands separators removed"),
        (["1 234", "12\u202f345", "5.5"], [1234, 12345, 5.5], "thousands separators removed"),
        (["1'234.5", "12'345", "5"], [1234.5, 12345, 5], "thousands separators removed"),
        (
            ["1.234,5", "12.345,75", "5"],
            [1234.5, 12345.75, 5],
            "thousands separators removed; decimal commas",
        ),
        (["$(3.20)", "($1.50)", "4"], [-3.2, -1.5, 4], "'$' removed; numbers in parentheses are negative"),
        (["3.5-", "−2.5", "+1.5"], [-3.5, -2.5, 1.5], ""),
        (["$5.5", "7", "$9"], [5.5, 7, 9], "'$' removed"),
        (["1e3", ".5", "2."], [1000, 0.5, 2], ""),
    ],
)
def test_numbers_in_dress(read, cells, numbers, note):
    rows = [cells[i % len(cells)] for i in range(5)]
    table, notes = read(column(f'"{cell}"' for cell in rows).replace(";", "\t"))
    assert table["x"].tolist() == [numbers[i % len(numbers)] for i in range(5)]
    assert notes == (f"'x' was read as numbers: {note}." if note else "")


def test_units(read):
    table, notes = read(column(f"{i * 3} km" for i in range(12)))
    assert table["x"].tolist() == [3.0 * i for i in range(12)]
    assert notes == "'x' was read as numbers: 'km' removed."
    table, notes = read(column(cycle(["2door", "4door"])))
    assert list(table["x"].cat.categories) == ["2door", "4door"]
    table, _ = read(column([f"{i} kg" if i % 2 else f"{i * 1000} cm" for i in range(20)] * 2))
    assert isinstance(table["x"].dtype, pd.CategoricalDtype)


def test_a_comma_is_a_decimal_comma_between_semicolons_only(read):
    cells = cycle(["1,234", "7,500"], 8)
    assert read(column(cells))[0]["x"].tolist()[:2] == [1.234, 7.5]
    assert read(column([f'"{cell}"' for cell in cells]).replace(";", ","))[0]["x"].tolist()[:2] == [
        1234,
        7500,
    ]


def test_bounds(read):
    table, notes = read(column([f"{i}.5" if i % 6 else "<5" for i in range(30)]))
    assert table["x"].tolist()[:2] == [5.0, 1.5]
    assert notes == "'x' was read as numbers: bounds such as '<5' taken as their number."
    table, _ = read(column(cycle(["<18", "18-65", ">65"])))
    assert list(table["x"].cat.categories) == ["18-65", "<18", ">65"]


def test_a_few_bad_cells(read):
    cells = [str(20 + i % 17) for i in range(712)] + ["thirty", "40 years"]
    table, notes = read(column(cells, "age"))
    assert table["age"].isna().sum() == 2
    assert (
        notes
        == "'age' was read as numbers: 2 cells that cannot be read became missing: 'thirty', '40 years'."
    )
    table, notes = read(column([*cells[:20], *["thirty"] * 10]))
    assert isinstance(table["x"].dtype, pd.CategoricalDtype)
    table, _ = read(column(cycle(["4", "6", "8", "rotary"], 100)))
    assert set(table["x"].cat.categories) == {"4", "6", "8", "rotary"}


def test_numbers_are_exact(read):
    rng = random.Random(1)
    numbers = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-20, 20) for _ in range(500)]
    assert read(column(map(repr, numbers)))[0]["x"].tolist() == numbers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.2.3",
        "1,23,4",
        "--5",
        "(5",
        "5)",
        "1_000",
        "0x1f",
        "$",
        "%",
        "2024-01-05",
        "5 5",
        "1e",
        "a" * 99,
    ],
)
def test_texts_that_are_no_numbers(text):
    assert as_number(text) is None


# ---- missing values ----


def test_missing_values(read):
    decks, nulls, cabins = ["A", "NA", "B", "", "?"], ["NA", "n/a", "null", "-"], ["NA", "x", "y"]
    rows = "".join(f"{decks[i % 5]},{[*nulls, i / 3][i % 5]},{cabins[i % 3]}\n" for i in range(60))
    table, notes = read("deck,size,cabin\n" + rows)
    assert set(table["deck"].cat.categories) == {"A", "B", "NA"}
    assert table["deck"].isna().sum() == 24
    assert table["size"].notna().sum() == 12
    assert notes == (
        "'deck', 'cabin': in text columns the cells 'NA' are levels, not missing values; na_values=['NA'] "
        "makes them missing."
    )
    table, notes = read("deck,size,cabin\n" + rows, na_values=["NA"])
    assert (table["deck"].isna().sum(), table["cabin"].isna().sum(), notes) == (36, 20, "")


@pytest.mark.parametrize("na", [-999, "-999", -999.0, "-999.0"])
def test_numbers_that_stand_for_missing(read, na):
    cells = [f"{i / 9:.2f}" if i % 7 else "-999" for i in range(63)]
    table, notes = read(column(cells))
    assert (table["x"] == -999).sum() == 9
    assert notes == "'x' has -999 in 9 rows, far from its other numbers; na_values=['-999'] makes it missing."
    table, notes = read(column(cells), na_values=[na])
    assert (table["x"].isna().sum(), notes) == (9, "")
    frame = pd.DataFrame({"x": [float(cell) for cell in cells]})
    assert craftc.read_table(frame, na_values=[na])["x"].isna().sum() == 9


# ---- codes and ids ----


def test_codes(read):
    rows = "".join(
        f"{['00501', '10001', '94105'][i % 3]},00{i % 8},{i % 3},{i % 40},{10**17 + i % 7}\n"
        for i in range(120)
    )
    table, notes = read("zip,dept,kind,size,card\n" + rows)
    assert list(table["zip"].cat.categories) == ["00501", "10001", "94105"]
    assert table["dept"].cat.categories[7] == "007"
    assert list(table["kind"].cat.categories) == ["0", "1", "2"]
    assert table["size"].dtype == np.float64
    assert table["card"].nunique() == 7
    assert "'zip' holds codes with leading zeros and is categorical." in notes


def items(rng, n_full, n_rows=60, low=1):
    """Answers from low to low + 4: columns in which all occur, and one in which the first does not."""
    cells = {f"q{j}": rng.permutation(np.arange(n_rows) % 5) + low for j in range(n_full)}
    return pd.DataFrame(cells | {"hard": rng.permutation(np.arange(n_rows) % 4) + low + 1})


def test_items_of_a_scale_are_numbers():
    """Five columns with the same five answers and more; four of them are codes."""
    rng = np.random.default_rng(0)
    table = items(rng, 5).assign(marital=rng.integers(1, 4, 60), weight=rng.normal(70, 9, 60))
    table.loc[3, "q1"] = np.nan
    read = craftc.read_table(table)
    assert [read[name].dtype for name in (*(f"q{j}" for j in range(5)), "hard")] == [np.float64] * 6
    pd.testing.assert_series_equal(read["q1"], table["q1"])
    assert isinstance(read["marital"].dtype, pd.CategoricalDtype)
    (note,) = [note for note in read.attrs["notes"] if "scale" in note]
    assert "hold answers on a scale from 1 to 5 and are used as numbers" in note
    asked = CRAFT(random_state=0, n_init=1, kinds={"q2": "category"}).fit(read)
    assert "q2" not in asked.schema_.numeric_names
    assert isinstance(craftc.read_table(items(rng, 4))["q0"].dtype, pd.CategoricalDtype)
    apart = items(rng, 4).join(items(rng, 4, low=0).add_prefix("z"))  # two scales of four columns
    assert all(isinstance(craftc.read_table(apart)[name].dtype, pd.CategoricalDtype) for name in apart)


def labelled(items, low="1 - gar nicht", high="5 - sehr"):
    """Answers with labels at the ends of their scale."""
    return items.astype(str).replace({"1": low, "5": high})


@pytest.mark.parametrize("labels", [("1 - gar nicht", "5 - sehr"), ("1", "5 (always)"), ("1 = never", "5")])
def test_items_with_labels_at_the_ends_are_numbers(labels):
    plain = items(np.random.default_rng(0), 8, 200)
    plain.loc[plain["q0"] == 3, "q0"] = 2
    plain.loc[plain["q1"] == 1, "q1"] = 2
    table = craftc.read_table(labelled(plain, *labels))
    pd.testing.assert_frame_equal(table, craftc.read_table(plain), check_dtype=False)
    assert (table.dtypes == np.float64).all()
    assert "'q5' was read as numbers: labels such as that of '" in " ".join(table.attrs["notes"])
    model = craftc.CRAFT(random_state=0).fit(table)
    again = craftc.read_table(labelled(plain, *labels)[:7], like=model)
    np.testing.assert_array_equal(again, table[:7])


def test_one_item_with_labels_has_the_numbers_as_levels():
    rng = np.random.default_rng(0)
    plain = items(rng, 1, 200).assign(weight=rng.normal(70, 9, 200) + 30 * (np.arange(200) % 2))
    table = craftc.read_table(labelled(plain))
    assert table["q0"].tolist() == craftc.read_table(plain)["q0"].tolist()
    notes = " ".join(table.attrs["notes"])
    assert "'q0' was read as numbers: labels such as that of" in notes
    assert "'q0', 'hard': whole numbers with at most 5 values are categories" in notes
    model = craftc.CRAFT(random_state=0).fit(table)
    for new in (labelled(plain), plain, plain.astype({"q0": float})):
        again = craftc.read_table(new, like=model)
        assert again["q0"].tolist() == table["q0"].tolist()
    for cells in (
        ["1 - low", "2 - mid", "3 - high", "4 - top", "5 - all"],
        ["1 - a", "2", "3", "4 - b"],
        ["1 - a", "2", "3"],
        ["1", "2 - b", "3", "4", "5"],
        ["1 - a", "2", "3", "4", "9 - none"],
    ):
        texts = craftc.read_table(plain.assign(q0=[cells[i % len(cells)] for i in range(200)]))["q0"]
        assert set(texts) == set(cells)


def test_items_of_a_scale_are_read_as_in_the_fit():
    """Few rows, in which the answers do not all occur, and the sum of the items."""
    table = items(np.random.default_rng(1), 6, 200)
    table["total"] = table.sum(axis=1)
    read = craftc.read_table(table)
    assert "total" not in read
    assert any("total" in note for note in read.attrs["notes"])
    model = CRAFT(random_state=0).fit(read)
    few = craftc.read_table(table.head(3).drop(columns="total"), like=model)
    assert all(few[name].dtype == np.float64 for name in few)
    np.testing.assert_array_equal(model.predict(few), model.labels_[:3])


def test_ids_and_columns_without_information(read):
    rng = random.Random(4)
    rows = "".join(
        f"{i + 5},{rng.randrange(10**6)},{rng.randrange(10**6)},K{i},,same,NA,{i % 9}.5,{1000 - 3 * i}\n"
        for i in range(40)
    )
    head = "Nr,order_id,pay,key,blank,country,none,x,job\n"
    table, notes = read(head + rows)
    assert list(table.columns) == ["pay", "x", "job"]
    assert table.attrs["unusable"] == {
        "Nr": "row counter",
        "order_id": "a different number in every row, and the name of an id",
        "key": "a different text in every row",
        "blank": "no value in any row",
        "country": "one value in every row",
        "none": "no value in any row",
    }
    assert "'job' has a different whole number in every row; leave it out if it is an id." in notes
    assert "Not used (no value in any row): 'blank', 'none'." in notes
    kept, _ = read(head + rows, on_unusable="keep")
    assert kept.shape == (40, 9)
    with pytest.raises(
        ValueError, match=r"'Nr': row counter; 'order_id': .*; drop these columns, or pass on_unusable="
    ):
        read(head + rows, on_unusable="error")
    with pytest.raises(ValueError, match="No column is left to cluster"):
        read("a\nx\ny\nz\n")


def test_one_row_and_equal_rows(read):
    assert read("a,b\n1.5,x\n")[0].shape == (1, 2)
    assert read("a,b\n" + "1.5,x\n" * 9)[0].shape == (9, 2)


def test_levels_that_differ_in_case_or_blanks(read):
    table, notes = read(column(cycle(["male", "MALE", " male ", "fe male", "female"])))
    assert list(table["x"].cat.categories) == ["MALE", "fe male", "female", "male"]
    assert (
        notes
        == "'x' has levels that differ only in case or blanks: 'male', 'MALE' and 1 more; they stay apart."
    )


# ---- dates ----


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d",
        "%Y/%m/%d",
        "%d.%m.%Y",
        "%m/%d/%Y",
        "%d-%m-%Y",
        "%m/%d/%y",
        "%b %d, %Y",
        "%d %B %Y",
        "%d-%b-%y",
        "%Y%m%d",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M:%S.000+02:00",
        "%Y-%m-%d %H:%M:%S+02",
        "%Y-%m-%dT%H:%M GMT",
        "%m/%d/%Y %I:%M %p",
    ],
)
def test_dates(read, form):
    first = datetime.datetime(2023, 11, 20)
    days = [first + datetime.timedelta(days=5 * i % 97) for i in range(60)]
    cells = [day.strftime(form) for day in days]
    cells[7] = "n/a"
    table, notes = read(column(cells, "visit"))
    assert list(table.columns) == ["visit", "y"]
    assert table["visit"].tolist()[:2] == [(day - datetime.datetime(1970, 1, 1)).days for day in days[:2]]
    assert table.loc[7].isna().tolist() == [True, False]
    assert table.attrs["kinds"] == {"visit": "date"}
    assert notes.startswith("'visit' holds dates, which are used in days since 1970-01-01")


def test_utc_offsets_that_differ_are_noted(read):
    """Days and hours are those of the place where the time was written."""
    cells = ["2020-01-01T12:00:00+01:00", "2020-07-01T12:00:00+02:00", "2020-09-05 18:00Z"] * 5
    table, notes = read(column(cells, "visit"))
    assert table["visit"].tolist()[:3] == [18262.5, 18444.5, 18510.75]
    assert "; hours are local times, of the UTC offsets +01:00, +02:00, Z." in notes
    assert "offsets" not in read(column(cells[:1] * 7 + ["2020-07-01T12:00:00+01:00"] * 8, "visit"))[1]


def test_parts_of_dates(read):
    first = datetime.datetime(2001, 11, 20, 7)
    dates = [first + datetime.timedelta(hours=i * 1501) for i in range(90)]
    cells = [date.strftime("%Y-%m-%d %H:%M") for date in dates]
    cells[7] = "n/a"
    table, notes = read(column(cells, "visit"), dates="parts")
    assert list(table.columns) == ["visit", "visit hour", "visit weekday", "visit season", "y"]
    assert table["visit hour"].tolist()[:7] == [date.hour for date in dates[:7]]
    assert table["visit weekday"].tolist()[:7] == [date.weekday() for date in dates[:7]]
    season = table["visit season"].to_numpy()
    assert np.floor(season[8:]).tolist() == [date.month - 1 for date in dates[8:]]
    assert season[0] == pytest.approx(10 + 19 / 30)
    assert table.loc[7].isna().tolist() == [True] * 4 + [False]
    periods = {"visit hour": 24, "visit weekday": 7, "visit season": 12}
    kinds = {name: ("periodic", period) for name, period in periods.items()}
    assert table.attrs["kinds"] == {"visit": "date"} | kinds
    assert "; periodic parts follow: hour, weekday, season" in notes
    for span, parts in ((100, ["hour", "weekday"]), (80, ["hour"]), (11, [])):
        dates = [first + datetime.timedelta(hours=span * 24 * i / 59) for i in range(60)]
        table, notes = read(
            column([date.strftime("%Y-%m-%d %H:%M") for date in dates], "visit"), dates="parts"
        )
        assert list(table.columns) == ["visit", *(f"visit {part}" for part in parts), "y"]
        assert "they span fewer than 12 periods of: " in notes
    days = [f"20{i % 24:02d}-0{1 + i % 9}-{1 + i % 28:02d}" for i in range(60)]
    assert list(read(column(days, "day"), dates="parts")[0].columns) == [
        "day",
        "day weekday",
        "day season",
        "y",
    ]


def test_dates_that_are_set_aside(read):
    content = column([f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(40)], "visit")
    table, notes = read(content, dates="drop")
    assert list(table.columns) == ["y"]
    assert notes == "Not used (dates): 'visit'."


def test_dates_of_one_year_and_ambiguous_dates(read):
    table, notes = read(column([f"0{1 + i % 9}/0{1 + i % 8}/2024" for i in range(40)], "day"))
    assert table.attrs["unusable"] == {}
    assert "month before day, which no cell contradicts" in notes
    table, notes = read(column([f"01/{1 + i % 12:02d}/{2020 + i % 3}" for i in range(40)], "month"))
    assert "day before month, as all are on day 1 of a month" in notes
    assert table["month"][1] == (pd.Timestamp("2021-02-01") - pd.Timestamp("1970-01-01")).days
    table, _ = read(column(["2024-01-28" if i % 9 else "n/a" for i in range(40)], "day"))
    assert table.attrs["unusable"] == {"day": "one value in every row that has one"}
    assert table.attrs["kinds"] == {}
    table, _ = read(column([f"{1 + i % 28}/0{1 + i % 8}/2024 10:30" for i in range(40)], "day"))
    assert table["day"][1] == (datetime.date(2024, 2, 2) - datetime.date(1970, 1, 1)).days + 10.5 / 24


def test_months_times_and_seconds(read):
    table, _ = read(column([f"202{i % 2}-{1 + i % 12:02d}" for i in range(40)], "paid"))
    assert list(table.columns) == ["paid", "y"]
    monthly = column([f"{2000 + i % 14}-{1 + i % 12:02d}" for i in range(60)], "paid")
    assert list(read(monthly, dates="parts")[0].columns) == ["paid", "paid season", "y"]
    table, notes = read(column([f"{i % 24}:30" for i in range(40)], "start"))
    assert table["start"].tolist()[:2] == [0.5, 1.5]
    assert table.attrs["kinds"] == {"start": ("periodic", 24)}
    assert "times of day" in notes
    for unit, name in ((1, "created_at"), (1000, "timestamp")):
        cells = [(1_700_000_000 + 86_400 * i * 3 % 7_777_777) * unit for i in range(40)]
        assert read(column(cells, name))[0][name][0] == pytest.approx(1_700_000_000 / 86400)
        assert "views" in read(column(cells, "views"))[0]


def test_whole_numbers_that_are_no_dates(read):
    rng = random.Random(2)
    cells = [rng.randrange(20_000_000, 20_900_000) for _ in range(50)]
    assert read(column(cells, "pay"))[0]["pay"].tolist() == cells
    assert read(column(["1.2.3", "1.2.4", "2.0.1"] * 9, "version"))[0]["version"].nunique() == 3


# ---- frames ----


def test_frames():
    n = 40
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2023-12-20", periods=n, freq="36h", tz="Europe/Berlin"),
            "day": pd.date_range("2023-12-20", periods=n).date,
            "spell": pd.to_timedelta(np.arange(n) * 12, unit="h"),
            "flag": [True, False] * 20,
            "kind": pd.Categorical(["b", "a"] * 20, ["c", "b", "a"]),
            "count": pd.array([1, None, 2, 3] * 10, dtype="Int64"),
            "small": np.linspace(0, 1, n, dtype=np.float32),
            "exact": [Decimal(i) / 8 for i in range(n)],
            "mixed": [i * i if i % 20 else "x" for i in range(n)],
            "price": [f"${i},000" for i in range(n)],
            "lists": [[i] for i in range(n)],
            "none": [None] * n,
        }
    )
    before = frame.copy(deep=True)
    table = craftc.read_table(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert table["when"][0] == pytest.approx(19711.0)
    assert table["day"][1] == 19712.0
    assert table["spell"].tolist()[:2] == [0.0, 0.5]
    assert list(table["kind"].cat.categories) == ["b", "a"]
    assert list(table["count"].cat.categories) == ["1", "2", "3"]
    assert table["small"].dtype == np.float32
    assert table["exact"][1] == 0.125
    assert table["mixed"].isna().sum() == 2
    assert table["price"][3] == 3000.0
    assert set(table.attrs["unusable"]) == {"lists", "none"}
    assert craftc.MixedTable.from_data(table).shape == table.shape


def test_frames_of_other_libraries(read):
    expected = craftc.read_table(pd.DataFrame(WEATHER))
    pd.testing.assert_frame_equal(craftc.read_table(pl.DataFrame(WEATHER)), expected)
    pd.testing.assert_frame_equal(craftc.read_table(pl.DataFrame(WEATHER).to_arrow()), expected)
    pd.testing.assert_frame_equal(craftc.read_table(pd.DataFrame(WEATHER).to_dict("list")), expected)
    pd.testing.assert_frame_equal(read(CSV)[0], expected)
    with pytest.raises(ValueError, match="duplicate column names"):
        craftc.read_table(pd.DataFrame([[1.5, 2.5]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="has 0 rows"):
        craftc.read_table(pd.DataFrame({"a": []}))


def test_integers_beyond_the_floats():
    ids = [2**60 + i for i in range(30)]
    table = craftc.read_table(
        pd.DataFrame({"account": ids, "x": np.arange(30) / 7, "group": [2**60 + i % 3 for i in range(30)]})
    )
    assert list(table.columns) == ["x", "group"]
    assert table["group"].nunique() == 3


def test_without_pandas():
    call = "try:\n    craftc.read_table('t')\nexcept ImportError as error:\n    print(error)"
    script = f"import sys; sys.modules['pandas'] = None; import craftc\n{call}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "This needs pandas: pip install 'craftc[app]'.\n"


# ---- hostile and long ----


def test_hostile_text_is_text(read):
    cells = cycle(
        [
            "=cmd|'/C calc'!A0",
            "<script>alert(1)</script>",
            "{{7*7}}",
            "__import__('os').system('x')",
            "\x1b[31m",
        ],
        60,
    )
    table, _ = read("x,y\n" + "".join(f'"{cell}",{i / 7}\n' for i, cell in enumerate(cells)))
    assert table["x"].astype(object).tolist() == [cell.strip() for cell in cells]


def seconds(read, length):
    cell = ["1" * length, "1," * (length // 2), "(" * length, " " * length + "x", "2024-01-" + "0" * length]
    rows = "".join(f"{i / 7:.3f}\t{i}{cell[i % 5]}\n" for i in range(20))
    start = time.process_time()
    table, _ = read(f"y\ttext\n{rows}", on_unusable="keep")
    assert table.shape == (20, 2)
    return time.process_time() - start


@pytest.mark.slow
def test_long_cells_are_linear(read):
    """Ten times as long cells may take at most some 20 times as long, where a quadratic step would take 100
    times.
    """
    short = min(seconds(read, 100_000) for _ in range(3))
    assert seconds(read, 1_000_000) < 40 * max(short, 0.02)


def test_a_row_for_each_value_is_noted():
    """A long table; a table with another column of values, or without most of the rows, is none."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(40), 4)
    long = pd.DataFrame(
        {
            "person": person,
            "what": np.tile(["Hb", "CRP", "pulse", "weight"], 40),
            "value": rng.normal(size=160).round(2),
            "unit": np.tile(["g", "mg", "1/min", "kg"], 40),
            "sex": np.where(rng.random(40) < 0.5, "f", "m")[person],
        }
    )
    expected = "pivot(index='person', columns='what', values='value') of pandas"
    for table, is_long in (
        (long, True),
        (long.sample(frac=0.97, random_state=0), True),
        (long[["what", "person", "value"]], True),
        (long.assign(other=rng.normal(size=160)), False),
        (long.sample(frac=0.8, random_state=0), False),
        (long.assign(person=rng.permutation(person)), False),
        (long.assign(what=np.tile(np.arange(4), 40)), False),
    ):
        assert any(expected in note for note in craftc.read_table(table).attrs["notes"]) == is_long
