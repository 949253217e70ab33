"""Whether clusters are pieces of a gradual pattern: points along curves, surfaces, seasons, several factors.

Links between columns and one factor describe some of these patterns; they compete with the clusters by their
lengths. Pieces of any pattern have three things in common. They touch, so that many rows lie between two of
them. Columns still depend on each other inside them, because no pattern stops where a piece ends. And this
dependence points to the next piece, along the pattern. Groups may overlap and have correlated columns, but
the directions of both have nothing to do with each other.
"""

from __future__ import annotations

from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc._common.typing import Floats
from craftc.craft.dependence import pattern_inside
from craftc.craft.fitted import ColumnLinks
from craftc.craft.rows import L, S
from craftc.craft.search import FitConfig

_TOUCHING = 0.94  # share of clearly placed rows, from which clusters do not touch
_INSIDE, _ALONG = 0.1, 0.1  # least dependence inside clusters over what these save, and least part along it


def pattern_of_pieces(
    config: FitConfig[L, S],
    labels: S,
    n_clusters: int,
    n_best: int,
    gains: Floats,
    links: ColumnLinks,
    saved: float,
    clear: float | None,
) -> float | None:
    """Nats of the dependence inside clusters over the nats that these save, if they are pieces of a gradual
    pattern that `links` do not show.

    `labels`: a snapshot of the partition; `n_best`: the number of clusters that describes the table best,
    because pieces of groups are no pattern; `gains` (D,): what clusters save in every column; `clear`: the
    share of the rows that are clearly placed, where it is known.
    """
    if clear is None or clear >= _TOUCHING or links.ratio(saved) > 1.0:
        return None
    if n_clusters != n_best or n_clusters < 2 or saved <= 0.0:
        return None
    positions, sample = config.sample(SAMPLE_ROWS, CraftStream.COVARIANCE_SAMPLE)
    of_sample = config.rows.labels_at(labels, positions)
    nats, along = pattern_inside(sample, of_sample, n_clusters, gains)
    share = nats / (saved * sample.rows_weight / config.rows_weight)
    return share if share > _INSIDE and along > _ALONG else None
