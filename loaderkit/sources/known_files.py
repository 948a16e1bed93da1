"""Which source reads a file, by its name."""

import logging
import re
from typing import Any

import numpy as np

_log = logging.getLogger("loaderkit")

# By the last of these in a file's name: "train-{00..63}.tar", "a.tfrecord-00000-of-00064", "b.csv@8".
SOURCE_OF = {
    "tar": "TarDataSource",
    "tfrecord": "TFRecordDataSource",
    "jsonl": "JsonLinesDataSource",
    "csv": "CsvDataSource",
    "txt": "LinesDataSource",
    "array_record": "ArrayRecordDataSource",
    "parquet": "ParquetDataSource",
    "arrow": "ArrowDataSource",
    "feather": "ArrowDataSource",
    "tfrecords": "TFRecordDataSource",
    "ndjson": "JsonLinesDataSource",
}
_KNOWN_FILES = re.compile(rf"\.({'|'.join(SOURCE_OF)})(?![a-z])", re.IGNORECASE)
_JSON = "a JSON document, which has no records of its own: write each as a line of a .jsonl file"


def kind_of_file(path: str) -> str | None:
    """The key in SOURCE_OF of a file's name, None for an unknown one.

    >>> kind_of_file("train.tfrecord-00000-of-00064"), kind_of_file("notes.md")
    ('tfrecord', None)
    """
    kinds = _KNOWN_FILES.findall(path)
    return str(kinds[-1]).lower() if kinds else None


def other_format(path: str, source: str) -> str:
    """What a file is by its name, and what reads it; "" for an unknown name, and for a file of this source.

    Args:
        path: of a file that a source refused.
        source: the name of its class.

    >>> other_format("train.csv", "TarDataSource")
    'by its name it is a .csv file: write lk.CsvDataSource(...)'
    """
    if path.lower().endswith(".json"):
        return f"by its name it is {_JSON}, and read these by lk.JsonLinesDataSource"
    kind = kind_of_file(path)
    if kind is None or SOURCE_OF[kind] == source:
        return ""
    return f"by its name it is a .{kind} file: write lk.{SOURCE_OF[kind]}(...)"


def warn_of_columns(source: Any) -> None:
    """Logs a warning for a list of arrays of one length and other dimensions, as of features and labels.

    Args:
        source: any data source.
    """
    arrays = isinstance(source, list) and all(isinstance(each, np.ndarray) for each in source[:8])
    shapes = [each.shape for each in source[:8]] if arrays else []
    if len({*map(len, shapes)}) > 1 and len({shape[:1] for shape in shapes}) == 1:
        told = (len(source), "one row of each", "lk.load({'x': ..., 'y': ...})")
        _log.warning("load: the records are the %d arrays of the list; for records of %s write %s", *told)


def warn_of_file_names(source: Any) -> None:
    """Logs a warning for a list of names of files of records, as each name is a record then, and not what is in them.

    Args:
        source: any data source.
    """
    if not isinstance(source, list | tuple) or not isinstance(source[0], str):
        return
    kind = kind_of_file(source[0])
    if kind not in (None, "txt"):
        _log.warning(
            "load: the records are the %d names of the list, such as %r; for the records in the files write "
            "lk.load(lk.%s(names))",
            len(source),
            source[0],
            SOURCE_OF[kind],
        )
