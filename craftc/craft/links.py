"""Links between the columns of a table, as an alternative to its clusters.

Columns that depend on each other are covered by clusters although there are no groups. The table without
clusters but with links between columns is the other description: what links save over independent columns,
each at its price, is compared with what clusters save.

With h the price of one parameter, a link of two columns saves, over the n rows with a value in both,

    two categorical columns           n MI - (T_d - 1)(T_e - 1) h
    a categorical and a numeric one   (n / 2) log(SS / SS_within) - (T_d - 1) h
    two numeric columns               -(n / 2) log(1 - r^2) - h

less log(P + 1) nats, which name one of the P pairs; a table of many levels costs less (`Design.pair_gains`).
MI is the mutual information of the pair's table, and SS the squares around the mean of all rows and around
those of the levels; a number takes part by the normal score of its level. The links that save most together
and form no cycle are a maximum spanning forest (Chow & Liu 1968). Columns that are one answer in several
columns are linked as a whole where that saves more. Alternatively all numeric columns have one full
covariance, of p (p - 1) / 2 parameters, and the forest joins it to the categorical columns. Sums of squares
contain one row of the table's variance, as those of clusters do.

**One answer in several columns.** Given the columns before it, a column of such a group depends on how many
of them are ticked. It saves the mutual information of its own tick and that number, and these savings add up
to the total correlation of the group where at most one column is ticked.

**Coarser copies of numbers**, such as an age group of the age. Each value of the copy is a range of the
number, and the number has neither a gap nor a valley between two ranges; groups of rows whose numbers are
apart leave both. The link of the two saves all that the coarser column costs, at the price of its cuts. The
formula for normal scores would see a part of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from craftc._common.random import SAMPLE_ROWS, CraftStream, spread
from craftc._common.typing import Bits, Floats
from craftc.craft.background import half_log
from craftc.craft.clusters import Clusters
from craftc.craft.dependence import DESCRIBED, MOST_WIDTH, Design, cells_of, over, x_log_x
from craftc.craft.fitted import ColumnLinks
from craftc.craft.one_factor import OneFactor, one_factor
from craftc.craft.rows import L, S
from craftc.craft.search import FitConfig, LocalConfig
from craftc.craft.search.new_clusters import entropy
from craftc.table import MixedTable
from craftc.table.derived import is_valley
from craftc.table.levels import LevelEncoding
from craftc.table.tick_groups import FEWEST_ROWS, MOST_COLUMNS, TickGroup, on_level, tick_groups

_ALIKE = 0.5  # share of the information of two columns
_BANDS = 8  # levels of a numeric column in that comparison
_IMPLIED = 0.9  # share of the rows with a level that have the other level
_LEADING = 30  # columns whose levels are compared
_SOME = 2000  # rows in which groups are looked for
ROWS = 4000  # in which copies are looked for
_FIRST = 60  # rows that rule out most columns
_FEWEST, _FEWEST_EACH = 30, 5  # rows with both values, and rows of the second most frequent value
_FINER = 3  # levels of the number for each value of its copy, at least
_LEVELS = 10  # of the number, at least
_GAP, _NEAR = 3.0, 5  # largest distance at a cut, in the median one of that many values on each side
_MOST_COLUMNS = 512  # among which copies are looked for


def column_links(
    config: FitConfig[L, S],
    encoding: LevelEncoding,
    selected_gains: Floats,
    clusters: Clusters | None = None,
    saved: float = 0.0,
) -> ColumnLinks:
    """Links between the columns of a table without clusters.

    A table of more than 16 384 rows is represented by the sample that is searched first. A link must then pay
    for itself in the sample alone, too, because the mutual information of independent columns grows with the
    rows that one row of a sample stands for.

    `selected_gains` (D,) is what the clusters save in every input column: of a wide table the columns take
    part in which they save most, as far as a row has at most `MOST_WIDTH` cells, three for a number and one
    for each level of another column; another column of more than `MOST_LEVELS` levels is left out.

    With `clusters` that save anything, only links of columns that they describe count as an alternative to
    them, and so does one factor behind these columns. `saved`: what they save; nothing less is a rival.
    """
    background = config.background
    usable = background.usable[background.grid.p :] > 0
    columns, scores = cells_of(encoding, background, usable, selected_gains, MOST_WIDTH)
    if len(columns) < 2:
        return ColumnLinks()
    rows = config.of_rows(_rows(config))
    links = _Links(rows, encoding, columns, scores, int(usable.sum()))
    held = np.isin(columns, _in_covariances(clusters))
    described = _described(links.saves, selected_gains[columns], held)
    rivals = described & described[:, None]
    total = links.saving(rivals, described)
    factor = OneFactor()
    if selected_gains.any():
        some, rival = np.sort(np.array(columns)[described]).tolist(), saved if total <= saved else 0.0
        factor = one_factor(rows.table.codes, links.row_weights, some, background, links.h, rival)
    on = np.isin(columns, factor.columns)
    explained = on & on[:, None] & ~links.copies
    besides = links.saving(rivals & ~explained, described & ~on)
    categories = np.isin(columns, encoding.input_schema.categorical_index)
    leading = np.where(categories, selected_gains[columns], -np.inf)
    alike, implied = _alike(links.design, links.gains, columns), _implied(links.design, columns, leading)
    return ColumnLinks(total, links.pairs(), alike, implied, factor, besides)


class _Links:
    """What links of some columns save, each at its price: of pairs, of coarser copies of numbers, and of
    groups of columns that are one answer.
    """

    def __init__(
        self,
        rows: LocalConfig,
        encoding: LevelEncoding,
        columns: list[int],
        scores: list[Floats],
        n_usable: int,
    ) -> None:
        """`columns`: input columns, first numbers, with these scores; `n_usable`: of the whole table."""
        self.columns, self.weights = columns, encoding.column_weights[columns]
        weight = rows.weight.astype(np.float64) if len(rows.weight) else np.ones(len(rows.table))
        self.design = Design(rows, columns, scores)
        self.row_weights = weight * (self.design.weight / weight.sum())
        self.N, self.h = rows.background.weight, half_log(rows.background, rows.spec)
        self._name = math.log(n_usable * (n_usable - 1) / 2 + 1)
        self.gains, parameters = self.design.pair_gains()  # (D, D) of pairs
        # a link of columns of different weights saves in the lighter one
        self.saves = self._net(self.gains, parameters) * np.minimum(self.weights, self.weights[:, None])
        np.fill_diagonal(self.saves, -np.inf)
        self.copies = np.zeros(self.saves.shape, bool)  # pairs of columns that repeat each other
        self._link_copies(encoding, rows.table.codes)
        self._edges = _forest(self.saves)
        self._whole: list[tuple[list[int], float]] = []  # groups, and what they save over links of pairs
        self._chains: list[tuple[int, int, float]] = []
        self._link_groups(encoding, rows.table.codes)

    def _net(self, gain: Floats | float, parameters: Floats | float, name: float | None = None) -> Floats:
        """What a gain in the rows saves, at the price of its parameters and of the name of the link."""
        N, M, name = self.N, self.design.weight, self._name if name is None else name
        price = np.asarray(parameters * self.h + name)
        if M < N:
            price = np.maximum(price, N / M * (parameters * 0.5 * math.log(M) + name))
        return N / M * gain - price

    def _link_copies(self, encoding: LevelEncoding, codes: NDArray[np.integer]) -> None:
        """Links of numbers and coarser copies of them, which save all that the copies cost."""
        for finer, coarser in step_columns(encoding, codes):
            if finer in self.columns and coarser in self.columns:
                i, j = self.columns.index(finer), self.columns.index(coarser)
                n_levels = int(encoding.schema.n_levels[coarser])
                # the missing cells are behind the levels
                counts = np.bincount(codes[:, coarser], self.row_weights, n_levels)[:n_levels]
                cost = entropy(np.asarray(counts, np.float64))
                step = float(self._net(cost, n_levels - 1.0)) * float(min(self.weights[i], self.weights[j]))
                self.saves[i, j] = self.saves[j, i] = max(self.saves[i, j], step)
                self.copies[i, j] = self.copies[j, i] = True

    def _link_groups(self, encoding: LevelEncoding, codes: NDArray[np.integer]) -> None:
        """Links of groups of columns that are one answer as a whole, where they save more than those of
        pairs.
        """
        for group, complete, ticks in groups_of_codes(encoding, codes):
            place = [self.columns.index(j) for j in group.columns if j in self.columns]
            if len(place) < len(group.columns):
                continue
            own, more = chain_gains(group, ticks, self.row_weights[complete])
            chain = self._net(own, more) * float(self.weights[place].min())
            by_pairs = _sum_of_forest(self.saves[np.ix_(place, place)])
            if chain.sum() > by_pairs:
                self._whole.append((place, float(chain.sum()) - by_pairs))
                self.copies[np.ix_(place, place)] = True
                self._edges = [(i, j) for i, j in self._edges if not {i, j} <= set(place)]
                later = zip(group.columns, group.columns[1:], chain.tolist(), strict=False)
                self._chains += [(*_ordered(a, b), nats) for a, b, nats in later if nats > 0.0]

    def pairs(self) -> list[tuple[int, int, float]]:
        """Linked input columns and the nats that their links save, most first."""
        columns = self.columns
        found = [(*_ordered(columns[i], columns[j]), float(self.saves[i, j])) for i, j in self._edges]
        return sorted(found + self._chains, key=lambda pair: (-pair[2], pair[:2]))

    def saving(self, links: NDArray[np.bool_], joined: NDArray[np.bool_]) -> float:
        """What some of the links, or a covariance of the numbers among `joined` columns and such links, save
        together.
        """
        numeric = np.flatnonzero(joined[: self.design.p])
        of_links, p, m = np.where(links, self.saves, -np.inf), self.design.p, len(numeric)
        total = _sum_of_forest(of_links)
        if m > 2:
            block = self._net(self.design.covariance_gain(numeric), m * (m - 1) / 2, 0.0)
            to_block = np.full((len(of_links) - p + 1,) * 2, -np.inf)
            to_block[1:, 1:] = of_links[p:, p:]
            to_block[0, 1:] = to_block[1:, 0] = of_links[:p, p:].max(axis=0, initial=-np.inf)
            total = max(total, float(block * self.weights[numeric].min()) + _sum_of_forest(to_block))
        return total + sum(more for place, more in self._whole if links[np.ix_(place, place)].any())


def _in_covariances(clusters: Clusters | None) -> NDArray[np.intp]:
    """The input columns that covariances of the clusters may hold."""
    if clusters is None or clusters.covariances is None:
        return np.empty(0, np.intp)
    return clusters.covariances.levels - clusters.background.grid.p


def _described(saves: Floats, gains: Floats, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The columns in which clusters save at least a tenth of what the best link saves, and those `held` by
    covariances; all of them if there are no clusters. Clusters do not describe dependence of other columns.
    """
    if not gains.any():
        return np.ones(len(gains), bool)
    return np.asarray(held | (gains >= DESCRIBED * np.maximum(saves.max(axis=0), 0.0)) & (gains > 0.0))


def _rows(config: FitConfig[L, S]) -> NDArray[np.intp]:
    """Rows of weight > 0, or a sample of them."""
    counted = np.flatnonzero(config.weight) if len(config.weight) else None
    n = len(config.rows) if counted is None else len(counted)
    rows = spread(n, SAMPLE_ROWS, config.seed, CraftStream.STAGE_SAMPLE) if n > SAMPLE_ROWS else np.arange(n)
    return np.asarray(rows if counted is None else counted[rows])


def _forest(saves: Floats) -> list[tuple[int, int]]:
    """Edges of the forest of the largest sum, all of them positive (Prim's algorithm, from every root)."""
    left, best, parent = np.ones(len(saves), bool), np.zeros(len(saves)), np.full(len(saves), -1)
    edges = []
    for _ in range(len(saves)):
        j = int(np.argmax(np.where(left, best, -1.0)))
        left[j] = False
        if parent[j] >= 0:
            edges.append((min(int(parent[j]), j), max(int(parent[j]), j)))
        nearer = left & (saves[j] > best)
        best[nearer], parent[nearer] = saves[j, nearer], j
    return edges


def _sum_of_forest(saves: Floats) -> float:
    """What the links of the forest save together."""
    return float(sum(map(saves.__getitem__, _forest(saves))))


def _alike(design: Design, gains: Floats, columns: Sequence[int]) -> list[tuple[int, int, float]]:
    """Pairs of input columns with a mutual information of at least half the smaller entropy; a number has
    that of 8 levels.
    """
    p, q = design.p, len(design.start)
    entropy = np.full(p + q, math.log(_BANDS))
    if q:
        counts = np.diag(design.tables)
        total = design.by_level(counts, (0,))
        entropy[p:] = np.log(np.maximum(total, 1.0)) - over(design.by_level(x_log_x(counts), (0,)), total)
    share = gains / design.weight / np.maximum(np.minimum(entropy, entropy[:, None]), 1e-12)
    pairs = np.argwhere(np.triu(share >= _ALIKE, 1)).tolist()
    return sorted((*_ordered(columns[i], columns[j]), min(float(share[i, j]), 1.0)) for i, j in pairs)


def _ordered(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _implied(
    design: Design, columns: Sequence[int], selected_gains: Floats
) -> list[tuple[int, int, int, int]]:
    """Pairs of levels: the first nearly always occurs with the second, although the second is not nearly
    everywhere.
    """
    p, start, tables = design.p, design.start, design.tables
    order = np.argsort(-selected_gains[p:], kind="stable")
    leading = [int(c) for c in order[:_LEADING] if np.isfinite(selected_gains[p + c])]
    counts, ends = np.diag(tables), np.append(start, len(tables))
    out = []
    for a in leading:
        rows = slice(ends[a], ends[a + 1])
        for b in leading:
            if a == b:
                continue
            table = tables[rows, ends[b] : ends[b + 1]]
            share, of_all = over(table, table.sum(axis=1, keepdims=True)), counts[ends[b] : ends[b + 1]]
            found = (share >= _IMPLIED) & (of_all < _IMPLIED * of_all.sum())
            out += [(columns[p + a], s, columns[p + b], t) for s, t in np.argwhere(found).tolist()]
    return sorted(out)


def groups_of_codes(
    encoding: LevelEncoding, codes: NDArray[np.integer]
) -> list[tuple[TickGroup, NDArray[np.intp], Bits]]:
    """The groups among the columns of encoded rows (n, D), each with its rows without missing cells, and
    their ticks, (rows, columns of the group).
    """
    on = _on_levels(encoding)
    at = np.array(sorted(on), np.intp)
    if not 2 <= len(at) <= MOST_COLUMNS:
        return []
    cells = codes[:, at]
    complete = np.flatnonzero((cells < 2).all(axis=1))
    if len(complete) < FEWEST_ROWS:
        return []
    ticks: Bits = cells[complete] == np.array([on[j] for j in at.tolist()])
    found = tick_groups(
        [encoding.input_schema.columns[j] for j in at.tolist()], ticks[:: max(1, len(ticks) // _SOME)]
    )
    return [(each.of(at.tolist()), complete, ticks[:, each.columns]) for each in found]


def groups_of_table(sample: MixedTable) -> list[TickGroup]:
    """The groups among the columns of a table; columns are positions in it."""
    schema = sample.schema
    ticks: dict[int, Bits] = {}
    complete = np.ones(len(sample), bool)
    of_levels = zip(schema.categorical_index.tolist(), schema.levels, sample.codes.T, strict=True)
    for j, levels, codes in of_levels:
        if (on := on_level(levels)) is not None:
            ticks[j] = codes == on
            complete &= (codes >= 0) & (codes < len(levels))
    known = ~np.isnan(sample.numeric)
    binary = (~known | (sample.numeric == 0.0) | (sample.numeric == 1.0)).all(axis=0) & known.any(axis=0)
    for k in np.flatnonzero(binary).tolist():
        ticks[int(schema.numeric_index[k])] = sample.numeric[:, k] == 1.0
        complete &= known[:, k]
    at = sorted(ticks)
    if not 2 <= len(at) <= MOST_COLUMNS or complete.sum() < FEWEST_ROWS:
        return []
    found = tick_groups([schema.columns[j] for j in at], np.column_stack([ticks[j] for j in at])[complete])
    return [each.of(at) for each in found]


def chain_gains(group: TickGroup, ticks: Bits, weight: Floats) -> tuple[Floats, Floats]:
    """What each later column of a group saves, in nats of rows of this weight (n,), and its parameters.

    `ticks` (n, columns of the group).
    """
    before = np.cumsum(ticks, axis=1)[:, :-1]
    gains, parameters = np.zeros(before.shape[1]), np.ones(before.shape[1])
    for j in range(before.shape[1]):
        table = np.zeros((group.count + 1, 2))
        np.add.at(table, (before[:, j], ticks[:, j + 1].astype(np.intp)), weight)
        of_margins = x_log_x(table.sum(axis=0)).sum() + x_log_x(table.sum(axis=1)).sum()
        gains[j] = x_log_x(table).sum() + x_log_x(table.sum(keepdims=True)).sum() - of_margins
        parameters[j] = max((table.sum(axis=1) > 0.0).sum() - 1, 1)
    return gains, parameters


def _on_levels(encoding: LevelEncoding) -> dict[int, int]:
    """The code of the level of a tick, by input column."""
    schema = encoding.input_schema
    on = {}
    for j, levels in zip(schema.categorical_index.tolist(), schema.levels, strict=True):
        if (level := on_level(levels)) is not None:
            on[j] = level
    for j, own in zip(schema.numeric_index.tolist(), encoding.numbers, strict=True):
        if own.values.tolist() == [0.0, 1.0]:
            on[j] = 1
    return on


def step_columns(encoding: LevelEncoding, codes: NDArray[np.integer]) -> list[tuple[int, int]]:
    """Pairs of input columns: a number, and a coarser copy of it. `codes` (n, D) of encoded rows."""
    schema = encoding.input_schema
    if codes.shape[1] > _MOST_COLUMNS or len(codes) < _FEWEST:
        return []
    cells: NDArray[np.intp] = codes[:: max(1, len(codes) // ROWS)].astype(np.intp)
    each = zip(schema.numeric_index.tolist(), encoding.numbers, strict=True)
    values = {j: own.values for j, own in each if not own.period}
    n_levels = encoding.schema.n_levels
    some = cells[np.linspace(0, len(cells) - 1, _FIRST).astype(np.intp)]
    found = []
    for a, own in values.items():
        if len(own) < _LEVELS:
            continue
        coarser = np.flatnonzero((n_levels >= 2) & (n_levels * _FINER <= len(own)))
        sorted_rows = some[np.argsort(some[:, a], kind="stable")][:, coarser]
        changes = (sorted_rows[1:] != sorted_rows[:-1]).sum(axis=0)
        for b in coarser[changes <= 2 * n_levels[coarser]].tolist():
            if b != a and _is_copy(cells[:, a], cells[:, b], own, int(n_levels[b])):
                found.append((a, b))
    return found


def _is_copy(a: NDArray[np.intp], b: NDArray[np.intp], values: Floats, n: int) -> bool:
    """Whether each of the `n` values of b is a range of the number whose levels a have these values."""
    present = (a < len(values)) & (b < n)
    table = np.bincount(a[present] * n + b[present], minlength=len(values) * n).reshape(len(values), n)
    of_b = np.sort(table.sum(axis=0))
    used = np.flatnonzero(table.sum(axis=1))
    if present.sum() < _FEWEST or of_b[-2] < _FEWEST_EACH or len(used) < _LEVELS:
        return False
    table = table[used]
    range_of = table.argmax(axis=1)
    cuts = np.flatnonzero(np.diff(range_of))
    if len(cuts) != (of_b > 0).sum() - 1 or len(set(range_of.tolist())) != len(cuts) + 1:
        return False
    mixed = np.flatnonzero((table > 0).sum(axis=1) > 1)  # intervals that a cut divides
    if not all((np.abs(cuts - level) <= 1).any() for level in mixed.tolist()):
        return False
    steps, last = np.diff(values[used]), np.cumsum(table.sum(axis=1))
    rows = np.repeat(values[used], table.sum(axis=1))  # in order
    ends = [0, *last[cuts].tolist(), len(rows)]
    return all(
        steps[cut] <= _GAP * np.median(steps[max(0, cut - _NEAR) : cut + _NEAR + 1])
        and not is_valley(rows[start:stop], rows[end - 1])
        for cut, start, end, stop in zip(cuts, ends, ends[1:], ends[2:], strict=False)
    )
