"""Maps ``src/FAMILY/NAME.pyx`` to ``craftc._kernels.NAME``; everything else stands in pyproject.toml.

Switches (environment): ``CRAFTC_DEBUG=1`` bounds checks and monotonicity assertions on,
``CRAFTC_NO_OPENMP=1`` builds serial kernels, ``CRAFTC_NO_INT128=1`` uses the two-limb integers of compilers
without a 128-bit type, ``CRAFTC_QUICK=1`` compiles in half the time and gives the same bits from slower
kernels, as a debug build does, ``CRAFTC_LINETRACE=1`` lets coverage see the lines of the ``.pyx`` (the C
is then in the same folder), and ``CRAFTC_SANITIZE=address,undefined`` or ``thread`` builds with these
sanitizers. Wheels are built with none of them.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

SRC, PACKAGE, GENERATED = Path("src"), Path("craftc/_kernels"), Path("build/cython")
UTILITY = "craftc._kernels._cyutility"
HEADERS = [str(path) for path in sorted(SRC.rglob("*.h"))]
PRECOMPILED = GENERATED / "first.h.gch"
FIRST = """#define PY_SSIZE_T_CLEAN
#include "Python.h"
#include "common/_simd.h"
#if CRAFTC_CLONES
#include <immintrin.h>
#endif
"""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def switch(name):
    return os.environ.get(name, "0") not in ("", "0")


DEBUG, LINETRACE, SANITIZE = (
    switch("CRAFTC_DEBUG"),
    switch("CRAFTC_LINETRACE"),
    os.environ.get("CRAFTC_SANITIZE", ""),
)
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "nonecheck": False,
    "cdivision": True,
    "cpow": False,
    "annotation_typing": False,  # annotations are for src/stubs.py
    "embedsignature": True,
    "freethreading_compatible": True,
    "linetrace": LINETRACE,
}
MACROS = [(name, "1") for name in ("CRAFTC_DEBUG", "CRAFTC_NO_INT128") if switch(name)]
if sys.platform != "win32":  # Cython asks for copies of its own functions in all callers: a tenth of the time
    MACROS += [("CYTHON_INLINE", "__attribute__((unused))")]
if LINETRACE:
    MACROS += [("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")]


def flags():
    """Compile and link flags: never -march=native, never -ffast-math, no contraction (same bits on every
    clone).
    """
    if sys.platform == "win32":
        compile_flags = ["/O2", "/std:c11"]
        openmp = (["/openmp"], [])
    else:
        compile_flags = [
            "-O3",
            "-g0",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-ffp-contract=off",
            "-fvisibility=hidden",
        ]
        mac = sys.platform == "darwin"
        openmp = (["-Xpreprocessor", "-fopenmp"], ["-lomp"]) if mac else (["-fopenmp"], ["-fopenmp"])
    if switch("CRAFTC_NO_OPENMP"):
        openmp = ([], [])
    sanitize = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
    if (DEBUG or switch("CRAFTC_QUICK")) and sys.platform != "win32":
        compile_flags += ["-O1"]  # gcc needs half the time
    elif sys.platform != "win32" and not SANITIZE:
        compile_flags += ["-fno-asynchronous-unwind-tables"]  # a twentieth of a wheel; nothing unwinds C
    if SANITIZE:
        compile_flags += ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
    return compile_flags + openmp[0] + sanitize, openmp[1] + sanitize


def extension(name, source, depends=(), optimize=True):
    compile_flags, link_flags = flags()
    if not optimize and sys.platform != "win32":
        compile_flags = [*compile_flags, "-O1"]
    return Extension(
        name,
        [str(source)],
        include_dirs=[str(SRC)],
        define_macros=MACROS,
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
        depends=list(depends),
    )


def kernel(pyx):
    own, generated = PACKAGE / f"{pyx.stem}.pxd", GENERATED / pyx.with_suffix(".c")
    if own.exists() and generated.exists() and own.stat().st_mtime > generated.stat().st_mtime:
        generated.unlink()  # cythonize tracks a module's own .pxd only when it is next to the .pyx
    return extension(f"craftc._kernels.{pyx.stem}", pyx, [str(pyx), *HEADERS])


def kernels():
    """Every kernel, and the module that holds Cython's memoryviews for all of them."""
    pyx = [kernel(path) for path in sorted(SRC.rglob("*.pyx"))]
    return pyx if LINETRACE else [*pyx, extension(UTILITY, SRC / "_cyutility.c", optimize=False)]


def translated(extensions):
    """The extensions with C instead of Cython."""
    if LINETRACE:  # the coverage plugin wants the C next to the .pyx, and no shared module
        return cythonize(extensions, include_path=["."], compiler_directives=DIRECTIVES, force=True)
    return cythonize(
        extensions,
        include_path=["."],
        build_dir=str(GENERATED),
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=UTILITY,
        nthreads=CORES,
    )


class BuildInParallel(build_ext):
    """One compiler per core unless `--parallel` gives another number, the largest C file first.

    What is installed has no symbol tables.
    """

    def finalize_options(self):
        super().finalize_options()
        # read here: setuptools builds in a folder of its own also "inplace", and copies
        self.strips = sys.platform == "linux" and not self.inplace
        if self.parallel is None:
            self.parallel = CORES

    def build_extensions(self):
        # only here: pip asks for metadata twice before it builds
        for each, in_c in zip(self.extensions, translated(self.extensions), strict=True):
            vars(each).update(vars(in_c))
        self.extensions.sort(key=lambda each: -os.path.getsize(each.sources[0]))
        if self.strips:  # names of static functions serve profilers and debuggers, not users
            for each in self.extensions:
                each.extra_link_args = [*each.extra_link_args, "-s"]
        if self.compiler.compiler_type == "msvc" and not self.compiler.initialized:
            # otherwise the first call to compile does this, in several threads at once
            self.compiler.initialize()
        if sys.platform == "linux":
            self.precompile_headers()
        super().build_extensions()
        PRECOMPILED.unlink(missing_ok=True)

    def precompile_headers(self):
        """Read the headers that all kernels include once, which saves a tenth of the time."""
        kernels = [each for each in self.extensions if each.name != UTILITY]  # compiled with the same options
        first = PRECOMPILED.with_suffix("")
        first.parent.mkdir(parents=True, exist_ok=True)
        first.write_text(FIRST)
        self.spawn(
            [
                *self.compiler.compiler_so,
                *(f"-I{each}" for each in [*kernels[0].include_dirs, *self.compiler.include_dirs]),
                *(f"-D{name}={value}" for name, value in kernels[0].define_macros),
                *kernels[0].extra_compile_args,
                *("-x", "c-header", str(first), "-o", str(PRECOMPILED)),
            ]
        )
        for each in kernels:
            each.extra_compile_args = [*each.extra_compile_args, "-include", str(first)]


if __name__ == "__main__":  # where processes are spawned, cythonize's import this file
    setup(
        packages=find_packages(include=["craftc", "craftc.*"]),
        package_data={
            "craftc": ["py.typed", "*.pxd", "*.h", "data/*.csv"],
            "craftc._kernels": ["*.pxd", "*.pyi"],
            "craftc.report": ["templates/*"],
        },
        ext_modules=kernels(),
        cmdclass={"build_ext": BuildInParallel},
    )
