"""A trainer of a soak: iterates one pipeline in ways that change, writes down what it got, and saves its position.

`python soak_trainer.py NUMBER SESSION FOLDER`. It may be killed at any time; the next session goes on from the saved
position. Lines of the journal, one write each, so that a killed process leaves whole ones:

    batch STEP DIGEST      what next() gave at that step
    kept STEP DIGEST       the same batch, looked at again later
    restore STEP           a position was restored
    arrived WORKERS        that count as of other hosts
    gave-up TEXT           the workers died too often at the same work: an error, and on from where it was
    held DESCRIPTORS       after a loader was closed
    end STEP               the stream ended
"""

import gc
import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from internals import executor_of
from plain_fleet import PlainWorkers
from soak_pipelines import digest_of, pipeline_of, running_of

import loaderkit as lk
from loaderkit._loader.state_files import document_name, read_state, write_document


def main(number: int, session: int, folder: Path) -> None:
    """Runs until the stream ends."""
    draw = random.Random(f"{number} {session}")
    pipeline = pipeline_of(number)
    driver = str(Path(__file__).parents[1] / "runtime")  # of a fleet is there
    os.environ["PYTHONPATH"] = os.pathsep.join([driver, os.environ.get("PYTHONPATH", "")])
    journal = os.open(folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(*words: object) -> None:
        os.write(journal, (" ".join(map(str, words)) + "\n").encode())

    while True:
        running, verify = running_of(draw)
        remote = draw.random() < 0.4 and running.workers > 0 and running.kind == "process"
        workers = PlainWorkers(draw.randint(1, 3)) if remote else None
        loader = running.loader(pipeline, verify=verify, remote_workers=workers)
        with loader:
            over = _leg(loader, folder, draw, say)
        del loader
        gc.collect()
        say("held", len(os.listdir("/proc/self/fd")))
        if over:
            return


def _leg(loader: "lk.DataLoader", folder: Path, draw: random.Random, say: Callable[..., None]) -> bool:
    """Some batches with one loader; whether the stream ended."""
    it = iter(loader)
    if (folder / document_name(0, 1)).exists():
        it.set_state(read_state(folder))
        say("restore", it.step)
    kept: deque[tuple[int, Any]] = deque()
    for _ in range(draw.choice([20, 100, 500, 5000])):
        step = it.step
        try:
            element = next(it)
        except StopIteration:
            say("end", step)
            return True
        except lk.WorkerError as error:
            say("gave-up", str(error).replace("\n", " "))
            return False
        say("batch", step, digest_of(element))
        kept.append((step, element))
        if len(kept) > 6:
            early, old = kept.popleft()
            say("kept", early, digest_of(old))
            del old
        del element
        if len(kept) == 1:
            _await_workers(loader, say)
        if draw.random() < 0.1:
            write_document(folder, it.get_state())
        if draw.random() < 0.01:
            it.set_state(it.get_state())  # what was made ahead is thrown away
            say("restore", it.step)
    if draw.random() < 0.5:
        write_document(folder, it.get_state())
    return False


def _await_workers(loader: "lk.DataLoader", say: Callable[..., None]) -> None:
    """Gives those of other hosts time to come: the stream may be short."""
    crew = getattr(executor_of(loader), "crew", None)
    deadline = time.monotonic() + 20.0
    while crew is not None and not crew.workers and time.monotonic() < deadline:
        time.sleep(0.02)
    if crew is not None:
        say("arrived", len(crew.workers))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
