"""What a preview shows of one record: its key, its label, its image or its text."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass

from .image_header import image_header
from .values import fields_of, value_text

# The names that labels have in data sets of WebDataset, TFDS and others, the most telling first.
LABELS = (
    "label", "cls", "class", "image/class/text", "image/class/label", "caption", "txt", "text", "target", "id",
)  # fmt: skip
LONGEST_LABEL = 80  # characters
LONGEST_NAME = 24  # of a class
LONGEST_VALUE = 300


@dataclass(frozen=True, slots=True)
class Card:
    """One record of a preview.

    title: its number and name. label: "" where no field looks like one. image: an encoded image or an (h, w) or
    (h, w, 3) uint8 array, None for records without. rows: names and texts of the other fields.
    """

    title: str
    label: str
    image: bytes | np.ndarray[Any, Any] | None
    rows: list[tuple[str, str]]


def card_of(key: int, record: Any, *, image_field: str | None = None, label_field: str | None = None) -> Card:
    """The card of a record: its first image, and the field that looks like a label.

    key: the record's number. image_field, label_field: to be taken instead, where the record has them.

    >>> card_of(7, {"__key__": "000007", "cls": b"3", "txt": b"seven"})
    Card(title='7  000007', label='3', image=None, rows=[('txt', 'seven')])
    """
    fields = fields_of(record)
    name = value_text(fields.pop("__key__", ""), LONGEST_LABEL)
    images = [field for field, value in fields.items() if is_image(value)]
    wanted = [image_field] if image_field is not None else images
    image = next((fields.pop(field) for field in wanted if field in fields), None)
    labels = (label_field,) if label_field is not None else LABELS
    label = next((field for field in labels if field in fields and not is_image(fields[field])), None)
    shown = "" if label is None else value_text(fields[label], LONGEST_LABEL)
    if image is None and len(shown) > LONGEST_NAME:  # a text, for which the card has more room
        label, shown = None, ""
    fields.pop(label or "", None)
    return Card(
        title=f"{key}  {name}".rstrip(),
        label=shown,
        image=bytes(image) if isinstance(image, bytearray | memoryview) else image,
        rows=[(field, value_text(value, LONGEST_VALUE)) for field, value in fields.items()],
    )


def is_image(value: Any) -> bool:
    """Whether a value is an encoded image, or an array that can be shown as one.

    >>> is_image(b"GIF89a" + bytes(4)), is_image(np.zeros((28, 28), np.uint8)), is_image(b"text")
    (True, True, False)
    >>> is_image(np.zeros((28, 28))), is_image("GIF89a")
    (False, False)
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return image_header(bytes(value[:64])) is not None
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or isinstance(value, Mapping):
        return False
    return (value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3, 4))) and min(value.shape[:2]) > 1
