"""Whatever a user's function raises reaches the trainer: as it was where it can travel, else as much of it as can."""

import random
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.notes import annotate, notes_of, repr_of, text_of
from loaderkit._runtime.transport.exceptions import pack_exception, unpack_exception
from loaderkit._runtime.transport.pickling import Packer
from loaderkit.errors import WorkerError


class WantsTwoError(ValueError):
    """`args` hold one argument, the constructor wants two: pickle alone can't rebuild it."""

    def __init__(self, name, code):
        super().__init__(f"{name} has code {code}")
        self.code = code


class HoldsALockError(RuntimeError):
    def __init__(self, text):
        super().__init__(text, threading.Lock())
        self.lock = threading.Lock()


class NewWantsOneError(Exception):
    def __new__(cls, word):
        return super().__new__(cls, word)

    def __init__(self, word):
        super().__init__()


class UnspeakableError(Exception):
    def __str__(self):
        raise KeyError("no text")


class HoldsUnspeakableError(Exception):
    """Its argument can neither travel nor be shown."""

    def __init__(self):
        class Argument:
            lock = threading.Lock()

            def __reduce__(self):
                raise TypeError("stays here")

            def __repr__(self):
                raise KeyError("no text")

        super().__init__(Argument())

    def __str__(self):
        return "said"


class ReadOnlyError(Exception):
    def __init__(self, code):
        super().__init__(code, threading.Lock())

    @property
    def code(self):
        return self.args[0]


def there_and_back(error):
    try:
        raise error
    except type(error) as raised:
        return unpack_exception(pack_exception(raised, Packer()))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad", 7),
        KeyError("k"),
        FileNotFoundError(2, "No such file", "a.txt"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        ExceptionGroup("both", [ValueError(1), TypeError("2")]),
        WantsTwoError("x", 3),
        ZeroDivisionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_keeps_type_text_arguments_and_attributes(error):
    copy = there_and_back(error)
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert repr(copy.args) == repr(error.args)
    attributes = {name: value for name, value in vars(copy).items() if name != "__notes__"}
    assert repr(attributes) == repr(vars(error))


def test_what_cannot_travel_of_an_exception_arrives_as_its_text():
    copy = there_and_back(HoldsALockError("text"))
    assert type(copy) is HoldsALockError
    assert copy.args[0] == "text"
    assert copy.args[1].startswith("<unlocked _thread.lock")
    assert copy.lock.startswith("<unlocked _thread.lock")


@pytest.mark.parametrize(
    ("error", "text"),
    [(HoldsUnspeakableError(), "HoldsUnspeakableError: said"), (NewWantsOneError("w"), "NewWantsOneError: ")],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_that_cannot_be_rebuilt_is_a_worker_error_that_names_it(error, text):
    copy = there_and_back(error)
    assert isinstance(copy, WorkerError)
    assert str(copy) == text


def test_an_exception_without_a_text_travels_too():
    assert type(there_and_back(UnspeakableError(1))) is UnspeakableError


def test_a_class_that_computes_an_attribute_goes_on_computing_it():
    assert there_and_back(ReadOnlyError(5)).code == 5


def test_the_workers_traceback_is_a_note_with_causes_and_notes_of_the_user():
    """What the user sees of a failure in another process is all that there was to see."""
    try:
        try:
            raise KeyError("first")
        except KeyError as cause:
            error = ValueError("second")
            error.add_note("written by the user")
            raise error from cause
    except ValueError as raised:
        copy = unpack_exception(pack_exception(raised, Packer()))
    note = copy.__notes__[-1]
    for words in (
        "Traceback of the worker",
        "KeyError: 'first'",
        "second",
        "written by the user",
        "test_exceptions",
    ):
        assert words in note


class Unrebuildable(Exception):  # noqa: N818 - a user's classes have any name
    """Its constructor wants what no pickle has, and neither it nor its parts are taken apart."""

    def __reduce_ex__(self, protocol):
        raise TypeError("stays here")

    def __new__(cls, word):
        return super().__new__(cls, word)


class NamedGroup(ExceptionGroup):
    def __new__(cls, text, members, place):
        group = super().__new__(cls, text, members)
        group.place = place
        return group


def test_a_group_keeps_its_type_whatever_its_members_hold():
    """A member that can't be rebuilt is a WorkerError that names it; the others are as they were, causes included."""
    caused = ValueError("caused")
    caused.__cause__ = KeyError("cause")
    inner = ExceptionGroup("inner", [HoldsALockError("text"), OSError(2, "gone")])
    copy = there_and_back(NamedGroup("outer", [inner, Unrebuildable("w"), caused], 7))
    assert (type(copy), copy.message, copy.place) == (NamedGroup, "outer", 7)
    inner, lost, caused = copy.exceptions
    assert [type(member) for member in inner.exceptions] == [HoldsALockError, FileNotFoundError]
    assert (type(lost), str(lost)) == (WorkerError, "Unrebuildable: w")
    assert repr(caused.__cause__) == "KeyError('cause')"


def test_a_large_group_arrives_whole():
    """Bounded are causes, not members."""
    copy = there_and_back(ExceptionGroup("many", [ValueError(k) for k in range(500)]))
    assert [member.args[0] for member in copy.exceptions] == [*range(500)]


def raised_from(error, cause):
    try:
        raise error from cause
    except type(error) as raised:
        return raised


def raised_within(error, context):
    try:
        try:
            raise context
        except type(context):
            raise error  # noqa: B904 - without a word of what caused it, as a user's handler may
    except type(error) as raised:
        return raised


def test_causes_travel():
    """`raise X from Y` and an error within a handler look as they do without workers, all the way down."""
    error = raised_from(ValueError("second"), raised_from(WantsTwoError("x", 3), HoldsALockError("text")))
    copy = there_and_back(error)
    assert (repr(copy.__cause__), copy.__cause__.code) == (repr(error.__cause__), 3)
    assert type(copy.__cause__.__cause__) is HoldsALockError
    assert copy.__suppress_context__
    copy = there_and_back(raised_within(ValueError("second"), KeyError("first")))
    assert (copy.__cause__, repr(copy.__context__)) == (None, "KeyError('first')")
    assert not copy.__suppress_context__
    copy = there_and_back(raised_from(raised_within(ValueError("second"), KeyError("first")), None))
    assert (copy.__cause__, copy.__context__, copy.__suppress_context__) == (None, None, True)


def test_a_cause_that_cannot_be_rebuilt_is_named():
    copy = there_and_back(raised_from(ValueError("second"), Unrebuildable("first")))
    assert (type(copy.__cause__), str(copy.__cause__)) == (WorkerError, "Unrebuildable: first")


def test_a_cause_keeps_its_notes():
    """Of the error itself the worker's traceback has them."""
    cause = HoldsALockError("text")
    cause.add_note("of the user")
    assert there_and_back(raised_from(ValueError("second"), cause)).__cause__.__notes__ == ["of the user"]


@dataclass(frozen=True)
class FrozenError(Exception):
    """Can't be written to."""

    code: int


def test_an_exception_that_refuses_to_be_written_to_has_the_notes_all_the_same():
    copy = there_and_back(FrozenError(3))
    assert (type(copy), copy.code) == (FrozenError, 3)
    assert copy.__notes__[-1].startswith("Traceback of the worker:")


def test_endless_causes_end():
    """A chain that closes on itself, and one of a thousand."""
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    copy = unpack_exception(pack_exception(one, Packer()))
    assert (repr(copy.__cause__), copy.__cause__.__cause__) == ("KeyError('other')", None)
    error = ValueError(0)
    for k in range(1, 1000):
        error = raised_from(ValueError(k), error)
    copy, depth = there_and_back(error), 0
    while copy.__cause__ is not None:
        copy, depth = copy.__cause__, depth + 1
    assert (depth, copy.args) == (32, (999 - 32,))


@pytest.mark.parametrize("line", ["x" * 5_000_000, "x\n" * 100_000], ids=["long line", "many lines"])
def test_a_huge_text_makes_no_huge_note(line):
    """The exception keeps its text; its traceback says where it was raised and what the text begins with."""
    copy = there_and_back(ValueError(line))
    assert str(copy) == line
    (note,) = copy.__notes__
    assert len(note) < 50_000
    assert "in there_and_back" in note and "ValueError: x" in note and "characters left out" in note


# --- exceptions that may be anything -------------------------------------------------------------------------------


def raising(*_):
    raise KeyError("mine")


def leaving(*_):
    raise SystemExit(3)


class LyingText(str):
    """Says of itself what isn't so."""

    __slots__ = ()

    def __len__(self):
        raise KeyError("mine")

    def __eq__(self, other):
        return False

    def __hash__(self):
        raise KeyError("mine")


def itself_forever(error):
    return error.__reduce__()


# Each makes a class do something else, by the name of what it defines.
ODD_METHODS = {
    "__str__": [raising, leaving, lambda self: 7, lambda self: LyingText("text")],
    "__repr__": [raising, leaving, lambda self: None, lambda self: LyingText("text")],
    "__reduce__": [raising, leaving, itself_forever, lambda self: 7, lambda self: (raising, ())],
    "__reduce_ex__": [raising, leaving, lambda self, protocol: (leaving, ())],
    "__setstate__": [raising, leaving],
    "__setattr__": [raising],
    "__getattr__": [raising, lambda self, name: 7],
    "__eq__": [raising],
    "__bool__": [raising],
    "__hash__": [raising],
    "add_note": [raising, leaving],
    "with_traceback": [raising],
    "__class__": [property(raising), property(lambda self: ExceptionGroup), property(lambda self: int)],
    "__cause__": [property(raising), property(lambda self: 7), property(lambda self: self)],
    "__context__": [property(raising), property(lambda self: self)],
    "__suppress_context__": [property(raising)],
    "__traceback__": [property(raising), property(lambda self: 7)],
    "__notes__": [property(raising), property(lambda self: 7), 7, "notes", [raising]],
    "__dict__": [property(raising), property(lambda self: 7)],
    "args": [property(raising), property(lambda self: 7)],
    "__slots__": [("slot",)],
    "errno": [property(raising), [1]],
}
ODD_VALUES = [
    7,
    None,
    LyingText("x"),
    threading.Lock(),
    b"\xff" * 100,
    "\ud800",
    [[]],
    raising,
    ValueError(1),
]


def odd_exception(random, depth=0):
    """An exception of a class that defines some of these, with odd arguments, attributes, notes, cause and context."""
    names = random.sample([*ODD_METHODS], random.randint(0, 3))
    odd = {name: random.choice(ODD_METHODS[name]) for name in names}
    base = random.choice([Exception, ValueError, OSError, KeyError, StopIteration])
    error = type("Odd", (base,), odd)(*random.choices(ODD_VALUES, k=random.randint(0, 2)))
    attributes = BaseException.__dict__["__dict__"].__get__(error)
    attributes.update({name: random.choice(ODD_VALUES) for name in ("note", "x") if random.random() < 0.5})
    if random.random() < 0.5:
        attributes["__notes__"] = random.choice([7, None, "text", [7], [LyingText("x")], (raising,)])
    for behind in ("__cause__", "__context__"):
        if random.random() < 0.3 and depth < 3:
            BaseException.__dict__[behind].__set__(error, odd_exception(random, depth + 1))
    return error


@given(seed=st.integers(0, 2**64))
def test_an_exception_may_be_anything(seed):
    """Whatever its class does and it holds: an Exception arrives, with a traceback that names where it was raised."""
    error = odd_exception(random.Random(seed))
    try:
        raise error
    except Exception as raised:  # noqa: BLE001 - its class may say anything of itself
        packed = pack_exception(raised, Packer())
    copy = unpack_exception(packed)
    assert issubclass(type(copy), Exception)
    if type(copy) is WorkerError:
        assert text_of(copy).startswith("Odd: ")
        assert "in test_an_exception_may_be_anything" in copy.__notes__[-1]
    annotate(copy, "a note more")
    text_of(copy)
    repr_of(copy)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x" * 17_000_000),
        ValueError("short", ["x" * 17_000_000]),
        ValueError("short", np.zeros(17_000_000, np.uint8)),
        HoldsALockError("x" * 17_000_000),
        ExceptionGroup("x" * 17_000_000, [ValueError(1)]),
        ExceptionGroup("group", [ValueError("x" * 6_000_000) for _ in range(3)]),
        ExceptionGroup("group", [ValueError("x" * 50_000) for _ in range(400)]),
    ],
    ids=["text", "list", "array", "parts", "group", "members", "many members"],
)
def test_what_an_exception_holds_travels_up_to_a_bound(error):
    """Its type comes, with the beginning and the end of what it holds, and a note says how much that was."""
    packed = pack_exception(error, Packer())
    assert len(packed) < 40_000_000
    copy = unpack_exception(packed)
    assert type(copy) is type(error)
    noted = [copy, *getattr(copy, "exceptions", ())]
    assert any("too large to travel whole from its worker" in note for one in noted for note in notes_of(one))


def test_attributes_and_notes_travel_up_to_a_bound():
    error = ValueError("short")
    error.code, error.content = 7, "x" * 17_000_000
    error.add_note("y" * 17_000_000)
    packed = pack_exception(error, Packer())
    copy = unpack_exception(packed)
    assert len(packed) < 200_000
    assert (copy.args, copy.code, copy.content[:2]) == (("short",), 7, "xx")
    assert any("content has 17,000,000 characters" in note for note in copy.__notes__)


def test_of_a_huge_group_the_first_members_arrive():
    copy = unpack_exception(
        pack_exception(ExceptionGroup("many", [ValueError(k) for k in range(2_500)]), Packer())
    )
    assert [member.args[0] for member in copy.exceptions] == [*range(2_000)]
    assert "500 of its 2,500 exceptions are left out" in copy.__notes__[0]
