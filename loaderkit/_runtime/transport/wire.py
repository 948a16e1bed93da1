"""The messages between the trainer and a worker process, as bytes.

A message is one kind byte, eight bytes of length, and a body. Tasks and results are vectors of int64, written in one
go: a few microseconds, where a pickle would take as long as a small task. What is rare is a pickle.
"""

import errno
import os
import pickle
import socket
import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from loaderkit._engine.stats.counters import TaskTrace
from loaderkit._engine.task import (
    BatchMade,
    Discarded,
    MakeBatch,
    ReadRows,
    ReadStream,
    RowsPart,
    RowsRead,
    Slot,
    Span,
    StreamRead,
    Target,
    Task,
    TaskResult,
)
from loaderkit._order.facts import Fill
from loaderkit._runtime.memory.batch_layout import BatchLayout

from .pickling import Packer

# From the trainer.
PREPARE = 8  # what to take over from the trainer before anything else: a pickle
PROGRAM = 1  # what to run: a pickle
LAYOUT = 2  # a pickle of a number and a layout: that number means it in later tasks, whatever it meant before
TASK = 3
SPACE_GRANTED = 4  # where an output that was too large for its reserve goes
SPACE_REFUSED = 5  # the worker drops the output: it is not needed any more, or there is no memory for it
CANDIDATES = 6  # indices, then as many record keys: what may be read instead of a bad record
RECALL = 7  # task, attempt, task, attempt, ...: cancelled; those that aren't begun are reported as discarded
DESCRIBE = 9  # before PROGRAM: the trainer is on another host, and is told what the program's source is here
TRACE = 10  # 1: tasks are told as TASKS_TRACED before their results; 0: they aren't
# From a worker.
WORKER_READY = 16  # if it was sent DESCRIBE with what it is, or why it cannot be, as JSON
SETUP_FAILED = 17  # this worker, and any that would replace it, can't go on: a pickled exception
TASK_FINISHED = 18
SPACE_REQUESTED = 19  # task, attempt, bytes
NUMERICS = 21  # before its first result, as JSON: what _base/system/numerics.py says there
TASKS_TRACED = (
    22  # when it was sent, by perf_counter_ns there; then for each task how many numbers, and these
)
REPLACEMENT_REQUESTED = 20  # task, attempt, index, tried: what to read instead of a bad record

HEADER = struct.Struct("=BQ")
_NO_SLOT = (-1, 0, 0, 0)
_NO_LAYOUT = -1
_NO_END = -1
_READ_ROWS, _READ_STREAM, _MAKE_BATCH, _DISCARDED = range(4)  # kinds of tasks, and of their results
_TASK_HEAD = 9  # numbers: kind, id, attempt, suspect, indices, reserve
# Bytes: kind, task, attempt, output's bytes, nanoseconds, those of waiting, bytes of the pickle at the end.
_RESULT_HEAD = 56
_RUN_HEAD = 24  # bytes: elements, numbers of a cursor, whether there are ends


def frame(kind: int, body: bytes = b"") -> bytes:
    """A message ready to send."""
    return HEADER.pack(kind, len(body)) + body


def split(received: bytearray) -> list[tuple[int, bytes]]:
    """Takes the whole messages off the front of what was received."""
    messages, start = [], 0
    while len(received) - start >= HEADER.size:
        kind, length = HEADER.unpack_from(received, start)
        end = start + HEADER.size + length
        if len(received) < end:
            break
        messages.append((kind, bytes(received[start + HEADER.size : end])))
        start = end
    del received[:start]
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
    head = (task.id, attempt, suspect, len(task.indices), *pack_slot(task.reserve))
    match task:
        case ReadRows():
            values = array("q", (_READ_ROWS, *head, *_packed_targets(task, layouts)))
            return b"".join((values.tobytes(), task.indices.tobytes(), task.keys.tobytes()))
        case ReadStream():
            values = array("q", (_READ_STREAM, *head, len(task.start), *task.start))
            return b"".join((values.tobytes(), task.indices.tobytes(), task.keys.tobytes()))
        case MakeBatch():
            values = array("q", (_MAKE_BATCH, *head, *_packed_batch(task, layouts, outputs)))
            return values.tobytes() + task.indices.tobytes()


def _packed_targets(task: ReadRows, layouts: dict[BatchLayout, int]) -> list[int]:
    values = [len(task.targets)]
    for target in task.targets:
        layout = _number(target.layout, layouts)
        head = (target.rows, target.batch, target.first, target.whole, layout, len(target.fill), target.shape)
        values += head
        values += pack_slot(target.slot)
        values += chain.from_iterable(target.fill)
    return values


def _packed_batch(task: MakeBatch, layouts: dict[BatchLayout, int], outputs: dict[int, Slot]) -> list[int]:
    end = () if task.end is None else task.end
    n_end = _NO_END if task.end is None else len(task.end)
    values = [task.level, len(task.inputs), len(task.begin), n_end, len(task.start), len(task.fill)]
    for span in task.inputs:
        values += (span.task, span.part, span.lo, span.hi, span.batch, _number(span.layout, layouts))
        values += pack_slot(span.slot)
        values += pack_slot(outputs.get(span.task))
    for cursor in (task.begin, end, task.start):
        values += cursor
    values += chain.from_iterable(task.fill)
    return values


def unpack_task(body: bytes, layouts: dict[int, BatchLayout]) -> tuple[Task, int, bool, dict[int, Slot]]:
    """What `pack_task` wrote: the task, its attempt, whether it is suspect, where the outputs lie that it takes in."""
    vector = np.frombuffer(body, np.int64)
    kind, number, attempt, suspect, n, *reserve = vector[:_TASK_HEAD].tolist()
    room = unpack_slot(reserve)
    outputs: dict[int, Slot] = {}
    task: Task
    if kind == _MAKE_BATCH:
        words = iter(vector[_TASK_HEAD : len(vector) - n].tolist())
        task = _unpack_batch(number, vector[len(vector) - n :], room, words, layouts, outputs)
        return task, attempt, bool(suspect), outputs
    tail = len(vector) - 2 * n
    words = iter(vector[_TASK_HEAD:tail].tolist())
    indices, keys = vector[tail : tail + n], vector[tail + n :]
    if kind == _READ_ROWS:
        task = ReadRows(number, indices, keys, _unpack_targets(words, layouts), room)
    else:
        task = ReadStream(number, indices, keys, tuple(_take(words, next(words))), room)
    return task, attempt, bool(suspect), outputs


def _unpack_targets(words: Iterator[int], layouts: dict[int, BatchLayout]) -> tuple[Target, ...]:
    targets = []
    for _ in range(next(words)):
        rows, batch, first, whole, layout, n_pairs, shape = _take(words, 7)
        slot, fill = unpack_slot(_take(words, 4)), _pairs(_take(words, 2 * n_pairs))
        targets.append(Target(rows, batch, first, slot, bool(whole), layouts.get(layout), fill, shape))
    return tuple(targets)


def _unpack_batch(
    number: int,
    indices: np.ndarray,
    reserve: Slot | None,
    words: Iterator[int],
    layouts: dict[int, BatchLayout],
    outputs: dict[int, Slot],
) -> MakeBatch:
    level, n_inputs, n_begin, n_end, n_start, n_fill = _take(words, 6)
    inputs = []
    for _ in range(n_inputs):
        task, part, lo, hi, batch, layout = _take(words, 6)
        inputs.append(Span(task, part, lo, hi, unpack_slot(_take(words, 4)), batch, layouts.get(layout)))
        where = unpack_slot(_take(words, 4))
        if where is not None:
            outputs[task] = where
    begin = tuple(_take(words, n_begin))
    end = None if n_end == _NO_END else tuple(_take(words, n_end))
    start = tuple(_take(words, n_start))
    fill = _pairs(_take(words, 2 * n_fill))
    return MakeBatch(number, level, indices, tuple(inputs), begin, end, start, fill, reserve)


def _take(words: Iterator[int], count: int) -> list[int]:
    return list(islice(words, count))


def _pairs(numbers: list[int]) -> Fill:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _number(layout: Any, layouts: dict[BatchLayout, int]) -> int:
    return _NO_LAYOUT if layout is None else layouts[layout]


def pack_traced(now: int, tasks: Sequence[TaskTrace]) -> bytes:
    """Finished tasks as a body; now: by perf_counter_ns."""
    values = array("q", (now,))
    for *numbers, operations in tasks:
        values.extend((len(numbers) + len(operations), *numbers, *operations))
    return values.tobytes()


def unpack_traced(body: bytes) -> tuple[int, list[TaskTrace]]:
    """What `pack_traced` wrote."""
    now, *values = read_numbers(body)
    tasks, begin, head = [], 0, len(TaskTrace._fields) - 1
    while begin < len(values):
        end = begin + 1 + values[begin]
        numbers = values[begin + 1 : end]
        fields: Any = (*numbers[:head], tuple(numbers[head:]))
        tasks.append(TaskTrace(*fields))
        begin = end
    return now, tasks


def pack_result(task: int, attempt: int, result: TaskResult | Discarded, packer: Packer) -> bytes:
    """A result as a body; its failure's error was packed before, by `pack_exception`."""
    match result:
        case RowsRead():
            return _pack_rows_read(task, attempt, result, packer)
        case StreamRead():
            rare = b""
            if result.failure is not None or result.losses:
                rare = packer.dumps((result.failure, result.losses))
            return _pack_run(_READ_STREAM, task, attempt, result, rare)
        case BatchMade():
            rare = b""
            if result.failure is not None or result.layout is not None:
                rare = packer.dumps((result.failure, result.layout))
            return _pack_run(_MAKE_BATCH, task, attempt, result, rare)
        case Discarded():
            return numbers(_DISCARDED, task, attempt, 0, 0, 0, 0)


def _pack_rows_read(task: int, attempt: int, result: RowsRead, packer: Packer) -> bytes:
    rare = b""
    if result.failure is not None or result.layout is not None or result.losses:
        rare = packer.dumps((result.failure, result.failed_target, result.layout, result.losses))
    times = int(result.seconds * 1e9), int(result.waited * 1e9)
    values = array("q", (_READ_ROWS, task, attempt, result.nbytes, *times, len(rare)))
    for part in result.parts:
        values.extend((part.size, part.in_place))
    return values.tobytes() + rare


def _pack_run(kind: int, task: int, attempt: int, result: StreamRead | BatchMade, rare: bytes) -> bytes:
    """The elements that one task made in order, with their cursors."""
    begins, ends = result.begins, result.ends
    width = 0 if begins is None else begins.shape[1]
    waited = result.waited if isinstance(result, StreamRead) else 0.0
    head = (kind, task, attempt, result.nbytes, int(result.seconds * 1e9), int(waited * 1e9), len(rare))
    values = array("q", (*head, result.size, width, ends is not None))
    return b"".join((values.tobytes(), *(c.tobytes() for c in (begins, ends) if c is not None), rare))


def unpack_result(body: bytes) -> tuple[int, int, TaskResult | Discarded]:
    """What `pack_result` wrote: task, attempt, result."""
    kind, task, attempt, nbytes, nanoseconds, waiting, n_rare = array("q", body[:_RESULT_HEAD]).tolist()
    end = len(body) - n_rare
    rare = pickle.loads(body[end:]) if n_rare else None
    seconds, waited = nanoseconds / 1e9, waiting / 1e9
    result: TaskResult | Discarded
    if kind == _READ_ROWS:
        failure, failed_target, layout, losses = rare or (None, 0, None, ())
        parts = _unpack_parts(body[_RESULT_HEAD:end])
        result = RowsRead(parts, failure, failed_target, layout, nbytes, seconds, losses, waited)
    elif kind == _READ_STREAM:
        failure, losses = rare or (None, ())
        result = StreamRead(*_unpack_run(body[_RESULT_HEAD:end]), failure, nbytes, seconds, losses, waited)
    elif kind == _MAKE_BATCH:
        failure, layout = rare or (None, None)
        result = BatchMade(*_unpack_run(body[_RESULT_HEAD:end]), failure, layout, nbytes, seconds)
    else:
        result = Discarded()
    return task, attempt, result


def placed_by(body: bytes) -> tuple[int, int, int, list[int]]:
    """What of a result lies in memory, without unpickling anything: task, attempt, bytes of the output, and the numbers
    of the targets that were written in place.
    """
    kind, task, attempt, nbytes, _, _, n_rare = array("q", body[:_RESULT_HEAD]).tolist()
    parts = _unpack_parts(body[_RESULT_HEAD : len(body) - n_rare]) if kind == _READ_ROWS else ()
    return task, attempt, nbytes, [number for number, part in enumerate(parts) if part.in_place]


def _unpack_parts(body: bytes) -> tuple[RowsPart, ...]:
    values = array("q", body).tolist()
    return tuple(
        [RowsPart(size, bool(in_place)) for size, in_place in zip(values[::2], values[1::2], strict=True)]
    )


def _unpack_run(body: bytes) -> tuple[int, np.ndarray | None, np.ndarray | None]:
    size, width, has_ends = array("q", body[:_RUN_HEAD]).tolist()
    nbytes = 8 * size * width
    begins = ends = None
    if width:
        begins = np.frombuffer(body, np.int64, size * width, _RUN_HEAD).reshape(size, width)
    if has_ends:
        ends = np.frombuffer(body, np.int64, size * width, _RUN_HEAD + nbytes).reshape(size, width)
    return size, begins, ends


_MOST_AT_ONCE = 250  # descriptors; Linux sends at most 253 with a message
_COUNT = struct.Struct("=q")


def send_descriptors(connection: socket.socket, descriptors: Sequence[int]) -> None:
    """Sends a process that was started without them its descriptors, before any message; the channel is empty."""
    first, *others = (
        descriptors[at : at + _MOST_AT_ONCE] for at in range(0, len(descriptors), _MOST_AT_ONCE)
    )
    socket.send_fds(connection, [_COUNT.pack(len(descriptors))], first)
    for more in others:
        socket.send_fds(connection, [b"\0"], more)


def received_descriptors(connection: socket.socket) -> list[int]:
    """What `send_descriptors` sent. ConnectionError where the channel ends before, OSError where they are too many."""
    told, descriptors, *_ = socket.recv_fds(connection, _COUNT.size, _MOST_AT_ONCE)
    arrived = told
    while arrived and len(descriptors) < _COUNT.unpack(told)[0]:
        arrived, more, *_ = socket.recv_fds(connection, 1, _MOST_AT_ONCE)
        if arrived and not more:  # the kernel drops those that this process may not have
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        descriptors += more
    if not arrived:
        raise ConnectionResetError("the trainer has ended")
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # not for programs that the user's code starts
    return descriptors
