"""Sums of products of numeric columns in clusters, and covariances with few common factors from them.

**Common factors**: the size behind measures, the level behind answers. A covariance of m columns has m (m -
1) / 2 parameters besides its variances, more than a table of many columns and few rows pays for. With r
factors of the loadings Lambda (m, r),

    Sigma = D^(1/2) (Lambda Lambda^T + Psi) D^(1/2),        D = diag(S), Psi diagonal,

it has r m - r (r - 1) / 2. S is an estimate from rows of the weight N and one row of prior, rho its
correlations: a factor of the eigenvalue theta of Psi^(-1/2) rho Psi^(-1/2) saves (N + 1) / 2 (theta - 1 - log
theta) nats. Lambda and Psi are those of the principal factors.

**Missing cells** count as they are expected. With any distribution q of the missing cells z_m of a row and
any density f of its columns,

    -log f(z_o) <= E_q[-log f(z_o, z_m)] - H(q),

with equality where q is the distribution that f gives them, given the observed cells z_o (the EM algorithm).
So the sums hold expected cells, expected products of cells and, for every column, the divergence of q from
N(0, 1): what the missing cells would save if they counted as observed ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import without
from craftc._common.threads import one_blas_thread, threads_for
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft_cross_products as kernel
from craftc._kernels.craft_cross_products import Conditionals
from craftc._kernels.moments import Grid
from craftc.craft.background import NO_COLUMNS, Background
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding
from craftc.table.moments import NUMERIC_CELLS, Moments

FEWEST_COLUMNS = 5  # one factor has at most half of the parameters of all their correlations
FEWEST_OWN_COLUMNS = 8  # of the covariances of single clusters; of fewer, all correlations cost little
_MOST_FACTORS, _CELLS_OF_A_FACTOR = 3, 6  # of few columns; columns and rows of each of many
STEPS, RANKING_STEPS = 8, 2  # of the principal factors, each with new uniquenesses; where groups are ranked
_LEAST = 0.01  # uniqueness
_MANY_COLUMNS = 32  # above which eigenvectors are iterated from those of near matrices
MOST_OWN_COLUMNS = 64  # of covariances of single clusters
MOST_COLUMNS = 512  # of one that all clusters share
SHRINKAGE = 0.05  # of the row of prior towards independent columns of the whole table


class CommonFactors(NamedTuple):
    """Covariances of g groups of rows with common factors."""

    matrix: Floats  # (g, m, m); S without factors
    uniqueness: Floats  # (g, m) Psi, shares of the variances
    r: NDArray[np.intp]  # (g,) numbers of factors; 0: none shortens the description

    def columns(self, weight: Floats, rise: Floats, h: float) -> Mask:
        """(g, m) columns that the factors of all columns describe more shortly than independence does, after
        the `rise` (g, m) of normal densities; none if they are few.
        """
        saved = -0.5 * (weight + 1.0)[:, None] * np.log(self.uniqueness) - (self.r * h)[:, None]
        chosen = (saved > rise) & (self.r > 0)[:, None]
        enough: Mask = (chosen & (chosen.sum(axis=1) >= FEWEST_COLUMNS)[:, None]).astype(np.uint8)
        return enough

    def savings(self, block: Mask, S: Floats, weight: Floats, prior: Floats, h: float) -> Floats:
        """(g,) nats that the factors save over independent columns of blocks (g, m), as
        `craftc._kernels.craft_covariance.block_savings` has them for covariances; -inf without factors.
        """
        saved = np.full(len(block), -np.inf)
        some = np.flatnonzero((self.r > 0) & (block.sum(axis=1) >= FEWEST_COLUMNS))
        if len(some):
            block, r = block[some], self.r[some]
            held, own = _within(self.matrix[some], block), _within(S[some], block)
            variances = np.log(np.diagonal(own, axis1=1, axis2=2)).sum(axis=1)
            apart = np.trace(np.linalg.solve(held, own), axis1=1, axis2=2) - block.shape[1]
            fit = variances - np.linalg.slogdet(held)[1] - apart
            saved[some] = 0.5 * ((weight[some] + 1.0) * fit + np.linalg.slogdet(_within(prior, block))[1])
            saved[some] -= (r * block.sum(axis=1) - r * (r - 1) // 2) * h
        return saved


def common_factors(S: Floats, weight: Floats, h: float, n_steps: int = STEPS) -> CommonFactors | None:
    """The factors behind every S (g, m, m) that shorten the description of rows of the weight (g,), at h nats
    a parameter, after steps of the principal factors; None: there are none.
    """
    (g, m), deviation = S.shape[:2], np.sqrt(np.diagonal(S, axis1=1, axis2=2))
    most = min(max(_MOST_FACTORS, m // _CELLS_OF_A_FACTOR), m)
    # of the first factor, the second, ...; nearly as many factors as rows describe any table of many columns
    price = np.where(
        np.arange(most) < (weight // _CELLS_OF_A_FACTOR)[:, None], (m - np.arange(most)) * h, np.inf
    )
    rho, half, some = S / (deviation[:, :, None] * deviation[:, None]), 0.5 * (weight + 1.0), np.arange(g)
    with one_blas_thread():
        uniqueness, vectors = 1.0 / np.diagonal(np.linalg.inv(rho), axis1=1, axis2=2), None
        for _ in range(n_steps):
            scale = np.sqrt(uniqueness)
            values, vectors = _largest(rho / (scale[:, :, None] * scale[:, None]), 2 * most, vectors)
            theta = np.maximum(values[:, :most], 1.0)
            fit = half[some, None] * (theta - 1.0 - np.log(theta))
            used = np.logical_and.accumulate(fit > price[some], axis=1)
            paid = used[:, 0]
            if not paid.any():
                return None
            if not paid.all():  # the others have none
                some, rho, scale, vectors = some[paid], rho[paid], scale[paid], vectors[paid]
                theta, used = theta[paid], used[paid]
            length = np.sqrt(np.where(used, theta - 1.0, 0.0))
            loadings = scale[:, :, None] * vectors[:, :, :most] * length[:, None]
            uniqueness = np.maximum(1.0 - (loadings * loadings).sum(axis=2), _LEAST)
        common = loadings @ loadings.swapaxes(1, 2)
    every = np.arange(m)
    common[:, every, every] += uniqueness
    found = CommonFactors(S.copy(), np.ones((g, m)), np.zeros(g, np.intp))
    found.matrix[some] = common * deviation[some, :, None] * deviation[some, None]
    found.uniqueness[some], found.r[some] = uniqueness, used.sum(axis=1)
    return found


def _largest(matrix: Floats, r: int, near: Floats | None) -> tuple[Floats, Floats]:
    """The r largest eigenvalues (g, r), descending, and their vectors (g, m, r); of many columns from the
    vectors of `near` matrices by one step of subspace iteration.
    """
    if near is None or matrix.shape[1] <= _MANY_COLUMNS:
        values, vectors = np.linalg.eigh(matrix)
    else:
        basis = np.linalg.qr(matrix @ near)[0]
        values, vectors = np.linalg.eigh(basis.swapaxes(1, 2) @ matrix @ basis)
        vectors = basis @ vectors
    return values[:, : -r - 1 : -1], vectors[:, :, : -r - 1 : -1]


def _within(matrix: Floats, block: Mask) -> Floats:
    """(g, m, m) matrices with the rows and columns of the identity outside blocks (g, m)."""
    return np.where((block[:, :, None] & block[:, None, :]).astype(bool), matrix, np.eye(block.shape[1]))


@dataclass
class CrossProducts:
    """Exact sums of the products of every two numeric columns, for every cluster."""

    columns: NDArray[np.intp]  # (P,) numeric columns, encoded as the model sees them
    sums: Integers  # (K, cross_width(P)) on the grid; src/craft/craft_cross_products.pyx: order
    prior: Floats  # (P, P) R, the shrunk correlations of the whole table

    def select(self, clusters: NDArray[np.intp]) -> CrossProducts:
        """A copy of some clusters in the given order."""
        return CrossProducts(self.columns, self.sums[clusters], self.prior)

    def merged(self, i: int, j: int) -> CrossProducts:
        """The sums after cluster j has joined cluster i < j."""
        sums = without(self.sums, j)
        kernel.add_cross(sums[i], self.sums[j])
        return CrossProducts(self.columns, sums, self.prior)


def products_of(
    columns: NDArray[np.intp],
    grid: Grid,
    table: MixedTable,
    weight: Integers,
    labels: Labels,
    n_clusters: int,
    conditionals: Conditionals | None,
    n_threads: int,
) -> Integers:
    """(K, cross_width) sums of every cluster of a partition; `conditionals`: of missing cells, if there are
    any.
    """
    P = len(columns)
    threads = threads_for(n_threads, len(table) * P * P)
    sums = np.zeros((n_clusters, kernel.cross_width(P)), np.int64)
    kernel.cross_products(
        table.numeric,
        weight,
        labels,
        grid,
        columns,
        conditionals,
        np.zeros((threads, *sums.shape), np.int64),
        sums,
        np.empty((threads, P + 8), np.int64),
        np.empty((threads, kernel.room_size(P) + 8)),
        threads,
    )
    return sums


def add_products(sums: Integers, other: Integers, sign: int = 1) -> None:
    """Add the sums of the same clusters of other rows, or subtract them (-1)."""
    for own, more in zip(sums, other, strict=True):
        kernel.add_cross(own, more, sign)


class Scatter(NamedTuple):
    """Columns of groups of rows in units of the table, missing cells as they are expected."""

    mean: Floats  # (m, P)
    deviations: Floats  # (m, P, P) cross products of deviations, those inside the levels included
    divergence: Floats  # (m, P) nats, of the missing cells from N(0, 1)

    @classmethod
    def of_unions(
        cls,
        background: Background,
        columns: NDArray[np.intp],
        groups: Integers,
        sums: Integers,
        first: NDArray[np.intp],
        second: NDArray[np.intp],
        count_weight: float,
    ) -> Scatter:
        """Of unions of the groups `first` and `second` (-1: of one group), by their moments `groups` and
        their products `sums`.
        """
        scale = 1.0 / np.sqrt(background.variance[columns])
        m, P, grid = len(first), len(columns), background.grid
        mean, deviations, divergence = np.empty((m, P)), np.empty((m, P, P)), np.empty((m, P))
        kernel.deviations(
            groups, sums, grid, columns, scale, count_weight, first, second, mean, divergence, deviations
        )
        present = groups[:, grid.first_numeric + NUMERIC_CELLS * columns] * count_weight
        both = present[first] + np.where(second[:, None] >= 0, present[second], 0.0)
        every = np.arange(P)
        deviations[:, every, every] += both * background.inside[columns]
        return cls((mean - background.mean[columns]) * scale, deviations, divergence)

    @classmethod
    def of_groups(
        cls,
        background: Background,
        columns: NDArray[np.intp],
        groups: Integers,
        sums: Integers,
        count_weight: float,
    ) -> Scatter:
        """Of every group."""
        every, none = np.arange(len(groups)), np.full(len(groups), -1)
        return cls.of_unions(background, columns, groups, sums, every, none, count_weight)


def most_columns(form: str) -> int:
    """Columns that a covariance of this form may hold."""
    return MOST_OWN_COLUMNS if form == "full" else MOST_COLUMNS


def covariance_columns(background: Background, most: int) -> NDArray[np.intp]:
    """Columns of scores that a covariance may hold: not constant; complete ones, if there are more than
    `most`.
    """
    if not len(background.levels_of_scores):
        return NO_COLUMNS
    tilted = background.tilts.tilted[background.levels_of_scores - background.grid.p] > 0
    columns = np.flatnonzero(background.varies & tilted)
    if len(columns) > most:
        columns = columns[background.complete[columns]]
    return columns


def n_covariance_columns(encoding: LevelEncoding, total: Moments, most: int) -> int:
    """Number of these columns in a table with these moments as one cluster; more than `most`: none is
    taken.
    """
    columns, grid = encoding.with_scores().scored_levels, total.grid
    if len(columns) <= most:
        return len(columns)
    # the last level of a column
    missing = total.counts[0, np.append(grid.level_start[1:], grid.n_levels) - 1]
    return int((missing[columns] == 0).sum())


def first_conditionals(
    background: Background, columns: NDArray[np.intp], moments: Moments
) -> Conditionals | None:
    """Distributions of missing cells in clusters that know of no covariance; None: no cell of
    the whole table is missing.
    """
    if background.complete[columns].all():
        return None
    mean, deviations = moments.means()
    variance, present = background.variance[columns], moments.present[:, columns]
    own = (deviations[:, columns] + variance) / (present + 1.0)  # one row of the table as prior
    shift = np.where(present > 0, mean[:, columns] - background.mean[columns], 0.0) / np.sqrt(variance)
    own = own / variance + background.inside[columns]
    return conditionals_of(background, columns, shift, own[:, :, None] * np.eye(len(columns)))


def conditionals_of(
    background: Background, columns: NDArray[np.intp], mean: Floats, covariance: Floats
) -> Conditionals:
    """Distributions with these means (K, P) and covariances (K, P, P) in units of the table."""
    return Conditionals(background.centre[columns], background.scale[columns], mean, covariance)
