"""JAX's coordination service as the store in which processes agree; it exists once `jax.distributed` is initialized.

Uses no collective and no computation of JAX: keys are set and read over the service's own connection.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jax._src.distributed import global_state  # the service has no public interface

# A wait ends at most so late; a shorter one would ask the service more often. Not measured.
_POLL_SECONDS = 0.02

_counts: Counter[tuple[tuple[int, ...], str]] = Counter()


class CoordinationStore:
    """`loaderkit._order.store.Store` over JAX's coordination service.

    Args:
        members: the JAX processes that load together, ascending; this one is among them.
        member: this process.
        timeout: seconds that a process waits for others.
        client: of the service.
    """

    def __init__(self, members: Sequence[int], member: int, timeout: float, client: Any) -> None:
        self._members = tuple(members)
        self.process = self._members.index(member)
        self.processes = len(self._members)
        self.timeout = timeout
        self._client = client
        # Keys of a group of some processes only have the group in their names.
        self._root = "loaderkit/" + ("all" if self._whole() else "-".join(map(str, self._members))) + "/"

    def _whole(self) -> bool:
        return self._members == tuple(range(global_state.num_processes))

    def count(self, name: str) -> int:
        """The number of earlier calls with this name in this process."""
        _counts[self._members, name] += 1
        return _counts[self._members, name] - 1

    def post(self, key: str, value: str) -> None:
        """Sets a key."""
        self._client.key_value_set(self._root + key, value, allow_overwrite=True)

    def read(self, prefix: str) -> Mapping[str, str]:
        """{key: value} of the keys that begin with `prefix`, which ends with a slash."""
        found = self._client.key_value_dir_get(self._root + prefix)
        return {key.removeprefix(self._root): value for key, value in found}

    def wait(self, prefix: str, seconds: float) -> None:
        """Sleeps for a moment: the service has no notification for changes below a prefix."""
        time.sleep(min(seconds, _POLL_SECONDS))


def store_of(members: Sequence[int], member: int, timeout: float) -> CoordinationStore | None:
    """The store of these processes; None for a single one, and where `jax.distributed` isn't initialized.

    >>> store_of([0], 0, 1.0)
    """
    client = global_state.client
    if client is None or len(members) < 2:
        return None
    return CoordinationStore(members, member, timeout, client)
