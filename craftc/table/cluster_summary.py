"""Tables that describe a partition: size and features of every cluster, compared with the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc.table.frame_output import output_frame

#: Levels named in a cell of the summary.
LEADING = 3


def summary_frame(
    model: Any,
    share: Any,
    columns: Any,
    inside: Any,
    everywhere: Any,
    listed: NDArray[np.bool_] | None = None,
    attrs: dict[str, Any] | None = None,
    **more: NDArray[Any],
) -> Any:
    """One row per cluster and listed feature (by default: selected), largest gain first; `more` are (K, D) columns that follow the gain."""
    listed = model.feature_mask_ if listed is None else listed
    names = ["cluster", "rows", "share", "feature", "gain", *more, "in the cluster", "in the whole table"]
    table: dict[str, list[Any]] = {name: [] for name in names}
    for k in range(model.n_clusters_):
        gains = np.where(listed[k], model.feature_gains_[k], -np.inf)
        ranked = [d for d in np.argsort(-gains, kind="stable") if listed[k, d]]
        lines = [
            (columns[d], float(model.feature_gains_[k, d]), *(part[k].tolist()[d] for part in more.values()), inside[k][d], everywhere[d])
            for d in ranked
        ]
        nothing = ("" if part.dtype == object else 0.0 for part in more.values())
        for line in lines or [("(none: like the whole table)", 0.0, *nothing, "", "")]:
            for name, value in zip(names, (k, model.cluster_sizes_[k].item(), float(share[k]), *line), strict=True):
                table[name].append(value)
    return output_frame(table, getattr(model, "_frame_library", None), attrs)


def number(value: float) -> str:
    """A number for reading: four significant digits, thousands in full, no exponent where avoidable."""
    size = abs(value)
    if size >= 1e9 or (0 < size < 1e-4):
        return f"{value:.3g}"
    digits = 0 if size >= 1000 else 3 - len(str(int(size))) if size >= 1 else 3
    return f"{value:,.{max(digits, 0)}f}"
