"""tf.train.Example: a map from names to lists of bytes, floats or integers, read from its wire format.

    Example   1: Features              Feature     one of 1: BytesList, 2: FloatList, 3: Int64List
    Features  1: entries of a map      BytesList   1: bytes, each
    entry     1: name, 2: Feature      FloatList   1: float32, packed or each
                                       Int64List   1: varints, packed or each

As protobuf's own readers do: unknown fields are skipped, of a name that comes again the last entry counts, of several
lists in a Feature the last kind, and parts of one message are joined.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from .example_layout import FeaturePlace, feature_places
from .scan import Malformed

# The values of a feature: bytes in a list, numbers as float32 (n,) or int64 (n,).
Values = list[bytes] | NDArray[np.float32] | NDArray[np.int64]

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3
_VARINT_BYTES = 10
# numpy's 20 calls cost as much as a loop over this many bytes.
_LOOPED_BYTES = 64


def parse_example(data: bytes) -> dict[str, Values]:
    """The features of a serialized tf.train.Example; those without a list are left out.

    Args:
        data: its bytes. Malformed, with the offset in them, where they aren't one.

    >>> parse_example(b"\\n\\x0c\\n\\n\\n\\x01x\\x12\\x05\\x1a\\x03\\n\\x01\\x07")
    {'x': array([7])}
    """
    places = feature_places(data)
    if places is not None:
        try:
            return {place.name.decode(): _placed(data, place) for place in places}
        except (UnicodeDecodeError, Malformed):
            pass  # what follows says where it is wrong
    found = {}
    for number, wire, begin, end in _fields(data, 0, len(data)):
        if number == 1 and wire == _BYTES:
            for entry, kind, at, stop in _fields(data, begin, end):
                if entry == 1 and kind == _BYTES:
                    name, values = _entry(data, at, stop)
                    found[name] = values
    return {name: values for name, values in found.items() if values is not None}


def _placed(data: bytes, place: FeaturePlace) -> Values:
    if place.kind == _BYTES_LIST:
        return [data[begin:end] for begin, end in place.spans]
    ((begin, end),) = place.spans
    if place.kind == _FLOAT_LIST:
        return np.frombuffer(data[begin:end], "<f4").astype(np.float32)
    return integers_of(data[begin:end])


def _entry(data: bytes, begin: int, end: int) -> tuple[str, Values | None]:
    """An entry of the map: its name and the values of its Feature."""
    name, spans = "", []
    for number, wire, at, stop in _fields(data, begin, end):
        if wire == _BYTES and number == 1:
            try:
                name = data[at:stop].decode()
            except UnicodeDecodeError as error:
                raise Malformed(
                    at + error.start, "expected a feature's name in UTF-8, got other bytes"
                ) from None
        elif wire == _BYTES and number == 2:
            spans.append((at, stop))
    kind = 0
    lists: list[tuple[int, int]] = []
    for begin, end in spans:
        for number, wire, at, stop in _fields(data, begin, end):
            if wire == _BYTES and _BYTES_LIST <= number <= _INT64_LIST:
                if number != kind:
                    if kind:  # checked, though another kind takes its place
                        _values(data, kind, lists)
                    kind, lists = number, []
                lists.append((at, stop))
    return name, _values(data, kind, lists) if kind else None


def _values(data: bytes, kind: int, lists: Iterable[tuple[int, int]]) -> Values:
    one = (_BYTES, _FIXED32, _VARINT)[kind - 1]  # the wire type of a value that isn't packed
    parts = []
    for begin, end in lists:
        for number, wire, at, stop in _fields(data, begin, end):
            if number != 1 or (wire != one and wire != _BYTES):
                continue
            if wire == _BYTES and kind == _FLOAT_LIST and (stop - at) % 4:
                raise Malformed(at, f"expected floats of 4 bytes, got {stop - at} bytes")
            if wire == _BYTES and kind == _INT64_LIST and stop > at and data[stop - 1] >= 0x80:
                raise Malformed(stop, "expected a packed integer, got the end of the list within one")
            parts.append(data[at:stop])
    if kind == _BYTES_LIST:
        return parts
    joined = parts[0] if len(parts) == 1 else b"".join(parts)
    if kind == _FLOAT_LIST:
        return np.frombuffer(joined, "<f4").astype(np.float32)
    return integers_of(joined)


def integers_of(packed: bytes) -> NDArray[np.int64]:
    """The integers of varints, (n,).

    Args:
        packed: their bytes, the last one whole. Malformed where one is too long.

    >>> integers_of(b"\\x07\\xac\\x02")
    array([  7, 300])
    """
    if packed.isascii():  # each has one byte
        return (
            np.array([*packed], np.int64)
            if len(packed) <= _LOOPED_BYTES
            else np.frombuffer(packed, np.uint8).astype(np.int64)
        )
    if len(packed) <= _LOOPED_BYTES:
        values, at = [], 0
        while at < len(packed):
            value, at = _varint(packed, at, len(packed))
            values.append(value)
        return np.array(values, np.uint64).view(np.int64)
    data = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(data < 0x80)
    begins = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - begins + 1
    longest = int(lengths.max())
    if longest > _VARINT_BYTES:
        raise Malformed(0, f"expected integers of at most {_VARINT_BYTES} bytes, got one of {longest}")
    unsigned = (data[begins] & 0x7F).astype(np.uint64)
    for place in range(1, longest):
        longer = np.flatnonzero(lengths > place)
        seven = (data[begins[longer] + place] & 0x7F).astype(np.uint64)
        unsigned[longer] |= seven << np.uint64(7 * place)
    return unsigned.view(np.int64)


def integers_of_rows(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The integers of lists that are equally long, those of one after those of the other.

    Args:
        packed: (n, bytes of a list). Malformed where one isn't whole.

    >>> integers_of_rows(np.array([[7, 0xAC, 2], [0x80, 1, 9]], np.uint8))
    array([  7, 300, 128,   9])
    """
    if packed[:, -1].max() >= 0x80:
        raise Malformed(0, "expected a packed integer, got the end of the list within one")
    return integers_of(packed.tobytes())


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, and where the value's bytes begin and end, of each field of a message."""
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = _varint(data, at, end)
        wire = tag & 7
        if not 8 <= tag < 1 << 32:
            raise Malformed(at, f"expected the number of a field, got {tag >> 3}")
        if wire == _BYTES:
            length, at = _varint(data, at, end)
            begin = at
            at += length
        else:
            begin = at
            at = _value_end(data, tag, at, end)
        if at > end:
            raise Malformed(begin, f"expected {at - begin} bytes of a value, got {end - begin}")
        yield tag >> 3, wire, begin, at


def _value_end(data: bytes, tag: int, at: int, end: int) -> int:
    """Where a value that isn't of the type of bytes ends; groups, which Example has none of, are skipped."""
    wire = tag & 7
    if wire == _VARINT:
        return _varint(data, at, end)[1]
    if wire == _FIXED32:
        return at + 4
    if wire == _FIXED64:
        return at + 8
    if wire != _GROUP:
        raise Malformed(at, f"expected a field of wire type 0, 1, 2, 3 or 5, got {wire}")
    open_groups = [tag >> 3]
    while open_groups:
        tag, at = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise Malformed(at, f"expected the number of a field, got {number}")
        if wire == _GROUP:
            open_groups.append(number)
        elif wire == _GROUP_END and number == open_groups[-1]:
            open_groups.pop()
        elif wire == _BYTES:
            length, at = _varint(data, at, end)
            at += length
        else:
            at = _value_end(data, tag, at, end)
    return at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned integer of 64 bits, and where it ends."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift == 7 * _VARINT_BYTES:
            raise Malformed(at, f"expected an integer of at most {_VARINT_BYTES} bytes, got a longer one")
    raise Malformed(min(at, end), "expected an integer, got the end of the bytes")
