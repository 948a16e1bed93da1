"""Bad records, told once each: a warning in the log, and a line of JSON in a file where the user wants one.

A line goes to the file in one write at its end, so that several processes may share one on a local disk. The file is
open no longer than that: it may be moved away or read at any time.
"""

import json
import logging
import os
from collections.abc import Iterable

from loaderkit._engine.task import Loss

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

        Raises OSError where the file can't be written.
        """
        for loss in losses:
            if loss.index not in self._told:
                if self._path is not None:
                    _append(self._path, _line(loss, source, step))
                self._told.add(loss.index)
                read = "" if loss.instead == loss.index else f"; index {loss.instead} is read instead"
                _log.warning(
                    "loaderkit: record_key %d of %s (index %d) is bad: %s, raised by %s%s",
                    loss.record_key,
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
        "index": loss.index,
        "instead": None if loss.instead == loss.index else loss.instead,
        "step": step,
        "raised_by": loss.label,
        "error": loss.error,
    }
    return json.dumps(said).encode() + b"\n"


def _append(path: str, line: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    finally:
        os.close(descriptor)
