"""The container of a model file: a zip archive of plain arrays and one JSON text, which is read without
executing anything in it.

An ``.npz`` archive, never of pickled objects. Its member ``model`` is the JSON text (UTF-8), the head: format
name and version, name of the estimator, parameters and scalars of the fit; the other members are arrays. From
format 4 on, the member ``checksum`` is the SHA-256 of all others, which is compared before anything else is
read, so that a changed file never gives other results in silence.

A damaged or hostile file cannot ask for much more memory than its own length: the members together are at
most `_MOST_EXPANDED` times as long as the file (and the head, of which Python makes larger objects,
`_MOST_EXPANDED_HEAD` times), and the type and the shape of an array are compared with the size of its member
before its data are read.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import math
import numbers
import os
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from craftc._common.atomic_write import replacing
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Bits, Floats, Labels
from craftc._common.validation import check_parameters

FORMAT = "craftc-model"

Arrays = dict[str, NDArray[Any]]
E = TypeVar("E")

_HEAD = "model"
_CHECKSUM = "checksum"
_FIRST_WITH_CHECKSUM = 4
_MOST_DEFLATED = 1032  # bytes that one byte of a deflated member can expand to
_MOST_EXPANDED, _SMALL = (
    64,
    100_000_000,
)  # times the length of the file, for all members; never refused up to so many bytes
_MOST_EXPANDED_HEAD, _SMALL_HEAD = 16, 16_000_000  # the same for the head
_CHUNK = 1 << 20
_LONG = 300  # characters of a problem: it may quote the file
_FOREIGN = "{} is not a craftc model; pass a file that craftc.save_model wrote."
_DAMAGED = "{} is damaged or cut short ({}); copy it again, or save the model again."
_NEWER = "{} was written by a newer craftc (format {}, this one reads up to {}); update craftc."
_UNKNOWN = "{} holds a fitted {!r}, which this craftc does not know; update craftc."
_TOO_LARGE = "{} needs {:.0f} MB of memory, more than this process can have; load it where more is free."


def write_archive(path: str | os.PathLike[str], head: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model file; it replaces `path` once all is written.

    Parameters
    ----------
    path : path
    head : dict
        Values that JSON can write, without NaN and infinity; ``estimator`` is the name of the class,
        ``format_version`` that of its state.
    arrays : dict of ndarray
    """
    try:
        text = json.dumps({"format": FORMAT, **head}, allow_nan=False).encode()
    except (TypeError, ValueError) as error:  # before anything is written
        raise type(error)(f"The model holds a value that a model file cannot store: {error}.") from error
    members = {_HEAD: np.frombuffer(text, np.uint8), **arrays}
    with replacing(path, "wb") as file:
        if not file.seekable():
            _write_members(file, members, zipfile.ZIP_STORED)
            return
        _write_members(file, members, zipfile.ZIP_DEFLATED)
        if not _possible(
            file.tell(), len(text), sum(array.nbytes for array in arrays.values())
        ):  # would be refused on loading
            file.seek(0)
            file.truncate()
            _write_members(file, members, zipfile.ZIP_STORED)


def _write_members(file: IO[bytes], members: Arrays, compression: int) -> None:
    """Write the archive, the checksum last."""
    digests = {}
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in members.items():
            with _member(archive, name, compression) as member:
                hashed = _Hashed(member)
                np.lib.format.write_array(
                    cast(IO[bytes], hashed), np.asanyarray(array), version=(1, 0), allow_pickle=False
                )
            digests[name] = hashed.digest.digest()
        with _member(archive, _CHECKSUM, compression) as member:
            np.lib.format.write_array(member, _checksum(digests), version=(1, 0), allow_pickle=False)


def _member(archive: zipfile.ZipFile, name: str, compression: int) -> IO[bytes]:
    info = zipfile.ZipInfo(f"{name}.npy")  # a constant date: the same model gives the same bytes
    info.compress_type = compression
    return archive.open(info, "w", force_zip64=True)


class _Hashed:
    """A file for writing that computes the digest of what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write and hash."""
        self.digest.update(data)
        return self.file.write(data)


def _checksum(digests: Mapping[str, bytes]) -> NDArray[np.uint8]:
    """SHA-256 over the names and the digests of the members, in the order of their names."""
    total = hashlib.sha256()
    for name in sorted(digests):
        total.update(json.dumps([name, digests[name].hex()]).encode())
    return np.frombuffer(total.digest(), np.uint8)


def _possible(length: int, head: int, arrays: int) -> bool:
    """Whether a file of this length may have a head and arrays of these sizes."""
    return head <= max(_SMALL_HEAD, _MOST_EXPANDED_HEAD * length) and head + arrays <= max(
        _SMALL, _MOST_EXPANDED * length
    )


class Archive:
    """A model file that is open for reading.

    Parameters
    ----------
    file : binary file
        Can seek.

    Attributes
    ----------
    head : dict
        The JSON text.
    """

    def __init__(self, file: IO[bytes]) -> None:
        length = self._length = file.seek(0, io.SEEK_END)
        file.seek(0)
        self._zip = zipfile.ZipFile(file)
        members = self._zip.infolist()
        self._members = {info.filename.removesuffix(".npy"): info for info in members}
        self.head: dict[str, Any] = {}
        if _HEAD in self:  # otherwise the file of another program
            demand(len(self._members) == len(members), "it has two members of one name")
            demand(
                sum(info.compress_size for info in members) <= length, "its members are longer than the file"
            )
            head = self._members[_HEAD].file_size
            self.n_bytes = sum(info.file_size for info in members)
            demand(_possible(length, head, self.n_bytes - head), "its members are too large for its length")

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read_head(self) -> bool:
        """Read `head` and compare the checksum; False if the archive has no head or it is that of another
        program.
        """
        if _HEAD not in self:
            return False
        text = self.array(_HEAD, "uint8", (None,)).tobytes().decode()
        head = json.loads(text, parse_constant=_no_constant)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            return False
        self.head = head
        written = head.get("format_version")
        if type(written) is not int or not isinstance(head.get("estimator"), str):
            return False
        if written >= _FIRST_WITH_CHECKSUM or _CHECKSUM in self:
            digests = {name: self._digest(info) for name, info in self._members.items() if name != _CHECKSUM}
            same = np.array_equal(self.array(_CHECKSUM, "uint8", (32,)), _checksum(digests))
            demand(same, "its contents do not have its checksum")
        return True

    def _digest(self, info: zipfile.ZipInfo) -> bytes:
        """SHA-256 of a member, in constant memory."""
        digest = hashlib.sha256()
        with self._zip.open(info) as member:
            while chunk := member.read(_CHUNK):
                digest.update(chunk)
        return digest.digest()

    def floats(
        self, name: str, shape: tuple[int | None, ...], *, missing: bool = False, least: float = -np.inf
    ) -> Floats:
        """An array of float64 >= `least`; NaN only with `missing`, and no infinity."""
        array = self.array(name, "float64", shape)
        valid = (np.isfinite(array) & (array >= least)) | (missing & np.isnan(array))
        demand(bool(valid.all()), f"{name} contains values that are not possible")
        return array

    def labels(self, name: str, shape: tuple[int | None, ...], n_clusters: int) -> Labels:
        """An array of int32, 0..n_clusters - 1."""
        array = self.array(name, "int32", shape)
        demand(bool(((array >= 0) & (array < n_clusters)).all()), f"{name} contains unknown clusters")
        return array

    def bits(self, name: str, n_columns: int) -> Bits:
        """An array (n, n_columns) of bool that is stored as bits."""
        packed = self.array(name, "uint8", (None, (n_columns + 7) // 8))
        demand(_possible(self._length, 0, 8 * packed.size), f"{name} is too long for this file")
        return np.unpackbits(packed, axis=1, count=n_columns).astype(bool)

    def array(
        self, name: str, dtype: str | Collection[str] | None, shape: tuple[int | None, ...] | None = None
    ) -> NDArray[Any]:
        """One array; raise unless its type and shape are as given, before its data are read.

        Parameters
        ----------
        name : str
        dtype : str, several or None
            Names of types that are allowed; None: any of numbers, text or dates.
        shape : tuple, optional
            None in it: any length.
        """
        demand(name in self._members, f"{name} is missing")
        info = self._members[name]
        demand(
            info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
            f"{name} has an unknown compression",
        )
        with self._zip.open(info) as member:
            demand(np.lib.format.read_magic(member) == (1, 0), f"{name} has an unknown format")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # a header of Python 2
                    found, _, kind = np.lib.format.read_array_header_1_0(member)
            except Exception as error:  # of Python's tokenizer and parser, too
                raise ValueError(f"{name} has a header that cannot be read") from error
            allowed = (
                kind.kind in "biufUM"
                if dtype is None
                else str(kind) in ([dtype] if isinstance(dtype, str) else dtype)
            )
            demand(allowed, f"{name} has dtype {kind}")
            fits = shape is None or (
                len(found) == len(shape) and all(b in (None, a) for a, b in zip(found, shape, strict=True))
            )
            demand(fits and min(found, default=0) >= 0, f"{name} has shape {found}")
            size = math.prod(found) * kind.itemsize
            possible = (
                info.file_size <= _MOST_DEFLATED * info.compress_size
                and member.tell() + size == info.file_size
            )
            demand(possible, f"{name} has another size than shape {found} needs")
            member.seek(0)
            array: NDArray[Any] = np.asarray(np.lib.format.read_array(member, allow_pickle=False), order="C")
        return array


@contextmanager
def reading(path: str | os.PathLike[str], newest: Callable[[str], int | None]) -> Iterator[Archive]:
    """Open a model file; errors in the block are reported as those of a damaged file.

    Parameters
    ----------
    path : path
    newest : callable
        The newest format of an estimator, by its name, that can be read; None if the estimator is unknown.

    Raises
    ------
    ValueError
        The file is not a craftc model, is damaged, or has a newer format.
    MemoryError
        It is whole, and memory does not suffice.
    """
    name = repr(os.fspath(path))
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError(_FOREIGN.format(name))
        archive = None
        try:
            archive = Archive(file)
            known = archive.read_head()
        except Exception as error:
            raise _reported(error, name, archive) from error
        if not known:
            raise ValueError(_FOREIGN.format(name))
        written, estimator = archive.head["format_version"], archive.head["estimator"]
        latest = newest(estimator)
        if latest is None:
            raise ValueError(_UNKNOWN.format(name, estimator))
        if written > latest:
            raise ValueError(_NEWER.format(name, written, latest))
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused as such
                yield archive
        except Exception as error:
            raise _reported(error, name, archive) from error


def _reported(error: Exception, name: str, archive: Archive | None) -> Exception:
    """The error of a file that cannot be read.

    Whatever its contents raise, and Python's readers of zip and JSON: the file is damaged.
    """
    if isinstance(error, MemoryError) and archive is not None:  # its sizes are possible
        return MemoryError(_TOO_LARGE.format(name, archive.n_bytes / 1e6))
    problem = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
    return ValueError(_DAMAGED.format(name, problem if len(problem) <= _LONG else f"{problem[:_LONG]}…"))


def demand(holds: bool, otherwise: str) -> None:
    """Raise ValueError unless a condition on the contents of a file holds."""
    if not holds:
        raise ValueError(otherwise)


def estimator_head(model: Any, unused: Collection[str], scalars: Collection[str]) -> dict[str, Any]:
    """Parameters, input columns and scalars of a fitted estimator, as the head of its model file;
    `restored_estimator` is the inverse.

    Parameters
    ----------
    model : estimator
        Fitted.
    unused : collection of str
        Parameters that a fitted model does not use: arrays, callables and objects among them become the
        default of the class.
    scalars : collection of str
        Names of fitted attributes that are numbers.
    """
    names = getattr(model, "feature_names_in_", None)
    head = {"frame_library": model._frame_library} if hasattr(model, "_frame_library") else {}
    return head | {
        "parameters": plain_parameters(model, unused),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "scalars": {name: plain(name, getattr(model, name)) for name in scalars},
    }


def restored_estimator(cls: Callable[..., E], head: Mapping[str, Any], **scalars: type) -> E:
    """An estimator with the parameters, input columns and scalars of the head.

    Parameters
    ----------
    cls : class of the estimator
    head : dict
    **scalars : type
        Type of every scalar.
    """
    model: Any = cls(**stored_parameters(head))
    check_parameters(model)
    effective_n_threads(model.n_threads)
    model.n_features_in_ = _whole(head["n_features"], "the number of columns", 1)
    names = head["feature_names"]
    if names is not None:
        fits = (
            isinstance(names, list)
            and len(names) == model.n_features_in_
            and all(isinstance(name, str) for name in names)
        )
        demand(fits, "the names do not fit the columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    if "frame_library" in head or hasattr(cls, "summary"):
        demand(
            head["frame_library"] in (None, "pandas", "polars"),
            f"the library of data frames is {head['frame_library']!r}",
        )
        model._frame_library = head["frame_library"]
    for name, kind in scalars.items():
        value = _stored(head["scalars"][name])
        demand(type(value) is kind and value == value, f"{name} is {value!r}")
        setattr(model, name, value)
    return cast(E, model)


def plain_parameters(model: Any, unused: Collection[str]) -> dict[str, Any]:
    """The parameters of an estimator as values that JSON can write; `stored_parameters` is the inverse.
    Arrays and tuples become lists.

    Parameters
    ----------
    model : estimator
    unused : collection of str
        As for `estimator_head`.
    """
    defaults = inspect.signature(type(model)).parameters
    parameters = model.get_params(deep=False)
    for name in unused:
        if not isinstance(parameters[name], str | int | np.integer | float | None):
            parameters[name] = defaults[name].default
    return {name: plain(name, value) for name, value in parameters.items()}


def stored_parameters(head: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in the head of a model file."""
    return {name: _stored(value) for name, value in head["parameters"].items()}


def plain(name: str, value: Any) -> Any:
    """A number, text or nested list as JSON can write it; `name` is that of a parameter or attribute."""
    if hasattr(value, "tolist"):  # arrays, their elements, Series
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(name, item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no word for it
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(
        f"The parameter {name}={value!r} cannot be written to a file; use numbers, text or lists."
    )


def _stored(value: Any) -> Any:
    if isinstance(value, list):
        return [_stored(item) for item in value]
    return float(value["float"]) if isinstance(value, dict) else value


def _whole(value: Any, name: str, least: int) -> int:
    demand(type(value) is int and value >= least, f"{name} is {value!r}")
    return int(value)


def _no_constant(text: str) -> float:
    raise ValueError(f"it contains {text}")
