"""Generates the growth part of the performance page from benches/growth.md: its text and tables, and a
log-log plot per table of times.

This module contains no measured values.
"""

from __future__ import annotations

from pathlib import Path

import _performance
import numpy as np
from _performance import Table, as_table, sections_of, write_page

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osv^D"


def curves(table: Table) -> list[tuple[str, list[tuple[int, float]], str]]:
    """(name, points of size and seconds, slope) of every row, from columns whose names are sizes."""
    sizes = [int(name.replace(",", "")) for name in table.header[1:-1]]
    found = []
    for name, *cells, slope in table.rows:
        points = [(size, float(cell)) for size, cell in zip(sizes, cells, strict=True) if cell != "-"]
        found.append((name.strip("`"), points, slope))
    return found


def draw(table: Table, axis: str, path: Path) -> None:
    """Draw seconds against sizes on logarithmic axes, with a line of slope 1 for comparison."""
    import matplotlib.pyplot as plt

    style = {
        "font.size": 9,
        "svg.hashsalt": "craftc",
        "svg.fonttype": "path",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(figsize=(8.0, 4.2), layout="constrained")
        for i, (name, points, slope) in enumerate(curves(table)):
            marker, colour = _MARKERS[i // len(_COLOURS)], _COLOURS[i % len(_COLOURS)]
            axes.plot(
                *zip(*points, strict=True),
                marker=marker,
                color=colour,
                markersize=4,
                linewidth=1.3,
                label=f"{name}: {slope}",
            )
        sizes, seconds = np.array([point for _, points, _ in curves(table) for point in points]).T
        ends = np.array([sizes.min(), sizes.max()])
        axes.plot(
            ends,
            seconds.min() * ends / ends[0],
            color="0.6",
            linestyle="--",
            linewidth=1.0,
            label="proportional: 1",
        )
        axes.set(xscale="log", yscale="log", xlabel=f"number of {axis}", ylabel="CPU seconds")
        axes.set_ylim(seconds.min() / 2, seconds.max() * 2)
        figure.legend(
            loc="outside right upper", frameon=False, fontsize=8, title="fit: slope", alignment="left"
        )
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def page(text: str, pictures: Path | None = None) -> str:
    """The part in MyST. `pictures`: output folder of the plots; None: no plots."""
    out: list[str] = []
    for section in sections_of(text):
        if section.level > 1:
            out.append(f"{'#' * section.level} {section.title}")
        for part in section.parts:
            if isinstance(part, str):
                out.append(part)
                continue
            if part.header[-1] == "slope":
                axis = section.title.split()[-1]
                if pictures is not None:
                    draw(part, axis, pictures / f"growth-{axis}.svg")
                options = f":alt: CPU seconds against the number of {axis}, logarithmic axes\n:width: 100%"
                out.append(
                    f":::{{figure}} /generated/growth/growth-{axis}.svg\n{options}\n\nThe times of the "
                    "table below.\n:::"
                )
            out.append(as_table(part))
    return "\n\n".join(out) + "\n"


def write(source: Path, folder: Path) -> None:
    """Write growth.md and its plots if the source is newer."""
    write_page(source, folder / "growth.md", page, __file__, _performance.__file__)
