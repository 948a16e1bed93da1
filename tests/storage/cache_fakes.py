"""An index and shards in memory, and a count of the bytes that were read of them."""

import os
import signal
import threading
import time
import traceback
from dataclasses import dataclass, field

import numpy as np

from loaderkit._storage.range_reader import ObjectVersion


@dataclass
class Index:
    """Records of given sizes in shards of given numbers of records; a shard begins with a few bytes of no record."""

    counts: tuple[int, ...]
    sizes: np.ndarray
    chunk_records: int
    digest: str = "a"
    exact: object = None

    def __post_init__(self):
        ends = np.cumsum(self.counts)
        self._shards = np.repeat(np.arange(len(self.counts)), self.counts)
        before = np.concatenate([[0], np.cumsum(self.sizes)])
        firsts = before[(ends - self.counts)[self._shards]] if len(self.sizes) else 0
        self._begins, self._ends = before[:-1] - firsts + 5, before[1:] - firsts + 5

    def __len__(self):
        return len(self.sizes)

    @property
    def nbytes(self):
        return int(self.sizes.sum()) + 5 * len(self.counts)

    @property
    def shard_ends(self):
        return np.cumsum(self.counts)

    def locate(self, keys):
        return self._shards[keys], self._begins[keys], self._ends[keys]

    def bytes_of_shard(self, shard):
        mine = self._ends[self._shards == shard]
        return int(mine[-1]) if len(mine) else 5


def make_index(records=100, shards=3, chunk=8, size=50, seed=0, digest="a"):
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, records + 1, shards - 1))
    counts = tuple(np.diff([0, *cuts, records]).tolist())
    return Index(counts, rng.integers(0, 2 * size + 1, records), chunk, digest)


@dataclass
class Ranges:
    """A RangeReader of bytes that follow from the shard and the place; each process has its own counters."""

    index: Index
    seconds: float = 0.0
    log: str | None = None  # a file that gets a byte for each byte that any process reads
    calls: int = 0
    nbytes: int = 0
    read_spans: list = field(default_factory=list)
    tag: str = "one"
    names = ("x",)
    waits = True

    def version(self, shard):
        return ObjectVersion(self.index.bytes_of_shard(shard), "")

    def version_in_use(self, shard, seen=None):
        return ObjectVersion(self.index.bytes_of_shard(shard), self.tag)

    def hold(self, shard, version):
        return True

    def content(self, shard):
        return np.random.default_rng(shard + 1).bytes(self.index.bytes_of_shard(shard))

    def read(self, shards, begins, ends):
        time.sleep(self.seconds)
        self.calls += 1
        spans = list(zip(shards.tolist(), begins.tolist(), ends.tolist(), strict=True))
        nbytes = sum(end - begin for _, begin, end in spans)
        self.nbytes += nbytes
        self.read_spans += spans
        if self.log is not None:
            with open(self.log, "ab", buffering=0) as file:
                file.write(b"." * nbytes)
        return [self.content(shard)[begin:end] for shard, begin, end in spans]

    def read_as_they_come(self, shards, begins, ends):
        yield from enumerate(self.read(shards, begins, ends))

    def close(self):
        pass

    def spans(self, keys):
        """What a reader without a cache gives."""
        located = zip(*self.index.locate(np.asarray(keys, np.int64)), strict=True)
        return [self.content(int(shard))[begin:end] for shard, begin, end in located]


def total_bytes(index):
    return int(index.sizes.sum())


def in_threads(function, arguments):
    """Calls a function in a thread for each argument at once, and gives what they return."""
    results, errors = [None] * len(arguments), []

    def call(place, argument):
        try:
            results[place] = function(argument)
        except Exception as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=call, args=pair) for pair in enumerate(arguments)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def in_processes(function, arguments, kill_after=None):
    """Calls a function in a forked process for each argument; all must give True, unless they are killed."""
    pids = []
    for argument in arguments:
        pid = os.fork()
        if not pid:
            try:
                os._exit(0 if function(argument) else 1)
            except BaseException:  # noqa: BLE001 - a child must never return into the tests
                traceback.print_exc()
                os._exit(2)
        pids.append(pid)
    if kill_after is not None:
        time.sleep(kill_after)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
