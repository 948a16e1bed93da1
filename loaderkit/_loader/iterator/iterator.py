"""The iterator of a DataLoader: the user's methods over a stream reader and its plan."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeVar

from loaderkit._base.closing import Closing
from loaderkit._base.hints import refuse_foreign_method
from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._engine.stats.counters import CorpusCounters
from loaderkit._engine.stats.stats import Stats
from loaderkit._loader.lineage_methods import LineageMethods
from loaderkit._order.metadata import RecordMetadata
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.state.positions import position_of
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import epoch_length_of

from .error_notes import named
from .exclude import exclude
from .reader import StreamReader
from .restore import late_comparison, merged, restored, saved_bytes
from .reweigh import reweigh

# The type of an element, as in DataLoader[dict[str, np.ndarray]], Any by default. typing's TypeVar has defaults from
# Python 3.13 on; type checkers know those of typing_extensions even if that isn't installed.
if TYPE_CHECKING:
    import typing_extensions

    from loaderkit._loader.inspect.explanation import Explanation
    from loaderkit._loader.inspect.lineage import Lineage

    T_co = typing_extensions.TypeVar("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)


from loaderkit._plan.state.identity import place_of

from .reader import Element


@dataclass(frozen=True, slots=True)
class LookaheadItem:
    """An element taken ahead, and the position before it."""

    element: Element[Position]
    before: Position


class Lookahead:
    """What `DataLoaderIterator.wrap` gives: the iterator's elements, before its user has them.

    The reader's position runs ahead of the user, whose own is what was `received`.

    Args:
        reader: of the iterator.
    """

    def __init__(self, reader: StreamReader[Position, SeekablePlan]) -> None:
        self._reader = reader
        self.lock = reader.lock  # held while the iterator is moved

    @property
    def plan(self) -> SeekablePlan:
        """The stream as it is now; another object after its weights changed."""
        return self._reader.plan

    @property
    def moves(self) -> int:
        """A number that changes when the iterator is moved: what was taken before is then void."""
        return self._reader.moves

    @property
    def place(self) -> dict[str, str]:
        """The fields of the user's position that must be equal in all processes of the run, as text."""
        return place_of(self.plan, self._reader.user_position)

    def check_open(self) -> None:
        """Raises IteratorClosedError after close()."""
        self._reader.check_open()

    def take(self) -> LookaheadItem:
        """The next element. Raises what next() would."""
        with self.lock:
            before = self._reader.position
            return LookaheadItem(self._reader.take(ahead=True), before)

    def placed(self, nanoseconds: int) -> None:
        """An element was sent to devices; the time isn't the user's own."""
        self._reader.meter.placed(nanoseconds)

    def go_back(self) -> None:
        """To where the user stands: what was taken since then comes again."""
        with self.lock:
            self._reader.go_back()

    def received(self, item: LookaheadItem) -> None:
        """The user has this element now."""
        self._reader.receive(item.element, item.before)


class LoaderIterator(LineageMethods, Closing):
    """What all iterators of a loader's stream have: all but the way in which elements come.

    Args:
        reader: of the loader's stream.
        loaders_plan: a mixture's weights as the loader's arguments say them.
        agrees: whether all processes of the loader's store run it.
    """

    allow: Collection[str] = ()

    def __init__(
        self, reader: StreamReader[Position, SeekablePlan], loaders_plan: SeekablePlan, *, agrees: bool
    ) -> None:
        self._reader, self._loaders_plan, self._agrees = reader, loaders_plan, agrees

    @property
    def _plan(self) -> SeekablePlan:
        return self._reader.plan

    # --- elements -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __bool__(self) -> bool:
        return True

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
        """Stops making elements; position and state can still be asked for. Closing twice does nothing.

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
        """Elements delivered so far in this run, those before a restore included."""
        return self._reader.user_position.step

    @property
    def remaining(self) -> int | None:
        """Steps that next() still gives; None where the stream has no end, or operations change the number of rows.

        `len(it)` is the same number, for progress bars: after a restore `tqdm(it, initial=it.step,
        total=it.step + len(it))` shows the whole run. Where this is None, `len(it)` is a TypeError that says why.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7], num_epochs=2, batch_size=2))
        >>> first = next(it)
        >>> it.remaining, len(it), iter(lk.load([5, 6, 7])).remaining
        (2, 2, None)
        """
        return self._plan.steps_left(self._reader.user_position)

    def __len__(self) -> int:
        steps = self.remaining
        if steps is None:
            raise TypeError(self._plan.why_no_length("len(it)"))
        return steps

    def __length_hint__(self) -> int:
        return self._plan.length_hint()

    @property
    def index(self) -> int:
        """The index of the next record: its place in the endless stream of all epochs."""
        return self._plan.index_of(self._reader.user_position)

    @property
    def epoch(self) -> int | None:
        """The epoch of the next record; None where the sampler doesn't say how long an epoch is."""
        sampler: Any = self._plan.sampler
        if hasattr(sampler, "epochs_before"):
            epochs = sampler.epochs_before(self.index)
            return None if epochs is None else int(epochs)
        length = epoch_length_of(sampler)
        return None if length is None else self.index // length

    @property
    def bad_records(self) -> int:
        """Bad records so far, of this process's rows; always 0 with `on_record_error="raise"`.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([1, 0, 2], num_epochs=1, operations=[lambda x: 6 // x], on_record_error="skip"))
        >>> list(it), it.bad_records
        ([6, 3], 1)
        """
        return self._reader.at_end.losses.count

    def stats(self) -> Stats:
        """What this iterator did so far, and the loader's workers meanwhile: what waits, and where the time goes.

        Always on. Possible at any time, from any thread, as it was after close(). `later - earlier` is an interval.

        >>> import loaderkit as lk
        >>> it = iter(lk.load(range(64), batch_size=8))
        >>> batch = next(it)
        >>> it.stats().steps
        1
        """
        trainer, pool = self._reader.statistics()
        meter, taken = self._reader.meter, getattr(self.sampler, "taken", None)
        corpora = {} if taken is None else taken(self.index)
        return Stats(
            trainer,
            pool,
            self.step,
            meter.exposed,
            of=meter.number,
            at=time.perf_counter_ns(),
            corpora={name: CorpusCounters(*read) for name, read in corpora.items()},
        )

    def explain(self) -> Explanation:
        """Whether the loader is the bottleneck, what limits it and what to try, from what was counted so far.

        Only `it.watch(loss)` tells whether a device was idle; gains are measured by `loader.explain(step)`.

        >>> import loaderkit as lk
        >>> it = iter(lk.load(range(100), batch_size=4))
        >>> batches = [next(it) for _ in range(5)]
        >>> "Limit: " in it.explain().first_line
        True
        """
        from loaderkit._loader.inspect.explain import explain_run

        return explain_run(self.stats(), self._reader.executor.program)

    def watch(self, loss: Any) -> None:
        """Finds out whether the device is idle while next() is blocked: call it after each step, with its loss.

        JAX dispatches ahead, so a blocked next() needn't mean an idle device. About once a second a thread waits for
        the array, and the step doesn't.

        Args:
            loss: a jax.Array; TypeError for another object, ValueError for a donated one.

        >>> import jax.numpy as jnp
        >>> import loaderkit as lk
        >>> it = iter(lk.load([1.0, 2.0], batch_size=1))
        >>> it.watch(jnp.sum(next(it)))
        >>> it.close()
        """
        self._reader.check_open()  # without the lock: another thread may wait in next() with it
        self._reader.meter.see_loss(loss)

    def get_state(self) -> bytes:
        """The position as indented JSON; possible at any time, also after an error or close().

        >>> import loaderkit as lk
        >>> b'"step": 0' in iter(lk.load([5, 6])).get_state()
        True
        """
        with self._reader.lock:
            return saved_bytes(self._plan, self._reader.user_position, self._reader.executor)

    def set_state(self, state: bytes | Sequence[bytes], allow: Collection[str] = ()) -> None:
        """Goes to the position of a state, which this iterator or another one of the same stream gave.

        Args:
            state: one state; or, if operations change the number of rows, those of all processes at the same step.
            allow: fields that may differ: "sampler", "source", "mixture", "exclude", "operations",
                "global_batch_size". "mixture": this loader's weights hold from the saved position on; "exclude": the
                lists that its folders have now. "parameters" silences the warning of operations with other names or
                parameters.

        Raises TypeError if it isn't bytes, StateError if it isn't a valid state, and CheckpointMismatchError if it is
        one of another stream; the position then stays as it was.
        """
        saved = merged(state)
        with self._reader.lock:
            self._reader.check_open()
            plan, saved, notices = restored(
                self._loaders_plan, saved, allow, self._reader.executor, agrees=self._agrees
            )
            if plan.exclusions is not None:
                self._reader.renew_executor()
            self._reader.go_to(position_of(plan, saved), plan)
            self._reader.after_next["state"] = late_comparison(saved, plan, self._reader.executor)
        for notice in notices:
            warnings.warn(notice, stacklevel=2)

    def writers_needed(self, writers: Sequence[int], allow: Collection[str] = ()) -> Collection[int]:
        """Which processes' documents of a saved state `set_state` needs here.

        Args:
            writers: for each logical stream, the process whose document holds its position. None is needed where the
                number of streams isn't this loader's, because no document would fit.
            allow: as for `set_state`. With "mixture" or "exclude" all are needed where the loader has such: others
                begin behind all that was read.

        >>> import loaderkit as lk
        >>> iter(lk.load([5, 6])).writers_needed([])
        set()
        """
        plan = self._plan
        if len(writers) != plan.logical_streams:
            return set()
        begun = ("mixture" in allow and plan.mixture) or ("exclude" in allow and plan.exclusions)
        everything = bool(begun) and plan.row_changing
        streams = range(plan.logical_streams) if everything else plan.owned_streams(self._reader.position.q)
        return {writers[stream] for stream in streams}

    def seek(self, step: int) -> None:
        """Goes to an earlier or later step; the distance costs nothing.

        Args:
            step: the one that next() gives then, from 0 on; IndexError for one that doesn't exist.

        Raises ValueError where operations change the number of rows.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7]))
        >>> it.seek(2)
        >>> next(it)
        7
        """
        with self._reader.lock:
            self._reader.check_open()
            self._plan.check_known("seek(step)")
            self._reader.go_to(self._plan.seek(self._reader.user_position, at_least("step", step, 0)))

    def skip(self, n: int) -> None:
        """Leaves the data of the next n steps out; `step` stays as it is.

        Args:
            n: 0 or more; IndexError where the stream has fewer steps.

        Raises ValueError where operations change the number of rows.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7]))
        >>> it.skip(2)
        >>> it.step, next(it)
        (0, 7)
        """
        with self._reader.lock:
            self._reader.check_open()
            self._plan.check_known("skip(n)")
            self._reader.go_to(self._plan.skip(self._reader.user_position, at_least("n", n, 0)))

    @property
    def sampler(self) -> Sampler:
        """The loader's sampler; of a mixture the one with the weights of this run: `it.sampler.taken(it.index)`."""
        return self._plan.sampler

    def reweigh(self, weights: Mapping[str, Any]) -> int:
        """Gives the components of a mixture other weights, from the next element that isn't taken yet on.

        What was read until then stays read: each component goes on with its next record, and the state keeps the
        weights of all steps. A wrapper such as `device_iterator` has taken elements ahead: those stay, and the new
        weights begin behind them. Where operations change the number of rows, they begin behind the last record that
        any logical stream has read. The same weights again change nothing.

        Args:
            weights: {name: weight}, numbers from 0 on; a component that isn't named has weight 0.

        Returns the step that the new weights begin in. Raises TypeError where the sampler is no mixture, ValueError for
        weights that can't be, where several processes differ in step or weights, and where the place to begin isn't
        known.
        """
        with self._reader.lock:
            return reweigh(self._reader, weights, agrees=self._agrees)

    def exclude(self, from_step: int | None = None) -> int:
        """Leaves out the records of the lists that the folders of `exclude=` have now, from a step on.

        What was read until then stays read. From there on none of the records is read, each other one once an epoch,
        and the state keeps which lists hold from where. A wrapper such as `device_iterator` has taken elements ahead:
        those stay. Where operations change the number of rows, the lists begin behind the last record that any logical
        stream has read. The same lists again change nothing.

        Args:
            from_step: the first step without these records, one that isn't taken yet; the next one, if not given.

        Returns the step that they hold from. Raises ValueError for an earlier step, for a loader without `exclude=`,
        where nothing is left, where several processes differ in step or lists, and where the place to begin isn't
        known; what is wrong with a list is raised as by DataLoader.

        >>> import tempfile
        >>> import loaderkit as lk
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     it = iter(lk.load([5, 6, 7, 8], num_epochs=1, exclude=folder))
        ...     first = next(it)
        ...     path = lk.offline.block_list([5, 6, 7, 8], folder, keys=[2], reason="a request")
        ...     it.exclude(), list(it)
        (1, [6, 8])
        """
        with self._reader.lock:
            return exclude(self._reader, from_step, agrees=self._agrees)

    def records(self, step: int) -> list[RecordMetadata]:
        """Metadata of every record of a step over all shards, in order, as planned; reads no data.

        With the names that the data source gives its records. What was read instead of a bad record isn't in it.

        Args:
            step: from 0 on; IndexError for one that doesn't exist.

        Raises ValueError where operations change the number of rows.

        >>> import loaderkit as lk
        >>> [metadata.record_key for metadata in iter(lk.load([5, 6, 7], batch_size=2)).records(0)]
        [0, 1]
        """
        self._plan.check_known("records(step)")
        return named(
            self._plan.records(self._reader.user_position, at_least("step", step, 0)),
            self._reader.executor.record_name,
        )

    def _lineage(self) -> Lineage:
        from loaderkit._loader.inspect.lineage import Lineage

        with self._reader.lock:
            plan, position = self._plan, self._reader.user_position
            source = self._reader.find_executor().program.source
        return Lineage(plan, position, source, end=position.step)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at step {self.step}, index {self.index}>"

    # Not async: a call that isn't awaited would do nothing, and not even refuse.
    def save(self, directory: Any) -> Coroutine[Any, Any, Coroutine[Any, Any, None]]:
        """Orbax's StatefulCheckpointable: takes the position now; the coroutine that is returned writes it.

        Args:
            directory: the folder, as Orbax gives it. TypeError for a path.
        """
        from loaderkit._loader.state_files import save_async

        if not hasattr(directory, "await_creation"):
            raise TypeError(
                f"save: expected a directory of Orbax, which calls this itself, got {directory!r:.80}. Write "
                "it.get_state() to a file, or give lk.CheckpointSave(it) to Orbax's CheckpointManager"
            )
        return save_async(self, directory)

    def load(self, directory: Any) -> Coroutine[Any, Any, Coroutine[Any, Any, None]]:
        """Orbax's StatefulCheckpointable: restores the position saved there with `self.allow`, and prefetches.

        Args:
            directory: the folder, as Orbax gives it. TypeError for a str.
        """
        from loaderkit._loader.state_files import load_async

        if isinstance(directory, str):
            raise TypeError(
                f"load: expected a directory of Orbax, which calls this itself, got {directory!r:.80}. Give "
                "it.set_state() the bytes of it.get_state(), or lk.CheckpointRestore(it) to Orbax's CheckpointManager"
            )
        return load_async(self, directory)


class DataLoaderIterator(LoaderIterator, Generic[T_co]):
    """Gives a loader's elements; its state is a small JSON document with its position.

    Made by `iter(loader)`. A context manager: leaving it closes it. It is always true. Several threads may use it; they
    share its position.

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

    def __init__(self, reader: StreamReader[Position, SeekablePlan], *, agrees: bool = True) -> None:
        """Made by `iter(loader)`: the reader of a loader's stream, and whether all processes of its store run it."""
        super().__init__(reader, reader.plan, agrees=agrees)

    def __next__(self) -> T_co:
        return self._reader.take().value  # type: ignore[no-any-return]  # the user says the type

    def peek(self) -> T_co:
        """The element that next() will give; the position stays. Raises what next() would.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> it.peek(), it.step, next(it)
        (5, 0, 5)
        """
        return self._reader.peek().value  # type: ignore[no-any-return]  # as above

    def state_past_error(self) -> bytes:
        """The state after the record or batch that next() failed on, for `set_state`; possible after close().

        If operations keep the number of rows, the failed step is left out, as by `skip(1)`; with several shards, all of
        them have to do it. If operations change the number of rows, a logical stream continues after the failed record,
        or all streams with rows in the failed batch continue after that; rows before the record that are in no batch
        yet are left out, too. A WorkerError is passed in the same way: its record ends every worker. If it names
        several records of one step or stream, all of them are left out.

        Raises ValueError if next() didn't fail here, if the error names records of several steps, or if it names none:
        then no record is at fault (a ChecksumError, workers that can't be started), and `set_state(get_state())` tries
        again.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([3, 0, 2], num_epochs=1, operations=[lambda x: 6 // x]))
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
                    "state_past_error(): the error names no single record or step, so what comes after it isn't known; "
                    "set_state(get_state()) tries again"
                )
            return saved_bytes(self._plan, position, self._reader.executor)

    # --- a wrapper that takes elements ahead of the user --------------------------------------------------------

    def wrap(self) -> Lookahead:
        """Gives the elements to a wrapper that takes them ahead; the position is then that of what the user received.

        Raises RuntimeError if there is a wrapper already.

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
        return Lookahead(self._reader)

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_method(self, name)


class WrappedIterator(LoaderIterator):
    """An iterator around a loader's own, which gives its elements in another form and shares its position.

    Args:
        it: a loader's iterator.
    """

    def __init__(self, it: DataLoaderIterator[Any]) -> None:
        super().__init__(it._reader, it._loaders_plan, agrees=it._agrees)
        self._it = it

    @property
    def allow(self) -> Collection[str]:
        """The fields that may differ when Orbax's newer interface restores, as the wrapped iterator's."""
        return self._it.allow

    @allow.setter
    def allow(self, names: Collection[str]) -> None:
        self._it.allow = names
