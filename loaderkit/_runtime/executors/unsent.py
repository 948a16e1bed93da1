"""Messages that wait until a worker's channel takes them."""

import socket


class Unsent:
    """The trainer's side of a channel, for a worker that adds messages to `_unsent`."""

    connection: socket.socket
    _unsent: bytearray

    def flush(self) -> None:
        """Sends what the channel takes. An error is ignored here: reading from the channel finds it too."""
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                sent = len(self._unsent)
            del self._unsent[:sent]

    @property
    def blocked(self) -> bool:
        """Whether a message is waiting because the channel is full."""
        return bool(self._unsent)
