"""DP-means: k-means that finds the number of clusters (MAD-Bayes)."""

from craftc.dpmeans.estimator import DPMeans

__all__ = ["DPMeans"]
