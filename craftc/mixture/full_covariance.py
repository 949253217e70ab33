"""Components with a full covariance over the columns they select.

q(y) is a point mass: a column is selected or not. The noise, lambda, m and the sticks are those of the
diagonal model; their ELBO contains everything except the components, which are added here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, softmax, xlogy

from craftc._common.labels import chunks, renumber
from craftc._common.products import row_sums
from craftc._common.typing import Floats, Ints, Labels
from craftc._kernels import mixture_full, mixture_moves
from craftc._kernels.team import Team
from craftc.mixture.block_switches import Block, NoiseGains, Switch, path_matrix
from craftc.mixture.posterior import Posterior
from craftc.mixture.priors import Priors
from craftc.mixture.scaling import ScaledData
from craftc.mixture.variational import Ascent, DiagonalModel, MixtureConfig, MixtureFactors
from craftc.mixture.wishart import NormalWishart, WishartPrior, column_evidence, pair_switches

_SWITCH_MARGIN = 1e-12  # share of the ELBO that a switch of a column must gain
_MOST_SELECTIONS = 10  # updates of the masks before the first E-step
_LEAST = 2.0**-60  # probability below which it is rounded to 0, as in the kernels


class FullModel:
    """Components with full covariances. Starts from responsibilities with no column selected, or from the
    result of the diagonal model.

    `n_threads`: of a pass over the rows of the diagonal model.
    """

    def __init__(self, data: ScaledData, priors: Priors, n_threads: int) -> None:
        self.factors = MixtureFactors(data, priors)
        self.mixture = self.factors.mixture
        self.data, self.scaling, self.priors, self.n_threads = data, data.scaling, priors, n_threads
        self.prior = WishartPrior.of(priors)
        K, D = self.mixture.p.shape
        if priors.all_selected:
            self.mixture.p[:] = 1.0
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
            self.factors.update_concentration()
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
                self.prior.fitted(np.flatnonzero(self.mixture.p[k]), *self._sums(k)) for k in range(K)
            ]
        else:
            U, column, count = factors
            self.components = [
                self.prior.fitted(column[k, : count[k]].copy(), *self._sums(k), U[k, : count[k], : count[k]])
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
        if self.priors.all_selected:
            return
        margin = _SWITCH_MARGIN * abs(self.elbo())
        noise = q.reach * q.noise[0] + q.s1 * q.noise[1] + q.s2 * q.noise[2]
        odds = q.share[2] - q.share[3]
        against = noise - odds if not self.priors.tied else noise - odds / K
        factors = np.zeros((K, D, D)), np.empty((K, D), np.int32), np.empty(K, np.int32)
        psi = self.prior.scatter_matrix(q.size, q.s1, self.products)
        self._switch_pairs(psi, against, margin)
        mixture_full.switch_columns(
            psi,
            self.prior.column_steps(q.size, D),
            self.prior.nu0 - 1 + q.size,
            against,
            margin,
            self.priors.tied,
            q.p,
            *factors,
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
                gains = sum(
                    pair_switches(self.prior, self.components[k], psi[k], q.size[k], against[k])
                    for k in group
                )
                best = np.unravel_index(int(np.argmax(gains)), (D, D))
                if not np.asarray(gains)[best] > margin:
                    break
                for k in group:
                    q.p[k, list(best)] = 1.0 - q.p[k, list(best)]
                    self.components[k] = self.prior.fitted(np.flatnonzero(q.p[k]), *self._sums(k))

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
        self.factors.update_concentration()
        label, alive = np.empty(len(self.data), np.int32), np.flatnonzero(self.mixture.size > 0)
        self._e_step(label)
        renumber(label, alive.astype(np.int32))
        return label

    def share(self, team: Team) -> None:
        """The rows are read in slices, one after the other."""

    def pause(self) -> None:
        """Nothing to free: the products of the columns are needed by the next sweep."""

    # ---- moves ----

    def select(self) -> None:
        """The columns that the responsibilities of the start select: updates of all other factors, and
        switches of blocks, before the first E-step.
        """
        for _ in range(_MOST_SELECTIONS):
            self._update()
            if not self.switch(0.0):
                break

    def switch(self, margin: float) -> bool:
        """Blocks of columns are switched in each component, and in all together."""
        q = self.mixture
        if self.priors.all_selected:
            return False
        together, switched = np.arange(len(q.size)), False
        alone = [] if self.priors.tied else list(np.flatnonzero(q.size > 0)[:, None])
        self._fit_components()
        for group in [*alone, together]:
            columns, gain = self._best_block(group)
            if gain > margin:
                q.p[np.ix_(group, columns)] = 1.0 - q.p[group[q.size[group] > 0][0], columns]
                for k in group:
                    self.components[k] = self.prior.fitted(np.flatnonzero(q.p[k]), *self._sums(k))
                switched = True
        if switched:
            self._fit_components()
            q.update_noise()
            q.update_shares()
        return switched

    def _best_block(self, group: Ints) -> Switch:
        """The columns to switch in a group of components, with their masks, the noise and lambda refitted.

        Columns are open in which its components agree; those without rows follow.
        """
        q = self.mixture
        K, D = q.p.shape
        filled = group[q.size[group] > 0]
        masks = q.p[filled] > 0
        column = np.flatnonzero((masks == masks[0]).all(axis=0))
        block, selected = np.ix_(column, column), masks[0, column]
        switched = q.p[:, column]
        switched[group] = ~selected
        sums = np.stack([q.reach, q.s1, q.s2])[:, :, column]
        n_masks, (a, b), noise, shares = 1 if self.priors.tied else K, q.share_prior, [], []
        for p in (q.p[:, column], switched):
            noise.append(((1.0 - p) * sums).sum(axis=1))
            n_selected = p[:n_masks].sum(axis=0)
            shares.append(betaln(a + n_selected, b + n_masks - n_selected))
        k0, a0, b0 = q.priors[1]
        psi = self.prior.scatter_matrix(q.size[filled], q.s1[filled], self.products[filled])
        components = [self.components[k] for k in filled]
        steps = np.cumsum(self.prior.column_steps(q.size[filled], D), axis=1)
        best = Block(
            selected,
            np.stack(
                [
                    path_matrix(each, component.column, component.inverse)[block]
                    for each, component in zip(psi, components, strict=True)
                ]
            ),
            np.array([component.log_det for component in components]),
            masks.sum(axis=1),
            np.insert(steps, 0, 0.0, axis=1),
            self.prior.nu0 - 1 + q.size[filled],
            shares[1] - shares[0],
            NoiseGains.fitted((k0, a0, b0[column]), not self.priors.own_noise, *noise),
        ).best()
        return Switch(column[best.columns], best.gain)

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
                self.prior.fitted(np.flatnonzero(p), size, s1, s2).evidence
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
        evidence = [self.prior.fitted(np.flatnonzero(p), *both).evidence for p in masks]
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
        model.factors.fit_background()
        q = model.mixture
        noise = q.reach * q.noise[0] + q.s1 * q.noise[1] + q.s2 * q.noise[2]
        psi = model.prior.scatter_matrix(q.size, q.s1, model.products)
        gains = np.array(
            [column_evidence(model.prior, model.components[k], psi[k], q.size[k]) - noise[k] for k in found]
        )
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
