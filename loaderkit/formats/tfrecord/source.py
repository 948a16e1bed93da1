"""Records of TFRecord files."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._codecs.checksums import data_crc32c, has_fast_crc32c
from loaderkit._codecs.scan import Malformed
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.check import shard_changed
from loaderkit.formats._index.direct_spans import in_disk_order, lie_together
from loaderkit.formats.decoded import decoded_records
from loaderkit.formats.indexed import IndexedDataSource

from .scanner import FRAME, HEAD, TAIL, TFRecordFormat, data_of, data_of_all, have_checksums, have_lengths

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache

# From this mean size on the data of local records is read without their heads, which another read gives: a copy of it
# out of the whole record costs more. Measured in calls of 256, us a record: 40 instead of 74 for 32 KiB, 100 instead of
# 209 for 100 KB, and 18 instead of 27 for 8 KiB, but in calls of 32 there 16 instead of 12.
READ_ALONE = 32 << 10
# From this mean size on the data is cut out of each record before the next is read, so that its memory is used again:
# measured in shuffled calls of 256 records of 10 KB, 13 instead of 21 us a record.
CUT_AT_ONCE = 4 << 10


class TFRecordDataSource(IndexedDataSource):
    """Records (bytes, or the dicts that lk.write took) of TFRecord files; `lk.decode.Example` decodes tf.train.Example.

    Compressed files are refused.

    Args:
        paths: names of files: paths or addresses, patterns, braces ("train-{000..146}"), "train@64", parts as
            "train.tfrecord[0:100]", a sequence of these; or a function that gives them, called again where links
            expire.
        verify: whether the checksum of a record's data is compared when it is read, as tf.data does; None compares it
            where the extra `tfrecord` is installed. That of its length always is.
        decode: whether records that lk.write made of dicts are these dicts; False gives their bytes.
        cache: keeps on the disk what is read from a server.
        index: the index's name; without one it is found beside the files or in the user's cache folder, and made at
            first use for local files.
        storage_options: of the server: credentials, endpoint.

    >>> import struct, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open(folder.name + "/train.tfrecord", "wb") as file:
    ...     for data, crc in (
    ...         (b"one", "01405508"),
    ...         (b"two", "8990c909"),
    ...     ):  # length, its checksum, data, the data's checksum
    ...         head = struct.pack("<Q", 3) + bytes.fromhex("b099490e")
    ...         _ = file.write(head + data + bytes.fromhex(crc))
    >>> with TFRecordDataSource(folder.name + "/*.tfrecord") as source:
    ...     len(source), source[-1], source.__getitems__([1, 0])
    (2, b'two', [b'two', b'one'])
    >>> folder.cleanup()
    """

    @refusing_foreign_arguments
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[Any] | Callable[[], Any],
        *,
        verify: bool | None = None,
        decode: bool = True,
        cache: Cache | None = None,
        index: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(verify, bool | None):
            raise TypeError(f"verify: expected True, False or None, got {verify!r}")
        if verify is None:
            verify = has_fast_crc32c()
        elif verify:
            data_crc32c()  # an ImportError names the extra
        self._verify, self._decodes = verify, true_or_false("decode", decode)
        super().__init__(
            paths, format=TFRecordFormat(), index=index, cache=cache, storage_options=storage_options
        )

    @property
    def _compares(self) -> bool:
        return False  # they have checksums of their own

    def _read(self, keys: NDArray[np.int64]) -> list[Any]:
        data = self._read_data(keys)
        if not self._decodes:
            return data
        return decoded_records(
            data, lambda place, offset: self._record_place(int(keys[place])).byte(HEAD + offset)
        )

    def _read_data(self, keys: NDArray[np.int64]) -> list[Any]:
        if len(keys) and not self._spans.compares:
            _, begins, ends = self._index.locate(keys)
            lengths, found = ends - begins, None
            nbytes = int(lengths.sum())
            if int(lengths.min()) < FRAME:
                pass  # the index is wrong
            elif nbytes >= READ_ALONE * len(keys):
                found = self._read_alone(keys)
            elif not lie_together(keys) and nbytes >= CUT_AT_ONCE * len(keys):
                found = self._cut_at_once(keys)
            if found is not None:
                return found
        return super()._read(keys)

    def _cut_at_once(self, keys: NDArray[np.int64]) -> list[bytes] | None:
        """The data of records, cut out of each before the next is read; None where one of them is wrong."""
        keys, rank = in_disk_order(keys)
        parts = [
            part
            for span in self._spans.read_each(keys)
            for part in (span[:HEAD], span[HEAD:-TAIL], span[-TAIL:])
        ]
        data = [*map(bytes, parts[1::3])]
        if not have_lengths(parts[::3], [*map(len, data)]):
            return None
        if self._verify and not have_checksums(data, parts[2::3]):
            return None
        return data if rank is None else [data[place] for place in rank]

    def _read_alone(self, keys: NDArray[np.int64]) -> list[bytes] | None:
        """The data of records, apart from their heads and tails; None where one of them is wrong."""
        keys, rank = in_disk_order(keys)
        shards, begins, ends = self._index.locate(keys)
        count = 3 if self._verify else 2  # parts of a record
        bounds = np.column_stack((begins, begins + HEAD, ends - TAIL, ends))
        lows, highs = bounds[:, :count].ravel(), bounds[:, 1 : count + 1].ravel()
        parts = [*self._spans.read_parts(keys.repeat(count), shards.repeat(count), lows, highs)]
        data = [*map(bytes, parts[1::count])]
        if not have_lengths(parts[::count], [*map(len, data)]):
            return None
        if self._verify and not have_checksums(data, parts[2::count]):
            return None
        return data if rank is None else [data[place] for place in rank]

    def _decode(self, keys: NDArray[np.int64], spans: Sequence[bytes | memoryview]) -> list[Any]:
        try:
            return data_of_all(spans, verify=self._verify)
        except (Malformed, struct.error):
            for key, span in zip(keys.tolist(), spans):
                self._check(key, span)
            raise

    def _check(self, key: int, span: bytes | memoryview) -> None:
        """Raises the error that names the record."""
        place = self._record_place(key)
        try:
            data_of(span)
        except Malformed as error:
            raise shard_changed(place.file, place.begin, f"record {place.record}: {error.problem}") from error
        try:
            data_of(span, verify=self._verify)
        except Malformed as error:
            raise DataFormatError(place.says(f"{error.problem}; {error.remedy}", error.offset)) from error
