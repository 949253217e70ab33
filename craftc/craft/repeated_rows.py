"""Columns that name things which were observed several times: patients with visits, customers with orders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import listed, quoted
from craftc._common.typing import Integers
from craftc.reading.unusable import has_code_name, is_code
from craftc.table import MixedTable

_FEWEST, _ROWS_OF_EACH = 20, 1.5  # things, and rows of each on average
_COLUMNS = 2  # columns that have one value for each thing
_BY_CHANCE = 10.0  # nats by which it is unlikely that repeated rows agree in a column
_CANDIDATES = 30  # columns that are looked at


def repeated_rows(sample: MixedTable) -> str | None:
    """A warning about the column whose rows of one value agree in most other columns, at least in two."""
    names = list(islice(_names(sample), _CANDIDATES))
    codes = dict(_codes(sample)) if names else {}
    best, fixed = "", list[str]()
    for name in names:
        same = _same_in_repeated_rows(name, codes)
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
    """The columns that may name things: categories, and numbers with the name of a code."""
    schema = sample.schema
    for name, own in zip(schema.categorical_names, sample.codes.T, strict=True):
        if _FEWEST <= len(np.unique(own)) <= 1 + len(own) / _ROWS_OF_EACH:  # one may be the missing cells
            yield name
    for name, cells in zip(schema.numeric_names, sample.numeric.T, strict=True):
        if not has_code_name(name):
            continue
        values = np.unique(cells[~np.isnan(cells)].astype(np.float64))
        if (values == np.floor(values)).all() and is_code(name, values):
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


def _same_in_repeated_rows(name: str, codes: dict[str, Integers]) -> list[str]:
    """The columns that have one value for each of the things in a column, which not all of these share."""
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
        values, counts = np.unique(found[rows][found[rows] >= 0], return_counts=True)
        if other == name or not 2 <= len(values) < len(first):
            continue
        if (found[repeated] == found[before])[known].all() and known.sum() * _rarity(counts) > _BY_CHANCE:
            same.append(other)
    return same


def _rarity(counts: NDArray[np.integer]) -> float:
    """-log of the probability that two rows agree."""
    share = counts / counts.sum()
    return float(-np.log((share * share).sum()))
