"""What both ends of a connection between a trainer and a keeper set on its socket, and addresses as text."""

import socket

SILENCE_SECONDS = 10.0  # without a byte: the other host, or the way to it, is gone
PINGS = 5  # in that time


def prepare(connection: socket.socket) -> None:
    """Small messages go at once, a peer that doesn't acknowledge bytes is an error, and no call blocks."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * SILENCE_SECONDS))


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of "HOST:PORT"; ValueError where it is something else.

    >>> host_and_port("[::1]:7000")
    ('::1', 7000)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise ValueError(f"expected HOST:PORT, got {address!r:.80}")
    return host.strip("[]"), int(port)


def address_text(host: str, port: int) -> str:
    """Undoes `host_and_port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Silence:
    """Says when the other side has been silent for too long while this process listened.

    Args:
        now: on a monotonic clock, in seconds.
        most: seconds.

    >>> silence = Silence(0.0, 10.0)
    >>> [silence.is_over(float(now)) for now in range(12)].index(True)
    10
    >>> silence.is_over(100.0)  # this process was stopped meanwhile
    False
    """

    def __init__(self, now: float, most: float) -> None:
        self._heard = self._looked = now
        self._most = most

    def heard(self, now: float) -> None:
        """The other side has sent something."""
        self._heard = now

    def is_over(self, now: float) -> bool:
        """Whether it has been silent for so long; asked several times in that time."""
        if now - self._looked > self._most / 2:
            self._heard = now
        self._looked = now
        return now - self._heard >= self._most
