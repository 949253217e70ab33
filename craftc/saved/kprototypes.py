"""The state of a fitted KModes or KPrototypes in a model file.

The head has the parameters, the schema and the scalars of the fit; the arrays are the prototypes, the moments
of the clusters by the labels (``groups``) and the grid on which they are integers, and with Ng's
dissimilarity the moments from which its shares follow (``members``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from craftc._common.typing import Integers
from craftc._kernels.moments import Grid
from craftc.kprototypes.dissimilarity import CATEGORICAL, name_of
from craftc.kprototypes.estimators import KModes, KPrototypes, PrototypeClustering
from craftc.kprototypes.fitted import Prototypes
from craftc.kprototypes.problem import NG
from craftc.saved.archive import Archive, Arrays, demand, estimator_head, restored_estimator
from craftc.saved.columns import stored_schema
from craftc.table.moments import NUMERIC_CELLS, Moments, level_starts

FORMAT_VERSION = 4  # the first of these estimators

_CLASSES: dict[str, type[PrototypeClustering]] = {"KModes": KModes, "KPrototypes": KPrototypes}
_SCALARS = {"cost_": float, "n_iter_": int, "converged_": bool}
_FUNCTIONS = ("cat_dissim", "num_dissim")


def state_of(model: PrototypeClustering) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model; functions of kmodes are stored by name."""
    held, functions = (
        model._prototypes,
        {name: name_of(getattr(model, name)) for name in _FUNCTIONS if hasattr(model, name)},
    )
    head = estimator_head(model, ("init", "random_state", "categorical", *functions), _SCALARS)
    head["parameters"] |= functions
    head |= {"schema": model.schema_.to_dict(), "unit": held.moments.unit, "gamma": held.gamma}
    arrays: Arrays = {
        "means": held.means,
        "modes": held.modes,
        "mean": held.mean,
        "mode": held.mode,
        "groups": held.moments.groups,
        "centre": held.grid.centre,
        "scale": held.grid.scale,
        "labels": model.labels_,
        "epoch_costs": np.array(model.epoch_costs_),
    }
    if held.members is not None:
        arrays["members"] = held.members
    return head, arrays


def restored(archive: Archive) -> PrototypeClustering:
    """The model; whatever the kernels rely on is checked here."""
    head = archive.head
    model: PrototypeClustering = restored_estimator(_CLASSES[head["estimator"]], head, **_SCALARS)
    schema = stored_schema(head["schema"])
    demand(schema.n_columns == model.n_features_in_, "the schema does not fit the columns")
    model.schema_ = schema
    prototypes = _prototypes(archive, CATEGORICAL.index(name_of(model.cat_dissim)), model)
    model._set_prototypes(prototypes)
    model.labels_ = archive.labels("labels", (None,), model.n_clusters_)
    model.epoch_costs_ = archive.floats("epoch_costs", (None,), least=0.0).tolist()
    complete = len(model.epoch_costs_) == model.n_iter_ + 1 and model.epoch_costs_[-1] == model.cost_
    demand(complete, "the costs of the passes do not lead to the cost")
    return model


def _prototypes(archive: Archive, kind: int, model: PrototypeClustering) -> Prototypes:
    schema, unit, gamma = model.schema_, archive.head["unit"], archive.head["gamma"]
    for name, value in (("unit", unit), ("gamma", gamma)):
        demand(
            isinstance(value, float) and 0.0 <= value < math.inf and not (name == "unit" and value == 0.0),
            f"{name} is {value!r}",
        )
    p, n_levels = len(schema.numeric_index), schema.n_levels
    q = len(n_levels)
    demand(p == 0 or model._mixed, "KModes has no numeric columns")
    demand(bool((n_levels > 0).all()), "a categorical column has no levels")
    centre, scale = archive.floats("centre", (p,)), archive.floats("scale", (p,))
    demand(bool((scale > 0).all()), "the grid is not possible")
    grid = Grid(centre, scale, level_starts(n_levels), int((n_levels + 1).sum()))
    means, modes = archive.floats("means", (None, p)), archive.array("modes", "int32", (None, q))
    demand(len(means) == len(modes) > 0, "the prototypes are not complete")
    mean, mode = archive.floats("mean", (p,)), archive.array("mode", "int32", (q,))
    for codes in (modes, mode):
        demand(bool(((codes >= 0) & (codes < n_levels)).all()), "a mode is none of the levels of its column")
    moments = Moments.of_groups(grid, unit, _sums(archive, "groups", grid, len(means)))
    members = _sums(archive, "members", grid, len(means)) if kind == NG else None
    return Prototypes(kind, gamma, means, modes, mean, mode, n_levels, moments, members)


def _sums(archive: Archive, name: str, grid: Grid, n_clusters: int) -> Integers:
    """Moments of the clusters: no weight is negative, those of the levels of a column sum to that of the
    rows, missing cells included.
    """
    groups: Integers = archive.array(name, "int64", (n_clusters, grid.width))
    rows, levels, present = (
        groups[:, :1],
        groups[:, 1 : grid.first_numeric],
        groups[:, grid.first_numeric :: NUMERIC_CELLS],
    )
    possible = [
        (rows >= 0).all(),
        (levels >= 0).all(),
        (levels <= rows).all(),
        (present >= 0).all(),
        (present <= rows).all(),
    ]
    if grid.q:
        possible.append((np.add.reduceat(levels, grid.level_start, axis=1) == rows).all())
    sums = groups[:, grid.first_numeric :].reshape(n_clusters, grid.p, NUMERIC_CELLS)
    possible.append(
        (np.abs(sums[:, :, 2].astype(np.float64)) <= 1.0 + rows * 2.0**-24).all()
    )  # upper half of a sum of numbers up to 2^39
    demand(all(bool(each) for each in possible), f"{name} are not possible")
    return groups
