"""What each thread has packed into rows of tokens, for the figures of the worker whose thread it is."""

import threading


class PackedTokens(threading.local):
    """Of this thread, in all.

    tokens: that were written into rows. places: of these rows, padding included.
    """

    tokens = places = 0

    def add(self, tokens: int, places: int) -> None:
        """Counts rows that were made."""
        self.tokens += tokens
        self.places += places


packed = PackedTokens()
