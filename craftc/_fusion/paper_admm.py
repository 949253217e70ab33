"""The paper's own ADMM, copies of both ends of every edge, and its stopping rule: the reference path."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from craftc._common.typing import Floats
from craftc._fusion.problem import Found, Task, lengths, shrink

RHO = 1.0
EPS = 1e-5
_FORCED = 11  # iterations at least: a warm start can meet the rule without having moved


class PaperAdmm:
    """Keeps B, the copies z and the multipliers u from one penalty to the next.

    z and u have an entry (2, l, q) for both ends of the l edges; of an edge to the ground the second stays zero.
    """

    def __init__(self, most: int) -> None:
        self.most, self.theta = most, np.empty((0, 0))
        self.z = self.u = np.empty((2, 0, 0))
        self.exhausted = False

    def solve(self, task: Task, theta: Floats) -> Found:
        """Iterate until |z - b| and rho |z - z_old| are at most sqrt(c (d + 2 l)) eps."""
        reduced, loss = task.reduced, task.reduced.loss
        d, edge, q = reduced.m, reduced.edge, loss.q
        bound = (edge[:, 1] == d)[None, :, None] & np.array([False, True])[:, None, None]  # ends that are the ground
        degree = np.bincount(edge.ravel(), minlength=d + 1)[:d]
        if self.theta.shape != theta.shape or self.z.shape[1] != len(edge):
            self.theta = theta
            self.z = np.where(bound, 0.0, np.append(theta[:d], np.zeros((1, q)), axis=0)[edge.T])
            self.u = np.zeros_like(self.z)
        threshold = np.sqrt((q + 1) * (d + 2 * len(edge))) * EPS
        for k in range(1, self.most + 1):
            pull = np.zeros((d + 1, q))
            np.add.at(pull, edge.T, self.z + self.u)
            pull[-1] = 0.0
            self.theta = self._minimise(task, pull, np.append(degree, 0.0)[:, None])
            b = np.where(bound, 0.0, np.append(self.theta[:d], np.zeros((1, q)), axis=0)[edge.T])
            m = b - self.u
            h = lengths(m[0] - m[1])
            # of an edge to the ground one end alone moves: the way is shared out between h, not 2 h
            whole = np.where(edge[:, 1] == d, 1.0, 2.0) * task.radius / RHO
            fused = (h <= whole) & (task.radius > 0)
            pressed = np.where(fused, 1.0, whole / np.where(h > 0, h, 1.0))[:, None] * (m[0] - m[1])
            share = np.where(edge[:, 1] == d, 1.0, 0.5)[:, None]
            z = np.where(bound, 0.0, np.stack([m[0] - share * pressed, m[1] + share * pressed]))
            self.u = np.where(bound, 0.0, self.u + z - b)
            far, dual = np.sqrt(((z - b) ** 2).sum()), np.sqrt(RHO * ((z - self.z) ** 2).sum())
            self.z = z
            if k >= _FORCED and max(far, dual) <= threshold:
                break
        else:
            self.exhausted = True
        theta, point = loss.balanced(reduced.X, self.theta, loss.at(reduced.X, self.theta))
        flow = -RHO * self.u[0]
        shrink(flow, task.radius)
        return Found(theta, point, flow, fused.astype(np.uint8), k)

    def _minimise(self, task: Task, pull: Floats, degree: Floats) -> Floats:
        """argmin loss + ridge |B|^2 + rho / 2 sum over copies |z + u - b|^2, by L-BFGS from where B is."""
        X, loss = task.reduced.X, task.reduced.loss
        weight = task.weight + RHO * degree

        def look(flat: Floats) -> tuple[float, Floats]:
            theta = flat.reshape(self.theta.shape)
            point = loss.at(X, theta)
            value = point.value + float((0.5 * weight * theta**2 - RHO * pull * theta).sum())
            return value, (X.T @ point.residual + weight * theta - RHO * pull).ravel()

        found = minimize(look, self.theta.ravel(), jac=True, method="L-BFGS-B")
        return np.asarray(found.x.reshape(self.theta.shape))
