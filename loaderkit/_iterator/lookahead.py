"""Somebody who takes elements ahead of the user: what a wrapper of an iterator sees of it."""

from dataclasses import dataclass

from loaderkit._plan.position import Position
from loaderkit._state.identity import place_of

from .reader import Element, StreamReader


@dataclass(frozen=True, slots=True)
class LookaheadItem:
    """An element taken ahead, and the position before it."""

    element: Element
    before: Position


class Lookahead:
    """What `DataLoaderIterator.wrap` gives: the iterator's elements, before its user has them.

    lock: held by whoever moves the iterator. plan: the stream.
    """

    def __init__(self, iterator: StreamReader) -> None:
        self._iterator = iterator
        self.lock = iterator._lock
        self.plan = iterator._plan

    @property
    def moves(self) -> int:
        """A number that changes when the iterator is moved: what was taken before is then void."""
        return self._iterator._moves

    @property
    def place(self) -> dict[str, str]:
        """What of the user's position has to be the same in all processes that load together, field to text."""
        return place_of(self.plan, self._iterator._standing, self._iterator._q)

    def take(self) -> LookaheadItem:
        """The next element. Raises what next() would."""
        iterator = self._iterator
        with self.lock:
            before = iterator._position
            element = iterator._take(tell=False)
            return LookaheadItem(element, before)

    def go_back(self) -> None:
        """To where the user stands: what was taken since then comes again."""
        with self.lock:
            self._iterator._move_to(self._iterator._standing)

    def received(self, taken: LookaheadItem) -> None:
        """The user has this element now."""
        if taken.element.losses:
            self._iterator._tell(taken.element.losses, taken.before.step)
        self._iterator._received = taken.element.behind
