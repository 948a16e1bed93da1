"""The contract of a plan: what a `StreamReader` has to know of a stream.

A plan is frozen and knows the whole stream; it holds no position, no operation and no store. A position is opaque
outside its plan, but for its step. `SeekablePlan` is loaderkit's own; `interop/grain/_layout_plan.py` has Grain's.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.facts import Facts, Failure, Loss


class StreamPosition(Protocol):
    """Where an iterator stands."""

    @property
    def step(self) -> int:
        """Elements handed out."""
        ...


P = TypeVar("P", bound=StreamPosition)


class StreamPlan(Protocol[P]):
    """One stream of elements."""

    @property
    def num_steps(self) -> int | None:
        """Where the run ends, None where it ends with the stream."""
        ...

    def first_position(self) -> P:
        """Where the stream begins."""
        ...

    def after(self, at: P, facts: Facts, k: int) -> P:
        """The position after element k of those that facts are of; at: the position before element k."""
        ...

    def counts_between(self, start: P, end: P) -> tuple[int, int]:
        """Records and bad records of this process from one position to a later one, without a move in between."""
        ...

    def after_losses(self, at: P, losses: Sequence[Loss]) -> P:
        """The position with the bad records after the last element."""
        ...

    def after_failure(self, at: P, failure: Failure) -> P | None:
        """The position after what failed at a position; None where the failure doesn't say what that was."""
        ...

    def check_bad_records(self, at: P, latest: Loss) -> None:
        """Raises BadRecordsError where more were lost up to a position than is allowed; latest: the last of them."""
        ...

    def record_keys(self, at: P, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], Sequence[bool]]:
        """The record keys that are read at indices, (n,) int64 each, and whether each is read instead of a bad one."""
        ...
