"""A reader of ranges for the shards of one set, by their names."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loaderkit._base.system.dataclasses import dataclass, field

from .addresses import is_remote
from .local_files import LocalFiles
from .range_reader import ObjectVersion, RangeReader
from .read_plan import REMOTE_GAP
from .remote_objects import Refresh, RemoteObjects
from .versions import OnOtherVersion

if TYPE_CHECKING:
    from .cache.settings import Cache


def all_remote(names: Sequence[str]) -> bool:
    """Whether the files are objects of servers, False where they are local; ValueError where some are of each kind.

    >>> all_remote(["/data/0.tar", "/data/1.tar"]), all_remote(["s3://bucket/0.tar"])
    (False, True)
    """
    remote = sum(map(is_remote, names))
    if 0 < remote < len(names):
        raise ValueError(
            f"paths: expected local files or objects of servers, got {len(names) - remote} of the former and {remote} "
            "of the latter; make a source of each and join them with ConcatDataSource"
        )
    return remote > 0


@dataclass(frozen=True, slots=True)
class FileAccess:
    """How a file or an object is read.

    storage_options: of the server; shown nowhere. cache: keeps chunks of objects on the disk. mmap: False reads a local
    file as one of a server is read.
    """

    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    cache: "Cache | None" = None
    mmap: bool = True


def check_storage_options(options: object) -> None:
    """TypeError for options of a server that are no dict; None are none."""
    if not isinstance(options, Mapping | None):
        got = type(options).__name__
        raise TypeError(f"storage_options: expected a dict of option -> value, got a {got}")


def open_ranges(
    names: Sequence[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    refresh: Refresh | None = None,
    expected: Sequence[ObjectVersion | None] | None = None,
    on_other_version: OnOtherVersion | None = None,
    max_gap: int = REMOTE_GAP,
) -> RangeReader:
    """Reads ranges of local files, or of objects on servers: http, https, s3, gs, az, and what fsspec knows.

    Nothing is opened before the first read.

    Args:
        names: the shards, in order: absolute paths, or whole names of objects, query included (`FilePart.path`).
            ValueError where some are local and some aren't.
        storage_options: for s3, gs, az and http in obstore's names, such as `{"skip_signature": True, "region":
            "us-east-1", "endpoint": "http://...", "request_payer": True, "timeout": "5m"}`; for other schemes those of
            the fsspec file system. They are shown nowhere. `{"etags": "any"}` is for mirrors that give each copy an
            ETag of its own.
        refresh: gives the names anew where they are links that expire. It is called at a 401 or 403, once for all
            threads, and travels to workers.
        expected: by shard, what was seen when it was indexed. None, or None at a shard, takes the first version seen.
        on_other_version: called with the reader and shards whose size is the expected one and whose tag isn't, or of
            which the storage gives none (`OtherVersion`). It returns to accept these versions, or raises
            FileChangedError; None refuses another tag. Another size is always a FileChangedError.
        max_gap: bytes between two ranges of an object of a server, up to which one read gives both.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"0123456789"), file.flush()
    ...     ranges = open_ranges([file.name])
    ...     ranges.read(np.array([0, 0]), np.array([8, 2]), np.array([10, 4]))
    ...     ranges.close()
    [<memory at ...>, <memory at ...>]
    """
    if not all_remote(names):
        return LocalFiles(names, expected=expected, on_other_version=on_other_version)
    return RemoteObjects(
        names,
        storage_options=storage_options,
        refresh=refresh,
        expected=expected,
        on_other_version=on_other_version,
        max_gap=max_gap,
    )
