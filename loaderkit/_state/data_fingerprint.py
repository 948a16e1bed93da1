"""What a source's fingerprint says on one side or on one host only, and what that means for comparing two.

Of data sets of other libraries (kind "foreign") more is known in one version than in another, and where a library
can't be relied on it isn't asked: what only one side says isn't compared.
"""

from collections.abc import Mapping
from typing import Any

_SOMETIMES_KNOWN = frozenset({"content", "hf_fingerprint", "keys", "source", "sources"})


def may_be_unknown(key: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two fingerprints of the same data may differ in that only one of them has a key.

    >>> foreign = {"kind": "foreign", "records": 3}
    >>> may_be_unknown("content", foreign, foreign), may_be_unknown("records", foreign, foreign)
    (True, False)
    """
    foreign = one.get("kind") == other.get("kind") == "foreign"
    # The content of lists and arrays was always known.
    return (
        foreign and key in _SOMETIMES_KNOWN and not str(one.get("type")).startswith(("builtins.", "numpy."))
    )


def same_on_all_hosts(said: Any) -> Any:
    """A fingerprint, or another value of a state, without what may differ between hosts for the same data.

    Hugging Face's own is of the way in which the data was made: a host's cache, paths and libraries are part of it.

    >>> same_on_all_hosts({"records": 3, "hf_fingerprint": "2a"})
    {'records': 3}
    """
    if isinstance(said, Mapping):
        return {key: same_on_all_hosts(value) for key, value in said.items() if key != "hf_fingerprint"}
    return [same_on_all_hosts(value) for value in said] if isinstance(said, list) else said
