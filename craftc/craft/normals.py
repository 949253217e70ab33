"""Normal densities as distributions of the levels of a column, in place of tilts where they are shorter.

A tilt has the peaks of the table's distribution b. A wide group behind narrow ones has not: it is nearer to a
normal density, which is a tilt of the widths of the levels in place of their shares,

    p(l) = w_l exp(theta_1 z_l + theta_2 z_l^2 - A(theta)),      w_l ~ b_l exp(z_l^2 / 2 - e_l),

because the excess e_l of a level is the smoothed log density of the table there over that of N(0, 1). z_l is
the standardised value of the level, also of a skewed column, which a wide group makes skewed. One row of w is
the prior, as one of b is that of a tilt; the price is the same, too. With counts c_l and r_l = log (p(l) /
w_l), the gain over the table is sum_l c_l (r_l + log (w_l / b_l)) + sum_l w_l r_l. The clusters that do not
select a column share one normal density, where that is shorter than the tilt which they would share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Integers
from craftc._kernels.craft_shared import log_ratios
from craftc.craft.background import Background, tilts_of


class NormalLevels:
    """Normal densities of P columns of scores in groups of rows."""

    def __init__(self, background: Background, columns: NDArray[np.intp]) -> None:
        grid, self.unit = background.grid, background.count_weight
        self.of_levels = background.levels_of_scores[columns] - grid.p  # (P,) columns of levels
        self.starts = grid.level_start
        scores: list[Floats | None] = [None] * grid.q
        self.width, self.log_width = np.zeros(grid.n_levels), np.zeros(grid.n_levels)  # w; log w / b
        for d, j in zip(columns, self.of_levels, strict=True):
            axis = background.axes_of_values[d]
            z = axis.scores.astype(np.float64)
            levels = slice(self.starts[j], self.starts[j] + len(z))
            log_width, share = 0.5 * z * z - axis.excess, background.frequency[levels]
            width = share * np.exp(log_width - log_width.max())
            scores[j], self.width[levels] = z[:, None], width / width.sum()
            log_total = np.log(width.sum()) + log_width.max()
            self.log_width[levels] = np.where(share > 0.0, log_width - log_total, 0.0)
        distinct = np.add.reduceat(self.width > 0.0, self.starts, dtype=np.intp)
        self.tilts = tilts_of(grid, scores, self.width, distinct, np.ones(grid.q))

    def fits(self, groups: Integers) -> tuple[Floats, Floats]:
        """(m, n_levels) log p(l) / b_l of groups, 0 in other columns, and (m, P) their gains."""
        counts = self.counts(groups)
        ratios = np.zeros(counts.shape)
        log_ratios(counts, self.unit, self.tilts, np.empty(len(counts)), ratios)
        prior = self._sums(self.width * ratios)
        ratios += self.log_width
        return ratios, self.likelihoods(counts, ratios) + prior

    def counts(self, groups: Integers) -> Integers:
        """(m, n_levels) counts of the levels in groups, in units of the moments."""
        return np.ascontiguousarray(groups[:, 1 : 1 + len(self.width)])

    def likelihoods(self, counts: Integers, ratios: Floats) -> Floats:
        """(m, P) log likelihoods over the table of groups with these counts."""
        return self._sums(counts * ratios) * self.unit

    def _sums(self, of_levels: Floats) -> Floats:
        """(m, P) sums over the levels of every column."""
        found: Floats = np.add.reduceat(of_levels, self.starts, axis=1)[:, self.of_levels]
        return found


class SharedNormals(NamedTuple):
    """Normal densities that clusters share which do not select a column."""

    ratios: Floats  # (n_levels,) log p(l) / b_l
    used: NDArray[np.bool_]  # (P,) whether one takes the place of the shared tilt
    by_priors: float  # nats that the rows of prior of the used ones save over those of tilts


class Normals(NamedTuple):
    """The normal densities outside blocks of the clusters of one partition."""

    own: NDArray[np.bool_]  # (K, P) selected columns whose distribution in a cluster is one
    sharing: NDArray[np.bool_]  # (K, P) other columns, in which the cluster shares one
    gains: Floats  # (K, P) of densities of their own
    ratios: Floats  # (K, n_levels) log p(l) / b_l
    shared: SharedNormals | None  # what clusters share
