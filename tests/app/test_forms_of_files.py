"""Files that are tables in an unusual form: what separates cells, encodings, sheets, JSON objects, and lines
that are no rows.
"""

from __future__ import annotations

import io
import json
import re
import sys

import numpy as np
import pytest

import craftc
from craftc.cli import main

pd = pytest.importorskip("pandas", reason="files are read with pandas")

ROWS = [
    [["red", "green", "blue"][i % 3], f"{i * 1.5:.1f}", f"{(7 * i) % 31}", ["x", "y"][i % 2]]
    for i in range(60)
]
NAMES = ["town", "rain", "sun", "kind"]


def lines(mark, rows=ROWS, names=NAMES):
    return "".join(mark.join(row) + "\n" for row in ([names, *rows] if names else rows))


PLAIN = lines(",")

# ---- what separates cells ----


@pytest.mark.parametrize(
    "mark", ["^", "~", "\x01", "\x1f", "¦", "#", ":", "/", "!", "&", "@", " ", "   ", "·", "→", "`"]
)
def test_any_character_separates_cells(read, mark):
    table, notes = read(lines(mark))
    pd.testing.assert_frame_equal(table, read(PLAIN)[0])
    assert "Cells were separated at" in notes


def test_a_table_of_numbers_separated_by_blanks(read):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(40, 4)).round(3)
    text = "\n".join("  ".join(f"{x:8.3f}" for x in row) for row in numbers)
    np.testing.assert_array_equal(read(text)[0].to_numpy(), numbers)
    text = "a b c d\n" + text
    table, _ = read(text)
    assert list(table.columns) == list("abcd")
    np.testing.assert_array_equal(table.to_numpy(), numbers)


@pytest.mark.parametrize("mark", [";", ",", "|", "\t"])
def test_the_delimiter_that_the_first_line_names(read, mark):
    rows = [[row[0], row[1].replace(".", "." if mark == "," else ","), row[2], row[3]] for row in ROWS]
    for first in (f"sep={mark}\n", f'"sep={mark}"\r\n', f"SEP={mark}\n"):
        pd.testing.assert_frame_equal(read(first + lines(mark, rows))[0], read(PLAIN)[0], check_exact=False)
    table, _ = read("sep=;\n" + "".join(f"{row[0]};{row[2]}\n" for row in [NAMES, *ROWS]))
    assert list(table.columns) == ["town", "sun"]


def test_decimal_commas_between_rare_delimiters(read):
    rows = [[row[0], row[1].replace(".", ","), row[2], row[3]] for row in ROWS]
    for mark in "^~":
        assert read(lines(mark, rows))[0]["rain"].tolist()[:3] == [0.0, 1.5, 3.0]


@pytest.mark.parametrize(
    "cells",
    [
        [f"2024/{1 + i % 12:02}/{1 + i % 28:02}" for i in range(40)],
        [f"{i % 24:02}:{(7 * i) % 60:02}" for i in range(40)],
        [["Anna Lee", "Ben Roth", "Cy Wu"][i % 3] for i in range(40)],
        [f"1 {i % 10}23" for i in range(40)],
        [["a@x.org", "b@y.org"][i % 2] for i in range(40)],
    ],
)
def test_one_column_stays_one_column(read, cells):
    table, _ = read("value\n" + "\n".join(cells) + "\n", on_unusable="keep")
    assert [name for name in table.columns if " " not in name] == ["value"]
    assert len(table) == 40


@pytest.mark.parametrize("mark", [",", ";", "\t", "^"])
def test_lines_in_quotes(read, mark):
    quoted = "".join(f'"{line}"\n' for line in lines(mark).splitlines())
    if mark != "^":
        table, notes = read(quoted)
        assert "Whole lines are in quotes" in notes
        pd.testing.assert_frame_equal(table, read(PLAIN)[0])
    rows = [['"say ""x, y"""' if i == 3 else row[0], *row[1:]] for i, row in enumerate(ROWS)]
    inner = lines(",", rows)
    wrapped = "".join('"' + line.replace('"', '""') + '"\n' for line in inner.splitlines())
    pd.testing.assert_frame_equal(read(wrapped)[0], read(inner)[0])
    headed = inner.splitlines()[0] + "\n" + wrapped.split("\n", 1)[1]
    pd.testing.assert_frame_equal(read(headed)[0], read(inner)[0])


def test_rare_delimiters_of_uneven_lines(read):
    uneven = [row if i % 2 else [*row, "z"] for i, row in enumerate(ROWS)]
    with pytest.raises(ValueError, match=r"more cells; cells were separated at '\^'"):
        read(lines("^", uneven))


def test_two_colons(read):
    ratings = [[str(7 * i % 97), str(i % 31), str(i % 5), str(978300760 + 86 * i)] for i in range(200)]
    table, _ = read(lines("::", ratings, None))
    assert [table.iloc[:, j].nunique() for j in range(3)] == [97, 31, 5]
    assert list(read(lines("::"))[0].columns) == NAMES


def test_a_given_delimiter(read):
    table, notes = read(lines("^"), delimiter=",", on_unusable="keep")
    assert (table.shape[1], notes) == (1, "")
    assert read(lines("x", [[row[0], row[1]] for row in ROWS], ["a", "b"]), delimiter="x")[0].shape == (60, 2)
    for bad in ("", "ab", '"', 3):
        with pytest.raises(ValueError, match="delimiter must be"):
            read(PLAIN, delimiter=bad)


def test_delimiters_of_the_command_line(tmp_path, capsys):
    (tmp_path / "t.txt").write_text(lines("^"))
    assert main(["cluster", str(tmp_path / "t.txt"), "--json"]) == 0
    out = capsys.readouterr()
    assert "--delimiter ',' separates" in out.out + out.err
    assert main(["cluster", str(tmp_path / "t.txt"), "--delimiter", "^", "--quiet"]) == 0


# ---- encodings ----


def test_one_broken_byte_leaves_utf_8(read):
    cities = ["Zürich", "Genève", "Köln", "Łódź"]
    content = "city,x\n" + "".join(f"{cities[i % 4]},{i / 3:.2f}\n" for i in range(60))
    table, notes = read(content.encode() + b"Bas\xe9l,3.5\n")
    assert {*cities} <= {*table["city"].cat.categories}
    assert "1 character of the file cannot be read as UTF-8" in notes
    assert "encoding='cp1252'" in notes


@pytest.mark.parametrize("byte", [b"\x81", b"\x8d", b"\x90", b"\x9d"])
def test_bytes_that_are_no_windows_text(read, byte):
    content = b"city,x\n" + b"".join(b"%s,%d.5\n" % ([b"K\xf6ln", b"A" + byte][i % 2], i) for i in range(40))
    table, notes = read(content)
    assert "Köln" in table["city"].cat.categories
    assert "Latin-1" in notes


@pytest.mark.parametrize("name", ["cp1250", "koi8-r", "shift_jis", "gb18030", "utf-16-le"])
def test_a_given_encoding(read, name):
    word = {"cp1250": "Łódź", "koi8-r": "Москва", "shift_jis": "東京", "gb18030": "北京"}.get(name, "Łódź")
    content = "city,x\n" + "".join(f"{[word, 'Bern'][i % 2]},{i / 3:.2f}\n" for i in range(40))
    table, notes = (
        read(content.encode(name), encoding=name) if name != "utf-16-le" else read(content.encode("utf-16"))
    )
    assert word in table["city"].cat.categories
    assert notes == ""


TEXTS = {  # of the most frequent letters
    "pl": "Łódź Kraków Gdańsk Wrocław Poznań Częstochowa Białystok mężczyzna średnie wyższe",
    "cs": "Praha Brno Ostrava Plzeň Třebíč muž žena středoškolské Jihlava Děčín",
    "hu": "Budapest Győr Pécs Székesfehérvár férfi nő középfok felsőfok Kecskemét",
    "ru": "Москва Казань Самара мужчина женщина высшее среднее Екатеринбург Тверь",
    "el": "Αθήνα Θεσσαλονίκη Πάτρα άνδρας γυναίκα ναι όχι Ηράκλειο",
    "tr": "İstanbul Ankara İzmir Eskişehir erkek kadın hayır Diyarbakır Şanlıurfa",
    "ja": "東京 大阪 京都 男性 女性 はい いいえ 大学卒 高校卒 名古屋 コンビニ スーパー",
    "zh": "北京 上海 广州 男 女 是 否 本科 高中 深圳 成都 武汉",
    "ko": "서울 부산 대구 남자 여자 예 아니오 대학교 고등학교 인천",
    "de": "Köln Zürich Düsseldorf männlich weiblich München Straße größer 5€",
    "fr": "Orléans Besançon Évry élève collège très à améliorer",
    "is": "Reykjavík Akureyri Ísafjörður já nei þrír maður",
    "en": "London café Zoë yes no – ok",
}


def text_in(language, n):
    words = TEXTS[language].split()
    rng = np.random.default_rng(0)
    return "id;x;a;b\n" + "".join(
        f"{i};{i / 7:.2f};{words[j]};{words[k]}\n"
        for i, (j, k) in enumerate(rng.integers(0, len(words), (n, 2)))
    )


@pytest.mark.parametrize("n", [40, 400])
@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        *(("pl", "cp1250"), ("pl", "iso8859-2"), ("cs", "cp1250"), ("hu", "cp1250"), ("ru", "cp1251")),
        *(("ru", "koi8-r"), ("ru", "cp866"), ("el", "cp1253"), ("tr", "cp1254"), ("ja", "shift_jis")),
        *(("ja", "euc_jp"), ("zh", "gb18030"), ("ko", "cp949"), ("de", "cp850"), ("de", "mac_roman")),
    ],
)
def test_encodings_that_are_guessed(read, language, encoding, n):
    pytest.importorskip("charset_normalizer", reason="charset-normalizer guesses encodings")
    content = text_in(language, n).replace("€", "$")
    table, notes = read(content.encode(encoding), on_unusable="keep")
    pd.testing.assert_frame_equal(table, read(content, on_unusable="keep")[0])
    assert "The file is not UTF-8; it was read as" in notes
    assert "encoding='...' names another encoding" in notes


@pytest.mark.parametrize("language", ["de", "fr", "is", "en"])
@pytest.mark.parametrize("installed", [True, False])
def test_windows_text_needs_no_guess(read, language, installed, monkeypatch):
    if not installed:
        monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    content = text_in(language, 60)
    table, notes = read(content.encode("cp1252"), on_unusable="keep")
    pd.testing.assert_frame_equal(table, read(content, on_unusable="keep")[0])
    assert "it was read as Windows (cp1252) text" in notes


def test_without_the_package_that_guesses(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    _, notes = read(text_in("pl", 60).encode("cp1250"))
    assert "charset-normalizer, if installed, finds it" in notes


@pytest.mark.parametrize("language", ["de", "ru", "zh", "pl"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-8-sig"])
def test_unicode_with_and_without_a_mark(read, language, encoding):
    table, notes = read(text_in(language, 60).encode(encoding), on_unusable="keep")
    pd.testing.assert_frame_equal(table, read(text_in(language, 60), on_unusable="keep")[0])
    assert "encoding" not in notes


def test_bytes_that_are_no_text(read):
    rng = np.random.default_rng(0)
    for _ in range(20):
        with pytest.raises(ValueError, match="is not a text file"):
            read(b"a\0" + rng.bytes(300))


def test_encodings_that_do_not_fit(read):
    with pytest.raises(ValueError, match="is not ascii text"):
        read("city,x\nKöln,1.5\nBern,2.5\n", encoding="ascii")
    with pytest.raises(ValueError, match="encoding must be"):
        read(PLAIN, encoding="latin-99")


# ---- sheets ----


def workbook(**sheets):
    buffer = io.BytesIO()
    with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
        for name, cells in sheets.items():
            pd.DataFrame(cells).to_excel(writer, sheet_name=name, index=False, header=False)
    return buffer.getvalue()


def test_the_sheet_that_is_a_table(read):
    table = [NAMES, *[[row[0], float(row[1]), int(row[2]), row[3]] for row in ROWS]]
    readme = [["This workbook"], ["was exported"], ["by hand"]]
    cover = [["Report", None, None], [None, None, "2024"], [None, "by A. Lee", None]]
    for first in (readme, cover):
        found, notes = read(workbook(Readme=first, Data=table))
        assert list(found.columns) == NAMES
        assert "the first that is a table, 'Data', was read" in notes
    codes = [["field", "meaning"], ["rain", "in mm"], ["sun", "in hours"], ["kind", "x or y"]]
    limits = [["low", "high"], [1, 2]]
    found, _ = read(workbook(Codebook=codes, Limits=limits, Data=table))
    assert list(found.columns) == NAMES
    other = [["a", "b"], *[[i / 2, i % 7 / 2] for i in range(30)]]
    book = workbook(Data=table, Other=other)
    assert list(read(book)[0].columns) == NAMES
    assert list(read(book, sheet="Other")[0].columns) == ["a", "b"]
    assert list(read(book, sheet=1)[0].columns) == ["a", "b"]
    with pytest.raises(ValueError, match="no sheet 'Othr'; its sheets are 'Data', 'Other'"):
        read(book, sheet="Othr")


# ---- JSON ----

RECORDS = [dict(zip(NAMES, [row[0], float(row[1]), int(row[2]), row[3]], strict=True)) for row in ROWS]


@pytest.mark.parametrize(
    "value",
    [
        {"data": RECORDS},
        {"meta": {"page": 1, "n": 60}, "result": {"rows": RECORDS}},
        {"columns": NAMES, "data": [list(record.values()) for record in RECORDS]},
        {name: [record[name] for record in RECORDS] for name in NAMES},
        {name: {str(i): record[name] for i, record in enumerate(RECORDS)} for name in NAMES},
        {"version": 2, "items": RECORDS, "next": None},
        {f"r{i}": record for i, record in enumerate(RECORDS)},
        [NAMES, *[list(record.values()) for record in RECORDS]],
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_that_holds_a_table(read, value, indent):
    table, _ = read(json.dumps(value, indent=indent), "t.json")
    pd.testing.assert_frame_equal(table, read(PLAIN)[0])


def test_lines_that_are_arrays(read):
    rows = [list(record.values()) for record in RECORDS]
    for first in ([NAMES], []):
        text = "\n".join(map(json.dumps, [*first, *rows])) + "\n"
        table, _ = read(text, "t.json")
        assert table.iloc[:, 1].tolist() == [row[1] for row in rows]
        assert list(table.columns) == (NAMES if first else [f"column {j + 1}" for j in range(4)])
    with pytest.raises(ValueError, match="its rows need 4 cells each"):
        read(text + "[1]\n")


def test_objects_that_hold_no_single_table(read):
    with pytest.raises(ValueError, match="several lists of objects, 'a', 'b'"):
        read(json.dumps({"a": RECORDS, "b": RECORDS}))
    assert read('{"a": 1.5, "b": "x"}')[0].shape == (1, 2)


def test_objects_inside_rows(read):
    rows = [{"id": {"x": record["rain"]}, "town": record["town"]} for record in RECORDS]
    assert list(read(json.dumps(rows))[0].columns) == ["id.x", "town"]


# ---- lines that are no rows ----


def after(*ends, start=()):
    head, *rows = PLAIN.splitlines()
    return "\n".join([head, *rows[:30], *start, *rows[30:], *ends]) + "\n"


SUMS = f"{sum(float(row[1]) for row in ROWS)},{sum(int(row[2]) for row in ROWS)}"


@pytest.mark.parametrize(
    "ends",
    [
        [f"Total,{SUMS},"],
        [f"Grand total:,{SUMS},"],
        [f"Summe,{SUMS},"],
        [f",{SUMS},"],
        ["Source: statistics office,,,"],
        [f"TOTAL,{SUMS},", "* provisional,,,", "© 2024 A. Lee,,,"],
        [",,,", f"Total,{SUMS},", ",,,", "Quelle: Amt,,,"],
        ["(60 rows affected),,,"],
        ["Average,44.25,14.6,", f"Sum,{SUMS},"],
        ["Source: statistics office"],
        ["Source: statistics office, 2024, Bern,"],
        [f"All,{SUMS},"],
        [f"∑,{SUMS},"],
    ],
)
def test_totals_and_footnotes(read, ends):
    table, notes = read(after(*ends))
    pd.testing.assert_frame_equal(table, read(PLAIN)[0])
    assert "Not used: " in notes
    assert "all_lines=True keeps such lines." in notes
    assert len(read(after(*ends), all_lines=True)[0]) == 60 + len(ends)


def test_empty_lines_and_repeated_names(read):
    table, notes = read(after(start=[",,,"] * 30 + [" , ,, "]))
    assert notes == "Not used: 31 empty lines; all_lines=True keeps such lines."
    assert table.index.tolist() == [*range(30), *range(61, 91)]
    table, notes = read(PLAIN + PLAIN)
    assert len(table) == 120
    assert "Not used: 1 repeated line of column names" in notes
    quoted = after(start=['"","","",""'] * 2)
    assert len(read(quoted)[0]) == 60


def test_totals_between_the_rows(read):
    rows = [["north", "1.5", "4"], ["north", "2", "6"], ["Subtotal", "3.5", "10"]]
    rows += [["south", "4", "1"], ["south", "6.5", "3"], ["Total", "10.5", "4"]] + [["west", "7", "8"]] * 9
    table, notes = read(lines(",", rows, ["area", "x", "y"]))
    assert {*table["area"].cat.categories} == {"north", "south", "west"}
    assert "2 lines of totals between the rows, the first 'Subtotal'" in notes


def test_rows_that_look_like_no_rows(read):
    sexes = [["M", "F", "Total"][i % 3] for i in range(60)]
    table, notes = read(lines(",", [[sex, *row[1:]] for sex, row in zip(sexes, ROWS, strict=True)]))
    assert (len(table), notes) == (60, "")
    names = [["TotalEnergies", "Summit", "Sourcefire"][i % 3] for i in range(60)]
    table, notes = read(lines(",", [[name, *row[1:]] for name, row in zip(names, ROWS, strict=True)]))
    assert len(table) == 60
    rows = [*ROWS[:-1], ["blue", "", "", ""]]
    assert len(read(lines(",", rows))[0]) == 60
    assert len(read("a,b\n" + "1,0\n" + "0,0\n" * 30 + "1,0\n")[0]) == 32


def test_lines_of_workbooks_and_frames(read):
    frame = pd.DataFrame(RECORDS)
    total = {"town": "Total", "rain": frame["rain"].sum(), "sun": frame["sun"].sum(), "kind": None}
    whole = pd.DataFrame([*RECORDS, dict.fromkeys(NAMES), total])
    book = workbook(Data=[NAMES, *whole.astype(object).where(whole.notna(), None).to_numpy().tolist()])
    for given in (whole, book):
        table = read(given)[0] if given is book else craftc.read_table(given)
        np.testing.assert_array_equal(table["rain"], frame["rain"])
        assert any("'Total'" in note for note in table.attrs["notes"])


def test_labels_name_the_lines_of_the_file(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(after(f"Total,{SUMS},", start=[",,,"] * 2))
    assert main(["cluster", str(tmp_path / "t.csv"), "--out", str(tmp_path / "o"), "--keep"]) == 0
    capsys.readouterr()
    labels = pd.read_csv(tmp_path / "o" / "labels.csv")
    assert labels["row"].tolist() == [*range(30), *range(32, 62)]
    assert labels["rain"].tolist() == [float(row[1]) for row in ROWS]
    assert main(["predict", str(tmp_path / "o"), str(tmp_path / "t.csv")]) == 0
    out = capsys.readouterr()
    assert pd.read_csv(io.StringIO(out.out))["row"].tolist() == labels["row"].tolist()
    assert re.search("Not used: 2 empty lines", out.err)


def test_the_index_of_a_frame():
    frame = pd.DataFrame({"sex": ["F", "M"] * 30, "age": np.arange(60) * 1.5, "x": np.arange(60) % 7 / 2})
    for b in (
        frame[frame.sex == "F"],
        frame.set_index(pd.Index([f"r{i}" for i in range(60)], name="key")),
        frame.sample(frac=1.0, random_state=0),
        frame.set_index(pd.MultiIndex.from_product([range(6), range(10)])),
    ):
        table = craftc.read_table(b)
        assert table.index.equals(b.index)
        model = craftc.CRAFT().fit(table)
        assert pd.Series(model.labels_, index=table.index).reindex(b.index).notna().all()


# ---- names and lines below them ----


@pytest.mark.parametrize(
    "top",
    [
        "CRM export,,,\nExported 2026-11-01,,,\n",
        "CRM export,,,\n\n,,,\nby A. Lee,,,\nall customers,,,\n",
        "Weather,,by town,\n",
        ",,measured,measured\n",
        "place,,sky,kind\n",
        "place,place,weather,weather\n",
        "where,weather,,\n",
    ],
)
def test_several_lines_of_titles(read, top):
    table, notes = read(top + PLAIN)
    assert list(table.columns) == NAMES
    np.testing.assert_array_equal(table["rain"], read(PLAIN)[0]["rain"])
    assert "above the column names were skipped" in notes


NUMBERS = [[f"{i * 1e-3:.3f}", f"{(7 * i) % 31 / 7:.3f}"] for i in range(40)]
TOWNS = [[f"{1000 + i}", f"town {i}", *row] for i, row in enumerate(NUMBERS)]


@pytest.mark.parametrize(
    ("top", "rows", "names", "n_above"),
    [
        ("Rain,,,", TOWNS, ",,total,last", 1),
        ("Rain,,,\nuntil 2026,,,", TOWNS, ",town,total,last", 2),
        ("operator,Lee,Bern", TOWNS, "key,town,total,last", 1),
        ("operator,Lee", TOWNS, "key,town,total,last", 1),
        ("model,TBS1102\nlength,2500", NUMBERS, "time (s),voltage (V)", 2),
        ("model,TBS1102\nlength,2500\n", NUMBERS, "time (s),voltage (V)", 2),
        ("source,rain\n\nupdated,2026-05-30\n", [[*row, ""] for row in TOWNS], "key,town,2024,2025,", 2),
    ],
)
def test_lines_of_settings_above_the_names(read, top, rows, names, n_above):
    content = f"{top}\n{names}\n" + lines(",", rows, names=())
    table, notes = read(content)
    expected, _ = read(f"{names}\n" + lines(",", rows, names=()))
    pd.testing.assert_frame_equal(table, expected)
    assert f"{n_above} line(s) above the column names were skipped" in notes


def test_lines_that_are_no_settings(read):
    """Names with a line of units, of few cells or of years, and rows without a word, stay where they are."""
    for top in ("time,voltage\ns,V", "time,voltage\nunits,2\n3,4", "time,2025", "2024,2025\nt,kg"):
        table, notes = read(f"{top}\n" + lines(",", NUMBERS, names=()))
        assert list(table.columns) == top.split("\n")[0].split(",")
        assert "above the column names" not in notes


def test_names_again_every_few_rows(read):
    parts = [lines(",", ROWS[i : i + 4], NAMES) for i in range(0, 60, 4)]
    table, notes = read("".join(parts))
    pd.testing.assert_frame_equal(table.reset_index(drop=True), read(PLAIN)[0])
    assert "14 repeated lines of column names" in notes
    pairs = [["m", "male"], ["f", "female"]] * 30
    assert list(read(lines(",", pairs, names=()))[0].columns) == ["column 1", "column 2"]


def test_the_line_with_more_cells_may_be_the_first_of_the_table(read):
    with pytest.raises(
        ValueError, match="line 3 has 3 cells, the lines before have 2; skip=2 begins at line 3"
    ):
        read("a,b\nc,d\nx,y,z\n" + "u,v,w\n" * 9)


@pytest.mark.parametrize(
    "line",
    [
        "STRING,DOUBLE,INT,STRING",
        "varchar(20),float,integer,text",
        ",[mm],(h),",
        "---,:---:,--:,---",
        "name,mm,hours,",
        "Name of the town,How much did it rain?,How long did the sun shine?,Kind of town",
        "town name,Regen in mm,Sonne in h,Art\nQID1,QID2,QID3,QID4",
    ],
)
def test_lines_that_explain_the_columns(read, line):
    head, rest = PLAIN.split("\n", 1)
    table, notes = read(f"{head}\n{line}\n{rest}")
    assert table.dtypes.tolist() == read(PLAIN)[0].dtypes.tolist()
    np.testing.assert_array_equal(table["sun"], read(PLAIN)[0]["sun"])
    assert "below the names" in notes
    assert ("; skip=1 takes it as the names" in notes) == (len(set(filter(None, line.split(",")))) >= 4)


def test_first_rows_that_explain_nothing(read):
    head, rest = PLAIN.split("\n", 1)
    for first in ("red,unknown,5,x", "red,NA,NA,x", "pink,,,z", "pink,NA,3,z", "pink,n/a,NA,z"):
        table, notes = read(f"{head}\n{first}\n{rest}")
        assert len(table) == 61
        assert "below the names" not in notes


def test_names_of_rows(read):
    rows = [[f'"{i + 1}"', *row] for i, row in enumerate(ROWS)]
    table, notes = read(lines(",", rows))
    pd.testing.assert_frame_equal(table, read(PLAIN)[0])
    assert "it is 'row names'" in notes
    for mark in ("\t", ";", " ", "|"):
        table, _ = read(lines(mark, [[f'"{i}"', *row] for i, row in enumerate(ROWS, 1)]))
        assert list(table.columns) == NAMES
    rows = [[f'"{i}"', row[0], row[1].replace(".", ","), *row[2:]] for i, row in enumerate(ROWS, 1)]
    pd.testing.assert_frame_equal(read(lines(";", rows))[0], read(PLAIN)[0])  # write.csv2
    table, _ = read(lines(",", [[*row, ""] for row in ROWS]))
    assert list(table.columns) == NAMES
    with pytest.raises(ValueError, match="the lines below have more cells"):
        read("a,b\n" + "1,2,3\n" * 9)


def arff(names=NAMES, rows=ROWS):
    head = f"% made by hand\n\n@RELATION 'the weather'\n@attribute {names[0]} {{red,green,blue}}\n"
    head += f"@attribute {names[1]} numeric\n@ATTRIBUTE '{names[2]}' real\n@attribute {names[3]} {{x, y}}\n"
    return head + "\n% rows\n@DATA\n" + lines(",", rows, None)


def test_arff(read):
    pd.testing.assert_frame_equal(read(arff(), "t.arff")[0], read(PLAIN)[0])
    rows = [["'red'" if row[0] == "red" else row[0], *row[1:]] for row in ROWS]
    pd.testing.assert_frame_equal(read(arff(rows=rows))[0], read(PLAIN)[0])
    rows = [[row[0], "?" if i == 4 else row[1], *row[2:]] for i, row in enumerate(ROWS)]
    assert np.flatnonzero(read(arff(rows=rows))[0]["rain"].isna()).tolist() == [4]
    assert "sun hours" in read(arff([*NAMES[:2], "sun hours", "kind"]))[0]
    levels = {"red": 0, "green": 1, "blue": 2, "x": 0, "y": 1}
    rows = [
        [
            "{"
            + ", ".join(
                f"{j} {cell}"
                for j, cell in enumerate(row)
                if levels.get(cell, float(cell) if j in (1, 2) else 0)
            )
            + "}"
        ]
        for row in ROWS
    ]
    pd.testing.assert_frame_equal(read(arff(rows=rows), "t.arff")[0], read(PLAIN)[0])
    with pytest.raises(ValueError, match="a cell of attribute 4 in a row, but 4 attributes"):
        read(arff(rows=[["{0 red", "4 3}"]] * 3))
    with pytest.raises(ValueError, match="without @data"):
        read("@relation x\n@attribute a numeric\n")


def test_files_without_sheets(read):
    with pytest.raises(ValueError, match=r"'.*t\.csv' is no workbook: sheet='Jan' has no effect on it"):
        read("a,b\n1,2\n3,4\n5,6\n", sheet="Jan")
