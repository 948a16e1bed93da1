"""Whether an IterDataset of the Grain side goes on from each of its states with the elements that were to come."""

import copy
import json
from collections.abc import Collection, Iterator
from contextlib import closing, nullcontext
from functools import cached_property
from itertools import islice
from typing import Any

from loaderkit._base.numbers import at_least

from .conformance import Checks, ConformanceReport, Skip, expect, expect_same, run_checks
from .snapshot import Snapshot, snapshot_of

_CHECKS = Checks["_Elements"]()


def check_iter_dataset(
    ds: Any, *, elements: int = 32, skip: Collection[str] = (), progress: bool | None = None
) -> ConformanceReport:
    """Saves and restores at every element, of each step from the first on, so that an error names the step at fault.

    Args:
        ds: an IterDataset, with steps of yours or without; or any object whose iterator has get_state and set_state.
        elements: how many of each step to compare, at least 1.
        skip: names of checks to leave out.
        progress: whether a line on stderr says how far it is; None where that is a terminal.

    Returns what was checked of the last step. ConformanceError, an AssertionError, for the first that fails.

    >>> import loaderkit.interop.grain as grain
    >>> class Sums(grain.DatasetIterator):
    ...     total = 0
    ...
    ...     def __next__(self):
    ...         self.total += next(self._parent)
    ...         return self.total
    ...
    ...     def get_state(self):
    ...         return self._parent.get_state()
    ...
    ...     def set_state(self, state):
    ...         self._parent.set_state(state)
    >>> class Summed(grain.IterDataset):
    ...     def __iter__(self):
    ...         return Sums(iter(self._parent))
    >>> import pytest
    >>> with pytest.warns(UserWarning, match="Summed"):
    ...     ds = Summed(grain.MapDataset.range(9).to_iter_dataset()).map(abs)
    >>> try:
    ...     check_iter_dataset(ds)
    ... except AssertionError as error:
    ...     print(error.check, "-", str(error).partition(". ")[0])
    restore - check_iter_dataset: a Summed: check 'restore': expected element 2 to be 3 after a restore at 2, got 2
    """
    count = at_least("elements", elements, 1)
    each = [*_before(ds), ds]
    reports = [
        run_checks(_CHECKS, _Elements(one, count), name="check_iter_dataset", skip=skip, progress=progress)
        for one in each
    ]
    return reports[-1]


def _before(ds: Any) -> Iterator[Any]:
    """The steps before one whose elements come in order, the first first."""
    for parent in getattr(ds, "parents", ()):
        if hasattr(parent, "mp_prefetch"):
            yield from _before(parent)
            yield parent


class _Elements:
    """The first elements of a data set, and the state before each and after the last."""

    pickled_bytes = None

    def __init__(self, ds: Any, count: int) -> None:
        self._ds, self._count = ds, count

    @property
    def subject(self) -> str:
        return f"a {type(self._ds).__name__}"

    def opened(self) -> Any:
        """A new iterator, closed at the end of a `with` block."""
        iterator = iter(self._ds)
        return closing(iterator) if hasattr(iterator, "close") else nullcontext(iterator)

    @cached_property
    def read(self) -> tuple[list[Snapshot], list[Any]]:
        elements: list[Snapshot] = []
        with self.opened() as iterator:
            states = [copy.deepcopy(iterator.get_state())]
            for element in islice(iterator, self._count):
                elements.append(snapshot_of(element))
                states.append(copy.deepcopy(iterator.get_state()))
        if not elements:
            raise Skip("it has no elements")
        return elements, states

    def compare(self, iterator: Any, first: int, when: str) -> None:
        """Takes the elements from a number on: each has to be the one read, and the last read be given."""
        expected = self.read[0]
        number = first
        for element in islice(iterator, len(expected) - first):
            expect_same(expected[number], snapshot_of(element), f"element {number}", when)
            number += 1
        expect(number == len(expected), f"{len(expected)} elements {when}", f"{number}")


@_CHECKS("again")
def _again(checked: _Elements) -> None:
    """a second iterator gives the same elements

    What an iterator changes has to be its own: no counter on the data set, no clock, no generator of the process.
    """
    assert checked.read
    with checked.opened() as iterator:
        checked.compare(iterator, 0, "of a second iterator")


@_CHECKS("json")
def _json(checked: _Elements) -> None:
    """a state is the same after JSON

    A checkpoint keeps a state as JSON: numbers, texts, lists and objects with texts for keys.
    """
    for number, state in enumerate(checked.read[1]):
        again = json.loads(json.dumps(state))
        expect(
            json.dumps(again) == json.dumps(state), f"the state before element {number} from JSON", str(again)
        )


@_CHECKS("restore")
def _restore(checked: _Elements) -> None:
    """a new iterator goes on from each state

    get_state has to say all that decides the elements to come, what the iterator holds back among them.
    """
    for number, state in enumerate(checked.read[1][:-1]):
        with checked.opened() as iterator:
            iterator.set_state(_from_json(state))
            checked.compare(iterator, number, f"after a restore at {number}")


@_CHECKS("moved")
def _moved(checked: _Elements) -> None:
    """an iterator that is in use goes back to each state

    set_state has to set all that the iterator holds, what was read ahead among it.
    """
    with checked.opened() as iterator:
        for number, state in enumerate(checked.read[1][:-1]):
            for _ in islice(iterator, 1):
                pass
            iterator.set_state(_from_json(state))
            checked.compare(iterator, number, f"after a move to {number}")


def _from_json(state: Any) -> Any:
    return json.loads(json.dumps(state))
