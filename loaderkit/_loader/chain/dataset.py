"""A data set written as steps: each call lowers its step onto what the ones before it mean."""

from __future__ import annotations

import os
import warnings
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError
from functools import update_wrapper
from operator import index as to_index
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Never,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import numpy as np
import numpy.typing as npt

from loaderkit._base.hints import refuse_foreign_keywords, refuse_foreign_step, refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._loader.loader import DataLoader, settings_of
from loaderkit._loader.options import LoaderOptions
from loaderkit._loader.plan import repeats_order
from loaderkit._source.protocol import RandomAccessDataSource
from loaderkit.samplers.mixture_arguments import StagedWeights
from loaderkit.sources.checked import check_source
from loaderkit.transforms.base import (
    Batch,
    Filter,
    FlatMap,
    Map,
    MapWithIndex,
    RandomMap,
    Transformation,
    Window,
)
from loaderkit.transforms.operations import Operation, as_operations
from loaderkit.transforms.pack import Pack
from loaderkit.transforms.seeded import Seeded
from loaderkit.transforms.window_shuffle import WindowShuffle

from .form import STEPS, Form, step_of
from .parts import JoinedParts
from .text import called, table_of

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
_OPTIONS = frozenset(LoaderOptions.__annotations__)
AnyPart: TypeAlias = "Dataset[Any] | RandomAccessDataSource[Any] | Mapping[str, Any]"


class _OfParts(Generic[P, R_co]):
    """A static method that is called on the class only: on a chain it would leave that chain out."""

    def __init__(self, function: Callable[P, R_co]) -> None:
        self._function = function
        update_wrapper(cast(Any, self), function)

    def __get__(self, chain: Any, owner: type | None = None, /) -> Callable[P, R_co]:
        if chain is None:
            return self._function
        name = self._function.__name__
        parts = '{"a": ..., "b": ...}' if name == "mix" else "[...]"
        raise TypeError(
            f".{name}(): expected it of lk.Dataset, got it behind a chain, which would be left out; write "
            f"lk.Dataset.{name}({parts}) with the chain among the parts"
        )


class _Class(ABCMeta):
    """Of the class itself: `Dataset.from_tensor_slices` is written there, not behind a chain.

    An ABCMeta, so that a subclass may be an abstract class or a protocol.
    """

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Never:
            refuse_foreign_step(cls, name)


class Dataset(Generic[T_co], metaclass=_Class):
    """Records and what is done with them, written as steps; `loader()` makes a DataLoader of them.

    A chain is a description: it is frozen, reads nothing, and each step gives a new one. A step that doesn't fit those
    before it is a ValueError at its line that says what to write. The loader is equal to one written by hand.

    Args:
        source: anything with `__len__` and `__getitem__`, or a dict of arrays of one length, which is columns.

    >>> import loaderkit as lk
    >>> ds = lk.Dataset([1, 2, 3, 4, 5]).shuffle(seed=0).map(lambda x: x * x).batch(2)
    >>> [batch.tolist() for batch in ds], len(ds)
    ([[9, 25], [1, 16], [4]], 3)
    >>> print(ds.take(2).summary())
    step                          zone      length  epochs
    lk.Dataset([1, 2, 3, 4, 5])   records   5
    .shuffle(seed=0)              records   5
    .map(<lambda>)                records   5
    .batch(2)                     elements  3       1 of 5
    .take(2)                      elements  2       1 of 5
    """

    __slots__ = ("_form", "_iterated", "_lines")

    # Why it is no data source; read by _source/tables.py.
    instead_of_source = (
        "expected a data source, got a Dataset; write ds.loader(...) for its loader, lk.Dataset.concat, zip or mix for "
        "chains as parts; split its source, and write a chain for each part"
    )

    _form: Form
    _lines: tuple[tuple[str, Form], ...]
    _iterated: bool

    @refusing_foreign_arguments
    def __init__(self, source: RandomAccessDataSource[T_co] | Mapping[str, Any]) -> None:
        text = called("lk.Dataset", source)
        records = check_source(source, "source")
        self._begin(Form(source=records, lengths=((records, len(records)),)), text)

    def _begin(self, form: Form, text: str, before: tuple[tuple[str, Form], ...] = ()) -> None:
        object.__setattr__(self, "_form", form)
        object.__setattr__(self, "_lines", (*before, (text, form)))
        object.__setattr__(self, "_iterated", False)

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"{name}: expected no change of a Dataset; each step gives a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._form, self._lines[-1][0], self._lines[:-1])

    def _then(self, form: Form, name: str, *given: Any, **named: Any) -> Dataset[Any]:
        return _made(form, called(f".{name}", *given, **named), self._lines)

    # --- operations ---------------------------------------------------------------------------------------------------

    def _with(self, kind: type[Transformation], function: Any, /, **options: Any) -> Dataset[Any]:
        given = {name: value for name, value in options.items() if value is not None}
        op, step = function, STEPS[kind]
        if not isinstance(op, Transformation):
            op = kind(op, **given)
        elif step != step_of(op) and not isinstance(op, kind):
            raise TypeError(
                f".{step}(): expected a function or a {kind.__name__}, got {op!r}; write .{step_of(op)}({op!r})"
            )
        elif given:
            name = next(iter(given))
            raise TypeError(f".{step}(): expected {op!r} alone, got {name} too; give {name} to the operation")
        return self._then(self._form.with_operation(op), step, function, **given)

    @overload
    def map(self, function: Map) -> Dataset[Any]: ...
    @overload
    def map(self, function: Callable[[T_co], U]) -> Dataset[U]: ...
    @refusing_foreign_arguments
    def map(self, function: Callable[[T_co], U] | Map) -> Dataset[U] | Dataset[Any]:
        """One element of each.

        Args:
            function: takes an element and gives the one in its place, or an lk.Map.
        """
        return self._with(Map, function)

    @overload
    def random_map(self, function: RandomMap | Seeded) -> Dataset[Any]: ...
    @overload
    def random_map(self, function: Callable[[T_co, np.random.Generator], U]) -> Dataset[U]: ...
    @refusing_foreign_arguments
    def random_map(
        self, function: Callable[[T_co, np.random.Generator], U] | RandomMap | Seeded
    ) -> Dataset[U] | Dataset[Any]:
        """One element of each, drawn by the seed, the step's number among such and the element's index in the stream.

        Args:
            function: takes (element, rng), rng a numpy.random.Generator, and gives the element in its place; or an
                lk.RandomMap or lk.transforms.Seeded.
        """
        return self._with(RandomMap, function)

    @overload
    def map_with_index(self, function: MapWithIndex) -> Dataset[Any]: ...
    @overload
    def map_with_index(self, function: Callable[[int, T_co], U]) -> Dataset[U]: ...
    @refusing_foreign_arguments
    def map_with_index(self, function: Callable[[int, T_co], U] | MapWithIndex) -> Dataset[U] | Dataset[Any]:
        """One element of each and its place in the stream.

        Args:
            function: takes (index, element), index an int, and gives the element in its place; or an lk.MapWithIndex.
        """
        return self._with(MapWithIndex, function)

    @refusing_foreign_arguments
    def filter(self, function: Callable[[T_co], bool | np.bool_] | Filter) -> Dataset[T_co]:
        """The elements for which a function is true.

        Args:
            function: takes an element and gives a bool, or an lk.Filter.
        """
        return self._with(Filter, function)

    @overload
    def flat_map(self, function: FlatMap) -> Dataset[Any]: ...
    @overload
    def flat_map(
        self, function: Callable[[T_co], Iterable[U]], *, max_fan_out: int | None = None
    ) -> Dataset[U]: ...
    @refusing_foreign_arguments
    def flat_map(
        self, function: Callable[[T_co], Iterable[U]] | FlatMap, *, max_fan_out: int | None = None
    ) -> Dataset[U] | Dataset[Any]:
        """Any number of elements of each.

        Args:
            function: takes an element and gives those in its place, or an lk.FlatMap.
            max_fan_out: how many it gives at most; more are an error.
        """
        return self._with(FlatMap, function, max_fan_out=max_fan_out)

    @overload
    def window(self, size: Window) -> Dataset[Any]: ...
    @overload
    def window(self, size: int, function: Callable[[list[T_co]], Iterable[U]]) -> Dataset[U]: ...
    @refusing_foreign_arguments
    def window(
        self, size: int | Window, function: Callable[[list[T_co]], Iterable[U]] | None = None
    ) -> Dataset[U] | Dataset[Any]:
        """What a function makes of each `size` consecutive elements.

        Args:
            size: of a window in elements, 1 or more; or an lk.Window, alone.
            function: takes the list of them and gives the elements in their place.
        """
        return self._with(Window, size, function=function)

    @refusing_foreign_arguments
    def window_shuffle(self, size: int) -> Dataset[T_co]:
        """The elements of each `size` consecutive ones in another order, where a shuffle of records isn't enough.

        Args:
            size: in elements, 1 or more.
        """
        return self._with(WindowShuffle, size)

    def pack(self, length: int | Mapping[str, int] | Pack, **options: Any) -> Dataset[Any]:
        """Rows of tokens of the documents as they come.

        Args:
            length: tokens of a row, for several features {feature: tokens}; or an lk.Pack, alone.
            options: those of lk.Pack.
        """
        return self._with(Pack, length, **options)

    @refusing_foreign_arguments
    def batch(
        self,
        size: int | Batch,
        *,
        remainder: str = "keep",
        drop_remainder: bool = False,
        batch_fn: Callable[[list[T_co]], Any] | None = None,
    ) -> Dataset[Any]:
        """Consecutive elements stacked.

        Args:
            size: of a batch in elements, of the last Batch those of all processes together; or an lk.Batch or
                lk.PadBatch, alone.
            remainder, drop_remainder, batch_fn: as lk.Batch takes them.
        """
        options = {
            "remainder": None if remainder == "keep" else remainder,
            "drop_remainder": drop_remainder or None,
            "batch_fn": batch_fn,
        }
        if isinstance(size, Transformation):
            return self._with(Batch, size, **options)
        op = Batch(
            global_batch_size=at_least("size", size, 1),
            remainder=remainder,
            drop_remainder=drop_remainder,
            batch_fn=batch_fn,
        )
        return self._then(self._form.with_operation(op, sized=True), "batch", size, **options)

    def apply(self, operations: Operation | Iterable[Operation]) -> Dataset[Any]:
        """What operations make of the elements.

        Args:
            operations: those of lk.transforms, or functions of an element, as a loader takes them; or one of them.
        """
        single = isinstance(operations, Transformation) or callable(operations)
        given: Any = [operations] if single else operations
        form, made = self._form, as_operations(given)
        for op in made:
            form = form.with_operation(op)
        return self._then(form, "apply", [*made])

    # --- order --------------------------------------------------------------------------------------------------------

    @refusing_foreign_arguments
    def shuffle(self, seed: int | None = None, *, window: int | None = None, lanes: int = 1) -> Dataset[T_co]:
        """Each epoch in an order of its own.

        Args:
            seed: int in [0, 2**64), and no size of a buffer: all records are shuffled. Without it that of `.seed()`, or
                in a part of a mixture one by the part's name.
            window: for sources that are read by chunks: how many of their chunks are mixed at a time.
            lanes: into how many parts each batch is cut, each with chunks of its own: as many as hosts.
        """
        form = self._form.shuffled(seed, window, lanes)
        return self._then(form, "shuffle", seed=seed, window=window, lanes=None if lanes == 1 else lanes)

    @refusing_foreign_arguments
    def repeat(self, num_epochs: int | None = None) -> Dataset[T_co]:
        """The records again and again.

        Args:
            num_epochs: how often, 1 or more; None without end.
        """
        return self._then(self._form.repeated(num_epochs), "repeat", num_epochs)

    def seed(self, seed: int) -> Dataset[T_co]:
        """The seed of the steps that draw, and of a shuffle without one.

        Args:
            seed: int in [0, 2**64).
        """
        return self._then(self._form.with_seed(seed), "seed", seed)

    # --- which records ------------------------------------------------------------------------------------------------

    @refusing_foreign_arguments
    def take(self, count: int) -> Dataset[T_co]:
        """The first ones, of batches the first steps; of shuffled records those of epoch 0, in its order.

        Args:
            count: how many, 1 or more.
        """
        count = at_least("count", count, 1)
        return self._then(self._form.sliced("take", slice(count)), "take", count)

    @refusing_foreign_arguments
    def skip(self, count: int) -> Dataset[T_co]:
        """All but the first ones.

        Args:
            count: how many are left out, 0 or more.
        """
        count = at_least("count", count, 0)
        return self._then(self._form.sliced("skip", slice(count, None)), "skip", count)

    @refusing_foreign_arguments
    def shard(self, shard_index: int, shard_count: int) -> Dataset[T_co]:
        """Every `shard_count`-th record from `shard_index` on; the part of a process is `loader(shard_options=)`.

        Args:
            shard_index: int in [0, shard_count).
            shard_count: int >= 1.
        """
        count = at_least("shard_count", shard_count, 1, advice="write .shard(shard_index, shard_count)")
        first = at_least(
            "shard_index", shard_index, 0, below=count, advice="tf.data has the two the other way round"
        )
        form = self._form.sliced("shard", slice(first, None, count))
        return self._then(form, "shard", first, count)

    @refusing_foreign_arguments
    def select(self, record_keys: npt.ArrayLike | range) -> Dataset[T_co]:
        """Chosen records, in the order in which they are given.

        Args:
            record_keys: their places, (n,) ints.
        """
        return self._then(self._form.selected(record_keys), "select", record_keys)

    @refusing_foreign_arguments
    def cache(
        self, folder: str | os.PathLike[str] | None = None, *, limit: int | str | None = None
    ) -> Dataset[T_co]:
        """The records behind the maps so far, each made once and kept.

        Args:
            folder, limit: as lk.CachedDataSource has them.
        """
        form = self._form.cached(folder, limit)
        return self._then(form, "cache", folder, limit=limit)

    # --- several ------------------------------------------------------------------------------------------------------

    @_OfParts
    @refusing_foreign_arguments
    def mix(
        parts: Mapping[str, AnyPart],  # noqa: N805 - the same
        weights: StagedWeights | None = None,
        *,
        seed: int | None = None,
        order: Literal["even", "shuffled"] = "even",
        when_exhausted: Literal["stop", "drop"] | None = None,
        pattern: Sequence[str | int] | None = None,
        id_key: str | None = None,
        lanes: int = 1,
    ) -> Dataset[Any]:
        """Several chains as one, whose records come by weight: each in its own order.

        Args:
            parts: {name: chain}, each with its own shuffle and repeat. A shuffle without a seed has one that follows
                from the mixture's and the name.
            weights, seed, order, when_exhausted, pattern, id_key, lanes: as lk.mix has them.

        >>> import loaderkit as lk
        >>> web, code = lk.Dataset([1, 2, 3]).shuffle().repeat(), lk.Dataset([-1, -2]).repeat()
        >>> ds = lk.Dataset.mix({"web": web, "code": code}, {"web": 2, "code": 1}, seed=0).batch(6)
        >>> next(iter(ds)).tolist()
        [1, -1, 3, 2, -2, 2]
        """
        chains, joined = _joined("mix", parts)
        if not isinstance(chains, Mapping):
            raise TypeError(
                f".mix(): expected a mapping of name to chain, got a {type(parts).__name__}; write "
                'lk.Dataset.mix({"a": ..., "b": ...})'
            )
        options: dict[str, Any] = {"weights": weights, "when_exhausted": when_exhausted, "pattern": pattern}
        lanes = at_least("lanes", lanes, 1)
        form = joined.by_weight(seed=seed, id_key=id_key, lanes=lanes, order=order, **options)
        options |= {"seed": seed, "id_key": id_key, "order": None if order == "even" else order}
        return _made(form, called("lk.Dataset.mix", chains, **options, lanes=None if lanes == 1 else lanes))

    @_OfParts
    @refusing_foreign_arguments
    def interleave(
        parts: Sequence[AnyPart] | Mapping[str, AnyPart],  # noqa: N805
        *,
        cycle_length: int | None = None,
        block_length: int = 1,
        num_epochs: int | None = None,
        seed: int | None = None,
    ) -> Dataset[Any]:
        """The records of several chains in turn, as tf.data's `interleave`.

        Args:
            parts: chains, or {name: chain}.
            cycle_length, block_length, num_epochs, seed: as lk.interleave has them.

        >>> import loaderkit as lk
        >>> "".join(lk.Dataset.interleave([["a", "b", "c"], ["D"], ["e", "f"]], cycle_length=2, num_epochs=1))
        'aDbcef'
        """
        chains, joined = _joined("interleave", parts)
        options = {"cycle_length": cycle_length, "block_length": block_length, "num_epochs": num_epochs}
        form = joined.interleaved(seed=seed, **options)
        options |= {"block_length": None if block_length == 1 else block_length, "seed": seed}
        return _made(form, called("lk.Dataset.interleave", chains, **options))

    @_OfParts
    @refusing_foreign_arguments
    def concat(
        parts: Sequence[Dataset[U]] | Mapping[str, Dataset[U]],  # noqa: N805
    ) -> Dataset[U]:
        """The records of several chains, one behind the other.

        Args:
            parts: chains, or {name: chain}.

        >>> import loaderkit as lk
        >>> list(lk.Dataset.concat([lk.Dataset([1, 2]).map(float), lk.Dataset([3])]))
        [1.0, 2.0, 3]
        """
        chains, joined = _joined("concat", parts)
        return _made(joined.concatenated(), called("lk.Dataset.concat", chains))

    @_OfParts
    @refusing_foreign_arguments
    def zip(
        parts: Sequence[AnyPart] | Mapping[str, AnyPart],  # noqa: N805
        *,
        strict: bool = True,
    ) -> Dataset[Any]:
        """The records of several chains side by side.

        Args:
            parts: chains, of which a record is a tuple; or {name: chain}, of which it is a dict.
            strict: whether lengths that differ are a ValueError; False takes the first records of the longer ones.

        >>> import loaderkit as lk
        >>> list(lk.Dataset.zip([[1, 2], lk.Dataset([3, 4]).map(float)]))
        [(1, 3.0), (2, 4.0)]
        """
        chains, joined = _joined("zip", parts)
        form = joined.zipped(strict=strict)
        return _made(form, called("lk.Dataset.zip", chains, strict=None if strict else False))

    # --- what it gives ------------------------------------------------------------------------------------------------

    @refusing_foreign_arguments
    def loader(self, **options: Unpack[LoaderOptions]) -> DataLoader[T_co]:
        """A DataLoader of the chain.

        Args:
            options: the arguments of lk.DataLoader, without data_source, sampler and operations.

        ValueError where a step that draws has no seed, and where a source has another length than when the chain was
        written.

        >>> import loaderkit as lk
        >>> with lk.Dataset([1, 2, 3]).repeat().batch(2).loader(num_steps=2) as loader:
        ...     [batch.tolist() for batch in loader]
        [[1, 2], [3, 1]]
        """
        form, given = self._form, dict[str, Any](options)
        form.check_ready()
        for name in {"data_source", "sampler", "operations"} & {*given}:
            raise TypeError(
                f"loader(): expected the chain to say {name}, got it as an argument; write it as a step, or "
                "lk.DataLoader(data_source=source, sampler=sampler, operations=[...])"
            )
        refuse_foreign_keywords(
            "Dataset.loader", {name: given[name] for name in given if name not in _OPTIONS}
        )
        if form.num_steps is not None:
            if given.get("num_steps") is not None:
                raise TypeError(
                    f"loader(): expected no num_steps, as the chain has .take({form.num_steps}), got "
                    f"{given['num_steps']}; give one of them"
                )
            given["num_steps"] = form.num_steps
        return DataLoader(
            data_source=form.source,
            sampler=form.sampler(batch=form.stride),
            operations=form.operations,
            **given,
        )

    def __iter__(self) -> Iterator[T_co]:
        loader = self.loader()
        if self._iterated and repeats_order(settings_of(loader)):
            warnings.warn(
                "iterating again repeats the same shuffled order, for the chain has one epoch; write .repeat(), or "
                "ds.loader().epoch(e) for the order of epoch e",
                stacklevel=2,
            )
        object.__setattr__(self, "_iterated", True)
        return iter(loader)

    def __add__(self, other: object) -> Never:
        raise TypeError("ds + ds: expected lk.Dataset.concat([ds, other]), which is one behind the other")

    def __len__(self) -> int:
        return len(self.loader(agree=False))

    def __length_hint__(self) -> int:
        return self.loader(agree=False).__length_hint__()

    def __bool__(self) -> bool:
        return True

    @property
    def element_spec(self) -> Any:
        """The first element's tree with an ArraySpec for each array and number, and the type for other leaves.

        >>> import loaderkit as lk
        >>> lk.Dataset([{"x": 1.5}, {"x": 2.5}]).batch(2).element_spec
        {'x': ArraySpec(shape=(2,), dtype=dtype('float64'))}
        """
        return self.loader(agree=False).element_spec

    @overload
    def __getitem__(self, step: int) -> T_co: ...
    @overload
    def __getitem__(self, step: slice) -> Dataset[T_co]: ...
    def __getitem__(self, step: int | slice) -> T_co | Dataset[T_co]:
        if isinstance(step, slice):
            first = step.start in (None, 0) and step.step in (None, 1) and step.stop is not None
            if first and step.stop > 0 and self._form.zone == "elements":
                return self.take(step.stop)
            shown = ":".join("" if part is None else str(part) for part in (step.start, step.stop))
            text = f"[{shown}{'' if step.step is None else f':{step.step}'}]"
            return _made(self._form.sliced("slice", step), text, self._lines)
        try:
            place = to_index(step)
        except TypeError:
            raise TypeError(
                f"ds[i]: expected an int or a slice, got {type(step).__name__} {step!r:.60}; write .select(places), "
                "with np.flatnonzero(mask) for a mask"
            ) from None
        with self.loader(agree=False) as loader, iter(loader) as it:
            if self._form.changes_rows:
                raise TypeError(
                    "ds[i]: expected steps that keep the number of elements, so that step i is known, got "
                    f"{self!r}; write it before them, or take from iter(ds)"
                )
            count = len(loader) if place < 0 else 0
            if place + count < 0:
                raise IndexError(f"ds[i]: expected i from {-count} on, got {place}")
            try:
                it.seek(place + count)
                return next(it)
            except (IndexError, StopIteration):
                raise IndexError(f"ds[i]: expected i below {len(loader)}, the steps, got {place}") from None

    def summary(self) -> str:
        """A line for each step: its zone, how many elements there are, how many epochs of how many records.

        >>> import loaderkit as lk
        >>> print(lk.Dataset([1, 2, 3]).repeat().batch(2).summary())
        step                   zone      length   epochs
        lk.Dataset([1, 2, 3])  records   3
        .repeat()              stream    endless  endless of 3
        .batch(2)              elements  endless  endless of 3
        """
        return table_of(self._lines)

    def __repr__(self) -> str:
        return "".join(text for text, _ in self._lines)

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_step(self, name)


def _made(form: Form, text: str, before: tuple[tuple[str, Form], ...] = ()) -> Dataset[Any]:
    made = Dataset.__new__(Dataset)
    made._begin(form, text, before)
    return made


def _joined(step: str, parts: Any) -> tuple[Any, JoinedParts]:
    """The parts as chains, in the container that they were given in, and joined."""
    if isinstance(parts, Dataset | str | bytes) or not isinstance(parts, Iterable):
        raise TypeError(
            f".{step}(): expected a sequence of chains, or a mapping of name to chain, got {parts!r:.80}; write "
            f"lk.Dataset.{step}([...])"
        )
    names = tuple(parts) if isinstance(parts, Mapping) else None
    chains = [each if isinstance(each, Dataset) else Dataset(each) for each in _values(parts)]
    if not chains:
        raise ValueError(f".{step}(): expected one part or more, got none")
    for name in names or ():
        if not isinstance(name, str):
            raise TypeError(f".{step}(): expected names that are texts, got {name!r:.80}")
    joined = JoinedParts(step, [each._form for each in chains], names, [*map(repr, chains)])
    return chains if names is None else dict(zip(names, chains, strict=True)), joined


def _values(parts: Any) -> Iterable[Any]:
    return parts.values() if isinstance(parts, Mapping) else parts
