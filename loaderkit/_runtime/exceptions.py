"""A user's exception on its way from a worker to the trainer, with its type, and the worker's traceback as a note.

Not every exception survives a pickle: a class with constructor arguments of its own is rebuilt from `args` alone, and
may hold what can't travel. So a worker tries the whole way itself first, and sends the parts where that fails.
"""

import pickle
import traceback
from typing import Any

import cloudpickle

from loaderkit.errors import WorkerError


def pack_exception(error: BaseException) -> bytes:
    """An exception as bytes that `unpack_exception` can always read."""
    trace = "".join(traceback.format_exception(error))
    try:
        whole = cloudpickle.dumps(error)
        copy = pickle.loads(whole)
        if type(copy).__qualname__ == type(error).__qualname__ and str(copy) == str(error):
            return pickle.dumps((whole, None, trace))
    except Exception:  # noqa: BLE001 - the user's reduce or constructor may raise anything: take the other way
        whole = b""
    parts = (
        _or_none(type(error)),
        type(error).__qualname__,
        [_or_repr(argument) for argument in error.args],
        {name: _or_repr(value) for name, value in vars(error).items() if name != "__notes__"},
        str(error),
    )
    return pickle.dumps((None, parts, trace))


def unpack_exception(packed: bytes) -> BaseException:
    """The exception, as much like the one that was raised as can be, with the worker's traceback as a note."""
    whole, parts, trace = pickle.loads(packed)
    error: BaseException = pickle.loads(whole) if whole is not None else _rebuilt(*parts)
    error.add_note("Traceback of the worker:\n" + trace.rstrip())
    return error


def _or_none(value: Any) -> bytes | None:
    try:
        packed: bytes = cloudpickle.dumps(value)
        pickle.loads(packed)
    except Exception:  # noqa: BLE001 - whatever it is, it can't travel
        return None
    return packed


def _or_repr(value: Any) -> bytes:
    packed = _or_none(value)
    return pickle.dumps(repr(value)) if packed is None else packed


def _rebuilt(
    cls: bytes | None, name: str, arguments: list[bytes], attributes: dict[str, bytes], text: str
) -> BaseException:
    if cls is None:
        return WorkerError(f"{name}: {text}")
    kind: type[BaseException] = pickle.loads(cls)
    # Not through its constructor: that may want other arguments than `args` holds.
    error = kind.__new__(kind)
    error.args = tuple(pickle.loads(argument) for argument in arguments)
    for attribute, value in attributes.items():
        try:
            setattr(error, attribute, pickle.loads(value))
        except AttributeError:
            continue  # a read-only attribute: its class computes it
    return error
