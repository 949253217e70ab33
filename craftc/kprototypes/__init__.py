"""k-modes and k-prototypes: k-means for tables with categorical columns."""

from craftc.kprototypes.estimators import KModes, KPrototypes

__all__ = ["KModes", "KPrototypes"]
