"""The mixed table: numbers and category codes side by side, built once and read by every estimator.

A :class:`MixedTable` is two C-contiguous blocks, `numeric` (NaN = missing) and `codes` (small
unsigned integers; the code `n_levels[d]` = missing). Its :class:`Schema` says what each column is,
and turns later data with the same columns into a table with the same codes.
"""

from craftc.table.mixed_table import MixedTable, Schema

__all__ = ["MixedTable", "Schema"]
