"""Texts and tables laid out by rich, as lines that can be counted."""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from craftc.cli.arguments import clean
from craftc.describe import words
from craftc.describe.columns import Parts

NARROWEST, WIDEST = 60, 160  # columns of a page
_OF_FILES = 100  # columns of a page that no terminal shows
_EIGHTHS = "▏▎▍▌▋▊▉█"  # parts of a block, from one eighth to the whole
LONGEST_LEVEL = 20  # columns of a level that is not the only one of a cell


class PageLayout:
    """Lays out texts, never parsed as markup, and tables: as wide as the terminal, up to 160 columns; 100
    columns wide in files, unless the variable COLUMNS says otherwise.
    """

    def __init__(self, file: TextIO) -> None:
        columns = shutil.get_terminal_size((_OF_FILES, 0)).columns
        self.width = min(max(columns, NARROWEST), WIDEST)
        self._console = Console(
            file=file, width=self.width, markup=False, emoji=False, highlight=False, legacy_windows=False
        )
        self._blocks = _EIGHTHS
        try:
            _EIGHTHS.encode(file.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            self._blocks = "#"

    def lines(self, part: RenderableType, *, wrap: bool = True) -> list[str]:
        """The lines of a text or table, with the colours of a terminal."""
        with self._console.capture() as captured:
            self._console.print(part, crop=False, no_wrap=not wrap, overflow=None if wrap else "ignore")
        return [line.rstrip() for line in captured.get().split("\n")[:-1]]

    def table(self, heads: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> list[str]:
        """The lines of a table; `heads`: every column's, and whether it is aligned to the left."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for head, left in heads:
            table.add_column(Text(head), justify="left" if left else "right", no_wrap=True)
        for cells in rows:
            table.add_row(*map(Text, cells))
        return self.lines(table)

    def bar(self, length: float) -> str:
        """A bar of this length in blocks, rounded to the available parts of a block."""
        whole, part = divmod(round(length * len(self._blocks)), len(self._blocks))
        return self._blocks[-1] * whole + (self._blocks[part - 1] if part else "")

    def text(self, text: str, label: str = "", *, style: str = "", most: int | None = None) -> list[str]:
        """A text after a label, wrapped and indented under its first word; of many lines the first ones."""
        parts = clean(text).split()

        def first(n: int) -> list[str]:
            return self._wrapped(" ".join(parts[:n]) + (" …" if n < len(parts) else ""), label, style)

        return _longest(first, len(parts), most)

    def _wrapped(self, text: str, label: str, style: str = "") -> list[str]:
        grid = Table.grid(padding=(0, 1, 0, 0))
        if label:
            grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold", max_width=self.width - (cell_len(label) + 1 if label else 0))
        grid.add_row(*([Text(label, style=style)] if label else []), Text(text, style=style))
        return self.lines(grid)

    def unbroken(self, text: str, *, style: str = "") -> list[str]:
        """A text in one line, as wide as it is: paths stay whole."""
        return self.lines(Text(clean(text), style=style), wrap=False)

    def names(self, label: str, names: Sequence[str], *, most: int | None = None) -> list[str]:
        """``label name, name, ...``, wrapped; of many names as many as fit into `most` lines."""
        room = self.width - cell_len(label) - 1
        if room < self.width // 2:  # a long label has its own line
            return [label, *self.names(" " * 5, names, most=most)]
        listed = [words.clean(name) for name in (names if most is None else names[: most * room])]
        listed = words.distinct(listed, room - 2, cell_len)

        def first(n: int) -> list[str]:
            more = f" and {len(names) - n:,} more" if n < len(names) else ""
            return self._wrapped(", ".join(listed[:n]) + more, label)

        return _longest(first, len(listed), most)

    def levels(self, parts: Parts, room: int) -> str:
        """A cell of a table within the room: as many of its parts as fit, whose names may be truncated."""
        n = fitting(parts, room)
        if n > 1:
            return _joined(parts[:n])
        name, share = parts[0] if parts else (words.NO_VALUES, None)
        rest = "" if share is None else words.after(name, share)
        return shortened(name, room - cell_len(rest)) + rest


def _longest(first: Callable[[int], list[str]], n: int, most: int | None) -> list[str]:
    """The lines of all n parts, or of as many of the first ones as fit into `most` lines; at least one."""
    lines = first(n)
    if most is None or len(lines) <= most:
        return lines
    return first(max(bisect_right(range(1, n), most, key=lambda i: len(first(i))), 1))


def shortened(text: str, room: int) -> str:
    """The text; if it is wider than the room, its beginning and its end."""
    return words.shortened(text, room, cell_len)


def fitting(parts: Parts, room: int) -> int:
    """The number of parts of a cell that fit into the room; at least one, which may be truncated."""
    return next((n for n in range(len(parts), 1, -1) if cell_len(_joined(parts[:n])) <= room), 1)


def _joined(parts: Parts) -> str:
    return ", ".join(
        shortened(name, LONGEST_LEVEL if len(parts) > 1 else words.LONGEST)
        + ("" if share is None else words.after(name, share))
        for name, share in parts
    )
