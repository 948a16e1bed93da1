"""Records as the members of a tar archive: which member holds which value of a dict, and in what form.

A dict of bytes needs nothing beyond the members' names. For other values the archive begins with a member
`__loaderkit__`, JSON that says what the members are; webdataset skips it, and reads the others by their extensions.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.formats.npy import decoded_array, encoded_array

from .scanner import NAME, RESERVED, SKIPPED
from .tagged_json import decoded_json, encoded_json

DESCRIPTION = "__loaderkit__"  # the member's name
KEY_DIGITS = 9  # of a key that is the record's number
_VERSION = 1
_KEY = "__key__"
# What readers say of where a record came from; it is of their archive, and not part of the record.
_ORIGIN = frozenset(("__url__", "__local_path__"))
_TEXTS = frozenset(("txt", "text", "transcript"))
_INTS = frozenset(("cls", "cls2", "index", "inx", "id"))
_JSONS = frozenset(("json", "jsn"))


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _scalar(value: np.generic) -> bytes:
    return encoded_array(np.asarray(value))


@dataclass(frozen=True, slots=True)
class ValueForm:
    """How values of one kind are bytes: their types as errors name them, the way there and the way back."""

    expected: str
    holds: Callable[[Any], bool]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


FORMS: Mapping[str, ValueForm] = {
    "bytes": ValueForm("bytes", lambda value: type(value) in (bytes, bytearray, memoryview), bytes, bytes),
    "text": ValueForm(
        "str", lambda value: type(value) is str, _text, lambda data: data.decode("utf-8", "surrogatepass")
    ),
    "int": ValueForm("int", lambda value: type(value) is int, lambda value: b"%d" % value, int),
    "array": ValueForm(
        "a numpy array", lambda value: isinstance(value, np.ndarray), encoded_array, decoded_array
    ),
    "scalar": ValueForm(
        "a numpy scalar",
        lambda value: isinstance(value, np.generic),
        _scalar,
        lambda data: decoded_array(data)[()],
    ),
    "json": ValueForm("any value", lambda value: True, encoded_json, decoded_json),
}


def _form_of(name: str, value: Any) -> tuple[str, str]:
    """The name of the form for values like this one, and the extension that the member gets, "" for none."""
    extension = name.lower().rpartition(".")[2]
    if FORMS["bytes"].holds(value):
        return "bytes", ""
    if extension in _JSONS:
        return "json", ""
    if type(value) is str:
        return "text", "" if extension in _TEXTS else ".txt"
    if isinstance(value, np.ndarray):
        return "array", "" if extension == "npy" else ".npy"
    if isinstance(value, np.generic):
        return "scalar", ".npy"
    if type(value) is int and extension in _INTS:
        return "int", ""
    return "json", ".json"


@dataclass(frozen=True, slots=True)
class TarField:
    """One value of a record. stored: the member's name behind the key. name: in the dict. form: a key of `FORMS`."""

    stored: str
    name: str
    form: str


@dataclass(frozen=True, slots=True)
class TarFields:
    """How records lie in archives, as the first record decides it.

    fields: in the order of the dict. has_key: whether the dicts have "__key__"; else the record's number is the key.
    key_first: how many fields come before "__key__" in the dict. single: whether a record isn't a dict of fields, but
    the value of the only one.
    """

    fields: tuple[TarField, ...]
    has_key: bool
    key_first: int = 0
    single: bool = False

    @classmethod
    def of(cls, first: Any) -> Self:
        """For records like this one; TypeError where a value can't be written, ValueError for a name.

        Args:
            first: a dict of fields, or any other value.

        >>> fields = TarFields.of({"image": np.zeros(2, np.uint8), "cls": 3, "about": {"x": 1}})
        >>> [(field.stored, field.form) for field in fields.fields]
        [('image.npy', 'array'), ('cls', 'int'), ('about.json', 'json')]
        >>> fields.is_plain, TarFields.of({"__key__": "a/17", "jpg": b"..."}).is_plain
        (False, True)
        """
        names = record_names(first)
        if names is None:
            form, extension = _form_of("", first)
            FORMS[form].encode(first)
            return cls((TarField(extension[1:] or "bin", "", form),), has_key=False, single=True)
        fields = []
        for name in names:
            form, extension = _form_of(name, first[name])
            fields.append(TarField(stored_name(name) + extension, name, form))
            _encoded(fields[-1], first[name])
        stored = [field.stored for field in fields]
        for place, each in enumerate(stored):
            if each in stored[:place]:
                both = [field.name for field in fields if field.stored == each]
                raise ValueError(
                    f"fields: expected names that stay apart in lower case, got {both[0]!r} and {both[1]!r}; rename one"
                )
        before = list(first).index(_KEY) if _KEY in first else 0
        origin = sum(name in _ORIGIN for name in list(first)[:before])
        return cls(tuple(fields), _KEY in first, before - origin)

    @property
    def is_plain(self) -> bool:
        """Whether the archive says nothing of its fields, as all are bytes under their own names."""
        return not self.single and all(
            field.form == "bytes" and field.stored == field.name for field in self.fields
        )

    def encode(self, record: Any, number: int) -> tuple[str, list[tuple[str, bytes]]]:
        """The record's key, and the names behind it with their values, sorted.

        Args:
            record: like the first; ValueError that says what differs.
            number: of the record.
        """
        if self.single:
            (field,) = self.fields
            return numbered_key(number), [(field.stored, _encoded(field, record))]
        names = record_names(record)
        if names is None:
            raise ValueError(
                f"expected a dict of fields, as the first record is, got {type(record).__name__}"
            )
        if _KEY in record and not (self.has_key or self.is_plain):
            raise ValueError("expected no '__key__', as the first record has none, got one")
        known = {field.name: field for field in self.fields}
        values = [
            (field.stored, _encoded(field, record[name]))
            for name in names
            for field in (known.get(name) or self._further(name, record[name]),)
        ]
        if not values:
            raise ValueError("expected a record with a field, got one without, which an archive can't hold")
        values.sort()
        return record_key(record, number), values

    def _further(self, name: str, value: Any) -> TarField:
        """A field that the first record lacks: bytes may have any new name."""
        form, _ = _form_of(name, value)
        stored = stored_name(name)
        if form != "bytes" or stored != name or any(field.stored == stored for field in self.fields):
            has = ", ".join(repr(field.name) for field in self.fields)
            raise ValueError(f"expected the fields of the first record ({has}), got {name!r} too")
        return TarField(stored, name, form)

    def decode(self, key: str, values: Mapping[str, bytes]) -> Any:
        """The record as it was encoded, fields that weren't read left out.

        Args:
            key: the record's.
            values: by the names behind the key. ValueError with key and field for bytes that can't be decoded.
        """
        record: dict[str, Any] = {}
        left = dict(values)
        if self.has_key and not self.key_first:
            record[_KEY] = key
        for place, field in enumerate(self.fields, 1):
            if (data := left.pop(field.stored, None)) is not None:
                try:
                    record[field.name] = data if field.form == "bytes" else FORMS[field.form].decode(data)
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"record {key!r}, field {field.name!r}: {error}") from error
            if self.has_key and place == self.key_first:
                record[_KEY] = key
        if self.single and record:
            return record[""]
        return {**record, **left}

    def stored_names(self) -> dict[str, str]:
        """The name of the member behind the key by the name in the dict."""
        return {field.name: field.stored for field in self.fields}

    def to_bytes(self) -> bytes:
        """The value of the member `__loaderkit__`."""
        return encoded_json(
            {
                "version": _VERSION,
                "fields": [[field.stored, field.name, field.form] for field in self.fields],
                "has_key": self.has_key,
                "key_first": self.key_first,
                "single": self.single,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` gave; ValueError where it isn't that, or is of a later version of loaderkit.

        >>> fields = TarFields.of({"x": 1.5})
        >>> TarFields.from_bytes(fields.to_bytes()) == fields
        True
        """
        try:
            said = json.loads(data)
            if said["version"] != _VERSION:
                raise ValueError(
                    f"expected fields as version {_VERSION} describes them, got version {said['version']!r}; read the "
                    "archive with a newer loaderkit"
                )
            fields = tuple(TarField(*map(str, each)) for each in said["fields"])
            if any(field.form not in FORMS for field in fields) or (said["single"] and len(fields) != 1):
                raise ValueError(f"expected fields in the forms {', '.join(FORMS)}, got {said['fields']!r}")
            return cls(fields, bool(said["has_key"]), int(said["key_first"]), bool(said["single"]))
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"expected what loaderkit writes into it, got {data[:40]!r}") from error


def numbered_key(number: int) -> str:
    """The key of a record without one.

    >>> numbered_key(17)
    '000000017'
    """
    return f"{number:0{KEY_DIGITS}d}"


def record_key(record: Mapping[str, Any], number: int) -> str:
    """The key of a record: its "__key__", or its number.

    >>> record_key({"__key__": "a/17"}, 0)
    'a/17'
    """
    return checked_key(record[_KEY]) if _KEY in record else numbered_key(number)


def checked_key(key: Any) -> str:
    """The key, if a reader finds it again in the names of members; ValueError otherwise.

    Args:
        key: of any type.

    >>> checked_key("a.b/17")
    'a.b/17'
    >>> checked_key("17.5")
    Traceback (most recent call last):
    ValueError: __key__: expected no dot behind the last '/', where the fields begin, got '17.5'; write '17_5'
    """
    if isinstance(key, bytes):
        key = key.decode("utf-8", "surrogateescape")
    if not isinstance(key, str):
        raise ValueError(f"__key__: expected a str, got {type(key).__name__}")
    folders, _, last = key.rpartition("/")
    if "." in last and last not in (".", ".."):
        better = f"{folders}/" * bool(folders) + last.replace(".", "_")
        raise ValueError(
            f"__key__: expected no dot behind the last '/', where the fields begin, got {key!r}; write {better!r}"
        )
    name = f"{key}.x".encode("utf-8", "surrogateescape")
    match = NAME.match(name)
    if key.startswith("/") or ".." in key.split("/"):
        raise ValueError(
            f"__key__: expected a name within the folder where the archive is unpacked, got {key!r}; leave out a '/' "
            "at its beginning and any '..'"
        )
    if match is None or match[2] != b"x" or b"\0" in name or not last or SKIPPED.match(name):
        raise ValueError(
            f"__key__: expected a name such as 'train/000017', not empty, without NUL and line ends, and with no "
            f"'__x__' at its beginning, which readers skip; got {key!r}"
        )
    return key


def record_names(record: Any) -> Sequence[str] | None:
    """The names of a record's fields, None for a record that isn't a dict of fields.

    >>> record_names({"__key__": "a/17", "cls": 3})
    ['cls']
    """
    if type(record) is not dict or not all(type(name) is str for name in record):
        return None
    names = [name for name in record if name != _KEY and name not in _ORIGIN]
    return names or None


def stored_name(name: str) -> str:
    """A field's name as part of a member's: without "/" and in lower case, as readers give it.

    >>> stored_name("seg/PNG")
    'seg.png'
    """
    stored = name.lower().replace("/", ".")
    if not stored.strip(".") or "\0" in name or stored in RESERVED or stored == "__bad__":
        raise ValueError(f"fields: expected names of fields that readers keep, got {name!r}; rename it")
    return stored


def _encoded(field: TarField, value: Any) -> bytes:
    form = FORMS[field.form]
    named = f"field {field.name!r}: " if field.name else ""
    if not form.holds(value):
        raise ValueError(
            f"{named}expected {form.expected}, as in the first record, got {type(value).__name__}; a field whose name "
            f"ends with .json takes values of any types"
        )
    try:
        return form.encode(value)
    except TypeError as error:
        raise TypeError(f"{named}{error}") from None
