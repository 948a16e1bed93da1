"""How many records each shard has, as files of other libraries say it: wids, Energon, img2dataset."""

import json
import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from loaderkit._storage.addresses import redacted
from loaderkit._storage.range_reader import read_range
from loaderkit.errors import DataFormatError

from .shard_set import ShardSet, base_name

_MOST_BYTES = 1 << 30  # of such a file; a line of 100 bytes for each of ten million shards


def record_counts(shards: ShardSet, source: str | None = None) -> list[int]:
    """The number of records of each shard, in order.

    Args:
        shards: of which to tell. They are found by their base names.
        source: the name of wids' index (a "shardlist" with "url" and "nsamples") or Energon's `.info.json`
            ("shard_counts"); None for img2dataset's NAME_stats.json beside each shard ("successes").

    Raises DataFormatError for a file that is none of these; ValueError naming a shard of which nothing is said.
    """
    if source is None:
        return [_successes(path, shards.storage_options) for path in shards.paths]
    said = counts_of(redacted(source), _read(source, shards.storage_options))
    missing = [name for name in shards.base_names if name not in said]
    if missing:
        raise ValueError(
            f"counts: expected {redacted(source)} to have each of the {len(shards.paths)} files, got nothing of "
            f"{missing[0]}"
        )
    return [said[name] for name in shards.base_names]


def counts_of(name: str, content: bytes) -> dict[str, int]:
    """The records of each shard by its base name, of wids' or Energon's file.

    Args:
        name: of the file, for errors: DataFormatError where it is neither.
        content: its bytes.

    >>> counts_of("wids.json", b'{"shardlist": [{"url": "data/a.tar", "nsamples": 10}]}')
    {'a.tar': 10}
    """
    document = _document(name, content)
    shardlist, counts = document.get("shardlist"), document.get("shard_counts")
    if isinstance(shardlist, list) and all(isinstance(entry, Mapping) for entry in shardlist):
        pairs = [(entry.get("url"), entry.get("nsamples")) for entry in shardlist]
    elif isinstance(counts, Mapping):
        pairs = list(counts.items())
    else:
        got = ", ".join(list(document)[:5]) or "nothing"
        raise DataFormatError(f"{name}: expected wids' shardlist or Energon's shard_counts, got {got}")
    found: dict[str, int] = {}
    for url, count in pairs:
        if not isinstance(url, str) or type(count) is not int or count < 0:
            raise DataFormatError(
                f"{name}: expected a name and a number of records, got {url!r} and {count!r}"
            )
        if found.setdefault(base_name(redacted(url)), count) != count:
            raise DataFormatError(f"{name}: expected one number for {base_name(redacted(url))}, got two")
    return found


def _successes(path: str, storage_options: Mapping[str, Any] | None) -> int:
    stem = os.path.splitext(redacted(path))[0]
    stats = f"{stem}_stats.json"
    count = _document(stats, _read(stats, storage_options)).get("successes")
    if type(count) is not int or count < 0:
        raise DataFormatError(f"{stats}: expected img2dataset's number of successes, got {count!r}")
    return count


def _read(path: str, storage_options: Mapping[str, Any] | None) -> bytes:
    with closing(ShardSet([path], storage_options).open()) as ranges:
        size = ranges.version(0).size
        if size > _MOST_BYTES:
            raise DataFormatError(f"{redacted(path)}: expected a file of counts, got {size:,} bytes")
        return read_range(ranges, 0, 0, size)


def _document(name: str, content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{name}: expected JSON, got {error}") from None
    if not isinstance(document, dict):
        raise DataFormatError(f"{name}: expected a JSON object, got a {type(document).__name__}")
    return document
