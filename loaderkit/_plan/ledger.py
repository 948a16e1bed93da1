"""The ledger: which index was read instead of each lost one. A persistent value: positions share one growing log.

A run with bad records makes a new position after each, and each position has all entries before it. So that adding an
entry costs the same for the first and for the millionth, the ledgers of one run share one log, and each is a prefix of
it. A ledger that is extended by the same entry again reuses it; one that is extended by another entry copies its prefix
to a log of its own. The empty ledger, which all runs share, always begins a new log.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

Entry = tuple[int, int]  # index, index read instead


class _Log:
    """The entries in the order in which they were added, and for each index the places of its entries, ascending."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: list[Entry] = []
        self.places: dict[int, tuple[int, ...]] = {}
        # Entries whose places are known too: fewer than there are after an interrupt in `append`.
        self.whole = 0
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        before = self.places.get(entry[0], ())
        self.places[entry[0]] = (*before, len(self.entries) - 1)
        self.whole = len(self.entries)


class Ledger(Mapping[int, int]):
    """{index: index read instead}, immutable; of an index that was added twice the last entry counts.

    Other threads may read it while `with_entry` is called.

    >>> ledger = Ledger({7: 8})
    >>> longer = ledger.with_entry(3, 4)
    >>> dict(ledger), dict(longer), longer.last
    ({7: 8}, {7: 8, 3: 4}, 7)
    """

    __slots__ = ("_count", "_log", "_size", "last")

    def __init__(self, entries: Mapping[int, int] | None = None) -> None:
        self._log = _Log((entries or {}).items())
        self._size = self._count = len(self._log.entries)
        self.last = max(self._log.places, default=-1)  # the greatest index; -1 if empty

    def with_entry(self, index: int, instead: int) -> "Ledger":
        """This ledger with one entry added, in a time that doesn't depend on its length."""
        if self.get(index) == instead:
            return self
        log, size, entry = self._log, self._size, (index, instead)
        # Not the shared log where it goes on with another entry, was left half extended by an interrupt, or is the
        # empty one of all runs.
        other = size < len(log.entries) and log.entries[size] != entry
        if not size or other or log.whole < len(log.entries):
            log = _Log(log.entries[:size])
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
