"""The command ``craftc``: clusters of a table file, and new rows put into them."""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from craftc import _about
from craftc._common.atomic_write import replacing
from craftc._common.threads import effective_n_threads
from craftc.cli import report
from craftc.cli.columns import FEW_VALUES, Choice, choose, match
from craftc.cli.read_table import read_file
from craftc.craft import CRAFT
from craftc.craft.model_file import load_model, save_model

_MOST_FEATURES = 8
_ROWS_AT_ONCE = 1 << 16

_READING = f"""\
how a table is read:
  .csv, .tsv and .txt (also .gz) with the column names in the first line; the delimiter (comma,
  semicolon, tab or |) is found by itself. Also .parquet and .feather.
  An empty cell and "?" are missing. Among numbers NA, N/A, NaN, null, none and - are missing too;
  in a text column they are levels like any other.
  Text and truth values are categories. Whole numbers with at most {FEW_VALUES} different values are
  taken for codes of categories and shown level by level; --numeric shows their mean instead.
  Numbers need no scaling: skewed ones count by rank, a value that fills a fifth of its column
  counts by itself, and a column of at most 10 different values counts value by value.
  Columns with dates, without any value, with a different text in every row, or that only count
  the rows are set aside, and the output says so.
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; None: those of the process.

    Returns
    -------
    int
        Exit code: 0, 2 after a message on stderr, 130 after Ctrl-C, 141 if nobody reads the output.
    """
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a character gets a "?"
        if hasattr(stream, "reconfigure") and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    try:
        options = _parser().parse_args(argv)
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the interpreter flushes stdout once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print(f"craftc: {_sentence(error)}", file=sys.stderr)
        return 2
    return 0


def _sentence(error: BaseException) -> str:
    """An error as one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    if isinstance(error, MemoryError):
        return "the table does not fit into memory."
    return report.clean(_in_options(str(error)))


def _in_options(sentence: str) -> str:
    """What the estimator says in the words of the command line."""
    words = sentence.replace("price_factor=", "--price-factor ").replace("n_clusters=", "--clusters ")
    return words.replace("cut(k)", "--clusters K").removeprefix("CRAFT found ")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="craftc", description="Clusters of mixed tables, and why they are ones.")
    parser.add_argument("--version", action="version", version=f"craftc {_about.version()}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    verb = verbs.add_parser(
        "cluster",
        help="find the clusters of a table",
        description="Find the clusters of a table, each with the features that make it one.",
        epilog=_READING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("table", metavar="TABLE", help="file with one row per thing")
    verb.add_argument("--clusters", type=int, metavar="K", help="as many clusters as this (default: as many as the table shows)")
    verb.add_argument("--target", metavar="COL", help="known classes: compared, not clustered")
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "metavar": "COL", "default": []}
    verb.add_argument("--ignore", help="columns to leave out", **several)
    verb.add_argument("--categorical", help="columns to take for categories", **several)
    verb.add_argument("--numeric", help="columns to take for numbers", **several)
    verb.add_argument(
        "--missing",
        choices=("ignore", "category", "error"),
        default="ignore",
        help="a missing cell counts nothing (default), is a category of its own, or is an error",
    )
    verb.add_argument(
        "--price-factor",
        type=float,
        default=1.0,
        metavar="F",
        help="above 1: clusters must be clearer to count, so there are fewer (default 1)",
    )
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="random seed (default 0)")
    verb.add_argument(
        "--all-features",
        action="store_true",
        help=f"print all features a cluster selected, not only the {_MOST_FEATURES} largest gains",
    )
    verb.add_argument(
        "--out", metavar="DIR", help="write labels.csv, summary.csv and model.craftc there"
    )
    _add_threads(verb)
    verb.set_defaults(run=_cluster)

    verb = verbs.add_parser(
        "predict",
        help="put the rows of a table into the clusters of a model",
        description="Write row, cluster and cost (nats; lower fits better) of every row as CSV.",
    )
    verb.add_argument("model", metavar="MODEL", help="model.craftc, written by craftc cluster")
    verb.add_argument("table", metavar="TABLE", help="file with the columns of the model")
    verb.add_argument("--out", metavar="FILE", help="CSV file to write; default: print it")
    _add_threads(verb)
    verb.set_defaults(run=_predict)

    verb = verbs.add_parser("info", help="print versions and what this machine offers")
    verb.set_defaults(run=lambda options: _about.show_versions())
    return parser


def _add_threads(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--threads", type=int, metavar="N", help="threads (default: all processors)")


# ---- cluster ----


def _cluster(options: argparse.Namespace) -> None:
    effective_n_threads(options.threads)
    if options.out is not None and Path(options.out).exists() and not Path(options.out).is_dir():
        raise ValueError(f"--out {options.out!r} is a file; give the name of a folder.")
    progress = _Progress()
    progress.show(f"reading {options.table} …")
    frame, notes = read_file(options.table, as_text=options.categorical)
    choice = choose(
        frame,
        target=options.target,
        ignore=options.ignore,
        categorical=options.categorical,
        numeric=options.numeric,
    )
    model = CRAFT(
        options.clusters,
        price_factor=options.price_factor,
        missing=options.missing,
        random_state=options.seed,
        n_threads=options.threads,
    )
    model._progress = progress
    progress.show("looking for a first partition …")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(choice.features)
    finally:
        progress.clear()
        del model._progress
    written = [] if options.out is None else _write(Path(options.out), model, choice)

    room = min(max(shutil.get_terminal_size((100, 0)).columns, 60), 100)
    lines = _opening(options.table, choice, notes + choice.notes, room)
    lines += ["", *_headline(model, options.clusters, room)]
    lines += _notes([_in_options(str(warning.message)) for warning in caught], room)
    if model.n_clusters_ > 1:
        most = None if options.all_features else _MOST_FEATURES
        lines += report.clusters(model, room, most=most, blocks=_blocks())
    if choice.target is not None:
        lines += report.comparison(options.target, choice.target, model.labels_, room)
    if written:
        lines += ["", *report.listed("Wrote", written, room)]
    print("\n".join(lines))


def _opening(table: str, choice: Choice, notes: list[str], room: int) -> list[str]:
    """What was read: one line of counts, then which column is what."""
    features, numbers = choice.features, choice.numbers
    holes = int(features.isna().to_numpy().sum())
    found = (
        f"{report.plural(len(features), 'row')}; "
        f"{report.plural(len(numbers), 'numeric column')}, "
        f"{report.plural(len(choice.categories), 'categorical column')}, "
        + (report.plural(holes, "missing cell") if holes else "no missing cells")
    )
    lines = _wrap(f"{report.clean(table)}: {found}", room)
    if numbers:
        lines += report.listed("  numbers:   ", numbers, room)
    if choice.categories:
        lines += report.listed("  categories:", choice.categories, room)
    if choice.codes:
        label = f"  of these, whole numbers of at most {FEW_VALUES} values:"
        lines += report.listed(label, choice.codes, room)
        lines.append("  (--numeric COL or --categorical COL change that)")
    for reason in dict.fromkeys(choice.aside.values()):
        names = [name for name, why in choice.aside.items() if why == reason]
        lines += report.listed(f"  not used ({reason}):", names, room)
    return lines + _notes(notes, room)


def _notes(sentences: list[str], room: int) -> list[str]:
    return [line for text in sentences for line in _wrap(f"Note: {report.clean(text)}", room)]


def _wrap(text: str, room: int, indent: str = "  ") -> list[str]:
    """Lines no wider than the room, except for words (a path) that are."""
    return textwrap.wrap(
        text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _headline(model: CRAFT, wish: int | None, room: int) -> list[str]:
    """How many clusters there are, how the numbers below are meant, and what fewer would cost."""
    K = model.n_clusters_
    if K == 1:
        found = "1 cluster, as asked for." if wish == 1 else "The table does not fall into groups: 1 cluster."
        return _wrap(found, room, "")
    short = "" if wish is None or wish == K else f" (the table cannot be cut into {wish})"
    text = (
        f"{report.plural(K, 'cluster')}{short}, largest first. Gain: how much better (in nats) the "
        "cluster's own values of a feature describe its rows than those of the whole table do. "
        "Inside: how much better a row fits its cluster than the next best one; at 5 nats it is 150 "
        "times likelier there, near 0 it lies between the two."
    )
    return _wrap(text, room, "") + _wrap(report.fewer(model.merge_path_), room)


def _blocks() -> str:
    """Of which bars are made, where the output can show it: the eighths of a block."""
    try:
        report.EIGHTHS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#"
    return report.EIGHTHS


def _write(folder: Path, model: CRAFT, choice: Choice) -> list[str]:
    """Write the three files of a fit; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / name for name in ("labels.csv", "summary.csv", "model.craftc")]
    with replacing(names[0]) as file:
        writer = csv.writer(file, lineterminator="\n")
        head = ["row", "cluster"]
        if choice.target is None:
            writer.writerow(head)
            writer.writerows(enumerate(model.labels_.tolist()))
        else:
            name = str(choice.target.name)
            writer.writerow([*head, "target" if name in head else name])
            classes = choice.target.astype(object).where(choice.target.notna(), "")
            rows = zip(model.labels_.tolist(), classes, strict=True)
            writer.writerows([row, *pair] for row, pair in enumerate(rows))
    with replacing(names[1]) as file:
        model.summary().to_csv(file, index=False, lineterminator="\n")
    save_model(model, names[2])
    return [str(name) for name in names]


class _Progress:
    """One line on a terminal that is written again and again; nothing anywhere else."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._last, self._shown = 0.0, False

    def __call__(
        self, start: int, n_starts: int, n_pass: int, n_clusters: int, objective: float
    ) -> None:
        if time.monotonic() - self._last > 0.1:
            found = report.plural(n_clusters, "cluster")
            self.show(f"start {start + 1}/{n_starts}, pass {n_pass}, {found} …")

    def show(self, text: str) -> None:
        if self._on:
            self._last, self._shown = time.monotonic(), True
            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{report.cut(text, room)}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


# ---- predict ----


def _predict(options: argparse.Namespace) -> None:
    effective_n_threads(options.threads)
    if options.out is not None:
        for name in (options.model, options.table):
            if os.path.exists(options.out) and os.path.samefile(options.out, name):
                raise ValueError(f"--out {options.out!r} would overwrite what is read from it.")
    model = load_model(options.model)
    model.n_threads = options.threads
    frame, notes = read_file(options.table, as_text=model.schema_.categorical_names)
    rows, more = match(frame, model.schema_, options.table)
    for note in [*notes, *more]:
        print(f"craftc: note: {report.clean(note)}", file=sys.stderr)
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
