"""Starts that a caller gives in other forms than labels: a fitted model, or descriptions of clusters.

A description is a mapping of columns to conditions, or positions of example rows. Rows that no description
names join the cheapest of the clusters that the others make.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, TypeGuard, cast

import numpy as np
from sklearn.exceptions import NotFittedError

from craftc._common.labels import compact
from craftc._common.messages import listed, quoted, shown
from craftc._common.typing import Bits, Floats, Labels
from craftc.craft.clusters import Clusters
from craftc.craft.parameters import Predicts
from craftc.craft.search import LocalConfig
from craftc.table import MixedTable
from craftc.table.level_column import Level

_MOST_OF = 0.5  # share of the rows of a description and of a cluster that are common to keep the name
_OPERATORS: dict[str, Callable[[Floats, float], Bits]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_FORMS = (
    "a value, a list of values, a comparison such as ('<', 30), or a list of comparisons such as "
    "[('>=', 30), ('<', 60)]"
)


def is_model(init: object) -> TypeGuard[Predicts]:
    """Whether `init` is an estimator."""
    return hasattr(init, "predict") and not isinstance(init, type)


def labels_by(model: Predicts, X: object, n: int) -> Labels:
    """(n,) the clusters of a fitted model to which it assigns the rows, numbered without gaps."""
    try:
        labels = np.asarray(model.predict(X))
    except NotFittedError as error:
        raise ValueError(
            f"init must be a fitted model, but this {type(model).__name__} is not fitted. scikit-learn's "
            "clone, as in pipelines and searches, makes copies that are not fitted; pass its labels instead."
        ) from error
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"init={type(model).__name__} must predict one whole number for each of the {n} rows, got "
            f"{labels.dtype} of shape {labels.shape}."
        )
    return compact(np.unique(labels, return_inverse=True)[1].astype(np.int32))


def described_labels(descriptions: Mapping[str, object], table: MixedTable) -> Labels:
    """(n,) the first description that holds for every row; -1: none.

    Raises ValueError or TypeError for a column or condition that is none, or a description of no row.
    """
    if not descriptions:
        raise ValueError(
            "init has no descriptions; give at least one, such as {'young': {'age': ('<', 30)}}."
        )
    names = [str(name).strip() for name in descriptions]
    if "" in names or len({*names}) < len(names):
        wrong = "is empty" if "" in names else "is there twice, but for blanks"
        raise ValueError(f"init: a name of {listed(names, 8)} {wrong}; give every cluster a name of its own.")
    labels = np.full(len(table), -1, np.int32)
    for k, (name, description) in enumerate(descriptions.items()):
        holds = _rows_of(str(name), description, table)
        labels[holds & (labels < 0)] = k
        if not (labels == k).any():
            taken = " that no earlier description has" if holds.any() else ""
            raise ValueError(f"init: {quoted(str(name))} describes no row{taken}; change or remove it.")
    return labels


def completed(labels: Labels, config: LocalConfig) -> Labels:
    """Labels whose rows without a cluster (-1) join the cheapest of the clusters of the others."""
    unknown = labels < 0
    if not unknown.any():
        return labels
    known = config.of_rows(np.flatnonzero(~unknown))
    K = int(labels.max()) + 1
    moments = known.moments(labels[~unknown], K)
    kept = np.flatnonzero(moments.groups[:, 0])
    if not len(kept):  # rows without weight
        return np.maximum(labels, 0)
    clusters = Clusters(moments.select(kept), config.background, config.spec)
    own = clusters.cheapest(config.table, config.threads(len(kept)))
    return np.where(unknown, kept[own], labels).astype(np.int32)


def names_of(
    descriptions: Mapping[str, object], start: Labels, labels: Labels
) -> dict[int | str, str | None]:
    """Names of the clusters that most rows of one description make, and that have most of its rows; none for
    a single cluster.
    """
    if not labels.any():
        return {}
    known = start >= 0
    of, own = start[known], labels[known]
    pairs = np.zeros((len(descriptions), int(labels.max()) + 1))
    np.add.at(pairs, (of, own), 1.0)
    most = pairs > _MOST_OF * np.maximum(pairs.sum(axis=1, keepdims=True), pairs.sum(axis=0))
    return {
        int(k): str(name) for name, row in zip(descriptions, most, strict=True) for k in np.flatnonzero(row)
    }


# ---- conditions ----


def _rows_of(name: str, description: object, table: MixedTable) -> Bits:
    """(n,) the rows of one description."""
    if not isinstance(description, Mapping):
        return _examples(name, description, len(table))
    if not description:
        raise ValueError(f"init: {quoted(name)} has no conditions; give at least one column.")
    holds = np.ones(len(table), bool)
    for column, condition in description.items():
        if column not in table.schema.columns:
            known = listed(table.schema.columns, 8)
            raise ValueError(f"init: {quoted(name)} names {shown(column)}, but the columns are {known}.")
        holds &= _holds(name, table, table.schema.columns.index(column), condition)
    return holds


def _examples(name: str, rows: object, n: int) -> Bits:
    array = np.asarray(rows)
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array):
        raise TypeError(
            f"init must map {quoted(name)} to a mapping of columns to conditions, or to positions of example "
            f"rows, got {shown(rows)}."
        )
    if array.min() < 0 or array.max() >= n:
        row = array.max() if array.max() >= n else array.min()
        raise ValueError(f"init: {quoted(name)} names row {row}, but the rows are 0 to {n - 1}.")
    holds = np.zeros(n, bool)
    holds[array] = True
    return holds


def _holds(name: str, table: MixedTable, j: int, condition: object) -> Bits:
    """(n,) whether a condition on column j holds; a missing cell satisfies none."""
    schema, column = table.schema, table.schema.columns[j]
    several = isinstance(condition, list) and bool(condition)
    parts = cast("Sequence[object]", condition) if several else [condition]
    comparisons = [_comparison(part) for part in parts]
    where = f"init: {quoted(name)}, column {quoted(column)}"
    if any(comparisons) and not all(comparisons):
        raise TypeError(f"{where}: the condition must be {_FORMS}, got {shown(condition)}.")
    if j in schema.numeric_index:
        cells = table.numeric[:, int(np.flatnonzero(schema.numeric_index == j)[0])].astype(np.float64)
        number, ordered = (_day if j in schema.dates else partial(_number, schema.dtype)), True
    else:
        at = int(np.flatnonzero(schema.categorical_index == j)[0])
        levels, cells = schema.levels[at], table.codes[:, at].astype(np.float64)
        cells[table.codes[:, at] == len(levels)] = np.nan
        number, ordered = partial(_code, levels), j in schema.ordered
    if not any(comparisons):
        return np.isin(cells, [number(where, part) for part in parts])
    holds = ~np.isnan(cells)
    for comparison in comparisons:
        assert comparison is not None
        sign, value = comparison
        if not ordered and sign not in ("==", "!="):
            raise ValueError(
                f"{where}: its levels have no order, so {sign!r} has no meaning; list the levels."
            )
        holds &= _OPERATORS[sign](cells, number(where, value))
    return holds


def _comparison(part: object) -> tuple[str, object] | None:
    """An operator and a value; None if the condition is a value."""
    if isinstance(part, tuple) and len(part) == 2 and part[0] in _OPERATORS:
        return part[0], part[1]
    return None


def _number(dtype: np.dtype[Any], where: str, value: object) -> float:
    """A number as the column of this dtype holds it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{where}: the column has numbers, so the condition must be {_FORMS}, got {shown(value)}."
        )
    with np.errstate(over="ignore"):  # a bound beyond the largest number of the dtype
        return float(dtype.type(value))


def _day(where: str, value: object) -> float:
    """Days since 1970-01-01 of a date, or of its text."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    try:
        seconds = np.datetime64(cast("str", value), "s").astype(np.int64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{where}: the column has dates, so the condition needs dates such as '2024-05-31', got "
            f"{shown(value)}."
        ) from error
    return float(seconds) / 86400.0


def _code(levels: Sequence[Level], where: str, value: object) -> float:
    """The position of a level."""
    for known in (value, str(value)):
        if known in levels:
            return float(levels.index(known))
    some = listed([str(level) for level in levels], 8)
    raise ValueError(f"{where}: {shown(value)} is no level; the levels are {some}.")
