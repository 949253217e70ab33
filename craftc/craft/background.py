"""The background of CRAFT: the distribution of the whole table, under which a cluster models the features it
does not select.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from craftc._common.typing import Floats, Mask
from craftc._kernels.craft import FAR
from craftc.table.moments import Moments


class Background:
    """The distribution of the whole table: level frequencies eta_0, means zeta_0, variances sigma_0^2.

    Parameters
    ----------
    total : Moments
        Moments of the whole table as one cluster.
    """

    def __init__(self, total: Moments) -> None:
        grid = self.grid = total.grid
        self.count_weight, self.weight = total.unit, float(total.sizes[0])
        mean, deviations = total.means()
        present, counts = total.present[0], total.counts[0].copy()
        counts[grid.level_start[1:] - 1] = 0.0
        counts[grid.n_levels - 1 :] = 0.0  # missing cells have no level
        seen = np.add.reduceat(counts, grid.level_start) if grid.q else np.empty(0)
        self.frequency: Floats = counts / np.repeat(np.maximum(seen, 1e-300), self.level_widths)
        spread = deviations[0] / np.maximum(present, 1e-300)
        distinct = np.add.reduceat(counts > 0, grid.level_start, dtype=np.intp) if grid.q else seen
        self.usable: Mask = np.concatenate([spread > 0, distinct > 1]).astype(np.uint8)
        self.variance: Floats = np.where(spread > 0, spread, 1.0)
        deviation = np.sqrt(self.variance)
        # the centre is the rounded mean, and zeta_0 of the model is exactly this number
        self.centre: Floats = grid.centre + mean[0] / grid.scale
        self.mean: Floats = (self.centre - grid.centre) * grid.scale
        self.scale: Floats = grid.scale / deviation
        with np.errstate(divide="ignore", invalid="ignore"):
            self.level_cost: Floats = np.where(counts > 0, -np.log(self.frequency), 0.0)
        # sigma in the column's own units; a constant column costs nothing
        self.log_deviation: Floats = np.where(spread > 0, np.log(deviation) - np.log(grid.scale), 0.0)
        numeric = present * (self.log_deviation + 0.5)
        self.categorical_cost = float((counts * self.level_cost).sum())
        self.cost = float(numeric[spread > 0].sum()) + self.categorical_cost
        self.entropy = self.column_entropy(counts[None])[0]

    @cached_property
    def level_widths(self) -> NDArray[np.intp]:
        """(q,) levels of every categorical column, its missing level included."""
        return np.diff(np.append(self.grid.level_start, self.grid.n_levels))

    @cached_property
    def n_parameters(self) -> Floats:
        """(D,) free parameters of the distribution of every feature."""
        occurring = (
            np.add.reduceat(self.frequency > 0, self.grid.level_start, dtype=np.intp)
            if self.grid.q
            else np.empty(0)
        )
        return np.concatenate([np.full(self.grid.p, 2.0), np.maximum(occurring - 1.0, 0.0)])

    @cached_property
    def log_choose(self) -> Floats:
        """(n + 1,) log C(n, q) of the n usable features, nats."""
        n = int(self.usable.sum())
        q = np.arange(n + 1)
        return np.asarray(gammaln(n + 1) - gammaln(q + 1) - gammaln(n - q + 1))

    @property
    def unit_precision(self) -> Floats:
        """(p,) sigma_0^2 / 1 in the columns' own units: the paper's sigma = 1."""
        return self.variance / self.grid.scale**2

    def budget(self, fraction: float) -> tuple[int, int]:
        """Numbers of numeric and of categorical features under a fixed budget (round half up, at least one of
        each kind).
        """
        p = self.grid.p
        numeric, categorical = int(self.usable[:p].sum()), int(self.usable[p:].sum())
        return tuple(min(c, max(1, math.floor(fraction * c + 0.5 + 1e-9))) for c in (numeric, categorical))  # type: ignore[return-value]

    def column_entropy(self, counts: Floats) -> Floats:
        """(K, q) entropy in nats of raw level counts (K, n_levels), missing cells left out; 0 where nothing
        is present.
        """
        if not self.grid.q:
            return np.zeros((len(counts), 0))
        counts = counts * (self.frequency > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(counts > 0, counts * np.log(counts), 0.0)
            seen = np.add.reduceat(counts, self.grid.level_start, axis=1)
            entropy = np.log(seen) - np.add.reduceat(inner, self.grid.level_start, axis=1) / seen
        return np.where(seen > 0, entropy, 0.0)

    def level_present(self, counts: Floats) -> Floats:
        """(K, q) weight of the present cells of every categorical column."""
        if not self.grid.q:
            return np.zeros((len(counts), 0))
        return np.add.reduceat(counts * (self.frequency > 0), self.grid.level_start, axis=1)

    def row_costs(self, numeric: NDArray[Any], codes: NDArray[Any]) -> Floats:
        """(n,) sum of l0 over the present cells of every row, nats without (1/2) log 2 pi."""
        usable = self.usable[: self.grid.p].astype(bool)
        out = self.categorical_row_costs(codes)
        for d in np.flatnonzero(usable):
            cell = np.clip((numeric[:, d] - self.centre[d]) * self.scale[d], -FAR, FAR)
            out += np.where(np.isnan(cell), 0.0, 0.5 * cell * cell + self.log_deviation[d])
        return out

    def categorical_row_costs(self, codes: NDArray[Any]) -> Floats:
        """(n,) sum of l0 over the present categorical cells."""
        out = np.zeros(len(codes))
        for d, start in enumerate(self.grid.level_start):
            out += self.level_cost[start + codes[:, d].astype(np.intp)]
        return out
