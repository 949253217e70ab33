"""Clustering of tables that mix numbers, categories and missing values, with the few features that define
each cluster.

>>> import craftc
>>> model = craftc.CRAFT(n_clusters=2, n_init=4, random_state=0).fit(craftc.datasets.load_heart().data)
>>> model.labels_.shape
(270,)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = [
    "CRAFT",
    "BPMeans",
    "ConvexClustering",
    "ConvexCovariateClustering",
    "DPMeans",
    "FeatureSelectionMixture",
    "GraphSpectralFeatures",
    "KFeatures",
    "KModes",
    "KPrototypes",
    "MixedTable",
    "PaperCRAFT",
    "cli",
    "compare",
    "datasets",
    "distributed",
    "embed",
    "get_include",
    "load_model",
    "metrics",
    "plot",
    "read_table",
    "report",
    "save_model",
    "show_versions",
    "table",
    "to_onnx",
    "to_sql",
]

if TYPE_CHECKING:  # type checkers and editors read this; at run time `__getattr__` imports what is used
    from craftc import cli, datasets, distributed, embed, metrics, plot, report, table
    from craftc._about import get_include, show_versions
    from craftc.bpmeans import BPMeans, KFeatures
    from craftc.convex import ConvexClustering
    from craftc.covariates import ConvexCovariateClustering
    from craftc.craft import CRAFT, PaperCRAFT
    from craftc.craft.answers.comparison import compare
    from craftc.dpmeans import DPMeans
    from craftc.export import to_onnx, to_sql
    from craftc.kprototypes import KModes, KPrototypes
    from craftc.mixture import FeatureSelectionMixture
    from craftc.reading.read_table import read_table
    from craftc.saved.save_and_load import load_model, save_model
    from craftc.spectral import GraphSpectralFeatures
    from craftc.table import MixedTable

    __version__: str
else:
    #: The module of every public name that is not a module itself.
    _HOMES = {
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
        "PaperCRAFT": "craftc.craft",
        "compare": "craftc.craft.answers.comparison",
        "get_include": "craftc._about",
        "load_model": "craftc.saved.save_and_load",
        "read_table": "craftc.reading.read_table",
        "save_model": "craftc.saved.save_and_load",
        "show_versions": "craftc._about",
        "to_onnx": "craftc.export",
        "to_sql": "craftc.export",
    }
    _DEPENDENCIES = ("narwhals", "scipy", "sklearn", "threadpoolctl")  # besides NumPy

    def __getattr__(name):
        if name == "__version__":
            return importlib.import_module("craftc._about").version()
        if name not in __all__:
            raise AttributeError(f"module 'craftc' has no attribute {name!r}")
        try:
            module = importlib.import_module(_HOMES.get(name, f"craftc.{name}"))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _DEPENDENCIES:
                raise
            raise ImportError(
                f"craftc.{name} needs {error.name}, which is not installed; only the kernels work without "
                "it. `pip install craftc` installs it."
            ) from error
        return getattr(module, name) if name in _HOMES else module

    def __dir__():
        return sorted([*__all__, "__version__"])


try:  # on processors that cannot run the others, `parallel` raises an error that says so
    importlib.import_module("craftc._kernels.parallel")
    importlib.import_module("craftc._kernels.craft")
except ImportError as error:
    raise ImportError(importlib.import_module("craftc._missing_kernels").explanation(error)) from error
