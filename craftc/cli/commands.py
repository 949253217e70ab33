"""The subcommands of ``craftc``: cluster, predict, info."""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import sys
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from craftc import _about
from craftc._common.atomic_write import replacing
from craftc._common.threads import effective_n_threads
from craftc.cli import report
from craftc.cli.columns import ColumnRoles, assign_roles, match_columns
from craftc.craft import CRAFT
from craftc.craft.dependence import dependence_sentence
from craftc.model_file import load_model, save_model
from craftc.table.cells import MAX_INTEGER_CODES
from craftc.table.files import RawTable
from craftc.table.numeric_encoding import MAX_DISCRETE_VALUES
from craftc.table.read import open_table

_MOST_FEATURES = 8  # per cluster, unless --all-features
_MOST_LINKS = 3
_ROWS_AT_ONCE = 1 << 16  # rows that predict writes at a time

_READING = f"""\
how a table is read (as craftc.read_table reads it in Python):
  Formats: CSV and the like, JSON lines, Excel (.xlsx), Parquet, Feather; each also compressed (gzip,
  bzip2, xz, zip); "-" is standard input. The content decides, and the delimiter (comma, semicolon,
  tab or |) is detected. A title above the column names is skipped (--skip, --header).
  Missing values: empty cells and "?". In columns of numbers and dates also NA, n/a, NaN, null, none
  and -; in text columns these are levels, unless --na names them.
  Numeric columns: also $1,200, 12%, 7 km, (3.20) and 1.234,50. A few other cells become missing.
  Categorical columns: text, codes such as 007, and integers with at most {MAX_INTEGER_CODES} distinct values (--numeric
  treats such a column as numeric).
  Dates become year, month, weekday and day number.
  Numeric columns need no scaling. Skewed columns are replaced by ranks, a value that fills a
  fifth of a column is modelled separately, and a column with at most {MAX_DISCRETE_VALUES} distinct values
  is modelled value by value.
  Excluded columns: row counters and other ids, columns without any value or with one value, and text
  columns with a different text in every row. The output lists them; --numeric and --categorical
  include them.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that raises ValueError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def in_options(message: str) -> str:
    """A message of the estimator with parameters replaced by command-line options."""
    text = message.replace("price_factor=", "--price-factor ").replace("n_clusters=", "--clusters ")
    text = re.sub(r"na_values=\[(.*)\] makes", lambda found: f"--na {found[1].replace(',', '')} makes", text)
    text = text.replace("header=True", "--header yes").replace(" left after skip=", " left after --skip ")
    text = text.replace("on_unusable='keep' keeps such columns", "name columns in --numeric or --categorical to include them")
    return text.replace("cut(k)", "--clusters K").removeprefix("CRAFT found ")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; `run` of the parsed options is the subcommand."""
    parser = _Parser(prog="craftc", description="Cluster tables that mix numbers, categories and missing values.")
    parser.add_argument("--version", action="version", version=f"craftc {_about.version()}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    verb = verbs.add_parser(
        "cluster",
        help="find the clusters of a table",
        description="Find the clusters of a table and the columns that define each.",
        epilog=_READING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("table", metavar="TABLE", help="table file, one observation per row")
    verb.add_argument("--clusters", type=int, metavar="K", help="number of clusters (default: chosen automatically)")
    verb.add_argument("--target", metavar="COL", help="column of known classes: not used for clustering, compared with the clusters")
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "metavar": "COL", "default": []}
    verb.add_argument("--ignore", help="columns to exclude", **several)
    verb.add_argument("--categorical", help="columns to treat as categorical", **several)
    verb.add_argument("--numeric", help="columns to treat as numeric", **several)
    _add_reading(verb)
    verb.add_argument(
        "--dates",
        choices=("parts", "drop"),
        default="parts",
        help="dates become year, month, weekday and day number (parts, default), or are excluded (drop)",
    )
    verb.add_argument(
        "--missing",
        choices=("ignore", "category", "error"),
        default="ignore",
        help="missing values have no cost (ignore, default), are a level of their own (category), or raise an error",
    )
    verb.add_argument(
        "--price-factor",
        type=_price_factor,
        default="auto",
        metavar="F",
        help="factor of the price of clusters and parameters; larger values give fewer clusters "
        "(default: 1 up to 1,000 rows, otherwise rows / 1000)",
    )
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="random seed (default 0)")
    verb.add_argument(
        "--all-features",
        action="store_true",
        help=f"print all selected features of a cluster, not only the {_MOST_FEATURES} with the largest gains",
    )
    verb.add_argument("--out", metavar="DIR", help="folder for labels.csv, summary.csv and model.craftc")
    _add_threads(verb)
    verb.set_defaults(run=_cluster)

    verb = verbs.add_parser(
        "predict",
        help="assign the rows of a table to the clusters of a model",
        description="Write the cluster and the cost (in nats, lower is better) of every row as CSV.",
    )
    verb.add_argument("model", metavar="MODEL", help="model.craftc, written by craftc cluster")
    verb.add_argument("table", metavar="TABLE", help="file with the columns of the model")
    verb.add_argument("--out", metavar="FILE", help="CSV file to write (default: standard output)")
    _add_reading(verb)
    _add_threads(verb)
    verb.set_defaults(run=_predict)

    verb = verbs.add_parser("info", help="print versions, threads and instruction set")
    verb.set_defaults(run=lambda options: _about.show_versions())
    return parser


def _add_reading(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--na", nargs="+", action="extend", metavar="TEXT", default=[], help="further cells that are missing")
    verb.add_argument("--skip", type=int, default=0, metavar="N", help="number of lines before the table")
    verb.add_argument(
        "--header", choices=("infer", "yes", "no"), default="infer", help="whether the first line holds the column names (default: infer)"
    )


def _raw_table(options: argparse.Namespace) -> RawTable:
    return open_table(options.table, header={"infer": "infer", "yes": True, "no": False}[options.header], skip=options.skip)


def _price_factor(text: str) -> float | str:
    """The word "auto", or a number, whose range the estimator checks."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be auto or a number > 0, got {text!r}") from None


def _add_threads(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--threads", type=int, metavar="N", help="number of threads (default: all processors)")


# ---- cluster ----


def _cluster(options: argparse.Namespace) -> None:
    effective_n_threads(options.threads)
    if options.out is not None and Path(options.out).exists() and not Path(options.out).is_dir():
        raise ValueError(f"--out {options.out!r} is a file; pass the name of a folder.")
    progress = _Progress()
    progress.show(f"reading {options.table} …")
    roles = assign_roles(
        _raw_table(options),
        target=options.target,
        ignore=options.ignore,
        categorical=options.categorical,
        numeric=options.numeric,
        na_values=options.na,
        split_dates=options.dates == "parts",
    )
    model = CRAFT(
        options.clusters,
        price_factor=options.price_factor,
        missing=options.missing,
        random_state=options.seed,
        n_threads=options.threads,
    )
    model._progress = progress
    progress.show("computing the first partition …")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(roles.features)
    finally:
        progress.clear()
        del model._progress
    written = [] if options.out is None else _write(Path(options.out), model, roles)

    room = min(max(shutil.get_terminal_size((100, 0)).columns, 60), 100)
    lines = _opening(options.table, roles, [in_options(note) for note in roles.notes], room)
    lines += ["", *_headline(model, options.clusters, room)]
    lines += _notes([in_options(str(warning.message)) for warning in caught], room)
    if model.n_clusters_ > 1:
        most = None if options.all_features else _MOST_FEATURES
        lines += report.clusters(model, room, most=most, blocks=_blocks())
    if roles.target is not None:
        lines += report.comparison(options.target, roles.target, model.labels_, room)
    if written:
        lines += ["", *report.listed("Wrote", written, room)]
    print("\n".join(lines))


def _opening(table: str, roles: ColumnRoles, notes: list[str], room: int) -> list[str]:
    """The input: one line of counts, then the role of every column."""
    missing = int(roles.features.isna().to_numpy().sum())
    counts = (
        f"{report.plural(len(roles.features), 'row')}; "
        f"{report.plural(len(roles.numeric), 'numeric column')}, "
        f"{report.plural(len(roles.categorical), 'categorical column')}, "
        + (report.plural(missing, "missing value") if missing else "no missing values")
    )
    lines = _wrap(f"{'standard input' if table == '-' else report.clean(table)}: {counts}", room)
    if roles.numeric:
        lines += report.listed("  numeric:    ", roles.numeric, room)
    if roles.categorical:
        lines += report.listed("  categorical:", roles.categorical, room)
    if roles.codes:
        lines += report.listed(f"  of these, integers with at most {MAX_INTEGER_CODES} values:", roles.codes, room)
        lines.append("  (--numeric COL and --categorical COL change this)")
    for reason in dict.fromkeys(roles.excluded.values()):
        names = [name for name, why in roles.excluded.items() if why == reason]
        lines += report.listed(f"  not used ({reason}):", names, room)
    return lines + _notes(notes, room)


def _notes(texts: list[str], room: int) -> list[str]:
    return [line for text in texts for line in _wrap(f"Note: {report.clean(text)}", room)]


def _wrap(text: str, room: int, indent: str = "  ") -> list[str]:
    """Lines no wider than the room, unless a single word (such as a path) is wider."""
    return textwrap.wrap(text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _headline(model: CRAFT, requested: int | None, room: int) -> list[str]:
    """The number of clusters, the meaning of gain and margin, and the cost of fewer clusters."""
    K = model.n_clusters_
    if K == 1:
        alone = "1 cluster, as requested." if requested == 1 else "No cluster structure found: 1 cluster."
        return _wrap(alone, room, "") + _dependence(model, room)
    short = "" if requested is None or requested == K else f" (the table cannot be split into {requested})"
    text = (
        f"{report.plural(K, 'cluster')}{short}, largest first. Gain: description length in nats that a cluster saves "
        "by modelling a feature with its own distribution instead of that of the whole table. Margin: number of nats by which "
        "a row prefers its cluster to the next best one, on average; at 5 nats its cluster is 150 times as likely, near 0 the "
        "row lies between two clusters."
    )
    path = _wrap(report.fewer(model.merge_path_), room) + _wrap(report.suggested(model), room)
    return _wrap(text, room, "") + path + _dependence(model, room)


def _dependence(model: CRAFT, room: int) -> list[str]:
    """Links between columns, if they describe the table better than clusters."""
    if not (sentence := dependence_sentence(model)):
        return []
    strongest = [f"{a} - {b}" for a, b, _ in model.column_links_[:_MOST_LINKS]]
    return _wrap(sentence, room) + (report.listed("  strongest links:", strongest, room) if strongest else [])


def _blocks() -> str:
    """The characters that bars are drawn with: eighths of a block if the output can encode them, else "#"."""
    try:
        report.EIGHTHS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#"
    return report.EIGHTHS


def _write(folder: Path, model: CRAFT, roles: ColumnRoles) -> list[str]:
    """Write the three files of a fit and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / name for name in ("labels.csv", "summary.csv", "model.craftc")]
    with replacing(names[0]) as file:
        writer = csv.writer(file, lineterminator="\n")
        head = ["row", "cluster"]
        if roles.target is None:
            writer.writerow(head)
            writer.writerows(enumerate(model.labels_.tolist()))
        else:
            name = str(roles.target.name)
            writer.writerow([*head, "target" if name in head else name])
            classes = roles.target.astype(object).where(roles.target.notna(), "")
            rows = zip(model.labels_.tolist(), classes, strict=True)
            writer.writerows([row, *pair] for row, pair in enumerate(rows))
    with replacing(names[1]) as file:
        model.summary().to_csv(file, index=False, lineterminator="\n")
    save_model(model, names[2])
    return [str(name) for name in names]


class _Progress:
    """A progress line on stderr, overwritten in place; silent if stderr is not a terminal."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._last, self._visible = 0.0, False

    def __call__(self, start: int, n_starts: int, n_pass: int, n_clusters: int, objective: float) -> None:
        if time.monotonic() - self._last > 0.1:
            found = report.plural(n_clusters, "cluster")
            self.show(f"start {start + 1}/{n_starts}, pass {n_pass}, {found} …")

    def show(self, text: str) -> None:
        if self._on:
            self._last, self._visible = time.monotonic(), True
            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{report.cut(text, room)}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._visible:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._visible = False


# ---- predict ----


def _predict(options: argparse.Namespace) -> None:
    effective_n_threads(options.threads)
    if options.out is not None:
        for name in (options.model, options.table):
            if os.path.exists(name) and os.path.exists(options.out) and os.path.samefile(options.out, name):
                raise ValueError(f"--out {options.out!r} would overwrite an input file; pass another name.")
    model = load_model(options.model)
    if not isinstance(model, CRAFT):
        raise ValueError(f"{options.model!r} holds a fitted {type(model).__name__}; craftc predict needs a CRAFT.")
    model.n_threads = options.threads
    rows, notes = match_columns(_raw_table(options), model.schema_, options.table, options.na)
    for note in notes:
        print(f"craftc: note: {report.clean(in_options(note))}", file=sys.stderr)
    table = model.schema_.encode(rows, unknown=model.unknown, estimator_name="the model")
    if options.out is None:
        _write_predictions(sys.stdout, model, table)
    else:
        with replacing(options.out) as file:
            _write_predictions(file, model, table)


def _write_predictions(file: Any, model: CRAFT, table: Any) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["row", "cluster", "cost"])
    for first in range(0, len(table), _ROWS_AT_ONCE):
        part = table.take(slice(first, first + _ROWS_AT_ONCE))
        labels, costs = model.predict(part), model.transform(part)
        cost = costs[np.arange(len(part)), labels].tolist()
        writer.writerows(zip(range(first, first + len(part)), labels.tolist(), cost, strict=True))
