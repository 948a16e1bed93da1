"""The tests' range server in a process of its own, so that its work isn't the contender's.

`python serve.py FOLDER LATENCY` prints its address, and for each line on stdin the number of requests and the bytes of
all bodies until then, and how many of the requests lay one behind the other.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[3] / "tests"


class Server:
    """A running server: its address, its latency, and what it has sent."""

    def __init__(self, process: "subprocess.Popen[str]", latency_s: float) -> None:
        self.latency_s = latency_s
        assert process.stdin is not None and process.stdout is not None
        self._asks, self._answers = process.stdin, process.stdout
        self.address = self._answers.readline().strip()

    def sent(self) -> tuple[int, int]:
        """Requests and bytes."""
        requests, nbytes, _ = self._said()
        return requests, nbytes

    def in_sequence(self) -> int:
        """The most requests of which each came after the answer to the one before had begun."""
        return self._said()[2]

    def _said(self) -> tuple[int, int, int]:
        self._asks.write("\n")
        self._asks.flush()
        requests, nbytes, in_sequence = map(int, self._answers.readline().split())
        return requests, nbytes, in_sequence


@contextmanager
def serving(folder: Path, latency_s: float) -> Iterator[Server]:
    """A server of the folder's files; each answer waits for `latency_s` first."""
    command = [sys.executable, __file__, str(folder), str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process, latency_s)
        finally:
            process.kill()


def longest_chain(requests: list[tuple[float, float]]) -> int:
    """The most of these that can be told one after the other: (came, answered) each.

    >>> longest_chain([(0.0, 1.0), (0.5, 1.5), (1.1, 2.1)])
    2
    """
    count, end = 0, float("-inf")
    for came, answered in sorted(requests, key=lambda one: one[1]):
        if came >= end:
            count, end = count + 1, answered
    return count


def main(folder: str, latency: str) -> None:
    """Serves until stdin ends."""
    sys.path.insert(0, str(TESTS))
    from range_server import RangeServer

    times: list[tuple[float, float]] = []

    class TimedServer(RangeServer):
        def _answer(self, *request: Any) -> bool:
            came = time.monotonic()
            times.append((came, came + self.latency_s))
            return super()._answer(*request)

    with TimedServer(folder, latency_s=float(latency)) as server:
        sys.stdout.write(server.url("") + "\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            chain = longest_chain(times.copy())
            sys.stdout.write(f"{len(server.requests)} {server.sent_bytes} {chain}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
