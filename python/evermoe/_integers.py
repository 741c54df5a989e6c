"""What callers hand in, as 64-bit integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]


def integers(values: ArrayLike, name: str, dimensions: int) -> IntArray:
    """`values` as an int64 array. ValueError if they are no integers or have another number of dimensions."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}: rows of different length") from None
    if array.ndim != dimensions:
        raise ValueError(f"{name}: {array.ndim} dimensions instead of {dimensions}")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name}: integers expected, not {array.dtype}")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: {array.max()} does not fit in 64 bits")
    return array.astype(np.int64)
