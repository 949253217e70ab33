"""A fitted partition in words: per cluster its size and its features, beside the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.optional import need_pandas
from craftc.table.moments import Moments

#: Levels named in a cell of the summary.
LEADING = 3


def cluster_summary(model: Any) -> Any:
    """The frame of ``CRAFT.summary``: one row per cluster and selected feature, largest gain first."""
    schema, moments = model.schema_, model._shown
    inside, everywhere = typical_values(moments, schema), typical_values(moments.total(), schema)[0]
    frame = summary_frame(model, moments.sizes / moments.sizes.sum(), schema.columns, inside, everywhere)
    frame.attrs["merges"] = [(step.n_clusters, step.objective) for step in model.merge_path_]
    return frame


def summary_frame(model: Any, share: Any, columns: Any, inside: Any, everywhere: Any, **more: NDArray[np.float64]) -> Any:
    """One row per cluster and selected feature, largest gain first; `more` are (K, D) columns to show beside the gain."""
    pd = need_pandas()
    rows: list[tuple[Any, ...]] = []
    for k in range(model.n_clusters_):
        gains = np.where(model.feature_mask_[k], model.feature_gains_[k], -np.inf)
        ranked = [d for d in np.argsort(-gains, kind="stable") if model.feature_mask_[k, d]]
        lines = [
            (columns[d], float(model.feature_gains_[k, d]), *(float(part[k, d]) for part in more.values()), inside[k][d], everywhere[d])
            for d in ranked
        ]
        for line in lines or [("(none: like the whole table)", 0.0, *(0.0 for _ in more), "", "")]:
            rows.append((k, model.cluster_sizes_[k], float(share[k]), *line))
    return pd.DataFrame(rows, columns=["cluster", "rows", "share", "feature", "gain", *more, "in the cluster", "in the whole table"])


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
    """The commonest levels with their shares of the present cells, e.g. ``"4 91 %, 3 6 %"``."""
    total = counts.sum()
    if total == 0:
        return "(all missing)"
    order = [t for t in np.argsort(-counts, kind="stable")[:LEADING] if counts[t] > 0]
    # a first level that says it all needs no company
    if counts[order[0]] >= 0.995 * total:
        order = order[:1]
    return ", ".join(f"{levels[t]} {100 * counts[t] / total:.0f} %" for t in order)


def number(value: float) -> str:
    """A number for reading: four significant digits, thousands in full, no exponent where avoidable."""
    size = abs(value)
    if size >= 1e9 or (0 < size < 1e-4):
        return f"{value:.3g}"
    digits = 0 if size >= 1000 else 3 - len(str(int(size))) if size >= 1 else 3
    return f"{value:,.{max(digits, 0)}f}"
