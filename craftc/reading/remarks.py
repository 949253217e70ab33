"""Notes about the texts of a column that were read as numbers or dates, or were not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import as_text, listed, quoted
from craftc._common.typing import Floats
from craftc.reading.cells import MAX_INTEGER_CODES, as_number, have_leading_zeros, units_among
from craftc.reading.dates import LONGEST
from craftc.reading.input_file import TableError
from craftc.reading.several import LISTS, Answers
from craftc.reading.unusable import is_code
from craftc.reading.versions import are_versions, equal_texts
from craftc.table.personal import shown_cells

if TYPE_CHECKING:
    import pandas as pd

_NOTED = 20  # rows with different whole numbers that are worth a note, at least
_CODE_OF_MISSING = re.compile(r"-[1-9]\d{0,4}(\.0)?|(9{2,6}|8{2,5}|7{2,5})(\.0)?")
_MOSTLY = 0.5  # share of the different texts that are numbers
_WORDS = 20  # words for missing cells that a model keeps
_MANY_TEXTS = 20  # different texts that are worth a note, at least


def bad_cells(name: str, bad: Sequence[str], cells: Sequence[str], counts: NDArray[np.intp]) -> str:
    """The remark about cells that became missing."""
    if not bad:
        return ""
    n_bad = sum(map(dict(zip(cells, counts.tolist(), strict=True)).__getitem__, bad))
    which = f"{n_bad} cell{'s' if n_bad > 1 else ''} that cannot be read"
    return f"{which} became missing: {shown_cells(name, bad)}"


def words_among(bad: Sequence[str], cells: Sequence[str], counts: NDArray[np.intp]) -> list[str]:
    """The most frequent words among cells that became missing, in small letters. Texts with digits may be
    numbers of another form, which new rows may have to write as the fit did.
    """
    number_of = dict(zip(cells, counts.tolist(), strict=True))
    words = [text for text in bad if len(text) <= LONGEST and not any(map(str.isdigit, text))]
    words.sort(key=lambda text: -number_of[text])
    return [*dict.fromkeys(map(str.casefold, words[:_WORDS]))]


def about_text_codes(name: str, cells: Sequence[str]) -> str:
    """A note about texts of digits that are codes: padded with zeros, or versions; empty for numbers."""
    if have_leading_zeros(cells):
        return f"{quoted(name)} holds codes with leading zeros and is categorical."
    if are_versions(name, cells):
        column, two = quoted(name), " and ".join(map(repr, equal_texts(cells)))
        return (
            f"{column} holds versions or sections, such as {two}, and is categorical; "
            f"table[{column}].astype(float) makes it a number."
        )
    return ""


def one_number(cells: Sequence[str]) -> str:
    """The remark about different texts of one number, which could be versions; empty without such."""
    two = equal_texts(cells)
    return f"{' and '.join(map(repr, two))} taken as one number" if two else ""


def different_units(name: str, cells: Sequence[str], counts: NDArray[np.intp]) -> list[str]:
    """A note about numbers that stay texts because their units differ, or because of other texts."""
    units = units_among(cells, counts) if len(cells) > _MANY_TEXTS else []
    if not units:
        return _numbers_and_texts(name, cells, counts) if len(cells) > _MANY_TEXTS else []
    shown = listed([unit for unit in units if unit]) + (" and none" if "" in units else "")
    return [
        f"{quoted(name)} holds numbers with different units ({shown}) and is taken as text; convert them to "
        "one unit."
    ]


def _numbers_and_texts(name: str, cells: Sequence[str], counts: NDArray[np.intp]) -> list[str]:
    """A note about a column of text most of whose texts are numbers."""
    are_numbers = [as_number(cell) is not None for cell in cells]
    if not _MOSTLY * len(cells) <= sum(are_numbers) < len(cells):
        return []
    order = np.argsort(-counts, kind="stable").tolist()
    others = [cells[i] for i in order if not are_numbers[i]]
    n_others = sum(int(counts[i]) for i in order if not are_numbers[i])
    return [
        f"{quoted(name)} is taken as text: next to {sum(are_numbers):,} different numbers, {n_others:,} "
        f"cells are none, such as {shown_cells(name, others[:3])}; convert these if it holds numbers."
    ]


def other_unit(
    name: str, recipe: Mapping[str, object], values: Floats, unit: str = "", cells: Sequence[str] = ()
) -> list[str]:
    """Remarks about a unit that is absent; TableError if it is another one than in the fit of `recipe`."""
    fitted = str(recipe.get("unit", ""))
    if not fitted or unit == fitted:
        return []
    if unit:  # which is written in another way in some cells, such as ℃
        shown = [cell for cell in cells if all(part in cell for part in unit.split())] or [*cells]
        example = f", as in {quoted(shown[0])}" if shown else ""
        raise TableError(
            f"Column {quoted(name)}: the model was fitted on numbers with {fitted!r}, but the cells have "
            f"{unit!r}{example}; convert them."
        )
    shares = fitted == "%" and 0.0 < np.nanmax(np.abs(values), initial=0.0) <= 1.0
    but = ", although none exceeds 1: shares have to be multiplied by 100" if shares else ""
    return [f"taken as numbers with {fitted!r}, as in the fit{but}"]


def hours_of_numbers(name: str, recipe: Mapping[str, object], values: Floats) -> tuple[Floats, list[str]]:
    """Numbers in the place of times of day, as hours, and remarks: fractions of a day, as a spreadsheet
    stores times, are multiplied by 24. TableError if they are no hours, either.
    """
    present = values[~np.isnan(values)]
    if not recipe.get("time") or not len(present):
        return values, []
    if present.min() < 0.0 or present.max() > 24.0:
        wrong = present[(present < 0.0) | (present > 24.0)][0]
        raise TableError(
            f"Column {quoted(name)}: the model was fitted on times of day, but cells are numbers, such as "
            f"{as_text(wrong)}, which is no hour; write the times as in the fit."
        )
    if present.max() <= 1.0 and (present % 1.0 > 0.0).any():
        return 24.0 * values, ["fractions of a day taken as times of day, in hours"]
    return values, ["taken as hours of times of day"]


def about_hours(name: str, what: str, unit: str, remark: str, either: bool) -> str:
    """A note about a column of durations or times of day; `either`: its cells could be the others, too."""
    held, other, kind = "durations", "times of day", "('periodic', 24)"
    if what == "time":
        held, other, kind = other, held, "'number'"
    change = f"; kinds={{{quoted(name)}: {kind}}} makes them {other}" if either else ""
    return f"{quoted(name)} holds {held}, which are used in {unit}{remark}{change}."


def about_levels(name: str, texts: Sequence[str], present: int, *, known: bool = False) -> list[str]:
    """Notes about levels that are spelled alike, codes of missing answers among texts, and columns of mostly
    distinct texts.

    `present`: cells that have a text. `known`: whether the levels of a fit decide which spellings are one.
    """
    notes = []
    spellings: dict[str, list[str]] = {}
    for text in texts:
        spellings.setdefault("".join(text.casefold().split()), []).append(text)
    alike = [each for each in spellings.values() if len(each) > 1 and not known]
    if alike:
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        notes.append(
            f"{quoted(name)} has levels that differ only in case or blanks: "
            f"{shown_cells(name, alike[0], texts)}{more}; they stay apart."
        )
    codes = [text for text in texts if _CODE_OF_MISSING.fullmatch(text)]
    others = [text for text in texts if text not in codes]
    if codes and len(others) > 1 and not any(as_number(text) is not None for text in others):
        them = "it" if len(codes) == 1 else "them"
        notes.append(
            f"{quoted(name)} has {', '.join(map(quoted, codes))} among its texts, as if for missing cells; "
            f"na_values=[{', '.join(map(repr, codes))}] makes {them} missing."
        )
    if len(texts) > 20 and 2 * len(texts) > present:
        notes.append(
            f"{quoted(name)} has {len(texts):,} distinct texts in {present:,} rows and is unlikely to "
            "define clusters; consider leaving it out."
        )
    return notes


def about_answers(
    name: str, answers: Answers, others: Sequence[str], n_unknown: int, known: bool, blanks: str
) -> str:
    """A note about a column of several answers; `others`: without a column, `n_unknown`: cells that have only
    such answers, `known`: the fit had several.
    """
    which = f"; {'unknown' if known else 'rare'} answers are left out: "
    rest = which + shown_cells(name, others) if others else ""
    rest += f", and {n_unknown:,} cell(s) without another answer are missing" if n_unknown else ""
    rest += f"; 'no' in each for {shown_cells(name, answers.alone)}" if answers.alone else ""
    between = "" if answers.separator == LISTS else f", separated by {answers.separator!r}"
    return (
        f"{quoted(name)} holds several answers{between}: one column of yes and no for each of "
        f"{len(answers.options)}, blank cells are {'missing' if blanks == 'missing' else repr('no')}{rest}; "
        "split=[] keeps the cells whole."
    )


def about_parts(name: str, parts: Sequence[str], bad: str) -> str:
    """A note about a column of several numbers in a cell; `bad`: about cells that became missing."""
    return (
        f"{quoted(name)} holds several numbers in a cell: one column for each, {listed(parts)}"
        f"{'; ' if bad else ''}{bad}; split=[] keeps the cells whole."
    )


def about_period(name: str, period: float) -> str:
    """A note about a column that is periodic by its name."""
    column = quoted(name)
    return (
        f"{column} is periodic by its name and range, {period:g} next to 0; kinds={{{column}: 'number'}} "
        "makes it a plain number."
    )


def about_codes(name: str, distinct: Floats, n_rows: int) -> list[str]:
    """A note about whole numbers, ascending, that may identify rows or name something."""
    column = quoted(name)
    if is_code(name, distinct):
        return [
            f"{column} has the name of a code and is used as a number; kinds={{{column}: 'category'}} makes "
            f"it a category, kinds={{{column}: 'ignore'}} leaves it out."
        ]
    if len(distinct) == n_rows >= _NOTED:
        return [f"{column} has a different whole number in every row; leave it out if it is an id."]
    return []


def about_few_numbers(columns: Mapping[str, pd.Series]) -> list[str]:
    """A note about columns of whole numbers that are categories; of two values, both kinds say the same."""
    names = [name for name, column in columns.items() if len(column.cat.categories) > 2]
    if not names:
        return []
    return [
        f"{listed(names)}: whole numbers with at most {MAX_INTEGER_CODES} values are categories; "
        f"table[{quoted(names[0])}].astype(float) makes one a number."
    ]


def about_scale(items: Sequence[str], low: int, high: int) -> str:
    """A note about the items of a questionnaire, which have one scale."""
    return (
        f"{listed(items)} hold answers on a scale from {low} to {high} and are used as numbers; "
        f"kinds={{{quoted(items[0])}: 'category'}} makes one a category."
    )


def about_other_words(name: str, level_of: Mapping[str, str]) -> str:
    """A note about words for true and false, or ticks, in the place of those of the fit."""
    taken = ", ".join(f"{quoted(text)} as {quoted(level)}" for text, level in sorted(level_of.items()))
    return f"{quoted(name)}: cells are taken as the words of the fit: {taken}."


def about_na_levels(na_levels: Mapping[str, Collection[str]]) -> str:
    """A note about levels of text columns that stand for missing values in others."""
    cells = sorted({cell for cells in na_levels.values() for cell in cells})
    return (
        f"{listed(na_levels)}: in text columns the cells {listed(cells)} are levels, not missing values; "
        f"na_values=[{listed(cells)}] makes them missing."
    )


def far_cells(name: str, what: str, found: Iterable[tuple[str, int]]) -> list[str]:
    """A note about cells that may stand for missing ones, each with its number of rows; `what`: numbers or
    dates.
    """
    cells = dict(found)
    if not cells:
        return []
    them = "it" if len(cells) == 1 else "them"
    return [
        f"{quoted(name)} has {', '.join(cells)} in {sum(cells.values()):,} rows, far from its other {what}; "
        f"na_values=[{', '.join(map(repr, cells))}] makes {them} missing."
    ]
