"""Convex clustering of rows: the classic baseline, with certified optima along a whole path."""

from craftc.convex.estimator import ConvexClustering

__all__ = ["ConvexClustering"]
