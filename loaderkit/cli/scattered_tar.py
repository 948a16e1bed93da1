"""Records of tar archives whose members may lie apart: a data source by a scan of the members."""

import contextlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from loaderkit._formats.scan import Malformed
from loaderkit._formats.tar import NAME, RESERVED, SKIPPED, text_of
from loaderkit._formats.tar_fields import DESCRIPTION, TarFields
from loaderkit._formats.tar_members import Member, MemberReader
from loaderkit._record_index.scan_shard import reading
from loaderkit._record_index.shard_set import ShardSet
from loaderkit.errors import DataFormatError


class ScatteredTar:
    """Records as `lk.TarDataSource` gives them, also where the members of a key don't follow each other.

    shards: the archives; keys in different ones are different records. DataFormatError for a damaged archive, and for a
    field that a key has twice.

    keys: of the records, in the order of their first members.
    """

    def __init__(self, shards: ShardSet) -> None:
        self._ranges = shards.open()
        self._names = shards.shown
        self.keys: list[str] = []
        self._shards: list[int] = []
        self._members: list[dict[str, tuple[int, int]]] = []
        self._fields: dict[int, TarFields] = {}
        for shard, name in enumerate(shards.shown):
            try:
                self._scan(shard, name)
            except Malformed as error:
                raise DataFormatError(f"{name}: {error}") from error

    def _scan(self, shard: int, name: str) -> None:
        size = self._ranges.version(shard).size
        records: dict[bytes, int] = {}
        with reading(self._ranges, shard, size) as read:
            for batch in MemberReader(read, size).batches():
                for member in batch:
                    if member.name == DESCRIPTION.encode():
                        self._fields[shard] = self._described(read(member.data, member.size), name)
                    else:
                        self._add(shard, name, member, records)

    def _described(self, data: bytes, name: str) -> TarFields:
        try:
            return TarFields.from_bytes(data)
        except ValueError as error:
            raise DataFormatError(f"{name}, member {DESCRIPTION!r}: {error}") from error

    def _add(self, shard: int, name: str, member: Member, records: dict[bytes, int]) -> None:
        match = NAME.match(member.name)
        if match is None or SKIPPED.match(member.name):
            return
        key, suffix = match.groups()
        field = text_of(suffix).lower()
        if key not in records:
            records[key] = len(self.keys)
            self.keys.append(text_of(key))
            self._shards.append(shard)
            self._members.append({})
        members = self._members[records[key]]
        if field in members or field in RESERVED:
            raise DataFormatError(
                f"{name}: at byte {member.begin}: expected each field once in a record, and none of "
                f"{', '.join(sorted(RESERVED))}, got {text_of(member.name)!r}; rename the member"
            )
        members[field] = (member.data, member.size)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, record_key: int) -> Any:
        key = int(record_key)
        members = self._members[key]
        places = np.array(list(members.values()), np.int64)
        found = self._ranges.read(np.full(len(places), self._shards[key]), places[:, 0], places.sum(1))
        values = dict(zip(members, map(bytes, found)))
        if (fields := self._fields.get(self._shards[key])) is not None:
            try:
                return fields.decode(self.keys[key], values)
            except ValueError as error:
                raise DataFormatError(f"{self.name(key)}: {error}") from error
        return {"__key__": self.keys[key], **values}

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        return [self[key] for key in np.asarray(record_keys).tolist()]

    def name(self, record_key: int) -> str:
        """The record's archive and its place among the archive's records."""
        shard = self._shards[record_key]
        return f"{self._names[shard]}[{record_key - self._shards.index(shard)}]"

    def close(self) -> None:
        """Closes the archives."""
        with contextlib.suppress(OSError):
            self._ranges.close()
