"""Whether an operation keeps what loaderkit relies on."""

import random
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from loaderkit._base.canonical_json import canonical
from loaderkit._base.notes import text_of
from loaderkit._base.numbers import at_least
from loaderkit._base.tree import flatten
from loaderkit._order.rng import RecordRng
from loaderkit._source.content import stable_repr
from loaderkit.samplers.protocol import SEED_LIMIT
from loaderkit.transforms.base import Batch, Filter, RandomMap, Transformation, label_of, seeds
from loaderkit.transforms.operations import Operation, as_operations
from loaderkit.transforms.parameters import parameters_of

from .conformance import Checks, ConformanceReport, Skip, expect, expect_same, run_checks
from .operation_calls import OperationCalls
from .snapshot import Snapshot, copied, copy_of, difference, snapshot_of
from .workers import copies_of, in_another_process, in_threads, pickled_copy, without_function_names

_CHECKS = Checks["_OperationSamples"]()


def check_operation(
    operation: Operation,
    *elements: Any,
    seed: int = 0,
    skip: Collection[str] = (),
    progress: bool | None = None,
) -> ConformanceReport:
    """Runs an operation on some elements in several ways: each must give the same again and leave the rest alone.

    Args:
        operation: as in a list of operations; a bare function is a Map.
        elements: what it gets, at least one; two that differ show more; rows for a Batch or a Window. They aren't
            changed. TypeError for one that can't be copied.
        seed: what a RandomMap draws from, in [0, 2**64).
        skip: names of checks to leave out, such as "threads" for an operation that no threads share.
        progress: whether a line on stderr says how far it is; None where that is a terminal.

    Returns what was checked, and what wasn't and why. ConformanceError, an AssertionError, for the first that fails.
    The operation itself is run, in threads too, and copies of it here and in a worker process that is started for it.

    >>> import loaderkit as lk
    >>> class Count(lk.Map):
    ...     count = 0
    ...
    ...     def map(self, element):
    ...         self.count += 1
    ...         return {**element, "count": self.count}
    >>> try:
    ...     check_operation(Count(), {"x": 1}, {"x": 2})
    ... except AssertionError as error:
    ...     print(error.check, "-", str(error).partition(": expected ")[2].partition(", got")[0])
    asked again - leaf ['count'] of the result of element 0 to be 1 when it is asked for again
    """
    if not elements:
        raise TypeError(
            "elements: expected at least one, got none; write check_operation(operation, element)"
        )
    for place, element in enumerate(elements):
        _require_copies(element, place)
    (made,) = as_operations([operation])
    number = at_least("seed", seed, 0, below=SEED_LIMIT)
    samples = _OperationSamples(OperationCalls(made, elements, number))
    return run_checks(_CHECKS, samples, name="check_operation", skip=skip, progress=progress)


def _require_copies(element: Any, place: int) -> None:
    for leaf in flatten(element)[0]:
        try:
            copy_of(leaf)
        except Exception as error:
            kind = type(leaf).__name__
            raise TypeError(
                f"elements: element {place}, a {kind}, can't be copied ({text_of(error)})"
                if leaf is element
                else f"elements: element {place} with a {kind} can't be copied ({text_of(error)})"
            ) from error


class _OperationSamples:
    def __init__(self, calls: OperationCalls) -> None:
        self.calls = calls
        self.operation = calls.operation
        self.subject = label_of(self.operation)
        self.pickled_bytes: int | None = None
        # Both before it runs: what it keeps while it runs mustn't be in them.
        self.parameters = _said_of(self.operation)
        self._copies: Callable[[], Transformation] | None = None
        with suppress(Exception):  # of the user's code; the check of a pickled copy says it
            self._copies, _ = copies_of(self.operation)

    def run(self, calls: OperationCalls) -> list[Snapshot]:
        """All results, each as it was when it was made."""
        return [snapshot_of(calls(place)) for place in range(len(calls))]

    @cached_property
    def first(self) -> list[tuple[Any, Snapshot]]:
        """The first results, and what each was when it was made."""
        made = (self.calls(place) for place in range(len(self.calls)))
        return [(result, snapshot_of(result)) for result in made]

    @property
    def expected(self) -> list[Snapshot]:
        return [snapshot for _, snapshot in self.first]

    def unused_copy(self) -> OperationCalls:
        """A copy of the operation as it was before it ran. Skip where there can be none."""
        if self._copies is None:
            raise Skip("the operation can't be pickled")
        return replace(self.calls, operation=self._copies())

    def used_copy(self) -> OperationCalls:
        """A copy of the operation as it is now; raises what pickle does."""
        copy, self.pickled_bytes = pickled_copy(self.operation)
        return replace(self.calls, operation=copy)

    def compare(self, place: int, got: Snapshot, when: str) -> None:
        expect_same(self.expected[place], got, f"the result of element {place}", when)

    def compare_all(self, got: list[Snapshot], when: str) -> None:
        for place, snapshot in enumerate(got):
            self.compare(place, snapshot, when)

    def several(self) -> None:
        if len(self.calls) < 2:
            raise Skip("only one element was given")


def _said_of(operation: Transformation) -> tuple[str, str, str | None]:
    """Label, parameters and repr, without addresses and names of functions around a class: a copy says the same."""
    text = stable_repr(operation)
    return label_of(operation), _parameters_of(operation), text and without_function_names(text)


def _parameters_of(operation: Transformation) -> str:
    return without_function_names(canonical(parameters_of([operation])))


# --- what it gives ---------------------------------------------------------------------------------------------------


@_CHECKS("result")
def _result(samples: _OperationSamples) -> None:
    """the operation takes the elements, and gives what its kind has to give

    A Filter gives a bool, a FlatMap finitely many elements and no more than max_fan_out, a Batch or a Window takes a
    list.
    """
    for place, (got, _) in enumerate(samples.first):
        kind = "a bool" if isinstance(samples.operation, Filter) else "a result"
        expect(got is not None, f"{kind} for element {place}", "None; does the function lack a return?")


@_CHECKS("global generators")
def _global_generators(samples: _OperationSamples) -> None:
    """results don't depend on the global generators of random and numpy.random

    Make it a RandomMap and draw from the rng that it is given, or wrap it as lk.transforms.Seeded(function).
    """
    runs = []
    for seed in (1, 1, 2):
        _seed_globals(seed)
        runs.append(samples.run(samples.calls))
    if any(difference(one, two) for one, two in zip(runs[0], runs[1], strict=True)):
        return  # with the same seeds, too: the next checks say what it is
    for place, (one, two) in enumerate(zip(runs[0], runs[2], strict=True)):
        expect_same(
            one, two, f"the result of element {place}", "with another seed of random and numpy.random"
        )


def _seed_globals(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the point is the global generator


@_CHECKS("global generators unchanged")
def _global_generators_unchanged(samples: _OperationSamples) -> None:
    """the global generators of random and numpy.random stay where they were

    Use a generator of its own, or lk.transforms.Seeded(function), which puts the states back: others in the
    process draw from them, too.
    """
    _seed_globals(1)
    before = _global_states()
    samples.run(samples.calls)
    for name, state in _global_states().items():
        expect(state == before[name], f"the generator of {name} as it was", "another state")


def _global_states() -> dict[str, str]:
    return {"random": repr(random.getstate()), "numpy.random": repr(_numpy_state())}


def _numpy_state() -> Any:
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - the point is the global generator
    return kind, np.asarray(keys).tobytes(), rest


@_CHECKS("asked again")
def _asked_again(samples: _OperationSamples) -> None:
    """the result of an element is the same again

    A result has to be a function of the arguments: no clock, no counter, no generator that is made without a seed.
    """
    samples.compare_all(samples.run(samples.calls), "when it is asked for again")


@_CHECKS("pickled copy")
def _pickled_copy(samples: _OperationSamples) -> None:
    """a pickled copy gives the same results

    Worker processes get a pickled copy: leave open files, locks and handles of libraries out of __getstate__ and open
    them when they are first needed. Where no worker process is used: skip=['pickled copy', 'another process'].
    """
    samples.compare_all(samples.run(samples.used_copy()), "from a pickled copy")


@_CHECKS("another order")
def _another_order(samples: _OperationSamples) -> None:
    """a copy that hasn't run yet gives the same results in another order

    Keep nothing from one element to the next that changes a result, such as a cache under too short a key or a
    running mean: which worker gets which element isn't known.
    """
    samples.several()
    copy = samples.unused_copy()
    for place in reversed(range(len(copy))):
        samples.compare(place, snapshot_of(copy(place)), "when a copy is asked in another order")


@_CHECKS("kept results")
def _kept_results(samples: _OperationSamples) -> None:
    """a result stays as it was when other elements are worked on

    Make new arrays for each result: a buffer that is used again changes the rows that wait for their batch.
    """
    samples.several()
    held = [samples.calls(place) for place in range(len(samples.calls))]
    samples.compare_all([snapshot_of(result) for result in held], "after other elements were worked on")


@_CHECKS("input")
def _input(samples: _OperationSamples) -> None:
    """no array of an element is written to

    Copy first, x = x.copy(), or write x = x * 2 in place of x *= 2: the array may be the source's own. Dicts and
    lists of the element may be changed.
    """
    if isinstance(samples.operation, Batch):
        raise Skip("the rows that a Batch gets are its own")
    calls = samples.calls
    for place in range(len(calls)):
        element = calls.given(place)
        leaves, structure = flatten(element)
        before = Snapshot(structure, tuple(map(copied, leaves)))
        calls.on(element, place, calls.rng(place))
        got = Snapshot(structure, tuple(leaves))
        expect_same(before, got, f"element {place} that it is given", "afterwards")


# --- what its kind needs ---------------------------------------------------------------------------------------------


@_CHECKS("generator")
def _generator(samples: _OperationSamples) -> None:
    """nothing of the generator that a RandomMap is given is kept or handed on

    Draw all numbers during the call: the same generator is set anew for the next element.
    """
    if not isinstance(samples.operation, RandomMap):
        raise Skip(f"a {samples.calls.kind} is given no generator")
    calls = samples.calls
    rngs = RecordRng(calls.seed, 0)
    results = [calls.on(calls.element(place), place, rngs.at(place)) for place in range(len(calls))]
    rngs.at(len(calls))
    samples.compare_all([snapshot_of(result) for result in results], "with a generator that is used again")


@_CHECKS("rows")
def _rows(samples: _OperationSamples) -> None:
    """a batch_fn keeps neither the list of rows nor adds to it later

    Take what the batch needs of the rows and let them go: kept, they fill the memory of a worker.
    """
    if not isinstance(samples.operation, Batch) or samples.operation.batch_fn is None:
        raise Skip("the operation is no Batch with a batch_fn")
    rows = samples.calls.rows(0)
    before = sys.getrefcount(rows)
    samples.calls.batch(rows)
    after = sys.getrefcount(rows)
    expect(after <= before, "no reference to the list of rows after the call", f"{after - before}")


# --- elsewhere -------------------------------------------------------------------------------------------------------


@_CHECKS("threads")
def _threads(samples: _OperationSamples) -> None:
    """results are the same when several threads call it at once

    Workers of worker_kind='thread' share the operation: keep nothing on self from one line of a call to the next.
    Where no threads share it: skip=['threads'].
    """
    if seeds(samples.operation):
        raise Skip("a loader runs no Seeded in threads, which share the generators")
    calls = samples.calls
    for place, got in in_threads(lambda place: snapshot_of(calls(place)), range(len(calls)), "element"):
        samples.compare(place, got, "when several threads call it at once")


@_CHECKS("parameters")
def _parameters(samples: _OperationSamples) -> None:
    """its name, its parameters and its repr are the same after it ran and in a copy

    A saved state has the fields of a frozen dataclass as parameters, and a restore warns where they differ: change
    none of them, or declare what may change as field(compare=False, repr=False).
    """
    names = ("name", "parameters", "repr")
    ways = [("after it ran", samples.operation)]
    with suppress(Skip):  # another check says that it can't be pickled
        ways.append(("of a pickled copy", samples.unused_copy().operation))
    for when, operation in ways:
        for name, before, got in zip(names, samples.parameters, _said_of(operation), strict=True):
            expect(got == before, f"the {name} {before} {when}", str(got))


@_CHECKS("sent results")
def _sent_results(samples: _OperationSamples) -> None:
    """a result can be pickled and is the same afterwards

    An element that isn't a row of a batch of arrays travels from a worker by pickle: give arrays, numbers, texts,
    dicts and lists. If a later operation takes the result apart in the worker: skip=['sent results'].
    """
    for place in range(len(samples.calls)):
        sent, _ = pickled_copy(samples.calls(place))
        samples.compare(place, snapshot_of(sent), "after it was pickled")


@_CHECKS("another process")
def _another_process(samples: _OperationSamples) -> None:
    """a worker process gets the same results and parameters

    A result must not depend on the process: no hash() of a str, no order of a set, no id(), no os.getpid(), no
    environment or global that only the trainer has.
    """
    copy = samples.unused_copy()
    expected = []
    for place in range(len(samples.calls)):
        try:
            result, _ = pickled_copy(samples.calls(place))
        except Exception as error:
            raise Skip(f"a result can't be sent back to be compared ({text_of(error)})") from error
        expected.append(snapshot_of([result]))
    *results, said = in_another_process(partial(_run_there, copy), len(copy) + 1)
    for place, result in enumerate(results):
        expect_same(
            expected[place], snapshot_of(result), f"the result of element {place}", "in a worker process"
        )
    _, parameters, _ = samples.parameters
    expect(said == parameters, f"the parameters {parameters} in a worker process", str(said))


def _run_there(calls: OperationCalls, place: int) -> Any:
    """Runs in the worker: a result for each element, and the parameters after the last."""
    if place == len(calls):
        return _parameters_of(calls.operation)
    return [calls(place)]
