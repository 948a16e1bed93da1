"""A run in which a worker is killed, and its timeline. Its workers import this file, so matplotlib isn't here."""

import json
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import loaderkit as lk

_BATCH, _STEPS, _KILL = 8, 60, 12
AROUND = 200.0  # ms that are drawn before the kill, and from when another worker is ready


def _decode(number: int) -> dict[str, int]:
    time.sleep(0.004)  # a read that waits
    return {"number": number, "pid": os.getpid()}


class _Step:
    """20 ms of training; the twelfth step ends with the death of a worker. Each batch has to be the right one."""

    def __init__(self) -> None:
        self._taken = 0

    def __call__(self, batch: Mapping[str, Any]) -> None:
        expected = range(self._taken * _BATCH, (self._taken + 1) * _BATCH)
        if batch["number"].tolist() != [*expected]:
            raise ValueError(f"step {self._taken}: expected {[*expected]}, got {batch['number'].tolist()}")
        self._taken += 1
        time.sleep(0.02)
        if self._taken == _KILL:
            os.kill(int(batch["pid"][0]), signal.SIGKILL)


def figures() -> dict[str, Any]:
    """What the trace says of the trainer and the workers, with times in ms since the kill."""
    loader = lk.load(range(10_000), operations=[_decode], batch_size=_BATCH, worker_count=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        loader.trace(path, _Step(), steps=_STEPS)
        events = json.loads(path.read_text())["traceEvents"]
    events.sort(key=lambda event: event.get("ts", 0))
    ends = [event["ts"] + event["dur"] for event in events if event["name"] == "step"]
    killed = ends[_KILL - 1]

    def ms(event: Mapping[str, Any]) -> float:
        return round((event["ts"] - killed) / 1000, 1)

    (lost,) = [event for event in events if event["name"] == "lost"]
    hired = [event["tid"] for event in events if event["name"] == "hired"]
    workers = [lost["tid"], *(tid for tid in hired if tid != lost["tid"])]  # the one that dies first
    (until,) = [
        ms(event) + AROUND for event in events if event["name"] == "ready" and event["tid"] == hired[-1]
    ]
    spans: dict[str, list[Any]] = {"step": [], "next()": [], "task": [], "hired": [], "ready": []}
    for event in events:
        if event["name"] in spans and -AROUND < ms(event) < until:
            where = [1 + workers.index(event["tid"])] if event["tid"] in workers else []
            told = [round(event["dur"] / 1000, 1)] if "dur" in event else []
            task = [event["args"]["task"]] if event["name"] == "task" else []
            spans[event["name"]].append([*where, ms(event), *told, *task])
    return {"lost": [ms(lost), lost["args"]["reason"], lost["args"]["tasks"]], **spans}
