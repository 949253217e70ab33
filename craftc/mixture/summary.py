"""The summary of a fitted mixture."""

from __future__ import annotations

from typing import Any

from craftc._common.cluster_moments import ClusterMoments
from craftc.table.cluster_summary import column_names, summary_frame, typical_numbers


def mixture_summary(model: Any) -> Any:
    """The frame of ``FeatureSelectionMixture.summary``: that of CRAFT, and the probability that a feature is selected."""
    scaling = model._posterior.scaling
    inside = typical_numbers(ClusterMoments(model.cluster_sizes_, model.means_, model.variances_))
    everywhere = typical_numbers(ClusterMoments(model.cluster_sizes_.sum(keepdims=True), scaling.mean[None], scaling.variance[None]))[0]
    return summary_frame(model, model.weights_, column_names(model), inside, everywhere, probability=model.feature_probabilities_)
