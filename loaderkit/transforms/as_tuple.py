"""Records with named fields as tuples."""

from dataclasses import dataclass
from typing import Any

from loaderkit._base.field_names import field_choices

from .base import Map


@dataclass(frozen=True, init=False, repr=False)
class AsTuple(Map):
    """Some fields of a record, a dict as lk.TarDataSource gives it, as a tuple; webdataset's `to_tuple`.

    Args:
        fields: the fields in order, in one str with spaces between them, or each for itself. "jpg;png" takes the first
            of these that the record has. "__key__" is the record's key.

    Raises ValueError for a record without a field; it has the record's key and the fields that are there.

    >>> record = {"__key__": "a/17", "jpg": b"...", "cls": b"3"}
    >>> AsTuple("jpg cls").map(record), AsTuple("png;jpg", "__key__").map(record)
    ((b'...', b'3'), (b'...', 'a/17'))
    >>> AsTuple("jpg", "json").map(record)
    Traceback (most recent call last):
    ValueError: record 'a/17': expected the field 'json', got 'jpg', 'cls'; leave the record out by a Filter before \
AsTuple, or name another field: 'json;jpg'
    """

    fields: tuple[str, ...]

    def __init__(self, *fields: str) -> None:
        given: Any = fields[0] if len(fields) == 1 else fields
        choices = field_choices("fields", given)
        self._set(fields=tuple(map(";".join, choices)), _choices=choices)

    def map(self, element: Any) -> tuple[Any, ...]:
        """The fields of the record, in the order asked for."""
        try:
            return tuple([element[name] for name in self.fields])
        except (KeyError, TypeError, IndexError):  # with a choice, without a field, or no dict
            if not isinstance(element, dict):
                got = type(element).__name__
                raise TypeError(f"{self!r}: expected a record, a dict of fields, got {got}") from None
        return tuple([self._field(element, choice) for choice in self._choices])  # type: ignore[attr-defined]

    def _field(self, record: dict[str, Any], names: tuple[str, ...]) -> Any:
        for name in names:
            if name in record:
                return record[name]
        here = [name for name in record if not str(name).startswith("__")]
        raise ValueError(
            f"record {record.get('__key__')!r}: expected the field {';'.join(names)!r}, got "
            f"{', '.join(map(repr, here)) or 'none'}; leave the record out by a Filter before AsTuple, or name another "
            f"field: {';'.join([*names, *here[:1]])!r}"
        )

    def __repr__(self) -> str:
        return f"AsTuple({', '.join(map(repr, self.fields))})"
