"""What is closed when its `with` block is left."""

from types import TracebackType
from typing import Self


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
