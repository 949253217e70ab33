"""BP-means and K-features: rows that belong to several groups at once (MAD-Bayes)."""

from craftc.bpmeans.estimators import BPMeans, KFeatures

__all__ = ["BPMeans", "KFeatures"]
