"""Names of records for what the pump logs, which must not stand still where a source does.

The pump tells of workers that are stuck in a read, and a source whose reads hang may hang when it is asked for a name.
So a thread asks, and where it has no answer soon, that name and all later ones are left out.
"""

import threading
from collections.abc import Sequence

from loaderkit._notes import keyed
from loaderkit.sources import Namer

_ANSWER_SECONDS = 1.0


class Names:
    """Asks for the names of records.

    Args:
        name: says what the source calls a record.

    >>> Names({3: "cat.jpg"}.get).keyed([3, 4])
    ["3 'cat.jpg'", '4']
    """

    def __init__(self, name: Namer) -> None:
        self._name = name
        self._silent = False  # whether it didn't answer

    def keyed(self, keys: Sequence[int]) -> list[str]:
        """The keys, each with its name where there is one."""
        found: list[str | None] = []
        if not self._silent:
            asking = threading.Thread(
                target=lambda: found.extend(map(self._name, keys)), name="loaderkit-names", daemon=True
            )
            try:
                asking.start()
                asking.join(_ANSWER_SECONDS)
                self._silent = asking.is_alive()
            except RuntimeError:  # the process may have no further thread
                found = []
        names = found if len(found) == len(keys) else [None] * len(keys)
        return [keyed(key, name) for key, name in zip(keys, names, strict=True)]
