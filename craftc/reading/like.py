"""New tables, read as the table of a fit was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc.reading.bare_texts import number_of_label
from craftc.reading.cells import NA_VALUES, NUMERIC_NA_VALUES, have_leading_zeros
from craftc.reading.dates import AHEAD
from craftc.reading.files import FileForm, RawTable
from craftc.reading.input_file import TableError, did_you_mean
from craftc.reading.joined import joined_of
from craftc.reading.prepare import prepare
from craftc.reading.remarks import about_other_words
from craftc.reading.roles import Roles, answer_name, as_list
from craftc.reading.several import Answers
from craftc.reading.versions import equal_texts
from craftc.table import Schema
from craftc.table.dates import PARTS, part_name
from craftc.table.kinds import same_truth, told_truths, truth_level
from craftc.table.level_column import MISSING_LEVEL
from craftc.table.personal import shown_cells

if TYPE_CHECKING:
    import pandas as pd

_MOST = 12  # names that an error lists
_YEARS = 1900.0, 2100.0  # as days since 1970-01-01 they are in 1975


class Fitted(Protocol):
    """An estimator that knows the columns of its table."""

    @property
    def schema_(self) -> Schema: ...


def form_like(form: FileForm, schema: Schema) -> FileForm:
    """The form that the caller gives, completed by the form that was given in the fit."""
    default, said = FileForm(), schema.reading.get("file", {})
    fields = {
        name: value
        for name, value in said.items()
        if hasattr(default, name) and getattr(form, name) == getattr(default, name)
    }
    return replace(form, **fields)  # type: ignore[arg-type]


def said_in_fit(schema: Schema) -> str:
    """The form that was given in the fit."""
    said = schema.reading.get("file", {})
    return ", ".join(f"{name}={value!r}" for name, value in said.items() if hasattr(FileForm(), name))


def match_columns(
    raw: RawTable,
    schema: Schema,
    path: str,
    na_values: Sequence[object] = (),
    *,
    new_levels: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """Select and convert the columns that a model expects, as they were read in its fit; returns them, and
    notes.

    `path` names the table in messages. `new_levels`: whether levels are wanted that the fit has not seen;
    otherwise a note names them.
    """
    frame = raw.frame
    if not schema.named:  # the model was fitted on an array
        if frame.shape[1] != schema.n_columns:
            raise TableError(
                f"{path!r} has {frame.shape[1]} columns, but the model was fitted on {schema.n_columns} "
                "columns without names; pass a table with the same columns in the same order."
            )
        frame = frame.set_axis(list(schema.columns), axis=1)
    names, wanted = list(frame.columns), set(schema.columns)
    recipes = _recipes(schema, names)
    answers = {name: found for name in names if (found := _answers(recipes.get(name, {}))) is not None}
    of_answers = {
        name: {answer_name(name, option, frame.columns) for option in each.options}
        for name, each in answers.items()
    }
    parts = {name: {part_name(name, part, frame.columns) for part in PARTS} for name in names}
    dates = {name for name, columns in parts.items() if not columns.isdisjoint(wanted)}
    dates |= {schema.columns[j] for j in schema.dates}
    of_dates = {part for name in dates for part in parts.get(name, ())}
    joined = joined_of(schema.reading.get("columns", {}), wanted.difference(names))
    parts_of_joined = [part for each in joined for part in each.parts]
    of_numbers = {name: _parts_of(name, recipes.get(name, {}), names) for name in names}
    made = of_dates.union(*of_answers.values(), *of_numbers.values()).union(each.name for each in joined)
    absent = [name for name in schema.columns if name not in made and name not in names]
    absent += [part for part in parts_of_joined if part not in names]
    known = {*dates, *wanted, *answers, *parts_of_joined}.union(name for name in names if of_numbers[name])
    unused = [name for name in names if name not in known]
    if absent:
        hint = did_you_mean(absent[0], unused)
        raise TableError(f"{path!r} lacks column(s) of the model: {listed(absent, _MOST)}.{hint}")
    said = schema.reading.get("file", {})
    roles = Roles(
        [name for name in (*schema.categorical_names, *parts_of_joined) if name in names],
        [name for name in schema.numeric_names if name not in dates],
        dates,
        dates_as="days" if wanted.isdisjoint(of_dates) else "parts",
        fitted=True,
        decimal=str(said.get("decimal", "infer")),
        blanks="missing",
        split=[],
        recipes=recipes,
        answers_of=answers,
        numeric_problem="the model expects numbers",
    )
    used = replace(raw, frame=frame.drop(columns=unused))
    noted_na = said.get("na_values", [])
    table = prepare(used, roles, na_values=[*na_values, *noted_na], drop=False)  # type: ignore[misc]
    notes = list(table.notes)
    for each in joined:
        table.frame[each.name] = each.column(table.frame)
    if unused:
        notes.append(note_of_unused(unused))
    for name in dates.intersection(parts, table.frame.columns):
        if table.frame[name].isna().all():  # no parts were made of it
            for part in parts[name] & wanted:
                table.frame[part] = np.nan
    absent = [name for name in schema.columns if name not in table.frame.columns]
    if absent:
        lacks = f"{path!r} lacks column(s) of the model: {listed(absent, _MOST)}"
        raise TableError(f"{lacks}, because a column holds no dates.")
    columns: dict[str, pd.Series | None] = dict.fromkeys(schema.columns)
    for name in schema.numeric_names:
        cells = table.frame[name]
        if hasattr(cells.dtype, "categories") and len(present := cells.dropna()):
            kind = "dates" if name in dates else "numbers"
            raise TableError(
                f"Column {quoted(name)}: the model was fitted on {kind}, got "
                f"{quoted(as_text(present.iloc[0]))}; write the {kind} as in the fit."
            )
        columns[name] = numbers = cells.astype(np.float64)
        if name in dates and name in names and not any(quoted(name) in note for note in notes):
            notes += _as_days(name, numbers)
    for name, levels in zip(schema.categorical_names, schema.levels, strict=True):
        columns[name], own, unseen = _levels(table.frame[name], {str(level) for level in levels})
        notes += own if new_levels else [*own, *unseen]
    return need_pandas().DataFrame(columns), notes


def note_of_unused(names: Sequence[str]) -> str:
    """The note about columns that are not in the model."""
    return f"columns that are not in the model are ignored: {listed(names, _MOST)}."


def _as_days(name: str, days: pd.Series) -> list[str]:
    """A note about plain numbers in the place of dates that would be far from now; TableError if all could
    be years.
    """
    present = days.dropna()
    if len(present) and (present % 1.0 == 0.0).all() and present.between(*_YEARS).all():
        raise TableError(
            f"Column {quoted(name)}: the model was fitted on dates, but the cells are years, such as "
            f"{as_text(present.iloc[0])}; write the dates as in the fit."
        )
    last = np.datetime64(0, "D") + int(present.max()) if len(present) else np.datetime64("NaT")
    if not last > np.datetime64("today") + 365 * AHEAD:
        return []
    return [
        f"{quoted(name)}: numbers are taken as days since 1970-01-01, up to {last}; write the dates as "
        "in the fit."
    ]


def _answers(recipe: Mapping[str, object]) -> Answers | None:
    """The answers of a column that was split in the fit."""
    if "options" not in recipe:
        return None
    options, alone = as_list(recipe, "options"), as_list(recipe, "alone")
    return Answers(str(recipe["answers"]), tuple(options), tuple(alone), bool(recipe.get("partial")))


def _parts_of(name: str, recipe: Mapping[str, object], taken: Sequence[str]) -> list[str]:
    """The columns of the numbers in the cells of a column, as of the fit."""
    return [part_name(name, str(i + 1), taken) for i in range(int(str(recipe.get("parts", 0))))]


def _recipes(schema: Schema, names: Sequence[str]) -> dict[str, Mapping[str, object]]:
    """How the texts of these columns were read in the fit."""
    known = schema.reading.get("columns", {})
    return {name: recipe for name in names if isinstance(recipe := known.get(name), Mapping)}


def _levels(column: pd.Series, known: set[str]) -> tuple[pd.Series, list[str], list[str]]:
    """A categorical column with its cells replaced by the model's spelling of the levels, and notes about
    other words for these and about levels that the fit has not seen.
    """
    notes: list[str] = []
    level_of: dict[object, str | None] = {}
    words = known - {MISSING_LEVEL}
    widths = {len(level) for level in words}
    padded = widths.pop() if len(widths) == 1 and have_leading_zeros([*words]) else 0
    versions = bool(equal_texts([*words]))  # whose digits count
    cells = column.dropna().unique()
    others = _of_other_pair([as_text(cell) for cell in cells], words)
    taken = {}
    for cell in cells:
        text = as_text(cell)
        spellings = [text] if versions else _spellings(text)
        # programs drop the zeros of codes; labels of a scale are not part of its numbers
        spellings += [text.zfill(padded), number_of_label(text)]
        spelled = next((spelling for spelling in spellings if spelling in known), None)
        spelled = spelled or same_truth(text, words)
        if spelled is None and text in others:
            spelled = taken[text] = others[text]
        level_of[cell] = spelled or text
        if level_of[cell] not in known and text.casefold() in (*NA_VALUES, *NUMERIC_NA_VALUES):
            level_of[cell] = None
    of_words = [about_other_words(str(column.name), taken)] if taken else []
    unseen = sorted(level for level in level_of.values() if level is not None and level not in known)
    if unseen:
        notes.append(
            f"{quoted(str(column.name))}: levels that did not occur in fit are treated as missing: "
            f"{shown_cells(str(column.name), unseen, known)}."
        )
    return column.astype(object).map(level_of).astype("category"), of_words, notes


def _of_other_pair(texts: Sequence[str], words: Collection[str]) -> dict[str, str]:
    """The one of the two words of the fit for true and false that each of these texts means."""
    if len(words) != 2:
        return {}
    levels = {text: truth_level(value, words) for text, value in told_truths(texts).items()}
    return {text: level for text, level in levels.items() if level is not None}


def _spellings(text: str) -> list[str]:
    """Equivalent spellings of a level: 1 and 1.0, TRUE and True."""
    spellings = [text, text.capitalize()] if text.casefold() in ("true", "false") else [text]
    try:
        value = float(text)
    except ValueError:
        return spellings
    return [*spellings, as_text(value), str(value)] if np.isfinite(value) else spellings
