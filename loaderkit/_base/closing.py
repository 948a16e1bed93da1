"""What is closed when its `with` block is left, and closed whole though Ctrl-C comes meanwhile."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

_INTERRUPTS = 3  # that come while something ends: with the last of them it is left as it is


class Closing:
    """Gives who has `close()` a `with` block that ends with it."""

    def close(self) -> None:
        """Ends what it does."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def uninterrupted(end: Callable[[], None]) -> None:
    """Calls `end` until it is through, and raises then what interrupted it; who interrupts it again and again is heard.

    Args:
        end: takes a short time; called again, it goes on.

    >>> uninterrupted(lambda: None)
    """
    interrupt: KeyboardInterrupt | None = None
    for _ in range(_INTERRUPTS):
        try:
            end()
            break
        except KeyboardInterrupt as once_more:
            interrupt = once_more
    if interrupt is not None:
        raise interrupt
