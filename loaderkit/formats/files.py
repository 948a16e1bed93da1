"""A record a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._storage.addresses import redacted
from loaderkit._storage.patterns import file_parts

from ._index.shard_set import distinct_names
from .loose_files import LooseFilesDataSource


class FilesDataSource(LooseFilesDataSource):
    """Files, each a record {"name": str, "file": bytes}, in the order given; those of a pattern are sorted by name.

    A file is opened when it is read. `name` in a record is the file's name below the folder that holds them all where
    two files have the same, else the name without folder.

    Args:
        paths: names of files: paths or addresses, patterns ("images/**/*.jpg"), braces ("{000..146}.jpg"), a sequence
            of these. FileNotFoundError for a missing local file or a pattern without one, ValueError for a part of a
            file, as "a.bin[0:10]", and for a file given twice.
        storage_options: of the server: credentials, endpoint.

    A file that is replaced or written to afterwards is a FileChangedError.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in ("b.txt", "a.txt"):
    ...     _ = pathlib.Path(folder.name, name).write_text(f"this is {name}")
    >>> with FilesDataSource(folder.name + "/*.txt") as source:
    ...     len(source), source[0]
    (2, {'name': 'a.txt', 'file': b'this is a.txt'})
    >>> folder.cleanup()
    """

    @refusing_foreign_arguments
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[Any],
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        parts = file_parts(paths, storage_options=storage_options)
        seen: set[str] = set()
        for part in parts:
            name = redacted(part.path)
            if part.start or part.stop is not None:
                raise ValueError(f"paths: expected whole files, got a part of {name}; write its name alone")
            if part.path in seen:
                raise ValueError(
                    f"paths: expected each file once, got {name} twice; for repeats write "
                    "lk.SubsetDataSource(source, keys)"
                )
            seen.add(part.path)
        names = [part.path for part in parts]
        shown = distinct_names([redacted(name) for name in names])
        super().__init__(names, list(shown), storage_options, [part.version for part in parts])

    def _record(self, key: int, data: bytes) -> dict[str, Any]:
        return {"name": self._names[key], "file": data}
