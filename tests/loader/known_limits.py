"""Pipelines of which the limit is known from how they are made: what waits sleeps, what computes computes."""

import time
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import loaderkit as lk

NOISE = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
PACKED = zlib.compress(np.random.default_rng(1).integers(0, 9, 120_000, np.uint8).tobytes())


def jpeg():
    import cv2

    return cv2.imencode(".jpg", cv2.GaussianBlur(NOISE, (9, 9), 3))[1].tobytes()


class Waits:
    """A source whose reads wait."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 1_000_000

    def __getitem__(self, key):
        time.sleep(self.seconds)
        return np.full(8, key, np.int64)


class Inflates:
    """A source whose reads compute."""

    def __len__(self):
        return 1_000_000

    def __getitem__(self, key):
        return np.frombuffer(zlib.decompress(PACKED), np.uint8)[:8].copy()


class Photographs:
    """A source of one JPEG file, many times."""

    def __init__(self):
        self.data = jpeg()

    def __len__(self):
        return 1_000_000

    def __getitem__(self, key):
        return self.data


def decode(data):
    import cv2

    return cv2.resize(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), (32, 32))


def sleep_4ms(x):
    time.sleep(0.004)
    return x


def sleep_1ms(x):
    time.sleep(0.001)
    return x


def sleep_unevenly(x):
    time.sleep(0.001 * (x * 7919 % 9))
    return x


def sleep_in_bursts(x):
    """4 ms a record in the mean, all of it in 64 of 256 records."""
    if x % 256 < 64:
        time.sleep(0.016)
    return x


def sleep_batch(batch):
    time.sleep(0.03)
    return batch


def sleep_and_stack(rows):
    time.sleep(0.03)
    return np.stack(rows)


def sort_and_stack(rows):
    return np.stack([np.sort(NOISE, axis=None)[:8] for _ in rows])


def sort(x):
    np.sort(NOISE, axis=None)
    return x


def spin(x):
    end = time.thread_time() + 0.003
    while time.thread_time() < end:
        pass
    return x


def cheap(x):
    return x + 1


def one_in_ten(x):
    return x % 10 == 0


def slow_one_in_ten(x):
    time.sleep(0.002)
    return x % 10 == 0


class Repeated(lk.FlatMap):
    """Eight records of each, after a wait."""

    max_fan_out = 8

    def flat_map(self, x):
        time.sleep(0.008)
        return [x] * 8


LARGE = np.zeros(500_000, np.int64)


def large(x):
    return LARGE


@dataclass(frozen=True)
class Known:
    """A pipeline, the seconds of its trainer's step, and what limits it.

    kinds: of the limit; more than one where the processors of the machine decide. part: that of a record that takes
    most. on_cpu: whether that computes; None where it isn't said. settings: of the loader. spins: whether the step
    computes. seconds: of a run that shows it.
    """

    name: str
    source: Any
    operations: tuple[Any, ...]
    step: float
    kinds: tuple[str, ...]
    part: str | None = None
    on_cpu: bool | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    spins: bool = False
    seconds: float = 2.0

    def make(self, **settings: Any) -> Any:
        """Its loader, with settings that go before its own."""
        chosen = {"batch_size": 8, "worker_count": 1, **self.settings, **settings}
        return lk.load(self.source, seed=0, shuffle=False, operations=list(self.operations), **chosen)

    def train(self, batch: Any) -> None:
        """One step."""
        if self.spins:
            end = time.thread_time() + self.step
            while time.thread_time() < end:
                pass
        elif self.step:
            time.sleep(self.step)


N = range(1_000_000)
COMPUTES = ("workers", "processors")
FIRST, SECOND, THIRD = "operations[0] ", "operations[1] ", "operations[2] "
Filter = lk.transforms.Filter


def batched(**settings: Any) -> dict[str, Any]:
    return {"batch_size": None, **settings}


KNOWN = [
    Known("reads wait", Waits(0.004), (), 0.004, ("reads",), "read", False),
    Known(
        "reads wait in 4 threads",
        Waits(0.02),
        (),
        0.004,
        ("reads",),
        "read",
        settings={"read_options": lk.ReadOptions(num_threads=4)},
    ),
    Known(
        "reads wait in 8 threads of 2 workers",
        Waits(0.04),
        (),
        0.004,
        ("reads",),
        "read",
        settings={"worker_count": 2, "read_options": lk.ReadOptions(num_threads=8)},
    ),
    Known("reads compute", Inflates(), (), 0.001, ("reads",), "read", True),
    Known("decode", Photographs(), (decode,), 0.001, COMPUTES, FIRST + "Map(decode)", True),
    Known("sort", N, (cheap, sort), 0.001, COMPUTES, SECOND + "Map(sort)", True),
    Known("Python computes", N, (spin,), 0.001, COMPUTES, FIRST + "Map(spin)", True),
    Known("an operation waits", N, (sleep_4ms,), 0.004, ("workers",), FIRST + "Map(sleep_4ms)", False),
    Known(
        "the second operation waits",
        N,
        (sleep_1ms, sleep_4ms, cheap),
        0.004,
        ("workers",),
        SECOND + "Map(sleep_4ms)",
        False,
        {"worker_count": 2},
    ),
    Known(
        "work behind the batch waits",
        N,
        (cheap, lk.Batch(8), sleep_batch),
        0.004,
        ("workers",),
        THIRD + "Map(sleep_batch)",
        False,
        batched(),
    ),
    Known(
        "batch_fn waits",
        N,
        (cheap, lk.Batch(8, batch_fn=sleep_and_stack)),
        0.004,
        ("workers",),
        "batch",
        False,
        batched(),
    ),
    Known(
        "batch_fn computes",
        N,
        (cheap, lk.Batch(8, batch_fn=sort_and_stack)),
        0.001,
        COMPUTES,
        "batch",
        True,
        batched(),
    ),
    Known("the trainer", N, (cheap,), 0.02, ("trainer",)),
    Known("the trainer computes", N, (cheap,), 0.02, ("trainer",), spins=True),
    Known(
        "bursts",
        N,
        (sleep_in_bursts,),
        0.024,
        ("bursts",),
        FIRST + "Map(sleep_in_bursts)",
        settings={"worker_count": 2, "prefetch_batches": 1},
        seconds=6.0,
    ),
    Known(
        "no workers, an operation waits",
        N,
        (sleep_4ms,),
        0.01,
        ("calling thread",),
        FIRST + "Map(sleep_4ms)",
        False,
        {"worker_count": 0},
    ),
    Known(
        "no workers, decode",
        Photographs(),
        (decode,),
        0.004,
        ("calling thread",),
        FIRST + "Map(decode)",
        True,
        {"worker_count": 0},
    ),
    Known(
        "threads share an interpreter",
        N,
        (spin,),
        0.004,
        ("interpreter lock",),
        FIRST + "Map(spin)",
        settings={"worker_count": 2, "worker_kind": "thread"},
    ),
    Known(
        "threads wait",
        N,
        (sleep_4ms,),
        0.004,
        ("workers",),
        FIRST + "Map(sleep_4ms)",
        False,
        {"worker_count": 2, "worker_kind": "thread"},
    ),
    Known(
        "a filter behind a slow operation",
        N,
        (sleep_1ms, Filter(one_in_ten)),
        0.004,
        ("workers",),
        FIRST + "Map(sleep_1ms)",
        False,
    ),
    Known(
        "a slow filter",
        N,
        (Filter(slow_one_in_ten), cheap),
        0.004,
        ("workers",),
        FIRST + "Filter(slow_one_in_ten)",
        False,
        {"worker_count": 2},
    ),
    Known(
        "uneven records",
        N,
        (sleep_unevenly,),
        0.004,
        ("workers",),
        FIRST + "Map(sleep_unevenly)",
        False,
        {"worker_count": 2},
    ),
    Known(
        "several of each record",
        N,
        (Repeated(),),
        0.0005,
        ("workers",),
        FIRST + "Repeated",
        False,
    ),
    Known("many small elements", N, (), 0.0, ("hand-over",), "engine", settings={"batch_size": 1}),
    Known(
        "no memory to hold batches",
        N,
        (large,),
        0.0,
        ("memory",),
        settings={"batch_size": 4, "worker_count": 2, "max_memory": 0},
    ),
]
