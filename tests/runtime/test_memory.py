"""A long run needs no more memory, descriptors or mappings at its end than at its beginning."""

import gc
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from internals import executor_of, worker_pids
from runtime_loaders import numbers, same

import loaderkit as lk
from loaderkit._base.structure import structure_of
from loaderkit._engine.scheduler import AHEAD_NBYTES
from loaderkit._engine.task import MakeBatch, Span
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._runtime.transport import layout_numbers
from loaderkit.transforms.stack import LeafSpec, RowSpec

# The nightly profile tries many more examples; here it means many more batches.
STEPS = 100_000 if settings().max_examples > 1000 else 3_000
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Footprint:
    """What a process takes of the machine."""

    own: int  # bytes of its own: what is shared with the others is the arena, a few segments of known size
    descriptors: int
    mappings: int


def footprint(pid: int) -> Footprint:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss_Anon:"))
    mappings = Path(f"/proc/{pid}/maps").read_bytes().count(b"memfd:loaderkit")
    return Footprint(own, len(os.listdir(f"/proc/{pid}/fd")), mappings)


def in_place(x: int) -> dict[str, np.ndarray]:
    return {"x": np.full(256, x, np.float32)}


def travelling(x: int) -> dict[str, object]:
    return {"x": np.full(1000 + x % 7, x, np.float32), "text": f"record {x}"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("operations", [(in_place, lk.Batch(4)), (travelling,)], ids=["batches", "elements"])
def test_memory_is_flat(kind, operations):
    """In the trainer and in each worker, from the first quarter of the run to its end."""
    loader = numbers(10**9, *operations, worker_count=2, worker_kind=kind)
    with loader, iter(loader) as it:
        for _ in range(STEPS // 4):
            next(it)
        workers = worker_pids(loader) if kind == "process" else []
        # A worker maps the arena when it first works; on a busy machine the other one may have done all so far.
        while not all(footprint(pid).mappings for pid in workers):
            next(it)
        gc.collect()
        pids = [os.getpid(), *workers]
        before = [footprint(pid) for pid in pids]
        for _ in range(STEPS - STEPS // 4):
            next(it)
        gc.collect()
        after = [footprint(pid) for pid in pids]
        assert executor_of(loader).state.arena.nbytes < 256 * MEGABYTE
    assert len(pids) == (3 if kind == "process" else 1)
    for early, late in zip(before, after, strict=True):
        # What is made ahead takes more or less of that at any time. A leak of a kilobyte a batch shows at night.
        assert late.own - early.own < AHEAD_NBYTES + 16 * MEGABYTE
        # One descriptor and one mapping a segment, of which there are few; thousands of batches that leaked are more.
        assert late.descriptors <= early.descriptors + 3
        assert late.mappings <= early.mappings + 3


class Pages:
    """Large rows that cost next to nothing."""

    def __init__(self) -> None:
        self.page = np.zeros(MEGABYTE, np.uint8)

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, key: int) -> np.ndarray:
        return self.page


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_batches_made_ahead_are_bounded_by_their_bytes_however_fast_they_are_made(kind):
    loader = lk.DataLoader(
        data_source=Pages(),
        sampler=lk.SequentialSampler(10**6),
        operations=[lk.Batch(8)],
        worker_count=2,
        worker_kind=kind,
    )
    with loader, iter(loader) as it:
        for _ in range(100):
            next(it)
        (scheduler,) = executor_of(loader)._dispatcher._streams.values()
        ahead = []
        for _ in range(200):
            next(it)
            ahead.append(scheduler._window.ahead)
        assert 8 * MEGABYTE * max(ahead) <= AHEAD_NBYTES


def ragged(x: int) -> dict[str, np.ndarray]:
    """Rows whose shape is that of no other four batches."""
    shape = x // 16
    return {"x": np.full((shape % 50 + 1, shape // 50 + 1), x, np.int32), "key": np.int64(x)}


@pytest.mark.slow
def test_batches_of_ever_new_shapes_need_no_more_memory(monkeypatch):
    """Trainer and worker keep a bounded number of layouts, and forget the same ones: the batches are right."""
    monkeypatch.setattr(layout_numbers, "_MOST_LAYOUTS", 4)
    count = 16 * 100
    expected = numbers(count, ragged, lk.Batch(4))
    loader = numbers(count, ragged, lk.Batch(4), worker_count=1)
    known = []
    with loader, iter(loader) as it:
        for batch, other in zip(it, expected, strict=True):
            assert same(batch, other)
            (worker,) = executor_of(loader)._supervisor.workers.values()
            known.append(len(worker._layouts))
    assert max(known) == known[-1] == layout_numbers._MOST_LAYOUTS
    assert sorted(worker._layouts.values()) == [*range(known[-1])]


def test_a_layout_that_a_task_needs_is_not_forgotten_for_another_one(monkeypatch):
    """Of a task with more layouts than are kept all have a number of their own."""
    monkeypatch.setattr(layout_numbers, "_MOST_LAYOUTS", 2)
    layouts = [BatchLayout(RowSpec(structure_of(0), (LeafSpec((k,), np.dtype(np.int8)),))) for k in range(6)]
    known = layout_numbers.LayoutNumbers()

    def give(*needed: BatchLayout) -> list[int]:
        inputs = tuple(Span(0, 0, 0, 1, None, 1, layout) for layout in needed)
        task = MakeBatch(0, 1, np.empty(0, np.int64), inputs, ())
        known.tell(task)
        return [known[layout] for layout in needed]

    assert give(*layouts[:4]) == [0, 1, 2, 3]
    assert give(layouts[4], layouts[1]) == [0, 1]
    assert give(layouts[5]) == [1]
