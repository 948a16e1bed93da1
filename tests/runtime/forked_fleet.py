"""A trainer with a fork of itself."""

import os
import sys

from fleet_trainer import FleetTrainer
from plain_fleet import PlainWorkers


def main() -> None:
    """A process with a worker and a fork of itself; it prints their pids and waits for its end."""
    with FleetTrainer(PlainWorkers(1)) as trainer:
        trainer.until(lambda: trainer.arrived)
        reads, writes = os.pipe()
        fork = os.fork()
        if not fork:
            trainer.fleet.close()  # as at the end of a program that the fork runs
            os.write(writes, b"closed")
            sys.stdin.read()
            os._exit(0)
        assert trainer.fleet._child is not None and os.read(reads, 6) == b"closed"
        print(fork, trainer.fleet._child.process.pid, *trainer.keepers, flush=True)
        trainer.until(lambda: False)


if __name__ == "__main__":
    main()
