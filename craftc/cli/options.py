"""The commands of ``craftc`` and their options. The rest is imported when a command runs."""

from __future__ import annotations

import difflib
import gc
import importlib
import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import click

from craftc import _about
from craftc.cli.arguments import (
    HOW_TABLES_ARE_READ,
    ClusterOptions,
    CompareOptions,
    ExportOptions,
    PredictOptions,
    RefitOptions,
)
from craftc.cli.option_types import AutoOrNumber, NumberOrRange, Size

F = TypeVar("F", bound=Callable[..., object])

_SLOW = ("scipy.stats",)  # scikit-learn imports it at its start, for functions that no command calls


class _Deferred(ModuleType):
    """Stands for a module until one of its attributes is read, which imports the module."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _quick_imports() -> Iterator[None]:
    """Import without the garbage collector, which finds next to no garbage, and without `_SLOW` modules."""
    for name in _SLOW:
        sys.modules.setdefault(name, _Deferred(name))
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collected:
            gc.enable()


_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class _Command(click.Command):
    """A command whose options of several values take all words up to the next option: ``--ignore a b``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._one_value_each(ctx, args))

    def _one_value_each(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        options = {
            name: option for option in self.params if isinstance(option, click.Option) for name in option.opts
        }
        words, out, n_arguments = deque(args), list[str](), 0
        last: tuple[str, list[str]] = ("", [])  # the latest option of several values, and these
        while words:
            word = words.popleft()
            option = options.get(word)
            if word == "--":
                return [*out, word, *words]
            if option is None or option.is_flag:
                out.append(word)
                n_arguments += _is_value(word)
            elif option.multiple:
                last = word, _values(word, words, ctx)
                out += [f"{word}={value}" for value in last[1]]
            else:
                out += [word, *([words.popleft()] if words else [])]
        if {"--help", "-h"}.intersection(args):
            return out
        return self._with_arguments(out, n_arguments, *last, ctx)

    def _with_arguments(
        self, words: list[str], n_arguments: int, option: str, values: list[str], ctx: click.Context
    ) -> list[str]:
        """The words, whose missing arguments are the last values of the latest option of several values."""
        arguments = [
            each.human_readable_name.split()[0] for each in self.params if isinstance(each, click.Argument)
        ]
        missing = arguments[n_arguments:]
        if not missing or len(values) <= len(missing):
            return words
        n = len(missing)
        if any(each.nargs < 0 for each in self.params if isinstance(each, click.Argument)):
            n = max(n, sum(map(os.path.exists, values)))
        rest = values[-n:]
        if not all(value == "-" or os.path.exists(value) for value in rest):
            names = " ".join(missing)
            raise click.UsageError(
                f"{names} is missing: {option} takes all words after it ({', '.join(map(repr, values))}). "
                f"Put {names} before the options.",
                ctx,
            )
        for value in rest:
            words.remove(f"{option}={value}")
        return [*words, "--", *rest]


def _values(option: str, words: deque[str], ctx: click.Context) -> list[str]:
    """Take the values of an option off the beginning of the words."""
    values = []
    while words and _is_value(words[0]):
        values.append(words.popleft())
    if not values:
        raise click.BadOptionUsage(option, f"{option} needs at least one value.", ctx)
    return values


def _is_value(word: str) -> bool:
    return not word.startswith("-") or word == "-" or _NUMBER.fullmatch(word) is not None


class _Group(click.Group):
    """Commands, with a hint where the name of the command is missing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            commands, option = self.commands.items(), error.option_name
            owners = [name for name, each in commands if any(option in own.opts for own in each.params)]
            if not owners:
                raise
            raise click.UsageError(
                f"{error.option_name} is an option of craftc {owners[0]}; name the command first.", ctx
            ) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.commands:
            close = difflib.get_close_matches(name, list(self.commands), n=1)
            if close or os.path.exists(name):
                hint = f"Did you mean craftc {close[0]}?" if close else f"Did you mean craftc cluster {name}?"
            else:
                hint = f"The commands are {', '.join(self.commands)}."
            raise click.UsageError(f"There is no command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(_about.version(), message="craftc %(version)s")
@click.pass_context
def craftc(ctx: click.Context) -> None:
    """Cluster tables that mix numbers, categories and missing values."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _columns(name: str, help: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, metavar="COL ...", help=help)


_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a page.")
_only_results = click.option(
    "--quiet", is_flag=True, help="Print nothing but errors (and the JSON document)."
)
_without_notes = click.option("--quiet", is_flag=True, help="Print no notes.")
_keep_columns = click.option("--keep", is_flag=True, help="labels.csv repeats all columns of the table.")


def _weighed(further: str) -> Callable[[F], F]:
    """The options of the weights of rows."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--scale-weight",
                is_flag=True,
                help="Scale the weights of --weight to the number of rows that they are worth, as those of a "
                "survey.",
            ),
            click.option(
                "--weight",
                metavar="COL",
                help=f"Column of weights of the rows: a row of weight 2 counts twice. {further}",
            ),
        ):
            command = option(command)
        return command

    return add


_as_in_the_fit = _weighed("Default: that of the fit, scaled as there, if it had weights.")


def _reading(command: F) -> F:
    """The options of reading a table."""
    for option in (
        click.option(
            "--out-of-core/--in-memory",
            "in_batches",
            default=None,
            help="Whether Parquet and Arrow files are read in batches (default: where their size exceeds an "
            "eighth of the free memory; `predict` also reads several files so).",
        ),
        click.option("--threads", type=int, metavar="N", help="Number of threads (default: all processors)."),
        click.option(
            "--header",
            type=click.Choice(("infer", "yes", "no")),
            default="infer",
            show_default=True,
            help="Whether the first line holds the column names.",
        ),
        click.option("--skip", type=int, default=0, metavar="N", help="Number of lines before the table."),
        click.option(
            "--delimiter",
            default="infer",
            show_default=True,
            metavar="C",
            help="Character between the cells of a text file.",
        ),
        click.option(
            "--encoding", default="infer", show_default=True, metavar="NAME", help="Encoding of a text file."
        ),
        click.option(
            "--decimal",
            type=click.Choice(("infer", ".", ",")),
            default="infer",
            show_default=True,
            help="Decimal mark of numbers such as 1.234.",
        ),
        click.option(
            "--blanks",
            type=click.Choice(("auto", "missing")),
            default="auto",
            show_default=True,
            help="Blank cells next to a single value are no (auto), or missing.",
        ),
        click.option(
            "--all-lines",
            is_flag=True,
            help="Keep lines that are no rows: empty ones, totals, footnotes, repeated column names, other "
            "tables below or next to the rows.",
        ),
        click.option(
            "--sheet", metavar="NAME", help="Sheet of a workbook (default: the first that is a table)."
        ),
        click.option("--na", multiple=True, metavar="TEXT ...", help="Further cells that are missing."),
    ):
        command = option(command)
    return command


class _ClusterCommand(_Command):
    """`cluster`, whose help ends with how a table is read."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from craftc.reading.cells import MAX_INTEGER_CODES

        formatter.write(HOW_TABLES_ARE_READ.format(codes=MAX_INTEGER_CODES))


@craftc.command(cls=_ClusterCommand)
@click.argument("tables", metavar="TABLE ...", nargs=-1, required=True)
@click.option(
    "--clusters",
    type=NumberOrRange(),
    metavar="K",
    help="Number of clusters, or the smallest and largest number as 3-6 (default: chosen automatically).",
)
@click.option(
    "--min-cluster-size",
    type=Size(),
    metavar="N",
    help="Smallest size of a cluster: rows, or a share of the rows as 0.05.",
)
@click.option("--max-cluster-size", type=Size(), metavar="N", help="Largest size of a cluster, likewise.")
@click.option(
    "--groups",
    metavar="COL",
    help="Column of households, say, whose rows stay in one cluster: not used for clustering otherwise.",
)
@_weighed("Not used for clustering otherwise.")
@click.option(
    "--column-weight",
    "column_weights",
    multiple=True,
    metavar="COL=W ...",
    help="Weights of columns: income=2 counts a column twice, sex=0 shows it and does not use it.",
)
@click.option(
    "--outlier-price",
    type=float,
    metavar="NATS",
    help="Rows that save less than this in every cluster, compared with no clusters, belong to none (-1).",
)
@click.option(
    "--target",
    metavar="COL",
    help="Column of known classes or numbers: not used for clustering, compared with the clusters.",
)
@_columns("--ignore", "Columns to exclude.")
@_columns("--categorical", "Columns to treat as categorical.")
@_columns("--numeric", "Columns to treat as numeric.")
@_columns("--split", "Columns whose cells hold several answers (default: found by their texts).")
@click.option(
    "--labels",
    metavar="FILE",
    help='Names of your own: a file of two columns, a column of the table or "cluster 1", and its name.',
)
@click.option(
    "--dates",
    type=click.Choice(("auto", "parts", "drop")),
    default="auto",
    show_default=True,
    help="Dates become numbers of days (auto), followed by hour, weekday and season (parts), or are excluded "
    "(drop).",
)
@click.option(
    "--missing",
    type=click.Choice(("ignore", "category", "error")),
    default="ignore",
    show_default=True,
    help="Missing values have no cost (ignore), are a level of their own (category), or are an error.",
)
@click.option(
    "--price-factor",
    type=AutoOrNumber(),
    default="auto",
    metavar="F",
    help="Factor of the price of clusters and parameters; larger values give fewer clusters (default: 1 up "
    "to 1,000 rows and for separate groups, otherwise rows / 1000).",
)
@click.option(
    "--feature-sharing",
    type=click.FloatRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    metavar="S",
    help="How far all clusters select the same columns: each its own (0), all the same (1), or between.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    metavar="S",
    help="Random seed.",
)
@click.option(
    "--starts",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Fit from N seeds, keep the shortest description, and report how far the fits agree.",
)
@click.option(
    "--stability",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Refit N times on 80 % of the rows, and report how far the clusters agree.",
)
@click.option(
    "--details",
    is_flag=True,
    help="Print everything: all clusters with their features, all columns and notes.",
)
@click.option(
    "--all-features",
    is_flag=True,
    help="As --details, with all features of a cluster, not only the 8 with the largest gains.",
)
@_as_json
@_only_results
@click.option(
    "--out", metavar="DIR", help="Folder for labels.csv, summary.csv, model.craftc and report.html."
)
@click.option(
    "--scratch",
    metavar="DIR",
    help="Folder for the scratch files of --out-of-core (default: the system's temporary folder).",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Scheduler of a Dask cluster, as tcp://HOST:8786, whose workers read the Parquet or Arrow files. "
    "In the folder of --out, labels/ holds one file of labels for each file.",
)
@click.option(
    "--escape-formulas",
    is_flag=True,
    help="Put an apostrophe before texts in labels.csv and summary.csv that a spreadsheet would take as "
    "formulas (=, +, -, @).",
)
@_keep_columns
@_reading
def cluster(tables: Sequence[str], **options: Any) -> None:
    """Find the clusters of a table and the columns that define each.

    Clusters are numbered by size: 1 is the largest, on the screen and in all files. TABLE has one observation
    per row. Several files, a folder or a pattern are read as one table; they have the same columns.
    """
    with _quick_imports():
        from craftc.cli.cluster import run
    run(ClusterOptions(table=tables[0], more=tables[1:], **options))


@craftc.command(cls=_Command)
@click.argument("model")
@click.argument("table")
@click.option(
    "--out",
    metavar="FILE",
    help="File to write, as its name ends: .csv, .csv.gz, .parquet, .arrow, .xlsx or .jsonl (default: CSV on "
    "standard output); for a folder of tables, the folder of results, with manifest.json.",
)
@_columns("--id", "Columns that identify a row, in place of its number.")
@click.option("--keep", is_flag=True, help="Results repeat all columns of the table.")
@click.option(
    "--format",
    type=click.Choice(("csv", "csv.gz", "parquet", "arrow", "xlsx", "jsonl")),
    default="csv",
    show_default=True,
    help="Format of the results of a folder.",
)
@click.option(
    "--log",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Lines on standard error: notes, or one JSON object for every stage, file and note.",
)
@click.option(
    "--fail-on-drift",
    type=click.FloatRange(0.0),
    metavar="NATS",
    help="Exit code 4 if the rows are further from those of the fit, after all results are written.",
)
@_weighed("For --fail-on-drift; default: that of the fit, scaled as there, if it had weights.")
@_without_notes
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Scheduler of a Dask cluster, as tcp://HOST:8786, whose workers read the Parquet or Arrow files "
    "and write the results.",
)
@_reading
def predict(**options: Any) -> None:
    """Assign the rows of a table to the clusters of a model.

    MODEL is a model.craftc, or the folder that craftc cluster --out wrote; TABLE has the columns of the
    model. Writes cluster (numbered as by craftc cluster), its name, cost in nats (lower is better), margin to
    the next cluster, probability, next cluster. Files of a folder that are done are skipped in a second run.
    """
    with _quick_imports():
        from craftc.cli.predict import run
    run(PredictOptions(**options))


@craftc.command(cls=_Command)
@click.argument("model")
@click.option(
    "--sql",
    metavar="DIALECT",
    help="Write SQL: bigquery, duckdb, mysql, postgres, snowflake, spark, sqlite or tsql (SQL Server).",
)
@click.option("--onnx", is_flag=True, help="Write an ONNX graph to the file of --out.")
@click.option(
    "--table",
    default="customers",
    show_default=True,
    metavar="NAME",
    help="Table or view that the statement reads, as NAME or SCHEMA.NAME.",
)
@_columns("--key", "Columns that the statement repeats (default: id).")
@click.option(
    "--margin/--no-margin",
    default=True,
    help="Whether to return the margin to the next cluster (default: yes).",
)
@click.option("--probabilities", is_flag=True, help="Return the probability of every cluster.")
@click.option("--out", metavar="FILE", help="File to write (default: standard output).")
def export(**options: Any) -> None:
    """Write a model as one statement of SQL that assigns the rows of a table to its clusters, or as ONNX.

    MODEL is a model.craftc, or the folder that craftc cluster --out wrote. Clusters have the numbers of the
    report.
    """
    with _quick_imports():
        from craftc.cli.export import run
    run(ExportOptions(**options))


@craftc.command(cls=_Command)
@click.argument("model")
@click.argument("table")
@_as_in_the_fit
@_as_json
@_without_notes
@_reading
def compare(**options: Any) -> None:
    """Compare the rows of a table with those of the fit of a model.

    Prints the shares of the clusters, the log probability of a row and the columns whose distributions have
    moved, in nats per row, without what is due to chance.
    """
    with _quick_imports():
        from craftc.cli.compare import run
    run(CompareOptions(out=None, scheduler=None, **options))


@craftc.command(cls=_Command)
@click.argument("model")
@click.argument("table")
@click.option(
    "--out",
    metavar="DIR",
    help="Folder for labels.csv, summary.csv, changes.csv, model.craftc and report.html; it may be that of "
    "MODEL.",
)
@click.option(
    "--keep-clusters",
    is_flag=True,
    help="Assign rows as the last fit does, and update only sizes and distributions.",
)
@_as_in_the_fit
@_as_json
@_only_results
@click.option(
    "--escape-formulas",
    is_flag=True,
    help="Put an apostrophe before texts in CSV files that a spreadsheet would take as formulas.",
)
@_keep_columns
@_reading
def refit(**options: Any) -> None:
    """Carry the clusters of a model on to another table, such as that of the next month.

    Clusters keep the numbers, and names that were given to them, of the former ones that they continue. Other
    names say what the new rows are like. Prints which were kept, split, merged, born or died, with their
    shares then and now.
    """
    with _quick_imports():
        from craftc.cli.refit import run
    run(RefitOptions(scheduler=None, **options))


@craftc.command(cls=_Command)
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def info(model: str | None, as_json: bool) -> None:
    """Print what a model file holds; without MODEL, versions, threads and instruction set."""
    if model is None:
        click.echo(json.dumps(_about.versions(), indent=1)) if as_json else _about.show_versions()
        return
    with _quick_imports():
        from craftc.cli.info import run as describe
    describe(model, as_json)
