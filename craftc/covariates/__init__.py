"""Groups of covariates for a classifier by convex clustering, every optimum certified."""

from craftc._fusion.graph import correlation_similarity, knn_similarity
from craftc.covariates.estimator import ConvexCovariateClustering

__all__ = ["ConvexCovariateClustering", "correlation_similarity", "knn_similarity"]
