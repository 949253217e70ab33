"""The summary of a fitted mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc.table.cluster_summary import number, summary_frame


def mixture_summary(model: Any) -> Any:
    """The frame of ``FeatureSelectionMixture.summary``: that of CRAFT, and the probability that a feature is selected."""
    names = getattr(model, "feature_names_in_", None)
    columns = [f"x{d}" for d in range(model.n_features_in_)] if names is None else list(names)
    inside = [
        [f"{number(mean)} ± {number(deviation)}" for mean, deviation in zip(means, deviations, strict=True)]
        for means, deviations in zip(model.means_, np.sqrt(model.variances_), strict=True)
    ]
    scaling = model._posterior.scaling
    everywhere = [f"{number(mean)} ± {number(deviation)}" for mean, deviation in zip(scaling.mean, np.sqrt(scaling.variance), strict=True)]
    return summary_frame(model, model.weights_, columns, inside, everywhere, probability=model.feature_probabilities_)
