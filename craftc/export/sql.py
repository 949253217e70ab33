"""A fitted model as one statement of SQL that returns the cluster of every row of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from craftc._about import version
from craftc._common.messages import shown
from craftc.describe.rules import Rules
from craftc.export.models import scoring_of
from craftc.export.scoring import LookUp, Scoring, Texts
from craftc.table import Schema
from craftc.table.answers import answer_groups

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from craftc.export.expressions import Dialect
    from craftc.export.statement import Statement

_OUTPUT = ("cluster", "cluster_name", "margin")


def to_sql(
    model: BaseEstimator | Rules,
    table: str = "customers",
    *,
    key: str | Sequence[str] = ("id",),
    dialect: str = "duckdb",
    margin: bool = True,
    probabilities: bool = False,
) -> str:
    """A fitted model as one statement of SQL, which assigns the rows of a table to clusters in a database.

    Parameters
    ----------
    model : CRAFT, PaperCRAFT, KModes, KPrototypes or DPMeans, or the result of `CRAFT.rules`
        Fitted.
    table : str, default="customers"
        NAME, SCHEMA.NAME or DATABASE.SCHEMA.NAME of a table or view with the columns of the model; parts with
        dots or quotes in double quotes.
    key : str or sequence of str, default=("id",)
        Columns that the statement repeats, so that rows can be joined to their clusters.
    dialect : str, default="duckdb"
        "bigquery", "duckdb", "mysql", "postgres", "snowflake", "spark", "sqlite" or "tsql" (SQL Server).
    margin : bool, default=True
        Whether to return the cost of the second cheapest cluster less that of the cheapest, in nats for
        `CRAFT`.
    probabilities : bool, default=False
        Whether to return the probability of every cluster, one column each.

    Returns
    -------
    str
        One SELECT statement, after comments that list its columns and clusters. Its columns are the key,
        `cluster` (the number of the report: 1 is the largest), `cluster_name` where the model names its
        clusters, `margin` (NULL with one cluster) and `probability_1`, `probability_2`, ... Of rules they are
        the key, `cluster` by the tree, and `rule_1`, `rule_2`, ...: 1 where the rule of that cluster holds.

    Raises
    ------
    ImportError
        sqlglot is not installed (``pip install 'craftc[export]'``).
    NotFittedError, TypeError, ValueError
        The model is not fitted, is of another class, or has a part without a formula in SQL; the dialect is
        unknown; a name cannot be written in it.

    Notes
    -----
    The cluster is that of `predict`, but for rows whose margin is below the rounding error of about 1e-8
    nats. A row that `predict` refuses (with ``missing="error"`` or ``unknown="error"``) has the cluster NULL.
    The columns of the table need the types of the table of the fit: numbers, text, truth values, and DATE or
    TIMESTAMP for dates (in SQLite: ISO text).

    Examples
    --------
    >>> import craftc
    >>> heart = craftc.datasets.load_heart().data
    >>> model = craftc.CRAFT(n_clusters=2, random_state=0).fit(heart)
    >>> statement = craftc.to_sql(model, "patients", key="patient", dialect="sqlite")
    >>> statement.splitlines()[0]
    '-- CRAFT, 2 clusters, craftc 0.1.0; for sqlite.'
    """
    scoring = model if isinstance(model, Rules) else scoring_of(model)
    try:
        import sqlglot  # noqa: F401  # needed by the modules that are imported next
    except ImportError as error:
        raise ImportError("craftc.to_sql needs sqlglot: pip install 'craftc[export]'.") from error
    from craftc.export.expressions import Dialect
    from craftc.export.rules import RuleStatement
    from craftc.export.statement import Statement

    if not isinstance(key, str | Iterable):
        raise ValueError(f"key must name one or more columns of the table, got {shown(key)}.")
    keys, engine = [key] if isinstance(key, str) else list(key), Dialect(dialect)
    if isinstance(scoring, Rules):
        of = scoring.schema
        _check_names(of.columns, zip(of.categorical_names, of.levels, strict=True), keys, engine)
        return RuleStatement(scoring, engine, engine.table(table), keys).text()
    if probabilities and not scoring.proper:
        raise ValueError(
            f"The costs of this {type(model).__name__} are no log probabilities, so that it defines no "
            "probabilities of clusters; pass probabilities=False."
        )
    readers = ((scoring.columns[i.column], i.reader) for i in scoring.terms if isinstance(i, LookUp))
    levels = ((name, reader.levels) for name, reader in readers if isinstance(reader, Texts))
    _check_names(scoring.columns, levels, keys, engine)
    statement = Statement(scoring, engine, engine.table(table), keys, margin, probabilities)
    schema = getattr(model, "schema_", None)
    return f"{_header(scoring, dialect, statement, schema)}{statement.text()}\n"


def _check_names(
    columns: Sequence[str],
    levels: Iterable[tuple[str, Sequence[object]]],
    keys: Sequence[str],
    engine: Dialect,
) -> None:
    """Raise ValueError unless keys, columns and levels can be written, and their names differ."""
    if not keys or not all(isinstance(each, str) and each for each in keys):
        raise ValueError(f"key must name one or more columns of the table, got {shown(keys)}.")
    taken = [name.casefold() for name in (*keys, *_OUTPUT)]
    repeated = [name for name in keys if taken.count(name.casefold()) > 1]
    if repeated:
        raise ValueError(
            f"The key {repeated[0]!r} has the name of another column of the result; rename it in a view."
        )
    if "" in columns:
        raise ValueError(
            "A column of the model has an empty name, which SQL has not; fit with a name for it."
        )
    folded = [name.casefold() for name in columns]
    for name, own in zip(columns, folded, strict=True):
        if engine.caseless and folded.count(own) > 1:
            both = [each for each in columns if each.casefold() == own]
            raise ValueError(
                f"The columns {both[0]!r} and {both[1]!r} of the model are one name in {engine.name}; fit "
                "with names that differ in more than their case."
            )
        _check_text(name, "The name of a column", "rename it")
    for name in keys:
        _check_text(name, "The key", "rename it in a view")
    for name, own_levels in levels:
        for level in own_levels:
            _check_text(str(level), f"A level of column {name!r}", "replace it")


def _check_text(text: str, what: str, todo: str) -> None:
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(f"{what}, {text!r}, has a character that no database stores; {todo}, and fit again.")


def _header(scoring: Scoring, dialect: str, statement: Statement, schema: Schema | None) -> str:
    """Comments: what the statement does, the columns that it reads with their units, the clusters."""
    lines = [f"{scoring.title}, craftc {version()}; for {dialect}."]
    recipes = {} if schema is None else schema.reading.get("columns", {})
    units = {
        name: f" in {_one_line(str(recipe['unit']))}"
        for name, recipe in recipes.items()
        if isinstance(recipe, Mapping) and recipe.get("unit")
    }
    types = [(scoring.columns[j], scoring.expected[j]) for j in statement.columns]
    read = [f"{_one_line(name)} ({expected}{units.get(name, '')})" for name, expected in types]
    lines.append(f"Reads {'; '.join(read) or 'no column'}.")
    for group in answer_groups(schema) if schema is not None else ():
        names = [_one_line(scoring.columns[j]) for j in group.positions if j in statement.columns]
        if names:
            lines.append(f"Make in a view of {_one_line(group.name)!r}, 'yes' or 'no': {'; '.join(names)}.")
    order = np.argsort(scoring.number_of)
    for number, k in enumerate(order.tolist(), 1):
        name = f": {_one_line(scoring.names[k])}" if len(scoring.names) else ""
        lines.append(f"Cluster {number} (label {k} of predict), {scoring.sizes[k]:g} rows{name}")
    if scoring.refused or scoring.unseen:
        lines.append("Rows that predict refuses have the cluster NULL.")
    if statement.incomplete_refused:
        lines.append("Rows with missing cells in the columns of a covariance have the cluster NULL.")
    return "".join(f"-- {line}\n" for line in lines)


def _one_line(text: str) -> str:
    """A text as part of a comment: without line breaks and other control characters."""
    return "".join(c if c.isprintable() else " " for c in text)
