"""How well ChunkSampler mixes, and what it costs, beside a full shuffle and a shuffle buffer.

1,281,024 records of 1,000 classes, sorted by class, so that a chunk holds one class: the worst case. A global batch has
1,024 rows. For each group of consecutive steps chi-square says how far the counts of the classes are from equal ones.
The columns of steps have its mean over all groups of some epochs, divided by that of a full shuffle with the same
groups: 1 is as good as a full shuffle. A window is the steps in which every lane uses up one window.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from loaderkit import ChunkSampler, IndexSampler

BATCH = 1024
STEPS = 1251  # of an epoch
CLASSES = 1000
HOSTS = 8
SHARD = 1024  # records of a shard, for the shuffle buffers

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """A row of the table."""

    chunk: int
    window: int = 0  # 0 for a full shuffle and for a buffer
    lanes: int = 1
    buffer: int = 0

    @property
    def name(self) -> str:
        """What the row says first."""
        if self.buffer:
            return f"shuffled shards, then a buffer of {self.buffer:,}"
        if not self.window:
            return f"full shuffle, chunks of {self.chunk}"
        lanes = f", {self.lanes} lanes" if self.lanes > 1 else ""
        return f"chunk={self.chunk}, window={self.window:,}{lanes}"

    @property
    def held(self) -> int:
        """Records that the readers of all lanes keep: two windows each; or those of the buffer."""
        return self.buffer or 2 * self.window * self.chunk * self.lanes

    @property
    def window_steps(self) -> int:
        """Steps in which every lane uses up one window."""
        return self.window * self.chunk * self.lanes // BATCH

    def sampler(self, records: int) -> IndexSampler | ChunkSampler:
        """The sampler whose order it is."""
        if not self.window:
            return IndexSampler(records, shuffle=True, seed=0)
        return ChunkSampler(
            records, chunk=self.chunk, window=self.window, lanes=self.lanes, batch=BATCH, seed=0
        )

    def epochs(self, steps: int, count: int) -> list[Keys]:
        """The record keys of some epochs: (steps, BATCH) each."""
        records = steps * BATCH
        if self.buffer:
            return [buffered(records, self.buffer, seed).reshape(steps, BATCH) for seed in range(count)]
        sampler = self.sampler(records)
        return [
            sampler.record_keys(np.arange(epoch * records, (epoch + 1) * records)).reshape(steps, BATCH)
            for epoch in range(count)
        ]


FULL = Order(chunk=16)
ORDERS = (
    FULL,
    Order(4, 4096),
    Order(16, 1024),
    Order(16, 4096),
    Order(16, 16_384),
    Order(16, 64, lanes=64),
    Order(16, 512, lanes=8),
    Order(256, 1024),
    Order(256, 64, lanes=8),
    Order(SHARD, buffer=1000),
    Order(SHARD, buffer=20_000),
)


def run(*, repeats: int, smoke: bool, say: Callable[[str], None]) -> str:
    """The table as Markdown.

    Args:
        repeats: how often the time of a key is measured, and epochs of each order.
        smoke: a short epoch, once.
        say: takes a line of progress.
    """
    steps, count = (64, 1) if smoke else (STEPS, repeats)
    say(f"chunk-order: {FULL.name}")
    full = FULL.epochs(steps, count)
    lines = ["## chunk-order: how well an order mixes, and what it costs", "", *HEAD]
    for order in ORDERS:
        say(f"chunk-order: {order.name}")
        lines.append(row(order, order.epochs(steps, count), full, repeats=1 if smoke else repeats))
    return "\n".join([*lines, "", __doc__ or "", COLUMNS])


HEAD = (
    "| order | 1 step | 16 steps | 64 steps | a window | chunks in a step | reads by 8 hosts | records held | key |",
    "|---|---|---|---|---|---|---|---|---|",
)
COLUMNS = f"""- *chunks in a step*: of how many chunks (or shards) the records of a step are, over all hosts.
- *reads by {HOSTS} hosts*: how often each chunk is read in an epoch by all hosts together, if a host keeps what it has
  read until the end of the epoch.
- *records held*: two windows of each lane, over all hosts; those of a buffer are held by each of its readers.
- *key*: CPU time of a key in blocks of 100,000 indices, divided by that of a shuffled IndexSampler; median of rounds.
"""


def row(order: Order, epochs: list[Keys], full: list[Keys], *, repeats: int) -> str:
    """One line of the table."""
    steps = len(full[0])
    groups = [1, 16, 64, order.window_steps]
    cells = [
        f"{mixing(epochs, group) / mixing(full, group):.2f}" if 0 < group <= steps else "" for group in groups
    ]
    cells.append(f"{np.mean([distinct(step // order.chunk) for step in epochs[0]]):,.0f}")
    if order.buffer:
        cells += ["", f"{order.held:,}", ""]
    else:
        cells += [
            f"{reads(epochs[0], order.chunk):.2f}",
            f"{order.held:,}" if order.held else "",
            f"{median(time_ratio(order) for _ in range(repeats)):.1f}",
        ]
    return f"| {order.name} | {' | '.join(cells)} |"


def mixing(epochs: list[Keys], group: int) -> float:
    """Mean chi-square of the counts of classes in groups of consecutive steps."""
    expected = group * BATCH / CLASSES
    found = []
    for keys in epochs:
        classes = keys * CLASSES // keys.size
        for low in range(0, len(keys) - group + 1, group):
            counts = np.bincount(classes[low : low + group].ravel(), minlength=CLASSES)
            found.append(float(((counts - expected) ** 2).sum() / expected))
    return float(np.mean(found))


def distinct(values: Keys) -> int:
    """How many values differ."""
    return len(np.unique(values))


def reads(keys: Keys, chunk: int) -> float:
    """How often all hosts together read each chunk."""
    hosts = (keys // chunk).reshape(len(keys), HOSTS, -1)
    return sum(distinct(hosts[:, host]) for host in range(HOSTS)) / -(-keys.size // chunk)


def time_ratio(order: Order) -> float:
    """CPU time of the order's keys over that of a shuffled IndexSampler: the fastest of three passes each."""
    indices = np.arange(100_000)

    def seconds(sampler: IndexSampler | ChunkSampler) -> float:
        passes = []
        for _ in range(3):
            begin = time.process_time()
            sampler.record_keys(indices)
            passes.append(time.process_time() - begin)
        return min(passes)

    return seconds(order.sampler(STEPS * BATCH)) / seconds(FULL.sampler(STEPS * BATCH))


def buffered(records: int, size: int, seed: int) -> Keys:
    """An epoch of shards in shuffled order, each read from its beginning, through a shuffle buffer."""
    rng = np.random.default_rng(seed)
    shards = rng.permutation(-(-records // SHARD))
    stream = (shards[:, np.newaxis] * SHARD + np.arange(SHARD)).ravel()
    stream = stream[stream < records].tolist()
    size = min(size, records)
    held = stream[:size]
    chosen = rng.integers(size, size=records - size).tolist()
    out = []
    for slot, key in zip(chosen, stream[size:], strict=True):
        out.append(held[slot])
        held[slot] = key
    rng.shuffle(held)
    return np.array(out + held, np.int64)
