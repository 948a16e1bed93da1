"""What `loaderkit inspect --values` found of one column, out of its file."""

import json
import os
from collections.abc import Mapping
from reprlib import repr as _short
from typing import Any

from loaderkit.transforms.leaf import Place, name_of

# The file that `loaderkit inspect --values -o` wrote, or what is in it.
StatsFile = str | os.PathLike[str] | Mapping[str, Any]


def column_stats(stats: StatsFile, key: Place, *names: str) -> dict[str, Any]:
    """The figures of a column by name.

    Args:
        stats: the file that `loaderkit inspect --values -o` wrote, or what is in it.
        key: of the column, or of the leaf that it is of. KeyError for one that isn't there.
        names: figures that it has to have; ValueError without one.

    >>> column_stats({"columns": {"age": {"kind": "number", "mean": 40.0}}}, "age", "mean")
    {'kind': 'number', 'mean': 40.0}
    >>> column_stats({"columns": {"age": {"kind": "number"}}}, "age", "vocabulary")
    Traceback (most recent call last):
    ValueError: stats: expected the column 'age' with its vocabulary, got a column of kind 'number' without
    """
    if isinstance(stats, Mapping):
        document: Any = stats
    elif isinstance(stats, str | os.PathLike):
        with open(stats, encoding="utf-8") as file:
            try:
                document = json.load(file)
            except ValueError as error:
                raise ValueError(
                    f"stats: expected a file of `loaderkit inspect --values -o`, got {os.fspath(stats)}, which is no "
                    f"JSON: {error}"
                ) from error
    else:
        raise TypeError(f"stats: expected a file of `loaderkit inspect --values -o`, got {_short(stats)}")
    columns = document.get("columns") if isinstance(document, Mapping) else None
    if not isinstance(columns, Mapping):
        raise ValueError(
            "stats: expected what `loaderkit inspect --values` writes, got a document without columns"
        )
    if (column := name_of(key)) not in columns:
        raise KeyError(f"stats: expected a column {column!r}, got columns {_short([*columns])[1:-1]}")
    found: dict[str, Any] = columns[column]
    for name in names:
        if found.get(name) is None:
            raise ValueError(
                f"stats: expected the column {column!r} with its {name}, got a column of kind "
                f"{found.get('kind')!r} without"
            )
    return found
