"""Versions of craftc and its dependencies, and properties of the build and the machine."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

from craftc._common.threads import effective_n_threads
from craftc._kernels import parallel


def get_include() -> str:
    """Directory for ``cythonize(include_path=[...])``, so that ``cimport craftc...`` works.

    Returns
    -------
    str
        The parent directory of the package, in wheels and in editable installs.
    """
    return str(Path(__file__).resolve().parent.parent)


def version() -> str:
    """The version of craftc."""
    try:
        return metadata.version("craftc")
    except metadata.PackageNotFoundError:
        return "not installed (run from a checkout)"


def versions() -> dict[str, str]:
    """Versions of craftc and its dependencies, threads, OpenMP and instruction set, as text by name."""
    python = sys.version.split()[0] + (
        "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without the GIL"
    )
    found = {"craftc": version(), "python": python, "platform": platform.platform()}
    for package in ("numpy", "scipy", "scikit-learn", "narwhals", "pandas", "polars", "pyarrow"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    found["openmp"] = "yes" if parallel.openmp() else "no (serial build)"
    found["threads"] = f"{effective_n_threads()} of {parallel.n_processors()} processors"
    found["simd"] = parallel.simd()
    found["128-bit sums"] = "native" if parallel.native_int128() else "two limbs"
    if parallel.debug():
        found["build"] = "debug (bounds checks, monotonicity assertion)"
    return found


def show_versions() -> None:
    """Print the versions, threads, OpenMP and instruction set in use, for bug reports."""
    for name, text in versions().items():
        print(f"{name:>13}: {text}")
