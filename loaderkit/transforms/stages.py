"""A stage: one operation between two Batches, applied to a run of elements at once.

A stage that fails raises `Stop` with the elements that it made before; it doesn't use the elements after the failed
one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from loaderkit._order.facts import Cursor, Failure
from loaderkit._order.rng import RecordRng, child_of
from loaderkit.errors import NoResultError

from .base import Filter, FlatMap, Map, MapWithIndex, RandomMap, Transformation, Window, draws, function_of
from .run import ElementRun
from .seeding import SeededGlobals


class Stop(Exception):  # noqa: N818 - carries the elements made so far to the level, which catches it
    """A stage failed: the elements that it made, the number of elements that it took for them, and the error."""

    def __init__(self, made: ElementRun, taken: int, error: Exception) -> None:
        super().__init__()
        self.made, self.taken, self.error = made, taken, error


def no_result(label: str, expected: str) -> NoResultError:
    """The error of an operation that gave None.

    >>> no_result("operations[0] Filter(even)", "True or False")
    NoResultError('operations[0] Filter(even): expected True or False, got None; does the function lack a return?')
    """
    return NoResultError(f"{label}: expected {expected}, got None; does the function lack a return?")


def _gather(
    results: Iterable[Any], expected: int, out: list[Any], none: Callable[[], Exception] | None
) -> Exception | None:
    """Appends the results before the first error, which is returned. none: makes the error of a None, if it is one."""
    # list.extend keeps the earlier results when the iterable raises, so len(out) tells which call failed, without a
    # loop in Python. It also treats a StopIteration of the user's function as the end, so the results are counted.
    raised: Exception | None = None
    try:
        out.extend(results)
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        raised = error
    else:
        if len(out) != expected:
            raised = RuntimeError(
                "the function raised StopIteration, which would end the loop that called it"
            )
    if none is not None:
        for value in out:  # a loop takes a fifth of the time of any(map(...))
            if value is None:
                del out[next(place for place, value in enumerate(out) if value is None) :]
                return none()
    return raised


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

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        values: list[Any] = []
        if self.with_index:
            results = map(self.call, [begin[0] for begin in run.begins], run.values)
        elif self.rng is not None:
            results = map(self.call, run.values, _generators(self.rng, run.begins))
        else:
            results = map(self.call, run.values)
        error = _gather(results, len(run.values), values, self.none)
        if error is not None:
            made = run.head(len(values))
            made.values = values
            raise Stop(made, len(values), error)
        return ElementRun(values, run.begins, run.ends)


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
        error = _gather(map(self.call, run.values), len(run.values), keep, self.none)
        # bool() here, where the record is known: it raises for an array of several values, which has no truth value.
        for place, answer in enumerate(keep):
            try:
                keep[place] = bool(answer)
            except Exception as not_a_bool:  # noqa: BLE001 - __bool__ may raise anything
                error = not_a_bool
                del keep[place:]
                break
        made = ElementRun(
            list(compress(run.values, keep)),
            list(compress(run.begins, keep)),
            None if run.ends is None else list(compress(run.ends, keep)),
        )
        if error is not None:
            raise Stop(made, len(keep), error)
        return made


@dataclass(frozen=True, slots=True)
class _FlatMapStage:
    label: str
    call: Callable[[Any], Iterable[Any]]
    depth: int  # FlatMaps and Windows passed before this one
    max_fan_out: int | None

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        made = ElementRun([], [], [])
        begins: list[Cursor] = []
        ends: list[Cursor] = []
        assert run.ends is not None
        for place, (value, begin, end) in enumerate(zip(run.values, run.begins, run.ends, strict=True)):
            try:
                children = _elements_of(self.label, self.call, value)
                if self.max_fan_out is not None and len(children) > self.max_fan_out:
                    raise ValueError(
                        f"{self.label}: expected at most max_fan_out={self.max_fan_out} elements for one, "
                        f"got {len(children)}"
                    )
            except Exception as raised:  # noqa: BLE001 - a user's function may raise anything
                error = raised
            else:
                first = _first_child(begin, start, self.depth)
                made.values += children[first:]
                _number_children(len(children), first, begin, end, begins, ends)
                continue
            made.begins, made.ends = begins, ends
            raise Stop(made, place, error)
        made.begins, made.ends = begins, ends
        return made


def _first_child(begin: Cursor, start: Cursor, depth: int) -> int:
    """The number of the first child to make: where the stream was entered inside its parent, earlier ones are there."""
    entered = begin == start[: depth + 1] and len(start) > depth + 1
    return start[depth + 1] if entered else 0


def _number_children(
    count: int, first: int, begin: Cursor, end: Cursor, begins: list[Cursor], ends: list[Cursor]
) -> None:
    """Appends the cursors of the children from number `first` on of a parent with `count` of them."""
    begins += [(*begin, k) for k in range(first, count)]
    ends += [(*begin, k + 1) for k in range(first, count - 1)]
    if count > first:
        ends.append(end)


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

    def children(self, elements: list[Any], begin: Cursor, end: Cursor, start: Cursor) -> ElementRun:
        """What the function makes of one window.

        Args:
            elements: of the window, one or more.
            begin, end: of its first element, and of its last.
            start: the cursor where the stream was entered; children before it are left out.
        """
        drawn = () if self.rng is None else (self.rng.at(begin[0], child_of(begin[1:])),)
        children = _elements_of(self.label, self.call, elements, *drawn)
        made = ElementRun([], [], [])
        first = _first_child(begin, start, self.depth)
        made.values = children[first:]
        begins: list[Cursor] = []
        ends: list[Cursor] = []
        _number_children(len(children), first, begin, end, begins, ends)
        made.begins, made.ends = begins, ends
        return made

    def windows(self, run: ElementRun, start: Cursor, *, partial: bool) -> tuple[ElementRun, Failure | None]:
        """What the function makes of the windows of a run, which begins with one.

        Args:
            run: elements and their cursors.
            start: as in `children`.
            partial: whether a last window may have fewer elements; else it is left out.
        """
        made = ElementRun([], [], [])
        assert run.ends is not None
        count = len(run.values) if partial else len(run.values) // self.size * self.size
        for low in range(0, count, self.size):
            high = min(low + self.size, count)
            begins = run.begins[low:high]
            try:
                made.add(self.children(run.values[low:high], begins[0], run.ends[high - 1], start))
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                return made, Failure(error, self.label, tuple(begin[0] for begin in begins))
        return made, None


def window_stage_of(op: Window, label: str, seed: int | None, ordinal: int, depth: int) -> WindowStage:
    """The stage of a Window; arguments as for `stage_of`."""
    return WindowStage(label, function_of(op), op.size, depth, _rng_of(op, seed, ordinal))


def _rng_of(op: Transformation, seed: int | None, ordinal: int) -> RecordRng | None:
    if not draws(op):
        return None
    assert seed is not None
    return RecordRng(seed, ordinal)


Stage = MapStage | _FilterStage | _FlatMapStage


def stage_of(op: Transformation, label: str, seed: int | None, ordinal: int, depth: int) -> Stage:
    """The stage of an operation other than a Batch or a Window.

    Args:
        op: the operation.
        label: its name in errors.
        seed: the sampler's, for a random operation.
        ordinal: its number among the random operations, from 0.
        depth: number of FlatMaps and Windows before it.
    """
    expected = "True or False" if isinstance(op, Filter) else "the new element"
    none = None if op._may_give_none else partial(no_result, label, expected)
    match op:
        case Map() if op.seed_globals:
            return MapStage(label, SeededGlobals(function_of(op)), none, rng=_rng_of(op, seed, ordinal))
        case Map() | RandomMap():
            return MapStage(label, function_of(op), none, rng=_rng_of(op, seed, ordinal))
        case MapWithIndex():
            return MapStage(label, function_of(op), none, with_index=True)
        case Filter():
            return _FilterStage(label, function_of(op), none)
        case FlatMap():
            return _FlatMapStage(label, function_of(op), depth, op.max_fan_out)
    raise TypeError(f"op: expected an operation other than a Batch, got {op!r}")
