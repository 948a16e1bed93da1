"""One line on stderr that says how far a check is."""

import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

_BETWEEN = (
    0.1  # seconds between two writes of a count: a terminal far away may take a few milliseconds for each
)
_CLEAR = "\r\x1b[K"  # to the beginning of the line, and everything behind it away


class ProgressLine:
    """A line that is written again and again on a terminal, and once for each stage elsewhere.

    Args:
        shown: True writes, False doesn't, None writes where stderr is a terminal.
        name: of the check, at the beginning of the line.
        stages: how many there will be, as far as is known.

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._write(_CLEAR)

    def stage(self, text: str) -> None:
        """Begins the next one."""
        self._number += 1
        self._text = f"{self._name} {self._number}/{max(self._number, self._stages)}: {text}"
        self._write(self._line(self._text) if self._terminal else f"{self._text}\n")
        self._written = time.monotonic()

    def count(self, number: int, what: str) -> None:
        """How far the stage is; only a terminal shows it."""
        if self._stream is None or not self._terminal or time.monotonic() - self._written < _BETWEEN:
            return
        self._write(self._line(f"{self._text}, {number} {what}"))
        self._written = time.monotonic()

    def _line(self, text: str) -> str:
        # One that is longer than the terminal is wide would stay when the next one is written.
        return _CLEAR + text[: shutil.get_terminal_size().columns - 1]

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # closed meanwhile: the check goes on without a line
            self._stream = None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
