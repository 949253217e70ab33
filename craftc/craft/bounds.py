"""Bounds on the number of clusters and their sizes, and groups of rows, as parameters give them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from craftc._common.messages import array_of, quoted
from craftc._common.typing import Array, Integers, Labels, WeightInput
from craftc.craft.parameters import ClusterCount, range_of, size_in_rows
from craftc.craft.rows import L, RowStore, S
from craftc.craft.search import AutomaticResult, LocalConfig
from craftc.craft.search.constrained import Bounds, constrained_fit
from craftc.table import MixedTable
from craftc.table.declared import KindsInput
from craftc.table.frames import open_source
from craftc.table.out_of_core import is_out_of_core

#: The name of a column, or a label for every row.
GroupsInput: TypeAlias = "str | ArrayLike | None"


def bounds_of(
    n_clusters: ClusterCount,
    limit: int,
    sizes: tuple[float | None, float | None],
    groups: Labels | None,
    weight: Integers,
    unit: float,
    n: int,
) -> Bounds | None:
    """The bounds on clusters of n rows whose counts weigh `unit` each (`weight`: empty: all one); None if
    there are none besides a number of clusters. `limit`: largest number where it is not given.

    Raises ValueError where no partition satisfies them.
    """
    if sizes == (None, None) and groups is None:
        return None
    counts = weight if len(weight) else np.ones(n, np.int64)
    whole = int(counts.sum())
    total, rows = whole * unit, "rows" if unit == 1.0 else "of weight"
    smallest, largest = (None if size is None else size_in_rows(size, total) for size in sizes)
    # sizes beyond the table may be too large to count in units
    least = 1 if smallest is None else max(math.ceil(min(smallest, 2 * total) / unit * (1 - 1e-12)), 1)
    most = whole if largest is None else min(math.floor(min(largest, total) / unit * (1 + 1e-12)), whole)
    low, high = range_of(n_clusters, limit)
    asked = "" if n_clusters is None else f" and n_clusters={n_clusters}"
    own = [f"min_cluster_size={sizes[0]}", f"max_cluster_size={sizes[1]}"]
    if smallest is not None and largest is not None and least > most:
        raise ValueError(
            f"{own[0]} is more than {own[1]}: {smallest:.6g} and {largest:.6g} {rows} of the {total:.6g}; "
            "give a smaller minimum or a larger maximum."
        )
    if smallest is not None and low * least > whole:
        need = f"{asked} need {low} clusters of" if low > 1 else " needs"
        raise ValueError(
            f"{own[0]}{need} {smallest:.6g} {rows}, but the table has {total:.6g}; ask for smaller "
            f"clusters{' or fewer of them' if low > 1 else ''}."
        )
    of_units, kind = counts, "row"
    if groups is not None:
        of_units, kind = np.zeros(int(groups.max()) + 1, np.int64), "group"
        np.add.at(of_units, groups, counts)
    if largest is not None and of_units.max() > most:
        heaviest = int(of_units.argmax())
        raise ValueError(
            f"{own[1]} is {largest:.6g} {rows}, but one {kind} has {of_units.max() * unit:.6g} (number "
            f"{heaviest} by its first row), and a {kind} stays in one cluster; give a larger maximum."
        )
    if largest is not None and high * most < whole:
        limited = asked or f" and max_clusters={limit}"
        raise ValueError(
            f"{own[1]}{limited} leave room for {high * most * unit:.6g} {rows}, but the table has "
            f"{total:.6g}; ask for larger or more clusters."
        )
    fewest, n_units = -(-whole // most), int(np.count_nonzero(of_units))
    if n_units < max(low, fewest):
        raise ValueError(
            f"The table has {n_units} {kind}s of positive weight, too few for {max(low, fewest)} clusters; "
            "ask for fewer or larger clusters."
        )
    low, high = max(low, fewest), min(high, whole // least, n_units)
    if low > high:
        raise ValueError(
            f"{own[0]} allows at most {high} clusters, {own[1]} needs at least {low}; change one of the two."
        )
    return Bounds(low, high, least, most, groups)


def within(bounds: Bounds, config: LocalConfig, result: AutomaticResult[Array]) -> AutomaticResult[Array]:
    """The result of a free search, or the best partition within bounds, where it is not. Raises ValueError if
    none is found.
    """
    found = constrained_fit(config, result, bounds)
    if found is not None:
        return found
    kind, unit = "weights" if bounds.groups is None else "groups", config.background.count_weight
    raise ValueError(
        f"No partition into {bounds.low} to {bounds.high} clusters of {bounds.least * unit:.6g} to "
        f"{bounds.most * unit:.6g} rows was found: the {kind} of rows are too unequal to fill clusters so "
        "exactly; give min_cluster_size and max_cluster_size more room."
    )


def groups_of(X: object, groups: GroupsInput, n: int) -> Labels | None:
    """(n,) the group of every row, numbered by first appearance; a row without a group has one of its own."""
    if groups is None:
        return None
    values: object = groups
    if isinstance(groups, str):
        source = open_source(X)
        values = np.fromiter(source.cells(source.names.index(groups)), object, source.n_rows)
    array = array_of("groups", values, "the name of a column, or one label for every row")
    if array.shape != (n,):
        raise ValueError(
            f"groups must be the name of a column, or one label for each of the {n} rows, got shape "
            f"{array.shape}."
        )
    number: dict[object, int] = {}
    out = np.empty(n, np.int32)
    for row, label in enumerate(array.tolist()):
        missing = label is None or label != label  # NaN and NaT differ from themselves
        out[row] = number.setdefault(row if missing else ("group", label), len(number))
    return out


def without_groups(X: object, groups: GroupsInput, kinds: KindsInput) -> KindsInput:
    """The kinds of columns by which the column of groups takes no part; raise unless X has the column."""
    if not isinstance(groups, str):
        return kinds
    if is_out_of_core(X) or isinstance(X, MixedTable | np.ndarray):
        raise ValueError(
            f"groups={groups!r} names a column, which needs a data frame or a dict of columns, got "
            f"{type(X).__name__}; pass an array with one label for every row."
        )
    source = open_source(X)
    if not source.named or groups not in source.names:
        known = ", ".join(map(quoted, cast("Sequence[str]", source.names[:8])))
        raise ValueError(f"groups={groups!r} is no column of X, whose columns are {known}.")
    return cast("KindsInput", dict(cast("Mapping[str, object]", kinds or {})) | {groups: "ignore"})


def check_n_clusters(n_clusters: int, rows: RowStore[L, S]) -> None:
    """Raise if the table of these rows has fewer distinct rows than `n_clusters`."""
    n, kind = len(rows), "rows"
    if n_clusters <= n:
        n, kind = rows.n_distinct(n_clusters), "distinct rows"
    if n < n_clusters:
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {n} {kind} of the table; ask for fewer clusters."
        )


def check_partitioned(init: object, outlier_price: float | None, weight: WeightInput, bounded: bool) -> None:
    """Raise ValueError if a fit on partitions is not defined with these parameters. `bounded`: whether sizes
    of clusters are bounded, or groups of rows stay together.
    """
    problem = ""
    if not (isinstance(init, str) and init == "auto"):
        problem = f"init='auto', got {init!r}"
    elif outlier_price is not None:
        problem = (
            f"outlier_price=None, got {outlier_price!r}; predict marks outliers after "
            "set_params(outlier_price=...)"
        )
    elif weight is not None:
        problem = "rows without weights; repeat rows instead of passing sample_weight"
    elif bounded:
        problem = (
            "clusters without min_cluster_size, max_cluster_size and groups, which need all rows in one "
            "process; fit a sample in memory, and predict the collection"
        )
    if problem:
        raise ValueError(f"A fit on Partitions or a Dask collection needs {problem}.")
