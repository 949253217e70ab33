"""The paper's objective as printed, equations (5) to (7): its maximum is the empty graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from craftc._common.typing import Floats
from craftc.spectral.encoding import Encoding
from craftc.spectral.pseudo_likelihood import similarity
from craftc.table import MixedTable

RATES, STEPS = {-1: 1.0, 1: 0.5}, {-1: 20, 1: 50}  # by the sign of the step
_ROWS = 512  # of a block


class Observed:
    """f = log L / n + log n of equation (5), a function of the weights of the edges. Its maximum is 0, at
    weights of zero.

    Similarities are g(x_s, x_t) of two numeric columns, x_s x_t of two indicators, g(x_hat_s, x_hat_t) of a
    numeric column and an indicator, and 0 if a cell is missing.

    Parameters
    ----------
    encoding : Encoding
    table : MixedTable
    low_rank : ndarray (n, p)
        The low-rank approximation of the table.
    eps : float
    """

    def __init__(self, encoding: Encoding, table: MixedTable, low_rank: Floats, eps: float) -> None:
        self.encoding, self.low_rank, self.eps, self.n = encoding, low_rank, eps, table.n_rows
        self._numbers = encoding.scaled(table)
        self._states = encoding.first_state + table.codes[:, encoding.variable].astype(np.intp)
        self._signs = encoding.indicators()
        self._signs[encoding.missing_state] = 0.0
        self.edges = encoding.edges()

    def _blocks(self) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Rows, and their similarities: numeric (m, p1, p1), mixed (m, p1, p2), indicators (m, p2)."""
        p1 = self.encoding.p1
        for start in range(0, self.n, _ROWS):
            rows = slice(start, start + _ROWS)
            x, low_rank = self._numbers[rows], self.low_rank[rows]
            signs = self._signs[self._states[rows]].sum(axis=1)
            known = ~np.isnan(x)
            x = np.where(known, x, 0.0)
            numeric = similarity(x[:, :, None], x[:, None, :], self.eps) * (
                known[:, :, None] & known[:, None, :]
            )
            mixed = similarity(low_rank[:, :p1, None], low_rank[:, None, p1:], self.eps) * (
                known[:, :, None] & (signs != 0.0)[:, None, :]
            )
            yield rows, numeric, mixed, signs

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """f and its gradient, mean(h) - sum_i softmax_i h_i, for symmetric weights (p, p) with zeros between
        columns without an edge.
        """
        p1 = self.encoding.p1
        energy = np.empty(self.n)
        numeric_weight, mixed_weight, indicator_weight = theta[:p1, :p1], theta[:p1, p1:], theta[p1:, p1:]
        for rows, numeric, mixed, signs in self._blocks():
            pairs = (numeric * numeric_weight).sum(axis=(1, 2)) + ((signs @ indicator_weight) * signs).sum(
                axis=1
            )
            energy[rows] = pairs / 2.0 + (mixed * mixed_weight).sum(axis=(1, 2))
        log_sum = float(logsumexp(energy))
        weight = 1.0 / self.n - np.exp(energy - log_sum)
        gradient = np.zeros_like(theta)
        for rows, numeric, mixed, signs in self._blocks():
            gradient[:p1, :p1] += np.tensordot(weight[rows], numeric, 1)
            gradient[:p1, p1:] += np.tensordot(weight[rows], mixed, 1)
            gradient[p1:, p1:] += (signs * weight[rows, None]).T @ signs
        return float(energy.mean()) - log_sum + float(np.log(self.n)), self.symmetric(gradient[self.edges])

    def symmetric(self, values: Floats) -> Floats:
        """(p, p) matrix from one value per edge."""
        out = np.zeros((self.encoding.p, self.encoding.p))
        out[self.edges] = values
        return out + out.T

    def gradient_path(self, sign: int, theta0: float, rate: float, n_steps: int) -> tuple[Floats, Floats]:
        """Steps theta += sign * rate * gradient from a constant; the last theta, rescaled to the start's
        norm, and f along the path.
        """
        start = theta = self.symmetric(np.full(len(self.edges[0]), theta0))
        path = np.empty(n_steps + 1)
        for step in range(n_steps + 1):
            path[step], gradient = self(theta)
            if step < n_steps:
                theta = theta + sign * rate * gradient
        norm = np.linalg.norm(theta)
        return (theta * np.linalg.norm(start) / norm if norm > 0.0 else theta), path
