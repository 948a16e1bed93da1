"""How long devices had nothing to do while next() was blocked, in the calls that were judged."""

from dataclasses import dataclass
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
