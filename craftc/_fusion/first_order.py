"""Large problems: the paper's ADMM in its form with one vector per edge, and the accelerated dual ascent of convex clustering."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._fusion.datafits import Squares, newton_move
from craftc._fusion.problem import Found, Task, gap_of, grounded, shrink
from craftc._kernels import covariates as _kernel

RELAX = 1.7  # over-relaxation
_LOOK = 10  # iterations between two looks at the gap, and at the balance of the penalty
_TURN = 2.0  # most that the penalty changes at once
_RANGE = 1e4  # times one radius per size of the coefficients: no penalty is further from that
_SETTLED = 100  # iterations from which on it changes less and less
_INNER = 0.1  # of the residuals: what a minimisation over B may leave of its gradient
_STEPS = 3  # Newton steps of such a minimisation
_PRODUCTS = 50  # conjugate gradients of one of them
_BLOCKS = 16  # of edges at most, each with node sums of its own


class Edges:
    """The dual variables of a task's edges, their node sums, and what one pass changes."""

    def __init__(self, task: Task, flow: Floats) -> None:
        reduced = task.reduced
        self.task, self.lam = task, flow
        shrink(self.lam, task.radius)
        self.fused = np.zeros(len(reduced.edge), np.uint8)
        # a block's sums must not cost more than its edges
        blocks = min(max(len(reduced.edge) // (2 * (reduced.m + 1)), 1), _BLOCKS)
        self.work = np.empty((blocks, reduced.m + 1, flow.shape[1]))
        self.n_threads = threads_for(task.n_threads, 10.0 * flow.size)

    def move(self, b: Floats, step: Floats, relax: float) -> tuple[Floats, float]:
        """lam goes `relax` of its way to Proj(lam + step (b_i - b_j)); node sums (m, q) of the projections, sum |change|^2 / step."""
        sums = np.empty((len(b) + 1, b.shape[1]))
        moved = _kernel.edge_pass(grounded(b), self.task.reduced.edge, self.task.radius, step, relax, self.lam, self.fused, sums,
                                  self.work, self.n_threads)
        return sums[:-1], moved

    def sums(self) -> Floats:
        """Node sums of the dual variables as they are."""
        out = np.zeros((self.task.reduced.m + 1, self.lam.shape[1]))
        np.add.at(out, self.task.reduced.edge[:, 0], self.lam)
        np.subtract.at(out, self.task.reduced.edge[:, 1], self.lam)
        return out[:-1]


class EdgeAdmm:
    """Section 3: the paper's iteration, exactly, with penalties rho_e.

        lam_e <- Proj(lam_e + rho_e / 2 (b_i - b_j))
        B     <- argmin loss + ridge |B|^2 + <2 G_new - G_old, B> + 1/2 sum_i D_i |b_i - b_i_old|^2,   D_i = sum_e rho_e

    Parameters
    ----------
    task : Task
    theta, flow : ndarray
        Start; the flow is changed.
    rho : ndarray (edges,)
    """

    def __init__(self, task: Task, theta: Floats, flow: Floats, rho: Floats) -> None:
        self.task, self.X, self.loss = task, task.reduced.X, task.reduced.loss
        self.edges = Edges(task, flow)
        self.base = theta.copy()  # relaxed
        self.sums = self.edges.sums()
        self.theta, self.point = theta, self.loss.at(self.X, theta)
        self.set_rho(rho)
        self.curve = self.loss.diagonal(self.X, self.point)

    def set_rho(self, rho: Floats) -> None:
        m, edge = self.task.reduced.m, self.task.reduced.edge
        self.rho = rho
        self.damp = np.append(node_sums(edge, rho, m), 0.0)[:, None]

    def iterate(self, relax: float, inner: float) -> tuple[float, float]:
        """One iteration; how far B and lam went, each in its own metric. `inner` bounds the gradient that the step in B may leave."""
        m, base = self.task.reduced.m, self.base
        sums, moved = self.edges.move(base[:m], 0.5 * self.rho, relax)
        pull = grounded(2.0 * sums - self.sums) - self.damp * base
        self.force = float(np.sqrt(((sums - self.sums) ** 2).sum()))
        self._minimise(pull, inner)
        change = self.theta - base
        self.base = base + relax * change
        self.sums = self.sums + relax * (sums - self.sums)
        self.unrelaxed = sums
        self.force = max(self.force, float(np.sqrt(((self.damp * change) ** 2).sum())))
        return float(np.sqrt((self.damp * change**2).sum())), float(np.sqrt(2.0 * moved))

    def _minimise(self, pull: Floats, tolerance: float) -> None:
        """theta <- argmin loss + 1/2 sum_i (weight_i + damp_i) |theta_i|^2 + <pull, theta>, by Newton steps of conjugate gradients."""
        X, loss, weight = self.X, self.loss, self.task.weight + self.damp
        theta, point = self.theta, self.point
        value = point.value + float((0.5 * weight * theta**2 + pull * theta).sum())
        for step in range(_STEPS):
            gradient = X.T @ point.residual + weight * theta + pull
            size = float(np.sqrt((gradient**2).sum()))
            if step and size <= tolerance:  # a first step always: B that rests would mislead the balance of the penalty
                break
            move = newton_move(loss, X, point, weight, self.curve, gradient, max(0.5 * tolerance, 1e-3 * size), _PRODUCTS)
            slope, t = float((gradient * move).sum()), 1.0
            while True:
                there = theta + t * move
                point = loss.at(X, there)
                new = point.value + float((0.5 * weight * there**2 + pull * there).sum())
                if new <= value + 1e-4 * t * slope + 1e-14 * abs(value) or t < 1e-8:
                    break
                t *= 0.5
            theta, value = there, new
        self.theta, self.point = theta, point

    def gap(self) -> float:
        """Duality gap after an iteration without relaxation."""
        m, reduced = self.task.reduced.m, self.task.reduced
        self.theta, self.point = self.loss.balanced(self.X, self.theta, self.point)
        rest = (self.X.T @ self.point.residual + self.task.weight * self.theta)[:m] + self.unrelaxed
        return self.task.slack(self.theta, self.edges.lam) + gap_of(rest, self.theta[:m], self.task.ridge, reduced.size, self.task.unit)


def admm(task: Task, theta: Floats, flow: Floats, most: int, stiffness: float) -> tuple[Found, float]:
    """Until the gap is small; penalties rho_e = stiffness * radius_e, balanced as it goes; the stiffness that was last."""
    solver = EdgeAdmm(task, theta, flow, stiffness * task.radius)
    inner, ways = np.inf, np.zeros(2)
    for k in range(1, most + 1):
        looks = k % _LOOK == 0 or k == most
        ways += np.square(solver.iterate(1.0 if looks else RELAX, inner))
        inner = _INNER * solver.force
        if not looks:
            continue
        gap = solver.gap()
        value = solver.point.value + 0.5 * float((task.weight * solver.theta**2).sum()) + task.penalty(solver.theta)
        if gap <= task.accuracy * max(abs(value), task.least):
            break
        if ways.min() > 0:
            # towards the penalty at which B and lam go equally far, by ever smaller turns: then the iteration converges
            turn = np.clip((ways[1] / ways[0]) ** 0.25, 1 / _TURN, _TURN)
            natural = 1.0 / task.scale(solver.theta)
            stiffness = float(np.clip(stiffness * turn ** min(1.0, _SETTLED / k), natural / _RANGE, natural * _RANGE))
            solver.set_rho(stiffness * task.radius)
        ways[:] = 0.0
    return Found(solver.theta, solver.point, solver.edges.lam, solver.edges.fused, k), stiffness


def ama(task: Task, flow: Floats, most: int) -> Found:
    """Convex clustering by accelerated projected gradients on its dual, started again where they turn (Chi & Lange)."""
    reduced, loss = task.reduced, task.reduced.loss
    if not isinstance(loss, Squares):
        raise TypeError("the dual of this loss has no closed gradient")
    m, edge, weight = reduced.m, reduced.edge, task.weight[:-1]
    pull = reduced.X[:, :m].T
    # steps r_e / (R_i / w_i + R_j / w_j), R_i the sum of radii at a node: below the inverse of the dual's curvature
    load = node_sums(edge, task.radius, m) / weight[:, 0]
    step = task.radius / (load[edge[:, 0]] + load[edge[:, 1]])
    edges = Edges(task, flow)
    lam, t = edges.lam.copy(), 1.0
    sums = ahead = edges.sums()
    for k in range(1, most + 1):
        before = edges.lam.copy()
        new, _ = edges.move((pull - ahead) / weight, step, 1.0)
        if k % _LOOK == 0 or k == most:
            b = (pull - new) / weight
            value = float((0.5 * weight * b**2 - pull * b).sum()) + loss.half + task.penalty(b)
            if task.slack(b, edges.lam) <= task.accuracy * max(abs(value), task.least):
                break
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        momentum, t = (t - 1.0) / following, following
        if float(((before - edges.lam) * (edges.lam - lam)).sum()) > 0:
            momentum, t = 0.0, 1.0
        change, turn = edges.lam - lam, new - sums
        lam, sums = edges.lam.copy(), new
        edges.lam += momentum * change
        ahead = new + momentum * turn
    theta = grounded((pull - new) / weight)
    return Found(theta, loss.at(reduced.X, theta), edges.lam, edges.fused, k)


def node_sums(edge: NDArray[np.int32], weight: Floats, m: int) -> Floats:
    """(m,) sums of the weights of every node's edges, the ground left out."""
    both = np.bincount(edge[:, 0], weight, minlength=m + 1) + np.bincount(edge[:, 1], weight, minlength=m + 1)
    return np.asarray(both[:m], dtype=np.float64)
