"""Files of SPSS, Stata and SAS, whose numbers have labels."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc.reading.input_file import InputFile, labelled_reader

if TYPE_CHECKING:
    import pandas as pd

Value: TypeAlias = float | str

#: Labels of values that are rather missing.
_NO_ANSWER = re.compile(
    r"(no|not) (answer|response|data|stated|reported|applicable|asked|known)|don'?t know|do not know|refus.*"
    r"|missing|n/?a|dk|unknown|keine (angabe|antwort)|wei(ß|ss) nicht|verweigert|trifft nicht zu|ns/nr"
    r"|no sabe.*|ne sait pas|sans r[ée]ponse",
    re.IGNORECASE,
)


def read_labelled(file: InputFile, head: bytes) -> tuple[pd.DataFrame, list[str], dict[str, str]]:
    """The table of a file of SPSS, Stata or SAS, notes, and the labels of columns.

    Values with labels are categories, named by their labels, and ordered where SPSS says that the measure is
    ordinal. Numbers with labels of only a few values stay numbers, unless they are measured as
    categories. Values that are declared as missing are missing.

    Raises ImportError: pyreadstat is missing.
    """
    program, name = labelled_reader(head)
    try:
        import pyreadstat
    except ImportError as error:
        raise ImportError(
            f"{file.shown} is a file of {program}, which needs pyreadstat: pip install 'craftc[stats]'."
        ) from error
    read = getattr(pyreadstat, name)
    with _on_disk(file) as path:
        options: dict[str, object] = {}
        catalog = Path(path).with_suffix(".sas7bcat")
        if name == "read_sas7bdat" and catalog.exists():
            options["catalog_file"] = str(catalog)
        frame, meta = read(path, **options)
        declared = meta.missing_ranges
        if program == "SPSS":
            declared = read(path, metadataonly=True, user_missing=True)[1].missing_ranges
    notes: list[str] = []
    kept_numbers: list[str] = []
    for column, labels in meta.variable_value_labels.items():
        known = {
            value: label for value, label in labels.items() if not _is_declared(value, declared.get(column))
        }
        measure = str(meta.variable_measure.get(column, "unknown"))
        if known and column in frame:
            levels = _levels(frame[column], known, measure)
            if levels is None:
                kept_numbers.append(column)
                notes += _answers_that_are_missing(column, frame[column], known)
            else:
                frame[column] = levels
                if measure == "ordinal" and not levels.ordered:
                    odd = [level for level in levels.categories if _NO_ANSWER.fullmatch(level)]
                    notes.append(
                        f"{quoted(column)} is not ordered, because of its level {listed(odd)}; declare it as "
                        "missing in the file."
                    )
    if kept_numbers:
        notes.insert(0, f"Numbers with labels of a few values stay numbers: {listed(kept_numbers)}.")
    of_columns = meta.column_names_to_labels.items()
    return frame, notes, {str(column): str(label) for column, label in of_columns if label}


@contextmanager
def _on_disk(file: InputFile) -> Iterator[str]:
    """The name of a file without compression, as pyreadstat needs it."""
    if not file.packings and file.data is None:
        yield file.path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table")
        with open(path, "wb") as copy, file.opened() as opened:
            copy.write(opened.read())
        yield path


def _is_declared(value: object, ranges: Sequence[Mapping[str, object]] | None) -> bool:
    """Whether a value lies in one of the ranges that are declared as missing."""
    for each in ranges or ():
        low, high = each["lo"], each["hi"]
        numbers = all(isinstance(number, int | float) for number in (value, low, high))
        if value in (low, high) or (numbers and low <= value <= high):  # type: ignore[operator]
            return True
    return False


def _levels(column: pd.Series, labels: Mapping[Value, str], measure: str) -> pd.Categorical | None:
    """A column of values with labels as categories; None if it holds numbers."""
    present = column.dropna().unique().tolist()
    others = [value for value in present if value not in labels]
    if others and (measure == "scale" or (measure == "unknown" and 2 * len(others) > len(present))):
        return None
    occurring = set(present)
    labels = {
        v: label for v, label in labels.items() if v in occurring or not _NO_ANSWER.fullmatch(label.strip())
    }
    values = sorted({*labels, *others}, key=lambda value: (isinstance(value, str), value))
    if all(isinstance(value, str) for value in values):
        values = [*labels, *others]
    names = _names(values, labels)
    scale = [value for value in values if not _NO_ANSWER.fullmatch(names[value])]
    ordered = measure == "ordinal" and len(scale) == len(values)
    cells: pd.Categorical = need_pandas().Categorical(
        [names.get(value) if value == value else None for value in column],
        categories=[names[value] for value in values],
        ordered=ordered,
    )
    return cells


def _names(values: Sequence[Value], labels: Mapping[Value, str]) -> dict[Value, str]:
    """Different names of values: their labels, with the value where two have the same label."""
    texts = [str(labels.get(value, as_text(value))).strip() or as_text(value) for value in values]
    n_alike = Counter(texts)
    return {
        value: text if n_alike[text] == 1 else f"{text} ({as_text(value)})"
        for value, text in zip(values, texts, strict=True)
    }


def _answers_that_are_missing(column: str, cells: pd.Series, labels: Mapping[Value, str]) -> Iterator[str]:
    """Notes about numbers whose label says that there is no answer."""
    for value, label in labels.items():
        n = int((cells == value).sum())
        if n and _NO_ANSWER.fullmatch(label.strip()):
            cell = as_text(value)
            yield (
                f"{quoted(column)} has {cell}, {quoted(label)}, in {n:,} row{'s' if n > 1 else ''}; "
                f"na_values=[{cell!r}] makes it missing."
            )


def own_labels(labels: Mapping[str, str], columns: Collection[str]) -> dict[str, str]:
    """The labels of these columns, as one line each, where no other label or column has the same text."""
    lines = {name: " ".join(labels[name].split()) for name in map(str, columns) if name in labels}
    n_alike = Counter([*map(str, columns), *lines.values()])
    return {name: line for name, line in lines.items() if line and (n_alike[line] == 1 or line == name)}
