"""The ascent of the mixture's bound: sweeps of updates, merges, starts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betaln

from craftc._common.labels import renumber
from craftc._common.random import spread, uniform
from craftc._common.typing import Floats, Labels
from craftc._kernels import parallel as _build
from craftc._kernels.mixture import Rows
from craftc.mixture.posterior import Posterior
from craftc.mixture.priors import KAPPA, Beliefs, Table, interval

_SLACK = 1e-9  # of the bound: a merge must win more, and rounding may cost an update less
_SEED_ROWS = 256  # among which the first centres are drawn, at least
_PATIENCE = 2e7  # cells times components between two looks at Ctrl-C
_ROUGH = 100  # times the tolerance: merges are tried when sweeps raise the bound by less, and again at the end
LLOYD = 10  # passes of k-means: a start, not a result
_SEED_DRAW, _SAMPLE_DRAW = 41, 42  # first keys of the random streams


class Plan(NamedTuple):
    """When a start ends: sweeps at most, the rise of the bound in nats per row that is too little for another, whether to merge."""

    max_iter: int
    tol: float
    merge: bool
    stop: Event  # set: give up


class Ascent:
    """One start on its way up.

    Parameters
    ----------
    table : Table
    beliefs : Beliefs
    plan : Plan
    n_threads : int
        Of a pass over the rows.
    """

    def __init__(self, table: Table, beliefs: Beliefs, plan: Plan, n_threads: int) -> None:
        self.table, self.units, self.beliefs, self.plan = table, table.units, beliefs, plan
        self.fraction = beliefs.fraction
        self.mixture = table.units.mixture(beliefs)
        self.rows: Rows = table.rows(beliefs.K)
        self.threads = n_threads

    # ---- starts ----

    def start_from(self, responsibilities: Floats) -> None:
        """Responsibilities (n, K) that were given."""
        self.mixture.size[:] = 1.0
        self.rows.visit(self.mixture, self.threads, given=responsibilities)
        self._begin()

    def start_by_kmeans(self, seed: int, start: int, passes: int = LLOYD) -> None:
        """k-means from rows drawn by their squared distances; counts: each row to the rates that tell it best. One pass: random rows."""
        q = self.mixture
        rows = self.table.X[self._seeds(seed, start, passes > 1)]
        some = len(rows)
        q.p[:], q.size[:some] = 1.0, 1.0
        if self.units.counts:
            cells = rows[:, self.units.column]
            q.s1[:some], q.reach[:some] = np.nan_to_num(cells), np.where(np.isnan(cells), 0.0, self.units.exposures(rows)[:, None])
        else:
            q.s1[:some], q.reach[:some] = np.nan_to_num(self.units.cells(rows)), 1.0
        for _ in range(passes):
            if self.units.counts:
                q.components()
            else:
                np.divide(q.s1, q.reach, out=q.own[1], where=q.reach > 0)
                q.own[0] = -0.5 * q.own[1] ** 2
            before = q.s1.copy()
            self.rows.visit(q, self.threads, hard=True, linear=True)
            if np.array_equal(before, q.s1):
                break
        self._begin()

    def _seeds(self, seed: int, start: int, far: bool) -> NDArray[np.intp]:
        """Rows that differ, drawn one after the other: by their squared distance to the nearest before (k-means++), or at random."""
        n, K = len(self.table), self.beliefs.K
        rows = np.arange(n)
        if n > max(_SEED_ROWS, 8 * K):
            rows = spread(n, max(_SEED_ROWS, 8 * K), seed, _SAMPLE_DRAW, start)
        cells = self.units.cells(self.table.X[rows])
        if self.units.counts:
            exposure = self.units.exposures(self.table.X[rows])
            cells = (cells - exposure[:, None] * self.units.rate) / np.sqrt(np.maximum(exposure[:, None] * self.units.rate, 1e-300))
        np.nan_to_num(cells, copy=False)
        squares = np.einsum("nd,nd->n", cells, cells)
        chosen: list[int] = []
        distance = np.ones(len(rows))
        for draw in uniform(seed, _SEED_DRAW, start, np.arange(min(K, len(rows)))):
            heap = np.cumsum(distance if far else distance > 0)
            if heap[-1] <= 0:
                break
            chosen.append(int(np.searchsorted(heap, draw * heap[-1], side="right").clip(0, len(rows) - 1)))
            away = squares - 2.0 * (cells @ cells[chosen[-1]]) + squares[chosen[-1]]
            away[away <= 1e-12 * (squares + squares[chosen[-1]])] = 0.0
            distance = away if len(chosen) == 1 else np.minimum(distance, away)
        return np.asarray(rows[chosen])

    def _begin(self) -> None:
        """The first q from the sums: every column is selected as often as the prior says."""
        q, m = self.mixture, self.beliefs.fraction
        q.share_prior = self.beliefs.shares(m)
        q.p[:] = m
        q.mask_entropy[:] = -(m * np.log(m) + (1 - m) * np.log(1 - m)) * (q.p.shape[1] if self.beliefs.tied else q.p.size)
        q.components()
        q.noises()
        q.shares()
        q.sticks()

    # ---- on the way ----

    def bound(self) -> float:
        """The evidence lower bound, all constants kept."""
        return float(self.mixture.bound()) + self.table.constant

    def sweeps(self, before: float, least: float, most: int) -> Floats:
        """The bound after every sweep, of at most so many, until one raises it by no more than `least`."""
        bounds = np.empty(1 if self.beliefs.learn else most)
        constant = self.table.constant
        made = self.rows.climb(self.mixture, before - constant, least, bounds, self.units.counts, self.threads)
        if self.beliefs.learn:
            # v and z do not know lambda and m, so that m may as well follow them
            self._fraction()
            bounds[0] = self.mixture.bound()
        return bounds[:made] + constant

    def _fraction(self) -> None:
        """m at its best for E ln lambda (bounded Brent), if that is better than before."""
        rich, poor = self.mixture.share[2].sum(), self.mixture.share[3].sum()
        columns = self.mixture.share.shape[1]

        def worth(m: float) -> float:
            a, b = self.beliefs.shares(m)
            return float(a * rich + b * poor - columns * betaln(a, b))

        bounds = interval(self.beliefs.variance, KAPPA)
        found = minimize_scalar(lambda m: -worth(m), bounds=bounds, method="bounded", options={"xatol": 1e-10})
        if worth(found.x) >= worth(self.fraction):
            self.fraction = float(found.x)
            self.mixture.share_prior = self.beliefs.shares(self.fraction)

    def run(self, told: Callable[[int, float], None]) -> Outcome:
        """Sweeps until the bound hardly rises, and merges that raise it; then the parameters for the last labels.

        Parameters
        ----------
        told : callable
            Told (sweeps made, bound).
        """
        max_iter, tol, merge, stop = self.plan
        path = [self.bound()]
        fine = tol * len(self.table)
        least = _ROUGH * fine if merge else fine
        some = max(1, int(_PATIENCE / (len(self.table) * (len(self.units.column) + 1) * self.beliefs.K)))
        settled = False
        while len(path) <= max_iter and not settled:
            if stop.is_set():
                raise KeyboardInterrupt
            path += self.sweeps(path[-1], least, min(some, max_iter + 1 - len(path))).tolist()
            if path[-1] - path[-2] <= least:
                settled = not (merge and self._merge_all(path, max_iter))
            if settled and least > fine:
                least, settled = fine, False
            if settled and merge and len(path) <= max_iter and self._release(path[-1]):
                path.append(self.bound())
                settled = False
            told(len(path) - 1, path[-1])
            if _build.debug() and any(later < sooner - _SLACK * max(1.0, abs(sooner)) for sooner, later in pairwise(path)):
                raise AssertionError(f"the bound fell: {path}")
        label = self._close()
        del self.rows  # their partial sums are as large as all that is kept
        return Outcome(self, self.fraction, label, self.bound(), np.array(path[1:]), len(path) - 1, settled)

    def update(self) -> None:
        """All factors but that of the labels."""
        self._select()
        self.mixture.noises()
        self.mixture.shares()
        if self.beliefs.learn:
            self._fraction()
        self.mixture.sticks()

    def _select(self) -> None:
        """The components, and the columns they select."""
        self.mixture.components()
        self.mixture.masks()

    def visit(self, label: Labels | None = None) -> None:
        """The labels' factor; `label` (n,): OUT the best component, its place among those not empty."""
        self.rows.visit(self.mixture, self.threads, linear=self.units.counts, label=label)

    def _close(self) -> Labels:
        """All factors fitted to the last responsibilities, and the labels these parameters give (numbers of components)."""
        self.update()
        label, alive = np.empty(len(self.table), np.int32), np.flatnonzero(self.mixture.size > 0)
        self.visit(label)
        renumber(label, alive.astype(np.int32))
        return label

    def _release(self, bound: float) -> bool:
        """Columns that all components select are let go by one of them where that raises the bound; whether it did."""
        before = self._state()
        if self.mixture.release(_SLACK * max(1.0, abs(bound))) and self.bound() > bound + _SLACK * abs(bound):
            return True
        self._restore(before)
        return False

    def _merge_all(self, path: list[float], max_iter: int) -> bool:
        """Merges as long as the bound rises; whether it did."""
        merged = False
        while len(path) <= max_iter and (better := self._merge(path[-1])) is not None:
            path.append(better)
            merged = True
        return merged

    def _merge(self, bound: float) -> float | None:
        """The bound after the first merge that raises it, the most promising pairs first; None where there is none."""
        gains = self._pair_gains()
        promising = gains > _SLACK * abs(bound)
        for i, j in np.argwhere(promising)[np.argsort(-gains[promising], kind="stable")]:
            before = self._state()
            self._join(i, j)
            after = float(self.sweeps(bound, 0.0, 1)[0])
            if after > bound + _SLACK * abs(bound):
                return after
            self._restore(before)
        return None

    def _pair_gains(self) -> Floats:
        """(K, K) what joining two components should give to the bound."""
        return self.mixture.pair_gains()

    def _join(self, i: int, j: int) -> None:
        self.mixture.join(i, j)

    def _state(self) -> Any:
        return self.fraction, self.mixture.state()

    def _restore(self, state: Any) -> None:
        self.fraction, kept = state
        self.mixture.restore(kept)
        self.mixture.share_prior = self.beliefs.shares(self.fraction)

    def posterior(self, found: NDArray[np.intp]) -> Posterior:
        """What is kept of the components that were found."""
        return Posterior(self.units, self.beliefs, self.mixture, found)


class Outcome(NamedTuple):
    """Where a start ended: its parameters are those of its last labels, its bound is that of both."""

    ascent: Ascent
    fraction: float  # m
    label: Labels  # components
    bound: float
    path: Floats
    n_iter: int
    converged: bool

