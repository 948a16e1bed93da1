"""Notes on exceptions of any class, how they say which record it is, and the text of any exception.

An exception of a user's class may be anything: its `__str__` may raise, its `__notes__` may be a number. What is said
of it must not fail for that, or the user would see our failure in the place of its own. Ctrl-C alone is heard.
"""

import contextlib
from typing import Any


def annotate(error: BaseException, note: str) -> None:
    """As `error.add_note(note)`, also where its class refuses to be written to, as a frozen dataclass does.

    Where `__notes__` is no list, it becomes the first of the notes; where it can't be set, there is no further note.

    >>> error = ValueError("torn")
    >>> annotate(error, "record 5")
    >>> error.__notes__
    ['record 5']
    >>> error.__notes__ = 7
    >>> annotate(error, "record 5")
    >>> error.__notes__
    [7, 'record 5']
    """
    # A property of the user's without a setter, or whose getter raises.
    with contextlib.suppress(Exception, SystemExit):
        BaseException.__setattr__(error, "__notes__", [*notes_of(error), note])


def notes_of(error: BaseException) -> list[Any]:
    """An exception's notes, of any type; none where it can't say.

    >>> notes_of(ValueError("torn"))
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
    """`str(error)`, and something in its place where that raises.

    >>> text_of(KeyError("k"))
    "'k'"
    """
    try:
        return str.__str__(str(error))  # a plain str, also where the class gives one of its own
    except (Exception, SystemExit) as why:  # noqa: BLE001 - the user's __str__ may raise anything
        return f"(its text can't be had: {type(why).__qualname__})"


def repr_of(error: BaseException) -> str:
    """`repr(error)`, and its class in its place where that raises.

    >>> repr_of(KeyError("k"))
    "KeyError('k')"
    """
    try:
        return str.__str__(repr(error))
    except (Exception, SystemExit):  # noqa: BLE001 - as above
        return f"{type(error).__qualname__}(...)"


def keyed(record_key: int, name: str | None) -> str:
    """A record's key, and what its source calls it, where it does.

    >>> keyed(3, None), keyed(3, "cat.jpg")
    ('3', "3 'cat.jpg'")
    """
    return str(record_key) if name is None else f"{record_key} '{name}'"
