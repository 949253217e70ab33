"""Components with a full covariance over the columns they select.

q(y) is a point mass: a column is selected or not. Sigma ~ IW(nu0 + q - 1, s0 I) on the q selected columns, so
that a single column has the prior of the diagonal model. The noise, lambda, m and the sticks are those of the
diagonal model; their ELBO contains everything except the components, which are added here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln, softmax, xlogy

from craftc._common.labels import chunks, renumber
from craftc._common.products import row_products, row_sums
from craftc._common.typing import Floats, Ints, Labels
from craftc._kernels import mixture_full, mixture_moves
from craftc._kernels.team import Team
from craftc.mixture.posterior import Posterior
from craftc.mixture.priors import NORMAL, Priors
from craftc.mixture.scaling import ScaledData
from craftc.mixture.variational import Ascent, DiagonalModel, MixtureConfig, MixtureFactors

K0, NU0, S0 = NORMAL[0], 2.0 * NORMAL[1], 2.0 * NORMAL[2]  # one column is Normal-Gamma(k0, a0, b0)
_SWITCH_MARGIN = 1e-12  # share of the ELBO that a switch of a column must gain
_LEAST = 2.0**-60  # probability below which it is rounded to 0, as in the kernels


def column_steps(size: Floats, D: int) -> Floats:
    """(K, D) log evidence that the j-th column (j = 0..D-1) adds for N rows, without the term in ln |Psi|."""
    j = np.arange(D)
    gammas = gammaln((NU0 + size[:, None] + j) / 2) - gammaln((NU0 + j) / 2)
    spread = -0.5 * size * np.log(np.pi) + 0.5 * np.log(K0 / (K0 + size))
    return np.asarray(gammas + spread[:, None] + (0.5 * NU0 + j) * np.log(S0))


@dataclass(frozen=True)
class NormalWishart:
    """q(mu, Sigma) of one component: normal-inverse-Wishart on the columns it selects."""

    column: Ints | Labels  # (q,) in the order of the Cholesky factor
    kappa: float
    mean: Floats  # (q,)
    freedom: float  # nu
    inverse: Floats  # (q, q) of the lower Cholesky factor of Psi
    log_det: float  # ln |Psi|
    evidence: float

    @classmethod
    def fitted(
        cls, column: Ints | Labels, size: float, s1: Floats, s2: Floats, factor: Floats | None = None
    ) -> NormalWishart:
        """From N, sum x (D,) and sum x x' (D, D); `factor`: upper Cholesky factor of Psi_S, if known."""
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
        """E ln p of rows with these sums."""
        s, m = s1[self.column], self.mean
        scatter = (
            s2[np.ix_(self.column, self.column)] - np.outer(s, m) - np.outer(m, s) + size * np.outer(m, m)
        )
        return size * self.constant - 0.5 * self.freedom * float(
            np.einsum("ij,jk,ik->", self.inverse, scatter, self.inverse)
        )

    def squares(self, x: Floats) -> Floats:
        """(n,) (x - m)' Psi^-1 (x - m)."""
        return row_sums(row_products(x[:, self.column] - self.mean, self.inverse.T) ** 2)

    def log_density(self, x: Floats) -> Floats:
        """(n,) ln of the predictive density: multivariate Student's t."""
        q, df = len(self.column), self.freedom - len(self.column) + 1
        away = self.squares(x) / (1.0 + 1.0 / self.kappa)
        size = (
            gammaln((df + q) / 2)
            - gammaln(df / 2)
            - 0.5 * (q * np.log(np.pi * (1.0 + 1.0 / self.kappa)) + self.log_det)
        )
        return np.asarray(size - 0.5 * (df + q) * np.log1p(away))

    def draw(self, rng: np.random.RandomState, n: int) -> Floats:
        """(n, q) cells from the predictive distribution."""
        q, df = len(self.column), self.freedom - len(self.column) + 1
        if q == 0:
            return np.empty((n, 0))
        normal = rng.standard_normal((n, q)) / np.sqrt(rng.chisquare(df, (n, 1)))
        return np.asarray(
            self.mean
            + np.sqrt(1.0 + 1.0 / self.kappa) * solve_triangular(self.inverse, normal.T, lower=True).T
        )


def scatter_matrix(size: float | Floats, s1: Floats, s2: Floats) -> Floats:
    """Psi = s0 I + sum x x' - kappa m m', of one component or of all."""
    kappa = K0 + np.asarray(size)[..., None, None]
    return np.asarray(S0 * np.eye(s1.shape[-1]) + s2 - s1[..., :, None] * s1[..., None, :] / kappa)


class FullModel:
    """Components with full covariances. Starts from responsibilities with no column selected, or from the
    result of the diagonal model.

    `n_threads`: of a pass over the rows of the diagonal model.
    """

    def __init__(self, data: ScaledData, priors: Priors, n_threads: int) -> None:
        self.factors = MixtureFactors(data, priors)
        self.mixture = self.factors.mixture
        self.data, self.scaling, self.priors, self.n_threads = data, data.scaling, priors, n_threads
        K, D = self.mixture.p.shape
        self.products = np.zeros((K, D, D))  # sum of r x x'
        self.components: list[NormalWishart] = []
        self.divergence = np.zeros(K)

    def start_from(self, responsibilities: Floats) -> None:
        self._initialise(lambda rows: responsibilities[rows])

    def start_by_kmeans(self, seed: int, start: int, config: MixtureConfig, passes: int) -> None:
        """Start from the diagonal model; switches of single columns rarely find its masks."""
        diagonal = DiagonalModel(self.data, self.priors, self.n_threads)
        diagonal.start_by_kmeans(seed, start, config, passes)
        label = Ascent(diagonal, config).run().label
        self.mixture.p[:] = diagonal.mixture.p > 0.5
        self._initialise(lambda rows: np.eye(self.priors.K)[label[rows]])

    def _initialise(self, responsibilities: Callable[[slice], Floats]) -> None:
        """The first q from responsibilities of slices of rows and the columns that are selected."""
        q = self.mixture
        q.share_prior = self.priors.share_shapes(self.factors.fraction)
        self._gather(lambda rows, cells: responsibilities(rows))
        self._fit_components()
        q.update_noise()
        q.update_shares()
        q.update_sticks()

    # ---- one sweep ----

    def sweeps(self, before: float, least: float, most: int) -> Floats:
        path: list[float] = []
        while len(path) < most and (not path or path[-1] - (path[-2] if len(path) > 1 else before) > least):
            self._update()
            self._e_step()
            order = mixture_moves.sort(self.mixture)
            if order is not None:
                self.products = self.products[order]
                self.components = [self.components[k] for k in order]
                self.divergence = self.divergence[order]
            path.append(self.elbo())
        return np.array(path)

    def elbo(self) -> float:
        own = sum(
            component.expected(*self._sums(k)) - self.divergence[k]
            for k, component in enumerate(self.components)
        )
        return self.factors.elbo() + float(own)

    def _sums(self, k: int) -> tuple[float, Floats, Floats]:
        return float(self.mixture.size[k]), self.mixture.s1[k], self.products[k]

    def _fit_components(self, factors: tuple[Floats, Labels, Labels] | None = None) -> None:
        """q(mu, Sigma) of all components, and its divergence from the prior."""
        K = len(self.mixture.size)
        if factors is None:
            self.components = [
                NormalWishart.fitted(np.flatnonzero(self.mixture.p[k]), *self._sums(k)) for k in range(K)
            ]
        else:
            U, column, count = factors
            self.components = [
                NormalWishart.fitted(
                    column[k, : count[k]].copy(), *self._sums(k), U[k, : count[k], : count[k]]
                )
                for k in range(K)
            ]
        self.divergence = np.array(
            [
                component.expected(*self._sums(k)) - component.evidence
                for k, component in enumerate(self.components)
            ]
        )

    def _update(self) -> None:
        """All factors except that of the labels."""
        self._update_masks()
        self.factors.update()

    def _update_masks(self) -> None:
        """q(y) and q(mu, Sigma): switch pairs of columns, then single ones, where that raises the ELBO."""
        q = self.mixture
        K, D = q.p.shape
        self._fit_components()
        margin = _SWITCH_MARGIN * abs(self.elbo())
        noise = q.reach * q.noise[0] + q.s1 * q.noise[1] + q.s2 * q.noise[2]
        odds = q.share[2] - q.share[3]
        against = noise - odds if not self.priors.tied else noise - odds / K
        factors = np.zeros((K, D, D)), np.empty((K, D), np.int32), np.empty(K, np.int32)
        psi = scatter_matrix(q.size, q.s1, self.products)
        self._switch_pairs(psi, against, margin)
        mixture_full.switch_columns(
            psi, column_steps(q.size, D), NU0 - 1 + q.size, against, margin, self.priors.tied, q.p, *factors
        )
        self._fit_components(factors)

    def _switch_pairs(self, psi: Floats, against: Floats, margin: float) -> None:
        """Select or drop two columns of a component at once, the best pair first, while that raises the ELBO:
        correlated columns that are worth nothing alone.
        """
        q = self.mixture
        K, D = q.p.shape
        groups = [list(range(K))] if self.priors.tied else [[k] for k in range(K)]
        for group in groups:
            for _ in range(D):
                gains = sum(pair_switches(self.components[k], psi[k], q.size[k], against[k]) for k in group)
                best = np.unravel_index(int(np.argmax(gains)), (D, D))
                if not np.asarray(gains)[best] > margin:
                    break
                for k in group:
                    q.p[k, list(best)] = 1.0 - q.p[k, list(best)]
                    self.components[k] = NormalWishart.fitted(np.flatnonzero(q.p[k]), *self._sums(k))

    def _e_step(self, label: Labels | None = None) -> None:
        """Responsibilities and their sums; `label` (n,): OUT the best component among the non-empty."""
        alive = np.flatnonzero(self.mixture.size > 0)
        components, weight = [self.components[k] for k in alive], self.mixture.weight[alive]

        def responsibilities(rows: slice, cells: Floats) -> Floats:
            scores = row_scores(components, weight, self.mixture.noise, cells)
            if label is not None:
                label[rows] = scores.argmax(axis=1)
            r = np.zeros((len(cells), self.priors.K))
            r[:, alive] = softmax(scores, axis=1)
            r[r < _LEAST] = 0.0
            return r

        self._gather(responsibilities)

    def _gather(self, responsibilities: Callable[[slice, Floats], Floats]) -> None:
        """Sums of the rows, slice after slice."""
        q = self.mixture
        q.size[:] = q.s1[:] = q.entropy[:] = self.products[:] = 0.0
        for rows in chunks(len(self.data)):
            cells = self.scaling.cells(self.data.X[rows])
            r = responsibilities(rows, cells)
            if self.data.weight is None:
                q.entropy[:] -= xlogy(r, r).sum()
            else:
                weight = self.data.weight[rows]
                q.entropy[:] -= weight @ xlogy(r, r).sum(axis=1)
                r = r * weight[:, None]
            q.size[:] += r.sum(axis=0)
            q.s1[:] += r.T @ cells
            for k in np.flatnonzero(r.any(axis=0)):
                some = np.flatnonzero(r[:, k])
                self.products[k] += (cells[some] * r[some, k][:, None]).T @ cells[some]
        q.s2[:], q.reach[:] = np.einsum("kdd->kd", self.products), q.size[:, None]

    def finish(self) -> Labels:
        self._update()
        label, alive = np.empty(len(self.data), np.int32), np.flatnonzero(self.mixture.size > 0)
        self._e_step(label)
        renumber(label, alive.astype(np.int32))
        return label

    def share(self, team: Team) -> None:
        """The rows are read in slices, one after the other."""

    def pause(self) -> None:
        """Nothing to free: the products of the columns are needed by the next sweep."""

    # ---- moves ----

    def deselect(self, margin: float) -> bool:
        return False  # every sweep tries each column of each component

    def halves(self) -> None:
        return None  # k-means starts end with the splits of the diagonal model

    def pair_gains(self) -> Floats:
        q = self.mixture
        K = len(q.size)
        rich, poor = q.share[2], q.share[3]

        def gain(p: Floats, size: float, s1: Floats, s2: Floats) -> float:
            noise = size * q.noise[0] + s1 * q.noise[1] + np.diag(s2) * q.noise[2]
            prior = 0.0 if self.priors.tied else float(np.where(p > 0, rich, poor).sum())
            return (
                NormalWishart.fitted(np.flatnonzero(p), size, s1, s2).evidence
                - float(noise[p > 0].sum())
                + prior
            )

        empty = 0.0 if self.priors.tied else float(np.maximum(rich, poor).sum())
        alone = [gain(q.p[k], *self._sums(k)) for k in range(K)]
        gains = np.zeros((K, K))
        for i, j in itertools.combinations(np.flatnonzero(q.size > 0).tolist(), 2):
            both = self._merged_sums(i, j)
            sizes = mixture_moves.stick_gain(q, i, j)
            gains[i, j] = max(gain(q.p[k], *both) for k in (i, j)) + empty - alone[i] - alone[j] + sizes
        return gains

    def _merged_sums(self, i: int, j: int) -> tuple[float, Floats, Floats]:
        (n, s1, s2), (m, t1, t2) = self._sums(i), self._sums(j)
        return n + m, s1 + t1, s2 + t2

    def merge(self, i: int, j: int) -> None:
        both = self._merged_sums(i, j)
        masks = self.mixture.p[[i, j]]
        evidence = [NormalWishart.fitted(np.flatnonzero(p), *both).evidence for p in masks]
        self.mixture.p[i] = masks[int(evidence[1] > evidence[0])]
        mixture_moves.merge(self.mixture, i, j)
        self.products[i] += self.products[j]
        self.products[j] = 0.0

    def checkpoint(self) -> Callable[[], None]:
        restore_factors, products = self.factors.checkpoint(), self.products.copy()

        def restore() -> None:
            restore_factors()
            self.products[:] = products

        return restore

    def posterior(self, found: NDArray[np.intp]) -> FullPosterior:
        return FullPosterior.of_model(self, found)


def row_scores(components: list[NormalWishart], weight: Floats, noise: Floats, cells: Floats) -> Floats:
    """(n, K) E ln pi + E ln p of the selected columns under the component, minus that under the noise."""
    background = noise[0] + cells * noise[1] + cells**2 * noise[2]
    return np.stack(
        [
            w + q.constant - 0.5 * q.freedom * q.squares(cells) - row_sums(background[:, q.column])
            for w, q in zip(weight, components, strict=True)
        ],
        axis=1,
    )


@dataclass
class FullPosterior(Posterior):
    """The clusters, each with the covariance of its columns."""

    components: list[NormalWishart]
    psi: Floats  # (K, D, D) scatter of the clusters and of the prior, over all columns

    @classmethod
    def of_model(cls, model: FullModel, found: NDArray[np.intp]) -> FullPosterior:
        """From a model after its last update and the components (K,) that have rows."""
        q = model.mixture
        noise = q.reach * q.noise[0] + q.s1 * q.noise[1] + q.s2 * q.noise[2]
        psi = scatter_matrix(q.size, q.s1, model.products)
        gains = np.array([_column_evidence(model.components[k], psi[k], q.size[k]) - noise[k] for k in found])
        components = [model.components[k] for k in found]
        fitted = cls.fitted(model.scaling, model.priors, q, found, components=components, psi=psi[found])
        return replace(fitted, gains=gains)

    def covariances(self) -> Floats:
        """(K, D, D) expected covariances in units of the input; unselected: the noise's variance."""
        out = np.zeros_like(self.psi)
        for k, component in enumerate(self.components):
            np.fill_diagonal(out[k], self.background.variance)
            q = len(component.column)
            block = np.ix_(component.column, component.column)
            out[k][block] = self.psi[k][block] / max(component.freedom - q - 1, 0.5)
        return np.asarray(out / self.scaling.scale / self.scaling.scale[:, None])

    def moments(self) -> tuple[Floats, Floats]:
        mean = np.broadcast_to(self.background.mean, self.p.shape).copy()
        for k, component in enumerate(self.components):
            mean[k, component.column] = component.mean
        return mean / self.scaling.scale + self.scaling.centre, np.einsum("kdd->kd", self.covariances())

    def scores(self, X: NDArray[Any]) -> Floats:
        """(n, K) scores of rows under the clusters."""
        return np.concatenate(
            [
                row_scores(self.components, self.weight, self.noise, self.scaling.cells(X[rows]))
                for rows in chunks(len(X))
            ]
        )

    def labels(self, X: NDArray[Any], n_threads: int) -> Labels:
        return np.asarray(self.scores(X).argmax(axis=1).astype(np.int32))

    def proba(self, X: NDArray[Any], n_threads: int) -> Floats:
        return np.asarray(softmax(self.scores(X), axis=1))

    def _component_log_density(self, k: int, x: Floats, exposure: Floats | None, common: Floats) -> Floats:
        return np.asarray(self.components[k].log_density(x) + row_sums(common[:, self.p[k] == 0]))

    def _draw_cells(self, k: int, cells: Floats, rng: np.random.RandomState) -> Floats:
        cells[:, self.components[k].column] = self.components[k].draw(rng, len(cells))
        return cells


def pair_switches(component: NormalWishart, psi: Floats, size: float, against: Floats) -> Floats:
    """(D, D) what the ELBO gains where two unselected columns are selected, or two selected ones dropped;
    -inf for other pairs.

    The determinant of the larger scatter follows from the conditional scatter of the two given the selected
    columns, that of the smaller one from their block of the inverse.
    """
    S, q, D = component.column, len(component.column), len(psi)
    steps = column_steps(np.array([size]), D)[0]
    gains = np.full((D, D), -np.inf)
    others = np.setdiff1d(np.arange(D), S)
    if len(others) > 1:
        rows = component.inverse @ psi[np.ix_(S, others)]
        left = psi[np.ix_(others, others)] - rows.T @ rows
        added = steps[q : q + 2].sum() - component.log_det - 0.5 * (component.freedom + 2) * _log_minors(left)
        added -= against[others][:, None] + against[others]
        gains[np.ix_(others, others)] = np.where(np.eye(len(others)) > 0, -np.inf, added)
    if q > 1:
        precision = component.inverse.T @ component.inverse
        dropped = (
            component.log_det
            - steps[q - 2 : q].sum()
            - 0.5 * (component.freedom - 2) * _log_minors(precision)
        )
        dropped += against[S][:, None] + against[S]
        gains[np.ix_(S, S)] = np.where(np.eye(q) > 0, -np.inf, dropped)
    return gains


def _log_minors(matrix: Floats) -> Floats:
    """ln of the determinants of all 2 x 2 blocks of a positive definite matrix."""
    diagonal = np.maximum(np.diag(matrix), 1e-300)
    share = 1.0 - np.clip(matrix**2 / diagonal / diagonal[:, None], 0.0, 1.0 - 1e-15)
    return np.asarray(np.log(diagonal) + np.log(diagonal)[:, None] + np.log(share))


def _column_evidence(component: NormalWishart, psi: Floats, size: float) -> Floats:
    """(D,) log evidence of every column given the selected columns: of a selected one given the others."""
    S, q = component.column, len(component.column)
    steps = column_steps(np.array([size]), len(psi) + 1)[0]
    # the conditional scatter of each column given the selected ones; of a selected column given the others
    row = component.inverse @ psi[S]
    left = np.diag(psi) - np.einsum("qd,qd->d", row, row)
    left[S] = 1.0 / np.einsum("ij,ij->j", component.inverse, component.inverse)
    log_left = np.log(np.maximum(left, 1e-300))
    evidence = steps[q] - 0.5 * component.log_det - 0.5 * (component.freedom + 1) * log_left
    evidence[S] = (
        steps[max(q - 1, 0)] - 0.5 * (component.log_det - log_left[S]) - 0.5 * component.freedom * log_left[S]
    )
    return np.asarray(evidence)
