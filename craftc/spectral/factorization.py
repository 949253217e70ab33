"""Codes of the levels: a mixed table factorised as one, nonnegative or by singular vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from craftc._common.labels import chunks
from craftc._common.random import uniform
from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._kernels import spectral as _kernel
from craftc.spectral.encoding import Encoding
from craftc.table import MixedTable

SWEEPS = 50
_RUNS, _RUN = 16, 2048  # runs of rows with sums of their own, at most, and rows of a run, at least
_SCORES, _LOADINGS = 41, 42  # first keys of the random streams


def default_factors(p: int) -> int:
    """k = min(20, max(2, p // 2))."""
    return min(20, max(2, p // 2))


@dataclass(frozen=True, eq=False)
class Factors:
    """scores (n, k) times loadings (p, k), which stand for the columns in [0, 1] (indicators times the square root of their weight)."""

    scores: Floats
    loadings: Floats
    residual: Floats  # squared error over the sum of squares, after every sweep

    def approximation(self, beta: float) -> Approximation:
        """The product, centred and scaled as the table is."""
        mean = self.scores.mean(axis=0) @ self.loadings.T
        largest = np.zeros(len(self.loadings))
        for rows in chunks(len(self.scores)):
            np.maximum(largest, np.abs(self.scores[rows] @ self.loadings.T - mean).max(axis=0), out=largest)
        noise = np.abs(self.loadings).sum(axis=1) * np.abs(self.scores).max(axis=0, initial=0.0).max() * 1e-14
        return Approximation(self, mean, np.where(largest > noise, beta / np.where(largest > noise, largest, 1.0), 0.0))


@dataclass(frozen=True, eq=False)
class Approximation:
    """x_hat = (scores loadings' - mean) * scale."""

    factors: Factors
    mean: Floats
    scale: Floats

    def table(self) -> Floats:
        """(n, p)."""
        return np.asarray((self.factors.scores @ self.factors.loadings.T - self.mean) * self.scale)

    def take(self, rows: Any) -> Approximation:
        """That of some rows."""
        return replace(self, factors=replace(self.factors, scores=self.factors.scores[rows]))

    def codes(self, encoding: Encoding, table: MixedTable) -> Floats:
        """(p2, 2) means of an indicator's approximation over the rows that have it off, and on."""
        scores, out = self.factors.scores, np.empty((encoding.p2, 2))
        for v, d in enumerate(encoding.variable):
            mine, cells = slice(encoding.first[v], encoding.first[v + 1]), slice(encoding.first_cell[v], encoding.hole[v])
            code = table.codes[:, d]
            by_level = np.stack([np.bincount(code, weight, cells.stop - cells.start + 1) for weight in scores.T], axis=1)[:-1]
            count, level = encoding.counts[cells], encoding.cell_of[mine] - encoding.first_cell[v]
            on = by_level[level] / count[level, None]
            off = (by_level.sum(axis=0) - by_level[level]) / (count.sum() - count[level])[:, None]
            for side, mean in enumerate((off, on)):
                indicators = slice(encoding.p1 + mine.start, encoding.p1 + mine.stop)
                out[mine, side] = ((mean * self.factors.loadings[indicators]).sum(axis=1) - self.mean[indicators]) * self.scale[indicators]
        return out


class Factoriser:
    """A table as the factorisation sees it: numbers in [0, 1], indicators of 0 and sqrt(weight), holes filled with the means.

    Parameters
    ----------
    encoding : Encoding
    table : MixedTable
    weight : float
        Of the indicators' squares.
    n_threads : int
    """

    def __init__(self, encoding: Encoding, table: MixedTable, weight: float, n_threads: int) -> None:
        self.encoding, self.table, self.n_threads = encoding, table, n_threads
        self.root = np.sqrt(weight)
        self.scale = 1.0 / (encoding.high - encoding.low)
        self.fill = (encoding.centre - encoding.low) * self.scale
        self.mean = np.concatenate([self.fill, self.root * encoding.shares])

    def dense(self, rows: slice) -> Floats:
        """Rows of the table, (m, p)."""
        e = self.encoding
        block = (self.table.numeric[rows][:, e.column] - e.low) * self.scale
        out = np.zeros((len(block), e.p))
        out[:, : e.p1] = np.where(np.isnan(block), self.fill, block)
        for v, d in enumerate(e.variable):
            hit = e.hit[e.first_cell[v] + self.table.codes[rows, d].astype(np.intp)]
            on = np.flatnonzero(hit >= 0)
            out[on, e.p1 + hit[on]] = self.root
            mine = slice(e.p1 + e.first[v], e.p1 + e.first[v + 1])
            out[np.ix_(hit == _kernel.HOLE, np.arange(e.p)[mine])] = self.mean[mine]
        return out

    def hals(self, k: int, seed: int, start: tuple[Floats, Floats] | None = None) -> Factors:
        """Nonnegative factors by hierarchical alternating least squares, 50 sweeps, each of which lowers the squared error.

        Parameters
        ----------
        k : int
            Factors.
        seed : int
            Of the uniform start.
        start : (scores (n, k), loadings (p, k)), optional
            Start with these.
        """
        e, n = self.encoding, self.table.n_rows
        if start is None:
            size = 2.0 * np.sqrt(self.mean.mean() / k)
            draws = [uniform(seed, key, np.arange(m)[:, None], np.arange(k)) for key, m in ((_SCORES, n), (_LOADINGS, e.p))]
            start = size * draws[0], size * draws[1]
        scores, loadings = (np.array(part, np.float64, order="C") for part in start)
        runs = int(np.clip(n // _RUN, 1, _RUNS))
        sums = np.empty((k + e.p1 + len(e.hit), k))
        work = np.empty((runs, *sums.shape))
        threads = threads_for(self.n_threads, n * k * (k + e.p1 + len(e.variable)))
        squares, residual = self._sum_of_squares(), []
        for _ in range(SWEEPS):
            _kernel.hals_rows(
                self.table.numeric, e.column, e.low, self.scale, self.fill, self.table.codes, e.variable, e.first_cell,
                np.ascontiguousarray(loadings[: e.p1]), self._by_cell(loadings), loadings.T @ loadings, scores, work, sums, threads,
            )  # fmt: skip
            gram, product = sums[:k], self._product(sums[k:])
            for j in range(k):
                if gram[j, j] > 0.0:
                    loadings[:, j] = np.maximum(0.0, loadings[:, j] + (product[:, j] - loadings @ gram[j]) / gram[j, j])
            residual.append((squares - 2.0 * (product * loadings).sum() + (gram * (loadings.T @ loadings)).sum()) / squares)
        return Factors(scores, loadings, np.array(residual))

    def svd(self, k: int) -> Factors:
        """The best factors of any sign, from the eigenvectors of the table's cross-products."""
        e = self.encoding
        cross = np.zeros((e.p, e.p))
        for rows in chunks(self.table.n_rows):
            part = self.dense(rows)
            cross += part.T @ part
        values, vectors = np.linalg.eigh(cross)
        loadings = np.ascontiguousarray(vectors[:, ::-1][:, :k])
        scores = np.concatenate([self.dense(rows) @ loadings for rows in chunks(self.table.n_rows)])
        return Factors(scores, loadings, values[:-k].sum(keepdims=True) / values.sum())

    def _by_cell(self, loadings: Floats) -> Floats:
        """(C, k) what a cell takes from the loadings of its variable's indicators."""
        e = self.encoding
        mine = self.root * loadings[e.p1 :]
        out = np.zeros((len(e.hit), loadings.shape[1]))
        out[e.cell_of] = mine
        if len(e.variable):
            out[e.hole] = np.add.reduceat(e.shares[:, None] * mine, e.first[:-1], axis=0)
        return out

    def _product(self, sums: Floats) -> Floats:
        """(p, k) the table's columns times the scores, from sums by numeric column and by cell."""
        e = self.encoding
        by_cell = sums[e.p1 :]
        indicators = self.root * (by_cell[e.cell_of] + e.shares[:, None] * by_cell[e.hole[e.owner]])
        return np.concatenate([sums[: e.p1], indicators])

    def _sum_of_squares(self) -> float:
        return float(sum((self.dense(rows) ** 2).sum() for rows in chunks(self.table.n_rows)))
