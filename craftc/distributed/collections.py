"""Methods that map rows to rows, extended to Dask collections and to files.

A collection is mapped partition by partition, when Dask computes the result. The graph holds one copy of the
model, without the data about the rows of its fit.
"""

from __future__ import annotations

import inspect
import math
import uuid
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from craftc._common.estimator import MixedInput
from craftc._common.foreign_input import known_input
from craftc._common.messages import need_pandas
from craftc._common.typing import Array, DaskCollection, TableInput
from craftc.table.dates import parts_among
from craftc.table.estimator_input import DenseInput
from craftc.table.out_of_core import in_batches, is_out_of_core, located

if TYPE_CHECKING:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from dask.delayed import Delayed

F = TypeVar("F", bound=Callable[..., Any])


def is_collection(X: object) -> TypeGuard[DaskCollection]:
    """Whether an input is a collection of Dask; Dask is not imported."""
    return hasattr(X, "__dask_graph__") and any(
        each.__module__.partition(".")[0] == "dask" for each in type(X).__mro__
    )


def rowwise(
    names: str | Callable[[BaseEstimator], Sequence[object]],
    values: str | Callable[[BaseEstimator], np.dtype[Any] | Array],
) -> Callable[[F], F]:
    """Extend a method of a fitted estimator, which maps rows to rows, to Dask collections, and to files that
    are read in batches.

    `names`: the name of the Series for a data frame if the result has one value per row, otherwise a function
    that returns the columns. `values`: the dtype of the result, or a function that returns it, or all values
    that a row may have.
    """

    def extended(method: F) -> F:
        parameters = inspect.signature(method)

        @wraps(method)
        def of_any_input(self: BaseEstimator, X: TableInput, *args: object, **options: object) -> object:
            if is_collection(X):
                check_is_fitted(self)
                bound = parameters.bind(self, X, *args, **options).arguments
                more = {name: value for name, value in bound.items() if name not in ("self", "X")}
                columns = names if isinstance(names, str) else list(names(self))
                found = values if isinstance(values, str) else values(self)
                example = found if isinstance(found, np.ndarray) else np.empty(0, found)
                return _lazy(_MethodCall(without_rows(self), method.__name__, more, columns, example), X)
            X = known_input(X)
            if is_out_of_core(X) and not isinstance(self, DenseInput):  # which reads files itself
                check_is_fitted(self)
                return in_batches(lambda batch: method(self, batch, *args, **options), X, _known_names(self))
            return method(self, X, *args, **options)

        return cast(F, of_any_input)

    return extended


def feature_names_out(model: BaseEstimator) -> list[object]:
    return list(model.get_feature_names_out())


def without_rows(model: BaseEstimator) -> BaseEstimator:
    """A copy of a fitted estimator for new rows, without the attributes and parameters in `_of_fit`."""
    light = copy(model)
    parameters = inspect.signature(type(model).__init__).parameters
    for name in getattr(model, "_of_fit", ()):
        if name in parameters:
            setattr(light, name, parameters[name].default)
        else:
            vars(light).pop(name, None)
    if hasattr(light, "_forget_rows"):
        light._forget_rows()
    return light


class WithoutCollections:
    """Estimators whose copies and pickles hold no collections: labels of the fit stay on the cluster."""

    def __getstate__(self) -> dict[str, object]:
        state = cast(dict[str, Any], super().__getstate__())
        return {
            name: value.without_collection() if hasattr(value, "without_collection") else value
            for name, value in state.items()
            if not is_collection(value)
        }


def _known_names(model: BaseEstimator) -> list[str] | None:
    return [str(name) for name in getattr(model, "feature_names_in_", ())] or None


@dataclass(frozen=True)
class _MethodCall:
    model: BaseEstimator  # without the rows of its fit
    method: str
    options: dict[str, object]  # further arguments of the method
    columns: str | list[object]  # name or columns of the result for a data frame
    empty: pd.Series | pd.DataFrame | Array  # the result of no rows; at first the values or type of a result

    def of(self, part: pd.DataFrame | Array, number: int) -> Array:
        """The result for the rows of a partition."""
        try:
            return np.asarray(getattr(self.model, self.method)(part, **self.options))
        except (TypeError, ValueError) as error:
            raise located(error, f"Partition {number}") from error


def _of_frame(
    part: pd.DataFrame, call: _MethodCall, partition_info: dict[str, int]
) -> pd.Series | pd.DataFrame:
    if not len(part):
        assert not isinstance(call.empty, np.ndarray)
        result = call.empty.copy()
        result.index = part.index
        return result
    return _labelled(call.of(part, partition_info["number"]), call.columns, part.index)


def _of_array(part: Array, call: _MethodCall, block_id: tuple[int, ...] = (0,)) -> Array:
    return call.of(part, block_id[0]) if len(part) else np.asarray(call.empty)


def _labelled(values: Array, columns: str | list[object], index: pd.Index | None) -> pd.Series | pd.DataFrame:
    """Values as a Series of this name, or as a data frame of these columns."""
    if isinstance(columns, str):
        series: pd.Series = need_pandas().Series(values, index, name=columns)
        return series
    frame: pd.DataFrame = need_pandas().DataFrame(values, index, columns)
    return frame


def _lazy(call: _MethodCall, X: DaskCollection) -> da.Array | dd.Series | dd.DataFrame:
    """The collection of the results of a method."""
    import dask.array as da

    model, method, columns, example = call.model, call.method, call.columns, np.asarray(call.empty)
    if method == "transform":
        _check_output(model)
    width = () if isinstance(columns, str) else (len(columns),)
    empty = np.empty((0, *width), example.dtype)
    if isinstance(X, da.Array):
        _check_array(model, X)
        sent = _delayed(replace(call, empty=empty))
        of_rows = X.rechunk({1: -1})
        chunks = (of_rows.chunks[0], *((each,) for each in width))
        shape: dict[str, Any] = {"chunks": chunks} if width else {"chunks": chunks, "drop_axis": 1}
        return of_rows.map_blocks(
            _of_array, call=sent, dtype=empty.dtype, meta=empty, name=f"{method}-{sent.key}", **shape
        )
    import dask.dataframe as dd

    if not isinstance(X, dd.DataFrame):
        raise TypeError(
            f"{method} takes a Dask DataFrame or a Dask Array of two dimensions, got a Dask "
            f"{type(X).__name__}; convert it, for example by to_frame() or dask.dataframe.from_delayed()."
        )
    _check_columns(model, X)
    meta = _labelled(empty if width else example, columns, None).iloc[:0]
    meta.index = X._meta.index
    sent = _delayed(replace(call, empty=meta))
    return X.map_partitions(_of_frame, sent, meta=meta, enforce_metadata=False, transform_divisions=False)


def _delayed(call: _MethodCall) -> Delayed:
    from dask import delayed

    return delayed(call, traverse=False, name=f"{type(call.model).__name__}-{uuid.uuid4().hex}")


def _check_output(model: BaseEstimator) -> None:
    """Raise ValueError where scikit-learn would convert the collection to a data frame in memory."""
    wanted = getattr(model, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
    if wanted != "default":
        raise ValueError(
            "transform of a Dask collection gives a Dask collection, but scikit-learn's transform output is "
            f"set to {wanted!r}, a table in memory; call set_output(transform='default'), or use "
            "sklearn.config_context(transform_output='default')."
        )


def _check_array(model: BaseEstimator, X: da.Array) -> None:
    """Raise ValueError unless a Dask Array has rows and the columns of the model."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got a Dask Array of {X.ndim} dimension(s); reshape it to (n, "
            f"{model.n_features_in_})."
        )
    if math.isnan(X.shape[1]):
        raise ValueError(
            "The number of columns of the Dask Array is unknown; call X.compute_chunk_sizes() first."
        )
    if X.shape[1] not in (model.n_features_in_, model.n_features_in_ + len(_ignored(model))):
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} "
            "features as input."
        )


def _check_columns(model: BaseEstimator, X: dd.DataFrame) -> None:
    """Raise ValueError, as the model would for rows in memory, unless a Dask DataFrame has its columns."""
    known = _known_names(model)
    if known is not None:  # columns are found by their names
        names = [str(name) for name in X.columns]
        if isinstance(model, MixedInput):
            if getattr(model, "unusable", None) == "drop":
                names = [name for name in names if name in known]
            names = [name for name in names if name not in _ignored(model)]
            parts = parts_among(names, _dates(model))
            names = [name for name in {**dict.fromkeys(names), **parts} if name in known or name not in parts]
        if sorted(names) == sorted(known):
            return
    validate_data(model, X._meta, reset=False, skip_check_array=True)


def _dates(model: BaseEstimator) -> list[str]:
    """The columns of dates of a fit."""
    return [model.schema_.columns[j] for j in model.schema_.dates] if hasattr(model, "schema_") else []


def _ignored(model: BaseEstimator) -> tuple[str, ...]:
    """The columns of the input of fit that take no part."""
    return model.schema_.ignored if hasattr(model, "schema_") else ()
