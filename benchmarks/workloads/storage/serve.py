"""The tests' range server in a process of its own, so that its work isn't the contender's.

`python serve.py FOLDER LATENCY` prints its address, and for each line on stdin the number of requests and the bytes of
all bodies until then.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        self._asks.write("\n")
        self._asks.flush()
        requests, nbytes = map(int, self._answers.readline().split())
        return requests, nbytes


@contextmanager
def serving(folder: Path, latency_s: float) -> Iterator[Server]:
    """A server of the folder's files; each answer waits for `latency_s` first."""
    command = [sys.executable, __file__, str(folder), str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process, latency_s)
        finally:
            process.kill()


def main(folder: str, latency: str) -> None:
    """Serves until stdin ends."""
    sys.path.insert(0, str(TESTS))
    from range_server import RangeServer

    with RangeServer(folder, latency_s=float(latency)) as server:
        sys.stdout.write(server.url("") + "\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            sys.stdout.write(f"{len(server.requests)} {server.sent_bytes}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
