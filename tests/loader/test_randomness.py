"""A draw is a function of the seed, the operation and the element's place in the stream, and of nothing else."""

import random
import subprocess
import sys
import types
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import variant_of
from pipelines import Pipeline, Running, Step, batch_steps
from stream_twin import outcomes, rng_of

import loaderkit as lk

SEED = 5


def state_of(rng: np.random.Generator) -> str:
    """All of a generator's state, as one value."""
    state = rng.bit_generator.state
    return repr([state[name] for name in sorted(state)])


def raw(_: Any, rng: np.random.Generator) -> int:
    return int(rng.bit_generator.random_raw()) >> 1  # an int64, so that a batch of them is one too


def drawn(operations: list[Any], *, count: int = 8, seed: int = SEED, **options: Any) -> list[Any]:
    sampler = lk.IndexSampler(count, num_epochs=2, seed=seed)
    return list(lk.DataLoader(data_source=range(count), sampler=sampler, operations=operations, **options))


@given(st.data())
def test_no_two_draws_share_a_state(data):
    """Of all (element, RandomMap) pairs of a stream no two get a generator in the same state."""
    seen: list[str] = []

    def note(element: Any, rng: np.random.Generator) -> Any:
        seen.append(state_of(rng))
        rng.integers(2, size=data_size, dtype=np.uint32)  # may leave half a word behind, which none must find
        return element

    data_size = data.draw(st.integers(0, 3))
    others = st.builds(Step, st.sampled_from(["index", "wrap", "filter", "fan"]), st.integers(1, 3))
    operations: list[Any] = []
    for step in data.draw(st.lists(others | batch_steps(last=False), max_size=4)):
        operations += [lk.RandomMap(note)] * data.draw(st.integers(0, 2)) + [step.make()]
    pipeline = Pipeline("arrays", 20, True, 3, ())
    loader = lk.DataLoader(
        data_source=pipeline.source, sampler=pipeline.sampler, operations=[*operations, lk.RandomMap(note)]
    )
    task_rows = data.draw(st.sampled_from([None, 4]))
    outcomes(iter(variant_of(loader, task_rows=task_rows)))
    assert not [state for state, times in Counter(seen).items() if times > 1]


def test_generators_are_the_documented_ones():
    """Philox with key (fold(seed, ordinal), index) and counter (0, 0, 0, child), in its first state."""
    seen: list[tuple[Any, str]] = []

    def note(element: Any, rng: np.random.Generator) -> Any:
        seen.append((element, state_of(rng)))
        rng.integers(2, dtype=np.uint32)
        return element

    drawn(
        [
            lk.MapWithIndex(lambda index, _: (index,)),
            lk.RandomMap(note),
            lk.FlatMap(lambda begin: [(*begin, k) for k in range(2)]),
            lk.RandomMap(note),
            lk.FlatMap(lambda begin: [(*begin, k) for k in range(3)]),
            lk.RandomMap(note),
        ]
    )
    assert len(seen) == 16 * (1 + 2 + 6)
    for begin, state in seen:
        assert state == state_of(rng_of(SEED, len(begin) - 1, begin))


def test_a_batch_draws_as_its_first_row():
    """Behind a Batch the generator is that of the first row's place."""
    batches = drawn([lk.Batch(3), lk.RandomMap(lambda rows, rng: (rows.tolist(), raw(None, rng)))])
    assert [rows for rows, _ in batches][:2] == [[0, 1, 2], [3, 4, 5]]
    for place, (_, draw) in enumerate(batches):
        assert draw == raw(None, rng_of(SEED, 0, (3 * place,)))


def test_a_sampler_shows_the_first_operations_generator():
    """sampler[i].rng and records(step) give the generator of the first RandomMap, in its first state."""
    sampler = lk.IndexSampler(8, num_epochs=2, seed=SEED)
    loader = lk.DataLoader(data_source=range(8), sampler=sampler, operations=[lk.RandomMap(raw), lk.Batch(4)])
    for step, batch in enumerate(loader):
        shown = [raw(None, metadata.rng) for metadata in loader.records(step)]
        assert batch.tolist() == shown == [raw(None, sampler[4 * step + row].rng) for row in range(4)]


def test_what_stands_around_a_draw_doesnt_change_it():
    """Maps, Filters and Batches before or behind, and the shards, leave a record's draw as it is."""
    plain = drawn([lk.RandomMap(raw)])
    assert len(set(plain)) == 16
    assert drawn([lk.MapWithIndex(lambda index, _: index), abs, lk.RandomMap(raw)]) == plain
    assert drawn([lk.Filter(lambda key: key % 2), lk.RandomMap(raw)]) == plain[1::2]
    for size in (1, 3, 16):
        assert np.concatenate(drawn([lk.RandomMap(raw), lk.Batch(size)])).tolist() == plain
    halves = [drawn([lk.RandomMap(raw), lk.Batch(2)], shard_options=lk.ShardOptions(h, 2)) for h in (0, 1)]
    assert np.concatenate([row for pair in zip(*halves, strict=True) for row in pair]).tolist() == plain


def test_seeds_and_operations_draw_apart():
    """Another seed, another epoch and another RandomMap draw other numbers."""
    both = [
        lk.RandomMap(lambda _, rng: (raw(None, rng),)),
        lk.RandomMap(lambda draws, rng: (*draws, raw(None, rng))),
    ]
    numbers = [number for seed in (0, 1, 2) for pair in drawn(both, seed=seed) for number in pair]
    assert len(set(numbers)) == len(numbers) == 3 * 2 * 16


def test_a_generator_cant_spawn():
    """spawn would depend on what the worker did before, so it is refused."""
    with pytest.raises(TypeError):
        drawn([lk.RandomMap(lambda _, rng: rng.spawn(1))])


def global_draws(element: Any) -> tuple[Any, float, float]:
    return element, random.random(), float(np.random.random())


@pytest.mark.slow
def test_seeded_globals_are_a_function_of_the_record():
    """What a function draws from random and numpy.random is the same in every process, and another for each record."""
    pipeline = Pipeline("numbers", 12, True, 2, (Step("draw_globally", 10**6), Step("draw_globally", 10**6)))
    inline, again, apart = (
        list(iter(running.loader(pipeline)))
        for running in (Running(), Running(task_rows=3), Running(2, "process"))
    )
    assert inline == again == apart
    assert len(set(inline)) == 24


def test_the_trainers_own_generators_are_left_alone():
    """The loop's own draws are the same with and without a loader that seeds the global generators, errors included."""

    def draws(loader: Any) -> list[float]:
        random.seed(1)
        np.random.seed(1)
        numbers = []
        for _ in range(3):
            outcomes(loader, 1)
            numbers += [random.random(), float(np.random.random()), float(np.random.standard_normal())]
        return numbers

    def fail(element: Any) -> Any:
        global_draws(element)
        raise ZeroDivisionError

    alone = draws(iter([1, 2, 3]))
    for function in (global_draws, fail):
        sampler = lk.IndexSampler(8, seed=SEED)
        operations = [lk.transforms.Seeded(function)]
        assert (
            draws(iter(lk.DataLoader(data_source=range(8), sampler=sampler, operations=operations))) == alone
        )


TORCH = """
import torch
import loaderkit as lk

def draw(element):
    return element, float(torch.rand(()))

def draws():
    sampler = lk.IndexSampler(6, num_epochs=1, seed=3)
    return list(lk.DataLoader(data_source=range(6), sampler=sampler, operations=[lk.transforms.Seeded(draw)]))

torch.manual_seed(1)
expected = [float(torch.rand(())), float(torch.rand(()))]
torch.manual_seed(1)
first, one, second, two = draws(), float(torch.rand(())), draws(), float(torch.rand(()))
assert first == second and len(set(first)) == 6, (first, second)
assert [one, two] == expected, (one, two, expected)
"""


@pytest.mark.slow
@pytest.mark.torch
def test_torch_is_seeded_where_it_is_imported():
    """The same for torch's generator, in a process of its own: once imported, it is seeded around every such call."""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-W", "ignore", "-c", TORCH], check=True, timeout=120)


def test_a_library_of_torchs_interface_is_seeded_where_it_is_imported(monkeypatch):
    """The same by a stand-in, wherever PyTorch isn't installed: its generator is seeded, and comes back as it was."""
    generator = random.Random(1)
    stand_in = types.ModuleType("torch")
    stand_in.random = types.SimpleNamespace(
        get_rng_state=generator.getstate,
        set_rng_state=generator.setstate,
        default_generator=types.SimpleNamespace(manual_seed=generator.seed),
    )
    monkeypatch.setitem(sys.modules, "torch", stand_in)

    def draws() -> list[float]:
        operations = [lk.transforms.Seeded(lambda _: generator.random())]
        sampler = lk.IndexSampler(6, num_epochs=1, seed=3)
        return list(lk.DataLoader(data_source=range(6), sampler=sampler, operations=operations))

    first, one, second, two = draws(), generator.random(), draws(), generator.random()
    assert first == second and len(set(first)) == 6
    alone = random.Random(1)
    assert [one, two] == [alone.random(), alone.random()]
