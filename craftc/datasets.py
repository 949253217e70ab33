"""One real table, and generators of tables whose clusters and defining features are known.

Generated tables have the numeric columns first, then the categorical columns.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

__all__ = ["load_heart", "make_mixed", "make_monks", "make_subspaces", "monk_rule"]

_HEART_CATEGORICAL = ("sex", "chest_pain", "fbs", "restecg", "exang", "slope", "thal")

_HEART_DESCR = """\
Statlog (Heart)
---------------
270 patients, 13 features, no missing values. The class is the diagnosis of heart disease: "present"
(120 patients) or "absent" (150).

Numeric: age (years), rest_bp (resting blood pressure, mm Hg), chol (serum cholesterol, mg/dl),
max_hr (highest heart rate reached), oldpeak (ST depression by exercise), ca (major vessels
coloured by fluoroscopy, 0-3).

Categorical, with the codes of the source: sex (0 female, 1 male), chest_pain (1 typical angina,
2 atypical angina, 3 other pain, 4 none), fbs (fasting blood sugar above 120 mg/dl: 1),
restecg (resting electrocardiogram, 0-2), exang (angina by exercise: 1), slope (of the ST
segment at peak exercise, 1-3), thal (3 normal, 6 fixed defect, 7 reversible defect).

Source: Statlog (Heart), UCI Machine Learning Repository, https://doi.org/10.24432/C57303.
Licence: Creative Commons Attribution 4.0 International (CC BY 4.0),
https://creativecommons.org/licenses/by/4.0/. Changes: a header was added, and the classes 1 and 2
were renamed to absent and present.
"""


def load_heart() -> Bunch:
    """Load the Statlog (Heart) table: 270 patients, 6 numeric and 7 categorical features.

    Returns
    -------
    Bunch
        ``data``
            pandas DataFrame of shape (270, 13): numeric columns as float64, categorical columns as Categorical of strings. Without pandas a
            dict of arrays, with categorical columns as strings.
        ``target``
            ndarray of 270 strings, ``"absent"`` (150) or ``"present"`` (120).
        ``feature_names``, ``numeric_names``, ``categorical_names``, ``target_names``
            Lists of strings.
        ``DESCR``
            Meaning of the columns, source and licence (CC BY 4.0).

    References
    ----------
    Statlog (Heart), UCI Machine Learning Repository, https://doi.org/10.24432/C57303.

    Examples
    --------
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart()
    >>> len(heart.target), heart.feature_names[:3], heart.categorical_names[-1]
    (270, ['age', 'sex', 'chest_pain'], 'thal')
    """
    text = (resources.files("craftc") / "data" / "heart.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    columns = dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))
    target = columns.pop("class")
    data: Any = {name: column if name in _HEART_CATEGORICAL else column.astype(np.float64) for name, column in columns.items()}
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        data = pd.DataFrame(
            {name: pd.Categorical(column.tolist()) if name in _HEART_CATEGORICAL else column for name, column in data.items()}
        )
    names = list(columns)
    return Bunch(
        data=data,
        target=target,
        feature_names=names,
        numeric_names=[name for name in names if name not in _HEART_CATEGORICAL],
        categorical_names=[name for name in names if name in _HEART_CATEGORICAL],
        target_names=["absent", "present"],
        DESCR=_HEART_DESCR,
    )


@dataclass(frozen=True)
class _Layout:
    """Positions of the defining features of every cluster; numeric columns come first."""

    n_numeric: int
    n_categorical: int
    own: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...] = (1, 1, 1)
    n_levels: int = 2
    own_normal: tuple[float, float] = (1.5, 0.3)  # mean and standard deviation of a defining numeric feature
    other_normal: tuple[float, float] = (0.0, 1.0)


def _blocks(*bounds: tuple[int, int]) -> tuple[int, ...]:
    """The columns of half-open ranges, concatenated."""
    return tuple(column for low, high in bounds for column in range(low, high))


_DISJOINT = (_blocks((0, 8)), _blocks((8, 16)), _blocks((16, 24)))
_UNEQUAL = (_blocks((0, 6)), _blocks((6, 16)), _blocks((12, 24)))
_LAYOUTS = {
    "2a": _Layout(0, 24, _DISJOINT),
    "2b": _Layout(0, 24, _DISJOINT, n_levels=4),
    "2c": _Layout(0, 24, (_blocks((0, 8)), _blocks((8, 16)), _blocks((12, 20))), sizes=(140, 100, 60)),
    "3a": _Layout(
        19,
        18,
        (_blocks((0, 7), (19, 25)), _blocks((7, 13), (25, 31)), _blocks((13, 19), (31, 37))),
    ),
    "3b": _Layout(
        18,
        18,
        (_blocks((0, 6), (18, 24)), _blocks((6, 12), (24, 30)), _blocks((12, 18), (30, 36))),
    ),
    "3c": _Layout(
        18,
        18,
        (_blocks((0, 6), (18, 24)), _blocks((6, 12), (24, 30)), _blocks((9, 15), (27, 33))),
        sizes=(140, 100, 60),
    ),
    "4a": _Layout(0, 24, _UNEQUAL),
    "4c": _Layout(24, 0, _UNEQUAL, own_normal=(4.0, 1.0), other_normal=(0.0, 3.0)),
}


def _sorted_labels(proportions: Sequence[float], n_samples: int) -> NDArray[np.int64]:
    """Sorted labels 0..K-1 with cluster sizes rounded from the proportions."""
    ends = np.cumsum(proportions) / np.sum(proportions) * n_samples
    sizes = np.diff(np.floor(ends + 0.5).astype(np.int64), prepend=0)
    if sizes.min() < 1:
        raise ValueError(f"n_samples={n_samples} is too small for {len(sizes)} clusters; increase it so that every cluster has a row.")
    return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)


def _table(
    numeric: NDArray[np.float64],
    codes: NDArray[np.int64],
    n_levels: list[int],
    target: NDArray[np.int64],
    mask: NDArray[np.bool_],
) -> Bunch:
    """The Bunch that the generators return."""
    p = numeric.shape[1]
    levels = np.where(codes == np.array(n_levels, dtype=np.int64), np.nan, codes)
    return Bunch(
        data=np.hstack([numeric, levels]),
        numeric=numeric,
        codes=codes,
        n_levels=n_levels,
        categorical=list(range(p, p + codes.shape[1])),
        target=target,
        feature_mask=mask,
    )


def make_subspaces(
    layout: str = "2a",
    *,
    n_samples: int = 300,
    elsewhere: float | None = None,
    shuffle: bool = True,
    random_state: Any = None,
) -> Bunch:
    """Make three clusters, each with its own defining features, after a figure of the CRAFT paper.

    In its own features a cluster is nearly constant: a categorical feature always has level 1, a numeric feature is normal with a small
    variance. In all other columns its rows are random. The figures of the paper show such tables but give no numbers, so **the numbers
    below are not from the paper**.

    ====== ======= =========== ==================================== ========================
    layout numeric categorical own columns of clusters 0 / 1 / 2    shares of the rows
    ====== ======= =========== ==================================== ========================
    "2a"   0       24 binary   0-7 / 8-15 / 16-23                   equal
    "2b"   0       24 of 4     0-7 / 8-15 / 16-23                   equal
                   levels
    "2c"   0       24 binary   0-7 / 8-15 / 12-19; 12-15 are        140 : 100 : 60
                               shared, 20-23 unused
    "3a"   19      18 binary   0-6, 19-24 / 7-12, 25-30 /           equal
                               13-18, 31-36
    "3b"   18      18 binary   0-5, 18-23 / 6-11, 24-29 /           equal
                               12-17, 30-35
    "3c"   18      18 binary   0-5, 18-23 / 6-11, 24-29 /           140 : 100 : 60
                               9-14, 27-32; 9-11 and 27-29 are
                               shared, 15-17 and 33-35 unused
    "4a"   0       24 binary   0-5 / 6-15 / 12-23; 12-15 shared     equal
    "4c"   24      0           0-5 / 6-15 / 12-23; 12-15 shared     equal
    ====== ======= =========== ==================================== ========================

    Own numeric features are N(1.5, 0.3^2) and all others N(0, 1); in "4c" N(4, 1) and N(0, 3^2). Given the true clusters, a fixed budget of
    ``feature_fraction=1/3`` selects exactly the own features in "2a", "2b" and "3b", and nearly so in "2c" and "3c", where the columns
    shared by two clusters have a small gain in the smallest cluster. In "3a" cluster 0 has 13 own features but the budget is 12. The
    clusters of "4a" and "4c" have 6, 10 and 12 own features and need selection by thresholds.

    Parameters
    ----------
    layout : {"2a", "2b", "2c", "3a", "3b", "3c", "4a", "4c"}, default="2a"
        Figure of the paper.
    n_samples : int, default=300
        Number of rows.
    elsewhere : float, optional
        Probability of level 1 in categorical columns outside the own features; the other levels share the remaining probability. By default
        all levels are equally likely. Near 0 a cluster is as pure in the other columns as in its own, which makes "4a" hard.
    shuffle : bool, default=True
        Shuffle the rows; otherwise they are sorted by cluster, as in the figures.
    random_state : int, RandomState or None, default=None
        Seed or generator of the random numbers.

    Returns
    -------
    Bunch
        ``data``
            ndarray of shape (n_samples, D): numeric columns first, then the codes as numbers.
        ``numeric``, ``codes``
            The same as two blocks: float64 (n_samples, p) and int64 (n_samples, q).
        ``n_levels``
            Number of levels of every categorical column.
        ``categorical``
            Positions of the categorical columns in ``data``.
        ``target``
            Cluster of every row.
        ``feature_mask``
            Bool (3, D): the own features of every cluster.

    References
    ----------
    Garg, Rudin & Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS 2016,
    figures 2-4.

    Examples
    --------
    >>> from craftc.datasets import make_subspaces
    >>> table = make_subspaces("3b", n_samples=90, random_state=0)
    >>> table.data.shape, table.categorical[:3], table.feature_mask.sum(axis=1).tolist()
    ((90, 36), [18, 19, 20], [12, 12, 12])
    >>> own = table.data[table.target == 0][:, table.feature_mask[0]]
    >>> bool((own[:, 6:] == 1).all())
    True
    """
    if layout not in _LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}; got {layout!r}.")
    shape = _LAYOUTS[layout]
    T = shape.n_levels
    share = 1.0 / T if elsewhere is None else float(elsewhere)
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"elsewhere must be a probability in [0, 1]; got {elsewhere!r}.")
    rng = check_random_state(random_state)

    p, D = shape.n_numeric, shape.n_numeric + shape.n_categorical
    mask = np.zeros((len(shape.own), D), dtype=bool)
    for k, columns in enumerate(shape.own):
        mask[k, list(columns)] = True
    target = _sorted_labels(shape.sizes, n_samples)
    if shuffle:
        rng.shuffle(target)
    own = mask[target]

    normal = rng.standard_normal((n_samples, p))
    mean, spread = (
        np.where(own[:, :p], of_own, of_other)
        for of_own, of_other in zip(shape.own_normal, shape.other_normal, strict=True)
    )
    chances = np.full(T, (1.0 - share) / (T - 1))
    chances[1] = share
    codes = rng.choice(T, size=(n_samples, D - p), p=chances).astype(np.int64)
    codes[own[:, p:]] = 1
    return _table(mean + spread * normal, codes, [T] * (D - p), target, mask)


def make_mixed(
    n_samples: int = 1000,
    n_clusters: int = 3,
    n_numeric: int = 8,
    n_categorical: int = 8,
    n_irrelevant: int = 8,
    *,
    n_own: int = 6,
    shift: float = 2.5,
    n_levels: int = 4,
    proportions: Sequence[float] | None = None,
    missing: float = 0.0,
    random_state: Any = None,
) -> Bunch:
    """Make a mixed table with clusters that differ in a few defining features each.

    Every cluster draws ``n_own`` of the ``n_numeric + n_categorical`` relevant columns as its own features; clusters may share features. An
    own numeric feature is N(+shift, 1) or N(-shift, 1), and in an own categorical feature one level has exp(shift) times the probability of
    any other. All other columns are N(0, 1) or uniform over the levels. Columns are independent within a cluster.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_clusters : int, default=3
        Number of clusters.
    n_numeric, n_categorical : int, default=8
        Number of relevant columns of each kind.
    n_irrelevant : int, default=8
        Number of additional columns without information about the clusters, of both kinds in the ratio of ``n_numeric`` to
        ``n_categorical``.
    n_own : int, default=6
        Number of own features of a cluster.
    shift : float, default=2.5
        Strength of an own feature, in standard deviations (numeric) or as a logit (categorical).
    n_levels : int, default=4
        Number of levels of a categorical column.
    proportions : sequence of n_clusters positive floats, optional
        Relative sizes of the clusters; equal by default.
    missing : float, default=0.0
        Probability that a value is missing, completely at random.
    random_state : int, RandomState or None, default=None
        Seed or generator of the random numbers.

    Returns
    -------
    Bunch
        ``data``
            ndarray of shape (n_samples, D), with columns in the order numeric, irrelevant numeric, categorical, irrelevant categorical;
            codes as numbers, NaN where missing.
        ``numeric``, ``codes``
            The same as two blocks: float64 with NaN where missing, and int64 with ``n_levels`` where missing.
        ``n_levels``
            Number of levels of every categorical column, a list.
        ``categorical``
            Positions of the categorical columns in ``data``.
        ``target``
            Cluster of every row.
        ``feature_mask``
            Bool (n_clusters, D): the own features of every cluster.

    Examples
    --------
    >>> from craftc.datasets import make_mixed
    >>> table = make_mixed(200, 3, n_numeric=4, n_categorical=4, n_irrelevant=2, random_state=0)
    >>> table.numeric.shape, table.codes.shape, table.feature_mask.sum(axis=1).tolist()
    ((200, 5), (200, 5), [6, 6, 6])
    """
    relevant = n_numeric + n_categorical
    if n_clusters < 1:
        raise ValueError(f"n_clusters must be at least 1; got {n_clusters}.")
    if min(n_numeric, n_categorical, n_irrelevant) < 0 or relevant < 1:
        raise ValueError(
            "n_numeric, n_categorical and n_irrelevant must not be negative and n_numeric + n_categorical must be at least 1; "
            f"got {n_numeric}, {n_categorical} and {n_irrelevant}."
        )
    if not 0 <= n_own <= relevant:
        raise ValueError(f"n_own must be between 0 and n_numeric + n_categorical = {relevant}; got {n_own}.")
    if n_levels < 2:
        raise ValueError(f"n_levels must be at least 2; got {n_levels}.")
    if not shift >= 0.0:
        raise ValueError(f"shift must not be negative; got {shift!r}.")
    if not 0.0 <= missing < 1.0:
        raise ValueError(f"missing must be a probability below 1; got {missing!r}.")
    sizes = np.ones(n_clusters) if proportions is None else np.asarray(proportions, np.float64)
    if sizes.shape != (n_clusters,) or not np.all((sizes > 0.0) & np.isfinite(sizes)):
        raise ValueError(
            f"proportions must be {n_clusters} positive numbers, one per cluster; got {proportions!r}."
        )
    rng = check_random_state(random_state)

    irrelevant_numeric = n_irrelevant * n_numeric // relevant
    p, q = n_numeric + irrelevant_numeric, n_categorical + n_irrelevant - irrelevant_numeric
    candidates = np.append(np.arange(n_numeric), p + np.arange(n_categorical))
    mask = np.zeros((n_clusters, p + q), dtype=bool)
    for k in range(n_clusters):
        mask[k, rng.permutation(candidates)[:n_own]] = True
    side = rng.choice([-1.0, 1.0], size=(n_clusters, p))
    favourite = rng.randint(n_levels, size=(n_clusters, q))

    target = _sorted_labels(sizes.tolist(), n_samples)
    rng.shuffle(target)
    own = mask[target]
    numeric = rng.standard_normal((n_samples, p)) + shift * (side[target] * own[:, :p])
    codes = rng.randint(n_levels, size=(n_samples, q)).astype(np.int64)
    # a uniform draw is replaced by the favourite level with the probability that gives it exp(shift) times the odds
    chance = 1.0 / (1.0 + (n_levels - 1) * np.exp(-shift))
    lifted = rng.uniform(size=(n_samples, q)) < (chance * n_levels - 1) / (n_levels - 1)
    codes = np.where(own[:, p:] & lifted, favourite[target], codes)

    numeric[rng.uniform(size=numeric.shape) < missing] = np.nan
    codes[rng.uniform(size=codes.shape) < missing] = n_levels
    return _table(numeric, codes, [n_levels] * q, target, mask)


_MONK_LEVELS = (3, 3, 2, 3, 4, 2)


def monk_rule(X: Any, problem: int) -> NDArray[np.int64]:
    """Class of a robot by the rule of one of the three MONK's problems.

    Parameters
    ----------
    X : array-like of shape (n_samples, 6)
        The attributes a1..a6 with the values 1..3, 1..3, 1..2, 1..3, 1..4, 1..2, as numbers or as strings.
    problem : {1, 2, 3}
        1: a1 = a2 or a5 = 1. 2: exactly two of the six attributes are 1.
        3: (a5 = 3 and a4 = 1) or (a5 != 4 and a2 != 3).

    Returns
    -------
    ndarray of shape (n_samples,), int64
        1 where the rule holds, else 0. The published training set of problem 3 contains 6 deliberate exceptions in 122 rows.

    References
    ----------
    Thrun et al., "The MONK's Problems: A Performance Comparison of Different Learning
    Algorithms", CMU-CS-91-197, 1991.

    Examples
    --------
    >>> from craftc.datasets import monk_rule
    >>> monk_rule([[1, 1, 1, 1, 3, 1], [1, 2, 1, 1, 3, 1]], problem=1)
    array([1, 0])
    """
    a = np.asarray(X)
    if a.ndim != 2 or a.shape[1] != len(_MONK_LEVELS):
        raise ValueError(f"X must have shape (n_samples, 6), a1 to a6; got {a.shape}.")
    try:
        a = a.astype(np.int64)
    except ValueError as error:
        raise ValueError(f"X must contain integers, as numbers or strings; {error}.") from error
    if np.any((a < 1) | (a > _MONK_LEVELS)):
        largest = ", ".join(map(str, _MONK_LEVELS))
        raise ValueError(f"X contains values out of range: a1 to a6 start at 1 and have the maxima {largest}; got {a.min()} to {a.max()}.")
    a1, a2, _, a4, a5, _ = a.T
    holds: NDArray[np.bool_]
    if problem == 1:
        holds = (a1 == a2) | (a5 == 1)
    elif problem == 2:
        holds = (a == 1).sum(axis=1) == 2
    elif problem == 3:
        holds = ((a5 == 3) & (a4 == 1)) | ((a5 != 4) & (a2 != 3))
    else:
        raise ValueError(f"problem must be 1, 2 or 3; got {problem!r}.")
    return holds.astype(np.int64)


def make_monks(problem: int = 1) -> Bunch:
    """Make the complete table of the MONK's problems: all 432 robots and their classes, without noise.

    Parameters
    ----------
    problem : {1, 2, 3}, default=1
        The rule, see `monk_rule`.

    Returns
    -------
    Bunch
        ``data``
            int64 array of shape (432, 6) with values from 1; a6 varies fastest.
        ``codes``, ``n_levels``
            The same with values from 0, and the number of levels of every attribute.
        ``categorical``
            ``[0, 1, 2, 3, 4, 5]``: every attribute is categorical.
        ``target``
            0 or 1.
        ``feature_names``
            ``["a1", ..., "a6"]``.

    References
    ----------
    Thrun et al., "The MONK's Problems: A Performance Comparison of Different Learning
    Algorithms", CMU-CS-91-197, 1991.

    Examples
    --------
    >>> from craftc.datasets import make_monks
    >>> [int(make_monks(problem).target.sum()) for problem in (1, 2, 3)]
    [216, 142, 228]
    """
    data = np.array(list(product(*(range(1, T + 1) for T in _MONK_LEVELS))), dtype=np.int64)
    return Bunch(
        data=data,
        codes=data - 1,
        n_levels=list(_MONK_LEVELS),
        categorical=list(range(len(_MONK_LEVELS))),
        target=monk_rule(data, problem),
        feature_names=[f"a{j}" for j in range(1, len(_MONK_LEVELS) + 1)],
    )
