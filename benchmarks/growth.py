"""What grows with the size of a job: records, hosts, components of a mixture, shards of an index.

Each loader is made, opened, moved to a far step and restored there, in one process; no record is read. The rounds
run all sizes in turn, and each figure of a size is divided by that of the first one in the same round. CPU time.
"""

import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.clock import least_seconds
from benchmarks.large_index import LargeIndex, make_large_index
from loaderkit.formats._index.record_index import RecordIndex

ROWS = 256  # of a step, on this host
FAR = 10**5  # steps
RECORDS_EACH = 300_000  # of a shard: an index of fewer is read whole when it is opened


@dataclass(frozen=True, slots=True)
class Job:
    """A loader of one size. axis, size: as the table has them. opened: makes it, and what finds its records."""

    axis: str
    size: int
    opened: Callable[[], tuple[lk.DataLoader, Callable[[np.ndarray], object]]]

    @property
    def name(self) -> str:
        """Of its row."""
        return f"{self.axis}: {self.size:,}"


def of_records(records: int, host: int = 0, hosts: int = 1) -> lk.DataLoader:
    """A shuffled loader of `ROWS` rows a host."""
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, records, 1),
        sampler=lk.IndexSampler(records, shuffle=True, seed=0, num_epochs=None),
        operations=[lk.Batch(global_batch_size=ROWS * hosts)],
        shard_options=lk.ShardOptions(host, hosts),
        agree=False,
    )


def of_components(count: int) -> lk.DataLoader:
    """A mixture of 10^9 records, with weights of 1 to 7."""
    names = [f"corpus{number}" for number in range(count)]
    source, sampler = lk.mix(
        {name: lk.RangeDataSource(0, 10**9 // count, 1) for name in names},
        weights={name: 1 + number % 7 for number, name in enumerate(names)},
        shuffle=True,
        seed=0,
    )
    return lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(ROWS)])


def alone(loader: Callable[[], lk.DataLoader]) -> tuple[lk.DataLoader, Callable[[np.ndarray], object]]:
    """A loader whose keys are all that has to be found."""
    return loader(), len


def of_shards(large: LargeIndex) -> tuple[lk.DataLoader, Callable[[np.ndarray], object]]:
    """A loader of the records of an index, and a lookup of as many keys in it, of the shards that have places."""
    index = RecordIndex(large.path)
    keys = large.keys(ROWS)
    return of_records(len(index)), lambda planned: index.locate(keys)


def jobs(folder: Path, *, smoke: bool) -> list[list[Job]]:
    """The jobs of each axis, the smallest first."""
    shards = (1, 100) if smoke else (1, 100, 10_000)
    components = (1, 10) if smoke else (1, 100, 10_000)
    indexes = {
        count: make_large_index(
            str(folder / f"{count}.lkx"), shards=count, records_each=RECORDS_EACH, filled=min(count, 10)
        )
        for count in shards
    }
    return [
        [Job("records", n, partial(alone, partial(of_records, n))) for n in (10**6, 10**9, 10**12)],
        [Job("hosts", n, partial(alone, partial(of_records, 10**12, n // 2, n))) for n in (1, 64, 4_096)],
        [Job("components of a mixture", n, partial(alone, partial(of_components, n))) for n in components],
        [Job("shards of an index", n, partial(of_shards, large)) for n, large in indexes.items()],
    ]


def measured(job: Job, *, steps: int) -> dict[str, float]:
    """Microseconds to make and open the loader, of a key of a far step, of `get_state` and of a restore; bytes of the
    state, and bytes that loader and iterator hold.
    """
    tracemalloc.start()
    loader, find = job.opened()
    it: Any = iter(loader)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    it.seek(FAR)
    state = it.get_state()
    schedule = it._plan.schedule
    of_step = it.index // FAR

    def planned(step: int) -> None:
        find(schedule.rows_at(step * of_step).keys)

    def restored() -> None:
        it.set_state(state)
        planned(FAR)

    far = iter(np.random.default_rng(0).integers(FAR, size=1_000).tolist())
    return {
        "open": _least(lambda: iter(job.opened()[0]), 3),
        "a far key": _least(lambda: planned(next(far)), steps) / ROWS,
        "state, bytes": len(state),
        "get_state": _least(it.get_state, 5),
        "restore": _least(restored, 5),
        "held, bytes": held,
    }


def _least(run: Callable[[], object], times: int) -> float:
    return least_seconds(run, times, time.process_time) * 1e6


def run(*, repeats: int, smoke: bool, say: Callable[[str], None]) -> str:
    """The table, in Markdown."""
    lines = ["## growth: what grows with the size of a job", ""]
    with tempfile.TemporaryDirectory() as folder:
        for axis in jobs(Path(folder), smoke=smoke):
            rounds = []
            for number in range(1 if smoke else repeats):
                say(f"growth: {axis[0].axis}, round {number + 1}")
                rounds.append([measured(job, steps=10 if smoke else 200) for job in axis])
            names = list(rounds[0][0])
            if len(lines) == 2:
                lines += [f"| size | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
            for place, job in enumerate(axis):
                cells = [
                    cell(name, [row[0][name] for row in rounds], [row[place][name] for row in rounds])
                    for name in names
                ]
                lines.append(f"| {job.name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", __doc__ or ""])


def cell(name: str, first: list[float], values: list[float]) -> str:
    """A figure, and how many times the first size's it is."""
    ratio = median(value / least for value, least in zip(values, first, strict=True))
    unit = "" if "bytes" in name else " us"
    return f"{figure(median(values))}{unit} ({figure(ratio)})"


def figure(value: float) -> str:
    """Three digits, or a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
