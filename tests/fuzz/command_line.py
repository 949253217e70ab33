"""The command line on random files with random options: exit codes, messages, and files that are complete or
absent.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import craftc
from craftc.cli import main
from craftc.describe.view import numbers_by_size
from tests.fuzz.command_files import HOSTILE, RandomFile, one, random_file
from tests.fuzz.invariants import check_finite
from tests.fuzz.problems import Problem, Problems

AREA = "command_line"
SHARE = 0.1  # a fit with its files takes as long as ten calls of other areas

NAMES = ("labels.csv", "model.craftc", "report.html", "summary.csv")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OTHERS_WARNING = re.compile(r"encountered in|Mean of empty slice|DtypeWarning|deprecated", re.IGNORECASE)
_NOT_A_NUMBER = re.compile("nan|inf", re.IGNORECASE)
#: Where a document may have null.
_NULLS = re.compile(
    r"clusters\.margin|dependence_ratio|structure\.(saving|one_and_two|clear)|changes\.(cluster|former|other)"
    r"|(parameters|given)\.\w+"  # None is a value of many parameters
)
_LONGEST_MESSAGE = 2200
_TIE = 1e-5  # nats of a margin


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
    options = cluster_options(rng, list(table.columns), path.parent)
    lines = [f"{one(rng, list(table.columns) or ['a'])},{one(rng, HOSTILE)}" for _ in range(3)]
    names = "\n".join(["cluster 1,Regulars", *lines])
    path.with_name("names.csv").write_text(names, errors="replace")  # for --labels
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
    texts = [*table.columns, *chain.from_iterable(table.columns.values()), table.content.decode("latin-1")]
    words = not any(map(_NOT_A_NUMBER.search, texts))  # a file may be packed, damaged, or no table
    if "--json" in options:
        document = _document(problems, "cluster", said.out, words)
        if document is not None:
            _contradictions(problems, document, labels, "--weight" in options)
    else:
        problems.check(not _OTHERS_WARNING.search(said.out), "page", said.out[:300])
        if words:
            check_finite(problems, "page", said.out.splitlines(), words=True)
    if words:
        check_finite(problems, "summary.csv", found["summary.csv"].decode(), words=True)
        page = re.sub(
            "<(script|style).*?</\\1>|<[^>]*>", " ", found.get("report.html", b"").decode(), flags=re.S
        )
        check_finite(problems, "report.html", page, words=True)
    fitted = problems.attempt("load_model", craftc.load_model, out / "model.craftc").value
    if fitted is None:
        problems.check(False, "the model does not load")
        return
    places = [int(row[0]) for row in rows[1:]]  # in the file, whose lines are not all rows
    problems.check(places == sorted(set(places)), "labels.csv: rows", str(places[:20]))
    number = numbers_by_size(fitted.cluster_sizes_)
    of_model = np.where(fitted.labels_ < 0, -1, number[fitted.labels_]).tolist()
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
        answers = list(csv.DictReader(io.StringIO(again.out)))
        predicted = [int(row["cluster"]) for row in answers]
        same = [int(row["row"]) for row in answers] == places
        problems.check(same, "predict: rows are not those of labels.csv")
        problems.check(
            len(predicted) == len(labels), "predict: number of rows", f"{len(predicted)} of {len(labels)}"
        )
        margin = rows[0].index("margin")
        ties = [row[margin] != "" and float(row[margin]) < _TIE for row in rows[1:]]
        differ = [
            i
            for i, (a, b, tie) in enumerate(zip(predicted, labels, ties, strict=False))
            if a != b and not tie
        ]
        bound = {"--clusters", "--groups", "--min-cluster-size", "--max-cluster-size"}.intersection(options)
        problems.check(bool(bound) or not differ, "predict differs from the fit", f"rows {differ[:20]}")
    _others(problems, rng, out, path, reading, words)


def _others(
    problems: Problems, rng: np.random.Generator, out: Path, path: Path, reading: list[str], words: bool
) -> None:
    """One of the other commands with the model, and the table of its fit."""
    table = [str(out), str(path)]
    refitted = path.with_name(one(rng, ["refitted", "out"]))
    commands: list[list[str]] = [
        ["info", str(out)],
        ["compare", *table, *reading],
        ["refit", *table, *reading, *(["--keep-clusters"] if rng.random() < 0.5 else [])],
        ["refit", *table, *reading, "--out", str(refitted), *(["--keep"] if rng.random() < 0.5 else [])],
        ["predict", *table, *reading, "--out", str(path.with_name("p.jsonl")), "--log", "json"],
        ["predict", *table, *reading, "--fail-on-drift", one(rng, ["0.5", "1e9", *_BAD_NUMBERS])],
        ["export", str(out), "--sql", one(rng, ["duckdb", "sqlite", "tsql", "x"])],
    ]
    argv = one(rng, commands)
    if argv[0] in ("info", "compare", "refit") and rng.random() < 0.5:
        argv.append("--json")
    said = attempt(problems, argv[0], argv, {}, codes=(0, 2, 4) if "--fail-on-drift" in argv else (0, 2))
    if said is None or said.code != 0:
        return
    if "--json" in argv:
        _document(problems, argv[0], said.out, words)
    elif words and argv[0] != "export":
        check_finite(problems, f"{argv[0]} prints", said.out.splitlines(), words=True)


def _document(problems: Problems, what: str, text: str, words: bool) -> dict[str, Any] | None:
    """The JSON document of a command; collects numbers that are not finite, and notes that repeat."""

    def refuse(constant: str) -> float:
        problems.append(Problem("not finite", f"{what}: JSON", f"{constant} is no JSON"))
        return 0.0

    try:
        document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        problems.append(Problem("wrong", f"{what}: JSON", f"{error}: {text[:200]}"))
        return None
    for place in _nulls(document):
        problems.check(_NULLS.fullmatch(place), f"{what}: JSON", f"{place} is null")
    notes = document.get("notes", [])
    problems.check(not _OTHERS_WARNING.search(" ".join(notes)), f"{what}: notes", str(notes)[:300])
    problems.check(len(set(notes)) == len(notes), f"{what}: notes are repeated", str(notes)[:300])
    if words:
        check_finite(problems, f"{what}: JSON", document, words=True)
    return document


def _nulls(value: Any, place: str = "") -> Iterator[str]:
    """Where a document has null: names joined by points."""
    if value is None:
        yield place
    for name, each in value.items() if isinstance(value, dict) else ():
        yield from _nulls(each, f"{place}.{name}".lstrip("."))
    for each in value if isinstance(value, list) else ():
        yield from _nulls(each, place)


def _contradictions(problems: Problems, document: dict[str, Any], labels: list[int], weighted: bool) -> None:
    """Collect what a document of ``craftc cluster`` says that its labels do not."""
    clusters, structure = document["clusters"], document["structure"]
    n = len(labels)
    problems.check(document["rows"] == n, "labels.csv: number of rows", f"{n} of {document['rows']}")
    problems.check(document["n_clusters"] == len(clusters), "JSON: number of clusters")
    numbers, sizes = [each["number"] for each in clusters], [each["rows"] for each in clusters]
    problems.check(numbers == list(range(1, len(clusters) + 1)), "JSON: numbers of clusters", str(numbers))
    problems.check(sizes == sorted(sizes, reverse=True), "JSON: clusters are not by size", str(sizes))
    shares = sum(each["share"] for each in clusters)
    problems.check(abs(shares - 1.0) < 1e-9, "JSON: shares do not sum to 1", str(shares))
    if not weighted and "outliers" not in document:
        counts = [labels.count(number) for number in numbers]
        problems.check(counts == sizes, "JSON: sizes are not those of labels.csv", f"{sizes} {counts}")
    if "outliers" in document:
        of_file = labels.count(-1)
        problems.check(document["outliers"] == of_file, "JSON: outliers", f"{document['outliers']} {of_file}")
    problems.check(
        (structure["kind"] == "one") == (len(clusters) == 1), "JSON: structure", str(structure)[:200]
    )
    lengths = {each["n_clusters"]: each["objective"] for each in document["objectives"]}
    if len(clusters) in lengths and "fixed" not in document:
        own = lengths[len(clusters)]
        close = abs(own - document["objective"]) <= 1e-9 * abs(own) + 1e-9
        problems.check(close, "JSON: objective", f"{document['objective']} {own}")


# ---- commands ----


def attempt(
    problems: Problems,
    what: str,
    argv: list[str],
    streams: dict[str, bytes],
    codes: Sequence[int] = (0, 2),
) -> Said | None:
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
    problems.check(said.code in codes, f"{what}: exit code", str(said.code))
    if "--log" in argv:
        for line in lines:
            _document(problems, f"{what}: log", line, words=False)
    elif said.code:
        problems.check(last.startswith("craftc: ") and last[-1:] in ".)?…", f"{what}: message", last[-200:])
    others = [] if "--log" in argv else lines[:-1] if said.code else lines
    problems.check(
        all(line.startswith("craftc: note: ") for line in others), f"{what}: stderr", said.err[:300]
    )
    problems.check(len(set(lines)) == len(lines), f"{what}: notes are repeated", said.err[:300])
    shown = (_comments(said.out) if argv[0] == "export" else said.out) + said.err
    problems.check(
        not _CONTROL.search(shown), f"{what}: control characters", repr(_CONTROL.findall(shown)[:5])
    )
    problems.check(
        all(len(line) < _LONGEST_MESSAGE for line in lines),
        f"{what}: a long message",
        f"{len(said.err)} characters",
    )
    return said


def _comments(statement: str) -> str:
    """The comments before a statement, whose literals and names are those of the table to the character."""
    return "\n".join(takewhile(lambda line: line.startswith("-- "), statement.split("\n")))


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


_BAD_NUMBERS = ["0", "-1", "nan", "inf", "1e300", "x", ""]
_BAD_COUNTS = ["0", "-1", "9" * 24, "1.5", "x"]
_SIZES = ["1", "2", "5", "0.1", "0.5", "1.0", "99999", *_BAD_NUMBERS]

#: Share of the calls with it, and values, of every option of reading a table.
READING: tuple[tuple[str, float, Sequence[str]], ...] = (
    ("--header", 0.08, ["infer", "yes", "no", "no", "maybe"]),
    ("--skip", 0.08, ["0", "1", "2", "30", "-1", "9" * 25, "x"]),
    ("--na", 0.08, ["NA", "a", "0", "-999", "\x1b[31m", "nan", "inf"]),
    ("--delimiter", 0.04, [",", ";", "\t", "infer", "", "::", "x", "\0"]),
    ("--encoding", 0.04, ["utf-8", "latin-1", "utf-16", "infer", "nothing", "", "idna"]),
    ("--decimal", 0.04, ["infer", ".", ",", "x"]),
    ("--blanks", 0.04, ["auto", "missing", "x"]),
    ("--sheet", 0.02, ["Sheet1", "nothing", ""]),
)
#: Of every option of ``craftc cluster`` that names no column.
CLUSTER: tuple[tuple[str, float, Sequence[str]], ...] = (
    ("--clusters", 0.5, ["1", "2", "3", "2", "2-4", "3-2", "0", "-1", "x", "99999", "9" * 30, "2.5", ""]),
    ("--min-cluster-size", 0.07, _SIZES),
    ("--max-cluster-size", 0.07, _SIZES),
    ("--outlier-price", 0.08, ["0.5", "3", "10", *_BAD_NUMBERS]),
    ("--feature-sharing", 0.05, ["0.3", "1", *_BAD_NUMBERS]),
    ("--dates", 0.05, ["parts", "drop", "x"]),
    ("--missing", 0.15, ["ignore", "category", "error", "drop"]),
    ("--price-factor", 0.1, ["auto", "1", "0.5", "2", "1e9", "1e400", "1e-320", *_BAD_NUMBERS]),
    ("--seed", 0.1, ["1", "4294967295", *_BAD_COUNTS]),
    ("--starts", 0.05, ["1", "2", "3", *_BAD_COUNTS]),
    ("--stability", 0.02, ["1", "2", *_BAD_COUNTS]),
)
#: Share of the calls with an option that names columns.
COLUMNS = {
    "--target": 0.2,
    "--ignore": 0.15,
    "--categorical": 0.1,
    "--numeric": 0.1,
    "--split": 0.05,
    "--groups": 0.06,
    "--weight": 0.06,
    "--column-weight": 0.06,
}
FLAGS = ("--details", "--all-features", "--quiet", "--keep", "--escape-formulas")


def reading_options(rng: np.random.Generator) -> list[str]:
    """Options of all commands that read a table."""
    options = ["--threads", one(rng, ["1"] * 30 + ["0", "-1", "x", "100000", "9" * 30])]
    options += _drawn(rng, READING)
    if rng.random() < 0.06:
        options.append(one(rng, ["--in-memory", "--out-of-core"]))
    if rng.random() < 0.04:
        options.append("--all-lines")
    return options


def cluster_options(rng: np.random.Generator, columns: Sequence[str], folder: Path) -> list[str]:
    """Options of ``craftc cluster``, most of them valid."""
    options = ["--json"] if rng.random() < 0.3 else []
    names = [name for name in columns if "\0" not in name and not name.startswith("-")]
    names += ["nothing", "", "\x1b[2J"]
    options += _drawn(rng, CLUSTER)
    for option, share in COLUMNS.items():
        if rng.random() < share:
            name = one(rng, names)
            weight = one(rng, ["=2", "=0.5", "=0", "=-1", "=nan", "=1e300", "=x", ""])
            options += [option, f"{name}{weight}" if option == "--column-weight" else name]
    if rng.random() < (0.3 if "--weight" in options else 0.01):
        options.append("--scale-weight")
    if rng.random() < 0.04:
        options += ["--labels", str(folder / one(rng, ["names.csv", "names.csv", "nothing.csv", ""]))]
    if rng.random() < 0.03:
        options += ["--scratch", str(one(rng, [folder, folder / "scratch", folder / "t.csv"]))]
    options += [flag for flag in FLAGS if rng.random() < 0.15]
    if rng.random() < 0.03:
        options.append(one(rng, ["--nonsense", "--clusters", "extra", "--ignore", "--", "--help", "-", "-1"]))
    if "--help" in options or "--" in options:
        return [*options[:-1], "--nonsense"]
    return options


def _drawn(rng: np.random.Generator, table: Sequence[tuple[str, float, Sequence[str]]]) -> list[str]:
    return [
        word for name, share, values in table if rng.random() < share for word in (name, one(rng, values))
    ]
