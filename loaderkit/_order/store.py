"""The store where the processes of a run meet, as loaderkit asks it."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """A small key-value store that all processes of a run share, such as that of JAX's coordination service.

    process, processes: which one this is, and of how many that load together. timeout: seconds that a process waits
    for others before that is an error. No call waits for another process but `wait`, and none starts a collective.
    The calls come from the thread that asks for an element.
    """

    process: int
    processes: int
    timeout: float

    def count(self, name: str) -> int:
        """How often this was asked for that name before, by anybody in this process: 0, 1, …

        Each pass over the data gets keys of its own by it, the same ones in all processes, for all make the same
        passes in the same order.
        """
        ...

    def post(self, key: str, value: str) -> None:
        """Sets a key, in place of what it had; returns when others can read it."""
        ...

    def read(self, prefix: str) -> Mapping[str, str]:
        """All keys that begin with `prefix`, whole, and their values as they are now."""
        ...

    def wait(self, prefix: str, seconds: float) -> None:
        """Returns when a key that begins with `prefix` may have changed, at the latest after so many seconds."""
        ...
