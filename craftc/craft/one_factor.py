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
from craftc._kernels import craft_factor as factor_kernel
from craftc.craft.background import Background

_NODES = np.linspace(-3.5, 3.5, 21)  # places of the normal distribution
_MOST_POINTS = 4
_MOST_ROWS = 2048  # distinct rows that represent the table
_MOST_LEVELS = 64  # of a column that takes part
_PASSES, _LEAST_PASSES = 60, 22
_PRUNED = (9, 19)  # passes after which columns are left out
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
    columns = [j for j in columns if 2 < background.level_widths[j] <= _MOST_LEVELS + 1]  # one is missing
    if len(columns) < 2 or not len(codes):
        return OneFactor()
    rows, weight = _distinct(codes[:, columns], weight)
    scale = background.weight / float(weight.sum())
    model = _Factor(rows, weight, columns, background, h / scale)
    axis = model.axis()
    gain = model.fit(_NODES, softmax(-0.5 * ((axis[:, None] - _NODES) / _WIDTH) ** 2, axis=1), normal=True)
    held, D = np.flatnonzero(model.held), int(background.usable.sum())
    if (q := len(held)) < 2:
        return OneFactor()
    name = math.log(D + 1) + float(gammaln(D + 1) - gammaln(q + 1) - gammaln(D - q + 1))
    saving = scale * (gain - float(model.price[held].sum())) - name
    if not saving > 0.0:
        return OneFactor()
    least = (gain + (2 * k - 3) * h / scale for k in range(2, _MOST_POINTS + 1))
    more = (model.points(axis, k, nats) > nats for k, nats in enumerate(least, 2))
    separate = saving > rival and q > 2 and any(more)  # a link of two columns shows no groups
    return OneFactor(saving, [columns[i] for i in held.tolist()], separate)


def _distinct(codes: NDArray[np.integer], weight: Floats) -> tuple[Integers, Floats]:
    """The distinct rows in the order of their levels, or a part of them, and their weights."""
    order = np.lexsort(codes.T[::-1])
    rows = codes[order]
    first = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))
    rows = rows[first].astype(np.int64)
    weights: Floats = np.bincount(np.cumsum(first) - 1, weight[order]).astype(np.float64)
    rows, weights = rows[weights > 0.0], weights[weights > 0.0]
    if len(rows) > _MOST_ROWS:
        some = np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(np.intp)
        rows, weights = rows[some], weights[some]
    return rows, weights


class _Factor:
    """A factor behind the columns of distinct rows (n, D) of levels, the last level or -1 where a cell is
    missing.
    """

    def __init__(
        self, rows: Integers, weight: Floats, columns: Sequence[int], background: Background, h: float
    ) -> None:
        start, tilts = background.grid.level_start, background.tilts
        at = background.grid.p + np.array(columns, np.intp)
        widths = background.level_widths[list(columns)] - 1
        self.starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.intp)
        self.places = [slice(first, first + width) for first, width in zip(self.starts, widths, strict=False)]
        self.rows = np.where((rows >= 0) & (rows < widths), rows + self.starts[:-1], -1).astype(np.int32)
        self.weight, self.column_weights = weight, np.ascontiguousarray(background.column_weights[at])
        self.price = h * background.priced_parameters[at] * self.column_weights
        self.held = (self.column_weights > 0.0).astype(np.uint8)
        counts = np.empty(int(self.starts[-1]))
        factor_kernel.sums_of_levels(self.rows, weight, counts)
        self.counts = counts
        seen = np.add.reduceat(counts, self.starts[:-1])
        self.shares = counts / np.repeat(np.maximum(seen, 1e-300), widths)
        self.statistics: list[Floats | None] = []  # of mean 0; None: indicators of all levels but the first
        for place, j in zip(self.places, columns, strict=True):
            own = None
            if tilts.tilted[j]:
                first = int(start[j])
                s = np.asarray(tilts.statistics)[:, first : first + place.stop - place.start].T
                s = s[:, s.any(axis=0)]
                own = s - self.shares[place] @ s
            self.statistics.append(own)
        self.sizes = np.array([-1 if s is None else s.shape[1] for s in self.statistics], np.intp)
        most = max(int(widths.max()) - 1, int(self.sizes.max()), 1)
        self.padded = np.zeros((len(counts), most))  # the statistics, in rows of one length
        for place, tilted in zip(self.places, self.statistics, strict=True):
            if tilted is not None:
                self.padded[place, : tilted.shape[1]] = tilted
        self.log_shares = np.empty((len(counts), 0))

    def fit(self, nodes: Floats, places: Floats, normal: bool = False, enough: float = math.inf) -> float:
        """Nats by which the marginal likelihood of the rows exceeds that of independent columns, or as many
        as are `enough`. With `normal` the nodes are a normal distribution, and columns may leave the factor;
        otherwise they have weights.

        `places` (n, nodes) are the first places of the rows.
        """
        self.log_shares = np.empty((len(self.counts), len(nodes)))
        return factor_kernel.fit(
            self.rows,
            self.weight,
            self.starts,
            self.sizes,
            self.padded,
            self.column_weights,
            self.shares,
            self.price,
            self.held,
            nodes,
            places,
            np.asarray(log_softmax(-0.5 * nodes**2)) if normal else np.empty(0),
            np.array(_PRUNED if normal else (), np.intp),
            _LEAST_PASSES,
            _PASSES,
            enough,
            self.log_shares,
        )

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
        total, weights = float(self.weight.sum()), np.repeat(self.column_weights, np.diff(self.starts))
        axis, sums, loading = np.empty(len(self.rows)), np.empty(len(self.counts)), np.empty(len(self.counts))
        scores = []
        for place, s in zip(self.places, self.statistics, strict=True):
            own = self.counts[place] / total
            if s is None and len(own) > 3:
                score = (np.eye(len(own)) - own) / np.sqrt(np.maximum(own, 1.0 / total))
            else:
                s = (np.eye(len(own)) - self.shares[place])[:, 1:] if s is None else s
                score = s[:, :1] / math.sqrt(max(float(own @ s[:, 0] ** 2), 1e-12))
            scores.append(score)
            loading[place] = score[:, 0]
        factor_kernel.sums_of_rows(self.rows, weights * loading, axis)
        for _ in range(_AXIS_STEPS):
            factor_kernel.sums_of_levels(self.rows, axis * self.weight, sums)
            for place, score in zip(self.places, scores, strict=True):
                loading[place] = score @ (score.T @ sums[place]) / total
            factor_kernel.sums_of_rows(self.rows, weights * loading, axis)
            axis -= self.weight @ axis / total
            axis /= math.sqrt(max(float(self.weight @ axis**2) / total, 1e-300))
        order = np.argsort(axis, kind="stable")
        above = np.cumsum(self.weight[order])
        out = np.empty(len(axis))
        out[order] = ndtri((above - 0.5 * self.weight[order]) / total)
        return out
