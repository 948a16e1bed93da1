"""What all features share: a column of a dict becomes another one."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit.transforms.base import Map


@dataclass(frozen=True)
class Feature(Map):
    """A Map of one column to one column; a subclass gives `column`.

    key: of the column. output: of the new one, the same unless given.
    """

    key: str
    output: str | None = None

    def map(self, element: Any) -> Any:
        """The dict with the new column; of one record's value as of a column."""
        name = self.key if self.output is None else self.output
        made = self._made(field_of(element, self.key, self))
        return {**element, name: made}

    def _made(self, value: Any) -> Any:
        column = np.asarray(value)
        made = self.column(column.reshape(1) if column.ndim == 0 else column)
        return made[0] if column.ndim == 0 else made

    def column(self, values: np.ndarray) -> np.ndarray:
        """The new column, (n, ...), of the values of the old one, (n, ...)."""
        raise NotImplementedError


def field_of(element: Any, key: str, feature: Any) -> Any:
    """A field of a record or a batch; TypeError or ValueError that says what is there."""
    if not isinstance(element, Mapping):
        raise TypeError(f"{feature!r}: expected a dict of columns, got {type(element).__name__}")
    if key not in element:
        raise ValueError(f"{feature!r}: expected the column {key!r}, got {', '.join(map(repr, element))}")
    return element[key]


def stats_of(stats: str | os.PathLike[str] | Mapping[str, Any], key: str, *needed: str) -> Mapping[str, Any]:
    """What `loaderkit stats` found of a column.

    Args:
        stats: its file, or `lk.column_stats`'s value.
        key: of the column.
        needed: names that must be there. ValueError where one isn't.
    """
    if isinstance(stats, Mapping):
        found: Any = stats
    else:
        with open(stats, encoding="utf-8") as file:
            found = json.load(file)
    columns = found.get("columns", found)
    if key not in columns:
        raise ValueError(f"key: expected one of {', '.join(map(repr, columns))}, got {key!r}")
    lacking = [name for name in needed if columns[key].get(name) is None]
    if lacking:
        raise ValueError(
            f"stats: expected {', '.join(lacking)} of the column {key!r}, got none; see `loaderkit stats --help`"
        )
    return columns[key]  # type: ignore[no-any-return]
