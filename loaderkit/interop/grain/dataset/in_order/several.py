"""Steps that take the elements of several data sets in turn, or of one several times.

Glossary of `Interleave`: a *slot* is one of the `cycle_length` places in the cycle, and has an iterator in use. Where
its data set ends the slot is exhausted, and at its next turn it gets the next data set that hasn't begun.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from loaderkit._base.notes import annotate
from loaderkit._base.numbers import at_least
from loaderkit.errors import StateError
from loaderkit.interop.grain._installed import is_of_grain
from loaderkit.interop.grain.dataset.iter_dataset import DatasetIterator, IterDataset
from loaderkit.interop.grain.dataset.selecting import selected, weights_of

from .step import KEEP_WORKERS, CountingIterator, State, Step, StepIterator, fields_of
from .threads import ThreadPrefetchDatasetIterator

_AT_ONCE = 64  # elements of a mixture whose components are found together


class _RepeatIterator(CountingIterator):
    _numbers: ClassVar = {"_count": "epoch"}

    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._first = self._parent.get_state()

    def __next__(self) -> Any:
        began = False
        while self._count != self._node._epochs:
            try:
                return next(self._parent)
            except StopIteration:
                self._count += 1
                if self._count == self._node._epochs:
                    break
                if began and self._node._epochs is None:
                    raise ValueError(
                        "expected a data set with elements to repeat without end, got an empty one"
                    ) from None
                self._parent.set_state(self._first)
                began = True
        raise StopIteration


class RepeatIterDataset(Step):
    """The elements several times, the same in each epoch.

    Args:
        parent: the data set before.
        num_epochs: how many times; None for no end. ValueError below 1.
    """

    _iterator = _RepeatIterator

    def __init__(self, parent: Any, num_epochs: int | None = None) -> None:
        super().__init__(parent)
        self._epochs = None if num_epochs is None else at_least("num_epochs", num_epochs, 1)


class _SeveralIterator(StepIterator):
    def get_state(self) -> State:
        return {"parents": [parent.get_state() for parent in self._parents]}

    def set_state(self, state: State) -> None:
        for parent, its_state in zip(self._parents, state["parents"]):
            parent.set_state(its_state)


class _ZipIterator(_SeveralIterator):
    def __next__(self) -> tuple[Any, ...]:
        return next(zip(*self._parents, strict=self._node.strict))


class ZipIterDataset(Step):
    """Tuples of one element of each data set.

    Args:
        parents: one data set or more.
        strict: whether it is a ValueError that one ends before another; else the shortest ends all.
    """

    _iterator = _ZipIterator

    def __init__(self, parents: Sequence[Any], *, strict: bool = True) -> None:
        super().__init__(parents)
        if not self._parents:
            raise ValueError("parents: expected one data set or more, got none")
        self.strict = strict


class _MixedIterator(_SeveralIterator):
    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._index = 0
        self._stopped = False
        self._chosen: list[int] = []  # the components of some indices
        self._first = 0  # of these indices

    def __next__(self) -> Any:
        if self._stopped:
            raise StopIteration
        place = self._index - self._first
        if not 0 <= place < len(self._chosen):
            self._first, place = self._index, 0
            self._chosen = selected(np.arange(_AT_ONCE) + self._index, self._node.weights)[0].tolist()
        chosen = self._chosen[place]
        self._index += 1
        self._stopped = True  # unless the component has an element
        try:
            element = next(self._parents[chosen])
        except Exception as error:
            if not isinstance(error, StopIteration):
                annotate(error, f"raised by component {self._node.names[chosen]!r} of a mixture")
            raise
        self._stopped = False
        return element

    def get_state(self) -> State:
        states = super().get_state()["parents"]
        if self._node.by_name:
            states = dict(zip(self._node.names, states, strict=True))
        return {"parents": states, "index": self._index, "stop": self._stopped}

    def set_state(self, state: State) -> None:
        states = state["parents"]
        if self._node.by_name:
            for name, parent in zip(self._node.names, self._parents, strict=True):
                if name in states:
                    parent.set_state(states[name])
        else:
            super().set_state(state)
        self._index, self._stopped = state["index"], state["stop"]


class MixedIterDataset(Step, step="IterDataset.mix"):
    """Elements of several data sets by weights, until one of them ends.

    Args:
        parents: data sets, in a list or by name: by name, a component that a state lacks begins anew.
        proportions: a weight for each, in a list or by name, above 0; equal ones by default.
    """

    _iterator = _MixedIterator

    def __init__(self, parents: Any, proportions: Any = None) -> None:
        self.by_name = isinstance(parents, Mapping)
        self.names = sorted(parents) if self.by_name else [*range(len(parents))]
        super().__init__([parents[name] for name in self.names])
        if isinstance(proportions, Mapping):
            proportions = [proportions[name] for name in self.names]
        self.weights = weights_of(len(self.names), proportions)


class _InterleaveIterator(DatasetIterator):
    def __init__(self, node: Any) -> None:
        super().__init__()
        self._node = node
        slots = min(node._cycle_length, len(node._datasets))
        self._turn = 0  # the slot that is next
        self._begun = 0  # data sets that have an iterator, or had one
        self._numbers = [*range(slots)]  # the data set in each slot
        self._iterators: list[Any] = [None] * slots  # in use
        self._ends: list[State | None] = [None] * slots  # the last state of an exhausted slot
        self._later: dict[int, State] = {}  # states of data sets that haven't begun

    def __next__(self) -> Any:
        while True:
            turn, slots = self._turn, len(self._iterators)
            if slots and self._iterators[turn] is None and self._begun < len(self._node._datasets):
                self._begin(turn)
            if not any(iterator is not None for iterator in self._iterators):
                raise StopIteration
            self._turn = (turn + 1) % slots
            iterator = self._iterators[turn]
            if iterator is None:
                continue
            try:
                return next(iterator)
            except StopIteration:
                self._ends[turn] = iterator.get_state()
                self._iterators[turn] = None
                iterator.close()
            except BaseException:
                self._turn = turn
                raise

    def _begin(self, slot: int) -> None:
        """Gives a slot the next data set."""
        number = self._begun
        iterator = self._iterators[slot] = self._node._iterator_of(number)
        self._ends[slot] = None
        self._numbers[slot] = number
        if number in self._later:
            iterator.set_state(self._later.pop(number))
        self._begun += 1

    def get_state(self) -> State:
        for slot, iterator in enumerate(self._iterators):
            if iterator is None and self._ends[slot] is None and self._begun < len(self._node._datasets):
                self._begin(slot)  # as Grain, whose states name a data set for each slot
        return {
            "next_index_in_cycle": self._turn,
            "next_index_in_datasets": self._begun,
            "iterators_in_use_indices": [*self._numbers],
            "iterators_in_use_states": [
                end if iterator is None else iterator.get_state()
                for iterator, end in zip(self._iterators, self._ends, strict=True)
            ],
            "exhausted": [int(end is not None) for end in self._ends],
            "future_states": {**self._later},
        }

    def set_state(self, state: State) -> None:
        (numbers,) = fields_of(state, "iterators_in_use_indices")
        if len(numbers) != len(self._iterators):
            raise StateError(
                f"state: expected one of {len(self._iterators)} data sets or streams in turn, got one of "
                f"{len(numbers)}; {KEEP_WORKERS}"
            )
        for slot, number in enumerate(numbers):
            its_state, ended = state["iterators_in_use_states"][slot], state["exhausted"][slot]
            self._ends[slot] = its_state if ended else None
            if ended or its_state is None:
                self._iterators[slot] = None
                continue
            if self._iterators[slot] is None or self._numbers[slot] != number:
                self._iterators[slot] = self._node._iterator_of(number)
            self._iterators[slot].set_state(its_state)
        self._numbers = [*numbers]
        self._turn, self._begun = state["next_index_in_cycle"], state["next_index_in_datasets"]
        self._later = {int(number): later for number, later in state.get("future_states", {}).items()}

    def start_prefetch(self) -> None:
        for iterator in self._iterators:
            if iterator is not None:
                iterator.start_prefetch()

    def close(self) -> None:
        for iterator in self._iterators:
            if iterator is not None:
                iterator.close()


class InterleaveIterDataset(IterDataset):
    """One element of each of `cycle_length` data sets in turn; where one ends the next takes its place.

    Args:
        datasets: data sets, or a MapDataset of them: then each is made when it begins.
        cycle_length: how many are in use at a time; 1 joins them one after the other.
        num_make_iter_threads, make_iter_buffer_size: nothing: a data set begins when it is its turn.
        iter_buffer_size: elements that a thread makes ahead of each IterDataset in use; 0 for no thread.
    """

    def __init__(
        self,
        datasets: Any,
        *,
        cycle_length: int,
        num_make_iter_threads: int = 1,
        make_iter_buffer_size: int = 1,
        iter_buffer_size: int = 1,
    ) -> None:
        super().__init__()
        self._datasets = datasets
        self._cycle_length = at_least("cycle_length", cycle_length, 1)
        self._ahead = at_least("iter_buffer_size", iter_buffer_size, 0)

    def __iter__(self) -> DatasetIterator:
        return _InterleaveIterator(self)

    def _iterator_of(self, number: int) -> Any:
        dataset = self._datasets[number]
        iterator = iter(dataset)
        is_iter = isinstance(dataset, IterDataset) or is_of_grain(dataset, "IterDataset")
        return ThreadPrefetchDatasetIterator(iterator, self._ahead) if is_iter else iterator

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Leaves the data sets of a slice, whole: those that one of Grain's workers has.

        Args:
            sl: of the list of data sets.
            sequential_slice: changes nothing.
        """
        self._datasets = self._datasets[sl]
