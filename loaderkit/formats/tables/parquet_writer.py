"""Parquet files are written."""

from functools import partial
from typing import Any

from loaderkit.formats._writing.table_library import pyarrow_to_write
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .written_rows import TableFile, TableRowEncoder


class ParquetWriting:
    """Parquet files with row groups of about 1 MiB, compressed by snappy, which every reader has, and with checksums of
    their pages.

    A file's bytes are the same for the same records and the same version of pyarrow, which Parquet names in them.

    >>> ParquetWriting().encoder({"label": 1}).encode({"label": 2}, 0)
    {'label': 2}
    """

    name = extension = "parquet"
    libraries = ("pyarrow",)

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for records with the columns of this one; an ImportError names the extra."""
        pyarrow_to_write()
        return TableRowEncoder.of(first)

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        import pyarrow.parquet as pq

        assert isinstance(encoder, TableRowEncoder)
        return TableFile(
            path, encoder.schema(), partial(pq.ParquetWriter, write_page_checksum=True), _write_row_group
        )


def _write_row_group(writer: Any, table: Any) -> None:
    writer.write_table(table, row_group_size=max(1, table.num_rows))
