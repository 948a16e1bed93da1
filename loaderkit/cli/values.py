"""The values of records, as text for a reader and as JSON."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from loaderkit._base.size_text import size_text
from loaderkit._base.structure import named_children
from loaderkit._codecs.example import parse_example
from loaderkit._codecs.scan import Malformed
from loaderkit.formats.npy import array_place

from .exit_status import UsageError
from .image_header import image_header
from .open_source import OpenedSource
from .printable import printable, shortened

_SHOWN_BYTES = 16  # of a value that is neither text nor image
_SHOWN_NUMBERS = 8  # of an array


def fields_of(record: Any) -> dict[str, Any]:
    """The values of a record by name, of a tuple by position; of a tf.train.Example its features; else it is one field.

    >>> fields_of({"cls": b"3"}), fields_of("a line")
    ({'cls': b'3'}, {'record': 'a line'})
    >>> fields_of(b"\\n\\x0c\\n\\n\\n\\x01x\\x12\\x05\\x1a\\x03\\n\\x01\\x07")
    {'x': 7}
    """
    if isinstance(record, bytes):
        try:
            features = parse_example(record)
        except Malformed:
            features = {}
        if features and all(features):  # bytes that aren't an Example may have an entry without a name
            return {name: _alone(values) for name, values in features.items()}
    return named_children(record)


def _alone(values: Any) -> Any:
    if len(values) != 1:
        return values
    return values[0] if isinstance(values, list) else values[0].item()


def value_text(value: Any, most: int | None = None) -> str:
    """One line that shows a value: an image as its size, text as text, an array as its type and first numbers.

    most: characters, None for all of a text.

    >>> value_text(b"two\\nlines"), value_text(bytes([255, 0, 1])), value_text(np.arange(3.0))
    ('two\\\\nlines', '3 B: ff 00 01', 'float64 (3,): 0.0 1.0 2.0')
    """
    if isinstance(value, bytes | bytearray | memoryview):
        text = _bytes_text(bytes(value))
    elif isinstance(value, np.ndarray | np.generic):
        text = _array_text(np.asarray(value))
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value_json(value), ensure_ascii=False)
    text = printable(text)
    return text if most is None else shortened(text, most)


def value_json(value: Any) -> Any:
    """The value for `--json`: text as a str, an image as its format and size, other bytes as their number and start.

    >>> value_json(b"3"), value_json(bytes([255, 0, 1]))
    ('3', {'bytes': 3, 'hex': 'ff0001'})
    """
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        if header := image_header(data):
            size = {"width": header.width, "height": header.height} if header.width else {}
            return {"bytes": len(data), "image": header.format, **size}
        text = text_of(data)
        return {"bytes": len(data), "hex": data[:_SHOWN_BYTES].hex()} if text is None else text
    if isinstance(value, np.ndarray | np.generic):
        return value_json(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): value_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [value_json(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no word for it
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def text_of(data: bytes) -> str | None:
    """The bytes as text, None where they aren't UTF-8 or have a zero byte.

    >>> text_of("é\\n".encode()), text_of(bytes(4)) is None
    ('é\\n', True)
    """
    try:
        return None if 0 in data else data.decode()
    except UnicodeDecodeError:
        return None


def _bytes_text(data: bytes) -> str:
    if header := image_header(data):
        return f"{header}, {size_text(len(data))}"
    if described := _npy_text(data):
        return f"{described}, {size_text(len(data))}"
    text = text_of(data)
    if text is not None:
        return text
    more = " ..." if len(data) > _SHOWN_BYTES else ""
    return f"{size_text(len(data))}: {data[:_SHOWN_BYTES].hex(' ')}{more}"


def _npy_text(data: bytes) -> str | None:
    try:
        _, shape, dtype = array_place(data)
    except Malformed:
        return None
    return f"npy {dtype} {shape}"


def _array_text(array: np.ndarray[Any, Any]) -> str:
    shown = " ".join(
        value_text(each, 40) if isinstance(each, bytes | str) else str(each)
        for each in array.ravel()[:_SHOWN_NUMBERS].tolist()
    )
    more = " ..." if array.size > _SHOWN_NUMBERS else ""
    return f"{array.dtype} {array.shape}: {shown}{more}" if array.ndim else shown


MISSING: Any = object()  # what `field_value` gives for a field that a record lacks


def named_field(record: Any, name: str, opened: OpenedSource, key: int) -> Any:
    """The value of a field, or of a path into one such as "json.label"; UsageError where the record has none.

    record: of any type. name: of the field. opened, key: say which record it is.
    """
    found = field_value(record, name)
    if found is MISSING:
        has = ", ".join(named_children(record))
        raise UsageError(
            f"--field: expected a field of {opened.location(key)}, which has {has}, got {name!r}"
        )
    return found


def field_value(record: Any, name: str, missing: Any = MISSING) -> Any:
    """The value of a field: by its whole name, or by a path through JSON, dicts, tuples, lists and fields of objects.

    >>> (
    ...     field_value({"json": b'{"a": {"b": 3}}', "seg.png": b"."}, "json.a.b"),
    ...     field_value({"seg.png": 1}, "seg.png"),
    ... )
    (3, 1)
    """
    fields = named_children(record)
    if isinstance(record, list):
        fields |= named_children(tuple(record))
    if name in fields:
        return fields[name]
    first, dot, rest = name.partition(".")
    while dot:
        if first in fields:
            return field_value(_parsed(fields[first]), rest, missing)
        more, dot, rest = rest.partition(".")
        first = f"{first}.{more}"
    return missing


def _parsed(value: Any) -> Any:
    if isinstance(value, bytes | str):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value
