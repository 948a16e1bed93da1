"""The plan alone at the size of a large cluster: 4,096 hosts with 64 workers each, 10^12 shuffled records.

No data is read. The plan of one host is measured, since each host plans alone, and workers plan nothing. A global batch
has 262,144 rows, one for each worker.

step: a step of one host in a run of consecutive ones. far step: the first step after a jump, 10^6 steps ahead. restore:
`set_state` of a state at step 10^6, and resize: of one saved with half the global batch size on other hosts, both with
parsing, comparing and the first step's plan. streams: with a Filter, 4,096 logical streams, restored on 2,048 hosts
from the two documents that hold a host's streams. memory: the peak that Python allocated for all of it, and the size of
a state.

For sampled steps, far ones among them, the rows of all hosts are put together: every index of the step has to be there
once, and no record key twice in an epoch, or the benchmark fails.
"""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.benchmark import Benchmark, Metrics, Size, plain
from benchmarks.clock import least_seconds
from benchmarks.contender import Contender

HOSTS, WORKERS, RECORDS = 4_096, 64, 10**12
FAR = 10**6  # steps
OURS = Contender("loaderkit, the plan of one host", "loaderkit")

STEP, FAR_STEP = "us a step", "us a far step"
RESTORE, RESIZE, STREAMS = "us to restore", "us to resize", "us to restore streams"
MEMORY, STATE = "KB held at most", "bytes of a state"


def _loader(rows: int, host: int, hosts: int, *operations: Any) -> Any:
    import loaderkit as lk

    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, RECORDS, 1),
        sampler=lk.IndexSampler(RECORDS, shuffle=True, seed=0, num_epochs=None),
        operations=[*operations, lk.Batch(global_batch_size=rows)],
        shard_options=lk.ShardOptions(host, hosts),
        logical_streams=HOSTS if operations else 1,
        agree=False,
    )


def _microseconds(run: Callable[[], object], times: int) -> float:
    return least_seconds(run, times) * 1e6


def measure(contender: Contender, size: Size) -> Metrics:
    """Times and memory of one host in the middle."""
    from loaderkit._plan.schedule import StepsAhead

    host, rows, times = HOSTS // 2 + 1, HOSTS * WORKERS, size.pick(20, 1)
    it = iter(_loader(rows, host, HOSTS))
    it.seek(FAR)
    state = it.get_state()
    half = iter(_loader(rows // 2, host // 2, HOSTS // 2))
    half.seek(FAR)
    smaller = half.get_state()
    schedule = it._plan.schedule
    steps = size.pick(2_000, 50)

    def consecutive() -> None:
        ahead = StepsAhead(schedule)
        for step in range(steps):
            ahead.records(step * rows)

    def restore(state: bytes | list[bytes], *allow: str) -> None:
        it.set_state(state, allow)
        schedule.rows_at(it.index)

    def jump() -> None:
        it.seek(FAR)
        StepsAhead(schedule).records(it.index)

    writers = [iter(_loader(rows, h, HOSTS, _some())) for h in (host - 1, host)]
    documents = [writer.get_state() for writer in writers]
    merged = iter(_loader(rows, host // 2, HOSTS // 2, _some()))
    tracemalloc.start()
    for run in (consecutive, jump, lambda: restore(state), lambda: merged.set_state(documents)):
        run()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    _check_steps(rows, sampled=size.pick(8, 1), hosts=size.pick(HOSTS, 64))
    return {
        STEP: _microseconds(consecutive, times) / steps,
        FAR_STEP: _microseconds(jump, times),
        RESTORE: _microseconds(lambda: restore(state), times),
        RESIZE: _microseconds(lambda: restore(smaller, "global_batch_size"), times),
        STREAMS: _microseconds(lambda: merged.set_state(documents), times),
        MEMORY: held / 1e3,
        STATE: len(state),
    }


def _some() -> Any:
    import loaderkit as lk

    return lk.Filter(bool)


def _check_steps(rows: int, *, sampled: int, hosts: int) -> None:
    """Puts the rows of all hosts together, for some steps; AssertionError if one is missing or there twice."""
    rows = rows // HOSTS * hosts
    schedules = [iter(_loader(rows, host, hosts))._plan.schedule for host in range(hosts)]
    last = RECORDS // rows - 1
    for step in np.linspace(0, last, sampled).astype(np.int64).tolist():
        parts = [schedule.rows_at(step * rows) for schedule in schedules]
        indices = np.concatenate([part.indices for part in parts])
        keys = np.concatenate([part.keys for part in parts])
        assert np.array_equal(indices, np.arange(step * rows, (step + 1) * rows)), (
            f"step {step}: rows are missing"
        )
        assert len(np.unique(keys)) == rows, f"step {step}: a record is there twice"


BENCHMARKS = (
    Benchmark(
        "scale",
        __doc__,
        (OURS,),
        measure,
        tuple(plain(OURS, metric) for metric in (STEP, FAR_STEP, RESTORE, RESIZE, STREAMS, MEMORY, STATE)),
    ),
)
