"""Starts the processes of one JAX program on this machine, and ends all of them when one fails."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

GREETING = re.compile(r"^\[Gloo\].*\n", re.MULTILINE)  # of JAX's collectives on CPU
ROOT = Path(__file__).parents[2]


def run(command, *, processes, devices, folder, path=ROOT, grace=5, timeout=240):
    """Runs `python *command(index)` for each process, `devices` CPU devices in all; a list of (status, out, err).

    path: a folder to import from beside the project. grace: seconds that the others have when one failed.
    Files, not pipes, which would have to be read while the processes run.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{path}",
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # XLA took a fifth of the processes' time
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
        # When one failed, the others would wait for it: they get a moment to say what they know.
        while time.monotonic() < deadline and not any(child.poll() for child in children):
            if all(child.poll() == 0 for child in children):
                break
            time.sleep(0.02)
        deadline = min(deadline, time.monotonic() + grace)
        while time.monotonic() < deadline and any(child.poll() is None for child in children):
            time.sleep(0.02)
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [
        (child.returncode, GREETING.sub("", out.read_text()), err.read_text())
        for child, (out, err) in zip(children, files, strict=True)
    ]
