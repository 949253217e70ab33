"""What the mixture is fitted to and what it believes beforehand: the table in the model's units, and the priors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from craftc._common.labels import chunks
from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._kernels.mixture import Mixture, Rows

NORMAL = (0.1, 1.0, 0.5)  # k0, a0, b0 of a component's column, in the model's units
NOISE = (0.1, 1.0, 1.0)
COUNT = 1.0  # a0 of a rate; b0 = a0 / mean rate, so that columns are expected to be like the whole table
KAPPA = 0.05  # least kappa where the feature fraction is learnt: below, the prior's log-odds run to hundreds of nats
_FARTHEST = 1e140
_COMMENSURATE = 10.0  # columns whose standard deviations differ less keep their proportions


@dataclass(frozen=True)
class Beliefs:
    """The parameters of the model, checked.

    Parameters
    ----------
    K : int
        Components there is room for.
    counts, full : bool
        Poisson columns; Gaussian components with a covariance.
    own_noise : bool
        A noise variance for every column.
    tied : bool
        One mask for all components.
    fraction, variance : float
        m and rho: mean and variance of lambda_d.
    learn : bool
        Whether m is fitted.
    concentration : float
        alpha.
    """

    K: int
    counts: bool
    full: bool
    own_noise: bool
    tied: bool
    fraction: float
    variance: float
    learn: bool
    concentration: float

    def shares(self, fraction: float) -> tuple[float, float]:
        """Shapes of the Beta prior of lambda_d: m kappa and (1 - m) kappa, kappa = m (1 - m) / rho - 1."""
        kappa = fraction * (1.0 - fraction) / self.variance - 1.0
        return fraction * kappa, (1.0 - fraction) * kappa


def interval(variance: float, kappa: float = 0.0) -> tuple[float, float]:
    """The feature fractions that a variance rho allows: m (1 - m) > (1 + kappa) rho."""
    half = math.sqrt(max(0.25 - (1.0 + kappa) * variance, 0.0))
    return 0.5 - half, 0.5 + half


@dataclass(frozen=True)
class Units:
    """The columns of the model and the units it sees them in: Gaussian ones centred and scaled, counts as they are.

    Columns without variance stay outside: nothing can be told by them.
    """

    counts: bool
    mean: Floats  # (width,) of the present cells of every column of the input
    variance: Floats
    column: NDArray[np.int32]  # (D,) of the model
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, X: NDArray[Any], counts: bool, scale: str, n_threads: int) -> Units:
        """The units for a table (n, width); `scale` is "auto", "scalar", "standard" or "none"."""
        seen, mean, scatter = _moments(X, n_threads)
        variance = scatter / np.maximum(seen, 1.0)
        column = np.flatnonzero(variance > 0).astype(np.int32)
        if counts or not len(column):
            return cls(counts, mean, variance, column, np.zeros(len(column)), np.ones(len(column)))
        return cls(counts, mean, variance, column, mean[column], _scale(scale, variance[column]))

    @property
    def rate(self) -> Floats:
        """Means of the model's columns."""
        return self.mean[self.column]

    def cells(self, X: NDArray[Any]) -> Floats:
        """Some rows as the model sees them, float64, missing cells NaN."""
        cells: Floats = X[:, self.column].astype(np.float64, copy=False)
        cells -= self.centre
        cells *= self.scale
        return cells

    def within(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows whose squared distances do not overflow: wild cells count as being _FARTHEST units away."""
        reach = _FARTHEST / self.scale
        low, high = np.full(X.shape[1], -np.inf), np.full(X.shape[1], np.inf)
        low[self.column], high[self.column] = self.centre - reach, self.centre + reach
        if X.dtype == np.float32 or not any(bool(((X[rows] < low) | (X[rows] > high)).any()) for rows in chunks(len(X))):
            return X
        return np.asarray(np.clip(X, low, high))

    def exposures(self, X: NDArray[Any]) -> Floats:
        """(n,) e_n: the total of a row beside what the mean rates of its present cells make."""
        cells = X[:, self.column].astype(np.float64, copy=False)
        expected = (~np.isnan(cells) * self.rate).sum(axis=1)
        return np.asarray(np.divide(np.nansum(cells, axis=1), expected, out=np.zeros(len(X)), where=expected > 0))

    def mixture(self, beliefs: Beliefs) -> Mixture:
        """A mixture with its priors in these units, nothing in it yet."""
        D = len(self.column)
        if self.counts:
            own = noise = (1.0, COUNT, COUNT / self.rate)
        else:
            own, noise = ((k0, a0, np.full(D, b0)) for k0, a0, b0 in (NORMAL, NOISE))
        kind = {"counts": self.counts, "own_noise": beliefs.own_noise, "tied": beliefs.tied}
        return Mixture(beliefs.K, D, own, noise, beliefs.concentration, **kind)


class Table:
    """Rows in the units of a model.

    Parameters
    ----------
    X : ndarray (n, width) of float32 or float64, contiguous; NaN is a missing cell
    units : Units
    n_threads : int

    Attributes
    ----------
    exposure : ndarray (n,) or None
        What the rates of a row's counts are multiplied with.
    constant : float
        Counts: sum of x ln e - ln x!, which no update changes.
    """

    def __init__(self, X: NDArray[Any], units: Units, n_threads: int) -> None:
        self.X, self.units, self.n_threads = X, units, n_threads
        self.holes, self.exposure, self.constant = False, np.empty(len(X)) if units.counts else None, 0.0
        parts = []
        for rows in chunks(len(X)):
            self.holes |= bool(np.isnan(X[rows]).any())
            if self.exposure is not None:
                e = self.exposure[rows] = units.exposures(X[rows])
                cells = np.nan_to_num(X[rows][:, units.column].astype(np.float64))
                total = cells.sum(axis=1)
                parts.append(float(total[e > 0] @ np.log(e[e > 0]) - gammaln(cells + 1.0).sum()))
        self.constant = math.fsum(parts)

    def __len__(self) -> int:
        return len(self.X)

    def threads(self, K: int) -> int:
        """Threads for one pass over the rows."""
        return threads_for(self.n_threads, len(self.X) * len(self.units.column) * (1 + K / 4))

    def rows(self, K: int) -> Rows:
        """The rows for a mixture of K components."""
        units = self.units
        return Rows(self.X, units.column, units.centre, units.scale, self.exposure, self.holes, K)


def _moments(X: NDArray[Any], n_threads: int) -> tuple[Floats, Floats, Floats]:
    """Present cells, mean and scatter of every column; the first look takes off a cell of the column, so that constants give 0."""
    width = X.shape[1]
    columns, ones = np.arange(width, dtype=np.int32), np.ones(width)
    reference = X[0].astype(np.float64)
    for d in np.flatnonzero(np.isnan(reference)):
        there = ~np.isnan(X[:, d])
        reference[d] = X[there.argmax(), d] if there.any() else 0.0
    whole = Mixture(1, width, (1.0, 1.0, ones), (1.0, 1.0, ones), 1.0, counts=False, own_noise=False, tied=False)
    threads = threads_for(n_threads, X.size)

    def look(centre: Floats) -> tuple[Floats, Floats, Floats]:
        whole.size[:] = 1.0
        Rows(X, columns, centre, ones, None, True, 1).visit(whole, threads)
        return whole.reach[0].copy(), whole.s1[0].copy(), whole.s2[0].copy()

    seen, s1, s2 = look(reference)
    if not np.isfinite(s2).all():
        raise ValueError("The table spreads so far that squared distances overflow: scale it down.")
    constant = s2 == 0
    mean = reference + s1 / np.maximum(seen, 1.0)
    seen, s1, s2 = look(mean)
    scatter = s2 - s1 * s1 / np.maximum(seen, 1.0)
    return seen, mean + s1 / np.maximum(seen, 1.0), np.where(constant, 0.0, scatter)


def _scale(scale: str, variance: Floats) -> Floats:
    """Factors of the columns: one for all, one each, or none."""
    if scale == "auto":
        low, high = np.sqrt(np.quantile(variance, [0.1, 0.9]))
        scale = "scalar" if high <= _COMMENSURATE * low else "standard"
    if scale == "none":
        return np.ones_like(variance)
    return np.asarray(1.0 / np.sqrt(variance if scale == "standard" else np.full_like(variance, variance.mean())))
