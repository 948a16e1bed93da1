"""The process of one probe: `python -m benchmarks.conformance.child SUBJECT PROBE`, its last line is the answer."""

import os
import sys
from importlib import import_module

from benchmarks.conformance.probes import PROBES, trainer


def main(name: str, probe: str) -> None:
    """Runs the probe and exits without waiting for threads and processes of the library."""
    subject = import_module(f"benchmarks.conformance.subjects.{name}")
    if probe == "(trainer)":
        trainer(subject)
        return
    try:
        answer = PROBES[probe][1](subject)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the subject does
        lines = str(error).strip().splitlines()
        answer = f"no: {type(error).__name__}: {lines[0][:80] if lines else ''}"
    os.write(1, f"\nanswer {answer}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
