"""Token files: the tokens of documents, and where each begins, in one file.

The file is a `.npy` file of the tokens (tokens,) that numpy reads by itself. Behind the bytes of its array, which numpy
ignores, from a multiple of 64 on, are

    columns     where there are some: .npy files of the values of each, and of texts another of their offsets, int64
                (documents + 1,), each from a multiple of 64 on; then a .npy file of the checksums of the blocks of all
                these, uint32, in this order
    .npy        checksums of the blocks of the tokens, then of the offsets, uint32; not in older files
    .npy        the offsets of the documents in the tokens, int64 (documents + 1,)
    JSON        "feature": the tokens' name in a record; "offsets": the byte at which their array begins; with checksums
                also "dtype" of the tokens, "checksums": the byte at which these begin, "crc32": of the bytes from there
                to the offsets, and "digest" of the JSON; with columns "columns": for each the fields of
                `ColumnPlace`, "column_checksums": the byte at which theirs begin, and "column_crc32" of the bytes from
                there to the "checksums"
    8 bytes     the length of the JSON in bytes, little-endian
    8 bytes     MAGIC

The columns and the checksums lie before the offsets, where readers that don't know them find nothing to stumble over.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BlockChecksums
from loaderkit._base.canonical_json import digest
from loaderkit._base.system.dataclasses import asdict, dataclass
from loaderkit.formats.npy import array_header, encoded_array

MAGIC = b"LKTOKEN1"
END_BYTES = 16
OFFSETS_HEAD = 128  # bytes of the head of an array, whatever its length
MOST_JSON = 1 << 16  # a name of more than 60 KB is no name
_END = struct.Struct("<Q8s")
ALIGNED = 64


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """A column of a token file.

    name: in a record. per: "token" where it has a value for each token, "number" or "text" where it has one for each
    document. dtype: of the values; of a text's bytes uint8. begin: the byte of the first value. count: of the values.
    offsets: the byte of the first of a text's offsets.
    """

    name: str
    per: str
    dtype: str
    begin: int
    count: int
    offsets: int | None = None


@dataclass(frozen=True, slots=True)
class TokenFileEnd:
    """What a token file says at its end.

    feature: name of the tokens in a record. offsets: the byte at which the array of offsets begins. nbytes: of the JSON
    and of what follows it. dtype: of the tokens. checksums: the byte at which their array begins. crc32: of the bytes
    from there to the offsets. These three are None in older files, which have no checksums. columns: in their order.
    column_checksums: the byte at which their array begins. column_crc32: of the bytes from there to the checksums.
    """

    feature: str
    offsets: int
    nbytes: int
    dtype: str | None = None
    checksums: int | None = None
    crc32: int | None = None
    columns: tuple[ColumnPlace, ...] = ()
    column_checksums: int | None = None
    column_crc32: int | None = None


def token_file_head(dtype: np.dtype[Any], tokens: int) -> bytes:
    """The bytes before the tokens, as many for any number of tokens.

    >>> len(token_file_head(np.dtype(np.uint16), 0))
    128
    """
    return array_header(dtype, (tokens,))


def token_file_rest(
    offsets: NDArray[np.int64],
    feature: str,
    begin: int,
    dtype: np.dtype[Any],
    checksums: NDArray[np.uint32],
    columns: Sequence[ColumnPlace] = (),
    column_checksums: NDArray[np.uint32] | None = None,
) -> bytes:
    """The bytes behind the tokens and the values of the columns.

    Args:
        offsets: of the documents (documents + 1,).
        feature: name of the tokens in a record.
        begin: bytes of the file so far.
        dtype: of the tokens.
        checksums: of the blocks of the tokens (blocks,).
        columns: that lie behind the tokens.
        column_checksums: of the blocks of all values of these (blocks,).
    """
    of_offsets = BlockChecksums()
    of_offsets.update(offsets.tobytes())
    table = padded(encoded_array(np.concatenate([checksums, of_offsets.values()])))
    start = begin + -begin % ALIGNED
    of_columns, told_columns = b"", {}
    if column_checksums is not None:
        of_columns = padded(encoded_array(column_checksums))
        told_columns = {
            "columns": [asdict(column) for column in columns],
            "column_checksums": start,
            "column_crc32": zlib.crc32(of_columns),
        }
        start += len(of_columns)
    document: dict[str, Any] = {
        "feature": feature,
        "offsets": start + len(table),
        "dtype": dtype.str,
        "checksums": start,
        "crc32": zlib.crc32(table),
        **told_columns,
    }
    document["digest"] = digest(document)
    told = json.dumps(document, separators=(",", ":")).encode()
    gap = bytes(-begin % ALIGNED)
    return gap + of_columns + table + encoded_array(offsets) + told + _END.pack(len(told), MAGIC)


def padded(data: bytes) -> bytes:
    """The bytes, with zeros up to a multiple of 64.

    >>> len(padded(b"abc"))
    64
    """
    return data + bytes(-len(data) % ALIGNED)


def token_file_end(data: bytes) -> TokenFileEnd | None:
    """What the last bytes of a token file say; None where they are no such end, or don't have their digest.

    Args:
        data: the end of the file, up to MOST_JSON bytes.

    >>> rest = token_file_rest(np.array([0, 3]), "tokens", 134, np.dtype(np.uint16), np.array([7], np.uint32))
    >>> end = token_file_end(rest)
    >>> end.feature, end.dtype, end.checksums, end.offsets
    ('tokens', '<u2', 192, 384)
    """
    if len(data) < END_BYTES:
        return None
    length, magic = _END.unpack(data[-END_BYTES:])
    if magic != MAGIC or length > len(data) - END_BYTES:
        return None
    try:
        told = json.loads(data[len(data) - END_BYTES - length : -END_BYTES])
        if len(told) > 2 and digest(told) != told["digest"]:
            return None
        rest = [told.get(name) for name in ("dtype", "checksums", "crc32")]
        columns = tuple(ColumnPlace(**column) for column in told.get("columns", ()))
        rest += [columns, told.get("column_checksums"), told.get("column_crc32")]
        return TokenFileEnd(told["feature"], int(told["offsets"]), length + END_BYTES, *rest)
    except (ValueError, KeyError, TypeError):
        return None
