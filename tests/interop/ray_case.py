"""A Ray cluster of two nodes for tests; Ray is never imported in their process."""

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PATIENCE_S = 120
START_S = 90


def needs_ray():
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray")


@contextlib.contextmanager
def started_nodes() -> Iterator[Any]:
    """The process of ray_nodes.py, with `address` and `second`, the id of a node."""
    needs_ray()
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    # How long Ray waits for a head that is lost; a minute is its own.
    environment = {**os.environ, "PYTHONPATH": path, "RAY_gcs_rpc_server_reconnect_timeout_s": "2"}
    command = [sys.executable, str(HERE / "ray_nodes.py")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        told = select.select([process.stdout], [], [], START_S)[0] and process.stdout.readline().split()
        if not told:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.skip("Ray starts no nodes on this machine")
        process.address, process.second = told
        yield process
        process.stdin.close()
        process.wait(PATIENCE_S)


def tell(nodes, word):
    nodes.stdin.write(f"{word}\n")
    nodes.stdin.flush()
    assert nodes.stdout.readline() == "done\n"
