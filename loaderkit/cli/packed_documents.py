"""A packed row as its documents, for `lk.show`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loaderkit._order.groups import groups

# What follows a leaf's name where rows say which document has each token, and its place there: ours, and MaxText's.
_LEAVES = (("_segment_ids", "_positions"), ("_segmentation", "_position"))


def is_packed_row(record: dict[str, Any]) -> bool:
    """Whether leaves, by name, are of one packed row, and not of a batch.

    >>> is_packed_row({"tokens": np.arange(2), "tokens_segment_ids": np.ones(2, np.int32)})
    True
    """
    numbers = [record[name + ids] for name in record for ids, _ in _LEAVES if name + ids in record]
    return any(np.ndim(each) == 1 for each in numbers)


def with_documents(record: dict[str, Any], decode: Callable[[Sequence[int]], str] | None) -> dict[str, Any]:
    """The record with each document of a packed row as a value of its own; any other as it is.

    Args:
        record: by the names of its leaves.
        decode: gives the text of tokens; None where they are shown themselves.

    >>> row = {"tokens": np.array([5, 6, 7, 0]), "tokens_segment_ids": np.array([1, 1, 2, 0])}
    >>> with_documents(row, None)
    {'tokens of document 1': array([5, 6]), 'tokens of document 2': array([7]), 'tokens of padding': 1}
    """
    found: dict[str, Any] = {}
    told: set[str] = set()
    for name, value in record.items():
        others = next(((name + ids, name + places) for ids, places in _LEAVES if name + ids in record), ())
        numbers = record[others[0]] if others else None
        if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or np.shape(value)[:1] != numbers.shape:
            found[name] = value
            continue
        told.update(others)
        for number, places in groups(numbers):
            if number > 0:
                tokens = value[places]
                found[f"{name} of document {number}"] = tokens if decode is None else decode(tokens.tolist())
        found[f"{name} of padding"] = int(np.count_nonzero(numbers == 0))
    return {name: value for name, value in found.items() if name not in told}
