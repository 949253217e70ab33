"""A Table 1: every column by cluster and in all rows, as frame, HTML, LaTeX, Word and Excel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from craftc._common.atomic_write import replacing
from craftc._common.estimator import output_frame
from craftc._common.typing import Floats, OutputFrame
from craftc.describe.association import holm
from craftc.describe.columns import NumericColumn, PeriodicColumn, typical_text
from craftc.describe.profile import ColumnFigures
from craftc.describe.sheets import text_cell
from craftc.describe.words import clean, count, percent, plural
from craftc.table.personal import HIDDEN

_MOST_LEVELS = 20  # of a column; rarer ones are one line
_LEAST_P = 0.001  # p values below are not written out
_ALL = "all"
_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "{}$&#%_"},
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "–": "--",
}
_STYLE = """
.craftc-profile table {border-collapse: collapse; font-family: sans-serif; font-size: .92em}
.craftc-profile th, .craftc-profile td {text-align: left; vertical-align: top; padding: .2em .8em .2em 0}
.craftc-profile thead th, .craftc-profile .first {border-top: 1px solid rgba(128, 128, 128, .5)}
.craftc-profile td {white-space: nowrap; font-variant-numeric: tabular-nums}
.craftc-profile .level {font-weight: normal; padding-left: 1.2em; max-width: 24em; overflow-wrap: anywhere}
.craftc-profile p {font-family: sans-serif; font-size: .85em; margin: .3em 0; max-width: 60em}
"""


@dataclass(frozen=True)
class _Line:
    """A line of the table: a column, or one of its statistics or levels."""

    column: str
    statistic: str
    cells: tuple[str, ...]  # of the groups
    effect: str = ""
    test: str = ""
    p_value: str = ""


@dataclass(frozen=True, repr=False)
class Profile:
    """Every column by cluster and in all rows: a Table 1; the result of ``CRAFT.profile``.

    `str(profile)` is the table as text; in a notebook it is shown as HTML.

    Attributes
    ----------
    notes : list of str
        What stands below the table.
    frame : pandas.DataFrame, or polars.DataFrame where `fit` received one
        The table as texts: ``column``, ``statistic``, ``all``, one column for each cluster, the largest
        first, ``effect size`` and, with `also`, ``test`` and ``p (Holm)``.
    figures : data frame of the same library
        The numbers without rounding, one a row: ``column``, ``level`` (empty for numbers), ``statistic``
        ("n", "share", "mean", "sd", "q1", "median", "q3", "missing", "effect size", "p", "p (Holm)"),
        ``cluster`` (its label, or "all") and ``value``.
    """

    columns: Sequence[ColumnFigures] = field(repr=False)
    sizes: Floats  # (K + 1,)
    order: Sequence[int]  # labels of the clusters as they are shown
    headings: Sequence[str]  # (K,) of the clusters by label
    notes: list[str]
    library: str | None

    def __repr__(self) -> str:
        return f"Profile({plural(len(self.columns), 'column')}, {plural(len(self.order), 'cluster')})"

    def __str__(self) -> str:
        head, rows = self._head, [self._texts(line) for line in self._lines]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in [head, *rows]]
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        return self.to_html()

    # ---- the lines ----

    @property
    def _groups(self) -> list[int]:
        """Positions of the groups as they are shown: all rows, then the clusters."""
        return [-1, *self.order]

    @cached_property
    def _tested(self) -> bool:
        return any(column.test for column in self.columns)

    @cached_property
    def _holm(self) -> Floats:
        """(D,) adjusted p values; NaN of columns without a test."""
        return holm(np.array([column.p_value for column in self.columns]))

    @cached_property
    def _head(self) -> list[str]:
        tests = ["test", "p (Holm)"] if self._tested else []
        return ["column", "statistic", _ALL, *(self.headings[k] for k in self.order), "effect size", *tests]

    def _texts(self, line: _Line) -> list[str]:
        tests = [line.test, line.p_value] if self._tested else []
        return [line.column, line.statistic, *line.cells, line.effect, *tests]

    @cached_property
    def _lines(self) -> list[_Line]:
        whole = max(float(self.sizes[-1]), 1e-300)
        sizes = tuple(_n_percent(self.sizes[g], self.sizes[g] / whole) for g in self._groups)
        lines = [_Line("rows", "n (%)", sizes)]
        for column, adjusted in zip(self.columns, self._holm.tolist(), strict=True):
            parts = self._of_number(column) if not column.counts.shape[1] else self._of_levels(column)
            if column.missing[-1] > 0:
                cells = (
                    _n_percent(column.missing[g], column.missing[g] / max(float(self.sizes[g]), 1e-300))
                    for g in self._groups
                )
                parts.append(("missing, n (%)", tuple(cells)))
            effect = f"{column.effect_name} {_effect_text(column.effect)}"
            p_value = ("–" if np.isnan(adjusted) else _p_text(adjusted)) if column.test else ""
            (first, shown), *rest = parts
            lines.append(_Line(column.name, first, shown, effect, column.test, p_value))
            lines += [_Line("", statistic, texts) for statistic, texts in rest]
        return lines

    def _of_number(self, column: ColumnFigures) -> list[tuple[str, tuple[str, ...]]]:
        of = column.statistics
        assert isinstance(of, NumericColumn)
        means = tuple(typical_text(of.typical(g)) for g in self._groups)
        if isinstance(of, PeriodicColumn):
            return [("mean direction ± SD", means)]
        texts = [[of.text(float(x)) for x in of.quartiles[g]] for g in self._groups]
        medians = tuple(f"{median} ({low} to {high})" for low, median, high in texts)
        return [("mean ± SD", means), ("median (quartiles)", medians)]

    def _of_levels(self, column: ColumnFigures) -> list[tuple[str, tuple[str, ...]]]:
        levels, K = column.shown_levels, len(self._groups)
        if column.personal:
            return [(f"{HIDDEN}: {plural(len(levels), 'level')}", ("",) * K)]
        own = levels if len(levels) <= _MOST_LEVELS + 1 else levels[:_MOST_LEVELS]
        parts = [([t], column.statistics.texts[t]) for t in own]  # type: ignore[union-attr]
        if rest := levels[len(own) :]:
            parts.append((rest, f"{len(rest)} other levels"))
        lines = []
        for at, text in parts:
            n = column.counts[:, at].sum(axis=1)
            share = n / np.maximum(column.present, 1e-300)
            lines.append((text, tuple(_n_percent(n[g], share[g]) for g in self._groups)))
        return [("n (%)", ("",) * K), *lines]

    @cached_property
    def frame(self) -> OutputFrame:
        """The table as texts."""
        rows, name = [], ""
        for line in self._lines:
            name = line.column or name
            rows.append([name, *self._texts(line)[1:]])
        cells = zip(*rows, strict=True)
        table = {head: list(column) for head, column in zip(self._head, cells, strict=True)}
        return output_frame(table, self.library, {"notes": self.notes})

    @cached_property
    def figures(self) -> OutputFrame:
        """The numbers without rounding."""
        rows: list[tuple[str, str, str, str, float]] = []
        names = {g: _ALL if g < 0 else str(g) for g in self._groups}

        def add(column: str, level: str, statistic: str, values: Floats) -> None:
            rows.extend((column, level, statistic, name, float(values[g])) for g, name in names.items())

        add("rows", "", "n", self.sizes)
        add("rows", "", "share", self.sizes / max(float(self.sizes[-1]), 1e-300))
        for column, adjusted in zip(self.columns, self._holm.tolist(), strict=True):
            of = column.statistics
            if isinstance(of, NumericColumn):
                add(column.name, "", "n", column.present)
                add(column.name, "", "mean", of.means)
                add(column.name, "", "sd", of.deviations)
                if not isinstance(of, PeriodicColumn):
                    for i, statistic in enumerate(("q1", "median", "q3")):
                        add(column.name, "", statistic, of.quartiles[:, i])
            elif not column.personal:
                for t in column.shown_levels:
                    add(column.name, of.texts[t], "n", column.counts[:, t])
                    add(column.name, of.texts[t], "share", of.shares[:, t])
            add(column.name, "", "missing", column.missing)
            rows.append((column.name, "", "effect size", _ALL, column.effect))
            if column.test:
                rows.append((column.name, "", "p", _ALL, column.p_value))
                rows.append((column.name, "", "p (Holm)", _ALL, adjusted))
        heads = ("column", "level", "statistic", "cluster", "value")
        return output_frame(dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True)), self.library)

    # ---- files ----

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as a fragment of HTML; with a path, a page of UTF-8 is written there, too.

        Raises
        ------
        OSError
            The file cannot be written.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> CRAFT(random_state=0).fit(heart).profile(heart).to_html().count("<table>")
        1
        """
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        text = f'<div class="craftc-profile"><style>{_STYLE}</style>{self._html_table()}{notes}</div>'
        page = f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Clusters</title>{text}</html>\n'
        _write(path, page)
        return text

    def _html_table(self) -> str:
        """The table without style and notes, for reports, too."""
        head = "".join(f'<th scope="col">{escape(text)}</th>' for text in self._head)
        body = []
        for line in self._lines:
            column, statistic, *cells = (f"<bdi>{escape(text)}</bdi>" for text in self._texts(line))
            values = "".join(f"<td>{cell}</td>" for cell in cells)
            body.append(
                f'<tr class="first"><th scope="row">{column}</th><td>{statistic}</td>{values}</tr>'
                if line.column
                else f'<tr><td></td><th scope="row" class="level">{statistic}</th>{values}</tr>'
            )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"

    def to_latex(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as a ``tabular`` of LaTeX with rules of booktabs; with a path it is written there, too.

        Notes follow as comments, for the caption. Raises OSError if the file cannot be written.
        """
        n_cells = len(self._head) - 2
        body = [r"\begin{tabular}{ll" + "l" * n_cells + "}", r"\toprule", _latex_row(self._head), r"\midrule"]
        for i, line in enumerate(self._lines):
            if line.column and i:
                body.append(r"\addlinespace")
            body.append(_latex_row(self._texts(line)))
        body += [r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in self.notes)]
        text = "\n".join(body) + "\n"
        _write(path, text)
        return text

    def to_word(self, path: str | os.PathLike[str]) -> None:
        """Write the table as a Word document (.docx).

        Raises
        ------
        ImportError
            python-docx is missing: ``pip install 'craftc[word]'``.
        OSError
            The file cannot be written.
        """
        try:
            from docx import Document
        except ImportError as error:
            raise ImportError("Word documents need python-docx: pip install 'craftc[word]'.") from error
        document: Any = Document()
        section = document.sections[0]
        section.page_width, section.page_height = section.page_height, section.page_width
        section.orientation = 1  # landscape
        table = document.add_table(rows=0, cols=len(self._head), style="Table Grid")
        for i, texts in enumerate([self._head, *map(self._texts, self._lines)]):
            for j, (cell, text) in enumerate(zip(table.add_row().cells, texts, strict=True)):
                run = cell.paragraphs[0].add_run(text)
                run.bold = i == 0 or j == 0
        for note in self.notes:
            document.add_paragraph(note)
        _save(path, document.save)

    def to_excel(self, path: str | os.PathLike[str]) -> None:
        """Write the table as an Excel file (.xlsx): one sheet with the texts, one with the figures.

        Raises
        ------
        ImportError
            openpyxl is missing: ``pip install 'craftc[app]'``.
        OSError
            The file cannot be written.
        """
        try:
            from openpyxl import Workbook  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("Excel files need openpyxl: pip install 'craftc[app]'.") from error
        book = Workbook(write_only=True)
        sheet, numbers = book.create_sheet("profile"), book.create_sheet("figures")
        for texts in [self._head, *map(self._texts, self._lines), *([note] for note in self.notes)]:
            sheet.append([text_cell(sheet, text) for text in texts])
        figures: Any = self.figures
        numbers.append([text_cell(numbers, str(name)) for name in figures.columns])
        for *texts, value in zip(*(figures[name].to_list() for name in figures.columns), strict=True):
            finite = value is not None and np.isfinite(value)
            numbers.append([*(text_cell(numbers, text) for text in texts), value if finite else None])
        _save(path, book.save)


def headings_of(own: Sequence[str | None]) -> list[str]:
    """The headings of clusters by label: names of one's own, otherwise ``cluster 0``."""
    reserved = ("column", "statistic", _ALL, "effect size", "test", "p (Holm)")
    headings = []
    for k, name in enumerate(own):
        text = f"cluster {k}" if name is None else clean(name)
        taken = text in reserved or (name is not None and text in headings)
        headings.append(f"{text} (cluster {k})" if taken else text)
    return headings


def _n_percent(n: float, share: float) -> str:
    return f"{count(n)} ({percent(share)})"


def _effect_text(effect: float) -> str:
    return "–" if np.isnan(effect) else "∞" if np.isinf(effect) else f"{effect:.2f}"


def _p_text(p: float) -> str:
    return f"<{_LEAST_P}" if p < _LEAST_P else f"{p:.3f}"


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join("".join(_LATEX.get(c, c) for c in text) for text in texts) + r" \\"


def _write(path: str | os.PathLike[str] | None, text: str) -> None:
    if path is not None:
        with replacing(path) as file:
            file.write(text)


def _save(path: str | os.PathLike[str], save: Callable[[Any], object]) -> None:
    with replacing(path, "wb") as file:
        save(file)
