"""The iterator of a DataLoader: what its user may ask of a stream reader, and where it stands."""

import warnings
from collections.abc import Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeVar

from loaderkit._base.closing import Closing
from loaderkit._base.hints import refuse_foreign_method
from loaderkit._base.integers import at_least
from loaderkit._order.metadata import RecordMetadata
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._state.comparison import compare
from loaderkit._state.document import dumps, loads
from loaderkit._state.positions import check_cursors, check_ordinals, position_of, state_of
from loaderkit._state.state import State, merge
from loaderkit._system.versions import present_versions
from loaderkit.errors import StateError
from loaderkit.samplers.protocol import num_records_of

from .error_notes import named
from .lookahead import Lookahead
from .reader import StreamReader

# The type of an element, as in DataLoader[dict[str, np.ndarray]], and Any where it isn't said. That takes a default,
# which typing's TypeVar has from Python 3.13 on; type checkers know typing_extensions without its being installed.
if TYPE_CHECKING:
    import typing_extensions

    T_co = typing_extensions.TypeVar("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)


class DataLoaderIterator(Closing, Generic[T_co]):
    """Goes through a loader's elements; its state is a small JSON document that says where it stands.

    Made by `iter(loader)`. A context manager: leaving it closes it. It is always true, and stands at the same place
    for every thread that uses it.

    >>> import loaderkit as lk
    >>> loader = lk.DataLoader(
    ...     data_source=lk.RangeDataSource(0, 6, 1), sampler=lk.SequentialSampler(6), operations=[lk.Batch(2)]
    ... )
    >>> it = iter(loader)
    >>> next(it), it.step
    (array([0, 1]), 1)
    >>> saved = it.get_state()
    >>> again = iter(loader)
    >>> again.set_state(saved)
    >>> next(again)
    array([2, 3])
    """

    allow: Collection[str] = ()

    def __init__(self, reader: StreamReader[Position], plan: SeekablePlan) -> None:
        """Made by `iter(loader)`: the reader of a loader's stream, and the plan of that stream."""
        self._reader = reader
        self._plan = plan

    # --- elements -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __bool__(self) -> bool:
        return True

    def __next__(self) -> T_co:
        return self._reader.take().value  # type: ignore[no-any-return]  # the type is the user's word

    def peek(self) -> T_co:
        """The element that next() will give; the position stays. Raises what next() would.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> it.peek(), it.step, next(it)
        (5, 0, 5)
        """
        return self._reader.peek().value  # type: ignore[no-any-return]  # as above

    def start_prefetch(self) -> None:
        """Begins to make elements now instead of at the first next().

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> it.start_prefetch()
        >>> next(it)
        5
        """
        self._reader.start_prefetch()

    def close(self) -> None:
        """Ends the making of elements; the position can still be asked for. Closing twice does nothing.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> it.close()
        >>> it.step
        0
        """
        self._reader.close()

    # --- where it stands ----------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Elements handed out so far by this run, resumed ones included."""
        return self._reader.standing.step

    @property
    def remaining(self) -> int | None:
        """Steps that next() gives from here on; None where the stream has no end, or operations change its rows.

        `len(it)` is the same number, for progress bars: after a restore `tqdm(it, initial=it.step,
        total=it.step + len(it))` shows the whole run. It is a TypeError where this is None, saying why.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7], num_epochs=2, batch_size=2))
        >>> first = next(it)
        >>> it.remaining, len(it), iter(lk.load([5, 6, 7])).remaining
        (2, 2, None)
        """
        return self._plan.steps_left(self._reader.standing)

    def __len__(self) -> int:
        steps = self.remaining
        if steps is None:
            raise TypeError(self._plan.why_no_length("len(it)"))
        return steps

    @property
    def index(self) -> int:
        """The index of the next record: its place in the endless stream of all epochs."""
        return self._plan.index_of(self._reader.standing)

    @property
    def epoch(self) -> int | None:
        """The epoch of the next record; None where the sampler doesn't say how long an epoch is."""
        records = num_records_of(self._plan.sampler)
        return None if records is None else self.index // records

    @property
    def bad_records(self) -> int:
        """Records that were lost up to here, of the rows that this process was handed; 0 unless `on_record_error` says.

        >>> import loaderkit as lk
        >>> it = iter(
        ...     lk.load([1, 0, 2], num_epochs=1, transformations=[lambda x: 6 // x], on_record_error="skip")
        ... )
        >>> list(it), it.bad_records
        ([6, 3], 1)
        """
        return self._reader.at_end.losses.count

    def get_state(self) -> bytes:
        """The position as indented JSON; possible at any time, also after an error or close().

        >>> import loaderkit as lk
        >>> b'"step": 0' in iter(lk.load([5, 6])).get_state()
        True
        """
        with self._reader.lock:
            return dumps(state_of(self._plan, self._reader.standing, present_versions()))

    def state_past_error(self) -> bytes:
        """The state behind the record or batch that next() failed on, for `set_state`; possible after close().

        Where rows keep their number, it leaves the failed step out, as `skip(1)` does; on several shards all of them
        have to. Where operations change it, one logical stream goes on behind the failed record, or those with rows in
        the failed batch behind that; rows before the record that no batch gave yet are left out with it. A WorkerError
        is passed as any other: its record is what keeps killing workers; where it names several of one step or stream,
        all of them are left.

        Raises ValueError where next() raised nothing here; an error that names records of several steps; or none, as a
        ChecksumError or that no worker can be started: nothing is wrong with any record then, and
        `set_state(get_state())` tries again.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([3, 0, 2], num_epochs=1, transformations=[lambda x: 6 // x]))
        >>> next(it)
        2
        >>> try:
        ...     next(it)
        ... except ZeroDivisionError:
        ...     it.set_state(it.state_past_error())
        >>> list(it)
        [3]
        """
        with self._reader.lock:
            try:
                position = self._reader.after_failure
            except LookupError:
                raise ValueError(
                    "state_past_error(): next() hasn't failed here on a record or a batch"
                ) from None
            if position is None:
                raise ValueError(
                    "state_past_error(): the error names no single record or step, so what is behind it isn't known; "
                    "set_state(get_state()) tries again"
                )
            return dumps(state_of(self._plan, position, present_versions()))

    def set_state(self, state: bytes | Sequence[bytes], allow: Collection[str] = ()) -> None:
        """Goes to the position that `get_state` gave, of this iterator or of another of the same stream.

        Args:
            state: a document, or those of all processes at the same step where operations change the number of rows.
            allow: fields that may differ: "sampler", "source", "operations", "global_batch_size". "parameters" silences
                the warning of operations with other names or parameters.

        Raises TypeError where it isn't bytes, StateError where it is no sound state, and CheckpointMismatchError
        where it is one of another stream; the position stays as it was.
        """
        documents: list[Any] = [*state] if isinstance(state, list | tuple) else [state]
        saved = merge([_loaded(document, place, len(documents)) for place, document in enumerate(documents)])
        with self._reader.lock:
            self._reader.check_open()
            notices = compare(saved, state_of(self._plan, self._reader.position, present_versions()), allow)
            if saved.digest_missing:
                notices.append("the state has no digest: it was edited by hand and is taken as it is")
            if not {"sampler", "source"} & set(allow):  # of another length, whose end is elsewhere
                check_cursors(self._plan, saved)
            if "operations" not in allow:
                check_ordinals(self._plan, saved)
            self._reader.go_to(position_of(self._plan, saved))
        for notice in notices:
            warnings.warn(notice, stacklevel=2)

    def writers_needed(self, writers: Sequence[int]) -> Collection[int]:
        """Which processes' documents of a saved state `set_state` needs here.

        Args:
            writers: for each logical stream, the process whose document holds its place; of other streams than this
                loader's none is needed, for no document would fit.

        >>> import loaderkit as lk
        >>> iter(lk.load([5, 6])).writers_needed([])
        set()
        """
        owned = self._plan.owned_streams(self._reader.position.q)
        return {writers[stream] for stream in owned} if len(writers) == self._plan.logical_streams else set()

    def seek(self, step: int) -> None:
        """Goes to a step, back or ahead, at once whatever the distance.

        Raises ValueError where operations change the number of rows, IndexError for a step that isn't there.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7]))
        >>> it.seek(2)
        >>> next(it)
        7
        """
        with self._reader.lock:
            self._reader.check_open()
            self._check_known("seek(step)")
            self._reader.go_to(self._plan.seek(self._reader.standing, at_least("step", step, 0)))

    def skip(self, n: int) -> None:
        """Leaves the next n steps out: the step stays, the data moves on.

        Raises ValueError where operations change the number of rows, IndexError where the stream ends before.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7]))
        >>> it.skip(2)
        >>> it.step, next(it)
        (0, 7)
        """
        with self._reader.lock:
            self._reader.check_open()
            self._check_known("skip(n)")
            self._reader.go_to(self._plan.skip(self._reader.standing, at_least("n", n, 0)))

    def records(self, step: int) -> list[RecordMetadata]:
        """Metadata of every record of a step over all shards, in order, as planned; reads no data.

        With the names that the data source gives its records. What was read instead of a bad record isn't in it. Raises
        ValueError where operations change the number of rows, IndexError for a step that isn't there.

        >>> import loaderkit as lk
        >>> [metadata.record_key for metadata in iter(lk.load([5, 6, 7], batch_size=2)).records(0)]
        [0, 1]
        """
        self._check_known("records(step)")
        return named(
            self._plan.records(self._reader.standing, at_least("step", step, 0)),
            self._reader.executor.record_name,
        )

    def _check_known(self, what: str) -> None:
        if self._plan.row_changing:
            raise ValueError(self._plan.why_unknown(what))

    # --- a wrapper that takes elements ahead of the user --------------------------------------------------------

    def wrap(self) -> "Lookahead":
        """Hands the elements to a wrapper that takes them ahead; from now on the position is what its user received.

        Raises RuntimeError where there is one already.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> ahead = it.wrap()
        >>> item = ahead.take()
        >>> item.element.value, it.step
        (5, 0)
        >>> ahead.received(item)
        >>> it.step
        1
        """
        self._reader.wrap()
        return Lookahead(self._reader, self._plan)

    # --- Orbax's newer interface --------------------------------------------------------------------------------

    async def save(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: takes the position now, writes it in what is returned."""
        from loaderkit._files.state_files import save_async

        return await save_async(self, directory)

    async def load(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: goes to the position saved there (with `self.allow`), starts prefetching."""
        from loaderkit._files.state_files import load_async

        return await load_async(self, directory)

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_method(self, name)

    def __repr__(self) -> str:
        return f"<DataLoaderIterator at step {self.step}, index {self.index}>"


def _loaded(document: bytes, place: int, count: int) -> State:
    try:
        return loads(document)
    except StateError as error:
        if count > 1:
            error.add_note(f"in document {place} of {count}, counted from 0")
        raise
