"""Strict JSON for states: unambiguous to read, laid out for people."""

import json
import math
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from loaderkit.errors import StateError

_MAX_DEPTH = 32  # levels; far above any state's, far below Python's recursion limit
# A seed may use all 64 bits; every other number has a tighter range of its own.
_LEAST_INT, _MOST_INT = -(2**63), 2**64 - 1
_MAX_DIGITS = 20  # characters of 2**64 - 1, and of -2**63
_LINE = 96  # characters of a line that isn't broken up
_INDENT = "  "


def parse(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The JSON object in `data`; refuses all that JSON parsers read differently.

    Raises TypeError where `data` isn't bytes, and StateError where it isn't UTF-8, JSON or an object, or has a key
    twice, NaN or an infinity, an integer of more than 64 bits, or more than 32 levels.

    >>> parse(b'{"step": 3}')
    {'step': 3}
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(
            f"state: expected the bytes that get_state() returned, got {type(data).__name__}{_as_bytes(data)}"
        )
    try:
        text = bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise StateError(f"state: expected JSON in UTF-8, got bytes that aren't: {error}") from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_without_repeats,
            parse_constant=_refuse_constant,
            parse_int=_parse_int,
        )
    except StateError:
        raise
    except ValueError as error:
        raise StateError(f"state: expected JSON, got {text!r:.60}: {error}") from None
    except RecursionError:
        raise StateError(f"state: expected at most {_MAX_DEPTH} levels, got many more") from None
    if not isinstance(value, dict):
        raise StateError(f"state: expected a JSON object, got {text!r:.60}")
    problem = find_problem(value, "state")
    if problem:
        raise StateError(problem)
    return value


def _as_bytes(data: Any) -> str:
    if hasattr(data, "__fspath__") or (isinstance(data, str) and "{" not in data):
        return f"; if it is the name of a file, give pathlib.Path({str(data)!r:.200}).read_bytes()"
    if isinstance(data, str):
        return "; if it is the document as text, give text.encode()"
    if isinstance(data, dict):
        return "; if it is the document parsed, give json.dumps(document).encode()"
    return ""


def find_problem(value: Any, path: str, depth: int = 0) -> str | None:
    """The reason why a value can't be written as JSON and read again, or None.

    >>> find_problem({"sizes": [1, float("nan")]}, "source")
    'source.sizes[1]: expected a finite number, got nan'
    """
    if depth == 0 and _is_sound(value):  # most are: no path is put together for them
        return None
    if depth > _MAX_DEPTH:
        return f"{path}: expected at most {_MAX_DEPTH} levels"
    if value is None or isinstance(value, str | bool):
        return None
    if isinstance(value, int):
        inside = _LEAST_INT <= value <= _MOST_INT
        return (
            None
            if inside
            else f"{path}: expected an integer of at most 64 bits, got one of {value.bit_length()}"
        )
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{path}: expected a finite number, got {value}"
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return f"{path}: expected str keys, got {list(value)!r:.80}"
        children = ((f"{path}.{key:.80}", child) for key, child in value.items())
        return next(filter(None, (find_problem(child, where, depth + 1) for where, child in children)), None)
    if isinstance(value, list | tuple):
        items = (find_problem(child, f"{path}[{place}]", depth + 1) for place, child in enumerate(value))
        return next(filter(None, items), None)
    return f"{path}: expected a JSON value, got {type(value).__name__}"


def _is_sound(value: Any) -> bool:
    """Whether a value is JSON as states have it, of the plain types only; False where that takes a closer look."""
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH + 1):
        inner: list[Any] = []
        for child in level:
            kind = type(child)
            if kind is dict:
                inner += child.values()
                if not all(type(key) is str for key in child):
                    return False
            elif kind is list:
                inner += child
            elif kind is int:
                if not _LEAST_INT <= child <= _MOST_INT:
                    return False
            elif kind is not str and kind is not bool and child is not None:
                return False
        if not inner:
            return True
        level = inner
    return False


def render(document: dict[str, Any], steady: Collection[str] = ()) -> bytes:
    """Indented JSON; below the first level, a value that fits in one line is written in one.

    steady: keys with mostly the same value in all documents: the text of their values is cached.

    >>> print(render({"step": 3, "segments": [[0, 0, 256]]}).decode(), end="")
    {
      "step": 3,
      "segments": [[0, 0, 256]]
    }
    """
    lines: list[str] = []
    for place, (key, value) in enumerate(document.items(), start=1):
        start, end = f"{json.dumps(key)}: ", "," if place < len(document) else ""
        if key in steady:
            lines += _kept_lines(json.dumps(value), start, end)
        else:
            lines += _lines(value, start, end, _INDENT)
    return ("\n".join(["{", *lines, "}"] if lines else ["{}"]) + "\n").encode()


@lru_cache(maxsize=64)
def _kept_lines(flat: str, start: str, end: str) -> tuple[str, ...]:
    return tuple(_lines(json.loads(flat), start, end, _INDENT))


def _lines(value: Any, start: str, end: str, indent: str) -> Iterator[str]:
    flat = f"{indent}{start}{json.dumps(value)}{end}"
    if not value or not isinstance(value, dict | list | tuple) or len(flat) <= _LINE:
        yield flat
        return
    pairs = value.items() if isinstance(value, dict) else ((None, child) for child in value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    yield f"{indent}{start}{opening}"
    for place, (key, child) in enumerate(pairs, start=1):
        label = "" if key is None else f"{json.dumps(key)}: "
        yield from _lines(child, label, "," if place < len(value) else "", indent + _INDENT)
    yield f"{indent}{closing}{end}"


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise StateError(f"state: expected each key once, got {key!r:.80} twice")
        result[key] = value
    return result


def _refuse_constant(text: str) -> None:
    raise StateError(f"state: expected finite numbers, got {text}")


def _parse_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise StateError(f"state: expected integers of at most 64 bits, got one of {len(text)} characters")
    return int(text)
