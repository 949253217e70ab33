"""Methods that map rows to rows, extended to Dask collections and to files.

A collection is mapped partition by partition, when Dask computes the result. The graph holds one copy of the
model, without what belongs to the rows of its fit.
"""

from __future__ import annotations

import inspect
import math
import uuid
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted, validate_data

from craftc._common.estimator import MixedInput
from craftc._common.messages import need_pandas
from craftc.table.estimator_input import DenseInput
from craftc.table.out_of_core import in_batches, is_out_of_core, located

F = TypeVar("F", bound=Callable[..., Any])


def is_collection(X: Any) -> bool:
    """Whether an input is a collection of Dask; Dask is not imported."""
    return hasattr(X, "__dask_graph__") and any(
        each.__module__.partition(".")[0] == "dask" for each in type(X).__mro__
    )


def rowwise(
    names: str | Callable[[Any], Sequence[Any]], values: str | Callable[[Any], Any]
) -> Callable[[F], F]:
    """A method of a fitted estimator that maps rows to rows, extended to Dask collections, and to files that
    are read in batches.

    Parameters
    ----------
    names : str, or function of the estimator
        The name of the Series for a data frame, where the result has one value per row; otherwise a function
        that returns the columns.
    values : str, or function of the estimator
        The dtype of the result, or a function that returns it or an array of all the values that a row may
        have.
    """

    def extended(method: F) -> F:
        parameters = inspect.signature(method)

        @wraps(method)
        def of_any_input(self: Any, X: Any, *args: Any, **options: Any) -> Any:
            if is_collection(X):
                check_is_fitted(self)
                bound = parameters.bind(self, X, *args, **options).arguments
                more = {name: value for name, value in bound.items() if name not in ("self", "X")}
                columns = names if isinstance(names, str) else list(names(self))
                found = values if isinstance(values, str) else values(self)
                example = found if isinstance(found, np.ndarray) else np.empty(0, found)
                return _lazy(self, method.__name__, more, X, columns, example)
            if is_out_of_core(X) and not isinstance(self, DenseInput):  # which reads files itself
                check_is_fitted(self)
                return in_batches(lambda batch: method(self, batch, *args, **options), X, _known_names(self))
            return method(self, X, *args, **options)

        return cast(F, of_any_input)

    return extended


def feature_names_out(model: Any) -> list[Any]:
    """The columns of `transform`."""
    return list(model.get_feature_names_out())


def without_rows(model: Any) -> Any:
    """A copy of a fitted estimator for new rows, without the attributes and parameters that it lists as
    `_of_fit`.
    """
    light = copy(model)
    parameters = inspect.signature(type(model).__init__).parameters
    for name in getattr(model, "_of_fit", ()):
        if name in parameters:
            setattr(light, name, parameters[name].default)
        else:
            vars(light).pop(name, None)
    return light


class WithoutCollections:
    """Estimators whose copies and pickles do not hold collections: labels of the fit, which lie on a cluster,
    are left behind.
    """

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return {
            name: value.without_collection() if hasattr(value, "without_collection") else value
            for name, value in state.items()
            if not is_collection(value)
        }


def _known_names(model: Any) -> list[str] | None:
    """The names of the columns of a fitted estimator; None if it has none."""
    return [str(name) for name in getattr(model, "feature_names_in_", ())] or None


@dataclass(frozen=True)
class _Call:
    """A call of a method, once in a graph.

    Parameters
    ----------
    model : estimator
        Without the rows of its fit.
    method : str
    options : dict
        Further arguments of the method.
    columns : str or list
        Name or columns of the result for a data frame.
    empty : Series, DataFrame or ndarray
        The result of no rows.
    """

    model: Any
    method: str
    options: dict[str, Any]
    columns: Any
    empty: Any

    def of(self, part: Any, number: int) -> NDArray[Any]:
        """The result for the rows of a partition."""
        try:
            return np.asarray(getattr(self.model, self.method)(part, **self.options))
        except (TypeError, ValueError) as error:
            raise located(error, f"Partition {number}") from error


def _of_frame(part: Any, call: _Call, partition_info: Any = None) -> Any:
    """The result for a partition of a data frame."""
    if not len(part):
        result = call.empty.copy()
        result.index = part.index
        return result
    return _labelled(call.of(part, partition_info["number"]), call.columns, part.index)


def _of_array(part: NDArray[Any], call: _Call, block_id: Any = None) -> NDArray[Any]:
    """The result for a block of rows of an array."""
    return call.of(part, block_id[0]) if len(part) else call.empty


def _labelled(values: NDArray[Any], columns: Any, index: Any) -> Any:
    """Values as a Series of this name, or as a data frame of these columns."""
    pd = need_pandas()
    return (
        pd.Series(values, index, name=columns)
        if isinstance(columns, str)
        else pd.DataFrame(values, index, columns)
    )


def _lazy(
    model: Any, method: str, options: dict[str, Any], X: Any, columns: Any, example: NDArray[Any]
) -> Any:
    """The collection of the results of a method; `example` has the values or the dtype of the results."""
    import dask.array as da

    if method == "transform":
        _check_output(model)
    light, width = without_rows(model), () if isinstance(columns, str) else (len(columns),)
    empty = np.empty((0, *width), example.dtype)
    if isinstance(X, da.Array):
        _check_array(model, X)
        call = _delayed(_Call(light, method, options, columns, empty))
        of_rows = X.rechunk({1: -1})
        chunks = (of_rows.chunks[0], *((each,) for each in width))
        shape: dict[str, Any] = {"chunks": chunks} if width else {"chunks": chunks, "drop_axis": 1}
        return of_rows.map_blocks(
            _of_array, call=call, dtype=empty.dtype, meta=empty, name=f"{method}-{call.key}", **shape
        )
    import dask.dataframe as dd

    if not isinstance(X, dd.DataFrame):
        raise TypeError(
            f"{method} takes a Dask DataFrame or a Dask Array of two dimensions, got a Dask "
            f"{type(X).__name__}; convert it, for example by "
            "to_frame() or dask.dataframe.from_delayed()."
        )
    _check_columns(model, X)
    meta = _labelled(empty if width else example, columns, None).iloc[:0]
    meta.index = X._meta.index
    call = _delayed(_Call(light, method, options, columns, meta))
    return X.map_partitions(_of_frame, call, meta=meta, enforce_metadata=False, transform_divisions=False)


def _delayed(call: _Call) -> Any:
    from dask import delayed

    return delayed(call, traverse=False, name=f"{type(call.model).__name__}-{uuid.uuid4().hex}")


def _check_output(model: Any) -> None:
    """Raise ValueError where scikit-learn would convert the collection to a data frame in memory."""
    wanted = getattr(model, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
    if wanted != "default":
        raise ValueError(
            "transform of a Dask collection gives a Dask collection, but scikit-learn's transform output "
            f"is set to {wanted!r}, a table in "
            "memory; call set_output(transform='default'), or use "
            "sklearn.config_context(transform_output='default')."
        )


def _check_array(model: Any, X: Any) -> None:
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
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} "
            "features as input."
        )


def _check_columns(model: Any, X: Any) -> None:
    """Raise ValueError, as the model would for rows in memory, unless a Dask DataFrame has its columns."""
    known = _known_names(model)
    if known is not None and isinstance(model, MixedInput):  # finds columns by their names
        names = [str(name) for name in X.columns]
        if getattr(model, "unusable", None) == "drop":
            names = [name for name in names if name in known]
        if sorted(names) == sorted(known):
            return
    validate_data(model, X._meta, reset=False, skip_check_array=True)
