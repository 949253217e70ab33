"""Sample weights as integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Integers

_WEIGHT_BITS = 46  # of the total weight: sum w q^2 < 2^(46 + 78)
_NO_WEIGHT = np.empty(0, np.int64)


def integer_weights(weight: NDArray[Any] | None) -> tuple[Integers, float]:
    """Weights as integers and the weight of one count.

    Integers are unchanged, so that weight 2 is bit-identical to two rows; other weights are rounded to 2^-46
    of their sum.
    """
    if weight is None:
        return _NO_WEIGHT, 1.0
    total = math.fsum(weight)
    if total <= 2.0**_WEIGHT_BITS and bool((weight == np.floor(weight)).all()):
        return weight.astype(np.int64), 1.0
    unit = 2.0 ** (math.frexp(total)[1] - _WEIGHT_BITS)
    return np.rint(weight / unit).astype(np.int64), unit
