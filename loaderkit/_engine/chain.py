"""Runs of elements in order, regrouped by what is there: pipelines that change the number of rows, and elements
without a Batch.

Every logical stream is a chain of *lines*. Line 0 holds what the tasks that read records gave, line j what the tasks
that made Batch j gave, each run of elements in the place of the task that it came from, so a run that arrives early
waits for those before it. Whenever a line has enough elements in order, they are taken as the rows of one batch of the
next line. The last Batch takes an equal share from every stream; its line is the one that is handed out.

A line is *over* behind its last run: at the end of the stream, or at a failure. A failure reaches the user when all
before it did: the batch that would need a row behind it becomes the failure's place in the next line.
"""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .assembly import Reserve, Supplies
from .task import Broken, Cursor, End, Outcome, Ready, Report, Slot, Span, Task


class Feed(Protocol):
    """The records of one logical stream, in order."""

    def next(self, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Indices and record keys of up to `count` next records, both (n,) int64; None behind the last."""
        ...


@dataclass(frozen=True, slots=True)
class Grouping:
    """A Batch as the chain sees it: rows it takes from each stream, and whether a last, smaller one is made."""

    rows: int
    keep: bool


@dataclass(slots=True)
class _Run:
    task: int
    done: bool = False
    size: int = 0
    taken: int = 0
    begins: np.ndarray | None = None  # (size, depth + 1) int64
    ends: np.ndarray | None = None
    group_ends: dict[int, Cursor] | None = None  # of a batch over several streams: the cursors behind it
    failed: object | None = None


@dataclass(slots=True)
class _Taken:
    spans: list[Span]
    indices: list[int]
    begin: Cursor
    end: Cursor


class _Line:
    """Runs of elements in order, taken from the front."""

    def __init__(self) -> None:
        self.runs: deque[_Run] = deque()
        self.over = False
        self.ready = 0  # elements in the done runs at the front

    def add(self, task: int) -> _Run:
        run = _Run(task)
        self.runs.append(run)
        return run

    def count(self) -> None:
        """Counts what may be taken: up to the first run that isn't done, or that failed."""
        self.ready = 0
        for run in self.runs:
            if not run.done:
                break
            self.ready += run.size - run.taken
            if run.failed is not None:
                break

    def at_end(self) -> bool:
        """Whether nothing will come behind the elements that are ready, but perhaps a failure."""
        return self.over and all(run.done for run in self.runs)

    def failure(self) -> object | None:
        """The failure right behind the elements that are ready."""
        for run in self.runs:
            if not run.done or run.failed is not None:
                return run.failed
        return None

    def take(self, count: int) -> _Taken:
        spans: list[Span] = []
        indices: list[int] = []
        begin: Cursor = ()
        end: Cursor = ()
        while count:
            run = self.runs[0]
            n = min(count, run.size - run.taken)
            if n:
                assert run.begins is not None and run.ends is not None
                lo, hi = run.taken, run.taken + n
                begin = begin or tuple(run.begins[lo].tolist())
                end = tuple(run.ends[hi - 1].tolist())
                spans.append(Span(run.task, 0, lo, hi))
                indices += run.begins[lo:hi, 0].tolist()
                run.taken += n
                self.ready -= n
                count -= n
            self._shed()
        return _Taken(spans, indices, begin, end)

    def _shed(self) -> None:
        while self.runs and self.runs[0].done and self.runs[0].taken == self.runs[0].size:
            if self.runs[0].failed is not None:
                break
            self.runs.popleft()


class Chain:
    """The assembly of a pipeline that changes the number of rows, or hands out single elements.

    Args:
        feeds: this process's logical streams, by number, ascending.
        supplies: what the loader's assemblies share.
        groupings: one for each Batch; rows of the last are those that one stream gives.
        start: where each stream was entered, by number.
        nominal: records of one element that is handed out, if no operation changed their number.
        prefetch: elements to make ahead of the one handed out last.
    """

    def __init__(
        self,
        feeds: dict[int, Feed],
        supplies: Supplies,
        *,
        groupings: tuple[Grouping, ...],
        start: dict[int, Cursor],
        nominal: int,
        prefetch: int,
    ) -> None:
        self._feeds = feeds
        self._supplies = supplies
        self._groupings = groupings
        self._start = start
        self._nominal = nominal
        self._prefetch = max(prefetch, 1)
        inner = max(len(groupings), 1)
        self._lines = {stream: [_Line() for _ in range(inner)] for stream in feeds}
        self._last = _Line() if groupings else next(iter(self._lines.values()))[0]
        self._reserves = [Reserve(supplies) for _ in range(len(groupings) + 1)]
        self._pending: deque[Task] = deque()  # batches ready to be made
        self._work: dict[int, tuple[_Line, _Run, int]] = {}  # task id -> line, run, stream
        self._read = dict.fromkeys(feeds, 0)  # records given out
        self._arrived = dict.fromkeys(feeds, 0)  # of those, how many came back
        self._given = dict.fromkeys(feeds, 0)  # elements that came of them
        self._uses: dict[int, int] = {}  # task id -> elements of its output that are still to be used
        self._stopped = False

    # --- work to give out ---------------------------------------------------------------------------------------

    def next_task(self) -> Task | None:
        if self._pending:
            return self._pending.popleft()
        stream = None if self._stopped else self._hungriest()
        return None if stream is None else self._read_task(stream)

    def _hungriest(self) -> int | None:
        """The stream to read from: the one with least on its way, if that is too little."""
        open_streams = [stream for stream, lines in self._lines.items() if not lines[0].over]
        stream = min(open_streams, key=self._coming, default=None)
        if stream is None:
            return None
        # How many rows a filter will leave isn't known ahead: when all is done and there is still nothing to hand
        # out, more is needed, whatever the figures say.
        stuck = not self._work and not (self._last.runs and self._last.runs[0].done)
        pace = self._supplies.pace
        ahead = max(
            self._prefetch * self._nominal, pace.workers * pace.tasks_ahead() * pace.rows(self._nominal)
        )
        return stream if stuck or self._coming(stream) + self._made() < ahead / len(self._feeds) else None

    def _coming(self, stream: int) -> float:
        """Elements of a stream's line 0 that are there or on their way."""
        arrived = self._arrived[stream]
        share = self._given[stream] / arrived if arrived else 1.0
        return self._lines[stream][0].ready + (self._read[stream] - arrived) * share

    def _made(self) -> float:
        """What one stream's records were already made into, in records."""
        if not self._groupings:
            return 0
        elements = sum(run.size - run.taken if run.done else 1 for run in self._last.runs)
        return (elements + len(self._pending)) * self._nominal / len(self._feeds)

    def _read_task(self, stream: int) -> Task | None:
        line = self._lines[stream][0]
        try:
            records = self._feeds[stream].next(self._supplies.pace.rows(self._nominal))
        except Exception as error:  # noqa: BLE001 - a user's sampler may raise anything
            run = line.add(-1)
            run.done, run.failed = True, error
            self._stopped = True
            line.count()
            records = None
        if records is None:
            line.over = True
            self._regroup()
            return self.next_task()
        indices, keys = records
        task = Task(
            id=self._supplies.new_id(),
            level=0,
            indices=indices,
            keys=keys,
            start=self._start[stream],
            reserve=self._reserves[0].slot(len(indices)),
        )
        self._read[stream] += len(indices)
        self._work[task.id] = (line, line.add(task.id), stream)
        return task

    # --- what came of it ----------------------------------------------------------------------------------------

    def done(self, task: Task, report: Report) -> int:
        line, run, stream = self._work.pop(task.id)
        if report.nbytes:
            self._reserves[task.level].saw(len(task.indices), report.nbytes)
        run.done = True
        if report.parts:
            part = report.parts[0]
            run.size = part.size
            run.begins, run.ends = part.begins, part.ends
        if report.trouble is not None:
            run.failed = report.trouble.error
            self._stopped = True
        if task.level:
            for span in task.inputs:
                self._use(span)
        else:
            self._supplies.pace.saw(rows=len(task.indices), seconds=report.seconds)
            self._arrived[stream] += len(task.indices)
            self._given[stream] += run.size
        line._shed()
        line.count()
        if run.size:
            self._uses[task.id] = run.size
        self._regroup()
        return 1 if run.size else 0

    def _use(self, span: Span) -> None:
        self._uses[span.task] -= span.hi - span.lo
        if not self._uses[span.task]:
            del self._uses[span.task]
            self._supplies.outputs.drop(span.task)

    # --- elements become rows -----------------------------------------------------------------------------------

    def _regroup(self) -> None:
        for stream, lines in self._lines.items():
            for level, grouping in enumerate(self._groupings[:-1], start=1):
                while self._form(level, grouping, {stream: lines[level - 1]}, lines[level]):
                    pass
        if self._groupings:
            sources = {stream: lines[-1] for stream, lines in self._lines.items()}
            while self._form(len(self._groupings), self._groupings[-1], sources, self._last):
                pass

    def _form(self, level: int, grouping: Grouping, sources: dict[int, _Line], line: _Line) -> bool:
        """Makes the task of one more batch if its rows are there; ends the line when there can be no more."""
        if line.over:
            return False
        rows = dict.fromkeys(sources, grouping.rows)
        for stream, source in sources.items():
            source.count()
            if source.ready >= grouping.rows:
                continue
            failure = source.failure()
            if failure is not None:
                run = line.add(-1)
                run.done, run.failed = True, failure
                line.over = True
                line.count()
                return False
            if not source.at_end():
                return False
            rows[stream] = source.ready if grouping.keep else 0
        if any(count < grouping.rows for count in rows.values()):
            # Only a single stream ends (several need an endless sampler): its last rows are a smaller batch or none.
            line.over = True
            if sum(rows.values()) == 0 or any(count == 0 for count in rows.values()):
                return False
        self._batch_task(
            level, {stream: source.take(rows[stream]) for stream, source in sources.items()}, line
        )
        return True

    def _batch_task(self, level: int, taken: dict[int, _Taken], line: _Line) -> None:
        parts = list(taken.values())
        indices = [index for part in parts for index in part.indices]
        alone = len(parts) == 1
        task = Task(
            id=self._supplies.new_id(),
            level=level,
            indices=np.array(indices, np.int64),
            keys=np.empty(0, np.int64),
            inputs=tuple(span for part in parts for span in part.spans),
            begin=parts[0].begin,
            end=parts[0].end,
            start=self._start[next(iter(taken))] if alone else (),
            reserve=self._reserves[level].slot(len(indices)),
        )
        run = line.add(task.id)
        if not alone:
            run.group_ends = {stream: part.end for stream, part in taken.items()}
        self._work[task.id] = (line, run, next(iter(taken)))
        self._pending.append(task)

    # --- what is handed out -------------------------------------------------------------------------------------

    def pop(self) -> Outcome | None:
        line = self._last
        line._shed()
        if not line.runs:
            return End() if line.over else None
        run = line.runs[0]
        if not run.done:
            return None
        if run.taken == run.size:
            return Broken(run.failed)
        place = run.taken
        run.taken += 1
        line.ready -= 1
        if run.group_ends is not None:
            ends: dict[int, Cursor] | None = run.group_ends
        elif run.ends is not None:
            ends = {next(iter(self._feeds)): tuple(run.ends[place].tolist())}
        else:
            ends = None
        return Ready(task=run.task, place=place, ends=ends)

    def taken(self, task: int) -> None:
        self._use(Span(task, 0, 0, 1))

    def owned(self) -> tuple[list[Slot], list[int]]:
        slots = [task.reserve for task in self._pending if task.reserve is not None]
        return slots, list(self._uses)
