"""What could mislead a reader: the consequence and the remedy, with a link to the evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from craftc.craft.rows.scores import OUTLIER
from craftc.describe.structure import FIRM
from craftc.describe.words import percent, plural, ratio, some
from craftc.report.page import Page
from craftc.table.column_weights import weights_note

_MOST = 6
_SOFT = 0.7  # share of clearly placed rows below which a border is soft


@dataclass
class Caution:
    """A title, a text, and the section with the evidence."""

    important: bool
    title: str
    text: str
    to: str


def cautions(page: Page) -> list[Caution]:
    """At most six cautions, important first."""
    important = [Caution(True, *words) for words in _important(page)][: _MOST - 1]
    return [*important, *(Caution(False, *words) for words in _notes(page))][:_MOST]


def _important(page: Page) -> Iterator[tuple[str, str, str]]:
    best = page.best
    if best and best != page.K and page.model._asked:
        better = f"{best} groups describe the table in fewer nats"
        if best == 1:
            better = "One description of all rows takes fewer nats"
        given = isinstance(page.model.n_clusters, int | np.integer)
        asked = "were asked for" if given else "are " + page.shown_words
        yield (
            f"{page.K} groups {asked}, {best} would be found",
            f"{better}. Take the further borders as a choice of yours, not as a finding.",
            "number",
        )
    summary = "Use the groups as a summary of a gradual pattern; do not take them for separate populations."
    if page.ratio > 1 and page.K > 1:
        rival, times = page.structure.rival, " description, the groups none"
        if math.isfinite(page.ratio):
            times = f" {ratio(page.ratio)} times as much description as the groups"
        yield (
            "Columns that hang together explain more than groups do",
            f"{rival[0].upper()}{rival[1:]}{times}. {summary}",
            "links",
        )
    elif page.structure.pattern is not None:
        yield (
            "Columns depend on each other inside groups, too",
            f"Many rows lie between two groups, and inside groups columns vary together as they do from one "
            f"group to the next. {summary}",
            "sure",
        )
    for link in page.links:
        if link.near_duplicates or link.coarser:
            other = link.first if link.coarser == link.second else link.second
            yield (
                f"{link.coarser} is a coarser copy of {other}"
                if link.coarser
                else f"{link.first} and {link.second} say the same",
                "Each counts in full, so groups along them look twice as clear as they are. Leave one of the "
                "two out and run again.",
                "links",
            )
    if not getattr(page.model, "converged_", True):
        yield (
            "The search ended before rows stopped moving",
            "Another run may give other groups; the warning of the fit says what to change.",
            "repeat",
        )


def _notes(page: Page) -> Iterator[tuple[str, str, str]]:
    if (kept := page.model._fitted.rows) is not None:
        fixed = [str(card.k) for card in page.cards if kept.fixed[card.label]]
        yield (
            "Fixed groups keep the figures of an earlier table",
            f"Distributions of {_clusters(fixed)} are of that table, sizes are of this one. The whole table, "
            "and the nats that groups save, count both.",
            "overview",
        )
    soft = [str(card.k) for card in page.cards if card.placed < _SOFT]
    if soft and page.K > 1:
        yield (
            "Some borders are soft",
            f"In {_clusters(soft)} fewer than {percent(_SOFT)} of the rows are placed with at least 90 % "
            "probability. Read the certainty of a row before acting on it.",
            "sure",
        )
    weak = [str(card.k) for card in page.cards if card.overlap is not None and card.overlap.mean < FIRM]
    if weak:
        overlap = f"{_clusters(weak)} {'overlaps' if len(weak) == 1 else 'overlap'}"
        yield (
            "Some groups change when rows are left out",
            f"{overlap[0].upper()}{overlap[1:]} by less than {percent(FIRM)}, on average, with the most "
            "similar group of a fit that leaves a fifth of the rows out.",
            "sure",
        )
    gaps = [(float(column.missing[-1]), column.short) for column in page.columns if column.missing[-1] > 0]
    if gaps:
        absent = np.any([column.codes == column.n_codes for column in page.inputs], axis=0)
        rows = int(absent.sum())
        named = some([f"{name} ({percent(share)})" for share, name in sorted(gaps, reverse=True)], 4)
        yield (
            f"{plural(rows, 'row')} {'has' if rows == 1 else 'have'} missing cells",
            f"In {named}. A missing cell counts neither for nor against a group; whether a cell is missing "
            "is not used.",
            "repeat",
        )
    if n := int(np.count_nonzero(np.asarray(page.model.labels_) == OUTLIER)):
        yield (
            f"{plural(n, 'row')} {'fits' if n == 1 else 'fit'} no group",
            f"No group describes {'it' if n == 1 else 'them'} better than the whole table does, by the "
            "outlier_price of the fit: the label is -1. The figures of the groups count these rows.",
            "sure",
        )
    if weights := weights_note(page.model.schema_.columns, tuple(page.model._fitted.column_weights)):
        yield "Columns count by weights", weights[0], "repeat"
    if page.weighted:
        yield (
            "The fit counted rows by weight",
            "Gains, means and shares follow the weights. Sizes and figures count every row once.",
            "repeat",
        )
    if page.target is not None and page.K > 1:
        missing, name = page.target.missing, page.target.name
        gap = f" {percent(missing)} of its cells are missing and do not count." if missing > 0 else ""
        yield (
            "The target took no part" if name == "target" else f"The target, {name}, took no part",
            "It was set aside before the fit and is shown for comparison only. Groups need not follow "
            f"it.{gap}",
            "overview",
        )
    elif page.K > 1 and not (soft or weak or gaps or page.weighted):
        yield (
            "Groups are a description",
            f"The {page.K} groups describe this table; they need not be kinds that exist outside of it.",
            "method",
        )


def _clusters(numbers: list[str]) -> str:
    return f"cluster{'' if len(numbers) == 1 else 's'} {some(numbers, 8)}"
