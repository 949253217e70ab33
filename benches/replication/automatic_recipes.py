"""Tables for `automatic_bars.py`: made clusters of several recipes, single clouds and independent noise, weak
and correlated clusters.

Every table is a function of its name and seed alone. `made` and `noise` repeat, draw by draw, the recipes
with which other packages were measured, so that their figures are for the same tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from replication.automatic import Table, table_of

from craftc.datasets import make_mixed, make_subspaces

Generator = np.random.Generator
Column = NDArray[Any]

ROWS_OF_NOISE = (500, 1000, 1000, 2000, 4000)  # of one cloud, by seed


def names_of(codes: Column) -> Column:
    """Categories l0, l1, ... as strings."""
    return np.char.add("l", codes.astype(str)).astype(object)


def common_categories(rng: Generator, n: int, most_levels: int) -> Column:
    """A category with the same shares in all rows."""
    n_levels = int(rng.integers(2, most_levels))
    return names_of(rng.choice(n_levels, n, p=rng.dirichlet(np.full(n_levels, 2.0))))


def common_numbers(rng: Generator, n: int, j: int) -> Column:
    """A number with the same distribution in all rows: lognormal, gamma, t of 4 degrees of freedom, normal,
    in turn.
    """
    draws: tuple[Callable[[], Column], ...] = (
        lambda: np.exp(rng.normal(0, 0.8, n)),
        lambda: rng.gamma(2, 1, n),
        lambda: rng.standard_t(4, n),
        lambda: rng.normal(size=n),
    )
    return draws[j % 4]()


# ---- made clusters ----


def scaled(rng: Generator, z: Column, k: int, p: int, recipe: Recipe) -> list[Column]:
    """Gamma and lognormal numbers whose scale depends on the cluster."""
    columns = []
    for j in range(p):
        scale = rng.permutation(np.exp(np.linspace(0, 2.4, k)))
        draw = np.exp(rng.normal(0, 0.5, len(z))) if j % 2 else rng.gamma(3, 1 / 3, len(z))
        columns.append(scale[z] * draw)
    return columns


def one_factor(rng: Generator, z: Column, k: int, p: int, recipe: Recipe) -> list[Column]:
    """Normal numbers with a factor in every cluster: correlations of about .7 in absolute value."""
    n, means, X = len(z), rng.normal(0, recipe.spread, (k, p)), np.empty((len(z), p))
    for cluster in range(k):
        loading = rng.choice([-1, 1], p) * rng.uniform(0.7, 0.95, p)
        own = rng.normal(size=(n, p)) * np.sqrt(1 - loading**2)
        X[z == cluster] = (means[cluster] + np.outer(rng.normal(size=n), loading) + own)[z == cluster]
    return list(X.T)


def shifted(rng: Generator, z: Column, k: int, p: int, recipe: Recipe) -> list[Column]:
    """Independent numbers around means that depend on the cluster."""
    means = rng.normal(0, recipe.spread, (k, p))
    return [means[z, j] + recipe.error(rng, len(z)) for j in range(p)]


@dataclass(frozen=True)
class Recipe:
    """Clusters in some numbers and categories, with pairs of a number and a category that do not depend on
    the cluster.
    """

    rows: int
    clusters: int
    numbers: int
    categories: int
    draw: Callable[[Generator, Column, int, int, Recipe], list[Column]]
    spread: float = 0.0  # standard deviation of the means of clusters
    error: Callable[[Generator, int], Column] = lambda rng, n: rng.normal(size=n)
    noise_pairs: int = 3
    weights: tuple[float, ...] | None = None  # of the clusters; else in equal steps from 1 to 2


#: Their order is part of the seed.
RECIPES = {
    "skewed": Recipe(1000, 4, 6, 4, scaled),
    "correlated": Recipe(1500, 3, 8, 4, one_factor, spread=1.6),
    "depcat": Recipe(1500, 4, 3, 10, shifted, spread=1.6),
    "missing": Recipe(1000, 5, 6, 6, shifted, spread=1.5, error=lambda rng, n: rng.standard_t(5, n)),
    "unbalanced": Recipe(
        2500,
        4,
        6,
        5,
        shifted,
        spread=2.0,
        error=lambda rng, n: np.sinh(0.6 * rng.normal(size=n) + 0.4),
        weights=(100.0, 20.0, 5.0, 1.0),
    ),
    "manynoise": Recipe(500, 3, 5, 5, shifted, spread=1.5, noise_pairs=20),
}


def categories(rng: Generator, z: Column, k: int, n_levels: int) -> Column:
    """Codes whose shares are, for four fifths, those of the cluster, and for one fifth common to all."""
    common = rng.dirichlet(np.full(n_levels, 2.0))
    shares = np.array([0.2 * common + 0.8 * rng.dirichlet(np.full(n_levels, 0.35)) for _ in range(k)])
    u = rng.random(len(z))
    return np.asarray((u[:, None] > shares[z].cumsum(axis=1)).sum(axis=1).clip(0, n_levels - 1))


def made(name: str, seed: int) -> Table:
    """Clusters of the recipe `name`; seed 4 has twice the rows.

    skewed: gamma and lognormal. correlated: numbers correlated inside clusters. depcat: every second category
    follows the one before it in 65 % of the rows. missing: 1 % outliers, and 10 to 50 % missing at random.
    unbalanced: sizes 100:20:5:1, skewed. manynoise: 10 informative columns of 50.
    """
    recipe = RECIPES[name]
    rng = np.random.default_rng([7, list(RECIPES).index(name), seed])
    n, k = recipe.rows * (2 if seed == 4 else 1), recipe.clusters
    weights = np.linspace(1, 2, k) if recipe.weights is None else np.array(recipe.weights)
    z = rng.choice(k, n, p=weights / weights.sum())
    if name == "unbalanced":
        z[: max(12, n // 126)] = 3

    numbers = {f"x{j}": column for j, column in enumerate(recipe.draw(rng, z, k, recipe.numbers, recipe))}
    codes: list[Column] = []
    for j in range(recipe.categories):
        n_levels = int(rng.integers(2, 6))
        code = categories(rng, z, k, n_levels)
        if name == "depcat" and j % 2:
            follows = rng.permutation(10)
            code = np.where(rng.random(n) < 0.65, follows[codes[-1]] % n_levels, code)
        codes.append(code)
    levels = {f"c{j}": names_of(code) for j, code in enumerate(codes)}
    for j in range(recipe.noise_pairs):
        numbers[f"n{j}"] = common_numbers(rng, n, j)
        levels[f"m{j}"] = common_categories(rng, n, 6)

    frame = pd.DataFrame({**numbers, **levels})
    if name == "missing":
        spoil(rng, frame, list(numbers))
    return Table(frame, list(numbers), list(levels), z)


def spoil(rng: Generator, frame: pd.DataFrame, numbers: list[str]) -> None:
    """Outliers in 1 % of the rows; missing cells in all columns but n0, more of them where n0 is large."""
    n = len(frame)
    far = rng.random(n) < 0.01
    for name in numbers:
        frame.loc[far, name] += rng.choice([-1, 1], far.sum()) * rng.exponential(10, far.sum())
    chance = 0.1 + 0.4 * frame["n0"].rank(pct=True).to_numpy()
    for name in frame.columns.drop("n0"):
        frame.loc[rng.random(n) < chance, name] = np.nan


# ---- one cloud ----

NOISE_RECIPES = ("skew", "bounded", "elongated", "factor")  # their order is part of the seed


def noise(name: str, seed: int) -> Table:
    """One cloud of numbers, and independent categories.

    skew: independent and skewed, a third of the columns half zeros. bounded: independent, uniform and beta.
    elongated: one normal cloud of 6 columns with axes of very different length. factor: one skewed factor in
    5 numbers and 3 ordered categories.
    """
    rng = np.random.default_rng([11, NOISE_RECIPES.index(name), seed])
    n = ROWS_OF_NOISE[seed % len(ROWS_OF_NOISE)]
    columns: list[Column] = []
    levels: dict[str, Column] = {}
    if name == "skew":
        columns = [common_numbers(rng, n, j) for j in range(6)]
        columns += [np.where(rng.random(n) < 0.5, 0, rng.gamma(1, 2, n)) for _ in range(3)]
    elif name == "bounded":
        draws = (lambda: rng.random(n), lambda: rng.beta(0.6, 0.6, n), lambda: rng.beta(2, 1, n))
        columns = [draws[j % 3]() for j in range(9)]
    elif name == "elongated":
        axes = rng.normal(size=(6, 6))
        covariance = axes @ np.diag([9, 3, 1, 0.5, 0.3, 0.2]) @ axes.T
        columns = list(rng.multivariate_normal(np.zeros(6), covariance, n).T)
    else:
        factor = rng.gamma(2, 1, n)
        columns = [factor * rng.uniform(0.5, 2) + rng.normal(size=n) * 0.8 for _ in range(5)]
        levels = {f"f{j}": names_of(np.digitize(factor + rng.normal(size=n), [1, 2, 3.5])) for j in range(3)}
    for j in range(5):
        levels[f"m{j}"] = common_categories(rng, n, 7)
    numbers = {f"n{j}": column for j, column in enumerate(columns)}
    return Table(pd.DataFrame({**numbers, **levels}), list(numbers), list(levels), np.zeros(n, np.int64))


def equally_correlated(correlation: float, n: int, seed: int) -> Table:
    """One normal cloud of 10 columns, every pair with the same correlation."""
    rng = np.random.default_rng([13, round(100 * correlation), n, seed])
    common, own = rng.normal(size=(n, 1)), rng.normal(size=(n, 10))
    return table_of(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own, np.empty((n, 0)))


# ---- normal clusters ----


def random_covariances(p: int, k: int, seed: int) -> Table:
    """1200 rows of k normal clusters in p columns, each with a full random covariance."""
    rng = np.random.default_rng([77, p, k, seed])
    n = 1200
    z = rng.choice(k, n)
    means = rng.normal(0, 3 if p == 4 else 2, (k, p))
    X = np.empty((n, p))
    for cluster in range(k):
        axes = rng.normal(size=(p, p)) @ np.diag(np.exp(rng.normal(0, 0.7, p)))
        axes /= np.sqrt((axes**2).sum(axis=1, keepdims=True))
        here = z == cluster
        X[here] = means[cluster] + rng.normal(size=(here.sum(), p)) @ axes.T
    return table_of(X, np.empty((n, 0)), z)


def round_blobs(p: int, k: int, seed: int) -> Table:
    """600 rows of k round normal clusters in p columns."""
    rng = np.random.default_rng([5, p, k, seed])
    z = rng.choice(k, 600)
    X = rng.normal(0, 4 if p < 6 else 2, (k, p))[z] + rng.normal(size=(600, p))
    return table_of(X, np.empty((600, 0)), z)


# ---- clusters with columns of their own ----


def subspaces(layout: str, seed: int) -> tuple[Table, NDArray[np.bool_]]:
    """A figure of the CRAFT paper, binary columns as categories, and the true masks (3, D)."""
    bunch = make_subspaces(layout, random_state=seed)
    none = np.empty((len(bunch.data), 0))
    blocks = (bunch.data, none) if layout in ("3a", "3c", "4c") else (none, bunch.data.astype(int))
    return table_of(*blocks, bunch.target), bunch.feature_mask


def weak_categories(k: int, seed: int) -> Table:
    """600 rows of 3 clusters or 800 of more; 24 categories of 4 levels, 6 own columns per cluster, one level
    with odds of 7 there.
    """
    bunch = make_mixed(600 if k == 3 else 800, k, 0, 24, 0, n_own=6, shift=np.log(7), random_state=seed)
    return table_of(bunch.numeric, bunch.codes, bunch.target)
