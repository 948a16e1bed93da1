"""Records of tar archives, grouped as webdataset groups them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.field_names import field_choices
from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._codecs.scan import Malformed
from loaderkit._storage.addresses import is_remote
from loaderkit._storage.patterns import file_parts
from loaderkit.errors import FileChangedError
from loaderkit.formats._index.check import shard_changed
from loaderkit.formats._index.direct_spans import in_disk_order
from loaderkit.formats._index.layout import torn
from loaderkit.formats.indexed import IndexedDataSource, check_cache

from .places import MemberPlaces, chosen, places_of
from .record import TarRecord, keys_of_alike, parse_record, plain_keys
from .scanner import TarFormat
from .typed_fields import DescribedShards
from .unpacking import unpacked_parts

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache

# A value from this size on is a range of its own, as local files are then read without a copy (`LOCAL_ALONE`).
READ_ALONE = 32 << 10
# Members of a record with more between them, on average, are read apart: two reads are quicker from 4 KiB on.
BETWEEN = 4 << 10


class TarDataSource(IndexedDataSource):
    """Records of tar archives, in the order of the archives: a dict of "__key__" and each field's bytes.

    Consecutive members with one key are a record, as in webdataset: of "a/17.seg.png" the key is "a/17" and the field
    "seg.png", in lower case. Directories, links, names without a dot and those like "__meta__" are skipped.

    Args:
        paths: names of archives: paths or addresses, patterns, braces ("train-{000..146}.tar"), "train@64.tar", parts
            as "train.tar[0:100]", a sequence of these; or a function that gives them, called again where links expire.
        fields: the fields of a record, "jpg cls" or ["jpg", "cls"]; "jpg;png" takes the first that a record has. Only
            their bytes are read where that is less. A record that lacks one is a ValueError. None for all.
        cache: keeps on the disk what is read from a server. An archive compressed by gzip (.tgz, .tar.gz) is unpacked
            into its folder, once; without a cache it is refused.
        index: the index's name; without one it is found beside the archives or in the user's cache folder, and made at
            first use for local archives.
        storage_options: of the server: credentials, endpoint.
        decode: archives that loaderkit wrote say what their fields are where these aren't all bytes; True gives the
            records as they were written, False the bytes of each member. Other archives have bytes in either case.

    >>> import io, tarfile, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with tarfile.open(folder.name + "/train-0.tar", "w") as archive:
    ...     for name, value in {
    ...         "000.jpg": b"...",
    ...         "000.cls": b"3",
    ...         "001.jpg": b"....",
    ...         "001.cls": b"5",
    ...     }.items():
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len(value)
    ...         archive.addfile(member, io.BytesIO(value))
    >>> with TarDataSource(folder.name + "/train-{0..0}.tar") as source:
    ...     len(source), source[0]
    (2, {'__key__': '000', 'jpg': b'...', 'cls': b'3'})
    >>> with TarDataSource(folder.name + "/train-0.tar", fields="cls") as source:
    ...     source.__getitems__([1, -2])
    [{'__key__': '001', 'cls': b'5'}, {'__key__': '000', 'cls': b'3'}]
    >>> folder.cleanup()
    """

    @former_arguments(
        removed_in="0.3.0",
        by_place=["fields", "cache", "index", "storage_options"],
        renamed={"urls": "paths"},
    )
    @refusing_foreign_arguments
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[Any] | Callable[[], Any],
        *,
        fields: str | Sequence[str] | None = None,
        cache: Cache | None = None,
        index: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        decode: bool = True,
    ) -> None:
        true_or_false("decode", decode)
        check_cache(cache)
        self._choices = None if fields is None else field_choices("fields", fields)
        named = file_parts(paths, storage_options=storage_options)
        parts = unpacked_parts(named, cache, storage_options)
        if parts is not named:
            paths = [part.path for part in parts]  # new links of a .tgz aren't asked for: it is unpacked
            if not any(map(is_remote, paths)):
                cache = None  # all of them lie in its folder
        super().__init__(
            paths,
            parts=parts,
            format=TarFormat(),
            index=index,
            cache=cache,
            storage_options=storage_options,
        )

        described = DescribedShards(self._index, self._ranges)
        self._may_be_described = bool(described)
        self._described = described if decode and described else None
        self._raw = [field.encode("utf-8", "surrogateescape") for field in self._index.fields]
        self._numbers = self._numbers_of_fields()

    def _numbers_of_fields(self) -> list[list[int]]:
        """For each field that was asked for the numbers that it may have in the index, in order of preference."""
        known = {field: number for number, field in enumerate(self._index.fields)}
        first = None if self._described is None or self._choices is None else self._described.first()
        stored = {} if first is None else first.stored_names()
        numbers = [
            [
                known[field]
                for name in names
                for field in dict.fromkeys((stored.get(name, name), name))
                if field in known
            ]
            for names in self._choices or ()
        ]
        if known and not all(numbers):
            shown = ", ".join(map(repr, list(stored or known)[:20]))
            missing = ";".join((self._choices or ())[numbers.index([])])
            raise ValueError(f"fields: expected fields that the archives have ({shown}), got {missing!r}")
        return numbers

    def find(self, key: str) -> int:
        """The record_key of the record with this "__key__".

        Args:
            key: such as "train/000123". KeyError where no record has it, ValueError where the index has no keys.
        """
        place = self._index.find(key)
        record_key = place if self._selection is None else self._selection.record_key(place)
        if record_key < 0:  # it isn't among the parts that the source has
            raise KeyError(key)
        return record_key

    def fingerprint(self) -> dict[str, Any]:
        """The data's identity, without times, folders and addresses, and the fields that were asked for."""
        told = super().fingerprint()
        if self._may_be_described and self._described is None:
            told["decode"] = False
        return told if self._choices is None else {**told, "fields": list(map(";".join, self._choices))}

    @property
    def _compares(self) -> bool:
        return self._choices is None  # else the fields that aren't asked for would be read, too

    def _read(self, keys: NDArray[np.int64]) -> list[Any]:
        records = self._read_members(keys)
        return records if self._described is None else self._described.decoded(keys, records)

    def _read_members(self, keys: NDArray[np.int64]) -> list[Any]:
        if not len(keys):
            return []
        if not self._index.has_members:
            return super()._read(keys)
        keys, rank = in_disk_order(keys)
        records = self._read_ascending(keys)
        return records if rank is None else [records[place] for place in rank]

    def _read_ascending(self, keys: NDArray[np.int64]) -> list[Any]:
        shards, starts, ends = self._index.locate(keys)
        places = self._places(keys, starts, ends)
        if self._spans.compares:
            return self._from_ranges(keys, places, None, self._spans.read_each(keys))
        alone = places.end - places.begin >= READ_ALONE
        if not alone.any():
            begins, ends = places.head[places.first[:-1]], places.end[places.first[1:] - 1]
            if self._choices is None or not self._has_much_between(places, ends - begins):
                found = self._spans.read_parts(keys, shards, starts + begins, starts + ends)
                return self._from_ranges(keys, places, begins, found)
        return self._from_parts(keys, places, alone, shards, starts)

    @staticmethod
    def _has_much_between(places: MemberPlaces, lengths: NDArray[np.int64]) -> bool:
        """Whether the wanted members of a record are better read apart; lengths: (records,), from first to last."""
        return int(lengths.sum() - (places.end - places.head).sum()) > BETWEEN * len(lengths)

    def _decode(self, keys: NDArray[np.int64], spans: Sequence[bytes | memoryview]) -> list[Any]:
        if self._index.has_members:
            _, starts, ends = self._index.locate(keys)
            return self._from_ranges(keys, self._places(keys, starts, ends), None, spans)
        return [self._parsed(key, span) for key, span in zip(keys.tolist(), spans)]

    def _places(
        self, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> MemberPlaces:
        """The members that are wanted of these records, which begin and end there in their shards."""
        try:
            members = self._index.members_of(keys, starts)
            first = members.first
            if (first[1:] <= first[:-1]).any() or members.field.max() >= len(self._raw):
                raise ValueError("a record has no members, or one of no field")
            places = places_of(members)
            if (places.end[first[1:] - 1] > ends - starts).any():
                raise ValueError("a member ends behind its record")
        except (IndexError, ValueError, MemoryError) as error:
            # Large sections aren't checked when the index is opened.
            raise torn(self._index.path, f"its members can't be found: {error}") from error
        if self._choices is None:
            return places
        wanted, lacking = chosen(places, len(keys), self._numbers)
        if lacking is not None:
            key = keys[lacking : lacking + 1]
            found = self._parsed(int(key[0]), self._spans.read(key)[0])  # says which, where there is none
            raise ValueError(
                f"record {found['__key__']!r} of {self._place(int(key[0]))}: expected fields in the form that the "
                "first archive says, got another; read archives of different forms by a source each, or without fields="
            )
        return places.only(wanted, len(self._numbers))

    def _from_ranges(
        self,
        keys: NDArray[np.int64],
        places: MemberPlaces,
        begins: NDArray[np.int64] | None,
        ranges: Iterable[bytes | memoryview],
    ) -> list[Any]:
        """Cuts the values out of one range of each record; begins: (records,), of the ranges in the spans, or None."""
        head, begin, end = places.head, places.begin, places.end
        counts = np.diff(places.first)
        if begins is not None and begins.any():
            begins = np.repeat(begins, counts)
            head, begin, end = head - begins, begin - begins, end - begins
        cuts = zip(head.tolist(), begin.tolist(), end.tolist())
        # A range is cut before the next one is read: its bytes are in the processor's cache, and its memory is free
        # for another. It takes 0.4 us a record of 10 KB less than cutting after all reads.
        parts = [
            part
            for span, count in zip(ranges, counts.tolist())
            for start, value, stop in islice(cuts, count)
            for part in (span[start:value], span[value:stop])
        ]
        return self._records_of(keys, places, parts[::2], parts[1::2])

    def _from_parts(
        self,
        keys: NDArray[np.int64],
        places: MemberPlaces,
        alone: NDArray[np.bool_],
        shards: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[Any]:
        """Reads no other members. alone: (members,), those with a value that is a range of its own."""
        record = places.record
        # For each member what lies before its value, with the value where that isn't a range of its own.
        begins = np.column_stack((places.head, places.begin)).ravel()
        ends = np.column_stack((np.where(alone, places.begin, places.end), places.end)).ravel()
        needed = np.column_stack((np.ones_like(alone), alone)).ravel()
        member = np.repeat(record, 2)[needed]
        shards, starts = shards[member], starts[member]
        found = iter(
            self._spans.read_parts(keys[member], shards, starts + begins[needed], starts + ends[needed])
        )
        heads, values = [], []
        for by_itself, length in zip(alone.tolist(), (places.begin - places.head).tolist()):
            part = next(found)
            if by_itself:
                heads.append(part)
                values.append(next(found))
            else:
                heads.append(part[:length])
                values.append(part[length:])
        for _ in found:  # the files are compared after the last range
            pass
        return self._records_of(keys, places, heads, values)

    def _records_of(
        self,
        keys: NDArray[np.int64],
        places: MemberPlaces,
        heads: list[bytes | memoryview],
        values: list[bytes | memoryview],
    ) -> list[dict[str, Any]]:
        """The records, after a look at the headers that were read with the values."""
        raw, known = self._raw, self._index.fields
        records: list[dict[str, Any]]
        sizes = places.end - places.begin
        if (common := places.common_fields()) is not None:
            keys_of_all = keys_of_alike(heads, sizes, [raw[field] for field in common])
            if keys_of_all is not None:
                records = [{"__key__": name} for name in keys_of_all]
                for place, field in enumerate(common):
                    name = known[field]
                    for record, value in zip(records, values[place :: len(common)]):
                        record[name] = value if value.__class__ is bytes else bytes(value)
                return records
        fields, rows = places.field.tolist(), places.record.tolist()
        names = plain_keys(heads, rows, sizes, [raw[field] for field in fields], len(keys))
        records = [{"__key__": name} for name in names]
        for row, field, value in zip(rows, fields, values):
            records[row][known[field]] = value if type(value) is bytes else bytes(value)
        if None in names:
            rest = [row for row, name in enumerate(names) if name is None]
            for row, span in zip(rest, self._spans.read(keys[rest])):
                records[row] = self._parsed(int(keys[row]), span)
        return records

    def _parsed(self, key: int, span: bytes | memoryview) -> dict[str, Any]:
        """A record by its headers alone; an error where they don't say what the index does."""
        try:
            found = parse_record(span)
        except Malformed as error:
            raise self._other_bytes(key, error.offset, error.problem) from error
        if self._index.has_members and found.places != (places := self._indexed_places(key)):
            begin = min(place for _, (place, _) in {*found.places.items()} ^ {*places.items()})
            raise self._other_bytes(key, begin, f"the record {found.key!r} has its members at other places")
        wanted = list(found.places)
        if self._choices is not None:
            wanted = [self._chosen_name(key, found, names) for names in self._choices]
        values = {
            field: bytes(span[begin : begin + size])
            for field, (begin, size) in ((field, found.places[field]) for field in wanted)
        }
        return {"__key__": found.key, **values}

    def _chosen_name(self, key: int, found: TarRecord, names: Sequence[str]) -> str:
        fields = None if self._described is None else self._described.of_record(key)
        stored = {} if fields is None else fields.stored_names()
        for name in names:
            for each in (stored.get(name, name), name):
                if each in found.places:
                    return each
        here = ", ".join(map(repr, found.places))
        raise ValueError(
            f"record {found.key!r} of {self._place(key)}: expected the field {';'.join(names)!r}, got {here}; "
            f"leave such records out by lk.SubsetDataSource, or ask for what they all have"
        )

    def _indexed_places(self, key: int) -> dict[str, tuple[int, int]]:
        members = self._index.members_of(np.array([key]))
        names = [self._index.fields[field] for field in members.field.tolist()]
        return dict(zip(names, zip(members.begin.tolist(), members.size.tolist())))

    def _other_bytes(self, key: int, offset: int, problem: str) -> FileChangedError:
        (shard,), (start,), _ = self._index.locate(np.array([key]))
        return shard_changed(
            self._ranges.names[int(shard)], int(start) + offset, f"{problem}, where the index has a record"
        )
