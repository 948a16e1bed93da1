"""What ended a stream, a task or a batch early, the same value from the user's function to the training loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .cursor import Cursor


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in its place in the stream: everything before it was delivered.

    error    the exception; the engine carries it and never looks at it
    label    what raised it, as an operation's name; empty where the error speaks for itself
    indices  of the records that it is about
    cursors  after a batch that failed: where each logical stream goes on; None where the failure is no batch's
    """

    error: Any
    label: str = ""
    indices: tuple[int, ...] = ()
    cursors: Mapping[int, Cursor] | None = None
