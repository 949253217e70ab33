"""Links between columns, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc.craft.diagnosis import near_duplicates
from craftc.craft.links import ROWS, step_columns
from craftc.describe.words import number, percent
from craftc.report.columns import DrawnColumn, Pairs
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding
from craftc.table.personal import HIDDEN

if TYPE_CHECKING:
    from craftc.craft.base import CraftBase

_MOST = 30
_LEAST_SHARE, _LEAST_ROWS = 0.01, 5  # of the rows of a level whose median is named


@dataclass
class Link:
    first: str
    second: str
    nats: float  # that the link saves
    share: float  # of the simpler column's information that the other repeats
    words: str
    near_duplicates: bool
    coarser: str = ""  # the one that is a coarser copy of the other


def column_links(model: CraftBase, columns: list[DrawnColumn], pairs: Pairs, table: MixedTable) -> list[Link]:
    """The links of a model, without those of columns that have no common row in the table."""
    place = {name: d for d, name in enumerate(model.schema_.columns)}
    encoding, coarser = model._fitted.encoding, dict[frozenset[int], int]()
    some = table.take(np.arange(0, len(table), max(1, len(table) // ROWS)))
    if isinstance(encoding, LevelEncoding):
        copies = step_columns(encoding, encoding.apply(some).codes)
        coarser = {frozenset(pair): pair[1] for pair in copies}
    duplicates = {frozenset((place[a], place[b])) for a, b in near_duplicates(some)}
    out = []
    for first, second, nats in model.column_links_[:_MOST]:
        a, b = place[first], place[second]
        if not pairs.joint(a, b).any():
            continue  # clusters that were kept, and no row of this table has a value in both columns
        share = pairs.alike(a, b)
        words = _words(a, b, columns, pairs, table)
        copy = coarser.get(frozenset((a, b)))
        alike = copy is None and (share > 0.98 or frozenset((a, b)) in duplicates)
        copied = "" if copy is None else columns[copy].name
        out.append(Link(columns[a].name, columns[b].name, float(nats), share, words, alike, copied))
    return out


def _words(a: int, b: int, columns: list[DrawnColumn], pairs: Pairs, table: MixedTable) -> str:
    one, two = columns[a], columns[b]
    if one.personal or two.personal:
        return HIDDEN
    if one.numeric and two.numeric and "bands" not in (one.style, two.style):
        return _correlation(a, b, columns, pairs)
    if two.style == "curve":
        one, two = two, one
    if one.style == "curve":
        return _medians(one, two, table)
    joint = pairs.joint(a, b)
    p, q = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.nan_to_num(joint * np.log(joint / (p * q)), nan=0.0)
    s, t = np.unravel_index(int(part.argmax()), joint.shape)
    one, two = columns[a], columns[b]
    return (
        f"where {one.short} is {one.labels[s]}, {two.short} is {two.labels[t]} in "
        f"{percent(float(joint[s, t] / max(p[s, 0], 1e-12)))} of rows (table {percent(float(q[0, t]))})"
    )


def _correlation(a: int, b: int, columns: list[DrawnColumn], pairs: Pairs) -> str:
    """The correlation of ranks, by bands of equal size."""
    joint = pairs.joint(a, b)
    x, y = joint.sum(axis=1), joint.sum(axis=0)
    rank_x, rank_y = np.cumsum(x) - x / 2 - 0.5, np.cumsum(y) - y / 2 - 0.5
    size = np.sqrt((x @ rank_x**2) * (y @ rank_y**2))
    r = float(rank_x @ joint @ rank_y / size) if size > 0 else 0.0
    more = "higher" if r > 0 else "lower"
    names = f"higher {columns[a].short} goes with {more} {columns[b].short}"
    return f"{names} (rank correlation about {number(round(r, 2))})"


def _medians(curve: DrawnColumn, other: DrawnColumn, table: MixedTable) -> str:
    """The levels of a column in which a number has the highest and the lowest median."""
    x = table.numeric[:, curve.place].astype(np.float64)
    seen = ~np.isnan(x) & (other.codes < other.n_codes)
    n = np.bincount(other.codes[seen], minlength=other.n_codes)
    levels = np.flatnonzero(n >= max(_LEAST_ROWS, _LEAST_SHARE * seen.sum())).tolist()
    if len(levels) < 2:
        return f"the median of {curve.short} depends on {other.short}"
    median = {t: float(np.median(x[seen & (other.codes == t)])) for t in levels}
    high, low = max(levels, key=median.__getitem__), min(levels, key=median.__getitem__)
    return (
        f"median {curve.short} is {curve.text(median[high])} where {other.short} is {other.labels[high]}, "
        f"{curve.text(median[low])} where it is {other.labels[low]}"
    )
