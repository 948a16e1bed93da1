"""Objects that a `with` block closes, and closing that runs to its end despite Ctrl-C."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

# How many Ctrl-C one closing survives; after the last it is left unfinished, so that a user can always quit.
_INTERRUPTS = 3


class Closing:
    """A base class: a `with` block over the object calls its `close()` at the end."""

    def close(self) -> None:
        """Releases what the object holds. A subclass defines it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def uninterrupted(end: Callable[[], None]) -> None:
    """Calls `end` again after each Ctrl-C until it returns, then raises the last KeyboardInterrupt.

    Gives up after three interrupts.

    Args:
        end: takes a short time; called again, it goes on where it was interrupted.

    >>> left = [2, 1]
    >>> def stop_workers():
    ...     while left:
    ...         if left.pop() == 1:
    ...             raise KeyboardInterrupt
    >>> try:
    ...     uninterrupted(stop_workers)
    ... except KeyboardInterrupt:
    ...     print(left)
    []
    """
    interrupt: KeyboardInterrupt | None = None
    for _ in range(_INTERRUPTS):
        try:
            end()
            break
        except KeyboardInterrupt as latest:
            interrupt = latest
    if interrupt is not None:
        raise interrupt
