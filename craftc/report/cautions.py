"""What could mislead a reader: the consequence and the remedy, with a link to the evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from craftc.describe.words import percent, plural, ratio, some
from craftc.report.page import Page

_MOST = 6
_SOFT = 0.7  # share of clearly placed rows below which a border is soft
_WEAK = 0.75  # mean overlap below which a cluster changes


@dataclass
class Caution:
    """A title, a text, and the section with the evidence."""

    important: bool
    title: str
    text: str
    to: str


def cautions(page: Page) -> list[Caution]:
    """At most six cautions, important first."""
    found = [*_important(page), *_notes(page)]
    return sorted(found, key=lambda caution: not caution.important)[:_MOST]


def _important(page: Page) -> list[Caution]:
    out = []
    if page.found_k > page.K and page.tree is not None:
        keep = f"{page.K} keep {percent(page.tree.kept.get(page.K, 0.0))} of what they save"
        out.append(
            Caution(
                True,
                f"{page.K} groups are an overview, not the number found",
                f"{page.found_k} groups pay for themselves; {keep}. In a long table this number grows with "
                "the rows, so take it as a level "
                "of detail, not as a fact about the world.",
                "number",
            )
        )
    best = page.best
    if best and best != page.K == page.found_k and page.found.n_clusters is not None:
        better = (
            f"{best} groups describe the table in fewer nats"
            if best > 1
            else "One description of all rows takes fewer nats"
        )
        out.append(
            Caution(
                True,
                f"{page.K} groups were asked for, {best} would be found",
                f"{better}. Take the further borders as a choice of yours, not as a finding.",
                "number",
            )
        )
    if page.ratio > 1 and page.K > 1:
        times = (
            "" if math.isinf(page.ratio) else f" {ratio(page.ratio)} times as much description as the groups"
        )
        out.append(
            Caution(
                True,
                "Columns that hang together explain more than groups do",
                f"Links between single pairs of columns save{times or ' description, the groups none'}. Use "
                "the groups as a summary of a "
                "gradual pattern; do not take them for separate populations.",
                "links",
            )
        )
    for link in page.links:
        if link.near_duplicates:
            out.append(
                Caution(
                    True,
                    f"{link.first} and {link.second} say the same",
                    "Each counts in full, so groups along them look twice as clear as they are. Leave one "
                    "of the two out and run again.",
                    "links",
                )
            )
    if not getattr(page.found, "converged_", True):
        out.append(
            Caution(
                True,
                "The search ended before rows stopped moving",
                "Another run may give other groups; the warning of the fit says what to change.",
                "repeat",
            )
        )
    return out[: _MOST - 1]


def _notes(page: Page) -> list[Caution]:
    out = []
    soft = [card.k for card in page.cards if card.placed < _SOFT]
    if soft and page.K > 1:
        clusters = f"cluster {soft[0]}" if len(soft) == 1 else f"clusters {some(list(map(str, soft)), 8)}"
        out.append(
            Caution(
                False,
                "Some borders are soft",
                f"In {clusters} fewer than {percent(_SOFT)} of the rows are placed with at least 90 % "
                "probability. Read the "
                "certainty of a row before acting on it.",
                "sure",
            )
        )
    weak = [card.k for card in page.cards if card.overlap is not None and card.overlap.mean < _WEAK]
    if weak:
        one = len(weak) == 1
        clusters = (
            f"Cluster {weak[0]} overlaps" if one else f"Clusters {some(list(map(str, weak)), 8)} overlap"
        )
        out.append(
            Caution(
                False,
                "Some groups change when rows are left out",
                f"{clusters} by less than {percent(_WEAK)}, on average, with the most similar group of a "
                "fit that leaves a fifth of the "
                "rows out.",
                "sure",
            )
        )
    gaps = sorted(
        ((float(column.missing[-1]), column.name) for column in page.columns if column.missing[-1] > 0),
        reverse=True,
    )
    if gaps:
        absent = np.zeros(page.N, bool)
        for column in page.columns:
            absent |= column.codes == column.n_codes
        rows = int(absent.sum())
        out.append(
            Caution(
                False,
                f"{plural(rows, 'row')} {'has' if rows == 1 else 'have'} missing cells",
                f"In {some([f'{name} ({percent(share)})' for share, name in gaps], 4)}. A missing cell "
                "counts neither for nor against a "
                "group; whether a cell is missing is not used.",
                "repeat",
            )
        )
    if page.weighted:
        out.append(
            Caution(
                False,
                "The fit counted rows by weight",
                "Gains, means and shares follow the weights. Sizes and figures count every row once.",
                "repeat",
            )
        )
    if page.target is not None and page.K > 1:
        missing = (
            f" {percent(page.target.missing)} of its cells are missing and do not count."
            if page.target.missing > 0
            else ""
        )
        out.append(
            Caution(
                False,
                "The target took no part"
                if page.target.name == "target"
                else f"The target, {page.target.name}, took no part",
                "It was set aside before the fit and is shown for comparison only. Groups need not follow "
                f"it.{missing}",
                "overview",
            )
        )
    if not out and page.K > 1:
        out.append(
            Caution(
                False,
                "Groups are a description",
                f"The {page.K} groups describe this table; they need not be kinds that exist outside of it.",
                "method",
            )
        )
    return out
