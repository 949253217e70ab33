"""Data fits of convex clustering, on columns that may be sums over clusters: multinomial loss and squares."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels import multinomial as _kernel

_DENSE = 0.25  # density above which sums are stored as a dense array
_SMALL_CHANGE = 1e-3  # change of a logit that defines the scale of coefficients that are all zero
_PARTS, _PART_WIDTH = 2, 64  # parts of the columns for the blocks of a Hessian; columns of a part
_CACHED = 20_000  # numbers of a block of rows, whose arrays stay in the cache
_MAX_BLOCKS = 8  # blocks of rows of a sparse table, each with its own sums
_CLASSES = 5  # classes from which products with a sparse table use kernels
_ROWS = 1024  # rows of a block whose products with all classes are stored
_ROUNDING = 1e-12  # tolerance for rounding, relative to the objective
_INTERCEPT_STEPS = 20  # most Newton steps of the intercept


class SparseMatrix(Protocol):
    """A scipy.sparse.csr_array of float64."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def nnz(self) -> int: ...
    @property
    def data(self) -> Floats: ...
    @property
    def indices(self) -> Labels: ...
    @property
    def indptr(self) -> Labels: ...
    @property
    def T(self) -> SparseMatrix: ...
    def toarray(self) -> Floats: ...
    def multiply(self, other: SparseMatrix, /) -> SparseMatrix: ...
    def sum(self, axis: int) -> Floats: ...
    def mean(self, axis: int) -> Floats: ...
    def __matmul__(self, other: Floats, /) -> Floats: ...
    def __getitem__(self, key: object, /) -> SparseMatrix: ...


#: A table of covariates, or of their sums over clusters.
Matrix: TypeAlias = "Floats | SparseMatrix"


class Evaluation(NamedTuple):
    """A data fit at some coefficients."""

    value: float
    entropy: float  # negative convex conjugate at the residual; multinomial: entropy of the probabilities
    proba: Floats  # (n, c)


class MeanHessian(NamedTuple):
    """The mean of a Hessian over the classes, and the diagonal of every class, for a preconditioner."""

    mean: Floats  # (m + 1, m + 1)
    diagonal: Floats  # (m + 1, c)
    basis: Floats  # (c, q) of the coefficients


class Datafit(Protocol):
    """A smooth convex function of X theta, X (n, m + 1) with the intercept last, theta (m + 1, q)."""

    q: int  # numbers per covariate
    objective_floor: float  # smallest objective that a relative accuracy refers to

    def columns(self, X: Matrix, label: Labels, m: int) -> Matrix:
        """(n, m + 1) sums of the covariates of every cluster 0..m-1, and the intercept's column."""

    def coefficient_scale(self, X: Matrix) -> float:
        """Scale of the coefficients where all are zero."""

    def max_curvature(self, X: Matrix) -> float:
        """An upper bound, up to a factor, of the curvature along one coefficient."""

    def start(self, width: int) -> Floats:
        """(width, q) coefficients of zero with the best intercept."""

    def at(self, X: Matrix, theta: Floats) -> Evaluation:
        """Value and probabilities at theta."""

    def gradient(self, X: Matrix, point: Evaluation) -> Floats:
        """Gradient by the coefficients of the columns of X, (m + 1, q)."""

    def with_best_intercept(self, X: Matrix, theta: Floats, point: Evaluation) -> tuple[Floats, Evaluation]:
        """The optimal intercept for the other coefficients, as the dual bound requires."""

    def hessian(self, X: Matrix, point: Evaluation) -> Floats:
        """((m + 1) q, (m + 1) q), node after node."""

    def hessian_diagonal(self, X: Matrix, point: Evaluation) -> Floats:
        """(m + 1, q)."""

    def mean_hessian(self, X: Matrix, point: Evaluation) -> MeanHessian | None:
        """The mean of the Hessian over the classes, and their diagonals; None: the Hessian is diagonal."""

    def hessian_product(self, X: Matrix, point: Evaluation, direction: Floats) -> Floats:
        """(m + 1, q) product of the Hessian and a direction (m + 1, q)."""


class Multinomial:
    """sum_s w_s (lse(B x_s + beta0) - (B x_s + beta0)_{y_s}) for B = V theta, V an orthonormal basis of the
    vectors whose sum is zero; y (n,) are classes 0..c-1, w (n,) the weights of the rows (None: 1).
    """

    def __init__(
        self,
        y: NDArray[np.intp],
        c: int,
        objective_floor: float = 1e-12,
        n_threads: int = 1,
        weight: Floats | None = None,
    ) -> None:
        self.y, self.c, self.q, self.basis = y, c, c - 1, centred_basis(c)
        self.weight, self.total = weight, float(len(y) if weight is None else weight.sum())
        self.objective_floor, self.n_threads = objective_floor, n_threads
        self.codes, self.width = np.asarray(y, np.int32), -(-c // _kernel.TILE) * _kernel.TILE
        self._work = np.empty(0)
        self.row = np.arange(len(y))
        self.target = self.basis[y]
        self.class_sizes = np.bincount(y, weight, minlength=c)
        self.target_sum = self.class_sizes @ self.basis
        self.pairs = np.triu_indices(self.q)
        self.products = self.basis[:, self.pairs[0]] * self.basis[:, self.pairs[1]]

    def weighted(self, rows: Floats) -> Floats:
        """Numbers or lines of the rows, times the weights."""
        if self.weight is None:
            return rows
        return np.asarray((rows.T * self.weight).T)

    def columns(self, X: Matrix, label: Labels, m: int) -> Matrix:
        return column_sums(X, label, m)

    def coefficient_scale(self, X: Matrix) -> float:
        return _SMALL_CHANGE / max(float(np.sqrt(self.max_curvature(X) / self.total)), 1e-12)

    def max_curvature(self, X: Matrix) -> float:
        """The largest diagonal entry of X'WX: four times the largest curvature along one coefficient."""
        sums = squares(X).sum(axis=0) if self.weight is None else squares(X).T @ self.weight
        return float(sums.max())

    def start(self, width: int) -> Floats:
        theta = np.zeros((width, self.c - 1))
        theta[-1] = np.log(self.class_sizes / self.total) @ self.basis
        return theta

    def at(self, X: Matrix, theta: Floats) -> Evaluation:
        if self._in_kernel(X):
            proba = np.empty((len(self.y), self.c))
            value, entropy = _kernel.evaluate(
                *_entries(X), self._of_classes(theta), self.codes, proba, *self._passes(X, 2)
            )
            return Evaluation(value, entropy, proba)
        proba = np.ascontiguousarray(self.basis @ (X @ theta).T)  # of a class after the other
        value, entropy = _kernel.softmax(proba, self.codes, self.weight)
        return Evaluation(value, entropy, proba.T)

    def gradient(self, X: Matrix, point: Evaluation) -> Floats:
        if self._in_kernel(X):
            out = aligned((X.shape[1], self.width))
            proba = np.ascontiguousarray(point.proba)  # that of a dense table of sums is not
            _kernel.gradient(*_entries(X), self.codes, proba, out, *self._passes(X, X.shape[1] + 2))
            return np.asarray(out[:, : self.c] @ self.basis)
        return np.asarray(X.T @ self.weighted(point.proba @ self.basis - self.target))

    def with_best_intercept(self, X: Matrix, theta: Floats, point: Evaluation) -> tuple[Floats, Evaluation]:
        """The probabilities of a class then sum to its number of rows."""
        trial, at, least, step = theta, point, np.inf, np.zeros(self.q)
        for _ in range(_INTERCEPT_STEPS):
            own = self.weighted(at.proba)
            total = own.sum(axis=0)
            excess = total @ self.basis - self.target_sum
            largest = float(np.abs(excess).max())
            if largest < least and at.value <= point.value + _ROUNDING * abs(point.value):
                theta, point, least = trial, at, largest
                if largest <= 1e-14 * self.total:
                    break
                hessian = self.basis.T @ (np.diag(total) - at.proba.T @ own) @ self.basis
                try:
                    step = np.linalg.solve(hessian, excess)
                except np.linalg.LinAlgError:
                    break  # every fitted probability is 0 or 1: no intercept changes them
                if not np.isfinite(step).all():
                    break
            else:  # nearly every probability is 0 or 1
                step = step / 2
            trial = theta.copy()
            trial[-1] -= step
            at = self.at(X, trial)
        return theta, point

    def hessian(self, X: Matrix, point: Evaluation) -> Floats:
        q, width = self.q, X.shape[1]
        if self.c >= _CLASSES:
            return self._hessian_by_classes(X, point)
        weight = self.weighted(self._curvature(point))
        out = np.empty((width, q, width, q))
        if not isinstance(X, np.ndarray):
            for k, (a, b) in enumerate(zip(*self.pairs, strict=True)):
                out[:, a, :, b] = out[:, b, :, a] = gram(X, weight[:, k])
            return out.reshape(width * q, width * q)
        # blocks are symmetric: every part of the columns against itself and the columns after it
        bounds = np.linspace(0, width, 1 + min(_PARTS, 1 + width // _PART_WIDTH), dtype=int)
        for start, stop in pairwise(bounds.tolist()):
            blocks = X[:, start:].T @ (X[:, None, start:stop] * weight[:, :, None]).reshape(len(X), -1)
            for k, (a, b) in enumerate(zip(*self.pairs, strict=True)):
                block = blocks[:, k * (stop - start) : (k + 1) * (stop - start)]
                out[start:, a, start:stop, b] = out[start:, b, start:stop, a] = block
                out[start:stop, a, stop:, b] = out[start:stop, b, stop:, a] = block[stop - start :].T
        return out.reshape(width * q, width * q)

    def _hessian_by_classes(self, X: Matrix, point: Evaluation) -> Floats:
        """sum_s w x x' * (V' diag(p) V - V'p p'V): a product of columns for every class, not every pair."""
        width, proba, mean = X.shape[1], self.weighted(point.proba), point.proba @ self.basis
        if self.weight is not None:
            mean *= np.sqrt(self.weight)[:, None]
        own, both = np.zeros((width, self.c * width)), np.zeros((width * self.q, width * self.q))
        for start in range(0, X.shape[0], _ROWS):
            some = slice(start, start + _ROWS)
            rows = dense(X[some])
            own += rows.T @ (proba[some][:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            products = (rows[:, :, None] * mean[some][:, None, :]).reshape(len(rows), -1)
            both += products.T @ products
        squares_of_basis = self.basis[:, :, None] * self.basis[:, None, :]
        classes = np.tensordot(own.reshape(width, self.c, width), squares_of_basis, axes=(1, 0))
        return np.asarray(classes.transpose(0, 2, 1, 3).reshape(both.shape) - both)

    def _curvature(self, point: Evaluation) -> Floats:
        """(n, pairs) second derivatives by the logits in the basis: the upper triangle."""
        mean = point.proba @ self.basis
        return np.asarray(point.proba @ self.products - mean[:, self.pairs[0]] * mean[:, self.pairs[1]])

    def hessian_diagonal(self, X: Matrix, point: Evaluation) -> Floats:
        weight = point.proba @ self.basis**2 - (point.proba @ self.basis) ** 2
        return np.asarray(squares(X).T @ self.weighted(weight))

    def mean_hessian(self, X: Matrix, point: Evaluation) -> MeanHessian:
        if self._in_kernel(X):
            out = aligned((X.shape[1], self.width))
            first, column, x = _entries(X)
            proba = np.ascontiguousarray(point.proba)
            _kernel.class_curvature(first, column, x * x, proba, out, *self._passes(X, X.shape[1] + 2))
            diagonal = out[:, : self.c]
        else:
            diagonal = squares(X).T @ self.weighted(point.proba - point.proba**2)
        # the trace, which no basis changes
        weight = self.weighted((point.proba - point.proba**2).sum(axis=1) / self.q)
        return MeanHessian(gram(X, weight), diagonal, self.basis)

    def hessian_product(self, X: Matrix, point: Evaluation, direction: Floats) -> Floats:
        if self._in_kernel(X):
            out = aligned((X.shape[1], self.width))
            _kernel.hessian_product(
                *_entries(X), point.proba, self._of_classes(direction), out, *self._passes(X, X.shape[1] + 2)
            )
            return np.asarray(out[:, : self.c] @ self.basis)
        change = X @ direction
        rows = max(_CACHED // self.c, 1)
        for start in range(0, len(change), rows):
            some = slice(start, start + rows)
            proba = point.proba[some].T
            logits = self.basis @ change[some].T
            logits *= proba
            logits -= proba * logits.sum(axis=0)
            change[some] = logits.T @ self.basis
        return np.asarray(X.T @ self.weighted(change))

    def _in_kernel(self, X: Matrix) -> TypeGuard[SparseMatrix]:
        """Whether kernels compute a pass over X: few classes would leave their vectors nearly empty, and they
        know no weights.
        """
        if self.c < _CLASSES or self.weight is not None:
            return False
        return not isinstance(X, np.ndarray) and X.dtype == np.float64

    def _of_classes(self, theta: Floats) -> Floats:
        """(m + 1, width) coefficients of the classes, then zeros."""
        out = aligned((len(theta), self.width))
        out[:, : self.c], out[:, self.c :] = theta @ self.basis.T, 0.0
        return out

    def _passes(self, X: SparseMatrix, rows: int) -> tuple[Floats, int]:
        """Work of a pass over a sparse table, with these rows for each of its blocks, and its threads."""
        # the sums of the blocks take no more memory than the table
        blocks = min(max(X.nnz // (X.shape[1] * self.width), 1), _MAX_BLOCKS)
        if self._work.size < blocks * rows * self.width:
            self._work = aligned((blocks * rows * self.width,))
        work = self._work[: blocks * rows * self.width]
        return work.reshape(blocks, rows, self.width), threads_for(self.n_threads, 2.0 * X.nnz * self.width)


class Squares:
    """sum_i v_i (|p_i|^2 / 2 - <p_i, u_i>): with a ridge of v_i / 2 on u_i, the data fit 1/2 sum_i v_i |p_i -
    u_i|^2 of convex clustering.

    P (n, q) are the rows and v (n, 1) their weights; the X of this data fit is (v P)'. It has no intercept.
    """

    def __init__(self, P: Floats, v: Floats) -> None:
        self.q, self.half_squares = P.shape[1], 0.5 * float((v * P**2).sum())
        # objectives are differences of numbers of the size of half_squares
        self.objective_floor = max(1e-9 * self.half_squares, 1e-300)

    def columns(self, X: Matrix, label: Labels, m: int) -> Matrix:
        return column_sums(X, label, m, 0.0)

    def coefficient_scale(self, X: Matrix) -> float:
        """A thousandth of a column's root mean square."""
        return 1e-3 * max(float(np.sqrt(2.0 * self.half_squares / max(math.prod(X.shape), 1))), 1e-12)

    def max_curvature(self, X: Matrix) -> float:
        return 1.0

    def start(self, width: int) -> Floats:
        return np.zeros((width, self.q))

    def at(self, X: Matrix, theta: Floats) -> Evaluation:
        value = self.half_squares - float(np.einsum("qm,mq->", dense(X), theta))
        return Evaluation(value, self.half_squares, np.empty((0, 0)))

    def gradient(self, X: Matrix, point: Evaluation) -> Floats:
        return np.ascontiguousarray(-dense(X).T)

    def with_best_intercept(self, X: Matrix, theta: Floats, point: Evaluation) -> tuple[Floats, Evaluation]:
        return theta, point

    def hessian(self, X: Matrix, point: Evaluation) -> Floats:
        return np.diag(self.hessian_diagonal(X, point).ravel())

    def hessian_diagonal(self, X: Matrix, point: Evaluation) -> Floats:
        out = np.zeros((X.shape[1], self.q))
        out[-1] = 1.0  # keeps the Hessian regular without an intercept
        return out

    def mean_hessian(self, X: Matrix, point: Evaluation) -> MeanHessian | None:
        return None

    def hessian_product(self, X: Matrix, point: Evaluation, direction: Floats) -> Floats:
        return self.hessian_diagonal(X, point) * direction


def centred_basis(c: int) -> Floats:
    """(c, c - 1) orthonormal basis of the vectors whose sum is zero, in which every optimum lies."""
    basis = np.tril(np.ones((c, c - 1)), -1) * -1.0
    basis[np.arange(c - 1), np.arange(c - 1)] = np.arange(c - 1, 0, -1)
    return np.asarray(basis / np.sqrt(np.arange(c, 1, -1) * np.arange(c - 1, 0, -1.0)))


def column_sums(X: Matrix, label: Labels, m: int, last: float = 1.0) -> Matrix:
    """(n, m + 1) sums of the covariates of every cluster, and a constant column; sparse if X and they are."""
    if not isinstance(X, np.ndarray):
        own = label < m
        places = np.flatnonzero(own).astype(np.int32), label[own]
        member = sparse.csr_array((np.ones(int(own.sum())), places), (X.shape[1], m))
        sums: SparseMatrix = sparse.hstack([X @ member, np.full((X.shape[0], 1), last)], format="csr")
        return sums.toarray() if sums.nnz > _DENSE * sums.shape[0] * sums.shape[1] else sums
    out = np.zeros((len(X), m + 1))
    out[:, -1] = last
    order = np.argsort(label, kind="stable")
    first = np.searchsorted(label[order], np.arange(m))
    if m == X.shape[1]:
        out[:, :m] = X[:, order]
    elif m:
        out[:, :m] = np.add.reduceat(X[:, order[: np.searchsorted(label[order], m)]], first, axis=1)
    return out


def _entries(X: SparseMatrix) -> tuple[NDArray[np.intp], Labels, Floats]:
    """Bounds of the rows of a sparse array, columns and numbers of their entries."""
    return np.asarray(X.indptr, np.intp), np.asarray(X.indices, np.int32), np.asarray(X.data)


def dense(X: Matrix) -> Floats:
    """The table as an array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def squares(X: Matrix) -> Matrix:
    """The squares of all entries."""
    return X * X if isinstance(X, np.ndarray) else X.multiply(X)


def gram(X: Matrix, weight: Floats) -> Floats:
    """X' diag(weight) X."""
    if not isinstance(X, np.ndarray):
        out = np.empty((X.shape[1], X.shape[1]))
        _kernel.weighted_gram(*_entries(X), np.ascontiguousarray(weight[:, None]), out)
        return out
    return np.asarray(X.T @ (X * weight[:, None]))
