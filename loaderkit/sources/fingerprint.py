"""What a saved state says about its data, so that a restore on other data is noticed.

A source says it itself (`fingerprint()`, kind "declared"), or it is put together from what can be known of
any object (kind "foreign"). Neither has times, addresses or absolute paths: the same data moved elsewhere
stays the same data.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from loaderkit._structure import children_of, kind_of

from .protocol import read_records

# How many records, and how many bytes at each end of one leaf, a content hash reads.
SAMPLED_RECORDS = 16
SAMPLED_BYTES = 1 << 15
LONGEST_REPR = 500

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def stable_repr(value: Any) -> str | None:
    """The repr without memory addresses, a long one cut and hashed; None where it says nothing.

    Args:
        value: any object.

    >>> stable_repr(len), stable_repr(object()) is None
    ('<built-in function len>', True)
    """
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return None
    text = _ADDRESS.sub("", repr(value))
    if len(text) <= LONGEST_REPR:
        return text
    return f"{text[:100]}... sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:32]}"


def sampled_keys(num_records: int) -> list[int]:
    """The keys whose records a content hash reads: the first, the last, and some evenly between them.

    Args:
        num_records: the length of the source.

    >>> sampled_keys(3), sampled_keys(1_000_000)[:3]
    ([0, 1, 2], [0, 66666, 133333])
    """
    if num_records <= SAMPLED_RECORDS:
        return list(range(num_records))
    return [(num_records - 1) * i // (SAMPLED_RECORDS - 1) for i in range(SAMPLED_RECORDS)]


def content_hash(elements: Iterable[Any]) -> str:
    """A hash of values, equal in every process; of a long array or string it reads both ends.

    Args:
        elements: any trees. Leaves of unknown types count by their type and stable repr alone.

    >>> content_hash([{"x": 1}]) == content_hash([{"x": 1}]) != content_hash([{"x": 2}])
    True
    """
    digest = hashlib.sha256()
    for element in elements:
        for part in _parts(element):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return f"sha256:{digest.hexdigest()[:32]}"


def digest_of(values: Any) -> str:
    """A hash of JSON values, for what would be too long to keep.

    Args:
        values: anything that JSON can hold.

    >>> digest_of(["train-00000-of-00064", 1000]) == digest_of(("train-00000-of-00064", 1000))
    True
    """
    return f"sha256:{hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]}"


def _parts(value: Any) -> Iterator[bytes]:
    cls: Any = type(value)
    kind = kind_of(cls)
    if kind == "leaf":
        yield from _leaf_parts(value)
        return
    keys, children = children_of(value, kind)
    items = [(repr(key), child) for key, child in zip(keys, children)]
    if kind == "dict":
        # The order in which a dict got its keys is no part of the data.
        items.sort(key=itemgetter(0))
    yield f"{cls.__qualname__} of {len(items)}".encode()
    for name, child in items:
        yield name.encode("utf-8", "replace")
        yield from _parts(child)


def _leaf_parts(leaf: Any) -> Iterable[bytes]:
    name = type(leaf).__qualname__
    if isinstance(leaf, np.ndarray | np.generic) and not leaf.dtype.hasobject:
        array = np.asarray(leaf)
        return (f"{name} {array.dtype.str} {array.shape}".encode(), *_ends(array))
    if isinstance(leaf, np.ndarray):
        return (f"{name} {leaf.shape}".encode(), content_hash(leaf.ravel()[:SAMPLED_BYTES].tolist()).encode())
    if isinstance(leaf, str):
        return (
            f"{name} {len(leaf)}".encode(),
            *_ends(np.frombuffer(leaf.encode("utf-8", "surrogatepass"), np.uint8)),
        )
    if isinstance(leaf, bytes | bytearray | memoryview):
        return (f"{name} {len(leaf)}".encode(), *_ends(np.frombuffer(leaf, np.uint8)))
    if isinstance(leaf, set | frozenset):
        # The order of a set differs between processes.
        return (name.encode(), content_hash(sorted(content_hash([member]) for member in leaf)).encode())
    return (name.encode(), (stable_repr(leaf) or "").encode("utf-8", "replace"))


def _ends(array: np.ndarray[Any, Any]) -> tuple[bytes, bytes]:
    if array.nbytes <= 2 * SAMPLED_BYTES:
        return array.tobytes(), b""
    count = max(1, SAMPLED_BYTES // array.itemsize)
    # .flat walks in C order whatever the layout, and copies only the ends.
    return array.flat[:count].tobytes(), array.flat[array.size - count :].tobytes()


def fingerprint_of(source: Any) -> dict[str, Any]:
    """What is known of a source, in JSON values: equal for the same data, different for most other data.

    Args:
        source: any data source. What its own `fingerprint()` gives has to be JSON; TypeError otherwise.

    >>> fingerprint_of([10, 20])["kind"], fingerprint_of([10, 20]) == fingerprint_of([10, 21])
    ('foreign', False)
    """
    own = getattr(source, "fingerprint", None)
    if callable(own):
        said = own()
        try:
            # Through JSON and back, as a saved one went: what is compared later are equal types.
            said = json.loads(json.dumps(said, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{type(source).__name__}.fingerprint() gave something that JSON can't hold ({error}); use "
                "dicts, lists, strings, ints and floats"
            ) from error
        if not isinstance(said, dict):
            raise TypeError(
                f"{type(source).__name__}.fingerprint() gave a {type(said).__name__}; a dict is needed"
            )
        return {"kind": "declared", **said}
    return {"kind": "foreign", **_seen_from_outside(source)}


def _seen_from_outside(source: Any) -> dict[str, Any]:
    cls = type(source)
    seen: dict[str, Any] = {"type": f"{cls.__module__}.{cls.__qualname__}", "records": len(source)}
    if cls in (list, tuple, str, bytes) or isinstance(source, np.ndarray):
        # Plain memory: its repr is the data, and reading some records has no effect and costs little.
        return seen | {"content": content_hash(read_records(source, sampled_keys(len(source))))}
    text = stable_repr(source)
    if text is not None:
        seen["repr"] = text
    info = getattr(source, "dataset_info", None)
    if info is not None and hasattr(info, "full_name") and hasattr(source, "split"):
        # TFDS: its repr leaves out the version.
        seen |= {"tfds": str(info.full_name), "split": str(source.split)}
    return seen
