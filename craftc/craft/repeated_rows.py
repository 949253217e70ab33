"""Rows that are no evidence of their own: exact copies, and rows of things which were observed several times
(patients with visits, customers with orders).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks
from craftc._common.messages import listed, quoted
from craftc._common.typing import Integers
from craftc.reading.unusable import has_code_name
from craftc.table import MixedTable
from craftc.table.moments import Moments

_FEWEST, _ROWS_OF_EACH = 20, 1.5  # things, and rows of each on average
_COLUMNS = 2  # columns that have one value for each thing
_BY_CHANCE = 10.0  # nats by which it is unlikely that repeated rows agree in a column
_CANDIDATES = 30  # columns that are looked at
_ORDERED = 0.5  # of the changes in random order, below which a column follows from ranges of a number
_COMPARED = 1 << 14  # rows that are compared with each other
# least share of rows with a copy, and copies of a row over the number that clusters lead to expect
_COPIED, _BEYOND_CHANCE = 0.5, 5.0


def copied_rows(table: MixedTable, weight: Integers, moments: Moments) -> str | None:
    """A warning about exact copies of most rows of weight > 0 (empty: all of them), where clusters of these
    moments, inside which columns are independent, lead to expect hardly any.
    """
    if moments.n_clusters < 2:
        return None
    n, kept = len(table), list[NDArray[np.uint64]]()
    for rows in chunks(n):
        of_rows = _hashes(table, rows)
        if len(weight):
            of_rows = of_rows[weight[rows] > 0]
        # of a long table those of some values, so that all copies of a row are kept or none
        kept.append(of_rows if n <= _COMPARED else of_rows[of_rows < np.uint64(2**64 // n * _COMPARED)])
    counts = np.unique(np.concatenate(kept), return_counts=True)[1].astype(np.float64)
    total = float(counts.sum())
    if not total or counts[counts > 1].sum() < _COPIED * total:
        return None
    copies = float(counts @ (counts - 1.0)) / total
    if copies <= _BEYOND_CHANCE * n * _same_by_chance(moments, copies / n):
        return None
    return (
        f"Most rows have exact copies: on average {total / len(counts):.3g} rows are equal, which rows of "
        "such columns hardly are by chance. Every copy counts as evidence of its own, so that clusters may "
        "only show which rows are repeated; leave copies out, unless each is an observation of its own."
    )


def _hashes(table: MixedTable, rows: slice) -> NDArray[np.uint64]:
    """A random number for every row, the same of equal rows."""
    factors = np.random.default_rng(0).integers(1, 2**63, table.schema.n_columns, np.uint64) * 2 + 1
    numeric = table.numeric[rows] + 0.0  # 0.0 and -0.0 are one value
    cells = [*numeric.view(f"u{numeric.itemsize}").T, *table.codes[rows].T]
    hashes = np.zeros(len(numeric), np.uint64)
    for factor, column in zip(factors, cells, strict=True):
        hashes += column.astype(np.uint64) * factor
        hashes ^= hashes >> np.uint64(32)
    hashes *= factors[0]
    return hashes


def _same_by_chance(moments: Moments, same: float) -> float:
    """Probability that two rows are equal, if columns are independent inside clusters.

    It follows from the pairs of rows in a cluster that are not equal, and thus not from the copies, which are
    the share `same` of all pairs: clusters of a few rows and their copies agree in every column.
    """
    sizes, counts = moments.sizes, moments.counts
    together = (sizes / sizes.sum()) ** 2
    agree = np.add.reduceat(counts**2, moments.grid.level_start, axis=1) / sizes[:, None] ** 2
    equal = min(same / together.sum(), 1.0)
    others = np.divide(agree - equal, 1.0 - equal, out=np.ones_like(agree), where=equal < 1.0)
    return float(together @ np.maximum(others, 0.0).prod(axis=1))


def repeated_rows(sample: MixedTable) -> str | None:
    """A warning about the column whose rows of one value agree in most other columns, at least in two."""
    names = list(islice(_names(sample), _CANDIDATES))
    codes = dict(_codes(sample)) if names else {}
    best, fixed = "", list[str]()
    for name in names:
        same = _same_in_repeated_rows(name, codes, ordered=name in sample.schema.numeric_names)
        if len(same) > max(len(fixed), _COLUMNS - 1):
            best, fixed = name, same
    if not best:
        return None
    thing = quoted(best)
    return (
        f"Rows with the same {thing} are equal in {listed(fixed)}, as if they were one thing observed "
        f"several times, and clusters repeat these values; groups={thing} keeps such rows together."
    )


def _names(sample: MixedTable) -> Iterator[str]:
    """The columns that may name things: categories and whole numbers, first those with the name of a code."""
    schema = sample.schema
    for name, own in zip(schema.categorical_names, sample.codes.T, strict=True):
        if _FEWEST <= len(np.unique(own)) <= 1 + len(own) / _ROWS_OF_EACH:  # one may be the missing cells
            yield name
    numbers = zip(schema.numeric_names, sample.numeric.T, strict=True)
    for name, cells in sorted(numbers, key=lambda each: not has_code_name(each[0])):
        values = np.unique(cells[~np.isnan(cells)])
        if (values == np.floor(values)).all() and _FEWEST <= len(values) <= len(cells) / _ROWS_OF_EACH:
            yield name


def _codes(sample: MixedTable) -> Iterator[tuple[str, Integers]]:
    """Columns and the codes of their cells, -1 where one is missing."""
    schema = sample.schema
    for name, n_levels, own in zip(schema.categorical_names, schema.n_levels, sample.codes.T, strict=True):
        found = own.astype(np.int64)
        yield name, np.where(found < n_levels, found, -1)
    for name, cells in zip(schema.numeric_names, sample.numeric.T, strict=True):
        present = ~np.isnan(cells)
        found = np.full(len(cells), -1)
        found[present] = np.unique(cells[present], return_inverse=True)[1]
        yield name, found


def _same_in_repeated_rows(name: str, codes: dict[str, Integers], ordered: bool) -> list[str]:
    """The columns that have one value for each of the things in a column, which not all of these share.

    `ordered`: the things are numbers. Columns that follow from ranges of these, as classes of an age do, say
    nothing about things.
    """
    own = codes[name]
    rows = np.flatnonzero(own >= 0)
    _, first, thing = np.unique(own[rows], return_index=True, return_inverse=True)
    if not _FEWEST <= len(first) <= len(rows) / _ROWS_OF_EACH:
        return []
    repeated = rows[np.setdiff1d(np.arange(len(rows)), first)]
    before = rows[first][thing[np.isin(rows, repeated, assume_unique=True)]]
    same = []
    for other, found in codes.items():
        known = (found[repeated] >= 0) & (found[before] >= 0)
        if other == name or not (found[repeated] == found[before])[known].all():
            continue
        values, counts = np.unique(found[rows][found[rows] >= 0], return_counts=True)
        if not 2 <= len(values) < len(first) or known.sum() * _rarity(counts) <= _BY_CHANCE:
            continue
        if not (ordered and _follows_from_ranges(found[rows][first])):
            same.append(other)
    return same


def _follows_from_ranges(values: Integers) -> bool:
    """Whether values change seldom from one thing to the next, in the order of their numbers."""
    share = np.unique(values, return_counts=True)[1] / len(values)
    by_chance = len(values) * (1.0 - float((share * share).sum()))
    return int(np.count_nonzero(np.diff(values))) < _ORDERED * by_chance


def _rarity(counts: NDArray[np.integer]) -> float:
    """-log of the probability that two rows agree."""
    share = counts / counts.sum()
    return float(-np.log((share * share).sum()))
