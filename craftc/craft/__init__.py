"""CRAFT: clusters of mixed tables, each defined by a few features of its own."""

from craftc.craft.estimator import CRAFT
from craftc.craft.parameters import cluster_price, price_terms

__all__ = ["CRAFT", "cluster_price", "price_terms"]
