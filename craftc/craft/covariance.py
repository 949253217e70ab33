"""The covariances of the clusters of a model: what `craftc.craft.block_pricing` has chosen, and the costs of
rows by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from craftc._common.typing import Floats, Mask
from craftc._kernels import craft_covariance as kernel
from craftc._kernels.craft_cross_products import Conditionals
from craftc.craft.background import Normals
from craftc.craft.block_pricing import BlockPricing, ColumnGains, Estimates, PricedPartition
from craftc.craft.parameters import ModelSpec
from craftc.craft.products import CrossProducts, most_columns, n_covariance_columns
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments


class Covariance(NamedTuple):
    """The covariance of one cluster.

    Attributes
    ----------
    columns : ndarray (m,) of intp
        Positions of its columns among the input columns, ascending in the order of the numeric columns.
    matrix : ndarray (m, m)
        The smoothed covariance of the scores of the columns: standardised values, or normal scores where few
        cells would rule the values.
    """

    columns: NDArray[np.intp]
    matrix: Floats


@dataclass
class ClusterCovariances:
    """The blocks of the clusters of one model, and the normal densities outside of them. Cells, means and
    covariances are in units of the table.
    """

    cross: CrossProducts
    block: Mask  # (K, P) columns of the block, as positions in ``cross.columns``; none: the diagonal form
    saving: Floats  # (K,) nats by which blocks and normal densities shorten the description
    weight: Floats  # (K,) of the clusters
    mean: Floats  # (K, P)
    matrix: Floats  # (K, P, P) Sigma
    centre: Floats  # (P,) z = (x - centre) * scale
    scale: Floats
    levels: NDArray[np.intp]  # (P,) the features that the columns replace
    inside: Floats  # (P,) variances inside their levels
    excess: list[tuple[int, Floats]]  # of every column: its first level, the excess of its levels
    norms: Floats  # (K, P) log norms of the densities in blocks
    normals: Normals | None = None  # outside blocks, if there are any

    @classmethod
    def of_blocks(
        cls, prices: BlockPricing, part: PricedPartition, block: Mask, found: Estimates, gains: ColumnGains
    ) -> ClusterCovariances:
        """Blocks (K, P) of clusters whose masks contain them, and normal densities outside of them."""
        selected = part.mask.take(prices.levels, axis=1)
        matrix, saving = prices.held(block, found)
        over_tilts = gains.over_tilts(selected) * (1 - block)
        saving += ((gains.block - gains.tilt) * block + over_tilts).sum(axis=1)
        held = cls._of_blocks(prices, part, block, matrix, saving, gains.norms)
        if gains.ratios is not None:
            of_own = selected.astype(bool)
            own, sharing = of_own & (block == 0) & (gains.normal > gains.tilt), np.zeros_like(of_own)
            if gains.normals is not None:
                sharing = ~of_own & gains.normals.used
            if own.any() or sharing.any():
                held.normals = Normals(own, sharing, gains.normal, gains.ratios, gains.normals)
        return held

    @property
    def saved(self) -> float:
        """Nats that blocks and normal densities of single clusters, and shared ones, save in all."""
        shared = None if self.normals is None else self.normals.shared
        return float(self.saving.sum()) + (0.0 if shared is None else shared.by_priors)

    @property
    def replaced(self) -> Mask:
        """(K, P) columns in which a block or a normal density replaces the tilt."""
        return self.block if self.normals is None else self.block | self.normals.own | self.normals.sharing

    @classmethod
    def tie(
        cls, prices: BlockPricing, part: PricedPartition, kept: Mask | None
    ) -> tuple[ClusterCovariances, float]:
        """The same with one covariance that all clusters share, and the nats that it saves in all over the
        distributions of the whole table.
        """
        weight, deviations = part.moments.sizes, part.scatter.deviations
        norms = prices.tied_norms(part)
        excess = prices.excess_of(part.moments.groups) + part.scatter.divergence
        excess += norms * prices.present(part.moments.groups)
        block, matrix, saved = prices.choose_tied(part, excess, kept)
        saving, held = np.zeros(len(weight)), np.flatnonzero(block)
        if len(held):
            some = np.ix_(held, held)
            inverse, log_det = np.linalg.inv(matrix[some]), np.linalg.slogdet(matrix[some])[1]
            own, at = deviations[:, held[:, None], held], part.scatter.mean[:, held]
            saving = 0.5 * (np.trace(own, axis1=1, axis2=2) + weight * ((at * at).sum(axis=1) - log_det))
            saving -= 0.5 * (own * inverse).sum(axis=(1, 2)) + len(held) * prices.h
            saving -= excess[:, held].sum(axis=1)
        every = np.repeat(block[None], len(weight), axis=0), np.repeat(matrix[None], len(weight), axis=0)
        return cls._of_blocks(prices, part, *every, saving, norms), saved

    @classmethod
    def _of_blocks(
        cls,
        prices: BlockPricing,
        part: PricedPartition,
        block: Mask,
        matrix: Floats,
        saving: Floats,
        norms: Floats,
    ) -> ClusterCovariances:
        return cls(
            part.cross,
            block,
            saving,
            part.moments.sizes,
            part.scatter.mean,
            matrix,
            *prices.units,
            prices.levels,
            prices.inside,
            list(zip(prices.first_level.tolist(), prices.excess, strict=True)),
            norms,
        )

    def conditionals(self) -> Conditionals:
        """The distributions of missing cells; columns outside the block of a cluster are independent."""
        own = self.block
        related = (own[:, :, None] & own[:, None, :]) | np.eye(own.shape[1], dtype=np.uint8)
        return Conditionals(self.centre, self.scale, self.mean, self.matrix * related)

    def add_level_costs(self, level: Floats) -> None:
        """Add to the costs `level` (n_levels, lanes) of clusters what a block costs in addition to N(mu,
        Sigma) at the scores of the levels: the variance inside them, and their excess.
        """
        more = np.zeros(self.block.shape)
        for k in np.flatnonzero(self.block.any(axis=1)):
            own = np.flatnonzero(self.block[k])
            more[k, own] = 0.5 * (precisions(self.matrix[k], own) - 1.0) * self.inside[own]
            more[k, own] += self.norms[k, own]
        for d in np.flatnonzero(self.block.any(axis=0)):
            first, excess = self.excess[d]
            levels = slice(first, first + len(excess)), slice(len(more))
            level[levels] += np.outer(excess, self.block[:, d]) + more[:, d]

    def blocks(self) -> kernel.Blocks:
        """The blocks for the costs of rows."""
        cluster = np.bitwise_or.reduce(self.block, axis=1).nonzero()[0]
        return kernel.Blocks(
            self.cross.columns,
            self.centre,
            self.scale,
            np.zeros(len(self.levels)),
            np.ones(len(self.levels)),
            cluster,
            self.block[cluster],
            self.mean[cluster],
            self.matrix[cluster],
            self.inside,
        )

    def conditional_costs(self, z: Floats, k: int) -> Floats:
        """(n, P) cost of every cell z (n, P) of ``cross.columns``, given the earlier observed columns of the
        block of cluster k, less its cost under the background.

        The costs of a row sum to that of the block, without what its cost tables hold. Cells of other columns
        and missing cells (NaN) cost 0.
        """
        out, block = np.zeros(z.shape), self.block[k].astype(bool)
        whole = np.zeros(len(block))
        whole[block] = precisions(self.matrix[k], block)
        patterns, which = np.unique(~np.isnan(z) & self.block[k].astype(bool), axis=0, return_inverse=True)
        for number, observed in enumerate(patterns):
            if not observed.any():
                continue
            rows = np.flatnonzero(which.reshape(-1) == number)
            cells = z[np.ix_(rows, observed)]
            factor = np.linalg.cholesky(self.matrix[k][np.ix_(observed, observed)])
            white = solve_triangular(factor, (cells - self.mean[k, observed]).T, lower=True).T
            own = np.log(np.diag(factor)) + 0.5 * white * white
            own += 0.5 * (precisions(self.matrix[k], observed) - whole[observed]) * self.inside[observed]
            out[np.ix_(rows, observed)] = own - 0.5 * cells**2
        return out

    def in_units(self, source: NDArray[np.intp]) -> list[Covariance | None]:
        """The covariance of every cluster, or None, for users; `source`: the input column of every encoded
        column, numeric ones first.
        """
        inputs, unit = source[self.cross.columns], np.outer(1.0 / self.scale, 1.0 / self.scale)
        return [
            Covariance(inputs[block], (matrix * unit)[np.ix_(block, block)]) if block.any() else None
            for block, matrix in zip(self.block.astype(bool), self.matrix, strict=True)
        ]


def precisions(matrix: Floats, columns: NDArray[np.bool_] | NDArray[np.intp]) -> Floats:
    """(m,) diagonal of the inverse of some rows and columns of a matrix."""
    return np.asarray(np.diag(np.linalg.inv(matrix[np.ix_(columns, columns)])))


def too_many_columns(encoding: LevelEncoding | None, total: Moments, spec: ModelSpec) -> list[str]:
    """A note if the table has more columns than a covariance can hold."""
    if encoding is None or spec.covariance == "diagonal":
        return []
    most = most_columns(spec.covariance)
    n = n_covariance_columns(encoding, total, most)
    if n <= most:
        return []
    return [
        f"{n} numeric columns could be in a covariance, which holds at most {most}: the clusters have "
        "the diagonal form."
    ]
