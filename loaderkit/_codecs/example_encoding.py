"""A dict as a tf.train.Example, with a feature that says which types, dtypes and shapes the others have.

A leaf is a list of bytes (bytes, str, and dtypes that Example lacks as little-endian bytes), of float32, or of int64
(bool, int, integers of 16 to 64 bits). The names of nested dicts are joined by "/".
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .example import Values, parse_example
from .scan import Malformed

DESCRIPTION = "__loaderkit__"
# The entry of the description, behind the lengths of the message and of the entry.
NAME = b"\n" + bytes([len(DESCRIPTION)]) + DESCRIPTION.encode() + b"\x12"
# Two lengths of at most 5 bytes, each behind a tag.
_MOST_BEFORE = 12
# Bytes of a record in which the description's name ends.
HEAD = _MOST_BEFORE + len(NAME)
_SIMPLE_KINDS = "biufcSUmM"
_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
# The encoded bytes in pieces, which are joined once: joins of each message in the next copied a large record six times.
Pieces = list[bytes]


class NotAnExampleError(Exception):
    """A dict that no Example holds in a way that brings it back."""


def is_described(data: bytes) -> bool:
    """Whether these are the bytes of an Example that `encode_example` made.

    >>> is_described(encode_example({"label": 3})), is_described(b"\\nabc")
    (True, False)
    """
    return data[:1] == b"\n" and 0 < data.find(NAME, 0, HEAD) <= _MOST_BEFORE


def encode_example(record: dict[str, Any]) -> bytes:
    """A dict as a serialized tf.train.Example, its features sorted by name behind their description.

    Args:
        record: leaves are bytes, str, bool, int, float, None, numpy arrays and scalars, and lists and tuples of one
            type of them; NotAnExampleError for another.

    >>> decode_example(encode_example({"label": 3, "image": np.zeros((2, 2), np.uint8)}))
    {'label': 3, 'image': array([[0, 0],
           [0, 0]], dtype=uint8)}
    """
    features: dict[str, Pieces] = {}
    entries = [_description(_described(record, "", features))]
    if DESCRIPTION in features or DESCRIPTION in record:
        raise NotAnExampleError
    for name in sorted(features):
        entries += _field(1, [_named(name), *_field(2, features[name])])
    return b"".join(_field(1, entries))


def decode_example(data: bytes) -> dict[str, Any]:
    """The dict that `encode_example` took, in its order; Malformed where the bytes are damaged.

    Args:
        data: for which `is_described` holds.
    """
    features = parse_example(data)
    try:
        (description,) = features[DESCRIPTION]
        record: dict[str, Any] = _built(_parsed(description), "", features)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise Malformed(
            0, f"expected a record as its description says, got {type(error).__name__}: {error}"
        ) from None
    return record


_parsed = lru_cache(256)(json.loads)


class _Fields(tuple[tuple[str, Any], ...]):
    """What the description says of a dict: names, with a text, a list as a tuple, or `_Fields` for each."""

    __slots__ = ()


# Records of a set are mostly of one structure.
@lru_cache(256)
def _description(fields: _Fields) -> bytes:
    text = json.dumps(_as_json(fields), ensure_ascii=False, separators=(",", ":"))
    return b"".join(_field(1, [_named(DESCRIPTION), *_field(2, _bytes_list([text.encode()]))]))


def _as_json(said: Any) -> Any:
    return {name: _as_json(inner) for name, inner in said} if type(said) is _Fields else said


def _described(record: dict[str, Any], prefix: str, features: dict[str, Pieces]) -> _Fields:
    """What the description says of a dict, whose leaves are put into the features."""
    fields: list[tuple[str, Any]] = []
    for key, value in record.items():
        if type(key) is not str or not _has_utf8(key):
            raise NotAnExampleError
        if not key:  # its leaves would have the names of another field's
            raise ValueError(
                f"record: expected names of fields, got '' in {prefix or '/'}; rename it by a Map"
            )
        name = prefix + key
        if type(value) is dict:
            fields.append((key, _described(value, name + "/", features)))
            continue
        said, feature = _leaf(value)
        fields.append((key, said))
        if feature is not None:
            if name in features:
                raise NotAnExampleError
            features[name] = feature
    return _Fields(fields)


@lru_cache(4096)
def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _leaf(value: Any) -> tuple[Any, Pieces | None]:
    """What the description says of a leaf, and its feature."""
    kind = type(value)
    if value is None:
        return "none", None
    if kind in _ENCODED:
        return kind.__name__, _ENCODED[kind]([value])
    if kind is list or kind is tuple:
        kinds = {type(one) for one in value}
        if not kinds:
            return (kind.__name__,), None
        if len(kinds) > 1 or (one := kinds.pop()) not in _ENCODED:
            raise NotAnExampleError
        return (kind.__name__, one.__name__), _ENCODED[one](value)
    if kind is np.ndarray:
        return ("array", dtype_text(value.dtype), value.shape), _array_feature(value)
    if isinstance(value, np.generic):
        return ("scalar", dtype_text(value.dtype)), _array_feature(np.asarray(value))
    raise NotAnExampleError


def dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype's name, of which `np.dtype` makes it again; NotAnExampleError for objects and structures.

    >>> dtype_text(np.dtype(np.float32))
    '<f4'
    """
    if dtype.kind in _SIMPLE_KINDS:
        return dtype.str
    if dtype.type.__module__.partition(".")[0] == "ml_dtypes":
        return dtype.name
    raise NotAnExampleError


def dtype_of(text: str) -> np.dtype[Any]:
    """The dtype of a name that `dtype_text` gave."""
    if text[:1] not in "<>|=":
        import ml_dtypes  # makes its names known to numpy

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, text))
        return dtype
    return np.dtype(text)


def array_bytes(array: NDArray[Any]) -> bytes:
    """The values of an array as little-endian bytes.

    >>> array_bytes(np.array([1], ">i2"))
    b'\\x01\\x00'
    """
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def array_of(data: bytes, dtype: np.dtype[Any], shape: Iterable[int]) -> NDArray[Any]:
    """The array whose values are these little-endian bytes."""
    shape = tuple(shape)
    if not dtype.itemsize:  # texts of no characters
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _is_listed(dtype: np.dtype[Any], scalar: bool) -> bool:
    """Whether integers of the dtype are an Int64List: images of 8 bits are bytes, and scalars always fit but uint64."""
    if dtype.kind == "b" or dtype.itemsize == 1:
        return scalar and dtype.kind in "biu"
    return dtype.kind in "iu" and dtype.str[1:] != "u8"


def _array_feature(array: NDArray[Any]) -> Pieces:
    if array.dtype == np.float32:
        return _field(2, _field(1, [array_bytes(array)]))
    if _is_listed(array.dtype, not array.ndim):
        return _int64_list(array.astype(np.int64).ravel())
    return _bytes_list([array_bytes(array)])


def _array(values: Values, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if isinstance(values, list):
        return array_of(values[0], dtype, shape)
    return values.astype(dtype, copy=False).reshape(shape)


def _bytes_list(values: Iterable[bytes]) -> Pieces:
    return _field(1, [piece for value in values for piece in (_before(1, len(value)), value)])


def _texts(values: Iterable[str]) -> Pieces:
    try:
        return _bytes_list([value.encode() for value in values])
    except UnicodeEncodeError:
        raise NotAnExampleError from None


def _integers(values: Sequence[int]) -> Pieces:
    if min(values) < _INT64_MIN or max(values) > _INT64_MAX:
        raise NotAnExampleError
    return _packed_varints(values) if len(values) <= _FEW else _int64_list(np.array(values, np.int64))


def _floats(values: Iterable[float]) -> Pieces:
    return _bytes_list([np.array(values, "<f8").tobytes()])


_ENCODED: dict[type, Callable[[Any], Pieces]] = {
    bytes: _bytes_list,
    str: _texts,
    bool: _integers,
    int: _integers,
    float: _floats,
}
# The values of a feature as a list of each type.
_DECODED: dict[str, Callable[[Any], list[Any]]] = {
    "bytes": list,
    "str": lambda values: [value.decode() for value in values],
    "bool": lambda values: [bool(value) for value in values],
    "int": lambda values: values.tolist(),
    "float": lambda values: np.frombuffer(values[0], "<f8").tolist(),
}


def _built(node: Any, name: str, features: dict[str, Values]) -> Any:
    """What a node of the description stands for."""
    if type(node) is dict:
        prefix = name + "/" if name else ""
        return {key: _built(inner, prefix + key, features) for key, inner in node.items()}
    if type(node) is str:
        return None if node == "none" else _DECODED[node](features[name])[0]
    kind = node[0]
    if kind == "array":
        return _array(features[name], dtype_of(node[1]), tuple(node[2]))
    if kind == "scalar":
        return _array(features[name], dtype_of(node[1]), ())[()]
    values = _DECODED[node[1]](features[name]) if len(node) > 1 else []
    return values if kind == "list" else tuple(values)


def varint(value: int) -> bytes:
    """An integer from 0 on, as protobuf writes it."""
    if value <= 0x7F:
        return _ONE_BYTE[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


# Few numbers and lengths come up in a data set: without the caches half of the time of a small record went here.
@lru_cache(4096)
def _before(number: int, length: int) -> bytes:
    """What stands before a field's data: its number and their length."""
    return bytes([number << 3 | 2]) + varint(length)


def message_field(number: int, data: bytes) -> bytes:
    """A field of a protobuf message whose value is bytes: text, or another message; number: below 16."""
    return _before(number, len(data)) + data


@lru_cache(4096)
def _named(name: str) -> bytes:
    return message_field(1, name.encode())


def _field(number: int, pieces: Pieces) -> Pieces:
    """A `message_field` of data in pieces."""
    return [_before(number, sum(map(len, pieces))), *pieces]


_FEW = 8  # integers for which Python is quicker than numpy


def _packed_varints(values: Iterable[int]) -> Pieces:
    return _field(3, _field(1, [varint(value & _UINT64_MAX) for value in values]))


def _int64_list(values: NDArray[np.int64]) -> Pieces:
    if len(values) <= _FEW:
        return _packed_varints(values.tolist())
    shifts = np.arange(10, dtype=np.uint64) * np.uint64(7)
    groups = values.view(np.uint64)[:, None] >> shifts
    more = (groups >> np.uint64(7)) != 0
    more[:, 9] = False
    used = np.concatenate((np.ones((len(values), 1), bool), groups[:, 1:] != 0), axis=1)
    septets = (groups & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
    return _field(3, _field(1, [septets[used].tobytes()]))
