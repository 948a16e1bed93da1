"""Tar archives are written: a record is the members with its key, as webdataset reads them."""

from collections.abc import Sequence
from typing import Any, cast

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.formats._writing.byte_file import ByteFile
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .encoding import END_MARK, member
from .values import DESCRIPTION, TarFields


@dataclass(frozen=True, slots=True)
class TarEncoder:
    """A `RecordEncoder`: makes of a record its key and the bytes of its members.

    >>> key, members = TarEncoder(TarFields.of({"cls": 3})).encode({"cls": 5}, 17)
    >>> key, len(members), members[:13], members[512:513]
    ('000000017', 1024, b'000000017.cls', b'5')
    """

    fields: TarFields

    def encode(self, record: Any, number: int) -> tuple[str, bytes]:
        """The record's key and its members.

        Args:
            record: a dict of fields, or a value of another type, like the first record.
            number: of the record, its key where it has no "__key__".
        """
        return members_of(*self.fields.encode(record, number))


def members_of(key: str, values: Sequence[tuple[str, bytes]]) -> tuple[str, bytes]:
    """A record's key, and its members as bytes.

    Args:
        key: of the record.
        values: the names behind the key with the members' values, sorted.

    >>> len(members_of("17", [("cls", b"3")])[1])
    1024
    """
    parts: list[bytes] = []
    for field, data in values:
        parts += member(f"{key}.{field}".encode("utf-8", "surrogateescape"), data)
    return key, b"".join(parts)


class TarShardWriter(ByteFile):
    """A `ShardWriter` of one archive.

    Args:
        path: a new file.
        fields: of the records; an archive begins with them where they aren't all bytes. None says nothing of them.
    """

    def __init__(self, path: str, fields: TarFields | None = None) -> None:
        super().__init__(path)
        self._seen: set[str] = set()
        if fields is not None and not fields.is_plain:
            super().add(b"".join(member(DESCRIPTION.encode(), fields.to_bytes())))

    def add(self, encoded: tuple[str, bytes]) -> None:
        """Appends a record; ValueError where the archive has its key already."""
        key, members = encoded
        if key in self._seen:
            raise ValueError(
                f"__key__: expected each key once in an archive, got {key!r} again; rename it, or leave out "
                "'__key__' to number the records"
            )
        self._seen.add(key)
        super().add(members)

    def close(self) -> None:
        """Ends the archive."""
        super().add(END_MARK)
        super().close()


class TarWriting:
    """Tar archives, ustar without times and owners, so that the same records are the same file.

    A dict of bytes is a member KEY.FIELD each, sorted by name. The key is the dict's "__key__", or the record's number
    with 9 digits. Of other values the extension says what they are: "caption.txt", "image.npy", "label.json"; a str in
    a field "txt", an int in "cls", an array in "npy", anything in "json" need none. The first record decides for all.
    Records that aren't dicts are one member each. `lk.TarDataSource` gives back what was written.

    >>> import tempfile
    >>> import loaderkit as lk
    >>> folder = tempfile.TemporaryDirectory()
    >>> record = {"__key__": "a/17", "cls": 3, "caption": "seven", "box": (1, 2.5)}
    >>> writing = TarWriting()
    >>> encoder = writing.encoder(record)
    >>> writer = writing.open(folder.name + "/x.tar", encoder)
    >>> writer.add(encoder.encode(record, 0))
    >>> writer.close()
    >>> with lk.TarDataSource(folder.name + "/x.tar") as source:
    ...     source[0]
    {'__key__': 'a/17', 'cls': 3, 'caption': 'seven', 'box': (1, 2.5)}
    >>> folder.cleanup()
    """

    name = "tar"
    extension = "tar"
    libraries = ()

    def encoder(self, first: Any) -> RecordEncoder:
        """For records like the first; TypeError for a value that can't be written, ValueError for a field's name.

        Args:
            first: the first record of all.
        """
        return TarEncoder(TarFields.of(first))

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new archive.

        Args:
            path: of the file.
            encoder: made by `encoder`.
        """
        return TarShardWriter(path, cast("TarEncoder", encoder).fields)
