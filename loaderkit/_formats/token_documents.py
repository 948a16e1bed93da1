"""Token files: the tokens of documents, and where each begins, in one file.

The file is a `.npy` file of the tokens (tokens,) that numpy reads by itself. Behind the bytes of its array, which numpy
ignores, from a multiple of 64 on, are

    .npy        the offsets of the documents in the tokens, int64 (documents + 1,)
    JSON        "feature": the tokens' name in a record; "offsets": the byte at which the second array begins
    8 bytes     the length of the JSON in bytes, little-endian
    8 bytes     MAGIC
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .npy import array_header, encoded_array

MAGIC = b"LKTOKEN1"
END_BYTES = 16
OFFSETS_HEAD = 128  # bytes of the head of the second array, whatever its length
MOST_JSON = 1 << 16  # a name of more than 60 KB is no name
_END = struct.Struct("<Q8s")
_ALIGNED = 64


@dataclass(frozen=True, slots=True)
class TokenFileEnd:
    """What a token file says at its end.

    feature: name of the tokens in a record. offsets: the byte at which the array of offsets begins. nbytes: of the JSON
    and of what follows it.
    """

    feature: str
    offsets: int
    nbytes: int


def token_file_head(dtype: np.dtype[Any], tokens: int) -> bytes:
    """The bytes before the tokens, as many for any number of tokens.

    >>> len(token_file_head(np.dtype(np.uint16), 0))
    128
    """
    return array_header(dtype, (tokens,))


def token_file_rest(offsets: NDArray[np.int64], feature: str, begin: int) -> bytes:
    """The bytes behind the tokens.

    Args:
        offsets: of the documents (documents + 1,).
        feature: name of the tokens in a record.
        begin: bytes of the file so far.
    """
    padding = -begin % _ALIGNED
    told = json.dumps({"feature": feature, "offsets": begin + padding}, separators=(",", ":")).encode()
    return bytes(padding) + encoded_array(offsets) + told + _END.pack(len(told), MAGIC)


def token_file_end(data: bytes) -> TokenFileEnd | None:
    """What the last bytes of a token file say; None where they are no such end.

    Args:
        data: the end of the file, up to MOST_JSON bytes.

    >>> token_file_end(token_file_rest(np.array([0, 3]), "tokens", 128))
    TokenFileEnd(feature='tokens', offsets=128, nbytes=50)
    """
    if len(data) < END_BYTES:
        return None
    length, magic = _END.unpack(data[-END_BYTES:])
    if magic != MAGIC or length > len(data) - END_BYTES:
        return None
    try:
        told = json.loads(data[len(data) - END_BYTES - length : -END_BYTES])
        return TokenFileEnd(told["feature"], int(told["offsets"]), length + END_BYTES)
    except (ValueError, KeyError, TypeError):
        return None
