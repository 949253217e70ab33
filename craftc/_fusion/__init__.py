"""Convex clustering of rows and of covariates: data fits, graph, regularization path and solvers."""
