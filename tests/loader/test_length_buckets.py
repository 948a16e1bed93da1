"""Batches of like lengths: one stream for any hosts and workers, of the planned shapes, saved and restored anywhere."""

from typing import Any

import numpy as np
import pytest
from hosts import joined, shards, take, together

import loaderkit as lk
from loaderkit.testing import check_pipeline

BOUNDS = [4, 8, 16]
LENGTHS = np.random.default_rng(5).integers(0, 17, 101)
DOCUMENTS = [
    {"tokens": np.arange(length, dtype=np.int32) + 100 * key, "key": key}
    for key, length in enumerate(LENGTHS)
]


def sampler_of(**how: Any) -> lk.samplers.LengthBucketSampler:
    given = {"batch_sizes": [12, 12, 6], "seed": 0, "num_epochs": 2, "shuffle": True, **how}
    return lk.samplers.LengthBucketSampler(LENGTHS, BOUNDS, 12, **given)


def make(
    sampler: Any = None, remainder: str = "pad", before: Any = (), **running: Any
) -> "lk.DataLoader[Any]":
    batch = lk.PadBatch(
        global_batch_size=12,
        boundaries={"tokens": BOUNDS},
        padding_values={"tokens": -1},
        mask={"tokens": "mask"},
        remainder=remainder,
    )
    return lk.DataLoader(
        data_source=DOCUMENTS, sampler=sampler or sampler_of(), operations=[*before, batch], **running
    )


def image(batch: Any) -> Any:
    return {name: (leaf.dtype.str, leaf.shape, leaf.tobytes()) for name, leaf in batch.items()}


def images(loader: "lk.DataLoader[Any]", most: int | None = None) -> list[Any]:
    with loader, iter(loader) as it:
        return [image(batch) for batch in take(it, most)]


def test_batches_are_the_records_padded_as_planned() -> None:
    """Beside a loop over the sampler's keys; each record once in each epoch."""
    sampler = sampler_of()
    firsts = np.arange(0, len(sampler), 12)
    batches = list(make(sampler, "keep"))
    assert len(batches) == len(firsts) == len(make(sampler, "keep"))
    for first, shape, rows, batch in zip(
        firsts, sampler.shapes(firsts), sampler.rows_of(firsts), batches, strict=True
    ):
        keys = sampler.record_keys(np.arange(first, first + rows))
        expected = np.full((rows, BOUNDS[shape]), -1, np.int32)
        for row, key in enumerate(keys):
            expected[row, : LENGTHS[key]] = DOCUMENTS[key]["tokens"]
        assert batch["key"].tolist() == keys.tolist()
        assert np.array_equal(batch["tokens"], expected) and batch["tokens"].dtype == np.int32
        assert np.array_equal(batch["mask"], np.arange(BOUNDS[shape]) < LENGTHS[keys][:, None])
    seen = [key for batch in batches for key in batch["key"].tolist()]
    assert sorted(seen[: len(seen) // 2]) == sorted(seen[len(seen) // 2 :]) == list(range(101))


@pytest.mark.parametrize("kind", ["thread", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("remainder", ["keep", "pad", "wrap"])
def test_workers_change_nothing(kind: str, remainder: str) -> None:
    expected = images(make(remainder=remainder))
    for workers in (1, 3):
        assert images(make(remainder=remainder, worker_count=workers, worker_kind=kind)) == expected


def test_processes_change_nothing() -> None:
    assert images(make(worker_count=2, verify=True)) == images(make())


@pytest.mark.parametrize("remainder", ["pad", "wrap"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_hosts_make_the_same_global_batches(remainder: str, count: int) -> None:
    sampler = sampler_of(batch_sizes=[12, 12, 12 if count == 4 else 6])
    expected = images(make(sampler, remainder))
    own_shards = shards(count)

    def work(host: int) -> list[Any]:
        running = {"worker_count": host % 2, "worker_kind": "thread"}
        own = make(sampler, remainder, shard_options=own_shards[host], **running)
        with own, iter(own) as it:
            return take(it, None)

    parts = together(work, count)
    assert [image(joined([*step])) for step in zip(*parts, strict=True)] == expected
    assert all(len({part["tokens"].shape for part in step}) == 1 for step in zip(*parts, strict=True))


def test_padded_and_wrapped_rows_stay_within_the_step() -> None:
    sampler = sampler_of()
    last = len(sampler) // 2 // 12 - 1  # of the first epoch
    rows = int(sampler.rows_of([12 * last])[0])
    assert 0 < rows < 6
    kept, padded, wrapped = (list(make(remainder=how))[last] for how in ("keep", "pad", "wrap"))
    assert len(kept["key"]) == rows and len(padded["key"]) == len(wrapped["key"]) == 6
    assert padded["valid"].tolist() == [True] * rows + [False] * (6 - rows)
    assert not padded["mask"][rows:].any() and not padded["tokens"][rows:].any()
    assert wrapped["key"].tolist() == (kept["key"].tolist() * 6)[:6]


def test_a_state_of_each_step_restores_anywhere() -> None:
    expected = images(make())
    with make() as loader, iter(loader) as it:
        states = [it.get_state(), *(it.get_state() for _ in it)]
    assert len(states) == len(expected) + 1
    for step, state in enumerate(states):
        workers = step % 3 if step % 5 == 0 else 0
        with make(worker_count=workers, worker_kind="thread") as loader, iter(loader) as it:
            it.set_state(state)
            assert it.step == step
            assert [image(batch) for batch in take(it, 2)] == expected[step : step + 2]
    other = make(sampler_of(seed=1))
    with pytest.raises(lk.CheckpointMismatchError, match=r"sampler\.seed"):
        iter(other).set_state(states[3])


def test_seek_skip_records_and_epochs() -> None:
    endless = sampler_of(num_epochs=None)
    expected = images(make())
    with make(endless) as loader, iter(loader) as it:
        it.seek(9)
        assert image(next(it)) == expected[9]
        it.skip(3)
        assert image(next(it)) == expected[13]
        it.seek(10**9)
        far = next(it)
        real = far["valid"] if "valid" in far else np.ones(len(far["key"]), bool)
        assert [m.record_key for m in it.records(10**9)] == far["key"][real].tolist()
        assert it.epoch == it.index // endless.epoch_length
    half = len(expected) // 2
    assert images(make(sampler_of(num_epochs=1)).epoch(1)) == expected[half:]
    assert images(make(endless).epoch(0)) == expected[:half]


def test_the_records_of_a_step() -> None:
    loader = make(remainder="keep")
    for step, batch in enumerate(loader):
        assert [metadata.record_key for metadata in loader.records(step)] == batch["key"].tolist()


def test_a_bad_record_is_replaced_by_one_of_its_step() -> None:
    class Broken:
        def __len__(self) -> int:
            return 101

        def __getitem__(self, key: int) -> Any:
            if key % 10 == 3:
                raise OSError(key)
            return DOCUMENTS[key]

    batch = lk.PadBatch(global_batch_size=12, boundaries={"tokens": BOUNDS}, remainder="keep")

    def lossy(**running: Any) -> lk.DataLoader[Any]:
        return lk.DataLoader(
            data_source=Broken(),
            sampler=sampler_of(),
            operations=[batch],
            on_record_error="replace",
            **running,
        )

    expected = images(lossy())
    assert images(lossy(worker_count=2, worker_kind="thread")) == expected
    for step, (got, planned) in enumerate(zip(lossy(), make(remainder="keep"), strict=True)):
        assert got["tokens"].shape == planned["tokens"].shape
        assert set(got["key"].tolist()) <= set(planned["key"].tolist()), step


def test_other_operations_and_batches() -> None:
    class Cut(lk.RandomMap):
        def random_map(self, element: Any, rng: np.random.Generator) -> Any:
            return {**element, "tokens": element["tokens"][: rng.integers(0, 17)]}

    check_pipeline(make(before=[Cut()]), batches=4)
    plain = lk.DataLoader(
        data_source=DOCUMENTS,
        sampler=sampler_of(),
        operations=[lambda row: row["key"], lk.Batch(global_batch_size=12)],
    )
    assert [batch.tolist() for batch in plain] == [batch["key"].tolist() for batch in make(remainder="keep")]
    after = make().epoch(0)
    doubled = make(before=(), num_steps=3)
    assert len(images(doubled)) == 3 and len(images(after)) == len(images(make())) // 2


def test_batches_of_each_shape_are_written_in_place() -> None:
    """Once each shape was seen, no batch is gathered from outputs: the leaves are views of shared memory.

    Some hundred batches are begun before the first of each shape is seen.
    """
    with make(sampler_of(num_epochs=100), worker_count=1, worker_kind="thread") as loader, iter(loader) as it:
        batches = take(it, None)
    late = batches[-300:]
    in_place = [
        batch["tokens"].base is not None for batch in late if "valid" not in batch or batch["valid"].all()
    ]
    assert np.mean(in_place) > 0.9


def test_one_boundary_needs_no_sampler() -> None:
    def loader(**running: Any) -> lk.DataLoader[Any]:
        return lk.DataLoader(
            data_source=DOCUMENTS,
            sampler=lk.IndexSampler(101, shuffle=True, seed=0, num_epochs=1),
            operations=[lk.PadBatch(global_batch_size=4, boundaries={"tokens": [16]}, remainder="pad")],
            **running,
        )

    expected = images(loader())
    assert {leaf[1] for batch in expected for name, leaf in batch.items() if name == "tokens"} == {(4, 16)}
    assert images(loader(worker_count=2, worker_kind="thread")) == expected
    parts = [list(loader(shard_options=lk.ShardOptions(h, 2))) for h in range(2)]
    assert [image(joined([*step])) for step in zip(*parts, strict=True)] == expected


def test_without_a_plan_a_batch_takes_the_smallest_boundary() -> None:
    def loader(*before: Any, **running: Any) -> lk.DataLoader[Any]:
        return lk.DataLoader(
            data_source=DOCUMENTS,
            sampler=lk.SequentialSampler(101),
            operations=[*before, lk.PadBatch(3, boundaries={"tokens": BOUNDS}, mask={"tokens": "mask"})],
            **running,
        )

    def check(batches: list[Any], keys: list[int]) -> None:
        assert [key for batch in batches for key in batch["key"].tolist()] == keys
        for batch in batches:
            longest = LENGTHS[batch["key"]].max()
            assert batch["tokens"].shape[1] == min(bound for bound in BOUNDS if bound >= longest)
            assert batch["mask"].sum(axis=1).tolist() == LENGTHS[batch["key"]].tolist()

    odd = lk.Filter(lambda row: row["key"] % 2)
    for before, keys in (((), range(101)), ((odd,), range(1, 101, 2))):
        check(list(loader(*before)), [*keys])
        assert images(loader(*before, worker_count=2, worker_kind="thread")) == images(loader(*before))


def test_combinations_that_are_refused() -> None:
    with pytest.raises(
        ValueError, match="operations: expected none that changes the number of rows with a LengthB"
    ):
        make(before=[lk.Filter(lambda row: True)])
    with pytest.raises(ValueError, match="got skipped bad records; leave the records out"):
        make(on_record_error="skip")
    with pytest.raises(
        ValueError, match=r"remainder: expected 'keep', 'pad' or 'wrap' with a LengthBucketSampler"
    ):
        make(remainder="drop")
    with pytest.raises(
        ValueError, match=r"operations: expected one Batch, of global_batch_size=8 as LengthBucket"
    ):
        make(lk.samplers.LengthBucketSampler(LENGTHS, BOUNDS, 8, shuffle=True, seed=0))
    with pytest.raises(
        ValueError, match="boundaries: expected 2 for each leaf, one for each bucket of LengthBucket"
    ):
        make(lk.samplers.LengthBucketSampler(LENGTHS, [8, 16], 12, shuffle=True, seed=0))
    with pytest.raises(
        ValueError, match=r"boundaries: expected one of each leaf, or a sampler that says the shape"
    ):
        iter(make(lk.IndexSampler(101, num_epochs=1), shard_options=lk.ShardOptions(0, 2)))
    with pytest.raises(ValueError, match="batch_sizes: expected multiples of 4, the number of shards, got 6"):
        iter(make(shard_options=lk.ShardOptions(0, 4)))
    with pytest.raises(
        ValueError, match="remainder: expected 'pad' or 'wrap', as the last step of each epoch has"
    ):
        iter(make(remainder="keep", shard_options=lk.ShardOptions(0, 6)))
    with pytest.raises(ValueError, match="expected num_records of at most 50"):
        lk.DataLoader(
            data_source=DOCUMENTS[:50], sampler=sampler_of(), operations=[lk.Batch(global_batch_size=12)]
        )


def test_a_row_that_is_longer_than_planned_is_named() -> None:
    longer = [{**row, "tokens": np.zeros(len(row["tokens"]) + 9 * (row["key"] == 7))} for row in DOCUMENTS]
    for workers in (0, 2):
        batch = lk.PadBatch(global_batch_size=12, boundaries={"tokens": BOUNDS})
        loader = lk.DataLoader(
            data_source=longer,
            sampler=sampler_of(),
            operations=[batch],
            worker_count=workers,
            worker_kind="thread",
        )
        expected = next(
            step for step in range(100) if any(record.record_key == 7 for record in loader.records(step))
        )
        with loader, iter(loader) as it:
            assert len(take_until_error(it)) == expected


def take_until_error(it: Any) -> list[Any]:
    taken: list[Any] = []
    with pytest.raises(
        ValueError, match=r"leaf 'tokens': expected a length of at most .* of bucket"
    ) as caught:
        taken.extend(it)
    assert any("record_key 7" in note for note in caught.value.__notes__)
    return taken


def test_drop_remainder_of_the_sampler() -> None:
    batches = list(make(sampler_of(drop_remainder=True), "keep"))
    assert all(len(batch["key"]) == (6 if batch["tokens"].shape[1] == 16 else 12) for batch in batches)


def test_a_far_step_is_restored() -> None:
    """A state of step 10**9 is as small as any, and restores into other workers."""
    with make(sampler_of(num_epochs=None)) as loader, iter(loader) as it:
        it.seek(10**9)
        state = it.get_state()
        expected = image(next(it))
        assert len(state) < 4000
    with (
        make(sampler_of(num_epochs=None), worker_count=2, worker_kind="thread") as loader,
        iter(loader) as it,
    ):
        it.set_state(state)
        assert it.step == 10**9 and image(next(it)) == expected
