"""What ``craftc cluster`` says: the table, an overview of the clusters, and the details of the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from craftc._common.merge_path import objectives_of
from craftc._common.typing import Labels
from craftc.cli.columns import ColumnRoles
from craftc.cli.layout import LONGEST_LEVEL, NARROWEST, PageLayout, fitting, shortened
from craftc.cli.target import Amounts, Classes
from craftc.cli.unusual import UnusualRow
from craftc.craft.answers.path import NullTest
from craftc.craft.answers.stability import Stability
from craftc.craft.base import CraftBase
from craftc.describe.columns import CategoricalColumn, Parts, described, typical_text
from craftc.describe.facts import Facts
from craftc.describe.structure import Starts, Structure, nearly_as_good
from craftc.describe.view import ClusterView, numbers_of
from craftc.describe.words import CELL, clean, count, distinct, nats, percent, plural, range_of
from craftc.reading.cells import MAX_INTEGER_CODES

MOST_LINES = 60  # of a page without --details
MANY_CLUSTERS = 15  # above, the page points to --clusters
_MOST_NOTE_LINES, _MOST_NAME_LINES, _MOST_REASONS = 8, 2, 4
_FEWEST_LISTED, _MOST_LISTED = 5, 20  # clusters of the overview, however long or short the notes are
_MOST_FEATURES, _SOME_FEATURES = 8, 5  # per cluster, if the details of all clusters fit, and otherwise
_SHORTEST_BLOCK = 3  # lines of the details of a cluster at least: a blank line, a title and one more
_MOST_LINKS = 3
_BESIDE_LINKS = 26  # columns of a line that the two names of a link do not take
_STEPS = 4  # of the merge path
_BAR = 10  # columns of the longest bar
_WITH_BARS = 70  # columns of a page from which gains have bars
_LONGEST_SHARE = 7  # columns of " >99 %" and the like
_GAIN_WIDTH = 7  # columns of a gain below 10^5
_WIDEST_CLASS = 40  # columns of the most frequent class with its shares
_MOST_CLASSES = 50  # of the contingency table
_GAIN = (
    "Gain: nats of description length that the cluster's own distribution of a feature saves over that of "
    "the whole table. Margin: nats by which a row prefers its cluster to the next best one, on average; at 5 "
    "its cluster is 150 times as likely, near 0 the row lies between two clusters."
)


@dataclass(frozen=True)
class Cluster:
    """One cluster, with its number by size and its label in the model."""

    number: int
    label: int
    name: str
    rows: float
    share: float
    margin: float
    features: Sequence[int]  # columns in which it differs from the whole table, by falling gain


class Answer:
    """A fitted model, as its clusters from the largest to the smallest."""

    def __init__(self, model: CraftBase) -> None:
        self.model = model
        self.view: ClusterView = model._shown_clusters()

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The clusters, largest first."""
        view, names, margins = self.view, Facts(self.view).names(), self.model.cluster_margins_.tolist()
        sizes, shares = view.sizes.tolist(), view.shares.tolist()
        return [
            Cluster(number, k, names[k], sizes[k], shares[k], margins[k], view.ranked(k))
            for number, k in enumerate(view.order.tolist(), 1)
        ]

    @cached_property
    def numbers(self) -> Labels:
        """(K,) number of the cluster with each label."""
        return numbers_of(self.view.order)

    def typical(self, k: int, d: int, texts: Sequence[str] | None = None) -> tuple[Parts, Parts]:
        """Typical values of a column in cluster k and in the whole table, of the levels leading in k; `texts`
        replace those of all its levels.
        """
        column, levels = described(self.view.statistics[d]), self._levels(k, d)
        return column.typical(k, levels, texts), column.typical(-1, levels, texts)

    def values(self, k: int, d: int, *, whole: bool) -> dict[str, object]:
        """The value in cluster k, or in the whole table, for JSON."""
        column, group = described(self.view.statistics[d]), -1 if whole else k
        if not isinstance(column, CategoricalColumn):
            values = {"mean": float(column.means[group]), "deviation": float(column.deviations[group])}
            return values | {"text": typical_text(column.typical(group))}
        known = not np.isnan(column.shares[group]).any()
        shares = [(t, float(column.shares[group, t])) for t in self._levels(k, d) if known]
        return {"levels": [{"level": str(column.levels[t]), "share": share} for t, share in shares]}

    def _levels(self, k: int, d: int) -> list[int]:
        """The leading levels of a column in cluster k; in the whole table, if the cluster has no values."""
        column = described(self.view.statistics[d])
        if not isinstance(column, CategoricalColumn):
            return []
        return column.leading(-1 if np.isnan(column.shares[k]).any() else k)


@dataclass
class Result:
    """A fit, and all that is printed about it."""

    table: str
    roles: ColumnRoles
    requested: int | None
    answer: Answer
    null_test: NullTest
    structure: Structure
    warnings: list[str] = field(default_factory=list)
    starts: Starts | None = None  # if there are several
    target: Classes | Amounts | None = None
    stability: Stability | None = None
    unusual: list[UnusualRow] | None = None  # None: the rows are not in this process
    folder: str = ""
    files: Sequence[str] = ()


def page(layout: PageLayout, result: Result, *, details: bool, all_features: bool) -> list[str]:
    """The lines of the page: at most 60 unless `details`."""
    answer, most = result.answer, None if details else MOST_LINES
    top = [*_opening(layout, result, brief=not details), "", *_headline(layout, result)]
    top += _notes(layout, result.warnings, None if details else _MOST_NOTE_LINES)
    bottom = _written(layout, result)
    if answer.model.n_clusters_ == 1:
        return top + _agreement(layout, result) + bottom
    about = _agreement(layout, result)
    room = None if most is None else most - len(top) - len(about) - len(bottom)
    listed = None if room is None else min(max(room - 4, _FEWEST_LISTED), _MOST_LISTED)
    overview = ["", *_overview(layout, result, listed)]
    room = None if room is None else room - len(overview)
    features = _details(layout, result, room, all_features)
    if isinstance(result.target, Classes) and len(result.target.classes) <= _MOST_CLASSES:
        table = _contingency(layout, result.target)
        if room is None or len(features) + len(table) <= room:
            about += table
            room = None if room is None else room - len(table)
    unusual = _unusual(layout, result)
    if room is None or len(features) + len(unusual) <= room:
        about += unusual
    return top + overview + about + features + bottom


# ---- the table ----


def _opening(layout: PageLayout, result: Result, brief: bool) -> list[str]:
    """One line of counts, the role of every column, and notes about reading."""
    roles, model = result.roles, result.answer.model
    missing = roles.n_missing
    weights = dict(zip(model.schema_.columns, model._fitted.column_weights, strict=True))
    unused = [name for name in (*roles.numeric, *roles.categorical) if weights.get(name) == 0.0]
    numeric, categorical = (
        [name for name in names if name not in unused] for names in (roles.numeric, roles.categorical)
    )
    counts = (
        f"{plural(len(roles.features), 'row')}; {plural(len(numeric), 'numeric column')}, "
        f"{plural(len(categorical), 'categorical column')}, "
        + (plural(missing, "missing value") if missing else "no missing values")
    )
    most = _MOST_NAME_LINES if brief else None
    table = "standard input" if result.table == "-" else result.table
    if cell_len(table) <= NARROWEST // 2:
        lines = layout.text(f"{table}: {counts}", style="bold")
    else:  # the path stays whole
        lines = [*layout.unbroken(f"{table}:", style="bold"), *layout.text(counts, " ", style="bold")]
    for label, names in (
        ("  numeric:    ", numeric),
        ("  categorical:", categorical),
        ("  shown, not used (--column-weight 0):", unused),
    ):
        if names:
            lines += layout.names(label, names, most=most)
    if roles.codes:
        lines += layout.names(
            f"  of these, integers with at most {MAX_INTEGER_CODES} values:", roles.codes, most=most
        )
        lines.append("  (--numeric COL and --categorical COL change this)")
    reasons = list(dict.fromkeys(roles.excluded.values()))
    for reason in reasons[: _MOST_REASONS if brief else None]:
        names = [name for name, why in roles.excluded.items() if why == reason]
        lines += layout.names(f"  not used ({reason}):", names, most=1 if brief else None)
    if brief and len(reasons) > _MOST_REASONS:
        others = sum(why in reasons[_MOST_REASONS:] for why in roles.excluded.values())
        lines.append(f"  not used for other reasons: {plural(others, 'column')}")
    return lines + _notes(layout, roles.notes, _MOST_NOTE_LINES if brief else None)


def _notes(layout: PageLayout, notes: Sequence[str], most: int | None) -> list[str]:
    """Notes, each after its label; the last of too many lines says how many notes are left."""
    lines: list[str] = []
    for i, note in enumerate(notes):
        new = layout.text(note, "Note:", style="yellow", most=None if most is None else 3)
        if most is not None and len(lines) + len(new) + (i < len(notes) - 1) > most:
            return [*lines, f"Note: {plural(len(notes) - i, 'further note')}; --details prints all."]
        lines += new
    return lines


# ---- the number of clusters ----


def _headline(layout: PageLayout, result: Result) -> list[str]:
    """The number of clusters, whether they are clear, and the cost of fewer."""
    model, requested, structure = result.answer.model, result.requested, result.structure
    K = model.n_clusters_
    if K == 1 and requested != 1:
        return layout.text(structure.sentence, style="bold") + _links(layout, model)
    split = requested is not None and requested != K
    remark = f" (the table cannot be split into {requested})" if split else ""
    head = f"{plural(K, 'cluster')}{remark}, largest first." if K > 1 else "1 cluster, as requested."
    lines = layout.text(head, style="bold")
    objectives = objectives_of(model.merge_path_)
    disagreement = "" if result.starts is None else result.starts.disagreement
    nearly = nearly_as_good(objectives, model.price_factor_)[2]
    for text in (structure.sentence, disagreement, fewer(objectives, model.max_cluster_size), nearly):
        lines += layout.text(text) if text else []
    if K > MANY_CLUSTERS:
        lines.append("For fewer clusters, pass --clusters K.")
    return lines + _links(layout, model)


def fewer(objectives: Sequence[tuple[int, float]], largest: float | None = None) -> str:
    """The cost of the next smaller numbers of clusters by (K, J) along a path: "Fewer clusters: ...".
    `largest`: the bound on their sizes, which the path does not keep.
    """
    costs: list[str] = []
    for n_clusters, objective in objectives[1 : _STEPS + 1]:
        worse = objective - objectives[0][1]
        verb = "costs" if n_clusters == 1 else "cost"
        unit = "" if costs else " nats"
        more = "more" if worse >= 0 else "less"
        costs.append(f"{n_clusters} {verb} {nats(abs(worse))}{unit} {more}")
    if not costs:
        return ""
    text = f"Fewer clusters: {', '.join(costs)}" + (", …" if len(objectives) > _STEPS + 1 else ".")
    least = min(objective for _, objective in objectives)
    if largest is not None:
        text = text.replace(":", " may exceed --max-cluster-size:", 1)
    return text + (" Fewer clusters describe the table better." if least < objectives[0][1] else "")


def _links(layout: PageLayout, model: CraftBase) -> list[str]:
    """The strongest links between columns, or those on one factor, if they describe the table better than
    clusters.
    """
    if not model.dependence_ratio_ > 1.0:
        return []
    if on_factor := model._on_factor:
        names = [clean(model._fitted.schema.columns[j]) for j in on_factor]
        return layout.names("  on the factor:", names, most=_MOST_NAME_LINES)
    links = model.column_links_[:_MOST_LINKS]
    names = [clean(name) for a, b, _ in links for name in (a, b)]
    short = distinct(names, (layout.width - _BESIDE_LINKS) // 2, cell_len)
    strongest = [f"{a} - {b}" for a, b in zip(short[::2], short[1::2], strict=True)]
    return layout.names("  strongest links:", strongest, most=_MOST_NAME_LINES) if strongest else []


def _written(layout: PageLayout, result: Result) -> list[str]:
    if not result.files:
        return []
    return ["", *layout.unbroken(f"Wrote {', '.join(result.files)} in {result.folder}")]


# ---- overview ----


def _overview(layout: PageLayout, result: Result, most: int | None) -> list[str]:
    """A table with one line per cluster; the last of too many lines says how many clusters are left."""
    clusters, target, stability = result.answer.clusters, result.target, result.stability
    shown = clusters if most is None or len(clusters) <= most else clusters[:most]
    heads = ["cluster", "name", "rows", "share", "margin"]
    if stability is not None:
        heads.append("stability")
    if target is not None:
        value = "(table, lift)" if isinstance(target, Classes) else "mean ± sd"
        heads.append(f"{shortened(clean(target.name), 20)} {value}")
    rows = []
    for position, cluster in enumerate(shown):
        margin = nats(cluster.margin) if np.isfinite(cluster.margin) else ""
        cells = [str(cluster.number), cluster.name, count(cluster.rows), percent(cluster.share), margin]
        if stability is not None:
            mean = stability.mean[cluster.label]
            cells.append("-" if np.isnan(mean) else f"{mean:.2f}")
        if target is not None:
            cells.append(shortened(target.of_cluster(position), _WIDEST_CLASS))
        rows.append(cells)
    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    room = layout.width - sum(widths) + widths[1] - 2 * (len(heads) - 1)  # for names
    names = [cells[1] for cells in rows]
    short = [shortened(name, room) for name in names]
    if len(set(short)) < len(names):
        short = distinct(names, room, cell_len)
    for cells, name in zip(rows, short, strict=True):
        cells[1] = name
    left = (1, 5 + (stability is not None))  # the name, and the target's value
    lines = layout.table([(head, i in left) for i, head in enumerate(heads)], rows)
    if len(shown) < len(clusters):
        rest = clusters[len(shown) :]
        others, share = sum(cluster.rows for cluster in rest), sum(cluster.share for cluster in rest)
        more = f"and {plural(len(rest), 'more cluster')} with {count(others)} rows ({percent(share)})"
        lines.append(f"{more}: --details shows all.")
    return lines


def _agreement(layout: PageLayout, result: Result) -> list[str]:
    """What the comparison with the target and the refits say about the clusters as a whole."""
    lines = []
    if (target := result.target) is not None:
        without = f" ({plural(target.n_missing, 'row')} without a value excluded)" if target.n_missing else ""
        name = shortened(clean(target.name), 40)
        text = f"{name} (not used for clustering): {target.agreement()}{without}."
        if isinstance(target, Classes) and len(target.classes) > _MOST_CLASSES:
            text += f" {len(target.classes):,} distinct values: too many for a table."
        lines += ["", *layout.text(text)]
    if (stability := result.stability) is not None:
        lines += ["", *layout.text(_stability(stability))]
    return lines


def _unusual(layout: PageLayout, result: Result) -> list[str]:
    """The rows that fit no cluster well, and their odd cells."""
    if not result.unusual:
        return []
    about = (
        "Rows that no cluster describes better than the whole table does (nats more), and their odd cells "
        "(nats above what is usual there):"
    )
    lines = ["", *layout.text(about)]
    for row in result.unusual:
        lines += layout.text(clean(row.text), " ", most=2)
    return lines


def _stability(stability: Stability) -> str:
    """The meaning of the overview's column, and the numbers of clusters of the refits."""
    return (
        "Stability: overlap (Jaccard) of a cluster with its best match in "
        f"{plural(len(stability.n_clusters), 'refit')} on 80 % of the rows, on average; from 0.75 a cluster "
        f"is found again. The refits have {range_of(stability.n_clusters.tolist(), str)} clusters."
    )


def _contingency(layout: PageLayout, target: Classes) -> list[str]:
    """Rows of every cluster and class; classes that do not fit into the width are summed as "others"."""
    names = [shortened(clean(name), 16) for name in target.classes]
    digits = len(f"{int(target.counts.sum()):,}")
    widths = [max(cell_len(name), digits) + 2 for name in names]
    free = layout.width - 10
    n = len(names)
    if sum(widths) > free:
        n = max(int(np.searchsorted(np.cumsum(widths), free - max(6, digits) - 2, side="right")), 1)
    heads = ["cluster", *names[:n], *(["others"] if n < len(names) else [])]
    rows = []
    groups = [*((str(number), counts) for number, counts in enumerate(target.counts, 1))]
    for label, counts in (*groups, ("table", target.counts.sum(axis=0))):
        cells = [*counts[:n].tolist(), *([int(counts[n:].sum())] if n < len(names) else [])]
        rows.append([label, *(f"{count:,}" for count in cells)])
    return ["", *layout.table([(head, False) for head in heads], rows)]


# ---- details ----


def _details(layout: PageLayout, result: Result, room: int | None, all_features: bool) -> list[str]:
    """The features of every cluster, largest first, as far as they fit into `room` lines."""
    answer = result.answer
    table, head = _FeatureTables(layout, answer), ["", *layout.text(_GAIN, style="dim")]
    if room is None or len(head) + _SHORTEST_BLOCK * len(answer.clusters) <= room:
        most = None if all_features else _MOST_FEATURES
        blocks = [["", *table.lines(cluster, most)] for cluster in answer.clusters]
        if room is None or len(head) + sum(map(len, blocks)) <= room:
            return [*head, *(line for block in blocks for line in block)]
    pointer = ["", "--details shows the features of all clusters."]
    lines: list[str] = []
    for cluster in answer.clusters:
        left = room - len(head) - len(lines) - len(pointer)
        most = min(_SOME_FEATURES, left - _SHORTEST_BLOCK - 1)
        if most < 1 or len(block := ["", *table.lines(cluster, most)]) > left:
            break
        lines += block
    return [*(head if lines else []), *lines, *pointer] if room >= len(pointer) else []


class _FeatureTables:
    """Tables of the features of clusters, all with the same columns."""

    def __init__(self, layout: PageLayout, answer: Answer) -> None:
        self._layout, self._answer = layout, answer
        view, width = answer.view, layout.width
        features = [(cluster.label, d) for cluster in answer.clusters for d in cluster.features]
        columns = sorted({d for _, d in features})
        names = [view.columns[d] for d in columns]
        self._bars = min(_BAR, width // 8) if width >= _WITH_BARS else 0
        self._texts: dict[tuple[int, int], list[str]] = {}
        self._first = min(max(map(cell_len, [*names, "feature"])), width // 4, CELL)
        self._names = dict(zip(columns, distinct(names, self._first, cell_len), strict=True))
        self._gain = max([_GAIN_WIDTH, *(len(nats(view.gains[at])) for at in features)])
        self._cell = (width - self._first - 10 - self._gain - self._bars) // 2

    def lines(self, cluster: Cluster, most: int | None) -> list[str]:
        """Title, head, and one line per feature: of gains of at least 1 nat the `most` largest, or all."""
        layout = self._layout
        title = f"Cluster {cluster.number}: {cluster.name}"
        rows = "row" if cluster.rows == 1 else "rows"
        facts = f" - {count(cluster.rows)} {rows} ({percent(cluster.share)})"
        facts += f", margin {nats(cluster.margin)} nats" if np.isfinite(cluster.margin) else ""
        lines = layout.unbroken(shortened(title, layout.width - cell_len(facts)) + facts, style="bold")
        listed, gains = cluster.features, self._answer.view.gains[cluster.label]
        if most is not None:
            listed = [d for d in listed[:most] if gains[d] >= 1.0]
        if not listed:
            return [*lines, "  distributed like the whole table"]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        the, in_the = ("the ", "in the ") if self._cell >= 18 else ("", "")
        table.add_column("  feature", width=self._first + 2, no_wrap=True)
        table.add_column(f"in {the}cluster", width=self._cell, no_wrap=True)
        table.add_column(f"{in_the}whole table", width=self._cell, no_wrap=True)
        table.add_column("gain", width=self._gain, justify="right", no_wrap=True)
        table.add_column("", style="cyan", no_wrap=True)
        for d in listed:
            table.add_row(*map(Text, self._cells(cluster, d)))
        lines += layout.lines(table)
        others = len(cluster.features) - len(listed)
        return [*lines, f"  and {plural(others, 'feature')} with a smaller gain"] if others else lines

    def _cut(self, d: int, most: int) -> list[str] | None:
        """The levels of a column, cut to this width where they differ."""
        column = self._answer.view.statistics[d]
        if not isinstance(column, CategoricalColumn):
            return None
        if (d, most) not in self._texts:
            self._texts[d, most] = distinct(column.texts, most, cell_len)
        return self._texts[d, most]

    def _cells(self, cluster: Cluster, d: int) -> list[str]:
        both, gains = self._answer.typical(cluster.label, d), self._answer.view.gains[cluster.label]
        n = min(fitting(parts, self._cell) for parts in both if parts)  # the same levels in both columns
        most = LONGEST_LEVEL if n > 1 else self._cell - _LONGEST_SHARE
        if any(cell_len(text) > most for parts in both for text, _ in parts[:n]):
            both = self._answer.typical(cluster.label, d, self._cut(d, most))
        cells = [self._layout.levels(parts[:n], self._cell) for parts in both]
        bar = self._layout.bar(self._bars * gains[d] / max(gains[cluster.features[0]], 1e-300))
        return ["  " + self._names[d], *cells, nats(gains[d]), bar]
