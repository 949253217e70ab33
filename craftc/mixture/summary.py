"""The summary of a fitted mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.typing import Floats
from craftc.table.cluster_summary import number, summary_frame
from craftc.table.html_overview import Overview


def mixture_summary(model: Any) -> Any:
    """The frame of ``FeatureSelectionMixture.summary``: that of CRAFT, and the probability that a feature is selected."""
    columns, inside = _columns(model), _typical_values(model.means_, model.variances_)
    scaling = model._posterior.scaling
    everywhere = _typical_values(scaling.mean[None], scaling.variance[None])[0]
    return summary_frame(model, model.weights_, columns, inside, everywhere, probability=model.feature_probabilities_)


def mixture_overview(model: Any) -> Overview:
    """What the HTML display of a fitted mixture shows."""
    values = _typical_values(model.means_, model.variances_)
    return Overview(None, _columns(model), values, model.feature_mask_, model.feature_gains_, [])


def _columns(model: Any) -> list[Any]:
    names = getattr(model, "feature_names_in_", None)
    return [f"x{d}" for d in range(model.n_features_in_)] if names is None else list(names)


def _typical_values(means: Floats, variances: Floats) -> list[list[str]]:
    """(K, D) means and standard deviations as text."""
    return [
        [f"{number(mean)} ± {number(deviation)}" for mean, deviation in zip(*of_cluster, strict=True)]
        for of_cluster in zip(means, np.sqrt(variances), strict=True)
    ]
