"""The one place of a loader's executor: when it is made, replaced and ended."""

from typing import Any

import pytest
from internals import executor_of, settings_of

import loaderkit as lk
from loaderkit._loader.executor_factory import LoaderExecutorFactory
from loaderkit._loader.shared_executor import SharedExecutor, end_workers
from loaderkit._runtime.executors.worker_pool import living_pools


class Fake:
    """An executor of a program, as far as a SharedExecutor looks at one."""

    def __init__(self, program: Any) -> None:
        self.program, self.usable, self.ends = program, True, 0

    def runs(self, program: Any) -> bool:
        return program == self.program

    def shut_down(self) -> None:
        self.ends += 1


class FakeFactory:
    def __init__(self) -> None:
        self.current, self.made = "first", []

    def program(self) -> Any:
        return self.current

    def make(self, program: Any) -> Any:
        self.made.append(Fake(program))
        return self.made[-1]


def test_it_is_made_when_first_needed_and_kept():
    factory, shared = FakeFactory(), SharedExecutor()
    assert not factory.made
    assert shared.executor(factory) is shared.executor(factory) is factory.made[0]


@pytest.mark.parametrize("why", ["unusable", "changed"])
def test_it_is_replaced_where_it_is_worn_out_or_runs_something_else(why):
    factory, shared = FakeFactory(), SharedExecutor()
    first = shared.executor(factory)
    if why == "unusable":
        first.usable = False
    else:
        factory.current = "second"
    second = shared.executor(factory)
    assert second is not first and second.program == factory.current
    assert shared.executor(factory) is second


def test_close_ends_it_for_good():
    """Closing twice does nothing, and closing before there is one either."""
    factory, shared = FakeFactory(), SharedExecutor()
    executor = shared.executor(factory)
    shared.close()
    shared.close()
    assert executor.ends >= 1
    unused = SharedExecutor()
    unused.close()
    for closed in (shared, unused):
        with pytest.raises(lk.errors.IteratorClosedError, match="the loader was closed"):
            closed.executor(factory)
    assert len(factory.made) == 1


def test_a_factory_that_fails_is_asked_again():
    class Failing(FakeFactory):
        def make(self, program: Any) -> Any:
            if not self.made:
                self.made.append(None)
                raise OSError("no descriptors")
            return super().make(program)

    factory, shared = Failing(), SharedExecutor()
    with pytest.raises(OSError, match="no descriptors"):
        shared.executor(factory)
    assert shared.executor(factory) is factory.made[1]


class Plus(lk.Map):
    def __init__(self, number: int) -> None:
        self.number = number

    def map(self, element: int) -> int:
        return element + self.number


def test_close_ends_the_workers_of_operations_that_changed_too():
    """An iterator that began before the change goes on with the workers that it had, until the loader is closed."""
    plus = Plus(1)
    loader = lk.load([5, 6, 7], operations=[plus], worker_count=1)
    before = iter(loader)
    assert next(before) == 6
    first = executor_of(loader)
    plus.number = 10
    assert next(iter(loader)) == 15
    assert executor_of(loader) is not first
    assert next(before) == 7
    loader.close()
    assert first.closed and executor_of(loader).closed
    with pytest.raises(lk.errors.IteratorClosedError):
        next(before)


def test_all_pools_of_the_process_end_together():
    """As they do when the interpreter exits, whatever loader or factory made them."""
    loaders = [lk.load([5, 6, 7], worker_count=1, worker_kind="thread") for _ in range(2)]
    shared = SharedExecutor()
    pools = {*map(id, living_pools())}
    own = shared.executor(LoaderExecutorFactory(settings_of(loaders[0])))
    assert [next(iter(loader)) for loader in loaders] == [5, 5]
    new = [pool for pool in living_pools() if id(pool) not in pools]
    assert own in new and all(executor_of(loader) in new for loader in loaders)
    end_workers()
    assert all(pool.closed for pool in new)
