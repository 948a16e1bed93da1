"""The names of grain.experimental, where scripts import them as grain.python.experimental."""

from typing import TYPE_CHECKING, Never

from loaderkit.interop.grain._installed import missing
from loaderkit.interop.grain.experimental import *  # noqa: F403 - one list of the names, for both places
from loaderkit.interop.grain.experimental import __all__  # noqa: F401 - as the star left it out

if not TYPE_CHECKING:  # where it would make every misspelled name one of ours

    def __getattr__(name: str) -> Never:
        missing(__name__, name)
