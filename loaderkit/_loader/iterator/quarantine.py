"""Reports each bad record once: a warning in the log and, if the user wants it, a line of JSON in a file.

A line is appended in one write, so that several processes may share a file on a local disk. The file is open only for
that write: it may be moved or read at any time.

On a full disk only the first part of a line may be written. It stays, because cutting it off could remove another
process's line. The next write ends that line first, so it is a line that isn't JSON, and its record is written again.
"""

import json
import logging
import os
import stat
from collections.abc import Iterable

from loaderkit._base.notes import keyed
from loaderkit._base.system.limits import above_standard, open_descriptor
from loaderkit._order.facts import Loss

_log = logging.getLogger("loaderkit")


class Quarantine:
    """Reports the bad records of one iterator, each index once, however often its row is made.

    Args:
        path: of the file, None for the log alone.

    >>> Quarantine(None).take_in([], "list", 0)
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._reported: set[int] = set()

    def take_in(self, losses: Iterable[Loss], source: str, step: int) -> None:
        """Reports those that weren't reported before.

        Args:
            losses: of the rows that are delivered.
            source: the data source's type.
            step: in which they are delivered.

        Raises OSError, which names the file, if it can't be written.
        """
        for loss in losses:
            if loss.index not in self._reported:
                if self._path is not None:
                    _write(self._path, _line(loss, source, step))
                self._reported.add(loss.index)
                read = "" if loss.instead == loss.index else f"; index {loss.instead} is read instead"
                _log.warning(
                    "record_key %s of %s (index %d) is bad: %s, raised by %s%s",
                    keyed(loss.record_key, loss.name),
                    source,
                    loss.index,
                    loss.error,
                    loss.label,
                    read,
                )


def _line(loss: Loss, source: str, step: int) -> bytes:
    said = {
        "source": source,
        "record_key": loss.record_key,
        **({} if loss.name is None else {"name": loss.name}),
        "index": loss.index,
        "instead": None if loss.instead == loss.index else loss.instead,
        "step": step,
        "raised_by": loss.label,
        "error": loss.error,
    }
    return json.dumps(said).encode() + b"\n"


def _write(path: str, line: bytes) -> None:
    try:
        _append(path, line)
    except OSError as error:
        error.filename = path  # os.write doesn't set it
        error.add_note(
            f"the quarantine file {os.path.abspath(path)!r} can't be written, so the step with the bad record isn't "
            "delivered. Make room there or make it writable, then next() gives that step; a loader without "
            "quarantine= only logs"
        )
        raise


def _append(path: str, line: bytes) -> None:
    line = b"\n" + line if _ends_within_a_line(path) else line
    descriptor = open_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    finally:
        os.close(descriptor)


def _ends_within_a_line(path: str) -> bool:
    """Whether the file exists and ends in the middle of a line."""
    try:
        known = os.stat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(known.st_mode) or not known.st_size:  # a pipe or a terminal has no end to look at
        return False
    with above_standard(), open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
