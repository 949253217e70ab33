"""Shared by all methods: array types, labels, random streams, threads, weights, validation, convergence."""
