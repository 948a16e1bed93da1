"""Which bytes of the arena are taken: a best-fit allocator of page-aligned ranges, in plain numbers.

Invariants: the free ranges and the taken slots partition the segments; no two free ranges of a segment touch; a slot
lies in one segment. A slot that is *held* stays taken until its last hold ends, even if it was freed before: a worker
that can't be stopped may still write there. The arena only grows, by whole segments that double, because each mapping
costs every process a descriptor. Best fit takes the free range of exactly the wanted size first, so that batches of one
size reuse slots whose pages are already in memory.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

from .task import Slot

PAGE = 4096
FIRST_SEGMENT = 4 << 20  # bytes; doubled with each further one


def round_up(nbytes: int, unit: int = PAGE) -> int:
    return -(-nbytes // unit) * unit


class Slots:
    """Allocates ranges of the arena.

    Args:
        extend: called with a size in bytes before a segment of that size is added; raises if there is no room.
    """

    def __init__(self, extend: Callable[[int], None]) -> None:
        self._extend = extend
        self._segments: list[tuple[int, int]] = []  # (offset, nbytes), ascending
        self._free: list[tuple[int, int]] = []  # (offset, nbytes), ascending
        self._taken: dict[int, int] = {}  # offset -> nbytes
        self._holds: dict[int, int] = {}  # offset -> number of holds
        self._freed: dict[int, Slot] = {}  # by offset: what is held and was freed
        self.nbytes = 0
        self.used = 0
        # How often memory was given back: a request that found none is repeated when this changes.
        self.returns = 0

    def alloc(self, nbytes: int) -> Slot:
        """A slot of at least `nbytes` bytes, taken until it is freed. Raises MemoryError where there is no room."""
        wanted = round_up(max(nbytes, 1))
        fitting = [(size, place) for place, (_, size) in enumerate(self._free) if size >= wanted]
        if fitting:
            _, best = min(fitting)
        else:
            self._add_segment(wanted)
            best = len(self._free) - 1
        offset, size = self._free.pop(best)
        if size > wanted:
            self._free.insert(best, (offset + wanted, size - wanted))
        self._taken[offset] = wanted
        self.used += wanted
        segment, segment_nbytes = self._segment_of(offset)
        return Slot(offset, wanted, segment, segment_nbytes)

    def trim(self, slot: Slot, nbytes: int) -> Slot:
        """Frees the pages after the first `nbytes` bytes, if they are many; returns the slot that is left.

        A slot that is nearly full keeps its size: the next output of its kind wants as much, and finds its pages in
        memory.
        """
        kept = round_up(max(nbytes, 1))
        if slot.nbytes - kept <= slot.nbytes // 4 or self.held(slot):
            return slot
        self._check(slot)
        self._taken[slot.offset] = kept
        self.used -= slot.nbytes - kept
        self.returns += 1
        self._add_free(slot.offset + kept, slot.nbytes - kept)
        return Slot(slot.offset, kept, slot.segment, slot.segment_nbytes)

    def free(self, slot: Slot) -> None:
        """Takes a slot back. ValueError if it isn't out, or is out in another size."""
        self._check(slot)
        if self.held(slot):
            self._freed[slot.offset] = slot
            return
        del self._taken[slot.offset]
        self.used -= slot.nbytes
        self.returns += 1
        self._add_free(slot.offset, slot.nbytes)

    def hold(self, slot: Slot) -> None:
        """Keeps a slot taken, even if it is freed, until as many calls of `let_go`."""
        self._check(slot)
        self._holds[slot.offset] = self._holds.get(slot.offset, 0) + 1

    def let_go(self, slot: Slot) -> None:
        """Ends a hold; the last one takes the slot back if it was freed since."""
        self._holds[slot.offset] -= 1
        if not self._holds[slot.offset]:
            del self._holds[slot.offset]
            if slot.offset in self._freed:
                self.free(self._freed.pop(slot.offset))

    def held(self, slot: Slot) -> bool:
        """Whether it is held: its bytes may be written to at any time."""
        return slot.offset in self._holds

    def _check(self, slot: Slot) -> None:
        if self._taken.get(slot.offset) != slot.nbytes or slot.offset in self._freed:
            raise ValueError(
                f"{slot} isn't handed out (at that offset: {self._taken.get(slot.offset)} bytes)"
            )

    def _add_segment(self, wanted: int) -> None:
        size = max(wanted, FIRST_SEGMENT, 2 * self._segments[-1][1] if self._segments else 0)
        try:
            self._extend(size)
        except MemoryError:
            if size == wanted:
                raise
            size = wanted  # no room to double: the wanted size may still fit
            self._extend(size)
        self._segments.append((self.nbytes, size))
        self._free.append((self.nbytes, size))
        self.nbytes += size

    def _segment_of(self, offset: int) -> tuple[int, int]:
        place = bisect_left(self._segments, (offset + 1,)) - 1
        return self._segments[place]

    def _add_free(self, offset: int, nbytes: int) -> None:
        insort(self._free, (offset, nbytes))
        place = bisect_left(self._free, (offset, nbytes))
        boundaries = self._segment_of(offset)[0]
        after = self._free[place + 1][0] if place + 1 < len(self._free) else None
        if after == offset + nbytes and self._segment_of(after)[0] == boundaries:
            nbytes += self._free.pop(place + 1)[1]
            self._free[place] = (offset, nbytes)
        if place and sum(self._free[place - 1]) == offset and self._segment_of(offset - 1)[0] == boundaries:
            before, size = self._free.pop(place - 1)
            self._free[place - 1] = (before, size + nbytes)
