"""Hashes of values of any type, equal in every process for equal values."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from loaderkit._base.structure import children_of, kind_of

# What a content hash reads: so many records, and so many bytes at each end of one leaf. More would notice more changes
# of the data, and would take longer. Saved fingerprints depend on these numbers.
SAMPLED_RECORDS = 16
SAMPLED_BYTES = 1 << 15
LONGEST_REPR = 500  # characters; a longer repr is cut and hashed

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def stable_repr(value: Any) -> str | None:
    """The repr without memory addresses, a long one cut and hashed; None where the class has no repr of its own.

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


def sampled_keys(num_records: int, *, most: int = SAMPLED_RECORDS) -> list[int]:
    """The keys of the records that a content hash reads: the first, the last, and keys at equal distances between them.

    Args:
        num_records: the length of the source.
        most: how many keys, at least 2; all of a source with fewer records.

    >>> sampled_keys(3), sampled_keys(1_000_000)[:3]
    ([0, 1, 2], [0, 66666, 133333])
    """
    if num_records <= most:
        return list(range(num_records))
    return [(num_records - 1) * i // (most - 1) for i in range(most)]


def content_hash(elements: Iterable[Any]) -> str:
    """A hash of values, equal in every process; it reads both ends of a long array or string.

    Args:
        elements: any trees. A leaf of an unknown type enters by its type and its stable repr only.

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
    """A hash of JSON values, in place of values that are too long to keep.

    Args:
        values: JSON values.

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
        # The insertion order of a dict isn't part of the data.
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
        # Sorted, because the order of a set differs between processes.
        return (name.encode(), content_hash(sorted(content_hash([member]) for member in leaf)).encode())
    return (name.encode(), (stable_repr(leaf) or "").encode("utf-8", "replace"))


def _ends(array: np.ndarray[Any, Any]) -> tuple[bytes, bytes]:
    if array.nbytes <= 2 * SAMPLED_BYTES:
        return array.tobytes(), b""
    count = max(1, SAMPLED_BYTES // array.itemsize)
    # .flat reads in C order for every layout, element by element, and copies the ends only.
    flat: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat
    return flat[:count].tobytes(), flat[array.size - count :].tobytes()
