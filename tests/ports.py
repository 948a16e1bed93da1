"""A port for the processes of a test to meet at."""

import socket


def free_port() -> int:
    """One of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
