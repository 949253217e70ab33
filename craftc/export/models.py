"""The models that can be exported."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from craftc.craft.base import CraftBase
from craftc.dpmeans import DPMeans
from craftc.export import clusters, prototypes
from craftc.export.scoring import Scoring
from craftc.kprototypes import KModes, KPrototypes


def scoring_of(model: BaseEstimator, whole: bool = False) -> Scoring:
    """How a fitted model scores rows; `whole`: also terms that cost the same in all clusters.

    TypeError: a model of another class. ValueError: a part that has no formula.
    """
    if not isinstance(model, CraftBase | KModes | KPrototypes | DPMeans):
        raise TypeError(
            "Models that can be exported are CRAFT, PaperCRAFT, KModes, KPrototypes and DPMeans, got "
            f"{type(model).__name__}."
        )
    check_is_fitted(model)
    if isinstance(model, CraftBase):
        return clusters.scoring(model, whole)
    return prototypes.of_means(model) if isinstance(model, DPMeans) else prototypes.of_prototypes(model)
