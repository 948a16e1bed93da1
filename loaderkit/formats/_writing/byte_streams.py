"""Bytes that are read from front to back alone: of a command, a web server without ranges, a compressed file."""

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from loaderkit._base.system.command_output import output_of
from loaderkit._codecs.scan import compressed_by
from loaderkit._storage.addresses import redacted
from loaderkit._storage.fetching import FetchError, Refusal
from loaderkit._storage.object_client import READ_S
from loaderkit._storage.range_reader import read_range
from loaderkit.errors import DataFormatError, StorageError
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats._index.unpacked_text import zstd_library
from loaderkit.formats.registry import SNIFFED_BYTES

PIPE = "pipe:"
PIECE = 8 << 20  # bytes of one read
_RETRIED = (408, 425, 429)  # and all from 500 on
_OF_ADDRESSES = ":/?#[]@!$&'()*+,;=%~"  # stay as they are
_REFUSALS = {401: Refusal.DENIED, 403: Refusal.DENIED, 404: Refusal.MISSING, 410: Refusal.MISSING}

_Read = Callable[[int], bytes | memoryview]


@contextlib.contextmanager
def byte_stream(name: str, storage_options: Mapping[str, Any] | None) -> Iterator[tuple[bytes, BinaryIO]]:
    """The first bytes of a stream, and all of it, unpacked where gzip, bzip2, xz or zstd has packed it.

    Args:
        name: a path, an address, or "pipe:" and a command, which is run.
        storage_options: of a server; of a web server `default_headers` alone.

    FetchError for what a server doesn't give, StorageError for a command that fails, DataFormatError for packed bytes
    that are damaged.
    """
    if name.startswith(PIPE):
        opened: Any = output_of(name.removeprefix(PIPE), PIPE + "...")
    elif name.lower().startswith(("http://", "https://")):
        opened = _web_answer(name, storage_options or {})
    else:
        opened = _ranges_of(name, storage_options)
    with opened as read:
        begin, file = _begun(read)
        program = compressed_by(begin)
        if program is not None:
            begin, file = _begun(_unpacking(program, file, redacted(name)))
        yield begin, file


class _Reads(io.RawIOBase):
    """A file of what was read of it already, and of what a function reads."""

    def __init__(self, begin: bytes, read: _Read) -> None:
        self._begin, self._read = begin, read

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        data: Any = self._begin[: len(into)] or self._read(len(into))
        self._begin = self._begin[len(into) :]
        into[: len(data)] = data
        return len(data)


def _begun(read: _Read) -> tuple[bytes, BinaryIO]:
    begin = b""
    while len(begin) < SNIFFED_BYTES and (more := read(SNIFFED_BYTES - len(begin))):
        begin += more
    return begin, io.BufferedReader(_Reads(begin, read), PIECE)


@contextlib.contextmanager
def _web_answer(address: str, options: Mapping[str, Any]) -> Iterator[_Read]:
    if others := sorted({*options} - {"default_headers"}):
        raise ValueError(
            f"storage_options: expected default_headers for an address of http or https, got {', '.join(others)}"
        )
    headers = {"User-Agent": "loaderkit", **(options.get("default_headers") or {})}
    request = Request(quote(address, safe=_OF_ADDRESSES))
    for header, value in headers.items():
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

    def read(length: int) -> bytes:
        try:
            data: bytes = answer.read(length)
        except (OSError, HTTPException):
            raise FetchError(Refusal.AGAIN, "an answer that ended early") from None
        if not data and answer.length:
            raise FetchError(Refusal.AGAIN, "an answer that ended early")
        return data

    with answer:
        yield read


@contextlib.contextmanager
def _ranges_of(name: str, options: Mapping[str, Any] | None) -> Iterator[_Read]:
    with contextlib.closing(ShardSet([name], options).open()) as ranges:
        size, position = ranges.version(0).size, 0

        def read(length: int) -> bytes | memoryview:
            nonlocal position
            begin, position = position, min(position + length, size)
            return read_range(ranges, 0, begin, position) if begin < position else b""

        yield read


def _unpacking(program: str, file: BinaryIO, shown: str) -> _Read:
    """Reads what is unpacked of a file that a program has packed."""
    module = zstd_library() if program == "zstd" else {"gzip": gzip, "bzip2": bz2, "xz": lzma}[program]
    errors = OSError, EOFError, zlib.error, lzma.LZMAError, getattr(module, "ZstdError", EOFError)
    unpacked = module.open(file)

    def read(length: int) -> bytes:
        try:
            data: bytes = unpacked.read(length)
            return data
        except errors as error:
            if isinstance(error, StorageError) or getattr(error, "errno", None) is not None:
                raise  # of the stream below
            raise DataFormatError(
                f"{shown}: expected data compressed by {program}, whole, got: {error}; copy it again"
            ) from error

    return read
