"""Runs of elements in order, regrouped by what is there: pipelines that change the number of rows, and elements
without a Batch.

Every logical stream (logical_stream.py) has a row of *queues* (element_queue.py): queue 0 of what was read, queue j of
what came of Batch j. Whenever a queue has enough elements in order, they are taken as the rows of one batch of the next
queue (grouping.py). The last Batch takes an equal share from every stream; its queue is the one that is handed out, and
with its elements go the losses that they pass (passed_losses.py).

A queue has *ended* behind its last run: at the end of the stream, or at a failure. A failure reaches the user when all
before it did: the batch that would need a row behind it becomes the failure's place in the next queue. Where several
streams lack rows for a batch, the first of them says what becomes of it, so that the answer doesn't depend on who was
quicker; the others are read on until it has.

What becomes of a last batch that lacks rows is said by its grouping. Padded batches end when the streams of this
process are exhausted, or, where other processes may have more rows, never: then masked batches follow (masks.py), and
whoever hands them out says when it is enough.

What is to be read next: the stream that lacks most for the next elements, by what came of its records and batches so
far (yields.py). Where nothing is on its way and no element can be made, some stream lacks records: so there is always
work, or an answer. Until a first element is made nothing is read ahead of it but two tasks a worker.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from loaderkit._order.cursor import Cursor
from loaderkit._order.facts import Facts
from loaderkit._order.failure import Failure

from .element_queue import ElementQueue, QueuedRun
from .grouping import Grouping, batch_of, end_like, masked_batch
from .logical_stream import LogicalStream, RecordInput, stream_of
from .masks import Masks
from .passed_losses import losses_left, losses_of
from .scheduler import AHEAD_NBYTES, Replacement, Reserve, SchedulerContext, no_replacement
from .task import End, Outcome, Ready, Report, Slot, Span, Task
from .yields import Outlook, Yield

# Of a stream's first task: what an element takes is only known when some records are done. A task of cheap rows that is
# so short costs 0.1 ms; of 2 ms each, as large pictures have, the first ones of two workers are 32 ms.
_FIRST_ROWS = 32


class StreamScheduler:
    """The scheduler of a pipeline that changes the number of rows, or hands out single elements.

    Args:
        feeds: this process's logical streams, by number, ascending.
        context: what the schedulers of one executor share.
        groupings: one for each Batch; rows of the last are those that one stream gives.
        start: where each stream was entered, by number.
        prefetch: elements to make ahead of the one handed out last.
        empty_limit: records in a row, or batches, that may give nothing before that is an error, None for any number.
        stop: behind the last index, None without an end.
        again: gives the feed of a stream from its first index on, for "wrap".
        sample: gives a feed of the whole data; masked batches follow on the last padded one, and look like these.
        tolerance: bad records in a row that may be left out before that is an error, None where none is left out.
        replacement: says what is read instead of a bad record.
    """

    def __init__(
        self,
        feeds: Mapping[int, RecordInput],
        context: SchedulerContext,
        *,
        groupings: tuple[Grouping, ...],
        start: dict[int, Cursor],
        prefetch: int,
        empty_limit: int | None,
        stop: int | None = None,
        again: Callable[[int], RecordInput] | None = None,
        sample: Callable[[], RecordInput] | None = None,
        tolerance: int | None = None,
        replacement: Replacement = no_replacement,
    ) -> None:
        self.replacement = replacement
        self._stop, self._again = stop, again
        self._exhausted = self._wrapped = False
        self._empty_limit = empty_limit
        self._tolerance = tolerance
        self._context = context
        self._groupings = groupings
        self._prefetch = max(prefetch, 1)
        takes = [grouping.rows for grouping in groupings]
        self._streams = {number: stream_of(feed, start[number], takes) for number, feed in feeds.items()}
        self._masks = None if sample is None else Masks(sample, takes)
        self._yield = Yield()  # of the last Batch's batches
        self._begun = False  # a first element was made
        self._last = ElementQueue() if groupings else next(iter(self._streams.values())).queues[0]
        self._reserves = [Reserve(context) for _ in range(len(groupings) + 1)]
        self._pending: deque[Task] = deque()  # batches ready to be made
        # Task id -> queue, run, one of its streams.
        self._work: dict[int, tuple[ElementQueue, QueuedRun, LogicalStream]] = {}
        self._uses: dict[int, int] = {}  # task id -> elements of its output that are still to be used
        self._arriving: int | None = None  # the task whose output isn't counted yet

    # --- work to give out ---------------------------------------------------------------------------------------

    def next_task(self) -> Task | None:
        self._mask()
        if self._pending:
            task = self._pending[0]
            task = replace(task, reserve=self._reserves[task.level].slot(len(task.indices)))
            self._pending.popleft()
            return task
        lacking = self._most_lacking()
        return None if lacking is None else self._read_task(*lacking)

    def _most_lacking(self) -> tuple[LogicalStream, int] | None:
        """The stream to read from, and how many records: the one that lacks most, if any has too little."""
        if self._last.ended:
            return None
        if self._masks is not None and self._masks.stream is not None:
            stream = self._masks.lacking(self._masks.stream)
            return None if stream is None else (stream, self._task_rows(stream, stream.outlook(1, 1)))
        of_batch, made = 1.0, 0.0
        wanted: float = self._prefetch if self._begun else 1
        if self._groupings:
            of_batch = self._yield.estimate(1)
            made = self._last.size(of_batch)
            wanted = math.ceil(max(wanted - made, 0) / of_batch)
        going_on = [
            (stream, stream.outlook(wanted, of_batch))
            for stream in self._streams.values()
            if not stream.ended
        ]
        if not going_on:
            return None
        stream, outlook = min(going_on, key=_lack)
        rows = self._task_rows(stream, outlook)
        # What a stream lacks can't be told before some of its records are done.
        known = stream.yields[0].entered or not stream.on_their_way
        if known and outlook.lacking > 0:
            return stream, rows
        each = sum(outlook.each for _, outlook in going_on)
        coming = sum(outlook.coming for _, outlook in going_on) + made * each
        if self._begun:
            enough = coming >= self._ahead(rows)
        else:
            enough = coming + rows > self._context.pace.least_ahead(rows) + (each if known else 0)
        return None if enough else (stream, rows)

    def _task_rows(self, stream: LogicalStream, outlook: Outlook) -> int:
        """Records of a next task: what is lacking, a first Batch's rows or what is known of at the most."""
        lacking = math.ceil(outlook.lacking or outlook.each)
        batch = self._groupings[0].rows if self._groupings else 1
        known = max(_FIRST_ROWS, stream.yields[0].entered)
        return self._reserves[0].task_rows(max(1, min(lacking, batch, known)))

    def _ahead(self, task_rows: int) -> float:
        """Records to have on their way when none is lacking, in tasks of so many."""
        pace = self._context.pace
        ahead = pace.rows_ahead(task_rows)
        affordable = self._reserves[0].rows_in(AHEAD_NBYTES)
        return max(pace.least_ahead(task_rows), ahead if affordable is None else min(ahead, affordable))

    def _read_task(self, stream: LogicalStream, rows: int) -> Task | None:
        queue = stream.queues[0]
        try:
            records = stream.records or stream.feed.next(rows)
        except Exception as error:  # noqa: BLE001 - a user's sampler may raise anything
            queue.fail(Failure(error))
            records = None
        if records is None:
            queue.ended = True
            self._regroup()
            return self.next_task()
        indices, keys = stream.records = records
        reserve = self._reserves[0].slot(len(indices))
        stream.records = None
        task = Task(
            id=self._context.new_id(),
            level=0,
            indices=indices,
            keys=keys,
            start=stream.enter(0),
            reserve=reserve,
        )
        stream.give_out(indices)
        run = queue.add(task.id, expected=0)
        run.pass_number = stream.pass_number
        self._work[task.id] = (queue, run, stream)
        return task

    # --- what came of it ----------------------------------------------------------------------------------------

    def done(self, task: Task, report: Report) -> int:
        queue, run, stream = self._work.pop(task.id)
        if report.nbytes:
            self._reserves[task.level].saw(len(task.indices), report.nbytes)
        run.done = True
        if report.parts:
            part = report.parts[0]
            run.size = part.size
            run.begins, run.ends = part.begins, part.ends
            if part.ends is not None:
                run.pass_numbers = self._passes_after(task, run, part.ends)
            if self._empty_limit is not None and part.begins is not None:
                run.records = 1 if task.level else len(task.indices)
                firsts = part.begins[:, 0]
                run.places = np.zeros_like(firsts) if task.level else np.searchsorted(task.indices, firsts)
        if report.failure is not None:
            run.fail(report.failure)
            queue.ended = True
        if task.level:
            last = task.level == len(self._groupings)
            (self._yield if last else stream.yields[task.level]).saw(entered=1, came=run.size)
            for span in task.inputs:
                self._use(span)
        else:
            self._context.pace.saw(rows=len(task.indices), seconds=report.seconds)
            stream.yields[0].saw(entered=len(task.indices), came=run.size)
            stream.losses += [(run.pass_number, loss) for loss in report.losses]
            if self._tolerance is not None:
                run.records, run.losses = len(task.indices), report.losses
                queue.give_up_lost(self._tolerance)
            elif report.losses and run.begins is None:
                run.indices = task.indices
        if self._empty_limit is not None:
            queue.give_up(self._empty_limit, "batches" if task.level else "records")
        queue.drop_used()
        if run.size:
            self._uses[task.id] = run.size
            self._begun = self._begun or (queue is self._last and self.due())
        self._arriving = task.id
        self._regroup()
        self._arriving = None
        return 1 if task.id in self._uses else 0

    def _passes_after(self, task: Task, run: QueuedRun, ends: np.ndarray) -> np.ndarray:
        """In which pass each element of a run ends: a batch's last child behind all rows, the others in the first."""
        pass_numbers = np.full(len(ends), run.pass_number, np.int64)
        if task.level and run.group_passes and task.end is not None:
            behind = (*task.end, *(0,) * (ends.shape[1] - len(task.end)))
            pass_numbers[(ends == behind).all(axis=1)] = next(iter(run.group_passes.values()))
        return pass_numbers

    def _use(self, span: Span) -> None:
        self._uses[span.task] -= span.hi - span.lo
        if not self._uses[span.task]:
            del self._uses[span.task]
            if span.task != self._arriving:
                self._context.outputs.drop(span.task)

    # --- elements become rows -----------------------------------------------------------------------------------

    def _regroup(self) -> None:
        streams = self._streams
        if self._masks is not None and self._masks.stream is not None:
            streams = {**streams, -1: self._masks.stream}
        for number, stream in streams.items():
            for level, grouping in enumerate(self._groupings[:-1], start=1):
                while self._form(level, grouping, {number: stream}, stream.queues[level]):
                    pass
        if self._groupings:
            while self._form(len(self._groupings), self._groupings[-1], self._streams, self._last):
                pass

    def _form(
        self, level: int, grouping: Grouping, streams: dict[int, LogicalStream], queue: ElementQueue
    ) -> bool:
        """Makes the task of one more batch if its rows are there; ends the queue when there can be no more."""
        if queue.ended or (queue is self._last and self._exhausted):
            return False
        counts: dict[int, int] = {}
        for number, stream in streams.items():
            source = stream.queues[level - 1]
            source.count()
            if source.ready < grouping.rows:
                failure = source.failure()
                if failure is not None:
                    queue.fail(failure)
                    return False
                if not source.at_end():
                    return False
            counts[number] = min(source.ready, grouping.rows)
        short = any(count < grouping.rows for count in counts.values())
        if short and not self._ends(grouping, counts, queue):
            return False
        taken = {number: stream.queues[level - 1].take(counts[number]) for number, stream in streams.items()}
        if self._wrapped and queue is self._last:
            queue.ended = True
            taken = {
                n: replace(part, end=end_like(part.begins, self._stop), end_pass=0)
                for n, part in taken.items()
            }
        first = streams[next(iter(taken))]
        task, run = batch_of(
            taken,
            queue,
            task_id=self._context.new_id(),
            level=level,
            start=first.enter(level) if len(taken) == 1 else (),
            padded_to=grouping.rows if short and grouping.short == "pad" else None,
            stop=self._stop,
        )
        self._work[task.id] = (queue, run, first)
        self._pending.append(task)
        return True

    def _ends(self, grouping: Grouping, counts: dict[int, int], queue: ElementQueue) -> bool:
        """Streams ended before a batch was whole: whether it is made of what there is."""
        some = any(counts.values())
        match grouping.short:
            case "keep" | "drop":
                queue.ended = True
                return grouping.short == "keep" and all(counts.values())
            case "pad":
                queue.ended = not some and self._masks is None
                self._exhausted = not some and self._masks is not None
                return some
            case "wrap":
                queue.ended = not some
                if some:
                    self._begin_again()
            case "fail":
                number = min(number for number, count in counts.items() if count < grouping.rows)
                error = ValueError(
                    f"logical stream {number} has too few rows left for this step, and num_steps asks for it: use "
                    "remainder='wrap', or fewer steps, or remainder='pad' without num_steps"
                )
                queue.fail(Failure(error))
        return False

    def _begin_again(self) -> None:
        assert self._again is not None
        self._wrapped = True
        for number, stream in self._streams.items():
            for span in stream.begin_again(self._again(number)):
                self._use(span)

    def _mask(self) -> None:
        """Makes masked batches ahead, once the streams are exhausted and it is known what a row looks like."""
        if not self._exhausted or self._last.ended:
            return
        assert self._masks is not None
        shape = self._masks.find(self._last)
        if shape is None:
            return
        (span,) = shape.spans
        while self._last.size() < self._prefetch:
            self._uses[span.task] += 1
            task, run = masked_batch(
                shape,
                self._last,
                task_id=self._context.new_id(),
                level=len(self._groupings),
                streams=self._streams,
                rows=self._groupings[-1].rows,
                stop=self._stop,
            )
            self._work[task.id] = (self._last, run, next(iter(self._streams.values())))
            self._pending.append(task)

    # --- what is handed out -------------------------------------------------------------------------------------

    def due(self) -> bool:
        return self._last.runs[0].done if self._last.runs else self._last.ended

    def pop(self) -> Outcome | None:
        queue = self._last
        if not queue.runs:
            return End(losses_left(self._streams)) if queue.ended else None
        run = queue.runs[0]
        if not run.done:
            return None
        if run.taken == run.size:
            return run.failed
        place, run.taken = run.taken, run.size
        queue.drop_used()
        ends = None
        if run.group_ends is not None:
            ends = [run.group_ends] * (run.size - place)
        elif run.ends is not None:
            (stream, *_) = self._streams
            ends = [{stream: tuple(end)} for end in run.ends[place : run.size].tolist()]
        others_wait = self._masks is not None  # other processes ask what will follow
        facts = Facts(
            ends=ends,
            begins=run.rows,
            losses=losses_of(run, place, ends, self._streams, left_out=self._tolerance is not None),
            masked=run.masked,
            more=sum(not run.masked and run.failed is None for run in queue.runs) if others_wait else 0,
            exhausted=self._exhausted,
        )
        return Ready(task=run.task, place=place, count=run.size - place, facts=facts)

    def delivered(self, ready: Ready) -> None:
        self._use(Span(ready.task, 0, ready.place, ready.place + ready.count))

    def owned(self) -> tuple[list[Slot], list[int]]:
        return [], list(self._uses)


def _lack(stream_and_outlook: tuple[LogicalStream, Outlook]) -> tuple[float, float]:
    outlook = stream_and_outlook[1]
    return -outlook.lacking, outlook.coming / outlook.each
