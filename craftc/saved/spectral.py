"""The state of a fitted GraphSpectralFeatures in a model file: its fitted attributes, and the encoding of its
columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.typing import Floats
from craftc.saved.archive import Archive, Arrays, demand, estimator_head, restored_estimator
from craftc.saved.columns import stored_encoding, stored_schema
from craftc.spectral.encoding import Encoding
from craftc.spectral.estimator import GraphSpectralFeatures
from craftc.spectral.pseudo_likelihood import Parameters

FORMAT_VERSION = 4  # 3: without checksum

_SCALARS = {"objective_": float, "n_iter_": int, "converged_": bool}


def state_of(model: GraphSpectralFeatures) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model."""
    encoding = model._encoding
    centre, low, high = _statistics(encoding)
    learned = hasattr(model, "_parameters")  # otherwise the user gave the graph
    head = estimator_head(model, ("random_state", "graph"), _SCALARS if learned else ())
    head |= {
        "schema": encoding.schema.to_dict(),
        "beta": encoding.beta,
        "scores": None if model._scores is None else model._scores.to_dict(),
    }
    arrays = {
        "graph": model.graph_,
        "components": model.components_,
        "eigenvalues": model.eigenvalues_,
        "spectrum": model.spectrum_,
        "centre": centre,
        "low": low,
        "high": high,
        "values": np.concatenate([*encoding.values, np.empty(0)]),
        "n_values": np.array([len(values) for values in encoding.values], np.int64),
        "counts": _counts(encoding),
    }
    if learned:
        arrays |= {
            "codes": model.codes_,
            "objective_path": model.objective_path_,
            "unary_indicators": model._parameters.b,
            "unary_numbers": model._parameters.c,
        }
    return head, arrays


def _statistics(encoding: Encoding) -> tuple[Floats, Floats, Floats]:
    """Means and ranges of all numeric columns; NaN for the range of a constant one."""
    schema = encoding.schema
    out = np.full((3, len(schema.numeric_index)), np.nan)
    out[0] = [encoding.constants.get(int(j), np.nan) for j in schema.numeric_index]
    out[:, encoding.column] = encoding.centre, encoding.low, encoding.high
    return out[0], out[1], out[2]


def _counts(encoding: Encoding) -> Any:
    """Rows per level of all categorical columns, and of missing cells; 1: the level of a constant column."""
    schema, ends = encoding.schema, [*encoding.first_state[1:].tolist(), len(encoding.counts)]
    parts = [np.zeros(len(levels) + 1, np.int64) for levels in schema.levels]
    for v, d in enumerate(encoding.variable):
        parts[d][:] = encoding.counts[encoding.first_state[v] : ends[v]]
    for d, j in enumerate(schema.categorical_index):
        value = encoding.constants.get(int(j))
        if value is not None:
            parts[d][schema.levels[d].index(value)] = 1
    return np.concatenate([*parts, np.empty(0, np.int64)])


def restored(archive: Archive) -> GraphSpectralFeatures:
    """The model; whatever the kernels rely on is checked here."""
    head = archive.head
    learned = "unary_numbers" in archive
    model = restored_estimator(GraphSpectralFeatures, head, **(_SCALARS if learned else {}))
    model._check_parameters()
    encoding = model._encoding = _encoding(archive)
    model._scores = None if head["scores"] is None else stored_encoding(head["scores"], encoding.schema)
    demand(
        model._scores is None or model._scores.schema == encoding.schema,
        "the scaling of the numeric columns changes their number",
    )
    p, p1 = encoding.p, encoding.p1
    demand(model.n_features_in_ == encoding.schema.n_columns, "the schema has another number of columns")
    model.graph_ = archive.floats("graph", (p, p))
    model.components_ = archive.floats("components", (None, p))
    model.eigenvalues_ = archive.floats("eigenvalues", (len(model.components_),))
    model.spectrum_ = archive.floats("spectrum", (p,))
    model.encoded_names_ = np.array(encoding.names, dtype=object)
    model.encoded_columns_, model.n_numeric_ = encoding.source, p1
    if learned:
        model.codes_ = archive.floats("codes", (p, 2), missing=True)
        model.objective_path_ = archive.floats("objective_path", (None,))
        terms = 2 * int(model.grid_size) + 1 if model.unary == "free" else 2
        c = archive.floats("unary_numbers", (p1, terms))
        demand(
            max(map(len, encoding.values), default=0) <= terms, "a column has more values than unary terms"
        )
        model._parameters = Parameters(model.graph_, archive.floats("unary_indicators", (encoding.p2,)), c)
    return model


def _encoding(archive: Archive) -> Encoding:
    """The encoded columns."""
    schema, beta = stored_schema(archive.head["schema"]), archive.head["beta"]
    demand(type(beta) is float and 0 < beta < np.inf, f"beta is {beta!r}")
    p = len(schema.numeric_index)
    centre, low, high = (archive.floats(name, (p,), missing=True) for name in ("centre", "low", "high"))
    varies = low < high
    inside = (
        (low <= centre)
        & (centre <= high)
        & np.isfinite(8.0 * max(beta, 1.0) / np.where(varies, high - low, 1.0))
    )
    demand(bool(inside[varies].all()), "the ranges of the numeric columns are not possible")
    lengths = archive.array("n_values", "int64", (int(varies.sum()),))
    demand(bool((lengths >= 0).all()), "the values of the numeric columns are not complete")
    values = (
        np.split(archive.floats("values", (int(lengths.sum()),)), np.cumsum(lengths)[:-1])
        if len(lengths)
        else []
    )
    for some, least, most in zip(values, low[varies], high[varies], strict=True):
        demand(
            not len(some) or bool((np.diff(some) > 0).all() and some[0] >= least and some[-1] <= most),
            "the values are not ascending",
        )
    states = schema.n_levels + 1 if len(schema.levels) else np.empty(0, np.int64)
    counts = archive.array("counts", "int64", (int(states.sum()),))
    demand(bool((counts >= 0).all()), "the counts of the levels are negative")
    per_column = np.split(counts, np.cumsum(states)[:-1]) if len(states) else []
    encoding = Encoding.from_statistics(schema, beta, centre, low, high, values, per_column)
    demand(len(np.unique(encoding.source)) > 1, "fewer than two columns vary")
    return encoding
