"""CRAFT: clusters of mixed tables, each defined by a few features of its own."""

from craftc.craft.estimator import CRAFT

__all__ = ["CRAFT"]
