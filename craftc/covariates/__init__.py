"""Convex clustering of covariates for classification, with certified optima."""

from craftc.covariates.estimator import ConvexCovariateClustering
from craftc.covariates.similarity import correlation_similarity, knn_similarity

__all__ = ["ConvexCovariateClustering", "correlation_similarity", "knn_similarity"]
