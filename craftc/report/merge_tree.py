"""The merge tree and the curve of what fewer clusters keep, from the merge path of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from craftc._common.merge_path import MergePath, leaves_of, merges_of, objectives_of, saving_of
from craftc._common.typing import Ints
from craftc.describe.words import listing, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from craftc._common.merge_path import MergeStep

_TICKS = (1, 2, 3, 5, 8, 12, 17, 25, 42, 60, 100)
_LISTED = (2, 3, 5, 8, 17)  # numbers of clusters of the sentence
_ROW, _LOW_ROW = 46, 30  # pixels of a cluster
_MANY = 15  # clusters; rows of a tree with more are low
_MOST_WORDS = 30  # merges in words


@dataclass
class Curve:
    """Share of the saving kept by number of clusters; points, ticks and dots are in per cent of the axes."""

    points: str
    ticks: list[tuple[int, float]]
    dots: list[tuple[int, float, float]]
    words: str


@dataclass
class MergeTree:
    """What the page draws of a merge path. Clusters have the numbers of the page, counted from 0."""

    saving: float  # J(1) - J, nats
    kept: dict[int, float]  # share of J(1) - J(best) that every number of clusters keeps
    order: list[int] = field(default_factory=list)  # of the clusters, from above
    row_height: int = _ROW
    height: float = 0.0
    lines: str = ""
    words: str = ""
    curve: Curve | None = None


def merge_tree(path: Sequence[MergeStep], sizes: Ints, number_of: Ints) -> MergeTree | None:
    """The tree of a merge path, by shares of the saving lost; None if the clusters save nothing.

    `sizes` (K,) in the order of the page; `number_of` (K,) the place of every label in it.
    """
    objectives = objectives_of(path)
    if not isinstance(path, MergePath) or len(objectives) < 2 or not objectives[-1][1] > objectives[0][1]:
        return None
    (_, least), (_, one), most = objectives[0], objectives[-1], saving_of(objectives)
    lost = [min(1.0, max(0.0, (objective - least) / (one - least))) for _, objective in objectives]
    tree = MergeTree(one - least, {k: (one - objective) / most for k, objective in objectives})
    _draw(tree, path, lost, sizes[number_of], number_of.tolist())
    if len(objectives) > 2:
        tree.curve = _curve(tree.kept)
    return tree


def _draw(tree: MergeTree, path: MergePath, lost: list[float], sizes: Ints, number_of: list[int]) -> None:
    """Put the leaves in order, and place every node."""
    merges, _ = merges_of([change.heirs for change in path.changes()])
    leaves = leaves_of(merges, sizes)
    tree.order = [number_of[leaf] for leaf in leaves]
    tree.row_height = _ROW if len(leaves) <= _MANY else _LOW_ROW
    tree.height = float(tree.row_height * len(leaves))
    where = {leaf: (0.0, tree.row_height * (i + 0.5)) for i, leaf in enumerate(leaves)}
    words: list[str] = []
    for node, merge in enumerate(merges, len(leaves)):
        ends = sorted((where[part] for part in merge.parts), key=lambda at: at[1])
        px = max(100 * lost[merge.step], *(end[0] for end in ends))
        stems = "".join(f"M{end[0]:.2f} {end[1]:.1f}H{px:.2f}" for end in ends)
        tree.lines += f"{stems}M{px:.2f} {ends[0][1]:.1f}V{ends[-1][1]:.1f}"
        where[node] = px, (ends[0][1] + ends[-1][1]) / 2
        parts = (leaves_of(merges, sizes, part) for part in merge.parts)
        numbers = [listing(sorted(number_of[leaf] + 1 for leaf in part)) for part in parts]
        words.append(f"{' joins '.join(numbers)} at {percent(lost[merge.step])}")
    tree.words = "; ".join(words[:_MOST_WORDS])


def _height(kept: float) -> float:
    """Per cent from the top of the curve's box; clusters that were asked for may save less than one."""
    return round(100 - 100 * max(0.0, kept), 2)


def _curve(kept: dict[int, float]) -> Curve:
    most = max(kept)

    def at(k: int) -> float:
        return round(100 * math.log(k) / math.log(most), 2)

    ticks: list[tuple[int, float]] = []
    for k in [*(k for k in _TICKS if k < most), most]:
        while ticks and at(k) - ticks[-1][1] < 7.0:
            ticks.pop()
        ticks.append((k, at(k)))
    listed = sorted(k for k in {*_LISTED, most} if k in kept)
    return Curve(
        " ".join(f"{at(k)},{_height(kept[k])}" for k in sorted(kept)),
        ticks,
        [(k, at(k), _height(kept[k])) for k in sorted(kept)],
        ", ".join(f"{k} clusters keep {percent(kept[k])}" for k in listed) + ".",
    )
