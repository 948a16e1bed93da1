"""Who waits for an element is woken when it is there, and left in peace until then."""

import threading
from typing import Any

import numpy as np
import pytest
from internals import executor_of
from runtime_loaders import all_same, numbers

import loaderkit as lk
from benchmarks.work import spin

KINDS = pytest.mark.parametrize("kind", ["process", "thread"])


def spun(x: int) -> int:
    spin(1e-3)
    return x


@pytest.mark.slow
@KINDS
def test_a_batch_wakes_who_waits_for_it_once_however_many_tasks_it_takes(kind):
    with numbers(256, spun, lk.Batch(128), worker_count=2, worker_kind=kind, task_rows=1) as loader:
        it = iter(loader)
        executor: Any = executor_of(loader)
        looks: list[int] = []
        pop = executor._pop
        executor._pop = lambda stream: looks.append(stream) or pop(stream)
        np.testing.assert_array_equal(next(it), np.arange(128))
        assert len(looks) <= 8  # two before it waits, one when it is told; it was woken by each of 128 tasks


@pytest.mark.slow
@KINDS
def test_each_of_several_who_wait_at_once_gets_what_is_its_own(kind):
    """Streams of one loader share its workers: what wakes one of them must not make the others miss theirs."""
    with numbers(96, spun, lk.Batch(8), worker_count=2, worker_kind=kind, task_rows=1) as loader:
        expected = [np.arange(lo, lo + 8) for lo in range(0, 96, 8)]
        taken: list[list[Any]] = [[] for _ in range(4)]
        threads = [threading.Thread(target=lambda mine=mine: mine.extend(loader)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert all(all_same(mine, expected) for mine in taken)
