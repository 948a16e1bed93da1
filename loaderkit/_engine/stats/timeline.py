"""A timeline: what workers, the pump and the trainer did when, as spans on one clock, and as a trace of events.

A worker tells of each task when it is done: the counters of `it.stats()` before and after it. So the parts of a task
have measured lengths, and are laid one behind the other in the order in which they begin: a task that reads and
decodes its records one by one shows all of its reads first. What is behind the parts is the engine's own time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .counters import TaskTrace


class TraceEvent(NamedTuple):
    """Something on a track: from `begin` to `end`, in nanoseconds of one clock; an instant where `end` is None."""

    track: str
    name: str
    begin: int
    end: int | None = None
    details: Mapping[str, Any] = {}


class Timeline:
    """What is recorded; any thread may add.

    Args:
        epoch: nanoseconds from 1970 to the zero of the clock.

    >>> timeline = Timeline(epoch=0)
    >>> timeline.add("trainer", "next()", 1000, 4000, elements=1)
    >>> timeline.add_task("worker 0", TaskTrace(7, 2000, 3000, 4, 4, 300, 200, (400,)), ["operations[0] f"])
    >>> [(span.name, span.begin, span.end) for span in timeline.spans() if span.track == "worker 0"]
    [('task', 2000, 3000), ('read', 2000, 2300), ('operations[0] f', 2300, 2700), ('rows', 2700, 2900)]
    """

    def __init__(self, *, epoch: int) -> None:
        self.epoch = epoch
        self._spans: list[TraceEvent] = []
        self._tasks: list[tuple[str, TaskTrace, Sequence[str]]] = []

    def add(self, track: str, name: str, begin: int, end: int | None = None, **details: Any) -> None:
        """Records a span, or an instant."""
        self._spans.append(TraceEvent(track, name, begin, end, details))

    def add_task(self, track: str, task: TaskTrace, operations: Sequence[str]) -> None:
        """Records a task of a worker; operations: their names."""
        self._tasks.append((track, task, operations))

    def spans(self) -> Iterator[TraceEvent]:
        """All that was recorded: the trainer's track first, and of each task the whole before its parts."""
        yield from [*self._spans]
        for track, task, operations in [*self._tasks]:
            details = {"task": task.task, "records": task.records, "rows": task.rows}
            yield TraceEvent(track, "task", task.begin, task.end, details)
            at = task.begin
            parts = [
                ("read", task.read),
                *zip(operations, task.operations, strict=False),
                ("rows", task.batch),
            ]
            for name, taken in parts:
                end = min(at + taken, task.end)
                if end > at:
                    yield TraceEvent(track, name, at, end)
                at = end

    def to_json(self) -> str:
        """The trace as JSON of Chrome's trace events, which Perfetto and chrome://tracing open."""
        spans = [*self.spans()]
        zero = min((span.begin for span in spans), default=0)
        about = {"begin_unix_ns": self.epoch + zero}
        return json.dumps(
            {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events_of(spans, 1, zero)}
        )


def events_of(spans: Sequence[TraceEvent], process: int, zero: int) -> list[dict[str, Any]]:
    """Spans as Chrome's trace events: of one process, a thread for each track. zero: when their time begins."""
    tracks = {track: number for number, track in enumerate(dict.fromkeys(span.track for span in spans))}
    names: list[tuple[str, int, dict[str, Any]]] = [("process_name", 0, {"name": "loaderkit"})]
    for track, number in tracks.items():
        names += [
            ("thread_name", number, {"name": track}),
            ("thread_sort_index", number, {"sort_index": number}),
        ]
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": process, "tid": number, "name": name, "args": about}
        for name, number, about in names
    ]
    for track, name, begin, end, details in spans:
        event = {"name": name, "pid": process, "tid": tracks[track], "ts": (begin - zero) / 1000}
        event |= {"ph": "i", "s": "t"} if end is None else {"ph": "X", "dur": (end - begin) / 1000}
        events.append(event | {"args": {**details}})
    return events
