"""Clusters of mixed tables - numbers, categories and holes - and the few features that make each cluster one.

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
    "MixedTable": "craftc.table",
    "get_include": "craftc._about",
    "load_model": "craftc.craft.model_file",
    "save_model": "craftc.craft.model_file",
    "show_versions": "craftc._about",
}
_MODULES = ("cli", "datasets", "embed", "metrics", "plot", "table")

_DEPENDENCIES = ("narwhals", "scipy", "sklearn", "threadpoolctl")  # beside NumPy

__all__ = [*_NAMES, *_MODULES]

try:
    importlib.import_module("craftc._kernels.parallel")  # says so where the others cannot run
    importlib.import_module("craftc._kernels.craft")
except ImportError as error:
    raise ImportError(importlib.import_module("craftc._missing_kernels").sentence(error)) from error


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'craftc' has no attribute {name!r}")
    try:
        module = importlib.import_module(_NAMES.get(name, f"craftc.{name}"))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _DEPENDENCIES:
            raise
        raise ImportError(
            f"craftc.{name} needs {error.name}, which is not installed; only the kernels do without. `pip install craftc` brings it along."
        ) from error
    return getattr(module, name) if name in _NAMES else module


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
