"""Workers on other hosts that are processes of this one: a description for a Fleet, and its driver."""

import os
import subprocess
from dataclasses import dataclass, field
from typing import Any

from loaderkit._runtime.remote.fleet_process import serve, start_keeper, told_of_end

HOST = "127.0.0.1"


@dataclass
class PlainWorkers:
    """how: with "fail" the driver fails with that text, once: it leaves it in the file "once"."""

    count: int
    per_host: int = 2
    listen: str | None = None
    advertise: str | None = None
    other_cpus: str = "refuse"
    driver: str = "plain_fleet"
    how: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        return {"per_host": self.per_host, **self.how}


class PlainKeepers:
    """As `RayKeepers`."""

    host = HOST

    def __init__(self, settings: dict[str, Any]) -> None:
        if "fail" in settings and not os.path.exists(settings["once"]):
            with open(settings["once"], "w") as file:
                file.write(settings["fail"])
            raise ValueError(settings["fail"])
        self.secret = settings["secret"]
        self.running: dict[subprocess.Popen[str], str] = {}

    def begin(self, address: str, workers: int) -> "subprocess.Popen[str]":
        keeper = start_keeper(address, workers, self.secret)
        self.running[keeper] = address
        return keeper

    def end(self, keeper: "subprocess.Popen[str]") -> None:
        del self.running[keeper]
        keeper.kill()
        keeper.wait()

    def ended(self) -> list[tuple[Any, str]]:
        gone = [keeper for keeper in self.running if keeper.poll() is not None]
        return [(keeper, told_of_end(keeper.returncode, HOST, self.running.pop(keeper))) for keeper in gone]


def start() -> None:
    serve(PlainKeepers)
