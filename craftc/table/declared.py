"""The columns that a caller declares: their kinds (`kinds=`), and `categorical=`, by name, by position, or as
a mask.

Every reader asks `plan_columns` what to read as numbers, what as levels, and what not at all. The order of
the levels of a column is part of the schema; a period is found when the values of the column are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike

from craftc._common.messages import listed, quoted, shown
from craftc._common.typing import Array, Bits, ColumnSelection, Ints
from craftc._common.validation import check_choice
from craftc.table.level_column import Level, LevelColumn, check_text

#: What `kinds` maps a column to: the name of a kind, levels in order, or ("periodic", period).
KindInput: TypeAlias = "str | Sequence[Level] | tuple[str, float]"
#: Columns by name, or by position in an array.
KindsInput: TypeAlias = "Mapping[str, KindInput] | Mapping[int, KindInput] | None"
LEAST_PERIOD = 1e-100  # whose multiples are far from the smallest numbers
KINDS = ("number", "category", "ordered", "periodic", "date", "ignore")
#: Periods of whole numbers: days of a week, months, hours, days of a month, weeks, minutes, days of a year.
WHOLE_PERIODS = (7, 12, 24, 31, 52, 53, 60, 365, 366)
#: Periods of other numbers: angles.
ANGLES = (2.0 * math.pi, 360.0)
_ROUNDING = 1e-6  # 2 pi of float32 is above that of float64
#: The period of a column that is to be found from its values.
UNKNOWN_PERIOD = math.inf
_FORMS = (
    "Every value of kinds must be "
    + ", ".join(map(repr, KINDS))
    + ", a list of levels in order, or ('periodic', period)"
)


def name_of(column: object, named: bool) -> str:
    """The name of a column that is given by name or, in a table without names, by position."""
    return str(column) if named or isinstance(column, str) else f"x{column}"


def is_mask(categorical: object) -> bool:
    """Whether `categorical` has one boolean for every column."""
    if isinstance(categorical, str) or not isinstance(categorical, Iterable):
        return False
    items = list(categorical)
    return bool(items) and all(isinstance(item, bool | np.bool_) for item in items)


def are_categorical(
    categorical: ColumnSelection, names: tuple[str, ...], named: bool, fitted: Sequence[int]
) -> bool:
    """Whether `categorical` agrees with a table in which the columns at these positions are categorical."""
    mask = column_mask(categorical, names)
    if mask is None:
        return True
    chosen = set(np.flatnonzero(mask).tolist())
    return chosen == set(fitted) or (named and not is_mask(categorical) and chosen.issubset(fitted))


def column_mask(categorical: ColumnSelection, names: tuple[str, ...]) -> Array | None:
    """The mask of the columns that `categorical` names (names, positions or a mask); None for "auto"."""
    if isinstance(categorical, str) and categorical == "auto":
        return None
    scalar = isinstance(categorical, str) or getattr(categorical, "ndim", 1) == 0
    if scalar or not isinstance(categorical, Iterable):
        raise ValueError(
            "categorical must be 'auto' or a list of column names, of positions, or of booleans, got "
            f"{shown(categorical)}."
        )
    items: list[object] = list(categorical)
    if is_mask(items):
        if len(items) != len(names):
            raise ValueError(
                f"categorical is a mask of length {len(items)}, but X has {len(names)} columns; pass one "
                "boolean per column."
            )
        return np.array(items, dtype=bool)
    mask = np.zeros(len(names), dtype=bool)
    for item in items:
        if isinstance(item, int | np.integer):
            if not 0 <= item < len(names):
                raise ValueError(
                    f"categorical names position {item}, but X has {len(names)} columns; positions start at "
                    "0."
                )
            mask[item] = True
        elif str(item) in names:
            mask[names.index(str(item))] = True
        else:
            known = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"categorical names column {item!r}, but X has the columns {known}.")
    return mask


@dataclass(frozen=True)
class DeclaredKind:
    """The kind of one column."""

    name: str  # one of KINDS
    order: tuple[Level, ...] = ()  # of "ordered": the levels; empty: those of the column
    period: float = 0.0  # of "periodic", or `UNKNOWN_PERIOD`

    @property
    def is_categorical(self) -> bool:
        return self.name in ("category", "ordered")


class KindsParameter:
    """The constraint of the parameter `kinds`."""

    def check(self, name: str, value: object) -> None:
        parse_kinds(value)


def parse_kinds(kinds: object) -> dict[str | int, DeclaredKind]:
    """The kinds of the columns that a mapping names; raise ValueError or TypeError for what is no kind."""
    if kinds is None:
        return {}
    if not isinstance(kinds, Mapping):
        raise TypeError(f"kinds must be a mapping of columns to kinds, or None, got {shown(kinds)}.")
    for column in kinds:
        if isinstance(column, bool) or not isinstance(column, str | int | np.integer):
            raise TypeError(
                f"kinds must name columns by str, or those of an array by position, got {shown(column)}."
            )
    return {column: _kind(column, kind) for column, kind in kinds.items()}


def _kind(column: object, kind: object) -> DeclaredKind:
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"{_FORMS}, got {shown(kind)} for column {column!r}.")
        return DeclaredKind(kind, period=UNKNOWN_PERIOD if kind == "periodic" else 0.0)
    if isinstance(kind, np.ndarray):
        kind = kind.tolist()
    if not isinstance(kind, list | tuple):
        raise TypeError(f"{_FORMS}, got {shown(kind)} for column {column!r}.")
    if len(kind) == 2 and kind[0] == "periodic" and (isinstance(kind, tuple) or not isinstance(kind[1], str)):
        return DeclaredKind("periodic", period=_period(column, kind[1]))
    return DeclaredKind("ordered", order=_order(column, kind))


def _period(column: object, period: object) -> float:
    number = isinstance(period, Real) and not isinstance(period, bool)
    if not number or not 0.0 < float(cast(float, period)) < math.inf:
        raise ValueError(
            f"The period that kinds gives column {column!r} must be a finite number > 0, got {shown(period)}."
        )
    if float(cast(float, period)) < LEAST_PERIOD:
        raise ValueError(
            f"The period that kinds gives column {column!r} must be at least {LEAST_PERIOD:g}, got "
            f"{shown(period)}; use a larger unit."
        )
    return float(cast(float, period))


def _order(column: object, order: Sequence[object]) -> tuple[Level, ...]:
    """Levels in order, as Python's text and numbers."""
    levels = [level.item() if isinstance(level, np.generic) else level for level in order]
    for level in levels:
        known = isinstance(level, str | int) or (isinstance(level, float) and math.isfinite(level))
        if not known:
            raise ValueError(
                f"The order that kinds gives column {column!r} has {shown(level)} among its levels; levels "
                "are text or finite numbers."
            )
    if not levels:
        raise ValueError(f"The order that kinds gives column {column!r} is empty; list its levels in order.")
    repeated = next((level for i, level in enumerate(levels) if level in levels[:i]), None)
    if repeated is not None:
        raise ValueError(
            f"The order that kinds gives column {column!r} has the level {shown(repeated)} twice; list every "
            "level once."
        )
    return tuple(cast("list[Level]", levels))


def ignored_columns(kinds: KindsInput) -> list[str]:
    """The columns, by name, that take no part."""
    return [str(column) for column, kind in parse_kinds(kinds).items() if kind.name == "ignore"]


def declared_columns(kinds: KindsInput, names: Sequence[str], named: bool) -> dict[str, DeclaredKind]:
    """The kinds of the columns of a table, by their names; raise ValueError for columns that it lacks.

    Columns of a table without names, "x0", "x1", ..., are also found by their positions.
    """
    found: dict[str, DeclaredKind] = {}
    for column, kind in parse_kinds(kinds).items():
        name = name_of(column, named)
        if name not in names:
            known = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"kinds names column {column!r}, but X has the columns {known}.")
        if name in found:
            raise ValueError(f"kinds names column {name!r} twice; name it once.")
        found[name] = kind
    return found


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """Which columns of a table are read, and as what."""

    names: tuple[str, ...]  # of the columns that are read
    kept: Ints  # their positions in the input
    ignored: tuple[str, ...]  # columns that are not read
    categorical: Bits  # which of the columns that are read have levels
    by_type: Bits  # which of them have their kind from the types of their cells
    declared: tuple[DeclaredKind | None, ...]  # of each of them

    @property
    def numeric_index(self) -> Ints:
        return np.flatnonzero(~self.categorical)

    @property
    def categorical_index(self) -> Ints:
        return np.flatnonzero(self.categorical)

    @property
    def dates(self) -> tuple[int, ...]:
        """Positions of the numeric columns that are days since 1970-01-01."""
        return tuple(j for j, kind in enumerate(self.declared) if kind is not None and kind.name == "date")

    def levels(
        self, columns: Sequence[LevelColumn], missing: str
    ) -> tuple[tuple[tuple[Level, ...], ...], tuple[int, ...]]:
        """The levels of the categorical columns, and the positions of those whose levels have an order.

        A level for missing cells has no place in an order.
        """
        levels, ordered = [], []
        for j, column in zip(self.categorical_index.tolist(), columns, strict=True):
            kind = self.declared[j]
            in_order = bool(column.scale) if kind is None else kind.name == "ordered"
            if in_order and kind is not None and not kind.order and not column.has_order:
                raise ValueError(
                    f"kinds says that column {column.name!r} is 'ordered', but its levels have no order of "
                    f"their own; list them in order: kinds={{{column.name!r}: [...]}}."
                )
            levels.append(column.learn(missing, ordered=in_order, order=() if kind is None else kind.order))
            if in_order and not (missing == "category" and column.n_missing):
                ordered.append(j)
        return tuple(levels), tuple(ordered)

    def check_texts(self, columns: Sequence[LevelColumn], is_text: Sequence[bool]) -> None:
        """Raise ValueError if a column of text, not declared, has another text in every row; warn of numbers
        as text.
        """
        for j, column in zip(self.categorical_index.tolist(), columns, strict=True):
            if self.by_type[j] and is_text[j]:
                check_text(column.name, column.present(), len(column.codes) - column.n_missing)


def plan_columns(
    names: Sequence[str],
    named: bool,
    typed: Callable[[], Array],
    categorical: ColumnSelection = "auto",
    kinds: KindsInput = None,
) -> ColumnPlan:
    """What is read of a table with these columns.

    Parameters
    ----------
    names : sequence of str
    named : bool
        Whether the input has these names.
    typed : callable
        Returns which columns are categorical by the types of their cells.
    categorical : "auto", list of names or positions, or mask
        Columns that are categorical besides those whose types say so; a mask, and a list for an input without
        names, say so of all columns. `kinds` must agree with it.
    kinds : mapping, optional
        As `parse_kinds` reads it.

    Raises
    ------
    ValueError
        `kinds` names a column that is not there, contradicts `categorical` or the type of a column, or leaves
        no column.
    """
    declared = declared_columns(kinds, names, named)
    given = column_mask(categorical, tuple(names))
    exact = given is not None and (not named or is_mask(categorical))
    if given is None:
        given = np.zeros(len(names), bool)
    else:
        _check_agreement(declared, dict(zip(names, given.tolist(), strict=True)), exact)
    needs_types = not exact and any(
        not (
            given[j] or (name in declared and (declared[name].is_categorical or _is_ignored(declared[name])))
        )
        for j, name in enumerate(names)
    )
    mask = given | typed().astype(bool) if needs_types else given.copy()
    for j, name in enumerate(names):
        kind = declared.get(name)
        if kind is None:
            continue
        if not exact and mask[j] and kind.name in ("number", "periodic", "date"):
            raise ValueError(
                f"kinds says that column {name!r} is {kind.name!r}, but it holds text or categories; "
                f"convert it to numbers, in a frame by X[{name!r}] = X[{name!r}].astype(float), or declare "
                "it as 'category' or 'ordered'."
            )
        mask[j] = kind.is_categorical
    kept = np.array([j for j, name in enumerate(names) if not _is_ignored(declared.get(name))], np.intp)
    if len(names) and not len(kept):
        raise ValueError("kinds ignores all columns of X; at least one must take part.")
    left = [names[j] for j in kept]
    taken = set(left)
    return ColumnPlan(
        names=tuple(left),
        kept=kept,
        ignored=tuple(name for name in names if name not in taken),
        categorical=mask[kept],
        by_type=np.array(
            [not (exact or given[j] or name in declared) for j, name in zip(kept, left, strict=True)], bool
        ),
        declared=tuple(map(declared.get, left)),
    )


def _is_ignored(kind: DeclaredKind | None) -> bool:
    return kind is not None and kind.name == "ignore"


def _check_agreement(
    declared: Mapping[str, DeclaredKind], categorical: Mapping[str, bool], exact: bool
) -> None:
    """Raise ValueError if `kinds` and `categorical`, which names all categorical columns if `exact`,
    contradict each other.
    """
    for name, kind in declared.items():
        if categorical[name] != kind.is_categorical and (exact or categorical[name]):
            says = "names" if categorical[name] else "does not name"
            raise ValueError(
                f"kinds says that column {name!r} is {kind.name!r}, but categorical {says} it; leave it "
                "to kinds, with categorical='auto', or make both agree."
            )


def kinds_of(X: object, kinds: KindsInput, categorical: ColumnSelection = "auto") -> KindsInput:
    """The declared kinds of a table, and the kinds of columns of numbers that `read_table` has noted."""
    noted = getattr(X, "attrs", {}).get("kinds") if hasattr(X, "dtypes") else None
    if not isinstance(noted, Mapping):
        return kinds
    parse_kinds(kinds)
    names = tuple(map(str, X.columns))  # type: ignore[attr-defined]
    is_level = column_mask(categorical, names)
    numbers = {
        name
        for j, (name, dtype) in enumerate(zip(names, X.dtypes, strict=True))  # type: ignore[attr-defined]
        if getattr(dtype, "kind", "O") in "iuf" and (is_level is None or not is_level[j])
    }
    found = {name: kind for name, kind in noted.items() if name in numbers}
    return cast("KindsInput", found | dict(kinds or {}))


def noted_dates(X: object, categorical: ColumnSelection = "auto") -> KindsInput:
    """The dates that `read_table` has noted; other kinds are for estimators with a parameter `kinds`."""
    noted = kinds_of(X, None, categorical) or {}
    return {str(name): kind for name, kind in noted.items() if kind == "date"} or None


class KnownColumns(Protocol):
    """The schema of a table that has been read."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def named(self) -> bool: ...
    @property
    def levels(self) -> tuple[tuple[Level, ...], ...]: ...
    @property
    def ordered(self) -> tuple[int, ...]: ...
    @property
    def dates(self) -> tuple[int, ...]: ...
    @property
    def ignored(self) -> tuple[str, ...]: ...
    @property
    def numeric_names(self) -> tuple[str, ...]: ...
    @property
    def categorical_names(self) -> tuple[str, ...]: ...


def declared_periods(kinds: KindsInput, schema: KnownColumns) -> list[float]:
    """The period of every numeric column; 0 without one, `UNKNOWN_PERIOD` where it is to be found."""
    declared = declared_columns(kinds, (*schema.columns, *schema.ignored), schema.named)
    return [declared[name].period if name in declared else 0.0 for name in schema.numeric_names]


def differing_kind(kinds: KindsInput, schema: KnownColumns) -> str:
    """How the kinds of a table that has been read differ from declared ones; empty if they agree."""
    declared = declared_columns(kinds, (*schema.columns, *schema.ignored), schema.named)
    of_table = dict(zip(schema.categorical_names, schema.levels, strict=True))
    for name, kind in declared.items():
        own = "number"
        if name in schema.ignored:
            own = "ignore"
        elif name in of_table:
            own = "ordered" if schema.columns.index(name) in schema.ordered else "category"
        elif schema.columns.index(name) in schema.dates:
            own = "date"
        wanted = "number" if kind.name == "periodic" and own == "number" else kind.name
        if own != wanted:
            return f"{name!r} as {own!r}"
        if kind.order and kind.order != of_table[name]:
            return f"the levels of {name!r} in the order {list(of_table[name])}"
    return ""


def period_of(name: str, values: Array) -> float:
    """The period of a column with these distinct values, ascending."""
    if not len(values):
        return 1.0
    low, high = float(values[0]), float(values[-1])
    if (np.floor(values) == values).all():
        for period in WHOLE_PERIODS:
            if high - low + 1 <= period:
                return float(period)
    elif low >= 0.0:
        for angle in ANGLES:
            if high <= angle * (1.0 + _ROUNDING):
                return angle
    raise ValueError(
        f"The period of column {name!r} is not known: its values lie between {low:.6g} and {high:.6g}; pass "
        f"it, as kinds={{{name!r}: ('periodic', period)}}."
    )


def without_columns(kinds: KindsInput, names: Iterable[str]) -> KindsInput:
    """`kinds` of the other columns of a table."""
    gone = set(names)
    left = {name: kind for name, kind in (kinds or {}).items() if name not in gone}
    return cast("KindsInput", left)


def codes_note(names: Sequence[str]) -> list[str]:
    """A note about whole numbers that clusters describe as codes."""
    if not names:
        return []
    hold = "Column {} holds" if len(names) == 1 else "Columns {} hold"
    return [
        f"{hold.format(listed(names))} few whole numbers. Clusters describe them better as codes, each with "
        f"a share of its own, than by their order; kinds={{{quoted(names[0])}: 'number'}} keeps the order."
    ]


def check_reading(missing: str, dtype: DTypeLike | None) -> None:
    """Raise ValueError unless these are arguments of `from_data`."""
    check_choice("missing", missing, ("ignore", "category", "error"))
    if dtype is not None and np.dtype(dtype) not in (np.dtype("f4"), np.dtype("f8")):
        raise ValueError(f"dtype must be float32, float64 or None, got {dtype!r}.")
