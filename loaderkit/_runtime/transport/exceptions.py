"""Sends a user's exception from a worker to the trainer: with its type, and the worker's traceback as a note.

Not every exception can be pickled: pickle rebuilds a class with constructor arguments of its own from `args`, and
attributes may not be picklable. So the worker unpickles its own pickle to test it: first of the whole exception, then
of its parts. Causes aren't part of an exception's pickle and are sent beside it; a cause, or a member of a group, that
can't be rebuilt arrives as a WorkerError with its type and text.

A user's exception class may do anything: its methods may raise, properties may hide attributes, its message may be as
large as memory. So the slots of BaseException are read instead of the class's attributes, errors of the class are
ignored, and parts larger than a bound are cut, which a note says.
"""

import pickle
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from loaderkit._base.notes import annotate, text_of
from loaderkit.errors import WorkerError

from .pickling import Packer

# Bounds on what one exception sends. They keep a worker's report small and its memory bounded, and leave usual
# exceptions whole. Not measured.
_MOST_CAUSES = 32  # causes of an exception, including causes of causes and of a group's members
_MOST_MEMBERS = 2_000  # members of a group
_MOST_TEXT = 40_000  # characters of a traceback, and of a text that is cut
_MOST_LINE = 2_000  # characters of a line of a traceback that is too long
_MOST_NAME = 200  # characters of the name of a class or an attribute
_MOST_BYTES = 16 << 20  # bytes of an exception with its causes and members
_SHARES = 4  # an argument or an attribute may take one in so many of the remaining bytes
_NOTHING_KNOWN = pickle.dumps((None, "Exception", "", [None, None], False, []))

# The interpreter's own slots, which a class can hide by attributes of the same names.
_cause_of: Any = BaseException.__dict__["__cause__"].__get__
_context_of: Any = BaseException.__dict__["__context__"].__get__
_suppresses: Any = BaseException.__dict__["__suppress_context__"].__get__
_traceback_of: Any = BaseException.__dict__["__traceback__"].__get__
_attributes_of: Any = BaseException.__dict__["__dict__"].__get__
_arguments_of: Any = BaseException.__dict__["args"].__get__
_members_of: Any = BaseExceptionGroup.__dict__["exceptions"].__get__
_message_of: Any = BaseExceptionGroup.__dict__["message"].__get__


def pack_exception(error: BaseException, packer: Packer) -> bytes:
    """An exception as bytes that `unpack_exception` can always read; errors of the exception's class are ignored."""
    inner = _or(_NOTHING_KNOWN, lambda: _packed(error, _Bound(packer, _MOST_CAUSES, _MOST_BYTES)))
    return pickle.dumps((inner, _or(None, lambda: _trace_of(error)) or _plain_trace_of(error)))


def unpack_exception(packed: bytes) -> Exception:
    """The exception, as close to the original as possible, with the worker's traceback as a note."""
    inner, trace = pickle.loads(packed)
    arrived: Any = _unpacked(inner)
    is_error = issubclass(type(arrived), Exception)
    error: Exception = arrived if is_error else _stand_in(_name_of(arrived), text_of(arrived))
    annotate(error, "Traceback of the worker:\n" + trace)
    return error


def _or(otherwise: Any, make: Callable[[], Any]) -> Any:
    """The result of `make`, or `otherwise` where the user's class raises anything, SystemExit included."""
    try:
        return make()
    except BaseException:  # noqa: BLE001 - the error to report is the user's first one, not this one
        return otherwise


class _Bound:
    """What pickles, the remaining bounds, and the exceptions being packed, because a chain of causes may be a cycle."""

    def __init__(self, packer: Packer, causes: int, nbytes: int) -> None:
        self.packer = packer
        self.causes = causes
        self.nbytes = nbytes
        self.above: list[BaseException] = []

    @property
    def text(self) -> int:
        """The number of characters to which a text is cut."""
        return _MOST_TEXT if self.nbytes > 0 else _MOST_LINE

    def admits(self, cause: BaseException) -> bool:
        if not self.causes or any(cause is other for other in self.above):
            return False
        self.causes -= 1
        return True


def _packed(error: BaseException, bound: _Bound) -> bytes:
    name, text = _name_of(error), _or("", lambda: text_of(error))
    bound.above.append(error)
    chained = [_cause_of(error), None if _suppresses(error) else _context_of(error)]
    causes = [
        None if cause is None or not bound.admits(cause) else _packed(cause, bound) for cause in chained
    ]
    made: bytes | None = None
    cuts: list[str] = []
    for way in (_group, _whole, _parts):
        cuts = []
        made = _or(None, partial(_made, way, error, text, bound, cuts))
        if made is not None:
            break
    bound.above.pop()
    text = shortened(text, bound.text)
    if way is not _group:  # the members of a group have counted themselves
        bound.nbytes -= len(made or b"") + len(text)
    return pickle.dumps((made, name, text, causes, _suppresses(error), cuts))


def _made(way: "_Way", error: BaseException, text: str, bound: _Bound, cuts: list[str]) -> bytes | None:
    packed = way(error, bound, cuts)
    if packed is None:
        return None
    copy = _rebuilt(packed)
    # With `_parts` the text may differ, because unpicklable parts are replaced by their repr; callers catch the type.
    same = _name_of(copy) == _name_of(error) and (way is not _whole or text_of(copy) == text)
    return packed if same else None


def _unpacked(packed: bytes) -> BaseException:
    way, name, text, (cause, context), suppressed, cuts = pickle.loads(packed)
    # The user's class may raise in the trainer although the worker could rebuild it.
    rebuilt: Any = None if way is None else _or(None, partial(_rebuilt, way))
    error: BaseException = _stand_in(name, text)
    if issubclass(type(rebuilt), BaseException):
        error = rebuilt
    # A user's class may forbid assignment.
    if cause is not None:
        _or(None, lambda: BaseException.__setattr__(error, "__cause__", _unpacked(cause)))
    if context is not None:
        _or(None, lambda: BaseException.__setattr__(error, "__context__", _unpacked(context)))
    _or(None, lambda: BaseException.__setattr__(error, "__suppress_context__", suppressed))
    if cuts:
        annotate(error, f"too large to travel whole from its worker: {', '.join(cuts)}")
    return error


def _rebuilt(way: bytes) -> Any:
    return pickle.loads(way)()


def _stand_in(name: str, text: str) -> WorkerError:
    return WorkerError(f"{name}: {text}")


def _name_of(error: BaseException) -> str:
    name: str = _or("Exception", lambda: shortened(str.__str__(type(error).__qualname__), _MOST_NAME))
    return name


# What the worker pickles is a call of one of these, which rebuilds the exception.


def _itself(error: BaseException) -> BaseException:
    return error


def _from_parts(
    kind: type[BaseException], arguments: list[bytes], attributes: dict[str, bytes]
) -> BaseException:
    # Without calling the constructor, which may need other arguments than `args` has.
    error = kind.__new__(kind)
    BaseException.__setattr__(error, "args", tuple(map(pickle.loads, arguments)))
    _set_attributes(error, attributes)
    return error


def _from_members(
    kind: type[BaseExceptionGroup[BaseException]],
    message: str,
    members: list[bytes],
    attributes: dict[str, bytes],
) -> BaseException:
    # As above: the constructor of a user's class may need other arguments; `__new__` of the built-in needs two.
    group = BaseExceptionGroup.__new__(kind, message, [*map(_unpacked, members)])
    _set_attributes(group, attributes)
    return group


_Way = Callable[[BaseException, _Bound, list[str]], bytes | None]


def _set_attributes(error: BaseException, attributes: dict[str, bytes]) -> None:
    # Without setattr: the class may forbid assignment, as a frozen dataclass does, or have a property of that name.
    _attributes_of(error).update({name: pickle.loads(value) for name, value in attributes.items()})


def _group(error: BaseException, bound: _Bound, cuts: list[str]) -> bytes | None:
    """A group by its members, each packed as far as possible, with its causes; None for another exception."""
    kind = type(error)
    if not issubclass(kind, BaseExceptionGroup):
        return None
    members: Sequence[BaseException] = _members_of(error)
    packed = [_packed(member, bound) for member in members[:_MOST_MEMBERS]]
    if more := members[_MOST_MEMBERS:]:
        cuts.append(f"{len(more):,} of its {len(members):,} exceptions are left out")
    message = _cut("its message", _message_of(error), bound, cuts)
    return bound.packer.dumps(
        partial(_from_members, kind, message, packed, _attributes(error, set(), bound, cuts))
    )


def _whole(error: BaseException, bound: _Bound, cuts: list[str]) -> bytes | None:
    values = [*_arguments_of(error), *_attributes_of(error).values()]
    if sum(map(_nbytes, values)) > bound.nbytes:
        return None  # without making the pickle, which would be one more copy in memory
    packed = bound.packer.dumps(partial(_itself, error))
    return packed if len(packed) <= bound.nbytes else None


def _parts(error: BaseException, bound: _Bound, cuts: list[str]) -> bytes | None:
    # The notes of the outermost exception are in the traceback.
    left_out = {"__notes__"} if len(bound.above) == 1 else set()
    arguments = [
        _or_repr(f"args[{place}]", argument, bound, cuts)
        for place, argument in enumerate(_arguments_of(error))
    ]
    return bound.packer.dumps(
        partial(_from_parts, type(error), arguments, _attributes(error, left_out, bound, cuts))
    )


def _attributes(error: BaseException, left_out: set[str], bound: _Bound, cuts: list[str]) -> dict[str, bytes]:
    return {
        name: _or_repr(shortened(str(name), _MOST_NAME), value, bound, cuts)
        for name, value in _attributes_of(error).items()
        if name not in left_out
    }


def _or_repr(name: str, value: Any, bound: _Bound, cuts: list[str]) -> bytes:
    most = bound.nbytes // _SHARES
    if _nbytes(value) <= most:
        packed = _or(None, lambda: _tested(value, bound))
        if packed is not None and len(packed) <= most:
            return bytes(packed)
        if packed is None:  # it can't be pickled and unpickled
            return pickle.dumps(_cut(name, repr(value), bound, cuts))
    if type(value) in (str, bytes):
        return pickle.dumps(_cut(name, value, bound, cuts))
    cuts.append(f"{name} is cut to its repr")
    return pickle.dumps(shortened(repr(value), bound.text))


def _tested(value: Any, bound: _Bound) -> bytes:
    packed = bound.packer.dumps(value)
    pickle.loads(packed)
    return packed


def _nbytes(value: Any) -> int:
    """A lower bound of the value's size, 0 where it isn't known without pickling."""
    if type(value) in (str, bytes, bytearray):
        return len(value)
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _cut(name: str, value: Any, bound: _Bound, cuts: list[str]) -> Any:
    """A str or bytes, cut where it is longer than the bound."""
    if len(value) <= bound.text:
        return value
    cuts.append(f"{name} has {len(value):,} {'characters' if isinstance(value, str) else 'bytes'}")
    return shortened(value, bound.text) if isinstance(value, str) else value[: bound.text]


def _trace_of(error: BaseException) -> str:
    """The traceback as text, without the middle of long lines and of a long text."""
    made = traceback.TracebackException.from_exception(error)
    _shorten(made, set())
    text = "".join(made.format()).rstrip()
    if len(text) > _MOST_TEXT:
        text = "".join(shortened(line, _MOST_LINE) for line in text.splitlines(keepends=True))
    return shortened(text, _MOST_TEXT)


def _plain_trace_of(error: BaseException) -> str:
    """A traceback that doesn't use the exception's own methods, apart from its text if that can be made."""
    lines = traceback.format_tb(_traceback_of(error))
    text = _or("", lambda: text_of(error))
    return "".join(
        ("Traceback (most recent call last):\n", *lines, shortened(f"{_name_of(error)}: {text}", _MOST_TEXT))
    )


def _shorten(made: traceback.TracebackException, seen: set[int]) -> None:
    """Cuts all texts of a traceback before `format` joins them, which makes copies of each."""
    todo: list[Any] = [made]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(getattr(one, "_str", None), str):
            one._str = shortened(one._str, _MOST_TEXT)
        notes = getattr(one, "__notes__", None)
        if isinstance(notes, list | tuple):
            one.__notes__ = [
                shortened(_or("(a note that can't be shown)", partial(text_of, note)), _MOST_TEXT)
                for note in notes
            ]
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


def shortened(text: str, most: int) -> str:
    """The text, without its middle where it is longer than `most` characters.

    >>> shortened("x" * 1_000_000, 4)
    'xx [999,996 characters left out] xx'
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} [{len(text) - most:,} characters left out] {text[-(most // 2) :]}"
