"""The merge tree and the curve of what fewer clusters keep, from the merge path of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from craftc._common.merge_path import leaves_of, merges_of, objectives_of, saving_of
from craftc._common.typing import Labels
from craftc.describe.words import listing, percent

_TICKS = (1, 2, 3, 5, 8, 12, 17, 25, 42, 60, 100)
_LEAF, _MARGIN = 8.0, 14.0  # pixels between finer clusters, and around those of a cluster shown
_MANY = 15  # clusters; rows of a tree with more are low


@dataclass
class Branch:
    """A row of the tree: a cluster shown, its height in pixels and the number of finer clusters in it."""

    k: int
    height: float
    finer: int


@dataclass
class Curve:
    """Share of the saving kept by number of clusters; points, ticks and marks are in per cent of the axes."""

    points: str
    ticks: list[tuple[int, float]]
    marks: list[tuple[str, int, float, float]]
    words: str


@dataclass
class MergeTree:
    """What the page draws of a merge path."""

    finest: int  # clusters at the beginning of the path
    saving: float  # J(1) - J(finest), nats
    kept: dict[int, float]  # share of J(1) - J(best) that every number of clusters keeps
    branches: list[Branch] = field(default_factory=list)
    lines: str = ""
    height: float = 0.0
    cut: float = 0.0
    suggested_at: float = 0.0
    words: str = ""
    curve: Curve | None = None


def merge_tree(path: Any, labels: Labels, n_clusters: int, suggested: int) -> MergeTree | None:
    """The tree of a merge path, by shares of the saving lost; None if the finest clusters save nothing.

    `labels` are those of the partition into `n_clusters`, in the order of the page.
    """
    objectives = objectives_of(path)
    if len(objectives) < 2 or not objectives[-1][1] > objectives[0][1]:
        return None
    (finest, least), (_, one), most = objectives[0], objectives[-1], saving_of(objectives)
    lost = [min(1.0, max(0.0, (objective - least) / (one - least))) for _, objective in objectives]
    tree = MergeTree(finest, one - least, {k: (one - objective) / most for k, objective in objectives})
    _draw(tree, path, lost, labels, n_clusters)
    at = {k: round(100 * x, 2) for (k, _), x in zip(objectives, lost, strict=True)}
    tree.cut, tree.suggested_at = at.get(n_clusters, 0.0), at.get(suggested, 0.0)
    if len(objectives) > 3:
        tree.curve = _curve(tree.kept, n_clusters, suggested)
    return tree


def _draw(tree: MergeTree, path: Any, lost: list[float], labels: Labels, n_clusters: int) -> None:
    """Put the leaves in order, and place every node."""
    merges, nodes = merges_of([np.asarray(step.heirs) for step in path[1:]])
    first = np.bincount(path[0].labels, minlength=path[0].n_clusters)
    at = next(i for i, step in enumerate(path) if step.n_clusters == n_clusters)
    shown = _shown(path[at].labels, labels, nodes[at])
    cluster_of = {leaf: k for node, k in shown.items() for leaf in leaves_of(merges, first, node)}
    order = leaves_of(merges, first)
    least = 46.0 if n_clusters <= _MANY else 30.0
    where: dict[int, tuple[float, float]] = {}
    for k in dict.fromkeys(cluster_of[leaf] for leaf in order):
        mine = [leaf for leaf in order if cluster_of[leaf] == k]
        branch = Branch(k, round(max(least, _LEAF * len(mine) + _MARGIN)), len(mine))
        gap = min(_LEAF, (branch.height - _MARGIN) / len(mine))
        top = tree.height + branch.height / 2 - gap * (len(mine) - 1) / 2
        where.update({leaf: (0.0, top + gap * i) for i, leaf in enumerate(mine)})
        tree.branches.append(branch)
        tree.height += branch.height
    for node, merge in enumerate(merges, len(first)):
        ends = sorted((where[part] for part in merge.parts), key=lambda at: at[1])
        px = max(100 * lost[merge.step], *(end[0] for end in ends))
        stems = "".join(f"M{end[0]:.2f} {end[1]:.1f}H{px:.2f}" for end in ends)
        tree.lines += f"{stems}M{px:.2f} {ends[0][1]:.1f}V{ends[-1][1]:.1f}"
        where[node] = px, (ends[0][1] + ends[-1][1]) / 2
    words: list[str] = []
    for merge in [merge for merge in merges if merge.step > at][:30]:
        leaves = [leaves_of(merges, first, part) for part in merge.parts]
        numbers = [listing(sorted({cluster_of[leaf] + 1 for leaf in part})) for part in leaves]
        words.append(f"{' joins '.join(numbers)} at {percent(lost[merge.step])}")
    tree.words = "; ".join(words)


def _shown(step_labels: Labels, labels: Labels, node_of: list[int]) -> dict[int, int]:
    """Cluster shown of every node of the step that the page shows."""
    first = np.full(len(node_of), -1)
    first[step_labels[::-1]] = labels[::-1]
    return {node: int(k) for node, k in zip(node_of, first, strict=True)}


def _height(kept: float) -> float:
    """Per cent from the top of the curve's box; clusters that were asked for may save less than one."""
    return round(100 - 100 * max(0.0, kept), 2)


def _curve(kept: dict[int, float], n_clusters: int, suggested: int) -> Curve:
    most = max(kept)

    def at(k: int) -> float:
        return round(100 * math.log(k) / math.log(most), 2)

    ticks: list[tuple[int, float]] = []
    for k in [*(k for k in _TICKS if k < most), most]:
        while ticks and at(k) - ticks[-1][1] < 7.0:
            ticks.pop()
        ticks.append((k, at(k)))
    chosen = {n_clusters: "shown"}
    chosen[suggested] = "shown, suggested" if suggested == n_clusters else "suggested"
    marks = [(what, k, at(k), _height(kept[k])) for k, what in sorted(chosen.items()) if k in kept]
    listed = sorted(k for k in {2, 3, 5, 8, 17, most, *chosen} if k in kept and k > 1)
    return Curve(
        " ".join(f"{at(k)},{_height(kept[k])}" for k in sorted(kept)),
        ticks,
        marks,
        ", ".join(f"{k} clusters keep {percent(kept[k])}" for k in listed) + ".",
    )
