"""Which members of some records of tar archives are read, and where they lie."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loaderkit._formats.tar_header import BLOCK
from loaderkit._record_index.record_index import MemberRanges


@dataclass(frozen=True, slots=True)
class MemberPlaces:
    """Members of some records, (members,) int64 each; bytes count from the beginning of the record's span.

    record: which of the records, ascending. head: where the member before it ends, so its header begins there, or what
    precedes the header. begin, end: of the value. field: its number in the index.
    """

    record: NDArray[np.int64]
    head: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    field: NDArray[np.int64]

    def lists(self) -> Iterator[tuple[int, int, int, int]]:
        """record, head, begin and end of each member."""
        return zip(self.record.tolist(), self.head.tolist(), self.begin.tolist(), self.end.tolist())

    def only(self, wanted: NDArray[np.intp]) -> "MemberPlaces":
        """Those with the numbers `wanted`, (n,)."""
        return MemberPlaces(
            self.record[wanted], self.head[wanted], self.begin[wanted], self.end[wanted], self.field[wanted]
        )


def places_of(members: MemberRanges) -> MemberPlaces:
    """All members of some records.

    Args:
        members: as the index gives them.

    >>> one = np.array([0, 2]), np.array([512, 1536]), np.array([7, 1]), np.array([0, 1], np.uint16)
    >>> places_of(MemberRanges(*one)).head, places_of(MemberRanges(*one)).end
    (array([   0, 1024]), array([ 519, 1537]))
    """
    first, begin = members.first, members.begin
    end = begin + members.size
    head = np.zeros(len(begin), np.int64)
    head[1:] = (end[:-1] + (BLOCK - 1)) & -BLOCK
    head[first[:-1]] = 0  # a record has one member at least
    record = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return MemberPlaces(record, head, begin, end, members.field.astype(np.int64))


def chosen(
    places: MemberPlaces, records: int, choices: Sequence[Sequence[int]]
) -> tuple[NDArray[np.intp], int | None]:
    """The numbers of the members that have a chosen field, ascending; and a record that lacks one, or None.

    Args:
        places: all members of the records.
        records: how many.
        choices: for each field the numbers that it may have in the index, in order of preference.
    """
    found = np.full((len(choices), records), -1)
    for row, numbers in zip(found, choices):
        for number in reversed(numbers):
            at = np.flatnonzero(places.field == number)
            row[places.record[at]] = at
    lacking = np.flatnonzero((found < 0).any(0))
    return np.sort(found, axis=None), int(lacking[0]) if len(lacking) else None
