"""Three pipelines of which the limit is known: what each of them waits for or computes is written here."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

BATCH = 8


@dataclass(frozen=True)
class Pipeline:
    """Milliseconds of a record's read, which waits, of its decoding, which computes, and of the trainer's step."""

    name: str
    read: float
    decode: float
    step: float


PIPELINES = (
    Pipeline("decode-bound", read=0, decode=4, step=2),
    Pipeline("read-bound", read=5, decode=0, step=2),
    Pipeline("trainer-bound", read=0, decode=0, step=20),
)


@dataclass(frozen=True)
class Source:
    """Records whose reads wait."""

    milliseconds: float

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, key: int) -> Any:
        if self.milliseconds:
            time.sleep(self.milliseconds / 1e3)
        return np.full(16, key, np.float32)


@dataclass(frozen=True)
class Decode:
    """Python code that uses a processor."""

    milliseconds: float

    def __call__(self, record: Any) -> Any:
        end = time.thread_time() + self.milliseconds / 1e3
        while time.thread_time() < end:
            pass
        return record


def train(batches: Any, pipeline: Pipeline, seconds: float) -> None:
    """Steps that wait for their milliseconds, for so many seconds."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        next(batches)
        time.sleep(pipeline.step / 1e3)
