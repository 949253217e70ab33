"""The dependence graph of the columns of a mixed table, and features from its spectrum."""

from craftc.spectral.estimator import GraphSpectralFeatures

__all__ = ["GraphSpectralFeatures"]
