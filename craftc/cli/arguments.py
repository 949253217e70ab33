"""The values of the options of each command, long texts of ``--help``, and the texts of messages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

_LONGEST_MESSAGE = 2000

#: Parameters that an option of the same name has, but for the dashes.
_SAME_NAME = "price_factor outlier_price feature_sharing min_cluster_size max_cluster_size groups"
HOW_TABLES_ARE_READ = """
How a table is read (as craftc.read_table reads it in Python):
  Formats: CSV and the like, JSON, ARFF, Excel (.xlsx), Parquet, Feather, SPSS, Stata, SAS; each also
  compressed (gzip, bzip2, xz, zip); "-" is standard input. The content decides, and the delimiter
  (comma, semicolon, tab, | or another) is detected. Several files, a folder or a pattern are one table.
  A title above the column names is skipped (--skip, --header).
  Missing values: empty cells and "?". In columns of numbers and dates also NA, n/a, NaN, null, none
  and -; in text columns these are levels, unless --na names them.
  Numeric columns: also $1,200, 12%, 7 km, (3.20) and 1.234,50. A few other cells become missing.
  Categorical columns: text, codes such as 007, and integers with at most {codes} distinct values (--numeric
  treats such a column as numeric), unless five columns or more have answers on one scale such as 1 to 5.
  Dates become days since 1970-01-01, shown as dates.
  Numeric columns need no scaling. A column of up to 64 distinct values is modelled value by value,
  others by about 64 intervals, so that skewed, rounded and repeated numbers need no treatment.
  Excluded columns: row counters and other ids, columns without any value or with one value, and text
  columns with a different text in every row. The output lists them; --numeric and --categorical
  include them.
"""


def _na_option(found: re.Match[str]) -> str:
    return f"--na {found[1].replace(',', '')} makes"


#: What messages of the library say, and what the command line says in its place, in this order.
_IN_OPTIONS: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"\bn_clusters=\((\d+), (\d+)\)", r"--clusters \1-\2"),
    (r"; pass \((\d+), (\d+)\)", r"; pass \1-\2"),
    (r"\bn_clusters(?:=| (?=must ))", "--clusters "),
    *((rf"\b{name}(?:=| (?=must ))", f"--{name.replace('_', '-')} ") for name in _SAME_NAME.split()),
    (r"(?<!['\w])column_weights(?!['\w])", "--column-weight"),
    (r"(?<!['\w])sample_weight(?!['\w])", "--weight"),
    (r"multiply them by [\d.e-]+\.$", "add --scale-weight."),
    (r"na_values=\[(.*)\] makes", _na_option),
    (r"kinds=\{('[^']*'): 'number'\}", r"--numeric \1"),
    (r"; kinds=\{'[^']*': \('periodic', 24\)\} makes them times of day", ""),
    (r"kinds=\{('[^']*'): 'category'\}", r"--categorical \1"),
    (r"table\[('[^']*')\]\.astype\(float\)", r"--numeric \1"),
    (r"kinds=\{('[^']*'): 'ignore'\}", r"--ignore \1"),
    (r"blanks='missing'", "--blanks missing"),
    (r"keep='clusters'", "--keep-clusters"),
    (r"\b(delimiter|encoding|sheet|decimal|skip)=", r"--\1 "),
    (r"^(.+?)( holds several (?:answers|numbers).*; )split=\[\] keeps", r"\1\2--categorical \1 keeps"),
    (r"(; )on_unusable='keep' (keeps them\.)$", r"\1--categorical NAMES \2"),
    (
        r"on_unusable='keep' keeps such columns",
        "name columns in --numeric or --categorical to include them",
    ),
    (r"\ball_lines=True", "--all-lines"),
    (r"\bheader=True", "--header yes"),
    (r"rename_clusters: ", "--labels: "),
    (r"\bdialect must", "--sql: the dialect must"),
    (r"\bcut\(k\)", "--clusters K"),
]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is read, and where results go: the options of every command that reads a table."""

    table: str  # file, folder, pattern, or "-"
    more: Sequence[str] = ()  # further ones, which are read as one table with the first
    out: str | None
    quiet: bool
    in_batches: bool | None
    scheduler: str | None  # address
    threads: int | None
    header: str
    skip: int
    delimiter: str
    encoding: str
    sheet: str | None
    decimal: str
    blanks: str
    all_lines: bool
    na: Sequence[str]

    @property
    def source(self) -> str | list[str]:
        """What is read."""
        return [self.table, *self.more] if self.more else self.table

    @property
    def shown(self) -> str:
        """What is read, in messages and results."""
        n = len(self.more)
        return f"{self.table} and {n} more" if n else self.table

    def check(self) -> None:
        if self.scheduler is not None and self.in_batches is False:
            raise ValueError("--scheduler reads files in batches; leave out --in-memory.")
        if self.scheduler is not None and self.more:
            raise ValueError(
                f"--scheduler reads one file, folder or pattern, got {1 + len(self.more)} names."
            )


@dataclass(frozen=True, kw_only=True)
class WeighedOptions(TableOptions):
    """What rows count."""

    weight: str | None  # column of the weights of the rows
    scale_weight: bool  # to the rows that they are worth

    def check(self) -> None:
        """Raise ValueError if options contradict each other."""
        if self.scale_weight and self.weight is None:
            raise ValueError(
                "--scale-weight scales the weights of --weight COLUMN, which is not there; add it."
            )
        super().check()


@dataclass(frozen=True, kw_only=True)
class FitOptions(WeighedOptions):
    """What is printed and written about a fit; `out` is a folder."""

    as_json: bool
    escape_formulas: bool
    keep: bool

    def check(self) -> None:
        """Raise ValueError if options contradict each other, or if the results have no folder."""
        if self.out is not None and not self.out.strip():
            raise ValueError("--out needs the name of a folder, got an empty one.")
        if self.out is not None and os.path.exists(self.out) and not os.path.isdir(self.out):
            raise ValueError(f"--out {self.out!r} is a file; pass the name of a folder.")
        super().check()


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(FitOptions):
    clusters: int | tuple[int, int] | None
    min_cluster_size: float | None
    max_cluster_size: float | None
    groups: str | None
    column_weights: Sequence[str]  # NAME=W
    outlier_price: float | None
    target: str | None
    ignore: Sequence[str]
    categorical: Sequence[str]
    numeric: Sequence[str]
    split: Sequence[str]
    labels: str | None  # file of names of columns and clusters
    dates: str
    missing: str
    price_factor: float | Literal["auto"]
    feature_sharing: float
    seed: int
    starts: int  # seeds
    stability: int | None  # refits
    details: bool
    all_features: bool
    scratch: str | None

    @property
    def weights_of_columns(self) -> dict[str, float]:
        """The weights of columns by their names; ValueError for texts that are none."""
        found: dict[str, float] = {}
        for text in self.column_weights:
            name, equals, weight = text.rpartition("=")
            try:
                value = float(weight)
            except ValueError:
                equals = ""
            if not (name and equals):
                raise ValueError(f"--column-weight needs a column and its weight, as income=2, got {text!r}.")
            if name in found:
                raise ValueError(f"--column-weight names column {name!r} twice; name it once.")
            found[name] = value
        return found

    def check(self) -> None:
        super().check()
        _ = self.weights_of_columns


@dataclass(frozen=True, kw_only=True)
class PredictOptions(WeighedOptions):
    model: str  # file or folder
    id: Sequence[str]
    keep: bool
    format: str
    log: str
    fail_on_drift: float | None  # nats per row

    def check(self) -> None:
        super().check()
        if self.weight is not None and self.fail_on_drift is None:
            raise ValueError("--weight weighs rows for --fail-on-drift, which is not there; add it.")


class DriftError(ValueError):
    """The rows of a table are further from those of the fit than the caller allows."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions(WeighedOptions):
    model: str  # file or folder
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class RefitOptions(FitOptions):
    model: str  # file or folder
    keep_clusters: bool


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    model: str  # file or folder
    sql: str | None  # dialect
    onnx: bool
    table: str
    key: Sequence[str]
    margin: bool
    probabilities: bool
    out: str | None


def clean(text: str) -> str:
    """A message as one line of a terminal: without line breaks and control characters."""
    if len(text) > _LONGEST_MESSAGE:
        text = text[:_LONGEST_MESSAGE] + "…"
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\ufffd" for c in line) or "''"


def in_options(message: str) -> str:
    """A message of the library with parameters replaced by options; names in quotes stay."""
    for pattern, option in _IN_OPTIONS:
        message = re.sub(pattern, option, message)
    return message.removeprefix("CRAFT found ")
