"""The summary of fitted prototypes: size and typical values of every cluster, compared with the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.estimator import column_names
from craftc._common.typing import Floats
from craftc.table.cluster_summary import typical_values
from craftc.table.column_statistics import NumericColumn, column_statistics
from craftc.table.frame_output import output_frame


def prototype_summary(model: Any) -> Any:
    """The frame of `summary`."""
    moments, schema, columns = model._prototypes.moments, model.schema_, column_names(model)
    inside, everywhere = typical_values(moments, schema), typical_values(moments.total(), schema)[0]
    difference = np.column_stack([_difference(column) for column in column_statistics(moments, schema)])
    order = [np.argsort(-np.abs(row), kind="stable").tolist() for row in difference]
    K, D = difference.shape
    table = {
        "cluster": np.repeat(np.arange(K), D),
        "rows": np.repeat(model.cluster_sizes_, D),
        "share": np.repeat(moments.sizes / moments.sizes.sum(), D),
        "feature": [columns[d] for some in order for d in some],
        "difference": [difference[k, d].item() for k, some in enumerate(order) for d in some],
        "in the cluster": [inside[k][d] for k, some in enumerate(order) for d in some],
        "in the whole table": [everywhere[d] for some in order for d in some],
    }
    return output_frame(table, model._frame_library)


def _difference(column: Any) -> Floats:
    """(K,) difference of every cluster from the whole table; 0 where it has no values."""
    if isinstance(column, NumericColumn):
        step = column.means - column.mean
        scaled = np.divide(step, column.deviation, out=np.zeros_like(step), where=column.deviation > 0)
    else:
        scaled = 0.5 * np.abs(column.shares - column.share).sum(axis=1)
    return np.nan_to_num(scaled, nan=0.0)
