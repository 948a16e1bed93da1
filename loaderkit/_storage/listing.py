"""Which objects of a store match a pattern, with the sizes and ETags that the store lists."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from .addresses import redacted
from .fetching import FetchError, storage_error, tried
from .object_client import SCHEMES, split_name
from .range_reader import ObjectVersion


def list_objects(pattern: str, options: Mapping[str, Any] | None) -> list[tuple[str, ObjectVersion]]:
    """The objects whose names match, sorted by name.

    Args:
        pattern: such as "s3://bucket/train-*.tar"; `*`, `?` and `[...]` stay in one folder, `**` crosses folders.
        options: as in `open_ranges`.

    ValueError for http(s), which can't be listed; StorageError; ImportError naming the extra where a library is
    missing.
    """
    scheme = pattern.partition("://")[0].lower()
    if scheme in ("http", "https"):
        raise ValueError(
            f"paths: expected name-{{000..146}}.tar, name@64 or a list of names, as files of a web server can't be "
            f"listed, got {redacted(pattern)!r}"
        )
    work = partial(_of_store if scheme in SCHEMES else _of_fsspec, pattern, options or {})
    try:
        return sorted(tried(work), key=lambda each: each[0])
    except FetchError as error:
        refusal = error
    raise storage_error(redacted(pattern), "the names of its objects", refusal)


def _of_store(pattern: str, options: Mapping[str, Any]) -> list[tuple[str, ObjectVersion]]:
    from .object_fetcher import ObstoreFetcher

    address, path = split_name(pattern)
    segments = path.split("/")
    plain = next(place for place, segment in enumerate(segments) if re.search(r"[*?[]", segment))
    folder = "/".join(segments[:plain]) or None
    deep = plain < len(segments) - 1 or segments[-1] == "**"
    found = ObstoreFetcher(options).objects(address, folder, deep=deep)
    return [
        (f"{address}/{each['path']}", each["version"])
        for each in found
        if _matches(each["path"].split("/"), segments)
    ]


def _of_fsspec(pattern: str, options: Mapping[str, Any]) -> list[tuple[str, ObjectVersion]]:
    from .fsspec_fetcher import FsspecFetcher

    return FsspecFetcher(options).objects(pattern)


def _matches(names: list[str], segments: list[str]) -> bool:
    if not segments:
        return not names
    if segments[0] == "**":
        # Hidden names match no star, as on a disk.
        until = next((place for place, name in enumerate(names) if name.startswith(".")), len(names))
        return any(_matches(names[place:], segments[1:]) for place in range(until + 1))
    if not names or (names[0].startswith(".") and not segments[0].startswith(".")):
        return False
    return fnmatchcase(names[0], segments[0]) and _matches(names[1:], segments[1:])
