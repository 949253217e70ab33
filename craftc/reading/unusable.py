"""Columns that cannot define clusters: ids, constant and empty columns, dates, sums and products."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from craftc._common.messages import need_pandas, quoted
from craftc._common.typing import ColumnSelection, Floats, FrameInput, Ints
from craftc.reading.date_columns import (
    as_numbers,
    copies_of_dates,
    one_value_for_each,
    parts_of_the_calendar,
    parts_of_the_year,
)
from craftc.reading.dates import parse_dates
from craftc.table.declared import (
    KindInput,
    KindsInput,
    column_mask,
    declared_columns,
    is_mask,
    without_columns,
)
from craftc.table.derived import derived_columns, follow_from
from craftc.table.frames import ColumnSource, as_frame, open_source
from craftc.table.kinds import ColumnKind
from craftc.table.level_column import LevelColumn
from craftc.table.mixed_table import MixedTable
from craftc.table.sums import numbers_or_flags

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
#: A column as codes into its levels, or as numbers; None if it is neither.
Cells: TypeAlias = "LevelColumn | Floats | None"

EMPTY, CONSTANT, DATES = "no value in any row", "one value in every row", "dates"
CONSTANT_OF_SOME = "one value in every row that has one"
TEXTS_OF_SOME = "a different text in every row that has one"
TEXTS_OF_GROUPS = f"{TEXTS_OF_SOME}; fill it down if it stands for the rows below, too"
NEARLY_TEXTS = "a different text in almost every row"
MANY_TEXTS = "more than 65,535 different texts"
NEARLY_IDS = "a different number in almost every row, and the name of an id"
TEXTS, COUNTER, IDS = (
    "a different text in every row",
    "row counter",
    "a different number in every row, and the name of an id",
)

_ID_NAME = re.compile(
    r"(^|[^a-z])(id|ids|uid|uuid|guid|pid|key|nr|no|num|numero|número|number|index|idx|isbn|iban|ssn|ean|barcode)"
    r"($|[^a-z])|[a-z]{2}(nr|nummer)$|^matric",
    re.IGNORECASE,
)
_ID_ENDING = re.compile(r"[a-z](I[dD]|Id[A-Z].*|Key|N[ro]|Num|Number|Code)$")
#: Names of counts: "Number of visits", "no. of shares".
_COUNT_NAME = re.compile(r"((?i:number|num)|(^|[^a-zA-Z])(?i:no|nr|nb))[._ -]*[oO][fF](?![a-z])")
#: Names of codes, whose numbers measure nothing even where they are not all different.
_CODE_NAME = re.compile(
    r"(?i:(^|[^a-z])(id|uid|pid|key|code|plz|npa|zip|(zip|postal|post)[ _-]?code|postleitzahl|sku|ean|gtin)$"
    r"|(^|[^a-z])(iban|isbn|icd|naics|nace|phone|telefon|tel)$|[a-z]{2}(nr|nummer|code)$)|[a-z]I[dD]$"
)
_SMALLEST_CODE = 100.0
_FEW_CODES = 10  # values of a code that may as well be kinds
_FEWEST, _NEARLY = 50, 0.9  # rows, at least, with that share of different values: a few ids are there twice
MOST_LEVELS = 65_535  # of a categorical column
_SHOWN = 5  # columns that a message names with their reasons


def text_reason(n_texts: int, codes: Ints) -> str:
    """The reason why texts identify rows, by the number of different ones and their codes (-1: missing)."""
    n_present = int(np.count_nonzero(codes >= 0))
    if n_texts == n_present >= 3:
        if n_present == len(codes):
            return TEXTS
        return TEXTS_OF_GROUPS if codes[0] >= 0 and 2 * n_present <= len(codes) else TEXTS_OF_SOME
    if n_present >= _FEWEST and n_texts > _NEARLY * n_present:
        return NEARLY_TEXTS
    return MANY_TEXTS if n_texts > MOST_LEVELS else ""


def id_reason(name: str, values: Floats) -> str:
    """The reason why whole numbers identify rows: a counter, or nearly all different with the name of an id.
    A tenth of them may be missing.
    """
    places = np.flatnonzero(~np.isnan(values))
    present, n = values[places], len(values)
    if len(present) < max(3, _NEARLY * n) or not (np.floor(present) == present).all():
        return ""
    # blank cells may be counted or not
    if np.ptp(present - places) == 0.0 or (np.diff(present) == 1.0).all():
        return COUNTER
    if _COUNT_NAME.search(name) or not (_ID_NAME.search(name) or _ID_ENDING.search(name)):
        return ""
    n_distinct = len(np.unique(present))
    if n_distinct == n:
        return IDS
    return NEARLY_IDS if n >= _FEWEST and n_distinct > _NEARLY * len(present) else ""


def is_code(name: str, distinct: Floats) -> bool:
    """Whether whole numbers, ascending, of three digits or more are codes by the name of their column."""
    return len(distinct) > 1 and distinct[0] >= _SMALLEST_CODE and has_code_name(name)


def has_code_name(name: str) -> bool:
    """Whether a column has the name of a code."""
    return _CODE_NAME.search(name) is not None


def listed_reasons(unusable: Mapping[str, str]) -> str:
    """The first columns, each with its reason."""
    text = "; ".join(f"{quoted(name)}: {reason}" for name, reason in list(unusable.items())[:_SHOWN])
    return text + (f"; and {len(unusable) - _SHOWN} more" if len(unusable) > _SHOWN else "")


def usable_columns(
    X: T, categorical: ColumnSelection, kinds: KindsInput = None
) -> tuple[T | FrameInput, ColumnSelection, KindsInput, dict[str, str]]:
    """The part of a table that can define clusters.

    `X`: arrays and MixedTables are returned unchanged: their columns have no names by which `predict`
    could find them. `categorical`: categorical columns of X; columns that are named here stay unless they
    are empty, as do columns of `kinds`.

    Returns the usable columns, `categorical` and `kinds` for them, and the reason for every other column.

    Raises ValueError: no column is usable.
    """
    if isinstance(X, MixedTable):
        return X, categorical, kinds, {}
    source = open_source(X)
    if not source.named:
        return X, categorical, kinds, {}
    mask = column_mask(categorical, source.names)
    declared = declared_columns(kinds, source.names, source.named)
    named = np.zeros(len(source.names), bool) if mask is None else mask | is_mask(categorical)
    kept = {name for j, name in enumerate(source.names) if named[j] or name in declared}
    reasons, numbers, codes = {}, {}, {}
    for j, name in enumerate(source.names):
        if name not in declared or declared[name].name != "ignore":
            cells = _cells(source, j)
            reasons[name] = _reason(source, j, cells, name in kept)
            if reasons[name]:
                continue
            if isinstance(cells, LevelColumn):
                codes[name] = cells.codes
            if (own := _numbers(cells)) is not None:
                numbers[name] = own
    if all(reasons.values()):  # columns with one value are harmless where nothing else is left
        reasons = {name: "" if reason == CONSTANT else reason for name, reason in reasons.items()}
    unusable = {name: reason for name, reason in reasons.items() if reason}
    unusable |= _derived(numbers, codes, kept)
    if reasons and len(unusable) == len(reasons):
        raise ValueError(
            f"No column is left to cluster ({listed_reasons(unusable)}); name columns in `categorical` to "
            "use them."
        )
    if not unusable:
        return X, categorical, kinds, {}
    if mask is not None:
        left = [j for j, name in enumerate(source.names) if name not in unusable]
        exact = is_mask(categorical)
        categorical = mask[left].tolist() if exact else [source.names[j] for j in left if mask[j]]
    return (
        _select(X, [j for j, name in enumerate(source.names) if name not in unusable]),
        categorical,
        without_columns(kinds, unusable),
        unusable,
    )


def derived_among(
    columns: Mapping[str, pd.Series], kinds: Mapping[str, KindInput], kept: Collection[str]
) -> dict[str, str]:
    """The columns of a frame that are parts of dates, codes of other columns, or sums or products of others,
    each with the reason; `kinds`: of dates and periodic columns, `kept`: columns that stay.
    """
    copies = copies_of_dates(columns, [name for name, kind in kinds.items() if kind == "date"], kept)

    def left() -> dict[str, pd.Series]:
        return {name: column for name, column in columns.items() if name not in copies}

    for more in (parts_of_the_year, parts_of_the_calendar):
        copies |= more(left(), kinds, kept)
    copies |= codes_of_others(left(), kept)
    numbers: dict[str, Floats] = {}
    codes: dict[str, Ints] = {}
    for name, column in left().items():
        if isinstance(column.dtype, need_pandas().CategoricalDtype):
            codes[name] = np.asarray(column.cat.codes, np.intp)
            cells = numbers_or_flags(codes[name], column.cat.categories.tolist())
        else:
            cells = column.to_numpy(np.float64, na_value=np.nan)
        if cells is not None:
            numbers[name] = cells
    return copies | _derived(numbers, codes, kept)


def _derived(
    numbers: Mapping[str, Floats], codes: Mapping[str, Ints], kept: Collection[str]
) -> dict[str, str]:
    """The columns that follow from others, and the columns that follow from these, each with the reason."""
    derived = derived_columns(numbers, codes, kept)
    return derived | follow_from(derived, numbers, codes, kept)


def codes_of_others(columns: Mapping[str, pd.Series], kept: Collection[str]) -> dict[str, str]:
    """The columns that have the name of a code and say what another column says, each with the reason."""
    out: dict[str, str] = {}
    numbers = cache(lambda name: as_numbers(columns[name]))
    for name in columns:
        if name in kept or not has_code_name(name):
            continue
        for other in columns:
            if other in (name, *out):
                continue
            both = numbers(name), numbers(other)
            if one_value_for_each(both[1], both[0]) > _FEW_CODES and one_value_for_each(*both):
                out[name] = f"a code of {quoted(other)}"
                break
    return out


def known_columns(X: T, names: Iterable[str]) -> T | FrameInput:
    """The columns of X that have these names; X itself if it has no others, or no names at all."""
    if isinstance(X, MixedTable):
        return X
    source = open_source(X)
    known = set(names)
    if not source.named or known.issuperset(source.names):
        return X
    return _select(X, [j for j, name in enumerate(source.names) if name in known])


def _select(X: object, positions: list[int]) -> FrameInput:
    if isinstance(X, Mapping):
        items = list(X.items())
        return dict(items[j] for j in positions)
    frame = as_frame(X)
    assert frame is not None  # it has names
    chosen: FrameInput = frame[:, positions].to_native()
    return chosen


def _cells(source: ColumnSource, j: int) -> Cells:
    kind = source.kinds[j]
    if kind.is_categorical:
        return source.column(j)
    if kind == ColumnKind.NUMBER:
        cells: Floats = source.numbers(np.array([j]), np.dtype(np.float64))[:, 0]
        return cells
    return None


def _numbers(cells: Cells) -> Floats | None:
    """A column as numbers, or as 0 and 1 of two levels; None if its cells are neither."""
    if isinstance(cells, LevelColumn):
        return numbers_or_flags(cells.codes, cells.values[:-1])
    return cells


def _reason(source: ColumnSource, j: int, cells: Cells, declared: bool) -> str:
    """The reason against a column, or an empty string; `declared`: its kind is."""
    name, kind = source.names[j], source.kinds[j]
    levels = cells.present() if isinstance(cells, LevelColumn) else []
    if kind == ColumnKind.EMPTY or (isinstance(cells, LevelColumn) and not levels):
        return EMPTY
    if isinstance(cells, np.ndarray):
        present = cells[~np.isnan(cells)]
        if not len(present):
            return EMPTY
    if declared:
        return ""
    if kind == ColumnKind.OTHER:
        return f"{DATES}, or other values that are neither numbers nor text"
    if kind == ColumnKind.MIXED:
        return "values of different types"
    if isinstance(cells, np.ndarray):
        if len(cells) == len(present) > 1 and present.min() == present.max():
            return CONSTANT
        return id_reason(name, cells)
    assert cells is not None
    if len(levels) == 1 and not cells.n_missing and source.n_rows > 1:
        return CONSTANT
    if kind == ColumnKind.TEXT:
        if cells.all_different():
            return TEXTS
        if parse_dates([str(level) for level in levels], np.ones(len(levels), np.intp)) is not None:
            return DATES
    return ""
