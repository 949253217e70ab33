"""The output of the command line: clusters and comparisons as text of a given width."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from craftc import metrics
from craftc._common.merge_path import SHARE_KEPT
from craftc.craft.summary import differing_features
from craftc.table import Schema
from craftc.table.cluster_summary import LEADING, number
from craftc.table.moments import Moments

Cell = list[tuple[str, str]]  # parts of a cell: a name, which may be truncated, and the text after it

#: Parts of a block, from one eighth to the whole.
EIGHTHS = "▏▎▍▌▋▊▉█"

_LONGEST = 400  # characters of a name or level that are read; a line of the output has at most 100
_BAR = 10  # characters of the longest bar
_STEPS = 4  # of the merge path
_TIE = 5.0  # nats
_MOST_CLASSES = 50  # columns of the comparison with known classes


# ---- text ----


def clean(text: str) -> str:
    """A message as one line of a terminal: without line breaks and control characters."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\ufffd" for c in line) or "''"


def name_of(value: Any) -> str:
    """A column name, level or class as one line; only the first characters of a long text are read."""
    text = str(value).lstrip()
    return clean(text[:_LONGEST]) + ("…" if len(text) > _LONGEST else "")


def char_width(c: str) -> int:
    """Columns of a terminal that a character takes: 2 if it is wide, 0 if it combines with the one before."""
    return 1 + (unicodedata.east_asian_width(c) in "WF") - (unicodedata.combining(c) > 0)


def width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(map(char_width, text))


def cut(text: str, room: int) -> str:
    """The text, truncated with … if it is wider than the room; only the characters that fit are measured."""
    kept = used = 0
    for i, c in enumerate(text):
        used += char_width(c)
        if used > room:
            return text[:kept] + "…"
        if used < room:
            kept = i + 1
    return text


def pad(text: str, room: int) -> str:
    """The text, truncated or padded with spaces to exactly the room."""
    text = cut(text, room)
    return text + " " * (room - width(text))


def listed(label: str, names: Sequence[str], room: int) -> list[str]:
    """The lines of ``label name, name, ...``, wrapped at the room and indented under the first name."""
    indent = " " * (len(label) if len(label) <= room // 2 else 5)
    lines = [label] if len(indent) == len(label) else [label, indent]
    for i, name in enumerate(names):
        word = cut(name_of(name), room - len(indent) - 2) + ("," if i < len(names) - 1 else "")
        if width(lines[-1]) + 1 + width(word) > room and lines[-1].strip():
            lines.append(indent)
        lines[-1] += " " + word
    return lines


def plural(count: int, one: str, many: str = "") -> str:
    """ "1 row", "1,200 rows"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def percent(share: float) -> str:
    """A share as "59 %"; "0 %" means none and "100 %" means all."""
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


# ---- clusters ----


def clusters(model: Any, room: int, *, most: int | None, blocks: str = "#") -> list[str]:
    """The lines of every cluster, largest first.

    Parameters
    ----------
    model : CRAFT
        Fitted.
    room : int
        Columns of the terminal.
    most : int or None
        Maximum number of features per cluster; None: all in which the cluster differs from the whole table.
    blocks : str
        Characters that bars are drawn with, from the smallest part of a block to the full block.
    """
    schema, moments = model.schema_, model._moments_original_units
    inside, everywhere = cells(moments, schema)
    share = moments.sizes / moments.sizes.sum()
    differs = differing_features(model)
    gains = np.where(differs, model.feature_gains_, 0.0)
    largest = max(float(gains.max(initial=0.0)), 1e-300)
    names = [name_of(name) for name in schema.columns]
    bars = min(_BAR, room // 8)
    first = min(max(map(width, [*names, "feature"])), room // 4)
    second = third = (room - 2 - first - 6 - 7 - 1 - bars) // 2
    whole = "in the whole table" if third >= 18 else "whole table"
    here = "in the cluster" if second >= 14 else "in cluster"
    head = pad("feature", first), pad(here, second), pad(whole, third)
    lines: list[str] = []
    for k in np.argsort(-moments.sizes, kind="stable"):
        rows = plural(int(moments.sizes[k]), "row")
        lines += ["", f"Cluster {k} - {rows} ({percent(share[k])})"]
        margin = model.cluster_margins_[k]
        if np.isfinite(margin):
            lines[-1] += f", margin {nats(margin)} nats"
        selected = np.flatnonzero(differs[k])
        ranked = selected[np.argsort(-gains[k, selected], kind="stable")]
        listed_features = ranked if most is None else [d for d in ranked[:most] if gains[k, d] >= 1.0]
        if not len(listed_features):
            lines.append("  distributed like the whole table")
            continue
        lines.append(f"  {head[0]}  {head[1]}  {head[2]}  {'gain':>7}")
        for d in listed_features:
            gain = float(gains[k, d])
            bar = bar_of(bars * gain / largest, blocks)
            own, of = inside[k][d], everywhere[k][d]
            n = min(fitting(cell, second) for cell in (own, of) if cell)  # the same levels in both columns
            texts = pad(names[d], first), fill(own[:n], second), fill(of[:n], third)
            lines.append(f"  {'  '.join(texts)}  {nats(gain):>7} {bar}".rstrip())
        others = len(ranked) - len(listed_features)
        if others:
            lines.append(f"  and {plural(others, 'feature')} with a smaller gain")
    return lines


def nats(value: float) -> str:
    """ "1,234", "12.3"."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def fewer(steps: Sequence[Any]) -> str:
    """The cost of the next smaller numbers of clusters on a merge path: "Fewer clusters: ..."."""
    costs: list[str] = []
    for step in steps[1 : _STEPS + 1]:
        worse = step.objective - steps[0].objective
        verb = "costs" if step.n_clusters == 1 else "cost"
        unit = "" if costs else " nats"
        more = "more" if worse >= 0 else "less"
        costs.append(f"{step.n_clusters} {verb} {nats(abs(worse))}{unit} {more}")
        if not costs[1:] and 0 <= worse < _TIE:
            costs[0] += " (nearly as good)"
    if not costs:
        return ""
    text = f"Fewer clusters: {', '.join(costs)}" + (", …" if len(steps) > _STEPS + 1 else ".")
    least = min(step.objective for step in steps)
    return text + (" Fewer clusters describe the table better." if least < steps[0].objective else "")


def suggested(model: Any) -> str:
    """The fewest clusters that keep most of the saving, if they are fewer than were found."""
    fewest = model.suggested_n_clusters_
    if fewest >= model.n_clusters_:
        return ""
    return f"{plural(fewest, 'cluster')} {'keeps' if fewest == 1 else 'keep'} {percent(SHARE_KEPT)} of what the best partition saves."


def bar_of(length: float, blocks: str) -> str:
    """A bar of this length in blocks, rounded to the available parts of a block."""
    parts = round(length * len(blocks))
    whole, part = divmod(parts, len(blocks))
    return blocks[-1] * whole + (blocks[part - 1] if part else "")


def cells(moments: Moments, schema: Schema) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Typical values per cluster and input column: in the cluster, and in the whole table.

    Numeric columns: mean ± standard deviation. Categorical columns: the most frequent levels of the cluster, with their shares in the
    cluster and in the whole table.
    """
    grid, total = moments.grid, moments.total()
    inside: list[list[Cell]] = [[[] for _ in schema.columns] for _ in range(moments.n_clusters)]
    everywhere: list[list[Cell]] = [[[] for _ in schema.columns] for _ in inside]
    centres, spreads = _in_units(moments)
    centre, spread = _in_units(total)
    for j, d in enumerate(schema.numeric_index):
        for k, weight in enumerate(moments.present[:, j]):
            everywhere[k][d] = [(typical(centre[0, j], spread[0, j], spread[0, j]), "")]
            if weight > 0:
                inside[k][d] = [(typical(centres[k, j], spreads[k, j], spread[0, j]), "")]
    counts, count = moments.counts, total.counts[0]
    for j, d in enumerate(schema.categorical_index):
        levels = schema.levels[j]
        at = slice(grid.level_start[j], grid.level_start[j] + len(levels))
        for k in range(moments.n_clusters):
            own, of = counts[k, at], counts[k, at] if counts[k, at].any() else count[at]
            order = [t for t in np.argsort(-of, kind="stable")[:LEADING] if of[t] > 0]
            order = order[:1] if of[order[0]] >= 0.995 * of.sum() else order
            if own.any():
                inside[k][d] = _shares(own, levels, order)
            everywhere[k][d] = _shares(count[at], levels, order)
    return inside, everywhere


def _in_units(moments: Moments) -> tuple[Any, Any]:
    """Means and standard deviations, (K, p) each, in the units of the columns."""
    mean, deviations = moments.means()
    variance = deviations / np.maximum(moments.present, 1e-300)
    return moments.grid.centre + mean / moments.grid.scale, np.sqrt(variance) / moments.grid.scale


def _shares(counts: Any, levels: Sequence[Any], order: Sequence[int]) -> Cell:
    return [(name_of(levels[t]), f" {percent(counts[t] / counts.sum())}") for t in order]


def typical(centre: float, around: float, unit: float) -> str:
    """Mean and standard deviation as "54.4 ± 9.1"; `unit` is the standard deviation in the whole table."""
    if abs(centre) < 1e-6 * unit:
        centre = 0.0
    if around < 1e-6 * unit:
        return f"all {_short(centre)}" if unit > 0 else _short(centre)
    return f"{_short(centre)} ± {_short(around)}"


def _short(value: float) -> str:
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def fitting(cell: Cell, room: int) -> int:
    """The number of parts of a cell that fit into the room; at least one, which may be truncated."""
    return next((n for n in range(len(cell), 1, -1) if width(_joined(cell[:n])) <= room), 1)


def _joined(cell: Cell) -> str:
    return ", ".join(cut(name, 20) + rest for name, rest in cell)


def fill(cell: Cell, room: int) -> str:
    """A cell, truncated or padded to exactly the room."""
    if len(cell) > 1:
        return pad(_joined(cell), room)
    name, rest = cell[0] if cell else ("(all missing)", "")
    return pad(cut(name, room - width(rest)) + rest, room)


# ---- comparison with classes ----


def comparison(name: str, target: Any, labels: Any, room: int) -> list[str]:
    """Purity, NMI and the contingency table of clusters and classes, largest cluster first.

    Parameters
    ----------
    name : str
        Name of the target column.
    target : pandas.Series
        Known classes; rows with a missing class are excluded.
    labels : ndarray of int
        Clusters.
    room : int
        Columns of the terminal.
    """
    present = target.notna().to_numpy()
    title = f"Comparison with {cut(name_of(name), 40)!r} (not used for clustering)"
    if not present.any():
        return ["", f"{title}: no value in any row."]
    classes = np.array([str(cell) for cell in target[present]])
    labels = labels[present]
    matrix, names, numbers = metrics.contingency(classes, labels)
    agreement = f"purity {metrics.purity(classes, labels):.3f}"
    if len(names) > 1:
        agreement += f", NMI {metrics.nmi(classes, labels):.3f}"
    lines = ["", f"{title}:", f"  {agreement}"]
    if not present.all():
        without = plural(int((~present).sum()), "row")
        lines[2] += f" ({without} without a value excluded)"
    if len(names) > _MOST_CLASSES:
        return [*lines, f"  {len(names):,} distinct values: too many for a table."]
    return lines + _contingency(matrix, [name_of(c) for c in names], numbers, room)


def _contingency(matrix: Any, names: list[str], numbers: Any, room: int) -> list[str]:
    """The lines of the contingency table; classes that do not fit into the room are summed as "others"."""
    order = np.argsort(-matrix.sum(axis=1), kind="stable")
    matrix, names = matrix[order], [cut(names[i], 16) for i in order]
    digits = len(f"{matrix.sum():,}")
    widths = [max(width(name), digits) + 2 for name in names]
    last = 2 + max(map(width, names)) + 7
    free = room - 2 - 8 - last
    if sum(widths) > free:
        others = max(6, digits) + 2
        n = max(int(np.searchsorted(np.cumsum(widths), free - others, side="right")), 1)
        table = np.concatenate([matrix[:n], matrix[n:].sum(axis=0, keepdims=True)])
        heads, widths = [*names[:n], "others"], [*widths[:n], others]
    else:
        table, heads = matrix, names
    lines = ["", "  cluster " + "".join(_right(h, w) for h, w in zip(heads, widths, strict=True))]
    lines[-1] += "  mostly"
    for k in np.argsort(-matrix.sum(axis=0), kind="stable"):
        best = int(matrix[:, k].argmax())
        counts = "".join(f"{c:>{w},}" for c, w in zip(table[:, k], widths, strict=True))
        most = f"{names[best]} {percent(matrix[best, k] / matrix[:, k].sum())}"
        lines.append(f"  {numbers[k]:>7} {counts}  {most}")
    return lines


def _right(text: str, room: int) -> str:
    return " " * (room - width(text)) + text
