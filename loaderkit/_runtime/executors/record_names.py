"""Names of records for the log, asked for without blocking the pump.

The pump logs workers that are stuck in a read, and a source with reads that hang may hang when it is asked for a name.
So a thread asks; if it has no answer soon, that name and all later ones are left out.
"""

import threading
from collections.abc import Sequence

from loaderkit._base.notes import keyed
from loaderkit._source.naming import Namer

_ANSWER_SECONDS = 1.0  # a longer time names records of slower sources, and blocks the pump once as long


class RecordNames:
    """Asks for the names of records.

    Args:
        name: gives the source's name of a record; None if it has no names: then no thread is needed.

    >>> RecordNames({3: "cat.jpg"}.get).keyed([3, 4])
    ["3 'cat.jpg'", '4']
    """

    def __init__(self, name: Namer | None) -> None:
        self._name = name

    def keyed(self, keys: Sequence[int]) -> list[str]:
        """The record keys as texts, each with its name if it has one."""
        names = None if self._name is None else self._asked(self._name, keys)
        return [keyed(key, name) for key, name in zip(keys, names or [None] * len(keys), strict=True)]

    def _asked(self, name: Namer, keys: Sequence[int]) -> list[str | None] | None:
        answers: list[list[str | None]] = []
        asking = threading.Thread(
            target=lambda: answers.append([name(key) for key in keys]), name="loaderkit-names", daemon=True
        )
        try:
            asking.start()
            asking.join(_ANSWER_SECONDS)
        except RuntimeError:  # the process may have no further thread
            return None
        if not answers:
            self._name = None
            return None
        return answers[0]
