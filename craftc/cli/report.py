"""What the command line prints: clusters and comparisons as text of a given width."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from craftc import metrics
from craftc.craft.summary import LEADING
from craftc.table import Schema
from craftc.table.cluster_summary import number
from craftc.table.moments import Moments

Cell = list[tuple[str, str]]  # parts of a cell: what may be cut short, and what follows it

#: Parts of a block, from one eighth to the whole.
EIGHTHS = "▏▎▍▌▋▊▉█"

_BAR = 10
_STEPS = 4  # of the merge path
_TIE = 5.0  # nats
_MOST_CLASSES = 50


# ---- text ----


def clean(text: Any) -> str:
    """Text for one line of a terminal: no line ends, no control characters."""
    shown = " ".join(str(text).split())
    return "".join(c if c.isprintable() else "\ufffd" for c in shown) or "''"


def width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def cut(text: str, room: int) -> str:
    """The text, cut short with … if it is wider than the room."""
    if width(text) <= room:
        return text
    while text and width(text) > room - 1:
        text = text[:-1]
    return text + "…"


def pad(text: str, room: int) -> str:
    """The text, cut or filled up with spaces to exactly the room."""
    text = cut(text, room)
    return text + " " * (room - width(text))


def listed(label: str, names: Sequence[str], room: int) -> list[str]:
    """Lines of ``label name, name, ...``, folded at the room and indented under the first name."""
    indent = " " * (len(label) if len(label) <= room // 2 else 5)
    lines = [label] if len(indent) == len(label) else [label, indent]
    for i, name in enumerate(names):
        word = cut(clean(name), room - len(indent) - 2) + ("," if i < len(names) - 1 else "")
        if width(lines[-1]) + 1 + width(word) > room and lines[-1].strip():
            lines.append(indent)
        lines[-1] += " " + word
    return lines


def plural(count: int, one: str, many: str = "") -> str:
    """ "1 row", "1,200 rows"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def percent(share: float) -> str:
    """59 %; never 0 % or 100 % for what is not nothing or all."""
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


# ---- clusters ----


def clusters(model: Any, room: int, *, most: int | None, blocks: str = "#") -> list[str]:
    """A block of lines per cluster, largest first.

    Parameters
    ----------
    model : CRAFT
        Fitted.
    room : int
        Columns of the terminal.
    most : int or None
        Features per cluster; None: all it selected.
    blocks : str
        Parts of a block, the smallest first and the full one last, of which bars are made.
    """
    schema, moments = model.schema_, model._moments_original_units
    inside, everywhere = cells(moments, schema)
    share = moments.sizes / moments.sizes.sum()
    gains = np.where(model.feature_mask_, model.feature_gains_, 0.0)
    largest = max(float(gains.max(initial=0.0)), 1e-300)
    names = [clean(name) for name in schema.columns]
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
            words = f", {nats(margin)} nats inside", " on average"
            lines[-1] += "".join(words if width(lines[-1] + "".join(words)) <= room else words[:1])
        chosen = np.flatnonzero(model.feature_mask_[k])
        ranked = chosen[np.argsort(-gains[k, chosen], kind="stable")]
        shown = ranked if most is None else [d for d in ranked[:most] if gains[k, d] >= 1.0]
        if not len(shown):
            lines.append("  no feature of its own: it is like the whole table")
            continue
        lines.append(f"  {head[0]}  {head[1]}  {head[2]}  {'gain':>7}")
        for d in shown:
            gain = float(gains[k, d])
            bar = bar_of(bars * gain / largest, blocks)
            own, of = inside[k][d], everywhere[k][d]
            n = min(fitting(cell, second) for cell in (own, of) if cell)  # the same levels in both
            texts = pad(names[d], first), fill(own[:n], second), fill(of[:n], third)
            lines.append(f"  {'  '.join(texts)}  {nats(gain):>7} {bar}".rstrip())
        left = len(ranked) - len(shown)
        if left:
            lines.append(f"  and {plural(left, 'feature')} of smaller gain")
    return lines


def nats(value: float) -> str:
    """ "1,234", "12.3"."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def fewer(steps: Sequence[Any]) -> str:
    """What the next smaller numbers of clusters cost, by a merge path: "Fewer clusters: ..."."""
    said: list[str] = []
    for step in steps[1 : _STEPS + 1]:
        worse = step.objective - steps[0].objective
        verb = "costs" if step.n_clusters == 1 else "cost"
        unit = "" if said else " nats"
        more = "more" if worse >= 0 else "less"
        said.append(f"{step.n_clusters} {verb} {nats(abs(worse))}{unit} {more}")
        if not said[1:] and 0 <= worse < _TIE:
            said[0] += " (nearly as good)"
    if not said:
        return ""
    text = f"Fewer clusters: {', '.join(said)}" + (", …" if len(steps) > _STEPS + 1 else ".")
    least = min(step.objective for step in steps)
    return text + (" So fewer describe the table better." if least < steps[0].objective else "")


def bar_of(length: float, blocks: str) -> str:
    """A bar of so many blocks, rounded to the parts there are."""
    parts = round(length * len(blocks))
    whole, part = divmod(parts, len(blocks))
    return blocks[-1] * whole + (blocks[part - 1] if part else "")


def cells(moments: Moments, schema: Schema) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Per cluster and input column what is typical in it, and the same of the whole table.

    Numbers: mean ± standard deviation. Categories: the leading levels of the cluster and their
    shares, there and in the whole table.
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
    """(K, p) means and standard deviations in the columns' own units."""
    mean, deviations = moments.means()
    variance = deviations / np.maximum(moments.present, 1e-300)
    return moments.grid.centre + mean / moments.grid.scale, np.sqrt(variance) / moments.grid.scale


def _shares(counts: Any, levels: Sequence[Any], order: Sequence[int]) -> Cell:
    return [(clean(levels[t]), f" {percent(counts[t] / counts.sum())}") for t in order]


def typical(centre: float, around: float, unit: float) -> str:
    """ "54.4 ± 9.1" of a column whose standard deviation in the whole table is `unit`."""
    if abs(centre) < 1e-6 * unit:
        centre = 0.0
    if around < 1e-6 * unit:
        return f"all {_short(centre)}" if unit > 0 else _short(centre)
    return f"{_short(centre)} ± {_short(around)}"


def _short(value: float) -> str:
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def fitting(cell: Cell, room: int) -> int:
    """How many parts of a cell fit into the room; at least one, which is cut short if it must."""
    return next((n for n in range(len(cell), 1, -1) if width(_joined(cell[:n])) <= room), 1)


def _joined(cell: Cell) -> str:
    return ", ".join(cut(name, 20) + rest for name, rest in cell)


def fill(cell: Cell, room: int) -> str:
    """A cell of exactly the room."""
    if len(cell) > 1:
        return pad(_joined(cell), room)
    name, rest = cell[0] if cell else ("(all missing)", "")
    return pad(cut(name, room - width(rest)) + rest, room)


# ---- comparison with classes ----


def comparison(name: str, target: Any, labels: Any, room: int) -> list[str]:
    """Purity, NMI and the table clusters x classes, largest cluster first.

    Parameters
    ----------
    name : str
        Of the target column.
    target : pandas.Series
        Classes; rows without one are left out.
    labels : ndarray of int
        Clusters.
    room : int
        Columns of the terminal.
    """
    present = target.notna().to_numpy()
    title = f"Compared with {cut(clean(name), 40)!r}, which took no part in the clustering"
    if not present.any():
        return ["", f"{title}: it has no value in any row."]
    classes = np.array([str(cell) for cell in target[present]])
    labels = labels[present]
    matrix, names, numbers = metrics.contingency(classes, labels)
    agreement = f"purity {metrics.purity(classes, labels):.3f}"
    if len(names) > 1:
        agreement += f", NMI {metrics.nmi(classes, labels):.3f}"
    lines = ["", f"{title}:", f"  {agreement}"]
    if not present.all():
        without = plural(int((~present).sum()), "row")
        lines[2] += f" ({without} without a value left out)"
    if len(names) > _MOST_CLASSES:
        return [*lines, f"  {len(names):,} different values: too many for a table."]
    return lines + _contingency(matrix, [clean(c) for c in names], numbers, room)


def _contingency(matrix: Any, names: list[str], numbers: Any, room: int) -> list[str]:
    """Lines of the table; classes that do not fit beside each other are summed up as "others"."""
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
