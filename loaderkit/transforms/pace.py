"""How many elements go through all stages of a level together: a piece.

With one element at a time the cost of each stage is paid for each element. With a whole task at once every picture
would be decoded before the first is cropped, and all of them would be in memory at once, outside the processor's cache.
With pieces, cv2.resize of a decoded photograph took 70 us instead of 115, and a photograph cost 3 page faults instead
of 37.

A piece has as many elements as a stage handles in a short time. Work that touches much memory takes long, so the time
alone is a good measure, and the elements aren't examined. The size of pieces never changes a result.
"""

# The aim for one stage: many times the microsecond that a stage takes besides its calls.
_SECONDS = 50e-6


class PiecePace:
    """Computes the size of the next piece from the time of the last one.

    >>> pace = PiecePace()
    >>> pace.took(1e-3, elements=4)
    >>> pace.size
    1
    """

    def __init__(self) -> None:
        self.size = 4

    def took(self, seconds: float, *, elements: int) -> None:
        """Adapts the size to a piece of `elements` elements that took `seconds` in each stage."""
        if seconds > 2 * _SECONDS:
            self.size = max(1, int(elements * _SECONDS / seconds))
        elif seconds < _SECONDS / 2 and elements == self.size:
            self.size *= 2
