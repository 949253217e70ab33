"""Whether a table has groups, and how many, in words."""

from __future__ import annotations

from collections.abc import Sequence

from craftc._common.merge_path import n_clusters_within
from craftc.describe.words import listing, nats

_TIE = 5.0  # nats by which another number of clusters is nearly as good, at a price factor of 1


def nearly_as_good(
    objectives: Sequence[tuple[int, float]], price_factor: float
) -> tuple[float, list[int], str]:
    """5 nats, times a price factor above 1; the numbers of clusters of a merge path within these of the best;
    and a sentence, which is empty if there is only one.
    """
    most = _TIE * max(1.0, price_factor)
    numbers = n_clusters_within(objectives, most) if objectives else []
    several = f"{listing(numbers)} clusters describe the table nearly as well: within {nats(most)} nats."
    return most, numbers, several if len(numbers) > 1 else ""
