"""What a worker does with a task, the same in the trainer's process, a thread and a child process.

Workers differ only in the *context* of their tasks: how a task reaches slots, earlier outputs, and the trainer.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from loaderkit._base.system.one_thread import OneThread
from loaderkit._base.system.packed_tokens import packed
from loaderkit._engine.stats.counters import TELLING, WORKING
from loaderkit._engine.task import (
    BatchMade,
    MakeBatch,
    ReadRows,
    ReadStream,
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
from loaderkit.transforms.pad_batch import PadBatch
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun, Singles
from loaderkit.transforms.stack import Block, as_block, write
from loaderkit.transforms.stages import MapStage

from .bad_record_handler import NO_RECORD, BadRecordHandler, OnRecordStart
from .column_rows import ColumnRows
from .made_rows import MadeRows, keys_in_order, leaves_of, made_of, spec_of, weight_of
from .meter import Meter
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
        self._tokens = self._places = 0  # that this thread has packed
        self._one_thread = OneThread()
        self._pipeline = Pipeline(program.operations, program.seed, reads_windows=program.reads_windows)
        self._runners = self._pipeline.runners
        self._last = len(self._runners) - 1  # the last Batch's level
        # What the runners add to.
        meter.operations = [counted for runner in self._runners for counted in runner.counted]
        last = self._runners[-1].level.batch
        self._context = context
        self._row_changing = program.row_changing
        self._verify = program.verify
        self._views = self._pipeline.packs_rows
        self._pad: Any = last.pad if isinstance(last, PadBatch) and last.rows_padded else None
        # Where no operation needs the rows, a columnar source fills a batch without a Python object for each of them.
        columnar = self._pipeline.passes_rows and self._has_default_batch(1) and not (last and last.pads)
        take = column_reader(program.source) if columnar else None
        ahead, copies = None if take else program.reader_name, not self._pipeline.passes_rows
        self.reader = RecordReader(
            program.source, program.read_options, copy=copies, ahead=ahead, ends=program.row_changing
        )
        self._column_rows: ColumnRows | None = None
        if take is not None:
            take = partial(self.reader.timed, take)
            self._column_rows = ColumnRows(take, context.token, self._runners[-1], verify=program.verify)
        self._raises = program.on_record_error == "raise"
        self._records = BadRecordHandler(self._pipeline, self.reader, program, context.candidates)

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
            tokens, places = packed.tokens, packed.places
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
            if reader.counts_aside or packed.tokens > tokens:
                self._count_aside(packed.tokens - tokens, packed.places - places)
            made, read = made_of(task, result), (reader.taken, reader.calls)
            cpu = time.thread_time_ns() - cpu
            ended = meter.task_done(self._next_phase, cpu=cpu, made=made, read=read, batch=self._batch_ns)
            if meter.traced is not None:
                meter.keep_trace(task.id, begun, ended)
        except BaseException:
            meter.enter(self._next_phase)
            raise
        finally:
            if reader.reads_ahead:
                reader.forget(task.id)  # the records after a failure
        return result, output

    def _count_aside(self, tokens: int, places: int) -> None:
        self._tokens += tokens
        self._places += places
        taken, calls, tokens, places, retried = self.reader.counted_aside
        self._meter.aside = (taken, calls, tokens + self._tokens, places + self._places, retried)

    # --- elements and rows in order, however many they are ------------------------------------------------------

    def _measured(self, begun: int, waited: float, output: Output) -> dict[str, Any]:
        """What the result of a task that reads says of its work; since when, and how long it had waited until then."""
        return {
            "seconds": (time.perf_counter_ns() - begun) / 1e9,
            "waited": self.reader.waited - waited,
            "nbytes": weight_of(output),
            "losses": tuple(self._records.losses),
        }

    def _read_stream(
        self, task: ReadStream, begun: int, on_record_start: OnRecordStart | None
    ) -> tuple[StreamRead, Output]:
        waited = self.reader.waited
        self._records.losses.clear()
        run = self._records.make(task, 0, len(task.indices), on_record_start)
        output = [self._elements_of(run, 0)]
        return StreamRead(*self._placed(run), run.failure, **self._measured(begun, waited, output)), output

    def _make_batch(
        self, task: MakeBatch, begun: int, on_record_start: OnRecordStart | None
    ) -> tuple[BatchMade, Output]:
        layout: BatchLayout | None = None
        try:
            # A batch_fn may write into its rows: those that a next attempt starts from must stay as they were made.
            private = not self._has_default_batch(task.level)
            rows = [self._rows_in_span(span, private=private) for span in task.inputs]
        except Exception as error:  # noqa: BLE001 - the user's classes are rebuilt here
            failure = Failure(error, "an element, unpickled in a worker", tuple(task.indices.tolist()))
            run = ElementRun([], [], [], failure)
        else:
            run = self._runners[task.level].make_batch(
                rows, Singles(task.indices), task.begin, task.end, task.start, task.fill
            )
            if task.level == self._last and run.values and task.end is None:
                specs = {spec_of(part) for part in rows}  # a next batch's rows probably look like these
                spec = specs.pop() if len(specs) == 1 else None
                layout = None if spec is None else BatchLayout(spec, self._verify)
        output = [self._elements_of(run, task.level)]
        seconds = (time.perf_counter_ns() - begun) / 1e9
        placed, nbytes = self._placed(run), weight_of(output)
        return BatchMade(*placed, run.failure, layout, seconds=seconds, nbytes=nbytes), output

    def _has_default_batch(self, level: int) -> bool:
        batch = self._runners[level].level.batch
        return batch is not None and batch.batch_fn is None

    def _elements_of(self, run: ElementRun, level: int) -> list[Any] | Block:
        """The elements of a run as an output has them: as rows of a next batch, these are stacked if they can be."""
        elements: list[Any] | Block = run.values
        if isinstance(elements, Block) or level == self._last or not self._has_default_batch(level + 1):
            return elements
        rows = as_block(elements, views=self._views)
        # Any of them may be the first of a batch, wherever the task was cut.
        return elements if isinstance(rows, Block) and not keys_in_order(elements[1:], rows) else rows

    def _placed(self, run: ElementRun) -> tuple[int, np.ndarray | None, np.ndarray | None]:
        """The number of elements, and their cursors where the plan doesn't know them."""
        return len(run.values), self._cursors(run.begins), self._cursors(run.ends)

    def _cursors(self, cursors: Sequence[Cursor] | None) -> np.ndarray | None:
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

    # --- rows of known places -----------------------------------------------------------------------------------

    def _read_rows(
        self, task: ReadRows, begun: int, on_record_start: OnRecordStart | None
    ) -> tuple[RowsRead, Output]:
        waited = self.reader.waited
        self._records.losses.clear()
        made, targets = self._columns(task, on_record_start), task.targets
        read: ElementRun | None = None
        if made is not None:
            targets = ()
        elif on_record_start is None and self._raises:
            read = self.reader.read(task.id, task.keys, task.indices)
        made = made or MadeRows(task, verify=self._verify)
        group, first = self._pipeline.group, 0
        for target in targets:
            last = min(first + target.rows * group, len(task.indices))  # the stream's last row may be short
            if on_record_start is not None:
                run = self._one_by_one(task, on_record_start, first, last)
            elif read is None or last - first == len(task.indices):
                run, read = self._pipeline.rows_of(self._records.make(task, first, last, None, read)), None
            else:
                run = self._records.make(task, first, last, None, read.part(first, last))
                # Rows are made of them: not in memory twice.
                read.values[first:last] = [None] * (last - first)
                run = self._pipeline.rows_of(run)
            if self._pad is not None:
                pad = MapStage(self._runners[-1].level.label, partial(self._pad, bucket=target.shape))
                run = pad.apply(run, ())
            self._place(made, target, run)
            if made.failure is not None:
                break
            first = last
        measured = self._measured(begun, waited, made.output)
        parts = tuple(made.parts)
        failed = 0 if made.failure is None else made.failed_target
        return RowsRead(parts, made.failure, failed, made.layout, **measured), made.output

    def _columns(self, task: ReadRows, on_record_start: OnRecordStart | None) -> MadeRows | None:
        """The rows read as columns; None where they are read one by one."""
        if self._column_rows is None:
            return None
        each = None if on_record_start is None else partial(self._try_each, task, on_record_start)
        made = self._column_rows.read(task, each)
        # A failure is of all rows at once: where single records may be bad or read again, they are read so.
        by_record = not self._raises or self.reader.retries
        failed = made.failure is not None and (
            by_record or isinstance(made.failure.error, ColumnsDifferError)
        )
        return None if failed else made

    def _try_each(self, task: ReadRows, on_record_start: OnRecordStart, lo: int, hi: int) -> None:
        """Reads records one by one: the one that ends this worker is then known."""
        for number in range(lo, hi):
            keys, indices = task.keys[number : number + 1], task.indices[number : number + 1]
            on_record_start(int(indices[0]))
            self.reader.read(task.id, keys, indices)
        on_record_start(NO_RECORD)

    def _one_by_one(self, task: ReadRows, on_record_start: OnRecordStart, lo: int, hi: int) -> ElementRun:
        """The rows of some records, of which each is announced before it is read."""
        group = self._pipeline.group if self._raises else hi - lo
        run = ElementRun([], [])
        for first in range(lo, hi, group):
            row = self._records.make(task, first, min(first + group, hi), on_record_start)
            on_record_start(int(task.indices[first]) if self._raises else NO_RECORD)
            run.add(self._pipeline.rows_of(row))
            if run.failure is not None:
                return run
        on_record_start(NO_RECORD)
        return run

    def _place(self, made: MadeRows, target: Target, run: ElementRun) -> None:
        if run.failure is not None and (not target.whole or target.fill):
            made.failure = run.failure
            return
        if target.slot is not None and run.failure is None:
            assert isinstance(target.layout, BatchLayout)
            token = self._context.token(target.slot)
            if write(run.values, target.layout.spec, leaves_of(target, token)):
                made.placed(target, token)
                return
        rows = as_block(run.values) if self._has_default_batch(self._last) else run.values
        if not target.whole:
            made.add(target.rows, rows)
            return
        if target.fill:
            batches = self._runners[-1].make_batch([rows], run.begins, run.begins[0], None, (), target.fill)
        else:
            firsts = [] if rows is run.values else run.values[target.batch :: target.batch]
            if isinstance(rows, Block) and not keys_in_order(firsts, rows):
                rows = run.values
            batches = self._runners[-1].make_batches(rows, run.begins, target.batch, run.failure)
        made.saw(target, rows)
        made.failure = batches.failure
        if batches.values:
            made.add(len(batches.values), batches.values)

    # What does a task of each type.
    _works: ClassVar[dict[type, Callable[..., tuple[TaskResult, Output]]]] = {
        ReadRows: _read_rows,
        ReadStream: _read_stream,
        MakeBatch: _make_batch,
    }
