"""How many elements come of a record or of a batch, learned from those that are done.

A Filter makes it less than one, a FlatMap more. It affects only how much is read ahead, never what is delivered.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class Yield:
    """What came of the records of a stream, or of the batches of a level.

    >>> of_records = Yield()
    >>> of_records.estimate(unknown=1.0)
    1.0
    >>> of_records.saw(entered=8, came=2)
    >>> of_records.estimate(unknown=1.0)
    0.25
    """

    entered: int = 0
    came: int = 0

    def saw(self, *, entered: int, came: int) -> None:
        """Counts elements that came of records or batches that are done."""
        self.entered += entered
        self.came += came

    def estimate(self, unknown: float) -> float:
        """Elements that will come of one, more than 0; `unknown` before any is done."""
        # As long as nothing came, the next one may be the first.
        return max(self.came, 1) / self.entered if self.entered else unknown


class Outlook(NamedTuple):
    """What a stream has, and what it lacks, in records.

    lacking   records that are still to be assigned before the wanted elements can be made, estimated
    coming    records that are being read, and those that the elements that are ready were made of
    each      records of this stream that one element takes
    """

    lacking: float
    coming: float
    each: float
