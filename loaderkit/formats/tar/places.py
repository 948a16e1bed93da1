"""Which members of some records of tar archives are read, and where they lie."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.formats._index.record_index import MemberRanges

from .header import BLOCK


@dataclass(frozen=True, slots=True)
class MemberPlaces:
    """Members of some records, (members,) int64 each; bytes count from the beginning of the record's span.

    first: (records + 1,); record i has the members first[i] to first[i + 1]. head: where the member before ends, so its
    header begins there, or what precedes the header. begin, end: of the value. field: its number in the index.
    """

    first: NDArray[np.int64]
    head: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    field: NDArray[np.int64]

    @property
    def record(self) -> NDArray[np.int64]:
        """Which of the records each member is of, ascending."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def only(self, wanted: NDArray[np.intp], each: int) -> "MemberPlaces":
        """Those with the numbers `wanted`, (n,), which are `each` of every record."""
        return MemberPlaces(
            np.arange(len(self.first)) * each,
            self.head[wanted],
            self.begin[wanted],
            self.end[wanted],
            self.field[wanted],
        )

    def common_fields(self) -> list[int] | None:
        """The fields of a record, where all have the same in the same order and nothing but a header before a value."""
        each = int(self.first[1])
        if (np.diff(self.first) != each).any() or (self.begin - self.head != BLOCK).any():
            return None
        fields = self.field.reshape(-1, each)
        common: list[int] = fields[0].tolist()
        return common if (fields == fields[0]).all() else None


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
    return MemberPlaces(first, head, begin, end, members.field.astype(np.int64))


def chosen(
    places: MemberPlaces, records: int, choices: Sequence[Sequence[int]]
) -> tuple[NDArray[np.intp], int | None]:
    """The numbers of the members that have a chosen field, ascending; and a record that lacks one, or None.

    Args:
        places: all members of the records.
        records: how many.
        choices: for each field the numbers that it may have in the index, in order of preference.
    """
    found, record = np.full((len(choices), records), -1), places.record
    for row, numbers in zip(found, choices):
        for number in reversed(numbers):
            at = np.flatnonzero(places.field == number)
            row[record[at]] = at
    lacking = np.flatnonzero((found < 0).any(0))
    return np.sort(found, axis=None), int(lacking[0]) if len(lacking) else None
