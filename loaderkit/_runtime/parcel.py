"""Any Python object as bytes in a slot, arrays beside the pickle instead of inside, so that they aren't copied again.

    uint64 count | uint64 length of the pickle | count times (uint64 offset, uint64 length) | the pickle | the buffers

Offsets count from the parcel's first byte; each buffer starts at a multiple of 64.
"""

import pickle
import struct
from typing import Any

from .pickling import Packer

_HEAD = struct.Struct("=QQ")
_ALIGNMENT = 64
_SMALL = 2048  # bytes: a buffer below that is cheaper inside the pickle


class Parcel:
    """An object ready to be written somewhere.

    Args:
        content: any object that pickle or cloudpickle takes.
        packer: for what the C pickler can't take.

    >>> import numpy as np
    >>> parcel = Parcel({"x": np.arange(1000)}, Packer())
    >>> room = bytearray(parcel.nbytes)
    >>> parcel.write(memoryview(room))
    >>> int(unpack(memoryview(room))["x"][999])
    999
    """

    def __init__(self, content: Any, packer: Packer) -> None:
        self._pickle, buffers = _pickled(content, packer)
        self._raws = [buffer.raw() for buffer in buffers]
        self._table: list[tuple[int, int]] = []
        end = _HEAD.size * (1 + len(self._raws)) + len(self._pickle)
        for raw in self._raws:
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
            self._table.append((offset, raw.nbytes))
            end = offset + raw.nbytes
        self.nbytes = end

    def write(self, room: memoryview) -> None:
        """Writes it to the first `nbytes` bytes of `room`."""
        _HEAD.pack_into(room, 0, len(self._raws), len(self._pickle))
        place = _HEAD.size
        for entry in self._table:
            _HEAD.pack_into(room, place, *entry)
            place += _HEAD.size
        room[place : place + len(self._pickle)] = self._pickle
        for (offset, length), raw in zip(self._table, self._raws, strict=True):
            room[offset : offset + length] = raw


def unpack(room: memoryview) -> Any:
    """The object of a parcel; its arrays look into `room` and keep it alive."""
    count, length = _HEAD.unpack_from(room, 0)
    place = _HEAD.size
    table = [_HEAD.unpack_from(room, place + k * _HEAD.size) for k in range(count)]
    place += count * _HEAD.size
    return pickle.loads(room[place : place + length], buffers=[room[o : o + n] for o, n in table])


def _pickled(content: Any, packer: Packer) -> tuple[bytes, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _SMALL:
            return True
        buffers.append(buffer)
        return False

    try:
        # The C pickler: an order of magnitude faster, and right for all whose class a module holds.
        return pickle.dumps(content, protocol=5, buffer_callback=beside), buffers
    except Exception:  # noqa: BLE001 - the user's reduce may raise anything
        # Classes of the user's script travel by value, or by number; a second failure is the answer.
        buffers.clear()
        return packer.dumps(content, beside), buffers
