"""Whatever a user's function raises reaches the trainer: as it was where it can travel, else as much of it as can."""

import threading

import pytest

from loaderkit._runtime.exceptions import pack_exception, unpack_exception
from loaderkit._runtime.pickling import Packer
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
