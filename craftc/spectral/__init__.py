"""The dependence graph of the columns of a mixed table, and features from its spectrum."""

from craftc.spectral.estimator import GraphSpectralFeatures
from craftc.spectral.observed import ObservedGraph, observed_graph

__all__ = ["GraphSpectralFeatures", "ObservedGraph", "observed_graph"]
