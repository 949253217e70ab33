"""Whole fits on one thread and on two: what the second thread saves.

Left out of pull requests, whose machines are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tools import Imports, quietly

new = Imports()
with new:
    import craftc

    from .bpmeans import long_table
    from .common import mixed_table
    from .dpmeans import blobs
    from .mixture import clusters
    from .spectral import table
setup = new.setup


def craft() -> tuple[Any, Any]:
    model = craftc.PaperCRAFT(5, cluster_price=0.0, model="likelihood", n_init=1, max_iter=20, random_state=0)
    return model, mixed_table(50_000, 8, 8)


def dpmeans() -> tuple[Any, Any]:
    return craftc.DPMeans(80.0, mode="delayed"), blobs("16 columns", "float32")


def k_prototypes() -> tuple[Any, Any]:
    return craftc.KPrototypes(
        16, update="batch", init="random", n_init=1, max_iter=20, random_state=0
    ), mixed_table(50_000, 8, 8)


def k_features() -> tuple[Any, Any]:
    return craftc.KFeatures(8, n_init=1, random_state=0), long_table(20_000, 64, 8, "float32")[0]


def mixture() -> tuple[Any, Any]:
    model = craftc.FeatureSelectionMixture(20, max_iter=12, tol=0.0, merge=False, n_init=1, random_state=0)
    return model, clusters("20 columns")


def spectral() -> tuple[Any, Any]:
    return craftc.GraphSpectralFeatures(random_state=0), table("census, 2000 rows")


FITS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "CRAFT": craft,
    "DPMeans": dpmeans,
    "KFeatures": k_features,
    "KPrototypes": k_prototypes,
    "FeatureSelectionMixture": mixture,
    "GraphSpectralFeatures": spectral,
}


class Fit:
    """A whole fit."""

    params: Any = (list(FITS), [1, 2])
    param_names = ("estimator", "threads")

    def setup(self, name: str, threads: int) -> None:
        if not hasattr(craftc, name):
            raise NotImplementedError(f"This commit has no {name}.")
        self.model, self.X = FITS[name]()
        self.model.set_params(n_threads=threads)

    def time_fit(self, *_: Any) -> None:
        quietly(self.model, self.X)
