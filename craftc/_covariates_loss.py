"""The multinomial loss in the c - 1 directions that matter, on columns that may be sums of covariates (spec: covariates, section 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._labels import Labels
from craftc._moments import Floats

_BALANCE = 20  # Newton steps of the intercept at most, from a point that is all but balanced


def centred_basis(c: int) -> Floats:
    """(c, c - 1) orthonormal basis of the vectors whose sum is zero: an optimum has no other part."""
    basis = np.tril(np.ones((c, c - 1)), -1) * -1.0
    basis[np.arange(c - 1), np.arange(c - 1)] = np.arange(c - 1, 0, -1)
    return np.asarray(basis / np.sqrt(np.arange(c, 1, -1) * np.arange(c - 1, 0, -1.0)))


def column_sums(X: Floats, label: Labels, m: int) -> Floats:
    """(n, m + 1) sums of the covariates of every cluster, and ones."""
    out = np.zeros((len(X), m + 1))
    out[:, -1] = 1.0
    order = np.argsort(label, kind="stable")
    first = np.searchsorted(label[order], np.arange(m))
    if m:
        out[:, :m] = np.add.reduceat(X[:, order[: np.searchsorted(label[order], m)]], first, axis=1)
    return out


class Point(NamedTuple):
    """The loss at some coefficients."""

    value: float
    entropy: float  # sum of the entropies of the fitted probabilities
    proba: Floats  # (n, c)
    residual: Floats  # (n, q) (P - Y) in the basis


class Loss:
    """sum_s lse(B x_s + beta0) - (B x_s + beta0)_{y_s} for B = V theta.

    Parameters
    ----------
    y : ndarray (n,) of int
        Classes 0..c-1.
    c : int
    """

    def __init__(self, y: NDArray[np.intp], c: int) -> None:
        self.y, self.c, self.basis = y, c, centred_basis(c)
        self.row = np.arange(len(y))
        self.target = self.basis[y]
        q = c - 1
        self.pairs = np.triu_indices(q)
        self.products = self.basis[:, self.pairs[0]] * self.basis[:, self.pairs[1]]

    def start(self, width: int) -> Floats:
        """(width, q) coefficients of zero, and the intercept of the classes' shares."""
        theta = np.zeros((width, self.c - 1))
        theta[-1] = np.log(np.bincount(self.y, minlength=self.c) / len(self.y)) @ self.basis
        return theta

    def at(self, X: Floats, theta: Floats) -> Point:
        """X (n, m + 1) with a last column of ones, theta (m + 1, q)."""
        logits = (X @ theta) @ self.basis.T
        logits -= logits.max(axis=1, keepdims=True)
        proba = np.exp(logits)
        total = proba.sum(axis=1)
        proba /= total[:, None]
        log_total = np.log(total)
        value = float((log_total - logits[self.row, self.y]).sum())
        entropy = float((log_total - np.einsum("nc,nc->n", proba, logits)).sum())
        return Point(value, entropy, proba, proba @ self.basis - self.target)

    def balanced(self, X: Floats, theta: Floats, point: Point) -> tuple[Floats, Point]:
        """The intercept at its best for the other coefficients: the probabilities of a class sum to its rows, as the dual bound asks."""
        for _ in range(_BALANCE):
            excess = point.residual.sum(axis=0)
            if np.abs(excess).max() <= 1e-14 * len(self.y):
                break
            mean = point.proba @ self.basis
            curve = (self.basis.T * point.proba.sum(axis=0)) @ self.basis - mean.T @ mean
            theta = theta.copy()
            theta[-1] -= np.linalg.solve(curve, excess)
            point = self.at(X, theta)
        return theta, point

    def hessian(self, X: Floats, point: Point) -> Floats:
        """((m + 1) q, (m + 1) q), node after node."""
        q, width = self.c - 1, X.shape[1]
        mean = point.proba @ self.basis
        weight = point.proba @ self.products - mean[:, self.pairs[0]] * mean[:, self.pairs[1]]
        out = np.empty((width, q, width, q))
        blocks = X.T @ (X[:, None, :] * weight[:, :, None]).reshape(len(X), -1)
        for k, (a, b) in enumerate(zip(*self.pairs, strict=True)):
            block = blocks[:, k * width : (k + 1) * width]
            out[:, a, :, b] = block
            out[:, b, :, a] = block
        return out.reshape(width * q, width * q)
