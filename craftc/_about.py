"""Versions of craftc and its dependencies, and properties of the build and the machine."""

from __future__ import annotations

import importlib.util
import platform
import sys
from importlib import metadata
from pathlib import Path

from craftc._common.threads import effective_n_threads
from craftc._kernels import parallel

VERSION = "0.1.0"  # that of pyproject.toml


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
    return VERSION


def version_of(distribution: str, module: str) -> str:
    """The version of a package: of its module if that is loaded, else of its metadata, which frozen
    applications often lack.
    """
    if module not in sys.modules:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            if importlib.util.find_spec(module) is None:
                return "not installed"
    try:
        return str(importlib.import_module(module).__version__)
    except (metadata.PackageNotFoundError, AttributeError):  # some modules read it from their metadata
        return "unknown"


def versions() -> dict[str, str]:
    """Versions of craftc and its dependencies, threads, OpenMP and instruction set, as text by name."""
    python = sys.version.split()[0] + (
        "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without the GIL"
    )
    found = {"craftc": version(), "python": python, "platform": platform.platform()}
    for package in ("numpy", "scipy", "scikit-learn", "narwhals", "pandas", "polars", "pyarrow"):
        found[package] = version_of(package, "sklearn" if package == "scikit-learn" else package)
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
