"""Tables that describe a partition: size and features of every cluster, compared with the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.estimator import column_names, output_frame
from craftc.describe.statistics import in_units
from craftc.table.moments import Moments

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
    """One row per cluster and listed feature (by default: selected), largest gain first; `more` are (K, D)
    columns that follow the gain.
    """
    listed = model.feature_mask_ if listed is None else listed
    names = ["cluster", "rows", "share", "feature", "gain", *more, "in the cluster", "in the whole table"]
    table: dict[str, list[Any]] = {name: [] for name in names}
    for k in range(model.n_clusters_):
        gains = np.where(listed[k], model.feature_gains_[k], -np.inf)
        ranked = [d for d in np.argsort(-gains, kind="stable") if listed[k, d]]
        others = [part[k].tolist() for part in more.values()]
        lines = [
            (
                columns[d],
                float(model.feature_gains_[k, d]),
                *(part[d] for part in others),
                inside[k][d],
                everywhere[d],
            )
            for d in ranked
        ]
        nothing = ("" if part.dtype == object else 0.0 for part in more.values())
        for line in lines or [("(none: like the whole table)", 0.0, *nothing, "", "")]:
            for name, value in zip(
                names, (k, model.cluster_sizes_[k].item(), float(share[k]), *line), strict=True
            ):
                table[name].append(value)
    return output_frame(table, getattr(model, "_frame_library", None), attrs)


class MomentsSummary:
    """The method `summary` of clusterings of numbers."""

    n_features_in_: int
    _moments: ClusterMoments
    _frame_library: str | None

    def summary(self) -> Any:
        """Size and typical values of every cluster, compared with the whole table.

        Returns
        -------
        pandas.DataFrame, or polars.DataFrame where `fit` received one
            One row per cluster and column, the largest difference first: ``cluster``, ``rows`` (sum of their
            weights), ``share``, ``feature``, ``difference`` (of the mean from that of the whole table, in
            standard deviations of the whole table), and mean ± standard deviation in the cluster and in the
            whole table.

        Examples
        --------
        >>> import pandas as pd
        >>> from craftc import DPMeans
        >>> table = pd.DataFrame({"a": [0.0, 1.0, 10.0, 11.0], "b": [0.0, 1.0, 0.0, 1.0]})
        >>> DPMeans(9.0).fit(table).summary()[["cluster", "feature", "difference", "in the cluster"]]
           cluster feature  difference in the cluster
        0        0       a   -0.995037  0.500 ± 0.500
        1        0       b    0.000000  0.500 ± 0.500
        2        1       a    0.995037   10.5 ± 0.500
        3        1       b    0.000000  0.500 ± 0.500
        """
        check_is_fitted(self)
        moments, columns = self._moments, column_names(self)
        total = moments.total()
        deviation = np.sqrt(total.variances[0])
        step = moments.means - total.means[0]
        difference = np.divide(step, deviation, out=np.zeros_like(step), where=deviation > 0)
        everywhere, inside = typical_numbers(total)[0], typical_numbers(moments)
        return difference_frame(columns, moments.sizes, difference, inside, everywhere, self._frame_library)


def difference_frame(
    columns: Any,
    sizes: NDArray[Any],
    difference: NDArray[np.float64],
    inside: Any,
    everywhere: Any,
    library: str | None,
) -> Any:
    """One row per cluster and column, the largest of its (K, D) differences from the whole table first."""
    order = [np.argsort(-np.abs(row), kind="stable").tolist() for row in difference]
    K, D = difference.shape
    table = {
        "cluster": np.repeat(np.arange(K), D),
        "rows": np.repeat(sizes, D),
        "share": np.repeat(sizes / sizes.sum(), D),
        "feature": [columns[d] for some in order for d in some],
        "difference": [difference[k, d].item() for k, some in enumerate(order) for d in some],
        "in the cluster": [inside[k][d] for k, some in enumerate(order) for d in some],
        "in the whole table": [everywhere[d] for some in order for d in some],
    }
    return output_frame(table, library)


def typical_numbers(moments: ClusterMoments) -> list[list[str]]:
    """Per cluster and column "mean ± standard deviation"."""
    return [
        [f"{number(mean)} ± {number(deviation)}" for mean, deviation in zip(means, deviations, strict=True)]
        for means, deviations in zip(moments.means.tolist(), np.sqrt(moments.variances).tolist(), strict=True)
    ]


def typical_values(moments: Moments, schema: Any) -> list[list[str]]:
    """Per group and input column: "mean ± sd" of a numeric column, the leading levels and their shares of a
    categorical one.
    """
    grid, counts = moments.grid, moments.counts
    means, deviations = in_units(moments)
    out = [[""] * schema.n_columns for _ in range(moments.n_clusters)]
    for j, d in enumerate(schema.numeric_index):
        for k, (mean, deviation) in enumerate(zip(means[:, j], deviations[:, j], strict=True)):
            out[k][d] = "(all missing)" if np.isnan(mean) else f"{number(mean)} ± {number(deviation)}"
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


def short_number(value: float) -> str:
    """`number` without zeros at the end of its decimals."""
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def number(value: float) -> str:
    """A number for reading: four significant digits, thousands in full, no exponent where avoidable."""
    size = abs(value)
    if size >= 1e9 or (0 < size < 1e-4):
        return f"{value:.3g}"
    digits = 0 if size >= 1000 else 3 - len(str(int(size))) if size >= 1 else 3
    return f"{value:,.{max(digits, 0)}f}"
