"""What a ROWS says before the rows: a result as the worker sent it, and what of it follows the message.

    int64 checksum, bytes of the output, number of sizes and of seals | sizes | seals | the result

The sizes are those of the pieces that follow, in order: of each target that the worker wrote in place the rows of each
leaf. The output is the last piece. A seal is two numbers, of each such target, where the layout has seals. The checksum
is one of all pieces together.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from .frames import Checksum, FrameError

_HEAD = 4  # numbers


class RowsHeader(NamedTuple):
    """What a ROWS says.

    Args:
        checksum: of the pieces.
        nbytes: of the output.
        sizes: of the other pieces, in bytes.
        seals: of each target written in place.
        result: as transport/wire.py packs it.
    """

    checksum: int
    nbytes: int
    sizes: tuple[int, ...]
    seals: tuple[tuple[int, int], ...]
    result: bytes

    def pack(self) -> bytes:
        """As a body.

        >>> header = RowsHeader(7, 0, (5, 3), ((1, 9),), b"result")
        >>> RowsHeader.unpack(header.pack()) == header
        True
        """
        values = array("q", (self.checksum, self.nbytes, len(self.sizes), len(self.seals), *self.sizes))
        for seal in self.seals:
            values.extend(seal)
        return values.tobytes() + self.result

    @classmethod
    def unpack(cls, body: bytes) -> "RowsHeader":
        """What `pack` wrote; FrameError for other bytes."""
        n_words = len(body) // 8
        words = array("q", body[: 8 * n_words])
        if n_words < _HEAD or min(words[1:_HEAD]) < 0 or n_words < (end := _HEAD + words[2] + 2 * words[3]):
            raise FrameError("a result's head is cut off")
        sizes, seals = words[_HEAD : _HEAD + words[2]], words[_HEAD + words[2] : end]
        pairs = zip(seals[::2], seals[1::2], strict=True)
        return cls(words[0], words[1], tuple(sizes), tuple(pairs), body[8 * end :])


def checksum_of(pieces: Sequence[memoryview], checksum: Checksum) -> int:
    """The checksum of some pieces together."""
    found = 0
    for piece in pieces:
        found = checksum(found, piece)
    return found
