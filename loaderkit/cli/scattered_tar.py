"""Records of tar archives whose members may lie apart: a data source by a scan of the members."""

import bisect
from array import array
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from loaderkit._codecs.scan import Malformed
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.scan_shard import reading
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.tar.members import Member, MemberReader
from loaderkit.formats.tar.scanner import NAME, RESERVED, SKIPPED, text_of
from loaderkit.formats.tar.values import DESCRIPTION, TarFields


class ScatteredTar:
    """Records as `lk.TarDataSource` gives them, also where the members of a key don't follow each other.

    shards: the archives; keys in different ones are different records. DataFormatError for a damaged archive, and for a
    field that a key has twice.

    It holds some 30 bytes for each member, and the keys; while an archive is scanned also a dict of its keys.
    """

    def __init__(self, shards: ShardSet) -> None:
        self._ranges = shards.open()
        self._names = shards.shown
        self._ends: list[int] = []  # records up to and with each shard
        self._fields: list[TarFields | None] = []  # of each shard
        self._suffixes: dict[str, int] = {}  # numbers of the fields
        self._keys, self._key_ends = bytearray(), array("Q", [0])
        # Of each member its record, where its data is, how long that is, and its field.
        members = tuple(array("q") for _ in range(4))
        for shard, name in enumerate(shards.shown):
            try:
                self._scan(shard, name, members)
            except Malformed as error:
                raise DataFormatError(f"{name}: {error}") from error
        # The members of a record side by side, in the order in which they lie.
        order = np.argsort(np.array(members[0]), kind="stable")
        record, self._data, self._size, self._suffix = (np.array(each)[order] for each in members)
        self._first = np.searchsorted(record, np.arange(len(self) + 1))

    def _scan(self, shard: int, name: str, members: "tuple[array[int], ...]") -> None:
        nbytes, fields = self._ranges.version(shard).size, None
        records: dict[bytes, int] = {}
        seen: set[tuple[int, int]] = set()
        with reading(self._ranges, shard, nbytes) as read:
            for batch in MemberReader(read, nbytes).batches():
                for member in batch:
                    if member.name == DESCRIPTION.encode():
                        fields = _described(read(member.data, member.size), name)
                        continue
                    match = NAME.match(member.name)
                    if match is None or SKIPPED.match(member.name):
                        continue
                    number, field = self._record(match[1], records), self._field(match[2], member, name)
                    if (number, field) in seen:
                        raise _unfit(name, member, "each field once in a record")
                    seen.add((number, field))
                    for column, value in zip(members, (number, member.data, member.size, field)):
                        column.append(value)
        self._fields.append(fields)
        self._ends.append(len(self))

    def _record(self, key: bytes, records: dict[bytes, int]) -> int:
        if (number := records.get(key)) is None:
            number = records[key] = len(self)
            self._keys += key
            self._key_ends.append(len(self._keys))
        return number

    def _field(self, suffix: bytes, member: Member, name: str) -> int:
        field = text_of(suffix).lower()
        if field in RESERVED:
            raise _unfit(name, member, f"no field {field!r}, which every record has")
        return self._suffixes.setdefault(field, len(self._suffixes))

    def __len__(self) -> int:
        return len(self._key_ends) - 1

    def key(self, record_key: int) -> str:
        """The "__key__" of a record, without reading it."""
        begin, end = self._key_ends[record_key], self._key_ends[record_key + 1]
        return text_of(bytes(self._keys[begin:end]))

    def __getitem__(self, record_key: int) -> Any:
        number = int(record_key)
        shard = bisect.bisect_right(self._ends, number)
        members = slice(self._first[number], self._first[number + 1])
        begins, suffixes = self._data[members], list(self._suffixes)
        found = self._ranges.read(np.full(len(begins), shard), begins, begins + self._size[members])
        values = {
            suffixes[field]: bytes(value) for field, value in zip(self._suffix[members].tolist(), found)
        }
        if (fields := self._fields[shard]) is None:
            return {"__key__": self.key(number), **values}
        try:
            return fields.decode(self.key(number), values)
        except ValueError as error:
            raise DataFormatError(f"{self.name(number)}: {error}") from error

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        return [self[key] for key in np.asarray(record_keys).tolist()]

    def name(self, record_key: int) -> str:
        """The record's archive and its place among the archive's records."""
        shard = bisect.bisect_right(self._ends, record_key)
        return f"{self._names[shard]}[{record_key - (self._ends[shard - 1] if shard else 0)}]"

    def close(self) -> None:
        """Closes the archives."""
        self._ranges.close()


def _described(data: bytes, name: str) -> TarFields:
    try:
        return TarFields.from_bytes(data)
    except ValueError as error:
        raise DataFormatError(f"{name}, member {DESCRIPTION!r}: {error}") from error


def _unfit(name: str, member: Member, expected: str) -> DataFormatError:
    return DataFormatError(
        f"{name}: at byte {member.begin}: expected {expected}, got {text_of(member.name)!r}; rename the member"
    )
