"""Whether the parts of a stream give elements of one structure and dtypes: else a batch's are a matter of chance.

Compared is what enters the first Batch. A part's element is the first that the stream makes of it, made in this process
before the first step; those of further parts when the stream comes to them.
"""

import threading
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from loaderkit._base.structure import Structure
from loaderkit._base.tree import flatten, paths
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.worker.reading import RecordReader
from loaderkit.errors import BatchError
from loaderkit.samplers.protocol import record_keys_of, seed_of
from loaderkit.transforms.base import Batch, Transformation
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun

from .parts import BLOCK, Keys, Parts, parts_of_stream
from .settings import LoaderSettings

_AT_START = 64  # elements that are made before the first step
_MOST_TRIED = 4096  # records of a step, for the one whose dtype differs


class Spec(NamedTuple):
    """What an element is but for shapes: its structure, and of each leaf the dtype, or the name of its type."""

    structure: Structure
    kinds: tuple[np.dtype[Any] | str, ...]


class PartDtypes:
    """Compares the elements of a stream's parts, once for a loader and all loaders of its epochs.

    Args:
        settings: the loader's.
        parts: of its stream.
        operations: before the first Batch.

    >>> import loaderkit as lk
    >>> source = lk.ConcatDataSource({"a": [np.float32(1)], "b": [np.float64(1)]})
    >>> try:
    ...     next(iter(lk.load(source, batch_size=2)))
    ... except lk.errors.BatchError as error:
    ...     print(str(error).partition(" (")[0])
    parts 'a' and 'b': expected elements of one dtype, got float32 and float64
    """

    def __init__(
        self, settings: LoaderSettings, parts: Parts, operations: tuple[Transformation, ...]
    ) -> None:
        self._parts = parts
        self._reader = RecordReader(settings.source, settings.read_options, copy=True, ahead=None, ends=True)
        self._runners = Pipeline(operations, seed_of(settings.sampler)).runners
        self._lock = threading.RLock()  # of the loaders of single epochs, several may be iterated at once
        # The first records of the parts that weren't made, as `Parts.first_records` gives them, and the next of them.
        self._coming: Iterator[tuple[int, int | None]] = iter(())
        self._next: tuple[int, int | None] | None = None
        self._made: set[int] = set()  # parts
        # The specs that were seen, each with the part and the record key that it was first seen of.
        self._found: list[tuple[Spec, str, int]] = []
        self._batch: Spec | None = None  # the first one's
        self._dtypes: Any = None  # of that batch, to compare fast
        self._strict: bool | None = None  # not known before the first stream
        self._told = False

    def fields(self, plan: SeekablePlan) -> dict[str, str]:
        """What the processes that load together compare of it, {field: text}."""
        with self._lock:
            self._begin(plan, plan.start)
            found = sorted(
                f"{spec.structure} of {', '.join(map(str, spec.kinds))}" for spec, *_ in self._found
            )
        return {"elements": "; ".join(found)} if found else {}

    def before_stream(self, plan: SeekablePlan, position: Position) -> None:
        """Compares the first parts: BatchError where they differ, in a run that was restored a warning."""
        with self._lock:
            self._strict = position.step == 0 if self._strict is None else self._strict
            self._begin(plan, plan.index_of(position))
            self._compare()

    def after_step(self, plan: SeekablePlan, before: Position, after: Position, batch: Any) -> None:
        """Compares the parts that the stream came to, and warns once of a batch with other dtypes than the first."""
        with self._lock:
            if self._next is not None and self._next[0] < (end := plan.index_of(after)):
                self._make(plan, end)
                self._compare()
            dtypes = _dtypes_of(batch)
            if dtypes == self._dtypes:  # for nearly all: this is done for each batch
                return
            spec = _spec_of(batch)
            if self._batch is None:
                self._batch, self._dtypes = spec, dtypes
            elif not self._told and (differs := _difference(self._batch, spec)):
                self._warn(self._why(plan, before, after, differs))

    def _begin(self, plan: SeekablePlan, index: int) -> None:
        left = set(range(len(self._parts.names))) - self._made
        self._next, self._coming = (index, None), self._parts.first_records(plan, index, left)
        if not self._made:
            self._make(plan, index + BLOCK, most=_AT_START)

    def _make(self, plan: SeekablePlan, end: int, most: int | None = None) -> None:
        """Makes the elements of parts that begin before an index."""
        now: list[tuple[int, int]] = []
        while self._next is not None and self._next[0] < end and len(now) != most:
            index, part = self._next
            now += [] if part is None else [(index, part)]
            self._next = next(self._coming, None)
        if not now:
            return
        indices, parts = np.array(now, np.int64).T
        self._made.update(parts.tolist())
        keys = record_keys_of(plan.sampler, indices)
        for key, part, spec in zip(keys.tolist(), parts.tolist(), self._specs(indices, keys), strict=True):
            if spec is not None and all(_difference(known, spec) for known, *_ in self._found):
                self._found.append((spec, self._parts.names[part], key))

    def _specs(self, indices: Keys, keys: Keys) -> Iterator[Spec | None]:
        """What enters the first Batch of some records; None for a bad or filtered one."""
        done = 0
        while done < len(keys):
            read = self._reader.read(0, keys[done:], indices[done:])
            count = len(read.values)
            yield from (self._through(read.part(place, place + 1)) for place in range(count))
            if read.failure is not None:
                yield None
            done += count + (read.failure is not None)

    def _through(self, run: ElementRun) -> Spec | None:
        """What is made of one record."""
        for runner in self._runners:
            run = runner.work(run, ()) if runner.level.window is None else runner.windowed(run, ())
            if run.failure is not None or not run.values:
                return None
        return _spec_of(run.values[0])

    def _compare(self) -> None:
        if len(self._found) < 2:
            return
        (one, name, key), (other, second, at), *_ = self._found
        text = f"parts {name!r} and {second!r}: expected elements of one {_difference(one, other, key, at)}"
        if self._strict:
            raise BatchError(text)
        if not self._told:
            self._warn(text)

    def _why(self, plan: SeekablePlan, before: Position, after: Position, differs: str) -> str:
        first = plan.index_of(before)
        indices = np.arange(first, max(plan.index_of(after), first + 1))[:_MOST_TRIED]
        keys, _ = plan.record_keys(before, indices)
        for usual, _, key in self._found[:1]:
            for at, made in zip(keys.tolist(), self._specs(indices, keys), strict=True):
                if made is not None and (found := _difference(usual, made, key, at)):
                    return f"step {before.step}: expected elements of one {found}"
        return f"step {before.step}: expected batches of one {differs}"

    def _warn(self, text: str) -> None:
        self._told = True
        warnings.warn(text, stacklevel=3)


def part_dtypes_of(settings: LoaderSettings) -> PartDtypes | None:
    """What compares the parts of a loader's stream; None where it has none, or they aren't batched by default."""
    for place, op in enumerate(settings.operations):
        if isinstance(op, Batch):
            parts = None if op.batch_fn is not None else parts_of_stream(settings.source, settings.sampler)
            return None if parts is None else PartDtypes(settings, parts, settings.operations[:place])
    return None


def _spec_of(element: Any) -> Spec:
    leaves, structure = flatten(element)
    return Spec(structure, tuple(map(_kind_of, leaves)))


def _dtypes_of(batch: Any) -> Any:
    """As much of a batch's `_spec_of` as is found fast."""
    kind = type(batch)
    if kind is np.ndarray:
        return _native(batch.dtype)
    if kind is dict or kind is tuple or kind is list:
        children = batch.values() if kind is dict else batch
        # A call less for each array than by `_dtypes_of` alone.
        return [_native(one.dtype) if type(one) is np.ndarray else _dtypes_of(one) for one in children]
    return _spec_of(batch)


def _kind_of(leaf: Any) -> np.dtype[Any] | str:
    if isinstance(leaf, str | bytes):
        return "str" if isinstance(leaf, str) else "bytes"
    if isinstance(leaf, bool | int | float | complex):
        leaf = np.asarray(leaf)
    if isinstance(leaf, np.ndarray | np.generic):
        return _native(leaf.dtype)
    return f"{type(leaf).__name__} {getattr(leaf, 'dtype', '')}".rstrip()


@lru_cache(maxsize=256)
def _native(dtype: np.dtype[Any]) -> np.dtype[Any] | str:
    """Without byte order, and for texts without their length."""
    return dtype.type.__name__ if dtype.kind in "SU" else dtype.newbyteorder("=")


def _difference(one: Spec, other: Spec, key: int | None = None, at: int | None = None) -> str | None:
    """What differs between two elements, and the cast for it; None if they are alike. key, at: their record keys."""
    if one == other:
        return None
    cast = "a Map that makes them equal"
    what = f"structure, got {one.structure} and {other.structure}"
    if one.structure == other.structure:
        theirs = dict(zip(paths(other.structure), other.kinds, strict=True))
        leaves = zip(paths(one.structure), one.kinds, strict=True)
        leaf = next(((path, kind, theirs[path]) for path, kind in leaves if kind != theirs[path]), None)
        if leaf is None:  # their keys have another order
            return None
        path, mine, his = leaf
        what = f"dtype{f' in leaf {path}' if path else ''}, got {mine} and {his}"
        cast = _cast(path, mine, his, flat=one.structure.flat) or cast
    records = "" if key is None else f" (record keys {key} and {at}), or a batch's depends on its records"
    return f"{what}{records}; put before the Batch {cast}"


def _cast(path: str, one: np.dtype[Any] | str, other: np.dtype[Any] | str, *, flat: bool) -> str | None:
    if isinstance(one, str) or isinstance(other, str):
        return None
    try:
        dtype = np.result_type(one, other)
    except TypeError:
        return None
    if dtype.kind not in (one.kind, other.kind):  # no floats for integers
        return None
    made = f"np.asarray(element{path}, {str(dtype)!r})"
    if path and not flat:
        return f"a Map with {made}"
    return f"lk.Map(lambda element: {f'{{**element, {path[1:-1]}: {made}}}' if path else made})"
