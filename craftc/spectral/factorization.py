"""Codes of the levels from a low-rank approximation: a nonnegative factorisation, or singular vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from craftc._common.labels import chunks
from craftc._common.random import SAMPLE_ROWS, SpectralStream, seed_of, spread, uniform
from craftc._common.threads import parallel_map, threads_for
from craftc._common.typing import Floats, Ints, RandomStateInput
from craftc._kernels import spectral_factor as _kernel
from craftc._kernels.spectral import MISSING
from craftc.spectral.encoding import Encoding, Prepared
from craftc.table import MixedTable

SWEEPS = 50
SHARE = 16  # rows of a table above SAMPLE_ROWS for each row of its sample
_SAMPLE_SWEEPS, _LAST_SWEEPS = 100, 10  # sweeps over a sample of the rows; sweeps over all rows after it
_RUNS, _RUN = 16, 512  # most runs of rows, each with its own sums; fewest rows of a run
_UNINTERRUPTED = 2**28  # products of one kernel call; Ctrl-C is seen between two calls
_PART = 1024  # rows of a part of the approximation, which stays in the cache


def default_factors(p: int) -> int:
    """k = min(20, max(2, p // 2))."""
    return min(20, max(2, p // 2))


def runs_of(n_rows: int, most: int = _RUNS) -> int:
    """Runs of rows with sums of their own: a power of two, so that two or four threads get equal parts."""
    runs = int(np.clip(n_rows // _RUN, 1, min(_RUNS, most)))
    return 1 << (runs.bit_length() - 1)


def sample_of(table: MixedTable) -> Ints | None:
    """Rows on which a fit starts; None: all."""
    return spread(table.n_rows, table.n_rows // SHARE, 0) if table.n_rows >= SAMPLE_ROWS else None


def approximation_of(
    prepared: Prepared,
    factorization: str,
    n_factors: int | None,
    indicator_weight: float,
    random_state: RandomStateInput,
    n_threads: int,
) -> Approximation:
    """The low-rank approximation of a table, centred and scaled; raise if `n_factors` exceeds its columns."""
    encoding, table = prepared.encoding, prepared.table
    if n_factors is not None and n_factors > encoding.p:
        raise ValueError(
            f"n_factors must be at most p = {encoding.p}, the number of encoded columns, got {n_factors}."
        )
    factoriser = Factoriser(encoding, table, float(indicator_weight), n_threads)
    k = default_factors(encoding.p) if n_factors is None else int(n_factors)
    if factorization == "svd":
        factors = factoriser.svd(k)
    else:
        rows, seed = sample_of(table), seed_of(random_state)
        factors = factoriser.hals(k, seed) if rows is None else factoriser.hals_by_sample(k, seed, rows)
    return factors.approximation(encoding.beta, n_threads)


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors whose product approximates columns in [0, 1] (indicators times the root of their weight)."""

    scores: Floats  # (n, k)
    loadings: Floats  # (p, k)
    by_state: Floats  # (C, k) sums of the scores over the rows of a state
    residual: Floats  # squared error over the sum of squares, after every sweep

    def approximation(self, beta: float, n_threads: int = 1) -> Approximation:
        """The product, centred and scaled like the table."""
        mean = self.scores.mean(axis=0) @ self.loadings.T

        def reach(rows: slice) -> tuple[Floats, float]:
            largest = np.zeros(len(mean))
            for first in range(rows.start, rows.stop, _PART):
                part = self.scores[first : min(first + _PART, rows.stop)] @ self.loadings.T
                np.maximum(largest, np.maximum(part.max(axis=0) - mean, mean - part.min(axis=0)), out=largest)
            return largest, max(self.scores[rows].max(), -self.scores[rows].min())

        reaches, sizes = zip(*parallel_map(reach, chunks(len(self.scores)), n_threads), strict=True)
        largest = np.max(reaches, axis=0)
        varies = largest > np.abs(self.loadings).sum(axis=1) * max(sizes) * 1e-14  # beyond rounding
        return Approximation(self, mean, np.where(varies, beta / np.where(varies, largest, 1.0), 0.0))


@dataclass(frozen=True, eq=False)
class Approximation:
    """x_hat = (scores loadings' - mean) * scale."""

    factors: Factors
    mean: Floats
    scale: Floats

    def table(self) -> Floats:
        """(n, p)."""
        return np.asarray((self.factors.scores @ self.factors.loadings.T - self.mean) * self.scale)

    def take(self, rows: Ints) -> Approximation:
        """The approximation of some rows; the sums by state are kept for all rows."""
        return replace(self, factors=replace(self.factors, scores=self.factors.scores[rows]))

    def codes(self, encoding: Encoding) -> Floats:
        """(p2, 2) means of an indicator's approximation over the rows that have it off, and on."""
        e, f = encoding, self.factors
        if not e.p2:
            return np.empty((0, 2))
        level_sums = np.where((e.indicator_of_state == MISSING)[:, None], 0.0, f.by_state)
        on, count = f.by_state[e.state_of], e.counts[e.state_of]
        rest = np.add.reduceat(level_sums, e.first_state, axis=0)[e.owner] - on
        means = np.stack([rest / (e.known[e.owner] - count)[:, None], on / count[:, None]], axis=1)
        loadings, mean, scale = (part[e.p1 :, None] for part in (f.loadings, self.mean, self.scale))
        return np.asarray(((means * loadings).sum(axis=2) - mean) * scale)


class Factoriser:
    """Factorises numbers in [0, 1] and indicators of 0 and sqrt(weight), missing cells at the means; `weight`
    is that of squared errors in the indicators.
    """

    def __init__(self, encoding: Encoding, table: MixedTable, weight: float, n_threads: int) -> None:
        self.encoding, self.table, self.weight, self.n_threads = encoding, table, weight, n_threads
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
            indicator = e.indicator_of_state[e.first_state[v] + self.table.codes[rows, d].astype(np.intp)]
            on = np.flatnonzero(indicator >= 0)
            out[on, e.p1 + indicator[on]] = self.root
            mine = slice(e.p1 + e.first[v], e.p1 + e.first[v + 1])
            out[np.ix_(indicator == MISSING, np.arange(e.p)[mine])] = self.mean[mine]
        return out

    def hals_by_sample(self, k: int, seed: int, rows: Ints) -> Factors:
        """The nonnegative factors of all rows, started at loadings and mean scores of a sample of them."""
        sample = Factoriser(self.encoding, self.table.take(rows), self.weight, self.n_threads).hals(
            k, seed, sweeps=_SAMPLE_SWEEPS
        )
        scores = np.broadcast_to(sample.scores.mean(axis=0), (self.table.n_rows, k))
        return self.hals(k, seed, (scores, sample.loadings), _LAST_SWEEPS)

    def hals(
        self, k: int, seed: int, start: tuple[Floats, Floats] | None = None, sweeps: int = SWEEPS
    ) -> Factors:
        """k nonnegative factors by hierarchical alternating least squares; every sweep lowers the squared
        error. `start`: scores (n, k) and loadings (p, k); None: uniform, drawn from the seed.
        """
        e, n = self.encoding, self.table.n_rows
        if start is None:
            size = 2.0 * np.sqrt(self.mean.mean() / k)
            streams = (SpectralStream.SCORES, n), (SpectralStream.LOADINGS, e.p)
            draws = [uniform(seed, stream, np.arange(m)[:, None], np.arange(k)) for stream, m in streams]
            start = size * draws[0], size * draws[1]
        scores, loadings = (np.array(part, np.float64, order="C") for part in start)
        sums, errors = np.empty((k + e.p1 + len(e.indicator_of_state), k)), np.empty(sweeps)
        work = n * k * (k + e.p1 + len(e.variable))
        threads, at_once = threads_for(self.n_threads, work), max(1, _UNINTERRUPTED // work)
        numbers = self.table.numeric, e.column, e.low, self.scale, self.fill
        states = self.table.codes, e.variable, e.first_state, e.first, e.state_of, e.missing_state, e.shares
        cells = (*numbers, *states)
        for done in range(0, sweeps, at_once):
            part = errors[done : done + at_once]
            _kernel.hals(*cells, self.root, scores, loadings, sums, part, runs_of(n), threads)
        return Factors(scores, loadings, sums[k + e.p1 :].copy(), 1.0 + errors / self._sum_of_squares())

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
        states = zip(e.variable, np.diff(np.append(e.first_state, len(e.indicator_of_state))), strict=True)
        sums = [[np.bincount(self.table.codes[:, d], weight, n) for weight in scores.T] for d, n in states]
        by_state = np.hstack([np.empty((scores.shape[1], 0)), *sums]).T
        return Factors(scores, loadings, by_state, values[:-k].sum(keepdims=True) / values.sum())

    def _sum_of_squares(self) -> float:
        e = self.encoding
        missing = e.counts[e.missing_state][e.owner]
        total = float((e.counts[e.state_of] * self.weight + missing * self.mean[e.p1 :] ** 2).sum())
        for rows in chunks(self.table.n_rows):
            block = (self.table.numeric[rows][:, e.column] - e.low) * self.scale
            total += float((np.where(np.isnan(block), self.fill, block) ** 2).sum())
        return total
