"""The card of a data set, `NAME/VERSION/dataset.json`: what its files are and hold, read strictly."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from loaderkit._base.canonical_json import check_seal, digest, sealed
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.whole_file import whole_file
from loaderkit.errors import DataFormatError
from loaderkit.sources.record_features import is_features

from .versions import is_version

CARD = "dataset.json"
KIND = "loaderkit data set"
CARD_VERSION = 1
_ADVICE = 'write the set again or, if you have edited it, take out the field "digest"'

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)*", re.ASCII)
_SPLIT = re.compile(r"[\w-]+", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A file of a split. name: its path from the card's folder, with "/". records, nbytes: what it has. sha256: hex."""

    name: str
    records: int
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """What a data set holds.

    format: of its files, as `lk.write` names it. features: the record's tree, see `features.py`. splits: their files in
    order. index: for formats that have one the files' indexes, by split. supervised_keys: names of input and target,
    or None. provenance: JSON values of the author. libraries: name -> version of what wrote it.
    """

    name: str
    version: str
    format: str
    features: Any
    splits: Mapping[str, tuple[ShardFile, ...]]
    index: Mapping[str, str]
    supervised_keys: tuple[str, ...] | None = None
    description: str | None = None
    provenance: Any = None
    libraries: Mapping[str, str] | None = None

    def shard_lengths(self) -> dict[str, list[int]]:
        """The records of each file of each split."""
        return {name: [file.records for file in files] for name, files in self.splits.items()}

    def digest_of(self, split: str) -> str:
        """A digest of the content of a split: of its files' checksums and records, not of their names."""
        return digest({"files": [[file.records, file.sha256] for file in self.splits[split]]})


def write_card(folder: str, card: DatasetCard) -> None:
    """Writes the card into the data set's folder, whole or not at all; equal cards are equal bytes."""
    text = json.dumps(sealed(_document(card)), indent=2, ensure_ascii=False, allow_nan=False)
    with whole_file(os.path.join(folder, CARD)) as file:
        file.write(text.encode() + b"\n")


def read_card(path: str) -> DatasetCard:
    """The card in a file; DataFormatError that names the file, the field and what is expected there."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        document = _json_of(data)
        card = _card_of(document)
    except ValueError as error:
        raise DataFormatError(f"{path}: {error}; write it again with lk.write_dataset") from None
    check_seal(path, document, _ADVICE)
    return card


def is_name(text: str) -> bool:
    """Whether a text can be a data set's name: letters, digits, "_", "-", "." and "/" between two parts.

    >>> is_name("digits"), is_name("mnist/3d"), is_name("../digits")
    (True, True, False)
    """
    return _NAME.fullmatch(text) is not None


def is_split(text: str) -> bool:
    """Whether a text can be a split's name.

    >>> is_split("train"), is_split("all"), is_split("train[0]")
    (True, False, False)
    """
    return _SPLIT.fullmatch(text) is not None and text != "all"


def _document(card: DatasetCard) -> dict[str, Any]:
    return {
        "kind": KIND,
        "card_version": CARD_VERSION,
        **{name: getattr(card, name) for name in ("name", "version", "description", "format", "features")},
        "supervised_keys": None if card.supervised_keys is None else list(card.supervised_keys),
        "splits": {
            name: {
                "records": sum(file.records for file in files),
                "bytes": sum(file.nbytes for file in files),
                "files": [
                    {"name": file.name, "records": file.records, "bytes": file.nbytes, "sha256": file.sha256}
                    for file in files
                ],
                "index": card.index.get(name),
            }
            for name, files in card.splits.items()
        },
        "provenance": card.provenance,
        "libraries": dict(sorted((card.libraries or {}).items())),
    }


_OPTIONAL = str | None
_FIELDS: dict[str, Any] = {
    "kind": str,
    "card_version": int,
    "name": str,
    "version": str,
    "description": _OPTIONAL,
    "format": str,
    "features": object,
    "supervised_keys": list | None,
    "splits": dict,
    "provenance": object,
    "libraries": dict,
}
# Those that a `DatasetCard` has as they are.
_AS_WRITTEN = ("name", "version", "format", "features", "description", "provenance", "libraries")
_SPLIT_FIELDS: dict[str, Any] = {"records": int, "bytes": int, "files": list, "index": _OPTIONAL}
_FILE_FIELDS: dict[str, Any] = {"name": str, "records": int, "bytes": int, "sha256": str}


def _json_of(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        got = repr(error.doc[error.pos : error.pos + 20]) if error.pos < len(error.doc) else "its end"
        raise ValueError(f"line {error.lineno}: expected JSON, got {got}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start}: expected UTF-8, got {data[error.start]:#04x}") from None
    except RecursionError:
        raise ValueError("the card: expected JSON, got brackets nested too deeply") from None


def _card_of(document: Any) -> DatasetCard:
    kind = document.get("kind") if isinstance(document, dict) else document
    if kind != KIND:
        raise ValueError(f"kind: expected {KIND!r}, got {kind!r:.60}")
    if document.get("card_version") != CARD_VERSION:
        got = document.get("card_version")
        raise ValueError(
            f"card_version: expected {CARD_VERSION}, got {got!r:.60}; a newer loaderkit may read it"
        )
    fields = _checked({name: value for name, value in document.items() if name != "digest"}, _FIELDS, "")
    _require(is_name(fields["name"]), "name", "letters, digits, _, - and .", fields["name"])
    _require(is_version(fields["version"]), "version", "MAJOR.MINOR.PATCH", fields["version"])
    _require(
        is_features(fields["features"]), "features", "a tree of texts such as 'uint8(28, 28)'", "another"
    )
    keys = fields["supervised_keys"]
    _require(keys is None or _are_keys(keys), "supervised_keys", "two or three names", keys)
    versions = fields["libraries"]
    _require(all(isinstance(v, str) for v in versions.values()), "libraries", "texts", versions)
    _require(fields["splits"], "splits", "one split or more", "none")
    for name in fields["splits"]:
        _require(is_split(name), "splits", "names of letters, digits, _ and -, and not 'all'", name)
    splits = {
        name: _checked(split, _SPLIT_FIELDS, f"splits.{name}") for name, split in fields["splits"].items()
    }
    for name, split in splits.items():
        index = split["index"]
        _require(index is None or _is_inside(index), f"splits.{name}.index", "a file", index)
    return DatasetCard(
        **{name: fields[name] for name in _AS_WRITTEN},
        splits={name: _files_of(split, f"splits.{name}") for name, split in splits.items()},
        index={name: split["index"] for name, split in splits.items() if split["index"] is not None},
        supervised_keys=None if keys is None else tuple(keys),
    )


def _files_of(split: dict[str, Any], where: str) -> tuple[ShardFile, ...]:
    files = []
    for number, each in enumerate(split["files"]):
        place = f"{where}.files[{number}]"
        file = _checked(each, _FILE_FIELDS, place)
        name, records, nbytes, sha256 = (file[field] for field in _FILE_FIELDS)
        _require(_is_inside(name), f"{place}.name", "a path within the data set's folder", name)
        _require(records >= 0, f"{place}.records", "0 or more", records)
        _require(_SHA256.fullmatch(sha256), f"{place}.sha256", "64 hexadecimal digits", sha256)
        files.append(ShardFile(name, records, nbytes, sha256))
    for field, found in (("records", sum(f.records for f in files)), ("bytes", sum(f.nbytes for f in files))):
        _require(split[field] == found, f"{where}.{field}", f"{found}, the sum of its files", split[field])
    return tuple(files)


def _checked(value: Any, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    _require(isinstance(value, dict), where or "the card", "a JSON object", value)
    dot = where and f"{where}."
    for name, kind in fields.items():
        _require(name in value, f"{dot}{name}", "a value", "nothing")
        valid = isinstance(value[name], kind) and not (kind is int and isinstance(value[name], bool))
        wanted = "text or null" if kind is _OPTIONAL else getattr(kind, "__name__", str(kind))
        _require(valid, f"{dot}{name}", wanted, value[name])
    for name in value:
        _require(name in fields, f"{dot}{name}", f"one of {', '.join(fields)}", repr(name))
    return dict(value)


def _are_keys(keys: list[Any]) -> bool:
    return len(keys) in (2, 3) and all(isinstance(key, str) for key in keys)


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _require(valid: object, field: str, expected: str, got: object) -> None:
    if not valid:
        raise ValueError(f"{field}: expected {expected}, got {got!s:.80}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice}: expected one value, got two")
    return found
