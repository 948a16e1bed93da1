"""Which index was read instead of a lost one: a list that only grows, and values that are the list up to a place.

A run that loses records has a position behind each loss, and each position knows all losses before it. So that one more
costs the same at the first and at the millionth, the positions of one history share one log, and each says how much
of it is its own. Who goes on from an older position as before finds its entries there; who goes on otherwise gets a log
of its own, once. From the empty ledger, which all runs share, every one begins its own.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

Entry = tuple[int, int]  # index, index read instead


class _Log:
    """Entries in the order in which they came, and for each index the places of its own, ascending."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: list[Entry] = []
        self.places: dict[int, tuple[int, ...]] = {}
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        before = self.places.get(entry[0], ())
        self.places[entry[0]] = (*before, len(self.entries) - 1)


class Ledger(Mapping[int, int]):
    """{index: index read instead}, as a frozen value; of an index that came twice, what was read last.

    Other threads may read it while a longer one is made of it.

    >>> ledger = Ledger({7: 8})
    >>> longer = ledger.with_entry(3, 4)
    >>> dict(ledger), dict(longer), longer.last
    ({7: 8}, {7: 8, 3: 4}, 7)
    """

    __slots__ = ("_count", "_log", "_size", "last")

    def __init__(self, entries: Mapping[int, int] | None = None) -> None:
        self._log = _Log((entries or {}).items())
        self._size = self._count = len(self._log.entries)
        self.last = max(self._log.places, default=-1)  # the greatest index, -1 for none

    def with_entry(self, index: int, instead: int) -> "Ledger":
        """This and one more; at a cost that doesn't depend on the length."""
        if self.get(index) == instead:
            return self
        log, size, entry = self._log, self._size, (index, instead)
        if not size or (size < len(log.entries) and log.entries[size] != entry):
            log = _Log(log.entries[:size])  # somebody went on otherwise from here, or may
        if size == len(log.entries):
            log.append(entry)
        longer = object.__new__(Ledger)
        longer._log, longer._size = log, size + 1
        longer._count = self._count + (index not in self)
        longer.last = max(self.last, index)
        return longer

    def __getitem__(self, index: int) -> int:
        places = self._log.places.get(index, ())
        known = bisect_left(places, self._size)
        if not known:
            raise KeyError(index)
        return self._log.entries[places[known - 1]][1]

    def __iter__(self) -> Iterator[int]:
        for place in range(self._size):
            index = self._log.entries[place][0]
            if self._log.places[index][0] == place:
                yield index

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"Ledger({dict(self)})"
