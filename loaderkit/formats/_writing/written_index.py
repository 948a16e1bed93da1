"""The index with checksums of all bytes that is left beside new files."""

import logging
import os
from collections.abc import Sequence

from loaderkit._codecs.checksums import has_fast_crc32c
from loaderkit._codecs.scan import Scanner
from loaderkit.formats import registry
from loaderkit.formats._index.blocks import BlocksFormat
from loaderkit.formats._index.build import INLINE_BYTES, ShardScans, build_index
from loaderkit.formats._index.find import is_free, locked_folder, path_beside
from loaderkit.formats._index.part_file import ScanOptions
from loaderkit.formats._index.shard_set import ShardSet

_log = logging.getLogger("loaderkit")
_OPTIONS = ScanOptions(checksums=True)


def index_parts(paths: Sequence[str], format_name: str | None) -> ShardScans | None:
    """Scans each of new files that is there, so that `write_index` only joins the parts; None where it makes no index.

    Args:
        paths, format_name: of the files, as `write_index` takes them.
    """
    shards, scanner = ShardSet(paths), _scanner(format_name)
    index = _path_of_new(shards, scanner)
    if scanner is None or not index:
        return None
    os.makedirs(f"{index}.parts", exist_ok=True)
    return ShardScans(scanner, shards.open(), _OPTIONS, f"{index}.parts")


def write_index(paths: Sequence[str], format_name: str | None, worker_count: int | None = 0) -> str:
    """Makes the index of new files by a pass over them.

    Gives its path; "" for formats without, where checksums can't be computed here, and where another file has its name.
    The files stay where it can't be made, as on a full disk: a warning in the log says so.

    Args:
        paths: of the files, absolute, in one folder.
        format_name: of the files; None where they have no records.
        worker_count: processes for more than 256 MB, as `build_index` takes them.
    """
    scanner, shards = _scanner(format_name), ShardSet(paths)
    index = _path_of_new(shards, scanner)
    if scanner is None or not index:
        return ""
    try:
        with locked_folder(f"{index}.parts"):  # sources that are opened wait
            build_index(
                shards,
                scanner,
                index,
                options=_OPTIONS,
                worker_count=0 if sum(map(os.path.getsize, paths)) < INLINE_BYTES else worker_count,
            )
    except OSError as error:
        _log.warning("no index with checksums of %s could be made: %s", shards, str(error))
        return ""
    return index


def drop_index(paths: Sequence[str], format_name: str | None) -> str:
    """Deletes the index of files that are about to be replaced, so that no other bytes ever lie beside it.

    Gives the path for a new one, "" where there is none or another file has the name.

    Args:
        paths, format_name: of the files, as `write_index` takes them.
    """
    index = _free_path(ShardSet(paths), _scanner(format_name))
    if os.path.lexists(index):
        os.unlink(index)
    return index


def _scanner(format_name: str | None) -> Scanner | None:
    found = None if format_name is None else registry.of_name(format_name)
    if found is None or not (found.scanner or found.by_blocks):
        return None
    scanner: Scanner = found.make_scanner() if found.scanner else BlocksFormat(found.name)
    return scanner


def _path_of_new(shards: ShardSet, scanner: Scanner | None) -> str:
    return _free_path(shards, scanner) if has_fast_crc32c() else ""


def _free_path(shards: ShardSet, scanner: Scanner | None) -> str:
    """Where the index goes; "" for files without, and where another file has the name."""
    if scanner is None:
        return ""
    path = path_beside(shards, blocks=isinstance(scanner, BlocksFormat))
    return path if is_free(path, shards, scanner) else ""
