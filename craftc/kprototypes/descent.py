"""One start of k-prototypes: initial partition, then passes until the cost no longer falls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event

import numpy as np

from craftc._common.typing import Floats, Integers, Labels, PassCallback
from craftc._kernels import kprototypes as _kernel
from craftc.kprototypes.exact_means import exact_means
from craftc.kprototypes.init import Draws, Modes, initial_modes
from craftc.kprototypes.problem import NG, Problem, Workplace

_TRIES = 20  # draws of a start after which its modes are random rows
_ALL_TRIES = 100  # draws of a start after which its prototypes are distinct rows


@dataclass
class PrototypeDescent:
    """The result of a start; `groups` are the moments of the clusters from which the prototypes follow."""

    means: Floats
    modes: Modes
    groups: Integers
    members: Labels  # (n,) the clusters that these moments are of
    labels: Labels
    cost: float
    epoch_costs: list[float]
    n_iter: int
    converged: bool


@dataclass
class Plan:
    """How a start proceeds."""

    n_clusters: int
    init: str | tuple[Floats, Modes]
    online: bool  # whether a row that moves changes its prototypes at once
    retry: bool  # whether a start with an empty cluster is drawn again, as that of k-prototypes is
    max_iter: int
    cao: Modes | None = None  # (K, q) the modes of the start "Cao", which are those of every start

    @property
    def deterministic(self) -> bool:
        """Whether all starts would be the same."""
        return not isinstance(self.init, str) or (self.init == "Cao" and not self.retry)


def descend(
    problem: Problem, plan: Plan, seed: int, n_threads: int, stop: Event, callback: PassCallback | None = None
) -> PrototypeDescent:
    """One start.

    `stop`: once set, the next pass raises KeyboardInterrupt. `callback`: called with (pass, cost) after
    every pass.
    """
    draws, work = Draws(problem, seed), Workplace(problem, plan.n_clusters, n_threads)
    prototypes = _first_prototypes(problem, plan, draws, work)
    best = prototypes.means, prototypes.modes, *work.partition()
    if plan.online:
        labels, cost = work.nearest(prototypes)
    else:
        labels, cost = work.labels, work.assign(prototypes)[1]
    epoch_costs, n_iter, converged = [cost], 0, plan.max_iter == 0
    while n_iter < plan.max_iter and not converged:
        if stop.is_set():
            raise KeyboardInterrupt
        n_iter += 1
        if plan.online:
            moved = _pass_in_order(prototypes, draws, work)
            members = work.partition()
            labels, new_cost = work.nearest(prototypes) if moved else (labels, cost)
        else:
            _refill(prototypes, draws, work)
            prototypes.refit(work.groups)
            members = work.partition()
            moved, new_cost = work.assign(prototypes)
        converged = moved == 0 or new_cost >= cost
        # kmodes keeps the prototypes of a pass in order that raised the cost
        if plan.online or new_cost <= cost:
            best = prototypes.means, prototypes.modes, *members
        else:
            labels, new_cost = work.nearest(problem.prototypes(*best[:3]))
        cost = new_cost
        epoch_costs.append(cost)
        if callback:
            callback(n_iter, cost)
    return PrototypeDescent(*best, labels, cost, epoch_costs, n_iter, converged)


def with_exact_means(problem: Problem, found: PrototypeDescent, n_threads: int) -> PrototypeDescent:
    """The result with means to the last digit, and the labels and the cost under these."""
    if not problem.grid.p:
        return found
    means = exact_means(problem, found.members, found.groups, found.means)
    work = Workplace(problem, len(means), n_threads)
    labels, cost = work.nearest(problem.prototypes(means, found.modes, found.groups))
    epoch_costs = [cost if each == found.cost else each for each in found.epoch_costs]
    return replace(found, means=means, labels=labels, cost=cost, epoch_costs=epoch_costs)


def _first_prototypes(problem: Problem, plan: Plan, draws: Draws, work: Workplace) -> _kernel.Prototypes:
    """The prototypes of the partition into which the start divides the rows; `work` has that partition."""
    tries, init = 0, plan.init
    while True:
        tries += 1
        prototypes = _start(problem, plan, init, draws, tries > _ALL_TRIES)
        work.clear()
        if problem.kind == NG:  # a row is weighed by the rows before it
            work.move_in_order(prototypes, 0, True)
        else:
            work.assign(prototypes)
        empty = np.flatnonzero(work.groups[:, 0] == 0)
        if not len(empty) or not plan.retry or tries > _ALL_TRIES:
            break
        if tries >= _TRIES or not isinstance(init, str):
            tries, init = max(tries, _TRIES), "random"
    prototypes.refit(work.groups)
    if len(empty):
        modes = prototypes.modes
        for k in empty:
            modes[k] = [problem.codes_of(draws.rows(1))[0, d] for d in range(problem.grid.q)]
        prototypes = problem.prototypes(prototypes.means, modes, work.groups)
    return prototypes


def _start(
    problem: Problem, plan: Plan, init: str | tuple[Floats, Modes], draws: Draws, distinct: bool
) -> _kernel.Prototypes:
    """Prototypes before any row is assigned: distinct rows, or as `init` says."""
    if distinct:
        rows = problem.distinct_rows(plan.n_clusters, draws.rng.permutation(len(problem)))
        return problem.prototypes(problem.numbers_of(rows), problem.codes_of(rows))
    if not isinstance(init, str):
        return problem.prototypes(*init)
    modes = (
        plan.cao
        if plan.cao is not None and init == "Cao"
        else initial_modes(init, problem, plan.n_clusters, draws)
    )
    return problem.prototypes(draws.means(plan.n_clusters), modes)


def _pass_in_order(prototypes: _kernel.Prototypes, draws: Draws, work: Workplace) -> int:
    """All rows in turn; returns the number that moved.

    A cluster that a row leaves empty receives a row of the largest one.
    """
    row, moved = 0, 0
    while row < len(work.labels):
        row, more, emptied = work.move_in_order(prototypes, row, False)
        moved += more
        if emptied >= 0:
            work.move_one(prototypes, _row_of_largest(draws, work), emptied)
    return moved


def _refill(prototypes: _kernel.Prototypes, draws: Draws, work: Workplace) -> None:
    """Give every empty cluster a row of the largest one."""
    for k in np.flatnonzero(work.groups[:, 0] == 0):
        work.move_one(prototypes, _row_of_largest(draws, work), int(k))


def _row_of_largest(draws: Draws, work: Workplace) -> int:
    """A random row of the largest cluster."""
    return draws.among(np.flatnonzero(work.labels == work.groups[:, 0].argmax()))
