"""What counts as a problem of one fuzz case, and the collection of them: unclear errors, foreign warnings,
values that are not finite.
"""

from __future__ import annotations

import linecache
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

import craftc

#: Kinds of problem; the runner finds the first three, a case the others (and a MemoryError, which is a
#: problem of memory).
KINDS = ("crash", "hang", "memory", "raw error", "wrong", "not finite", "warning")

ROOT = Path(__file__).resolve().parents[2]
_CRAFTC = str(Path(craftc.__file__).parent)
_SKLEARN = str(Path(sklearn.__file__).parent / "utils")
_CLEAR_TYPES = (ValueError, TypeError, ImportError, OSError, MemoryError)  # NotFittedError is a ValueError
_OWN_WARNINGS = (UserWarning, ConvergenceWarning, DataConversionWarning)


class Problem(NamedTuple):
    """One problem: its kind, the call that showed it, and what happened."""

    kind: str
    what: str
    detail: str


class Outcome(NamedTuple):
    """What a call returned or raised."""

    value: Any = None
    error: Exception | None = None
    said: Mapping[str, type[Warning]] = MappingProxyType({})  # craftc's warnings, by their texts

    @property
    def done(self) -> bool:
        """Whether the call returned."""
        return self.error is None


class Problems(list[Problem]):
    """The problems of one case, in the order in which they were found."""

    def attempt(
        self,
        what: str,
        call: Callable[..., Any],
        *args: Any,
        clear: Callable[[Exception], bool] | None = None,
        **keywords: Any,
    ) -> Outcome:
        """Call; collect an unclear error and foreign warnings.

        Parameters
        ----------
        what : str
            The call in words, without values, so that equal problems of many cases can be counted together.
        call : callable
        *args, **keywords
            Its arguments.
        clear : callable, optional
            Whether an error that `is_clear` refuses is clear all the same.

        Returns
        -------
        Outcome
        """
        with self.watching(what) as said:
            try:
                return Outcome(call(*args, **keywords), said=said)
            except Exception as error:
                if not (is_clear(error) or (clear is not None and clear(error))):
                    self.append(
                        Problem(
                            "memory" if isinstance(error, MemoryError) else "raw error", what, brief(error)
                        )
                    )
                return Outcome(error=error)

    @contextmanager
    def watching(self, what: str) -> Iterator[dict[str, type[Warning]]]:
        """Collect foreign warnings of a block, each kind once, and craftc's that say the same twice.

        Yields
        ------
        dict
            The category of each of craftc's own warnings, by its text.
        """
        seen, said = set[Any](), dict[str, type[Warning]]()

        def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
            emitter = _emitter(sys._getframe(1))
            place = f"{_short(emitter.f_code.co_filename)}:{emitter.f_lineno}"
            own = category in _OWN_WARNINGS and emitter.f_code.co_filename.startswith((_CRAFTC, _SKLEARN))
            if own and str(message) in said and str(message) not in seen:
                seen.add(str(message))
                self.append(Problem("warning", what, f"{category.__name__} said twice: {message}"))
            if own:
                said[str(message)] = category
            elif (category, place) not in seen:
                seen.add((category, place))
                self.append(Problem("warning", what, f"{category.__name__} at {place}: {message}"))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            yield said

    def check(self, holds: Any, what: str, detail: str = "") -> bool:
        """Collect a wrong result unless a condition holds."""
        if not holds:
            self.append(Problem("wrong", what, detail))
        return bool(holds)

    def finite(self, what: str, value: Any) -> bool:
        """Collect a result of floats that are not all finite."""
        array = np.asarray(value)
        holds = array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
        if not holds:
            self.append(
                Problem(
                    "not finite",
                    what,
                    f"{int((~np.isfinite(array)).sum())} of {array.size} values, shape {array.shape}",
                )
            )
        return holds


def is_clear(error: Exception) -> bool:
    """Whether an error is written for the user.

    That is: of a type that says what is wrong (a value, a type, a missing package, memory), raised by a
    `raise` statement of craftc or of scikit-learn's validation, with a text; or an error of the operating
    system with its number.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return True
    return isinstance(error, _CLEAR_TYPES) and bool(str(error).strip()) and raised_on_purpose(error)


def brief(error: BaseException) -> str:
    """Type, place and first words of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [
        frame for frame in frames if frame.filename.startswith(_CRAFTC) or frame.filename.endswith(".pyx")
    ]
    places = dict.fromkeys(
        f"{_short(frame.filename)}:{frame.lineno}" for frame in (*inside[-1:], *frames[-1:])
    )
    return f"{type(error).__name__} at {' <- '.join(reversed(places))}: {' '.join(str(error).split())[:200]}"


def raised_on_purpose(error: Exception) -> bool:
    """Whether a `raise` of craftc or of scikit-learn's validation wrote the error."""
    frames = traceback.extract_tb(error.__traceback__)
    name, line = frames[-1].filename, frames[-1].lineno
    if name.endswith(".pyx"):
        name = str(ROOT / name)
    elif not name.startswith((_CRAFTC, _SKLEARN)):
        return False
    return linecache.getline(name, line or 0).lstrip().startswith("raise")


def _emitter(frame: FrameType) -> FrameType:
    """The first frame that is not of the module warnings."""
    while frame.f_globals.get("__name__") == "warnings" and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _short(name: str) -> str:
    """The end of a path that names a module of a package."""
    parts = Path(name).parts
    for start in ("craftc", "tests", "site-packages"):
        if start in parts[:-1]:
            last = len(parts) - 1 - parts[::-1].index(start)
            return "/".join(parts[last + (start == "site-packages") :])
    return "/".join(parts[-2:])
