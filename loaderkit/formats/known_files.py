"""What a file is by its name, where a source was given another one or only names."""

import logging
from typing import Any

import numpy as np

from . import registry

_log = logging.getLogger("loaderkit")
_JSON = "a JSON document, which has no records of its own: write each as a line of a .jsonl file"


def other_format(path: str, source: str) -> str:
    """What a file is by its name, and what reads it; "" for an unknown name, and for a file of this source.

    Args:
        path: of a file that a source refused.
        source: the name of its class.

    >>> other_format("train.csv", "TarDataSource")
    "by its name it is a file of the format csv: write lk.open('train.csv')"
    """
    if path.lower().endswith(".json"):
        return f"by its name it is {_JSON}, and read these by lk.JsonLinesDataSource"
    found = registry.by_name(path, ask_packages=False)
    if found is None or found.source_name == source:
        return ""
    return f"by its name it is a file of the format {found.name}: write lk.open({path!r})"


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
    found = registry.by_name(source[0], ask_packages=False)
    if found is not None and found.name != "lines":
        _log.warning(
            "load: the records are the %d names of the list, such as %r; for the records in the files write "
            "lk.load(lk.open(names))",
            len(source),
            source[0],
        )
