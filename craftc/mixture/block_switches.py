"""Switches of blocks of columns of components with full covariances, given the responsibilities.

Correlated columns are often worth nothing alone: a component gains only where it selects, or drops, several
of them. From every column a path switches one column after the other, the one with the largest gain first,
even where the ELBO falls; the best beginning of the best path counts. q(mu, Sigma), the noise and lambda
follow every switch, so that a column that all components select can be dropped: its noise had no cells.

The determinants of a path follow from one matrix M, which is -Psi_SS^-1 in the selected columns, and in the
others their scatter conditional on the selected ones: a switch of column d multiplies |Psi_S| by |M_dd|, and
is a step of elimination with this pivot in the columns that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from craftc._common.typing import Floats

_PATIENCE = 8  # switches of a path without a new maximum
_CELLS = 1 << 22  # numbers that the paths of a component hold at a time


class Switch(NamedTuple):
    """Columns to switch together, and what the ELBO gains."""

    columns: NDArray[np.intp]
    gain: float


NOTHING = Switch(np.empty(0, np.intp), 0.0)


@dataclass(frozen=True)
class NoiseGains:
    """Log evidence of the noise where the cells of columns join or leave it.

    Every column has a number of cells and a scatter, halved, which change by a switch (2, D). Their Gamma
    functions belong to all columns together if these have one precision, and to each otherwise.
    """

    shape: float  # a0
    rate: Floats  # b0 of every column
    common: bool
    now: Floats
    change: Floats
    term: Floats  # (D,) change of the other factors

    @classmethod
    def fitted(
        cls, prior: tuple[float, float, Floats], common: bool, now: Floats, after: Floats
    ) -> NoiseGains:
        """`now`, `after` (3, D): number, sum and sum of squares of the cells in the noise, before and after a
        switch of the column.
        """
        k0, a0, b0 = prior
        states, terms = [], []
        for number, s1, s2 in (now, after):
            scatter = np.maximum(s2 - s1 * s1 / (k0 + number), 0.0)
            states.append(np.stack([number, scatter]) / 2)
            terms.append(0.5 * np.log(k0 / (k0 + number)) - 0.5 * number * np.log(2.0 * np.pi))
        return cls(a0, b0, common, states[0], states[1] - states[0], terms[1] - terms[0])

    def __call__(self, made: NDArray[np.bool_]) -> Floats:
        """(paths, D) gain of the next switch after the switches `made` (paths, D)."""
        before, rate = self.now, self.rate
        if self.common:
            before = (self.now.sum(axis=1) + made @ self.change.T).T[:, :, None]
            rate = rate[:1]
        after = before + self.change.reshape(2, *[1] * (before.ndim - 2), -1)
        return np.asarray(self.term + self._evidence(after, rate) - self._evidence(before, rate))

    def _evidence(self, state: Floats, rate: Floats) -> Floats:
        a = self.shape + state[0]
        return np.asarray(gammaln(a) - a * np.log(rate + np.maximum(state[1], 0.0)))


@dataclass(frozen=True)
class Block:
    """Components that switch columns together, and the columns in which they agree."""

    selected: NDArray[np.bool_]  # (D,) whether the components select the column
    matrix: Floats  # (components, D, D)
    log_det: Floats  # (components,) ln |Psi_S|
    count: NDArray[np.intp]  # (components,) selected columns
    steps: Floats  # (components, all columns + 1) log evidence of a number of columns without ln |Psi_S|
    freedom: Floats  # (components,) degrees of freedom minus the number of columns
    others: Floats  # (D,) gain of a switch beyond the components and the noise
    noise: NoiseGains

    def best(self) -> Switch:
        """The best beginning of all paths."""
        g, D = self.matrix.shape[:2]
        some = max(1, _CELLS // max(1, 2 * _PATIENCE * g * D))
        starts = [np.arange(first, min(first + some, D)) for first in range(0, D, some)]
        return max((self._best_of(start) for start in starts), key=lambda path: path.gain, default=NOTHING)

    def _best_of(self, start: NDArray[np.intp]) -> Switch:
        """The best beginning of the paths from some columns."""
        paths, best = _Paths(self, len(start)), Switch(start[:0], -np.inf)
        order: list[NDArray[np.intp]] = []
        total = np.zeros(len(start))
        while len(order) < len(self.selected) and len(order) - len(best.columns) <= _PATIENCE:
            gains = paths.gains()
            order.append(gains.argmax(axis=1) if order else start)
            total = total + gains[paths.each, order[-1]]
            ahead = int(total.argmax())
            if total[ahead] > best.gain:
                best = Switch(np.array([columns[ahead] for columns in order]), float(total[ahead]))
            paths.switch(order[-1])
        return best


class _Paths:
    """Paths from some columns: the state after the switches that were made."""

    def __init__(self, block: Block, n_paths: int) -> None:
        self.block, self.each = block, np.arange(n_paths)
        self.made = np.zeros((n_paths, len(block.selected)), bool)
        self.log_det = np.repeat(block.log_det[:, None], n_paths, axis=1)
        self.count = np.repeat(block.count[:, None], n_paths, axis=1)
        self.diagonal = np.repeat(np.einsum("kdd->kd", block.matrix)[:, None], n_paths, axis=1)
        self.change = np.where(block.selected, -1, 1)  # of the number of selected columns
        self.rows: list[Floats] = []  # (g, n_paths, D) of the pivots, divided by their absolute values' roots
        self.signs: list[Floats] = []  # (g, n_paths) of the pivots

    def gains(self) -> Floats:
        """(n_paths, D) gain of the next switch."""
        after = np.clip(self.count[:, :, None] + self.change, 0, self.block.steps.shape[1] - 1)
        log_det = self.log_det[:, :, None] + np.log(_size(self.diagonal))
        own = self._evidence(after, log_det) - self._evidence(self.count, self.log_det)[:, :, None]
        gains = own.sum(axis=0) + self.block.others + self.block.noise(self.made)
        return np.where(self.made, -np.inf, gains)

    def _evidence(self, count: NDArray[np.intp], log_det: Floats) -> Floats:
        """(g, ...) of components that select a number of columns."""
        component = np.arange(len(count)).reshape(-1, *[1] * (count.ndim - 1))
        freedom = self.block.freedom[component] + count
        return np.asarray(self.block.steps[component, count] - 0.5 * freedom * log_det)

    def switch(self, column: NDArray[np.intp]) -> None:
        """Every path switches a column: a step of elimination."""
        self.made[self.each, column] = True
        row = self.block.matrix[:, column]
        for sign, earlier in zip(self.signs, self.rows, strict=True):
            row = row - (sign * earlier[:, self.each, column])[:, :, None] * earlier
        pivot = row[:, self.each, column]
        self.rows.append(row / np.sqrt(_size(pivot))[:, :, None])
        self.signs.append(np.sign(pivot))
        self.diagonal -= self.signs[-1][:, :, None] * self.rows[-1] ** 2
        self.log_det = self.log_det + np.log(_size(pivot))
        self.count = self.count + self.change[column]


def _size(pivot: Floats) -> Floats:
    return np.maximum(np.abs(pivot), 1e-300)


def path_matrix(psi: Floats, selected: NDArray[np.intp], inverse: Floats) -> Floats:
    """-Psi_SS^-1 in the selected columns S, elsewhere the scatter conditional on them; `inverse` of the lower
    Cholesky factor of Psi_SS.
    """
    rows = inverse @ psi[selected]  # L^-1 Psi_S
    matrix = psi - rows.T @ rows
    precision = inverse.T @ inverse
    matrix[selected] = precision @ psi[selected]
    matrix[:, selected] = matrix[selected].T
    matrix[np.ix_(selected, selected)] = -precision
    return np.asarray(matrix)
