"""Records as rows of tables: the encoder that Parquet and Arrow files share, and the two writers."""

import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from loaderkit._base.structure import dict_advice
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.optional_library import library
from loaderkit.formats._writing.byte_file import new_file
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .arrow_records import arrow_type, as_stored, describe
from .arrow_values import Description
from .rows import METADATA, VALUE

# Rows are turned into columns so many together, and a row group or record batch ends with the rows that reach so many
# bytes. Larger ones compress better and cost less for each row read in order; a random read decodes a whole one.
_ROWS, _CHUNK_BYTES = 64, 1 << 20


@dataclass(frozen=True, slots=True)
class TableRowEncoder:
    """A `RecordEncoder`: a record as what pyarrow makes a row of.

    >>> TableRowEncoder.of({"label": 3}).encode({"label": "three"}, 0)
    Traceback (most recent call last):
        ...
    loaderkit.formats.tables.arrow_records.UnfitError: record['label']: expected int, as the first record has...
    """

    description: Description

    @classmethod
    def of(cls, first: Any) -> Self:
        """The encoder for records like this one; TypeError where it is neither bytes nor a dict."""
        if type(first) not in (bytes, dict):
            got = type(first).__name__
            raise TypeError(f"record: expected bytes or a dict, got {got}; {dict_advice(first)}")
        encoder = cls(describe(first))
        encoder.encode(first, 0)  # a leaf that can't be written is a TypeError here
        return encoder

    def encode(self, record: Any, number: int) -> Any:
        """The row: a dict of column -> value. ValueError that names a leaf that doesn't fit to the first record."""
        if record is None:
            raise TypeError("record: expected bytes or a dict, got None")
        stored = as_stored(record, self.description)
        return stored if self.description["kind"] == "dict" else {VALUE: stored}

    def schema(self) -> Any:
        """The pyarrow schema, which says how the records come back."""
        import pyarrow as pa

        told = json.dumps(
            {"version": 1, "record": self.description}, ensure_ascii=False, separators=(",", ":")
        )
        whole = self.description["kind"] == "dict"
        fields = self.description["fields"] if whole else {VALUE: self.description}
        return pa.schema(
            [(name, arrow_type(each)) for name, each in fields.items()], metadata={METADATA: told}
        )


class TableFile:
    """A `ShardWriter` of rows.

    Args:
        path: a new file.
        schema: of the rows.
        open_writer: makes of the open file and the schema pyarrow's writer.
        write: adds a table to that writer, as one chunk.
    """

    def __init__(
        self,
        path: str,
        schema: Any,
        open_writer: Callable[[Any, Any], Any],
        write: Callable[[Any, Any], None],
    ) -> None:
        self._file = new_file(path)
        self._schema, self._write = schema, write
        try:
            self._writer = open_writer(self._file, schema)
        except BaseException:
            self._file.close()
            raise
        self._rows: list[Any] = []
        self._batches: list[Any] = []
        self._pending = 0

    @property
    def nbytes(self) -> int:
        """Bytes in the file, and those of the columns that wait for their chunk."""
        return self._file.tell() + self._pending

    def add(self, encoded: Any) -> None:
        """Appends a row."""
        self._rows.append(encoded)
        # One row of pictures may be as large as a chunk.
        if len(self._rows) == _ROWS or _large(encoded):
            self._make_batch()
            if self._pending >= _CHUNK_BYTES:
                self._end_chunk()

    def close(self) -> None:
        """Ends the file."""
        self._make_batch()
        self._end_chunk()
        self._writer.close()
        self._file.close()

    def abandon(self) -> None:
        """Closes the file, and forgets what isn't in it."""
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()

    def _make_batch(self) -> None:
        import pyarrow as pa

        if self._rows:
            batch = pa.RecordBatch.from_pylist(self._rows, schema=self._schema)
            self._rows = []
            self._batches.append(batch)
            self._pending += batch.nbytes

    def _end_chunk(self) -> None:
        import pyarrow as pa

        if self._batches:
            self._write(self._writer, pa.Table.from_batches(self._batches, self._schema).combine_chunks())
            self._batches, self._pending = [], 0


def _large(row: Any) -> bool:
    return any(
        (isinstance(value, bytes | str) and len(value) > _CHUNK_BYTES // _ROWS)
        or (isinstance(value, dict) and _large(value))
        for value in row.values()
    )


class TableWriting:
    """What the formats of tables share: the encoder of their records."""

    libraries = ("pyarrow",)

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for records with the columns of this one; an ImportError names the extra."""
        library("pyarrow", "the formats parquet and arrow need", "write")
        return TableRowEncoder.of(first)


class ArrowWriting(TableWriting):
    """Arrow IPC files, which Feather version 2 is too: record batches of about 1 MiB, not compressed, to be mapped.

    >>> ArrowWriting().encoder(b"").encode(b"abc", 0)
    {'value': b'abc'}
    """

    name = extension = "arrow"

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        import pyarrow as pa

        assert isinstance(encoder, TableRowEncoder)
        return TableFile(path, encoder.schema(), pa.ipc.new_file, _write_record_batch)


def _write_record_batch(writer: Any, table: Any) -> None:
    writer.write_table(table, max_chunksize=max(1, table.num_rows))


class ParquetWriting(TableWriting):
    """Parquet files with row groups of about 1 MiB, compressed by snappy, which every reader has, and with checksums of
    their pages.

    A file's bytes are the same for the same records and the same version of pyarrow, which Parquet names in them.

    >>> ParquetWriting().encoder({"label": 1}).encode({"label": 2}, 0)
    {'label': 2}
    """

    name = extension = "parquet"

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        import pyarrow.parquet as pq

        assert isinstance(encoder, TableRowEncoder)
        return TableFile(
            path, encoder.schema(), partial(pq.ParquetWriter, write_page_checksum=True), _write_row_group
        )


def _write_row_group(writer: Any, table: Any) -> None:
    writer.write_table(table, row_group_size=max(1, table.num_rows))
