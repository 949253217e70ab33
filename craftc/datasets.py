"""One real table, and generators of tables whose clusters and defining features are known.

Generated tables have the numeric columns first, then the categorical columns.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from craftc._common.random import rng_of
from craftc._common.typing import RandomStateInput

if TYPE_CHECKING:
    import pandas as pd

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
    """Load the Statlog (Heart) table (https://doi.org/10.24432/C57303): 270 patients, 13 features.

    Returns
    -------
    Bunch
        ``data``
            pandas DataFrame of shape (270, 13): 6 numeric columns as float64, 7 categorical ones as
            Categorical of strings. Without pandas a dict of arrays, with categorical columns as strings.
        ``target``
            ndarray of 270 strings, ``"absent"`` (150) or ``"present"`` (120).
        ``feature_names``, ``numeric_names``, ``categorical_names``, ``target_names``
            Lists of strings.
        ``DESCR``
            Meaning of the columns, source and licence (CC BY 4.0).

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
    names = list(columns)
    numeric = [name for name in names if name not in _HEART_CATEGORICAL]
    categorical = [name for name in names if name in _HEART_CATEGORICAL]
    data: dict[str, NDArray[np.str_] | NDArray[np.float64]] | pd.DataFrame
    data = columns | {name: columns[name].astype(np.float64) for name in numeric}
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        data = pd.DataFrame(data | {name: pd.Categorical(data[name].tolist()) for name in categorical})
    return Bunch(
        data=data,
        target=target,
        feature_names=names,
        numeric_names=numeric,
        categorical_names=categorical,
        target_names=["absent", "present"],
        DESCR=_HEART_DESCR,
    )


@dataclass(frozen=True)
class _TableLayout:
    """A made table of the paper: its columns, the own columns of every cluster, and their distributions."""

    n_columns: int
    own: tuple[tuple[int, ...], ...]
    proportions: tuple[int, ...] = (1, 1, 1)
    means: tuple[float, ...] = ()  # of the own columns of every cluster; without means the columns are binary


def _blocks(*bounds: tuple[int, int]) -> tuple[int, ...]:
    """The columns of half-open ranges, concatenated."""
    return tuple(column for low, high in bounds for column in range(low, high))


_MEANS = (1.0, 5.0, 10.0)
_UNEQUAL = (_blocks((0, 9)), _blocks((4, 20)), _blocks((16, 24)))
_LAYOUTS = {
    "2a": _TableLayout(24, (_blocks((0, 8)), _blocks((8, 16)), _blocks((16, 24)))),
    "2c": _TableLayout(
        24, (_blocks((0, 4), (8, 12)), _blocks((12, 20)), _blocks((4, 8), (19, 23))), (140, 100, 60)
    ),
    "3a": _TableLayout(36, (_blocks((0, 12)), _blocks((12, 24)), _blocks((21, 34))), means=_MEANS),
    "3c": _TableLayout(36, (_blocks((0, 12)), _blocks((9, 15), (21, 27)), _blocks((24, 36))), means=_MEANS),
    "4a": _TableLayout(24, _UNEQUAL),
    "4c": _TableLayout(24, _UNEQUAL, means=_MEANS),
}


def _sorted_labels(proportions: Sequence[float], n_samples: int) -> NDArray[np.int64]:
    """Sorted labels 0..K-1 with cluster sizes rounded from the proportions."""
    ends = np.cumsum(proportions) / np.sum(proportions) * n_samples
    sizes = np.diff(np.floor(ends + 0.5).astype(np.int64), prepend=0)
    if sizes.min() < 1:
        raise ValueError(
            f"n_samples={n_samples} is too small for {len(sizes)} clusters; increase it so that every "
            "cluster has a row."
        )
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
    own: Sequence[Sequence[int]] | None = None,
    proportions: Sequence[float] | None = None,
    elsewhere: float | None = None,
    shuffle: bool = True,
    random_state: RandomStateInput = None,
) -> Bunch:
    """Make three clusters, each with its own defining features: a table of the CRAFT paper, figures 2 to 4.

    In the binary layouts an own feature of a cluster is always 1, and all other cells are Bernoulli(0.1). In
    the numeric layouts the own features of the three clusters are N(1, 1), N(5, 1) and N(10, 1), and all
    other cells are N(0, 3^2).

    ====== ========== ================================= =========== =======================================
    layout columns    own columns of clusters 0 / 1 / 2 shares      from the paper
    ====== ========== ================================= =========== =======================================
    "2a"   24 binary  0-7 / 8-15 / 16-23                equal       all
    "2c"   24 binary  0-3, 8-11 / 12-19 / 4-7, 19-22    140:100:60  an overlap; we chose positions, shares
    "3a"   36 numeric 0-11 / 12-23 / 21-33              equal       all
    "3c"   36 numeric 0-11 / 9-14, 21-26 / 24-35        equal       overlaps; we chose positions
    "4a"   24 binary  0-8 / 4-19 / 16-23                equal       9, 16 and 8 columns; we chose positions
    "4c"   24 numeric 0-8 / 4-19 / 16-23                equal       distributions; we chose columns
    ====== ========== ================================= =========== =======================================

    The other panels of these figures (2b, 2d, ...) show results.

    Parameters
    ----------
    layout : {"2a", "2c", "3a", "3c", "4a", "4c"}, default="2a"
        Figure of the paper.
    n_samples : int, default=300
        Number of rows.
    own : three sequences of int, optional
        Own columns of every cluster, where they should differ from the layout.
    proportions : sequence of three positive floats, optional
        Relative sizes of the clusters, where they should differ from the layout.
    elsewhere : float, optional
        Cells outside the own features. Binary layouts: probability of a 1, by default 0.1. Numeric layouts:
        standard deviation, by default 3.
    shuffle : bool, default=True
        Shuffle the rows; otherwise they are sorted by cluster, as in the figures.
    random_state : int, Generator, RandomState or None, default=None
        Seed or generator of the random numbers.

    Returns
    -------
    Bunch
        ``data``
            ndarray of shape (n_samples, D).
        ``numeric``, ``codes``
            The same as two blocks, one of them without columns: float64 (n_samples, p) and int64 (n_samples,
            q).
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
    >>> table = make_subspaces("3a", n_samples=90, random_state=0)
    >>> table.data.shape, table.feature_mask.sum(axis=1).tolist()
    ((90, 36), [12, 12, 13])
    >>> [round(float(table.data[table.target == k][:, table.feature_mask[k]].mean())) for k in range(3)]
    [1, 5, 10]
    """
    if layout not in _LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}; got {layout!r}.")
    shape = _LAYOUTS[layout]
    K, D, binary = len(shape.own), shape.n_columns, not shape.means
    spread = (0.1 if binary else 3.0) if elsewhere is None else float(elsewhere)
    if not 0.0 <= spread <= (1.0 if binary else np.finfo(np.float64).max):
        wanted = "a probability in [0, 1]" if binary else "a standard deviation >= 0"
        raise ValueError(f"elsewhere must be {wanted} in layout {layout!r}; got {elsewhere!r}.")
    columns = [list(each) for each in (shape.own if own is None else own)]
    if len(columns) != K or any(d not in range(D) for each in columns for d in each):
        raise ValueError(f"own must be {K} lists of columns from 0 to {D - 1}; got {own!r}.")
    mask = np.zeros((K, D), dtype=bool)
    for k, each in enumerate(columns):
        mask[k, each] = True
    rng = rng_of(random_state)

    target = _sorted_labels(_sizes(shape.proportions if proportions is None else proportions, K), n_samples)
    if shuffle:
        rng.shuffle(target)
    cells = mask[target]
    if binary:
        codes = (cells | (rng.uniform(size=cells.shape) < spread)).astype(np.int64)
        return _table(np.empty((n_samples, 0)), codes, [2] * D, target, mask)
    normal = rng.standard_normal(cells.shape)
    means = np.array(shape.means)[target][:, None]
    numeric = np.where(cells, means + normal, spread * normal)
    return _table(numeric, np.empty((n_samples, 0), np.int64), [], target, mask)


def _sizes(proportions: Sequence[float], n_clusters: int) -> list[float]:
    """Relative sizes of the clusters, checked."""
    sizes = np.asarray(proportions, np.float64)
    if sizes.shape != (n_clusters,) or not np.all((sizes > 0.0) & np.isfinite(sizes)):
        raise ValueError(
            f"proportions must be {n_clusters} positive numbers, one per cluster; got {proportions!r}."
        )
    return [float(size) for size in sizes]


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
    random_state: RandomStateInput = None,
) -> Bunch:
    """Make a mixed table with clusters that differ in a few defining features each.

    Every cluster draws ``n_own`` of the ``n_numeric + n_categorical`` relevant columns as its own features;
    clusters may share features. An own numeric feature is N(+shift, 1) or N(-shift, 1), and in an own
    categorical feature one level has exp(shift) times the probability of any other. All other columns are
    N(0, 1) or uniform over the levels. Columns are independent within a cluster.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_clusters : int, default=3
        Number of clusters.
    n_numeric, n_categorical : int, default=8
        Number of relevant columns of each kind.
    n_irrelevant : int, default=8
        Number of additional columns without information about the clusters, of both kinds in the ratio of
        ``n_numeric`` to ``n_categorical``.
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
    random_state : int, Generator, RandomState or None, default=None
        Seed or generator of the random numbers.

    Returns
    -------
    Bunch
        The fields of :func:`make_subspaces`. Columns: numeric, irrelevant numeric, categorical, irrelevant
        categorical. Missing cells are NaN in ``data`` and ``numeric``, and ``n_levels`` in ``codes``.

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
            "n_numeric, n_categorical and n_irrelevant must not be negative and n_numeric + n_categorical "
            f"must be at least 1; got {n_numeric}, {n_categorical} and {n_irrelevant}."
        )
    if not 0 <= n_own <= relevant:
        raise ValueError(f"n_own must be between 0 and n_numeric + n_categorical = {relevant}; got {n_own}.")
    if n_levels < 2:
        raise ValueError(f"n_levels must be at least 2; got {n_levels}.")
    if not shift >= 0.0:
        raise ValueError(f"shift must not be negative; got {shift!r}.")
    if not 0.0 <= missing < 1.0:
        raise ValueError(f"missing must be a probability below 1; got {missing!r}.")
    sizes = _sizes([1.0] * n_clusters if proportions is None else proportions, n_clusters)
    rng = rng_of(random_state)

    irrelevant_numeric = n_irrelevant * n_numeric // relevant
    p, q = n_numeric + irrelevant_numeric, n_categorical + n_irrelevant - irrelevant_numeric
    candidates = np.append(np.arange(n_numeric), p + np.arange(n_categorical))
    mask = np.zeros((n_clusters, p + q), dtype=bool)
    for k in range(n_clusters):
        mask[k, rng.permutation(candidates)[:n_own]] = True
    side = rng.choice([-1.0, 1.0], size=(n_clusters, p))
    favourite = rng.randint(n_levels, size=(n_clusters, q))

    target = _sorted_labels(sizes, n_samples)
    rng.shuffle(target)
    own = mask[target]
    numeric = rng.standard_normal((n_samples, p)) + shift * (side[target] * own[:, :p])
    codes = rng.randint(n_levels, size=(n_samples, q)).astype(np.int64)
    # a uniform draw becomes the favourite level with the probability that gives it exp(shift) times the odds
    chance = 1.0 / (1.0 + (n_levels - 1) * np.exp(-shift))
    lifted = rng.uniform(size=(n_samples, q)) < (chance * n_levels - 1) / (n_levels - 1)
    codes = np.where(own[:, p:] & lifted, favourite[target], codes)

    numeric[rng.uniform(size=numeric.shape) < missing] = np.nan
    codes[rng.uniform(size=codes.shape) < missing] = n_levels
    return _table(numeric, codes, [n_levels] * q, target, mask)


_MONK_LEVELS = (3, 3, 2, 3, 4, 2)


def monk_rule(X: ArrayLike, problem: int) -> NDArray[np.int64]:
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
        1 where the rule holds, else 0. The published training set of problem 3 contains 6 deliberate
        exceptions in 122 rows.

    References
    ----------
    Thrun et al., "The MONK's Problems", CMU-CS-91-197, 1991.

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
        raise ValueError(
            f"X contains values out of range: a1 to a6 start at 1 and have the maxima {largest}; got "
            f"{a.min()} to {a.max()}."
        )
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
    Thrun et al., "The MONK's Problems", CMU-CS-91-197, 1991.

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
