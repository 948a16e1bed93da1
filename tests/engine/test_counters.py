"""Counters of workers: what an interval holds is what was added in it, also where workers were replaced meanwhile."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.stats.counters import PoolCounters, WorkerCounters

COUNTS = st.integers(0, 9)
COUNTED = ("lost", "repeated", "copied")


@st.composite
def pools(draw: st.DrawFn, executor: int) -> PoolCounters:
    """Up to three workers that live, and what those before them did."""
    workers = tuple(
        WorkerCounters(n, tasks=draw(COUNTS), working=draw(COUNTS)) for n in range(draw(COUNTS) % 4)
    )
    ended = WorkerCounters(-1, tasks=draw(COUNTS), working=draw(COUNTS))
    places = tuple(replace(worker, tasks=worker.tasks + draw(COUNTS)) for worker in workers)
    counted = {name: draw(COUNTS) for name in COUNTED}
    return PoolCounters(workers, ended, places=places, executor=executor, **counted)


def grown(pool: PoolCounters, by: PoolCounters) -> PoolCounters:
    """The same workers, after each did more."""
    more = {worker.number: worker for worker in by.workers}
    return replace(
        pool,
        workers=tuple(one.plus(more[one.number]) if one.number in more else one for one in pool.workers),
        **{name: getattr(pool, name) + getattr(by, name) for name in COUNTED},
    )


@given(pools(1), pools(1))
def test_an_interval_holds_what_was_done_in_it(earlier, did):
    later = grown(earlier, did)
    interval = later.since(earlier)
    for one in interval.workers:
        expected = next((worker for worker in did.workers if worker.number == one.number), WorkerCounters())
        assert (one.tasks, one.working) == (expected.tasks, expected.working)
    assert interval.ended.tasks == interval.ended.working == 0
    assert all(getattr(interval, name) == getattr(did, name) for name in COUNTED)
    assert all(place.tasks == place.working == 0 for place in interval.places)


@given(pools(1), pools(2))
def test_workers_of_another_pool_are_others_whatever_their_numbers(earlier, pool):
    """Where the executor was replaced since: what the new workers did is theirs, and nothing is less than nothing."""
    interval = pool.after(earlier).since(earlier)
    assert interval.workers == pool.workers
    assert (interval.all.tasks, interval.all.working) == (pool.all.tasks, pool.all.working)
    assert (interval.ended.tasks, interval.ended.working) == (pool.ended.tasks, pool.ended.working)
    assert all(getattr(interval, name) == getattr(pool, name) for name in COUNTED)
    did = {place.number: place.tasks for place in pool.places}
    assert {place.number: place.tasks for place in interval.places} == {
        **dict.fromkeys([place.number for place in earlier.places], 0),
        **did,
    }
