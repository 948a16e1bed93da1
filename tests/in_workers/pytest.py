"""What test files use of pytest while they are imported; anything else is an AttributeError, in a worker."""

from importlib import import_module
from typing import Any

from unused import Unused

mark = fixture = param = MonkeyPatch = LogCaptureFixture = FixtureRequest = Metafunc = Unused()


def importorskip(name: str, **_: object) -> Any:
    return import_module(name)
