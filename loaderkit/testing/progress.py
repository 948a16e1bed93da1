"""A progress line on stderr."""

import shutil
import sys
import time
from typing import TextIO

from loaderkit._base.closing import Closing

# Seconds between two writes of a count: a remote terminal may take milliseconds for each. Not measured.
_BETWEEN = 0.1
_CLEAR = "\r\x1b[K"  # moves to the beginning of the line and erases it


class ProgressLine(Closing):
    """Progress of a check: one line that is rewritten on a terminal, elsewhere one line for each stage.

    Args:
        shown: True writes, False doesn't, None writes where stderr is a terminal.
        name: of the check, at the beginning of the line.
        stages: the expected number of stages; it grows if there are more.

    >>> with ProgressLine(shown=False, name="check", stages=2) as progress:
    ...     progress.stage("reading")
    ...     progress.count(1, "records")
    """

    def __init__(self, *, shown: bool | None, name: str, stages: int) -> None:
        self._stream: TextIO | None = sys.stderr  # None in a program without a console
        self._terminal = _is_terminal(self._stream)
        if not (self._terminal if shown is None else shown):
            self._stream = None
        self._name, self._stages = name, stages
        self._number, self._text = 0, ""
        self._written = 0.0

    def close(self) -> None:
        """Clears the line."""
        if self._terminal:
            self._write(_CLEAR)

    def stage(self, text: str) -> None:
        """Begins the next stage, described by `text`."""
        self._number += 1
        self._text = f"{self._name} {self._number}/{max(self._number, self._stages)}: {text}"
        self._write(self._line(self._text) if self._terminal else f"{self._text}\n")
        self._written = time.monotonic()

    def count(self, number: int, what: str) -> None:
        """Shows the progress within the stage, on a terminal only."""
        if self._stream is None or not self._terminal or time.monotonic() - self._written < _BETWEEN:
            return
        self._write(self._line(f"{self._text}, {number} {what}"))
        self._written = time.monotonic()

    def _line(self, text: str) -> str:
        # A text wider than the terminal would take a second line, which `_CLEAR` doesn't erase.
        return _CLEAR + text[: shutil.get_terminal_size().columns - 1]

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # stderr was closed: the check goes on without a progress line
            self._stream = None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
