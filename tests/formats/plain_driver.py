"""A cluster of plain processes: its driver forks one for each attempt of a task, and sees it killed or stopped.

An attempt that is stopped counts as lost. It goes on once the next one has answered, and then it answers, too.
"""

import os
import pickle
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from loaderkit._base.system.platform import dying_with_parent_thread
from loaderkit._runtime.start.driver import ANSWER, LOST, Event, serve
from loaderkit.errors import ClusterError
from loaderkit.formats import map_shards  # noqa: F401 - once, not in each process
from loaderkit.formats._writing.cluster_task import Answer, do
from loaderkit.formats.tar import writer  # noqa: F401 - as above


@dataclass
class PlainCluster:
    """At most two processes at a time."""

    other_cpus: str = "refuse"
    driver: str = "plain_driver"
    how: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        return self.how


class PlainTasks:
    """As `RayTasks`.

    settings: "die" names a task at which the driver is killed, "fail" an error of it; "unseen" a path that isn't there
    for its tasks; "numerics" what they compute; "goes_on" says whether what was stopped goes on, "survive"
    whether it may outlive the driver.
    """

    ready = b""

    def __init__(self, settings: dict[str, Any], program: bytes) -> None:
        if "fail" in settings:
            raise ClusterError(settings["fail"])
        self.settings, self.program = settings, program
        self.waiting: list[int] = []
        self.running: dict[int, Attempt] = {}  # by pid
        self.stopped: dict[int, Attempt] = {}  # by task

    def begin(self, task: int) -> None:
        self.waiting.append(task)

    def events(self, seconds: float) -> list[Event]:
        while self.waiting and len(self.running) < 2:
            attempt = Attempt(self.waiting.pop(0), self.program, self.settings)
            self.running[attempt.pid] = attempt
        found = []
        for pid, attempt in [*self.running.items()]:
            ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if not ended:
                continue
            del self.running[pid]
            if os.WIFSTOPPED(status):
                self.stopped[attempt.task] = attempt
            if status:
                found.append(Event(LOST, attempt.task, f"status {status}".encode()))
                continue
            answer = Answer(*pickle.loads(attempt.answer()))
            answer.numerics.update(self.settings.get("numerics", {}))
            found.append(Event(ANSWER, attempt.task, pickle.dumps(tuple(answer))))
            if (
                self.settings.get("goes_on", True)
                and (late := self.stopped.pop(attempt.task, None)) is not None
            ):
                os.kill(late.pid, signal.SIGCONT)
                found.append(Event(ANSWER, attempt.task, late.answer()))
        if not found:
            time.sleep(0.005)
        return found


class Attempt:
    """A process that does a task."""

    def __init__(self, task: int, program: bytes, settings: dict[str, Any]) -> None:
        self.task = task
        if task == settings.get("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        if "unseen" in settings:
            os.rename(settings["unseen"], settings["unseen"] + "-elsewhere")
        self.out, end = os.pipe()
        driver = os.getpid()
        self.pid = os.fork()  # quicker than a new interpreter, which imports all again
        if self.pid:
            os.close(end)
            return
        try:
            if not settings.get("survive"):
                exec(dying_with_parent_thread(driver))
            with open(end, "wb") as file:
                file.write(do(lambda: program, "", task))
            os._exit(0)
        finally:
            os._exit(1)

    def answer(self) -> bytes:
        with open(self.out, "rb") as file:
            return file.read()


def start() -> None:
    serve(PlainTasks)
