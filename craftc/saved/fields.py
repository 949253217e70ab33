"""Kinds of values in a model file, and what is checked when they are read.

The table of an estimator names its fitted attributes and their kinds, with type, shape and range. Numbers and
short texts lie in the head of the file, arrays are members; a part of an object has a dotted name. A length
of a shape is a number or a name: lengths of one name are equal, and the first array that has it says how
long it is. "D" is the number of input columns.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc.distributed.collections import is_collection
from craftc.saved.archive import Archive, Arrays, demand

ABSENT = object()  # an attribute that a model does not have
POSITIVE, LARGEST = math.ulp(0.0), sys.float_info.max  # the least positive and the largest finite float64

Length = int | str | None
Values = NDArray[Any]


@dataclass
class Writing:
    values: dict[str, object] = field(default_factory=dict)  # of the head
    arrays: Arrays = field(default_factory=dict)
    written: dict[str, object] = field(default_factory=dict)  # by dotted names

    def write(self, kind: Kind, name: str, value: object) -> None:
        """One value."""
        self.written[name] = value
        kind.write(self, name, value)


@dataclass
class Reading:
    archive: Archive
    values: Mapping[str, object]  # of the head
    sizes: dict[str, int]  # by the names of lengths
    found: dict[str, object] = field(default_factory=dict)  # what has been read, by dotted names

    def read(self, kind: Kind, name: str) -> object:
        value = self.found[name] = kind.read(self, name)
        return value

    def size(self, length: Length) -> int | None:
        """A length; None if it is free."""
        return self.sizes.get(length) if isinstance(length, str) else length


class Kind:
    """A value of JSON as it is."""

    def write(self, out: Writing, name: str, value: object) -> None:
        """Write a value to the head, an array as a member."""
        if isinstance(value, np.ndarray):
            out.arrays[name] = value
        else:
            out.values[name] = value if isinstance(value, dict) else plain(name, value)

    def read(self, source: Reading, name: str) -> object:
        """Read a value; raise unless it is possible."""
        return source.values[name]


@dataclass(frozen=True)
class StoredNumber(Kind):
    """A number or a truth value, or a tuple of `count` of them."""

    type: type[float] = float
    least: float = -math.inf
    most: float = math.inf
    missing: bool = False  # whether it may be NaN
    count: int | None = None

    def read(self, source: Reading, name: str) -> object:
        value = restored(source.values[name])
        if self.count is None:
            return self.checked(name, value)
        demand(isinstance(value, list) and len(value) == self.count, f"{name} is {value!r}")
        return tuple(self.checked(name, each) for each in _items(value))

    def checked(self, name: str, value: object) -> object:
        """The number; raise unless it has the type and is in the range."""
        demand(type(value) is self.type, f"{name} is {value!r}")
        assert isinstance(value, int | float)
        within = self.least <= value <= self.most or (self.missing and value != value)
        demand(within, f"{name} is {value!r}")
        return value


@dataclass(frozen=True)
class StoredChoice(Kind):
    """One of several texts, or None."""

    options: tuple[str | None, ...]

    def read(self, source: Reading, name: str) -> object:
        value = source.values[name]
        demand(isinstance(value, str | None) and value in self.options, f"{name} is {value!r}")
        return value


@dataclass(frozen=True)
class Array(Kind):
    """Values of one type. `below` is the name of a length, in which the values are positions."""

    dtype: str
    shape: tuple[Length, ...]
    least: float = -LARGEST
    most: float = LARGEST
    below: str | None = None
    missing: bool = False  # whether there may be NaN

    def read(self, source: Reading, name: str) -> Values:
        array = source.archive.array(name, self.dtype, tuple(map(source.size, self.shape)))
        for length, size in zip(self.shape, array.shape, strict=True):
            if isinstance(length, str):
                demand(source.sizes.setdefault(length, size) == size, f"{name} has shape {array.shape}")
        possible = (array >= np.float64(self.least)) & (array <= np.float64(self.most))
        if self.below is not None:
            possible &= array < source.sizes[self.below]
        if self.missing:
            possible |= np.isnan(array)
        demand(bool(possible.all()), f"{name} contains values that are not possible")
        return array


def floats(*shape: Length, least: float = -LARGEST, most: float = LARGEST, missing: bool = False) -> Array:
    """Finite numbers, or NaN."""
    return Array("float64", shape, least, most, missing=missing)


def integers(*shape: Length, least: float = -math.inf) -> Array:
    return Array("int64", shape, least, math.inf)


def labels(*shape: Length, below: str) -> Array:
    """Numbers of clusters, columns or rows."""
    return Array("int32", shape, least=0, below=below)


@dataclass(frozen=True)
class Ragged(Kind):
    """Arrays one after the other; unless known, the first length of `of` (and others of its name) differs."""

    of: Array

    def write(self, out: Writing, name: str, value: object) -> None:
        parts = [np.asarray(part) for part in _items(value)]
        out.arrays[f"{name}.lengths"] = np.array([len(part) for part in parts], np.int64)
        out.arrays[name] = np.concatenate([np.empty(0, self.of.dtype), *(part.ravel() for part in parts)])

    def read(self, source: Reading, name: str, n: Length = None) -> list[Values]:
        own, known = self.of.shape[0], source.size(self.of.shape[0])
        lengths = integers(n, least=0).read(source, f"{name}.lengths").tolist()
        demand(known is None or {known} >= {*lengths}, f"{name} has arrays of other lengths")
        of = self.of
        shapes = [[m if length == own else source.size(length) or 0 for length in of.shape] for m in lengths]
        sizes = [math.prod(shape) for shape in shapes]
        flat = Array(of.dtype, (sum(sizes),), of.least, of.most, of.below).read(source, name)
        parts = np.split(flat, np.cumsum(sizes)[:-1]) if sizes else []
        return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]


@dataclass(frozen=True)
class Same(Kind):
    """What another attribute holds, which is not written again, or else a value of its own."""

    name: str
    otherwise: Kind | None = None

    def write(self, out: Writing, name: str, value: object) -> None:
        if self.otherwise is not None:
            own = value if value is not out.written[self.name] else None
            Optional(self.otherwise).write(out, name, own)

    def read(self, source: Reading, name: str) -> object:
        own = None if self.otherwise is None else Optional(self.otherwise).read(source, name)
        return source.found[self.name] if own is None else own


@dataclass(frozen=True)
class Optional(Kind):
    """A value that may be None, or an attribute that may be ABSENT; values on a cluster are not written."""

    of: Kind
    otherwise: object = None

    def write(self, out: Writing, name: str, value: object) -> None:
        here = out.values[f"{name}?"] = not (value is None or value is ABSENT or is_collection(value))
        if here:
            self.of.write(out, name, value)

    def read(self, source: Reading, name: str) -> object:
        state = source.values[f"{name}?"]
        demand(type(state) is bool, f"{name}? is {state!r}")
        return self.of.read(source, name) if state else self.otherwise


@dataclass(frozen=True)
class Through(Kind):
    """A value in another form; `of` also takes others that have been read, by their names."""

    kind: Kind
    to: Callable[..., object]
    of: Callable[..., object]
    others: tuple[str, ...] = ()

    def write(self, out: Writing, name: str, value: object) -> None:
        self.kind.write(out, name, self.to(value))

    def read(self, source: Reading, name: str) -> object:
        return self.of(self.kind.read(source, name), *(source.found[each] for each in self.others))


_FINITE = StoredNumber(least=-LARGEST, most=LARGEST)
#: Kinds of the fields of a class that follow from their annotations.
_BY_ANNOTATION = {
    "float": _FINITE,
    "float | None": Optional(_FINITE),
    "int": StoredNumber(int),
    "bool": StoredNumber(bool),
}


class StoredRecord(Kind):
    """An object of a class, by its annotated fields; `kinds`: of fields whose annotation does not say it."""

    def __init__(self, cls: type, make: Callable[..., object] | None = None, **kinds: Kind) -> None:
        self.make = cls if make is None else make
        found = {name: str(getattr(of, "__forward_arg__", of)) for name, of in cls.__annotations__.items()}
        self.fields = {name: _BY_ANNOTATION[of] for name, of in found.items() if name not in kinds} | kinds

    def write(self, out: Writing, name: str, value: object) -> None:
        for each, kind in self.fields.items():
            out.write(kind, f"{name}.{each}", getattr(value, each, ABSENT))

    def read(self, source: Reading, name: str) -> object:
        return self.make(**{each: source.read(kind, f"{name}.{each}") for each, kind in self.fields.items()})


class StoredRecords(StoredRecord):
    """Objects of a class: one array for every field, of numbers or of arrays one after the other."""

    def write(self, out: Writing, name: str, value: object) -> None:
        items = out.values[name] = len(_items(value))
        for each, kind in self.fields.items():
            column = [getattr(item, each) for item in _items(value)]
            if isinstance(kind, Array):
                Ragged(kind).write(out, f"{name}.{each}", column)
            else:
                out.arrays[f"{name}.{each}"] = np.array(column, None if items else float)

    def read(self, source: Reading, name: str) -> object:
        n = StoredNumber(int, least=0).checked(name, source.values[name])
        columns = [self._column(source, kind, f"{name}.{each}", n) for each, kind in self.fields.items()]
        return [self.make(**dict(zip(self.fields, row, strict=True))) for row in zip(*columns, strict=True)]

    @staticmethod
    def _column(source: Reading, kind: Kind, name: str, n: object) -> list[Any]:
        assert isinstance(n, int)
        if isinstance(kind, Array):
            return Ragged(kind).read(source, name, n)
        assert isinstance(kind, StoredNumber)
        values = source.archive.array(name, ("float64", "int64", "bool"), (n,)).tolist()
        return [kind.checked(name, value) for value in values]


def _items(value: object) -> list[object]:
    """The items of a list or tuple."""
    assert isinstance(value, Iterable)
    return list(value)


def plain(name: str, value: object) -> object:
    """A number, text, or nested list or mapping as JSON can write it; `name`: of a parameter or attribute."""
    if hasattr(value, "tolist"):  # arrays, their elements, Series
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(name, item) for item in value]
    if isinstance(value, Mapping):  # whose keys may be numbers
        return {"items": [[plain(name, key), plain(name, item)] for key, item in value.items()]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no word for it
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(
        f"The parameter {name}={value!r} cannot be written to a file; use numbers, text, lists or mappings."
    )


def restored(value: object) -> object:
    """The inverse of `plain`."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if isinstance(value, dict) and "items" in value:
        return {key: restored(item) for key, item in value["items"]}
    return float(value["float"]) if isinstance(value, dict) else value
