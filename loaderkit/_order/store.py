"""The key-value store that the processes of a run share, as loaderkit uses it."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """A small key-value store that all processes of a run share, such as that of JAX's coordination service.

    Only `wait` may wait for another process, and no method may start a collective. Calls come from the threads that
    call `next()`, `close()`, `set_state` and `iter(loader)`.

    Attributes:
        process: number of this process.
        processes: how many load together.
        timeout: seconds that a process waits for others before it raises an error.
    """

    process: int
    processes: int
    timeout: float

    def count(self, name: str) -> int:
        """How often `count(name)` was called in this process before: 0, 1, …

        Each pass over the data takes its keys from this number. They agree between processes, because all processes
        make the same passes in the same order.
        """
        ...

    def post(self, key: str, value: str) -> None:
        """Sets or replaces a key's value; returns when other processes can read it."""
        ...

    def read(self, prefix: str) -> Mapping[str, str]:
        """All keys that begin with `prefix`, in full, with their values of this moment."""
        ...

    def wait(self, prefix: str, seconds: float) -> None:
        """Returns when a key that begins with `prefix` may have changed, or after `seconds`."""
        ...
