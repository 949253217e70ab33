"""A Dirichlet process mixture whose components select their own features, by variational inference."""

from craftc.mixture.estimator import FeatureSelectionMixture

__all__ = ["FeatureSelectionMixture"]
