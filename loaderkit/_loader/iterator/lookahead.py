"""Elements taken ahead of the user: what a wrapper of an iterator, as `device_iterator`, sees of it."""

from dataclasses import dataclass

from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.state.identity import place_of

from .reader import Element, StreamReader


@dataclass(frozen=True, slots=True)
class LookaheadItem:
    """An element taken ahead, and the position before it."""

    element: Element[Position]
    before: Position


class Lookahead:
    """What `DataLoaderIterator.wrap` gives: the iterator's elements, before its user has them.

    The reader's position runs ahead of the user, whose own is what was `received`.

    Args:
        reader: of the iterator.
    """

    def __init__(self, reader: StreamReader[Position, SeekablePlan]) -> None:
        self._reader = reader
        self.lock = reader.lock  # held while the iterator is moved

    @property
    def plan(self) -> SeekablePlan:
        """The stream as it is now; another object after its weights changed."""
        return self._reader.plan

    @property
    def moves(self) -> int:
        """A number that changes when the iterator is moved: what was taken before is then void."""
        return self._reader.moves

    @property
    def place(self) -> dict[str, str]:
        """The fields of the user's position that must be equal in all processes of the run, as text."""
        return place_of(self.plan, self._reader.user_position)

    def check_open(self) -> None:
        """Raises IteratorClosedError after close()."""
        self._reader.check_open()

    def take(self) -> LookaheadItem:
        """The next element. Raises what next() would."""
        with self.lock:
            before = self._reader.position
            return LookaheadItem(self._reader.take(ahead=True), before)

    def placed(self, nanoseconds: int) -> None:
        """An element was sent to devices; the time isn't the user's own."""
        self._reader.meter.placed(nanoseconds)

    def go_back(self) -> None:
        """To where the user stands: what was taken since then comes again."""
        with self.lock:
            self._reader.go_back()

    def received(self, item: LookaheadItem) -> None:
        """The user has this element now."""
        self._reader.receive(item.element, item.before)
