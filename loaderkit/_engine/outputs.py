"""What tasks made and how often it is still needed.

An output is counted in uses: each row range or element that is still to be taken from it. When the count reaches zero
the output is *released*: the executor deletes the object, or frees the slot, that holds it.
"""

from .task import Slot


class Outputs:
    """The outputs that are out, by task id.

    >>> outputs = Outputs()
    >>> outputs.arrived(7, None, uses=2)
    >>> for _ in range(2):
    ...     outputs.drop(7)
    >>> outputs.take_released()
    [(7, None)]
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[Slot | None, int]] = {}
        self._released: list[tuple[int, Slot | None]] = []

    def __len__(self) -> int:
        return len(self._held)

    def arrived(self, task: int, slot: Slot | None, *, uses: int) -> None:
        """A task's output exists, lies in `slot` (None: where the worker's process keeps it) and has `uses` uses."""
        if uses:
            self._held[task] = (slot, uses)
        else:
            self._released.append((task, slot))

    def slot(self, task: int) -> Slot | None:
        """Where the output of a task lies."""
        return self._held[task][0]

    def drop(self, task: int) -> None:
        """Counts one use less."""
        slot, uses = self._held.pop(task)
        self.arrived(task, slot, uses=uses - 1)

    def forget(self, task: int) -> None:
        """Releases an output whatever its uses: the stream that needed it was closed."""
        if task in self._held:
            slot, _ = self._held.pop(task)
            self._released.append((task, slot))

    def take_released(self) -> list[tuple[int, Slot | None]]:
        """The outputs released since the last call, each with where it lay."""
        released, self._released = self._released, []
        return released
