"""How many elements come of a record or of a batch, learned from those that are done.

A Filter makes it less than one, a FlatMap more. It steers only how much is read ahead, never what is handed out.
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
        """Takes in that so many elements came of so many records or batches."""
        self.entered += entered
        self.came += came

    def estimate(self, unknown: float) -> float:
        """Elements that will come of one, more than 0; `unknown` before any is done."""
        # As long as nothing came, the next one may be the first.
        return max(self.came, 1) / self.entered if self.entered else unknown


class Outlook(NamedTuple):
    """What a stream has and has on its way, in records.

    lacking   records that still have to be given out until the elements that are wanted can be made, as far as is known
    coming    records that are on their way, and those that went in what is there
    each      records that one element takes of this stream
    """

    lacking: float
    coming: float
    each: float
