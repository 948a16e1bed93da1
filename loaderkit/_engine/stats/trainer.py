"""Counters of the thread that takes a loader's elements, as a snapshot."""

from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class Exposed:
    """What `it.watch(loss)` found; times are nanoseconds.

    exposed: with nothing to do, in blocked calls that were judged. judged: of these calls in all. calls: how many.
    """

    exposed: int = 0
    judged: int = 0
    calls: int = 0

    def minus(self, earlier: "Exposed") -> Self:
        """What was found since an earlier snapshot."""
        return type(self)(
            self.exposed - earlier.exposed, self.judged - earlier.judged, self.calls - earlier.calls
        )

    @property
    def share(self) -> float | None:
        """The share of the blocked time in which the devices had nothing to do; None where no call was judged."""
        return self.exposed / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class TrainerCounters:
    """One iterator's user. Times are nanoseconds.

    elapsed: since the first element was there. opening: blocked until the first element after an opening, a seek or a
    restore; opening_since_first: without that of the first element of all.
    waiting: blocked otherwise, for workers, or at work itself where there are none. handing: in the loader's own code.
    placing: sending batches to devices. paused: in gaps that are far longer than usual, such as an evaluation.
    elements: handed out. after_first: those after the first. openings: those that came first after an opening.
    blocked_calls: calls of next() that were blocked and gave an element, openings left out.
    records, bad_records: of the elements handed out, this process's.
    """

    elapsed: int = 0
    opening: int = 0
    opening_since_first: int = 0
    waiting: int = 0
    handing: int = 0
    placing: int = 0
    paused: int = 0
    elements: int = 0
    after_first: int = 0
    openings: int = 0
    blocked_calls: int = 0
    records: int = 0
    bad_records: int = 0

    @property
    def own(self) -> int:
        """Nanoseconds in the user's code between two elements, pauses left out."""
        mine = self.opening_since_first + self.waiting + self.handing + self.placing + self.paused
        return max(0, self.elapsed - mine)

    @property
    def ready(self) -> int:
        """Elements that were ready when they were asked for, openings left out."""
        return max(0, self.elements - self.openings - self.blocked_calls)

    def minus(self, earlier: "TrainerCounters") -> Self:
        """What was counted since an earlier snapshot.

        >>> TrainerCounters(elapsed=9, waiting=4).minus(TrainerCounters(elapsed=2, waiting=1)).own
        4
        """
        return type(self)(*(getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)))
