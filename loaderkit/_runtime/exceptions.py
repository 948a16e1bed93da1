"""A user's exception on its way from a worker to the trainer, with its type, and the worker's traceback as a note.

Not every exception survives a pickle: a class with constructor arguments of its own is rebuilt from `args` alone, and
may hold what can't travel. So a worker tries the way back itself, of the whole first, then of its parts.
"""

import pickle
import traceback
from typing import Any

from loaderkit.errors import WorkerError

from .pickling import Packer


def pack_exception(error: BaseException, packer: Packer) -> bytes:
    """An exception as bytes that `unpack_exception` can always read."""
    trace = "".join(traceback.format_exception(error))
    name, text = type(error).__qualname__, _text_of(error)
    for way in (_whole, _parts):
        try:
            packed = way(error, packer)
            copy = pickle.loads(packed)()
            # Of parts, what can't travel is only its repr: the text may differ, the type is what callers catch.
            if type(copy).__qualname__ == name and (way is _parts or _text_of(copy) == text):
                return pickle.dumps((packed, name, text, trace))
        except Exception:  # noqa: BLE001 - the user's reduce or constructor may raise anything: take the next way
            continue
    return pickle.dumps((None, name, text, trace))


def unpack_exception(packed: bytes) -> Exception:
    """The exception, as much like the one that was raised as can be, with the worker's traceback as a note."""
    way, name, text, trace = pickle.loads(packed)
    rebuilt: Any = None
    try:
        if way is not None:
            rebuilt = pickle.loads(way)()
    except Exception:  # noqa: BLE001 - what a worker can rebuild, the user's class may refuse here
        rebuilt = None
    error = rebuilt if isinstance(rebuilt, Exception) else WorkerError(f"{name}: {text}")
    error.add_note("Traceback of the worker:\n" + trace.rstrip())
    return error


class _Whole:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self) -> BaseException:
        return self._error


class _Parts:
    def __init__(
        self, kind: type[BaseException], arguments: list[bytes], attributes: dict[str, bytes]
    ) -> None:
        self._kind, self._arguments, self._attributes = kind, arguments, attributes

    def __call__(self) -> BaseException:
        # Not through its constructor: that may want other arguments than `args` holds.
        error = self._kind.__new__(self._kind)
        error.args = tuple(map(pickle.loads, self._arguments))
        for attribute, value in self._attributes.items():
            try:
                setattr(error, attribute, pickle.loads(value))
            except AttributeError:
                continue  # a read-only attribute: its class computes it
        return error


def _whole(error: BaseException, packer: Packer) -> bytes:
    return packer.dumps(_Whole(error))


def _parts(error: BaseException, packer: Packer) -> bytes:
    attributes = {name: value for name, value in vars(error).items() if name != "__notes__"}
    return packer.dumps(
        _Parts(
            type(error),
            [_or_repr(argument, packer) for argument in error.args],
            {name: _or_repr(value, packer) for name, value in attributes.items()},
        )
    )


def _or_repr(value: Any, packer: Packer) -> bytes:
    try:
        packed = packer.dumps(value)
        pickle.loads(packed)
    except Exception:  # noqa: BLE001 - whatever it is, it can't travel
        return pickle.dumps(repr(value))
    return packed


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as why:  # noqa: BLE001 - the user's __str__ may raise anything
        return f"(its text can't be had: {type(why).__qualname__})"
