"""Tar archives as sets of records: the members with one key are a record, grouped as webdataset groups them."""

import re
from array import array
from collections.abc import Iterable

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.checksums import span_checksums
from loaderkit._codecs.scan import Malformed, Members, ReadAt, ShardScan

from .header import BLOCK, padded
from .members import Member, MemberReader

# A key is the name up to the first dot of its last part, a field is the rest. Both rules are webdataset's.
NAME = re.compile(rb"^((?:.*/|)[^.]+)[.]([^/]*)$")
SKIPPED = re.compile(rb"__[^/]*__($|/)")
RESERVED = frozenset(("__key__", "__url__"))
MOST_FIELDS = 1 << 16


def text_of(name: bytes) -> str:
    """A name as Python's tarfile and webdataset give it: bytes that aren't UTF-8 are kept as lone surrogates.

    >>> text_of(b"caf\\xe9")
    'caf\\udce9'
    """
    return name.decode("utf-8", "surrogateescape")


class RecordGroups:
    """Collects the members of an archive into records: consecutive members with one key are one record."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.begins = array("Q")  # blocks from the shard's start, one a record
        self.first = array("q")  # a record's first member
        self.block, self.size, self.field = array("Q"), array("Q"), array("H")  # one a member
        self.fields: dict[str, int] = {}
        self.end = 0  # of the last member
        self._numbers: dict[bytes, int] = {}  # as the names have them; several may be one field
        self._seen: set[bytes] = set()
        self._present: set[int] = set()
        self._key: bytes | None = None
        self._bad = False

    def add(self, members: Iterable[Member]) -> None:
        """Takes the next members of the archive; Malformed for a key that comes back and a field that comes twice."""
        for member in members:
            begin, data, size, name = member
            if name.startswith(b"__") and SKIPPED.match(name):
                continue
            if (match := NAME.match(name)) is None:
                continue
            key, suffix = match.groups()
            if (number := self._numbers.get(suffix)) is None:
                number = self._new_field(suffix, member)
            if key != self._key:
                self._begin(key, member)
            elif number in self._present:
                raise Malformed(
                    begin,
                    f"expected each field once in a record, got {text_of(suffix).lower()!r} again in "
                    f"{text_of(key)!r}",
                    "rename the member",
                )
            self._present.add(number)
            self.block.append(data // BLOCK)
            self.size.append(size)
            self.field.append(number)
            self.end = (data + padded(size)) // BLOCK
            if number == self.fields.get("__bad__") and size:
                self._bad = True

    def close(self) -> None:
        """Ends the last record."""
        if self._bad:  # webdataset drops a record with a member "KEY.__bad__" that isn't empty
            first = self.first.pop()
            del self.keys[-1], self.begins[-1], self.block[first:], self.size[first:], self.field[first:]
        self._bad = False

    def _begin(self, key: bytes, member: Member) -> None:
        self.close()
        if key in self._seen:
            raise Malformed(
                member.begin,
                f"expected the members of {text_of(key)!r} one behind the other, got more of them here",
                "bring them together: loaderkit convert --by __key__",
            )
        self._seen.add(key)
        self._key, self._present = key, set()
        self.keys.append(key)
        self.begins.append(member.begin // BLOCK)
        self.first.append(len(self.block))

    def _new_field(self, suffix: bytes, member: Member) -> int:
        field = text_of(suffix).lower()
        if field in RESERVED:
            problem = f"expected no field {field!r}, which every record has, got {text_of(member.name)!r}"
            raise Malformed(member.begin, problem, "rename the member")
        if len(self.fields) == MOST_FIELDS and field not in self.fields:
            problem = f"expected at most {MOST_FIELDS} fields, got {text_of(member.name)!r} beyond them"
            remedy = "a key ends at the first dot of the name: rename members with other dots in their keys"
            raise Malformed(member.begin, problem, remedy)
        number = self._numbers[suffix] = self.fields.setdefault(field, len(self.fields))
        return number


@dataclass(frozen=True, slots=True)
class TarFormat:
    """Tar archives, in the forms ustar, pax, GNU and v7: a `Scanner`. A unit is a block of 512 bytes.

    Directories, links and devices are skipped, and so are names without a dot and those that begin "__x__". Sparse
    members, and bytes behind the end mark other than zeros, are refused.

    >>> import io, tarfile
    >>> file = io.BytesIO()
    >>> with tarfile.open(fileobj=file, mode="w") as archive:
    ...     for name in ["000.jpg", "000.cls", "001.jpg"]:
    ...         archive.addfile(tarfile.TarInfo(name))
    >>> data = file.getvalue()
    >>> scan = TarFormat().scan(lambda offset, length: data[offset : offset + length], len(data), keys=True)
    >>> scan.keys, scan.fields, scan.starts, scan.members.first
    (('000', '001'), ('jpg', 'cls'), array([0, 2, 3], dtype=uint64), array([0, 2, 3]))
    """

    kind: str = "tar"
    unit: int = BLOCK

    def scan(
        self, read: ReadAt, size: int, *, members: bool = True, keys: bool = False, checksums: bool = False
    ) -> ShardScan:
        """Where the records of an archive of `size` bytes lie.

        Args:
            read: gives bytes of the archive. It is asked for windows that grow where headers lie near each other; the
                values of large members aren't asked for.
            size: of the archive, bytes.
            members: whether to give where each member's value lies.
            keys: whether to give the keys.
            checksums: whether to give the CRC32C of each record; every byte is read then.

        Malformed where the archive is damaged, isn't one, or has what can't be read by key.
        """
        groups = RecordGroups()
        for batch in MemberReader(read, size).batches():
            groups.add(batch)
        groups.close()
        starts = np.append(np.array(groups.begins, np.uint64), np.uint64(groups.end))
        return ShardScan(
            starts,
            tuple(groups.fields),
            _members(groups) if members else None,
            tuple(map(text_of, groups.keys)) if keys else None,
            span_checksums(read, starts, BLOCK) if checksums else None,
        )


def _members(groups: RecordGroups) -> Members:
    return Members(
        np.array([*groups.first, len(groups.block)], np.int64),
        np.array(groups.block, np.uint64),
        np.array(groups.size, np.uint64),
        np.array(groups.field, np.uint16),
    )
