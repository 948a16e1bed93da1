"""The formats that can be written, by name. The file of a format is imported when it is used."""

import os
from typing import cast

from loaderkit.formats import registry

from .write_format import WriteFormat


def write_format(name: object) -> WriteFormat:
    """The format of a name; ValueError that says the names there are.

    >>> write_format("tar").extension
    'tar'
    """
    found = registry.find(name)
    if found is None or found.writer is None:
        raise ValueError(f"format: expected one of {', '.join(registry.writable())}, got {name!r:.80}")
    return cast(WriteFormat, found.make_writer())


def format_of_path(path: str) -> str | None:
    """The format that a file's extension says; None for a folder's path.

    >>> format_of_path("train.tar"), format_of_path("train.feather"), format_of_path("train")
    ('tar', 'arrow', None)
    """
    _, dot, extension = os.path.basename(path).rpartition(".")
    found = registry.of_extension(extension) if dot else None
    return None if found is None or found.writer is None else found.name
