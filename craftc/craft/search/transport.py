"""Assignment of units to clusters at the least cost, with bounds on the weights of the clusters.

A unit is a row, or a group of rows that stay together. With units of one weight this is a transportation
problem (constrained k-means: Bradley, Bennett & Demiriz 2000), whose optimum is found: prices of the clusters
bring their sizes near the bounds, and shortest paths between clusters, whose steps move units from
one cluster to the next, do the rest. At the end no path lowers the cost, so that no unit leaves its cheapest
cluster without need. With units of several weights the problem contains the packing of bins, and the result
may not be the best; where paths do not help, single units move or change places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Integers, Labels

_SWEEPS = 20  # of the prices
_SOME = 1 << 13  # units by which the prices of many are begun
_CLOSE = 4.0  # nats over the number of units: a change of prices after which few units change clusters
_FAR = 8  # units beyond a bound from which prices pay
_TOLERANCE = 1e-9  # nats by which a path must lower the cost
_MOST_SWAPPED = 64  # weights of a cluster that change places


def assign_within(
    costs: Floats, weight: Integers, least: int, most: int, price: Floats | None = None
) -> Labels | None:
    """(m,) the cluster of every unit, at the least sum of the costs such that the weight of every cluster is
    from `least` to `most`; None if no such assignment is found.

    `costs` (m, K) are those of whole units; a unit of weight 0 counts in no cluster. `price` (K,): prices of
    the clusters from which the search starts, overwritten with the prices found.
    """
    labels: Labels = costs.argmin(axis=1).astype(np.int32)
    counted = np.flatnonzero(weight)
    w = weight[counted]
    if not len(w):
        return None if least > 0 else labels
    if (w == w[0]).all():  # the weights of clusters are multiples of it
        unit = int(w[0])
        least, most, w = -(-least // unit), most // unit, np.ones(len(w), np.int64)
    price = np.zeros(costs.shape[1]) if price is None else price
    flow = _Flow(costs[counted] / weight[counted][:, None], w, least, most, price)
    if not flow.run():
        return None
    labels[counted] = flow.labels
    return labels


@dataclass
class _Path:
    """Clusters, and the units that move from each to the next."""

    clusters: list[int]
    units: list[NDArray[np.intp]]

    def moves(self) -> Iterator[tuple[int, int, NDArray[np.intp]]]:
        """From where, to where, and the units."""
        for (i, j), units in zip(pairwise(self.clusters), self.units, strict=True):
            yield i, j, units


class _Flow:
    """Units of positive weight in clusters; `costs` (m, K) are those of one count of a unit."""

    def __init__(self, costs: Floats, weight: Integers, least: int, most: int, price: Floats) -> None:
        self.costs, self.weight, self.least, self.most = costs, weight, least, most
        self.K, self.whole = costs.shape[1], bool((weight == 1).all())
        self.labels = costs.argmin(axis=1)
        self.sizes = self._sizes()
        if self._beyond(self.sizes) >= _FAR * int(weight.max()):
            self._find_prices(price)
            self.labels = (costs + price).argmin(axis=1)
            self.sizes = self._sizes()
        self.edges = np.full((self.K, self.K), np.inf)  # [j, i]: least rise of the cost of one count, i to j
        for i in range(self.K):
            self._price_moves(i)

    def run(self) -> bool:
        """Move units until the bounds hold and no path lowers the cost; whether the bounds hold."""
        while True:
            beyond = self._beyond(self.sizes)
            path = self._cheapest_path()
            if path is not None and self._follows(path, beyond):
                continue
            if beyond == 0:
                return True
            path = self._single_move() or self._exchange()
            if path is None:
                return False
            self._apply(path)

    def _sizes(self) -> Integers:
        sizes = np.zeros(self.K, np.int64)
        np.add.at(sizes, self.labels, self.weight)
        return sizes

    def _beyond(self, sizes: Integers) -> int:
        """Weight by which clusters are too small or too large."""
        return int(np.maximum(self.least - sizes, 0).sum() + np.maximum(sizes - self.most, 0).sum())

    # ---- prices ----

    def _find_prices(self, price: Floats) -> None:
        """Prices (K,) of one count in every cluster, by ascent in the dual problem: those of some of the
        units first.
        """
        m, columns = len(self.weight), np.ascontiguousarray(self.costs.T)
        if m > 2 * _SOME:
            some = np.linspace(0, m - 1, _SOME).astype(np.intp)
            share = float(self.weight[some].sum() / self.weight.sum())
            bounds = int(self.least * share), int(np.ceil(self.most * share))
            self._ascend(price, np.ascontiguousarray(columns[:, some]), self.weight[some], *bounds)
        self._ascend(price, columns, self.weight, self.least, self.most)

    def _ascend(self, price: Floats, columns: Floats, weight: Integers, least: int, most: int) -> None:
        """Change the prices of clusters in turn until they stay."""
        priced = columns + price[:, None]
        for _ in range(_SWEEPS):
            before = price.copy()
            for k in range(self.K):
                priced[k] = np.inf
                price[k] = _price_of_one(priced.min(axis=0) - columns[k], weight, least, most)
                priced[k] = columns[k] + price[k]
            if np.abs(price - before).max() <= _CLOSE / len(weight):  # paths do the rest
                break

    # ---- paths ----

    def _price_moves(self, i: int) -> None:
        units = np.flatnonzero(self.labels == i)
        regret = self.costs[units] - self.costs[units, i][:, None]
        self.edges[:, i] = regret.min(axis=0, initial=np.inf)
        self.edges[i, i] = np.inf

    def _cheapest_path(self) -> _Path | None:
        """The cheapest path that brings clusters nearer to the bounds; where they hold, one that lowers the
        cost.
        """
        sizes, least, most = self.sizes, self.least, self.most
        over, under = sizes > most, sizes < least
        gives, takes = sizes > least, sizes < most
        if over.any():
            gives = over
        elif under.any():
            takes = under
        distance, before = self._shortest_paths(gives)
        distance[~takes] = np.inf
        j = int(distance.argmin())
        if not np.isfinite(distance[j]) or (not over.any() and not under.any() and distance[j] > -_TOLERANCE):
            return None
        clusters = [j]
        while before[clusters[0]] >= 0:
            clusters.insert(0, int(before[clusters[0]]))
            if len(clusters) > self.K:
                return None
        i = clusters[0]
        need = 1
        if self.whole:
            room = int(min(sizes[i] - (most if over[i] else least), (least if under[j] else most) - sizes[j]))
            need = max(room, 1)
        return _Path(clusters, self._units_along(clusters, need))

    def _shortest_paths(self, gives: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.intp]]:
        """(K,) costs of the shortest paths to every cluster from one that gives, and the cluster before it;
        -1: the path starts there (Bellman 1958: every round allows one step more).
        """
        distance, before = np.where(gives, 0.0, np.inf), np.full(self.K, -1)
        for _ in range(self.K):
            through = self.edges + distance
            last = through.argmin(axis=1)
            least = through[np.arange(self.K), last]
            shorter = least < distance - _TOLERANCE
            if not shorter.any():
                break
            distance, before = np.where(shorter, least, distance), np.where(shorter, last, before)
        return distance, before

    def _units_along(self, clusters: list[int], need: int) -> list[NDArray[np.intp]]:
        """The units that move along each edge of a path: as many of equal cost as are needed."""
        along = []
        for i, j in pairwise(clusters):
            units = np.flatnonzero(self.labels == i)
            regret = self.costs[units, j] - self.costs[units, i]
            along.append(units[regret == regret.min()][:need])
        n = min(map(len, along))
        return [units[:n] for units in along]

    def _follows(self, path: _Path, beyond: int) -> bool:
        """Move the units of a path if that does what the path is for; whether it does."""
        if not self.whole:
            sizes, change = self.sizes.copy(), 0.0
            for i, j, units in path.moves():
                weight = int(self.weight[units].sum())
                sizes[i] -= weight
                sizes[j] += weight
                change += weight * float(self.costs[units[0], j] - self.costs[units[0], i])
            now = self._beyond(sizes)
            if now > beyond or (now == beyond and (beyond or change > -_TOLERANCE)):
                return False
        self._apply(path)
        return True

    def _apply(self, path: _Path) -> None:
        for i, j, units in path.moves():
            weight = int(self.weight[units].sum())
            self.labels[units] = j
            self.sizes[i] -= weight
            self.sizes[j] += weight
        for k in set(path.clusters):
            self._price_moves(k)

    # ---- units of several weights ----

    def _single_move(self) -> _Path | None:
        """The move of one unit that brings clusters nearer to the bounds at the least cost per count."""
        w, of = self.weight, self.labels
        sizes, rest = self.sizes[of], self.sizes[of] - w
        beyond = self._beyond_each
        change = (beyond(rest) - beyond(sizes))[:, None] + (
            beyond(self.sizes + w[:, None]) - beyond(self.sizes)
        )
        change[np.arange(len(of)), of] = 0
        if not (change < 0).any():
            return None
        rise = (self.costs - self.costs[np.arange(len(of)), of][:, None]) * w[:, None]
        score = np.where(change < 0, rise / np.maximum(-change, 1), np.inf)
        unit, j = divmod(int(score.argmin()), self.K)
        return _Path([int(of[unit]), j], [np.array([unit])])

    def _beyond_each(self, sizes: Integers) -> Integers:
        out: Integers = np.maximum(self.least - sizes, 0) + np.maximum(sizes - self.most, 0)
        return out

    def _exchange(self) -> _Path | None:
        """The two units of different clusters that change places and bring clusters nearest to the bounds."""
        best: tuple[int, float] = self._beyond(self.sizes), np.inf
        found: _Path | None = None
        for i in np.flatnonzero(self._beyond_each(self.sizes)).tolist():
            for j in range(self.K):
                if j == i:
                    continue
                (ours, of_ours), (theirs, of_theirs) = self._lightest(i, j), self._lightest(j, i)
                if not len(ours) or not len(theirs):
                    continue
                more = self.weight[theirs] - self.weight[ours][:, None]  # of cluster i
                rest = self._beyond(self.sizes) - int(self._beyond_each(self.sizes[[i, j]]).sum())
                now = rest + self._beyond_each(self.sizes[i] + more) + self._beyond_each(self.sizes[j] - more)
                rise = of_ours[:, None] + of_theirs
                least = int(now.min())
                at = int(np.where(now == least, rise, np.inf).argmin())
                if (least, float(rise.flat[at])) < best:
                    best = least, float(rise.flat[at])
                    a, b = divmod(at, len(theirs))
                    found = _Path([i, j, i], [ours[[a]], theirs[[b]]])
        return found if best[0] < self._beyond(self.sizes) else None

    def _lightest(self, i: int, j: int) -> tuple[NDArray[np.intp], Floats]:
        """For every weight the unit of cluster i that moves to j at the least cost, and that cost."""
        units = np.flatnonzero(self.labels == i)
        rise = (self.costs[units, j] - self.costs[units, i]) * self.weight[units]
        order = np.lexsort((rise, self.weight[units]))
        first = np.flatnonzero(np.diff(self.weight[units][order], prepend=-1))
        chosen = order[first]
        chosen = chosen[np.argsort(rise[chosen], kind="stable")[:_MOST_SWAPPED]]
        return units[chosen], rise[chosen]


def _price_of_one(worth: Floats, weight: Integers, least: int, most: int) -> float:
    """The price nearest to 0 at which the weight of a cluster is within the bounds; units join it whose
    `worth` exceeds the price.
    """
    size = int(weight[worth > 0.0].sum())
    if least <= size <= most:
        return 0.0
    bound, n_units = (most, 0) if size > most else (least, 1)
    if len(weight) == int(weight.sum()):
        n = bound
        if 0 < n < len(worth):
            low, high = np.partition(worth, [len(worth) - n - 1, len(worth) - n])[[-n - 1, -n]]
            return 0.5 * float(low + high)
    else:
        order = np.argsort(-worth, kind="stable")
        total = np.cumsum(weight[order])
        n = int(np.searchsorted(total, bound, side="left" if n_units else "right")) + n_units
        if 0 < n < len(worth):
            return 0.5 * float(worth[order[n - 1]] + worth[order[n]])
    return float(worth.max()) + 1.0 if n <= 0 else float(worth.min()) - 1.0
