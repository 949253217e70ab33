"""The summary of fitted prototypes: size and typical values of every cluster, compared with the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.estimator import column_names
from craftc._common.typing import Floats
from craftc.describe.frames import difference_frame, typical_values
from craftc.describe.statistics import NumericColumn, column_statistics


def prototype_summary(model: Any) -> Any:
    """The frame of `summary`."""
    moments, schema, columns = model._prototypes.moments, model.schema_, column_names(model)
    inside, everywhere = typical_values(moments, schema), typical_values(moments.total(), schema)[0]
    difference = np.column_stack([_difference(column) for column in column_statistics(moments, schema)])
    return difference_frame(
        columns, model.cluster_sizes_, difference, inside, everywhere, model._frame_library
    )


def _difference(column: Any) -> Floats:
    """(K,) difference of every cluster from the whole table; 0 where it has no values."""
    if isinstance(column, NumericColumn):
        step = column.means - column.mean
        scaled = np.divide(step, column.deviation, out=np.zeros_like(step), where=column.deviation > 0)
    else:
        scaled = 0.5 * np.abs(column.shares - column.share).sum(axis=1)
    return np.nan_to_num(scaled, nan=0.0)
