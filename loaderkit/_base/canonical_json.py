"""One text, and one digest, for a JSON value, whatever its layout and the order of its keys."""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """One text for a JSON value, whatever its layout and the order of its keys.

    >>> canonical({"b": [1, 2], "a": None})
    '{"a":null,"b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(document: dict[str, Any]) -> str:
    """The sha256 of a document's canonical text, without its own digest.

    >>> digest({"step": 3}) == digest({"digest": "any", "step": 3})
    True
    """
    rest = {key: value for key, value in document.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(canonical(rest).encode()).hexdigest()
