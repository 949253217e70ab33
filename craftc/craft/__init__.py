"""CRAFT: clusters of a mixed table, each with the few features that make it one."""

from craftc.craft.estimator import CRAFT

__all__ = ["CRAFT"]
