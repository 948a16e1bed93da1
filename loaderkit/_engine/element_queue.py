"""A queue of runs of elements, in the order of the tasks that they come from.

A run that arrives early waits for those before it. A queue has *ended* after its last run: at the end of its stream,
or at a failure, which stays at the front once all before it was taken.
"""

from collections import deque

import numpy as np

from loaderkit._base.notes import keyed
from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._order.facts import Cursor, Failure, Loss
from loaderkit.errors import BadRecordsError

from .task import Span

PassAndIndex = tuple[int, int]  # how often the stream had begun again, and the index


@dataclass(slots=True)
class QueuedRun:
    """The elements of one task, made or expected.

    task      its id; -1 for a failure that is no task's
    expected  1 for a batch, 0 for records, which their stream counts
    records   how many it was made of; 1 if that is a batch
    record_numbers  (size,) int64, which of them each element is of; None where it isn't needed
    reaches   after the last record of its elements, by stream: pass number and index; None where each is of one record
    indices   (size,) int64, where an element is a record and some of them were lost; else None
    empty_counted   `ElementQueue.give_up` has counted it
    losses    of a task that reads: the bad records that left no row; None where they leave one
    losses_counted  `ElementQueue.give_up_lost` has counted it
    done      its task is
    size, taken   elements that were made, and how many of them were taken
    begins, ends  (size, depth + 1) int64 cursors
    lasts     (size,) int64, the index of the last record of each element; None where that is its first
    pass_number   how often its stream had begun again where it begins
    pass_numbers  (size,) int64, the same for the cursor after each element
    group_ends    of a batch over several streams: the cursors after it
    group_passes  of a batch: the pass numbers of the cursors after it, by stream
    rows      of a batch: (n, depth + 1) int64, the cursor where each of its rows begins
    masked    a batch without a real row
    after     of a batch: the cursors after it, by stream
    failed    what ended it
    """

    task: int
    expected: int = 0
    records: int = 0
    record_numbers: np.ndarray | None = None
    reaches: dict[int, PassAndIndex] | None = None
    indices: np.ndarray | None = None
    empty_counted: bool = False
    losses: tuple[Loss, ...] | None = None
    losses_counted: bool = False
    done: bool = False
    size: int = 0
    taken: int = 0
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None
    lasts: np.ndarray | None = None
    pass_number: int = 0
    pass_numbers: np.ndarray | None = None
    group_ends: dict[int, Cursor] | None = None
    group_passes: dict[int, int] | None = None
    rows: np.ndarray | None = None
    masked: bool = False
    after: dict[int, Cursor] | None = None
    failed: Failure | None = None

    def fail(self, failure: Failure) -> None:
        """Ends it; after a batch that failed the streams go on after that batch."""
        self.failed = failure if self.after is None else replace(failure, cursors=self.after)

    def pass_after(self, stream: int, number: int) -> int:
        """The pass number of a stream's cursor after the element with a number."""
        if self.group_ends is not None:
            return (self.group_passes or {}).get(stream, 0)
        return 0 if self.pass_numbers is None else int(self.pass_numbers[number])

    def last_index(self, number: int) -> int:
        """The index of the last record of the element with a number."""
        if self.lasts is not None:
            return int(self.lasts[number])
        assert self.begins is not None
        return int(self.begins[number, 0])


@dataclass(slots=True)
class QueueSlice:
    """Consecutive elements taken from a queue.

    spans    where they are
    begins   (n, depth + 1) int64, the cursor of each
    end      of the last one
    pass_number, end_pass  how often the stream had begun again at the first one, and at the end
    reach    pass number and index after the last record of the last element, even if it has more children
    """

    spans: list[Span]
    begins: np.ndarray
    end: Cursor
    pass_number: int
    end_pass: int
    reach: PassAndIndex


class ElementQueue:
    """Runs of elements in order, taken from the front.

    >>> queue = ElementQueue()
    >>> early, late = queue.add(1, expected=1), queue.add(2, expected=1)
    >>> late.done, late.size = True, 3
    >>> queue.count(), queue.ready
    (None, 0)
    >>> early.done, early.size = True, 2
    >>> queue.count(), queue.ready
    (None, 5)
    """

    def __init__(self) -> None:
        self.runs: deque[QueuedRun] = deque()
        self.ended = False
        self.ready = 0  # elements in the done runs at the front
        self._lost = 0  # records that were lost in a row, up to the end of the runs whose losses were counted
        self._empty = 0  # records without an element, after the last element of the runs that were counted

    def add(self, task: int, expected: int) -> QueuedRun:
        """A run that is expected, after all others."""
        run = QueuedRun(task, expected)
        self.runs.append(run)
        return run

    def fail(self, failure: Failure) -> None:
        """Ends the queue with a failure that is no task's."""
        self.runs.append(QueuedRun(-1, done=True, failed=failure))
        self.ended = True

    def size(self, of_batch: float = 1) -> float:
        """Elements that are made, and will probably come of the batches on their way; a failure counts nothing."""
        return sum(run.size - run.taken if run.done else run.expected * of_batch for run in self.runs)

    def count(self) -> None:
        """Counts the elements that may be taken: up to the first run that isn't done, or that failed."""
        self.ready = 0
        for run in self.runs:
            if not run.done:
                break
            self.ready += run.size - run.taken
            if run.failed is not None:
                break

    def at_end(self) -> bool:
        """Whether nothing but perhaps a failure will follow the elements that are ready."""
        return self.ended and all(run.done for run in self.runs)

    def failure(self) -> Failure | None:
        """The failure right after the elements that are ready."""
        for run in self.runs:
            if not run.done or run.failed is not None:
                return run.failed
        return None

    def take(self, count: int) -> QueueSlice:
        """The next `count` elements, of those that are ready."""
        spans: list[Span] = []
        begins: list[np.ndarray] = []
        end: Cursor = ()
        pass_number, end_pass, reach = -1, 0, (0, 0)
        while count:
            run = self.runs[0]
            n = min(count, run.size - run.taken)
            if n:
                assert run.begins is not None and run.ends is not None and run.pass_numbers is not None
                lo, hi = run.taken, run.taken + n
                end = tuple(run.ends[hi - 1].tolist())
                spans.append(Span(run.task, 0, lo, hi))
                begins.append(run.begins[lo:hi])
                pass_number = run.pass_number if pass_number < 0 else pass_number
                end_pass = int(run.pass_numbers[hi - 1])
                reach = (
                    max(run.reaches.values())
                    if run.reaches
                    else (run.pass_number, run.last_index(hi - 1) + 1)
                )
                run.taken += n
                self.ready -= n
                count -= n
            self.drop_used()
        cursors = np.concatenate(begins) if begins else np.empty((0, 1), np.int64)
        return QueueSlice(spans, cursors, end, max(pass_number, 0), end_pass, reach)

    def drop_used(self) -> None:
        """Drops the runs at the front of which all elements were taken; a failure stays."""
        while self.runs and (run := self.runs[0]).done and run.taken == run.size and run.failed is None:
            self.runs.popleft()

    def give_up(self, limit: int, what: str) -> None:
        """Ends the queue at the first `limit` records in a row without an element, however they were cut in tasks."""
        for run in self.runs:
            if not run.done:
                return
            if run.empty_counted or run.record_numbers is None:
                continue
            run.empty_counted = True
            # gaps: (size + 1,) records without an element before each element, and after the last
            gaps = np.diff(run.record_numbers, prepend=-1 - self._empty, append=run.records) - 1
            self._empty = int(gaps[-1])
            if run.failed is not None:
                gaps = gaps[: run.size]  # the records after its last element weren't processed
            if np.any(gaps >= limit):
                run.size = int(np.argmax(gaps >= limit))
                error = ValueError(
                    f"{limit:,} {what} in a row gave no element: the Filters and FlatMaps let nothing pass, "
                    "and the sampler is endless"
                )
                run.failed = Failure(error)
                self.ended = True

    def give_up_lost(self, most: int) -> None:
        """Ends the queue at the first `most` lost records in a row, however they were cut in tasks."""
        for run in self.runs:
            if not run.done:
                return
            if run.losses_counted or run.losses is None:
                continue
            run.losses_counted = True
            next_record = 0
            for loss in run.losses:
                self._lost = self._lost + 1 if loss.place == next_record else 1
                next_record = loss.place + 1
                if self._lost >= most:
                    assert run.begins is not None
                    run.size = int(np.searchsorted(run.begins[:, 0], loss.index))
                    error = BadRecordsError(
                        f"{most:,} records in a row are bad, the last of them at index {loss.index} "
                        f"(record_key {keyed(loss.record_key, loss.name)}): {loss.error}, raised by {loss.label}"
                    )
                    run.failed = Failure(error)
                    self.ended = True
                    return
            if next_record < run.records:
                self._lost = 0
