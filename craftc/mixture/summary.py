"""The summary of a fitted mixture."""

from __future__ import annotations

from typing import Any

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.estimator import column_names
from craftc.describe.frames import summary_frame, typical_numbers
from craftc.describe.overview import Overview


def mixture_summary(model: Any) -> Any:
    """The frame of ``FeatureSelectionMixture.summary``: that of CRAFT, and the probability that a feature is
    selected.
    """
    scaling = model._posterior.scaling
    everywhere = typical_numbers(
        ClusterMoments(model.cluster_sizes_.sum(keepdims=True), scaling.mean[None], scaling.variance[None])
    )[0]
    probability = model.feature_probabilities_
    return summary_frame(
        model,
        model.weights_,
        column_names(model),
        _typical_values(model),
        everywhere,
        probability=probability,
    )


def mixture_overview(model: Any) -> Overview:
    """What the HTML display of a fitted mixture shows."""
    return Overview(
        None, column_names(model), _typical_values(model), model.feature_mask_, model.feature_gains_, []
    )


def _typical_values(model: Any) -> list[list[str]]:
    """Per cluster and column: mean ± standard deviation."""
    return typical_numbers(ClusterMoments(model.cluster_sizes_, model.means_, model.variances_))
