"""A stage: one operation between two Batches, applied to a run of elements at once.

A stage that fails gives the elements that it made before, with the failure behind them; it doesn't use the elements
after the failed one. One that doesn't fail hands on the failure behind its elements.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.facts import Cursor, Failure
from loaderkit._order.rng import RecordRng, child_of
from loaderkit.errors import NoResultError

from .base import (
    Filter,
    FlatMap,
    Map,
    MapWithIndex,
    RandomMap,
    Transformation,
    Window,
    draws,
    function_of,
    group_of,
    seeds,
)
from .run import ElementRun
from .seeding import SeededCall
from .stack import Block


class RaisedBy(Exception):  # noqa: N818 - carries an error and its operation; isn't an error itself
    """Raised by an operation that stands for several of the user's: the error, and which of them raised it.

    Args:
        label: of the user's operation, as in NamedOperation.
        error: the exception that it raised.
    """

    def __init__(self, label: str, error: Exception) -> None:
        super().__init__(label, error)
        self.label = label
        self.error = error


def _failure(label: str, error: Exception, begin: Cursor) -> Failure:
    if isinstance(error, RaisedBy):
        label, error = error.label, error.error
    return Failure(error, label, (begin[0],))


def no_result(label: str, expected: str) -> NoResultError:
    """The error of an operation that gave None.

    >>> no_result("operations[0] Filter(even)", "True or False")
    NoResultError('operations[0] Filter(even): expected True or False, got None; does the function lack a return?')
    """
    return NoResultError(f"{label}: expected {expected}, got None; does the function lack a return?")


def _gather(
    call: Callable[..., Any], out: list[Any], none: Callable[[], Exception] | None, *arguments: Any
) -> Exception | None:
    """Appends what the calls give until one fails, whose error is returned.

    Args:
        none: makes the error of a None, if it is one.
        arguments: of the calls; the first of them says how many there are.
    """
    try:
        if len(arguments) > 1:
            for made in map(call, *arguments):
                if made is None and none is not None:
                    return none()
                out.append(made)
        else:  # what map gains over a call in a loop, a loop over its results to find None would take again
            for value in arguments[0]:
                if (made := call(value)) is None and none is not None:
                    return none()
                out.append(made)
    except StopIteration:
        pass  # as map's, which ends without an error
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        del out[len(arguments[0]) - 1 :]  # a signal's handler raised behind the last call: its element failed
        return error
    if len(out) != len(arguments[0]):
        return stopped_iteration()
    return None


def stopped_iteration() -> RuntimeError:
    """The error in place of a function's StopIteration.

    >>> stopped_iteration()
    RuntimeError('the function raised StopIteration, which would end the loop that called it')
    """
    return RuntimeError("the function raised StopIteration, which would end the loop that called it")


def _elements_of(label: str, call: Callable[..., Iterable[Any]], *arguments: Any) -> list[Any]:
    """What a function of several elements made: NoResultError for None, RuntimeError for its StopIteration."""
    try:
        found = call(*arguments)
        if found is None:
            raise no_result(label, "an iterable of elements")
        return list(found)
    except StopIteration as stop:
        raise RuntimeError("the function raised StopIteration") from stop


@dataclass(frozen=True, slots=True)
class MapStage:
    label: str
    call: Callable[..., Any]
    none: Callable[[], Exception] | None = None
    with_index: bool = False
    rng: RecordRng | None = None  # of a function that draws
    around: Callable[[], AbstractContextManager[None]] = nullcontext  # of the calls of a run
    by_column: Callable[[list[Any]], Block | None] | None = (
        None  # as of a Map, where a Block may come of a run
    )

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        if self.by_column is not None and run.failure is None:
            block = self.by_column(run.values)
            if block is not None:
                return ElementRun(block, run.begins, run.ends)
        values: list[Any] = []
        if self.with_index:
            error = _gather(self.call, values, self.none, [begin[0] for begin in run.begins], run.values)
        elif self.rng is not None:
            with self.around():
                error = _gather(self.call, values, self.none, run.values, _generators(self.rng, run.begins))
        else:
            error = _gather(self.call, values, self.none, run.values)
        if error is not None:
            return run.cut(values, _failure(self.label, error, run.begins[len(values)]))
        return ElementRun(values, run.begins, run.ends, run.failure)


@dataclass(frozen=True, slots=True)
class MixStage:
    """An operation on batches that draws by their rows: it gets a function of a row's number for a generator."""

    label: str
    call: Callable[..., Any]
    none: Callable[[], Exception] | None
    rng: RecordRng

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        assert run.rows is not None
        values: list[Any] = []
        drawn = [partial(self._at, rows) for rows in run.rows]
        error = _gather(self.call, values, self.none, run.values, drawn)
        if error is not None:
            return run.cut(values, _failure(self.label, error, run.begins[len(values)]))
        return ElementRun(values, run.begins, run.ends, run.failure, run.rows)

    def _at(self, rows: Sequence[Cursor], row: int) -> "np.random.Generator":
        return self.rng.at(rows[row][0], child_of(rows[row][1:]))


def _generators(rng: RecordRng, begins: Sequence[Cursor]) -> "Iterator[np.random.Generator]":
    at = rng.at
    for begin in begins:
        yield at(begin[0], child_of(begin[1:])) if len(begin) > 1 else at(begin[0])


@dataclass(frozen=True, slots=True)
class _FilterStage:
    label: str
    call: Callable[[Any], Any]
    none: Callable[[], Exception] | None

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        keep: list[Any] = []
        error = _gather(self.call, keep, self.none, run.values)
        # bool() here, where the record is known: it raises for an array of several values, which has no truth value.
        for place, answer in enumerate(keep):
            try:
                keep[place] = bool(answer)
            except Exception as not_a_bool:  # noqa: BLE001 - __bool__ may raise anything
                error = not_a_bool
                del keep[place:]
                break
        return ElementRun(
            list(compress(run.values, keep)),
            list(compress(run.begins, keep)),
            None if run.ends is None else list(compress(run.ends, keep)),
            run.failure if error is None else _failure(self.label, error, run.begins[len(keep)]),
        )


@dataclass(frozen=True, slots=True)
class _FlatMapStage:
    label: str
    call: Callable[[Any], Iterable[Any]]
    depth: int  # FlatMaps and Windows passed before this one
    max_fan_out: int | None

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        made = _Children(start, self.depth)
        assert run.ends is not None
        for value, begin, end in zip(run.values, run.begins, run.ends, strict=True):
            try:
                children = _elements_of(self.label, self.call, value)
                if self.max_fan_out is not None and len(children) > self.max_fan_out:
                    raise ValueError(
                        f"{self.label}: expected at most max_fan_out={self.max_fan_out} elements for one, "
                        f"got {len(children)}"
                    )
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                return made.run(_failure(self.label, error, begin))
            made.add(children, begin, end)
        return made.run(run.failure)


class _Children:
    """The children of parents at one depth, numbered; without those before the cursor where the stream was entered."""

    def __init__(self, start: Cursor, depth: int) -> None:
        self._parent = start[: depth + 1]  # in which the stream was entered
        self._first = start[depth + 1] if len(start) > depth + 1 else 0
        self._values: list[Any] = []
        self._begins: list[Cursor] = []
        self._ends: list[Cursor] = []

    def add(self, children: list[Any], begin: Cursor, end: Cursor) -> None:
        count, first = len(children), self._first if begin == self._parent else 0
        self._values += children[first:]
        self._begins += [(*begin, k) for k in range(first, count)]
        self._ends += [(*begin, k + 1) for k in range(first, count - 1)]
        if count > first:
            self._ends.append(end)

    def run(self, failure: Failure | None) -> ElementRun:
        return ElementRun(self._values, self._begins, self._ends, failure)


@dataclass(frozen=True, slots=True)
class WindowStage:
    """A Window: makes the elements of one window after the other.

    label: for errors. call: the user's function. size: elements of a window. depth: ordinals of an element before it.
    rng: of a Window that draws.
    """

    label: str
    call: Callable[..., Iterable[Any]]
    size: int
    depth: int
    rng: RecordRng | None

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        """What the function makes of the windows of a run, which begins with one.

        A last window has fewer elements only where no failure is behind them; else it is left out.
        """
        made = _Children(start, self.depth)
        assert run.ends is not None
        count = len(run.values) if run.failure is None else len(run.values) // self.size * self.size
        for low in range(0, count, self.size):
            high = min(low + self.size, count)
            begin = run.begins[low]
            try:
                drawn = () if self.rng is None else (self.rng.at(begin[0], child_of(begin[1:])),)
                children = _elements_of(self.label, self.call, run.values[low:high], *drawn)
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                return made.run(Failure(error, self.label, tuple(each[0] for each in run.begins[low:high])))
            made.add(children, begin, run.ends[high - 1])
        return made.run(run.failure)


Stage = MapStage | MixStage | _FilterStage | _FlatMapStage


def stage_of(
    op: Transformation, label: str, seed: int | None, ordinal: int, depth: int
) -> Stage | WindowStage:
    """The stage of an operation other than a Batch.

    Args:
        op: the operation.
        label: its name in errors.
        seed: the sampler's, for a random operation.
        ordinal: its number among the random operations, from 0.
        depth: number of FlatMaps and Windows before it.
    """
    expected = "True or False" if isinstance(op, Filter) else "the new element"
    none = None if op._may_give_none else partial(no_result, label, expected)
    call = function_of(op)
    rng = None
    if draws(op):
        assert seed is not None
        rng = RecordRng(seed, ordinal)
    match op:
        case RandomMap() if group_of(op):
            assert rng is not None
            return MixStage(label, call, none, rng)
        case Map() if seeds(op):
            seeded = SeededCall(call)
            return MapStage(label, seeded, none, rng=rng, around=seeded.kept)
        case Map() | RandomMap():
            return MapStage(label, call, none, rng=rng)
        case MapWithIndex():
            return MapStage(label, call, none, with_index=True)
        case Filter():
            return _FilterStage(label, call, none)
        case FlatMap():
            return _FlatMapStage(label, call, depth, op.max_fan_out)
        case Window():
            return WindowStage(label, call, op.size, depth, rng)
    raise TypeError(f"op: expected an operation other than a Batch, got {op!r}")
