"""A canonical text and a digest of JSON values, independent of layout and of the order of keys."""

import hashlib
import json
from typing import Any


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
