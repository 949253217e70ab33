"""Kernels, called by hand: the calls that small fits make, as they are and with one or two arguments that do
not fit.

A call as it was gives the same twice. A wrong one may raise whatever Python exception it likes; it must not
crash, hang or take memory. Numbers of threads vary as well. The contents of arrays of integers vary where the
kernel checks them (`CHECKED`): see CONTRIBUTING.md, "What a kernel checks".
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
from scipy.sparse import csr_array

from craftc import CRAFT, BPMeans, ConvexCovariateClustering, DPMeans, KPrototypes, PaperCRAFT, _kernels
from tests.app.small_models import CLASSES, MODELS, table_of
from tests.fuzz.problems import Problem, Problems

AREA = "kernels"
SHARE = 1.0

MOST_CALLS = 6  # of one function that are kept
INTEGERS = (0, -1, 1, 2, 7, 1000, 2**31 - 1, -(2**31), 2**31, 2**63, -(2**63), 10**30)
FLOATS = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e300, 1e-320)
THREADS = (1, 2, 3, 5, 0, -1, -(2**31), 4097, 2**31 - 1, 2**63, 10**30)
SIZES = (0, -1, 1, 2, 7, 1000, -(2**31), 2**63, -(2**63), 10**30)
SIZED = ("()", "Sums.grow", "covariates.components", "passes_and_merges")  # whose sizes may exceed the memory
OTHERS: tuple[Any, ...] = (
    None,
    "x",
    [],
    [1.0, 2.0],
    {},
    object(),
    np.float64(1.0),
    np.array(1.0),
    np.zeros((2, 2), object),
    b"abc",
)

#: Arguments, by position, that are arrays of integers whose contents the kernel checks.
CHECKED = {
    "Grid()": (2,),
    "CostTables()": (5, 6),
    "Rows()": (1,),
    "Run.start": (1,),
    "Run.exchange": (1,),
    "bpmeans.restarts": (1, 4),
    "bpmeans_rows.left_over": (2,),
    "covariates.components": (1,),
    "covariates.flows": (1, 3, 4, 5, 15, 16),
    "covariates.newton_terms": (1,),
    "craft.assign": (4,),
    "craft.level_costs": (0, 1),
    "craft.reassign_if_cheaper": (6,),
    "craft_covariance.assign": (5,),
    "craft_cross_products.cross_products": (2, 4),
    "craft_passes.passes": (3, 4),
    "craft_passes.passes_and_merges": (3,),
    "craft_merges.best_merge": (2,),
    "craft_merges.split_while_cheaper": (6,),
    "craft_splits.local_splits": (3,),
    "craft_splits.leaving_rows": (2, 4),
    "craft_splits.screen_splits": (1, 2, 8),
    "craft_splits.split_moments": (3, 5),
    "dpmeans.accumulate": (1,),
    "dpmeans.farthest": (3,),
    "dpmeans.gaps": (1,),
    "dpmeans_cuts.two_means": (1,),
    "dpmeans_sweep.assign": (2, 9),
    "dpmeans_sweep.collapse": (12, 16),
    "dpmeans_sweep.loosen": (0,),
    "dpmeans_sweep.open_at": (4,),
    "dpmeans_sweep.reassign_to_new": (8,),
    "kprototypes.assign": (4,),
    "kprototypes.move_in_order": (6,),
    "mixture_split.split_gains": (2, 3),
    "moments.accumulate": (3,),
    "multinomial.softmax": (1,),
    "multinomial.evaluate": (0, 1, 4),
    "multinomial.gradient": (0, 1, 3),
    "multinomial.hessian_product": (0, 1),
    "multinomial.class_curvature": (0, 1),
    "multinomial.weighted_gram": (0, 1),
    "spectral_factor.hals": (1, 9, 10),
}
# Types that cannot be pickled: made again to be copied
MADE = ("Centres", "Conditionals", "MergeSpace", "Mixture", "Prototypes", "Rows", "Run", "Sums")


class Call(NamedTuple):
    """A call of a kernel, of a constructor of its types, or of a method, whose object comes first."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


def prepare() -> list[Call]:
    """The calls of small fits and predictions of every estimator."""
    calls: list[Call] = []
    models = [(kind, copy.deepcopy(model)) for kind, model in MODELS.values()]
    models += [
        (
            "mixed",
            PaperCRAFT(2, model="likelihood", cluster_price=9.0, n_init=2, random_state=0),
        )
    ]
    models += [("numbers", CRAFT(2, covariance="full", n_init=2, random_state=0))]
    models += [("numbers", DPMeans(8.0, mode="collapsed", polish=True, n_init=2, random_state=0))]
    models += [
        ("mixed", KPrototypes(3, init="Huang", cat_dissim=kind, n_init=1, random_state=0))
        for kind in ("matching", "jaccard-label")
    ]
    models += [("numbers", BPMeans(9.0, collapsed=True, shuffle=True, random_state=0))]
    with _recording(calls), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, model in models:
            X = table_of(kind)
            model.set_params(n_threads=1)
            model.fit(X, CLASSES) if hasattr(model, "predict_log_proba") or "Covariate" in type(
                model
            ).__name__ else model.fit(X)
            for method in ("predict", "transform", "score_samples"):
                if hasattr(model, method):
                    getattr(model, method)(X)
        rng = np.random.default_rng(0)
        words = csr_array(np.where(rng.random((60, 12)) < 0.3, 1.0, 0.0))
        ConvexCovariateClustering(2.0, solver="admm", n_threads=1).fit(words, rng.permutation(60) % 6)
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
        problems.append(
            Problem("raw error", call.name, f"{type(error).__name__} for arguments that were right: {error}")
        )
        return problems
    alike = _same(results[0], results[1]) and _same(first.arguments, second.arguments)
    problems.check(alike, call.name, "two calls give different results")
    for _ in range(4):
        wrong = _copied(call)
        arguments = list(wrong.arguments)
        first = int(
            call.name.startswith(MADE) and "." in call.name
        )  # Cython does not check the type of a method's object
        for at in (
            rng.integers(first, len(arguments), size=rng.integers(1, 3)) if len(arguments) > first else ()
        ):
            if at in CHECKED.get(call.name, ()) and _is_integer(arguments[at]) and rng.random() < 0.5:
                arguments[at] = _out_of_range(rng, arguments[at])
            elif at == _place_of_threads(call) and type(arguments[at]) is int:
                arguments[at] = THREADS[rng.integers(len(THREADS))]
            else:
                arguments[at] = _spoilt(rng, arguments[at], SIZES if call.name.endswith(SIZED) else INTEGERS)
        print(call.name, *map(_shown, arguments), file=sys.stderr, flush=True)  # a crash shows the end of it
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
                originals[id(value)] = value, _recorder(f"{info.name}.{name}", value, calls)
            elif name in MADE and value.__module__ == module.__name__:
                originals[id(value)] = value, _recorded_type(value, calls)
    places = []
    for module in [each for name, each in list(sys.modules.items()) if name.startswith("craftc")]:
        for name, value in list(vars(module).items()):
            if id(value) in originals:
                places.append((module, name, value))
                setattr(module, name, originals[id(value)][1])
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


def _recorded_type(original: type, calls: list[Call]) -> Callable[..., Any]:
    """What makes objects of a type that know their arguments, and whose methods keep theirs."""
    plain = type(original.__name__, (original,), {})
    methods = {
        name: _recorder(f"{original.__name__}.{name}", value, calls)
        for name, value in vars(original).items()
        if callable(value) and not name.startswith("_")
    }
    recorded = type(original.__name__, (plain,), methods)
    make = _recorder(f"{original.__name__}()", plain, calls)

    def maker(*arguments: Any, **keywords: Any) -> Any:
        made = make(*arguments, **keywords)
        made.made = Call(original.__name__, plain, arguments, keywords)
        made.__class__ = recorded
        return made

    return maker


def _constructors(calls: list[Call]) -> list[Call]:
    """The calls that make the objects of kernels among the arguments again."""
    made = {}
    for argument in (each for call in calls for each in call.arguments):
        if type(argument).__module__.startswith("craftc._kernels"):
            try:
                function, arguments = argument.__reduce__()[:2]
            except TypeError:  # the arguments of an object that cannot be pickled are unknown
                continue
            name = type(argument).__name__
            made.setdefault((name, len(made) % MOST_CALLS), Call(f"{name}()", function, arguments, {}))
    return list(made.values())


def _place_of_threads(call: Call) -> int:
    """The position of the number of threads among the arguments of a call; -1 if there is none."""
    names = getattr(getattr(call.function, "__code__", None), "co_varnames", ())[: len(call.arguments)]
    return names.index("n_threads") if "n_threads" in names else -1


def _copied(call: Call) -> Call:
    return call._replace(
        arguments=tuple(map(_copy, call.arguments)),
        keywords={key: _copy(value) for key, value in call.keywords.items()},
    )


def _copy(value: Any) -> Any:
    """A copy; arrays stay as they are aligned to a cache line, which some kernels want."""
    if isinstance(value, np.ndarray):
        room = np.empty(value.nbytes + 64, np.uint8)
        skip = -room.ctypes.data % 64
        out = room[skip : skip + value.nbytes].view(value.dtype).reshape(value.shape)
        out[...] = value
        out.flags.writeable = value.flags.writeable
        return out
    if isinstance(value, list):
        return [_copy(each) for each in value]
    if hasattr(value, "made"):
        return _made_again(value)
    try:
        return copy.deepcopy(value)
    except TypeError:  # an object that cannot be copied
        return value


def _made_again(value: Any) -> Any:
    """An object with the arguments of another, and its state where it shows one; its methods keep nothing."""
    call = _copied(value.made)
    out = call.function(*call.arguments, **call.keywords)
    out.made = value.made
    if type(value).__name__ == "Sums":
        out.grow(len(value.counts))
        out.sums[...], out.counts[...] = value.sums, value.counts
    elif type(value).__name__ == "Mixture":
        call.function.restore(out, call.function.state(value))
    return out


def _out_of_range(rng: np.random.Generator, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of an array of integers with another number in one place, mostly one that is no index of
    anything.
    """
    out: np.ndarray[Any, Any] = _copy(value)
    limits = np.iinfo(out.dtype)
    some = (limits.min, -2, -1, 0, 1, out.max(), 10**6, limits.max)
    out.flags.writeable = True
    out.flat[rng.integers(out.size)] = np.clip(int(some[rng.integers(len(some))]), limits.min, limits.max)
    return out


def _is_integer(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size > 0


def _shown(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else str(value)[:40]


def _spoilt(rng: np.random.Generator, value: Any, integers: tuple[int, ...]) -> Any:
    """Something that does not fit where this argument stands."""
    if rng.random() < 0.15:
        return OTHERS[rng.integers(len(OTHERS))]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | np.integer):
        return integers[rng.integers(len(integers))]
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
