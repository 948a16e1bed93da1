"""The fingerprint of a source in saved states, so that a restore with other data is noticed.

The source gives it (`fingerprint()`, kind "declared"), or it is made of what is known of any object (kind "foreign").
Neither holds times, addresses or absolute paths, so the fingerprint stays the same when the data is moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from reprlib import repr as _short
from typing import Any

import numpy as np

from .content import content_hash, sampled_keys, stable_repr
from .known_libraries import seen_by_library
from .protocol import read_records


def fingerprint_of(source: Any) -> dict[str, Any]:
    """The fingerprint of a source as JSON values: equal for the same data, different for most other data.

    Args:
        source: any data source. TypeError where its own `fingerprint()` doesn't give a dict of JSON values.

    >>> fingerprint_of([10, 20])["kind"], fingerprint_of([10, 20]) == fingerprint_of([10, 21])
    ('foreign', False)
    """
    own = getattr(source, "fingerprint", None)
    if callable(own):
        given = own()
        name = f"{type(source).__name__}.fingerprint()"
        try:
            # To JSON and back, so that it has the types of a fingerprint that was read from a state.
            given = json.loads(json.dumps(given, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name}: expected JSON values (dicts, lists, strings, ints, floats), got {_short(given)}: {error}"
            ) from error
        if not isinstance(given, dict):
            raise TypeError(f"{name}: expected a dict, got {_short(given)}")
        return {"kind": "declared", **given}
    return {"kind": "foreign", **_foreign_fingerprint(source)}


def _foreign_fingerprint(source: Any) -> dict[str, Any]:
    cls = type(source)
    seen: dict[str, Any] = {"type": f"{cls.__module__}.{cls.__qualname__}", "records": len(source)}
    if cls in (list, tuple, str, bytes) or isinstance(source, np.ndarray):
        # These lie in memory: the repr would be all the data, and reading some records is cheap and has no effect.
        return seen | {"content": content_hash(read_records(source, sampled_keys(len(source))))}
    text = stable_repr(source)
    if text is not None:
        seen["repr"] = text
    info = getattr(source, "dataset_info", None)
    if info is not None and hasattr(info, "full_name") and hasattr(source, "split"):
        # The repr of a TFDS source lacks the version.
        seen |= {"tfds": str(info.full_name), "split": str(source.split)}
    return seen | seen_by_library(source, fingerprint_of)


# Fields that only some indexes know: they are compared where both sides have them.
KNOWN_TO_SOME_INDEXES = ("checksums", "samples")


def same_where_known(one: Any, other: Any) -> bool:
    """Whether two fingerprints, JSON values, are equal but for such fields that only one has.

    >>> same_where_known({"data": "a", "checksums": "b"}, {"data": "a"})
    True
    >>> same_where_known({"data": "a", "checksums": "b"}, {"data": "a", "checksums": "c"})
    False
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        alone = one.keys() ^ other.keys()
        return alone <= {*KNOWN_TO_SOME_INDEXES} and all(
            same_where_known(one[name], other[name]) for name in one.keys() & other.keys()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_where_known, one, other))
    return bool(one == other)


def without_index_fields(value: Any, also: str = "") -> Any:
    """A fingerprint, or another JSON value, without such fields.

    Args:
        value: the fingerprint.
        also: the name of a field that is left out with them.

    >>> without_index_fields({"sources": [{"data": "a", "checksums": "b"}]})
    {'sources': [{'data': 'a'}]}
    """
    if isinstance(value, Mapping):
        return {
            name: without_index_fields(child, also)
            for name, child in value.items()
            if name != also and not (name in KNOWN_TO_SOME_INDEXES and isinstance(child, str))
        }
    return [without_index_fields(child, also) for child in value] if isinstance(value, list) else value
