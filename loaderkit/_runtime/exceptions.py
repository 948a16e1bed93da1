"""A user's exception on its way from a worker to the trainer, with its type, and the worker's traceback as a note.

Not every exception survives a pickle: a class with constructor arguments of its own is rebuilt from `args` alone, and
may hold what can't travel. So a worker tries the way back itself, of the whole first, then of its parts. What caused
it is no part of its pickle and travels beside it; a cause, or a group's member, of which nothing can be rebuilt arrives
as a WorkerError that says its type and text.
"""

import pickle
import traceback
from typing import Any

from loaderkit._notes import annotate
from loaderkit.errors import WorkerError

from .pickling import Packer

_MOST_CAUSES = 32  # of one exception, those of its causes and of a group's members included
_MOST_TEXT = 40_000  # characters of a traceback
_MOST_LINE = 2_000  # of one of its lines, where it is longer


def pack_exception(error: BaseException, packer: Packer) -> bytes:
    """An exception as bytes that `unpack_exception` can always read."""
    return pickle.dumps((_packed(error, packer, _Bound(_MOST_CAUSES)), _trace_of(error)))


def unpack_exception(packed: bytes) -> Exception:
    """The exception, as much like the one that was raised as can be, with the worker's traceback as a note."""
    inner, trace = pickle.loads(packed)
    error = _unpacked(inner)
    if not isinstance(error, Exception):
        error = _stand_in(type(error).__qualname__, _text_of(error))
    annotate(error, "Traceback of the worker:\n" + trace)
    return error


class _Bound:
    """How many causes may still travel, and which exceptions are on the way: a chain may close on itself."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.above: list[BaseException] = []

    def takes(self, cause: BaseException) -> bool:
        if not self.left or any(cause is other for other in self.above):
            return False
        self.left -= 1
        return True


def _packed(error: BaseException, packer: Packer, bound: _Bound) -> bytes:
    name, text = type(error).__qualname__, _text_of(error)
    bound.above.append(error)
    behind = [error.__cause__, None if error.__suppress_context__ else error.__context__]
    causes = [
        None if cause is None or not bound.takes(cause) else _packed(cause, packer, bound) for cause in behind
    ]
    made = None
    for way in (_group, _whole, _parts):
        try:
            packed = way(error, packer, bound)
            copy = pickle.loads(packed)()
            # Of parts, what can't travel is only its repr: the text may differ, the type is what callers catch.
            if type(copy).__qualname__ == name and (way is not _whole or _text_of(copy) == text):
                made = packed
                break
        except Exception:  # noqa: BLE001 - the user's reduce or constructor may raise anything: take the next way
            continue
    bound.above.pop()
    return pickle.dumps((made, name, text, causes, error.__suppress_context__))


def _unpacked(packed: bytes) -> BaseException:
    way, name, text, (cause, context), suppressed = pickle.loads(packed)
    rebuilt: Any = None
    try:
        if way is not None:
            rebuilt = pickle.loads(way)()
    except Exception:  # noqa: BLE001 - what a worker can rebuild, the user's class may refuse here
        rebuilt = None
    error = rebuilt if isinstance(rebuilt, BaseException) else _stand_in(name, text)
    # A user's class may refuse to be written to.
    if cause is not None:
        BaseException.__setattr__(error, "__cause__", _unpacked(cause))
    if context is not None:
        BaseException.__setattr__(error, "__context__", _unpacked(context))
    BaseException.__setattr__(error, "__suppress_context__", suppressed)
    return error


def _stand_in(name: str, text: str) -> WorkerError:
    return WorkerError(f"{name}: {text}")


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
        BaseException.__setattr__(error, "args", tuple(map(pickle.loads, self._arguments)))
        _set_attributes(error, self._attributes)
        return error


class _Group:
    def __init__(
        self,
        kind: type[BaseExceptionGroup[BaseException]],
        message: str,
        members: list[bytes],
        attributes: dict[str, bytes],
    ) -> None:
        self._kind, self._message, self._members, self._attributes = kind, message, members, attributes

    def __call__(self) -> BaseException:
        # As with parts: a class of the user's may want other arguments, the built-in one wants these.
        members = [*map(_unpacked, self._members)]
        group = BaseExceptionGroup.__new__(self._kind, self._message, members)
        _set_attributes(group, self._attributes)
        return group


def _set_attributes(error: BaseException, attributes: dict[str, bytes]) -> None:
    # Not by setattr: its class may refuse, as a frozen dataclass does, or compute an attribute of that name.
    vars(error).update({name: pickle.loads(value) for name, value in attributes.items()})


def _group(error: BaseException, packer: Packer, bound: _Bound) -> bytes:
    """Not whole, if its members can be had one by one: each is as much as can travel of it, causes included."""
    if not isinstance(error, BaseExceptionGroup):
        raise TypeError("no group")
    members = [_packed(member, packer, bound) for member in error.exceptions]
    attributes = {name: _or_repr(value, packer) for name, value in vars(error).items()}
    return packer.dumps(_Group(type(error), error.message, members, attributes))


def _whole(error: BaseException, packer: Packer, bound: _Bound) -> bytes:
    return packer.dumps(_Whole(error))


def _parts(error: BaseException, packer: Packer, bound: _Bound) -> bytes:
    # Of the first one the traceback has the notes.
    left_out = {"__notes__"} if len(bound.above) == 1 else set()
    attributes = {name: value for name, value in vars(error).items() if name not in left_out}
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


def _trace_of(error: BaseException) -> str:
    """Its traceback; of long lines and of a long text the middle is left out."""
    text = "".join(traceback.format_exception(error)).rstrip()
    if len(text) > _MOST_TEXT:
        text = "".join(shortened(line, _MOST_LINE) for line in text.splitlines(keepends=True))
    return shortened(text, _MOST_TEXT)


def shortened(text: str, most: int) -> str:
    """The text, with its middle left out where it is longer than so many characters.

    >>> shortened("x" * 1_000_000, 4)
    'xx [999,996 characters left out] xx'
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} [{len(text) - most:,} characters left out] {text[-(most // 2) :]}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as why:  # noqa: BLE001 - the user's __str__ may raise anything
        return f"(its text can't be had: {type(why).__qualname__})"
