"""The formats that can be written, by name. The file of a format is imported when it is used."""

import importlib
import os
from typing import cast

from .write_format import WriteFormat

FORMATS = {
    "array_record": ("array_record", "ArrayRecordWriting"),
    "tar": ("tar", "TarWriting"),
    "tfrecord": ("tfrecord", "TFRecordWriting"),
    "parquet": ("parquet", "ParquetWriting"),
    "arrow": ("arrow", "ArrowWriting"),
    "jsonl": ("json_lines", "JsonLinesWriting"),
    "tokens": ("tokens", "TokensWriting"),
}
# Extensions of files, beside the formats' own names, as others write them.
_EXTENSIONS = {
    "arrayrecord": "array_record",
    "tfrecords": "tfrecord",
    "feather": "arrow",
    "ndjson": "jsonl",
}


def write_format(name: object) -> WriteFormat:
    """The format of a name; ValueError that says the names there are.

    >>> write_format("tar").extension
    'tar'
    """
    if not isinstance(name, str) or name not in FORMATS:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, got {name!r:.80}")
    module, cls = FORMATS[name]
    return cast(WriteFormat, getattr(importlib.import_module(f"{__package__}.{module}"), cls)())


def libraries_of(name: str) -> tuple[str, ...]:
    """The libraries of which another version may give other bytes.

    >>> libraries_of("parquet"), libraries_of("tar")
    (('pyarrow',), ())
    """
    return {"parquet": ("pyarrow",), "arrow": ("pyarrow",), "array_record": ("array_record",)}.get(name, ())


def format_of_path(path: str) -> str | None:
    """The format that a file's extension says; None for a folder's path.

    >>> format_of_path("train.tar"), format_of_path("train.feather"), format_of_path("train")
    ('tar', 'arrow', None)
    """
    _, dot, extension = os.path.basename(path).rpartition(".")
    if not dot:
        return None
    return extension if extension in FORMATS else _EXTENSIONS.get(extension)
