"""Type stubs of the kernels, which src/stubs.py writes from the kernels."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.common import ROOT

FOLDER = ROOT / "craftc" / "_kernels"


@pytest.fixture(scope="module")
def stubs():
    """The module src/stubs.py."""
    path = ROOT / "src" / "stubs.py"
    spec = importlib.util.spec_from_file_location("craftc_kernel_stubs", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stored_stubs_are_those_of_the_kernels(stubs):
    """`python src/stubs.py` writes them."""
    wanted = stubs.stubs()
    assert {path.stem for path in FOLDER.glob("*.pyi")} == {
        path.stem for path in (ROOT / "src").rglob("*.pyx")
    }
    different = [
        path.name for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    assert different == []


PYX = """
SIZE = FIXED_SIZE
SCALES = (1.0, 2.0)  # type: tuple[float, ...]


cdef class Table:
    cdef readonly object centre, scale  # type: Floats
    cdef readonly Py_ssize_t n

    def __cinit__(self, centre, scale: Floats | None, Py_ssize_t n):
        pass

    @property
    def width(self) -> int:
        return 1

    cdef int hidden(self, int x) except -1:
        return x

    def _private(self, what):
        pass


def visit(
    X not None,                             # IN  (n, p) what (with brackets) is read
    const int32_t[::1] labels not None,     # IN  (n,)
    double[:, ::1] scratch,
    Table table not None,
    *, bint last=False, given: Integers | None = None, int n_threads=1,
) -> tuple[int, Floats]:
    return 1, X
"""
STUB = """\
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]

SIZE: int
SCALES: tuple[float, ...]

@disjoint_base
class Table:
    centre: _Floats
    scale: _Floats
    n: int
    def __init__(self, centre: _Floats, scale: _Floats | None, n: int) -> None: ...
    @property
    def width(self) -> int: ...

def visit(
    X: _Array,
    labels: _Integers32,
    scratch: _Floats | None,
    table: Table,
    *,
    last: bool = False,
    given: _Integers | None = None,
    n_threads: int = 1,
) -> tuple[int, _Floats]: ...
"""


def test_a_stub(stubs):
    assert stubs.stub(PYX, "") == STUB


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("def f(what):\n    pass\n", "what needs an annotation"),
        ("cdef class A:\n    cdef readonly object found\n", "found needs a comment '# type: ...'"),
    ],
)
def test_a_type_that_is_missing(stubs, source, missing):
    with pytest.raises(ValueError, match=missing):
        stubs.stub(source, "")
