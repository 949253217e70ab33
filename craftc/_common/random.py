"""Random numbers keyed by what they are for, and the registry of their streams.

A draw is a hash of (seed, key, ...): the value for (start 3, row 17) does not depend on the thread that
computes it or on earlier draws. SplitMix64 (Steele, Lea & Flood 2014) is the mixer. The keys of every draw
contain a number of the streams below, so that two purposes of one method never share numbers. A number that
is in use never changes: results depend on it.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import overload

import numpy as np
from sklearn.utils import check_random_state

from craftc._common.typing import Array, Floats, Ints, RandomStateInput
from craftc._common.validation import RandomState
from craftc._kernels import random as kernel

#: Rows of a table above which searches begin on a sample, and rows of such a sample.
SAMPLE_ROWS = 1 << 14


@unique
class CraftStream(IntEnum):
    """CRAFT."""

    MASK = 1  # features of a new cluster (paper's model)
    MASK_REPAIR = 2  # the one feature of a new cluster that drew none
    ROW = 3  # the row of a first cluster, or of a farthest-first traversal
    LABEL = 4  # random partitions
    SEED = 11  # seeds of k-means++-like starts
    SEED_SAMPLE = 12  # rows among which these seeds are sought
    SPLIT_SAMPLE = 13  # rows by which the splits of a cluster are ranked
    STAGE_SAMPLE = 14  # rows of the first stage of the search
    SCREENING_SAMPLE = 15  # rows by which the splits of a cluster of a wide table are screened
    KMEANS_SEED = 16  # seeds of k-means on low-rank scores
    COVARIANCE_SAMPLE = 17  # rows among which forms with covariances are searched
    STABILITY_SAMPLE = 18  # rows of a refit that shows whether clusters are stable
    PERMUTATION = 19  # order of the cells of a column of a table without structure
    NULL_SAMPLE = 20  # rows that represent a long table in the test of structure
    MAP_SAMPLE = 21  # rows of a map of clusters
    CODES_SAMPLE = 22  # rows that show whether whole numbers are codes


@unique
class TableStream(IntEnum):
    """Reading of a table, whatever the method."""

    QUANTILE_SAMPLE = 62  # rows that show the distribution of a long column
    TALLY_SAMPLE = 61  # cells that show whether a long column may be a category


@unique
class DPMeansStream(IntEnum):
    """DP-means."""

    ORDER = 21  # order of the rows
    LABEL = 22  # random partitions
    PENALTY_SAMPLE = 23  # rows by which lambda^2 is chosen
    SEED = 24  # seeds of k-means++
    ROW = 25  # the row of the first centre
    MODE_SAMPLE = 26  # rows by which the mode is chosen


@unique
class FeatureStream(IntEnum):
    """BP-means and K-features."""

    FEATURE = 31  # rows whose residuals become features
    EXCHANGE = 32  # rows that replace a feature
    CHOICE_SAMPLE = 33  # rows by which the number of features is chosen
    GROWTH = 34  # the row whose residual becomes one feature more than the solution for one fewer
    GROWN_EXCHANGE = 35  # rows that replace a feature of the solution that grew


@unique
class MixtureStream(IntEnum):
    """FeatureSelectionMixture."""

    SEED = 41  # seeds of k-means++, and rows that replace them
    SEED_SAMPLE = 42  # rows among which they are sought


@unique
class SpectralStream(IntEnum):
    """GraphSpectralFeatures."""

    SCORES = 41  # first scores of the factorisation
    LOADINGS = 42  # its first loadings


@overload
def uniform(seed: int, *key: int) -> float: ...  # type: ignore[overload-overlap]
@overload
def uniform(seed: int, *key: int | Array) -> Floats: ...
def uniform(seed: int, *key: int | Array) -> float | Floats:
    """Uniform numbers in [0, 1) that belong to ``(seed, *key)``.

    Parameters
    ----------
    seed : int
        Non-negative seed.
    *key : int or ndarray of int
        Non-negative keys; arrays broadcast.

    Returns
    -------
    float or ndarray of float64
        The top 53 bits of the hash.

    Examples
    --------
    >>> bool(uniform(0, 3, 17) == uniform(0, 3, np.arange(20))[17])
    True
    """
    n_shared = next((i for i, part in enumerate(key) if isinstance(part, np.ndarray) and part.ndim), len(key))
    shared, parts = key[:n_shared], [np.asarray(part, np.uint64, order="C") for part in key[n_shared:]]
    if not parts:
        return kernel.uniform_number(seed, shared)
    further = parts[0][..., None] if len(parts) == 1 else np.stack(np.broadcast_arrays(*parts), axis=-1)
    out = np.empty(further.shape[:-1])
    kernel.uniform_numbers(seed, shared, further.reshape(-1, len(parts)), out.reshape(-1))
    return out


def spread(n: int, m: int, seed: int, *key: int) -> Ints:
    """(m,) distinct ascending numbers below n >= m, one from each of m parts of nearly equal length; they
    belong to ``(seed, *key)``.
    """
    draws: Floats = uniform(seed, *key, np.arange(m))
    first: Ints = np.arange(m + 1) * n // m
    return first[:-1] + (draws * np.diff(first)).astype(np.intp)


def drawn(running: Array, draw: float) -> int:
    """The index whose share of a running sum of chances contains the uniform number."""
    beyond = int(np.searchsorted(running, draw * running[-1], side="right"))
    # a product that is rounded up to the sum draws the last chance
    return min(beyond, int(np.searchsorted(running, running[-1])))


def seed_of(random_state: RandomStateInput) -> int:
    """One integer seed from None, an int, a numpy.random.Generator or RandomState, which draws it."""
    RandomState().check("random_state", random_state)
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def rng_of(random_state: RandomStateInput) -> np.random.RandomState:
    """NumPy's RandomState of ``random_state``, as in `seed_of`; a RandomState is returned as it is."""
    RandomState().check("random_state", random_state)
    if not isinstance(random_state, (int, np.integer, np.random.Generator)):
        generator: np.random.RandomState = check_random_state(random_state)
        return generator
    seed = seed_of(random_state)
    return np.random.RandomState(seed if seed < 1 << 32 else [seed & 0xFFFFFFFF, seed >> 32])
