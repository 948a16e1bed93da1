"""Starts the processes of one JAX program on this machine, and ends all of them when one fails."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command, *, processes, devices, folder, timeout=240):
    """Runs `python *command(index)` for each process, `devices` CPU devices in all; a list of (status, out, err).

    Files, not pipes: nobody has to read them while the processes run.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices // processes),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = [(folder / f"{index}.out", folder / f"{index}.err") for index in range(processes)]
    children = []
    deadline = time.monotonic() + timeout
    try:
        for index, (out, err) in enumerate(files):
            with out.open("wb") as stdout, err.open("wb") as stderr:
                arguments = [sys.executable, *map(str, command(index))]
                children.append(subprocess.Popen(arguments, env=environment, stdout=stdout, stderr=stderr))
        for index in range(processes):
            while children[index].poll() is None and not any(child.poll() for child in children):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
        # One failed: the others would wait for it. They get a moment to say what they know.
        for child in children:
            try:
                child.wait(timeout=min(5, max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                child.kill()
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [
        (child.returncode, out.read_text(), err.read_text())
        for child, (out, err) in zip(children, files, strict=True)
    ]
