"""What a reader hands out, and what watches it."""

from typing import Any, Generic, NamedTuple, Protocol

from loaderkit._order.facts import Facts, Loss
from loaderkit._plan.stream_plan import P


class Element(NamedTuple, Generic[P]):
    """Something to hand to the user.

    value   it
    after   the position after it
    losses  the bad records that are lost with it
    facts   what else the scheduler knows of it
    """

    value: Any
    after: P
    losses: tuple[Loss, ...]
    facts: Facts


class Watch(Protocol):
    """What compares the elements of a stream; it may raise, and the next element raises that again."""

    def before_stream(self, plan: Any, position: Any) -> None:
        """The stream is about to begin at a position."""
        ...

    def after_step(self, plan: Any, before: Any, after: Any, value: Any) -> None:
        """An element was made, between two positions."""
        ...
