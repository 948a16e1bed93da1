"""Notes and texts of exceptions of any class, and how a message names a record.

In an exception class of a user's, `__str__` may raise and `__notes__` may be a number. These functions don't fail on
it, or their error would replace the user's. Only KeyboardInterrupt passes.
"""

import contextlib
from typing import Any


def annotate(error: BaseException, note: str) -> None:
    """Does `error.add_note(note)`, also where the class forbids assignment, as a frozen dataclass does.

    A `__notes__` that is no list becomes the first note; where `__notes__` can't be set, the note is dropped.

    >>> error = ValueError("truncated")
    >>> annotate(error, "record 5")
    >>> error.__notes__
    ['record 5']
    >>> error.__notes__ = 7
    >>> annotate(error, "record 5")
    >>> error.__notes__
    [7, 'record 5']
    """
    # `__notes__` may be a property of the user's class, without a setter or with a getter that raises.
    with contextlib.suppress(Exception, SystemExit):
        BaseException.__setattr__(error, "__notes__", [*notes_of(error), note])


def notes_of(error: BaseException) -> list[Any]:
    """An exception's notes, of any type; none where reading them raises.

    >>> notes_of(ValueError("truncated"))
    []
    """
    try:
        notes = getattr(error, "__notes__", None)
        if notes is None:
            return []
        return [*notes] if isinstance(notes, list | tuple) else [notes]
    except (Exception, SystemExit):  # noqa: BLE001 - the user's property may raise anything
        return []


def text_of(error: object) -> str:
    """`str(error)`, or a replacement text where that raises.

    >>> text_of(KeyError("k"))
    "'k'"
    """
    try:
        return str.__str__(str(error))  # a plain str, also where the class returns a subclass of str
    except (Exception, SystemExit) as why:  # noqa: BLE001 - the user's __str__ may raise anything
        return f"(its __str__ raised {type(why).__qualname__})"


def repr_of(error: BaseException) -> str:
    """`repr(error)`, or the name of its class where that raises.

    >>> repr_of(KeyError("k"))
    "KeyError('k')"
    """
    try:
        return str.__str__(repr(error))
    except (Exception, SystemExit):  # noqa: BLE001 - as above
        return f"{type(error).__qualname__}(...)"


def keyed(record_key: int, name: str | None) -> str:
    """A record's key, followed by the source's name for the record, if it has one.

    >>> keyed(3, None), keyed(3, "cat.jpg")
    ('3', "3 'cat.jpg'")
    """
    return str(record_key) if name is None else f"{record_key} '{name}'"
