"""Column scaling: the columns of the model, the units it sees them in, and the table in these units."""

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
from craftc._kernels.mixture import Rows
from craftc._kernels.mixture_updates import Mixture
from craftc.mixture.priors import BINARY, COUNT, NOISE, Priors

_FARTHEST = 1e140  # largest distance to the centre, in scaled units: squares of larger ones overflow
_CELLS_PER_CHECK = 5e6  # cells times components between two checks for Ctrl-C
_COMMENSURATE = 10.0  # columns whose standard deviations lie within this factor keep their proportions


@dataclass(frozen=True)
class ColumnScaling:
    """The columns of the model and their units: Gaussian columns are centred and scaled, others are used as
    they are.

    Columns without variance carry no information and are left out.
    """

    kind: str  # "gaussian", "poisson" or "bernoulli"
    mean: Floats  # (width,) of the present cells of every column of the input
    variance: Floats
    column: NDArray[np.int32]  # (D,) of the model
    centre: Floats
    scale: Floats

    @classmethod
    def fitted(
        cls,
        X: NDArray[Any],
        missing: bool,
        kind: str,
        scale: str,
        n_threads: int,
        weight: Floats | None = None,
    ) -> ColumnScaling:
        """The scaling of a table (n, width); `scale` is "auto", "scalar", "standard" or "none"."""
        n_present, mean, scatter = _moments(X, missing, n_threads, weight)
        variance = scatter / np.where(n_present > 0.0, n_present, 1.0)
        column = np.flatnonzero(variance > 0).astype(np.int32)
        if kind != "gaussian" or not len(column):
            return cls(kind, mean, variance, column, np.zeros(len(column)), np.ones(len(column)))
        return cls(kind, mean, variance, column, mean[column], _scale(scale, variance[column]))

    @property
    def counts(self) -> bool:
        """Whether columns are counts, whose rates a row multiplies by its exposure."""
        return self.kind == "poisson"

    @property
    def linear(self) -> bool:
        """Whether log densities of cells have no squares."""
        return self.kind != "gaussian"

    @property
    def rate(self) -> Floats:
        """Means of the model's columns."""
        return self.mean[self.column]

    def cells(self, X: NDArray[Any]) -> Floats:
        """Rows in the model's units, float64, missing cells NaN."""
        cells: Floats = X[:, self.column].astype(np.float64, copy=False)
        cells -= self.centre
        cells *= self.scale
        return cells

    def clipped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows clipped to _FARTHEST units from the centre, so that squared distances do not overflow."""
        reach = _FARTHEST / self.scale
        low, high = np.full(X.shape[1], -np.inf), np.full(X.shape[1], np.inf)
        low[self.column], high[self.column] = self.centre - reach, self.centre + reach
        if X.dtype == np.float32 or not any(
            bool(((X[rows] < low) | (X[rows] > high)).any()) for rows in chunks(len(X))
        ):
            return X
        return np.asarray(np.clip(X, low, high))

    def exposures(self, X: NDArray[Any]) -> Floats:
        """(n,) e_n: the total of a row divided by the total of the mean rates of its present cells."""
        cells = X[:, self.column].astype(np.float64, copy=False)
        expected = (~np.isnan(cells) * self.rate).sum(axis=1)
        return np.asarray(
            np.divide(np.nansum(cells, axis=1), expected, out=np.zeros(len(X)), where=expected > 0)
        )

    def mixture(self, priors: Priors) -> Mixture:
        """An empty mixture with its priors in these units."""
        D = len(self.column)
        if self.counts:
            own = noise = (1.0, COUNT, COUNT / self.rate)
        elif self.linear:
            own = noise = (1.0, BINARY, np.full(D, BINARY))
        else:
            own, noise = ((k0, a0, np.full(D, b0)) for k0, a0, b0 in (priors.column, NOISE))
        return Mixture(
            priors.K,
            D,
            own,
            noise,
            priors.concentration,
            kind=self.kind,
            own_noise=priors.own_noise,
            tied=priors.tied,
            own_fractions=priors.own_fractions,
            all_selected=priors.all_selected,
        )


class ScaledData:
    """A table and the units of the model.

    `X` (n, width). `missing`: whether cells are missing. `weight` (n,): weights of the rows.

    `total`: sum of the weights. `exposure` (n,): counts: factor of the rates of a row. `constant`:
    counts: sum of x ln e - ln x!, which no update changes.
    """

    def __init__(
        self,
        X: NDArray[Any],
        missing: bool,
        scaling: ColumnScaling,
        n_threads: int,
        weight: Floats | None = None,
    ) -> None:
        self.X, self.missing, self.scaling = X, missing, scaling
        self.n_threads, self.weight = n_threads, weight
        self.total = float(len(X)) if weight is None else math.fsum(weight)
        self.exposure = np.empty(len(X)) if scaling.counts else None
        parts = []
        for rows in chunks(len(X)):
            if self.exposure is not None:
                e = self.exposure[rows] = scaling.exposures(X[rows])
                cells = np.nan_to_num(X[rows][:, scaling.column].astype(np.float64))
                total = cells.sum(axis=1)
                if weight is None:
                    parts.append(float(total[e > 0] @ np.log(e[e > 0]) - gammaln(cells + 1.0).sum()))
                else:
                    scale = np.log(np.where(e > 0, e, 1.0))
                    parts.append(float(weight[rows] @ (total * scale - gammaln(cells + 1.0).sum(axis=1))))
        self.constant = math.fsum(parts)

    def __len__(self) -> int:
        return len(self.X)

    def visits(self, K: int) -> float:
        """Cell visits of one pass over the rows."""
        return len(self.X) * len(self.scaling.column) * (1 + K / 4)

    def passes(self, K: int) -> int:
        """Passes over the rows between two checks for Ctrl-C."""
        return max(1, int(_CELLS_PER_CHECK / (len(self.X) * (len(self.scaling.column) + 1) * K)))

    def rows(self, K: int) -> Rows:
        """The rows for a mixture of K components."""
        scaling = self.scaling
        return Rows(
            self.X, scaling.column, scaling.centre, scaling.scale, self.exposure, self.missing, K, self.weight
        )


def has_missing(X: NDArray[Any]) -> bool:
    """Whether cells are missing."""
    return any(bool(np.isnan(X[rows]).any()) for rows in chunks(len(X)))


def _moments(
    X: NDArray[Any], missing: bool, n_threads: int, weight: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Present cells, mean and scatter of every column.

    The first pass is centred on a cell of the column, so that constants give 0.
    """
    width = X.shape[1]
    columns, ones = np.arange(width, dtype=np.int32), np.ones(width)
    reference = X[0].astype(np.float64)
    for d in np.flatnonzero(np.isnan(reference)):
        present = ~np.isnan(X[:, d])
        reference[d] = X[present.argmax(), d] if present.any() else 0.0
    whole = Mixture(
        1, width, (1.0, 1.0, ones), (1.0, 1.0, ones), 1.0, kind="gaussian", own_noise=False, tied=False
    )
    threads = threads_for(n_threads, X.size)

    def sums(centre: Floats) -> tuple[Floats, Floats, Floats]:
        whole.size[:] = 1.0
        Rows(X, columns, centre, ones, None, missing, 1, weight).e_step(whole, threads)
        return whole.reach[0].copy(), whole.s1[0].copy(), whole.s2[0].copy()

    n_present, s1, s2 = sums(reference)
    if not np.isfinite(s2).all():
        raise ValueError(
            "The spread of the table is so large that squared distances overflow: scale it down."
        )
    constant = s2 == 0
    divisor = np.where(n_present > 0.0, n_present, 1.0)
    mean = reference + s1 / divisor
    n_present, s1, s2 = sums(mean)
    scatter = s2 - s1 * s1 / divisor
    return n_present, mean + s1 / divisor, np.where(constant, 0.0, scatter)


def _scale(scale: str, variance: Floats) -> Floats:
    """Factors of the columns: one for all, one for each, or 1."""
    if scale == "auto":
        low, high = np.sqrt(np.quantile(variance, [0.1, 0.9]))
        scale = "scalar" if high <= _COMMENSURATE * low else "standard"
    if scale == "none":
        return np.ones_like(variance)
    return np.asarray(
        1.0 / np.sqrt(variance if scale == "standard" else np.full_like(variance, variance.mean()))
    )
