"""Components with a covariance over the columns they select.

q(y) is a point: a column is in or out. Sigma ~ IW(nu0 + q - 1, s0 I) on the q columns that are in, so that one column alone is the diagonal
model's; the noise, lambda, m and the sticks are those of the diagonal model, whose bound counts everything but the components here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln, softmax, xlogy

from craftc._common.labels import chunks
from craftc._common.typing import Floats, Labels
from craftc._kernels import mixture_full as _kernel
from craftc.mixture.posterior import Posterior
from craftc.mixture.priors import NORMAL, Beliefs, Table
from craftc.mixture.variational import LLOYD, Ascent, Plan

K0, NU0, S0 = NORMAL[0], 2.0 * NORMAL[1], 2.0 * NORMAL[2]  # one column is Normal-Gamma(k0, a0, b0)
_MARGIN = 1e-12  # of the bound: a switch must win more
_DUST = 2.0**-60  # probabilities below are 0, as in the kernel


def column_steps(size: Floats, D: int) -> Floats:
    """(K, D) what the j-th column (j = 0..D-1) adds to the evidence of N rows, but for ln |Psi|."""
    j = np.arange(D)
    gammas = gammaln((NU0 + size[:, None] + j) / 2) - gammaln((NU0 + j) / 2)
    spread = -0.5 * size * np.log(np.pi) + 0.5 * np.log(K0 / (K0 + size))
    return np.asarray(gammas + spread[:, None] + (0.5 * NU0 + j) * np.log(S0))


@dataclass(frozen=True)
class Shape:
    """q(mu, Sigma) of one component: normal-inverse-Wishart of the columns it selects."""

    column: Any  # (q,) in the order of the factor
    kappa: float
    mean: Floats  # (q,)
    freedom: float  # nu
    inverse: Floats  # (q, q) of the lower Cholesky factor of Psi
    log_det: float  # ln |Psi|
    evidence: float

    @classmethod
    def fitted(cls, column: Any, size: float, s1: Floats, s2: Floats, factor: Floats | None = None) -> Shape:
        """From N, sum x (D,) and sum x x' (D, D); `factor`: upper Cholesky factor of Psi_S, if it is known."""
        q, kappa = len(column), K0 + size
        freedom, mean = NU0 + q - 1 + size, s1[column] / kappa
        if factor is None:
            factor = np.asarray(np.linalg.cholesky(scatter_matrix(size, s1, s2)[np.ix_(column, column)]).T)
        log_det = 2.0 * float(np.log(np.einsum("ii->i", factor)).sum())
        evidence = column_steps(np.array([size]), q)[0].sum() - 0.5 * freedom * log_det
        inverse = solve_triangular(factor, np.eye(q), trans=1) if q else np.empty((0, 0))
        return cls(column, kappa, mean, freedom, inverse, log_det, float(evidence))

    @property
    def constant(self) -> float:
        """E ln p(x) of a row at the mean."""
        q = len(self.column)
        psi = digamma((self.freedom - np.arange(q)) / 2).sum()
        return float(0.5 * (psi - q * np.log(np.pi) - self.log_det - q / self.kappa))

    def expected(self, size: float, s1: Floats, s2: Floats) -> float:
        """E ln p of rows with such sums."""
        s, m = s1[self.column], self.mean
        scatter = s2[np.ix_(self.column, self.column)] - np.outer(s, m) - np.outer(m, s) + size * np.outer(m, m)
        return size * self.constant - 0.5 * self.freedom * float(np.einsum("ij,jk,ik->", self.inverse, scatter, self.inverse))

    def squares(self, x: Floats) -> Floats:
        """(n,) (x - m)' Psi^-1 (x - m)."""
        away = (x[:, self.column] - self.mean) @ self.inverse.T
        return np.asarray(np.einsum("nq,nq->n", away, away))

    def log_density(self, x: Floats) -> Floats:
        """(n,) ln of the predictive density: multivariate Student's t."""
        q, df = len(self.column), self.freedom - len(self.column) + 1
        away = self.squares(x) / (1.0 + 1.0 / self.kappa)
        size = gammaln((df + q) / 2) - gammaln(df / 2) - 0.5 * (q * np.log(np.pi * (1.0 + 1.0 / self.kappa)) + self.log_det)
        return np.asarray(size - 0.5 * (df + q) * np.log1p(away))

    def draw(self, rng: np.random.RandomState, n: int) -> Floats:
        """(n, q) cells from it."""
        q, df = len(self.column), self.freedom - len(self.column) + 1
        if q == 0:
            return np.empty((n, 0))
        normal = rng.standard_normal((n, q)) / np.sqrt(rng.chisquare(df, (n, 1)))
        return np.asarray(self.mean + np.sqrt(1.0 + 1.0 / self.kappa) * solve_triangular(self.inverse, normal.T, lower=True).T)


def scatter_matrix(size: Any, s1: Floats, s2: Floats) -> Floats:
    """Psi = s0 I + sum x x' - kappa m m', of one component or of all."""
    kappa = K0 + np.asarray(size)[..., None, None]
    return np.asarray(S0 * np.eye(s1.shape[-1]) + s2 - s1[..., :, None] * s1[..., None, :] / kappa)


class FullAscent(Ascent):
    """One start with full covariances on its way up: from responsibilities, no column selected, or from where the diagonal model ends."""

    def __init__(self, table: Table, beliefs: Beliefs, plan: Plan, n_threads: int) -> None:
        super().__init__(table, beliefs, plan, n_threads)
        K, D = self.mixture.p.shape
        self.products = np.zeros((K, D, D))  # sum of r x x'
        self.shapes: list[Shape] = []
        self.divergence = np.zeros(K)

    def start_from(self, responsibilities: Floats) -> None:
        self._begin_with(lambda rows: responsibilities[rows])

    def start_by_kmeans(self, seed: int, start: int, passes: int = LLOYD) -> None:
        """The labels and masks of the diagonal model: columns switched one by one hardly find them from none or from all."""
        diagonal = Ascent(self.table, self.beliefs, self.plan, self.threads)
        diagonal.start_by_kmeans(seed, start, passes)
        label = diagonal.run(lambda n_iter, bound: None).label
        self.mixture.p[:] = diagonal.mixture.p > 0.5
        self._begin_with(lambda rows: np.eye(self.beliefs.K)[label[rows]])

    def _begin_with(self, responsibilities: Callable[[slice], Floats]) -> None:
        """The first q from responsibilities of slices of rows and the columns that are selected."""
        q = self.mixture
        q.share_prior = self.beliefs.shares(self.fraction)
        self._gather(lambda rows, cells: responsibilities(rows))
        self._fit_shapes()
        q.noises()
        q.shares()
        q.sticks()

    # ---- one sweep ----

    def sweeps(self, before: float, least: float, most: int) -> Floats:
        bounds: list[float] = []
        while len(bounds) < most and (not bounds or bounds[-1] - (bounds[-2] if len(bounds) > 1 else before) > least):
            self.update()
            self.visit()
            order = self.mixture.sort()
            if order is not None:
                self.products = self.products[order]
                self.shapes = [self.shapes[k] for k in order]
                self.divergence = self.divergence[order]
            bounds.append(self.bound())
        return np.array(bounds)

    def bound(self) -> float:
        components = sum(shape.expected(*self._sums(k)) - self.divergence[k] for k, shape in enumerate(self.shapes))
        return super().bound() + float(components)

    def _sums(self, k: int) -> tuple[float, Floats, Floats]:
        return float(self.mixture.size[k]), self.mixture.s1[k], self.products[k]

    def _fit_shapes(self, factors: Any = None) -> None:
        """q(mu, Sigma) of all components, and its divergence from the prior."""
        K = len(self.mixture.size)
        if factors is None:
            self.shapes = [Shape.fitted(np.flatnonzero(self.mixture.p[k]), *self._sums(k)) for k in range(K)]
        else:
            U, column, count = factors
            self.shapes = [
                Shape.fitted(column[k, : count[k]].copy(), *self._sums(k), U[k, : count[k], : count[k]]) for k in range(K)
            ]
        self.divergence = np.array([shape.expected(*self._sums(k)) - shape.evidence for k, shape in enumerate(self.shapes)])

    def _select(self) -> None:
        """q(y) and q(mu, Sigma): columns go in and out, one by one, where that raises the bound."""
        q = self.mixture
        K, D = q.p.shape
        self._fit_shapes()
        margin = _MARGIN * abs(self.bound())
        noise = q.reach * q.noise[0] + q.s1 * q.noise[1] + q.s2 * q.noise[2]
        odds = q.share[2] - q.share[3]
        against = noise - odds if not self.beliefs.tied else noise - odds / K
        factors = np.zeros((K, D, D)), np.empty((K, D), np.int32), np.empty(K, np.int32)
        psi = scatter_matrix(q.size, q.s1, self.products)
        _kernel.switch_columns(psi, column_steps(q.size, D), NU0 - 1 + q.size, against, margin, self.beliefs.tied, q.p, *factors)
        self._fit_shapes(factors)

    def visit(self, label: Labels | None = None) -> None:
        alive = np.flatnonzero(self.mixture.size > 0)
        shapes, weight = [self.shapes[k] for k in alive], self.mixture.weight[alive]

        def responsibilities(rows: slice, cells: Floats) -> Floats:
            owed = row_scores(shapes, weight, self.mixture.noise, cells)
            if label is not None:
                label[rows] = owed.argmax(axis=1)
            r = np.zeros((len(cells), self.beliefs.K))
            r[:, alive] = softmax(owed, axis=1)
            r[r < _DUST] = 0.0
            return r

        self._gather(responsibilities)

    def _gather(self, responsibilities: Callable[[slice, Floats], Floats]) -> None:
        """Sums of the rows, slice after slice."""
        q = self.mixture
        q.size[:] = q.s1[:] = q.entropy[:] = self.products[:] = 0.0
        for rows in chunks(len(self.table)):
            cells = self.units.cells(self.table.X[rows])
            r = responsibilities(rows, cells)
            q.entropy[:] -= xlogy(r, r).sum()
            q.size[:] += r.sum(axis=0)
            q.s1[:] += r.T @ cells
            for k in np.flatnonzero(r.any(axis=0)):
                some = np.flatnonzero(r[:, k])
                self.products[k] += (cells[some] * r[some, k][:, None]).T @ cells[some]
        q.s2[:], q.reach[:] = np.einsum("kdd->kd", self.products), q.size[:, None]

    # ---- merges ----

    def _release(self, bound: float) -> bool:
        return False  # columns are switched one by one as it is

    def _pair_gains(self) -> Floats:
        q = self.mixture
        K = len(q.size)
        rich, poor = q.share[2], q.share[3]

        def worth(p: Floats, size: float, s1: Floats, s2: Floats) -> float:
            noise = size * q.noise[0] + s1 * q.noise[1] + np.diag(s2) * q.noise[2]
            prior = 0.0 if self.beliefs.tied else float(np.where(p > 0, rich, poor).sum())
            return Shape.fitted(np.flatnonzero(p), size, s1, s2).evidence - float(noise[p > 0].sum()) + prior

        nothing = 0.0 if self.beliefs.tied else float(np.maximum(rich, poor).sum())
        alone = [worth(q.p[k], *self._sums(k)) for k in range(K)]
        gains = np.zeros((K, K))
        for i, j in itertools.combinations(np.flatnonzero(q.size > 0).tolist(), 2):
            both = self._joined(i, j)
            gains[i, j] = max(worth(q.p[k], *both) for k in (i, j)) + nothing - alone[i] - alone[j] + q.join_value(i, j)
        return gains

    def _joined(self, i: int, j: int) -> tuple[float, Floats, Floats]:
        """Sums of two components."""
        (n, s1, s2), (m, t1, t2) = self._sums(i), self._sums(j)
        return n + m, s1 + t1, s2 + t2

    def _join(self, i: int, j: int) -> None:
        both = self._joined(i, j)
        masks = self.mixture.p[[i, j]]
        worth = [Shape.fitted(np.flatnonzero(p), *both).evidence for p in masks]
        self.mixture.p[i] = masks[int(worth[1] > worth[0])]
        super()._join(i, j)
        self.products[i] += self.products[j]
        self.products[j] = 0.0

    def _state(self) -> Any:
        return super()._state(), self.products.copy()

    def _restore(self, state: Any) -> None:
        kept, products = state
        super()._restore(kept)
        self.products[:] = products

    def posterior(self, found: NDArray[np.intp]) -> FullPosterior:
        return FullPosterior(self, found)


def row_scores(shapes: list[Shape], weight: Floats, noise: Floats, cells: Floats) -> Floats:
    """(n, K) E ln pi + E ln p of the selected columns, less what the noise makes of them."""
    background = noise[0] + cells * noise[1] + cells**2 * noise[2]
    return np.stack(
        [
            w + shape.constant - 0.5 * shape.freedom * shape.squares(cells) - background[:, shape.column].sum(axis=1)
            for w, shape in zip(weight, shapes, strict=True)
        ],
        axis=1,
    )


class FullPosterior(Posterior):
    """The clusters that were found, each with the covariance of its columns."""

    def __init__(self, ascent: FullAscent, found: NDArray[np.intp]) -> None:
        super().__init__(ascent.units, ascent.beliefs, ascent.mixture, found)
        self.shapes = [ascent.shapes[k] for k in found]
        q = ascent.mixture
        noise = q.reach * q.noise[0] + q.s1 * q.noise[1] + q.s2 * q.noise[2]
        psi = scatter_matrix(q.size, q.s1, ascent.products)
        self.gains = np.array([_column_worths(ascent.shapes[k], psi[k], q.size[k]) - noise[k] for k in found])
        self.psi = psi[found]

    def covariances(self) -> Floats:
        """(K, D, D) expected covariances in units of the input; columns that are not selected have the noise's variance."""
        out = np.zeros_like(self.psi)
        for k, shape in enumerate(self.shapes):
            np.fill_diagonal(out[k], self.background.variance)
            q = len(shape.column)
            block = np.ix_(shape.column, shape.column)
            out[k][block] = self.psi[k][block] / max(shape.freedom - q - 1, 0.5)
        return np.asarray(out / self.units.scale / self.units.scale[:, None])

    def moments(self) -> tuple[Floats, Floats]:
        mean = np.broadcast_to(self.background.mean, self.p.shape).copy()
        for k, shape in enumerate(self.shapes):
            mean[k, shape.column] = shape.mean
        return mean / self.units.scale + self.units.centre, np.einsum("kdd->kd", self.covariances())

    def scores(self, X: NDArray[Any]) -> Floats:
        """(n, K) what rows owe to the clusters."""
        return np.concatenate(
            [row_scores(self.shapes, self.weight, self.noise, self.units.cells(X[rows])) for rows in chunks(len(X))]
        )

    def labels(self, X: NDArray[Any], n_threads: int) -> Labels:
        return np.asarray(self.scores(X).argmax(axis=1).astype(np.int32))

    def proba(self, X: NDArray[Any], n_threads: int) -> Floats:
        return np.asarray(softmax(self.scores(X), axis=1))

    def _component(self, k: int, x: Floats, exposure: Floats | None, common: Floats) -> Floats:
        return np.asarray(self.shapes[k].log_density(x) + common[:, self.p[k] == 0].sum(axis=1))

    def _drawn(self, k: int, cells: Floats, rng: np.random.RandomState) -> Floats:
        cells[:, self.shapes[k].column] = self.shapes[k].draw(rng, len(cells))
        return cells


def _column_worths(shape: Shape, psi: Floats, size: float) -> Floats:
    """(D,) evidence that every column brings: of those selected beside the others, of the rest beside all of them."""
    S, q, D = shape.column, len(shape.column), len(psi)
    steps = column_steps(np.array([size]), D)[0]
    # of Psi_dd, what the selected columns leave; of a selected one, what the others leave
    row = shape.inverse @ psi[S]
    left = np.diag(psi) - np.einsum("qd,qd->d", row, row)
    left[S] = 1.0 / np.einsum("ij,ij->j", shape.inverse, shape.inverse)
    log_left = np.log(np.maximum(left, 1e-300))
    worth = steps[min(q, D - 1)] - 0.5 * shape.log_det - 0.5 * (shape.freedom + 1) * log_left
    worth[S] = steps[max(q - 1, 0)] - 0.5 * (shape.log_det - log_left[S]) - 0.5 * shape.freedom * log_left[S]
    return np.asarray(worth)
