"""Plots of fitted models. They need matplotlib and networkx: ``pip install 'craftc[app]'``.

Without them a plot raises ImportError; for a model of another kind than those it names, TypeError. A plot
draws on `ax` or a new figure, and returns the axes. ``ax.figure.savefig("map.svg")`` of a new figure saves it
at 300 dpi, and in SVG and PDF with text as text.
"""

from craftc.plot.cluster_map import map
from craftc.plot.distributions import distribution, sizes
from craftc.plot.graph import dependence_graph, spectrum
from craftc.plot.heatmap import heatmap
from craftc.plot.merge_tree import merge_tree
from craftc.plot.null_test import null_test
from craftc.plot.overlaps import stability
from craftc.plot.pictures import features
from craftc.plot.savings import path
from craftc.plot.tile_table import tiles
from craftc.plot.tree import fusion_tree

__all__ = [
    "dependence_graph",
    "distribution",
    "features",
    "fusion_tree",
    "heatmap",
    "map",
    "merge_tree",
    "null_test",
    "path",
    "sizes",
    "spectrum",
    "stability",
    "tiles",
]
