"""A canonical text and a digest of JSON values, independent of layout and of the order of keys."""

import hashlib
import json
from typing import Any

from loaderkit.errors import ChecksumError


def canonical(value: Any) -> str:
    """The canonical text of a JSON value: keys sorted, no white space.

    >>> canonical({"b": [1, 2], "a": None})
    '{"a":null,"b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(document: dict[str, Any]) -> str:
    """The sha256 of a document's canonical text, leaving out the field `digest`.

    >>> digest({"step": 3}) == digest({"digest": "any", "step": 3})
    True
    """
    rest = {key: value for key, value in document.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(canonical(rest).encode()).hexdigest()


def sealed(document: dict[str, Any], field: str = "digest") -> dict[str, Any]:
    """The document with its digest in a field, by which a change of it is noticed.

    >>> check_seal("a.json", sealed({"step": 3}), "make it again")
    {'step': 3}
    """
    return {**document, field: digest(document)}


def check_seal(path: str, document: dict[str, Any], advice: str, field: str = "digest") -> dict[str, Any]:
    """The document without its digest; ChecksumError where it isn't the one that was sealed.

    Args:
        path: of its file, for the error.
        document: as it was read; one without a digest is of an old version.
        advice: what to do, such as "make it again".
        field: as it was sealed with.
    """
    rest = {name: value for name, value in document.items() if name != field}
    if document.get(field, there := digest(rest)) != there:
        raise ChecksumError(
            f"{path}: it doesn't have its digest: the file was changed after it was written; {advice}"
        )
    return rest
