"""Fields of a source's fingerprint that may be missing or differ for the same data.

For data sets of other libraries (kind "foreign") a version of loaderkit or of the library may provide fields that
another one doesn't. So does an index that was made with checksums of the records, or by an older version. A field that
only one side has isn't compared.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from loaderkit._source.fingerprint import KNOWN_TO_SOME_INDEXES, without_index_fields

_SOMETIMES_KNOWN = frozenset({"content", "hf_fingerprint", "keys", "source", "sources"})


def may_be_unknown(key: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether of two fingerprints of the same data one may lack `key`.

    >>> foreign = {"kind": "foreign", "records": 3}
    >>> may_be_unknown("content", foreign, foreign), may_be_unknown("records", foreign, foreign)
    (True, False)
    """
    if key in KNOWN_TO_SOME_INDEXES:
        return True
    foreign = one.get("kind") == other.get("kind") == "foreign"
    # Lists and arrays have had all fields in every version.
    return (
        foreign and key in _SOMETIMES_KNOWN and not str(one.get("type")).startswith(("builtins.", "numpy."))
    )


def same_on_all_hosts(value: Any) -> Any:
    """A fingerprint, or another value of a state, without fields that may differ between hosts for the same data.

    Hugging Face's fingerprint depends on how the data was made: on a host's cache, paths and library versions. What
    only some indexes say is compared by `said_by_some`.

    >>> same_on_all_hosts({"records": 3, "hf_fingerprint": "2a"})
    {'records': 3}
    """
    return without_index_fields(value, also="hf_fingerprint")


def said_by_some(value: Any, path: str = "data source") -> Iterator[tuple[str, str]]:
    """The fields of a fingerprint that only some indexes have, by their paths: equal where two hosts have them.

    >>> list(said_by_some({"sources": [{"data": "a", "checksums": "b"}]}))
    [('data source.sources.0.checksums', 'b')]
    """
    if isinstance(value, Mapping | list):
        for key, child in value.items() if isinstance(value, Mapping) else enumerate(value):
            if key in KNOWN_TO_SOME_INDEXES and isinstance(child, str):
                yield f"{path}.{key}", child
            else:
                yield from said_by_some(child, f"{path}.{key}")
