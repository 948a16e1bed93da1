"""Records as (input, target)."""

from collections.abc import Sequence
from typing import Any

from loaderkit.sources import MapDataSource


class SupervisedPair:
    """Takes the named values out of a dict, as a tuple.

    Args:
        keys: the names, two or three.

    >>> SupervisedPair(("image", "label"))({"label": 3, "image": b"...", "id": 7})
    (b'...', 3)
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)

    def __call__(self, record: Any) -> tuple[Any, ...]:
        missing = [key for key in self.keys if key not in record]
        if missing:
            raise KeyError(
                f"as_supervised: expected the fields {self.keys}, got a record without {missing[0]!r}"
            )
        return tuple(record[key] for key in self.keys)


def supervised(source: Any, keys: Sequence[str] | None, dataset: str) -> MapDataSource:
    """The source's records as tuples of the named values.

    Args:
        source: gives dicts.
        keys: the card's supervised keys; ValueError for None.
        dataset: a name, for the error.
    """
    if keys is None:
        raise ValueError(
            f"as_supervised: expected a data set with supervised keys, got {dataset}, which has none; choose fields "
            "by a Map, or write it with supervised_keys="
        )
    return MapDataSource(source, SupervisedPair(keys))
