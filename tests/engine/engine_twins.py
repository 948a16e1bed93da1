"""Streams as a plain loop makes them, and what a worker makes of the tasks that are cut from them.

A spec says what the plan gives and what the user's functions do, all of it by index: which records raise, which rows
fit no slot, how many children a record has. `elements()` is the naive twin: generators that know neither tasks nor
workers. `work(task, reach)` is a worker.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, repeat, takewhile
from typing import Any

import numpy as np
from engine_values import batch_made, rows_failed, rows_read, stream_read

from loaderkit._engine.grouping import Grouping
from loaderkit._engine.row_scheduler import RowScheduler
from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.stream_scheduler import StreamScheduler
from loaderkit._engine.task import (
    MakeBatch,
    ReadRows,
    ReadStream,
    RowsPart,
    RowsRead,
    Slot,
    Span,
    Task,
    TaskResult,
)
from loaderkit._order.facts import Cursor, Fill, Loss
from loaderkit.errors import BadRecordsError

ROW_NBYTES = 1024


@dataclass(frozen=True)
class RowLayout:
    """The layout of batches in this model: rows of ROW_NBYTES."""

    def nbytes(self, rows: int) -> int:
        return rows * ROW_NBYTES


class BoomError(Exception):
    """What ends a naive stream: `args[0]` is what the engine has to say of it.

    `cursors`: behind a batch that failed, where each stream goes on; None where the failure is no batch's.
    """

    def __init__(self, said: object, cursors: dict[int, Cursor] | None = None) -> None:
        super().__init__(said)
        self.cursors = cursors


@dataclass(frozen=True)
class Popped:
    """One element of a naive stream; `ends` as Ready has them, `losses` the indices of bad records told with it."""

    value: Any
    ends: dict[int, Cursor] | None = None
    losses: tuple[int, ...] = ()


class Reach:
    """What a worker sees of the world: rows that lie in slots, and outputs of earlier tasks."""

    def row(self, slot: Slot, place: int) -> Any:
        raise AssertionError

    def put_row(self, slot: Slot, place: int, row: Any) -> None:
        raise AssertionError

    def output(self, task: int) -> list[list[Any]]:
        raise AssertionError

    def rows(self, span: Span) -> list[Any]:
        if span.slot is not None:
            return [self.row(span.slot, place) for place in range(span.lo, span.hi)]
        return self.output(span.task)[span.part][span.lo : span.hi]


Work = tuple[TaskResult, list[list[Any]]]


def key_of(index: int) -> int:
    return 7 * index + 1


def keys_of(indices: np.ndarray) -> np.ndarray:
    return 7 * indices + 1


def losses_at(indices: list[int], lost: frozenset[int]) -> tuple[Loss, ...]:
    """What a worker says of the bad records among those of its task."""
    return tuple(
        Loss(place, index, key_of(index), index, "Map", "bad")
        for place, index in enumerate(indices)
        if index in lost
    )


# --- batches whose rows have a place before they are read -------------------------------------------------------


@dataclass(frozen=True)
class _GridRows:
    indices: np.ndarray
    keys: np.ndarray
    rows: int
    steps: int
    fill: Fill = ()
    shape: int = -1


@dataclass
class GridSpec:
    """A fixed, batched stream: steps of so many rows, each of `group` records but perhaps the very last."""

    rows: int = 4
    steps: int = 3
    last_rows: int = 4
    group: int = 1
    last_short: int = 0  # records that the very last row lacks
    zeros: int = 0  # rows of zeros behind those of the last step
    unreal: bool = False  # the last step's one row only shows what a row looks like
    finish: bool = False
    in_place: bool = True
    prefetch: int = 2
    fails: frozenset[int] = frozenset()  # indices of records
    odd: frozenset[int] = frozenset()  # indices of records whose rows fit no slot
    lost: frozenset[int] = frozenset()  # indices of bad records that others were read for
    batch_fails: frozenset[int] = frozenset()  # steps
    feed_fails: int | None = None  # step
    nbytes: int = 300  # of one element of an output
    given_up: dict[Any, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._next = 0

    def plan(self, step: int) -> np.ndarray | None:
        """The indices of a step."""
        if step >= self.steps:
            return None
        first = step * self.rows * self.group
        last = step == self.steps - 1
        n = (self.last_rows if last else self.rows) * self.group - (self.last_short if last else 0)
        return np.arange(first, first + n)

    def next(self, most: int) -> _GridRows | None:
        first = self._next
        if first == self.feed_fails:
            raise BoomError(("feed", first))
        indices = self.plan(first)
        self._next += 1
        if indices is None:
            return None
        rows = -(-len(indices) // self.group)
        while self._next < first + most and self._is_whole(self._next):
            indices = np.concatenate([indices, self.plan(self._next)])
            self._next += 1
        return _GridRows(indices, keys_of(indices), rows, self._next - first, self.fill_of(first))

    def _is_whole(self, step: int) -> bool:
        indices = self.plan(step)
        whole = step != self.feed_fails and indices is not None and not self.fill_of(step)
        return whole and len(indices) == self.rows * self.group

    def fill_of(self, step: int) -> Fill:
        if step < self.steps - 1 or not self.zeros:
            return ()
        return ((0 if self.unreal else self.last_rows, self.zeros),)

    def scheduler(self, context: SchedulerContext) -> Scheduler:
        return RowScheduler(
            self,
            context,
            level=1,
            group=self.group,
            finish=self.finish,
            in_place=self.in_place,
            prefetch=self.prefetch,
        )

    def elements(self) -> Iterator[Popped]:
        for step in count():
            if step == self.feed_fails:
                raise BoomError(("feed", step))
            indices = self.plan(step)
            if indices is None:
                return
            for index in indices.tolist():
                if ("record", index) in self.given_up:
                    raise BoomError(self.given_up["record", index])
                if index in self.fails:
                    raise BoomError(("record", index))
            if ("batch", step) in self.given_up:
                raise BoomError(self.given_up["batch", step])
            batch = self._batch(step, self._grouped(indices))
            real = not self.fill_of(step) or not self.unreal
            yield Popped(batch, losses=tuple(sorted(self.lost & {*indices.tolist()})) if real else ())

    def _grouped(self, indices: np.ndarray) -> list[Any]:
        return [tuple(indices[k : k + self.group].tolist()) for k in range(0, len(indices), self.group)]

    def _batch(self, step: int, rows: list[Any]) -> Any:
        if step in self.batch_fails:
            raise BoomError(("batch", step))
        for real, zeros in self.fill_of(step):
            rows = [*rows[:real], *["zeros"] * zeros]
        return ("finished" if self.finish else "batch", *rows)

    def in_slot(self, rows: list[Any]) -> Any:
        return ("batch", *rows)

    def step_of(self, index: int) -> int:
        return index // (self.rows * self.group)

    def give_up(self, task: Task, error: object, at: int | None = None) -> None:
        """From now on the naive stream breaks where that task has its place, or in it the batch with a record."""
        if isinstance(task, MakeBatch):
            self.given_up["batch", self.step_of(int(task.indices[0]))] = error
            return
        assert isinstance(task, ReadRows)
        first = 0
        for target in task.targets:
            last = min(first + target.rows * self.group, len(task.indices))
            if at is None or at <= task.indices[last - 1]:
                same_batch = task.indices[first:last] // (self.rows * self.group) == self.step_of(at or 0)
                begin = first + int(same_batch.argmax())  # of a stretch of batches; else the first
                self.given_up["record", int(task.indices[begin])] = error
            first = last

    def work(self, task: Task, reach: Reach) -> Work:
        if isinstance(task, MakeBatch):
            return self._finish(task, reach)
        assert isinstance(task, ReadRows)
        result, output = self._read(task, reach)
        read = list(takewhile(lambda index: index not in self.fails, task.indices.tolist()))
        return result._replace(losses=losses_at(read, self.lost)), output

    def _read(self, task: ReadRows, reach: Reach) -> tuple[RowsRead, list[list[Any]]]:
        assert np.array_equal(task.keys, keys_of(task.indices))
        parts: list[RowsPart] = []
        output: list[list[Any]] = []
        layout = None
        first = 0
        for target in task.targets:
            indices = task.indices[first : first + target.rows * self.group]
            first += len(indices)
            if target.whole and target.rows > target.batch:
                batches, error = self._batches(indices, target.batch * self.group)
                if batches:
                    parts.append(RowsPart(len(batches)))
                    output.append(batches)
                if error is not None:
                    target_failed = len(parts) - bool(batches)
                    return rows_failed(*parts, error=error, target=target_failed, layout=layout), output
                continue
            bad = [index for index in indices.tolist() if index in self.fails]
            if bad:
                error = ("record", bad[0])
                return rows_failed(*parts, error=error, target=len(parts), layout=layout), output
            rows = self._grouped(indices)
            assert len(rows) == target.rows
            odd = not self.odd.isdisjoint(indices.tolist())
            if target.slot is not None and not odd:
                for place, row in enumerate(rows, start=target.first):
                    reach.put_row(target.slot, place, row)
                parts.append(RowsPart(0, in_place=True))
                output.append([])
            elif not target.whole:
                parts.append(RowsPart(len(rows)))
                output.append(rows)
            else:
                assert target.fill == self.fill_of(self.step_of(int(indices[0])))
                try:
                    batch = self._batch(self.step_of(int(indices[0])), rows)
                except BoomError as boom:
                    return rows_failed(*parts, error=boom.args[0], target=len(parts), layout=layout), output
                parts.append(RowsPart(1))
                output.append([batch])
                layout = layout if odd else RowLayout()
        assert first == len(task.indices)
        return rows_read(*parts, layout=layout), output

    def _batches(self, indices: np.ndarray, size: int) -> tuple[list[Any], object]:
        made: list[Any] = []
        for lo in range(0, len(indices), size):
            here = indices[lo : lo + size]
            bad = [index for index in here.tolist() if index in self.fails]
            if bad:
                return made, ("record", bad[0])
            try:
                made.append(self._batch(self.step_of(int(here[0])), self._grouped(here)))
            except BoomError as boom:
                return made, boom.args[0]
        return made, None

    def _finish(self, task: MakeBatch, reach: Reach) -> Work:
        rows = [row for span in task.inputs for row in reach.rows(span)]
        step = self.step_of(int(task.indices[0]))
        indices = self.plan(step)
        assert task.begin == (rows[0][0],)
        assert task.indices.tolist() == [row[0] for row in rows]
        assert rows == self._grouped(indices)
        assert task.fill == self.fill_of(step)
        try:
            batch = self._batch(step, rows)
        except BoomError as boom:
            return batch_made(size=0, error=boom.args[0]), [[]]
        odd = not self.odd.isdisjoint(indices.tolist())
        return batch_made(layout=None if odd else RowLayout()), [[batch]]


# --- runs of elements in order, regrouped by what is there ------------------------------------------------------


@dataclass(frozen=True)
class _Element:
    value: Any
    begin: Cursor
    end: Cursor
    lasts: tuple[tuple[int, int, int], ...] = ()  # by stream: its number, pass and index of its last record


@dataclass
class ChainSpec:
    """A stream whose operations change the number of rows, or hand out single elements.

    `fans[level]` says how many children the elements of a level have, in turn by their first index: with `flats[level]`
    as a FlatMap, else (0 or 1) as a Filter. `plain`: nothing changes, and there are no cursors to keep. `lost` are the
    indices of bad records: left out, where a tolerance says how many in a row are too many; else others are read for
    them.
    """

    groupings: tuple[tuple[int, bool], ...] = ((3, True),)  # rows of one stream, whether the last is kept
    short: str | None = None  # "pad", "wrap" or "fail" for the last of them
    masks: bool = False  # masked batches follow without end
    flats: tuple[bool, ...] = (False, False)
    fans: tuple[tuple[int, ...], ...] = ((1,), (1,))
    streams: int = 1
    owned: tuple[int, ...] = (0,)
    start: dict[int, Cursor] = field(default_factory=dict)  # where a stream is entered, if not at its begin
    stop: int | None = 20  # None: endless
    piece: int | None = None  # the most records that the feed gives at once
    prefetch: int = 2
    plain: bool = False
    patience: int | None = None
    fails: frozenset[tuple[int, int]] = frozenset()  # (level, first index)
    feed_fails: int | None = None  # index
    lost: frozenset[int] = frozenset()
    tolerance: int | None = None
    pass_number: int = 0
    nbytes: int = 300
    given_up: dict[Any, object] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return sum(self.flats) + 1

    def padded(self, cursor: Cursor) -> Cursor:
        return (*cursor, *(0,) * (self.width - len(cursor)))

    def start_of(self, stream: int) -> Cursor:
        return self.start.get(stream, (0,))

    def scheduler(self, context: SchedulerContext) -> Scheduler:
        return StreamScheduler(
            {stream: ChainFeed(self, stream) for stream in self.owned},
            context,
            groupings=tuple(
                Grouping(rows, self.short if self.short and last else "keep" if keep else "drop")
                for last, (rows, keep) in zip([*[False] * (len(self.groupings) - 1), True], self.groupings)
            ),
            stop=self.stop,
            again=lambda stream: ChainFeed(replace(self, start={}), stream),
            sample=(lambda: ChainFeed(self.whole(), 0)) if self.masks else None,
            start={stream: self.start_of(stream) for stream in self.owned},
            prefetch=self.prefetch,
            empty_limit=self.patience,
            tolerance=self.tolerance,
        )

    def whole(self) -> "ChainSpec":
        """The same data as one stream, from its first index on."""
        return replace(self, start={}, streams=1, owned=(0,))

    def indices(self, stream: int) -> Iterator[int]:
        first = self.start_of(stream)[0]
        mine = count(first + (stream - first) % self.streams, self.streams)
        return takewhile(lambda index: self.stop is None or index < self.stop, mine)

    # --- the naive stream ---------------------------------------------------------------------------------------

    def elements(self) -> Generator[Popped, None, tuple[int, ...]]:
        """The elements; returns the bad records after the last one."""
        sources = self._rows()
        if self.short:
            made = self._filled(sources)
        elif self.groupings:
            rows, keep = self.groupings[-1]
            made = self._batches(len(self.groupings), sources, rows, keep)
        else:
            (stream, source), *_ = sources.items()
            made = ((element, {stream: element.end}) for element in source)
        told: set[tuple[int, int]] = set()
        for element, ends in made:
            losses = sorted(self._lost_before(element, ends) - told)
            told.update(losses)
            yield Popped(
                element.value,
                None if self.plain else self._padded(ends),
                tuple(index for _, index in losses),
            )
        left = {(0, index) for stream in self.owned for index in self.indices(stream) if index in self.lost}
        return tuple(index for _, index in sorted(left - told))

    def _lost_before(self, element: _Element, ends: dict[int, Cursor]) -> set[tuple[int, int]]:
        """Pass and index of the bad records that an element passes: those before its end, or up to its last record."""
        passed = set()
        for stream in self.owned:
            after = (0, ends[stream][0]) if stream in ends else (0, 0)
            if self.tolerance is None:
                after = max([after, *((n, index + 1) for s, n, index in element.lasts if s == stream)])
            for number in range(after[0] + 1):
                spec = self if number == 0 else replace(self, start={})
                upto = takewhile(lambda index: (number, index) < after, spec.indices(stream))  # noqa: B023
                passed |= {(number, index) for index in upto if index in self.lost}
        return passed

    def _rows(self) -> dict[int, Iterator[_Element]]:
        sources = {stream: self._records(stream) for stream in self.owned}
        for level, (rows, keep) in enumerate(self.groupings[:-1], start=1):
            sources = {s: self._batches(level, {s: source}, rows, keep) for s, source in sources.items()}
            sources = {s: (element for element, _ in made) for s, made in sources.items()}
        return sources

    def _filled(self, sources: dict[int, Iterator[_Element]]) -> Iterator[tuple[_Element, dict[int, Cursor]]]:
        """The last batches where a stream that ends is filled up, or is an error."""
        level, (rows, _), behind = len(self.groupings), self.groupings[-1], (self.stop or 0,)
        passed = 0
        while True:
            taken = {stream: [e for _, e in zip(range(rows), source)] for stream, source in sources.items()}
            lack = {stream: rows - len(elements) for stream, elements in taken.items()}
            if self.short == "fail" and any(lack.values()):
                raise BoomError(ValueError)
            first = next((stream for stream, elements in taken.items() if elements), None)
            if first is None:
                break
            ends = {s: behind if lack[s] else elements[-1].end for s, elements in taken.items()}
            while self.short == "wrap" and len(taken[first]) < rows:
                passed += 1
                again = replace(self, start={}, pass_number=passed)._rows()[first]
                taken[first] += [e for _, e in zip(range(rows - len(taken[first])), again)]
            begin = self.padded(taken[first][0].begin)
            if ("batch", level, first, begin) in self.given_up:
                raise BoomError(self.given_up["batch", level, first, begin], self._padded(ends))
            lasts = tuple(last for elements in taken.values() if elements for last in elements[-1].lasts)
            values = [
                value
                for elements in taken.values()
                for value in [*(e.value for e in elements), *["zeros"] * (rows - len(elements))]
            ]
            yield from self._finished(level, values, begin, ends, lasts)
            if self.short == "wrap" and lack[first]:
                return
        if self.masks and self._has_rows():
            for zeros in repeat(["zeros"] * rows * len(sources)):
                yield from self._finished(level, zeros, self.padded(behind), dict.fromkeys(sources, behind))

    def _has_rows(self) -> bool:
        try:
            return next(self.whole()._rows()[0], None) is not None
        except BoomError as boom:
            raise BoomError(boom.args[0]) from None  # of the whole data, not of a place in these streams

    def _finished(
        self,
        level: int,
        values: list[Any],
        begin: Cursor,
        ends: dict[int, Cursor],
        lasts: tuple[tuple[int, int, int], ...] = (),
    ) -> Iterator[tuple[_Element, dict[int, Cursor]]]:
        first = next(iter(ends))
        start = self.start_of(first) if len(ends) == 1 else ()
        made, error = self._stage(level, [self._batch(level, values, begin, ends[first], lasts)], start)
        for element in made:
            yield element, ends if len(ends) > 1 else {first: element.end}
        if error is not None:
            raise BoomError(error, self._padded(ends))

    def _padded(self, ends: dict[int, Cursor]) -> dict[int, Cursor]:
        return {stream: self.padded(end) for stream, end in ends.items()}

    def _records(self, stream: int) -> Iterator[_Element]:
        barren = lost = 0
        for index in self.indices(stream):
            if index == self.feed_fails:
                raise BoomError(("feed", index))
            if ("read", stream, index) in self.given_up:
                raise BoomError(self.given_up["read", stream, index])
            lost = lost + 1 if self._left_out(index) else 0
            if lost and lost == self.tolerance:
                raise BoomError(BadRecordsError)
            lasts = ((stream, self.pass_number, index),)
            record = _Element((stream, index), (index,), (index + 1,), lasts)
            made, error = self._stage(0, [] if lost else [record], self.start_of(stream))
            yield from made
            if error is not None:
                raise BoomError(error)
            barren = self._barren(barren, made)

    def _left_out(self, index: int) -> bool:
        return index in self.lost and self.tolerance is not None

    def _barren(self, barren: int, made: list[_Element]) -> int:
        barren = 0 if made else barren + 1
        if self.patience is not None and barren >= self.patience:
            raise BoomError(ValueError)
        return barren

    def _batches(
        self, level: int, sources: dict[int, Iterator[_Element]], rows: int, keep: bool
    ) -> Iterator[tuple[_Element, dict[int, Cursor]]]:
        barren = 0
        while True:
            taken = {stream: [e for _, e in zip(range(rows), source)] for stream, source in sources.items()}
            short = any(len(elements) < rows for elements in taken.values())
            if short and not (keep and all(taken.values())):
                return
            first, *_ = taken
            begin = self.padded(taken[first][0].begin)
            ends = {s: elements[-1].end for s, elements in taken.items()}
            if ("batch", level, first, begin) in self.given_up:
                raise BoomError(self.given_up["batch", level, first, begin], self._padded(ends))
            values = [element.value for elements in taken.values() for element in elements]
            lasts = tuple(last for elements in taken.values() for last in elements[-1].lasts)
            start = self.start_of(first) if len(sources) == 1 else ()
            batch = self._batch(level, values, begin, taken[first][-1].end, lasts)
            made, error = self._stage(level, [batch], start)
            for element in made:
                yield element, ends if len(sources) > 1 else {first: element.end}
            if error is not None:
                raise BoomError(error, self._padded(ends))
            barren = self._barren(barren, made)
            if short:
                return

    # --- what a worker does -------------------------------------------------------------------------------------

    def _batch(
        self,
        level: int,
        values: list[Any],
        begin: Cursor,
        end: Cursor,
        lasts: tuple[tuple[int, int, int], ...] = (),
    ) -> _Element:
        return _Element(("batch", level, *values), begin[: sum(self.flats[:level]) + 1], end, lasts)

    def _stage(
        self, level: int, elements: list[_Element], start: Cursor
    ) -> tuple[list[_Element], tuple[str, int, int] | None]:
        made: list[_Element] = []
        depth = sum(self.flats[:level])
        for element in elements:
            index = element.begin[0]
            if (level, index) in self.fails:
                return made, ("stage", level, index)
            n = self.fans[level][index % len(self.fans[level])]
            if not self.flats[level]:
                made += [element] * n
                continue
            entered = element.begin == start[: depth + 1] and len(start) > depth + 1
            for k in range(start[depth + 1] if entered else 0, n):
                begin = (*element.begin, k)
                end = (*element.begin, k + 1) if k < n - 1 else element.end
                made.append(_Element((*element.value, "child", k), begin, end, element.lasts))
        return made, None

    def give_up(self, task: Task, error: object, at: int | None = None) -> None:
        """From now on the naive stream breaks where that task has its place, or a record of it."""
        index = int(task.indices[0]) if at is None else at
        stream = index % self.streams
        if isinstance(task, MakeBatch):
            self.given_up["batch", task.level, stream, task.begin] = error
        else:
            self.given_up["read", stream, index] = error

    def work(self, task: Task, reach: Reach) -> Work:
        if isinstance(task, ReadStream):
            assert np.array_equal(task.keys, keys_of(task.indices))
            stream = int(task.indices[0]) % self.streams
            read = task.indices.tolist()
            elements = [_Element((stream, i), (i,), (i + 1,)) for i in read if not self._left_out(i)]
            level = 0
        else:
            assert isinstance(task, MakeBatch)
            level = task.level
            rows = [row for span in task.inputs for row in reach.rows(span)]
            assert len(rows) == len(task.indices)
            if task.fill:
                real = iter(rows)
                rows = [
                    next(real) if place < n else "zeros"
                    for n, zeros in task.fill
                    for place in range(n + zeros)
                ]
            assert task.begin[0] == (task.indices[0] if not task.fill or sum(dict(task.fill)) else self.stop)
            elements = [self._batch(task.level, rows, task.begin, task.end or ())]
        made, error = self._stage(level, elements, task.start)
        begins, ends = self._cursors([e.begin for e in made]), self._cursors([e.end for e in made])
        result: TaskResult
        if isinstance(task, ReadStream):
            read = read if error is None else read[: read.index(error[2])]
            result = stream_read(begins, ends, len(made), error, losses_at(read, self.lost))
        else:
            result = batch_made(begins, ends, len(made), error=error)
        return result, [[e.value for e in made]]

    def _cursors(self, cursors: list[Cursor]) -> np.ndarray | None:
        if self.plain:
            return None
        return np.array([self.padded(c) for c in cursors], np.int64).reshape(len(cursors), self.width)


class ChainFeed:
    """The records of one logical stream, as `indices` of its spec gives them."""

    def __init__(self, spec: ChainSpec, stream: int) -> None:
        self._spec = spec
        self._indices = spec.indices(stream)
        self._broken = False

    def next(self, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        if self._broken:
            raise BoomError(("feed", self._spec.feed_fails))
        taken = []
        for _, index in zip(range(min(count, self._spec.piece or count)), self._indices):
            if index == self._spec.feed_fails:
                self._broken = True
                break
            taken.append(index)
        if taken:
            return np.array(taken, np.int64), keys_of(np.array(taken, np.int64))
        if self._broken:
            raise BoomError(("feed", self._spec.feed_fails))
        return None


Spec = GridSpec | ChainSpec
Choose = Callable[[int], int]  # of so many, which
