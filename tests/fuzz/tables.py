"""Seeded random tables: numbers of every scale, categories, missing values, data frames of every library, and
what is not a table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

SCALES = (1e-300, 1e-160, 1e-30, 1e-3, 1e3, 1e6, 1e18, 1e100, 1e160, 1e300)
_TEXTS = [
    "",
    "a",
    "b",
    "yes",
    "no",
    "NA",
    "é",
    "very long " * 30,
    "0",
    "1.5",
    " a",
    "=1+1",
    "\x1b[1m",
    "\U0001f600",
]
_LEVELS = np.array(_TEXTS, dtype=object)


class Table(NamedTuple):
    """A table and what it is, in words."""

    value: Any
    name: str


def shape(rng: np.random.Generator) -> tuple[int, int]:
    """Rows and columns: few as a rule, none at times, thousands rarely."""
    n = (
        int(rng.choice([0, 1, 2, 3], p=[0.1, 0.3, 0.3, 0.3]))
        if rng.random() < 0.08
        else int(rng.integers(4, 60))
    )
    if rng.random() < 0.03:
        n = int(rng.integers(60, 200)) if rng.random() < 0.7 else int(rng.integers(500, 3000))
    if n >= 500 and rng.random() < 0.5:
        return n, int(rng.choice([8, 16]))
    return n, int(rng.choice([0, 1, 2, 3, 4, 6], p=[0.01, 0.14, 0.3, 0.3, 0.2, 0.05]))


def numbers(rng: np.random.Generator, n: int, d: int) -> np.ndarray[Any, Any]:
    """(n, d) finite float64 numbers of an ordinary range: normal, clustered, with ties, or constant."""
    if n >= 500 and rng.random() < 0.7:
        return overlapping(rng, n, d)
    kind = rng.integers(5)
    if kind == 0:
        return rng.normal(size=(n, d))
    if kind == 1:
        return rng.integers(0, 3, (n, d)).astype(float)
    if kind == 2:
        return np.full((n, d), rng.normal())
    X = rng.normal(size=(n, d)) + 6.0 * rng.integers(0, 3, (n, 1)) * rng.integers(0, 2, (1, d))
    return np.round(X, 1) if kind == 3 else np.asarray(X)


def overlapping(rng: np.random.Generator, n: int, d: int) -> np.ndarray[Any, Any]:
    """(n, d) rows of clusters that overlap, of different sizes and spreads: many partitions are nearly as
    good.
    """
    K = int(rng.integers(2, 50))
    labels = rng.choice(K, n, p=rng.dirichlet(np.full(K, rng.choice([1.0, 3.0]))))
    centres = rng.normal(size=(K, d)) * rng.choice([0.7, 1.0, 1.5])
    return np.asarray(centres[labels] + rng.normal(size=(n, d)) * rng.uniform(0.5, 1.5, K)[labels][:, None])


def of_any_scale(rng: np.random.Generator, X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers in other units: of all columns, one column or one cell, far from zero, or denormal."""
    X = X.copy()
    scale = float(rng.choice(SCALES))
    kind = rng.integers(5)
    with np.errstate(over="ignore", under="ignore"):
        if kind == 0:
            X *= scale
        elif kind == 1 and X.shape[1]:
            X[:, rng.integers(X.shape[1])] *= scale
        elif kind == 2 and X.size:
            X.flat[rng.integers(X.size)] = rng.choice([-1, 1]) * scale
        elif kind == 3:
            X += scale
        else:
            X = rng.integers(-3, 4, X.shape) * 5e-324
    return np.clip(X, -1.7e308, 1.7e308)


def frame(rng: np.random.Generator, n: int, d: int) -> pd.DataFrame:
    """A pandas frame of numbers, categories and other columns, with missing cells at times."""
    columns = [column(rng, n) for _ in range(d)]
    names: list[Any] = [f"c{i}" for i in range(d)]
    kind = rng.integers(12)
    if kind == 0 and d:
        names[-1] = names[0]
    elif kind == 1:
        names = list(range(d))
    elif kind == 2:
        names = [str(_LEVELS[i % len(_LEVELS)]) for i in range(d)]
    data = pd.DataFrame(dict(enumerate(columns)), index=range(n))
    data.columns = pd.Index(names)
    return data


def column(rng: np.random.Generator, n: int) -> Any:
    """One column of n cells."""
    kind = rng.integers(14)
    text = _LEVELS[rng.integers(0, rng.integers(1, len(_LEVELS) + 1), n)]
    missing = rng.random(n) < rng.choice([0.0, 0.2, 1.0], p=[0.6, 0.35, 0.05])
    if kind < 4:
        X = numbers(rng, n, 1)[:, 0]
        return np.where(missing, np.nan, X)
    if kind < 7:
        return pd.Series(np.where(missing, None, text), dtype=object)
    if kind == 7:
        return pd.Categorical(np.where(missing, None, text), categories=sorted(set(_LEVELS[:5]) | set(text)))
    if kind == 8:
        return pd.Series(rng.integers(0, 5, n)).astype("Int64").mask(pd.Series(missing, dtype=bool))
    if kind == 9:
        return rng.random(n) < 0.5
    if kind == 10:
        return pd.Series(rng.random(n) < 0.5).astype("boolean").mask(pd.Series(missing, dtype=bool))
    if kind == 11:
        seconds = rng.integers(0, 10**9, n)
        return pd.to_datetime(seconds, unit="s") if rng.random() < 0.7 else pd.to_timedelta(seconds, unit="s")
    if kind == 12:
        return pd.Series(text).astype("string").mask(pd.Series(missing, dtype=bool))
    cells = np.empty(n, dtype=object)
    cells[:] = [
        (1, 2.5, "a", None, True, (1, 2), float("nan"), 10**30, b"x", float("inf"))[i]
        for i in rng.integers(0, 10, n)
    ]
    return cells


def table(rng: np.random.Generator, mixed: float = 0.3) -> Table:
    """A table: mostly numbers of an ordinary range, at times extreme, mixed, of another container, or not a
    table.

    Parameters
    ----------
    rng : Generator
    mixed : float
        Probability of a frame with categories.
    """
    n, d = shape(rng)
    if rng.random() < mixed:
        data = frame(rng, n, d)
        return library(rng, data) if rng.random() < 0.4 else Table(data, "pandas")
    if rng.random() < 0.06:
        return not_a_table(rng, n, d)
    X, name = numbers(rng, n, d), "numbers"
    if rng.random() < 0.25:
        X, name = of_any_scale(rng, X), "any scale"
    if rng.random() < 0.1 and X.size:
        X.flat[rng.integers(0, X.size, rng.integers(1, 4))] = rng.choice(
            [np.nan, np.inf, -np.inf], p=[0.6, 0.2, 0.2]
        )
        name += ", not finite"
    return container(rng, X, name) if rng.random() < 0.5 else Table(X, name)


def container(rng: np.random.Generator, X: np.ndarray[Any, Any], name: str) -> Table:
    """The same numbers in another type, memory layout or library."""
    kind = int(rng.integers(16))
    with np.errstate(all="ignore"):
        if kind == 0:
            return Table(X.astype(np.float32), f"float32 {name}")
        if kind == 1:
            return Table(X.astype(np.float16), f"float16 {name}")
        if kind == 2:
            return Table(
                np.nan_to_num(np.clip(X, -100, 100)).astype(rng.choice(["int8", "int32", "int64", "uint8"])),
                "integers",
            )
        if kind == 3:
            return Table(X > 0, "booleans")
    if kind == 4:
        return Table(np.asfortranarray(X), f"Fortran {name}")
    if kind == 5:
        return Table(np.repeat(X, 2, axis=1)[:, ::2], f"strided {name}")
    if kind == 6:
        X = X.copy()
        X.flags.writeable = False
        return Table(X, f"read-only {name}")
    if kind == 7:
        return Table(X[::-1], f"reversed {name}")
    if kind == 8:
        return Table(X.tolist(), f"list of {name}")
    if kind == 9:
        return Table(X.astype(object), f"objects {name}")
    if kind == 10:
        return Table(X.astype(">f8"), f"big-endian {name}")
    if kind == 11:
        return Table(np.ma.masked_array(X, X > 1), "masked array")
    if kind == 12:
        return Table(X.astype(np.longdouble), f"long double {name}")
    data = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    return Table(data, f"pandas {name}") if kind == 13 else library(rng, data)


def library(rng: np.random.Generator, data: pd.DataFrame) -> Table:
    """The frame in another library; pandas where that library cannot hold it."""
    import polars
    import pyarrow

    kind = int(rng.integers(3))
    try:
        arrow = pyarrow.Table.from_pandas(data, preserve_index=False)
        if kind == 0:
            return Table(arrow, "Arrow")
        if kind == 1:
            return Table(polars.from_arrow(arrow), "polars")
        return Table(arrow.to_pandas(types_mapper=pd.ArrowDtype), "pandas of Arrow")
    except Exception:  # any of theirs: duplicate names, objects of several types
        return Table(data, "pandas")


def not_a_table(rng: np.random.Generator, n: int, d: int) -> Table:
    """What no estimator can read."""
    import scipy.sparse

    X = numbers(rng, max(n, 2), max(d, 1))
    choices = {
        "ragged list": [[1.0, 2.0], [3.0]],
        "one dimension": X[:, 0],
        "three dimensions": X[None],
        "sparse matrix": scipy.sparse.csr_matrix(X),
        "sparse array": scipy.sparse.csr_array(X),
        "complex": X + 1j,
        "None": None,
        "scalar": 3.0,
        "text": "table.csv",
        "texts": [["a", "b"]] * max(n, 2),
        "array of text": np.array([["a", "b"], ["c", "d"]]),
        "bytes": np.array([[b"a", b"b"], [b"c", b"d"]]),
        "dates": np.array([["2020-01-01"], ["2021-01-01"]], dtype="datetime64[D]"),
        "records": np.array([(1, 2.0)] * 3, dtype=[("a", int), ("b", float)]),
        "dictionary": {"a": [1.0, 2.0], "b": [3.0, 4.0]},
        "generator": (row for row in [[1.0], [2.0]]),
        "series": pd.Series([1.0, 2.0, 3.0]),
        "set": {1.0, 2.0},
        "object": object(),
        "class": np.ndarray,
        "empty list": [],
        "list of empty lists": [[], []],
        "strings in objects": np.array([["x", 1.0], ["y", 2.0]], dtype=object),
    }
    name = str(rng.choice(list(choices)))
    return Table(choices[name], name)


def another(rng: np.random.Generator, first: Table) -> Table:
    """A table for a fitted model: the same, some of its rows, its columns changed, other types, or a table of
    its own.
    """
    kind = int(rng.integers(8))
    value = first.value
    if kind < 2 or not isinstance(value, np.ndarray | pd.DataFrame) or value.ndim != 2:
        return first if kind < 6 else table(rng)
    rows = rng.integers(0, len(value), rng.integers(0, 12)) if len(value) else np.empty(0, np.intp)
    some = value.iloc[rows] if isinstance(value, pd.DataFrame) else value[rows]
    if kind < 4:
        return Table(some, f"rows of {first.name}")
    if kind == 4:
        columns = rng.permutation(value.shape[1])
        return Table(
            some.iloc[:, columns] if isinstance(some, pd.DataFrame) else some[:, columns],
            f"columns of {first.name} reordered",
        )
    if kind == 5:
        columns = np.arange(max(value.shape[1] - 1, 0))
        return Table(
            some.iloc[:, columns] if isinstance(some, pd.DataFrame) else some[:, columns],
            f"fewer columns of {first.name}",
        )
    if kind == 6:
        return Table(some.astype(object), f"objects of {first.name}")
    return table(rng)


def weights(rng: np.random.Generator, n: int) -> Table:
    """Weights of n rows: good ones as a rule, extreme ones, and what is no weights."""
    whole = rng.integers(1, 4, n).astype(float)
    choices: dict[str, Any] = {
        "whole": whole,
        "whole with zeros": np.where(rng.random(n) < 0.3, 0.0, whole),
        "fractions": rng.random(n) + 0.01,
        "integers": whole.astype(int),
        "list": whole.tolist(),
        "float32": whole.astype(np.float32),
        "tiny": rng.random(n) * float(rng.choice([1e-300, 1e-100, 1e-18])),
        "huge": rng.random(n) * float(rng.choice([1e18, 1e100, 1e300])),
        "of many scales": 10.0 ** rng.uniform(-30, 30, n),
        "zeros": np.zeros(n),
        "negative": -whole,
        "one negative": np.where(np.arange(n) == 0, -1.0, whole),
        "nan": np.where(np.arange(n) == 0, np.nan, whole),
        "inf": np.where(np.arange(n) == 0, np.inf, whole),
        "too short": whole[:-1],
        "two dimensions": whole[:, None],
        "scalar": 2.0,
        "text": "balanced",
        "texts": ["a"] * n,
        "booleans": whole > 1,
        "complex": whole + 0j,
        "series": pd.Series(whole),
        "objects": whole.astype(object),
    }
    name = str(
        rng.choice(list(choices) if rng.random() < 0.5 else ["whole", "whole with zeros", "fractions"])
    )
    return Table(choices[name], name)


def groups(rng: np.random.Generator, n: int) -> Table:
    """Groups of n rows: labels of every type, some missing, a column; and what is no groups."""
    numbers = rng.integers(0, max(n // 2, 1), n)
    texts = np.array([f"g{i}" for i in numbers], dtype=object)
    absent = rng.random(n) < 0.3
    choices: dict[str, Any] = {
        "numbers": numbers,
        "texts": texts,
        "list": texts.tolist(),
        "missing at times": np.where(absent, None, texts),
        "NaN at times": np.where(absent, np.nan, numbers),
        "all missing": np.full(n, None),
        "one": np.zeros(n),
        "own": np.arange(n),
        "series": pd.Series(texts),
        "categories": pd.Categorical(texts),
        "dates": pd.to_datetime(numbers, unit="D"),
        "a column": "c0",
        "no column": "nothing",
        "position": 0,
        "too short": numbers[:-1],
        "two dimensions": numbers[:, None],
        "mixed": np.where(absent, texts, numbers.astype(object)),
        "infinite": np.where(absent, np.inf, numbers),
        "complex": numbers + 1j,
    }
    name = str(rng.choice(list(choices)))
    return Table(choices[name], name)
