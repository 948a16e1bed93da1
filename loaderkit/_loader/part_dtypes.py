"""Whether the parts of a stream give elements of one structure and dtypes: else a batch's are a matter of chance.

Compared is what enters the first Batch. A part's element is the first that the stream makes of it, made in this process
before the first step; those of further parts when the stream comes to them.
"""

import contextlib
import warnings
from bisect import bisect_left
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from loaderkit._base.structure import Structure
from loaderkit._base.tree import flatten, paths
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.worker.reading import RecordReader
from loaderkit.errors import BatchError
from loaderkit.transforms.base import Batch
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun

from .parts import Keys, Parts, parts_of_stream
from .program import program_of
from .settings import LoaderSettings

_AT_START = 64  # elements that are made before the first step
_BLOCK = 8192  # indices looked through at a time for parts
_TEXTS = (type(np.dtype("U")), type(np.dtype("S")))  # of any width
_MOST_TRIED = 4096  # records of a step, for the one whose dtype differs


class Spec(NamedTuple):
    """What an element is but for shapes: {path of a leaf: dtype or type}, sorted, and the containers around them."""

    leaves: tuple[tuple[str, str], ...]
    structure: Structure


class PartDtypes:
    """Compares the elements of a stream's parts, once for a loader and all loaders of its epochs.

    Args:
        settings: the loader's.

    >>> import loaderkit as lk
    >>> source = lk.ConcatDataSource({"a": [np.float32(1)], "b": [np.float64(1)]})
    >>> try:
    ...     next(iter(lk.load(source, batch_size=2)))
    ... except lk.BatchError as error:
    ...     print(str(error).partition(" (")[0])
    parts 'a' and 'b': expected elements of one dtype, got float32 and float64
    """

    def __init__(self, settings: LoaderSettings) -> None:
        self._settings = settings
        self._scanned: int | None = None  # indices before this one were looked through
        self._coming: list[tuple[int, int]] = []  # index and number of parts that were found and not made
        self._left: set[int] = set()  # parts that weren't found
        self._specs: dict[Spec, tuple[str, int]] = {}  # part and record key that each was first seen of
        self._batch: Spec | None = None
        self._dtypes: Any = None  # of that batch, to compare fast
        self._strict: bool | None = None  # not known before the first stream
        self._told = False

    @cached_property
    def _parts(self) -> Parts | None:
        batch = next((op for op in self._settings.operations if isinstance(op, Batch)), None)
        if batch is None or batch.batch_fn is not None:
            return None
        return parts_of_stream(self._settings.source, self._settings.sampler)

    @property
    def apply(self) -> bool:
        """Whether there are parts that are batched."""
        return self._parts is not None

    @cached_property
    def _work(self) -> tuple[RecordReader, Pipeline]:
        program = program_of(self._settings, files={})
        reader = RecordReader(program.source, program.read_options, copy=True, ahead=None)
        return reader, Pipeline(program.operations, program.seed)

    def fields(self, plan: SeekablePlan) -> dict[str, str]:
        """What the processes that load together compare of it, {field: text}."""
        self._look(plan, plan.start, plan.start)
        return {"elements": ", ".join(sorted(map(str, self._specs)))} if self._specs else {}

    def before_stream(self, plan: SeekablePlan, position: Position) -> None:
        """Compares the first parts: BatchError where they differ, in a run that was restored a warning."""
        self._strict = position.step == 0 if self._strict is None else self._strict
        index = plan.index_of(position)
        if self._scanned is not None:  # by other weights perhaps, or from further on
            self._left |= {part for _, part in self._coming}
            self._coming, self._scanned = [], index
        self._look(plan, index, index)
        self._compare()

    def after_step(self, plan: SeekablePlan, before: Position, after: Position, batch: Any) -> None:
        """Compares the parts that the stream came to, and warns once of a batch with other dtypes than the first."""
        if self._left or self._coming:
            self._look(plan, plan.index_of(before), plan.index_of(after))
            self._compare()
        dtypes = _dtypes_of(batch)
        if dtypes == self._dtypes:  # for nearly all: this is done for each batch
            return
        spec = _spec_of(batch)
        if self._batch is None:
            self._batch, self._dtypes = spec, dtypes
        elif spec != self._batch and not self._told:
            self._told = True
            warnings.warn(self._why(plan, before, after, spec), stacklevel=2)

    def _look(self, plan: SeekablePlan, first: int, end: int) -> None:
        """Makes the elements of parts that begin before an index; at the start those of the first block."""
        if self._parts is None:
            return
        most = None
        if self._scanned is None:
            self._scanned, end, most = first, first + 1, _AT_START
            self._left = set(range(len(self._parts.names)))
        self._scanned = max(self._scanned, first)
        while self._scanned < end and self._left:
            self._scan(plan, self._scanned)
        most = bisect_left(self._coming, (end,)) if most is None else most
        now = self._coming[:most]
        if not now:
            return
        del self._coming[:most]
        indices, parts = np.array(now, np.int64).T
        keys, _ = plan.record_keys(plan.first_position(), indices)
        for key, part, spec in zip(keys.tolist(), parts.tolist(), self._made(indices, keys), strict=True):
            if spec is not None:
                self._specs.setdefault(spec, (self._parts.names[part], key))

    def _scan(self, plan: SeekablePlan, first: int) -> None:
        assert self._parts is not None
        self._scanned = first + _BLOCK
        indices = np.arange(first, self._scanned if plan.stop is None else min(self._scanned, plan.stop))
        try:
            found = self._parts.met(plan.sampler, indices, self._left)
        except Exception:  # noqa: BLE001 - a user's sampler may raise anything for indices far ahead
            self._left.clear()
            return
        self._coming += [(first + place, part) for place, part in found]
        self._left -= {part for _, part in found}
        if plan.stop is not None and self._scanned >= plan.stop:
            self._left.clear()

    def _made(self, indices: Keys, keys: Keys) -> list[Spec | None]:
        """What enters the first Batch of some records; None for a bad or filtered one."""
        reader, pipeline = self._work
        specs: list[Spec | None] = []
        while (at := len(specs)) < len(keys):
            records, failure = reader.read(0, keys[at:], indices[at:])
            pairs = zip(records, indices[at:].tolist(), strict=False)
            specs += [_through(pipeline, record, index) for record, index in pairs]
            specs += [None] * (failure is not None)
        return specs

    def _compare(self) -> None:
        if len(self._specs) < 2:
            return
        (one, (name, key)), (other, (second, at)), *_ = self._specs.items()
        text = f"parts {name!r} and {second!r}: expected elements of one {_differ(one, other, key, at)}"
        if self._strict:
            raise BatchError(text)
        if not self._told:
            self._told = True
            warnings.warn(text, stacklevel=2)

    def _why(self, plan: SeekablePlan, before: Position, after: Position, spec: Spec) -> str:
        assert self._batch is not None
        first = plan.index_of(before)
        indices = np.arange(first, max(plan.index_of(after), first + 1))[:_MOST_TRIED]
        keys, _ = plan.record_keys(before, indices)
        usual = next(iter(self._specs), None)
        for at, made in zip(keys.tolist(), self._made(indices, keys), strict=True):
            if usual is not None and made is not None and made != usual:
                key = self._specs[usual][1]
                return f"step {before.step}: expected elements of one {_differ(usual, made, key, at)}"
        what, _ = _texts(self._batch, spec)
        return f"step {before.step}: expected batches of one {what}; make elements equal in a Map before the Batch"


def _through(pipeline: Pipeline, record: Any, index: int) -> Spec | None:
    run = ElementRun([record], [(index,)], [(index + 1,)])
    for level in pipeline.levels:
        failure = None
        if level.window is not None:
            run, failure = level.window.windows(run, (), partial=True)
        elif level.batch is not None:
            break
        if failure is None:
            run, failure = level.work(run, ())
        if failure is not None or not run.values:
            return None
    return _spec_of(run.values[0])


def _spec_of(element: Any) -> Spec:
    leaves, structure = flatten(element)
    return Spec(tuple(sorted(zip(paths(structure), map(_kind_of, leaves), strict=True))), structure)


def _dtypes_of(batch: Any) -> Any:
    """As much of a batch's `_spec_of` as is found fast."""
    dtype = getattr(batch, "dtype", None)
    if dtype is not None:
        return type(dtype) if isinstance(dtype, _TEXTS) else dtype
    kind = type(batch)
    if kind is dict:
        return [_dtypes_of(leaf) for leaf in batch.values()]
    return [_dtypes_of(leaf) for leaf in batch] if kind is tuple or kind is list else _spec_of(batch)


def _kind_of(leaf: Any) -> str:
    if isinstance(leaf, str | bytes):
        return "str" if isinstance(leaf, str) else "bytes"
    if isinstance(leaf, np.ndarray | np.generic | bool | int | float | complex):
        dtype = np.asarray(leaf).dtype.newbyteorder("=")
        return dtype.type.__name__ if dtype.itemsize == 0 or dtype.kind in "SU" else str(dtype)
    return f"{type(leaf).__name__} {getattr(leaf, 'dtype', '')}".rstrip()


def _texts(one: Spec, other: Spec) -> tuple[str, str]:
    """What differs between two elements, and the cast for it."""
    if one.structure != other.structure:
        return f"structure, got {one.structure} and {other.structure}", "a Map that makes them equal"
    path, mine, theirs = next(
        (p, a, b) for (p, a), (_, b) in zip(one.leaves, other.leaves, strict=True) if a != b
    )
    where = f" in leaf {path}" if path else ""
    dtype = None
    with contextlib.suppress(TypeError):
        kinds = np.dtype(mine), np.dtype(theirs)
        if (result := np.result_type(*kinds)).kind in (
            kinds[0].kind,
            kinds[1].kind,
        ):  # no floats for integers
            dtype = str(result)
    if dtype is None:
        cast = "a Map that makes them equal"
    else:
        cast = f"lk.Map(lambda element: np.asarray(element, {dtype!r}))"
        if path:
            key = path[1:-1]
            cast = f"lk.Map(lambda element: {{**element, {key}: np.asarray(element{path}, {dtype!r})}})"
            cast = cast if one.structure.flat else f"a Map with np.asarray(element{path}, {dtype!r})"
    return f"dtype{where}, got {mine} and {theirs}", cast


def _differ(one: Spec, other: Spec, key: int, at: int) -> str:
    what, cast = _texts(one, other)
    return f"{what} (record keys {key} and {at}), or a batch's depends on its records; put before the Batch {cast}"
