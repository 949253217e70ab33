"""The roles of a table's columns on the command line, the columns that a model expects, and `--labels`.

The role of a column is decided in three steps, each with its own rule: in `craftc.reading.read_table`, by the
cells of a file or frame; in `craftc.table.frames`, by the dtype of a frame's column; and in
`craftc.table.levels`, which makes levels of numbers within the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc._common.own_names import OwnNames, check_distinct, checked_columns
from craftc._common.typing import Floats
from craftc._common.validation import scaled_to_worth
from craftc.cli.arguments import ClusterOptions
from craftc.cli.weights import weights_in
from craftc.craft import CRAFT
from craftc.describe.words import plural
from craftc.distributed.dask.inputs import DaskFiles
from craftc.reading.cells import NA_VALUES
from craftc.reading.files import RawTable
from craftc.reading.input_file import TableError, did_you_mean
from craftc.reading.labels import parted
from craftc.reading.prepare import prepare
from craftc.reading.roles import PreparedTable, Roles
from craftc.table import MixedTable, Schema
from craftc.table.answers import answer_groups
from craftc.table.level_column import MISSING_LEVEL
from craftc.table.reading import reading_of

if TYPE_CHECKING:
    import pandas as pd

    from craftc.cli.arguments import ClusterOptions

_ROWS = 1 << 16  # in which missing cells are counted at a time
_MOST = 12  # names that an error lists


@dataclass
class ColumnRoles:
    """The role of every column of a table, and the columns that are clustered."""

    features: pd.DataFrame | MixedTable | DaskFiles  # in memory, read in batches, or read by workers
    levels: str | list[str] = "auto"  # `categorical` of the estimator
    target: pd.Series | None = None  # known classes or numbers
    groups: pd.Series | None = None  # rows that stay together
    weight: Floats | None = None  # of the rows
    numeric: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)  # categorical columns that the file has as integers
    excluded: dict[str, str] = field(default_factory=dict)  # column: reason
    notes: list[str] = field(default_factory=list)

    @property
    def answers(self) -> list[str]:
        """Columns of the table that became a column for each of their answers."""
        read = reading_of(self.features).get("columns", {})
        return [name for name, recipe in read.items() if isinstance(recipe, Mapping) and "options" in recipe]

    @property
    def here(self) -> pd.DataFrame | MixedTable | None:
        """The rows, unless workers of a cluster hold them."""
        return None if isinstance(self.features, DaskFiles) else self.features

    @cached_property
    def n_missing(self) -> int:
        """Missing cells of the columns that are clustered."""
        table = self.features
        if isinstance(table, DaskFiles):
            return table.n_missing
        if not isinstance(table, MixedTable):
            return int(table.isna().to_numpy().sum())
        code = [
            len(levels) - (levels[-1:] == (MISSING_LEVEL,) and table.schema.missing == "category")
            for levels in table.levels
        ]
        slices = (slice(start, start + _ROWS) for start in range(0, len(table), _ROWS))
        return sum(
            int(np.isnan(table.numeric[rows]).sum()) + int((table.codes[rows] == code).sum())
            for rows in slices
        )


def assign_roles(raw: RawTable, options: ClusterOptions) -> ColumnRoles:
    """Decide the role of each column of a table, as `craftc.read_table` does."""
    names = list(raw.frame.columns)
    check_named(names, options, made=True)
    named = named_exclusions(options)
    excluded = {name: named[name] for name in names if name in named}
    if len(excluded) == len(names):
        raise TableError("No column is left to cluster: all of them are named by --target or --ignore.")
    features = replace(raw, frame=raw.frame.drop(columns=list(excluded)))
    dates_as = "days" if options.dates == "auto" else options.dates
    wanted = Roles(
        options.categorical,
        options.numeric,
        dates_as=dates_as,
        decimal=options.decimal,
        blanks=options.blanks,
        split=options.split or "auto",
        numeric_problem="--numeric needs numbers",
    )
    table = prepare(features, wanted, na_values=options.na)
    _ignore_made(table, names, options)
    roles = ColumnRoles(table.frame, codes=table.codes, notes=table.notes, excluded=table.unusable | excluded)
    if options.target is not None:
        classes = RawTable(raw.frame[[options.target]], [], raw.semicolons)
        roles.target = target_of(classes, options)
    if options.groups is not None:
        roles.groups = groups_in(raw.frame[options.groups], options, roles.notes)
    if options.weight is not None:
        roles.weight = fit_weights(raw.frame[[options.weight]], options)
    is_numeric = need_pandas().api.types.is_numeric_dtype
    for name in table.frame.columns:
        (roles.numeric if is_numeric(table.frame[name].dtype) else roles.categorical).append(name)
    return roles


def _ignore_made(table: PreparedTable, names: Sequence[str], options: ClusterOptions) -> None:
    """Exclude parts of dates and answers that --ignore names; TableError if there are none of such a name."""
    for name in options.ignore:
        if name in names:
            continue
        if name not in table.frame:
            known = did_you_mean(name, [*names, *table.frame.columns])
            raise TableError(f"--ignore: the table has no column {quoted(name)}.{known}")
        if table.frame.shape[1] == 1:
            raise TableError("No column is left to cluster: all of them are named by --target or --ignore.")
        attrs = table.frame.attrs
        table.frame = table.frame.drop(columns=name)
        table.frame.attrs = attrs
        table.unusable[name] = "--ignore"


def fit_weights(column: pd.DataFrame, options: ClusterOptions) -> Floats:
    """The weights of the rows of a fit, scaled to the rows that they are worth if the options say so."""
    weights = weights_in(column, options.na)
    return scaled_to_worth(weights) if options.scale_weight and weights.any() else weights


def target_of(classes: RawTable, options: ClusterOptions) -> pd.Series:
    """The target, converted as a column of the table."""
    name = options.target
    return prepare(classes, Roles(kept=[str(name)]), na_values=options.na, drop=False).frame[name]


def named_exclusions(options: ClusterOptions) -> dict[str, str]:
    """The columns that options exclude, each with the reason."""
    target = {} if options.target is None else {options.target: "the target"}
    groups = {} if options.groups is None else {options.groups: "the groups"}
    weight = {} if options.weight is None else {options.weight: "the weights of the rows"}
    return dict.fromkeys(options.ignore, "--ignore") | groups | weight | target


def check_used(roles: ColumnRoles, options: ClusterOptions) -> None:
    """Raise TableError if --column-weight names a column that is not used."""
    for name in options.weights_of_columns:
        if name in roles.excluded:
            raise TableError(
                f"--column-weight: column {quoted(name)} is not used ({roles.excluded[name]}); leave out "
                "its weight."
            )


def groups_in(column: pd.Series, options: ClusterOptions, notes: list[str]) -> pd.Series:
    """The groups of the rows, of a column as the file has it; None, with a note, where a cell is missing."""
    gone = {*NA_VALUES, *map(as_text, options.na)}
    known = column.notna() & ~column.map(lambda cell: as_text(cell).strip() in gone).astype(bool)
    if n := len(column) - int(known.sum()):
        have, are = ("has", "is a group of its own") if n == 1 else ("have", "are each a group of their own")
        notes.insert(0, f"{plural(n, 'row')} {have} no {quoted(str(options.groups))} and {are} (--groups).")
    return column.astype(object).where(known, None)


def _is_made(name: str, names: Sequence[str]) -> bool:
    """Whether a column can be made of another one: a part of a date, or an answer."""
    return any(name.startswith((f"{other} ", f"{other}: ")) for other in names)


def check_named(names: Sequence[str], options: ClusterOptions, made: bool = False) -> None:
    """Raise TableError unless the columns that options name exist and have one role.

    `made`: whether columns are made of others, which --ignore may name.
    """
    known_names = set(names)
    for option, requested in (
        ("--target", [] if options.target is None else [options.target]),
        ("--groups", [] if options.groups is None else [options.groups]),
        ("--weight", [] if options.weight is None else [options.weight]),
        ("--ignore", [name for name in options.ignore if not (made and _is_made(name, names))]),
        ("--column-weight", [name for name in options.weights_of_columns if not _is_made(name, names)]),
        ("--categorical", options.categorical),
        ("--numeric", options.numeric),
        ("--split", options.split),
    ):
        for name in requested:
            if name not in known_names:
                known = did_you_mean(name, names) or f" The columns are {listed(names, _MOST)}."
                raise TableError(f"{option}: the table has no column {quoted(name)}.{known}")
    for name in options.categorical:
        if name in options.numeric:
            raise TableError(
                f"Column {quoted(name)} is named by both --categorical and --numeric; keep one of them."
            )


def with_own_names(options: ClusterOptions, names: Mapping[str, str]) -> ClusterOptions:
    """The options, with names of columns of one's own, as the page shows them, replaced by those of the
    table.
    """
    column_of = {new.strip(): old for old, new in names.items()}

    def known(given: Sequence[str]) -> list[str]:
        return [column_of.get(name, name) for name in given]

    def of(name: str | None) -> str | None:
        return name if name is None else column_of.get(name, name)

    def weighed(text: str) -> str:
        name, equals, weight = text.rpartition("=")
        return f"{of(name)}{equals}{weight}"

    return replace(
        options,
        target=of(options.target),
        groups=of(options.groups),
        weight=of(options.weight),
        column_weights=[weighed(text) for text in options.column_weights],
        ignore=known(options.ignore),
        categorical=known(options.categorical),
        numeric=known(options.numeric),
        split=known(options.split),
    )


def own_column_names(names: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """The names of one's own of columns that have one, or whose answers belong to a column that has one."""
    own = dict(names)
    for group in answer_groups(schema):
        if group.name in names:
            for position, option in zip(group.positions, group.options, strict=True):
                own[schema.columns[position]] = f"{names[group.name]}: {option}"
    return own


def own_names(names: Mapping[str, str], roles: ColumnRoles) -> tuple[dict[str, str], dict[int, str]]:
    """The names of columns, checked, and of clusters by their numbers."""
    known = dict.fromkeys([*roles.numeric, *roles.categorical, *roles.excluded, *roles.answers])
    if roles.target is not None:
        known[str(roles.target.name)] = None
    columns, clusters = parted(names, known)
    return checked_columns(columns, known, "--labels"), clusters


def name_model(model: CRAFT, columns: dict[str, str], clusters: Mapping[int, str]) -> None:
    """Name the columns of a model and its clusters, which are numbered by size."""
    order = model._fitted.by_number.tolist()
    for number in clusters:
        if not 1 <= number <= len(order):
            raise ValueError(
                f"--labels: there is no cluster {number}; the clusters are numbered 1 to {len(order)}."
            )
    automatic = model.cluster_names_
    named = [(number, clusters.get(number, automatic[k]).strip()) for number, k in enumerate(order, 1)]
    check_distinct("--labels", "clusters", named)  # by the numbers of the page, which labels are not
    model._own_names = OwnNames(clusters={}, columns=model._own_names["columns"] | columns)
    model.rename_clusters({order[number - 1]: name for number, name in clusters.items()})
