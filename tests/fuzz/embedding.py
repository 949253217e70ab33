"""The C interface, called through ctypes: right arguments against `predict` and `transform`, and wrong ones,
which get an error code.

Pointers that are passed point at enough room for the sizes that are passed with them; C functions cannot
check more.
"""

from __future__ import annotations

import ctypes
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import craftc
from craftc._kernels import embed
from tests.app.small_models import table_of
from tests.fuzz.problems import Problem, Problems
from tests.fuzz.tables import not_a_table, table

AREA = "embedding"
SHARE = 0.3

#: The functions in the order of `craftc_api` of craftc/craftc.h, after two words of 32 bits; i: int, p:
#: pointer, s: size, l: int64.
FUNCTIONS = {
    "api_version": ("i", ""),
    "simd_level": ("i", ""),
    "nearest_scratch_size": ("s", "ss"),
    "nearest": ("i", "pissspssppp"),
    "craft_shape": ("i", "pppp"),
    "craft_scratch_size": ("s", "p"),
    "craft_assign": ("i", "ppispisspppsp"),
    "moments_grid": ("i", "ppspp"),
    "moments_size": ("s", "p"),
    "moments_add": ("i", "pppipil"),
    "moments_merge": ("i", "pppl"),
    "moments_mean": ("i", "pppp"),
    "edges_check": ("i", "pss"),
    "edges_pass": ("i", "psspp"),
}
TYPES = {"i": ctypes.c_int, "p": ctypes.c_void_p, "s": ctypes.c_ssize_t, "l": ctypes.c_int64}
WRONG = {"i": (-1, 0, 3, 16, 2**31 - 1, -(2**31)), "s": (-1, -(2**62), -(2**63))}
ROOM = 1 << 12  # numbers behind every pointer
OBJECTS: tuple[Any, ...] = (
    None,
    1,
    "x",
    craftc.CRAFT(),
    craftc.DPMeans(),
    craftc.CRAFT,
    [],
    np.zeros((3, 3)),
)


class Grid(ctypes.Structure):
    """`craftc_grid`."""

    _fields_ = (
        ("p", ctypes.c_ssize_t),
        ("q", ctypes.c_ssize_t),
        ("n_levels", ctypes.c_ssize_t),
        ("centre", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("level_start", ctypes.c_void_p),
    )


class State(NamedTuple):
    """What all cases share."""

    functions: dict[str, Any]
    models: list[tuple[craftc.CRAFT, craftc.embed.CraftCosts, Any]]


def pointer_of(capsule: Any, name: bytes) -> int:
    """What a capsule points at."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, name))


def prepare() -> State:
    """Models with and without categories, and the functions of the interface."""
    address = pointer_of(embed._C_API, b"craftc._C_API.v1")
    pointers = (ctypes.c_void_p * len(FUNCTIONS)).from_address(address + 8)
    functions = {}
    for pointer, (name, (result, arguments)) in zip(pointers, FUNCTIONS.items(), strict=True):
        functions[name] = ctypes.CFUNCTYPE(TYPES[result], *(TYPES[each] for each in arguments))(pointer)
    models = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, parameters in (
            ("mixed", {}),
            ("numbers", {}),
            ("mixed", {"n_clusters": 3}),
        ):
            X = table_of(kind)
            model = craftc.CRAFT(
                covariance="diagonal", n_init=2, random_state=0, n_threads=1, **parameters
            ).fit(X)
            models.append((model, craftc.embed.CraftCosts(model), X))
    return State(functions, models)


def case(seed: int, state: State, folder: Path) -> list[Problem]:
    """One model: rows by the interface and by Python, wrong arguments, wrong objects."""
    rng, problems = np.random.default_rng([seed, 41]), Problems()
    model, costs, X = state.models[rng.integers(len(state.models))]
    _assigned(rng, state, model, costs, X, problems)
    _nearest(rng, state, problems)
    for _ in range(8):
        _wrong(rng, state, costs, problems)
    problems.attempt("CraftCosts", craftc.embed.CraftCosts, OBJECTS[rng.integers(len(OBJECTS))])
    other = table(rng) if rng.random() < 0.5 else not_a_table(rng, 20, 4)
    problems.attempt("encode", costs.encode, other.value)
    return problems


def _assigned(
    rng: np.random.Generator, state: State, model: Any, costs: Any, X: Any, problems: Problems
) -> None:
    encoded = costs.encode(X)
    n, K = int(rng.integers(len(encoded) + 1)), costs.n_clusters
    wide = int(rng.integers(4))
    x = np.full((n + 1, costs.n_numeric + wide), 7.0, encoded.numeric.dtype)
    codes = np.full((n + 1, costs.n_categorical + wide), 255, encoded.codes.dtype)
    x[:n, : costs.n_numeric], codes[:n, : costs.n_categorical] = encoded.numeric[:n], encoded.codes[:n]
    labels, least, every = np.full(n + 1, -7, np.int32), np.zeros(n + 1), np.zeros((n + 1, K + wide))
    capsule = pointer_of(costs.capsule, b"craftc.craft_costs.v1")
    scratch = np.zeros(state.functions["craft_scratch_size"](capsule) + 1)
    code = state.functions["craft_assign"](
        capsule,
        x.ctypes.data,
        x.itemsize,
        x.shape[1],
        codes.ctypes.data,
        codes.itemsize,
        codes.shape[1],
        n,
        labels.ctypes.data,
        least.ctypes.data,
        every.ctypes.data,
        K + wide,
        scratch.ctypes.data,
    )
    same = code == 0 and np.array_equal(labels[:n], model.predict(X)[:n]) and labels[n] == -7
    problems.check(
        same and np.array_equal(every[:n, :K].argmin(axis=1), labels[:n]),
        "craft_assign",
        f"code {code}, {n} rows",
    )
    problems.check(
        (least[:n] == every[:n, :K].min(axis=1, initial=np.inf)).all() and not every[:n, K:].any(),
        "craft_assign",
        "costs",
    )
    if n and costs.n_categorical:
        codes[rng.integers(n), rng.integers(costs.n_categorical)] = np.iinfo(codes.dtype).max
        code = state.functions["craft_assign"](
            capsule,
            x.ctypes.data,
            x.itemsize,
            x.shape[1],
            codes.ctypes.data,
            codes.itemsize,
            codes.shape[1],
            n,
            labels.ctypes.data,
            None,
            None,
            0,
            scratch.ctypes.data,
        )
        problems.check(code != 0, "craft_assign", "a code that no level has is accepted")


def _nearest(rng: np.random.Generator, state: State, problems: Problems) -> None:
    n, K, D = (int(rng.integers(1, most)) for most in (40, 12, 20))
    x, centres = rng.normal(size=(n, D)), rng.normal(size=(K, D))
    labels, squared = np.empty(n, np.int32), np.empty(n)
    scratch = np.empty(state.functions["nearest_scratch_size"](D, K) + 1)
    code = state.functions["nearest"](
        x.ctypes.data,
        8,
        n,
        D,
        D,
        centres.ctypes.data,
        K,
        D,
        labels.ctypes.data,
        squared.ctypes.data,
        scratch.ctypes.data,
    )
    expected = ((x[:, None] - centres) ** 2).sum(axis=2)
    problems.check(code == 0 and (labels == expected.argmin(axis=1)).all(), "nearest", f"code {code}")
    problems.check(np.allclose(squared, expected.min(axis=1), rtol=1e-12), "nearest", "squared distances")


def _wrong(rng: np.random.Generator, state: State, costs: Any, problems: Problems) -> None:
    """A call with one or two arguments that are no pointer, no size or no type; it must come back."""
    name = list(FUNCTIONS)[rng.integers(2, len(FUNCTIONS))]
    kinds = FUNCTIONS[name][1]
    room = [np.zeros(ROOM) for _ in kinds]
    grid = Grid(2, 1, 3, room[0].ctypes.data, room[0].ctypes.data, np.zeros(1, np.intp).ctypes.data)
    starts = np.zeros(4, np.intp)
    grid.level_start = starts.ctypes.data
    right = {"i": 8, "s": 2, "l": 1}
    values = [room[at].ctypes.data if kind == "p" else right[kind] for at, kind in enumerate(kinds)]
    if name.startswith("craft"):
        values[0] = pointer_of(costs.capsule, b"craftc.craft_costs.v1")
    if name.startswith("moments") and name != "moments_grid":
        values[0] = ctypes.addressof(grid)
    for at in rng.integers(len(kinds), size=rng.integers(1, 3)):
        kind = kinds[at]
        if kind == "p":
            values[at] = None
        elif kind in WRONG:
            values[at] = WRONG[kind][rng.integers(len(WRONG[kind]))]
    if name == "edges_pass":  # takes its edges as they are
        return
    code = state.functions[name](*values)
    problems.check(isinstance(code, int), name, f"returned {code!r}")
