"""A categorical column as codes into its distinct values, and the levels that a table learns from it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from craftc._common.messages import as_text, shown, warn_user
from craftc._common.typing import Array
from craftc.table.kinds import is_missing, truth_level

if TYPE_CHECKING:
    import pyarrow as pa

Level: TypeAlias = str | int | float | bool
T = TypeVar("T")

MISSING_LEVEL = "(missing)"
_FEW = 5  # different numbers that may well be categories, as in `read_table`
_NUMBER = re.compile(r"\s*[+-]?(?!0\d)(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.I)  # 007 is a code
EXACT_INTEGERS = 2.0**53  # float64 skips whole numbers above it
_FEWEST_EMPTY = 5  # rows without a value in a column, which are no chance
MAX_LEVELS = 65535  # one code of uint16 stays free for a missing cell

NOT_LEVELS = (
    "Column {0!r} contains objects ({1}) that are neither text nor numbers; convert them to text or numbers, "
    "as X[{0!r}].map(str) does, or drop the column."
)
_ALIKE = (
    "Column {!r} holds {!r} and {!r}, which {}; convert its cells to one type, text or "
    "numbers, before they are categories."
)


def infinite_cell(column: str, kind: str, or_missing: bool = True) -> ValueError:
    """The error for a number of a column that is no `kind`, such as "a level".

    `or_missing`: whether the cell may be missing instead.
    """
    return ValueError(
        f"Input X contains infinity: column {column!r} contains inf, -inf or a value too large for {kind}; "
        f"replace it by a number{', or by NaN if it is unknown' if or_missing else ''}."
    )


class LevelColumn:
    """A categorical column as codes into its distinct values; the code -1, which indexes the last value, is
    missing.

    With `declared` the order of the values is that of the codes. `scale`: the levels of an ordered column in
    their order, whether they occur or not. With `strict` values that are neither text nor numbers raise
    TypeError; otherwise they (for example intervals) are converted to text. `equal`: a truth value and a
    number of the cells that are equal, which no fit takes for one level.
    """

    def __init__(
        self,
        name: str,
        codes: Array,
        values: Sequence[Any],
        *,
        strict: bool,
        declared: bool = False,
        scale: Sequence[Any] = (),
        equal: tuple[object, object] | None = None,
    ) -> None:
        self.name, self._equal = name, equal
        self.codes = codes.astype(np.min_scalar_type(-len(values) - 1), copy=False)
        self.declared = declared
        plain = (_plain(value, name, strict) for value in scale)
        self.scale: list[Level] = [level for level in plain if level is not None]
        self.values = [_plain(value, name, strict) for value in values] + [None]
        self.used = np.zeros(len(self.values), dtype=bool)
        self.used[codes] = True
        empty = np.array([value is None for value in self.values])
        self.n_missing = int(np.count_nonzero(empty[codes])) if (empty & self.used).any() else 0

    def present(self) -> list[Level]:
        """Return the distinct values that occur, without missing."""
        pairs = zip(self.values, self.used, strict=True)
        return list(dict.fromkeys(value for value, used in pairs if used and value is not None))

    def all_different(self) -> bool:
        """Return whether all cells are distinct."""
        return all_different(len(self.present()), len(self.codes) - self.n_missing)

    @property
    def has_order(self) -> bool:
        """Whether the values have an order: a declared one, or that of numbers."""
        known = self.declared or bool(self.scale)
        return known or not any(isinstance(value, str) for value in self.present())

    def learn(self, missing: str, *, ordered: bool = False, order: Sequence[Level] = ()) -> tuple[Level, ...]:
        """Return the levels in the order of their codes.

        Of an `ordered` column, levels that do not occur keep their place. `order`: all of its levels.
        """
        levels = self.present()
        if any(isinstance(level, float) and np.isinf(level) for level in levels):
            raise infinite_cell(self.name, "a level")
        self._check_distinct(levels)
        scale = (order or self.scale) if ordered else ()
        if scale:
            levels = self._on_scale(scale)
        elif ordered and self.declared:
            levels = [value for value in dict.fromkeys(self.values) if value is not None]
        elif not self.declared:
            levels.sort(key=lambda level: (isinstance(level, str), level))
        if missing == "category" and self.n_missing:
            levels = [level for level in levels if level != MISSING_LEVEL] + [MISSING_LEVEL]
        if len(levels) > MAX_LEVELS:
            raise ValueError(
                f"Column {self.name!r} has {len(levels)} levels, but at most {MAX_LEVELS} are supported; "
                "merge rare levels, or convert the column to numbers."
            )
        return tuple(levels)

    def _check_distinct(self, levels: Sequence[Level]) -> None:
        """Raise TypeError if two levels are equal, or have one text in descriptions, files and SQL."""
        if self._equal is not None:
            raise TypeError(_ALIKE.format(self.name, *self._equal, "are equal"))
        texts = {level for level in levels if isinstance(level, str)}
        for level in levels if texts else ():
            if not isinstance(level, str) and (text := as_text(level)) in texts:
                raise TypeError(_ALIKE.format(self.name, level, text, "have one name"))

    def _on_scale(self, scale: Sequence[Level]) -> list[Level]:
        """The levels of a scale; raise ValueError if a level that occurs has no place on it."""
        unseen = self.translate(tuple(scale), "ignore")[1]
        if unseen:
            first = ", ".join(map(repr, unseen[:5])) + (", ..." if len(unseen) > 5 else "")
            raise ValueError(
                f"The order of column {self.name!r} lacks {len(unseen)} level(s) that occur: {first}; "
                "list all levels in order."
            )
        return list(scale)

    def translate(self, levels: tuple[Level, ...], missing: str) -> tuple[Array, list[Level]]:
        """Return the code of each value, and the values that are not levels."""
        code = {level: c for c, level in enumerate(levels)}
        # "1", 1 and 1.0 are the same level if one side is text, for example after a round trip through CSV
        code_of_text = {text: c for level, c in code.items() for text in _spellings(level)}
        code_of_text |= {str(level): c for level, c in code.items()}
        codes = np.full(len(self.values), len(levels))
        unseen = []
        for i in np.flatnonzero(self.used):
            value = self.values[i]
            if value is None:
                if missing != "category":
                    continue
                value = MISSING_LEVEL
            c = code.get(value)
            if c is None:
                c = next((code_of_text[text] for text in _spellings(value) if text in code_of_text), None)
            if c is None and isinstance(value, bool) and (word := truth_level(value, levels)) is not None:
                c = code[word]
            if c is None:
                if isinstance(value, float) and np.isinf(value):  # as in `learn`
                    raise infinite_cell(self.name, "a level")
                unseen.append(value)
            else:
                codes[i] = c
        return codes, unseen

    def warn_of_foreign(self, unseen: Sequence[Level]) -> None:
        """Warn if not one of several cells is a level of the fit: another spelling or type, most likely."""
        if unseen and len(self.codes) - self.n_missing > 1 and set(unseen).issuperset(self.present()):
            warn_user(
                f"Column {self.name!r}: no value of these rows occurred in fit, so they count as missing; "
                "check their spelling and their type."
            )


def warn_of_empty(names: Sequence[str], n_missing: Array, n_rows: int) -> None:
    """Warn of the columns that have no value in the rows of a new table; few rows may lack one by chance."""
    for name, missing in zip(names, n_missing.tolist(), strict=True):
        if missing == n_rows >= _FEWEST_EMPTY:
            warn_user(
                f"Column {name!r} has no value in any of these rows, and counts as missing in all of them."
            )


def all_different(n_different: int, n_present: int) -> bool:
    """Whether all cells that are present are distinct; fewer than three are not sufficient evidence."""
    return n_different == n_present >= 3


def check_text(name: str, values: Collection[Level], n_present: int) -> None:
    """Raise ValueError if all cells of a column of text are distinct, and warn of numbers as text.

    `values`: the distinct ones. `n_present`: cells with a value.
    """
    numbers = len(values) > _FEW and all(_NUMBER.fullmatch(str(value)) for value in values)
    if all_different(len(values), n_present):
        raise ValueError(
            f"Column {name!r} has a different text in every row, so it cannot define clusters; "
            + ("its texts are numbers: convert it, " if numbers else "")
            + "drop it or pass it as Categorical."
        )
    if numbers:
        warn_user(
            f"Column {name!r} holds numbers as text, so that its {len(values)} values are categories; "
            "convert it, pass the table craftc.read_table(X), which does so, or name it in `categorical`."
        )


def common_order(name: str, orders: Iterable[Sequence[T]]) -> list[T]:
    """The scale of a column whose parts have some of its levels each, in order.

    Raises ValueError if the parts contradict each other, or leave the order of two levels open.
    """
    parts = [[level for level in order if level is not None] for order in dict.fromkeys(map(tuple, orders))]
    scale: list[T] = []
    left = parts
    while left := [order for order in left if order]:
        behind = {level for order in left for level in order[1:]}
        first = dict.fromkeys(order[0] for order in left if order[0] not in behind)
        if len(first) != 1:
            raise ValueError(
                f"Parts of column {name!r} declare the orders {shown(parts)}, which do not agree on one; "
                f"pass kinds={{{name!r}: [...]}} with its levels in order."
            )
        (level,) = first
        scale.append(level)
        left = [order[1:] if order[0] == level else order for order in left]
    return scale


def _spellings(level: Level) -> list[str]:
    """The texts of a level, its own first; a number of a column with blank cells may have become 1.0."""
    if isinstance(level, str | bool) or abs(level) > EXACT_INTEGERS:
        return [str(level)]
    return list(dict.fromkeys((str(level), as_text(level), str(float(level)))))


def equal_pair(cells: Iterable[object]) -> tuple[object, object] | None:
    """A truth value and a number among the cells that are equal, as True and 1 are."""
    cells = list(cells)
    types = [each for each in set(map(type, cells)) if issubclass(each, Number | np.bool_)]
    truths = [each for each in types if issubclass(each, bool | np.bool_)]
    if not truths or len(truths) == len(types):
        return None
    truth = {bool(cell) for cell in cells if type(cell) in truths}
    numbers = {cell for cell in cells if type(cell) in types and type(cell) not in truths}
    return next(((value, int(value)) for value in sorted(truth) if value in numbers), None)


def _plain(value: object, name: str, strict: bool) -> Level | None:
    """Convert a value to a level: a Python scalar, or None if it is missing."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int):
        return value
    if isinstance(value, float | np.longdouble | Decimal):
        return float(value) + 0.0 if value == value else None  # + 0.0: no negative zero
    if is_missing(value):
        return None
    if strict:
        raise TypeError(NOT_LEVELS.format(name, type(value).__name__))
    return str(value)


def dictionary_codes(native: pa.ChunkedArray) -> tuple[Array, list[Any]] | None:
    """Codes of a pyarrow column of texts with dictionaries, and the values by first appearance; None if a
    dictionary holds nulls or a text twice, so that its indices are no codes.
    """
    for chunk in native.chunks:
        texts = chunk.dictionary.to_pylist()
        if None in texts or len(set(texts)) < len(texts):
            return None
    array = native.unify_dictionaries().combine_chunks()
    indices, texts = array.indices.cast("int64").fill_null(-1).to_numpy(), array.dictionary.to_pylist()
    first = np.full(len(texts) + 1, len(indices))
    first[indices[::-1]] = np.arange(len(indices))[::-1]  # of equal indices the last one is kept
    used = np.flatnonzero(first[:-1] < len(indices))
    order = used[np.argsort(first[used])]
    code = np.full(len(texts) + 1, -1)  # the last one is that of a null
    code[order] = np.arange(len(order))
    return code[indices], [texts[at] for at in order.tolist()]
