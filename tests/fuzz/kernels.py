"""Kernels, called by hand: the calls that small fits make, as they are and with one or two arguments that do not fit.

A call as it was gives the same twice. A wrong one may raise whatever Python exception it likes; it must not crash, hang or take memory. The
contents of arrays of integers (codes, labels, positions of rows) are left as they are: they are checked where tables are made.
"""

from __future__ import annotations

import copy
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from craftc import CRAFT, _kernels
from tests.app.write_model_fixtures import CLASSES, MODELS, table_of
from tests.fuzz.problems import Problem, Problems

AREA = "kernels"
SHARE = 1.0

MOST_CALLS = 6  # of one function that are kept
INTEGERS = (0, -1, 1, 2, 7, 1000, 2**31 - 1, -(2**31), 2**31, 2**63, -(2**63), 10**30)
FLOATS = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e300, 1e-320)
OTHERS: tuple[Any, ...] = (None, "x", [], [1.0, 2.0], {}, object(), np.float64(1.0), np.array(1.0), np.zeros((2, 2), object), b"abc")


class Call(NamedTuple):
    """A call of a kernel, or of the constructor of one of its types."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


def prepare() -> list[Call]:
    """The calls of small fits and predictions of every estimator."""
    calls: list[Call] = []
    models = [(kind, copy.deepcopy(model)) for name, (kind, model) in MODELS.items() if name.endswith("-4")]
    models += [("mixed", CRAFT(2, background="table", selection="fixed", numeric="raw", cluster_price=9.0, n_init=2, random_state=0))]
    models += [("numbers", CRAFT(2, covariance="full", n_init=2, random_state=0))]
    with _recording(calls), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, model in models:
            X = table_of(kind)
            model.set_params(n_threads=1)
            model.fit(X, CLASSES) if hasattr(model, "predict_log_proba") or "Covariate" in type(model).__name__ else model.fit(X)
            for method in ("predict", "transform", "score_samples"):
                if hasattr(model, method):
                    getattr(model, method)(X)
    return calls + _constructors(calls)


def case(seed: int, state: list[Call], folder: Path) -> list[Problem]:
    """One call as it was, twice, and the same with wrong arguments."""
    rng, problems = np.random.default_rng([seed, 37]), Problems()
    names = sorted({call.name for call in state})
    name = names[rng.integers(len(names))]
    some = [call for call in state if call.name == name]
    call = some[rng.integers(len(some))]
    first, second = _copied(call), _copied(call)
    try:
        results = [each.function(*each.arguments, **each.keywords) for each in (first, second)]
    except Exception as error:
        problems.append(Problem("raw error", call.name, f"{type(error).__name__} for arguments that were right: {error}"))
        return problems
    alike = _same(results[0], results[1]) and _same(first.arguments, second.arguments)
    problems.check(alike, call.name, "two calls give different results")
    for _ in range(4):
        wrong = _copied(call)
        arguments = list(wrong.arguments)
        threads = isinstance(arguments[-1], int) if arguments else False  # the number of threads comes last, bounded by the caller
        for at in rng.integers(len(arguments) - threads, size=rng.integers(1, 3)) if len(arguments) > threads else ():
            arguments[at] = _spoilt(rng, arguments[at])
        try:
            wrong.function(*arguments, **wrong.keywords)
        except SystemError as error:  # a kernel that returns an error without setting one
            problems.append(Problem("raw error", call.name, f"SystemError: {error}"))
        except MemoryError as error:
            problems.append(Problem("memory", call.name, str(error)))
        except Exception:
            continue
    return problems


@contextmanager
def _recording(calls: list[Call]) -> Iterator[None]:
    """Replace every kernel function, wherever craftc has imported it, by one that keeps its arguments."""
    originals = {}
    for info in pkgutil.iter_modules(_kernels.__path__):
        module = importlib.import_module(f"craftc._kernels.{info.name}")
        for name, value in vars(module).items():
            if type(value).__name__ == "cython_function_or_method" and not name.startswith("__"):
                originals[id(value)] = (f"{info.name}.{name}", value)
    places = []
    for module in [each for name, each in list(sys.modules.items()) if name.startswith("craftc")]:
        for name, value in list(vars(module).items()):
            if id(value) in originals:
                places.append((module, name, value))
                setattr(module, name, _recorder(*originals[id(value)], calls))
    try:
        yield
    finally:
        for module, name, value in places:
            setattr(module, name, value)


def _recorder(name: str, function: Callable[..., Any], calls: list[Call]) -> Callable[..., Any]:
    kept = 0

    def recorder(*arguments: Any, **keywords: Any) -> Any:
        nonlocal kept
        if kept < MOST_CALLS:
            kept += 1
            calls.append(_copied(Call(name, function, arguments, keywords)))
        return function(*arguments, **keywords)

    return recorder


def _constructors(calls: list[Call]) -> list[Call]:
    """The calls that make the objects of kernels among the arguments again."""
    made = {}
    for argument in (each for call in calls for each in call.arguments):
        if type(argument).__module__.startswith("craftc._kernels"):
            try:
                function, arguments = argument.__reduce__()[:2]
            except TypeError:  # an object that cannot be pickled does not tell its arguments
                continue
            name = type(argument).__name__
            made.setdefault((name, len(made) % MOST_CALLS), Call(f"{name}()", function, arguments, {}))
    return list(made.values())


def _copied(call: Call) -> Call:
    return call._replace(arguments=tuple(map(_copy, call.arguments)), keywords={key: _copy(value) for key, value in call.keywords.items()})


def _copy(value: Any) -> Any:
    """A copy; arrays stay as they are aligned to a cache line, which some kernels want."""
    if isinstance(value, np.ndarray):
        room = np.empty(value.nbytes + 64, np.uint8)
        skip = -room.ctypes.data % 64
        out = room[skip : skip + value.nbytes].view(value.dtype).reshape(value.shape)
        out[...] = value
        out.flags.writeable = value.flags.writeable
        return out
    try:
        return copy.deepcopy(value)
    except TypeError:  # an object that cannot be copied
        return value


def _spoilt(rng: np.random.Generator, value: Any) -> Any:
    """Something that does not fit where this argument stands."""
    if rng.random() < 0.15:
        return OTHERS[rng.integers(len(OTHERS))]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | np.integer):
        return INTEGERS[rng.integers(len(INTEGERS))]
    if isinstance(value, float):
        return FLOATS[rng.integers(len(FLOATS))]
    if not isinstance(value, np.ndarray):
        return OTHERS[rng.integers(len(OTHERS))]
    match rng.integers(10):
        case 0 if value.ndim:
            return np.ascontiguousarray(value[: len(value) // 2])
        case 1 if value.ndim:
            return np.ascontiguousarray(value[:-1])
        case 2 if value.ndim:
            return np.concatenate([value, value])
        case 3 if value.ndim > 1:
            return np.ascontiguousarray(value[..., :-1])
        case 4 if value.ndim > 1:
            return np.ascontiguousarray(value.T)
        case 5:
            return value[None]
        case 6:
            return value.ravel()
        case 7:
            return value.astype(rng.choice(["f4", "f8", "i4", "i8", "u1", "u2", "c16"]))
        case 8 if value.dtype.kind == "f":
            return np.full_like(value, FLOATS[rng.integers(len(FLOATS))])
        case _:
            return value[:0] if value.ndim else None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_same, a, b))
    return not isinstance(a, int | float) or a == b or (a != a and b != b)
