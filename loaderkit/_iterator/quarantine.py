"""Bad records, told once each: a warning in the log, and a line of JSON in a file where the user wants one.

A line goes to the file in one write at its end, so that several processes may share one on a local disk. The file is
open no longer than that: it may be moved away or read at any time.

A full disk may take the first half of a line. It stays, as cutting it off could take another process's line with it,
and whoever writes next ends it first: it is a line of its own that is no JSON, and what it was to say is said again.
"""

import json
import logging
import os
import stat
from collections.abc import Iterable

from loaderkit._base.notes import keyed
from loaderkit._order.loss import Loss
from loaderkit._system.descriptors import above_standard

_log = logging.getLogger("loaderkit")


class Quarantine:
    """Tells of the bad records of one iterator, each index once, however often its row is made.

    Args:
        path: of the file, None for none.

    >>> Quarantine(None).take_in([], "list", 0)
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._told: set[int] = set()

    def take_in(self, losses: Iterable[Loss], source: str, step: int) -> None:
        """Tells of those that weren't told of yet.

        Args:
            losses: of the rows that are handed out.
            source: the data source's type.
            step: that hands them out.

        Raises OSError, which names the file, where it can't be written.
        """
        for loss in losses:
            if loss.index not in self._told:
                if self._path is not None:
                    _write(self._path, _line(loss, source, step))
                self._told.add(loss.index)
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
        error.filename = path  # os.write doesn't say it
        error.add_note(
            f"the quarantine file {os.path.abspath(path)!r} can't be written, and a record isn't lost without a word: "
            "the step isn't handed out. Make room there or make it writable, then next() gives that step; "
            "a loader without quarantine= only logs"
        )
        raise


def _append(path: str, line: bytes) -> None:
    line = b"\n" + line if _is_torn(path) else line
    with above_standard():
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    finally:
        os.close(descriptor)


def _is_torn(path: str) -> bool:
    """Whether there is a file that ends in the middle of a line."""
    try:
        known = os.stat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(known.st_mode) or not known.st_size:  # a pipe or a terminal has no end to look at
        return False
    with above_standard(), open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
