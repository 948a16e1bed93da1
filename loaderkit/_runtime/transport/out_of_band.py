"""Any Python object as bytes in a slot, with arrays beside the pickle, so that they aren't copied when they are read.

    uint64 count | uint64 length of the pickle | uint64 total size | uint64 checksum
    count times (uint64 offset, uint64 length) | the pickle | the buffers

Offsets count from the first byte; each buffer starts at a multiple of 64. The checksum is one more than the CRC-32 of
all bytes after it, or 0 for no checksum.
"""

import pickle
import struct
from typing import Any
from zlib import crc32

from loaderkit._base.system.byte_order import Part, plain_pickle
from loaderkit.errors import ChecksumError

from .pickling import Packer

_HEAD = struct.Struct("=QQQQ")
_ENTRY = struct.Struct("=QQ")
_ALIGNMENT = 64
# Bytes: smaller buffers stay inside the pickle, where they cost a copy but no entry and view. Measured with 64 arrays
# packed, written and unpacked: inside took 0.9 of the CPU time of beside with 256 and 512 bytes each, 1.0 with 2,048,
# 1.1 with 4,096 and 3.1 with 65,536.
_SMALL = 2048


class OutOfBandPickle:
    """A pickled object that can be written to memory.

    Args:
        content: any object that pickle or cloudpickle can pickle.
        packer: for objects that the C pickler can't pickle.
        verify: write a checksum, which `unpack` compares.

    >>> import numpy as np
    >>> packed = OutOfBandPickle({"x": np.arange(1000)}, Packer())
    >>> room = bytearray(packed.nbytes)
    >>> packed.write(memoryview(room))
    >>> int(unpack(memoryview(room))["x"][999])
    999
    """

    def __init__(self, content: Any, packer: Packer, *, verify: bool = False) -> None:
        self._verify = verify
        self._pickle, buffers = _pickled(content, packer)
        self._pickle_nbytes = sum(map(len, self._pickle))
        self._raws = [buffer.raw() for buffer in buffers]
        self._table: list[tuple[int, int]] = []
        end = _HEAD.size + _ENTRY.size * len(self._raws) + self._pickle_nbytes
        for raw in self._raws:
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
            self._table.append((offset, raw.nbytes))
            end = offset + raw.nbytes
        self.nbytes = end

    def write(self, room: memoryview) -> None:
        """Writes it to the first `nbytes` bytes of `room`."""
        place = _HEAD.size
        for entry in self._table:
            _ENTRY.pack_into(room, place, *entry)
            place += _ENTRY.size
        for part in self._pickle:
            room[place : place + len(part)] = part
            place += len(part)
        for (offset, length), raw in zip(self._table, self._raws, strict=True):
            room[offset : offset + length] = raw
        checksum = 1 + crc32(room[_HEAD.size : self.nbytes]) if self._verify else 0
        _HEAD.pack_into(room, 0, len(self._raws), self._pickle_nbytes, self.nbytes, checksum)


def unpack(room: memoryview) -> Any:
    """The object that was packed; its arrays are views of `room` and keep it alive.

    Raises ChecksumError where the bytes changed since they were written.
    """
    count, length, nbytes, checksum = _HEAD.unpack_from(room, 0)
    place = _HEAD.size
    if checksum and (found := 1 + crc32(room[place:nbytes])) != checksum:
        raise ChecksumError(
            f"checksum: expected {checksum}, got {found}: an element changed between the worker that wrote it and its "
            "reader; something else writes to its memory"
        )
    table = [_ENTRY.unpack_from(room, place + k * _ENTRY.size) for k in range(count)]
    place += count * _ENTRY.size
    return pickle.loads(room[place : place + length], buffers=[room[o : o + n] for o, n in table])


def _pickled(content: Any, packer: Packer) -> tuple[list[Part], list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _SMALL:
            return True
        buffers.append(buffer)
        return False

    try:
        # The C pickler, an order of magnitude faster, for objects of classes that a module holds.
        return plain_pickle(content, stays_inside), buffers
    except Exception:  # noqa: BLE001 - the user's reduce may raise anything
        # Classes of the user's script are sent by value, or by number; an error here is final.
        buffers.clear()
        return [packer.dumps(content, stays_inside)], buffers
