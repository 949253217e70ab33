"""How far the rows of a table are from those of a fit, in nats per row.

Three kinds of numbers, each 0 where the new rows are drawn as those of the fit were: the divergence of the
distribution of every column, that of the shares of the clusters, and the nats by which rows are less probable
under the model. By chance alone, the divergence KL(new || fit) of n and N rows with T levels exceeds 0 by
(T - 1) / 2 (1 / n + 1 / N), and a mean differs by some standard errors; both are subtracted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from craftc._common.typing import Floats, Integers
from craftc.craft.base import CraftBase
from craftc.table import MixedTable

_PRIOR = 0.5  # rows of every level besides those of the fit
_ERRORS = 2.0  # standard errors of a mean


@dataclass(frozen=True)
class ColumnDrift:
    """How far one column has moved."""

    column: str
    nats: float
    missing: float  # share of missing and unseen cells
    missing_of_fit: float


@dataclass(frozen=True)
class Comparison:
    """The rows of a table compared with those of the fit."""

    rows: int
    columns: list[ColumnDrift]  # the furthest first
    sizes: Integers  # (K,) rows of the clusters, the largest of the fit first
    shares_of_fit: Floats  # (K,)
    shares_nats: float
    score: float | None  # mean log probability of a row, nats; None: the model defines none
    score_of_fit: float | None
    score_nats: float

    @property
    def drift(self) -> float:
        """The largest of all nats."""
        return max(self.shares_nats, self.score_nats, *(each.nats for each in self.columns))

    @property
    def cause(self) -> str:
        """What has moved furthest."""
        if self.drift == 0.0:
            return "nothing"
        if self.columns and self.columns[0].nats == self.drift:
            return f"the distribution of column {self.columns[0].column!r}"
        return (
            "the shares of the clusters" if self.shares_nats == self.drift else "the probability of the rows"
        )


class Drift:
    """Sums over the rows of a table, from which a comparison follows."""

    def __init__(self, model: CraftBase) -> None:
        self._model, clusters = model, model._fitted.clusters
        grid = clusters.moments.grid
        self._start, self._n_levels = grid.level_start, grid.n_levels
        self._counts = np.zeros(grid.n_levels, np.int64)
        self._sizes, self.rows = np.zeros(model.n_clusters_, np.int64), 0
        self._score = np.zeros(2)
        self._has_score = hasattr(model, "predict_proba") and model._mixture is not None

    def add(self, table: MixedTable) -> None:
        """Count further rows."""
        model = self._model
        seen = model._fitted.encoding.apply(table)
        for d, start in enumerate(self._start.tolist()):
            found = np.bincount(seen.codes[:, d])
            self._counts[start : start + len(found)] += found
        own = model._fitted.clusters.cheapest(seen, model._threads_of(len(table)))
        self._sizes += np.bincount(own, minlength=len(self._sizes))
        self.rows += len(table)
        if self._has_score:
            scores = model.score_samples(table)
            self._score += scores.sum(), (scores * scores).sum()

    def comparison(self) -> Comparison:
        """The rows that were counted, compared with those of the fit."""
        model, n = self._model, max(self.rows, 1)
        order = model._fitted.by_number
        sizes, of_fit = self._sizes[order], np.asarray(model.cluster_sizes_, np.float64)[order]
        shares = of_fit / of_fit.sum()
        score = of_fit_score = None
        lost = 0.0
        if self._has_score:
            score, of_fit_score = self._score[0] / n, model.log_likelihood_ / float(of_fit.sum())
            variance = max(self._score[1] / n - score * score, 0.0)
            lost = max(of_fit_score - score - _ERRORS * math.sqrt(variance / n), 0.0) if self.rows else 0.0
        columns = sorted(self._columns(), key=lambda each: -each.nats)
        divergence = _divergence(sizes, of_fit)
        return Comparison(self.rows, columns, sizes, shares, divergence, score, of_fit_score, lost)

    def _columns(self) -> list[ColumnDrift]:
        fitted = self._model._fitted
        known = fitted.clusters.moments.total().counts[0]
        ends = np.append(self._start[1:], self._n_levels)
        by_column: dict[int, list[ColumnDrift]] = {}
        p = fitted.clusters.moments.grid.p
        for d, (start, end) in enumerate(zip(self._start.tolist(), ends.tolist(), strict=True)):
            new, old = self._counts[start:end], known[start:end]
            name = str(fitted.schema.columns[fitted.encoding.source[p + d]])
            missing = float(new[-1] / max(new.sum(), 1)), float(old[-1] / max(old.sum(), 1))
            own = ColumnDrift(name, _divergence(new, old), *missing)
            by_column.setdefault(int(fitted.encoding.source[p + d]), []).append(own)
        return [max(parts, key=lambda each: each.nats) for parts in by_column.values()]


def _divergence(new: Floats | Integers, old: Floats | Integers) -> float:
    """KL(new || old) of counts, in nats, less what is due to chance."""
    n = float(new.sum())
    if not n:
        return 0.0
    share, other = new / n, (old + _PRIOR) / (old.sum() + _PRIOR * len(old))
    some = share > 0
    found = float((share[some] * np.log(share[some] / other[some])).sum())
    levels = int(np.count_nonzero((new > 0) | (old > 0)))
    return max(found - 0.5 * max(levels - 1, 0) * (1.0 / n + 1.0 / max(float(old.sum()), 1.0)), 0.0)
