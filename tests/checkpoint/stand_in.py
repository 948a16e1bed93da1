"""The smallest iterator with a position: the methods of a loader's iterator that the checkpoint code may use."""

import json
import threading
from collections.abc import Collection

from loaderkit._loader.state_files import load_async, save_async


class Counter:
    """Yields 0, 1, 2, …; remembers how it was saved and restored."""

    def __init__(self, position=0):
        self.position = position
        self.allow: Collection[str] = ()
        self.allowed: Collection[str] | None = None
        self.prefetching = False
        self.state_thread: int | None = None

    def __iter__(self):
        return self

    def __next__(self):
        self.position += 1
        return self.position - 1

    def get_state(self) -> bytes:
        self.state_thread = threading.get_ident()
        return json.dumps({"position": self.position}, indent=4).encode()

    def set_state(self, state: bytes, allow: Collection[str] = ()) -> None:
        self.position = json.loads(state)["position"]
        self.allowed = allow

    def writers_needed(self, writers, allow=()):
        return writers

    def start_prefetch(self) -> None:
        self.prefetching = True

    async def save(self, directory):
        return await save_async(self, directory)

    async def load(self, directory):
        return await load_async(self, directory)
