"""`loaderkit cache`: what a cache folder holds of a set, fetched ahead of a training, or deleted."""

import argparse
import contextlib
import time
from typing import Any

import numpy as np

from loaderkit._base.size_text import size_text
from loaderkit._storage.cache.cached_spans import CachedSpans
from loaderkit._storage.cache.chunk_numbers import ChunkNumbers
from loaderkit._storage.cache.eviction import FolderContents
from loaderkit._storage.cache.settings import Cache
from loaderkit._storage.range_reader import RangeReader
from loaderkit.formats._index.check import ShardCheck
from loaderkit.formats._index.direct_spans import readable_spans
from loaderkit.formats._index.find import find_index
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats._index.text_ranges import readable_ranges

from .exit_status import UsageError
from .open_source import named_data, shown_name, usage_errors
from .output import Output
from .printable import counted

# Chunks asked for in one call: the reader keeps 64 MB in flight of them, and the bar moves after each call.
_AT_ONCE = 64
# Chunks that another process has locked: how long none of them comes before the command ends. A reader waits as long.
_WAIT_SECONDS = 30.0
_PAUSE_SECONDS = 0.05

HELP = """
Say what the folder of lk.Cache holds of SRC, fetch what it lacks, or delete it. A fetch that was stopped goes on when
it is started again.

SRC..., not -
--cache DIR!  the folder, as lk.Cache(folder) has it
one of:
  --fetch  fetch what the folder lacks of SRC
  --clear  delete what the folder holds of SRC
--limit SIZE  bytes that all of the folder may have, such as 200GB; --fetch needs it
--json

examples:
  loaderkit cache 's3://bucket/train-{000..009}.tar' --cache kept --fetch --limit 100GB
"""


def run(options: argparse.Namespace, out: Output) -> None:
    """Shows, fetches or deletes chunks."""
    if options.fetch and options.limit is None:
        raise UsageError("--limit: expected the cache's size with --fetch, such as 200GB, got none")
    with usage_errors():
        cache = Cache(options.cache, 1 if options.limit is None else options.limit)
    with named_data(options) as data:
        if not data.is_scanned:
            raise UsageError(
                f"SRC: expected files that lk.Cache keeps, such as tar, TFRecord and JSON Lines, got {data.format}, "
                "which its source reads without a cache; copy the files to a local disk, or write them as one of these "
                "by `loaderkit convert SRC DST --to tar`"
            )
        shards = data.shards()
        with usage_errors():
            index = find_index(shards, data.scanner())
    numbers = ChunkNumbers(readable_spans(index))
    keys = numbers.first_keys(np.arange(numbers.end))  # a record of each chunk, of some chunks several
    keys_of = dict(zip(numbers.of(keys).tolist(), keys.tolist()))
    contents = FolderContents(cache.folder, numbers.key)
    if options.clear:
        contents.clear()
    found = contents.chunks()
    if options.fetch:
        wanted = np.array([key for number, key in keys_of.items() if number not in found], np.int64)
        with out.progress("chunks", len(keys_of)) as advance:
            advance(len(keys_of) - len(wanted))
            _fetch(shards, index, cache, wanted, advance)
        found = contents.chunks()
    cached = {number: size for number, size in found.items() if number in keys_of}
    other_chunks, other_bytes = contents.of_other_sets()
    out.document(
        {
            "cache": shown_name(cache.folder),
            "chunks": len(keys_of),
            "cached_chunks": len(cached),
            "cached_bytes": sum(cached.values()),
            "bytes": index.nbytes,
            "records": len(index),
            "other_chunks": other_chunks,
            "other_bytes": other_bytes,
        }
    )
    out.text(shown_name(cache.folder), style="bold")
    out.facts(
        [
            (
                "of the set",
                f"{len(cached):,} of {counted(len(keys_of), 'chunk')}, {size_text(sum(cached.values()))}",
            ),
            ("of other sets", f"{counted(other_chunks, 'chunk')}, {size_text(other_bytes)}"),
        ]
    )
    if options.fetch and len(cached) < len(keys_of):
        raise OSError(
            f"{shown_name(cache.folder)}: expected all {counted(len(keys_of), 'chunk')} in the cache, got "
            f"{len(cached):,}: the disk is full, or another process fetches or evicts them; run the command again"
        )


def _spans(index: RecordIndex, ranges: RangeReader, cache: Cache) -> CachedSpans:
    with usage_errors():
        return CachedSpans(readable_spans(index), ranges, cache)


def _fetch(shards: ShardSet, index: RecordIndex, cache: Cache, wanted: Any, advance: Any) -> None:
    """Puts the chunks of these records into the cache; some may be left."""
    ranges = readable_ranges(index, shards.open(ShardCheck(index)))
    with contextlib.closing(ranges), contextlib.closing(_spans(index, ranges, cache)) as spans:
        # An eviction leaves a twentieth free, so that a set that is larger would push its own chunks out.
        share = spans.share()
        if not share:
            raise OSError(f"--cache: expected a folder that can be written, got {shown_name(cache.folder)}")
        if len(wanted) and index.nbytes > share:
            least = -(-index.nbytes * 20 // 19)
            raise UsageError(
                f"--limit: expected {least} bytes or more for {index.nbytes} bytes of SRC, got {cache.limit}; other "
                "loaders that use the folder have their share of it"
            )
        last = time.monotonic()
        while len(wanted) and time.monotonic() < last + _WAIT_SECONDS:
            some = wanted[:_AT_ONCE]
            left = spans.fetch(some)
            if len(left) < len(some):
                advance(len(some) - len(left))
                last = time.monotonic()
            else:
                time.sleep(_PAUSE_SECONDS)
            wanted = np.concatenate((wanted[_AT_ONCE:], left))
