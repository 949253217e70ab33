"""What a search has found: the clusters in all forms that a fitted model has, and what they save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np

from craftc._common.merge_path import Change, shortest_step
from craftc._common.typing import Floats
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.fitted import ColumnLinks, FittedClusters, saved_by
from craftc.craft.links import column_links
from craftc.craft.refit import Former
from craftc.craft.rows import L, RowStore, S
from craftc.craft.search import AutomaticResult, EncodedRows, FitConfig
from craftc.table.levels import LevelEncoding
from craftc.table.moments import ExactSums


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
        of_features = np.where(clusters.mask, clusters.gains, 0.0).sum(axis=0)
        gains = np.bincount(encoding.source, of_features, schema.n_columns).astype(np.float64)
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
