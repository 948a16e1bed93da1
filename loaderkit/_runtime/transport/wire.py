"""What the trainer and a worker process say to each other, as bytes.

A message is one kind byte, eight bytes of length, and a body. Tasks and reports are vectors of int64, written in one
go: a few microseconds, where a pickle would take as long as a small task. What is rare is a pickle.
"""

import pickle
import struct
from array import array
from itertools import chain
from typing import Any

import numpy as np

from loaderkit._engine.task import Report, Slot, Span, Target, Task, TaskPart
from loaderkit._order.failure import Failure
from loaderkit._order.fill import Fill
from loaderkit._order.loss import Loss
from loaderkit._runtime.memory.batch_layout import BatchLayout

from .pickling import Packer

# From the trainer.
PREPARE = 8  # what to take over from the trainer before anything else: a pickle
PROGRAM = 1  # what to run: a pickle
LAYOUT = 2  # a pickle of a number and a layout: what later tasks call by that number, whatever was called so before
TASK = 3
PLACE = 4  # where an output that was too large for its reserve goes
FORGET = 5  # an output that nobody wants any more
CANDIDATES = 6  # indices, then as many record keys: what may be read instead of a bad record
RECALL = 7  # task, attempt, task, attempt, ...: those that aren't begun are done, nobody wants them
# From a worker.
READY = 16
UNFIT = 17  # the program can't be set up: a pickled exception
DONE = 18
ASK = 19  # task, attempt, bytes: room is needed
SEARCH = 20  # task, attempt, index, tried: what to read instead of a bad record

HEADER = struct.Struct("=BQ")
_NO_SLOT = (-1, 0, 0, 0)
_NO_LAYOUT = -1


def frame(kind: int, body: bytes = b"") -> bytes:
    """A message ready to send."""
    return HEADER.pack(kind, len(body)) + body


def split(received: bytearray) -> list[tuple[int, bytes]]:
    """Takes the whole messages off the front of what was received."""
    messages, place = [], 0
    while len(received) - place >= HEADER.size:
        kind, length = HEADER.unpack_from(received, place)
        end = place + HEADER.size + length
        if len(received) < end:
            break
        messages.append((kind, bytes(received[place + HEADER.size : end])))
        place = end
    del received[:place]
    return messages


def numbers(*values: int) -> bytes:
    """Some int64 as a body."""
    return array("q", values).tobytes()


def read_numbers(body: bytes) -> list[int]:
    """What `numbers` wrote."""
    return array("q", body).tolist()


def pack_slot(slot: Slot | None) -> tuple[int, int, int, int]:
    """A slot as four numbers."""
    return _NO_SLOT if slot is None else (slot.offset, slot.nbytes, slot.segment, slot.segment_nbytes)


def unpack_slot(values: list[int]) -> Slot | None:
    """What `pack_slot` wrote."""
    return None if values[0] < 0 else Slot(*values)


def pack_task(
    task: Task, attempt: int, suspect: bool, layouts: dict[BatchLayout, int], outputs: dict[int, Slot]
) -> bytes:
    """A task as a body.

    Args:
        task, attempt, suspect: what to send.
        layouts: the number of each layout that the worker was told.
        outputs: where the outputs lie that the task takes in.
    """
    end = () if task.end is None else task.end
    values = array(
        "q",
        (
            *(
                task.id,
                attempt,
                suspect,
                task.level,
                len(task.indices),
                len(task.keys),
                len(task.targets),
                len(task.inputs),
            ),
            *(len(task.begin), -1 if task.end is None else len(end), len(task.start), len(task.fill)),
            *pack_slot(task.reserve),
        ),
    )
    for target in task.targets:
        values.extend(
            (
                *(target.rows, target.batch, target.first, target.whole),
                *(_number(target.layout, layouts), len(target.fill)),
            )
        )
        values.extend(pack_slot(target.slot))
        values.extend(chain.from_iterable(target.fill))
    for span in task.inputs:
        values.extend((span.task, span.part, span.lo, span.hi, span.batch, _number(span.layout, layouts)))
        values.extend(pack_slot(span.slot))
        values.extend(pack_slot(outputs.get(span.task)))
    for cursor in (task.begin, end, task.start):
        values.extend(cursor)
    values.extend(chain.from_iterable(task.fill))
    return b"".join((values.tobytes(), task.indices.tobytes(), task.keys.tobytes()))


def unpack_task(body: bytes, layouts: dict[int, BatchLayout]) -> tuple[Task, int, bool, dict[int, Slot]]:
    """What `pack_task` wrote: the task, its attempt, whether it is suspect, where the outputs lie that it takes in."""
    vector = np.frombuffer(body, np.int64)
    n_head = 16
    head = vector[:n_head].tolist()
    task_id, attempt, suspect, level, *counts = head[:12]
    n_indices, n_keys, n_targets, n_inputs, n_begin, n_end, n_start, n_fill = counts
    words = iter(vector[n_head : len(vector) - n_indices - n_keys].tolist())

    def take(count: int) -> list[int]:
        return [next(words) for _ in range(count)]

    targets = []
    for _ in range(n_targets):
        rows, batch, first, whole, layout, n_pairs = take(6)
        slot, fill = unpack_slot(take(4)), _pairs(take(2 * n_pairs))
        targets.append(Target(rows, batch, first, slot, bool(whole), layouts.get(layout), fill))
    inputs, outputs = [], {}
    for _ in range(n_inputs):
        span_task, part, lo, hi, batch, layout = take(6)
        inputs.append(Span(span_task, part, lo, hi, unpack_slot(take(4)), batch, layouts.get(layout)))
        where = unpack_slot(take(4))
        if where is not None:
            outputs[span_task] = where
    begin, end, start = take(n_begin), None if n_end < 0 else take(n_end), take(n_start)
    fill = _pairs(take(2 * n_fill))
    tail = len(vector) - n_indices - n_keys
    task = Task(
        id=task_id,
        level=level,
        indices=vector[tail : tail + n_indices],
        keys=vector[tail + n_indices :],
        targets=tuple(targets),
        inputs=tuple(inputs),
        begin=tuple(begin),
        end=None if end is None else tuple(end),
        start=tuple(start),
        reserve=unpack_slot(head[12:]),
        fill=fill,
    )
    return task, attempt, bool(suspect), outputs


def _pairs(numbers: list[int]) -> Fill:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _number(layout: Any, layouts: dict[BatchLayout, int]) -> int:
    return _NO_LAYOUT if layout is None else layouts[layout]


def pack_report(task: int, attempt: int, report: Report, packer: Packer) -> bytes:
    """A report as a body; its failure must be portable already."""
    rare = b""
    if report.failure is not None or report.layout is not None or report.losses:
        rare = packer.dumps((report.failure, report.failed_part, report.layout, report.losses))
    values = array(
        "q", (task, attempt, report.nbytes, int(report.seconds * 1e9), len(report.parts), len(rare))
    )
    cursors = []
    for part in report.parts:
        width = 0 if part.begins is None else part.begins.shape[1]
        values.extend((part.size, part.in_place, width, part.ends is not None))
        cursors += [c.tobytes() for c in (part.begins, part.ends) if c is not None]
    return b"".join((values.tobytes(), *cursors, rare))


def unpack_report(body: bytes) -> tuple[int, int, Report]:
    """What `pack_report` wrote: task, attempt, report."""
    head = array("q", body[:48]).tolist()
    task, attempt, nbytes, nanoseconds, n_parts, n_rare = head
    place = 48 + 32 * n_parts
    sizes = array("q", body[48:place]).tolist()
    parts = []
    for k in range(n_parts):
        size, in_place, width, has_ends = sizes[4 * k : 4 * k + 4]
        begins = ends = None
        if width:
            begins = np.frombuffer(body, np.int64, size * width, place).reshape(size, width)
            place += begins.nbytes
        if has_ends:
            ends = np.frombuffer(body, np.int64, size * width, place).reshape(size, width)
            place += ends.nbytes
        parts.append(TaskPart(size, bool(in_place), begins, ends))
    failure: Failure | None = None
    failed_part, layout = 0, None
    losses: tuple[Loss, ...] = ()
    if n_rare:
        failure, failed_part, layout, losses = pickle.loads(body[place:])
    report = Report(tuple(parts), failure, failed_part, layout, nbytes, nanoseconds / 1e9, losses)
    return task, attempt, report
