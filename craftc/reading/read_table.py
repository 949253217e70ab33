"""Tables as people have them, made ready for an estimator: `read_table`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import narwhals.stable.v2 as nw

from craftc._common.foreign_input import A_SERIES, as_table, is_records, is_series
from craftc._common.messages import listed, need_pandas
from craftc._common.typing import ArrowTable, PathInput
from craftc._common.validation import check_choice
from craftc.reading.files import FileForm, RawTable, plain_frame, read_file
from craftc.reading.input_file import TableError
from craftc.reading.joined import joined_of
from craftc.reading.labels import Labels, column_labels
from craftc.reading.like import Fitted, form_like, match_columns, said_in_fit
from craftc.reading.long_tables import about_long_table
from craftc.reading.many_files import COLUMNAR_SUFFIXES, joined, paths_of
from craftc.reading.no_rows import without_no_rows
from craftc.reading.prepare import prepare
from craftc.reading.records import Header
from craftc.reading.remarks import about_few_numbers
from craftc.reading.roles import Roles
from craftc.reading.unusable import listed_reasons
from craftc.table import Schema

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame

    Rows: TypeAlias = Sequence[Mapping[str, object]]


def read_table(
    path_or_frame: PathInput | Rows | Mapping[str, object] | IntoDataFrame | ArrowTable,
    *,
    na_values: Sequence[object] = (),
    header: Header = "infer",
    skip: int = 0,
    delimiter: str = "infer",
    encoding: str = "infer",
    sheet: str | int | None = None,
    decimal: str = "infer",
    blanks: str = "auto",
    split: Collection[str] | str = "auto",
    all_lines: bool = False,
    on_unusable: str = "drop",
    dates: str = "auto",
    labels: Labels | None = None,
    like: Fitted | None = None,
) -> pd.DataFrame:
    """Read a table as people have it, and make it ready for an estimator.

    Numbers are read in whatever form they have (``$1,200``, ``12%``, ``7 km``, ``(3.20)``, ``1.234,50``),
    dates become day numbers, codes such as ``007`` stay categories, and columns that cannot define clusters
    are set aside. Every decision is recorded as a note. ``craftc cluster FILE`` reads
    the same table.

    Parameters
    ----------
    path_or_frame : str, path, list of these, data frame, or list of dict
        A file (``"-"``: standard input), files, a folder or a pattern such as ``"sales/*.csv"``, whose files
        have the same columns; or a pandas, polars or pyarrow frame, or rows. The content decides the format:
        delimited text, JSON, ARFF, Excel (.xlsx), Parquet, Feather, files of SPSS (.sav), Stata (.dta) and
        SAS (.sas7bdat, .xpt); each also compressed by gzip, bzip2, xz or zip.
    na_values : sequence of str or numbers
        Further cells that are missing, in every column. Always missing: empty cells and ``?``; in columns of
        numbers and dates also ``NA``, ``n/a``, ``NaN``, ``null``, ``none`` and ``-``, which are levels in
        text columns.
    header : {"infer", True, False}
        Whether the first line holds the column names. "infer": unless it looks like data; lines of a title
        above the names are skipped, and names below those of groups of columns are joined with them where
        they do not tell the columns apart or are bare numbers.
    skip : int
        Number of lines before the table.
    delimiter : str
        The character between the cells of a text file. "infer": what splits the first lines into equally many
        cells. A blank stands for any number of them.
    encoding : str
        Encoding of a text file. "infer": UTF-8, UTF-16 or UTF-32, else the one that charset-normalizer finds,
        if it is installed, else Windows (cp1252), else Latin-1.
    sheet : str or int, optional
        Sheet of a workbook, by name or position. None: the first that is a table and not hidden.
    decimal : {"infer", ".", ","}
        Decimal mark of texts such as ``1.234``, which are numbers with either. "infer": the comma if other
        columns show it (``17,50``) or semicolons separate cells such as ``1,234``; otherwise the point.
    blanks : {"auto", "missing"}
        Blank cells of a column with a single value, as a box that is ticked or not. "auto": they are "no".
        "missing": they are missing. The same holds for blank cells next to several answers.
    split : "auto" or list of str
        Columns whose cells hold several answers, such as ``"Python;SQL"``: each answer becomes a column of
        "yes" and "no". "auto": columns of lists, and of texts that one of ``; | , /`` or a line break splits
        into at most 60 answers; and a column for each number of texts such as ``"120/80"``.
    all_lines : bool
        Whether lines that are no rows are kept: empty ones, totals, also of groups of rows, headings of
        groups, footnotes, repeated column names, and other tables below or next to the rows.
    on_unusable : {"drop", "keep", "error"}
        Leave out, keep, or refuse columns that cannot define clusters: ids, row counters, columns with no
        value or with one value in every row, and columns that follow from others: a total, a mean, a
        difference, the last of the shares of a whole, a body mass index, the best of several tries.
    dates : {"auto", "parts", "drop"}
        "auto": a date becomes its number of days since 1970-01-01, which descriptions show as a date.
        "parts": also columns "NAME hour", "NAME weekday" (0: Monday) and "NAME season" (months since 1
        January), each if the dates span at least 12 days, weeks or years. "drop": a date is an unusable
        column.
    labels : mapping or path, optional
        Names of your own of columns, ``{"inc_hh_eq": "income"}`` or a file of two columns, which summaries,
        reports and plots of a model show; the columns of the result keep theirs. The column of several
        answers is named as a whole.
    like : fitted CRAFT, KPrototypes or other estimator with ``schema_``, optional
        A model that was fitted on a table of `read_table`: its columns alone are read, each as then, whatever
        the new cells look like: formats of dates, decimal marks, units, answers, blank cells, and what was
        said about the form of the file. `on_unusable`, `dates`, `blanks`, `split`, `decimal` and `labels`
        keep their defaults.

    Returns
    -------
    pandas.DataFrame
        Numbers as float64, categories as Categorical; the index of the frame, or the places of the rows in
        the file, or in all files. ``attrs["notes"]``: list of str. ``attrs["unusable"]``:
        the columns that were set aside, each with its reason. ``attrs["kinds"]``: dates and periodic columns,
        from which `CRAFT` knows what they are.

    Raises
    ------
    ValueError
        The file is not a table, files have different columns, no usable column is left, or
        ``on_unusable="error"`` and a column is unusable; `labels` name a column that does not exist, give
        an empty name, or one name twice; or a parameter is given that has no effect with `like`.
    ImportError
        pandas is missing, openpyxl for Excel files: ``pip install 'craftc[app]'``; or pyreadstat for those of
        SPSS, Stata and SAS: ``pip install 'craftc[stats]'``.

    Examples
    --------
    >>> import pandas as pd
    >>> import craftc
    >>> sales = pd.DataFrame({"order": ["A-1", "A-2", "A-3"], "paid": ["$1,200", "$85", "(3.20)"]})
    >>> sales["zip"] = ["00501", "10001", "00501"]
    >>> table = craftc.read_table(sales)
    >>> table["paid"].tolist(), table["zip"].tolist()
    ([1200.0, 85.0, -3.2], ['00501', '10001', '00501'])
    >>> table.attrs["unusable"]
    {'order': 'a different text in every row'}
    >>> table.attrs["notes"][0].split("; ")[:2]
    ["'paid' was read as numbers: '$' removed", 'thousands separators removed']
    """
    check_choice("on_unusable", on_unusable, ("drop", "keep", "error"))
    check_choice("decimal", decimal, ("infer", ".", ","))
    check_choice("blanks", blanks, ("auto", "missing"))
    if isinstance(split, str) and split != "auto":
        raise ValueError(f"split must be 'auto' or a list of columns, got {split!r}; pass [{split!r}].")
    check_choice("dates", dates, ("auto", "parts", "drop"))
    form = FileForm(header, skip, delimiter, encoding, sheet, all_lines)
    if like is not None:
        changed = {
            "decimal": decimal != "infer",
            "blanks": blanks != "auto",
            "split": split != "auto",
            "dates": dates != "auto",
            "on_unusable": on_unusable != "drop",
            "labels": labels is not None,
        }
        if given := [name for name, is_given in changed.items() if is_given]:
            raise ValueError(
                f"{given[0]} has no effect with like, which reads cells as in the fit; leave it out."
            )
        raw = open_like(path_or_frame, form, like.schema_)
        table, notes = match_columns(raw, like.schema_, _shown(path_or_frame), na_values)
        table.attrs["notes"], table.attrs["unusable"] = notes, {}
        return table
    raw = open_table(path_or_frame, form)
    roles = Roles(dates_as="days" if dates == "auto" else dates, decimal=decimal, blanks=blanks, split=split)
    prepared = prepare(raw, roles, na_values=na_values, drop=on_unusable != "keep")
    if on_unusable == "error" and prepared.unusable:
        raise TableError(
            f"{listed_reasons(prepared.unusable)}; drop these columns, or pass on_unusable='drop' or 'keep'."
        )
    frame = prepared.frame
    if labels is not None:
        known = dict.fromkeys([*raw.frame.columns, *frame.columns])
        frame.attrs["reading"]["labels"] = column_labels(labels, known)
    few = about_few_numbers({name: frame[name] for name in prepared.codes})
    frame.attrs["notes"] = prepared.notes + few + unusable_notes(prepared.unusable)
    frame.attrs["unusable"] = prepared.unusable
    return frame


def as_in_fit(
    model: Fitted, table: object, extra: str | None = None, *, new_levels: bool = False
) -> tuple[object, list[str]]:
    """A file, or a frame with texts or dates, read as the table of a fit was, and notes; other tables as they
    are.

    `extra`: a further column that the result has, such as known classes. `new_levels`: as `match_columns`.
    """
    reading = model.schema_.reading
    path = _is_path(table) and (bool(reading) or not _is_columnar(table))
    if not path and not (reading and _has_raw_columns(table, model.schema_)):
        return table, []
    raw = open_like(table, FileForm(), model.schema_)
    read, notes = match_columns(raw, model.schema_, _shown(table), new_levels=new_levels)
    if extra is not None and extra in raw.frame:
        classes = RawTable(raw.frame[[extra]], [], raw.semicolons)
        column = prepare(classes, Roles(kept=[extra]), drop=False).frame[extra]
        read = read.assign(**{extra: column})
    return read, notes


def _is_path(table: object) -> bool:
    each = table if isinstance(table, list | tuple) and table else [table]
    return all(isinstance(path, str | os.PathLike) for path in each)


def _is_columnar(paths: object) -> bool:
    """Whether paths are those of Parquet or Arrow files, or of folders."""
    each = paths if isinstance(paths, list | tuple) else [paths]
    return all(Path(str(path)).suffix.lower() in ("", *COLUMNAR_SUFFIXES) for path in each)


def _has_raw_columns(table: object, schema: Schema) -> bool:
    """Whether a frame holds texts or dates in columns that were read from such in the fit."""
    dtypes = getattr(table, "dtypes", None)
    if dtypes is None or not hasattr(dtypes, "items") or not hasattr(table, "attrs"):
        return False
    recipes = schema.reading.get("columns", {})
    read = {*recipes, *(schema.columns[j] for j in schema.dates)}
    parts = {part for each in joined_of(recipes, schema.columns) for part in each.parts}
    return not parts.isdisjoint(map(str, dtypes.keys())) or any(
        str(name) in read and getattr(dtype, "kind", "") in "OMU" and not hasattr(dtype, "categories")
        for name, dtype in dtypes.items()
    )


def _shown(path_or_frame: object) -> str:
    """The table in messages."""
    return path_or_frame if isinstance(path_or_frame, str) else "the table"


def open_like(path_or_frame: object, form: FileForm, schema: Schema) -> RawTable:
    """The table as it is, in the given form, completed by that of the fit, or not completed where only so
    columns of the model are found.
    """
    wanted = {*schema.columns, *schema.reading.get("columns", {})}
    completed, given = form_like(form, schema), said_in_fit(schema)
    raw: RawTable | None = None
    try:
        raw = open_table(path_or_frame, completed)
        if completed == form or not schema.named or not wanted.isdisjoint(raw.frame.columns):
            return raw if completed.sheet == form.sheet else _with_note_of_sheet(raw, completed.sheet)
        why = f"with {given} the file has no column of the model"
    except TableError as error:
        if completed == form:
            raise
        why = str(error).removesuffix(".")
    try:
        plain = open_table(path_or_frame, form)
    except TableError:
        plain = None
    if plain is not None and not wanted.isdisjoint(plain.frame.columns):
        return replace(plain, notes=[*plain.notes, f"Read without {given} of the fit: {why}."])
    if raw is None:
        raise TableError(f"{why}.")
    return raw


def _with_note_of_sheet(raw: RawTable, sheet: str | int | None) -> RawTable:
    """A table with a note that it is on the sheet of the fit, where its workbook has others."""
    if len(raw.sheets) < 2:
        return raw
    read = f"The file has {len(raw.sheets)} sheets; that of the fit, {sheet!r}, was read"
    return replace(raw, notes=[*raw.notes, f"{read}; sheet='...' names another."])


def open_table(path_or_frame: object, form: FileForm | None = None) -> RawTable:
    """A file, files or a frame as a raw table; its index has the place of every row, or the labels of the
    frame.
    """
    need_pandas()
    form, notes = form or FileForm(), list[str]()
    paths = paths_of(path_or_frame, notes)
    tables = [_of_frame(path_or_frame)] if paths is None else [read_file(path, form) for path in paths]
    n_lines = [len(table.frame) + max(table.blank_above.values(), default=0) for table in tables]
    for table in tables if not form.all_lines else ():
        table.frame, set_aside = without_no_rows(
            table.frame, form.header is not False, table.n_above, table.blank_above
        )
        table.notes += set_aside
    raw = tables[0] if paths is None or len(tables) == 1 else joined(paths, tables, n_lines)
    raw.form, raw.notes = form, notes + raw.notes + about_long_table(raw.frame)
    return raw


def _of_frame(given: object) -> RawTable:
    if is_series(given):
        raise ValueError(A_SERIES)
    if isinstance(given, dict) or is_records(given):
        given = need_pandas().DataFrame(given)
    try:
        frame = nw.from_native(as_table(given), eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise TableError("The data frame has duplicate column names; rename the columns.") from error
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"read_table needs the name of a file or a data frame, got {type(given).__name__}.")
    native = frame.to_pandas()
    raw = RawTable(plain_frame(native).set_axis(native.index))
    if not raw.frame.shape[0] or not raw.frame.shape[1]:
        raise TableError(
            f"The data frame has {raw.frame.shape[0]} rows and {raw.frame.shape[1]} columns; at least one of "
            "each is needed."
        )
    return raw


def unusable_notes(unusable: dict[str, str]) -> list[str]:
    """One note for every reason, with its columns."""
    notes = []
    for reason in dict.fromkeys(unusable.values()):
        names = [name for name, why in unusable.items() if why == reason]
        notes.append(f"Not used ({reason}): {listed(names)}.")
    return notes
