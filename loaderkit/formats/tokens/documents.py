"""Tokens and offsets of one file that `lk.write(..., format="tokens")` made."""

import hashlib
import os
import zlib
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BLOCK_BYTES, CheckedBlocks, damaged
from loaderkit._base.system.limits import above_standard
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.open_ranges import FileAccess, open_ranges
from loaderkit._storage.range_reader import RangeReader, read_range
from loaderkit.errors import DataFormatError
from loaderkit.formats.npy import array_header, array_place

from .document_layout import MOST_JSON, OFFSETS_HEAD, TokenFileEnd, token_file_end
from .integers import Integers, one_file, open_integers

ADVICE = "write it again with lk.write, or get a new copy"


@dataclass(frozen=True, slots=True)
class TokenDocuments:
    """What a token file holds.

    tokens: mapped or to be read by ranges. offsets: of the documents in them (documents + 1,). feature: the tokens'
    name in a record. checksums: of the blocks of the tokens (blocks,); None where the file has none. digest: of these
    and of those of the offsets.
    """

    tokens: Integers
    offsets: NDArray[np.int64]
    feature: str
    checksums: NDArray[np.uint32] | None
    digest: str | None


def open_documents(given: Any, access: FileAccess) -> TokenDocuments:
    """What a token file holds.

    Args:
        given: the name of the file or object. DataFormatError where it isn't a token file, or was truncated;
            ChecksumError where its offsets aren't those that were written.
        access: of it.
    """
    if not isinstance(given, str | os.PathLike):
        raise ValueError(
            "offsets: expected integers (documents + 1,) beside an array of tokens, got None; for lengths of documents "
            "give np.concatenate([[0], np.cumsum(lengths)])"
        )
    path = one_file("tokens", given, access.storage_options)
    name = redacted(path)
    mapped = access.mmap and not is_remote(path)
    with closing(open_ranges([path], storage_options=access.storage_options)) as ranges:
        size = ranges.version(0).size
        end = token_file_end(_read(ranges, max(0, size - MOST_JSON), size))
        if end is None:
            raise DataFormatError(
                f"{name}: expected a token file of lk.write, got {size} bytes without its end; it was truncated or "
                "damaged, or is of tokens alone: give offsets="
            )
        begin = end.offsets + OFFSETS_HEAD
        nbytes = size - end.nbytes - begin
        shape = (nbytes // 8,)
        head = _read(ranges, max(0, end.offsets), begin)
        if nbytes < 8 or head != array_header(np.dtype(np.int64), shape):
            raise DataFormatError(
                f"{name}: expected offsets of documents at byte {end.offsets}, got others; write the file again"
            )
        table = _checksums(name, ranges, end)
        offsets: NDArray[np.int64] = np.frombuffer(
            b"" if mapped else _read(ranges, begin, begin + nbytes), np.int64
        )
    if mapped:
        with above_standard():
            offsets = np.memmap(path, np.int64, "r", begin, shape)
    checksums = None
    if table is not None:
        blocks = -(-nbytes // BLOCK_BYTES)
        checksums, of_offsets = table[:-blocks], table[-blocks:]
        CheckedBlocks(name, offsets.view(np.uint8), of_offsets, offset=begin, advice=ADVICE).check_all()
    tokens = open_integers("tokens", path, access, has_head=True)
    if len(tokens) != offsets[-1] or end.dtype not in (None, tokens.dtype.str):
        wanted = f"{offsets[-1]} tokens" + (f" of {end.dtype}" if end.dtype else "")
        raise DataFormatError(
            f"{name}: expected {wanted} in the head at byte 0, got {len(tokens)} of {tokens.dtype.str}; {ADVICE}"
        )
    digest = None if table is None else f"sha256:{hashlib.sha256(table.tobytes()).hexdigest()[:32]}"
    return TokenDocuments(tokens, offsets, end.feature, checksums, digest)


def _checksums(name: str, ranges: RangeReader, end: TokenFileEnd) -> NDArray[np.uint32] | None:
    """Those of the tokens' blocks and then of the offsets'."""
    if end.checksums is None:
        return None
    data = _read(ranges, end.checksums, end.offsets)
    if zlib.crc32(data) != end.crc32:
        raise damaged(name, end.checksums, end.offsets, ADVICE)
    begin, shape, _ = array_place(data)
    return np.frombuffer(data, np.uint32, shape[0], begin)


def _read(ranges: RangeReader, begin: int, end: int) -> bytes:
    return read_range(ranges, 0, begin, end) if begin < end else b""
