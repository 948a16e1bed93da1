"""Names of fields as a user writes them: "jpg cls", or "jpg;png" for the first that a record has."""

from collections.abc import Iterable
from reprlib import repr as _short
from typing import Any


def field_choices(argument: str, fields: Any) -> tuple[tuple[str, ...], ...]:
    """For each field the names that it may have, in order of preference.

    Args:
        argument: its name, for errors.
        fields: a str with spaces between the fields, or a sequence of str, each one field; ";" is between choices.
            TypeError for other values, ValueError for a name that is empty, has a space, or comes
            twice.

    >>> field_choices("fields", "jpg;png cls")
    (('jpg', 'png'), ('cls',))
    >>> field_choices("fields", ["jpg", "jpg"])
    Traceback (most recent call last):
    ValueError: fields: expected each name once, got 'jpg' twice
    """
    names = fields.split() if isinstance(fields, str) else fields
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise TypeError(f"{argument}: expected names of fields, got {_short(fields)}")
    names = list(names)
    if other := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"{argument}: expected names of fields, got {_short(other[0])} among them")
    choices = tuple(tuple(name.split(";")) for name in names)
    every = [name for names in choices for name in names]
    if not every or any(name == "" or " " in name for name in every):
        raise ValueError(f"{argument}: expected names of fields, got {_short(fields)}")
    if twice := [name for place, name in enumerate(every) if name in every[:place]]:
        raise ValueError(f"{argument}: expected each name once, got {twice[0]!r} twice")
    return choices
