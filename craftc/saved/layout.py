"""What a model file of an estimator holds: its parameters, its input columns, and a table of its fitted
attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator

from craftc._common.own_names import OwnNames
from craftc._common.threads import effective_n_threads
from craftc._common.validation import check_parameters
from craftc.saved.archive import Archive, Arrays, demand
from craftc.saved.fields import ABSENT, Kind, Reading, StoredChoice, StoredNumber, Writing, plain, restored

#: Attributes of several estimators: of a descent, of its convergence, of the library of data frames.
FIT = {"objective_": StoredNumber(), "n_iter_": StoredNumber(int)}
CONVERGED = {"converged_": StoredNumber(bool)}


class _StoredNames(Kind):
    """Names of one's own of clusters and columns."""

    def write(self, out: Writing, name: str, value: object) -> None:
        own = cast("OwnNames", value)
        out.values[name] = {"clusters": list(own["clusters"].items()), "columns": own["columns"]}

    def read(self, source: Reading, name: str) -> OwnNames:
        stored = source.values[name]
        demand(isinstance(stored, dict) and stored.keys() == {"clusters", "columns"}, f"{name} is unknown")
        assert isinstance(stored, dict)
        clusters, columns = stored["clusters"], stored["columns"]
        demand(isinstance(clusters, list) and isinstance(columns, dict), f"{name} is not possible")
        known = all(isinstance(each, list) and [*map(type, each)] == [int, str] for each in clusters)
        demand(known and all(isinstance(each, str) for each in columns.values()), f"{name} is not possible")
        return OwnNames(clusters=dict(clusters), columns=columns)


FRAMES: dict[str, Kind] = {
    "_frame_library": StoredChoice((None, "pandas", "polars")),
    "_own_names": _StoredNames(),
}

E = TypeVar("E", bound=BaseEstimator)


@dataclass(frozen=True)
class Layout(Generic[E]):
    """The content of the model files of an estimator."""

    cls: Callable[..., E]
    fields: Mapping[str, Kind]  # by the names of fitted attributes, in the order in which they are read
    complete: Callable[[E], None]  # checks the attributes together, and sets what follows from them
    # parameters that a fitted model does not use: arrays, callables and objects among them become the default
    unused: Collection[str] = ()
    # parameters that may be functions, and what gives the names by which they are written
    named: Mapping[str, Callable[[object], str]] = field(default_factory=dict)

    def head_of(self, model: E) -> tuple[dict[str, object], Arrays]:
        out, names = Writing(), getattr(model, "feature_names_in_", None)
        for name, kind in self.fields.items():
            out.write(kind, name, getattr(model, name, ABSENT))
        return {
            "parameters": self._parameters(model),
            "n_features": int(model.n_features_in_),
            "feature_names": None if names is None else [str(name) for name in names],
            "values": out.values,
        }, out.arrays

    def _parameters(self, model: E) -> dict[str, object]:
        defaults, parameters = inspect.signature(type(model)).parameters, model.get_params(deep=False)
        for name in self.unused:
            if not isinstance(parameters[name], str | int | np.integer | float | None):
                parameters[name] = defaults[name].default
        parameters |= {name: name_of(parameters[name]) for name, name_of in self.named.items()}
        return {name: plain(name, value) for name, value in parameters.items()}

    def model_of(self, archive: Archive) -> E:
        """The model; whatever the kernels rely on is checked."""
        head = archive.head
        model = self.cls(**{name: restored(value) for name, value in head["parameters"].items()})
        check_parameters(model)
        effective_n_threads(model.n_threads)
        n_features, names = head["n_features"], head["feature_names"]
        demand(type(n_features) is int and n_features > 0, f"the number of columns is {n_features!r}")
        model.n_features_in_ = n_features
        if names is not None:
            fits = isinstance(names, list) and len(names) == n_features
            demand(fits and all(isinstance(name, str) for name in names), "the names do not fit the columns")
            model.feature_names_in_ = np.array(names, dtype=object)
        source = Reading(archive, head["values"], {"D": n_features})
        for name, kind in self.fields.items():
            value = source.read(kind, name)
            if value is not ABSENT:
                setattr(model, name, value)
        self.complete(model)
        return model
