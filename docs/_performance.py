"""Generates the performance page from benches/peers/README.md: its text and tables, and a bar chart for every
table with times.

This module contains no measured values. Tables added to that file, or removed from it, change the page with
the next build.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_PEERS = re.compile(r"scikit-learn|faiss|pdc|numpy|scipy|ecos|clarabel|cvxpy|lbfgs|newton", re.I)
_OURS = re.compile(r"\bcraftc\b|\bours\b|\bcertified\b|\badmm\b|\bpath\b|one penalty", re.I)
_FLOOR = re.compile(r"\bfloor\b", re.I)
_NO_TIME = re.compile(
    r"objective|ratio|^of "
    r"|difference|penalty$|penalties|steps|^iterations$|^threads$|^rows$|gap|evidence|^[JK]$",
    re.I,
)
_MACHINE = re.compile(r"(?:two \w+ cores of an? (?:older )?)?(?:AMD EPYC|Intel Xeon)(?:,? \([^)]*\))?", re.I)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
# ratio of the largest to the smallest time above which points on a logarithmic axis replace bars: a bar must
# begin at 0
_SPREAD = 60.0
_COLOURS = {"ours": "#0072B2", "peer": "#B8B8B8", "floor": "#222222"}
_LIGHTER = 0.45
_LABEL = 48  # characters in a line of a label


@dataclass
class Table:
    """A table of the file, unchanged."""

    header: list[str]
    rows: list[list[str]]


@dataclass
class Section:
    """The content under a heading: paragraphs and code as text, and tables."""

    level: int
    title: str
    parts: list[str | Table] = field(default_factory=list)


@dataclass
class Series:
    """The times of one column in seconds, NaN if absent.

    A range has ends, and a time only if its median is given.
    """

    name: str
    seconds: list[float]
    ends: list[tuple[float, float]]


def sections_of(text: str) -> list[Section]:
    """Split the file at its headings."""
    sections: list[Section] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        heading = re.match(r"(#+) (.*)", block)
        if heading:
            sections.append(Section(len(heading[1]), heading[2].strip()))
        elif block.startswith("|"):
            lines = [_cells(line) for line in block.splitlines()]
            sections[-1].parts.append(Table(lines[0], lines[2:]))
        else:
            sections[-1].parts.append(block)
    return sections


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def kind(name: str) -> str:
    """The owner of the times of a row or column: "floor" (the machine's limit), "peer" (another package) or
    "ours".
    """
    if _FLOOR.search(name):
        return "floor"
    ours, peer = _OURS.search(name), _PEERS.search(name)
    return "peer" if peer and not (ours and ours.start() < peer.start()) else "ours"


def value_of(cell: str) -> tuple[float, tuple[float, float], str]:
    """The number in a cell, the ends of its range, and its unit, if any: "16 to 40", "27-53, median 37", "4.1
    s, 2 threads 2.7 s".
    """
    found = re.match(rf"({_NUMBER})(?:\s*(?:-|to)\s*({_NUMBER}))?(?:\s+(s|ms)\b)?", cell)
    if not found:
        return np.nan, (np.nan, np.nan), ""
    low, high = float(found[1]), float(found[2] or found[1])
    median = re.search(rf"median ({_NUMBER})", cell)
    middle = float(median[1]) if median else low if low == high else np.nan
    return middle, (low, high), found[3] or ""


def _unit_of(header: str, words: str) -> str:
    """The unit given by the name of a column or by the paragraph above the table."""
    if _NO_TIME.search(header):
        return ""
    if re.search(r"\bseconds\b|(?:^|[:,]) ?s$", header):
        return "s"
    if re.search(r"\bms\b", header):
        return "ms"
    named = _OURS.search(header) or _PEERS.search(header) or _FLOOR.search(header)
    return "ms" if named and "milliseconds" in words else ""


def _full_names(header: list[str]) -> list[str]:
    """Column names with the part before a colon, which a column without one inherits from the column to its
    left.
    """
    names, group = [], ""
    for word in header:
        before, colon, after = word.partition(": ")
        group = before if colon else group
        short = (after if colon else word) in ("s", "ms", "seconds")
        names.append(group if short and group else word)
    return names


def times(table: Table, words: str) -> list[Series]:
    """The columns that contain times. `words`: the paragraph above the table."""
    names, found = _full_names(table.header), []
    parsed = [[value_of(cell) for cell in row] for row in table.rows]
    for j, header in enumerate(table.header):
        if j == 0 or _NO_TIME.search(header):
            continue
        unit = _unit_of(header, words)
        named = _OURS.search(header) or _PEERS.search(header) or _FLOOR.search(header)
        seconds, ends = [], []
        for row in parsed:
            # the unit of the cell, of its column, or (columns of programs) the first unit in its row
            own = row[j][2] or unit or (next((cell[2] for cell in row if cell[2]), "") if named else "")
            scale = {"s": 1.0, "ms": 1e-3}.get(own, np.nan)
            seconds.append(row[j][0] * scale)
            ends.append((row[j][1][0] * scale, row[j][1][1] * scale))
        if np.isfinite(ends).any():
            found.append(Series(names[j], seconds, ends))
    return found


def labels_of(table: Table, columns: int) -> list[str]:
    """A unique name for every row: its first cell, and the next ones if needed."""
    labels = [row[0] for row in table.rows]
    for j in range(1, columns):
        if len(set(labels)) == len(labels):
            break
        labels = [
            f"{label}, {table.header[j]} {row[j]}" for label, row in zip(labels, table.rows, strict=True)
        ]
    return labels


def wrapped(label: str) -> str:
    """A label without backticks, in lines that leave room for the bars."""
    return textwrap.fill(label.replace("`", ""), _LABEL, break_long_words=False)


def draw(table: Table, series: list[Series], floor: tuple[str, float] | None, path: Path) -> None:
    """Draw the times of a table as bars, or as points on a logarithmic axis if their ratio is large."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    labels = labels_of(table, len(table.header))
    shown = [wrapped(label) for label in labels]
    height = max(0.24, 0.173 * len(series), *(0.16 * len(label.splitlines()) for label in shown))
    by_column = any(_OURS.search(one.name) or _PEERS.search(one.name) for one in series)
    everything = np.array(
        [(seconds, *ends) for one in series for seconds, ends in zip(one.seconds, one.ends, strict=True)]
    )
    seen = everything[np.isfinite(everything)]
    unit, scale = ("s", 1.0) if seen.max() >= 1 else ("ms", 1e3)
    seen = seen * scale
    far = bool(seen.max() > _SPREAD * seen.min())
    thick = 0.8 / len(series)
    style = {
        "font.size": 9,
        "svg.hashsalt": "craftc",
        "svg.fonttype": "path",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(figsize=(8.0, 0.9 + height * len(labels)), layout="constrained")
        used: set[str] = set()
        for s, one in enumerate(series):
            for i, seconds in enumerate(one.seconds):
                if not np.isfinite(one.ends[i]).all():
                    continue
                of, length, ends = (
                    kind(one.name if by_column else labels[i]),
                    seconds * scale,
                    np.array(one.ends[i]) * scale,
                )
                used.add(of)
                place, colour = i + (s - (len(series) - 1) / 2) * thick, _COLOURS[of]
                words = (
                    format_time(seconds)
                    if np.isfinite(seconds)
                    else " to ".join(map(format_time, one.ends[i]))
                )
                words = f" {one.name}: {words}" if by_column else f" {words}"
                if ends[0] < ends[1]:
                    axes.plot(ends, [place, place], color="black", linewidth=1.0, zorder=3)
                if far:
                    filled = by_column or s == 0
                    axes.plot(
                        length,
                        place,
                        "o",
                        color=colour,
                        markersize=6,
                        markerfacecolor=colour if filled else "white",
                    )
                else:
                    axes.barh(
                        place,
                        length,
                        thick * 0.92,
                        color=colour,
                        alpha=1.0 if by_column or s == 0 else _LIGHTER,
                    )
                axes.annotate(
                    words,
                    (ends[1], place),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7.5,
                )
        axes.set_yticks(range(len(labels)), shown)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        for i in range(1, len(labels)) if by_column else ():
            axes.axhline(i - 0.5, color="0.9", linewidth=0.8, zorder=0)
        if far:
            axes.set_xscale("log")
            axes.set_xlim(seen.min() / 1.6, seen.max() * 12)
        else:
            axes.set_xlim(0, seen.max() * (1.45 if by_column else 1.12))
        axes.set_xlabel(f"{unit}, logarithmic" if far else unit)
        names = {"ours": "craftc", "peer": "others", "floor": "floor: the machine's limit"}
        keys: list[Patch | Line2D] = [
            Patch(color=_COLOURS[of], label=names[of]) for of in ("ours", "peer", "floor") if of in used
        ]
        if not by_column and len(series) > 1:
            for one in series:
                first = one is series[0]
                if far:
                    fill = "0.4" if first else "white"
                    dot = {"marker": "o", "linestyle": "none", "color": "0.4", "markerfacecolor": fill}
                    keys.append(Line2D([], [], label=one.name, **dot))
                else:
                    keys.append(Patch(color="0.4", alpha=1.0 if first else _LIGHTER, label=one.name))
        if floor:
            axes.axvline(floor[1] * scale, color=_COLOURS["floor"], linewidth=1.0, linestyle="--")
            keys.append(
                Line2D(
                    [],
                    [],
                    color=_COLOURS["floor"],
                    linestyle="--",
                    label=f"{floor[0]}: {format_time(floor[1])}",
                )
            )
        figure.legend(
            handles=keys, loc="outside lower center", ncols=min(len(keys), 5), frameon=False, fontsize=8
        )
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def format_time(seconds: float) -> str:
    """A time with its unit, s or ms."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _floor_in(title: str) -> tuple[str, float] | None:
    """The floor named in a heading."""
    found = re.search(rf"(floor(?: of a pass)?) ({_NUMBER}) (ms|s)\b", title)
    return (found[1], float(found[2]) * {"s": 1.0, "ms": 1e-3}[found[3]]) if found else None


def as_table(table: Table) -> str:
    """The table in Markdown."""
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def machine_in(words: str) -> str:
    """The first machine that a paragraph names."""
    found = None if words.startswith("```") else _MACHINE.search(re.sub(r"\s+", " ", words))
    return found[0][0].upper() + found[0][1:] if found else ""


def page(text: str, pictures: Path | None = None) -> str:
    """The page in MyST. `pictures`: output folder of the charts; None: no charts."""
    sections = sections_of(text)
    out: list[str] = []
    dated, machine, number = "", "", 0
    for section in sections:
        if section.level > 1:
            out.append(f"{'#' * section.level} {section.title}")
        if section.level == 2:
            dated, machine = section.title, ""
        words = ""
        for part in section.parts:
            if isinstance(part, str):
                words = part
                machine = machine_in(part) or machine
                out.append(part)
                continue
            series = times(part, words)
            if series:
                number += 1
                name = f"{number:02}.svg"
                if pictures is not None:
                    draw(part, series, _floor_in(section.title), pictures / name)
                own = section.level == 2 or _DATE.search(section.title)
                above = section.title if own else f"{dated}. {section.title}"
                caption = f"{above}: the times of the table below." + (f" {machine}." if machine else "")
                options = ":alt: Times of the table below as bars\n:width: 100%"
                out.append(f":::{{figure}} /generated/performance/{name}\n{options}\n\n{caption}\n:::")
            out.append(as_table(part))
    return "\n\n".join(out) + "\n"


def write(source: Path, folder: Path) -> None:
    """Write performance.md and its charts if the source is newer."""
    write_page(source, folder / "performance.md", page, __file__)


def write_page(source: Path, target: Path, make: Callable[[str, Path], str], *programs: str) -> None:
    """Write what `make` returns for the text of the source, and the charts that it draws, if the source or a
    program is newer.

    The charts are in a folder of the name of the target.
    """
    pictures = target.with_suffix("")
    newest = max(Path(path).stat().st_mtime for path in (source, *programs))
    if target.exists() and target.stat().st_mtime >= newest:
        return
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    target.write_text(make(source.read_text(encoding="utf-8"), pictures), encoding="utf-8")
