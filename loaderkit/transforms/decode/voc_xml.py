"""Boxes of Pascal VOC's XML."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any, Never, cast
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.former_arguments import warn_of_former
from loaderkit.transforms.base import Map

_SIDES = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True)
class VocXml(Map):
    """Decodes an annotation of Pascal VOC to a dict of its objects, in their order. Deprecated: docs/cookbook.md.

    boxes: (n, 4) float32, of xmin, ymin, xmax and ymax as they are written: VOC counts pixels from 1, and the last is
    in the box. labels: (n,) int64. difficult: (n,) bool, False where an object doesn't say. An annotation without
    objects has n = 0.

    Args:
        classes: the names of the classes, numbered in this order, or a dict of name -> int label.
        key: the field of a record that is decoded, such as "xml"; None where the element is the XML itself.

    ValueError for XML that is malformed or has a DTD, for an object without a name or box, and for another class.
    """

    classes: Mapping[str, int] | Sequence[str]
    key: str | None = None

    def __post_init__(self) -> None:
        warn_of_former("VocXml()", "the function of docs/cookbook.md, Boxes of Pascal VOC", stacklevel=3)
        object.__setattr__(self, "classes", _numbered(self.classes))
        key: object = self.key
        if not isinstance(key, str | None):
            raise TypeError(f"key: expected the name of a field or None, got {_short(key)}")

    def __hash__(self) -> int:
        return hash((tuple(self._labels.items()), self.key))

    @property
    def _labels(self) -> dict[str, int]:
        return cast("dict[str, int]", self.classes)

    def map(self, element: Any) -> Any:
        """The objects; for a record the record with them in their field."""
        if self.key is None:
            return self._objects(element)
        if not isinstance(element, dict) or self.key not in element:
            raise ValueError(f"VocXml: expected a record with the field {self.key!r}, got {_short(element)}")
        return {**element, self.key: self._objects(element[self.key])}

    def _objects(self, xml: Any) -> dict[str, NDArray[Any]]:
        if not isinstance(xml, bytes | str):
            raise TypeError(
                f"VocXml: expected XML as bytes or str, got {type(xml).__name__}; for a record give key="
            )
        parser = ElementTree.XMLParser(target=_WithoutDtd())
        try:
            parser.feed(xml)
            root = parser.close()
        except ElementTree.ParseError as error:
            raise ValueError(f"VocXml: expected well-formed XML, got {_short(xml)}: {error}") from error
        if root.tag != "annotation":
            raise ValueError(f"VocXml: expected an <annotation>, got a <{root.tag}>")
        found = [self._object(place, node) for place, node in enumerate(root.findall("object"))]
        return {
            "boxes": np.array([box for box, _, _ in found], np.float32).reshape(-1, 4),
            "labels": np.array([label for _, label, _ in found], np.int64),
            "difficult": np.array([difficult for _, _, difficult in found], bool),
        }

    def _object(self, place: int, node: ElementTree.Element) -> tuple[list[float], int, bool]:
        name = _text(node, "name", place)
        if name not in self._labels:
            known = ", ".join(map(repr, self._labels))
            raise ValueError(
                f"VocXml: object {place}: expected one of the classes {known}, got {name!r}; add it to classes"
            )
        box = node.find("bndbox")
        if box is None:
            raise ValueError(f"VocXml: object {place}, {name!r}: expected a <bndbox>, got none")
        sides = [_number(_text(box, side, place), side, place) for side in _SIDES]
        if sides[0] > sides[2] or sides[1] > sides[3]:
            raise ValueError(
                f"VocXml: object {place}, {name!r}: expected xmin <= xmax and ymin <= ymax, got {sides}"
            )
        difficult = (node.findtext("difficult") or "0").strip()
        if difficult not in ("0", "1"):
            raise ValueError(f"VocXml: object {place}: <difficult>: expected 0 or 1, got {difficult!r}")
        return sides, self._labels[name], difficult == "1"


class _WithoutDtd(ElementTree.TreeBuilder):
    """Refuses a DTD at its beginning: entities that it declares may grow without bounds."""

    def doctype(self, *_: Any) -> Never:
        raise ValueError("VocXml: expected XML without a DTD, got a <!DOCTYPE>; remove it from the file")


def _text(node: ElementTree.Element, name: str, place: int) -> str:
    text = (node.findtext(name) or "").strip()
    if not text:
        raise ValueError(f"VocXml: object {place}: expected a <{name}> with a value, got none")
    return text


def _number(text: str, side: str, place: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"VocXml: object {place}: <{side}>: expected a number, got {text!r}")
    return value


def _numbered(classes: Any) -> dict[str, int]:
    """name -> label."""
    numbered = classes
    if isinstance(classes, list | tuple):
        if len(set(map(repr, classes))) < len(classes):
            raise ValueError(f"classes: expected each name once, got {_short(classes)}")
        numbered = {name: label for label, name in enumerate(classes)}
    right = isinstance(numbered, Mapping) and all(
        isinstance(name, str) and isinstance(label, int) and not isinstance(label, bool)
        for name, label in numbered.items()
    )
    if not right:
        raise TypeError(f"classes: expected a list of names or a dict of name -> int, got {_short(classes)}")
    if not numbered:
        raise ValueError("classes: expected one name or more, got none")
    return dict(numbered)
