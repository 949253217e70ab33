"""Order of the examples: that of the method pages."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    "craft",
    "reading",
    "how_many",
    "missing",
    "dp_means",
    "feature_models",
    "mixture",
    "covariates",
    "convex_clustering",
    "spectral",
)


class InOrder:
    """Sort key of sphinx-gallery: files in `ORDER` first, then the others by name."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).stem.removeprefix("plot_")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
