"""Runs of elements in order, regrouped by what is there: pipelines that change the number of rows, and elements
without a Batch.

Every logical stream is a chain of *lines*. Line 0 holds what the tasks that read records gave, line j what the tasks
that made Batch j gave, each run of elements in the place of the task that it came from, so a run that arrives early
waits for those before it. Whenever a line has enough elements in order, they are taken as the rows of one batch of the
next line. The last Batch takes an equal share from every stream; its line is the one that is handed out.

A line is *over* behind its last run: at the end of the stream, or at a failure. A failure reaches the user when all
before it did: the batch that would need a row behind it becomes the failure's place in the next line. Where several
streams lack rows for a batch, the first of them says what becomes of it, so that the answer doesn't depend on who was
quicker; the others are read on until it has.

What becomes of a last batch that lacks rows is said by its grouping. Padded batches end when the streams of this
process are dry, or, where other processes may have more rows, never: then masked batches follow, and whoever hands
them out says when it is enough. What their rows look like shows the first element of the whole data, read again for it.

What is to be read next: the stream that has least on its way. It is never asked for less than the rows of one element
that is handed out, and where every stream has those, the element can be made: so there is always work, or an answer.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from loaderkit.plan.cursor import Cursor
from loaderkit.plan.schedule import Fill

from .assembly import AHEAD_NBYTES, Reserve, Supplies
from .line import Line, Place, Run, Taken
from .task import Broken, End, Loss, Outcome, Ready, Report, Slot, Span, Task


class Feed(Protocol):
    """The records of one logical stream, in order."""

    def next(self, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Indices and record keys of up to `count` next records, both (n,) int64; None behind the last."""
        ...


@dataclass(frozen=True, slots=True)
class Grouping:
    """A Batch as the chain sees it: rows it takes from each stream, and what becomes of a last one that lacks some.

    keep   it is smaller; only of a single stream
    drop   there is none
    pad    zeros take the missing rows' places; several streams end with the last of them
    wrap   a single stream begins again and fills it up
    fail   a stream that ends at all is an error
    """

    rows: int
    short: Literal["keep", "drop", "pad", "wrap", "fail"]


@dataclass(slots=True)
class _Stream:
    """A logical stream: its feed, its lines, and the figures from which follows how much to read.

    Its losses wait for the element that passes them. All those are there when it is: it was made of the tasks up to its
    last record.
    """

    feed: Feed
    start: Cursor
    lines: list[Line]
    records: tuple[np.ndarray, np.ndarray] | None = None  # from the feed, not given out for want of memory
    read: int = 0  # records given out
    arrived: int = 0  # of those, how many came back
    given: int = 0  # elements that came of them
    lap: int = 0  # how often it has begun again, where records were given out last
    last: int = -1  # the index of the last of them
    losses: list[tuple[int, Loss]] = field(default_factory=list)  # with the lap of each
    entered: set[int] = field(default_factory=set)  # levels that have begun

    def enter(self, level: int) -> Cursor:
        """Where the stream was entered, for the first task of a level: the element entered there is in that one."""
        first = level not in self.entered
        self.entered.add(level)
        return self.start if first else ()


class Chain:
    """The assembly of a pipeline that changes the number of rows, or hands out single elements.

    Args:
        feeds: this process's logical streams, by number, ascending.
        supplies: what the loader's assemblies share.
        groupings: one for each Batch; rows of the last are those that one stream gives.
        start: where each stream was entered, by number.
        nominal: records of one element that is handed out, if no operation changed their number.
        prefetch: elements to make ahead of the one handed out last.
        patience: records in a row, or batches, that may give nothing before that is an error, None for any number.
        stop: behind the last index, None without an end.
        again: gives the feed of a stream from its first index on, for "wrap".
        sample: gives a feed of the whole data; masked batches follow on the last padded one, and look like these.
        tolerance: bad records in a row that may be left out before that is an error, None where none is left out.
    """

    def __init__(
        self,
        feeds: Mapping[int, Feed],
        supplies: Supplies,
        *,
        groupings: tuple[Grouping, ...],
        start: dict[int, Cursor],
        nominal: int,
        prefetch: int,
        patience: int | None,
        stop: int | None = None,
        again: Callable[[int], Feed] | None = None,
        sample: Callable[[], Feed] | None = None,
        tolerance: int | None = None,
    ) -> None:
        # Behind a batch that failed and was reached: the cursors of the streams that it had rows of.
        self.behind_failure: Mapping[int, Cursor] | None = None
        self._stop, self._again, self._sample = stop, again, sample
        self._sampled: _Stream | None = None
        self._shape: Taken | None = None  # the row that masked batches look like
        self._dry = self._wrapped = False
        self._patience = patience
        self._tolerance = tolerance
        self._supplies = supplies
        self._groupings = groupings
        self._nominal = nominal
        self._prefetch = max(prefetch, 1)
        inner = max(len(groupings), 1)
        self._streams = {
            number: _Stream(feed, start[number], [Line() for _ in range(inner)])
            for number, feed in feeds.items()
        }
        self._last = Line() if groupings else next(iter(self._streams.values())).lines[0]
        # Records of one element of each of a stream's lines, if no operation changed their number.
        self._units = [math.prod(grouping.rows for grouping in groupings[:level]) for level in range(inner)]
        self._reserves = [Reserve(supplies) for _ in range(len(groupings) + 1)]
        self._pending: deque[Task] = deque()  # batches ready to be made
        self._work: dict[int, tuple[Line, Run, _Stream]] = {}  # task id -> line, run, one of its streams
        self._uses: dict[int, int] = {}  # task id -> elements of its output that are still to be used

    # --- work to give out ---------------------------------------------------------------------------------------

    def next_task(self) -> Task | None:
        self._mask()
        if self._pending:
            task = self._pending[0]
            task = replace(task, reserve=self._reserves[task.level].slot(len(task.indices)))
            self._pending.popleft()
            return task
        stream = self._hungriest()
        return None if stream is None else self._read_task(stream)

    def _hungriest(self) -> _Stream | None:
        """The stream to read from: the one with least on its way, if that is too little."""
        if self._last.over:
            return None
        if self._sampled is not None:
            sampled = self._sampled
            enough = sampled.read > sampled.arrived or sampled.lines[-1].size() or self._shape is not None
            return None if enough or any(line.over for line in sampled.lines) else sampled
        going_on = [
            stream for stream in self._streams.values() if not any(line.over for line in stream.lines)
        ]
        stream = min(going_on, key=self._coming, default=None)
        if stream is None:
            return None
        pace = self._supplies.pace
        least = max(self._prefetch * self._nominal, pace.least_ahead(self._task_rows()))
        ahead = max(least, pace.rows_ahead(self._nominal))
        affordable = self._reserves[0].rows_in(AHEAD_NBYTES)
        if affordable is not None:
            ahead = min(ahead, max(affordable, least))
        return stream if self._coming(stream) + self._made() < ahead / len(self._streams) else None

    def _task_rows(self) -> int:
        return self._reserves[0].fitting(self._supplies.pace.rows(self._nominal))

    def _coming(self, stream: _Stream) -> float:
        """What a stream has and what is on its way, in nominal records."""
        share = stream.given / stream.arrived if stream.arrived else 1.0
        there = sum(line.size() * unit for line, unit in zip(stream.lines, self._units, strict=True))
        return there + (stream.read - stream.arrived) * share

    def _made(self) -> float:
        """What was already made of one stream's records, in nominal records."""
        return self._last.size() * self._nominal / len(self._streams) if self._groupings else 0

    def _read_task(self, stream: _Stream) -> Task | None:
        line = stream.lines[0]
        try:
            records = stream.records or stream.feed.next(self._task_rows())
        except Exception as error:  # noqa: BLE001 - a user's sampler may raise anything
            line.fail(error)
            records = None
        if records is None:
            line.over = True
            self._regroup()
            return self.next_task()
        indices, keys = stream.records = records
        reserve = self._reserves[0].slot(len(indices))
        stream.records = None
        task = Task(
            id=self._supplies.new_id(),
            level=0,
            indices=indices,
            keys=keys,
            start=stream.enter(0),
            reserve=reserve,
        )
        stream.read += len(indices)
        stream.lap += int(indices[0]) <= stream.last  # records that are given at once are of one lap
        stream.last = int(indices[-1])
        run = line.add(task.id, promised=0)
        run.lap = stream.lap
        self._work[task.id] = (line, run, stream)
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
            if part.ends is not None:
                run.laps = self._laps_behind(task, run, part.ends)
            if self._patience is not None and part.begins is not None:
                run.records = 1 if task.level else len(task.indices)
                firsts = part.begins[:, 0]
                run.places = np.zeros_like(firsts) if task.level else np.searchsorted(task.indices, firsts)
        if report.trouble is not None:
            run.failed = report.trouble.error
            line.over = True
        if task.level:
            for span in task.inputs:
                self._use(span)
        else:
            self._supplies.pace.saw(rows=len(task.indices), seconds=report.seconds)
            stream.arrived += len(task.indices)
            stream.given += run.size
            stream.losses += [(run.lap, loss) for loss in report.losses]
            if self._tolerance is not None:
                run.records, run.losses = len(task.indices), report.losses
                line.give_up_lost(self._tolerance)
            elif report.losses and run.begins is None:
                run.indices = task.indices
        if self._patience is not None:
            line.give_up(self._patience, "batches" if task.level else "records")
        line.shed()
        if run.size:
            self._uses[task.id] = run.size
        self._regroup()
        return 1 if run.size else 0

    def _laps_behind(self, task: Task, run: Run, ends: np.ndarray) -> np.ndarray:
        """In which lap each element of a run ends: a batch's last child behind all rows, the others in the first."""
        laps = np.full(len(ends), run.lap, np.int64)
        if task.level and run.group_laps and task.end is not None:
            behind = (*task.end, *(0,) * (ends.shape[1] - len(task.end)))
            laps[(ends == behind).all(axis=1)] = next(iter(run.group_laps.values()))
        return laps

    def _use(self, span: Span) -> None:
        self._uses[span.task] -= span.hi - span.lo
        if not self._uses[span.task]:
            del self._uses[span.task]
            self._supplies.outputs.drop(span.task)

    # --- elements become rows -----------------------------------------------------------------------------------

    def _regroup(self) -> None:
        streams = self._streams if self._sampled is None else {**self._streams, -1: self._sampled}
        for number, stream in streams.items():
            for level, grouping in enumerate(self._groupings[:-1], start=1):
                while self._form(level, grouping, {number: stream}, stream.lines[level]):
                    pass
        if self._groupings:
            while self._form(len(self._groupings), self._groupings[-1], self._streams, self._last):
                pass

    def _form(self, level: int, grouping: Grouping, streams: dict[int, _Stream], line: Line) -> bool:
        """Makes the task of one more batch if its rows are there; ends the line when there can be no more."""
        if line.over or (line is self._last and self._dry):
            return False
        counts: dict[int, int] = {}
        for number, stream in streams.items():
            source = stream.lines[level - 1]
            source.count()
            if source.ready < grouping.rows:
                failure = source.failure()
                if failure is not None:
                    line.fail(failure.failed, failure.behind)
                    return False
                if not source.at_end():
                    return False
            counts[number] = min(source.ready, grouping.rows)
        short = any(count < grouping.rows for count in counts.values())
        if short and not self._ends(grouping, counts, line):
            return False
        taken = {number: stream.lines[level - 1].take(counts[number]) for number, stream in streams.items()}
        if self._wrapped and line is self._last:
            line.over = True
            taken = {n: replace(part, end=self._behind(part.begins), end_lap=0) for n, part in taken.items()}
        filled = short and grouping.short == "pad"
        self._batch_task(level, taken, streams, line, filled_to=grouping.rows if filled else None)
        return True

    def _ends(self, grouping: Grouping, counts: dict[int, int], line: Line) -> bool:
        """Streams ended before a batch was whole: whether it is made of what there is."""
        some = any(counts.values())
        match grouping.short:
            case "keep" | "drop":
                line.over = True
                return grouping.short == "keep" and all(counts.values())
            case "pad":
                line.over = not some and self._sample is None
                self._dry = not some and self._sample is not None
                return some
            case "wrap":
                line.over = not some
                if some:
                    self._begin_again()
            case "fail":
                number = min(number for number, count in counts.items() if count < grouping.rows)
                line.fail(
                    ValueError(
                        f"logical stream {number} has too few rows left for this step, and num_steps asks for it: use "
                        "remainder='wrap', or fewer steps, or remainder='pad' without num_steps"
                    )
                )
        return False

    def _begin_again(self) -> None:
        assert self._again is not None
        self._wrapped = True
        for number, stream in self._streams.items():
            stream.feed = self._again(number)
            # The levels before the last Batch enter the stream anew; of what that makes, some may have been handed out.
            stream.entered.update(range(len(self._groupings)))
            for line in stream.lines[:-1]:
                line.count()
                for span in line.take(line.ready).spans:  # too few for an earlier Batch, which drops them
                    self._use(span)
            for line in stream.lines:
                line.over = False

    def _behind(self, begins: np.ndarray) -> Cursor:
        """The cursor behind the last index, as long as those."""
        assert self._stop is not None
        return (self._stop, *(0,) * (begins.shape[1] - 1))

    def _batch_task(
        self,
        level: int,
        taken: dict[int, Taken],
        streams: Mapping[int, _Stream],
        line: Line,
        *,
        filled_to: int | None,
    ) -> None:
        there = [part for part in taken.values() if part.spans]
        begins = np.concatenate([part.begins for part in there])  # (n, depth + 1) int64
        first = streams[next(iter(taken))]
        alone = len(taken) == 1
        ends = {number: part.end for number, part in taken.items()}
        fill: Fill = ()
        if filled_to is not None:
            behind = self._behind(begins)
            ends = {n: part.end if len(part.begins) == filled_to else behind for n, part in taken.items()}
            fill = tuple((len(part.begins), filled_to - len(part.begins)) for part in taken.values())
        task = Task(
            id=self._supplies.new_id(),
            level=level,
            indices=begins[:, 0].copy(),
            keys=np.empty(0, np.int64),
            inputs=tuple(span for part in there for span in part.spans),
            begin=tuple(begins[0].tolist()),
            end=next(iter(ends.values())),
            start=first.enter(level) if alone else (),
            fill=fill,
        )
        run = line.add(task.id, promised=1)
        run.rows = self._spread(begins, fill)
        run.reaches = {number: part.reach for number, part in taken.items()}
        run.behind = ends
        run.lap = next(iter(taken.values())).lap
        run.group_laps = {number: part.end_lap for number, part in taken.items()}
        if not alone:
            run.group_ends = ends
        self._work[task.id] = (line, run, first)
        self._pending.append(task)

    def _spread(self, begins: np.ndarray, fill: Fill) -> np.ndarray:
        """Where each row begins, rows of zeros behind the stream's end."""
        if not fill:
            return begins
        real = np.repeat([True, False] * len(fill), [count for pair in fill for count in pair])
        rows = np.full((len(real), begins.shape[1]), self._behind(begins), np.int64)
        rows[real] = begins[: real.sum()]
        return rows

    def _mask(self) -> None:
        """Makes masked batches ahead, once the streams are dry and it is known what a row looks like."""
        if not self._dry or self._last.over:
            return
        if self._shape is None and not self._find_shape():
            return
        assert self._shape is not None
        (span,), behind = self._shape.spans, self._behind(self._shape.begins)
        fill = tuple((0, self._groupings[-1].rows) for _ in self._streams)
        while self._last.size() < self._prefetch:
            self._uses[span.task] += 1
            task = Task(
                id=self._supplies.new_id(),
                level=len(self._groupings),
                indices=self._shape.begins[:, 0].copy(),
                keys=np.empty(0, np.int64),
                inputs=(span,),
                begin=behind,
                end=behind,
                fill=fill,
            )
            run = self._last.add(task.id, promised=1)
            run.masked = True
            run.rows = self._spread(self._shape.begins, fill)
            run.group_ends = dict.fromkeys(self._streams, behind)
            self._work[task.id] = (self._last, run, next(iter(self._streams.values())))
            self._pending.append(task)

    def _find_shape(self) -> bool:
        if self._sampled is None:
            assert self._sample is not None
            self._sampled = _Stream(self._sample(), (), [Line() for _ in self._groupings])
        line = self._sampled.lines[-1]
        line.count()
        if line.ready:
            self._shape = line.take(1)
        elif (failure := line.failure()) is not None:
            self._last.fail(failure.failed)
        elif line.at_end():
            self._last.over = True  # nobody has a row
        return self._shape is not None

    # --- what is handed out -------------------------------------------------------------------------------------

    def pop(self) -> Outcome | None:
        line = self._last
        if not line.runs:
            return End(self._losses_left()) if line.over else None
        run = line.runs[0]
        if not run.done:
            return None
        if run.taken == run.size:
            self.behind_failure = run.behind
            return Broken(run.failed)
        place, run.taken = run.taken, run.size
        line.shed()
        ends = None
        if run.group_ends is not None:
            ends = [run.group_ends] * (run.size - place)
        elif run.ends is not None:
            (stream, *_) = self._streams
            ends = [{stream: tuple(end)} for end in run.ends[place : run.size].tolist()]
        ready = Ready(
            task=run.task,
            place=place,
            count=run.size - place,
            ends=ends,
            begins=run.rows,
            losses=self._losses_of(run, place, ends),
        )
        if self._sample is None:
            return ready
        more = sum(not run.masked and run.failed is None for run in line.runs)
        return replace(ready, masked=run.masked, more=more, dry=self._dry)

    def _losses_of(
        self, run: Run, place: int, ends: list[dict[int, Cursor]] | None
    ) -> dict[int, tuple[Loss, ...]] | None:
        if not any(stream.losses for stream in self._streams.values()):
            return None
        passed = {
            k: self._passed(None if ends is None else ends[k], run, place + k)
            for k in range(run.size - place)
        }
        return {k: losses for k, losses in passed.items() if losses}

    def _passed(self, ends: dict[int, Cursor] | None, run: Run, place: int) -> tuple[Loss, ...]:
        """The losses that an element leaves behind, each told once.

        Those of its records, whose place in the ledger it needs to be made again; of records left out, those that its
        end passes: in the middle of a batch's children they would be met again.
        """
        waiting = {number: stream for number, stream in self._streams.items() if stream.losses}
        if not waiting:
            return ()
        behind: dict[int, Place] = {}
        ended = {number: (run.lap_behind(number, place), end[0]) for number, end in (ends or {}).items()}
        if self._tolerance is not None:
            behind = ended
        elif run.reaches is not None:
            # Behind a last batch that is filled up nothing is made again: what its end passes goes with it, too.
            behind = {number: max(reach, ended.get(number, reach)) for number, reach in run.reaches.items()}
        elif run.begins is not None:
            behind = dict.fromkeys(waiting, (run.lap, int(run.begins[place, 0]) + 1))
        elif run.indices is not None:
            behind = dict.fromkeys(waiting, (run.lap, int(run.indices[place]) + 1))
        passed: list[tuple[int, Loss]] = []
        for number, stream in waiting.items():
            place_behind = behind.get(number, (0, 0))
            passed += [lost for lost in stream.losses if _place_of(lost) < place_behind]
            stream.losses = [lost for lost in stream.losses if _place_of(lost) >= place_behind]
        return tuple(loss for _, loss in sorted(passed, key=_place_of))

    def _losses_left(self) -> tuple[Loss, ...]:
        # Records that were read once more to fill up the last batch were lost before, if they were.
        return tuple(loss for stream in self._streams.values() for lap, loss in stream.losses if not lap)

    def taken(self, ready: Ready) -> None:
        self._use(Span(ready.task, 0, ready.place, ready.place + ready.count))

    def owned(self) -> tuple[list[Slot], list[int]]:
        return [], list(self._uses)


def _place_of(lost: tuple[int, Loss]) -> Place:
    lap, loss = lost
    return lap, loss.index
