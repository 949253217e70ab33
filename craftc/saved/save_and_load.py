"""A fitted estimator as one file, which can be loaded without executing anything that it contains."""

from __future__ import annotations

import importlib
import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from craftc._about import version
from craftc.saved.archive import reading, write_archive

#: The module of craftc.saved for every estimator; it has FORMAT_VERSION, `state_of` and `restored`.
_PACKAGES = {
    "BPMeans": "bpmeans",
    "CRAFT": "craft",
    "ConvexClustering": "convex",
    "ConvexCovariateClustering": "covariates",
    "DPMeans": "dpmeans",
    "FeatureSelectionMixture": "mixture",
    "GraphSpectralFeatures": "spectral",
    "KFeatures": "bpmeans",
    "KModes": "kprototypes",
    "KPrototypes": "kprototypes",
}


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
    own = (each.__name__ for each in type(model).__mro__ if each.__module__.startswith("craftc."))
    name = next((each for each in own if each in _PACKAGES), None)
    if name is None:
        raise TypeError(
            f"save_model writes a fitted estimator of craftc ({', '.join(_PACKAGES)}), got "
            f"{type(model).__name__}."
        )
    check_is_fitted(model)
    state = _state_module(name)
    head, arrays = state.state_of(model)
    about = {"format_version": state.FORMAT_VERSION, "craftc_version": version(), "estimator": name}
    write_archive(path, about | head, arrays)


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
    with reading(path, _newest) as archive:
        return _state_module(archive.head["estimator"]).restored(archive)


def _state_module(name: str) -> Any:
    return importlib.import_module(f"craftc.saved.{_PACKAGES[name]}")


def _newest(name: str) -> int | None:
    """The newest format of an estimator that can be read; None if it is unknown."""
    return int(_state_module(name).FORMAT_VERSION) if name in _PACKAGES else None
