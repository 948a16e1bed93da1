"""Bytes that are read from front to back alone: of a command, a web server without ranges, a compressed file."""

import bz2
import contextlib
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from loaderkit._base.system.command_output import output_of
from loaderkit._codecs.scan import compressed_by
from loaderkit._storage.addresses import redacted
from loaderkit._storage.fetching import FetchError, Refusal
from loaderkit._storage.object_client import READ_S
from loaderkit._storage.range_file import RangeFile
from loaderkit._storage.range_reader import read_range
from loaderkit._storage.web_page import refuse_page
from loaderkit.errors import DataFormatError, StorageError
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats._index.unpacked_text import zstd_library

PIPE = "pipe:"
PIECE = 8 << 20  # bytes of one read
_RETRIED = (408, 425, 429)  # and all from 500 on
_OF_ADDRESSES = ":/?#[]@!$&'()*+,;=%~"  # stay as they are
_REFUSALS = {401: Refusal.DENIED, 403: Refusal.DENIED, 404: Refusal.MISSING, 410: Refusal.MISSING}


def pieces_of(name: str, storage_options: Mapping[str, Any] | None) -> Generator[bytes, None, None]:
    """All bytes of a stream, at most `PIECE` at once, unpacked where gzip, bzip2, xz or zstd has packed it.

    Args:
        name: a path, an address, or "pipe:" and a command, which is run.
        storage_options: of a server; of a web server `default_headers` alone.

    FetchError for what a server doesn't give, StorageError for a command that fails, DataFormatError for packed bytes
    that are damaged.
    """
    if name.startswith(PIPE):
        opened: Any = _command_output(name.removeprefix(PIPE))
    elif name.lower().startswith(("http://", "https://")):
        opened = _web_answer(name, storage_options or {})
    else:
        opened = _ranges_of(name, storage_options)
    with opened as raw:
        file: Any = io.BufferedReader(raw, PIECE)
        program = compressed_by(file.peek(8))
        errors: tuple[type[Exception], ...] = ()
        if program is not None:
            module: Any = (
                zstd_library() if program == "zstd" else {"gzip": gzip, "bzip2": bz2, "xz": lzma}[program]
            )
            errors = OSError, EOFError, zlib.error, lzma.LZMAError, getattr(module, "ZstdError", EOFError)
            file = module.open(file)
        try:
            while data := file.read(PIECE):
                yield data
        except errors as error:
            if isinstance(error, StorageError) or getattr(error, "errno", None) is not None:
                raise  # of the stream below
            raise DataFormatError(
                f"{redacted(name)}: expected data compressed by {program}, whole, got: {error}; copy it again"
            ) from error


@contextlib.contextmanager
def _command_output(command: str) -> Iterator[io.RawIOBase]:
    with output_of(command, PIPE + "...") as read:
        yield RangeFile(lambda _, length: read(length), sys.maxsize)


@contextlib.contextmanager
def _web_answer(address: str, options: Mapping[str, Any]) -> Iterator[io.RawIOBase]:
    if others := sorted({*options} - {"default_headers"}):
        raise ValueError(
            f"storage_options: expected default_headers for an address of http or https, got {', '.join(others)}"
        )
    request = Request(quote(address, safe=_OF_ADDRESSES))
    for header, value in {"User-Agent": "loaderkit", **(options.get("default_headers") or {})}.items():
        request.add_unredirected_header(header, value)  # another host gets no credential
    try:
        answer = urlopen(request, timeout=READ_S)
    except HTTPError as error:
        error.close()
        again = Refusal.AGAIN if error.code >= 500 or error.code in _RETRIED else Refusal.FINAL
        cause = f"HTTP status {error.code} {error.reason}"
        raise FetchError(_REFUSALS.get(error.code, again), cause) from None
    except (OSError, HTTPException) as error:
        raise FetchError(Refusal.AGAIN, f"no connection: {type(error).__name__}") from None

    def read(_: int, length: int) -> bytes:
        with contextlib.suppress(OSError, HTTPException):
            data: bytes = answer.read(length)
            if data or not answer.length:
                return data
        raise FetchError(Refusal.AGAIN, "an answer that ended early")

    def begin() -> bytes:
        with contextlib.suppress(OSError, HTTPException):
            first: bytes = answer.peek(256)
            return first
        return b""  # `read` says why

    with answer:
        refuse_page(address, answer.headers.get("Content-Type"), begin)
        yield RangeFile(read, sys.maxsize)


@contextlib.contextmanager
def _ranges_of(name: str, options: Mapping[str, Any] | None) -> Iterator[io.RawIOBase]:
    with contextlib.closing(ShardSet([name], options).open()) as ranges:
        yield RangeFile(
            lambda begin, length: read_range(ranges, 0, begin, begin + length), ranges.version(0).size
        )
