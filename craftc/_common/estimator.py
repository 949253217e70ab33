"""What the estimators share: results of a fit, attributes and warnings of convergence, input."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning


@dataclass
class FitResult:
    """The part of a result that every method reports.

    Parameters
    ----------
    objective : float
    path : list of float
        The objective after every pass.
    n_iter : int
        Passes.
    converged : bool
    """

    objective: float
    path: list[float]
    n_iter: int
    converged: bool


def set_convergence(estimator: Any, result: FitResult) -> None:
    """Set objective_, objective_path_, n_iter_ and converged_."""
    estimator.objective_, estimator.objective_path_ = result.objective, np.array(result.path)
    estimator.n_iter_, estimator.converged_ = result.n_iter, result.converged


def warn_not_converged(estimator: Any, n_iter: int, unit: str, remedy: str, stacklevel: int = 2) -> None:
    """Warn that a fit stopped early; `stacklevel` counts from the caller, as that of warnings.warn does."""
    warnings.warn(
        f"{type(estimator).__name__} stopped after {n_iter} {unit} before convergence; {remedy}.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def frame_library(X: Any) -> str | None:
    """The library of a data frame in which results are returned: "polars" or "pandas"; None for other tables."""
    for name in ("polars", "pandas"):
        module = sys.modules.get(name)
        if module is not None and isinstance(X, module.DataFrame):
            return name
    return None


class MixedInput:
    """Input of numbers, categories and missing values; `missing` is a parameter of the estimator."""

    missing: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
