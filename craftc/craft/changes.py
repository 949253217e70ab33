"""Which clusters of a refit continue which former ones, and what became of the others.

The rows of the new table are assigned to the former clusters. A former cluster i and a cluster j of the refit
agree by the Jaccard coefficient of their rows, times the similarity of their distributions, the Bhattacharyya
coefficients of the columns on average by the gains of cluster i. The assignment of the largest sum of
agreements matches them. Of the others,

* a new one that lies in a former one comes from a split of it: no level has far more rows than the former
  cluster had there; otherwise it was born,
* a former one whose rows lie in a new one has merged with it; if hardly any of its rows are left, or their
  distributions have nothing in common, it died.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from craftc._common.estimator import output_frame
from craftc._common.typing import Floats, Ints, Labels, OutputFrame
from craftc.describe.words import clean, count, percent

KINDS = ("kept", "split", "merged", "born", "died")
_LEAST_ROWS, _LEAST_SIMILAR = 0.05, 0.2  # Jaccard coefficient and similarity of clusters that match
_MOST = 0.5  # share of rows that is most of them
_GONE = 0.2  # share of its former share of the table below which a cluster is gone
_RARE = 3.0  # rows of a level that none of n rows had: below 3 / n of them, with 95 % certainty
_DEVIATIONS = 2.0  # standard deviations of a count that are chance


class Segment(NamedTuple):
    """A cluster of a refit, or a former one that has no successor of its own."""

    change: str  # one of KINDS
    cluster: int  # label now; -1: it has none
    name: str
    former: int  # label in the model that was refitted; -1: it had none
    other: int  # of a part of a split: the former cluster; of a cluster that has merged: the cluster now
    then: float  # share of the rows of the former fit
    now: float  # share of the rows of the refit


@dataclass(frozen=True, repr=False)
class Changes:
    """What a refit has changed in the clusters; ``changes_`` of a refitted `CRAFT`.

    Attributes
    ----------
    segments : list of Segment
        The clusters in the order of their numbers, then the former ones without a successor of their own.
        Each has `change` ("kept", "split", "merged", "born" or "died"), `cluster` and `former` (labels now
        and then; -1: none), `other` (of a part of a split the former cluster, of a cluster that has merged
        the one that it has joined; otherwise -1), `name`, and its shares `then` and `now`.
    rows : float
        Rows of the refit; with weights, their sum.
    notes : list of str
        How the table was read, and which levels are new.
    former_numbers : list of int
        The number of every former cluster in reports and files, by its label.
    """

    segments: list[Segment]
    rows: float
    notes: list[str] = field(default_factory=list)
    former_numbers: list[int] = field(default_factory=list)
    _library: str | None = None

    def __repr__(self) -> str:
        each = "".join(f"\n  {sentence}" for sentence in self.sentences())
        return f"Changes({count(self.rows)} rows; {self.counts}{each})"

    @property
    def counts(self) -> str:
        """How many segments have each change: "3 kept, 1 born"."""
        found = [each.change for each in self.segments]
        return ", ".join(f"{found.count(kind)} {kind}" for kind in KINDS if kind in found)

    def of(self, change: str) -> list[Segment]:
        """The segments with one change."""
        return [each for each in self.segments if each.change == change]

    def clusters(self) -> OutputFrame:
        """Data frame of the segments: change, cluster, name, former, other, then, now."""
        columns = {name: [getattr(each, name) for each in self.segments] for name in Segment._fields}
        return output_frame(columns, self._library)

    def sentences(self, numbers: Sequence[int] = ()) -> list[str]:
        """A line for every segment. `numbers` (K,): those of the clusters in reports and files, by which
        former ones are shown, too; by default labels.
        """
        former = self.former_numbers if len(numbers) else ()
        return [self._sentence(each, numbers, former) for each in self.segments]

    @staticmethod
    def _sentence(each: Segment, now: Sequence[int], then: Sequence[int]) -> str:
        def number(k: int, numbers: Sequence[int]) -> str:
            return str(numbers[k] if len(numbers) else k)

        name = clean(each.name)
        shares = f"{percent(each.then)} then, {percent(each.now)} now"
        if each.cluster < 0:
            gone = number(each.former, then)
            rest = "died" if each.change == "died" else f"merged with {number(each.other, now)}"
            return f"- {name}: {rest} (was {gone}), {percent(each.then)} then"
        own = number(each.cluster, now)
        if each.change == "born":
            return f"{own} {name}: born, {percent(each.now)} now"
        if each.former < 0:
            return f"{own} {name}: split from {number(each.other, then)}, {percent(each.now)} now"
        was = number(each.former, then)
        moved = "" if was == own else f" (was {was})"
        return f"{own} {name}: {each.change}{moved}, {shares}"


@dataclass(frozen=True, eq=False)
class Traces:
    """What former clusters and those of a refit have in common: rows, and levels as the former model has
    them.
    """

    pairs: Floats  # (K, K') weight of the rows of the refit that they share
    shares: Floats  # (K,) of the rows of the former fit
    then: Floats  # (K, n_levels) weight of every level in the former fit
    now: Floats  # (K', n_levels) and in the refit
    ends: Ints  # (q + 1,) first level of every column, and the end
    gains: Floats  # (K, q) of the columns in which a former cluster differs
    outside: Floats  # (K', q) share of the rows of the refit with values that the former fit has not seen

    def similarity(self) -> Floats:
        """(K, K') of the distributions."""
        weights = np.maximum(self.gains, 0.0)
        weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        out = np.zeros(self.pairs.shape)
        for d in range(len(self.ends) - 1):
            levels = slice(self.ends[d], self.ends[d + 1])
            then, now = _shares(self.then[:, levels]), _shares(self.now[:, levels])
            both = np.sqrt(then) @ np.sqrt(now).T
            both[~then.any(axis=1)] = 1.0
            both[:, ~now.any(axis=1)] = 1.0
            out += weights[:, d, None] * both * (1.0 - self.outside[:, d])
        return out

    def lies_in(self, j: int, i: int) -> bool:
        """Whether the rows of a new cluster can be a part of those of a former one."""
        rows, size = self.pairs[i].sum(), self.now[j]
        for d in range(len(self.ends) - 1):
            levels = slice(self.ends[d], self.ends[d + 1])
            then, now = self.then[i, levels], size[levels]
            if not then.sum() or not now.sum():
                continue
            scale = rows / then.sum()  # rows of the refit for one of the fit
            expected = then * scale
            chance = _DEVIATIONS * np.sqrt(expected * (1.0 + scale)) + _RARE * max(1.0, scale)
            beyond = np.maximum(now - expected - chance, 0.0).sum() / now.sum()
            if max(beyond, self.outside[j, d]) > _MOST:
                return False
        return True


def matched(traces: Traces) -> Labels:
    """(K,) the cluster of the refit that continues each former one, or -1."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    pairs = traces.pairs
    union = pairs.sum(axis=1, keepdims=True) + pairs.sum(axis=0) - pairs
    jaccard, similar = pairs / np.maximum(union, 1e-300), traces.similarity()
    most = pairs >= _MOST * np.maximum(
        np.minimum(pairs.sum(axis=1, keepdims=True), pairs.sum(axis=0)), 1e-300
    )
    possible = most & (jaccard >= _LEAST_ROWS) & (similar >= _LEAST_SIMILAR)
    agreement = np.where(possible, jaccard * similar, 0.0)
    former, own = linear_sum_assignment(agreement, maximize=True)
    out = np.full(len(pairs), -1, np.int32)
    sure = agreement[former, own] > 0
    out[former[sure]] = own[sure]
    return out


def places(former: Ints, successor: Labels, n_clusters: int) -> Labels:
    """(n_clusters,) the place of every cluster of a refit: that of the former cluster that it continues,
    where it exists; the others take the places that are left.

    `former` (K,) are the former clusters in the order of their places.
    """
    out = np.full(n_clusters, -1, np.int32)
    for place, k in enumerate(former.tolist()):
        if successor[k] >= 0 and place < n_clusters:
            out[successor[k]] = place
    # a cluster that continues a former one comes before new ones
    late = [int(successor[k]) for k in former.tolist() if successor[k] >= 0 and out[successor[k]] < 0]
    late += [j for j in range(n_clusters) if out[j] < 0 and j not in late]
    out[late] = sorted(set(range(n_clusters)).difference(out.tolist()))
    return out


def segments_of(
    traces: Traces, successor: Labels, names: Sequence[str], former_names: Sequence[str], order: Ints
) -> list[Segment]:
    """What became of every cluster; `order`: the clusters of the refit by their numbers."""
    pairs, K, similar = traces.pairs, len(traces.pairs), traces.similarity()
    sizes, former_sizes = pairs.sum(axis=0), pairs.sum(axis=1)
    whole = max(float(sizes.sum()), 1e-300)
    predecessor = {int(j): i for i, j in enumerate(successor) if j >= 0}
    parent: dict[int, int] = {}
    for j in range(pairs.shape[1]):
        i = int(pairs[:, j].argmax())
        if j not in predecessor and pairs[i, j] >= _MOST * sizes[j] > 0 and traces.lies_in(j, i):
            parent[j] = i
    joined: dict[int, int] = {}
    for i in range(K):
        j = int(pairs[i].argmax())
        left = former_sizes[i] >= _GONE * traces.shares[i] * whole
        alike = similar[i, j] >= _LEAST_SIMILAR
        if successor[i] < 0 and left and alike and pairs[i, j] >= _MOST * former_sizes[i] > 0:
            joined[i] = j
    found = []
    for j in order.tolist():
        i = predecessor.get(j, -1)
        change = "born"
        if j in joined.values():
            change = "merged"
        elif j in parent or i in parent.values():
            change = "split"
        elif i >= 0:
            change = "kept"
        then = float(traces.shares[i]) if i >= 0 else 0.0
        found.append(Segment(change, j, names[j], i, parent.get(j, -1), then, float(sizes[j] / whole)))
    for i in range(K):
        if successor[i] < 0:
            change, other = ("merged", joined[i]) if i in joined else ("died", -1)
            change = "split" if i in parent.values() else change
            found.append(Segment(change, -1, former_names[i], i, other, float(traces.shares[i]), 0.0))
    return found


def _shares(counts: Floats) -> Floats:
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300))
