"""Files as people have them, one case each: what `craftc cluster` says, and that the same rows give the same
clusters.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import zipfile

import pandas as pd
import pytest

from craftc.cli import main

NAMES = ["sex", "age", "fare", "deck"]


def people(n=120):
    """Two groups of passengers."""
    rng = random.Random(7)
    rows = []
    for i in range(n):
        g = i % 2
        rows.append(
            [
                ["male", "female"][g],
                f"{rng.gauss(30 + 25 * g, 4):.1f}",
                f"{rng.gauss(20 + 60 * g, 5):.2f}",
                ["A", "B", "C"][i % 3],
            ]
        )
    return rows


ROWS = people()


def text(rows=ROWS, names=NAMES, sep=",", quote=False, end="\n"):
    lines = [names, *rows] if names else rows
    return end.join(sep.join(f'"{cell}"' if quote else cell for cell in line) for line in lines) + end


def with_column(name, cells):
    return text([[*row, cells(i)] for i, row in enumerate(ROWS)], [*NAMES, name])


def packed(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("t.csv", content)
    return file.getvalue()


def frame():
    return pd.DataFrame(ROWS, columns=NAMES).astype({"age": float, "fare": float})


def written(method, **options):
    file = io.BytesIO()
    getattr(frame(), method)(file, **options)
    return file.getvalue()


COMMA = text([[cell.replace(".", ",") for cell in row] for row in ROWS], sep=";")
#: The same rows in other clothes: file name and content.
SAME = {
    "comma": ("t.csv", text()),
    "semicolons and decimal commas": ("t.csv", COMMA),
    "tab in .csv": ("t.csv", text(sep="\t")),
    "TSV": ("t.tsv", text(sep="\t")),
    "bars": ("t.txt", text(sep="|")),
    "latin-1": ("t.csv", text(names=["sex", "age", "fare", "größe"]).encode("latin-1")),
    "UTF-16": ("t.csv", text().encode("utf-16")),
    "BOM": ("t.csv", b"\xef\xbb\xbf" + text().encode()),
    "CR only": ("t.csv", text(end="\r")),
    "CR LF": ("t.csv", text(end="\r\n")),
    "all quoted": ("t.csv", text(quote=True)),
    "blank lines between": ("t.csv", text(end="\n\n")),
    "gzip": ("t.csv.gz", gzip.compress(text().encode(), mtime=0)),
    "bz2": ("t.csv.bz2", bz2.compress(text().encode())),
    "xz": ("t.csv.xz", lzma.compress(text().encode())),
    "zip": ("t.zip", packed(text())),
    "wrong ending": ("t.parquet", text()),
    "Parquet": ("t.parquet", written("to_parquet")),
    "Feather": ("t.feather", written("to_feather")),
    "Excel": ("t.xlsx", written("to_excel", index=False)),
    "JSON lines": ("t.jsonl", written("to_json", orient="records", lines=True)),
    "JSON array": ("t.json", written("to_json", orient="records")),
    "title above": ("t.csv", "Passengers of 1912\n" + text()),
    "comments above": ("t.csv", "# made by hand\n# in 1912\n" + text()),
    "no column names": ("t.csv", text(names=None)),
    "blank name": ("t.csv", text(names=["sex", "age", "", "deck"])),
    "repeated names": ("t.csv", text(names=["sex", "x", "x", "deck"])),
}
#: A further column of odd cells, and the message.
ODD = {
    "money": (
        with_column("paid", lambda i: f'"${1200 + 37 * (i * i % 50):,}"'),
        "'paid' was read as numbers: '$' removed; thousands separators removed.",
    ),
    "euro behind": (
        with_column("paid", lambda i: f'"{3 + i % 40},50 €"'),
        "'paid' was read as numbers: '€' removed; decimal commas.",
    ),
    "per cent": (
        with_column("rate", lambda i: f"{1 + i % 40}.{i % 7}%"),
        "'rate' was read as numbers: '%' removed.",
    ),
    "units": (with_column("way", lambda i: f"{1 + i % 40} km"), "'way' was read as numbers: 'km' removed."),
    "parentheses": (
        with_column("net", lambda i: f"({3 + i % 40}.20)" if i % 3 else "7.20"),
        "numbers in parentheses are negative",
    ),
    "bounds": (
        with_column("lab", lambda i: "<5" if i % 9 == 0 else f"{5 + i % 40}.5"),
        "bounds such as '<5' taken as their number",
    ),
    "a few words": (
        with_column("years", lambda i: ["thirty", "40 years"][i] if i < 2 else f"{20 + i % 40}"),
        "2 cells that cannot be read became missing: 'thirty', '40 years'",
    ),
    "NA in text": (
        with_column("cabin", lambda i: ["NA", "E", "F"][i % 3]),
        "in text columns the cells 'NA' are levels, not missing values; --na 'NA' makes them missing.",
    ),
    "levels in other case": (
        with_column("gender", lambda i: ["male", "MALE", " male ", "Male"][i % 4]),
        "'gender' has levels that differ only in case or blanks",
    ),
    "constant": (with_column("year", lambda i: "1912"), "not used (one value in every row): year"),
    "no value": (with_column("note", lambda i: ""), "not used (no value in any row): note"),
    "row counter": (with_column("Nr", lambda i: str(i + 1)), "not used (row counter): Nr"),
    "random ids": (
        with_column("serial", lambda i: str(10_000 + (i * 7919) % 65_537)),
        "'serial' has a different whole number in every row; leave it out if it is an id.",
    ),
    "named ids": (with_column("customer_id", lambda i: str(10_000 + (i * 7919) % 65_537)), "customer_id"),
    "zip codes": (
        with_column("zip", lambda i: f"{501 + i % 30:05d}"),
        "'zip' holds codes with leading zeros and is categorical.",
    ),
    "yyyymmdd": (
        with_column("day", lambda i: f"2024{1 + i % 12:02d}{1 + i % 28:02d}"),
        "'day' holds dates, which are used in days since 1970-01-01.",
    ),
    "epoch": (
        with_column("created_at", lambda i: str(1_700_000_000 + 86_400 * (i % 90) + 17 * i)),
        "'created_at' holds dates, which are used in days since 1970-01-01.",
    ),
    "ISO dates": (
        with_column("day", lambda i: f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}"),
        "'day' holds dates, which are used in days since 1970-01-01.",
    ),
    "ISO dates and n/a": (
        with_column("day", lambda i: "n/a" if i % 9 == 0 else f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}"),
        "'day' holds dates, which are used in days since 1970-01-01.",
    ),
    "dates with words": (
        with_column("day", lambda i: f'"{["Jan", "Feb", "Mar"][i % 3]} {1 + i % 28:02d}, 2024"'),
        "'day' holds dates, which are used in days since 1970-01-01.",
    ),
    "months": (
        with_column("month", lambda i: f"2024-{1 + i % 12:02d}"),
        "'month' holds dates, which are used in days since 1970-01-01.",
    ),
    "times": (with_column("at", lambda i: f"{i % 24:02d}:{i % 60:02d}"), "'at' holds times of day"),
    "free text": (
        with_column("remark", lambda i: f"remark number {i} of many"),
        "not used (a different text in every row): remark",
    ),
    "sentinel": (
        with_column("income", lambda i: "-999" if i % 9 == 0 else str(20 + i % 40)),
        "'income' has -999 in 14 rows, far from its other numbers; --na '-999' makes it missing.",
    ),
    "quoted line breaks": (with_column("place", lambda i: f'"line\none {i % 3}"'), "place"),
}
#: Files that are no tables, and the error.
NONE = {
    "0 bytes": (b"", "is empty; the first line must contain the column names"),
    "names only": (text([]), "has no rows below its column names; add at least one"),
    "blank lines only": ("\n\n\n", "is empty"),
    "binary": (bytes(range(256)) * 9, "is not a text file"),
    "ragged line": (
        text([*ROWS[:5], [*ROWS[5], "x"], *ROWS[6:]]),
        "line 7 has 5 cells, the lines before have 4",
    ),
    "unclosed quote": (
        text([*ROWS[:5], ['"male', *ROWS[5][1:]], *ROWS[6:]]),
        "a quote that opens in line 7 is not closed",
    ),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", "is not a text file"),
    "web page": (
        "\n<!DOCTYPE html><html>\n<body>Not found</body></html>",
        "is a page in HTML or a file in XML",
    ),
    "table of a web page": (
        "<table><tr><td>1</td></tr>\n" * 30 + "</table>",
        "save the table as .xlsx or .csv",
    ),
    "XML": ('<?xml version="1.0"?>\n<rows>\n' + "<row/>\n" * 30, "is a page in HTML or a file in XML"),
    "old Excel": (b"\xd0\xcf\x11\xe0" + bytes(600), "save the table as .xlsx or .csv"),
}


@pytest.fixture
def run(capsys, tmp_path):
    """Run a command on a file of this name and content; returns exit code, stdout as one line, and stderr."""

    def run(name, content, *options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        code = main(["cluster", str(path), "--details", *options])
        said = capsys.readouterr()
        return code, " ".join(said.out.split()), said.err

    return run


@pytest.mark.slow_except(6)
@pytest.mark.parametrize("case", SAME)
def test_the_same_rows(run, case):
    code, said, err = run(*SAME[case], "--json")
    assert (code, err) == (0, "")
    content = json.loads(said)
    assert (content["rows"], content["n_clusters"]) == (120, 2)
    assert [len(content["columns"][kind]) for kind in ("numeric", "categorical")] == [2, 2]
    expected = json.loads(run("plain.csv", text(), "--json")[1])
    assert [row["rows"] for row in content["clusters"]] == [row["rows"] for row in expected["clusters"]]
    if not (case == "comma" or "decimal" in case):
        assert content["objective"] == expected["objective"]


@pytest.mark.slow_except(10)
@pytest.mark.parametrize("case", ODD)
def test_odd_cells(run, case):
    content, words = ODD[case]
    code, said, err = run("t.csv", content, "--clusters", "2")
    assert (code, err) == (0, "")
    assert words in said


@pytest.mark.parametrize("case", NONE)
def test_no_tables(run, case):
    content, words = NONE[case]
    code, said, err = run("t.csv", content)
    assert (code, said) == (2, "")
    assert words in err


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows(run, n):
    code, said, err = run("t.csv", text(ROWS[:n]))
    assert (code, err) == (0, "")
    assert "No clusters found" in said


def test_equal_rows_and_one_column(run):
    assert "No clusters found" in run("t.csv", text([ROWS[0]] * 300))[1]
    code, said, _ = run("t.csv", text([[row[2]] for row in ROWS], ["fare"]))
    assert code == 0
    assert "1 numeric column, 0 categorical columns" in said
