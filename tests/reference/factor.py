"""One factor behind the columns by the EM algorithm, with dense indicators of the levels."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, logsumexp

RIDGE, ENOUGH = 1e-3, 1e-4


def fit(rows, weight, columns, column_weight, price, held, nodes, places, log_prior, prune, fewest, most):
    """Nats of the marginal likelihood over independent columns, and the columns that are left.

    `rows` (n, D) are levels of each column, -1 where a cell is missing; `columns` are (levels, r) statistics
    of mean 0; the other parameters are those of the kernel.
    """
    D, held, total = len(columns), list(held), weight.sum()
    cells = [(rows[:, d, None] == np.arange(len(s))).astype(float) for d, s in enumerate(columns)]
    base = [
        np.log(np.maximum((weight @ cell) / max((weight @ cell).sum(), 1e-300), 1e-300)) for cell in cells
    ]
    without = sum(weight @ (v * (cell @ b)) for v, cell, b in zip(column_weight, cells, base, strict=True))
    intercept, tilt = [b.copy() for b in base], [np.zeros(len(b)) for b in base]

    def log_shares(d):
        return log_softmax(intercept[d][:, None] + np.outer(tilt[d], nodes), axis=0)

    gain, posterior = -np.inf, places
    for step in range(most):
        prior = log_prior if len(log_prior) else np.log(np.maximum(weight @ posterior / total, 1e-300))
        counts = [cell.T @ (posterior * weight[:, None]) for cell in cells]
        for d in np.flatnonzero(held):
            s, own, seen = columns[d], counts[d], counts[d].sum(axis=0)
            found, expected = own.sum(axis=1), np.exp(log_shares(d)) @ seen
            intercept[d][found > 0] += np.log(found[found > 0] / expected[found > 0])
            share = np.exp(log_shares(d))
            mean, square = s.T @ share, seen * nodes**2
            spread = (share * square).sum(axis=1)
            hessian = (s.T * spread) @ s - (mean * square) @ mean.T
            hessian += np.eye(len(hessian)) * RIDGE * (1.0 + np.trace(hessian) / len(hessian))
            tilt[d] += s @ np.linalg.solve(hessian, s.T @ ((own - share * seen) @ nodes))
        along = [log_shares(d) for d in range(D)]
        joint = prior + sum(v * cell @ a for v, cell, a in zip(column_weight, cells, along, strict=True))
        former, gain = gain, weight @ logsumexp(joint, axis=1) - without
        if step >= fewest and gain - former <= ENOUGH * abs(gain):
            break
        posterior = np.exp(log_softmax(joint, axis=1))
        if step in prune:
            for d in np.flatnonzero(held):
                own = cells[d].T @ (posterior * weight[:, None])
                if column_weight[d] * (own * (along[d] - base[d][:, None])).sum() <= price[d]:
                    held[d], intercept[d], tilt[d] = False, base[d].copy(), np.zeros(len(base[d]))
    return gain, np.array(held)
