"""`Map(seed_globals=True)`: global generators are seeded from the record before each call."""

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


class SeededGlobals:
    """Calls a function with `random`, `numpy.random` and (where imported) torch seeded from a record's generator.

    The generators' earlier states are restored after the call, also after an error, so code that runs later in the same
    process (the trainer's at worker_count=0) isn't affected.

    Args:
        function: takes one element.

    >>> draw = SeededGlobals(lambda _: random.random())
    >>> draw(None, np.random.Generator(np.random.Philox(key=1))) == draw(
    ...     None, np.random.Generator(np.random.Philox(key=1))
    ... )
    True
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, element: Any, rng: "np.random.Generator") -> Any:
        python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the point is the global generator
        # Used only where the user's code has imported it: an import here would take each worker about a second.
        torch = sys.modules.get("torch")
        torch_state = None if torch is None else torch.random.get_rng_state()
        words = rng.integers(0, 2**32, size=4, dtype=np.uint64)  # (4,) below 2**32
        random.seed(int(words[0]))
        np.random.seed(words[1:3].astype(np.uint32))  # noqa: NPY002
        if torch is not None:
            torch.random.default_generator.manual_seed(int(words[3]))
        try:
            return self.function(element)
        finally:
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002
            if torch is not None:
                torch.random.set_rng_state(torch_state)
