"""Model files of GraphSpectralFeatures: its features, and statistics from which the encoding of its columns
follows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats
from craftc.saved.archive import demand
from craftc.saved.fields import (
    ABSENT,
    LARGEST,
    POSITIVE,
    Optional,
    Ragged,
    Same,
    StoredNumber,
    StoredRecord,
    Through,
    floats,
    integers,
)
from craftc.saved.layout import CONVERGED, FIT, FRAMES, Layout
from craftc.saved.table import SCHEMA, encoding_of
from craftc.spectral.encoding import Encoding
from craftc.spectral.estimator import GraphSpectralFeatures
from craftc.spectral.pseudo_likelihood import Parameters
from craftc.table.mixed_table import Schema


class _Statistics(NamedTuple):
    """What `Encoding.from_statistics` takes."""

    schema: Schema
    beta: float
    centre: Floats  # (numeric columns,) NaN for columns without numbers
    low: Floats  # NaN for constant columns
    high: Floats
    values: list[Floats]  # of the columns that vary
    counts: list[NDArray[np.int64]]  # rows of every level of the categorical columns, and of missing cells


def _statistics_of(encoding: Encoding) -> _Statistics:
    schema, ends = encoding.schema, [*encoding.first_state[1:].tolist(), len(encoding.counts)]
    centre, low, high = numbers = np.full((3, len(schema.numeric_index)), np.nan)
    centre[:] = [encoding.constants.get(int(j), np.nan) for j in schema.numeric_index]
    numbers[:, encoding.column] = encoding.centre, encoding.low, encoding.high
    counts = [np.zeros(len(levels) + 1, np.int64) for levels in schema.levels]
    for v, d in enumerate(encoding.variable):
        counts[d][:] = encoding.counts[encoding.first_state[v] : ends[v]]
    for d, j in enumerate(schema.categorical_index):
        value = encoding.constants.get(int(j))
        if value is not None:  # the one level of a constant column
            counts[d][schema.levels[d].index(value)] = 1
    return _Statistics(schema, encoding.beta, centre, low, high, list(encoding.values), counts)


def _encoding_of(found: _Statistics) -> Encoding:
    low, centre, high = found.low, found.centre, found.high
    varies = low < high
    steepest = 8.0 * max(found.beta, 1.0) / np.where(varies, high - low, 1.0)
    inside = (low <= centre) & (centre <= high) & np.isfinite(steepest)
    demand(bool(inside[varies].all()), "the ranges of the numeric columns are not possible")
    demand(len(found.values) == varies.sum(), "the values of the numeric columns are not complete")
    for some, least, most in zip(found.values, low[varies], high[varies], strict=True):
        ascending = not len(some) or bool((np.diff(some) > 0).all() and some[0] >= least and some[-1] <= most)
        demand(ascending, "the values are not ascending")
    states = [len(levels) + 1 for levels in found.schema.levels]
    demand(states == [len(counts) for counts in found.counts], "the counts of the levels are not complete")
    encoding = Encoding.from_statistics(*found)
    demand(len(np.unique(encoding.source)) > 1, "fewer than two columns vary")
    return encoding


_ENCODING = StoredRecord(
    _Statistics,
    schema=SCHEMA,
    beta=StoredNumber(least=POSITIVE, most=LARGEST),
    centre=floats("numeric", missing=True),
    low=floats("numeric", missing=True),
    high=floats("numeric", missing=True),
    values=Ragged(floats("values")),
    counts=Ragged(integers("states", least=0)),
)
#: Attributes of a model whose graph was learned, and not given.
_LEARNED = {
    **FIT,
    **CONVERGED,
    "codes_": floats("p", 2, missing=True),
    "objective_path_": floats("steps"),
    "_parameters": StoredRecord(
        Parameters, theta=Same("graph_"), b=floats("indicators"), c=floats("numbers", "terms")
    ),
}
_FIELDS = {
    **FRAMES,
    "_encoding": Through(_ENCODING, _statistics_of, _encoding_of),
    "_scores": Optional(encoding_of("_encoding.schema")),
    "graph_": floats("p", "p"),
    "components_": floats("features", "p"),
    "eigenvalues_": floats("features"),
    "spectrum_": floats("p"),
    **{name: Optional(kind, ABSENT) for name, kind in _LEARNED.items()},
}


def _complete(model: GraphSpectralFeatures) -> None:
    model._check_parameters()
    encoding, scores = model._encoding, model._scores
    same = scores is None or scores.schema == encoding.schema
    demand(same, "the scaling of the numeric columns changes their number")
    demand(model.n_features_in_ == encoding.schema.n_columns, "the schema has another number of columns")
    demand(len(model.graph_) == encoding.p, "the graph has another number of columns")
    model.encoded_names_ = np.array(encoding.names, dtype=object)
    model.encoded_columns_, model.n_numeric_ = encoding.source, encoding.p1
    learned = [hasattr(model, name) for name in _LEARNED]
    demand(len(set(learned)) == 1, "the learned graph is not complete")
    if all(learned):
        terms = 2 * int(model.grid_size) + 1 if model.unary == "free" else 2
        b, c = model._parameters.b, model._parameters.c
        demand(
            b.shape == (encoding.p2,) and c.shape == (encoding.p1, terms), "the parameters have a wrong shape"
        )
        longest = max(map(len, encoding.values), default=0)
        demand(longest <= terms, "a column has more values than unary terms")


LAYOUTS = {
    "GraphSpectralFeatures": Layout(GraphSpectralFeatures, _FIELDS, _complete, ("random_state", "graph"))
}
