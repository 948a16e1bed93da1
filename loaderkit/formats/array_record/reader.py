"""Opens readers of ArrayRecord files: errors name the file, and each opening must find the same file."""

import errno
import os
from collections.abc import Mapping
from typing import Any

from loaderkit._base.system.file_identity import FileIdentity, file_changed
from loaderkit._base.system.limits import above_standard
from loaderkit._storage.addresses import is_remote
from loaderkit.errors import DataFormatError, FileChangedError

# Not tuned: a large buffer takes memory for each open file and reads bytes that random access doesn't use, a small one
# needs more reads for a large record.
READER_BUFFER_BYTES = 1 << 15


def open_reader(
    path: str, *, options: str, identities: dict[str, FileIdentity], sizes: Mapping[str, int | None]
) -> Any:
    """A reader of a file; OSError naming the file where it is missing, a folder, damaged, or was replaced.

    Args:
        path: the file.
        options: of array-record's reader, as "name:value,name:value".
        identities: of the files that were opened before, by path; the first opening of a local file adds its own.
        sizes: the bytes that each file must have, by path; None where that isn't known.
    """
    if is_remote(path):
        return _reader_of(path, options)
    if os.path.isdir(path):
        raise IsADirectoryError(
            errno.EISDIR, "a folder, not a file; write folder/* for the files in it", path
        )
    first = path not in identities
    try:
        return _open_same(path, options, identities, sizes)
    except FileChangedError:
        if not first:
            raise
        # No record of the file was read yet, and a network file system may have shown an earlier state of it.
        identities.pop(path, None)
        return _open_same(path, options, identities, sizes)


def _open_same(
    path: str, options: str, identities: dict[str, FileIdentity], sizes: Mapping[str, int | None]
) -> Any:
    before = _checked_identity(path, identities, sizes)
    try:
        reader = _reader_of(path, options)
    except OSError:
        _checked_identity(path, identities, sizes)
        raise
    try:
        # The reader doesn't show its descriptor. If the file is the same before and after the opening, it opened that
        # one.
        before.check(path, _checked_identity(path, identities, sizes))
    except OSError:
        reader.close()
        raise
    return reader


def _checked_identity(
    path: str, identities: dict[str, FileIdentity], sizes: Mapping[str, int | None]
) -> FileIdentity:
    try:
        now = FileIdentity.of(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "no such ArrayRecord file", path) from error
    size = sizes.get(path)
    if size not in (None, now.nbytes):  # a source from a user's pickle knows nothing but the size
        raise file_changed(path, f"it had {size} bytes when it was opened and has {now.nbytes} now")
    identities.setdefault(path, now).check(path, now)
    return now


def _reader_of(path: str, options: str) -> Any:
    # Imported here, because the library brings a protobuf runtime that no other source needs.
    from array_record.python.array_record_module import ArrayRecordReader

    try:
        with above_standard():
            reader = ArrayRecordReader(path, options=options, file_reader_buffer_size=READER_BUFFER_BYTES)
    except ValueError as error:
        raise ValueError(f"reader_options: {error}") from error
    if not reader.ok():
        try:
            reader.close()  # raises the error with the cause
        except RuntimeError as error:
            raise unreadable(path, str(error)) from error
        raise unreadable(path, "its reader gives no cause")
    return reader


def unreadable(path: str, why: str) -> OSError:
    """The error for a file that can't be read as an ArrayRecord file.

    Args:
        path: the file.
        why: the reader's message.

    >>> print(unreadable("gs://bucket/data", "no footer"))
    gs://bucket/data: not a whole ArrayRecord file: no footer. It may be truncated, damaged, or not closed by its writer
    yet; copy or write it again
    """
    size = "" if is_remote(path) else f" of {os.path.getsize(path)} bytes"
    # What a server couldn't give may come the next time.
    cls = OSError if is_remote(path) else DataFormatError
    return cls(
        f"{path}: not a whole ArrayRecord file{size}: {why}. It may be truncated, damaged, or not closed by "
        "its writer yet; copy or write it again"
    )
