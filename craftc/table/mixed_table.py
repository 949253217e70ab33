"""The mixed table: a block of numbers, a block of category codes, and the schema that describes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from craftc._common.messages import no_value
from craftc._common.typing import Array, ColumnSelection, FileInput, TableInput
from craftc.table.blocks import Scratch
from craftc.table.dates import with_parts
from craftc.table.declared import (
    ColumnPlan,
    KindInput,
    KindsInput,
    are_categorical,
    check_reading,
    differing_kind,
    plan_columns,
)
from craftc.table.frames import ColumnSource, check_names, count_missing, open_source
from craftc.table.kinds import ColumnKind
from craftc.table.level_column import MISSING_LEVEL, Level, LevelColumn, warn_of_empty
from craftc.table.out_of_core import read_blocks
from craftc.table.reading import Reading, reading_of


@dataclass(frozen=True, eq=False)
class Schema:
    """Description of the columns of a table, as `predict` and model files need it.

    Parameters
    ----------
    columns : tuple of str
        Names in input order; "x0", "x1", ... if the input had none.
    named : bool
        Whether the input had column names.
    numeric_index, categorical_index : ndarray of intp, shapes (p,) and (q,)
        Input positions of the numeric and of the categorical columns.
    levels : tuple of q tuples
        The levels of each categorical column, in the order of their codes.
    dtype : numpy.dtype
        dtype of the numeric block: float32 or float64.
    missing : {"ignore", "category", "error"}
        Treatment of missing values, see :meth:`craftc.MixedTable.from_data`.
    ordered : tuple of int
        Input positions of the categorical columns whose levels are a scale, in its order.
    dates : tuple of int
        Input positions of the numeric columns that are days since 1970-01-01.
    ignored : tuple of str
        Columns of the input that are not part of the table.
    reading : dict
        How the texts of the table were read, see :func:`craftc.read_table`; empty: they were not.

    Examples
    --------
    >>> import pandas as pd
    >>> from craftc.table import MixedTable, Schema
    >>> schema = MixedTable.from_data(pd.DataFrame({"age": [3.0, 5.0], "city": ["B", "A"]})).schema
    >>> schema.levels
    (('A', 'B'),)
    >>> schema.encode(pd.DataFrame({"city": ["A", "C"], "age": [1, 2]})).codes
    array([[0],
           [2]], dtype=uint8)
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    columns: tuple[str, ...]
    named: bool
    numeric_index: Array
    categorical_index: Array
    levels: tuple[tuple[Level, ...], ...]
    dtype: np.dtype[Any]
    missing: str
    ordered: tuple[int, ...] = ()
    dates: tuple[int, ...] = ()
    ignored: tuple[str, ...] = ()
    reading: Reading = field(default_factory=dict)

    @classmethod
    def of_plan(
        cls, plan: ColumnPlan, named: bool, columns: Sequence[LevelColumn], dtype: np.dtype[Any], missing: str
    ) -> Schema:
        """The schema of a table that was read by a plan, with these categorical columns."""
        levels, ordered = plan.levels(columns, missing)
        return cls(
            columns=plan.names,
            named=named,
            numeric_index=plan.numeric_index,
            categorical_index=plan.categorical_index,
            levels=levels,
            dtype=dtype,
            missing=missing,
            ordered=ordered,
            dates=plan.dates,
            ignored=plan.ignored,
        )

    @property
    def n_columns(self) -> int:
        """Number of columns of the table."""
        return len(self.columns)

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """Names of the numeric columns, in the order of the numeric block."""
        return tuple(map(self.columns.__getitem__, self.numeric_index))

    @property
    def categorical_names(self) -> tuple[str, ...]:
        """Names of the categorical columns, in the order of the codes block."""
        return tuple(map(self.columns.__getitem__, self.categorical_index))

    @property
    def n_levels(self) -> Array:
        """Number of levels of each categorical column; the same number is its code for a missing value."""
        return np.array(list(map(len, self.levels)), dtype=np.intp)

    @property
    def kinds(self) -> dict[str, KindInput]:
        """The kinds by which `MixedTable.from_data` reads columns as this schema has them."""
        kinds: dict[str, KindInput] = {
            self.columns[j]: "date" if j in self.dates else "number" for j in self.numeric_index.tolist()
        }
        for j, levels in zip(self.categorical_index.tolist(), self.levels, strict=True):
            scale = [level for level in levels if level != MISSING_LEVEL]
            kinds[self.columns[j]] = scale if j in self.ordered else "category"
        return kinds

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        others: dict[str, object] = {"ignored": (), "reading": {}}  # which are no part of the table
        return self is other or self.to_dict() | others == other.to_dict() | others

    def __hash__(self) -> int:
        return hash((self.columns, self.named, self.missing))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as JSON-serializable values."""
        return {
            "columns": list(self.columns),
            "named": self.named,
            "numeric_index": self.numeric_index.tolist(),
            "categorical_index": self.categorical_index.tolist(),
            "levels": [list(levels) for levels in self.levels],
            "dtype": self.dtype.name,
            "missing": self.missing,
            "ordered": list(self.ordered),
            "dates": list(self.dates),
            "ignored": list(self.ignored),
            "reading": self.reading,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Schema:
        """Restore a schema from the result of `to_dict`."""
        return cls(
            columns=tuple(state["columns"]),
            named=state["named"],
            numeric_index=np.array(state["numeric_index"], dtype=np.intp),
            categorical_index=np.array(state["categorical_index"], dtype=np.intp),
            levels=tuple(tuple(levels) for levels in state["levels"]),
            dtype=np.dtype(state["dtype"]),
            missing=state["missing"],
            ordered=tuple(state["ordered"]),
            dates=tuple(state["dates"]),
            ignored=tuple(state["ignored"]),
            reading=state["reading"],
        )

    def encode(
        self, X: TableInput, *, unknown: str = "ignore", estimator_name: str = "this model"
    ) -> MixedTable:
        """Encode new data that has the same columns.

        Parameters
        ----------
        X : frame, dict of columns, array or MixedTable
            Columns are matched by name, in any order, if both sides have names, and by position otherwise. A
            table with an equal schema is returned unchanged. Parts of dates that it lacks, as `read_table`
            names them, are made of the dates.
        unknown : {"ignore", "error"}
            A level that did not occur in `fit` becomes a missing value, or raises ValueError.
        estimator_name : str
            Name of the model in error messages.

        Returns
        -------
        MixedTable
        """
        if unknown not in ("ignore", "error"):
            raise ValueError(f"unknown must be 'ignore' or 'error', got {unknown!r}.")
        if isinstance(X, MixedTable):
            if X.schema == self:
                return X
            raise ValueError(
                "This MixedTable has another schema than the model, so its codes have other meanings; pass "
                "the data it was built from."
            )
        source = with_parts(open_source(X), [self.columns[j] for j in self.dates], self.columns)
        order = self._match(source, estimator_name)
        numeric = source.numbers(order[self.numeric_index], self.dtype)
        columns = [source.column(j) for j in order[self.categorical_index]]
        warn_of_empty(self.columns, self._count_missing(numeric, columns), source.n_rows)
        return self._table(numeric, columns, unknown)

    def _match(self, source: ColumnSource, estimator_name: str) -> Array:
        """Return the position in `source` of each column of the schema."""
        check_names(source, self.columns if self.named else (), self.ignored, estimator_name)
        if self.named and source.named:
            position = {name: j for j, name in enumerate(source.names)}
            return np.array([position[name] for name in self.columns], dtype=np.intp)
        if self.ignored and len(source.names) == self.n_columns + len(self.ignored):
            # x2 before x10
            every = sorted([*self.columns, *self.ignored], key=lambda name: (len(name), name))
            return np.array([every.index(name) for name in self.columns], dtype=np.intp)
        if len(source.names) != self.n_columns:
            raise ValueError(
                f"X has {len(source.names)} features, but {estimator_name} is expecting {self.n_columns} "
                "features as input."
            )
        return np.arange(self.n_columns)

    def _count_missing(self, numeric: Array, columns: list[LevelColumn]) -> Array:
        """Count the missing values of every input column; raise ValueError if `missing="error"`."""
        n_missing = np.zeros(self.n_columns, dtype=np.intp)
        n_missing[self.numeric_index] = count_missing(numeric, self.numeric_names)
        n_missing[self.categorical_index] = [column.n_missing for column in columns]
        self.check_missing(n_missing)
        return n_missing

    def check_missing(self, n_missing: Array, n_rows: int | None = None, remedy: str = "drop it") -> None:
        """Raise ValueError on missing values if `missing="error"`, and on columns without any value, given
        the number of missing values.

        Parameters
        ----------
        n_missing : ndarray (n_columns,)
        n_rows : int, optional
            Rows of the table; None: columns without values are accepted.
        remedy : str
            What the error about such a column proposes.
        """
        if self.missing == "error" and n_missing.any():
            j = int((n_missing > 0).argmax())
            raise ValueError(
                f"Column {self.columns[j]!r} has {n_missing[j]} missing value(s) (NaN or null); impute them, "
                "or pass missing='ignore' or missing='category'."
            )
        empty = np.flatnonzero(n_missing == n_rows) if n_rows is not None else np.empty(0, np.intp)
        if len(empty):
            raise no_value(self.columns[empty[0]], n_rows, remedy)

    def _table(self, numeric: Array, columns: list[LevelColumn], unknown: str) -> MixedTable:
        """Encode the categorical columns with the levels of this schema and build the table."""
        dtype = np.uint8 if max(self.n_levels, default=0) < 256 else np.uint16
        codes = np.empty((len(numeric), len(columns)), dtype=dtype)
        for d, (column, levels) in enumerate(zip(columns, self.levels, strict=True)):
            code_of, unseen = column.translate(levels, self.missing)
            if unseen and unknown == "error":
                first = ", ".join(map(repr, unseen[:5])) + (", ..." if len(unseen) > 5 else "")
                raise ValueError(
                    f"Column {self.categorical_names[d]!r} contains {len(unseen)} level(s) that did not "
                    f"occur in fit: {first}; remove the rows, or pass unknown='ignore' to treat them as "
                    "missing."
                )
            if len(levels) > 1:  # a constant column says nothing
                column.warn_of_foreign(unseen)
            codes[:, d] = code_of.astype(dtype).take(column.codes, mode="wrap")  # the last one of -1
        return MixedTable._trusted(numeric, codes, self)


@dataclass(frozen=True, eq=False, repr=False)
class MixedTable:
    """A table as a block of numbers and a block of category codes.

    Build it with :meth:`from_data`. The estimators for mixed tables accept it as `X`, which avoids repeated
    conversion in many fits.

    Parameters
    ----------
    numeric : ndarray, shape (n_rows, p)
        C-contiguous float32 or float64; NaN = missing.
    codes : ndarray, shape (n_rows, q)
        C-contiguous uint8 or uint16; `n_levels[d]` = missing, or a level that did not occur in `fit`.
    schema : Schema
        Description of the columns.

    Raises
    ------
    TypeError, ValueError
        A block does not have the dtype, shape or memory layout of the schema, or contains an infinite number
        or a code beyond the levels of its column.

    Examples
    --------
    >>> import pandas as pd
    >>> from craftc.table import MixedTable
    >>> frame = pd.DataFrame({"age": [31, None, 54], "city": ["Bern", "Basel", "Bern"]})
    >>> table = MixedTable.from_data(frame)
    >>> table
    MixedTable(3 rows, 1 numeric float64, 1 categorical uint8, missing='ignore')
    >>> table.levels
    (('Basel', 'Bern'),)
    >>> table.codes.ravel()
    array([1, 0, 1], dtype=uint8)
    """

    numeric: Array
    codes: Array
    schema: Schema
    _scratch: ClassVar[Scratch | None] = None

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise TypeError(
                f"schema must be a Schema, got {type(self.schema).__name__}; MixedTable.from_data(X) builds "
                "one."
            )
        schema = self.schema
        dtypes: dict[str, list[np.dtype[Any]]] = {
            "numeric": [schema.dtype],
            "codes": [np.dtype(np.uint8), np.dtype(np.uint16)],
        }
        widths = {"numeric": len(schema.numeric_index), "codes": len(schema.categorical_index)}
        for name, block in (("numeric", self.numeric), ("codes", self.codes)):
            if not isinstance(block, np.ndarray) or block.dtype not in dtypes[name]:
                found = block.dtype if isinstance(block, np.ndarray) else type(block).__name__
                wanted = " or ".join(dtype.name for dtype in dtypes[name])
                raise TypeError(f"{name} must be an array of {wanted}, got {found}.")
            if block.ndim != 2 or block.shape[1] != widths[name]:
                raise ValueError(
                    f"{name} must have shape (n_rows, {widths[name]}) for this schema, got {block.shape}."
                )
            if not block.flags.c_contiguous or not block.flags.aligned:
                raise ValueError(
                    f"{name} must be C-contiguous and aligned; pass np.ascontiguousarray({name})."
                )
        if len(self.numeric) != len(self.codes):
            raise ValueError(
                f"numeric has {len(self.numeric)} rows and codes has {len(self.codes)}; both must have one "
                "for each row."
            )
        count_missing(self.numeric, schema.numeric_names)  # raises on infinite values
        for d, (largest, n_levels) in enumerate(
            zip(self.codes.max(axis=0, initial=0), schema.n_levels, strict=True)
        ):
            if largest > n_levels:
                raise ValueError(
                    f"Column {schema.categorical_names[d]!r} has {n_levels} levels, so its codes are 0 to "
                    f"{n_levels} ({n_levels} = missing), but codes contains {largest}."
                )

    @classmethod
    def _trusted(
        cls, numeric: Array, codes: Array, schema: Schema, scratch: Scratch | None = None
    ) -> MixedTable:
        """A table of blocks of this package, without validation; `scratch`: where they lie."""
        table = object.__new__(cls)
        for name, value in (
            ("numeric", numeric),
            ("codes", codes),
            ("schema", schema),
            ("_scratch", scratch),
        ):
            object.__setattr__(table, name, value)
        return table

    def _empty_block(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """An array for as many rows: in a scratch file if the blocks of this table are, else in memory."""
        return np.empty(shape, dtype) if self._scratch is None else self._scratch.empty(shape, dtype)

    @classmethod
    def from_data(
        cls,
        X: TableInput,
        *,
        categorical: ColumnSelection = "auto",
        missing: str = "ignore",
        dtype: DTypeLike | None = None,
        kinds: KindsInput = None,
    ) -> MixedTable:
        """Build a table from a frame, a dict of columns or an array, without a copy where the layout allows
        it.

        Parameters
        ----------
        X : frame of narwhals, dict of columns, array-like of shape (n_rows, n_columns), or MixedTable
            A MixedTable is returned unchanged.
        categorical : "auto", list of names, list of positions, or boolean mask
            "auto": strings, categories and booleans are categorical, numbers are numeric. A list adds columns
            to them. A mask, and a list for an array, say so of all columns.
        missing : {"ignore", "category", "error"}
            "ignore": a missing value has no cost and enters no statistic. "category": in categorical columns
            missing values form an additional last level, "(missing)". "error": missing values raise
            ValueError.
        dtype : float32, float64 or None
            dtype of the numeric block. None: float32 if all numeric columns are float16 or float32, else
            float64.
        kinds : mapping, optional
            Kinds of some columns, as in `CRAFT`. The other columns are read by their types.

        Returns
        -------
        MixedTable
        """
        check_reading(missing, dtype)
        if isinstance(X, MixedTable):
            return X._check_arguments(categorical, missing, dtype, kinds)

        source = open_source(X)
        plan = plan_columns(source.names, source.named, source.categorical_mask, categorical, kinds)
        source = source.chosen(plan.kept)
        numeric_type = np.dtype(source.float_type(plan.numeric_index) if dtype is None else dtype)
        numeric = source.numbers(plan.numeric_index, numeric_type)
        columns = [source.column(j) for j in plan.categorical_index.tolist()]
        plan.check_texts(columns, [kind == ColumnKind.TEXT for kind in source.kinds])
        schema = Schema.of_plan(plan, source.named, columns, numeric_type, missing)
        schema = replace(schema, reading=reading_of(X))
        schema.check_missing(schema._count_missing(numeric, columns), source.n_rows)
        return schema._table(numeric, columns, "ignore")

    @classmethod
    def from_parquet(
        cls,
        path: FileInput,
        *,
        columns: Sequence[str] | None = None,
        categorical: ColumnSelection = "auto",
        missing: str = "ignore",
        dtype: DTypeLike | None = None,
        scratch: str | os.PathLike[str] | None = None,
        kinds: KindsInput = None,
    ) -> MixedTable:
        """Read a table of any length in batches; its blocks are kept in scratch files, which disappear with
        the table.

        Parameters
        ----------
        path : path, pattern, folder, list of these, pyarrow.dataset.Dataset or pyarrow.RecordBatchReader
            Parquet or Arrow files of equal columns, in the order of their names. A stream is read once.
        columns : sequence of str, optional
            The columns to read; None: all, which must be the same in every file.
        categorical, missing, dtype, kinds
            As in `from_data`.
        scratch : path, optional
            Folder of the scratch files; None: the folder for temporary files (the variable TMPDIR). They need
            as much space as the table would in memory, and the same again where numeric columns are encoded.

        Returns
        -------
        MixedTable
            Equal to that of `from_data` for the whole table.

        Raises
        ------
        FileNotFoundError, OSError, TypeError, ValueError
            No file matches, a file cannot be read, the scratch folder is full, or the files do not have the
            same columns; the message names the file.
        """
        check_reading(missing, dtype)
        read = read_blocks(path, categorical, dtype, columns, scratch, kinds)
        schema = Schema.of_plan(read.plan, True, read.columns, read.numeric.dtype, missing)
        schema.check_missing(read.n_missing, len(read.numeric))
        final = [
            column.translate(levels, missing)[0]
            for column, levels in zip(read.columns, schema.levels, strict=True)
        ]
        return cls._trusted(read.numeric, read.codes(final, schema.n_levels), schema, read.scratch)

    def _check_arguments(
        self, categorical: ColumnSelection, missing: str, dtype: DTypeLike | None, kinds: KindsInput
    ) -> MixedTable:
        """Return this table if it was built with these arguments of `from_data`, else raise ValueError."""
        schema = self.schema
        if not are_categorical(categorical, schema.columns, schema.named, schema.categorical_index.tolist()):
            differs = f"categorical={list(schema.categorical_names)}"
        elif missing != schema.missing:
            differs = f"missing={schema.missing!r}"
        elif dtype is not None and np.dtype(dtype) != schema.dtype:
            differs = f"dtype={schema.dtype.name}"
        elif other := differing_kind(kinds, schema):
            differs = other
        else:
            return self
        raise ValueError(
            f"This MixedTable was built with {differs}, which differs from the parameters passed now; pass "
            "the same, or the data it was built from."
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of input columns."""
        return self.n_rows, self.schema.n_columns

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """Names of the columns of `numeric`."""
        return self.schema.numeric_names

    @property
    def categorical_names(self) -> tuple[str, ...]:
        """Names of the columns of `codes`."""
        return self.schema.categorical_names

    @property
    def levels(self) -> tuple[tuple[Level, ...], ...]:
        """Levels of each column of `codes`, in the order of their codes."""
        return self.schema.levels

    @property
    def n_levels(self) -> Array:
        """Number of levels of each column of `codes`."""
        return self.schema.n_levels

    @property
    def nbytes(self) -> int:
        """Size of the two blocks in bytes."""
        return self.numeric.nbytes + self.codes.nbytes

    def take(self, rows: Array | Sequence[int] | slice) -> MixedTable:
        """Return the table of these rows (positions, boolean mask or slice), with the same schema."""
        numeric, codes = self.numeric[rows], self.codes[rows]
        if codes.ndim != 2:
            raise ValueError(f"rows must be positions, a boolean mask or a slice, got {rows!r}.")
        return MixedTable._trusted(np.ascontiguousarray(numeric), np.ascontiguousarray(codes), self.schema)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"MixedTable({self.n_rows} rows, {self.numeric.shape[1]} numeric {self.numeric.dtype}, "
            f"{self.codes.shape[1]} categorical {self.codes.dtype}, missing={self.schema.missing!r})"
        )
