"""A graph of which columns of a mixed table depend on each other, and its spectrum as features."""

from craftc.spectral.estimator import GraphSpectralFeatures

__all__ = ["GraphSpectralFeatures"]
