"""A record as bytes that say how to bring it back: what files of records of bytes hold of dicts.

A dict is a tf.train.Example where its leaves allow it, else msgpack behind `MAGIC`, with which no msgpack or Example
begins. Bytes stay as they are, but for those that would be taken for either, which are put into that msgpack.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderkit._base.extras import missing_library
from loaderkit._base.structure import dict_advice

from .example_encoding import (
    HEAD,
    NAME,
    NotAnExampleError,
    array_bytes,
    array_of,
    decode_example,
    dtype_of,
    dtype_text,
    encode_example,
    is_described,
)
from .scan import Malformed

MAGIC = b"\xc1lk1"
_BEGINNINGS = (MAGIC, b"\n")
_ARRAY, _SCALAR, _TUPLE, _INTEGER = 1, 2, 3, 4
_LEAVES = "bytes, str, bool, int, float, None, numpy arrays and scalars, dicts, lists and tuples"


def encode_record(record: Any) -> bytes:
    """A record as bytes; the same bytes for the same record.

    Args:
        record: bytes, or a dict whose leaves are bytes, str, bool, int, float, None, numpy arrays and scalars, nested
            in dicts, lists and tuples. TypeError that names another leaf. What isn't an Example needs msgpack, of the
            extra `write`.

    >>> encode_record(b"as it is")
    b'as it is'
    >>> decode_record(encode_record({"caption": "a cat", "boxes": [(1, 2), (3, 4)]}))
    {'caption': 'a cat', 'boxes': [(1, 2), (3, 4)]}
    """
    if type(record) is bytes:
        return _packed(record) if is_encoded(record) else record
    if type(record) is not dict:
        got = type(record).__name__
        raise TypeError(f"record: expected bytes or a dict, got {got}; {dict_advice(record)}")
    try:
        return encode_example(record)
    except NotAnExampleError:
        return _packed(record)


def is_encoded(data: bytes) -> bool:
    """Whether `decode_record` makes something else of these bytes.

    >>> is_encoded(b"text"), is_encoded(encode_record({"text": "a"}))
    (False, True)
    """
    return data.startswith(_BEGINNINGS) and (data.startswith(MAGIC) or is_described(data))


def decode_record(data: bytes) -> Any:
    """The record that `encode_record` took; bytes that it didn't make as they are.

    Args:
        data: Malformed where they are damaged.
    """
    if not data.startswith(_BEGINNINGS):
        return data
    if data.startswith(MAGIC):
        return _unpacked(data)
    return decode_example(data) if is_described(data) else data


def decode_records(records: list[bytes]) -> list[Any]:
    """`decode_record` of many; a list without encoded records is given back itself.

    >>> decode_records([b"one", encode_record({"two": 2})])
    [b'one', {'two': 2}]
    """
    # Few records are ours: one search, which may find too many, is for all.
    heads = b"".join([record[:HEAD] for record in records])
    return records if MAGIC not in heads and NAME not in heads else [*map(decode_record, records)]


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise missing_library("records that no tf.train.Example holds need", "msgpack", "write") from error
    return msgpack


def _packed(record: Any) -> bytes:
    try:
        body: bytes = _msgpack().packb(
            record, default=_extension, strict_types=True, unicode_errors="surrogatepass"
        )
    except (TypeError, ValueError, NotAnExampleError):
        _check_leaves(record, "record")
        raise
    return MAGIC + body


def _unpacked(data: bytes) -> Any:
    msgpack = _msgpack()
    try:
        return msgpack.unpackb(
            memoryview(data)[len(MAGIC) :],
            ext_hook=_value,
            strict_map_key=False,
            unicode_errors="surrogatepass",
        )
    except (ValueError, TypeError, KeyError, msgpack.exceptions.UnpackException, RecursionError) as error:
        problem = str(error) or type(error).__name__
        raise Malformed(len(MAGIC), f"expected a record in msgpack, got {problem}") from None


def _extension(value: Any) -> Any:
    """A value that msgpack lacks."""
    msgpack = _msgpack()
    kind = type(value)
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, _body(list(value)))
    if kind is int:  # beyond 64 bits
        return msgpack.ExtType(_INTEGER, str(value).encode())
    if kind is np.ndarray:
        body = _body([dtype_text(value.dtype), list(value.shape), array_bytes(value)])
        return msgpack.ExtType(_ARRAY, body)
    if isinstance(value, np.generic):
        return msgpack.ExtType(_SCALAR, _body([dtype_text(value.dtype), [], array_bytes(np.asarray(value))]))
    raise TypeError


def _body(values: list[Any]) -> bytes:
    return _packed(values)[len(MAGIC) :]


def _value(code: int, body: bytes) -> Any:
    if code == _INTEGER:
        return int(body)
    values: Sequence[Any] = _unpacked(MAGIC + body)
    if code == _TUPLE:
        return tuple(values)
    if code in (_ARRAY, _SCALAR):
        dtype, shape, data = values
        array = array_of(data, dtype_of(dtype), shape)
        return array if code == _ARRAY else array[()]
    raise ValueError(f"an extension of the unknown code {code}")


def _check_leaves(value: Any, path: str) -> None:
    """Raises TypeError that names the first leaf that can't be encoded."""
    if type(value) is dict:
        for key, inner in value.items():
            _check_leaves(key, f"key {key!r} of {path}")
            _check_leaves(inner, f"{path}[{key!r}]")
        return
    if type(value) in (list, tuple):
        for place, inner in enumerate(value):
            _check_leaves(inner, f"{path}[{place}]")
        return
    got = type(value).__name__
    if type(value) is np.ndarray or isinstance(value, np.generic):
        try:
            dtype_text(value.dtype)
            return
        except NotAnExampleError:
            got = f"{got} of dtype {value.dtype}"
    elif value is None or type(value) in (bytes, str, bool, int, float):
        return
    raise TypeError(f"{path}: expected {_LEAVES}, got {got}; {dict_advice(value)}")
