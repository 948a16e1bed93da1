"""Pictures and records to look at, in a notebook and from a script: `lk.grid` and `lk.show`."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._base.structure import kind_of_element, structure_of
from loaderkit._base.system.optional_library import library
from loaderkit._base.tree import flatten, unflatten
from loaderkit._loader.chain.dataset import Dataset
from loaderkit._source.protocol import read_records
from loaderkit.transforms.leaf import Place, leaf_at, names_of_leaves

from .cards import LABELS, Card, card_of, is_image
from .contact_sheet import contact_sheet
from .html_page import html_page
from .packed_documents import is_packed_row, with_documents

_COLORS = ("#ff4040", "#40a0ff", "#40c860", "#ffb020")  # of boxes and of a mask's classes, in turns
SHOWN = 64  # records


class Figure:
    """Cards of records: a notebook shows them, `save` writes a PNG or a page, and as text it is a table.

    Args:
        cards: of the records, in order.
        title: a line above them.
        columns: of the cards; None for as many as fit.

    >>> print(Figure([Card("0", "seven", None, [("txt", "a line")])], "1 record"))
    1 record
    0  seven  txt: a line
    """

    def __init__(self, cards: Sequence[Card], title: str, *, columns: int | None = None) -> None:
        self.cards, self.title, self._columns = tuple(cards), title, columns

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure.

        Args:
            path: "x.png" for a picture, "x.html" for a page; ValueError for another ending.
        """
        ending = Path(path).suffix.lower()
        if ending not in (".png", ".html"):
            raise ValueError(f"path: expected a name that ends in .png or .html, got {os.fspath(path)!r}")
        Path(path).write_bytes(self._png() if ending == ".png" else self._html().encode())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        if any(card.image is not None for card in self.cards):
            return {"text/plain": str(self), "image/png": self._png()}
        return {"text/plain": str(self), "text/html": self._html()}

    def _png(self) -> bytes:
        return contact_sheet(self.cards, self.title, "", columns=self._columns)

    def _html(self) -> str:
        return html_page(self.cards, self.title, "", columns=self._columns)

    def __repr__(self) -> str:
        rows = [[each.title, each.label, *map(": ".join, each.rows)] for each in self.cards]
        return "\n".join([self.title, *("  ".join(filter(None, row)) for row in rows)])


def grid(
    images: Iterable[Any],
    *,
    titles: Iterable[Any] | None = None,
    boxes: Iterable[Any] | None = None,
    masks: Iterable[Any] | None = None,
    columns: int | None = None,
) -> Figure:
    """A figure of pictures beside each other. It needs the extra `plots`.

    Args:
        images: an array (n, h, w), (n, h, w, channels) or (n, 1 or 3, h, w), or a sequence of such pictures, of PIL
            images and of encoded ones. Floats that aren't from 0 to 1, and wider integers, are stretched from the
            smallest to the largest.
        titles: a text or a number for each.
        boxes: for each (k, 4) of x0, y0, x1, y1 in pixels; an empty one is left out, as padding is.
        masks: for each (h, w) of bools or of class numbers, 0 for none.
        columns: pictures beside each other; None for as many as fit.

    ValueError for numbers that differ, and for what is no picture.

    >>> grid(np.zeros((2, 8, 8, 3), np.uint8), titles=["a", "b"])
    2 pictures
    0  a
    1  b
    """
    given = {"record": images, "label": titles, "boxes": boxes, "mask": masks}
    parts = {
        name: list(np.asarray(values) if hasattr(values, "__array__") else values)
        for name, values in given.items()
        if values is not None
    }
    if len(counts := {len(values) for values in parts.values()}) > 1:
        raise ValueError(
            f"titles, boxes, masks: expected one for each of the images, got {sorted(counts)} of them"
        )
    records = [dict(zip(parts, row)) for row in zip(*parts.values())]
    cards = [_card(row, each, "record") for row, each in enumerate(records)]
    wanted = None if columns is None else at_least("columns", columns, 1)
    return Figure(cards, f"{len(records)} pictures", columns=wanted)


def show(
    batch: Any,
    *,
    number: int = SHOWN,
    image: Place = None,
    label: Place = None,
    boxes: Place = None,
    mask: Place = None,
    tokenizer: Any = None,
) -> Figure:
    """A figure of the records of a batch: pictures with their labels, boxes and masks, or their values as a table.

    Args:
        batch: a tree of arrays with as many rows each, one record, a list of records, or a source, whose first records
            are shown; TypeError for a loader, whose batch it takes. The first leaf that is a picture is shown, with
            the boxes of a leaf "boxes" and the mask of a leaf "mask" on it.
        number: of records that are shown at most.
        image, label, boxes, mask: the places of other leaves: a dict's key, a position, the name of a field, or a path
            of these as a tuple. KeyError, IndexError or TypeError for one that isn't there.
        tokenizer: with a method `decode(ids)`, as those of tokenizers, transformers and SentencePiece have: shows the
            documents of packed rows as texts. Without it they are shown as tokens, one document after the other.

    >>> show({"x": np.arange(2), "label": np.array(["a", "b"])})
    2 of 2 records
    0  a  x: 0
    1  b  x: 1
    >>> show((np.arange(2), {"y": np.array(["a", "b"])}), label=(1, "y"))
    2 of 2 records
    0  a  0: 0
    1  b  0: 1
    """
    most = at_least("number", number, 0)
    total, records, places = _records(batch, most)
    given = {"image": image, "label": label, "boxes": boxes, "mask": mask}
    chosen: dict[str, Any] = {
        role: _name(role, leaf_at(places, key)) for role, key in given.items() if key is not None
    }
    picture = chosen.pop("image", None)
    if tokenizer is not None and not callable(getattr(tokenizer, "decode", None)):
        raise TypeError(f"tokenizer: expected one with a method decode(ids), or None, got {tokenizer!r:.80}")
    cards = []
    for place, row in enumerate(records):
        record = with_documents(row, None if tokenizer is None else tokenizer.decode)
        masks = chosen.get("mask", "mask")
        found = [name for name, value in record.items() if name != masks and is_image(_pixels(value))]
        shown = picture or next(iter(found), None)
        cards.append(_card(place, record, shown, **{"label": _label_of(record, shown), **chosen}))
    return Figure(cards, f"{len(cards)} of {total} records")


def _records(batch: Any, most: int) -> tuple[int, list[dict[str, Any]], Any]:
    """The number of records, the first of them by the names of their leaves, and a tree of these names."""
    if not hasattr(batch, "__array__"):
        if isinstance(batch, Dataset) or _gives_elements(batch):
            line = "next(batches)" if hasattr(batch, "__next__") else "next(iter(loader))"
            raise TypeError(
                f"batch: expected a batch, records or a source, got a {type(batch).__name__}; write "
                f"lk.show({'ds[0]' if isinstance(batch, Dataset) else line})"
            )
        if _is_source(batch):
            total = len(batch)
            trees = [_by_name(each) for each in read_records(batch, range(min(most, total)))]
            return total, [leaves for leaves, _ in trees], trees[0][1] if trees else {}
    leaves, places = _by_name(batch)
    lengths = {len(leaf) if isinstance(leaf, np.ndarray) and leaf.ndim else -1 for leaf in leaves.values()}
    if len(lengths) > 1 or lengths <= {-1} or is_packed_row(leaves):
        return 1, [leaves][:most], places
    rows = zip(*(leaf[:most] for leaf in leaves.values()))
    return lengths.pop(), [dict(zip(leaves, row)) for row in rows], places


def _by_name(tree: Any) -> tuple[dict[str, Any], Any]:
    leaves, structure = flatten(tree)
    names = names_of_leaves(structure)
    arrays = [np.asarray(leaf) if hasattr(leaf, "__array__") else leaf for leaf in leaves]
    return dict(zip(names, arrays)), unflatten(structure, names)


def _gives_elements(value: Any) -> bool:
    """Whether a value is a loader or an iterator."""
    return (
        kind_of_element(value) == "leaf" and hasattr(value, "__iter__") and not hasattr(value, "__getitem__")
    )


def _is_source(value: Any) -> bool:
    """Whether a value is a source, or a list of records of one structure: dicts, tuples or objects."""
    match kind_of_element(value):
        case "sequence":
            structures = {structure_of(each) for each in value}
            return type(value) is list and len(structures) == 1 and structures.pop().container is not None
        case "leaf" | "fields":
            texts = str | bytes | bytearray | memoryview
            return (
                hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, texts)
            )
    return False


def _name(role: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{role}: expected the place of one leaf, got one of {_short(name)}")
    return name


def _label_of(record: dict[str, Any], picture: str | None) -> str | None:
    """The only integer or text beside a picture, where no name says which leaf the label is, as in a tuple."""
    if picture is None or not record.keys().isdisjoint(LABELS):
        return None
    found = {name: np.asarray(value) for name, value in record.items() if name not in (picture, "__key__")}
    single = [name for name, value in found.items() if value.ndim == 0 and value.dtype.kind in "iuU"]
    return single[0] if len(single) == 1 else None


def _card(
    place: int,
    record: dict[str, Any],
    picture: str | None,
    *,
    label: str | None = None,
    boxes: str = "boxes",
    mask: str = "mask",
) -> Card:
    if picture is not None:
        image, corners, classes = (record.pop(name, None) for name in (picture, boxes, mask))
        record = {picture: _drawn(image, corners, classes), **record}
    return card_of(place, record, image_field=picture, label_field=label)


def _drawn(picture: Any, boxes: Any, mask: Any) -> Any:
    """The picture as one that a card shows, with boxes and a mask on it."""
    if isinstance(picture, bytes) and boxes is mask is None:
        return picture
    pil = library("PIL.Image", "pictures need", "plots", package="pillow")
    pixels = _pixels(
        np.asarray(pil.open(io.BytesIO(picture)) if isinstance(picture, bytes) else picture), (2, 3)
    )
    if not is_image(pixels):
        raise ValueError(f"images: expected (h, w) or (h, w, 1, 3 or 4), got {pixels.dtype} {pixels.shape}")
    if boxes is mask is None:
        return pixels
    shown = pil.fromarray(pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels).convert("RGB")
    classes = np.asarray(() if mask is None else mask).astype(np.int64)
    if mask is not None and classes.shape != pixels.shape[:2]:
        raise ValueError(f"masks: expected {pixels.shape[:2]}, as the picture, got {classes.shape}")
    for number in np.unique(classes[classes > 0]).tolist():
        shown.paste(_COLORS[number % len(_COLORS)], mask=pil.fromarray((classes == number) * np.uint8(128)))
    draw = library("PIL.ImageDraw", "pictures need", "plots", package="pillow").Draw(shown)
    corners = np.asarray(() if boxes is None else boxes, float)
    if corners.size and corners.shape[1:] != (4,):
        raise ValueError(f"boxes: expected (k, 4), got {corners.shape}")
    for place, (left, top, right, bottom) in enumerate(corners.reshape(-1, 4).tolist()):
        if left < right and top < bottom:
            draw.rectangle((left, top, right - 1, bottom - 1), outline=_COLORS[place % len(_COLORS)])
    return np.asarray(shown)


def _pixels(value: Any, dimensions: Sequence[int] = (3,)) -> Any:
    """An array of so many dimensions as uint8, its channels last; else the value: a matrix in a batch is no picture."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or value.ndim not in dimensions:
        return value
    if value.ndim == 3 and value.shape[0] in (1, 3) and value.shape[2] not in (1, 3, 4):
        value = value.transpose(1, 2, 0)
    if value.dtype == np.uint8:
        return value
    values = np.nan_to_num(value.astype(np.float32), posinf=0, neginf=0)
    low, high = values.min(initial=0), values.max(initial=1)
    return np.rint((values - low) / (high - low) * 255).astype(np.uint8)
