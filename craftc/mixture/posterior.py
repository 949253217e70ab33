"""The fitted posterior: labels, probabilities and densities of new rows, and samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from craftc._common.products import row_sums
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels.mixture_updates import Mixture
from craftc.mixture.priors import Priors
from craftc.mixture.scaling import ColumnScaling, ScaledData, has_missing

_DENSITY_ROWS = 1024  # rows whose densities are computed at a time; bounds memory


@dataclass(frozen=True)
class ColumnDensities:
    """Posteriors of columns: (D,) of the noise or of one component, (K, D) of all components.

    Normal(mean, 1 / (kappa tau)) Gamma(a, b), the Gamma(a, b) of a rate, or the Beta(a, b) of a probability.
    """

    kind: str
    mean: Floats
    kappa: Floats
    a: Floats
    b: Floats

    @classmethod
    def fitted(cls, prior: Floats, kind: str, sums: Floats, common: bool = False) -> ColumnDensities:
        """From the prior (k0, a0, b0) and sums (reach, x, x^2); `common`: one precision for all columns."""
        (k0, a0, b0), (reach, s1, s2) = prior, sums
        kappa = k0 + reach
        if kind == "bernoulli":
            a, b = a0 + s1, b0 + np.maximum(reach - s1, 0.0)
            return cls(kind, a / (a + b), kappa, a, b)
        if kind == "poisson":
            return cls(kind, s1 / np.maximum(reach, 1e-300), kappa, a0 + s1, b0 + reach)
        a, scatter = reach / 2, np.maximum(s2 - s1 * s1 / kappa, 0.0) / 2
        if common:
            a, scatter, b0 = np.full_like(a, a.sum()), np.full_like(a, scatter.sum()), b0[:1]
        return cls(kind, s1 / kappa, kappa, a0 + a, b0 + scatter)

    def __getitem__(self, k: int) -> ColumnDensities:
        """Those of one component."""
        return ColumnDensities(self.kind, self.mean[k], self.kappa[k], self.a[k], self.b[k])

    def log_density(self, x: Floats, exposure: Floats | None) -> Floats:
        """(n, D) ln of the predictive density of cells: Student's t, negative binomial, or Bernoulli.

        Missing cells give 0.
        """
        if self.kind == "bernoulli":
            cells = np.where(x > 0, np.log(self.mean), np.log1p(-self.mean))
        elif exposure is not None:
            e = exposure[:, None]
            rest = np.where(x > 0, x * np.log(np.maximum(e, 1e-300) / (self.b + e)), 0.0)
            cells = (
                gammaln(self.a + x)
                - gammaln(self.a)
                - gammaln(x + 1.0)
                + self.a * np.log(self.b / (self.b + e))
                + rest
            )
        else:
            spread = 2.0 * self.b * (1.0 + 1.0 / self.kappa)  # 2 a times the squared scale
            away = (x - self.mean) ** 2 / spread
            cells = (
                gammaln(self.a + 0.5)
                - gammaln(self.a)
                - 0.5 * np.log(np.pi * spread)
                - (self.a + 0.5) * np.log1p(away)
            )
        return np.asarray(np.where(np.isnan(x), 0.0, cells))

    def draw(self, rng: np.random.RandomState, n: int) -> Floats:
        """(n, D) cells."""
        if self.kind == "bernoulli":
            return np.asarray(rng.uniform(size=(n, len(self.mean))) < self.mean, np.float64)
        rate = rng.standard_gamma(self.a, (n, len(self.a))) / self.b
        if self.kind == "poisson":
            return rng.poisson(rate).astype(np.float64)
        return np.asarray(
            self.mean + rng.standard_normal(rate.shape) * np.sqrt((1.0 + 1.0 / self.kappa) / rate)
        )

    @property
    def variance(self) -> Floats:
        """Expected variance of a cell; of a rate its mean."""
        if self.kind == "bernoulli":
            return self.mean * (1.0 - self.mean)
        return self.a / self.b if self.kind == "poisson" else self.b / np.maximum(self.a - 1.0, 0.5)


@dataclass
class Posterior:
    """The clusters, in the order of their labels, and the noise."""

    scaling: ColumnScaling
    priors: Priors  # of K clusters
    fractions: Floats | None  # (K,) expected fractions of the clusters, if each has its own
    p: Floats  # (K, D) probability that a column is selected
    gains: Floats  # (K, D) nats
    own: Floats  # (3, K, D) coefficients of the log density of the clusters' cells
    noise: Floats  # (3, D) those of the noise
    weight: Floats  # (K,) E ln pi
    weights: Floats  # (K,) expected shares
    clusters: ColumnDensities
    background: ColumnDensities

    @classmethod
    def fitted(
        cls, scaling: ColumnScaling, priors: Priors, mixture: Mixture, found: NDArray[np.intp], **more: Any
    ) -> Self:
        """From a mixture and the components (K,) that have rows; `more`: fields of a subclass."""
        fractions = (
            (mixture.share[0] / (mixture.share[0] + mixture.share[1]))[found]
            if priors.own_fractions
            else None
        )
        broken = mixture.stick[0, :-1] / (mixture.stick[0, :-1] + mixture.stick[1, :-1])  # E v
        share = (np.append(broken, 1.0) * np.append(1.0, np.cumprod(1.0 - broken)))[found]
        sums = np.stack([mixture.reach, mixture.s1, mixture.s2])
        rest = (sums if priors.all_selected else (1.0 - mixture.p) * sums).sum(axis=1)
        own, noise = mixture.priors[:2]
        return cls(
            scaling=scaling,
            priors=replace(priors, K=len(found), concentration=mixture.concentration),
            fractions=fractions,
            p=mixture.p[found],
            gains=mixture.gains()[found],
            own=mixture.own[:, found],
            noise=mixture.noise.copy(),
            weight=mixture.weight[found],
            weights=share / share.sum(),
            clusters=ColumnDensities.fitted(own, scaling.kind, sums[:, found]),
            background=ColumnDensities.fitted(noise, scaling.kind, rest, common=not priors.own_noise),
            **more,
        )

    def e_step(
        self, X: NDArray[Any], n_threads: int, *, label: Labels | None = None, proba: Floats | None = None
    ) -> None:
        """Labels (n,) or probabilities (n, K) of rows."""
        data = ScaledData(X, has_missing(X), self.scaling, n_threads)
        mixture = self.scaling.mixture(self.priors)
        mixture.own[...], mixture.noise[...] = self.own, self.noise
        mixture.p[...], mixture.weight[...] = self.p, self.weight
        mixture.size[...] = 1.0
        threads = threads_for(n_threads, data.visits(self.priors.K))
        data.rows(self.priors.K).e_step(
            mixture, threads, gather=False, linear=self.scaling.linear, label=label, proba=proba
        )

    def labels(self, X: NDArray[Any], n_threads: int) -> Labels:
        """(n,) most probable clusters."""
        label = np.empty(len(X), np.int32)
        self.e_step(X, n_threads, label=label)
        return label

    def proba(self, X: NDArray[Any], n_threads: int) -> Floats:
        """(n, K) probabilities of the clusters."""
        proba = np.empty((len(X), self.priors.K))
        self.e_step(X, n_threads, proba=proba)
        return proba

    def moments(self) -> tuple[Floats, Floats]:
        """(K, D) means and variances of the clusters in units of the input; unselected: the noise's."""
        parts = []
        for part in ("mean", "variance"):
            parts.append(np.where(self.p > 0.5, getattr(self.clusters, part), getattr(self.background, part)))
        mean, variance = parts
        return mean / self.scaling.scale + self.scaling.centre, variance / self.scaling.scale**2

    def log_density(self, X: NDArray[Any]) -> Floats:
        """(n,) ln of the predictive density of rows in the units of the input; missing cells are left out."""
        out = np.empty(len(X))
        size = -np.log(self.scaling.scale)  # log volume of a unit of the input in units of the model
        for first in range(0, len(X), _DENSITY_ROWS):
            rows = X[first : first + _DENSITY_ROWS]
            x = self.scaling.cells(rows)
            exposure = self.scaling.exposures(rows) if self.scaling.counts else None
            common = self.background.log_density(x, exposure)
            parts = np.stack(
                [self._component_log_density(k, x, exposure, common) for k in range(len(self.weights))],
                axis=1,
            )
            out[first : first + _DENSITY_ROWS] = logsumexp(parts, axis=1, b=self.weights) - row_sums(
                np.where(np.isnan(x), 0.0, size)
            )
        return out

    def _component_log_density(self, k: int, x: Floats, exposure: Floats | None, common: Floats) -> Floats:
        """(n,) log density of rows under one cluster; its columns mix selected and unselected."""
        own, p = self.clusters[k].log_density(x, exposure), self.p[k]
        with np.errstate(divide="ignore"):
            return np.asarray(row_sums(np.logaddexp(np.log(p) + own, np.log1p(-p) + common)))

    def draw(self, n: int, rng: np.random.RandomState) -> tuple[Floats, Labels]:
        """n rows in the model's units and their clusters."""
        labels = rng.choice(len(self.weights), size=n, p=self.weights).astype(np.int32)
        cells = self.background.draw(rng, n)
        for k in range(len(self.weights)):
            rows = np.flatnonzero(labels == k)
            cells[rows] = self._draw_cells(k, cells[rows], rng)
        return cells, labels

    def _draw_cells(self, k: int, cells: Floats, rng: np.random.RandomState) -> Floats:
        """Cells of the noise, replaced by draws from cluster k where it selects the column."""
        selected = rng.uniform(size=cells.shape) < self.p[k]
        return np.where(selected, self.clusters[k].draw(rng, len(cells)), cells)
