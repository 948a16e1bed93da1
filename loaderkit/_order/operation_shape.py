"""What the plan knows of an operation: its kind and its name. It never sees the function."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The arguments of a Batch.

    batch_size, global_batch_size: one is an int, the other None. has_function: whether a batch_fn makes the batch.
    buckets: how many lengths a PadBatch pads to, 0 for another Batch. rows_padded: whether the plan says which.
    known: (n,) ints, of each record its bucket, where the plan takes that of the longest row of a step; else None.
    """

    batch_size: int | None
    global_batch_size: int | None
    remainder: str
    has_function: bool
    buckets: int = 0
    rows_padded: bool = False
    known: NDArray[np.integer] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class WindowShape:
    """The arguments of a Window.

    size: elements of a window. draws: whether it draws random numbers. identity: what states compare of it, by name.
    """

    size: int
    draws: bool
    identity: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class OperationShape:
    """One operation.

    label: its name in what processes compare. batch: the arguments of a Batch, None for other kinds. window: those of a
    Window. group: consecutive rows of a batch that it mixes, 0 where it mixes none. show: gives its text for errors;
    called only for an error, because the repr of a user's class may be slow.

    >>> OperationShape("filter", "Filter(isalpha)").changes_rows
    True
    """

    kind: Literal["map", "random_map", "filter", "flat_map", "window", "batch"]
    label: str
    batch: BatchShape | None = None
    window: WindowShape | None = None
    group: int = 0
    show: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    @property
    def changes_rows(self) -> bool:
        """Whether it may change the number of rows."""
        return self.kind in ("filter", "flat_map", "window")

    @property
    def shown(self) -> str:
        """Its text in errors."""
        return self.label if self.show is None else self.show()

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return self.kind == "random_map" or (self.window is not None and self.window.draws)
