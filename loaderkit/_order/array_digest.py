"""The digest of an array in a fingerprint."""

from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt


def digest_of(array: npt.NDArray[Any]) -> str:
    """The sha256 of an array's values, the same on machines of either byte order; 128 bits of it as text.

    array: any shape, of numbers; its shape and dtype aren't part of the digest.

    >>> digest_of(np.array([7, 3])) == digest_of(np.array([7, 3], ">i8")) != digest_of(np.array([3, 7]))
    True
    """
    values = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return f"sha256:{sha256(values.data).hexdigest()[:32]}"
