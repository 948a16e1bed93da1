"""The bytes of one record of a tar archive: read without an index of its members, and compared with one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.scan import Malformed

from .header import BLOCK
from .members import MemberReader
from .scanner import RecordGroups, text_of

# Bytes of a header that are looked at: the size, then those of a regular member with a short name, and the magic.
_CHECKED = np.array([*range(124, 135), 156, 345, *range(257, 262)])
_LEAST = np.frombuffer(b"0" * 12 + b"\0ustar", np.uint8)
_MOST = np.array([7] * 11 + [0] * 7, np.uint8)
# What each byte adds to the size.
_PLACES = np.array([*8 ** np.arange(10, -1, -1), *[0] * 7])


@dataclass(frozen=True, slots=True)
class TarRecord:
    """A record: its key, and for each field where its value begins in the record's bytes, and its size."""

    key: str
    places: dict[str, tuple[int, int]]


def parse_record(span: bytes | memoryview) -> TarRecord:
    """What the bytes of one record hold; checksums aren't compared.

    Args:
        span: from the record's first header to the next record. Malformed where it isn't one record.

    >>> import io, tarfile
    >>> file = io.BytesIO()
    >>> with tarfile.open(fileobj=file, mode="w") as archive:
    ...     for name in ["a/17.jpg", "a/17.cls"]:
    ...         archive.addfile(tarfile.TarInfo(name))
    >>> parse_record(file.getvalue()[:1024])
    TarRecord(key='a/17', places={'jpg': (512, 0), 'cls': (1024, 0)})
    """
    groups = RecordGroups()
    reader = MemberReader(lambda at, length: bytes(span[at : at + length]), len(span), span=True)
    for batch in reader.batches():
        groups.add(batch)
    groups.close()
    if len(groups.keys) != 1 or groups.begins[0]:
        raise Malformed(0, f"expected one record, got {[text_of(key) for key in groups.keys[:3]]}")
    fields = list(groups.fields)
    places = {
        fields[field]: (block * BLOCK, size)
        for block, size, field in zip(groups.block, groups.size, groups.field)
    }
    return TarRecord(text_of(groups.keys[0]), places)


def plain_keys(
    heads: Sequence[bytes | memoryview],
    records: Sequence[int],
    sizes: NDArray[np.int64],
    fields: Sequence[bytes],
    count: int,
) -> list[str | None]:
    """The keys of records, where the headers of their members are in the usual form and say what is expected.

    None doesn't mean that anything is wrong: the record's bytes must be parsed to know.

    Args:
        heads: (members,) what lies before each member's value: its header, and whatever precedes that.
        records: (members,) ascending from 0; which record each member is of.
        sizes: (members,) expected.
        fields: (members,) expected, such as b"jpg".
        count: of the records.
    """
    blocks, odd = b"".join(heads), []
    if len(blocks) != BLOCK * len(heads):
        odd = [place for place, head in enumerate(heads) if len(head) != BLOCK]
        blocks = b"".join([bytes(head[-BLOCK:]).ljust(BLOCK, b"\0") for head in heads])
    headers = np.frombuffer(blocks, np.uint8).reshape(-1, BLOCK)
    plain = _are_plain(headers, sizes)
    for place in odd:
        plain[place] &= _keeps_name(heads[place])
    names: list[bytes] = np.ascontiguousarray(headers[:, :100]).view("S100").ravel().tolist()
    keys = [b""] * count
    bad: set[int] = set()
    for record, good, name, field in zip(records, plain.tolist(), names, fields):
        # Where the first dot of the name begins the field, what is before it is the key; a name may begin "./".
        key, _, rest = name.partition(b".")
        if not key and name[:2] == b"./":
            key, _, rest = name[2:].partition(b".")
            key = b"./" + key if key else b""
        if rest != field or not good or not key or b"\0" in key or (keys[record] and keys[record] != key):
            bad.add(record)
        keys[record] = key
    return [None if record in bad else text_of(key) for record, key in enumerate(keys)]


def keys_of_alike(
    heads: Sequence[bytes | memoryview], sizes: NDArray[np.int64], fields: Sequence[bytes]
) -> list[str] | None:
    """`plain_keys` of records that have the same fields in the same order, found in all names at once; or None.

    Args:
        heads: (members,) as in `plain_keys`.
        sizes: (members,) expected.
        fields: of each record, such as b"jpg".
    """
    blocks, each = b"".join(heads), len(fields)
    if len(blocks) != BLOCK * len(heads):
        return None
    headers = np.frombuffer(blocks, np.uint8).reshape(-1, BLOCK)
    if not _are_plain(headers, sizes).all():
        return None
    count = len(heads) // each
    keys: bytes | None = None
    for place, field in enumerate(fields):
        text = b"\n" + _lines_of(headers[place::each, :100])
        ending = b"." + field + b"\n"
        if keys is not None:
            if text != keys.replace(b"\n", ending)[len(ending) - 1 :]:
                return None
            continue
        folders = text.count(b"\n./")
        # As many lines as names, each with this ending and no other dot but in "./" at its beginning.
        if not text.count(b"\n") - 1 == text.count(ending) == count or b"\0" in text:
            return None
        if (
            text.count(b".") != count * ending.count(b".") + folders
            or b"/." in text
            or b"\n" + ending in text
        ):
            return None
        keys = text.replace(ending, b"\n")
    return None if keys is None else text_of(keys).split("\n")[1:-1]


def _lines_of(names: NDArray[np.uint8]) -> bytes:
    """The names as lines, each up to its first NUL or with NULs inside; names: (n, 100) bytes, padded by NULs."""
    length = len(names[0].tobytes().partition(b"\0")[0])
    if length < names.shape[1] and names[:, :length].all() and not names[:, length].any():  # all as long
        lines = names[:, : length + 1].copy()
        lines[:, length] = ord("\n")
        return lines.tobytes()
    return b"\n".join(np.ascontiguousarray(names).view("S100").ravel().tolist()) + b"\n"


def _are_plain(headers: NDArray[np.uint8], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which headers are of regular members with a name of up to 100 bytes and the expected size."""
    checked = headers.take(_CHECKED, 1)
    checked -= _LEAST  # a smaller byte is a large one then
    allowed = checked <= _MOST
    plain: NDArray[np.bool_] = checked.astype(np.int64) @ _PLACES == sizes
    if not allowed.all():
        plain &= allowed.all(1)
    return plain


def _keeps_name(head: bytes | memoryview) -> bool:
    """Whether what lies before the header is one pax header that says nothing of the member's name and size."""
    if len(head) != 3 * BLOCK or head[156] != ord("x"):
        return False
    said = bytes(head[BLOCK : 2 * BLOCK])
    return b"path=" not in said and b"size=" not in said
