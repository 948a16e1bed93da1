"""Runs of elements in order, regrouped as they arrive: pipelines that change the number of rows, and elements
without a Batch.

Every logical stream (logical_stream.py) has a row of *queues* (element_queue.py): queue 0 of what was read, queue j of
what came of Batch j, but for the last Batch, whose one queue all streams share. Whenever a queue has enough elements in
order, they are taken as the rows of one batch of the next queue (grouping.py). The last Batch takes an equal share from
every stream; its queue is the one that is handed out, and with its elements go the losses that they pass
(passed_losses.py).

A queue has *ended* after its last run: at the end of the stream, or at a failure. A failure reaches the user when all
before it did: the first batch that needs a row after it isn't made, and the next queue fails in its place. Where
several streams lack rows for a batch, the first of them decides what becomes of it, so that the answer doesn't depend
on which was quicker; the others are read on until it has.

The grouping of the last Batch decides what becomes of a last batch that lacks rows. Padded batches end when the streams
of this process are exhausted, or, where other processes may have more rows, never: then masked batches follow
(`Masks`), and the iterator that hands them out decides when to stop.

read_selection.py says what is read next.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from loaderkit._order.facts import Cursor, Facts, Failure

from .element_queue import ElementQueue, QueuedRun
from .grouping import Grouping, batch_of, end_like, masked_batch, passes_after
from .logical_stream import LogicalStream, Masks, RecordInput, stream_of
from .passed_losses import losses_left, losses_of
from .read_selection import ReadSelection, note_windows
from .scheduler import Replacement, Reserve, SchedulerContext, no_replacement
from .task import (
    BatchMade,
    End,
    MakeBatch,
    Outcome,
    ReadStream,
    Ready,
    Slot,
    Span,
    StreamRead,
    Task,
    TaskResult,
)

_SAMPLE = -1  # in the place of a stream's number: the stream that masked batches are made to look like


class StreamScheduler:
    """The scheduler of a pipeline that changes the number of rows, or hands out single elements.

    Args:
        feeds: this process's logical streams, by number, ascending.
        context: what the schedulers of one executor share.
        groupings: one for each Batch; rows of the last are those that one stream gives.
        start: the cursor where each stream begins, by its number.
        prefetch: elements to make ahead of the one handed out last.
        empty_limit: records or batches in a row without an element that are an error, None for any number.
        stop: after the last index, None without an end.
        again: returns the feed of a stream from its first index on, for "wrap".
        sample: returns a feed of the whole data; masked batches follow the last padded one, and look like these.
        tolerance: bad records in a row that may be left out before that is an error, None where none is left out.
        replacement: returns what is read instead of a bad record.
        read_window: records of the windows that tasks that read end at; the feeds give whole ones. None where there are
            none.
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
        read_window: int | None = None,
    ) -> None:
        self.replacement = replacement
        self._read_window = read_window
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
        self._output_queue = ElementQueue() if groupings else next(iter(self._streams.values())).queues[0]
        # of reading, and of each Batch
        self._reserves = [Reserve(context) for _ in range(len(groupings) + 1)]
        self._selection = ReadSelection(
            self._streams,
            self._output_queue,
            groupings=groupings,
            prefetch=self._prefetch,
            masks=self._masks,
            reserve=self._reserves[0],
            pace=context.pace,
            window=read_window or 1,
        )
        self._pending: deque[MakeBatch] = deque()  # batches ready to be made
        # Task id -> queue, run, one of its streams.
        self._work: dict[int, tuple[ElementQueue, QueuedRun, LogicalStream]] = {}
        self._uses: dict[int, int] = {}  # task id -> elements of its output that are still to be used
        # The task that `done` handles: its output isn't in `Outputs` yet, so `_use` must not drop it there.
        self._arriving: int | None = None

    # --- tasks to assign ----------------------------------------------------------------------------------------

    def next_task(self) -> Task | None:
        self._add_masked_batches()
        if self._pending:
            task = self._pending[0]
            task = task._replace(reserve=self._reserves[task.level].slot(len(task.indices)))
            self._pending.popleft()
            return task
        selected = self._selection.next()
        return None if selected is None else self._read_task(*selected)

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
        task = ReadStream(
            id=self._context.new_id(), indices=indices, keys=keys, start=stream.enter(0), reserve=reserve
        )
        stream.assign(indices)
        run = queue.add(task.id, expected=0)
        run.pass_number = stream.pass_number
        self._work[task.id] = (queue, run, stream)
        return task

    # --- results ------------------------------------------------------------------------------------------------

    def done(self, task: Task, result: TaskResult) -> int:
        queue, run, stream = self._work.pop(task.id)
        run.done = True
        match task, result:
            case ReadStream(), StreamRead():
                self._stream_read(task, result, queue, run, stream)
            case MakeBatch(), BatchMade():
                self._batch_made(task, result, queue, run, stream)
            case _:
                raise AssertionError(f"a {type(result).__name__} for the {type(task).__name__} {task.id}")
        queue.drop_used()
        if run.size:
            self._uses[task.id] = run.size
            # From the first element that can be handed out on, more is read ahead.
            self._selection.begun = self._selection.begun or (queue is self._output_queue and self.due())
        self._arriving = task.id
        self._regroup()
        self._arriving = None
        return 1 if task.id in self._uses else 0

    def _stream_read(
        self, task: ReadStream, result: StreamRead, queue: ElementQueue, run: QueuedRun, stream: LogicalStream
    ) -> None:
        records = len(task.indices)
        if result.nbytes:
            self._reserves[0].saw(records, result.nbytes)
        run.size, run.begins, run.ends = result.size, result.begins, result.ends
        if result.ends is not None:
            run.pass_numbers = np.full(len(result.ends), run.pass_number, np.int64)
        if self._read_window is not None:
            number = next((n for n, one in self._streams.items() if one is stream), None)
            note_windows(task, result, run, size=self._read_window, stream=number)
        if result.failure is not None:
            run.fail(result.failure)
            queue.ended = True
        self._context.pace.saw(rows=records, seconds=result.seconds, waited=result.waited)
        stream.yields[0].saw(entered=records, came=result.size)
        stream.losses += [(run.pass_number, loss) for loss in result.losses]
        if self._tolerance is not None:
            run.records, run.losses = records, result.losses
            queue.give_up_lost(self._tolerance)
        elif result.losses and run.begins is None:
            run.indices = task.indices
        if self._empty_limit is not None:
            if result.begins is not None:
                run.records = records
                run.record_numbers = np.searchsorted(task.indices, result.begins[:, 0])
            queue.give_up(self._empty_limit, "records")

    def _batch_made(
        self, task: MakeBatch, result: BatchMade, queue: ElementQueue, run: QueuedRun, stream: LogicalStream
    ) -> None:
        if result.nbytes:
            self._reserves[task.level].saw(len(task.indices), result.nbytes)
        run.size, run.begins, run.ends = result.size, result.begins, result.ends
        if result.ends is not None:
            run.pass_numbers = passes_after(task, run, result.ends)
        if result.failure is not None:
            run.fail(result.failure)
            queue.ended = True
        last = task.level == len(self._groupings)
        (self._selection.last_yield if last else stream.yields[task.level]).saw(entered=1, came=result.size)
        for span in task.inputs:
            self._use(span)
        if self._empty_limit is not None:
            if result.begins is not None:
                run.records = 1
                run.record_numbers = np.zeros(len(result.begins), np.int64)
            queue.give_up(self._empty_limit, "batches")

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
            streams = {**streams, _SAMPLE: self._masks.stream}
        for number, stream in streams.items():
            for level, grouping in enumerate(self._groupings[:-1], start=1):
                while self._form(level, grouping, {number: stream}, stream.queues[level]):
                    pass
        if self._groupings:
            while self._form(len(self._groupings), self._groupings[-1], self._streams, self._output_queue):
                pass

    def _form(
        self, level: int, grouping: Grouping, streams: dict[int, LogicalStream], queue: ElementQueue
    ) -> bool:
        """Makes the task of one more batch if its rows are ready; ends the queue when there can be no more."""
        if queue.ended or (queue is self._output_queue and self._exhausted):
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
        if short and not self._settle_short(grouping, counts, queue):
            return False
        taken = {number: stream.queues[level - 1].take(counts[number]) for number, stream in streams.items()}
        if self._wrapped and queue is self._output_queue:
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

    def _settle_short(self, grouping: Grouping, counts: dict[int, int], queue: ElementQueue) -> bool:
        """Streams ended before a batch was whole: whether it is made of the rows that are ready."""
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

    def _add_masked_batches(self) -> None:
        """Makes masked batches ahead, once the streams are exhausted and it is known what a row looks like."""
        if not self._exhausted or self._output_queue.ended:
            return
        assert self._masks is not None
        shape = self._masks.find(self._output_queue)
        if shape is None:
            return
        (span,) = shape.spans
        while self._output_queue.size() < self._prefetch:
            self._uses[span.task] += 1
            task, run = masked_batch(
                shape,
                self._output_queue,
                task_id=self._context.new_id(),
                level=len(self._groupings),
                streams=self._streams,
                rows=self._groupings[-1].rows,
                stop=self._stop,
            )
            self._work[task.id] = (self._output_queue, run, next(iter(self._streams.values())))
            self._pending.append(task)

    # --- what is handed out -------------------------------------------------------------------------------------

    def due(self) -> bool:
        return self._output_queue.runs[0].done if self._output_queue.runs else self._output_queue.ended

    def pop(self) -> Outcome | None:
        queue = self._output_queue
        if not queue.runs:
            return End(losses_left(self._streams)) if queue.ended else None
        run = queue.runs[0]
        if not run.done:
            return None
        if run.taken == run.size:
            return run.failed
        first, run.taken = run.taken, run.size
        queue.drop_used()
        ends = None
        if run.group_ends is not None:
            ends = [run.group_ends] * (run.size - first)
        elif run.ends is not None:
            (stream, *_) = self._streams
            ends = [{stream: tuple(end)} for end in run.ends[first : run.size].tolist()]
        others_wait = self._masks is not None  # other processes need to know how much will follow
        facts = Facts(
            ends=ends,
            begins=run.rows,
            losses=losses_of(run, first, ends, self._streams, left_out=self._tolerance is not None),
            masked=run.masked,
            more=sum(not run.masked and run.failed is None for run in queue.runs) if others_wait else 0,
            exhausted=self._exhausted,
        )
        return Ready(task=run.task, first=first, size=run.size - first, facts=facts)

    def delivered(self, ready: Ready) -> None:
        self._use(Span(ready.task, 0, ready.first, ready.first + ready.size))

    def owned(self) -> tuple[list[Slot], list[int]]:
        return [], list(self._uses)
