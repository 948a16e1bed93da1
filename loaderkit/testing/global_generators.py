"""The global random generators of Python and numpy, which a check leaves as it found them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def kept_global_generators() -> Iterator[None]:
    """Restores the state of the global generators at the end of a `with` block.

    >>> import random
    >>> random.seed(0)
    >>> with kept_global_generators():
    ...     first = random.random()
    >>> random.random() == first
    True
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - the point is the global generator
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
