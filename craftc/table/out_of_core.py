"""Tables that are read in batches and kept in scratch files: Parquet and Arrow files, datasets, and streams
of record batches.

The batches are decoded once. Numbers go to their final block. Categories go to a block of provisional codes,
numbered by first appearance, and are translated when all levels are known. The result equals that of
`MixedTable.from_data` for the whole table in memory.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
from numpy.typing import DTypeLike

from craftc._common.messages import check_encodable, no_table
from craftc._common.typing import Array, ArrowField, ArrowTable, ColumnSelection, FileInput, PathInput
from craftc.table.blocks import Scratch, mapped
from craftc.table.declared import ColumnPlan, KindsInput, ignored_columns, plan_columns
from craftc.table.frames import count_missing, open_source
from craftc.table.kinds import ColumnKind, common_kind, kind_of_field
from craftc.table.level_column import MAX_LEVELS, Level, LevelColumn, check_text, common_order

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_BATCH_ROWS = 1 << 16  # rows that are decoded at a time; bounds the memory of a batch
# 2^20 bytes of a column of a Parquet file at a time; checksums of pages are compared where the file has them
_READING: dict[str, Any] = {"buffer_size": 1 << 20, "pre_buffer": False, "page_checksum_verification": True}
_NO_CODE = MAX_LEVELS  # provisional code of a missing value
#: Formats of Parquet and Arrow files by their extensions.
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "ipc", ".ipc": "ipc"}
_NEEDS = "Reading {} needs pyarrow: pip install 'craftc[app]'."


def is_out_of_core(X: object) -> TypeGuard[FileInput]:
    """Whether an input is a path or list of paths, an Arrow dataset, or a stream of record batches."""
    if isinstance(X, str | os.PathLike):
        return True
    if isinstance(X, list | tuple) and X and all(isinstance(path, str | os.PathLike) for path in X):
        return True
    kind = type(X)
    return kind.__module__.startswith(("pyarrow._dataset", "pyarrow.lib")) and any(
        each.__name__ in ("Dataset", "RecordBatchReader") for each in kind.__mro__
    )


def files_of(paths: PathInput) -> list[str]:
    """The Parquet or Arrow files of a path, a pattern, a folder or a list of these, in reading order."""
    return list(_dataset(paths).files)


def column_types(paths: PathInput) -> dict[str, tuple[ColumnKind, str]]:
    """Kind and type of the columns of the first file."""
    file = files_of(paths)[0]
    schema = _physical_schema(file, next(_dataset(file).get_fragments()))
    return {each.name: (kind_of_field(each)[0], str(each.type)) for each in schema}


def tables_of(file: str) -> Iterator[pa.Table]:
    """The rows of a file with all its columns, of any type, as pyarrow tables of some rows each."""
    import pyarrow as pa

    fragment = next(_dataset(file).get_fragments())
    names = _physical_schema(file, fragment).names
    try:
        for batch in _batches_of(fragment, names):
            if len(batch):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowInvalid) as error:
        raise OSError(f"{file!r} cannot be read: {error}") from error


def decoded_size(paths: PathInput) -> int:
    """Bytes of the files without compression, by the footers of Parquet files and the sizes of others."""
    size = 0
    for fragment in _dataset(paths).get_fragments():
        groups = getattr(fragment, "row_groups", None)
        size += (
            os.path.getsize(fragment.path)
            if groups is None
            else sum(group.total_byte_size for group in groups)
        )
    return size


@dataclass
class Blocks:
    """A table as it was read in batches."""

    plan: ColumnPlan
    numeric: Array  # (n, p) in a scratch file
    # the distinct values of every categorical column, in the order of the provisional codes
    columns: list[LevelColumn]
    n_missing: Array  # missing values of every column
    scratch: Scratch
    _provisional: Array

    def codes(self, final: Sequence[Array], n_levels: Array) -> Array:
        """(n, q) codes in a scratch file, from the final code of every value, the missing value last."""
        dtype = np.uint8 if max(n_levels, default=0) < 256 else np.uint16
        codes = self.scratch.empty(self._provisional.shape, dtype)
        code_of = np.zeros((len(final), _NO_CODE + 1), dtype)
        for d, of_value in enumerate(final):
            code_of[d, : len(of_value) - 1], code_of[d, _NO_CODE] = of_value[:-1], of_value[-1]
        for start in range(0, len(codes), _BATCH_ROWS):
            rows = slice(start, start + _BATCH_ROWS)
            for d in range(len(final)):
                codes[rows, d] = code_of[d, self._provisional[rows, d]]
        return codes


def read_blocks(
    X: FileInput,
    categorical: ColumnSelection | None,
    dtype: DTypeLike | None,
    columns: Sequence[str] | None,
    scratch: str | os.PathLike[str] | None,
    kinds: KindsInput = None,
) -> Blocks:
    """Decode all batches once; the parameters are those of `MixedTable.from_parquet`. `categorical` None: no
    column is categorical.
    """
    batches = Batches(X, columns, ignored_columns(kinds))
    plan = batches.plan(categorical, kinds)
    numeric_index, categorical_index = plan.numeric_index, plan.categorical_index
    narrow = len(numeric_index) and all(batches.narrow[j] for j in numeric_index)
    numeric_type = np.dtype(dtype if dtype is not None else np.float32 if narrow else np.float64)
    names = tuple(batches.names[j] for j in numeric_index)

    place = Scratch(scratch)
    levels = [
        _LevelNumbers(batches.names[j], bool(plan.by_type[j] and batches.is_text[j]))
        for j in categorical_index
    ]
    n, n_missing = 0, np.zeros(len(batches.names), np.intp)
    with place.file() as numbers, place.file() as provisional:
        for where, batch in batches:
            try:
                source = open_source(batch)
                block = source.numbers(numeric_index, numeric_type)
                n_missing[numeric_index] += count_missing(block, names)
                codes = np.empty((len(block), len(levels)), np.uint16)
                for d, (j, known) in enumerate(zip(categorical_index.tolist(), levels, strict=True)):
                    codes[:, d] = known.codes(source.column(j))
            except (TypeError, ValueError) as error:
                raise located(error, where) from error
            place.write(numbers, block)
            place.write(provisional, codes)
            n += len(block)
        if not n:
            raise ValueError(
                f"Found array with 0 sample(s) (shape=(0, {len(batches.names)})) while a minimum of 1 is "
                "required."
            )
        numeric = mapped(numbers, (n, len(numeric_index)), numeric_type)
        provisional_codes = mapped(provisional, (n, len(levels)), np.uint16)
    n_missing[categorical_index] = [each.n_missing for each in levels]
    columns_of_levels = [each.column(n) for each in levels]
    return Blocks(
        plan,
        numeric,
        columns_of_levels,
        n_missing,
        place,
        provisional_codes,
    )


def located(error: TypeError | ValueError, where: str) -> TypeError | ValueError:
    """The error with the name of the file, or of another part of the table, in its message."""
    kind = TypeError if isinstance(error, TypeError) else ValueError  # subclasses may need further arguments
    return kind(f"{where}: {error}" if where else str(error))


def in_batches(of_rows: Callable[[ArrowTable], Array], X: FileInput, columns: Sequence[str] | None) -> Array:
    """Results of a function of rows, for an input that is read in batches of some columns (None: all)."""
    parts = []
    for where, batch in Batches(X, columns):
        try:
            parts.append(of_rows(batch))
        except (TypeError, ValueError) as error:
            raise located(error, where) from error
    if not parts:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return np.concatenate(parts)


@dataclass
class _LevelNumbers:
    """The values of one categorical column, numbered by first appearance."""

    name: str
    may_be_id: bool  # whether a different text in every row is an error
    number: dict[Level, int] = field(default_factory=dict)
    n_missing: int = 0
    n_present: int = 0
    scales: dict[tuple[Level, ...], None] = field(default_factory=dict)  # the different ones of the batches

    def codes(self, column: LevelColumn) -> Array:
        """Provisional codes of the cells of a batch."""
        if column.scale:
            self.scales[tuple(column.scale)] = None
        place = np.full(len(column.values), _NO_CODE, np.uint16)
        for i in np.flatnonzero(column.used):
            value = column.values[i]
            if value is not None:
                place[i] = self._number_of(value)
        self.n_missing += column.n_missing
        self.n_present += len(column.codes) - column.n_missing
        codes: Array = place[column.codes]
        return codes

    def _number_of(self, value: Level) -> int:
        number = self.number.setdefault(value, len(self.number))
        if number >= MAX_LEVELS:
            different = (
                ", a different text in nearly every row"
                if self.may_be_id and self.n_present < 2 * MAX_LEVELS
                else ""
            )
            raise ValueError(
                f"Column {self.name!r} has more than {MAX_LEVELS} levels{different}, but at most "
                f"{MAX_LEVELS} are supported; drop it, merge rare levels, or convert the column to numbers."
            )
        return number

    def column(self, n: int) -> LevelColumn:
        """All values as one column, the last one missing."""
        if self.may_be_id:
            check_text(self.name, self.number, n - self.n_missing)
        codes = np.append(np.arange(len(self.number)), np.full(int(self.n_missing > 0), -1))
        scale = common_order(self.name, self.scales)
        return LevelColumn(self.name, codes, list(self.number), strict=True, scale=scale)


class Batches:
    """Record batches of files, a dataset or a stream, in order, and the columns that all of them have.

    Iteration yields the name of the file (empty for a stream) and a pyarrow table of its columns in a fixed
    order.

    `narrow`: columns that float32 represents exactly. `ignored`: columns that are not read, unless `columns`
    names them.

    Raises FileNotFoundError, TypeError, ValueError: no file matches, a file cannot be read, or the files
    do not have the same columns.
    """

    def __init__(
        self, X: FileInput, columns: Sequence[str] | None = None, ignored: Collection[str] = ()
    ) -> None:
        try:
            import pyarrow as pa
            import pyarrow.dataset as ds
        except ImportError as error:
            raise ImportError(_NEEDS.format("Parquet files")) from error
        self._reader = X if isinstance(X, pa.RecordBatchReader) else None
        # path, fragment, columns that the names of its folders give
        self.fragments: list[tuple[str, ds.Fragment, dict[str, pa.Scalar]]] = []
        if self._reader is not None:
            schemas = [("", self._reader.schema)]
        else:
            dataset = X if isinstance(X, ds.Dataset) else _dataset(cast(PathInput, X))
            if isinstance(X, ds.Dataset) and columns is None:
                columns = [name for name in dataset.schema.names if name not in _stored_index(dataset.schema)]
            schemas = []
            for fragment in dataset.get_fragments():
                path = getattr(fragment, "path", "")
                schema = _physical_schema(path, fragment)
                keys = ds.get_partition_keys(fragment.partition_expression)
                constant = {
                    name: pa.scalar(keys[name], dataset.schema.field(name).type)
                    for name in keys
                    if name not in schema.names
                }
                for name in constant:
                    schema = schema.append(dataset.schema.field(name))
                self.fragments.append((path, fragment, constant))
                schemas.append((path, schema))
        if not schemas:
            raise ValueError("The dataset has no files.")
        self.names, self.ignored = _common_names(schemas, columns, ignored)
        described = [
            [_described(path, schema.field(name)) for name in self.names] for path, schema in schemas
        ]
        self.kinds = [common_kind(name, schemas) for name in self.names]
        columns_of_files = list(zip(*described, strict=True))
        self.is_text = [any(kind == ColumnKind.TEXT for kind, _ in each) for each in columns_of_files]
        self.narrow = [
            all(narrow for kind, narrow in each if kind != ColumnKind.EMPTY) for each in columns_of_files
        ]

    def plan(self, categorical: ColumnSelection | None, kinds: KindsInput) -> ColumnPlan:
        """What is read, and as what."""

        def typed() -> Array:
            of = dict(zip(self.names, self.kinds, strict=True))
            return np.array([of.get(name) == ColumnKind.LEVEL for name in names])

        names = [*self.names, *self.ignored]
        given = np.zeros(len(names), bool) if categorical is None else categorical
        return plan_columns(names, True, typed, given, kinds)

    def __iter__(self) -> Iterator[tuple[str, pa.Table]]:
        import pyarrow as pa

        if self._reader is not None:
            for batch in self._reader:
                if len(batch):
                    yield "", pa.Table.from_batches([batch]).select(list(self.names))
            return
        for path, fragment, constant in self.fragments:
            inside = [name for name in self.names if name not in constant]
            try:
                for batch in _batches_of(fragment, inside):
                    if len(batch):
                        yield (
                            path,
                            _completed(pa.Table.from_batches([batch]).select(inside), constant, self.names),
                        )
            except (OSError, pa.ArrowInvalid) as error:
                raise OSError(f"{path!r} cannot be read: {error}") from error
            pa.default_memory_pool().release_unused()  # which pyarrow would keep


@dataclass(frozen=True)
class FilePart:
    """Some rows of a file, which can be read anywhere."""

    path: str
    format: str  # {"parquet", "ipc", "feather"}
    groups: tuple[int, ...] | None  # row groups of a Parquet file; None: the whole file
    names: tuple[str, ...]  # columns
    constant: dict[str, pa.Scalar]  # the values of the columns that the file does not hold
    n_rows: int

    def read(self) -> pa.Table:
        """The rows as a pyarrow table."""
        import pyarrow as pa
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        inside = [name for name in self.names if name not in self.constant]
        try:
            if self.groups is None:
                table = ds.dataset(self.path, format=self.format).to_table(columns=inside)
            else:
                with pq.ParquetFile(self.path, **_READING) as file:
                    table = file.read_row_groups(list(self.groups), columns=inside).select(inside)
        except (OSError, pa.ArrowInvalid) as error:
            raise OSError(f"{self.path!r} cannot be read: {error}") from error
        return _completed(table, self.constant, self.names)


def file_parts(batches: Batches, most_rows: int) -> list[FilePart]:
    """The files of a table in parts of at most this many rows, or of one row group."""
    import pyarrow.dataset as ds

    parts = []
    for path, fragment, constant in batches.fragments:
        path = os.path.abspath(path)
        if not isinstance(fragment, ds.ParquetFileFragment):
            parts.append(
                FilePart(
                    path,
                    fragment.format.default_extname,
                    None,
                    batches.names,
                    constant,
                    fragment.count_rows(),
                )
            )
            continue
        groups: list[int] = []
        n_rows = 0
        for group in fragment.row_groups:
            if groups and n_rows + group.num_rows > most_rows:
                parts.append(FilePart(path, "parquet", tuple(groups), batches.names, constant, n_rows))
                groups, n_rows = [], 0
            groups.append(group.id)
            n_rows += group.num_rows
        parts.append(FilePart(path, "parquet", tuple(groups), batches.names, constant, n_rows))
    return parts


def _completed(part: pa.Table, constant: Mapping[str, pa.Scalar], names: Sequence[str]) -> pa.Table:
    """A batch with the columns of one value that its file does not hold."""
    import pyarrow as pa

    if not constant:
        return part
    columns = [pa.repeat(constant[name], len(part)) if name in constant else part[name] for name in names]
    return pa.Table.from_arrays(columns, names=list(names))


def _batches_of(fragment: ds.Fragment, names: list[str]) -> Iterator[pa.RecordBatch]:
    """The record batches of a file, decoded a few at a time."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    if not isinstance(fragment, ds.ParquetFileFragment):
        yield from fragment.to_batches(
            columns=names, batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        )
        return
    groups = [group.id for group in fragment.row_groups]
    with fragment.open() as file, pq.ParquetFile(file, **_READING) as content:
        yield from content.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names)


def _dataset(paths: PathInput) -> ds.FileSystemDataset:
    """The files that a path, a pattern, a folder or a list of these names, in the order of their names."""
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError as error:
        raise ImportError(_NEEDS.format("Parquet files")) from error
    files: list[str] = []
    if not isinstance(paths, str | os.PathLike) and not len(paths):
        raise ValueError("An empty list of paths was passed; pass at least one path.")
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        text = os.fspath(path)
        if os.path.splitext(text)[1] and not (
            _format_of(text) or glob.has_magic(text) or os.path.isdir(text)
        ):
            raise TypeError(no_table(text))
        if os.path.isdir(text):
            found = _files_in(text)
        elif os.path.isfile(text):
            found = [text]
        else:
            matches = glob.glob(text, recursive=True)
            found = [each for each in matches if os.path.isfile(each)]
            folders = [each for each in matches if os.path.isdir(each) and _format_of(each)]
            # as Spark writes a table; files that the pattern matches are not read twice
            for folder in folders:
                found += [each for each in _files_in(folder) if each not in found]
        if not found:
            raise FileNotFoundError(
                f"No Parquet, Feather or Arrow file matches {text!r}; pass the path of a file or folder, or "
                "a pattern."
            )
        files += sorted(found)
    check_encodable(files)
    formats = {_format_of(file) for file in files}
    if None in formats or len(formats) > 1:
        other = next((file for file in files if not _format_of(file)), None)
        problem = (
            f"{other!r} is of another kind"
            if other
            else f"several kinds were found ({', '.join(sorted(map(str, formats)))})"
        )
        raise ValueError(
            "Files are read in batches if all are Parquet (.parquet) or all Arrow (.arrow, .feather), but "
            f"{problem}; craftc.read_table reads other files."
        )
    # the schema of each file is read by itself
    return ds.dataset(files, schema=pa.schema([]), format=formats.pop())


def _files_in(folder: str) -> list[str]:
    """The files of a folder and its subfolders; names that begin with "_" or "." are skipped."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found += [
            os.path.join(parent, name)
            for name in names
            if _format_of(name) and not name.startswith(("_", "."))
        ]
    return found


def _format_of(path: str) -> str | None:
    return FORMATS.get(os.path.splitext(path)[1].lower())


def _physical_schema(path: str, fragment: ds.Fragment) -> pa.Schema:
    import pyarrow as pa

    try:
        return fragment.physical_schema
    except (OSError, pa.ArrowInvalid) as error:
        raise OSError(f"{path!r} cannot be read: {error}") from error


def _common_names(
    schemas: Sequence[tuple[str, pa.Schema]], columns: Sequence[str] | None, ignored: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of the first file, or the requested ones, and those of them that are ignored; every file
    must have the same.
    """
    first, schema = schemas[0]
    if isinstance(columns, str):
        raise TypeError(f"columns must be a sequence of names, got {columns!r}; pass [{columns!r}].")
    index = set().union(*(_stored_index(each) for _, each in schemas))
    names = tuple([name for name in schema.names if name not in index] if columns is None else columns)
    if len(set(names)) < len(names):
        raise ValueError(f"Column names must be unique, got {list(names)}; rename the columns.")
    for path, each in schemas:
        absent = [name for name in names if name not in each.names]
        extra = (
            [name for name in each.names if name not in names and name not in index]
            if columns is None
            else []
        )
        if len(set(each.names)) < len(each.names):
            raise ValueError(
                f"{path or 'The stream'}: column names must be unique, got {list(each.names)}; rename the "
                "columns."
            )
        if absent:
            raise ValueError(
                f"{path or 'The stream'} lacks column {absent[0]!r}"
                + (f", which {first} has." if columns is None else ".")
            )
        if extra:
            raise ValueError(
                f"{path} has column {extra[0]!r}, which {first} lacks; name the columns to use, or rewrite "
                "the file."
            )
    if not names:
        raise ValueError("Found array with 0 feature(s) (shape=(0, 0)) while a minimum of 1 is required.")
    kept = tuple(name for name in names if name not in ignored)
    return kept, tuple(name for name in names if name in ignored)


def _stored_index(schema: pa.Schema) -> set[str]:
    """The columns in which pandas stored the index of a data frame; they are not part of the table."""
    return {name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)}


def _described(path: str, field: ArrowField) -> tuple[ColumnKind, bool]:
    """Kind of a column, and whether float32 represents it; raise TypeError for kind OTHER."""
    kind, narrow = kind_of_field(field)
    if kind == ColumnKind.OTHER:
        raise TypeError(
            f"Column {field.name!r} of {path or 'the stream'} has dtype {field.type}, which is neither "
            "numeric nor categorical; convert it (a date to days or a month, a list to several columns), or "
            "choose other columns."
        )
    return kind, narrow
