"""Where the values of a tf.train.Example lie, for records as TensorFlow and other writers of protobuf write them.

`None` means that the bytes are laid out in another way, or damaged: `parse_example` reads them field by field, or says
what is wrong.
"""

from typing import NamedTuple

# The tags of a field 1, 2 and 3 of bytes: in a Feature the kinds of lists.
_ONE, _TWO, _THREE = 10, 18, 26
_MORE = 0x80


class FeaturePlace(NamedTuple):
    """A feature: its name in UTF-8, the number of its kind of list, and where its values begin and end.

    spans: of a list of bytes one for each value, of numbers one, in which they are packed.
    """

    name: bytes
    kind: int
    spans: list[tuple[int, int]]


def feature_places(data: bytes) -> list[FeaturePlace] | None:
    """The features of a record in their order.

    Args:
        data: a serialized tf.train.Example.

    >>> feature_places(b"\\n\\x0c\\n\\n\\n\\x01x\\x12\\x05\\x1a\\x03\\n\\x01\\x07")
    [FeaturePlace(name=b'x', kind=3, spans=[(13, 14)])]
    >>> feature_places(b"\\n\\x0c")
    """
    try:
        return _places(data)
    except IndexError:  # the bytes end within a field
        return None


def _places(data: bytes) -> list[FeaturePlace] | None:
    size = len(data)
    if not size or data[0] != _ONE:
        return None
    length, at = _length(data, 1)
    if at + length != size:
        return None
    found = []
    while at < size:
        if data[at] != _ONE:
            return None
        end, begin = data[at + 1], at + 2
        if end >= _MORE:
            end, begin = _length(data, at + 1)
        end += begin
        at = begin + 2 + data[begin + 1]  # behind the name
        if data[begin] != _ONE or data[begin + 1] >= _MORE or data[at] != _TWO or end > size:
            return None
        name = data[begin + 2 : at]
        length, at = data[at + 1], at + 2
        if length >= _MORE:
            length, at = _length(data, at - 1)
        tag = data[at]
        if at + length != end or tag not in (_ONE, _TWO, _THREE):
            return None
        length, at = data[at + 1], at + 2
        if length >= _MORE:
            length, at = _length(data, at - 1)
        spans = _spans(data, tag, at, end) if at + length == end else None
        if spans is None:
            return None
        at = end
        found.append(FeaturePlace(name, tag >> 3, spans))
    return found


def _spans(data: bytes, tag: int, at: int, end: int) -> list[tuple[int, int]] | None:
    """The values of a list."""
    spans = []
    while at < end:
        if data[at] != _ONE:
            return None
        length, at = data[at + 1], at + 2
        if length >= _MORE:
            length, at = _length(data, at - 1)
        spans.append((at, at + length))
        at += length
    if at != end:
        return None
    if tag != _ONE:
        if len(spans) != 1:
            return None
        ((begin, _),) = spans
        if (tag == _TWO and (end - begin) % 4) or (
            tag == _THREE and (begin == end or data[end - 1] >= _MORE)
        ):
            return None
    return spans


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length of several bytes, and where it ends."""
    value = shift = 0
    while shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, at
        shift += 7
    raise IndexError
