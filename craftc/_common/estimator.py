"""What the estimators share: results of a fit, attributes and warnings of convergence, input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from craftc._common.foreign_input import known_input
from craftc._common.messages import need_pandas, warn_user
from craftc._common.typing import Array, OutputFrame

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.utils import Tags

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")


class FittedColumns(Protocol):
    """A fitted estimator that knows its input columns."""

    n_features_in_: int


def all_or_nothing(fit: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """A method that fits an estimator: where it raises or is interrupted, the estimator is left as it was
    before the call.

    Inputs of other libraries become arrays and frames that are read. It also raises where a fitted attribute
    is not finite, unless the class lists it in `_not_always_finite`.
    """

    @wraps(fit)
    def fit_or_restore(self: E, /, *args: P.args, **options: P.kwargs) -> R:
        before = dict(vars(self))
        try:
            in_batches = getattr(self, "_reads_batches", True)
            if "X" in options:
                options["X"] = known_input(options["X"], in_batches)
            elif args:
                args = (known_input(args[0], in_batches), *args[1:])  # type: ignore[assignment]
            # what overflows is infinite, compares as such, and is not returned
            with np.errstate(over="ignore"):
                fitted = fit(self, *args, **options)
            _check_finite(self)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return fitted

    return fit_or_restore


def _check_finite(model: object) -> None:
    """Raise ValueError unless the numbers among the fitted attributes are finite."""
    exempt = getattr(model, "_not_always_finite", ())
    for name, value in vars(model).items():
        fitted = name.endswith("_") and not name.startswith("_") and name not in exempt
        numbers = isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
        if fitted and numbers and not np.isfinite(value).all():
            raise ValueError(
                f"{type(model).__name__} has no finite result for this input: {name} would contain "
                f"{_first_not_finite(value)}. Numbers, weights or parameters are too large or too small for "
                "float64; scale them."
            )


def _first_not_finite(value: float | Array) -> float:
    numbers = np.ravel(value)
    return float(numbers[~np.isfinite(numbers)][0])


def finite_result(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """A method of a fitted model that raises where numbers of new rows are so large that its result is not
    finite.
    """

    @wraps(method)
    def checked(self: E, /, *args: P.args, **options: P.kwargs) -> R:
        with np.errstate(over="ignore", invalid="ignore"):
            result = method(self, *args, **options)
        check_overflow(f"{type(self).__name__}.{method.__name__}", result)
        return result

    return checked


def check_overflow(what: str, result: object) -> None:
    """Raise ValueError where a result is not finite."""
    numbers = np.asarray(result)
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{what} has no finite result for these rows: their numbers, or squares of them, are too large "
            f"for {numbers.dtype}; check their units, or scale them down."
        )


@dataclass
class FitResult:
    """The part of a result that every method reports."""

    objective: float
    path: list[float]  # the objective after every pass
    n_iter: int  # passes
    converged: bool


def set_convergence(estimator: object, result: FitResult) -> None:
    """Set objective_, objective_path_, n_iter_ and converged_."""
    vars(estimator).update(
        objective_=result.objective,
        objective_path_=np.array(result.path),
        n_iter_=result.n_iter,
        converged_=result.converged,
    )


def warn_not_converged(estimator: object, n_iter: int, unit: str, remedy: str) -> None:
    """Warn that a fit stopped early."""
    warn_user(
        f"{type(estimator).__name__} stopped after {n_iter} {unit} before convergence; {remedy}.",
        ConvergenceWarning,
    )


def warn_of_fewer_clusters(estimator: object, found: int, wanted: int) -> None:
    """Warn where fewer clusters than wanted were found."""
    if found < wanted:
        warn_user(
            f"{type(estimator).__name__} found {found} cluster(s), fewer than n_clusters={wanted}: the table "
            "has only that many different rows, or clusters became empty."
        )


def warn_of_exact_choice(estimator: object, parts: str, remedy: str) -> None:
    """Warn that the number that was chosen leaves no residuals: tables of few different rows have such a
    description whether they have groups or not. `remedy` completes "Give ...".
    """
    warn_user(
        f"{type(estimator).__name__} chose {parts}, which leave no residuals: a table of few different rows "
        f"can be described exactly, whether it has groups or not. Give {remedy}."
    )


def column_names(model: FittedColumns) -> list[str]:
    """Names of the input columns; x0, x1, ... where the input had none."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{d}" for d in range(model.n_features_in_)] if names is None else list(names)


def frame_library(X: object) -> str | None:
    """Library of a data frame, in which results are returned: "polars" or "pandas"; else None."""
    for name in ("polars", "pandas"):
        module = sys.modules.get(name)
        if module is not None and isinstance(X, module.DataFrame):
            return name
    return None


class MixedInput:
    """Input of numbers, categories and missing values; `missing` is a parameter of the estimator."""

    missing: str
    _kept_dtypes: ClassVar[tuple[str, ...]] = ("float64", "float32")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = list(self._kept_dtypes)
        return tags


def output_frame(
    columns: Mapping[Any, Any],
    library: str | None,
    attrs: Mapping[str, object] | None = None,
    index: pd.Index | None = None,
) -> OutputFrame:
    """A data frame of these columns.

    `library`: as `frame_library` returned it. None: pandas. `attrs`, `index`: of a pandas frame. Raises
    ImportError if the library is not installed. Surrogates in texts, which frames do not hold, are replaced.
    """
    columns = {_encodable(name): _encodables(values) for name, values in columns.items()}
    if library == "polars":
        import polars as pl

        return pl.DataFrame({str(name): values for name, values in columns.items()}, strict=False)
    frame: pd.DataFrame = need_pandas().DataFrame(dict(columns), index=index)
    frame.attrs |= dict(attrs or {})
    return frame


def _encodables(values: Any) -> Any:
    """The cells of a column, with texts that have an encoding."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OU":
        return values
    return [_encodable(value) for value in values] if isinstance(values, list | np.ndarray) else values


def _encodable(value: object) -> object:
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
