"""The target of a report: a column that took no part in the fit, by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike

from craftc._common.typing import Array, EncodedTable, Floats, FrameInput, Integers, Labels
from craftc.describe.columns import NumericColumn, typical_text
from craftc.describe.statistics import MOST_NUMBERED_CLASSES, amounts, by_cluster
from craftc.describe.words import (
    CELL,
    clean,
    distinct,
    level_text,
    lift,
    percent,
    with_share,
)
from craftc.table.apart import columns_apart
from craftc.table.frames import open_source

_MOST_CLASSES = 8  # of a bar
_COMMONEST = 3  # classes in a bar of more


@dataclass
class Target:
    name: str
    numeric: bool
    classes: list[str]  # parts of the bars: classes by falling share, or quarters of a number
    mix: Floats  # (K + 1, len(classes)) their shares of the present cells, last in the table
    words: list[tuple[str, str]]  # every cluster's value, and the table's
    order: list[float]  # by which the clusters are sorted
    missing: float  # share of missing cells
    values: Array  # (n,) numbers, or codes into `texts`
    texts: list[str]
    column: NumericColumn | None = None  # of numbers

    def cell(self, row: int) -> str:
        value = self.values[row]
        if self.column is not None:
            return "missing" if np.isnan(value) else self.column.text(float(value))
        return self.texts[int(value)]


def take_target(
    table: FrameInput | EncodedTable, target: str | ArrayLike
) -> tuple[FrameInput | EncodedTable, tuple[str, FrameInput]]:
    """The table without its target, the target's name, and its values as something `open_source` reads."""
    if not isinstance(target, str):
        name = getattr(target, "name", None)
        series = nw.from_native(target, allow_series=True, pass_through=True)
        values: FrameInput = {"target": target}
        if isinstance(series, nw.Series):
            values = series.alias("target").to_frame().to_native()
        return table, (clean(name) if isinstance(name, str) and name else "target", values)
    apart = columns_apart(table, [target])
    if apart is not None:
        others, values = apart
        return others, (clean(target), values)
    raise ValueError(
        f"The table has no column {target!r}; pass the name of one of its columns, or an array with one "
        "value per row."
    )


def read_target(name: str, values: FrameInput, labels: Labels, n_clusters: int) -> Target:
    """The target by cluster: classes, or a number with more than 20 distinct values."""
    source = open_source(values)
    if source.n_rows != len(labels) or len(source.names) != 1:
        raise ValueError(
            f"target must hold one value for each of the {len(labels)} rows of the table, got "
            f"{source.n_rows}."
        )
    if source.kinds[0] == "number":
        x = source.numbers(np.array([0]), np.dtype(np.float64))[:, 0]
        if len(np.unique(x[~np.isnan(x)])) > MOST_NUMBERED_CLASSES:
            return _numbers(name, x, labels, n_clusters)
    column = source.column(0)
    levels = column.learn("ignore")
    if not levels:
        raise ValueError(f"The target {name!r} has no value; leave it out.")
    codes = column.translate(levels, "ignore")[0][column.codes]
    texts = distinct([level_text(level) for level in levels], CELL)
    return _classes(name, codes, texts, labels, n_clusters)


def _classes(name: str, codes: Array, texts: list[str], labels: Labels, n_clusters: int) -> Target:
    n = len(texts)
    counts = by_cluster(codes, labels, n + 1, n_clusters)
    shares = _shares(counts[:, :n])
    by_size = np.argsort(-shares[-1], kind="stable")
    most = (shares[:-1] - shares[-1]).argmax(axis=1)
    both = [(texts[c], float(shares[k, c]), float(shares[-1, c])) for k, c in enumerate(most)]
    words = [
        (with_share(text, own), f"table {percent(whole)}, lift {lift(own, whole)}")
        for text, own, whole in both
    ]
    order = shares[:-1, by_size[0]].tolist()
    if n > _MOST_CLASSES:
        kept, rest = by_size[:_COMMONEST], by_size[_COMMONEST:]
        mix = np.column_stack([shares[:, kept], shares[:, rest].sum(axis=1)])
        shown = [*(texts[c] for c in kept), f"{len(rest)} others"]
    else:
        mix, shown = shares[:, by_size], [texts[c] for c in by_size]
    missing = float(counts[:, n].sum() / max(counts.sum(), 1))
    return Target(name, False, shown, mix, words, order, missing, codes, [*texts, "missing"])


def _numbers(name: str, x: Floats, labels: Labels, n_clusters: int) -> Target:
    seen = ~np.isnan(x)
    if np.isinf(x).any():
        raise ValueError(f"The target {name!r} contains infinite values; replace them by NaN.")
    cuts = np.quantile(x[seen], [0.25, 0.5, 0.75])
    quarter = np.searchsorted(cuts, x[seen], side="left")
    mix = _shares(by_cluster(quarter, labels[seen], 4, n_clusters))
    means, deviations = np.full(n_clusters + 1, np.nan), np.full(n_clusters + 1, np.nan)
    for k in range(n_clusters + 1):
        here = x[seen & (labels == k)] if k < n_clusters else x[seen]
        if len(here):
            means[k], deviations[k] = here.mean(), here.std()
    column = amounts(name, means, deviations, (float(x[seen].min()), float(x[seen].max())))
    texts = [
        f"mean {typical_text(parts)}" if (parts := column.typical(k)) else "missing in all rows"
        for k in range(n_clusters + 1)
    ]
    ends = [column.text(float(v)) for v in (x[seen].min(), *cuts, x[seen].max())]
    quarters = [f"{a} to {b}" for a, b in pairwise(ends)]
    words = [(text, f"table {texts[-1].removeprefix('mean ')}") for text in texts[:-1]]
    order = np.nan_to_num(means[:-1]).tolist()
    return Target(name, True, quarters, mix, words, order, float(1 - seen.mean()), x, [], column)


def _shares(counts: Integers) -> Floats:
    """(K + 1, n) shares in every cluster and, last, in the table."""
    both = np.vstack([counts, counts.sum(axis=0)]).astype(np.float64)
    return np.asarray(both / np.maximum(both.sum(axis=1, keepdims=True), 1.0))
