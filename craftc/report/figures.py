"""Geometry of the figures: histograms and bars of one column, of a cluster or of the whole table.

All text of a figure is HTML.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from craftc._common.typing import Floats
from craftc.describe.columns import NumericColumn, OrderedColumn
from craftc.describe.words import percent
from craftc.report.columns import DrawnColumn

HEIGHT = 40  # of a histogram, in its own units; the width is 100
_MOST_BARS = 6


@dataclass
class Bar:
    """One level: its share in the cluster and in the table."""

    label: str
    short: str
    share: float
    table: float
    words: str
    words_table: str


@dataclass
class Figure:
    """A histogram (outline of the cluster, of the table, means or medians, ends of the axis) or bars."""

    name: str
    inside: str = ""
    table: str = ""
    centre: float | None = None
    centre_table: float = 0.0
    low: str = ""
    high: str = ""
    bars: list[Bar] = field(default_factory=list)


def figure(column: DrawnColumn, k: int | None) -> Figure:
    """The figure of a column in cluster k, or, without a cluster, in the table alone."""
    if column.style != "curve":
        return Figure(column.name, bars=_bars(column, -1 if k is None else k))
    shares = _bin_shares(column)
    most = max(float(shares.max()), 1e-12)  # one scale for a column in all clusters
    out = Figure(column.name, table=_outline(shares[-1] / most))
    centres = column.statistics.centres if isinstance(column.statistics, NumericColumn) else shares[:, 0]
    out.centre_table = _position(column, float(centres[-1]))
    if k is not None:
        out.inside = _outline(shares[k] / most)
        if np.isfinite(centres[k]):
            out.centre = _position(column, float(centres[k]))
    low, high = float(column.edges[0]), float(column.edges[-1])
    first = max(column.least, math.ceil(low) if column.whole else low)
    last = min(column.most, math.floor(high) if column.whole else high)
    out.low = ("≤ " if column.least < low else "") + column.text(first)
    out.high = ("≥ " if column.most > high else "") + column.text(last)
    return out


def _bin_shares(column: DrawnColumn) -> Floats:
    counts = np.vstack([column.bins, column.bins.sum(axis=0)]).astype(np.float64)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))


def _outline(heights: Floats) -> str:
    """A stepped outline on the ground line; equal neighbours are one step."""
    tops = [f"{HEIGHT - (HEIGHT - 2) * h:.1f}".removesuffix(".0") for h in heights]
    parts, width = [f"M0 {HEIGHT}"], 100 / len(tops)
    for i, top in enumerate(tops):
        if i == 0 or top != tops[i - 1]:
            parts.append(f"V{top}")
        if i + 1 == len(tops) or tops[i + 1] != top:
            parts.append(f"H{(i + 1) * width:.1f}".removesuffix(".0"))
    return "".join([*parts, f"V{HEIGHT}Z"])


def _position(column: DrawnColumn, x: float) -> float:
    return round(100 * float(np.clip((x - column.edges[0]) / (column.edges[-1] - column.edges[0]), 0, 1)), 1)


def _bars(column: DrawnColumn, k: int) -> list[Bar]:
    p, q = column.shares[k], column.shares[-1]
    order = np.argsort(-np.maximum(p, q), kind="stable").tolist()
    order = order if len(order) <= _MOST_BARS else order[: _MOST_BARS - 1]
    if column.numeric or isinstance(column.statistics, OrderedColumn):
        order.sort()
    bars = [(column.labels[t], column.short_labels[t], float(p[t]), float(q[t])) for t in order]
    rest = np.setdiff1d(np.arange(len(p)), order)
    if len(rest):
        bars.append((f"{len(rest)} others",) * 2 + (float(p[rest].sum()), float(q[rest].sum())))
    return [Bar(label, short, a, b, percent(a), percent(b)) for label, short, a, b in bars]
