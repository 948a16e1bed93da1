"""Which objects of a store match a pattern, with the sizes and ETags that the store lists."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from .object_client import SCHEMES, open_client, split_name
from .range_reader import ObjectVersion


def list_objects(pattern: str, options: Mapping[str, Any] | None) -> list[tuple[str, ObjectVersion]]:
    """The objects whose names match, sorted by name.

    Args:
        pattern: such as "s3://bucket/train-*.tar"; `*`, `?` and `[...]` stay in one folder, `**` crosses folders.
        options: as in `open_ranges`.

    ValueError for http(s), which can't be listed; ImportError naming the extra where a library is missing.
    """
    scheme = pattern.partition("://")[0].lower()
    if scheme in ("http", "https"):
        from .names import redacted

        raise ValueError(
            f"paths: expected name-{{000..146}}.tar, name@64 or a list of names, as files of a web server can't be "
            f"listed, got {redacted(pattern)!r}"
        )
    found = _of_store(pattern, options or {}) if scheme in SCHEMES else _of_fsspec(pattern, options or {})
    return sorted(found, key=lambda each: each[0])


def _of_store(pattern: str, options: Mapping[str, Any]) -> Iterator[tuple[str, ObjectVersion]]:
    address, path = split_name(pattern)
    store = open_client(address, options)
    import obstore

    segments = path.split("/")
    plain = next(place for place, segment in enumerate(segments) if re.search(r"[*?[]", segment))
    folder = "/".join(segments[:plain]) or None
    if plain == len(segments) - 1 and segments[-1] != "**":
        pages: Any = [obstore.list_with_delimiter(store, folder)["objects"]]
    else:
        pages = obstore.list(store, folder, chunk_size=1000)
    for page in pages:
        for each in page:
            if _matches(each["path"].split("/"), segments):
                tag = plain_tag(each["e_tag"])
                yield f"{address}/{each['path']}", ObjectVersion(each["size"], tag)


def _of_fsspec(pattern: str, options: Mapping[str, Any]) -> Iterator[tuple[str, ObjectVersion]]:
    from .fsspec_fetcher import open_filesystem, version_of

    system, path = open_filesystem(pattern, options)
    for name, info in system.glob(path, detail=True).items():
        if info["type"] == "file":
            yield system.unstrip_protocol(name), version_of(info)


def plain_tag(tag: str | None) -> str:
    """An ETag without what servers and stores write differently for the same content.

    >>> plain_tag('W/"abc"'), plain_tag('"abc"'), plain_tag(None)
    ('abc', 'abc', '')
    """
    return (tag or "").removeprefix("W/").strip('"')


def _matches(names: list[str], segments: list[str]) -> bool:
    if not segments:
        return not names
    if segments[0] == "**":
        return any(_matches(names[place:], segments[1:]) for place in range(len(names) + 1))
    if not names or (names[0].startswith(".") and not segments[0].startswith(".")):
        return False
    return fnmatchcase(names[0], segments[0]) and _matches(names[1:], segments[1:])
