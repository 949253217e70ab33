"""The command line on random files with random options: exit codes, messages, and files that are complete or
absent.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import craftc
from craftc.cli import main
from craftc.describe.view import numbers_by_size
from tests.fuzz.problems import Problem, Problems

AREA = "command_line"
SHARE = 0.1  # a fit with its files takes as long as ten calls of other areas

NAMES = ("labels.csv", "model.craftc", "report.html", "summary.csv")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OTHERS_WARNING = re.compile(r"encountered in|Mean of empty slice|DtypeWarning|deprecated", re.IGNORECASE)
_LONGEST_MESSAGE = 2200
_TIE = 1e-5  # nats of a margin

_PLAIN = ["a", "b", "c", "low", "high", "NA", "n/a", "?", "", "-", "007", "True", "false", " a", "A"]
_HOSTILE = [
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


class Said(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str


@dataclass
class State:
    """The files of an earlier fit, and its table."""

    files: dict[str, bytes]
    table: bytes


def prepare() -> State:
    """Import what commands need, and fit a small table."""
    csv.field_size_limit(1 << 30)  # of labels.csv
    rng = np.random.default_rng(0)
    lines = [f"{'ab'[i % 2]},{rng.normal() + 9 * (i % 2):.3f},{'xyz'[i % 3]}" for i in range(40)]
    table = "\n".join(["k,v,w", *lines]).encode()
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "t.csv", Path(folder) / "out"
        path.write_bytes(table)
        pd.read_csv(path).to_parquet(Path(folder) / "t.parquet")
        for name in ("t.csv", "t.parquet"):
            said = command(
                ["cluster", str(Path(folder) / name), "--out", str(out), "--threads", "1", "--json"]
            )
            assert said.code == 0, said.err
        return State({name: (out / name).read_bytes() for name in NAMES}, table)


def case(seed: int, state: State, folder: Path) -> list[Problem]:
    """A random file with random options: fitted and predicted, or predicted with an earlier model."""
    rng = np.random.default_rng([seed, 0xC11])
    problems = Problems()
    table = random_file(rng)
    path = folder / table.name
    path.write_bytes(table.content)
    out = folder / "out"
    former = rng.random() < 0.3
    if former:
        out.mkdir()
        for name, content in state.files.items():
            (out / name).write_bytes(content)
    kind = rng.random()
    if kind < 0.02:
        attempt(problems, "info", ["info"], {})
    elif kind < 0.12 and former:
        argv = [
            "predict",
            str(out),
            str(path),
            *reading_options(rng),
            *(["--out", str(folder / "p.csv")] if rng.random() < 0.5 else []),
        ]
        attempt(problems, "predict with another model", argv, {})
    else:
        _cluster(problems, rng, table, path, out, state.files if former else None)
    left = [str(each.relative_to(folder)) for each in folder.rglob(".*")]
    problems.check(not left, "temporary files", f"{left}")
    return problems


def _cluster(
    problems: Problems,
    rng: np.random.Generator,
    table: RandomFile,
    path: Path,
    out: Path,
    former: dict[str, bytes] | None,
) -> None:
    reading = reading_options(rng)
    options = cluster_options(rng, table.columns)
    argv = ["cluster", str(path), "--out", str(out), *reading, *options]
    said = attempt(problems, "cluster", argv, {"stdin": table.content} if "-" in argv else {})
    if said is None:
        return
    found = {each.name: each.read_bytes() for each in out.iterdir()} if out.is_dir() else {}
    if said.code != 0:
        problems.check(found == (former or {}), "files after an error", f"{sorted(found)} from {argv[4:]}")
        problems.check(said.out == "", "output before an error", said.out[:200])
        return
    batches = "--out-of-core" in argv
    expected = sorted(set(NAMES) - ({"report.html"} if batches else set()))
    if not problems.check(sorted(found) == expected, "files", f"{sorted(found)}"):
        return
    rows = list(csv.reader(io.StringIO(found["labels.csv"].decode(), newline="")))
    labels = [int(row[1]) for row in rows[1:]]
    if "--json" in options:
        with problems.watching("JSON"):
            document = json.loads(said.out)
            problems.check(
                not _OTHERS_WARNING.search(" ".join(document["notes"])), "notes", str(document["notes"])[:300]
            )
            problems.check(
                document["rows"] == len(labels),
                "labels.csv: number of rows",
                f"{len(labels)} of {document['rows']}",
            )
    else:
        problems.check(not _OTHERS_WARNING.search(said.out), "page", said.out[:300])
    fitted = problems.attempt("load_model", craftc.load_model, out / "model.craftc").value
    if fitted is None:
        problems.check(False, "the model does not load")
        return
    problems.check([row[0] for row in rows[1:]] == list(map(str, range(len(labels)))), "labels.csv: rows")
    of_model = numbers_by_size(fitted.cluster_sizes_)[fitted.labels_].tolist()
    problems.check(
        labels == of_model,
        "labels.csv: clusters are not those of the model",
        f"{labels[:20]} {of_model[:20]}",
    )
    problems.check(all(len(row) == len(rows[0]) for row in rows), "labels.csv: cells")
    again = attempt(problems, "predict", ["predict", str(out), str(path), *reading], {})
    if again is not None and problems.check(
        again.code == 0, "predict refuses the table of the fit", again.err[:300]
    ):
        predicted = [int(row["cluster"]) for row in csv.DictReader(io.StringIO(again.out))]
        problems.check(
            len(predicted) == len(labels), "predict: number of rows", f"{len(predicted)} of {len(labels)}"
        )
        ties = [row[2] != "" and float(row[2]) < _TIE for row in rows[1:]]
        differ = [
            i
            for i, (a, b, tie) in enumerate(zip(predicted, labels, ties, strict=False))
            if a != b and not tie
        ]
        problems.check(
            "--clusters" in options or not differ, "predict differs from the fit", f"rows {differ[:20]}"
        )


# ---- commands ----


def attempt(problems: Problems, what: str, argv: list[str], streams: dict[str, bytes]) -> Said | None:
    """Run a command and collect what no command may do."""
    with problems.watching(what):
        try:
            said = command(argv, **streams)
        except (Exception, SystemExit) as error:
            problems.append(Problem("raw error", what, f"{type(error).__name__}: {error}"))
            return None
    lines = said.err.split("\n")[:-1]
    last = lines[-1] if lines else ""
    if said.code == 3:
        problems.append(Problem("raw error", what, last[:300]))
        return None
    problems.check(said.code in (0, 2), f"{what}: exit code", str(said.code))
    if said.code == 2:
        problems.check(last.startswith("craftc: ") and last[-1:] in ".)?…", f"{what}: message", last[-200:])
    others = lines if said.code == 0 else lines[:-1]
    problems.check(
        all(line.startswith("craftc: note: ") for line in others), f"{what}: stderr", said.err[:300]
    )
    problems.check(
        not _CONTROL.search(said.out + said.err),
        f"{what}: control characters",
        repr(_CONTROL.findall(said.out + said.err)[:5]),
    )
    problems.check(
        all(len(line) < _LONGEST_MESSAGE for line in lines),
        f"{what}: a long message",
        f"{len(said.err)} characters",
    )
    return said


def command(argv: Sequence[str], stdin: bytes = b"") -> Said:
    """Run a command in this process."""
    with _streams(stdin) as (out, err):
        code = main(argv)
    return Said(code, out.getvalue().decode(), err.getvalue().decode())


@contextmanager
def _streams(stdin: bytes) -> Any:
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    streams = (
        io.TextIOWrapper(io.BytesIO(stdin)),
        io.TextIOWrapper(out, "utf-8"),
        io.TextIOWrapper(err, "utf-8"),
    )
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield out, err
        for stream in streams[1:]:
            stream.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in streams:
            stream.detach()


def reading_options(rng: np.random.Generator) -> list[str]:
    """Options of both commands."""
    options = ["--threads", _one(rng, ["1"] * 30 + ["0", "-1", "x", "100000", "9" * 30])]
    for option, values in (
        ("--header", ["infer", "yes", "no", "no", "maybe"]),
        ("--skip", ["0", "1", "2", "30", "-1", "9" * 25, "x"]),
        ("--na", ["NA", "a", "0", "-999", "\x1b[31m", "nan", "inf"]),
    ):
        if rng.random() < 0.08:
            options += [option, _one(rng, values)]
    if rng.random() < 0.06:
        options.append(_one(rng, ["--in-memory", "--out-of-core"]))
    return options


def cluster_options(rng: np.random.Generator, columns: Sequence[str]) -> list[str]:
    """Options of ``craftc cluster``, most of them valid."""
    options = ["--json"] if rng.random() < 0.3 else []
    names = [name for name in columns if "\0" not in name and not name.startswith("-")] + [
        "nothing",
        "",
        "\x1b[2J",
    ]
    for option, share, values in (
        ("--clusters", 0.5, ["1", "2", "3", "2", "0", "-1", "x", "99999", "9" * 30, "2.5", ""]),
        ("--target", 0.2, names),
        ("--ignore", 0.15, names),
        ("--categorical", 0.1, names),
        ("--numeric", 0.1, names),
        ("--dates", 0.05, ["parts", "drop", "x"]),
        ("--missing", 0.15, ["ignore", "category", "error", "drop"]),
        (
            "--price-factor",
            0.1,
            ["auto", "1", "0.5", "2", "1e9", "0", "-1", "nan", "inf", "1e400", "1e-320", "x"],
        ),
        ("--seed", 0.1, ["1", "4294967295", "-1", "9" * 24, "x", "1.5"]),
        ("--starts", 0.05, ["1", "2", "3", "0", "-1", "x"]),
        ("--stability", 0.02, ["1", "2", "0", "-1", "x"]),
    ):
        if rng.random() < share:
            options += [option, _one(rng, values)]
    for flag in ("--details", "--all-features", "--quiet", "--keep", "--escape-formulas"):
        if rng.random() < 0.15:
            options.append(flag)
    if rng.random() < 0.03:
        options.append(
            _one(rng, ["--nonsense", "--clusters", "extra", "--ignore", "--", "--help", "-", "-1"])
        )
    if "--help" in options or "--" in options:
        return [*options[:-1], "--nonsense"]
    return options


# ---- files ----


class RandomFile(NamedTuple):
    """A file, and the columns that it was made of."""

    name: str
    content: bytes
    columns: list[str]


def random_file(rng: np.random.Generator) -> RandomFile:
    """A table in a random format, packed at times, damaged at times; or bytes that are no table."""
    columns = random_columns(rng)
    names = list(columns)
    kind = rng.random()
    if kind < 0.05:
        return RandomFile("t.csv", _one(rng, _MAGIC) + rng.bytes(int(rng.integers(0, 300))), [])
    if kind < 0.75:
        name, content = "t.csv", delimited(rng, columns)
    else:
        name, content = _one(rng, [_as_json, _as_json, _as_parquet, _as_parquet, _as_feather, _as_excel])(
            rng, columns
        )
    if rng.random() < 0.06:
        content = damaged(rng, content)
    if rng.random() < 0.08:
        ending, pack = _one(
            rng, [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zip", _zipped)]
        )
        name, content = name + ending, pack(content)
        if rng.random() < 0.2:
            content = damaged(rng, content)
    if rng.random() < 0.05:
        name = _one(
            rng, ["t\x1b[31m.csv", "t.parquet", "t", "größe.csv", "t.xls", "=1.csv", "t[1].csv", "a*.csv"]
        )
    return RandomFile(name, content, names)


def random_columns(rng: np.random.Generator) -> dict[str, list[str]]:
    """Columns of texts of equal length; names of every kind."""
    n = int(rng.integers(0, 4)) if rng.random() < 0.08 else int(rng.integers(4, 80))
    n_columns = int(rng.integers(1, 7))
    if rng.random() < 0.02:
        n, n_columns = int(rng.integers(1, 8)), int(rng.integers(50, 400))
    group = rng.integers(0, 3, n)
    columns = {}
    for j in range(n_columns):
        name = f"{_one(rng, 'abcdefgh')}{j}"
        if rng.random() < 0.1:
            name = _one(rng, [*_HOSTILE, *_PLAIN, "x" * 5000, "time", "id", "customer_id", "date"])
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
        levels = [_one(rng, _PLAIN) for _ in range(3)]
        column = [levels[g] for g in group]
    elif kind == 5:
        levels = [_one(rng, _HOSTILE) for _ in range(3)]
        column = [levels[g] for g in group]
    elif kind == 6:
        column = [f"20{10 + i % 14:02d}-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in rng.integers(0, 5000, n)]
        if rng.random() < 0.3:
            column = [
                _one(rng, ["{2}/{1}/{0}", "{2}.{1}.{0}", "{0}{1}{2}", "{0}-{1}"]).format(*cell.split("-"))
                for cell in column
            ]
    elif kind == 7:
        scale = 10 ** int(rng.choice([9, 15, 16, 18, 19, 20, 30, 100, 308, 330]))
        column = [str(int(rng.integers(-5, 5)) * scale + i) for i in range(n)]
    elif kind == 8:
        scale = float(rng.choice([1e-320, 1e-300, 1e-160, 1e-30, 1e12, 1e100, 1e160, 1e300]))
        column = [repr(value * scale) for value in rng.normal(group, 1.0).tolist()]
    elif kind == 9:
        column = [str(i) for i in range(n)] if rng.random() < 0.5 else [_one(rng, _PLAIN)] * n
    elif kind == 10:
        length = int(rng.choice([50, 500, 5000, 200_000], p=[0.4, 0.4, 0.18, 0.02]))
        column = ["abc"[g] * length for g in group]
    else:
        column = [_one(rng, [*_PLAIN, *_NUMBERS, *_HOSTILE]) for _ in range(n)]
    for share, others in ((0.1, ["", "?", "NA"]), (0.03, _NUMBERS), (0.03, _HOSTILE)):
        if rng.random() < 0.3:
            column = [_one(rng, others) if rng.random() < share else cell for cell in column]
    return column


def delimited(rng: np.random.Generator, columns: dict[str, list[str]]) -> bytes:
    """Delimited text of some dialect and encoding; ragged at times."""
    delimiter = _one(rng, [",", ",", ",", ";", "\t", "|", ":"])
    quoting = _one(rng, [csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    text = io.StringIO(newline="")
    writer = csv.writer(
        text,
        delimiter=delimiter,
        quoting=quoting,
        lineterminator=_one(rng, ["\n", "\n", "\r\n", "\r", "\n\n"]),
    )
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    names = list(columns)
    if rng.random() < 0.06:
        names = [_one(rng, ["a", "", "a.2"]) for _ in names]
    if rng.random() < 0.04 and rows:
        row = rows[rng.integers(len(rows))]
        row.extend(["x"] * int(rng.integers(1, 3))) if rng.random() < 0.6 else row.pop()
    if rng.random() < 0.05:
        writer.writerow([_one(rng, ["# a comment", "A title", "", "a,b", '"'])])
    if rng.random() < 0.9:
        writer.writerow(names)
    writer.writerows(rows)
    encoding = _one(rng, ["utf-8"] * 12 + ["utf-8-sig", "latin-1", "utf-16", "cp1252", "utf-16-le", "utf-32"])
    return text.getvalue().encode(
        encoding,
        errors=_one(rng, ["replace", "replace", "surrogatepass"]) if "utf" in encoding else "replace",
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
            changed[at:at] = _one(
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
            other = _one(rng, [[1, 2], {"a": 1}, b"bytes", True, None])
            frame[name] = pd.Series([other] * len(frame), dtype=object)
    return frame


def _as_json(rng: np.random.Generator, columns: dict[str, list[str]]) -> tuple[str, bytes]:
    frame = _typed(rng, columns)
    records = json.loads(frame.to_json(orient="records", default_handler=str))
    if rng.random() < 0.2 and records:
        records[rng.integers(len(records))] = _one(rng, _RECORDS)
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


def _one(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]
