"""Lines of text files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments

from .line_scanner import LinesFormat
from .source import TextDataSource, check_encoding

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache


class LinesDataSource(TextDataSource):
    r"""Lines (str) of text files, without their ends, in the order of the files.

    A line ends in \n or \r\n; the last one of a file may end with it. An empty line is a record. A byte order mark of
    UTF-8 is left out. Files may be compressed by zstd or gzip.

    Args:
        paths: names of files: paths or addresses, patterns, braces ("part-{000..146}.txt"), "part@64.txt", parts as
            "part.txt[0:100]", a sequence of these; or a function that gives them, called again where links expire.
        encoding: one that writes a newline as one byte, as UTF-8 does and UTF-16 doesn't.
        cache: keeps on the disk what is read from a server.
        index: the index's name; without one it is found beside the files or in the user's cache folder, and made at
            first use for local files.
        storage_options: of the server: credentials, endpoint.

    Raises DataFormatError that names file and offset for bytes that aren't text in this encoding.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open(folder.name + "/words.txt", "wb") as file:
    ...     _ = file.write("one\r\n\ndrei\nfünf".encode())
    >>> with LinesDataSource(folder.name + "/words.txt") as source:
    ...     len(source), source[-1], source.__getitems__([2, 1, 0])
    (4, 'fünf', ['drei', '', 'one'])
    >>> folder.cleanup()
    """

    @former_arguments(removed_in="0.3.0", by_place=["encoding"])
    @refusing_foreign_arguments
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[Any] | Callable[[], Any],
        *,
        encoding: str = "utf-8",
        cache: Cache | None = None,
        index: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._encoding = check_encoding(encoding)
        super().__init__(
            paths, format=LinesFormat(), index=index, cache=cache, storage_options=storage_options
        )

    _expected = "one line"

    def _record(self, text: str) -> str:
        if text.find("\n", 1) != len(text) - 1:
            raise ValueError("it has several lines")
        return text[1:-2] if text.endswith("\r\n") else text[1:-1]
