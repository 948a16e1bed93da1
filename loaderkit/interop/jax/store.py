"""JAX's coordination service as the store where processes agree; it is there once `jax.distributed` is initialised.

No collective and no computation of JAX's: a key is posted to the service and read from it, over its own connection.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jax._src.distributed import global_state  # the service has no public interface

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
        # A group of some processes has keys of its own.
        self._root = "loaderkit/" + ("all" if self._whole() else "-".join(map(str, self._members))) + "/"

    def _whole(self) -> bool:
        return self._members == tuple(range(global_state.num_processes))

    def count(self, name: str) -> int:
        """How often this was asked for that name before, in this process."""
        _counts[self._members, name] += 1
        return _counts[self._members, name] - 1

    def post(self, key: str, value: str) -> None:
        """Sets a key."""
        self._client.key_value_set(self._root + key, value, allow_overwrite=True)

    def read(self, prefix: str) -> Mapping[str, str]:
        """The keys below `prefix`, which ends with a slash."""
        found = self._client.key_value_dir_get(self._root + prefix)
        return {key.removeprefix(self._root): value for key, value in found}

    def wait(self, prefix: str, seconds: float) -> None:
        """Waits a little: the service tells nobody of a change in a folder of keys."""
        time.sleep(min(seconds, _POLL_SECONDS))


def store_of(members: Sequence[int], member: int, timeout: float) -> CoordinationStore | None:
    """The store of these processes; None for a single one, and where `jax.distributed` wasn't initialised.

    >>> store_of([0], 0, 1.0)
    """
    client = global_state.client
    if client is None or len(members) < 2:
        return None
    return CoordinationStore(members, member, timeout, client)
