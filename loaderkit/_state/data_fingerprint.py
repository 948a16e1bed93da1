"""Fields of a source's fingerprint that may be missing or differ for the same data.

For data sets of other libraries (kind "foreign") a version of loaderkit or of the library may provide fields that
another one doesn't. A field that only one side has isn't compared.
"""

from collections.abc import Mapping
from typing import Any

_SOMETIMES_KNOWN = frozenset({"content", "hf_fingerprint", "keys", "source", "sources"})


def may_be_unknown(key: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether of two fingerprints of the same data one may lack `key`.

    >>> foreign = {"kind": "foreign", "records": 3}
    >>> may_be_unknown("content", foreign, foreign), may_be_unknown("records", foreign, foreign)
    (True, False)
    """
    foreign = one.get("kind") == other.get("kind") == "foreign"
    # Lists and arrays have had all fields in every version.
    return (
        foreign and key in _SOMETIMES_KNOWN and not str(one.get("type")).startswith(("builtins.", "numpy."))
    )


def same_on_all_hosts(value: Any) -> Any:
    """A fingerprint, or another value of a state, without fields that may differ between hosts for the same data.

    Hugging Face's fingerprint depends on how the data was made: on a host's cache, paths and library versions.

    >>> same_on_all_hosts({"records": 3, "hf_fingerprint": "2a"})
    {'records': 3}
    """
    if isinstance(value, Mapping):
        return {key: same_on_all_hosts(child) for key, child in value.items() if key != "hf_fingerprint"}
    return [same_on_all_hosts(child) for child in value] if isinstance(value, list) else value
