"""Columns of texts, numbers and dates, made ready for an estimator: `prepare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc._common.typing import Floats, Integers
from craftc.reading.bare_texts import are_labelled_codes
from craftc.reading.cell_parts import find_parts
from craftc.reading.cells import NA_VALUES, NUMERIC_NA_VALUES, parse_numbers, plain_text, table_marks
from craftc.reading.dates import are_long_codes, integer_dates, parse_dates, parse_times, typed_days
from craftc.reading.files import RawTable
from craftc.reading.input_file import TableError
from craftc.reading.joined import find_joined
from craftc.reading.labelled import own_labels
from craftc.reading.levels import are_codes, items_of_scales, number_levels, text_levels
from craftc.reading.mixed_cells import with_cells_of_one_kind, with_thousands, with_unit
from craftc.reading.quantities import could_be_times, in_unit, parse_durations, parse_quantities, seconds_of
from craftc.reading.remarks import (
    about_answers,
    about_codes,
    about_hours,
    about_levels,
    about_na_levels,
    about_other_words,
    about_parts,
    about_period,
    about_scale,
    about_text_codes,
    bad_cells,
    different_units,
    far_cells,
    hours_of_numbers,
    one_number,
    other_unit,
    words_among,
)
from craftc.reading.roles import (
    PreparedTable,
    Roles,
    answer_name,
    as_list,
    blank_level,
    levels_of_tick,
    tick_of,
)
from craftc.reading.several import Answers, find_answers, find_listed, flags_of, named_answers
from craftc.reading.unusable import (
    CONSTANT,
    CONSTANT_OF_SOME,
    DATES,
    EMPTY,
    IDS,
    derived_among,
    has_code_name,
    id_reason,
    listed_reasons,
    text_reason,
)
from craftc.table.dates import FEWEST_PERIODS, PARTS, named_period, part_name, parts_of, repeats
from craftc.table.kinds import (
    INFERRED,
    INFERRED_DATES,
    INFERRED_DURATIONS,
    ColumnKind,
    float_of,
    has_lists,
    is_absent,
)
from craftc.table.level_column import EXACT_INTEGERS
from craftc.table.sentinels import sentinel_dates, sentinels

if TYPE_CHECKING:
    import pandas as pd

_LOOKED_AT = 2000  # cells of a column that show the decimal mark of a table


def prepare(
    raw: RawTable, roles: Roles, *, na_values: Sequence[object] = (), drop: bool = True
) -> PreparedTable:
    """Convert every column of a raw table, and set unusable columns aside if `drop`.

    `na_values`: further missing cells. `drop`: whether unusable columns are set aside.
    """
    if isinstance(na_values, str):
        raise ValueError(f"na_values must be a list of cells, got {na_values!r}; pass [{na_values!r}].")
    reader = _Reader(raw, roles, na_values, drop)
    for name in raw.frame.columns:
        reader.read(name)
    return reader.finished()


class _Reader:
    """Converts the columns of a raw table one by one; `finished` leaves out the unusable ones."""

    def __init__(self, raw: RawTable, roles: Roles, na_values: Sequence[object], drop: bool) -> None:
        self._raw, self._roles, self._drop = raw, roles, drop
        self._na_values = list(map(as_text, na_values))
        self._na = {*NA_VALUES, *self._na_values}
        self._na_numbers = [number for each in na_values if (number := float_of(each)) is not None]
        of_dates = (parse_dates([each], np.ones(1, np.intp), forced=True) for each in self._na_values)
        self._na_days = [day for each in of_dates if each is not None for day in each.days.tolist()]
        self._columns: dict[str, pd.Series] = {}
        self._notes: list[str] = list(raw.notes)
        self._of_use: dict[str, str] = {}  # the column whose use a note is about
        self._unusable: dict[str, str] = {}
        self._codes: list[str] = []
        self._kinds: dict[str, str | tuple[str, float]] = {}
        self._na_levels: dict[str, set[str]] = {}
        self._boxes: list[str] = []  # columns of one value and blank cells
        self._recipes: dict[str, dict[str, object]] = {}  # how the texts of columns were read
        self._pd = need_pandas()
        marks = table_marks(raw.frame[name].iloc[:_LOOKED_AT].tolist() for name in raw.frame.columns)
        self._pointless = "." not in marks  # whether no column shows a decimal point
        self._point = roles.decimal if roles.decimal != "infer" else "," if marks == {","} else ""

    def finished(self) -> PreparedTable:
        """The usable columns; those with one value in every row are among them where nothing else is left."""
        own = {name: self._columns[name] for name in self._codes if name not in self._roles.asked}
        for ends, items in items_of_scales(own).items():
            self._columns |= items
            self._codes = [name for name in self._codes if name not in items]
            self._notes.append(about_scale([*items], *ends))
        if not self._drop:
            self._unusable = {}
        elif len(self._unusable) == len(self._columns):
            self._unusable = {name: reason for name, reason in self._unusable.items() if reason != CONSTANT}
        else:
            usable = {name: each for name, each in self._columns.items() if name not in self._unusable}
            made = self._kinds.keys() - set(self._raw.frame.columns)  # parts of dates that are asked for
            self._unusable |= (derived := derived_among(usable, self._kinds, {*self._roles.asked, *made}))
            self._notes = [note for note in self._notes if self._of_use.get(note) not in derived]
        parts = self._join() if self._drop else set()
        gone = parts.union(self._unusable)
        used = {name: column for name, column in self._columns.items() if name not in gone}
        if not used:
            raise TableError(
                f"No column is left to cluster ({listed_reasons(self._unusable)}); on_unusable='keep' keeps "
                "such columns."
            )
        if self._na_levels:
            self._notes.append(about_na_levels(self._na_levels))
        if boxes := [name for name in self._boxes if name in used]:
            self._notes.append(
                f"Blank cells next to a single value are 'no' (in {listed(boxes)}); blanks='missing' leaves "
                "them so."
            )
        frame = self._pd.DataFrame(used).set_axis(self._raw.frame.index)
        kinds = frame.attrs["kinds"] = {name: kind for name, kind in self._kinds.items() if name in used}
        frame.attrs["reading"] = {"file": self._said(), "columns": self._recipes}
        if labels := own_labels(self._raw.labels, frame.columns):
            frame.attrs["reading"]["labels"] = labels
        codes = [name for name in self._codes if name in used]
        return PreparedTable(frame, self._notes, self._unusable, codes, kinds)

    def _join(self) -> set[str]:
        """Add the columns that one-hot groups are joined to; returns the parts, which are not used."""
        own = set(self._raw.frame.columns).difference(self._unusable, self._roles.asked)
        columns = {name: column for name, column in self._columns.items() if name in own}
        found = find_joined(columns, [*self._raw.frame.columns, *self._columns])
        for each in found:
            self._columns[each.name] = each.column(columns)
            self._recipes[each.name] = each.recipe
            self._notes.append(each.note)
        return {part for each in found for part in each.parts}

    def _said(self) -> dict[str, object]:
        """What the caller says about the form of the file and its cells."""
        decimal = self._roles.decimal if self._roles.decimal != "infer" else ""
        cells = {"decimal": decimal, "na_values": self._na_values}
        return self._raw.form.said() | {name: value for name, value in cells.items() if value}

    def _put(self, name: str, column: ArrayLike | pd.Series | pd.Categorical, reason: str = "") -> None:
        """Use a column, unless there is a reason against it, it has no value, or one value in every row."""
        series = self._pd.Series(column).reset_index(drop=True)
        if isinstance(series.dtype, self._pd.CategoricalDtype):
            series = self._ticked(name, series)
        present = int(series.notna().sum())
        if not present:
            reason = EMPTY
        elif name in self._roles.categorical or name in self._roles.numeric:
            reason = ""
        elif not reason and len(series) > 1 and series.nunique() == 1:
            codes = isinstance(series.dtype, self._pd.CategoricalDtype)
            reason = CONSTANT if present == len(series) else "" if codes else CONSTANT_OF_SOME
        self._columns[name] = series
        if reason and name not in self._roles.kept:
            self._unusable[name] = reason

    def _recipe(self, name: str) -> Mapping[str, object]:
        """How the texts of a column were read in a fit; empty if that is not known."""
        return self._roles.recipes.get(name, {})

    def _note_recipe(self, name: str, **recipe: object) -> None:
        self._recipes[name] = self._recipes.get(name, {}) | recipe

    def _ticked(self, name: str, series: pd.Series) -> pd.Series:
        """A column of one level and blank cells, which are "no"; other columns unchanged."""
        blank, tick = (str(self._recipe(name).get(each, "")) for each in ("blank", "tick"))
        levels = [as_text(series.cat.categories[code]) for code in set(series.cat.codes) if code >= 0]
        if not blank:
            asked = self._roles.blanks == "auto" and name not in self._roles.kept
            one_word = len(set(map(tick_of, levels))) == 1
            if not asked or not one_word or not series.isna().any():
                return series
            tick = min(levels)
            blank = blank_level(tick)
            if not blank:
                return series
            self._boxes.append(name)
        self._note_recipe(name, blank=blank, tick=tick)
        level_of = levels_of_tick(levels, tick, blank)
        if other := {text: level for text, level in level_of.items() if tick_of(text) != tick_of(level)}:
            self._notes.append(about_other_words(name, other))
        texts = series.astype(object).map(lambda level: level_of[as_text(level)], na_action="ignore")
        texts = texts.astype(object).where(series.notna(), blank)
        ticked: pd.Series = self._pd.Series(
            self._pd.Categorical(texts, categories=sorted({blank, tick, *texts}))
        )
        return ticked

    def read(self, name: str) -> None:
        """Convert one column."""
        column, pd = self._raw.frame[name], self._pd
        types = pd.api.types
        if isinstance(column.dtype, pd.CategoricalDtype):
            if name not in self._roles.numeric and not types.is_datetime64_any_dtype(column.cat.categories):
                gone = [level for level in column.cat.categories if as_text(level) in self._na_values]
                column = column.cat.remove_categories(gone) if gone else column
                # levels of a scale that do not occur keep their place
                self._put(name, column if column.cat.ordered else column.cat.remove_unused_categories())
                return
            column = column.astype(column.cat.categories.dtype)
        kind = types.infer_dtype(column, skipna=True)
        if name in self._roles.answers_of or "parts" in self._recipe(name):
            if not self._split_lists(name, column):
                self._text(name, column.astype(object))
            return
        if kind in ("bytes", "complex"):
            if not self._drop and name not in self._roles.kept:
                what = f"Column {quoted(name)} holds {kind} instead of numbers or text"
                raise TableError(f"{what}; convert it, or leave it out.")
            self._put(name, column, f"{kind} instead of numbers or text")
        elif name in self._roles.categorical and kind in INFERRED_DATES + INFERRED_DURATIONS:
            self._text(name, column.astype(object))
        elif kind in INFERRED_DATES:
            self._dates(name, typed_days(column, kind))
        elif kind in INFERRED_DURATIONS:
            seconds = pd.to_timedelta(column).dt.total_seconds().to_numpy(np.float64, na_value=np.nan)
            self._hours(name, seconds / 3600.0, "duration", "days")
        elif kind in ("mixed", "unknown-array") and self._may_split(name) and self._split_lists(name, column):
            return
        elif kind == "boolean" and name not in self._roles.numeric:
            self._put(name, text_levels(*self._texts(column)))
        elif INFERRED.get(kind) in (ColumnKind.NUMBER, ColumnKind.LEVEL):
            self._typed_numbers(name, column)
        elif name in self._raw.units and kind != "empty":
            self._text(name, with_unit(column, self._raw.units[name]))
        else:
            column, mixed = with_cells_of_one_kind(column, kind, self._roles.decimal)
            self._notes += [f"{quoted(name)}: {mixed}."] if mixed else []
            self._text(name, column)

    def _split_lists(self, name: str, column: pd.Series) -> bool:
        """Use a column of lists as one column for each of their entries, if it is one."""
        missing = np.array([is_absent(cell) for cell in column], bool)
        cells = [cell for cell, gone in zip(column, missing, strict=True) if not gone]
        answers = (self._roles.answers_of.get(name) or find_listed(cells)) if has_lists(cells) else None
        if answers is None:
            return False
        codes = np.full(len(column), -1)
        codes[~missing] = np.arange(len(cells))
        self._split(name, [*cells, []], codes, answers)
        return True

    def _typed_numbers(self, name: str, column: pd.Series) -> None:
        whole = self._pd.api.types.is_integer_dtype(column.dtype)
        if whole and column.notna().any() and max(abs(int(column.min())), abs(int(column.max()))) > 1 << 53:
            reason = IDS if column.nunique() == column.count() >= 3 else ""
            self._put(name, text_levels(*self._texts(column)), reason)
            return
        try:
            values = self._pd.to_numeric(column).to_numpy(np.float64, na_value=np.nan)
        except OverflowError:  # Python's integers have no largest one
            self._text(name, column.astype(object))
            return
        if n_infinite := int(np.isinf(values).sum()):
            values = np.where(np.isinf(values), np.nan, values)
            self._notes.append(f"{quoted(name)}: {n_infinite:,} infinite number(s) became missing.")
        if name in self._roles.categorical:
            self._put(name, number_levels(values))
        else:
            unit = self._raw.units.get(name, "")
            values, remarks = hours_of_numbers(name, self._recipe(name), values)
            remarks += other_unit(name, self._recipe(name), values, unit)
            self._notes += [f"{quoted(name)}: {each}." for each in remarks]
            if unit:
                self._note_recipe(name, unit=unit, decimal="")
                self._notes.append(f"{quoted(name)} was read as numbers: {unit!r} removed.")
            narrow = str(column.dtype).lower() in ("float32", "float16")
            self._numbers(name, values, np.float32 if narrow else np.float64, quantity=bool(unit))

    # ---- text ----

    def _texts(self, column: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
        """Codes of the cells, -1 for missing ones, and the distinct texts without blanks around them."""
        if column.dtype == object:
            column = column.map(as_text, na_action="ignore")
        codes, cells = self._pd.factorize(column)
        index: dict[str, int] = {}
        stripped = (
            plain_text(cell) if isinstance(cell, str) else as_text(cell)
            for cell in np.asarray(cells, dtype=object).tolist()
        )
        code_of = [-1 if text in self._na else index.setdefault(text, len(index)) for text in stripped]
        return np.array([*code_of, -1], dtype=np.intp)[codes], list(index)

    def _text(self, name: str, column: pd.Series) -> None:
        codes, texts = self._texts(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        is_na = np.array([text.casefold() in NUMERIC_NA_VALUES for text in texts], dtype=bool)
        is_na |= self._missing_in_fit(name, texts, counts)
        rest = np.flatnonzero(~is_na)
        cells, number_of = [texts[i] for i in rest], counts[rest]
        if "parts" in self._recipe(name) and self._as_parts(name, codes, texts, counts):
            return
        if not cells and name not in self._roles.answers_of:
            levels = name in self._roles.categorical
            self._put(name, text_levels(codes, texts) if levels else np.full(len(codes), np.nan))
            return
        asked = name not in self._roles.categorical and name not in self._roles.answers_of
        if asked and self._as_numbers(name, codes, len(texts), rest, cells, number_of):
            return
        if asked and self._as_parts(name, codes, texts, counts):
            return
        if self._may_split(name) and (answers := self._answers_of(name, cells, number_of)):
            self._split(name, [*texts, ""], codes, answers)
            return
        present = int(counts.sum())
        reason = "" if name in self._roles.categorical else text_reason(len(texts), codes)
        self._put(name, text_levels(codes, texts), reason)
        if name not in self._unusable:
            if name not in self._boxes:
                self._notes += about_levels(name, texts, present, known=self._roles.fitted)
            if is_na.any():
                self._na_levels[name] = {text for text, each in zip(texts, is_na, strict=True) if each}

    def _missing_in_fit(self, name: str, texts: list[str], counts: Integers) -> NDArray[np.bool_]:
        """Which texts of a column of numbers or dates were missing in the fit, such as "tr", with a note."""
        known = set(as_list(self._recipe(name), "missing")) if name not in self._roles.categorical else ()
        are_known = [text.casefold() in known for text in texts]
        if found := [text for text, own in zip(texts, are_known, strict=True) if own]:
            self._notes.append(f"{quoted(name)}: {bad_cells(name, found, texts, counts)}, as in the fit.")
        return np.array(are_known, dtype=bool)

    def _bad_cells(self, name: str, bad: Sequence[str], cells: Sequence[str], counts: Integers) -> str:
        """The remark about cells that became missing; a model keeps which words these are."""
        if words := words_among(bad, cells, counts):
            self._note_recipe(name, missing=words)
        return bad_cells(name, bad, cells, counts)

    def _as_parts(self, name: str, codes: NDArray[np.intp], texts: list[str], counts: Integers) -> bool:
        """Whether the cells of a text column hold several numbers each, which become columns."""
        known = int(str(self._recipe(name).get("parts", 0)))
        if not known and (self._roles.split != "auto" or not self._may_split(name) or has_code_name(name)):
            return False
        point = str(self._recipe(name).get("decimal", self._point))
        parts = find_parts(texts, counts, point, known)
        if parts is None:
            return False
        self._note_recipe(name, parts=parts.shape[1], decimal=point)
        names = [part_name(name, str(i + 1), self._raw.frame.columns) for i in range(parts.shape[1])]
        bad = [text for text, row in zip(texts, parts, strict=True) if np.isnan(row).any()]
        self._notes.append(about_parts(name, names, bad_cells(name, bad, texts, counts)))
        for new, values in zip(names, np.vstack([parts, np.full(parts.shape[1], np.nan)]).T, strict=True):
            self._numbers(new, values[codes])
        return True

    def _may_split(self, name: str) -> bool:
        """Whether cells of a column may hold several answers."""
        split, roles = self._roles.split, self._roles
        asked = split == "auto" or name in split
        used = {*roles.categorical, *roles.numeric, *roles.kept}
        return name in roles.answers_of or (asked and name not in used)

    def _answers_of(self, name: str, cells: list[str], counts: NDArray[np.intp]) -> Answers | None:
        """The answers of a column: of the fit, or as its texts show them."""
        known = self._roles.answers_of.get(name)
        named = self._roles.split != "auto"
        return known or find_answers(cells, counts) or (named_answers(cells, counts) if named else None)

    def _split(self, name: str, shown: Sequence[object], codes: NDArray[np.intp], answers: Answers) -> None:
        """One column of "yes" and "no" for every answer; `shown`: cells of the codes, the last is blank."""
        known = name in self._roles.answers_of
        blanks = str(self._recipe(name).get("blanks", self._roles.blanks))
        cells = [*map(answers.of_cell, shown)]
        said = {"answers": answers.separator, "options": [*answers.options], "alone": [*answers.alone]}
        self._note_recipe(name, blanks=blanks, partial=answers.partial, **said)
        missing = np.array([*map(answers.is_unknown, cells)], bool)[codes]
        n_unknown = int(missing.sum())
        if blanks == "missing":
            missing |= codes < 0
        for option in answers.options:
            flag = np.where(missing, -1, flags_of(cells, option)[codes])
            values = self._pd.Categorical.from_codes(flag, categories=["no", "yes"])
            self._put(
                answer_name(name, option, self._raw.frame.columns),
                values if known else values.remove_unused_categories(),
            )
        others = sorted(
            {answer for cell in cells for answer in cell}.difference(answers.options, answers.alone)
        )
        if not known or others:
            self._notes.append(about_answers(name, answers, others, n_unknown, known, blanks))

    def _as_numbers(
        self,
        name: str,
        codes: NDArray[np.intp],
        n_texts: int,
        rest: NDArray[np.intp],
        cells: list[str],
        counts: NDArray[np.intp],
    ) -> bool:
        """Whether the cells of a text column are dates, times or numbers, which are then used."""
        forced, recipe = name in self._roles.numeric, self._recipe(name)

        def of_rows(values: Floats) -> Floats:
            of_text = np.full(n_texts + 1, np.nan)
            of_text[rest] = values
            return of_text[codes]

        if name not in self._roles.dates and self._as_hours(name, cells, counts, of_rows):
            return True
        if not forced:
            by_name = name in self._roles.dates
            known = str(recipe.get("order", "")), int(str(recipe.get("first_year", 0)))
            dates = parse_dates(cells, counts, name=name, forced=by_name, known=known)
            if dates is not None and name not in self._roles.kept:
                self._note_recipe(name, order=dates.order, first_year=dates.first_year)
                remarks = [*filter(None, [dates.remark, self._bad_cells(name, dates.bad, cells, counts)])]
                self._dates(name, of_rows(dates.days), remarks, monthly=dates.monthly)
                return True
            if note := about_text_codes(name, cells):
                self._notes.append(note)
                return False
            if are_long_codes(cells, name):
                return False
        point, unit = str(recipe.get("decimal", self._point)), str(recipe.get("unit", ""))
        # a fit on plain numbers, and one that multiplied out, have the numbers themselves
        scaled = bool(recipe.get("times")) or not unit if forced else None
        numbers = parse_numbers(
            cells,
            counts,
            semicolons=self._raw.semicolons,
            forced=forced,
            point=point,
            scaled=scaled,
            unit=unit,
            units=as_list(recipe, "units"),
            unsigned=str(recipe.get("unsigned", "")) if self._roles.fitted else None,
            millions=bool(recipe.get("times")) and unit != "m",
        )
        if numbers is None:
            if forced:
                raise TableError(
                    f"Column {quoted(name)}: {self._roles.numeric_problem}, got {quoted(cells[0])}."
                )
            self._notes += different_units(name, cells, counts)
            return False
        if point == "":
            numbers = with_thousands(numbers, cells, counts, self._raw.semicolons, self._pointless)
        if numbers.unit or numbers.mark:
            self._note_recipe(name, unit=numbers.unit, decimal=numbers.mark)
        if numbers.scaled:
            self._note_recipe(name, times=1)
        if numbers.units:
            self._note_recipe(name, units=numbers.units)
        if numbers.unsigned:
            self._note_recipe(name, unsigned=numbers.unsigned)
        numbers.values, hours = hours_of_numbers(name, recipe, numbers.values)
        numbers.changes += hours + other_unit(name, recipe, numbers.values, numbers.unit, cells)
        equal = "" if forced else one_number(cells)
        bad = self._bad_cells(name, numbers.bad, cells, counts)
        remarks = [*numbers.changes, *filter(None, [equal, bad])]
        if remarks:
            self._notes.append(f"{quoted(name)} was read as numbers: {'; '.join(remarks)}.")
        quantity = bool(numbers.changes) and not are_labelled_codes(numbers.changes, numbers.values)
        self._numbers(name, of_rows(numbers.values), quantity=quantity)
        return True

    def _as_hours(
        self, name: str, cells: list[str], counts: NDArray[np.intp], of_rows: Callable[[Floats], Floats]
    ) -> bool:
        """Whether the cells of a text column are durations or times of day, which are then used in hours."""
        recipe, what = self._recipe(name), "duration"
        unit = str(recipe.get("unit", ""))
        known = bool(recipe.get(what)) or 60.0 <= seconds_of(unit) <= 86_400.0
        hours = None if recipe.get("time") else parse_durations(cells, counts, name, known)
        if hours is not None and hours.bad and unit:  # which may have another unit, such as weeks
            found = parse_quantities(cells, counts, unit, as_list(recipe, "units"))
            if found is not None and np.isnan(found.values).sum() < len(hours.bad):
                return False
        if hours is None:
            hours, what = parse_times(cells, counts, name, bool(recipe.get("time"))), "time"
        if hours is None:
            return False
        bad = self._bad_cells(name, hours.bad, cells, counts)
        self._hours(name, of_rows(hours.values), what, "hours", f"; {bad}" if bad else "", cells)
        return True

    def _hours(
        self, name: str, hours: Floats, what: str, unit: str, remark: str = "", cells: Sequence[str] = ()
    ) -> None:
        """Use times of day in hours, or durations in the unit of the fit, otherwise in this one."""
        fitted = str(self._recipe(name).get("unit", unit))
        if what == "time" or not seconds_of(fitted):
            other_unit(name, self._recipe(name), hours, unit, cells)
        else:
            hours, unit = in_unit(hours, fitted), fitted
            self._note_recipe(name, unit=unit)
        self._note_recipe(name, **{what: 1})
        is_open = not self._recipe(name).keys() & {"time", "duration"} and name not in self._roles.numeric
        self._notes.append(about_hours(name, what, unit, remark, is_open and could_be_times(cells)))
        self._numbers(name, hours, quantity=True)
        if what == "time" and name not in self._roles.numeric:
            self._kinds[name] = ("periodic", PARTS["hour"][0])

    # ---- numbers and dates ----

    def _numbers(
        self, name: str, values: Floats, dtype: DTypeLike = np.float64, *, quantity: bool = False
    ) -> None:
        """Use numbers as numbers, codes, dates or an id, by values and name; quantities stay numbers."""
        values = np.where(np.isin(values, self._na_numbers), np.nan, values)
        distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        present = int(counts.sum())
        whole = bool(present) and bool((np.isfinite(distinct) & (np.floor(distinct) == distinct)).all())
        if name in self._roles.numeric or not present or quantity:
            self._put(name, values.astype(dtype))
            if name not in self._roles.numeric:
                self._notes += far_cells(name, "numbers", sentinels(distinct, counts))
        elif (
            whole
            and name not in self._roles.kept
            and (days := integer_dates(distinct, name, forced=name in self._roles.dates)) is not None
        ):
            self._dates(name, np.append(days, np.nan)[np.searchsorted(distinct, values)])  # NaN comes last
        elif whole and are_codes(distinct, counts, len(values), ticks=self._roles.blanks == "auto"):
            self._put(name, number_levels(values))
            self._codes.append(name)
            self._notes += far_cells(name, "numbers", sentinels(distinct, counts))
        elif whole and name in self._roles.kept and np.abs(distinct).max() < EXACT_INTEGERS:
            self._put(name, self._pd.array(values, dtype="Int64"))
        else:
            reason = id_reason(name, values) if whole else ""
            self._put(name, values.astype(dtype), reason)
            use = about_codes(name, distinct, len(values)) if whole and not reason else []
            if not reason and (period := named_period(name, distinct)):
                self._kinds[name] = ("periodic", period)
                use = [about_period(name, period), *use]
            self._of_use |= dict.fromkeys(use, name)
            self._notes += [*use, *far_cells(name, "numbers", sentinels(distinct, counts))]

    def _dates(self, name: str, days: Floats, remarks: Sequence[str] = (), *, monthly: bool = False) -> None:
        """Use day numbers, and parts that repeat, or set them aside; months without days have no weekday."""
        days = np.where(np.isin(days, self._na_days), np.nan, days)
        if self._roles.dates_as == "drop" or name in self._roles.kept or np.isnan(days).all():
            self._put(name, days, DATES)
            return
        series = self._pd.Series(days)
        self._put(name, series)
        self._kinds[name] = "date"
        parts, few = {}, []
        if self._roles.dates_as == "parts":
            parts = parts_of(days)
            if monthly:
                del parts["hour"], parts["weekday"]
            if not self._roles.fitted:
                few = [part for part in parts if not repeats(days, part)]
        added = [part for part in parts if part not in few]
        for part in added:
            new = part_name(name, part, self._raw.frame.columns)
            self._put(new, parts[part])
            self._kinds[new] = ("periodic", PARTS[part][0])
        also = f"; periodic parts follow: {', '.join(added)}" if added else ""
        also += f"; they span fewer than {FEWEST_PERIODS} periods of: {', '.join(few)}" if few else ""
        also += "".join(f"; {each}" for each in remarks)
        self._notes.append(f"{quoted(name)} holds dates, which are used in days since 1970-01-01{also}.")
        if not self._roles.fitted:
            self._notes += far_cells(name, "dates", sentinel_dates(days))
