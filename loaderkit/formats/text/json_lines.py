"""Records of JSON Lines files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from json.scanner import make_scanner
from typing import TYPE_CHECKING, Any

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._codecs.scan import Malformed

from .json_record import WRAPPED, decode_json, is_wrapped
from .line_scanner import JsonLinesFormat
from .source import TextDataSource

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache


_decode = json.JSONDecoder().decode
_LINE_ENDS = frozenset(("\n", "\r\n"))
_MOST_BEFORE = 21  # characters from a line's begin to the end of the name that says that it is wrapped
_scan: Any = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]


def _parsed(text: str) -> Any:
    """The value of a line, in two thirds of the time of a decoder that looks for white space first."""
    try:
        value, end = _scan(text, 1)
        if text[end:] in _LINE_ENDS and text.find("\n", 1, end) < 0:
            return value
    except StopIteration:  # no value at the first character
        pass
    if text.find("\n", 1) < len(text.rstrip("\r\n")):
        raise ValueError("it has several lines")
    return _decode(text)


def _decoded(text: str) -> Any:
    """The record of a line, as lk.write took it."""
    value = _parsed(text)
    if WRAPPED in text[:_MOST_BEFORE] and is_wrapped(value):
        try:
            return decode_json(value)
        except Malformed as error:
            raise ValueError(error.problem) from None
    return value


class JsonLinesDataSource(TextDataSource):
    r"""Records of JSON Lines files, a JSON value a line, as Python's json module reads them, in the order of the files.

    An empty line is no record. Text is UTF-8. Files may be compressed by zstd or gzip (docs/data.md).

    Args:
        paths: names of files: paths or addresses, patterns, braces ("part-{000..146}.jsonl"), "part@64.jsonl", parts as
            "part.jsonl[0:100]", a sequence of these; or a function that gives them, called again where links expire.
        cache: keeps on the disk what is read from a server.
        index: the index's name; without one it is found beside the files or in the user's cache folder, and made at
            first use for local files.
        storage_options: of the server: credentials, endpoint.

        decode: whether lines that lk.write made of bytes, arrays and what else JSON lacks give these back; False gives
            the JSON.

    Raises DataFormatError that names file, record and offset for a line that isn't JSON in UTF-8.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open(folder.name + "/train.jsonl", "w") as file:
    ...     _ = file.write('{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n\n')
    >>> with JsonLinesDataSource(folder.name + "/train.jsonl") as source:
    ...     len(source), source[1], source.__getitems__([-2])
    (2, {'text': 'b', 'label': 1}, [{'text': 'a', 'label': 0}])
    >>> folder.cleanup()
    """

    @refusing_foreign_arguments
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[Any] | Callable[[], Any],
        *,
        cache: Cache | None = None,
        index: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        decode: bool = True,
    ) -> None:
        self._record = _decoded if true_or_false("decode", decode) else _parsed  # type: ignore[method-assign]
        super().__init__(
            paths, format=JsonLinesFormat(), index=index, cache=cache, storage_options=storage_options
        )

    _expected = "a JSON value in one line"
    _advice = "; if the file is one JSON document, write each of its values in a line of its own"
