"""What a keeper does with messages between the trainer and one of its workers: bytes in, bytes out, without a socket.

The trainer's slots mean nothing on this host. So each target with a slot is given one of this host's arena, as a batch
of its own (`first=0`, `batch=rows`), and each reserve one as large. The worker's result is forwarded as it is, with the
rows that it wrote, leaf by leaf, and its output. Of layouts the keeper knows a row's bytes in each leaf, as numbers; it
unpickles nothing.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from loaderkit._engine.slots import Slots
from loaderkit._engine.task import MakeBatch, ReadRows, ReadTask, Slot, Target, targets_of
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.memory.batch_layout import pieces, read_seal, slot_nbytes
from loaderkit._runtime.transport import wire

from .frames import ROWS, Checksum, FrameError
from .rows import RowsHeader, checksum_of

_LAYOUT_HEAD = 24  # bytes
_MOST_COPIED = 1 << 16  # bytes of a result that is sent as one buffer


class ToTrainer(NamedTuple):
    """One message to the trainer.

    kind, body: of the message. pieces: bytes behind it. sent: called when all of it is sent, or won't be.
    """

    kind: int
    body: bytes
    pieces: Sequence[bytes | memoryview] = ()
    sent: Callable[[], None] | None = None


class _Rows(NamedTuple):
    """A layout, as far as a keeper knows it."""

    number: int
    verify: bool
    row_nbytes: tuple[int, ...]

    def nbytes(self, rows: int) -> int:
        return slot_nbytes(self.row_nbytes, rows, verify=self.verify)


class _Given(NamedTuple):
    """A task that the worker has, with slots of this host."""

    task: ReadTask
    reserve: Slot | None


def pack_layout(number: int, row_nbytes: Sequence[int], verify: bool, pickled: bytes) -> bytes:
    """The body of a LAYOUT to a keeper. pickled: of a LAYOUT to a worker."""
    return array("q", (number, verify, len(row_nbytes), *row_nbytes)).tobytes() + pickled


class Relay:
    """The messages of one worker.

    Args:
        arena: of this host.
        slots: of the arena.
        checksum: of rows.
    """

    def __init__(self, arena: Arena, slots: Slots, checksum: Checksum) -> None:
        self._arena, self._slots, self._checksum = arena, slots, checksum
        self._layouts: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._given: dict[tuple[int, int], _Given] = {}  # by task and attempt
        self._taken: set[Slot] = set()

    # --- to the worker ------------------------------------------------------------------------------------------

    def to_worker(self, kind: int, body: bytes) -> bytes:
        """What the worker is sent for a message of the trainer.

        Raises MemoryError where this host has no memory for a task, and FrameError or ValueError for other messages.
        """
        match kind:
            case wire.TASK:
                return wire.frame(kind, self._moved_here(body))
            case wire.LAYOUT:
                number, verify, leaves = array("q", body[:_LAYOUT_HEAD])
                end = _LAYOUT_HEAD + 8 * leaves
                self._numbers.pop(self._layouts.get(number), None)
                layout = _Rows(number, bool(verify), tuple(array("q", body[_LAYOUT_HEAD:end])))
                self._layouts[number], self._numbers[layout] = layout, number
                return wire.frame(kind, body[end:])
            case wire.RECALL | wire.CANDIDATES | wire.TRACE:
                return wire.frame(kind, body)
        raise FrameError(f"a message of kind {kind} to a worker")

    def _moved_here(self, body: bytes) -> bytes:
        task, attempt, suspect, _ = wire.unpack_task(body, self._layouts)
        if isinstance(task, MakeBatch):
            raise FrameError("a batch to make of rows that lie at the trainer")
        if isinstance(task, ReadRows):
            task = task._replace(targets=tuple(map(self._target_here, task.targets)))
        reserve = None if task.reserve is None else self._alloc(task.reserve.nbytes)
        task = task._replace(reserve=reserve)
        self._given[task.id, attempt] = _Given(task, reserve)
        return wire.pack_task(task, attempt, suspect, self._numbers, {})

    def _target_here(self, target: Target) -> Target:
        if target.slot is None:
            return target
        if target.layout is None:
            raise FrameError("a slot without a layout")
        return target._replace(
            slot=self._alloc(target.layout.nbytes(target.rows)), first=0, batch=target.rows
        )

    def _alloc(self, nbytes: int) -> Slot:
        slot = self._slots.alloc(nbytes)
        self._taken.add(slot)
        return slot

    def _free(self, slots: Iterable[Slot]) -> None:
        for slot in self._taken.intersection(slots):
            self._taken.remove(slot)
            self._slots.free(slot)

    def drop(self) -> None:
        """Frees all slots; the worker has ended, and nothing more is sent."""
        self._free(self._taken)

    # --- from the worker ----------------------------------------------------------------------------------------

    def from_worker(self, kind: int, body: bytes) -> ToTrainer | bytes:
        """The message for the trainer, or the answer to the worker, that follows from one of the worker's.

        Raises MemoryError where this host has no memory for an output.
        """
        match kind:
            case wire.TASK_FINISHED:
                return self._finished(body)
            case wire.SPACE_REQUESTED:
                task, attempt, nbytes = wire.read_numbers(body)
                given = self._given[task, attempt]
                if given.reserve is not None:
                    self._free([given.reserve])
                room = self._alloc(nbytes)
                self._given[task, attempt] = given._replace(reserve=room)
                return wire.frame(wire.SPACE_GRANTED, wire.numbers(task, attempt, *wire.pack_slot(room)))
            case wire.NUMERICS | wire.REPLACEMENT_REQUESTED | wire.TASKS_TRACED:
                return ToTrainer(kind, body)
        raise FrameError(f"a message of kind {kind} of a worker")

    def _finished(self, body: bytes) -> ToTrainer:
        task_id, attempt, nbytes, placed = wire.placed_by(body)
        task, reserve = self._given.pop((task_id, attempt))
        targets = targets_of(task)
        parts: list[memoryview] = []
        sizes: list[int] = []
        seals = []
        for number in placed:
            target = targets[number]
            layout: Any = target.layout
            assert target.slot is not None
            token = self._arena.token(target.slot)
            rows = pieces(layout.row_nbytes, token, target.rows, 0, target.rows)
            parts += rows
            sizes += map(len, rows)
            if layout.verify:
                seals.append(read_seal(layout.row_nbytes, token, target.rows, 0))
        if nbytes:
            assert reserve is not None
            parts.append(memoryview(self._arena.token(reserve)).cast("B")[:nbytes])
        header = RowsHeader(checksum_of(parts, self._checksum), nbytes, tuple(sizes), tuple(seals), body)
        slots = [slot for slot in (reserve, *(target.slot for target in targets)) if slot is not None]
        if nbytes + sum(sizes) > _MOST_COPIED:
            return ToTrainer(ROWS, header.pack(), parts, partial(self._free, slots))
        copied = b"".join(parts)
        self._free(slots)
        return ToTrainer(ROWS, header.pack(), [copied])
