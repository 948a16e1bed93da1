"""A chain as text: its code, and a table with a line for each step."""

from collections.abc import Iterable, Mapping
from reprlib import repr as _short
from typing import Any

from loaderkit._source.record_key import short_repr
from loaderkit.transforms.base import Transformation, name_of

from .form import Form


def called(name: str, *given: Any, **named: Any) -> str:
    """A call as it is written; arguments that are None are left out.

    >>> called(".shuffle", seed=0, window=None), called(".map", abs)
    ('.shuffle(seed=0)', '.map(abs)')
    """
    texts = [text_of(value) for value in given if value is not None]
    texts += [f"{key}={text_of(value)}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(texts)})"


def text_of(value: Any) -> str:
    """An argument: a function by its name, a source by its repr or its length.

    >>> text_of({"a": abs}), text_of([1, 2]), text_of(bytearray(9))
    ("{'a': abs}", '[1, 2]', "bytearray(b'\\\\x00\\\\x00\\\\x00\\\\x00\\\\x00\\\\x00\\\\x00\\\\x00\\\\x00')")
    """
    if hasattr(value, "summary") or isinstance(value, Transformation):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {text_of(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple | str | range | slice):
        return _short(value)
    if callable(value):
        return name_of(value)
    if hasattr(value, "__len__"):
        text = short_repr(value)
        return f"<{text}>" if text.startswith("a ") else text
    return repr(value)


def table_of(steps: Iterable[tuple[str, Form]]) -> str:
    """A line for each step: its text, its zone, how many there are, and the epochs.

    Args:
        steps: text and form of each, in order.
    """
    rows = [("step", "zone", "length", "epochs")] + [
        (text, form.zone, *_extent(form)) for text, form in steps
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _extent(form: Form) -> tuple[str, str]:
    """How many elements or records there are, and how many epochs of how many records."""
    length = form.steps_in_all()
    shown = "not known" if form.changes_rows else "endless" if length is None else str(length)
    if form.mixed is not None:
        return shown, "of each part"
    if form.zone == "records":
        return shown, ""
    count = "endless" if form.num_epochs is None else str(form.num_epochs)
    return shown, f"{count} of {len(form.source)}"
