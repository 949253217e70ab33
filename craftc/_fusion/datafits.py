"""The multinomial loss in the c - 1 directions that matter, on columns that may be sums of covariates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from craftc._common.typing import Floats, Labels

_DENSE = 0.25  # share of cells other than zero from which sums are kept as a dense array
_UNIT = 1e-3
_BALANCE = 20  # Newton steps of the intercept at most, from a point that is all but balanced


def centred_basis(c: int) -> Floats:
    """(c, c - 1) orthonormal basis of the vectors whose sum is zero: an optimum has no other part."""
    basis = np.tril(np.ones((c, c - 1)), -1) * -1.0
    basis[np.arange(c - 1), np.arange(c - 1)] = np.arange(c - 1, 0, -1)
    return np.asarray(basis / np.sqrt(np.arange(c, 1, -1) * np.arange(c - 1, 0, -1.0)))


def column_sums(X: Any, label: Labels, m: int, last: float = 1.0) -> Any:
    """(n, m + 1) sums of the covariates of every cluster, and ones; sparse where X is and the sums are few."""
    if sparse.issparse(X):
        own = label < m
        member = sparse.csr_array((np.ones(int(own.sum())), (np.flatnonzero(own), label[own])), (X.shape[1], m))
        sums = sparse.hstack([X @ member, np.full((X.shape[0], 1), last)], format="csr")
        return sums.toarray() if sums.nnz > _DENSE * sums.shape[0] * sums.shape[1] else sums
    out = np.zeros((len(X), m + 1))
    out[:, -1] = last
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

    least = 1e-12  # smallest objective that counts

    def __init__(self, y: NDArray[np.intp], c: int) -> None:
        self.y, self.c, self.q, self.basis = y, c, c - 1, centred_basis(c)
        self.row = np.arange(len(y))
        self.target = self.basis[y]
        q = c - 1
        self.pairs = np.triu_indices(q)
        self.products = self.basis[:, self.pairs[0]] * self.basis[:, self.pairs[1]]

    def columns(self, X: Any, label: Labels, m: int) -> Any:
        """(n, m + 1) sums of the covariates of every cluster, and ones for the intercept."""
        return column_sums(X, label, m)

    def unit(self, X: Any) -> float:
        """What counts as a coefficient's size where all are zero: a thousandth of what moves a logit by one."""
        return _UNIT / max(float(np.sqrt(squares(X).sum(axis=0).max() / X.shape[0])), 1e-12)

    def steepest(self, X: Any) -> float:
        """The largest diagonal entry of X'X: four times the largest curvature along one coefficient."""
        return float(squares(X).sum(axis=0).max())

    def start(self, width: int) -> Floats:
        """(width, q) coefficients of zero, and the intercept of the classes' shares."""
        theta = np.zeros((width, self.c - 1))
        theta[-1] = np.log(np.bincount(self.y, minlength=self.c) / len(self.y)) @ self.basis
        return theta

    def at(self, X: Any, theta: Floats) -> Point:
        """X (n, m + 1), dense or sparse, with a last column of ones, theta (m + 1, q)."""
        logits = (self.basis @ (X @ theta).T).T  # class after class: sums over few classes are then sums of long rows
        logits -= logits.max(axis=1, keepdims=True)
        proba = np.exp(logits)
        total = proba.sum(axis=1)
        proba /= total[:, None]
        log_total = np.log(total)
        value = float((log_total - logits[self.row, self.y]).sum())
        entropy = float((log_total - np.einsum("nc,nc->n", proba, logits)).sum())
        return Point(value, entropy, proba, proba @ self.basis - self.target)

    def balanced(self, X: Any, theta: Floats, point: Point) -> tuple[Floats, Point]:
        """The intercept at its best for the other coefficients: the probabilities of a class sum to its rows, as the dual bound asks."""
        for _ in range(_BALANCE):
            excess = point.residual.sum(axis=0)
            if np.abs(excess).max() <= 1e-14 * len(self.y):
                break
            mean = point.proba @ self.basis
            curve = (self.basis.T * point.proba.sum(axis=0)) @ self.basis - mean.T @ mean
            try:
                move = np.linalg.solve(curve, excess)
            except np.linalg.LinAlgError:
                break  # every fitted probability is 0 or 1: no intercept changes them
            theta = theta.copy()
            theta[-1] -= move
            point = self.at(X, theta)
        return theta, point

    def hessian(self, X: Any, point: Point) -> Floats:
        """((m + 1) q, (m + 1) q), node after node."""
        q, width = self.q, X.shape[1]
        weight = self._curvature(point)
        out = np.empty((width, q, width, q))
        if not sparse.issparse(X):
            blocks = X.T @ (X[:, None, :] * weight[:, :, None]).reshape(len(X), -1)
        for k, (a, b) in enumerate(zip(*self.pairs, strict=True)):
            block = gram(X, weight[:, k]) if sparse.issparse(X) else blocks[:, k * width : (k + 1) * width]
            out[:, a, :, b] = block
            out[:, b, :, a] = block
        return out.reshape(width * q, width * q)

    def _curvature(self, point: Point) -> Floats:
        """(n, pairs) second derivatives by the logits in the basis: the upper triangle."""
        mean = point.proba @ self.basis
        return np.asarray(point.proba @ self.products - mean[:, self.pairs[0]] * mean[:, self.pairs[1]])

    def diagonal(self, X: Any, point: Point) -> Floats:
        """(m + 1, q) diagonal of the Hessian."""
        weight = self._curvature(point)[:, self.pairs[0] == self.pairs[1]]
        return np.asarray(squares(X).T @ weight)

    def product(self, X: Any, point: Point, move: Floats) -> Floats:
        """(m + 1, q) product of the Hessian and a move."""
        turn = point.proba * (self.basis @ (X @ move).T).T
        turn -= point.proba * turn.sum(axis=1, keepdims=True)
        return np.asarray(X.T @ (turn @ self.basis))


class Squares:
    """1/2 |P|^2 - <P, U>: with a ridge of 1/2 on U, the loss 1/2 |P - U|^2 of convex clustering. It has no intercept.

    Parameters
    ----------
    P : ndarray (n, q)
        Rows to be clustered. The X of this loss is P'.
    """

    def __init__(self, P: Floats) -> None:
        self.q, self.half = P.shape[1], 0.5 * float((P**2).sum())
        self.least = max(1e-9 * self.half, 1e-300)  # objectives come from differences of this size

    def columns(self, X: Any, label: Labels, m: int) -> Any:
        return column_sums(X, label, m, 0.0)

    def unit(self, X: Any) -> float:
        """A thousandth of a column's root mean square."""
        return 1e-3 * max(float(np.sqrt(2.0 * self.half / max(X.size, 1))), 1e-12)

    def steepest(self, X: Any) -> float:
        return 1.0

    def start(self, width: int) -> Floats:
        return np.zeros((width, self.q))

    def at(self, X: Any, theta: Floats) -> Point:
        value = self.half - float(np.einsum("qm,mq->", X, theta))
        return Point(value, self.half, np.empty((0, 0)), -np.eye(self.q))

    def balanced(self, X: Any, theta: Floats, point: Point) -> tuple[Floats, Point]:
        return theta, point

    def hessian(self, X: Any, point: Point) -> Floats:
        return np.diag(self.diagonal(X, point).ravel())

    def diagonal(self, X: Any, point: Point) -> Floats:
        out = np.zeros((X.shape[1], self.q))
        out[-1] = 1.0  # holds the intercept that is not there
        return out

    def product(self, X: Any, point: Point, move: Floats) -> Floats:
        return self.diagonal(X, point) * move


def newton_move(
    loss: Loss | Squares, X: Any, point: Point, weight: Floats, curve: Floats, gradient: Floats, tolerance: float, most: int
) -> Floats:
    """-(H + diag(weight))^-1 gradient by conjugate gradients, until the residual is below the tolerance; `curve`: about H's diagonal."""
    inverse = 1.0 / (curve + weight)
    move, residual = np.zeros_like(gradient), -gradient
    ahead = inverse * residual
    direction, product = ahead, float((residual * ahead).sum())
    for _ in range(most if product > 0 else 0):
        image = loss.product(X, point, direction) + weight * direction
        alpha = product / float((direction * image).sum())
        move = move + alpha * direction
        residual = residual - alpha * image
        if float(np.sqrt((residual**2).sum())) <= tolerance:
            break
        ahead = inverse * residual
        product, before = float((residual * ahead).sum()), product
        direction = ahead + (product / before) * direction
    return move


def squares(X: Any) -> Any:
    """The squares of all cells."""
    return X.multiply(X) if sparse.issparse(X) else X * X


def gram(X: Any, weight: Floats) -> Floats:
    """X' diag(weight) X."""
    product = X.T @ (sparse.diags_array(weight) @ X)
    return np.asarray(product.toarray() if sparse.issparse(product) else product)
