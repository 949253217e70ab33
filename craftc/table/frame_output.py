"""Tables that a fitted model returns, in the frame library of the table that it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from craftc._common.messages import need_pandas


def output_frame(
    columns: Mapping[Any, Any], library: str | None, attrs: Mapping[str, Any] | None = None, index: Any = None
) -> Any:
    """A data frame of these columns.

    Parameters
    ----------
    columns : dict of sequences or arrays
    library : "polars", "pandas" or None
        As `craftc._common.estimator.frame_library` returned it. None: pandas.
    attrs : dict, optional
        Attributes of a pandas frame; polars has none.
    index : pandas.Index, optional
        Index of a pandas frame.

    Raises
    ------
    ImportError
        The library is not installed.
    """
    if library == "polars":
        import polars as pl

        return pl.DataFrame({str(name): values for name, values in columns.items()}, strict=False)
    frame = need_pandas().DataFrame(dict(columns), index=index)
    frame.attrs |= dict(attrs or {})
    return frame
