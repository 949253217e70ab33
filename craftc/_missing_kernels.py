"""The error message if the kernels cannot be imported: not built, built for another Python, or a shared
library is missing.
"""

from __future__ import annotations

import platform
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_BUILD = "In a checkout: `pip install -e .`, or `python setup.py build_ext --inplace`"
_OPENMP = ("gomp", "libomp", "iomp", "vcomp")


def explanation(error: ImportError) -> str:
    """The reason why the kernels could not be imported, and the fix."""
    if str(error).startswith("craftc's kernels"):
        return str(error)
    folder = Path(__file__).parent / "_kernels"
    built = sorted(path.name for path in folder.glob("parallel.*") if path.suffix in (".so", ".pyd"))
    if not built:
        return (
            f"craftc's kernels are not built in this source tree. {_BUILD}; to use an installed craftc, "
            "leave the source tree."
        )
    here = f"Python {platform.python_version()} on {platform.machine()}"
    if not any(f"parallel{suffix}" in built for suffix in EXTENSION_SUFFIXES):
        return (
            f"craftc's kernels were built for another Python ({', '.join(built)}); this is {here}. Install "
            "craftc into this Python: "
            f"`{sys.executable} -m pip install --force-reinstall craftc`. {_BUILD}."
        )
    if any(name in str(error).lower() for name in _OPENMP):
        return (
            f"craftc's kernels need the OpenMP runtime, which is missing ({error}). Install it (Debian, "
            "Ubuntu: `apt install "
            "libgomp1`; Fedora: `dnf install libgomp`; macOS: `brew install libomp`), use a wheel, which "
            "includes it, or build without "
            "threads: `CRAFTC_NO_OPENMP=1 pip install --no-binary craftc craftc`."
        )
    return (
        f"craftc's kernels exist, but {here} cannot load them ({error}). Install craftc again: "
        f"`{sys.executable} -m pip install "
        f"--force-reinstall craftc`. {_BUILD}."
    )
