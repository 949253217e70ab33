"""What `import craftc` says where the kernels are there and do not load. (Where they are not built: tests/conformance.)"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig

import pytest

from craftc._kernels import parallel
from tests.conftest import ROOT

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def package(tmp_path):
    """A copy of the package with one kernel, the first to be loaded."""
    shutil.copytree(ROOT / "craftc", tmp_path / "craftc", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "data"))
    kernel = tmp_path / "craftc" / "_kernels" / f"parallel{SUFFIX}"
    shutil.copy2(ROOT / "craftc" / "_kernels" / kernel.name, kernel)
    return kernel


def said_by_import(kernel):
    done = subprocess.run([sys.executable, "-c", "import craftc"], cwd=kernel.parents[2], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def test_a_missing_openmp_runtime(package):
    held = package.read_bytes()
    if b"libgomp.so.1" not in held:
        pytest.skip("these kernels do not name libgomp.so.1" if parallel.openmp() else "these kernels are built without OpenMP")
    package.write_bytes(held.replace(b"libgomp.so.1", b"libgomp.so.0"))
    said = said_by_import(package)
    assert "ImportError: craftc's kernels are here, but the OpenMP runtime they need is not (libgomp.so.0: cannot open" in said
    assert "apt install libgomp1" in said
    assert "not built" not in said


def test_kernels_of_another_python(package):
    package.rename(package.with_name("parallel.cpython-399-sparc-linux-gnu.so"))
    said = said_by_import(package)
    assert "were built for another Python (parallel.cpython-399-sparc-linux-gnu.so); this is Python 3." in said
    assert "pip install --force-reinstall craftc" in said


def test_kernels_that_do_not_load(package):
    package.write_bytes(b"not a library")
    said = said_by_import(package)
    assert "craftc's kernels are here, but Python 3." in said
    assert "cannot load them (" in said
