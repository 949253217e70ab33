"""Short rules of the clusters, and the table of all columns by cluster, as a page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.typing import Labels
from craftc.craft.answers.interpretation import Interpreted
from craftc.describe.cluster_map import sampled_rows
from craftc.describe.profile import Groups, column_figures
from craftc.describe.table_one import Profile
from craftc.describe.view import ClusterView
from craftc.describe.words import clean
from craftc.table import MixedTable

if TYPE_CHECKING:
    from craftc.craft.base import CraftBase

_MOST_CONDITIONS = 3
_MOST_IN_TREE = 12  # clusters; a tree of more is not read
_MOST_SEARCHED, _FEWEST_SEARCHED = 360, 8  # columns times clusters, and columns, among which rules are sought
_MOST_CELLS = 20_000  # of the table of all columns; the more important columns are shown


@dataclass
class PageRule:
    """The rule of a cluster."""

    k: int  # counted from 1
    text: str
    coverage: float
    precision: float


@dataclass
class PageRules:
    """The rules of a page."""

    rules: list[PageRule]
    tree: str  # empty with many clusters
    agreement: float
    n_rows: int


def page_rules(
    model: CraftBase, table: MixedTable, labels: Labels, n_clusters: int, among: Sequence[int]
) -> PageRules | None:
    """Rules with conditions on the first of these input columns; None of a model that has none."""
    if not isinstance(model, Interpreted):
        return None
    rows, leaves = sampled_rows(len(table)), 2 * n_clusters if n_clusters <= _MOST_IN_TREE else 1
    among = among[: max(_MOST_SEARCHED // n_clusters, _FEWEST_SEARCHED)]
    headings = [f"cluster {k + 1}" for k in range(n_clusters)]
    weight = np.ones(len(rows))
    found = model._rules_of(
        table.take(rows), labels[rows], weight, headings, _MOST_CONDITIONS, leaves, [], among
    )
    rules = [
        PageRule(k + 1, found.text(rule.conditions), rule.coverage, rule.precision)
        for k, rule in enumerate(found.rules)
    ]
    return PageRules(rules, "\n".join(found.tree) if leaves > 1 else "", found.agreement, len(rows))


def page_profile(
    table: MixedTable, labels: Labels, view: ClusterView, names: Sequence[str], ranked: Sequence[int]
) -> tuple[Profile, int]:
    """The table of all columns, or of the most important ones that fit a page, and their number.

    `view`: of the input columns in the order of the page; `ranked`: these columns by importance.
    """
    K = len(names)
    groups = Groups(labels, np.ones(len(table)), K)
    columns = column_figures(table, view.statistics, [clean(name) for name in view.features], groups, False)
    fits, cells = 0, 0
    for d in ranked:
        lines = 2 + min(len(columns[d].shown_levels), 22) if columns[d].counts.shape[1] else 3
        cells += lines * (K + 1)
        fits += cells <= _MOST_CELLS
    shown = sorted(ranked[: max(fits, 1)])
    headings = [f"{k + 1}: {name}" for k, name in enumerate(names)]
    own = [columns[d] for d in shown]
    return Profile(own, groups.sizes, list(range(K)), headings, [], None), len(shown)
