"""Clustering of tables that mix numbers, categories and missing values, with the few features that define
each cluster.

>>> import craftc
>>> model = craftc.CRAFT(n_clusters=2, n_init=4, random_state=0).fit(craftc.datasets.load_heart().data)
>>> model.labels_.shape
(270,)
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "BPMeans": "craftc.bpmeans",
    "CRAFT": "craftc.craft",
    "ConvexClustering": "craftc.convex",
    "ConvexCovariateClustering": "craftc.covariates",
    "DPMeans": "craftc.dpmeans",
    "FeatureSelectionMixture": "craftc.mixture",
    "GraphSpectralFeatures": "craftc.spectral",
    "KFeatures": "craftc.bpmeans",
    "KModes": "craftc.kprototypes",
    "KPrototypes": "craftc.kprototypes",
    "MixedTable": "craftc.table",
    "compare": "craftc.craft.comparison",
    "get_include": "craftc._about",
    "load_model": "craftc.saved.save_and_load",
    "read_table": "craftc.reading.read_table",
    "save_model": "craftc.saved.save_and_load",
    "show_versions": "craftc._about",
}
_MODULES = ("cli", "datasets", "distributed", "embed", "metrics", "plot", "report", "table")

_DEPENDENCIES = ("narwhals", "scipy", "sklearn", "threadpoolctl")  # besides NumPy

__all__ = [*_NAMES, *_MODULES]

try:
    importlib.import_module(
        "craftc._kernels.parallel"
    )  # raises a clear error on processors that cannot run the others
    importlib.import_module("craftc._kernels.craft")
except ImportError as error:
    raise ImportError(importlib.import_module("craftc._missing_kernels").explanation(error)) from error


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("craftc._about").version()
    if name not in __all__:
        raise AttributeError(f"module 'craftc' has no attribute {name!r}")
    try:
        module = importlib.import_module(_NAMES.get(name, f"craftc.{name}"))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _DEPENDENCIES:
            raise
        raise ImportError(
            f"craftc.{name} needs {error.name}, which is not installed; only the kernels work without it. "
            "`pip install craftc` installs it."
        ) from error
    return getattr(module, name) if name in _NAMES else module


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
