"""What a model, and tests of it, say about the structure of its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from craftc.craft.answers.null_test import NullTest
from craftc.craft.answers.stability import Stability
from craftc.craft.base import CraftBase
from craftc.describe.structure import Structure


def structure_of(
    model: CraftBase,
    null_test: NullTest | None = None,
    stability: Stability | None = None,
    agreement: Sequence[float] = (),
) -> Structure:
    """The structure that a model shows; `agreement`: adjusted Rand indices with fits from other seeds."""
    found: Structure = model._structure()
    if null_test is not None:
        found = replace(
            found,
            saving=null_test.saving,
            null_savings=null_test.null_savings.tolist(),
            n_sampled=null_test.n_rows if null_test.sampled else 0,
            one_and_two=null_test.one_and_two,
        )
    agreement = [
        *agreement,
        *(() if null_test is None or null_test.agreement is None else [null_test.agreement]),
    ]
    if stability is not None and model.n_clusters_ > 1:
        agreement = [*agreement, *stability.agreement.tolist()]
        mean = stability.mean
        known = ~np.isnan(mean)
        if known.any():
            overlap = float(np.average(mean[known], weights=model.cluster_sizes_[known]))
            found = replace(found, overlap=overlap)
    return replace(found, agreement=agreement)
