"""The summary of a fitted CRAFT: size and typical values of every cluster, compared with the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc.craft.covariance import too_many_columns
from craftc.table.cluster_summary import LEADING, number, summary_frame
from craftc.table.moments import Moments


def cluster_summary(model: Any) -> Any:
    """The frame of ``CRAFT.summary``: one row per cluster and selected feature, largest gain first."""
    schema, moments = model.schema_, model._moments_original_units
    inside, everywhere = typical_values(moments, schema), typical_values(moments.total(), schema)[0]
    frame = summary_frame(model, moments.sizes / moments.sizes.sum(), schema.columns, inside, everywhere)
    frame.attrs["merges"] = [(step.n_clusters, step.objective) for step in model.merge_path_]
    clusters = model._clusters
    encoded = [str(schema.columns[column]) for column in model._encoding.source]
    frame.attrs["notes"] = too_many_columns(clusters.background, clusters.moments.total(), clusters.spec)
    if clusters.covariances is not None:
        frame.attrs["notes"] += clusters.covariances.notes(encoded, moments.sizes)
    return frame


def typical_values(moments: Moments, schema: Any) -> list[list[str]]:
    """Per group and input column: "mean ± sd" of a numeric column, the leading levels and their shares of a categorical one."""
    grid, counts = moments.grid, moments.counts
    mean, deviations = moments.means()
    out = [[""] * schema.n_columns for _ in range(moments.n_clusters)]
    for j, d in enumerate(schema.numeric_index):
        for k, weight in enumerate(moments.present[:, j]):
            if weight > 0:
                deviation = np.sqrt(deviations[k, j] / weight) / grid.scale[j]
                out[k][d] = f"{number(grid.centre[j] + mean[k, j] / grid.scale[j])} ± {number(deviation)}"
            else:
                out[k][d] = "(all missing)"
    for j, d in enumerate(schema.categorical_index):
        start, levels = grid.level_start[j], schema.levels[j]
        for k in range(moments.n_clusters):
            out[k][d] = leading_levels(counts[k, start : start + len(levels)], levels)
    return out


def leading_levels(counts: NDArray[np.float64], levels: tuple[Any, ...]) -> str:
    """The most frequent levels with their shares of the present cells, e.g. ``"4 91 %, 3 6 %"``."""
    total = counts.sum()
    if total == 0:
        return "(all missing)"
    order = [t for t in np.argsort(-counts, kind="stable")[:LEADING] if counts[t] > 0]
    # one level that accounts for nearly all cells is named alone
    if counts[order[0]] >= 0.995 * total:
        order = order[:1]
    return ", ".join(f"{levels[t]} {100 * counts[t] / total:.0f} %" for t in order)
