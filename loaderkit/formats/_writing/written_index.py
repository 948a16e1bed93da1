"""The index that is left beside new files: their writer has seen every byte, so it has checksums of all of them."""

import os
from collections.abc import Sequence

from loaderkit._base.system.made_folder import is_index
from loaderkit._codecs.checksums import has_fast_crc32c
from loaderkit.formats import registry
from loaderkit.formats._index.blocks import BlocksFormat
from loaderkit.formats._index.build import INLINE_BYTES, build_index
from loaderkit.formats._index.find import locked_folder, path_beside
from loaderkit.formats._index.part_file import ScanOptions
from loaderkit.formats._index.shard_set import ShardSet


def write_index(paths: Sequence[str], format_name: str | None, worker_count: int | None = 0) -> str:
    """Makes the index of new files; its path, "" for formats without, and where checksums can't be computed here.

    A file of its name that isn't an index stays.

    Args:
        paths: of the files, absolute, in one folder.
        format_name: of the files; None where they have no records.
        worker_count: processes for more than 256 MB, as `build_index` takes them.
    """
    found = None if format_name is None else registry.of_name(format_name)
    if found is None or not (found.scanner or found.by_blocks) or not has_fast_crc32c():
        return ""
    shards = ShardSet(paths)
    index = path_beside(shards)
    if os.path.lexists(index) and not is_index(index):
        return ""
    with locked_folder(f"{index}.parts"):  # sources that are opened wait
        build_index(
            shards,
            found.make_scanner() if found.scanner else BlocksFormat(found.name),
            index,
            options=ScanOptions(checksums=True),
            worker_count=0 if sum(map(os.path.getsize, paths)) < INLINE_BYTES else worker_count,
        )
    return index
