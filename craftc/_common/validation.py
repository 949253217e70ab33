"""Checks of parameters and input shared by the estimators.

An error names the parameter, what is allowed, and the value received.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import array_of, shown
from craftc._common.typing import Floats, Integers, Labels, WeightInput

# sum of the weights: its products with squared deviations stay in the range of float64
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-140, 1e140
_COUNTABLE = 2.0**53  # largest sum of weights that float64 counts one by one
_MOST_WHOLE = 2**31 - 1  # largest whole parameter
_MOST_PENALTY = 1e100  # its square is a float64


def check_choice(name: str, value: object, choices: Sequence[str], otherwise: str = "") -> None:
    """Raise ValueError unless the value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(
            f"{name} must be one of {allowed}{' ' + otherwise if otherwise else ''}, got {shown(value)}."
        )


_BOUNDS = ((">=", operator.ge), (">", operator.gt), ("<=", operator.le), ("<", operator.lt))


def check_number(
    name: str,
    value: object,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    whole: bool = False,
    hint: str = "",
) -> float:
    """The value as a float; raise unless it is a finite (whole) number within the bounds.

    Whole numbers fit into 32 bits.
    """
    bounds = [
        (sign, bound, holds)
        for (sign, holds), bound in zip(_BOUNDS, (least, above, most, below), strict=True)
        if bound is not None
    ]
    kind = numbers.Integral if whole else numbers.Real
    number = None if isinstance(value, bool) or not isinstance(value, kind) else _as_float(value)
    finite = number is not None and (whole or math.isfinite(number))
    if number is None or not finite or not all(holds(number, bound) for _, bound, holds in bounds):
        words = [
            f"{sign} {bound:.{16 if whole else 6}g}{' = ' + hint if hint and sign == '<' else ''}"
            for sign, bound, _ in bounds
        ]
        kind_of = "whole " if whole else "finite " if number is not None and not words else ""
        wanted = f"a {kind_of}number {' and '.join(words)}".strip()
        raise (TypeError if number is None else ValueError)(f"{name} must be {wanted}, got {shown(value)}.")
    if whole and abs(number) > _MOST_WHOLE:
        raise ValueError(f"{name} must be a whole number of at most {_MOST_WHOLE}, got {shown(value)}.")
    return number


def _as_float(value: numbers.Real) -> float:
    """The number as a float; infinity beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, operator.gt(value, 0) - 0.5)


def check_flag(name: str, value: object) -> None:
    """Raise TypeError unless the value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {shown(value)}.")


class Constraint(Protocol):
    """What one parameter may be."""

    def check(self, name: str, value: object) -> None:
        """Raise TypeError or ValueError unless the parameter may have this value."""


@dataclass(frozen=True)
class Number:
    """A finite number within bounds (with `infinite`, also infinity; with `optional`, also None)."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    whole: bool = False
    infinite: bool = False
    optional: bool = False

    def check(self, name: str, value: object) -> None:
        if (value is None and self.optional) or (
            self.infinite and isinstance(value, numbers.Real) and value == np.inf
        ):
            return
        check_number(
            name,
            value,
            least=self.least,
            above=self.above,
            most=self.most,
            below=self.below,
            whole=self.whole,
        )


@dataclass(frozen=True)
class Choice:
    """One of some strings, or what `other` allows; `otherwise` names that in the message."""

    options: tuple[str, ...]
    otherwise: str = ""
    other: Constraint | None = None

    def check(self, name: str, value: object) -> None:
        if self.other is None or isinstance(value, str):
            check_choice(name, value, self.options, self.otherwise)
        else:
            self.other.check(name, value)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, name: str, value: object) -> None:
        check_flag(name, value)


@dataclass(frozen=True)
class Verbosity:
    """True, False, or a level of detail."""

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, (bool, np.bool_)):
            check_number(name, value, least=0, whole=True)


@dataclass(frozen=True)
class RandomState:
    """What `craftc._common.random.seed_of` takes."""

    def check(self, name: str, value: object) -> None:
        if (
            value is None
            or value is np.random
            or isinstance(value, (np.random.RandomState, np.random.Generator))
        ):
            return
        whole = int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else -1
        if not 0 <= whole < 1 << 64:
            raise ValueError(
                f"{name} must be None, a whole number >= 0 and < 2**64, or a numpy.random.Generator or "
                f"RandomState, got {shown(value)}."
            )


class Constrained(Protocol):
    """An estimator with a table of what its parameters may be."""

    @property
    def _constraints(self) -> Mapping[str, Constraint]: ...


#: Parameters that mean the same wherever an estimator has them.
_COMMON: Mapping[str, Constraint] = {
    "n_init": Number(least=1, most=100_000, whole=True),
    "random_state": RandomState(),
    "verbose": Verbosity(),
}


def check_parameters(estimator: Constrained) -> None:
    """Check the parameters by the table of the class, `_constraints`, and those of all estimators."""
    constraints: dict[str, Constraint] = dict(estimator._constraints)
    common = {name: constraint for name, constraint in _COMMON.items() if hasattr(estimator, name)}
    for name, constraint in (constraints | common).items():
        constraint.check(name, getattr(estimator, name))


def check_labels(labels: object, n: int) -> Labels:
    """Start labels given as `init`: contiguous int32, renumbered 0..K-1 in order of value."""
    array = array_of("init", labels, f"integer labels of shape ({n},)")
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"init must be integer labels of shape ({n},), one label for each row, got {array.dtype} of "
            f"shape {array.shape}."
        )
    if array.min() < 0:
        raise ValueError(f"init must contain non-negative cluster labels; got {array.min()}.")
    numbered: Labels = np.unique(array, return_inverse=True)[1].astype(np.int32)
    return numbered


def check_weight(sample_weight: WeightInput, n: int) -> NDArray[np.float64] | None:
    """Weights as float64 (n,), or None; raise unless they are finite, >= 0 and not all 0."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, np.ma.MaskedArray):
        raise TypeError("sample_weight is a masked array; call .filled(0) to exclude its masked rows.")
    weight = np.asarray(sample_weight)
    if weight.dtype.kind not in "fiub" or weight.ndim > 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar of numbers, got shape {weight.shape} of "
            f"{weight.dtype}."
        )
    weight = np.full(n, weight, np.float64) if weight.ndim == 0 else weight.astype(np.float64)
    if len(weight) != n:
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected ({n},): one weight for every row.")
    if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0:
        raise ValueError("sample_weight must be finite and >= 0; a weight of 0 excludes a row.")
    if not weight.any():
        raise ValueError("The sample_weight of every row is zero; nothing is left to fit.")
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if not _LEAST_WEIGHT <= total <= _MOST_WEIGHT:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, outside {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}; scale the "
            f"weights {'up' if total < 1 else 'down'}."
        )
    return weight


def check_countable(weight: NDArray[np.float64] | None) -> None:
    """Raise if weights that are numbers of rows sum to more than float64 can count one by one."""
    total = 0.0 if weight is None else float(weight.sum())
    if total > _COUNTABLE:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, but a weight is a number of rows, and more than 2**53 = "
            f"{_COUNTABLE:.3g} rows cannot be counted exactly; scale the weights down."
        )


def check_penalties(value: object, name: str = "fusion_penalty") -> NDArray[np.float64]:
    """A penalty, or a path of them, as an array; raise unless finite, >= 0 and decreasing."""
    penalties = np.atleast_1d(array_of(name, value, "a finite number >= 0 or an array of them"))
    numeric = penalties.dtype.kind in "fiu" and penalties.ndim == 1 and len(penalties) > 0
    if not numeric or not np.isfinite(penalties).all() or (penalties < 0).any():
        raise ValueError(f"{name} must be a finite number >= 0 or an array of them, got {shown(value)}.")
    penalties = penalties.astype(np.float64)
    if (penalties > _MOST_PENALTY).any():
        raise ValueError(
            f"{name} must be at most {_MOST_PENALTY:g}, whose square is a float64, got {shown(value)}."
        )
    if (np.diff(penalties) >= 0).any():
        raise ValueError(
            f"{name} must decrease along a path, because each optimum is the start of the next; got values "
            "that rise or repeat. Sort them, the largest first."
        )
    return penalties


WEIGHT_BITS = 46  # bits of the total weight: sum w q^2 < 2^(46 + 78)
_NO_WEIGHT = np.empty(0, np.int64)  # every row has weight 1


def integer_weights(weight: NDArray[Any] | None) -> tuple[Integers, float]:
    """Weights as integers and the weight of one count.

    Integers are unchanged, so that weight 2 is bit-identical to two rows; other weights are rounded to 2^-46
    of their sum.
    """
    if weight is None:
        return _NO_WEIGHT, 1.0
    total = math.fsum(weight)
    if total <= 2.0**WEIGHT_BITS and bool((weight == np.floor(weight)).all()):
        return weight.astype(np.int64), 1.0
    unit = 2.0 ** (math.frexp(total)[1] - WEIGHT_BITS)
    return np.rint(weight / unit).astype(np.int64), unit


def scaled_to_worth(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """These weights, not all 0, times the number that makes their sum the rows of equal weights that they are
    worth: means of rows of weights w are as precise as those of (sum w)^2 / sum w^2 rows (Kish 1965).
    """
    own = weight / weight.max()  # squares of any number are finite
    return np.asarray(own * (own.sum() / (own @ own)))


def counts_in(unit: float, weight: NDArray[Any] | None, n: int) -> Integers:
    """The weights of n rows as counts of a known unit; empty: all one.

    Raises ValueError where the unit is 1 and a weight is not whole, or there are too many counts.
    """
    if weight is None and unit == 1.0:
        return _NO_WEIGHT
    own = np.ones(n) if weight is None else weight
    with np.errstate(over="ignore"):
        counts = np.rint(own / unit)
    if counts.sum() > _COUNTABLE:
        raise ValueError(
            f"The rows of X have a weight of {own.sum():.3g} together, too heavy for those of the fit, "
            f"which are counted in steps of {unit:.3g}; pass sample_weight in the scale of the fit."
        )
    if unit == 1.0 and not np.array_equal(counts, own):
        raise ValueError(
            "The weights of the fit are whole numbers, those of X are not; fit with weights that are not "
            "whole, or repeat rows."
        )
    return counts.astype(np.int64)


LARGEST = 1e150  # absolute value of a number; squares of larger ones overflow
NARROWEST = 1e-150  # range of a column that varies; squares of smaller ones underflow


def check_ranges(
    low: Floats, high: Floats, names: Sequence[Any], *, largest: float = LARGEST, narrowest: float = NARROWEST
) -> None:
    """Raise ValueError where the squares of a column overflow or underflow.

    `low`, `high` (D,): smallest and largest number; `low` > `high` where a column has none. `largest`,
    `narrowest`: limits of the absolute values and of the ranges that are not 0.
    """
    spread = np.where(low <= high, high / 2 - low / 2, 0.0)
    size = np.where(low <= high, np.maximum(np.abs(low), np.abs(high)), 0.0)
    unusable = (size > largest) | ((spread > 0) & (spread < narrowest / 2))
    if unusable.any():
        d = int(unusable.argmax())
        raise ValueError(
            f"Column {str(names[d])!r} ranges from {low[d]:.3g} to {high[d]:.3g}; squares of its values "
            f"overflow or underflow, so scale it {'down' if size[d] > 1 else 'up'}."
        )
