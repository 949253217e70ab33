"""A fitted estimator as one file, which can be loaded without executing anything that it contains."""

from __future__ import annotations

import importlib
import os
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from craftc._about import version
from craftc.saved.archive import reading, write_archive
from craftc.saved.layout import Layout


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file.

    Parameters
    ----------
    model : estimator
        Fitted: any estimator of craftc.
    path : path
        Replaced if it exists, once all is written.

    Notes
    -----
    Parameters that a fitted model does not use and that are not plain values become the default: an `init` or
    `weights` given as an array, a `similarity` or `weights` that is a function, a `random_state` that is not
    an integer. Other arrays and tuples among the parameters come back as lists.

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
    package = importlib.import_module("craftc")
    own = (each for each in type(model).__mro__ if each.__name__ in package.__all__)
    cls = next((each for each in own if each.__module__.startswith("craftc.")), None)
    if cls is None or not isinstance(model, BaseEstimator):
        public = (getattr(package, name) for name in package.__all__ if name[0].isupper())
        names = ", ".join(each.__name__ for each in public if issubclass(each, BaseEstimator))
        raise TypeError(
            f"save_model writes a fitted estimator of craftc ({names}), got {type(model).__name__}."
        )
    check_is_fitted(model)
    head, arrays = _layout_of(cls).head_of(model)
    write_archive(path, {"craftc_version": version(), "estimator": cls.__name__, **head}, arrays)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save_model` wrote; all its results have the same bits.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        Fitted, of the class that was saved.

    Raises
    ------
    ValueError
        The file is not a craftc model, is damaged, or has a newer format.
    """
    package = importlib.import_module("craftc")
    with reading(path, _classes()) as archive:
        return _layout_of(getattr(package, archive.head["estimator"])).model_of(archive)


def version_of_model(path: str | os.PathLike[str]) -> str:
    """The version of craftc that wrote a model file."""
    with reading(path, _classes()) as archive:
        return str(archive.head["craftc_version"])


def _classes() -> list[str]:
    """The names of the public estimators."""
    return [name for name in importlib.import_module("craftc").__all__ if name[0].isupper()]


def _layout_of(estimator: type) -> Layout[Any]:
    """The layout of its files; the estimator's package is imported with it."""
    package = estimator.__module__.split(".")[1]
    module = package if package in ("craft", "mixture", "spectral") else "clusterings"
    layout: Layout[Any] = importlib.import_module(f"craftc.saved.{module}").LAYOUTS[estimator.__name__]
    return layout
