"""One module for each library; each has `make(asked, workers)`, `state(it)` and `restore(loader, state)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# The subjects, by name: the library's distribution, None for loaderkit, which is always installed.
SUBJECTS: dict[str, str | None] = {
    "loaderkit": None,
    "grain": "grain",
    "torch": "torch",
    "torchdata": "torchdata",
}


@dataclass(frozen=True)
class Asked:
    """The loader that a probe wants: `length` records of a source, one function, batches, one epoch.

    Args:
        length: of the source; record k is `record(k)`.
        record: takes a record key.
        function: takes a record.
        batch: rows.
        shuffle: with seed 0.
        plain: the records are in a list.
    """

    length: int = 200
    record: Callable[[int], Any] = np.int64
    function: Callable[[Any], Any] = lambda value: value
    batch: int = 4
    shuffle: bool = True
    plain: bool = False


class Source:
    """Records by key. Its repr has the length, which a library can compare without reading."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def __len__(self) -> int:
        return self._asked.length

    def __getitem__(self, key: int) -> Any:
        return self._asked.record(int(key))

    def __repr__(self) -> str:
        return f"Source({len(self)})"


def source_of(asked: Asked) -> Any:
    """The records that a probe wants."""
    source = Source(asked)
    return [source[key] for key in range(len(source))] if asked.plain else source
