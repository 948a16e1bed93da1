"""What the plan knows of an operation: which kind it is and what it is called, never what it does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The arguments of a Batch.

    batch_size, global_batch_size: one of them is given. has_function: whether a function makes the batch, not stacking.
    """

    batch_size: int | None
    global_batch_size: int | None
    remainder: str
    has_function: bool


@dataclass(frozen=True, slots=True)
class OperationShape:
    """One operation. `label` is its name in what processes compare; `batch` is None but for a Batch.

    `show` gives how it shows itself in errors. It is called for an error only: the repr of a user's class may be long.

    >>> OperationShape("filter", "Filter(isalpha)").changes_rows
    True
    """

    kind: Literal["map", "random_map", "filter", "flat_map", "batch"]
    label: str
    batch: BatchShape | None = None
    show: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    @property
    def changes_rows(self) -> bool:
        """Whether it gives other rows in number than it takes."""
        return self.kind in ("filter", "flat_map")

    @property
    def shown(self) -> str:
        """What errors call it."""
        return self.label if self.show is None else self.show()

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return self.kind == "random_map"
