"""What a worker does with a task, the same in the trainer's process, a thread and a child process.

Workers differ only in the *context* of their tasks: how a task reaches slots, earlier outputs, and the trainer.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from loaderkit._base.system.one_thread import OneThread
from loaderkit._engine.stats.counters import TELLING, WORKING
from loaderkit._engine.task import (
    BatchMade,
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
from loaderkit._order.facts import Cursor, Failure
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._source.optional import ColumnsDifferError, column_reader
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun, Singles
from loaderkit.transforms.stack import Block, as_block, write

from .bad_record_handler import NO_RECORD, BadRecordHandler, OnRecordStart
from .column_rows import ColumnRows, RowsMade
from .made_rows import done_targets, keys_in_order, made_of, spec_of
from .meter import Meter
from .output_weight import weight_of
from .program import Program
from .reading import RecordReader

Output = list[Any]  # one entry a part: a list of rows or elements, or a Block of rows


class TaskContext(Protocol):
    """How a task reaches slots, earlier outputs, and the trainer."""

    def token(self, slot: Slot) -> Any:
        """An object over the slot's bytes."""
        ...

    def output(self, task: int, *, private: bool) -> Output:
        """What an earlier task made; `private`: its arrays may be written to, no other task sees that."""
        ...

    def candidates(self, index: int, tried: int) -> tuple[np.ndarray, np.ndarray]:
        """What to read in the row of a lost index, after so many were tried: indices and keys, (n,) int64 each."""
        ...


class TaskRunner:
    """Runs tasks of one program.

    Args:
        program: what to run.
        context: how to reach slots, outputs and the trainer.
        meter: counts what is done.
        next_phase: of the meter, after each task.
    """

    def __init__(
        self, program: Program, context: TaskContext, meter: Meter, *, next_phase: int = TELLING
    ) -> None:
        self._meter, self._next_phase = meter, next_phase
        self._batch_ns = 0  # nanoseconds in which batches were made
        self._one_thread = OneThread()
        self._pipeline = Pipeline(program.operations, program.seed, reads_windows=program.reads_windows)
        levels = self._pipeline.levels
        self._last = len(levels) - 1  # the last Batch's level
        # What the levels add to.
        meter.operations = [counted for level in levels for _, counted in level.counted()]
        last = levels[-1].batch
        self._batched = last is not None
        self._context = context
        self._row_changing = program.row_changing
        self._verify = program.verify
        self._views = self._pipeline.packs_rows
        # Where no operation needs the rows, a columnar source fills a batch without a Python object for each of them.
        self._padder: Any = last if last is not None and last.rows_padded else None
        columnar = self._pipeline.passes_rows and self._has_default_batch(1) and not (last and last.pads)
        take = column_reader(program.source) if columnar else None
        ahead, copies = None if take else program.reader_name, not self._pipeline.passes_rows
        self.reader = RecordReader(program.source, program.read_options, copy=copies, ahead=ahead)
        self._column_rows: ColumnRows | None = None
        if take is not None:
            take, batch_up = partial(self.reader.timed, take), self._pipeline.batch_up
            self._column_rows = ColumnRows(take, context.token, batch_up, verify=program.verify)
        self._bad_record_handler: BadRecordHandler | None = None
        if program.on_record_error != "raise":
            self._bad_record_handler = BadRecordHandler(
                self._pipeline,
                self.reader,
                program.on_record_error,
                context.candidates,
                seed=program.seed,
                row_changing=program.row_changing,
            )

    def do(self, task: Task, on_record_start: OnRecordStart | None = None) -> tuple[TaskResult, Output]:
        """Runs a task; the result's `nbytes` is an estimate, for executors that store the output as objects.

        Args:
            task: what to do.
            on_record_start: called with each record right before it is read, one after the other; None reads all at
                once.
        """
        meter, reader = self._meter, self.reader
        try:
            begun, cpu = meter.enter(WORKING), time.thread_time_ns()
            other = reader.taken + meter.elsewhere
            work = self._works[type(task)]
            # A batch_fn may have written into its rows: there is no second time.
            again = not isinstance(task, MakeBatch) or self._has_default_batch(task.level)
            try:  # as OneThread.run, without its call
                self._one_thread.begin()
                result, output = work(self, task, begun, on_record_start)
                if again and self._one_thread.was_late():
                    self._one_thread.begin()
                    result, output = work(self, task, begun, on_record_start)
            finally:
                self._one_thread.end()
            if not isinstance(task, ReadStream):  # the rest of it is of its batches
                self._batch_ns += round(1e9 * result.seconds) - (reader.taken + meter.elsewhere - other)
            if reader.counts_aside:
                meter.aside = reader.counted_aside
            made, read = made_of(task, result), (reader.taken, reader.calls)
            cpu = time.thread_time_ns() - cpu
            meter.task_done(self._next_phase, cpu=cpu, made=made, read=read, batch=self._batch_ns)
        except BaseException:
            meter.enter(self._next_phase)
            raise
        finally:
            if reader.reads_ahead:
                reader.forget(task.id)  # the records after a failure
        return result, output

    # --- elements and rows in order, however many they are ------------------------------------------------------

    def _read_stream(
        self, task: ReadStream, begun: int, on_record_start: OnRecordStart | None
    ) -> tuple[StreamRead, Output]:
        waited, handler = self.reader.waited, self._bad_record_handler
        if handler is None:
            run, failure = self._read_elements(task, on_record_start)
        else:
            handler.take_losses()  # of a task that was interrupted
            run, failure = handler.make(task, 0, len(task.indices), on_record_start)
        output = [self._elements_of(run, self._batched and self._has_default_batch(1))]
        result = StreamRead(
            len(run.values),
            self._cursors(run.begins),
            self._cursors(run.ends),
            failure,
            seconds=(time.perf_counter_ns() - begun) / 1e9,
            waited=self.reader.waited - waited,
            nbytes=weight_of(output),
            losses=() if handler is None else handler.take_losses(),
        )
        return result, output

    def _read_elements(
        self, task: ReadStream, on_record_start: OnRecordStart | None
    ) -> tuple[ElementRun, Failure | None]:
        run = ElementRun([], [], [] if self._row_changing else None)
        failure: Failure | None = None
        size = max(len(task.indices), 1) if on_record_start is None else 1
        for lo in range(0, len(task.indices), size):
            keys, indices = task.keys[lo : lo + size], task.indices[lo : lo + size]
            if on_record_start is not None:
                on_record_start(int(indices[0]))
            records, unread = self.reader.read(task.id, keys, indices)
            begins = [(index,) for index in indices[: len(records)].tolist()]
            ends = [(begin[0] + 1,) for begin in begins] if self._row_changing else None
            made, failure = self._pipeline.levels[0].work(ElementRun(records, begins, ends), task.start)
            run.add(made)
            failure = failure or unread
            if failure is not None:
                break
        return self._pipeline.levels[0].finished(run, failure, task.start)

    def _make_batch(
        self, task: MakeBatch, begun: int, on_record_start: OnRecordStart | None
    ) -> tuple[BatchMade, Output]:
        failure: Failure | None
        layout: BatchLayout | None = None
        try:
            # A batch_fn may write into its rows: those that a next attempt starts from must stay as they were made.
            private = not self._has_default_batch(task.level)
            rows = [self._rows_in_span(span, private=private) for span in task.inputs]
        except Exception as error:  # noqa: BLE001 - the user's classes are rebuilt here
            failure = Failure(error, "an element, unpickled in a worker", tuple(task.indices.tolist()))
            run = ElementRun([], [], None if task.end is None else [])
        else:
            run, failure = self._pipeline.batch_one(
                task.level, rows, Singles(task.indices), task.begin, task.end, task.start, task.fill
            )
            if task.level == self._last and run.values and task.end is None:
                layout = self._layout_of_rows(rows)
        as_rows = task.level < self._last and self._has_default_batch(task.level + 1)
        output = [self._elements_of(run, as_rows)]
        result = BatchMade(
            len(run.values),
            self._cursors(run.begins),
            self._cursors(run.ends),
            failure,
            layout,
            seconds=(time.perf_counter_ns() - begun) / 1e9,
            nbytes=weight_of(output),
        )
        return result, output

    def _has_default_batch(self, level: int) -> bool:
        batch = self._pipeline.levels[level].batch
        return batch is not None and batch.batch_fn is None

    def _elements_of(self, run: ElementRun, as_rows: bool) -> list[Any] | Block:
        """The elements of a run as an output has them: as rows of a next batch, these are stacked if they can be."""
        rows: list[Any] | Block = as_block(run.values, views=self._views) if as_rows else run.values
        # Any of them may be the first of a batch, wherever the task was cut.
        return run.values if isinstance(rows, Block) and not keys_in_order(run.values[1:], rows) else rows

    def _cursors(self, cursors: Any) -> np.ndarray | None:
        if not self._row_changing or cursors is None:
            return None
        width = self._pipeline.depth + 1
        return np.array([(*c, *(0,) * (width - len(c))) for c in cursors], np.int64).reshape(
            len(cursors), width
        )

    def _rows_in_span(self, span: Span, *, private: bool) -> Block | list[Any]:
        if span.slot is not None:
            assert isinstance(span.layout, BatchLayout)
            token = self._context.token(span.slot)
            span.layout.check(token, span.batch, span.lo, span.hi)
            return span.layout.block(token, span.batch, span.lo, span.hi)
        part = self._context.output(span.task, private=private)[span.part]
        return part[span.lo : span.hi] if isinstance(part, list) else part.slice(span.lo, span.hi)

    def _layout_of_rows(self, rows: list[Block | list[Any]]) -> BatchLayout | None:
        """What a next batch's rows will probably look like: as these, if these are all alike."""
        specs = {block.spec() if isinstance(block, Block) else spec_of(block) for block in rows}
        spec = specs.pop() if len(specs) == 1 else None
        return None if spec is None else BatchLayout(spec, self._verify)

    # --- rows of known places -----------------------------------------------------------------------------------

    def _read_rows(
        self, task: ReadRows, begun: int, on_record_start: OnRecordStart | None
    ) -> tuple[RowsRead, Output]:
        waited, handler = self.reader.waited, self._bad_record_handler
        if handler is not None:
            handler.take_losses()  # of a task that was interrupted
        at_once = self._columns(task, on_record_start)
        parts, output, failure, layout = at_once or ([], [], None, None)
        records: list[Any] | None = None
        unread: Failure | None = None
        if at_once is None and handler is None and on_record_start is None:
            records, unread = self.reader.read(task.id, task.keys, task.indices)
        group, first = self._pipeline.group, 0
        for target in () if at_once is not None else task.targets:
            last = min(first + target.rows * group, len(task.indices))  # the stream's last row may be short
            if records is not None:
                here = records[first:last]
                missing = unread if len(here) < last - first else None
                indices = task.indices[first : first + len(here)]
                run, failure = self._pipeline.make_rows(here, indices, unread=missing)
                records[first:last] = [None] * len(here)  # the rows are made of them: not in memory twice
                del here
            elif handler is not None:
                run, failure = self._rows_with_policy(task, on_record_start, handler, first, last)
            else:
                assert on_record_start is not None
                run, failure = self._rows_one_by_one(task, on_record_start, first, last)
            if self._padder is not None:
                label = self._pipeline.levels[-1].label
                run, failure = self._padder.pad_run(run, failure, target.shape, label)
            if failure is not None and not target.whole:
                break
            part, made, stopped, seen = self._place(target, run, failure)
            if target.shape == task.targets[0].shape:  # a result has a layout of one shape
                layout = layout or seen
            if part is not None:
                parts.append(part)
                output.append(made)
            failure = stopped or failure
            if failure is not None:
                break
            first = last
        result = RowsRead(
            tuple(parts),
            failure,
            0 if failure is None else done_targets(task, parts),
            layout,
            seconds=(time.perf_counter_ns() - begun) / 1e9,
            waited=self.reader.waited - waited,
            nbytes=weight_of(output),
            losses=() if handler is None else handler.take_losses(),
        )
        return result, output

    def _columns(self, task: ReadRows, on_record_start: OnRecordStart | None) -> RowsMade | None:
        """The rows read as columns; None where they are read one by one."""
        if self._column_rows is None:
            return None
        each = None if on_record_start is None else partial(self._try_each, task, on_record_start)
        made = self._column_rows.read(task, each)
        failed = made[2]
        # A failure is of all rows at once: where single records may be bad or read again, they are read so.
        by_record = self._bad_record_handler is not None or self.reader.retries
        return None if failed and (by_record or isinstance(failed.error, ColumnsDifferError)) else made

    def _rows_with_policy(
        self,
        task: ReadRows,
        on_record_start: OnRecordStart | None,
        handler: BadRecordHandler,
        lo: int,
        hi: int,
    ) -> tuple[ElementRun, Failure | None]:
        made = handler.make(task, lo, hi, on_record_start)
        if on_record_start is not None:
            on_record_start(NO_RECORD)
        return self._pipeline.rows_of(*made)

    def _rows_one_by_one(
        self, task: ReadRows, on_record_start: OnRecordStart, lo: int, hi: int
    ) -> tuple[ElementRun, Failure | None]:
        group = self._pipeline.group
        run = ElementRun([], [], None)
        for first in range(lo, hi, group):
            last = min(first + group, hi)
            keys, indices = task.keys[first:last], task.indices[first:last]
            if group > 1:
                self._try_each(task, on_record_start, first, last)
            on_record_start(int(indices[0]))
            records, unread = self.reader.read(task.id, keys, indices)
            row, failure = self._pipeline.make_rows(records, indices[: len(records)], unread=unread)
            run.add(row)
            if failure is not None:
                return run, failure
        on_record_start(NO_RECORD)
        return run, None

    def _try_each(self, task: ReadRows, on_record_start: OnRecordStart, lo: int, hi: int) -> None:
        """Reads and transforms records of one row one by one: the one that ends this worker is then known."""
        for number in range(lo, hi):
            keys, indices = task.keys[number : number + 1], task.indices[number : number + 1]
            on_record_start(int(indices[0]))
            records, _ = self.reader.read(task.id, keys, indices)
            self._pipeline.levels[0].run(ElementRun(records, [(int(indices[0]),)][: len(records)], None), ())
        on_record_start(NO_RECORD)

    def _place(
        self, target: Target, run: ElementRun, failure: Failure | None
    ) -> tuple[RowsPart | None, list[Any] | Block, Failure | None, BatchLayout | None]:
        if target.slot is not None and failure is None:
            assert isinstance(target.layout, BatchLayout)
            token, last = self._context.token(target.slot), target.first + target.rows
            leaves = [leaf[target.first : last] for leaf in target.layout.leaves(token, target.batch)]
            if write(run.values, target.layout.spec, leaves):
                target.layout.seal(token, target.batch, target.first, last)
                return RowsPart(0, in_place=True), [], None, None
        rows = as_block(run.values) if self._has_default_batch(self._last) else run.values
        if not target.whole:
            return RowsPart(target.rows), rows, None, None
        if target.fill:
            if failure is not None:
                return None, [], None, None
            done, stopped = self._pipeline.batch_one(
                self._last, [rows], run.begins, run.begins[0], None, (), target.fill
            )
            part = RowsPart(len(done.values)) if done.values else None
            return part, done.values, stopped, self._layout_of_rows([rows])
        if isinstance(rows, Block) and not keys_in_order(run.values[target.batch :: target.batch], rows):
            rows = run.values
        return self._batches(target, rows, run.begins, partial=failure is None)

    def _batches(
        self, target: Target, rows: list[Any] | Block, begins: Sequence[Cursor], *, partial: bool
    ) -> tuple[RowsPart | None, list[Any], Failure | None, BatchLayout | None]:
        """The finished elements of a target that has all their rows; a last, smaller one only if `partial`."""
        made, failure = self._pipeline.batch_up(rows, begins, target.batch, partial=partial)
        part = RowsPart(len(made.values)) if made.values else None
        return part, made.values, failure, self._layout_of_rows([rows])

    # What does a task of each type.
    _works: ClassVar[dict[type, Callable[..., tuple[TaskResult, Output]]]] = {
        ReadRows: _read_rows,
        ReadStream: _read_stream,
        MakeBatch: _make_batch,
    }
