"""The C surface that other packages' compiled code calls: nearest centres and cheapest clusters of rows, by
the table of functions.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .tools import Imports

new = Imports()
with new:
    from craftc import PaperCRAFT
    from craftc._kernels import embed as kernel
    from craftc.embed import CraftCosts

    from .common import mixed_table
setup = new.setup

ROWS, COLUMNS, CENTRES = 20_000, 16, 30
_ADDRESS, _SIZE = ctypes.c_void_p, ctypes.c_ssize_t


class Functions(ctypes.Structure):
    """The head of `craftc_api` of craftc/craftc.h, to which functions are only ever appended."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("api_version", _ADDRESS),
        ("simd_level", _ADDRESS),
        ("nearest_scratch_size", ctypes.CFUNCTYPE(_SIZE, _SIZE, _SIZE)),
        (
            "nearest",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                _ADDRESS,
                ctypes.c_int,
                _SIZE,
                _SIZE,
                _SIZE,
                _ADDRESS,
                _SIZE,
                _SIZE,
                _ADDRESS,
                _ADDRESS,
                _ADDRESS,
            ),
        ),
        ("craft_shape", _ADDRESS),
        ("craft_scratch_size", ctypes.CFUNCTYPE(_SIZE, _ADDRESS)),
        (
            "craft_assign",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                _ADDRESS,
                _ADDRESS,
                ctypes.c_int,
                _SIZE,
                _ADDRESS,
                ctypes.c_int,
                _SIZE,
                _SIZE,
                _ADDRESS,
                _ADDRESS,
                _ADDRESS,
                _SIZE,
                _ADDRESS,
            ),
        ),
    )


def pointer(capsule: object, name: bytes) -> int:
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = _ADDRESS, (ctypes.py_object, ctypes.c_char_p)
    return int(read(capsule, name))


def functions() -> Any:
    return Functions.from_address(pointer(kernel._C_API, b"craftc._C_API.v1"))


class Nearest:
    """Labels and squared distances of 20 000 rows of 16 numbers to the nearest of 30 centres."""

    params: Any = (["float32", "float64"],)
    param_names = ("dtype",)

    def setup(self, dtype: str) -> None:
        rng = np.random.default_rng(0)
        self.api = functions()
        self.X, self.centres = (
            rng.normal(size=(ROWS, COLUMNS)).astype(dtype),
            rng.normal(size=(CENTRES, COLUMNS)),
        )
        self.labels, self.squared = np.empty(ROWS, np.int32), np.empty(ROWS)
        self.scratch = np.empty(self.api.nearest_scratch_size(COLUMNS, CENTRES))

    def time_nearest(self, dtype: str) -> None:
        x, centres, outputs = self.X, self.centres, (self.labels, self.squared, self.scratch)
        status = self.api.nearest(
            x.ctypes.data,
            x.itemsize,
            ROWS,
            COLUMNS,
            COLUMNS,
            centres.ctypes.data,
            CENTRES,
            COLUMNS,
            *(out.ctypes.data for out in outputs),
        )
        if status:
            raise RuntimeError(f"nearest() returned {status}; see craftc/craftc.h.")


class CraftAssign:
    """The cheapest cluster of 20 000 rows of 8 numbers and 8 categories under a fitted CRAFT."""

    def setup(self) -> None:
        self.api, X = functions(), mixed_table(ROWS, 8, 8)
        self.costs = CraftCosts(
            PaperCRAFT(5, cluster_price=0.0, model="likelihood", n_init=1, random_state=0, n_threads=1).fit(
                mixed_table(1_000, 8, 8)
            )
        )
        self.model, self.table = pointer(self.costs.capsule, b"craftc.craft_costs.v1"), self.costs.encode(X)
        self.labels, self.least = np.empty(ROWS, np.int32), np.empty(ROWS)
        self.scratch = np.empty(self.api.craft_scratch_size(self.model))

    def time_assign(self) -> None:
        x, codes = self.table.numeric, self.table.codes
        status = self.api.craft_assign(
            self.model,
            x.ctypes.data,
            x.itemsize,
            x.shape[1],
            codes.ctypes.data,
            codes.itemsize,
            codes.shape[1],
            ROWS,
            self.labels.ctypes.data,
            self.least.ctypes.data,
            None,
            0,
            self.scratch.ctypes.data,
        )
        if status:
            raise RuntimeError(f"craft_assign() returned {status}; see craftc/craftc.h.")
