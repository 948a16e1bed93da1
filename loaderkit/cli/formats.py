"""The formats that an index is made of: how files are scanned, and which source reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

from loaderkit import sources
from loaderkit._formats.csv_rows import CsvFormat
from loaderkit._formats.lines import JsonLinesFormat, LinesFormat
from loaderkit._formats.scan import Format
from loaderkit._formats.tar import TarFormat
from loaderkit._formats.tfrecord import TFRecordFormat

SCANNED: Mapping[str, Format] = {
    "tar": TarFormat(),
    "tfrecord": TFRecordFormat(),
    "jsonl": JsonLinesFormat(),
    "lines": LinesFormat(),
    "csv": CsvFormat(),
    "tsv": CsvFormat("\t"),
}
_SOURCES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "tar": ("TarDataSource", {}),
    "tfrecord": ("TFRecordDataSource", {}),
    "jsonl": ("JsonLinesDataSource", {}),
    "lines": ("LinesDataSource", {}),
    "csv": ("CsvDataSource", {}),
    "tsv": ("CsvDataSource", {"delimiter": "\t"}),
}


def indexed_source(
    data_format: str,
    names: Sequence[str],
    index: str,
    storage_options: Mapping[str, Any] | None,
    *,
    verify: bool = False,
) -> Any:
    """The source that reads files of a format.

    data_format: a key of `SCANNED`. names: of the files. index: the index's file. storage_options: of the server.
    verify: whether the checksums that the files have are checked at each read.
    """
    name, options = _SOURCES[data_format]
    if verify and data_format == "tfrecord":
        options = {**options, "verify": True}
    return getattr(sources, name)(names, index=index, storage_options=storage_options, **options)
