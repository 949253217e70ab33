"""Whether clusters are pieces of a gradual pattern: points along curves, surfaces, seasons, several factors.

Links between columns and one factor describe some of these patterns; they compete with the clusters by their
lengths. Pieces of any pattern have three things in common. They touch, so that many rows lie between two of
them. Columns still depend on each other inside them, because no pattern stops where a piece ends. And this
dependence points to the next piece, along the pattern. Groups may overlap and have correlated columns, but
the directions of both have nothing to do with each other.
"""

from __future__ import annotations

from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc.craft.dependence import pattern_inside
from craftc.craft.found import Found
from craftc.craft.rows import L, S

_TOUCHING = 0.94  # share of clearly placed rows, from which clusters do not touch
_INSIDE, _ALONG = 0.1, 0.1  # least dependence inside clusters over what these save, and least part along it


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
