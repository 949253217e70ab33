"""The container of a model file: a zip archive of plain arrays and one JSON text, which is read without executing anything in it.

An ``.npz`` archive, never of pickled objects. Its member ``model`` is the JSON text (UTF-8), the head: format name and version, name of
the estimator, parameters and scalars of the fit; the other members are arrays. The type and the shape of an array are compared with the
size of its member before its data are read, so that a damaged file cannot ask for more memory than it has data for.
"""

from __future__ import annotations

import inspect
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from craftc._common.atomic_write import replacing
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Floats, Labels
from craftc._common.validation import check_parameters

FORMAT = "craftc-model"

Arrays = dict[str, NDArray[Any]]
E = TypeVar("E")

_HEAD = "model"
_MOST_DEFLATED = 1032  # bytes that one byte of a deflated member can expand to
_FOREIGN = "{} is not a craftc model; pass a file that craftc.save_model wrote."
_DAMAGED = "{} is damaged or cut short ({}); copy it again, or save the model again."
_NEWER = "{} was written by a newer craftc (format {}, this one reads up to {}); update craftc."
_UNKNOWN = "{} holds a fitted {!r}, which this craftc does not know; update craftc."
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # an unknown compression, a password, text that is nested too deeply
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
)


def write_archive(path: str | os.PathLike[str], head: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model file; it replaces `path` once all is written.

    Parameters
    ----------
    path : path
    head : dict
        Values that JSON can write, without NaN and infinity; ``estimator`` is the name of the class, ``format_version`` that of its state.
    arrays : dict of ndarray
    """
    text = json.dumps({"format": FORMAT, **head}, allow_nan=False).encode()
    with replacing(path, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **{_HEAD: np.frombuffer(text, np.uint8)}, **arrays)


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
        length = file.seek(0, io.SEEK_END)
        file.seek(0)
        self._zip = zipfile.ZipFile(file)
        members = self._zip.infolist()
        demand(sum(info.compress_size for info in members) <= length, "its members are longer than the file")
        self._members = {info.filename.removesuffix(".npy"): info for info in members}
        self.head: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read_head(self) -> bool:
        """Read `head`; False if the archive has none or it is that of another program."""
        if _HEAD not in self:
            return False
        text = self.array(_HEAD, "uint8", (None,)).tobytes().decode()
        head = json.loads(text, parse_constant=_no_constant)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            return False
        self.head = head
        return type(head.get("format_version")) is int and isinstance(head.get("estimator"), str)

    def floats(self, name: str, shape: tuple[int | None, ...], *, missing: bool = False, least: float = -np.inf) -> Floats:
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

    def array(self, name: str, dtype: str | Collection[str] | None, shape: tuple[int | None, ...] | None = None) -> NDArray[Any]:
        """One array; raise unless its type and shape are as given, before its data are read.

        Parameters
        ----------
        name : str
        dtype : str, several or None
            Names of types that are allowed; None: any of numbers or text.
        shape : tuple, optional
            None in it: any length.
        """
        demand(name in self._members, f"{name} is missing")
        info = self._members[name]
        demand(info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), f"{name} has an unknown compression")
        with self._zip.open(info) as member:
            demand(np.lib.format.read_magic(member) == (1, 0), f"{name} has an unknown format")
            found, _, kind = np.lib.format.read_array_header_1_0(member)
            allowed = kind.kind in "biufU" if dtype is None else str(kind) in ([dtype] if isinstance(dtype, str) else dtype)
            demand(allowed, f"{name} has dtype {kind}")
            fits = shape is None or (len(found) == len(shape) and all(b in (None, a) for a, b in zip(found, shape, strict=True)))
            demand(fits and min(found, default=0) >= 0, f"{name} has shape {found}")
            size = math.prod(found) * kind.itemsize
            possible = info.file_size <= _MOST_DEFLATED * info.compress_size and member.tell() + size == info.file_size
            demand(possible, f"{name} has another size than shape {found} needs")
            member.seek(0)
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
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
    """
    name = repr(os.fspath(path))
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError(_FOREIGN.format(name))
        try:
            archive = Archive(file)
            known = archive.read_head()
        except _BROKEN as error:
            raise ValueError(_DAMAGED.format(name, error or type(error).__name__)) from error
        if not known:
            raise ValueError(_FOREIGN.format(name))
        written, estimator = archive.head["format_version"], archive.head["estimator"]
        latest = newest(estimator)
        if latest is None:
            raise ValueError(_UNKNOWN.format(name, estimator))
        if written > latest:
            raise ValueError(_NEWER.format(name, written, latest))
        try:
            yield archive
        except _BROKEN as error:
            raise ValueError(_DAMAGED.format(name, f"{type(error).__name__}: {error}")) from error


def demand(holds: bool, otherwise: str) -> None:
    """Raise ValueError unless a condition on the contents of a file holds."""
    if not holds:
        raise ValueError(otherwise)


def estimator_head(model: Any, unused: Collection[str], scalars: Collection[str]) -> dict[str, Any]:
    """Parameters, input columns and scalars of a fitted estimator, as the head of its model file; `restored_estimator` is the inverse.

    Parameters
    ----------
    model : estimator
        Fitted.
    unused : collection of str
        Parameters that a fitted model does not use: arrays, callables and objects among them become the default of the class.
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
        fits = isinstance(names, list) and len(names) == model.n_features_in_ and all(isinstance(name, str) for name in names)
        demand(fits, "the names do not fit the columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    if "frame_library" in head or hasattr(cls, "summary"):
        demand(head["frame_library"] in (None, "pandas", "polars"), f"the library of data frames is {head['frame_library']!r}")
        model._frame_library = head["frame_library"]
    for name, kind in scalars.items():
        value = _stored(head["scalars"][name])
        demand(type(value) is kind and value == value, f"{name} is {value!r}")
        setattr(model, name, value)
    return cast(E, model)


def plain_parameters(model: Any, unused: Collection[str]) -> dict[str, Any]:
    """The parameters of an estimator as values that JSON can write; `stored_parameters` is the inverse. Arrays and tuples become lists.

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
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(name, item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no word for it
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"The parameter {name}={value!r} cannot be written to a file; use numbers, text or lists.")


def _stored(value: Any) -> Any:
    if isinstance(value, list):
        return [_stored(item) for item in value]
    return float(value["float"]) if isinstance(value, dict) else value


def _whole(value: Any, name: str, least: int) -> int:
    demand(type(value) is int and value >= least, f"{name} is {value!r}")
    return int(value)


def _no_constant(text: str) -> float:
    raise ValueError(f"it contains {text}")
