"""The sampler of weighted draws: its frequencies, its independence of what was asked before, what it refuses."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.mixing import fold, fold_each
from loaderkit.samplers import Sampler, WeightedSampler
from loaderkit.testing import check_sampler

weight_lists = st.lists(st.sampled_from([0, 1, 2.5, 1e-9, 1e9]), min_size=1, max_size=30).filter(any)
seeds = st.integers(0, (1 << 64) - 1)


def chi_square(counts, probabilities, draws):
    expected = np.asarray(probabilities) * draws
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "weights",
    [[1.0] * 200, [*range(1, 51)], [1e-3, 1, 30, 1, 1e-3] * 20, [0.5**place for place in range(8)]],
)
def test_frequencies_are_the_weights(weights, seed):
    """By Pearson's chi-square, also for pairs of draws; beyond 5 sigma one seed in 10**6 would be."""
    draws = 200_000
    keys = WeightedSampler(weights, seed=seed).record_keys(np.arange(draws))
    shares = np.array(weights) / sum(weights)
    n = len(shares)
    freedom = n - 1
    assert (
        abs(chi_square(np.bincount(keys, minlength=n), shares, draws) - freedom)
        < 5 * (2 * freedom) ** 0.5 + 10
    )
    # Of neighbours, whether their keys are odd.
    halves = np.arange(n) % 2
    upper = float(shares[halves == 1].sum())
    pairs = np.bincount(2 * halves[keys[:-1:2]] + halves[keys[1::2]], minlength=4)
    exact = np.outer([1 - upper, upper], [1 - upper, upper]).ravel()
    assert chi_square(pairs, exact, draws // 2) < 3 + 5 * 6**0.5 + 10


@given(weight_lists, seeds, st.lists(st.integers(0, (1 << 63) - 1), max_size=20))
def test_a_draw_is_a_function_of_seed_and_index(weights, seed, indices):
    """Many at once, one by one and in any order; a record of weight 0 never."""
    sampler = WeightedSampler(weights, seed=seed)
    got = sampler.record_keys(np.array(indices, np.int64))
    assert got.dtype == np.int64
    assert got.tolist() == [sampler[index].record_key for index in indices]
    words = [fold_each(fold(seed, key), np.array(indices, np.uint64)) for key in (1, 2)]
    assert got.tolist() == sampler.table.draw(*words).tolist()
    assert all(weights[key] for key in sampler.record_keys(np.arange(200)).tolist())


@given(weight_lists, seeds, st.none() | st.integers(1, 50))
def test_samplers_are_values(weights, seed, num_samples):
    """Equal when said alike, hashable, picklable, and unchangeable; the fingerprint differs where they do."""
    sampler = WeightedSampler(weights, seed=seed, num_samples=num_samples)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler == WeightedSampler(np.array(weights), seed=seed, num_samples=num_samples)
    assert hash(copy) == hash(sampler)
    assert isinstance(sampler, Sampler)
    assert (
        copy.record_keys(range(num_samples or 9)).tolist()
        == sampler.record_keys(range(num_samples or 9)).tolist()
    )
    with pytest.raises(AttributeError):
        sampler.seed = 3
    said = sampler.fingerprint()
    assert json.loads(json.dumps(said)) == said == copy.fingerprint()
    others = [
        WeightedSampler([*weights, 0], seed=seed, num_samples=num_samples),
        WeightedSampler([weights[0] + 1, *weights[1:]], seed=seed, num_samples=num_samples),
        WeightedSampler(weights, seed=seed ^ 1, num_samples=num_samples),
        WeightedSampler(weights, seed=seed, num_samples=(num_samples or 0) + 1),
    ]
    for other in others:
        assert other != sampler
        assert other.fingerprint() != said
    assert sampler != lk.IndexSampler(3)


def test_length_and_end():
    """num_samples indices, or without end."""
    sampler = WeightedSampler([1, 2], seed=0, num_samples=5)
    assert len(sampler) == len(list(sampler)) == 5
    with pytest.raises(IndexError, match="index: expected an int from 0 to 4, got 5, of WeightedSampler"):
        sampler[5]
    endless = WeightedSampler([1, 2], seed=0)
    assert endless
    with pytest.raises(
        TypeError, match=r"WeightedSampler\(2 weights, .* is endless and has no length; give num_samples"
    ):
        len(endless)


@pytest.mark.parametrize(
    ("weights", "error", "text"),
    [
        ([], ValueError, r"weights: expected 1 to 2\*\*32 - 1, got 0; give one finite weight"),
        (
            [1, -2, -3],
            ValueError,
            r"weights\[1\]: expected a finite number, 0 or more, got -2; .* never drawn",
        ),
        ([1, float("nan")], ValueError, r"weights\[1\]: expected a finite number, 0 or more, got nan"),
        ([float("inf")], ValueError, r"weights\[0\]: expected a finite number, 0 or more, got inf"),
        ([1, 10**400], ValueError, r"weights\[1\]: expected a finite number, 0 or more, got 1000"),
        ([0, 0.0], ValueError, "weights: expected one above 0 or more, got 2 zeros"),
        ([[1, 2]], ValueError, r"weights: expected one dimension, got \[\[1, 2\]\]"),
        ([[1], [1, 2]], ValueError, "weights: expected one dimension"),
        (3, ValueError, "weights: expected one dimension, got 3"),
        ({"a": 1}, ValueError, r"weights: expected one dimension, got \{'a': 1\}"),
        ([1, "2"], TypeError, r"weights\[1\]: expected a number, got '2'"),
        ([1, None], TypeError, r"weights\[1\]: expected a number, got None"),
        ([True, False], TypeError, r"weights\[0\]: expected a number, got True"),
    ],
)
def test_bad_weights_are_refused_by_their_place(weights, error, text):
    """The error names the entry, what was expected, what came and what to do."""
    with pytest.raises(error, match=text):
        WeightedSampler(weights, seed=0)


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        ({"seed": None}, TypeError, "seed: expected an int, got None"),
        ({"seed": -1}, ValueError, "seed: expected an int from 0"),
        (
            {"num_samples": 0},
            ValueError,
            "num_samples: expected an int from 1 .* got 0; give None for an endless",
        ),
        ({"num_samples": 2.0}, TypeError, "num_samples: expected an int, got 2.0"),
        ({"shard_options": 3}, TypeError, "shard_options: expected ShardOptions"),
    ],
)
def test_other_arguments_are_refused_by_name(said, error, text):
    """As the other samplers do."""
    with pytest.raises(error, match=text):
        WeightedSampler([1], **{"seed": 0, **said})


def test_it_keeps_what_loaderkit_relies_on():
    """Endless and with an end."""
    check_sampler(WeightedSampler([1, 5, 0, 2] * 9, seed=3), num_records=36)
    check_sampler(WeightedSampler([1, 5], seed=3, num_samples=7), num_records=2)


def test_a_loader_draws_records_and_resumes():
    """At any step; a state of other weights is refused."""

    def loader(weights=(1, 0, 2)):
        sampler = WeightedSampler(weights, seed=1, num_samples=24)
        return lk.DataLoader(data_source=[10, 11, 12], sampler=sampler, operations=[lk.Batch(4)])

    with iter(loader()) as it:
        next(it)
        state = it.get_state()
        rest = [batch.tolist() for batch in it]
    assert len(rest) == 5
    assert {value for batch in rest for value in batch} == {10, 12}
    with iter(loader()) as it:
        it.set_state(state)
        assert [batch.tolist() for batch in it] == rest
    with iter(loader((1, 1, 2))) as it, pytest.raises(lk.CheckpointMismatchError, match="weights"):
        it.set_state(state)
    with pytest.raises(TypeError, match=r"epoch\(e\): expected a sampler that says how long an epoch is"):
        loader().epoch(1)
    with pytest.raises(ValueError, match=r"sampler: expected record keys below 3, .* got 3"):
        loader((1, 1, 1, 1))


def test_draws_are_part_of_the_stream():
    """These never change: streams that were trained on depend on them."""
    sampler = WeightedSampler([5, 0, 3, 2, 0.25], seed=42)
    assert sampler.record_keys([*range(12), 10**12]).tolist() == [3, 0, 2, 3, 2, 2, 3, 0, 2, 2, 2, 0, 0]


def test_an_error_shows_the_beginning_of_a_long_weight():
    with pytest.raises(ValueError, match=r"^weights\[0\]: expected a finite number") as caught:
        lk.samplers.WeightedSampler([2**2000, 1], seed=0)
    assert len(str(caught.value)) < 250
