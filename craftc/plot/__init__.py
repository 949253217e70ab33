"""Pictures of fitted models (matplotlib, networkx: ``pip install 'craftc[app]'``)."""

from craftc.plot.pictures import dependence_graph, features, fusion_tree, spectrum, tiles

__all__ = ["dependence_graph", "features", "fusion_tree", "spectrum", "tiles"]
