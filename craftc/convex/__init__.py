"""Convex clustering of rows, with certified optima along a regularization path."""

from craftc.convex.estimator import ConvexClustering

__all__ = ["ConvexClustering"]
