"""Tables that describe a partition: size and features of every cluster, compared with the whole table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.estimator import column_names, output_frame
from craftc._common.typing import Array, Floats, OutputFrame
from craftc.describe.columns import AnswersColumn, Column, NumericColumn
from craftc.describe.facts import names_of
from craftc.describe.named import NamedClusters
from craftc.describe.statistics import numeric_statistics
from craftc.describe.view import ClusterView
from craftc.table.answers import AnswerGroup


def summary_frame(
    view: ClusterView,
    library: str | None,
    attrs: Mapping[str, object] | None = None,
    **more: Array,
) -> OutputFrame:
    """One row per cluster and feature in which it differs, largest gain first.

    `more`: (K, D) columns that follow the gain.
    """
    own = names_of(view) if view.own else None
    named = [] if own is None else ["name"]
    names = ["cluster", *named, "rows", "share", "feature", "gain", *more]
    names += ["in the cluster", "in the whole table"]
    table: dict[str, list[object]] = {name: [] for name in names}
    for k in range(len(view.sizes)):
        lines: list[tuple[object, ...]] = [
            (
                view.features[d],
                float(view.gains[k, d]),
                *(part[k].tolist()[d] for part in more.values()),
                view.typical(k, d),
                view.typical(-1, d, k),
            )
            for d in view.ranked(k)
        ]
        nothing = ("" if part.dtype == object else 0.0 for part in more.values())
        for line in lines or [("(none: like the whole table)", 0.0, *nothing, "", "")]:
            of_cluster = (k, *([] if own is None else [own[k]]), view.sizes[k].item(), float(view.shares[k]))
            for name, value in zip(names, (*of_cluster, *line), strict=True):
                table[name].append(value)
    return output_frame(table, library, attrs)


def plain_view(
    names: Sequence[object], columns: Sequence[Column], sizes: Floats, groups: Sequence[AnswerGroup] = ()
) -> ClusterView:
    """Clusters without a rule for features: every column differs, its gain is the size of the difference."""
    gains = np.abs(_differences(columns))
    everything = np.ones(gains.shape, bool)
    return ClusterView(names, columns, sizes, everything, everything, gains, named=False, groups=groups)


def difference_frame(view: ClusterView, library: str | None) -> OutputFrame:
    """One row per cluster and column, the largest of `_differences` first."""
    difference, own = _differences(view.statistics), names_of(view) if view.own else None
    K, D = difference.shape
    places = [(k, d) for k in range(K) for d in view.ranked(k)]
    table = {
        "cluster": np.repeat(np.arange(K), D),
        **({} if own is None else {"name": [own[k] for k, _ in places]}),
        "rows": np.repeat(view.sizes, D),
        "share": np.repeat(view.shares, D),
        "feature": [view.features[d] for _, d in places],
        "difference": [difference[k, d].item() for k, d in places],
        "in the cluster": [view.typical(k, d) for k, d in places],
        "in the whole table": [view.typical(-1, d, k) for k, d in places],
    }
    return output_frame(table, library)


def _differences(columns: Sequence[Column]) -> Floats:
    """(K, D) differences from the whole table: of means in deviations, or of shares, of several answers the
    largest; 0 without values.
    """
    found = [
        column.shift[:-1]
        if isinstance(column, NumericColumn)
        else np.abs(column.shares[:-1] - column.shares[-1]).max(axis=1)
        if isinstance(column, AnswersColumn)
        else 0.5 * np.abs(column.shares[:-1] - column.shares[-1]).sum(axis=1)
        for column in columns
    ]
    return np.asarray(np.nan_to_num(np.column_stack(found), nan=0.0))


class MomentsSummary(NamedClusters):
    """The method `summary` of clusterings of numbers."""

    n_features_in_: int
    _moments: ClusterMoments
    _frame_library: str | None

    def _cluster_view(self) -> ClusterView:
        return plain_view(column_names(self), numeric_statistics(self._moments), self._moments.sizes)

    def summary(self) -> OutputFrame:
        """Size and typical values of every cluster, compared with the whole table.

        Returns
        -------
        pandas.DataFrame, or polars.DataFrame where `fit` received one
            One row per cluster and column, the largest difference first: ``cluster``, its ``name`` after
            `rename_clusters`, ``rows`` (sum of their weights), ``share``, ``feature``, ``difference`` (of the
            mean from that of the whole table, in standard deviations of the whole table), and mean ± standard
            deviation in the cluster and in the whole table, each to four significant digits.

        Examples
        --------
        >>> import pandas as pd
        >>> from craftc import DPMeans
        >>> table = pd.DataFrame({"a": [0.0, 1.0, 10.0, 11.0], "b": [0.0, 1.0, 0.0, 1.0]})
        >>> DPMeans(9.0).fit(table).summary()[["cluster", "feature", "difference", "in the cluster"]]
           cluster feature  difference in the cluster
        0        0       a   -0.995037      0.5 ± 0.5
        1        0       b    0.000000      0.5 ± 0.5
        2        1       a    0.995037     10.5 ± 0.5
        3        1       b    0.000000      0.5 ± 0.5
        """
        check_is_fitted(self)
        return difference_frame(self._shown_clusters(), self._frame_library)
