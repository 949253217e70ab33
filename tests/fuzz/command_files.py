"""Random tables in files of every format, packed and damaged at times, for the command line."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import warnings
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

_PLAIN = ["a", "b", "c", "low", "high", "NA", "n/a", "?", "", "-", "007", "True", "false", " a", "A"]
HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "@SUM(1)",
    "-x",
    "\x1b[31mred",
    "\x1b]0;t\x07",
    "\x9b5m",
    "b\x08\x08",
    "\u202ea",
    "\u2066b",
    "\x00",
    "\ufeff",
    'say "hi"',
    "a,b;c\td|e",
    "line\none",
    "cr\rlf\r\n",
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "%s%n",
    "\\N",
    "'",
    '"',
    "\U0001f600",
    "日本語",
    "e\u0301",
    "\u2028",
    "__index_level_0__",
    "row",
    "cluster",
    "None",
    "$1,200",
    "12%",
    "(3.20)",
    "1.234,50",
    "<5",
    "7 km",
]
_MAGIC = [
    b"",
    b"PAR1",
    b"ARROW1",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"BZh9",
    b"\xfd7zXZ\0",
    b"\xd0\xcf\x11\xe0",
    b"\xff\xfe",
    b"{",
    b"[",
]
_RECORDS: list[Any] = [
    1,
    None,
    [],
    {},
    {"a": {"b": [1]}},
    {"new": 1e400},
    {"a": 10**400},
    {"\ud800": "\udfff"},
]
_NUMBERS = [
    "1e999",
    "-inf",
    "nan",
    "1e-320",
    "9" * 400,
    "0x10",
    "1_000",
    "--5",
    ".",
    "1e",
    "+-3",
    "٣",
    "¼",
    "1 000",
]


class RandomFile(NamedTuple):
    """A file, and the columns that it was made of, with their texts."""

    name: str
    content: bytes
    columns: dict[str, list[str]]


def random_file(rng: np.random.Generator) -> RandomFile:
    """A table in a random format, packed at times, damaged at times; or bytes that are no table."""
    columns = random_columns(rng)
    kind = rng.random()
    if kind < 0.05:
        return RandomFile("t.csv", one(rng, _MAGIC) + rng.bytes(int(rng.integers(0, 300))), {})
    if kind < 0.75:
        name, content = "t.csv", delimited(rng, columns)
    else:
        name, content = one(rng, [_as_json, _as_json, _as_parquet, _as_parquet, _as_feather, _as_excel])(
            rng, columns
        )
    if rng.random() < 0.06:
        content = damaged(rng, content)
    if rng.random() < 0.08:
        ending, pack = one(
            rng, [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zip", _zipped)]
        )
        name, content = name + ending, pack(content)
        if rng.random() < 0.2:
            content = damaged(rng, content)
    if rng.random() < 0.05:
        name = one(
            rng, ["t\x1b[31m.csv", "t.parquet", "t", "größe.csv", "t.xls", "=1.csv", "t[1].csv", "a*.csv"]
        )
    return RandomFile(name, content, columns)


def random_columns(rng: np.random.Generator) -> dict[str, list[str]]:
    """Columns of texts of equal length; names of every kind."""
    n = int(rng.integers(0, 4)) if rng.random() < 0.08 else int(rng.integers(4, 80))
    n_columns = int(rng.integers(1, 7))
    if rng.random() < 0.02:
        n, n_columns = int(rng.integers(1, 8)), int(rng.integers(50, 400))
    group = rng.integers(0, 3, n)
    columns = {}
    for j in range(n_columns):
        name = f"{one(rng, 'abcdefgh')}{j}"
        if rng.random() < 0.1:
            name = one(rng, [*HOSTILE, *_PLAIN, "x" * 5000, "time", "id", "customer_id", "date"])
        columns[name] = cells(rng, group)
    return columns


def cells(rng: np.random.Generator, group: np.ndarray[Any, Any]) -> list[str]:
    """The cells of one column; most follow the groups of the rows."""
    n = len(group)
    kind = rng.integers(12)
    if kind < 3:
        column = [f"{value:.3f}" for value in rng.normal(5.0 * group, 1.0)]
    elif kind == 3:
        column = [f"{value}" for value in rng.integers(0, 4, n) + group]
    elif kind == 4:
        levels = [one(rng, _PLAIN) for _ in range(3)]
        column = [levels[g] for g in group]
    elif kind == 5:
        levels = [one(rng, HOSTILE) for _ in range(3)]
        column = [levels[g] for g in group]
    elif kind == 6:
        column = [f"20{10 + i % 14:02d}-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in rng.integers(0, 5000, n)]
        if rng.random() < 0.3:
            column = [
                one(rng, ["{2}/{1}/{0}", "{2}.{1}.{0}", "{0}{1}{2}", "{0}-{1}"]).format(*cell.split("-"))
                for cell in column
            ]
    elif kind == 7:
        scale = 10 ** int(rng.choice([9, 15, 16, 18, 19, 20, 30, 100, 308, 330]))
        column = [str(int(rng.integers(-5, 5)) * scale + i) for i in range(n)]
    elif kind == 8:
        scale = float(rng.choice([1e-320, 1e-300, 1e-160, 1e-30, 1e12, 1e100, 1e160, 1e300]))
        column = [repr(value * scale) for value in rng.normal(group, 1.0).tolist()]
    elif kind == 9:
        column = [str(i) for i in range(n)] if rng.random() < 0.5 else [one(rng, _PLAIN)] * n
    elif kind == 10:
        length = int(rng.choice([50, 500, 5000, 200_000], p=[0.4, 0.4, 0.18, 0.02]))
        column = ["abc"[g] * length for g in group]
    else:
        column = [one(rng, [*_PLAIN, *_NUMBERS, *HOSTILE]) for _ in range(n)]
    for share, others in ((0.1, ["", "?", "NA"]), (0.03, _NUMBERS), (0.03, HOSTILE)):
        if rng.random() < 0.3:
            column = [one(rng, others) if rng.random() < share else cell for cell in column]
    return column


def delimited(rng: np.random.Generator, columns: dict[str, list[str]]) -> bytes:
    """Delimited text of some dialect and encoding; ragged at times."""
    delimiter = one(rng, [",", ",", ",", ";", "\t", "|", ":"])
    quoting = one(rng, [csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    text = io.StringIO(newline="")
    writer = csv.writer(
        text,
        delimiter=delimiter,
        quoting=quoting,
        lineterminator=one(rng, ["\n", "\n", "\r\n", "\r", "\n\n"]),
    )
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    names = list(columns)
    if rng.random() < 0.06:
        names = [one(rng, ["a", "", "a.2"]) for _ in names]
    if rng.random() < 0.04 and rows:
        row = rows[rng.integers(len(rows))]
        row.extend(["x"] * int(rng.integers(1, 3))) if rng.random() < 0.6 else row.pop()
    if rng.random() < 0.05:
        writer.writerow([one(rng, ["# a comment", "A title", "", "a,b", '"'])])
    if rng.random() < 0.9:
        writer.writerow(names)
    writer.writerows(rows)
    encoding = one(rng, ["utf-8"] * 12 + ["utf-8-sig", "latin-1", "utf-16", "cp1252", "utf-16-le", "utf-32"])
    return text.getvalue().encode(
        encoding,
        errors=one(rng, ["replace", "replace", "surrogatepass"]) if "utf" in encoding else "replace",
    )


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Some bytes changed, cut off, inserted or repeated."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(0, len(changed) + 1))
        kind = rng.integers(4)
        if kind == 0 and at < len(changed):
            changed[at] = int(rng.integers(256))
        elif kind == 1:
            changed[at:at] = one(
                rng, [b"\0", b'"', b"\xff\xfe", b"\r", b"\n", b"\xc3", b"\x1b[2J", b",,,", rng.bytes(8)]
            )
        elif kind == 2:
            del changed[at : at + int(rng.integers(1, 40))]
        else:
            del changed[at:]
    return bytes(changed)


def _zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("t.csv", content)
    return file.getvalue()


def _typed(rng: np.random.Generator, columns: dict[str, list[str]]) -> pd.DataFrame:
    """A frame whose columns have types: numbers where all cells are, dates, texts."""
    frame = pd.DataFrame(columns, dtype=object)
    for name in frame.columns:
        if rng.random() < 0.6:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                numbers = pd.to_numeric(frame[name], errors="coerce")
                if numbers.notna().sum() > 0.6 * len(frame):
                    frame[name] = numbers
                elif rng.random() < 0.3:
                    frame[name] = pd.to_datetime(frame[name], errors="coerce")
        if rng.random() < 0.1:
            frame[name] = frame[name].astype("category")
        elif rng.random() < 0.03:
            other = one(rng, [[1, 2], {"a": 1}, b"bytes", True, None])
            frame[name] = pd.Series([other] * len(frame), dtype=object)
    return frame


def _as_json(rng: np.random.Generator, columns: dict[str, list[str]]) -> tuple[str, bytes]:
    frame = _typed(rng, columns)
    records = json.loads(frame.to_json(orient="records", default_handler=str))
    if rng.random() < 0.2 and records:
        records[rng.integers(len(records))] = one(rng, _RECORDS)
    if rng.random() < 0.5:
        return "t.json", json.dumps(records).encode()
    return "t.jsonl", "\n".join(map(json.dumps, records)).encode()


def _as_parquet(rng: np.random.Generator, columns: dict[str, list[str]]) -> tuple[str, bytes]:
    file = io.BytesIO()
    _typed(rng, columns).to_parquet(file, index=bool(rng.random() < 0.2))
    return "t.parquet", file.getvalue()


def _as_feather(rng: np.random.Generator, columns: dict[str, list[str]]) -> tuple[str, bytes]:
    file = io.BytesIO()
    _typed(rng, columns).to_feather(file)
    return "t.feather", file.getvalue()


def _as_excel(rng: np.random.Generator, columns: dict[str, list[str]]) -> tuple[str, bytes]:
    file = io.BytesIO()

    def allowed(text: str) -> str:
        return re.sub(r"[\x00-\x1f]", "", text)[:30000]

    _typed(rng, {allowed(name): list(map(allowed, column)) for name, column in columns.items()}).to_excel(
        file, index=False
    )
    return "t.xlsx", file.getvalue()


def one(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]
