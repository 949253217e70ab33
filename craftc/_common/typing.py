"""Array types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bits = NDArray[np.bool_]
Edges = NDArray[np.int32]
Flags = NDArray[np.uint8]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Ints = NDArray[np.intp]
Labels = NDArray[np.int32]
Mask = NDArray[np.uint8]
Masks = NDArray[np.uint64]
