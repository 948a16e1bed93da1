"""The version of a source: what tells exactly these records from those that it had before a correction.

A fingerprint says which data set it is, wherever it lies, and so survives copying: a file that was edited in place, at
the same size and beside the sampled pieces, keeps it. What is kept of a source (a cache, the finished shards of a job)
belongs to one version of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from loaderkit._storage.versions import versions_of

from .content import content_hash, digest_of, sampled_keys
from .fingerprint import fingerprint_of, without_index_fields
from .protocol import read_record

_OF_A_CLASS = {"kind", "type", "records", "repr"}  # what the fingerprint of a class of the user's has


def version_of(source: Any) -> dict[str, Any]:
    """The source's fingerprint, with `version`, a digest of its files' sizes, ETags and times of change, where it has
    files; and with `content`, a hash of 16 records, where a part of it is a class of which nothing else is known.

    Args:
        source: any data source. A server is asked for the version of each object, 32 at a time.

    >>> class Source:
    ...     def __len__(self):
    ...         return 3
    ...
    ...     def __getitem__(self, key):
    ...         return key
    >>> sorted(version_of(Source()))
    ['content', 'kind', 'records', 'type']
    """
    # Sizes and times tell the files; an index that is made since, with checksums, makes them no other version.
    marks: dict[str, Any] = without_index_fields(fingerprint_of(source))
    if versions := [*_file_versions(source)]:
        marks["version"] = digest_of(versions)
    if _has_a_bare_class(marks):
        marks["content"] = content_hash(_read(source, key) for key in sampled_keys(len(source)))
    return marks


def _file_versions(source: Any) -> Iterator[Any]:
    """Those of the source, and of the sources and files that it is made of."""
    if not type(source).__module__.startswith(("loaderkit.sources.", "loaderkit.formats.")):
        return
    if callable(told := getattr(type(source), "file_versions", None)):
        yield told(source)
        return
    # So named in each source that reads by ranges.
    if ranges := getattr(source, "__dict__", {}).get("_ranges"):
        yield [[version.size, version.tag] for version in versions_of(ranges)]
        return
    for _, part in attributes_of(source):
        yield from _file_versions(part)


def attributes_of(source: Any) -> Iterator[tuple[str, Any]]:
    """The name and value of each attribute, and of each part of those that are lists.

    Args:
        source: any object.

    >>> class Source:
    ...     def __init__(self):
    ...         self.parts = [1, 2]
    >>> list(attributes_of(Source()))
    [('parts', 1), ('parts', 2)]
    """
    for name, value in getattr(source, "__dict__", {}).items():
        for part in value if isinstance(value, tuple | list) else (value,):
            yield name, part


def _has_a_bare_class(marks: Any) -> bool:
    if isinstance(marks, Mapping):
        bare = marks.get("kind") == "foreign" and marks.keys() <= _OF_A_CLASS
        if marks.get("type") == "builtins.range":  # of which the repr says all
            return False
        return bare or any(map(_has_a_bare_class, marks.values()))
    return isinstance(marks, list) and any(map(_has_a_bare_class, marks))


def _read(source: Any, key: int) -> Any:
    try:
        return read_record(source, key)
    except Exception as error:  # noqa: BLE001 - what reads the record later raises it, or leaves the record out
        return type(error).__name__
