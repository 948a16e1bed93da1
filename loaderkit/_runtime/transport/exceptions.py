"""A user's exception on its way from a worker to the trainer, with its type, and the worker's traceback as a note.

Not every exception survives a pickle: a class with constructor arguments of its own is rebuilt from `args` alone, and
may hold what can't travel. So a worker tries the way back itself, of the whole first, then of its parts. What caused
it is no part of its pickle and travels beside it; a cause, or a group's member, of which nothing can be rebuilt arrives
as a WorkerError that says its type and text.

Such an exception may be anything: its texts may raise, its attributes lie, its message be as long as memory allows. So
the slots of BaseException are asked and not the class, what it raises itself is ignored, and what is larger than a
bound is cut, which a note says.
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

_MOST_CAUSES = 32  # of one exception, those of its causes and of a group's members included
_MOST_MEMBERS = 2_000  # of one group
_MOST_TEXT = 40_000  # characters of a traceback, and of what is cut
_MOST_LINE = 2_000  # of one of its lines, where it is longer
_MOST_NAME = 200  # characters of the name of a class or an attribute
_MOST_BYTES = 16 << 20  # of one exception, with its causes and members; what is larger is cut
_SHARES = 4  # of those, the part that one argument or attribute may take
_NOTHING_KNOWN = pickle.dumps((None, "Exception", "", [None, None], False, []))

# What the interpreter itself looks at, whatever a class puts in their place.
_cause_of: Any = BaseException.__dict__["__cause__"].__get__
_context_of: Any = BaseException.__dict__["__context__"].__get__
_suppresses: Any = BaseException.__dict__["__suppress_context__"].__get__
_traceback_of: Any = BaseException.__dict__["__traceback__"].__get__
_attributes_of: Any = BaseException.__dict__["__dict__"].__get__
_arguments_of: Any = BaseException.__dict__["args"].__get__
_members_of: Any = BaseExceptionGroup.__dict__["exceptions"].__get__
_message_of: Any = BaseExceptionGroup.__dict__["message"].__get__


def pack_exception(error: BaseException, packer: Packer) -> bytes:
    """An exception as bytes that `unpack_exception` can always read; raises nothing that the exception does."""
    inner = _or(_NOTHING_KNOWN, lambda: _packed(error, packer, _Bound(_MOST_CAUSES, _MOST_BYTES)))
    return pickle.dumps((inner, _or(None, lambda: _trace_of(error)) or _plain_trace_of(error)))


def unpack_exception(packed: bytes) -> Exception:
    """The exception, as much like the one that was raised as can be, with the worker's traceback as a note."""
    inner, trace = pickle.loads(packed)
    arrived: Any = _unpacked(inner)
    is_error = issubclass(type(arrived), Exception)
    error: Exception = arrived if is_error else _stand_in(_name_of(arrived), text_of(arrived))
    annotate(error, "Traceback of the worker:\n" + trace)
    return error


def _or(otherwise: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives, or the other where the user's class raises anything: sys.exit() in a `__str__` too."""
    try:
        return make()
    except BaseException:  # noqa: BLE001 - there is an error to tell of, and it isn't this one
        return otherwise


class _Bound:
    """How much may still travel, and which exceptions are on the way: a chain may close on itself."""

    def __init__(self, causes: int, nbytes: int) -> None:
        self.causes = causes
        self.nbytes = nbytes
        self.above: list[BaseException] = []

    @property
    def text(self) -> int:
        """Characters of what is cut."""
        return _MOST_TEXT if self.nbytes > 0 else _MOST_LINE

    def takes(self, cause: BaseException) -> bool:
        if not self.causes or any(cause is other for other in self.above):
            return False
        self.causes -= 1
        return True


def _packed(error: BaseException, packer: Packer, bound: _Bound) -> bytes:
    name, text = _name_of(error), _or("", lambda: text_of(error))
    bound.above.append(error)
    behind = [_cause_of(error), None if _suppresses(error) else _context_of(error)]
    causes = [
        None if cause is None or not bound.takes(cause) else _packed(cause, packer, bound) for cause in behind
    ]
    made: bytes | None = None
    cuts: list[str] = []
    for way in (_group, _whole, _parts):
        cuts = []
        made = _or(None, partial(_made, way, error, text, packer, bound, cuts))
        if made is not None:
            break
    bound.above.pop()
    text = shortened(text, bound.text)
    if way is not _group:  # whose members have been counted
        bound.nbytes -= len(made or b"") + len(text)
    return pickle.dumps((made, name, text, causes, _suppresses(error), cuts))


def _made(
    way: "_Way", error: BaseException, text: str, packer: Packer, bound: _Bound, cuts: list[str]
) -> bytes | None:
    packed = way(error, packer, bound, cuts)
    if packed is None:
        return None
    copy = pickle.loads(packed)()
    # Of parts, what can't travel is only its repr: the text may differ, the type is what callers catch.
    same = _name_of(copy) == _name_of(error) and (way is not _whole or text_of(copy) == text)
    return packed if same else None


def _unpacked(packed: bytes) -> BaseException:
    way, name, text, (cause, context), suppressed, cuts = pickle.loads(packed)
    # What a worker can rebuild, the user's class may refuse here.
    rebuilt: Any = None if way is None else _or(None, partial(_rebuilt, way))
    error: BaseException = _stand_in(name, text)
    if issubclass(type(rebuilt), BaseException):
        error = rebuilt
    # A user's class may refuse to be written to.
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


_Way = Callable[[BaseException, Packer, _Bound, list[str]], bytes | None]


def _set_attributes(error: BaseException, attributes: dict[str, bytes]) -> None:
    # Not by setattr: its class may refuse, as a frozen dataclass does, or compute an attribute of that name.
    _attributes_of(error).update({name: pickle.loads(value) for name, value in attributes.items()})


def _group(error: BaseException, packer: Packer, bound: _Bound, cuts: list[str]) -> bytes | None:
    """Not whole, if its members can be had one by one: each is as much as can travel of it, causes included."""
    kind = type(error)
    if not issubclass(kind, BaseExceptionGroup):
        return None
    members: Sequence[BaseException] = _members_of(error)
    packed = [_packed(member, packer, bound) for member in members[:_MOST_MEMBERS]]
    if more := members[_MOST_MEMBERS:]:
        cuts.append(f"{len(more):,} of its {len(members):,} exceptions are left out")
    message = _cut("its message", _message_of(error), bound, cuts)
    return packer.dumps(_Group(kind, message, packed, _attributes(error, set(), packer, bound, cuts)))


def _whole(error: BaseException, packer: Packer, bound: _Bound, cuts: list[str]) -> bytes | None:
    values = [*_arguments_of(error), *_attributes_of(error).values()]
    if sum(map(_nbytes, values)) > bound.nbytes:
        return None  # its pickle is one more copy
    packed = packer.dumps(_Whole(error))
    return packed if len(packed) <= bound.nbytes else None


def _parts(error: BaseException, packer: Packer, bound: _Bound, cuts: list[str]) -> bytes | None:
    # Of the first one the traceback has the notes.
    left_out = {"__notes__"} if len(bound.above) == 1 else set()
    arguments = [
        _or_repr(f"args[{place}]", argument, packer, bound, cuts)
        for place, argument in enumerate(_arguments_of(error))
    ]
    return packer.dumps(_Parts(type(error), arguments, _attributes(error, left_out, packer, bound, cuts)))


def _attributes(
    error: BaseException, left_out: set[str], packer: Packer, bound: _Bound, cuts: list[str]
) -> dict[str, bytes]:
    return {
        name: _or_repr(shortened(str(name), _MOST_NAME), value, packer, bound, cuts)
        for name, value in _attributes_of(error).items()
        if name not in left_out
    }


def _or_repr(name: str, value: Any, packer: Packer, bound: _Bound, cuts: list[str]) -> bytes:
    most = bound.nbytes // _SHARES
    if _nbytes(value) <= most:
        packed = _or(None, lambda: _travelling(value, packer))
        if packed is not None and len(packed) <= most:
            return bytes(packed)
        if packed is None:  # whatever it is, it can't travel
            return pickle.dumps(_cut(name, repr(value), bound, cuts))
    if type(value) in (str, bytes):
        return pickle.dumps(_cut(name, value, bound, cuts))
    cuts.append(f"{name} is cut to its repr")
    return pickle.dumps(shortened(repr(value), bound.text))


def _travelling(value: Any, packer: Packer) -> bytes:
    packed = packer.dumps(value)
    pickle.loads(packed)
    return packed


def _nbytes(value: Any) -> int:
    """At least how much it takes, where that is cheap to know."""
    if type(value) in (str, bytes, bytearray):
        return len(value)
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _cut(name: str, value: Any, bound: _Bound, cuts: list[str]) -> Any:
    """A str or bytes, with the rest left out where it is long."""
    if len(value) <= bound.text:
        return value
    cuts.append(f"{name} has {len(value):,} {'characters' if isinstance(value, str) else 'bytes'}")
    return shortened(value, bound.text) if isinstance(value, str) else value[: bound.text]


def _trace_of(error: BaseException) -> str:
    """Its traceback; of long lines and of a long text the middle is left out."""
    made = traceback.TracebackException.from_exception(error)
    _shorten(made, set())
    text = "".join(made.format()).rstrip()
    if len(text) > _MOST_TEXT:
        text = "".join(shortened(line, _MOST_LINE) for line in text.splitlines(keepends=True))
    return shortened(text, _MOST_TEXT)


def _plain_trace_of(error: BaseException) -> str:
    """What can be had without asking the exception anything."""
    lines = traceback.format_tb(_traceback_of(error))
    text = _or("", lambda: text_of(error))
    return "".join(
        ("Traceback (most recent call last):\n", *lines, shortened(f"{_name_of(error)}: {text}", _MOST_TEXT))
    )


def _shorten(made: traceback.TracebackException, seen: set[int]) -> None:
    """Cuts its texts before they are put together, with copies of each on the way."""
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
    """The text, with its middle left out where it is longer than so many characters.

    >>> shortened("x" * 1_000_000, 4)
    'xx [999,996 characters left out] xx'
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} [{len(text) - most:,} characters left out] {text[-(most // 2) :]}"
