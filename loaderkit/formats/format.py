"""A format of data files: by what it is recognised, and what opens, indexes and writes its files."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"[a-z0-9]+([_.][a-z0-9]+)*")
_EXTENSION = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """What loaderkit knows of a format. `loaderkit.formats.register` makes it known.

    Args:
        name: in indexes, cards and `format=`, such as "tfrecord"; it never changes.
        extensions: of its files, without a dot in front, in lower case; of compressed ones both, such as "fa.gz".
        begins: whether a file that begins with these bytes, 4,096 or all that it has, is of this format; for files
            whose names say nothing.
        folder: whether the folder of this path is one data set of this format.
        source: `source(paths, **options)` is a data source; or "module:name" of it, imported at the first use.
        scanner: finds the records of a file for an index, a `Scanner` of `loaderkit/_codecs/scan.py`; what makes it, or
            "module:name". None where the source has no index of ours.
        writer: writes files, a `WriteFormat` of `loaderkit/formats/_writing/write_format.py`; what makes it, or
            "module:name". None where loaderkit doesn't write them.
        by_blocks: whether `lk.write` leaves checksums of blocks beside the files, of a format that has no scanner and a
            source that looks for them.
        options: given to the source and the scanner, such as {"delimiter": "\\t"}.
        verify: options of the source with which it compares each record with the file's own checksum.
        one_file: whether a source reads one file or folder, and takes its path in place of a list.
        beside: extension of a second file that the writer makes for each, at its path with this extension behind it.
            Such a format is written to one file, not to a folder.
        remote: whether the source reads objects of servers, and takes storage_options.
        extra: the extra of its package that installs what reading or writing its files may need.

    ValueError for a name or an extension of another form.

    >>> Format(name="fasta", extensions=("fa", "fasta"), source="bio.fasta:FastaDataSource").extensions
    ('fa', 'fasta')
    """

    name: str
    extensions: tuple[str, ...] = ()
    begins: Callable[[bytes], bool] | None = None
    folder: Callable[[str], bool] | None = None
    source: str | Callable[..., Any]
    scanner: str | Callable[..., Any] | None = None
    writer: str | Callable[[], Any] | None = None
    by_blocks: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    verify: Mapping[str, Any] = field(default_factory=dict, hash=False)
    one_file: bool = False
    beside: str = ""
    remote: bool = True
    extra: str = ""

    def __post_init__(self) -> None:
        given: Any = self  # of any type, whatever the annotations say
        if not isinstance(given.name, str) or not _NAME.fullmatch(given.name):
            raise ValueError(
                f"name: expected small letters, digits and _, such as 'fasta', got {given.name!r:.80}"
            )
        if isinstance(given.extensions, str) or not all(map(_EXTENSION.fullmatch, given.extensions)):
            raise ValueError(
                "extensions: expected a tuple of extensions without dots, such as ('fa', 'fasta'), got "
                f"{given.extensions!r:.80}"
            )
        parts = {"source": given.source, "scanner": given.scanner or ":", "writer": given.writer or ":"}
        for what, value in parts.items():
            if not callable(value) and ":" not in str(value):
                raise ValueError(f"{what}: expected a function or 'module:name', got {value!r:.80}")

    @property
    def package(self) -> str:
        """The package that has the source.

        >>> Format(name="fasta", source="bio.fasta:FastaDataSource").package
        'bio'
        """
        module = self.source if isinstance(self.source, str) else self.source.__module__
        return module.partition(":")[0].partition(".")[0]

    @property
    def source_name(self) -> str:
        """The name of the source's class.

        >>> Format(name="fasta", source="bio.fasta:FastaDataSource").source_name
        'FastaDataSource'
        """
        return self.source.rpartition(":")[2] if isinstance(self.source, str) else self.source.__name__

    def open(self, paths: Any, **options: Any) -> Any:
        """The source of files.

        Args:
            paths: as the source takes them.
            options: of the source.
        """
        return _found(self.source)(paths, **{**self.options, **options})

    def make_scanner(self) -> Any:
        """What scans a file for an index."""
        return _found(self.scanner)(**self.options)

    def make_writer(self) -> Any:
        """What writes files."""
        return _found(self.writer)()


def _found(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    module, _, name = value.partition(":")
    return getattr(importlib.import_module(module), name)
