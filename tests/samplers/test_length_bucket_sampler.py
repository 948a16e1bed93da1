"""LengthBucketSampler beside a naive twin: each record once in every epoch, pure steps, few shapes."""

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.length_buckets import LengthBuckets
from loaderkit._order.mixing import fold
from loaderkit._order.permutation import Permutation
from loaderkit.testing import check_sampler

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=40)
BOUNDS = [3, 5, 9]


def twin(
    lengths: list[int], sizes: list[int], seed: int | None, epoch: int, *, drop: bool = False
) -> list[tuple[int, list[int]]]:
    """The steps of an epoch, (bucket, record keys) each: buckets one after the other, leftovers carried up."""
    whole: list[tuple[int, list[int]]] = []
    carried: list[int] = []
    last = max(np.searchsorted(BOUNDS, lengths).tolist())
    for bucket in range(last + 1):
        own = [key for key, length in enumerate(lengths) if np.searchsorted(BOUNDS, length) == bucket]
        if seed is not None and own:
            order = Permutation(len(own), fold(seed, epoch, bucket + 1))(np.arange(len(own)))
            own = [own[place] for place in order.tolist()]
        carried += own
        while len(carried) >= sizes[bucket]:
            whole.append((bucket, carried[: sizes[bucket]]))
            carried = carried[sizes[bucket] :]
    if seed is not None and whole:
        order = Permutation(len(whole), fold(seed, epoch, 0))(np.arange(len(whole)))
        whole = [whole[place] for place in order.tolist()]
    return [*whole, *([(last, carried)] if carried and not drop else [])]


@given(
    LENGTHS, st.lists(st.integers(1, 6), min_size=3, max_size=3), st.none() | st.integers(0, 9), st.booleans()
)
def test_the_twin_has_the_same_steps_in_every_epoch(
    lengths: list[int], sizes: list[int], seed: int | None, drop: bool
) -> None:
    epochs = [twin(lengths, sizes, seed, epoch, drop=drop) for epoch in range(3)]
    n = max(sizes)
    kwargs: dict[str, Any] = {"batch_sizes": sizes, "seed": seed, "shuffle": seed is not None}
    if not epochs[0]:
        with pytest.raises(ValueError, match="drop_remainder"):
            lk.samplers.LengthBucketSampler(lengths, BOUNDS, n, drop_remainder=drop, **kwargs)
        return
    sampler = lk.samplers.LengthBucketSampler(lengths, BOUNDS, n, drop_remainder=drop, num_epochs=3, **kwargs)
    steps = [step for epoch in epochs for step in epoch]
    assert sampler.epoch_length == len(epochs[0]) * n and len(sampler) == len(steps) * n
    firsts = np.arange(len(steps)) * n
    assert sampler.shapes(firsts).tolist() == [bucket for bucket, _ in steps]
    assert sampler.rows_of(firsts).tolist() == [len(keys) for _, keys in steps]
    keys = sampler.record_keys(np.arange(len(sampler))).reshape(len(steps), n)
    assert [row[: len(keys)].tolist() for row, (_, keys) in zip(keys, steps, strict=True)] == [
        k for _, k in steps
    ]
    for row, (_, used) in zip(keys, steps, strict=True):
        assert set(row.tolist()) <= set(used)  # unused indices give records of their step
    if not drop:
        for epoch in epochs:
            assert sorted(key for _, keys in epoch for key in keys) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 8), st.integers(0, 2**64 - 1), st.data())
def test_any_indices_in_any_order_are_those_of_the_sequence(
    lengths: list[int], n: int, seed: int, data: st.DataObject
) -> None:
    sampler = lk.samplers.LengthBucketSampler(lengths, BOUNDS, n, shuffle=True, seed=seed)
    sequence = sampler.record_keys(np.arange(3 * sampler.epoch_length))
    some = data.draw(st.lists(st.integers(0, len(sequence) - 1), max_size=20))
    assert sampler.record_keys(np.array(some, np.int64)).tolist() == sequence[some].tolist()
    assert [sampler[index].record_key for index in some] == sequence[some].tolist()


def test_fill_and_purity_hold_in_every_epoch() -> None:
    """The best fill for these boundaries has each record padded to its own bucket's."""
    lengths = np.clip(np.random.default_rng(0).lognormal(6, 1, 40_000), 1, 4096).astype(np.int64)
    bounds = np.array([128, 256, 512, 1024, 2048, 4096])
    sampler = lk.samplers.LengthBucketSampler(lengths, bounds.tolist(), 64, shuffle=True, seed=1)
    best = lengths.sum() / bounds[np.searchsorted(bounds, lengths)].sum()
    for epoch in (0, 1, 7, 10**9):
        indices = np.arange(epoch * sampler.epoch_length, (epoch + 1) * sampler.epoch_length)
        firsts = indices[::64]
        shapes, rows = sampler.shapes(firsts), sampler.rows_of(firsts)
        used = np.arange(64) < rows[:, None]
        keys = sampler.record_keys(indices).reshape(-1, 64)
        assert np.array_equal(np.sort(keys[used]), np.arange(len(lengths)))
        own = np.searchsorted(bounds, lengths[keys])
        assert (own <= shapes[:, None]).all()
        assert np.mean((own == shapes[:, None]).all(axis=1)) > 1 - 6 / len(firsts)
        assert lengths.sum() / (bounds[shapes] * rows).sum() >= 0.98 * best


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    lengths = np.arange(4000) % 10
    orders = [
        lk.samplers.LengthBucketSampler(lengths, BOUNDS, 8, shuffle=True, seed=seed)
        .record_keys(np.arange(4000) + epoch * 4000)
        .tolist()
        for seed in (0, 1)
        for epoch in (0, 1)
    ]
    assert all(one != other for place, one in enumerate(orders) for other in orders[:place])


def test_check_sampler_and_copies() -> None:
    sampler = lk.samplers.LengthBucketSampler(
        [3, 9, 2, 8, 4, 7, 1], BOUNDS, 4, shuffle=True, seed=3, num_epochs=4
    )
    check_sampler(sampler, num_records=7, progress=False)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler and hash(copy) == hash(sampler) and repr(copy) == repr(sampler)
    assert copy.record_keys(range(28)).tolist() == sampler.record_keys(range(28)).tolist()
    assert sampler.endless().record_keys(range(32)).tolist()[:28] == sampler.record_keys(range(28)).tolist()
    others = [
        lk.samplers.LengthBucketSampler([3, 9, 2, 8, 4, 7, 2], BOUNDS, 4, shuffle=True, seed=3, num_epochs=4),
        lk.samplers.LengthBucketSampler([3, 9, 2, 8, 4, 7, 1], [4, 9], 4, shuffle=True, seed=3, num_epochs=4),
        lk.samplers.LengthBucketSampler([3, 9, 2, 8, 4, 7, 1], BOUNDS, 3, shuffle=True, seed=3, num_epochs=4),
        lk.samplers.LengthBucketSampler(
            [3, 9, 2, 8, 4, 7, 1], BOUNDS, 4, batch_sizes=[4, 2, 2], shuffle=True, seed=3, num_epochs=4
        ),
        lk.samplers.LengthBucketSampler([3, 9, 2, 8, 4, 7, 1], BOUNDS, 4, shuffle=True, seed=4, num_epochs=4),
    ]
    assert all(other.fingerprint() != sampler.fingerprint() and other != sampler for other in others)


def test_replacements_are_records_of_the_same_step() -> None:
    sampler = lk.samplers.LengthBucketSampler([3, 9, 2, 8, 4, 7, 1], BOUNDS, 4, shuffle=True, seed=3)
    for index in range(7):
        first = index // 4 * 4
        others = set(range(first, first + int(sampler.rows_of([first])[0]))) - {index}
        found = sampler.instead(index, 0, 16)
        assert set(found.tolist()) == others and len(found) == len(others)
        assert np.array_equal(np.concatenate([found[:1], sampler.instead(index, 1, 16)]), found)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            ([3, 11], BOUNDS, 4),
            "lengths: expected at most 9, the last boundary, got 11 of record 1; give a longer",
        ),
        (([3, -1], BOUNDS, 4), "lengths: expected 0 or more, got -1 of record 1"),
        (([], BOUNDS, 4), r"lengths: expected \(n,\) ints, one or more"),
        (([[1], [2, 3]], BOUNDS, 4), r"lengths: expected \(n,\) ints, one or more"),
        (([1.5], BOUNDS, 4), "lengths: expected ints, got an array of float64; give the lengths"),
        (([1], [5, 3], 4), r"boundaries: expected ascending lengths, got \(5, 3\); sort them"),
        (([1], [], 4), "boundaries: expected one or more, got none"),
        (([1], 9, 4), "boundaries: expected a list of ints, got 9"),
        (([1], BOUNDS, 0), "global_batch_size: expected an int from 1 to"),
    ],
)
def test_bad_arguments(given: tuple[Any, ...], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        lk.samplers.LengthBucketSampler(*given, shuffle=True, seed=0)


def test_bad_settings() -> None:
    def make(**how: Any) -> Any:
        return lk.samplers.LengthBucketSampler([1, 2], BOUNDS, 4, **{"shuffle": True, **how})

    with pytest.raises(ValueError, match="seed: expected an int, as shuffle=True needs a seed"):
        make()
    for sizes in ([4, 2], [2, 2, 2], [8, 4, 2]):
        with pytest.raises(
            ValueError, match="batch_sizes: expected 3 numbers of rows, one for each boundary"
        ):
            make(seed=0, batch_sizes=sizes)
    with pytest.raises(TypeError, match="shuffle: expected True or False"):
        make(shuffle=1)
    with pytest.raises(TypeError, match="shard_options: expected"):
        make(seed=0, shard_options=3)
    with pytest.raises(ValueError, match="first_indices: expected multiples of global_batch_size=4, got 2"):
        make(seed=0).shapes([0, 2])
    with pytest.raises(IndexError, match="index: expected an int from 0 to 3, got 4"):
        make(seed=0, num_epochs=1).rows_of([4])
    with pytest.raises(TypeError, match="is endless and has no length"):
        len(make(seed=0))


def test_boundaries_of_whole_batches_are_in_order() -> None:
    buckets = LengthBuckets(np.array([5, 0, 4]), np.array([2, 2, 2]), None)
    shapes, firsts, rows = buckets.batches(np.arange(buckets.steps), np.zeros(buckets.steps, np.int64))
    assert all(one + count == other for (one, count), (other, _) in pairwise(zip(firsts, rows, strict=True)))
    assert shapes.tolist() == [0, 0, 2, 2, 2]
