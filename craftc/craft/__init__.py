"""CRAFT: clusters of mixed tables, each defined by a few features of its own."""

from craftc.craft.answers.comparison import Comparison
from craftc.craft.answers.path import NullTest
from craftc.craft.answers.stability import Stability
from craftc.craft.changes import Changes
from craftc.craft.estimator import CRAFT
from craftc.craft.paper.estimator import PaperCRAFT
from craftc.craft.parameters import cluster_price, price_terms
from craftc.craft.progress import Progress
from craftc.describe.rules import Rules
from craftc.describe.table_one import Profile

__all__ = [
    "CRAFT",
    "Changes",
    "Comparison",
    "NullTest",
    "PaperCRAFT",
    "Profile",
    "Progress",
    "Rules",
    "Stability",
    "cluster_price",
    "price_terms",
]
