"""What all steps have in common: a node of the tree, and its iterator, which is made over those of the node's parents.

A state is Grain's, as JSON has it, so it goes from Grain's iterator to ours and back. Where a step makes its elements
of several of its parent's, the state holds the parent's before the first of them, and these are read again.
"""

from typing import Any, ClassVar

from loaderkit.interop.grain.dataset.iter_dataset import DatasetIterator, IterDataset

State = dict[str, Any]


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
    """As StepIterator, with the number of elements so far.

    _count_name: what the state calls it.
    """

    _count_name: ClassVar[str]

    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._count = 0

    def get_state(self) -> State:
        return {"parent": self._parent.get_state(), self._count_name: self._count}

    def set_state(self, state: State) -> None:
        self._parent.set_state(state["parent"])
        self._count = state[self._count_name]


class Step(IterDataset):
    """A node whose iterator is the engine's, or a `_iterator` over the iterators of its parents."""

    _iterator: ClassVar[type[StepIterator]]

    def __iter__(self) -> Any:
        return self._planned() or self._iterator(self, *map(iter, self._parents))
