"""Notes on exceptions of any class, and how they say which record it is."""


def annotate(error: BaseException, note: str) -> None:
    """As `error.add_note(note)`, also where its class refuses to be written to, as a frozen dataclass does.

    >>> error = ValueError("torn")
    >>> annotate(error, "record 5")
    >>> error.__notes__
    ['record 5']
    """
    BaseException.__setattr__(error, "__notes__", [*getattr(error, "__notes__", ()), note])


def keyed(record_key: int, name: str | None) -> str:
    """A record's key, and what its source calls it, where it does.

    >>> keyed(3, None), keyed(3, "cat.jpg")
    ('3', "3 'cat.jpg'")
    """
    return str(record_key) if name is None else f"{record_key} '{name}'"
