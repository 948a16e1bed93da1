"""Notes on exceptions of any class."""


def annotate(error: BaseException, note: str) -> None:
    """As `error.add_note(note)`, also where its class refuses to be written to, as a frozen dataclass does.

    >>> error = ValueError("torn")
    >>> annotate(error, "record 5")
    >>> error.__notes__
    ['record 5']
    """
    BaseException.__setattr__(error, "__notes__", [*getattr(error, "__notes__", ()), note])
