"""How many elements go through all stages of a level together: a piece.

One element after the other would pay for each stage again; a whole task at once would decode every picture before the
first of them is cropped, and they would leave the processor's cache and lie in memory all at the same time. A piece is
as many elements as take a little while. Work that touches much memory takes long, so the clock says enough, and nobody
has to look at the elements. What comes out is the same however a run is cut.
"""

_SECONDS = 50e-6  # of a stage, which costs about a microsecond besides its calls


class PiecePace:
    """Finds the size of the next piece from the time that the last one took.

    >>> pace = PiecePace()
    >>> pace.took(1e-3, elements=4)
    >>> pace.size
    1
    """

    def __init__(self) -> None:
        self.size = 4

    def took(self, seconds: float, *, elements: int) -> None:
        """A piece of so many elements, `size` or what was left of a run, took so long in each stage."""
        if seconds > 2 * _SECONDS:
            self.size = max(1, int(elements * _SECONDS / seconds))
        elif seconds < _SECONDS / 2 and elements == self.size:
            self.size *= 2
