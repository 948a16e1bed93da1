"""What a stream tells a loader's feeder: when each record is read next, by this host."""

from typing import Any

import numpy as np
import pytest
from internals import plan_of

import loaderkit as lk
from loaderkit._engine.outputs import Outputs
from loaderkit._engine.pace import Pace
from loaderkit._engine.scheduler import SchedulerContext
from loaderkit._loader.iterator.open_scheduler import open_scheduler

COUNT = 48


@pytest.mark.parametrize(("hosts", "lanes"), [(1, 2), (2, 2), (2, 4), (4, 4)])
def test_a_hosts_next_uses_are_those_of_its_own_reads(hosts: int, lanes: int) -> None:
    """Chunks that only other hosts read are the first to go: the cache holds what this one needs."""
    for host in range(hosts):
        loader = lk.DataLoader(
            data_source=range(COUNT),
            sampler=lk.ChunkSampler(COUNT, chunk=3, window=2, lanes=lanes, batch=4, seed=1),
            operations=[lk.Batch(global_batch_size=4)],
            shard_options=lk.ShardOptions(host, hosts),
        )
        plan, told = plan_of(loader), []

        def follow(feeds: Any, next_uses: Any) -> Any:
            told.append(next_uses)  # noqa: B023
            return feeds

        context = SchedulerContext(
            None, False, False, Outputs(), Pace(workers=0, task_rows=None), lambda: 0, follow
        )
        open_scheduler(plan, plan.first_position(), context, prefetch=1)
        uses = told[0](np.arange(COUNT), 0)
        own = {int(key) for step in range(2 * COUNT // 4) for key in plan.schedule.rows_at(4 * step).keys}
        assert {key for key in range(COUNT) if uses[key] < 2 * COUNT} == own
        assert hosts == 1 or len(own) < COUNT
