"""What a search has found: the clusters in all forms that a fitted model has, what they save, and two signs
of their kind.

**Pieces of a gradual pattern**: points along curves, surfaces, seasons, several factors. Links between
columns and one factor describe some of these patterns; they compete with the clusters by their lengths.
Pieces of any pattern have three things in common. They touch, so that many rows lie between two of them.
Columns still depend on each other inside them, because no pattern stops where a piece ends. And this
dependence points to the next piece, along the pattern. Groups may overlap and have correlated columns, but
the directions of both have nothing to do with each other.

**Groups that the price of a long table merges.** A price factor above 1 keeps the number of clusters from
growing with the rows where columns depend on each other inside clusters. It also merges many small groups,
whose shares of the rows are too small to pay for their parameters in a table of 1000 rows. Inside pieces of a
gradual pattern columns still depend on each other, because no pattern stops where a piece ends; inside groups
they do not, although groups overlap. Some groups have dependent columns, too. Three signs together tell these
from pieces: few rows lie between two groups, links between columns save little of what the groups save, and
the price gives up much of that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Generic

import numpy as np

from craftc._common.merge_path import Change, shortest_step
from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc._common.typing import Floats
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.dependence import dependence_inside, pattern_inside
from craftc.craft.fitted import ColumnLinks, FittedClusters, saved_by
from craftc.craft.links import column_links
from craftc.craft.refit import Former
from craftc.craft.rows import L, RowStore, S
from craftc.craft.rows.scores import CLEAR_MARGIN, margins_of
from craftc.craft.search import AutomaticResult, EncodedRows, FitConfig
from craftc.craft.search.merges import START_CLUSTERS, MergeSplitSearch
from craftc.craft.search.starts import kmeans_plus_plus_labels, mixture
from craftc.table.levels import LevelEncoding
from craftc.table.moments import ExactSums

_TOUCHING = 0.94  # share of clearly placed rows, from which clusters do not touch
_INSIDE, _ALONG = 0.1, 0.1  # least dependence inside clusters over what these save, and least part along it
_FEW_ROWS = 1 << 12  # by which links and the dependence of all pairs of columns are compared
_INDEPENDENT = 0.5  # least share of the rows that groups have inside which columns are independent
# or: least share of clearly placed rows, and to what all groups save: what links, and what the clusters of
# the price save at most
_PLACED, _FEW_LINKS, _KEPT = 0.8, 0.25, 0.7
_LINKED = 2.0  # times what links save: the dependence that links explain
_KMEANS_START = 2  # a start of `start_partition` that begins with k-means++


@dataclass
class Found(Generic[L, S]):
    """The clusters that the search of `config` has found."""

    config: FitConfig[L, S]
    snapshot: S  # of the labels
    clusters: Clusters
    fitted: FittedClusters
    rows: RowStore[L, S]  # with scores, where clusters hold covariances
    labels: S
    gains: Floats  # (D,) nats that the clusters save in every column
    saved: float  # nats that they save on their merge path
    n_best: int  # clusters of the lowest J on the path
    changes: list[Change]  # from these clusters to those

    @classmethod
    def of(
        cls,
        encoded: EncodedRows[L, S],
        config: FitConfig[L, S],
        result: AutomaticResult[S],
        former: Former | None,
    ) -> Found[L, S]:
        """Compute all of it from the result of a search among `encoded` rows; `former` clusters give these
        their numbers.
        """
        rows, background, encoding = encoded.rows, encoded.background, encoded.encoding
        moments, path, along = result.moments, result.merge_path, result.path_clusters
        clusters = result.clusters
        assert isinstance(encoding, LevelEncoding)
        original_units = encoded.in_original_units(moments, result.labels, config.n_threads)
        if result.cross is not None:
            encoding = encoding.with_scores()
            rows = rows.scored(encoding)
        if clusters is None:
            if result.cross is not None:
                background = Background(moments.total(), encoding)
            clusters = Clusters(moments, background, result.spec, result.mask, result.cross, keep=True)
        labels = rows.restated(result.labels, clusters, path)
        schema = encoded.source.schema
        if not encoding.identity:
            along.original = encoded.source.sums_along(path, original_units, config.n_threads)
        gains = _gains_of_columns(clusters, encoding)
        saved = saved_by(clusters, path, result.cross is not None)
        sums = ExactSums.of(moments)
        fitted = FittedClusters(
            result.spec,
            schema,
            encoding,
            sums,
            sums if encoding.identity else ExactSums.of(original_units),
            result.mask,
            result.cross,
            path,
            along,
            column_links(config, encoding, gains, clusters, saved),
            None if former is None else former.order,
        )
        fitted.remember(clusters)
        best = shortest_step(path.objectives())
        n_best, changes = path.objectives()[best][0], list(path.changes()[:best])
        return cls(config, result.labels, clusters, fitted, rows, labels, gains, saved, n_best, changes)

    @property
    def links(self) -> ColumnLinks:
        """Links between the columns, which compete with the clusters."""
        return self.fitted.links

    @property
    def dependent(self) -> bool:
        """Whether links save more than clusters."""
        return self.links.ratio(self.saved) > 1.0


def pattern_of_pieces(found: Found[L, S], clear: float | None) -> float | None:
    """Nats of the dependence inside clusters over the nats that these save, if they are pieces of a gradual
    pattern that links do not show. `clear`: the share of the rows that are clearly placed, where it is known.

    Pieces of groups are no pattern, so that the clusters must be the ones that describe the table best.
    """
    if clear is None or clear >= _TOUCHING or found.dependent:
        return None
    config, K, saved = found.config, found.clusters.moments.n_clusters, found.saved
    if found.n_best != K or K < 2 or saved <= 0.0:
        return None
    positions, sample = config.sample(SAMPLE_ROWS, CraftStream.COVARIANCE_SAMPLE)
    of_sample = config.rows.labels_at(found.snapshot, positions)
    nats, along = pattern_inside(sample, of_sample, K, found.gains)
    share = nats / (saved * sample.rows_weight / config.rows_weight)
    return share if share > _INSIDE and along > _ALONG else None


def falls_apart(found: Found[L, S]) -> bool:
    """Whether a search at a price factor of 1, among a sample of the rows, ends in more clusters that are
    groups.
    """
    config, links = found.config, found.links
    encoding, none = config.encoding, np.zeros(config.rows.schema.n_columns)
    assert encoding is not None
    if found.dependent:
        positions, sample = config.sample(_FEW_ROWS, CraftStream.COVARIANCE_SAMPLE)
        nats, _ = dependence_inside(sample, np.ones((len(positions), 1)), none)
        if nats[0] <= _LINKED * links.rival * sample.rows_weight / config.rows_weight:
            return False
    positions, sample = config.sample(SAMPLE_ROWS, CraftStream.COVARIANCE_SAMPLE)
    own = config.rows.labels_at(found.snapshot, positions)
    for change in found.changes:
        own = change.place[own]
    sample = replace(sample, spec=replace(sample.spec, price_factor=1.0))
    search = MergeSplitSearch(sample, sample.n_threads)
    merged = search.partition(own)
    if not dependence_inside(sample, mixture(sample, search.clusters(merged)), none)[1].any():
        return False
    seeds = kmeans_plus_plus_labels(sample, min(START_CLUSTERS, sample.max_clusters), _KMEANS_START)
    K, kept, parts = merged.K, -merged.objective, [merged, search.begin(seeds, soft=False)]
    for part in parts:
        while search.split_once(part):
            pass
    best = min(parts, key=attrgetter("objective"))
    if best.K <= K:
        return False
    clusters, saved = search.clusters(best), -best.objective
    gains = _gains_of_columns(clusters, encoding)
    weight = sample.weight if len(sample.weight) else np.ones(len(own))
    everything = float(weight.sum())
    probabilities = mixture(sample, clusters)
    _, sure = dependence_inside(sample, probabilities, gains)
    of_all = saved * config.rows_weight / sample.rows_weight
    ratio = column_links(sample, encoding, gains, clusters, of_all).ratio(of_all)
    if weight @ probabilities @ ~sure >= _INDEPENDENT * everything:
        return ratio <= 1.0
    placed = weight @ (margins_of(clusters, sample.table) >= CLEAR_MARGIN)
    return bool(placed >= _PLACED * everything) and ratio <= _FEW_LINKS and kept <= _KEPT * saved


def _gains_of_columns(clusters: Clusters, encoding: LevelEncoding) -> Floats:
    """(D,) nats that clusters save in every input column."""
    gains = np.where(clusters.mask, clusters.gains, 0.0).sum(axis=0)
    return np.bincount(encoding.source, gains, encoding.input_schema.n_columns).astype(np.float64)
