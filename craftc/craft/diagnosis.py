"""Warnings about a table that the model cannot describe well, and columns that are no numbers.

**Whole numbers that are codes**, such as 1 to 8 for regions. A tilt describes a column by the order of its
values. Codes have none, and a scale may be polarised, or have another value for "does not apply". A few rows
are therefore searched once more, with shares of their own for the levels of all columns of few whole numbers.
For the partition that is found, some of these columns have a lower J as codes. They are codes, if J is lower
with them than that of the clusters without codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.random import CraftStream
from craftc._common.typing import Floats
from craftc._common.validation import scaled_to_worth
from craftc.craft.clusters import Clusters
from craftc.craft.links import groups_of_table, step_columns
from craftc.craft.progress import ProgressMeter
from craftc.craft.repeated_rows import copied_rows, repeated_rows
from craftc.craft.rows import L, S
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import EncodedRows, FitConfig, LocalConfig
from craftc.craft.search.automatic import MANY_CLUSTERS, diagonal_partitions
from craftc.describe.structure import nearly
from craftc.describe.words import listing
from craftc.table import MixedTable
from craftc.table.answers import answer_groups
from craftc.table.declared import KindsInput, name_of
from craftc.table.derived import derived_columns
from craftc.table.levels import LevelEncoding, NumberLevels
from craftc.table.moments import Moments
from craftc.table.sums import numbers_or_flags

_SAMPLE = 2000  # rows by which near-duplicate columns are found
_SAME = 0.98  # share of the information of a column that a near-duplicate repeats
_FEW_VALUES, _CODES = 64, 0.5  # distinct values, or share of the rows, of numbers that may encode a category
_PAIRS_OF_ROWS, _MOSTLY = 64, 0.6  # pairs of rows by which columns are compared at first, and share of them
_MOST_PAIRS = 10  # near-duplicates that are named
_CORRELATED = 0.9999  # of near-duplicate numbers
_COLUMNS_AT_ONCE = 512  # columns up to which all correlations are computed; beyond, projections come first
_DIRECTIONS, _ASKED_AT_ONCE = 8, 64  # of these projections, and columns whose neighbours are held
_WORTH = 1.5  # warn if rows count for more than this multiple of what they are worth
_LEAST_WORTH = 0.1  # or for less than this share of it
_LINKED = 0.5  # warn if column links save more than half of what clusters save
_FARTHER, _FEWEST_NEAR = 5.0, 10  # times the range of the other numbers, and distinct ones among these
_MOST_FAR = 5  # distinct numbers that are far from the others
_FRAGILE = 0.7  # share of the clusters that is left at four times the price
_ROWS, _FEWEST_ROWS = 1 << 12, 10  # among which codes are sought: at most, and at least
_FEWEST_LEVELS, _MOST_LEVELS = 3, 12  # of a column that may be codes
_STARTS = 2  # of the two searches


def slices_at_4(n_clusters: int, n_clusters_at_4: int | None, dependence_ratio: float) -> int | None:
    """The clusters that are left at four times the price, if they show that clusters are slices of a table
    with dependent columns.

    `n_clusters`: those of the best description. Separated clusters remain at four times the price, slices do
    not. If a single cluster remains, the table has too few rows for that price, which shows nothing.
    """
    if n_clusters_at_4 is None or n_clusters < MANY_CLUSTERS or dependence_ratio <= _LINKED:
        return None
    return n_clusters_at_4 if 1 < n_clusters_at_4 <= _FRAGILE * n_clusters else None


def diagnose(
    encoded: EncodedRows[L, S],
    moments: Moments,
    n_clusters: int,
    n_clusters_at_4: int | None,
    price_factor: float,
) -> list[str]:
    """Warnings about a table that the model cannot describe well: near-duplicate columns, sums, one-hot
    groups, copies of rows, things observed several times, weights as of a survey, and dependence inside the
    clusters of these `moments`, shown by `slices_at_4`. A column of a weight below 1 does not count in full.
    """
    rows, encoding = encoded.source, encoded.encoding
    assert isinstance(encoding, LevelEncoding)
    some = np.arange(0, len(rows), max(1, len(rows) // _SAMPLE))
    sample = rows.take(some)
    weight = dict(zip(sample.schema.columns, encoding.column_weights.tolist(), strict=True))
    found = (pair for pair in near_duplicates(sample) if min(map(weight.__getitem__, pair)) >= 1.0)
    pairs = list(islice(found, _MOST_PAIRS + 1))
    messages = _of_a_survey(encoded.weights)
    for a, b in pairs[:_MOST_PAIRS]:
        messages.append(
            f"Columns {quoted(str(a))} and {quoted(str(b))} are near-duplicates and both count in full, "
            "which exaggerates clusters along them; drop one."
        )
    if len(pairs) > _MOST_PAIRS:
        messages.append(f"More than {_MOST_PAIRS} pairs of columns are near-duplicates.")
    numbers: dict[str, Floats] = dict(zip(sample.schema.numeric_names, sample.numeric.T, strict=True))
    codes = _codes(sample)
    for name, levels in zip(sample.schema.categorical_names, sample.schema.levels, strict=True):
        if (own := numbers_or_flags(codes[name], levels) if len(levels) == 2 else None) is not None:
            numbers[name] = own
    partly = [name for name, each in weight.items() if each < 1.0]
    for name, reason in derived_columns(numbers, codes, partly).items():
        messages.append(
            f"Column {quoted(name)} is {reason} in every row and counts in full, which exaggerates clusters "
            "along it; drop it."
        )
    for pair in step_columns(encoding, encoded.rows.take(some).codes)[:_MOST_PAIRS]:
        finer, coarser = (quoted(sample.schema.columns[j]) for j in pair)
        messages.append(
            f"Column {coarser} is a coarser copy of {finer}, each of its values a range of it, and both "
            "count in full, which exaggerates clusters along them; drop one."
        )
    split = [set(each.positions) for each in answer_groups(sample.schema)]  # several may be true
    for group in groups_of_table(sample):
        if any(each.issuperset(group.columns) for each in split):
            continue
        if min(weight[sample.schema.columns[j]] for j in group.columns) >= 1.0:
            remedy = "make one column of them (pandas.from_dummies), or " if group.count == 1 else ""
            messages.append(
                f"{group.said(sample.schema.columns)}, as if they were one answer in several columns, and "
                f"clusters repeat these answers; {remedy}leave them out."
            )
    copied = copied_rows(rows.table, encoded.weight, moments) if isinstance(rows, LocalRows) else None
    if repeated := copied or repeated_rows(rows.take(np.arange(min(len(rows), _SAMPLE)))):
        messages.append(repeated)
    if isinstance(rows, LocalRows):
        messages.extend(_far_numbers(rows.table, encoding))
    if n_clusters_at_4 is not None:
        messages.append(
            f"CRAFT found {n_clusters} clusters; {n_clusters_at_4} of them would be left at "
            f"price_factor={4 * price_factor:g}. Columns seem to depend on each other inside clusters, and "
            "then the number of clusters is not a property of the data. Try "
            f"price_factor={2 * price_factor:g} to {4 * price_factor:g}, or cut(k) for fewer."
        )
    return messages


def _far_numbers(table: MixedTable, encoding: LevelEncoding) -> Iterator[str]:
    """Warnings about a few numbers far from all others, which share an interval with the next ones."""
    schema = table.schema
    dates = [schema.columns[j] for j in schema.dates]
    for name, own, cells in zip(schema.numeric_names, encoding.numbers, table.numeric.T, strict=True):
        values, (low, high) = own.values, own.ends
        if own.period or len(values) < _FEWEST_NEAR:
            continue
        for sign, end, inner, other in ((1.0, high, values[-2], low), (-1.0, low, values[1], high)):
            if not sign * (end - inner) > _FARTHER * sign * (inner - other):
                continue  # by the ends of the levels, without a look at the cells
            ascending = np.unique(sign * cells[~np.isnan(cells)].astype(np.float64))
            if not (n := _n_far(ascending)):
                continue
            texts = [_text(sign * x, name in dates) for x in ascending[[*range(-n, 0), 0, -n - 1]]]
            which, (low_end, high_end) = listing(texts[:-2]), texts[-2:][:: int(sign)]
            yield (
                f"Column {quoted(str(name))}: {which} {'is' if n == 1 else 'are'} far from all other cells, "
                f"{low_end} to {high_end}. Cells count by the intervals in which they lie, so that no "
                "outlier score shows how far; check for errors and codes of missing cells."
            )


def _n_far(ascending: Floats) -> int:
    """How many of distinct numbers, the largest, are far from all others."""
    for n in range(1, min(_MOST_FAR, len(ascending) - _FEWEST_NEAR) + 1):
        gap = ascending[-n] - ascending[-n - 1]
        if gap > _FARTHER * (ascending[-n - 1] - ascending[0]):
            return n
    return 0


def _text(number: float, is_date: bool) -> str:
    return str(np.datetime64(int(number), "D")) if is_date else f"{number:.6g}"


def _codes(sample: MixedTable) -> dict[str, NDArray[np.intp]]:
    """The codes of the categorical columns, -1 for a missing cell."""
    schema = sample.schema
    columns = zip(schema.categorical_names, schema.n_levels, sample.codes.T.astype(np.intp), strict=True)
    return {name: np.where(own < n_levels, own, -1) for name, n_levels, own in columns}


def _of_a_survey(weights: Floats | None) -> list[str]:
    """A warning about weights that count more rows than they are worth, or hardly any, as weights that sum to
    1 do; whole numbers may count rows that are repeated.
    """
    if weights is None or (weights == np.floor(weights)).all():
        return []
    total, worth = weights.sum(), scaled_to_worth(weights).sum()
    if total < _LEAST_WORTH * worth:
        return [
            f"sample_weight counts {total:,.4g} rows in all, in which hardly any cluster can be seen; rows "
            f"of such weights are worth {worth:,.4g}: multiply them by {worth / total:.3g}."
        ]
    if total <= _WORTH * worth:
        return []
    return [
        f"sample_weight counts repeated rows, {total:,.6g} in all, but rows of so different weights are "
        f"worth {worth:,.4g} of equal weights, and a heavy row looks like a cluster. If these are "
        f"weights of a survey, multiply them by {worth / total:.3g}."
    ]


def near_duplicates(sample: MixedTable) -> Iterator[tuple[str, str]]:
    """Pairs of columns that determine each other: numeric columns by correlation, others (and numeric ones of
    few values) by entropy.
    """
    names = sample.schema.numeric_names
    if len(sample) < 10:
        return
    alike = set(_equal_numbers(_standardised(sample.numeric)))
    if len(names) <= _COLUMNS_AT_ONCE:  # in another unit, or on another scale: logarithms, ranks
        alike |= set(_equal_numbers(_standardised(_ranks(sample.numeric))))
    for i, j in sorted(alike):
        yield names[i], names[j]
    columns = list(zip(sample.schema.categorical_names, sample.codes.T.astype(np.intp), strict=True))
    n_categorical = len(columns)
    if not n_categorical:
        return
    for name, numbers in zip(names, sample.numeric.T, strict=True):
        values, codes = np.unique(numbers, return_inverse=True)
        if len(values) <= max(_FEW_VALUES, _CODES * len(codes)):
            columns.append((name, codes))
    entropies = [_entropy_of(np.bincount(codes)) for _, codes in columns]
    all_codes = np.column_stack([codes for _, codes in columns])
    for i in range(n_categorical):
        for j in _candidates(all_codes, i):
            least, most = sorted((entropies[i], entropies[j]))
            if least > 0.1 and least > _SAME * most:
                both = columns[i][1] * (columns[j][1].max() + 1) + columns[j][1]
                joint = _entropy_of(np.unique(both, return_counts=True)[1])  # of the pairs that occur
                if least + most - joint > _SAME * most:
                    yield columns[i][0], columns[j][0]


def _equal_numbers(scaled: Floats) -> Iterator[tuple[int, int]]:
    """Pairs i < j, in order, of standardised columns (n, p) with a correlation beyond `_CORRELATED`.

    Of many columns, those are compared whose projections on a few directions are as near as they then must
    be.
    """
    n, p = scaled.shape
    if p <= _COLUMNS_AT_ONCE:
        correlation = scaled.T @ scaled
        for i, j in np.argwhere(np.triu(np.abs(correlation) > _CORRELATED, 1)).tolist():
            yield i, j
        return
    from scipy.spatial import KDTree  # which few tables need

    own = np.flatnonzero(scaled.any(axis=0))
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(n, min(_DIRECTIONS, n))))[0]
    at = scaled[:, own].T @ directions
    tree, nearest = KDTree(np.concatenate([at, -at])), math.sqrt(2.0 - 2.0 * _CORRELATED) + 1e-9
    for first in range(0, len(own), _ASKED_AT_ONCE):
        found = tree.query_ball_point(at[first : first + _ASKED_AT_ONCE], nearest)
        for i, near in enumerate(found, start=first):
            later = np.unique(np.array(near) % len(own))
            later = later[later > i]
            if len(later):
                correlation = scaled[:, own[i]] @ scaled[:, own[later]]
                for j in later[np.abs(correlation) > _CORRELATED].tolist():
                    yield int(own[i]), int(own[j])


def _candidates(codes: NDArray[np.intp], i: int) -> list[int]:
    """The later columns that may determine column i and be determined by it, by a few pairs of rows.

    Where two columns share 98 % of their information, nearly all rows that are equal in one are equal in
    the other, and nearly all that differ in one differ in the other.
    """
    own, later = codes[:, i], codes[:, i + 1 :]
    order = np.argsort(own, kind="stable")
    equal = np.flatnonzero(own[order[:-1]] == own[order[1:]])
    largest = own == np.bincount(own).argmax()
    inside, outside = np.flatnonzero(largest), np.flatnonzero(~largest)
    alike = np.ones(later.shape[1], np.bool_)
    if len(equal):
        some = equal[np.linspace(0, len(equal) - 1, _PAIRS_OF_ROWS).astype(np.intp)]
        alike &= (later[order[some]] == later[order[some + 1]]).mean(axis=0) > _MOSTLY
    if len(outside):
        one, two = (
            rows[np.linspace(0, len(rows) - 1, _PAIRS_OF_ROWS).astype(np.intp)] for rows in (inside, outside)
        )
        alike &= (later[one] != later[two]).mean(axis=0) > _MOSTLY
    return (np.flatnonzero(alike) + i + 1).tolist()


def _ranks(X: NDArray[np.floating]) -> Floats:
    """Ranks in every column, equal ones of equal numbers; NaN of missing cells."""
    ranks = np.full(X.shape, np.nan)
    for own, cells in zip(ranks.T, X.T, strict=True):
        present = ~np.isnan(cells)
        _, inverse, counts = np.unique(cells[present], return_inverse=True, return_counts=True)
        own[present] = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    return ranks


def _standardised(X: NDArray[np.floating]) -> Floats:
    """Centred columns with sums of squares of 1, whose products are correlations; 0 for a missing cell and
    for a constant column.
    """
    present = ~np.isnan(X)
    count = np.maximum(present.sum(axis=0), 1)
    cells = np.where(present, X, 0.0).astype(np.float64)
    cells /= np.maximum(np.abs(cells).max(axis=0, initial=0.0), np.finfo(float).tiny)  # squares stay finite
    centred = np.where(present, cells - cells.sum(axis=0) / count, 0.0)
    size = np.sqrt((centred * centred).sum(axis=0))
    return np.asarray(centred / np.where(size > 0, size, 1.0))


def _entropy_of(counts: NDArray[np.intp]) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def codes_among(
    encoded: EncodedRows[L, S],
    config: FitConfig[L, S],
    objective: float,
    target: int | None,
    kinds: KindsInput = None,
) -> list[int]:
    """The numeric columns that are codes, as positions among these. `objective`: J of the clusters that have
    been found; `target`: their number, if it was given; `kinds`: what columns were declared to be.
    """
    encoding = encoded.encoding
    assert isinstance(encoding, LevelEncoding)
    schema = encoding.input_schema
    declared = {name_of(column, schema.named) for column in kinds or {}}
    each = zip(schema.numeric_names, encoding.numbers, strict=True)
    some = [d for d, (name, own) in enumerate(each) if name not in declared and _may_be_codes(own)]
    if not some or encoding.codes or encoding.null == "normal" or encoded.background.weight < _FEWEST_ROWS:
        return []
    positions, sample = config.sample(_ROWS, CraftStream.CODES_SAMPLE)
    sample = replace(sample, meter=ProgressMeter(), callback=None)
    if len(positions) < len(config.rows):
        objective = _searched(sample, target)[1]
    coded = encoded.with_codes(some)
    assert isinstance(coded.encoding, LevelEncoding)
    as_codes = replace(sample, background=coded.background, encoding=coded.encoding)
    moments = _searched(as_codes, target)[0]

    def objective_of(of: EncodedRows[L, S]) -> float:
        return Clusters(moments, of.background, sample.spec).objective

    as_numbers = objective_of(encoded)
    codes = [d for d in some if objective_of(encoded.with_codes([d])) < as_numbers]
    shorter = objective_of(encoded.with_codes(codes)) < objective - nearly(sample.spec.price_factor)
    return codes if shorter else []


def _may_be_codes(own: NumberLevels) -> bool:
    """Whether a numeric column has few whole numbers."""
    few = _FEWEST_LEVELS <= len(own.values) <= _MOST_LEVELS
    return few and not own.period and bool((own.values == np.rint(own.values)).all())


def _searched(config: LocalConfig, target: int | None) -> tuple[Moments, float]:
    """The clusters of a few rows, and their J."""
    search, found = diagonal_partitions(config, _STARTS, "auto", target)
    return search.moments(found[-1]), config.background.cost + found[-1].objective
