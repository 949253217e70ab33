"""One continuous factor behind the columns of a table, as an alternative to its clusters.

Every row has a place t on a scale, and given t the columns are independent. A column has the distribution

    p(l | t) = c(l) exp(t sum_r a_r s_r(l) - A(t))

of its levels l: the nominal response model (Bock 1972) of a category, whose statistics s_r are indicators of
its levels, and the same with the statistics of its tilt for a number or an ordered scale. The weights a_r are
as many as a cluster has parameters for the column, and cost as much. Places are standard normal, on a grid:
the marginal likelihood less the price is what the factor saves over independent columns. Or they are a few
points of any weights, which are groups: the weights and all but two of the points are parameters, too. The
EM algorithm finds both; columns that do not pay for their parameters leave the factor.

Equal rows are one row with their weight, in the order of their levels, so that weights and repeated rows give
the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_softmax, ndtri, softmax

from craftc._common.typing import Floats, Integers
from craftc.craft.background import Background

_NODES = np.linspace(-3.5, 3.5, 21)  # places of the normal distribution
_MOST_POINTS = 4
_MOST_ROWS = 2048  # distinct rows that represent the table
_MOST_LEVELS = 64  # of a column that takes part
_PASSES, _LEAST_PASSES = 60, 22
_PRUNED = (9, 19)  # passes after which columns are left out
_ENOUGH, _RIDGE = 1e-4, 1e-3  # share of the gain by which a last pass raises it; of a step of Newton's method
_FEW_STATISTICS = 4  # of columns that are stepped together
_AXIS_STEPS, _WIDTH, _OTHER = 30, 0.5, 0.02  # of the power method; spread of the first places of a row


@dataclass(frozen=True)
class OneFactor:
    """A factor behind some columns."""

    saving: float = 0.0  # nats by which normal places save over independent columns, at least 0
    columns: list[int] = field(default_factory=list)
    separate: bool = False  # a few points describe the places of the rows better than a normal distribution

    @property
    def gradual(self) -> float:
        """Nats that it saves as an alternative to groups; 0 if the places are separate points."""
        return 0.0 if self.separate else self.saving


def one_factor(
    codes: NDArray[np.integer],
    weight: Floats,
    columns: Sequence[int],
    background: Background,
    h: float,
    rival: float = 0.0,
) -> OneFactor:
    """The factor behind some of these columns.

    `codes` (n, D) are levels of rows of these weights, which represent the table; `h` is the price of a
    parameter in the table. Whether the places are separate points is asked only of a factor that saves more
    than `rival`.
    """
    columns = [j for j in columns if background.level_widths[j] <= _MOST_LEVELS + 1]
    if len(columns) < 2 or not len(codes):
        return OneFactor()
    rows, weight = _distinct(codes[:, columns], weight)
    scale = background.weight / float(weight.sum())
    model = _Factor(rows, weight, columns, background, h / scale)
    axis = model.axis()
    gain = model.fit(_NODES, softmax(-0.5 * ((axis[:, None] - _NODES) / _WIDTH) ** 2, axis=1), prune=True)
    held, D = np.flatnonzero(model.held), int(background.usable.sum())
    if (q := len(held)) < 2:
        return OneFactor()
    name = math.log(D + 1) + float(gammaln(D + 1) - gammaln(q + 1) - gammaln(D - q + 1))
    saving = scale * gain - h * float(model.parameters[held].sum()) - name
    if not saving > 0.0:
        return OneFactor()
    least = (gain + (2 * k - 3) * h / scale for k in range(2, _MOST_POINTS + 1))
    more = (model.points(axis, k, nats) > nats for k, nats in enumerate(least, 2))
    separate = saving > rival and q > 2 and any(more)  # a link of two columns shows no groups
    return OneFactor(saving, [columns[i] for i in held.tolist()], separate)


def _distinct(codes: NDArray[np.integer], weight: Floats) -> tuple[Integers, Floats]:
    """The distinct rows in the order of their levels, or a part of them, and their weights."""
    rows, which = np.unique(codes.astype(np.int64), axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), weight).astype(np.float64)
    rows, weights = rows[weights > 0.0], weights[weights > 0.0]
    if len(rows) > _MOST_ROWS:
        some = np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(np.intp)
        rows, weights = rows[some], weights[some]
    return rows, weights


class _Factor:
    """A factor behind the columns of distinct rows (n, D) of levels, -1 or the last level where a cell is
    missing.
    """

    def __init__(
        self,
        rows: Integers,
        weight: Floats,
        columns: Sequence[int],
        background: Background,
        h: float,
    ) -> None:
        from scipy.sparse import csr_matrix  # slow to import, and needed where there are clusters only

        self.weight, self.h = weight, h
        start, tilts = background.grid.level_start, background.tilts
        first = [int(start[j]) for j in columns]
        widths = [int(background.level_widths[j]) - 1 for j in columns]
        ends = np.cumsum(widths)
        self.places = [slice(int(end) - width, int(end)) for end, width in zip(ends, widths, strict=True)]
        row, column = np.nonzero(rows < np.array(widths))
        level = np.array([place.start for place in self.places])[column] + rows[row, column]
        at = background.grid.p + np.array(columns, np.intp)
        self.column_weights = background.column_weights[at]
        cells = csr_matrix((np.ones(len(row)), (row, level)), shape=(len(rows), int(ends[-1])))
        self.of_levels = cells.T.tocsr()
        counts = self.of_levels @ weight
        self.cells = cells.multiply(np.repeat(self.column_weights, widths)).tocsr()
        self.base, self.statistics = np.full(int(ends[-1]), -np.inf), list[Floats]()
        for place, begin, j in zip(self.places, first, columns, strict=True):
            own = counts[place]
            self.base[place] = np.log(np.maximum(own, 1e-300) / max(float(own.sum()), 1e-300))
            if tilts.tilted[j]:
                s = np.asarray(tilts.statistics)[:, begin : begin + place.stop - place.start].T
                s = s[:, s.any(axis=0)]
            else:
                s = np.eye(place.stop - place.start)[:, 1:]
            share = own / max(float(own.sum()), 1e-300)
            centred = s - share @ s
            self.statistics.append(centred)
        self.counts = counts
        self.parameters = background.n_parameters[at] * self.column_weights
        self.held = self.column_weights > 0.0
        self.starts, self.widths = (ends - widths).astype(np.intp), np.array(widths, np.intp)
        self.nodes = _NODES
        narrow = [d for d, s in enumerate(self.statistics) if s.shape[1] <= _FEW_STATISTICS]
        self.narrow, self.wide = narrow, [d for d in range(len(columns)) if d not in narrow]
        most = max((self.statistics[d].shape[1] for d in narrow), default=0)
        own = [np.pad(self.statistics[d], ((0, 0), (0, most - self.statistics[d].shape[1]))) for d in narrow]
        self.of_narrow = np.vstack(own) if narrow else np.empty((0, 0))
        self.rows_of_narrow = np.concatenate(
            [np.empty(0, np.intp), *(np.arange(self.places[d].start, self.places[d].stop) for d in narrow)]
        ).astype(np.intp)
        self.widths_of_narrow = self.widths[narrow]
        self.starts_of_narrow = np.cumsum(self.widths_of_narrow) - self.widths_of_narrow
        self.sizes_of_narrow = np.array([self.statistics[d].shape[1] for d in narrow])
        self.intercepts, self.tilts, self.log_shares = self.base, self.base, self.base[:, None]
        self.shares = self.log_shares

    def fit(self, nodes: Floats, posterior: Floats, prune: bool = False, enough: float = math.inf) -> float:
        """Nats by which the marginal likelihood of the rows exceeds that of independent columns, or as many
        as are `enough`. With `prune` the nodes are a normal distribution, and columns may leave the factor;
        otherwise they have weights.

        `posterior` (n, nodes) are the first places of the rows.
        """
        self.nodes = nodes
        self.intercepts, self.tilts = self.base.copy(), np.zeros(len(self.base))
        self.log_shares = np.repeat(self.base[:, None], len(nodes), axis=1)
        self.shares = np.exp(self.log_shares)
        prior = np.asarray(log_softmax(-0.5 * nodes**2))
        without = float((self.cells.T @ self.weight) @ np.where(self.counts > 0, self.base, 0.0))
        gain = -math.inf
        for step in range(_PASSES):
            if not prune:
                prior = np.log(np.maximum(self.weight @ posterior / self.weight.sum(), 1e-300))
            self._maximise(self.of_levels @ (posterior * self.weight[:, None]))
            joint = self.cells @ self.log_shares + prior
            most = joint.max(axis=1, keepdims=True)
            posterior = np.exp(joint - most)
            total = posterior.sum(axis=1, keepdims=True)
            former, gain = gain, float(self.weight @ (most + np.log(total))[:, 0]) - without
            if (step >= _LEAST_PASSES and gain - former <= _ENOUGH * abs(gain)) or gain > enough:
                break
            posterior /= total
            if prune and step in _PRUNED:
                self._prune(self.of_levels @ (posterior * self.weight[:, None]))
        return gain

    def points(self, axis: Floats, k: int, enough: float) -> float:
        """The same with k points, at first of equal weights, on the columns that are held."""
        first = np.full((len(axis), k), _OTHER)
        first[np.arange(len(axis)), np.searchsorted(ndtri(np.arange(1, k) / k), axis)] = 1.0
        nodes = ndtri((np.arange(k) + 0.5) / k)
        return self.fit(nodes, first / first.sum(axis=1, keepdims=True), enough=enough)

    def axis(self) -> Floats:
        """(n,) first places of the rows: normal scores of their ranks on the axis along which the levels that
        occur together vary most (multiple correspondence analysis; a number has one score).
        """
        loading = np.zeros(len(self.base))
        total = float(self.weight.sum())
        share = self.counts / total
        scores = []
        for place, s in zip(self.places, self.statistics, strict=True):
            own = share[place]
            if len(own) == s.shape[1] + 1 and s.shape[1] > 2:
                score = (np.eye(len(own)) - own) / np.sqrt(np.maximum(own, 1.0 / total))
            else:
                score = s[:, :1] / math.sqrt(max(float(own @ s[:, 0] ** 2), 1e-12))
            scores.append(score)
            loading[place] = score[:, 0]
        axis = self.cells @ loading
        for _ in range(_AXIS_STEPS):
            sums = self.of_levels @ (axis * self.weight)
            for place, score in zip(self.places, scores, strict=True):
                loading[place] = score @ (score.T @ sums[place]) / total
            axis = self.cells @ loading
            axis -= self.weight @ axis / total
            axis /= math.sqrt(max(float(self.weight @ axis**2) / total, 1e-300))
        order = np.argsort(axis, kind="stable")
        above = np.cumsum(self.weight[order])
        out = np.empty(len(axis))
        out[order] = ndtri((above - 0.5 * self.weight[order]) / total)
        return out

    def _maximise(self, counts: Floats) -> None:
        """One step with these (levels, nodes) expected counts: intercepts fit the counts of the levels, then
        slopes take a step of Newton's method.
        """
        starts, nodes = self.starts, self.nodes
        rows, weights = counts.sum(axis=1), np.add.reduceat(counts, starts)
        repeated = np.repeat(weights, self.widths, axis=0)
        expected = (self.shares * repeated).sum(axis=1)
        free = np.repeat(self.held, self.widths) & (rows > 0.0)
        self.intercepts[free] += np.log(rows[free] / np.maximum(expected[free], 1e-300))
        self._follow()
        shares, squares = self.shares, weights * nodes**2
        expected = shares * repeated
        residual, spread = (counts - expected) @ nodes, expected @ nodes**2
        for d in self.wide:
            if self.held[d]:
                place, s = self.places[d], self.statistics[d]
                mean = s.T @ shares[place]
                hessian = (s.T * spread[place]) @ s - (mean * squares[d]) @ mean.T
                hessian.flat[:: len(hessian) + 1] += _RIDGE * (1.0 + np.trace(hessian) / len(hessian))
                self.tilts[place] += s @ np.linalg.solve(hessian, s.T @ residual[place])
        if self.narrow:
            self._step_of_narrow(residual, spread, squares)
        self._follow()

    def _step_of_narrow(self, residual: Floats, spread: Floats, squares: Floats) -> None:
        """The same step for all columns of few statistics together; statistics that a column lacks are 0."""
        s, at, starts = self.of_narrow, self.rows_of_narrow, self.starts_of_narrow
        mean = np.add.reduceat(s[:, :, None] * self.shares[at][:, None], starts)
        hessian = np.add.reduceat(s[:, :, None] * s[:, None] * spread[at][:, None, None], starts)
        hessian -= (mean * squares[self.narrow][:, None]) @ mean.transpose(0, 2, 1)
        ridge = _RIDGE * (1.0 + np.trace(hessian, axis1=1, axis2=2) / self.sizes_of_narrow)
        hessian += ridge[:, None, None] * np.eye(s.shape[1])
        ascent = np.add.reduceat(s * residual[at][:, None], starts)
        ascent[~self.held[self.narrow]] = 0.0
        step = np.linalg.solve(hessian, ascent[:, :, None])[:, :, 0]
        self.tilts[at] += (s * np.repeat(step, self.widths_of_narrow, axis=0)).sum(axis=1)

    def _follow(self) -> None:
        """(levels, nodes) p(l | t) and its logarithm at these intercepts and slopes."""
        logits = self.intercepts[:, None] + np.outer(self.tilts, self.nodes)
        logits -= np.repeat(np.maximum.reduceat(logits, self.starts), self.widths, axis=0)
        shares = np.exp(logits)
        sums = np.repeat(np.add.reduceat(shares, self.starts), self.widths, axis=0)
        self.shares, self.log_shares = shares / sums, logits - np.log(sums)

    def _prune(self, counts: Floats) -> None:
        """Leave out the columns whose distributions along the factor save less than their parameters cost."""
        for d in np.flatnonzero(self.held).tolist():
            place = self.places[d]
            saves = float((counts[place] * (self.log_shares[place] - self.base[place, None])).sum())
            if self.column_weights[d] * saves <= self.h * self.parameters[d]:
                self.held[d] = False
                self.intercepts[place], self.tilts[place] = self.base[place], 0.0
                self.log_shares[place] = self.base[place, None]
                self.shares[place] = np.exp(self.log_shares[place])
