"""Model files of KModes and KPrototypes: the prototypes, and the sums of the clusters."""

from __future__ import annotations

import numpy as np

from craftc.kprototypes.dissimilarity import CATEGORICAL, name_of
from craftc.kprototypes.estimators import KModes, KPrototypes, PrototypeClustering
from craftc.kprototypes.fitted import Prototypes
from craftc.kprototypes.problem import NG
from craftc.saved.archive import demand
from craftc.saved.fields import LARGEST, Array, Number, Optional, Record, Through, floats, integers, labels
from craftc.saved.layout import FRAMES, Layout
from craftc.saved.table import SCHEMA, check_sums, sums_of

_FIELDS = {
    **FRAMES,
    "schema_": SCHEMA,
    "cost_": Number(),
    "n_iter_": Number(int),
    "converged_": Number(bool),
    "_prototypes": Record(
        Prototypes,
        gamma=Number(least=0.0, most=LARGEST),
        means=floats("K", "numeric"),
        modes=Array("int32", ("K", "categorical"), least=0),
        mean=floats("numeric"),
        mode=Array("int32", ("categorical",), least=0),
        sums=sums_of("schema_"),
        members=Optional(integers("K", "width")),
    ),
    "labels_": labels("n", below="K"),
    "epoch_costs_": Through(floats("passes", least=0.0), np.array, np.ndarray.tolist),
}


def _complete(model: PrototypeClustering) -> None:
    held, schema = model._prototypes, model.schema_
    demand(schema.n_columns == model.n_features_in_, "the schema does not fit the columns")
    demand(model._mixed or not len(schema.numeric_index), "KModes has no numeric columns")
    fits = (len(held.mean), len(held.mode)) == (held.grid.p, held.grid.q) and bool((held.n_levels > 0).all())
    demand(fits, "the prototypes do not fit the columns")
    for codes in (held.modes, held.mode):
        demand(bool((codes < held.n_levels).all()), "a mode is none of the levels of its column")
    demand(held.kind == CATEGORICAL.index(name_of(model.cat_dissim)), "the dissimilarity is another one")
    demand((held.kind == NG) == (held.members is not None), "the members of the clusters are not complete")
    if held.members is not None:
        demand(held.members.shape[1] == held.grid.width, "the members of the clusters have a wrong shape")
        check_sums(held.members, held.grid)
    model._set_prototypes(held)
    complete = len(model.epoch_costs_) == model.n_iter_ + 1 and model.epoch_costs_[-1] == model.cost_
    demand(complete, "the costs of the passes do not lead to the cost")


_UNUSED, _NAMED = ("init", "random_state", "categorical"), {"cat_dissim": name_of}
LAYOUTS = {
    "KModes": Layout(KModes, _FIELDS, _complete, _UNUSED, _NAMED),
    "KPrototypes": Layout(KPrototypes, _FIELDS, _complete, _UNUSED, _NAMED | {"num_dissim": name_of}),
}
