"""CRAFT: clusters of mixed tables, each defined by a few features of its own."""

from craftc.craft.estimator import CRAFT
from craftc.craft.paper import PaperCRAFT
from craftc.craft.parameters import cluster_price, price_terms
from craftc.craft.progress import Progress

__all__ = ["CRAFT", "PaperCRAFT", "Progress", "cluster_price", "price_terms"]
