"""What a process on Ray takes of its host, and on which cluster: what `Tasks` and `Workers` share."""

import importlib.util
import pickle
from collections.abc import Mapping
from typing import Any

from loaderkit._base.extras import missing_library
from loaderkit._base.notes import text_of
from loaderkit._base.system.dataclasses import dataclass

_ADVICE = "'auto' for the cluster of this machine, or HOST:PORT of its head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Of each task or worker."""

    num_cpus: float = 1
    memory: int | None = None
    resources: Mapping[str, float] | None = None
    runtime_env: Mapping[str, Any] | None = None
    address: str = "auto"
    other_cpus: str = "refuse"

    def __post_init__(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise missing_library(f"lk.interop.ray.{type(self).__name__} needs", "ray", "ray")
        if not self.num_cpus >= 0:
            raise ValueError(f"num_cpus: expected 0 or more, got {self.num_cpus!r:.80}")
        if self.other_cpus not in ("refuse", "warn"):
            raise ValueError(f"other_cpus: expected 'refuse' or 'warn', got {self.other_cpus!r:.80}")
        if "://" in self.address or self.address in ("", "local"):
            raise ValueError(f"address: expected {_ADVICE}, got {self.address!r:.80}")

        try:
            pickle.dumps(dict(self.runtime_env or {}))
        except Exception as error:
            told = f"expected paths, texts and numbers, got {self.runtime_env!r:.80}"
            raise ValueError(f"runtime_env: {told}: {text_of(error)}") from error

    def settings(self) -> dict[str, Any]:
        """Of the process that talks to Ray."""
        return {
            "address": self.address,
            "runtime_env": dict(self.runtime_env or {}),
            "options": {
                "num_cpus": self.num_cpus,
                "memory": self.memory,
                "resources": dict(self.resources or {}),
            },
        }
