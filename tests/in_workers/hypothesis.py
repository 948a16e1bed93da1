"""All of hypothesis, as test files use it while they are imported."""

import sys

from unused import Unused

__path__: list[str] = []
sys.modules.update({f"hypothesis.{name}": Unused() for name in ("extra", "extra.numpy", "stateful")})


def __getattr__(name: str) -> Unused:
    if name.startswith("__"):
        raise AttributeError(name)
    return Unused()
