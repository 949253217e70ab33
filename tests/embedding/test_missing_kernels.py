"""What `import craftc` says where the kernels are there and do not load.

(Where they are not built: tests/conformance.)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

from craftc._kernels import parallel
from tests.common import ROOT, need

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def package(tmp_path):
    """A copy of the package with one kernel, the first to be loaded, and what every kernel loads."""
    shutil.copytree(
        ROOT / "craftc",
        tmp_path / "craftc",
        ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "data"),
    )
    kernel = tmp_path / "craftc" / "_kernels" / f"parallel{SUFFIX}"
    for name in (kernel.name, f"_cyutility{SUFFIX}"):
        if (ROOT / "craftc" / "_kernels" / name).exists():  # a build for coverage has no shared module
            shutil.copy2(ROOT / "craftc" / "_kernels" / name, kernel.with_name(name))
    return kernel


def said_by_import(kernel):
    done = subprocess.run(
        [sys.executable, "-c", "import craftc"], cwd=kernel.parents[2], capture_output=True, text=True
    )
    assert done.returncode == 1
    return done.stderr


def test_a_missing_openmp_runtime(package):
    held = package.read_bytes()
    if b"libgomp.so.1" not in held:
        pytest.skip(
            "these kernels do not name libgomp.so.1"
            if parallel.openmp()
            else "these kernels are built without OpenMP"
        )
    package.write_bytes(held.replace(b"libgomp.so.1", b"libgomp.so.0"))
    said = said_by_import(package)
    assert (
        "ImportError: craftc's kernels need the OpenMP runtime, which is missing (libgomp.so.0: cannot open"
        in said
    )
    assert "apt install libgomp1" in said
    assert "not built" not in said


def test_kernels_of_another_python(package):
    package.rename(package.with_name("parallel.cpython-399-sparc-linux-gnu.so"))
    said = said_by_import(package)
    assert (
        "were built for another Python (parallel.cpython-399-sparc-linux-gnu.so); this is Python 3." in said
    )
    assert "pip install --force-reinstall craftc" in said


def test_kernels_that_do_not_load(package):
    package.write_bytes(b"not a library")
    said = said_by_import(package)
    assert "craftc's kernels exist, but Python 3." in said
    assert "cannot load them (" in said


@pytest.mark.slow
def test_kernels_compiled_for_another_processor(package, tmp_path):
    """`-march=` of a newer processor: an error before an illegal instruction ends the process."""
    if (
        not sys.platform.startswith("linux")
        or shutil.which("gcc") is None
        or b"avx512vl" not in processor_flags()
        or b"avx512fp16" in processor_flags()
    ):
        pytest.skip("needs gcc, and an x86-64 processor with AVX-512 and without AVX512-FP16")
    need("setuptools", "Cython")
    tree = tmp_path / "tree"
    for folder in ("craftc", "src"):
        shutil.copytree(
            ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.so", "[!p_]*.pyx", "__pycache__")
        )
    shutil.copy2(ROOT / "setup.py", tree)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    environment = os.environ | {"CFLAGS": "-mavx512fp16 -O0", "CC": "gcc"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.copy2(tree / "craftc" / "_kernels" / package.name, package)
    said = said_by_import(package)
    assert "ImportError: craftc's kernels were compiled for processors with avx512" in said
    assert "pip install --force-reinstall craftc" in said


def processor_flags():
    """The `flags` of the first processor; all of them where this is not x86-64."""
    with open("/proc/cpuinfo", "rb") as stream:
        return next((line for line in stream if line.startswith(b"flags")), b"avx512fp16").replace(
            b"avx512_fp16", b"avx512fp16"
        )
