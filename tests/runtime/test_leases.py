"""A batch's memory is used again when the last view of it has gone, wherever that view went, and not before."""

import gc
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from child_scripts import run
from internals import executor_of
from runtime_loaders import all_same, numbers, row

import loaderkit as lk
from loaderkit._base.system.resources import available_memory
from loaderkit._engine.slots import PAGE
from loaderkit._runtime.memory.arena import Arena


def rich(x: int) -> dict[str, np.ndarray]:
    """A row with a plain leaf and one of two fields."""
    return {"x": np.full((2, 8), x, np.float32), "c": np.full(3, complex(x, -x))}


def _torch(batch: Any) -> Any:
    return pytest.importorskip("torch").from_numpy(batch["x"])[1:]


def _jax(batch: Any) -> Any:
    jax = pytest.importorskip("jax")
    return jax.device_put(batch["x"], jax.devices("cpu")[0])


VIEWS: dict[str, Callable[[Any], Any]] = {
    "leaf": lambda batch: batch["x"],
    "row": lambda batch: batch["x"][3],
    "field": lambda batch: batch["c"].imag,
    "reshape": lambda batch: batch["x"].reshape(-1),
    "transpose of a slice": lambda batch: batch["x"][::2].T,
    "dtype view": lambda batch: batch["x"].view(np.int32),
    "memoryview": lambda batch: memoryview(batch["x"])[2:5],
    "dlpack": lambda batch: np.from_dlpack(batch["x"]),
    "broadcast": lambda batch: np.broadcast_to(batch["x"], (2, 10, 2, 8)),
    "iterator": lambda batch: batch["x"].flat,
    "subclass": lambda batch: batch["x"].view(np.recarray),
    "torch.from_numpy": _torch,
    "jax.device_put": _jax,
}


# The lease is the trainer's: two kinds of views are enough to see that worker processes respect it.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "kind"),
    [
        ("row", "process"),
        ("jax.device_put", "process"),
        *((view, "thread") for view in VIEWS if view != "torch.from_numpy"),
        pytest.param("torch.from_numpy", "thread", marks=pytest.mark.torch),
    ],
)
def test_the_slot_of_a_view_is_not_used_again_while_it_lives(view, kind, nightly):
    """The view keeps its content while many batches pass; the bytes come back when it goes."""
    if kind == "thread" and list(VIEWS).index(view) % 2 and not nightly:
        pytest.skip("nightly: each takes a second")
    loader = numbers(10**6, rich, lk.Batch(10), worker_count=1, worker_kind=kind)
    with loader, iter(loader) as it:
        batch = leased_batch(loader, it)
        arena = executor_of(loader).state.arena
        address = address_of(batch)
        held = VIEWS[view](batch)
        expected = np.asarray(held).copy()
        del batch
        gc.collect()
        if view != "jax.device_put":  # JAX may also have copied
            assert all(address_of(next(it)) != address for _ in range(60))
            assert arena.leased > 0
        assert all(next(it)["x"][9, 0, 0] == 10 * it.step - 1 for _ in range(60))
        assert np.array_equal(np.asarray(held), expected)
        del held
        gc.collect()
        assert any(address_of(next(it)) == address for _ in range(2000))
        it.seek(it.step)  # lets go of the batches that came along with the last one
        executor_of(loader)._free_released()  # as the next call of next() does
        assert arena.leased == 0


def leased_batch(loader: "lk.DataLoader", it: Any) -> Any:
    """The first batch that lies in the arena: of the very first ones it wasn't known what they look like."""
    for batch in itertools.islice(it, 1000):
        if executor_of(loader).state.arena.leased:
            return batch
    raise AssertionError("no batch lies in the arena")


def address_of(batch: Any) -> int:
    address: int = batch["x"].__array_interface__["data"][0]
    return address


@pytest.mark.slow
def test_elements_that_travelled_hold_their_memory_too():
    """Arrays of elements without a Batch look into the arena; each keeps its task's bytes."""
    big = lambda x: np.full(1000, x)  # noqa: E731 - as users write it
    with numbers(300, big, worker_count=1, task_rows=4) as loader:
        kept = []
        for k, element in enumerate(loader):
            if k % 7 == 0:
                kept.append(element[500:])
        arena = executor_of(loader).state.arena
        assert arena.leased > 0
        assert [view[0] for view in kept] == [*range(0, 300, 7)]
        element = None
        kept.clear()
        assert list(loader)[299][0] == 299
        gc.collect()
        next(iter(loader))
        assert arena.leased < 100 * 8000


HANDED_OUT = {
    "in place": (row, lk.Batch(8)),
    "elements": (lambda x: np.full(1000, x),),
    "rows in number unknown": (lk.Filter(lambda x: x % 3 > 0), row, lk.Batch(8)),
}


# What lies in the arena beside batches is what worker processes make.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "thread") for name in HANDED_OUT), ("elements", "process")]
)
def test_when_all_was_handed_out_and_let_go_of_nothing_is_kept(name, kind):
    """No slot, no output and no note of one, leased or copied out: a run of any length needs no more."""
    for budget in (None, 0):
        options = {"worker_count": 1, "worker_kind": kind, "max_memory": budget, "task_rows": 8}
        with numbers(400, *HANDED_OUT[name], **options) as loader:
            with iter(loader) as it:
                for _ in it:
                    pass
                executor: Any = executor_of(loader)
                with executor.lock:
                    del _
                    executor._free_released()
                    left = (
                        executor._slots.used,
                        executor.state.arena.leased,
                        executor._leased,
                        executor._objects,
                    )
            assert left == (0, 0, set(), {})


def test_an_iterator_that_was_thrown_away_leaves_nothing_in_the_trainer():
    """Without workers no pump looks after it: the next that works does, so that no loop gathers them."""
    loader = numbers(100, row, lk.Batch(4))
    other = iter(loader)
    next(other)
    executor: Any = executor_of(loader)
    (own,) = executor._streams
    for _ in range(3):
        next(iter(loader))
        gc.collect()
    for _ in other:
        pass
    assert {*executor._streams} <= {own} and not executor._abandoned


def test_a_budget_of_one_batch_holds_one():
    """Batches are copied out above it, and not at it."""
    options = {"worker_count": 1, "worker_kind": "thread", "max_memory": PAGE}
    with numbers(400, row, lk.Batch(8), **options) as loader, iter(loader) as it:
        batch = leased_batch(loader, it)
        arena = executor_of(loader).state.arena
        assert arena.leased == PAGE
        following = next(it)
        assert arena.leased == PAGE
        assert (following["key"] == batch["key"] + 8).all()


MANY = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import numpy as np
import loaderkit as lk

loader = lk.DataLoader(data_source=lk.RangeDataSource(0, 10**6, 1), sampler=lk.SequentialSampler(10**6),
                       operations=[lambda x: {"x": np.full(64, x)}, lk.Batch(4)], worker_count=2)
with iter(loader) as it:
    kept = [next(it) for _ in range(2000)]
    assert loader._shared_executor._executor.state.arena.leased > 1500 * 2048
    for k, batch in enumerate(kept):
        assert (batch["x"] == np.arange(4 * k, 4 * k + 4)[:, None]).all(), k
print("all kept")
"""


@pytest.mark.slow
def test_two_thousand_batches_are_kept_with_few_descriptors(tmp_path):
    """Under `ulimit -n 256`: a batch costs no descriptor."""
    assert run(tmp_path, MANY) == "all kept\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("operations", [(row, lk.Batch(8)), (row,), (lambda x: {"b": b"x" * x}, lk.Batch(8))])
@pytest.mark.parametrize("budget", [0, 20_000])
def test_above_the_budget_batches_are_copied_out(kind, operations, budget):
    """All of them kept: the content is right, nothing waits forever, and no more than the budget is leased."""
    with numbers(400, *operations, worker_count=1, worker_kind=kind, max_memory=budget) as loader:
        kept = list(loader)
        assert executor_of(loader).state.arena.leased <= budget
        assert all_same(kept, list(numbers(400, *operations)))


def test_what_cannot_fit_is_an_error_that_says_what_was_asked_and_what_is_left():
    """Before the kernel would kill a process: none of its pages was touched. The loader goes on with what fits."""
    left = available_memory()
    if left is None:
        pytest.skip("this system doesn't say how much memory is available")

    def huge(x: int) -> Any:
        # Twice of it, never written to: whatever others give back meanwhile, it doesn't fit.
        return [np.zeros(left // 4, np.uint8) for _ in range(8)] if x == 5 else x

    with numbers(10, huge, worker_count=1, task_rows=1) as loader:
        it = iter(loader)
        assert [next(it) for _ in range(5)] == [*range(5)]
        with pytest.raises(
            lk.errors.ArenaMemoryError, match=r"expected [\d,]+ bytes more .* got [\d,]+ available"
        ) as error:
            next(it)
        assert "prefetch_batches" in str(error.value)
        assert isinstance(error.value, MemoryError)
        it.seek(6)
        assert [*it] == [6, 7, 8, 9]


def test_a_lease_outlives_its_arena_and_leaves_nothing():
    """Closing lets go of the memory; what is leased stays readable until it goes."""
    from loaderkit._engine.slots import Slots

    arena = Arena()
    slots = Slots(arena.extend)
    slot = slots.alloc(100)
    token = arena.lease(slot)
    early = arena.lease(slots.alloc(100))
    memoryview(token)[:3] = b"abc"
    del early
    arena.close()
    arena.close()
    assert bytes(token[:3]) == b"abc"
    assert arena.expired() == []
    del token
    assert arena.expired() == []
