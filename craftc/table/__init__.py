"""Mixed tables: a block of numbers and a block of category codes, built once and accepted by every estimator
for mixed data.

A :class:`craftc.MixedTable` has two C-contiguous blocks, `numeric` (NaN = missing) and `codes` (small
unsigned integers; the code `n_levels[d]` = missing). Its :class:`Schema` describes the columns and encodes
new data with the same codes.
"""

from craftc.table.mixed_table import MixedTable, Schema

__all__ = ["MixedTable", "Schema"]
