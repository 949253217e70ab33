"""A fitted CRAFT as one file, which can be loaded without running anything that stands in it.

The file is an ``.npz`` archive of plain arrays, never of pickled objects. Its member ``model`` is a
JSON text (UTF-8): format name and version, parameters, schema, rules, and the few numbers of the
fit; the others are the exact sums of every cluster (``groups``), the grid on which they are
integers (``centre``, ``scale``), ``labels`` and ``objective_path``. All else follows from the sums,
bit for bit, and is computed on loading.
"""

from __future__ import annotations

import json
import os
import warnings
import zipfile
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._about import version
from craftc._craft_model import Rules
from craftc._kernels.moments import Grid
from craftc._moments import Moments, level_starts
from craftc._writing import replacing
from craftc.craft import CRAFT
from craftc.table import Schema

FORMAT = "craftc-model"
FORMAT_VERSION = 1

Arrays = dict[str, NDArray[Any]]

_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    KeyError,
    NotImplementedError,  # an unknown compression
    UnicodeDecodeError,
    json.JSONDecodeError,
)
_ARRAYS = {
    "groups": "int64",
    "centre": "float64",
    "scale": "float64",
    "labels": "int32",
    "objective_path": "float64",
}
_FOREIGN = "{} is not a craftc model; give a file that craftc.save_model wrote."
_DAMAGED = "{} is damaged or cut short ({}); copy it again, or save the model again."


def save_model(model: CRAFT, path: str | os.PathLike[str]) -> None:
    """Write a fitted CRAFT to one file.

    Parameters
    ----------
    model : CRAFT
        Fitted.
    path : path
        Replaced if it exists, once all is written.

    Notes
    -----
    An `init` given as arrays is stored as "auto", a `random_state` that is no whole number as None:
    they play no part once the model is fitted.

    Examples
    --------
    >>> import os, tempfile
    >>> import craftc
    >>> heart = craftc.datasets.load_heart().data
    >>> model = craftc.CRAFT(n_clusters=2, random_state=0).fit(heart)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     craftc.save_model(model, os.path.join(folder, "heart.craftc"))
    ...     again = craftc.load_model(os.path.join(folder, "heart.craftc"))
    >>> bool((again.predict(heart) == model.labels_).all())
    True
    """
    if not isinstance(model, CRAFT):
        raise TypeError(f"save_model writes a fitted CRAFT, got {type(model).__name__}.")
    check_is_fitted(model)
    moments = model._moments
    head = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "craftc_version": version(),
        "estimator": "CRAFT",
        "parameters": {name: _plain(name, value) for name, value in model.get_params().items()},
        "schema": model.schema_.to_dict(),
        "feature_names": hasattr(model, "feature_names_in_"),
        "rules": asdict(model._rules),
        "unit": moments.unit,
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
    }
    text = json.dumps(head, allow_nan=False).encode()
    with replacing(path, "wb") as file:
        np.savez_compressed(
            file,
            allow_pickle=False,
            model=np.frombuffer(text, np.uint8),
            groups=moments.groups,
            centre=moments.grid.centre,
            scale=moments.grid.scale,
            labels=model.labels_,
            objective_path=model.objective_path_,
        )


def load_model(path: str | os.PathLike[str]) -> CRAFT:
    """Read what `save_model` wrote; predict, transform, score and summary give the same bits.

    Parameters
    ----------
    path : path

    Returns
    -------
    CRAFT
        Fitted.

    Raises
    ------
    ValueError
        The file is no craftc model, is damaged, or was written in a newer format.
    """
    shown = repr(os.fspath(path))
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError(_FOREIGN.format(shown))
        file.seek(0)
        head, arrays = _read(file, shown)
    try:
        return _rebuild(head, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(_DAMAGED.format(shown, f"{type(error).__name__}: {error}")) from error


def _read(file: Any, shown: str) -> tuple[dict[str, Any], Arrays]:
    """The JSON text and the arrays of a model file."""
    foreign = _FOREIGN.format(shown)
    try:
        with np.load(file, allow_pickle=False) as archive:
            if "model" not in archive.files:
                raise ValueError(foreign)
            head = json.loads(archive["model"].tobytes().decode())
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise ValueError(foreign)
            written = head.get("format_version")
            if not isinstance(written, int):
                raise ValueError(foreign)
            if written > FORMAT_VERSION:
                raise ValueError(
                    f"{shown} was written by a newer craftc (format {written}, this one reads up "
                    f"to {FORMAT_VERSION}); update craftc."
                )
            arrays = {name: archive[name] for name in _ARRAYS}
    except _BROKEN as error:
        raise ValueError(_DAMAGED.format(shown, error or type(error).__name__)) from error
    except ValueError as error:
        if str(error).startswith(shown):
            raise
        raise ValueError(foreign) from error
    return head, arrays


def _rebuild(head: dict[str, Any], arrays: Arrays) -> CRAFT:
    """The model; anything a kernel would trip over is refused here."""
    _demand(head["estimator"] == "CRAFT", f"it holds a {head['estimator']}")
    for name, dtype in _ARRAYS.items():
        _demand(arrays[name].dtype == dtype, f"{name} has dtype {arrays[name].dtype}")
    schema = Schema.from_dict(head["schema"])
    p, q = len(schema.numeric_index), len(schema.categorical_index)
    positions = np.concatenate([schema.numeric_index, schema.categorical_index])
    each_once = sorted(positions.tolist()) == list(range(schema.n_columns))
    _demand(each_once, "the schema does not fit its columns")
    _demand(len(schema.levels) == q and schema.dtype in ("f4", "f8"), "the schema is not complete")
    _demand(schema.missing in ("ignore", "category", "error"), "the schema is not complete")

    centre, scale = arrays["centre"], arrays["scale"]
    _demand(centre.shape == scale.shape == (p,), "the grid does not fit the schema")
    finite = np.isfinite(centre) & np.isfinite(scale) & (scale > 0)
    _demand(bool(finite.all()), "the grid is not finite")
    n_levels = schema.n_levels
    grid = Grid(centre, scale, level_starts(n_levels), int((n_levels + 1).sum()))
    groups = arrays["groups"]
    fits = groups.ndim == 2 and len(groups) > 0 and groups.shape[1] == grid.width
    _demand(fits, "the sums do not fit the schema")
    _demand(bool((groups[:, 0] > 0).all()), "a cluster is empty")
    labels, path = arrays["labels"], arrays["objective_path"]
    _demand(labels.ndim == path.ndim == 1, "labels or objective_path have a wrong shape")
    known = (labels >= 0) & (labels < len(groups))
    _demand(bool(known.all()), "the labels name clusters that are not there")

    unit = head["unit"]
    _demand(isinstance(unit, float) and 0 < unit < np.inf, "the weights have no unit")
    moments = Moments(grid, unit, len(groups))
    moments.groups[:] = groups
    model = CRAFT(**head["parameters"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # sums that no table has
        try:
            model._set_state(moments, Rules(**head["rules"]), schema)
        except Warning as warning:
            raise ValueError(str(warning)) from warning
    model.labels_, model.objective_path_ = labels, path
    model.n_iter_, model.converged_ = int(head["n_iter"]), bool(head["converged"])
    model.n_features_in_ = schema.n_columns
    if head["feature_names"]:
        model.feature_names_in_ = np.array(schema.columns, dtype=object)
    return model


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _plain(name: str, value: Any) -> Any:
    """A parameter as a value that JSON can write."""
    if name == "init" and not isinstance(value, str):
        return "auto"
    if name == "random_state" and not isinstance(value, int | np.integer):
        return None
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain("", item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"The parameter {name}={value!r} cannot be written to a file; use numbers, text or lists."
    )
