"""What all steps have in common: a node of the tree, and its iterator, which is made over those of the node's parents.

A state is Grain's, as JSON has it, so it goes from Grain's iterator to ours and back. Where a step makes its elements
of several of its parent's, the state holds the parent's before the first of them, and these are read again.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from loaderkit.errors import StateError
from loaderkit.interop.grain.dataset.iter_dataset import DatasetIterator, IterDataset

State = dict[str, Any]
KEEP_WORKERS = "MultiprocessingOptions(num_workers=W, worker_count=n) has W workers of Grain's in n processes"


def fields_of(state: Any, *names: str) -> list[Any]:
    """Fields of a state; StateError where it lacks one."""
    if not isinstance(state, Mapping) or not state.keys() >= {*names}:
        raise StateError(
            f"state: expected an object with {', '.join(names)}, got {state!r:.120}: it is of other steps, or of "
            f"another number of workers; {KEEP_WORKERS}"
        )
    return [state[name] for name in names]


class StepIterator(DatasetIterator):
    """Iterates over a step's elements; its state is the parent's.

    Args:
        node: the step, which holds the arguments.
        parents: the iterators of the node's parents.
    """

    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(parents)
        self._node = node

    def get_state(self) -> State:
        state: State = self._parent.get_state()
        return state

    def set_state(self, state: State) -> None:
        self._parent.set_state(state)


class CountingIterator(StepIterator):
    """As StepIterator; its state has numbers besides.

    _numbers: what the state calls attributes.
    """

    _numbers: ClassVar[Mapping[str, str]]
    _before_name: ClassVar[str] = "parent"  # what the state calls the parent's
    _count = 0

    def get_state(self) -> State:
        numbers = {name: getattr(self, attribute) for attribute, name in self._numbers.items()}
        return {self._before_name: self._state_before(), **numbers}

    def set_state(self, state: State) -> None:
        before, *numbers = fields_of(state, self._before_name, *self._numbers.values())
        super().set_state(before)
        for attribute, number in zip(self._numbers, numbers, strict=True):
            setattr(self, attribute, number)

    def _state_before(self) -> State:
        return super().get_state()


class GroupIterator(CountingIterator):
    """As CountingIterator, for elements that are made of a group of the parent's, or of one that becomes several.

    _before: the parent's state before the present group.
    _given: elements that were given of it.
    """

    _given = 0

    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._before: State = self._parent.get_state()
        self._forget()

    def set_state(self, state: State) -> None:
        super().set_state(state)
        self._before = state[self._before_name]
        self._forget()

    def _state_before(self) -> State:
        return self._before

    def _forget(self) -> None:
        """The present group isn't read any more, but will be, and some of its elements were given."""
        raise NotImplementedError


class Step(IterDataset):
    """A node whose iterator is the engine's, or a `_iterator` over the iterators of its parents."""

    _iterator: ClassVar[type[StepIterator]]

    def __iter__(self) -> Any:
        return self._planned() or self._iterator(self, *map(iter, self._parents))
