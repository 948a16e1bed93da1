"""Arrow IPC files are written."""

from typing import Any

from loaderkit.formats._writing.table_library import pyarrow_to_write
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .written_rows import TableFile, TableRowEncoder


class ArrowWriting:
    """Arrow IPC files, which Feather version 2 is too: record batches of about 1 MiB, not compressed, to be mapped.

    >>> ArrowWriting().encoder(b"").encode(b"abc", 0)
    {'value': b'abc'}
    """

    name = extension = "arrow"
    libraries = ("pyarrow",)

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for records with the columns of this one; an ImportError names the extra."""
        pyarrow_to_write()
        return TableRowEncoder.of(first)

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        import pyarrow as pa

        assert isinstance(encoder, TableRowEncoder)
        return TableFile(path, encoder.schema(), pa.ipc.new_file, _write_record_batch)


def _write_record_batch(writer: Any, table: Any) -> None:
    writer.write_table(table, max_chunksize=max(1, table.num_rows))
