"""Maps ``src/*.pyx`` to ``craftc._kernels.*``; everything else stands in pyproject.toml.

Switches (environment): ``CRAFTC_DEBUG=1`` bounds checks and monotonicity assertions on, ``CRAFTC_NO_OPENMP=1`` builds
serial kernels, ``CRAFTC_NO_INT128=1`` uses the two-limb integers of compilers without a 128-bit type.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SRC, PACKAGE, GENERATED = Path("src"), Path("craftc/_kernels"), Path("build/cython")
HEADERS = [str(path) for path in sorted(SRC.glob("*.h"))]


def switch(name):
    return os.environ.get(name, "0") not in ("", "0")


DEBUG = switch("CRAFTC_DEBUG")
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "nonecheck": False,
    "cdivision": True,
    "cpow": False,
    "embedsignature": True,
    "freethreading_compatible": True,
}
MACROS = [(name, "1") for name in ("CRAFTC_DEBUG", "CRAFTC_NO_INT128") if switch(name)]


def flags():
    """Compile and link flags: never -march=native, never -ffast-math, no contraction (same bits on every clone)."""
    if sys.platform == "win32":
        compile_flags = ["/O2"]
        openmp = (["/openmp"], [])
    else:
        compile_flags = ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fvisibility=hidden"]
        mac = sys.platform == "darwin"
        openmp = (["-Xpreprocessor", "-fopenmp"], ["-lomp"]) if mac else (["-fopenmp"], ["-fopenmp"])
    if switch("CRAFTC_NO_OPENMP"):
        openmp = ([], [])
    return compile_flags + openmp[0], openmp[1]


def kernel(pyx):
    own, generated = PACKAGE / f"{pyx.stem}.pxd", GENERATED / pyx.with_suffix(".c")
    if own.exists() and generated.exists() and own.stat().st_mtime > generated.stat().st_mtime:
        generated.unlink()  # cythonize tracks a module's own .pxd only when it lies beside the .pyx
    compile_flags, link_flags = flags()
    return Extension(
        f"craftc._kernels.{pyx.stem}",
        [str(pyx)],
        include_dirs=[str(SRC)],
        define_macros=MACROS,
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
        depends=[str(pyx), *HEADERS],
    )


setup(
    packages=["craftc", "craftc._kernels"],
    package_data={"craftc": ["py.typed", "*.pxd", "*.h", "data/*.csv"], "craftc._kernels": ["*.pxd", "*.pyi"]},
    ext_modules=cythonize(
        [kernel(pyx) for pyx in sorted(SRC.glob("*.pyx"))],
        include_path=["."],
        build_dir=str(GENERATED),
        compiler_directives=DIRECTIVES,
    ),
)
