"""The engine of convex clustering, of rows and of covariates: graph, regularization path and solvers."""
