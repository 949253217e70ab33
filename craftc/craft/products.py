"""Sums of products of numeric columns in clusters, in which missing cells count as they are expected.

With any distribution q of the missing cells z_m of a row and any density f of its columns,

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
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Integers, Labels
from craftc._kernels import craft_cross_products as kernel
from craftc._kernels.craft_cross_products import Conditionals
from craftc._kernels.moments import Grid
from craftc.craft.background import NO_COLUMNS, Background
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding
from craftc.table.moments import NUMERIC_CELLS, Moments

MOST_OWN_COLUMNS = 64  # of covariances of single clusters
MOST_COLUMNS = 512  # of one that all clusters share
SHRINKAGE = 0.05  # of the row of prior towards independent columns of the whole table


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
