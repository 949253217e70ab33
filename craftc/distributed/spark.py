"""Predictions on Spark: a function of batches of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from craftc._common.messages import listed
from craftc.distributed.collections import without_rows

if TYPE_CHECKING:
    import pandas as pd


def spark_predict(
    model: BaseEstimator, *, output: str = "cluster", columns: Sequence[str] | None = None
) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """The predictions of a fitted model as a function for ``DataFrame.mapInPandas`` of Spark.

    Parameters
    ----------
    model : estimator
        Fitted, with one label for each row: `CRAFT`, `DPMeans`, `FeatureSelectionMixture` or
        `ConvexCovariateClustering`.
    output : str, default="cluster"
        Column of the labels, which is added as the last one.
    columns : sequence of str, optional
        Columns of the input that the result keeps; None: all.

    Returns
    -------
    function
        From an iterator of pandas frames to an iterator of pandas frames, one for each. It can be pickled,
        and holds the model without the rows of its fit. A model that was fitted on named columns takes these
        and ignores others; any other model takes all columns.

    Raises
    ------
    TypeError
        The model does not predict one label for each row.

    Notes
    -----
    ``mapInPandas`` needs the types of the result: those of the kept columns and of the labels, int for
    clusters. The workers need craftc, pandas and pyarrow. Spark needs no other part of craftc, and this
    function does not import Spark.

    Examples
    --------
    >>> import pandas as pd
    >>> from craftc import CRAFT
    >>> from craftc.datasets import load_heart
    >>> from craftc.distributed import spark_predict
    >>> heart = load_heart().data
    >>> assign = spark_predict(CRAFT(random_state=0).fit(heart), columns=["age"])
    >>> batches = iter([heart.head(2), heart.tail(1)])  # as Spark passes the rows of a partition
    >>> [batch.columns.tolist() for batch in assign(batches)]
    [['age', 'cluster'], ['age', 'cluster']]

    On Spark: ``frame.mapInPandas(assign, "age double, cluster int")``.
    """
    check_is_fitted(model)
    if not hasattr(model, "predict") or not (hasattr(model, "labels_") or hasattr(model, "classes_")):
        raise TypeError(
            f"spark_predict needs a model with one label for each row, got {type(model).__name__}; pass a "
            "CRAFT, for example."
        )
    if isinstance(columns, str):
        raise TypeError(f"columns must be a sequence of names, got {columns!r}; pass [{columns!r}].")
    dtype = model.classes_.dtype if hasattr(model, "classes_") else np.dtype(np.int32)
    return partial(
        _with_labels,
        model=without_rows(model),
        dtype=dtype,
        output=output,
        columns=None if columns is None else list(columns),
    )


def _with_labels(
    batches: Iterator[pd.DataFrame],
    *,
    model: BaseEstimator,
    dtype: np.dtype[Any],
    output: str,
    columns: list[str] | None,
) -> Iterator[pd.DataFrame]:
    known = set(getattr(model, "feature_names_in_", ()))
    for batch in batches:
        absent = [name for name in columns or () if name not in batch.columns]
        if absent:
            raise ValueError(
                f"columns names {', '.join(map(repr, absent))}, which the input lacks; it has "
                f"{listed(batch.columns, 20)}."
            )
        kept = batch if columns is None else batch[columns]
        if output in kept.columns:
            raise ValueError(
                f"The input has a column {output!r}; pass another name as output, or the columns to keep as "
                "columns."
            )
        rows = batch[[name for name in batch.columns if name in known]] if known else batch
        labels = model.predict(rows) if len(batch) else np.empty(0, dtype)
        yield kept.assign(**{output: labels})
