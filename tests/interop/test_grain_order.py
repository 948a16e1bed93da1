"""Order and randomness of Grain's samplers, equal bit for bit: to the installed package, and to values noted down."""

import random

import numpy as np
import pytest

import loaderkit.interop.grain as grain
from loaderkit.interop.grain._order import SeedPlusIndex
from loaderkit.interop.grain._shuffle import half_bits, index_shuffle, round_keys, shuffled

# (index, max_index, seed, rounds) -> what grain 0.2.18 gives.
GOLDEN_SHUFFLES = {
    (0, 9, 0, 4): 0,
    (9, 9, 123, 4): 0,
    (1, 2, 7, 4): 0,
    (65535, 65535, 52, 4): 62487,
    (65536, 65536, 52, 4): 61165,
    (0, 65536, 52, 4): 61165,
    (40000, 70000, 4294967295, 4): 25463,
    (12345678, 1099511627776, 1, 4): 252695144233,
    (4611686018427387904, 9223372036854775806, 99, 4): 5518849536532580524,
    (3, 1000000, 5, 6): 684117,
    (3, 1000000, 5, 40): 848890,
    (3, 1000000, 5, 640): 223542,
    (17, 300, 5, 70): 65,
}
# (num_records, shard, shuffle, epochs, seed) -> the first record keys of that shard, and a draw of its third record.
GOLDEN_SAMPLERS = {
    (10, (0, 1, False), True, None, 7): ([4, 0, 3, 7, 2, 9, 6, 8], 0.21339735524020287),
    (100000, (1, 3, True), True, 2, 4294967295): (
        [43453, 52857, 45214, 58692, 38956, 65132, 57771, 59937],
        0.524556717239802,
    ),
    (8, (2, 3, False), True, 5, 32): ([6, 7, 6, 7, 6, 7, 6, 7], 0.5404568080441893),
    (1000, (1, 2, False), False, 1, 3): ([500, 501, 502, 503, 504, 505, 506, 507], 0.9956763359513338),
    (65537, (0, 1, False), True, 1, 1): (
        [46990, 60688, 19298, 16276, 37481, 53497, 5701, 27375],
        0.9342820204007575,
    ),
}


def naive_shuffle(index: int, max_index: int, seed: int) -> int:
    """The cipher one index at a time, in Python's integers: the vectorised one's twin."""
    if max_index == 0:
        return 0
    half = half_bits(max_index)
    mask = (1 << half) - 1

    def turned(word: int, by: int) -> int:
        return (word << by | word >> (half - by)) & mask

    def mixed(word: int) -> int:
        return turned(word, 1) & turned(word, 8) ^ turned(word, 2)

    while True:
        left, right = index >> half & mask, index & mask
        for first, second in zip(*[iter(round_keys(seed, 4))] * 2, strict=True):
            left ^= mixed(right) ^ first & mask
            right ^= mixed(left) ^ second & mask
        index = left << half | right
        if index <= max_index:
            return index


def some_max_index(rng: random.Random) -> int:
    return rng.choice(
        [
            rng.randint(0, 300),
            rng.randint(0, 70_000),
            rng.randint(0, 2**63 - 2),
            4 ** rng.randint(1, 31),
            4 ** rng.randint(1, 31) + rng.choice([-2, -1, 1, 2]),
        ]
    )


@pytest.mark.parametrize(("arguments", "expected"), GOLDEN_SHUFFLES.items())
def test_the_shuffle_gives_the_values_noted_down(arguments, expected):
    """Without Grain: blocks of all widths, short ranges, other numbers of rounds, and the last index of 4**k + 1."""
    index, max_index, seed, rounds = arguments
    assert index_shuffle(index, max_index, seed=seed, rounds=rounds) == expected
    if rounds == 4:
        assert shuffled(np.array([index]), max_index, seed).tolist() == [expected]


@pytest.mark.parametrize(("arguments", "expected"), GOLDEN_SAMPLERS.items())
def test_the_samplers_give_the_values_noted_down(arguments, expected):
    """Without Grain: sharded, shuffled, over epochs; and what the record's generator draws."""
    records, (shard, shards, drop), shuffle, epochs, seed = arguments
    sampler = grain.IndexSampler(records, grain.ShardOptions(shard, shards, drop), shuffle, epochs, seed)
    indices = np.arange(8) * shards + shard
    assert [sampler.record_keys(indices).tolist(), float(sampler[int(indices[2])].rng.random())] == list(
        expected
    )


@pytest.mark.slow
def test_the_vectorised_shuffle_is_the_naive_one():
    """One index at a time or all at once: the same."""
    rng = random.Random(0)
    for max_index in (1, 2, 9, 255, 65_535, 65_536, 65_537, 262_144, 2**40 + 12_345, 2**62):
        seed = rng.randrange(2**32)
        positions = [0, max_index, *(rng.randint(0, max_index) for _ in range(6))]
        expected = [naive_shuffle(position, max_index, seed) for position in positions]
        assert shuffled(np.array(positions), max_index, seed).tolist() == expected


@pytest.mark.parametrize("records", [1, 2, 3, 100, 65_535, 65_536])
def test_the_shuffle_is_a_permutation(records):
    """Every record once."""
    assert sorted(shuffled(np.arange(records), records - 1, 11).tolist()) == list(range(records))


def test_one_record_comes_twice_where_grain_repeats_it():
    """Of 65,537 records the last one is never read, and the first index's comes again: as in Grain."""
    keys = shuffled(np.arange(65_537), 65_536, 7)
    assert keys[65_536] == keys[0] and len(set(keys.tolist())) == 65_536


def test_wrong_arguments_of_the_shuffle():
    """An odd number of rounds, an index out of range, a seed that is no 32-bit word."""
    for rounds in (2, 5, 1025):
        with pytest.raises(ValueError, match="rounds"):
            index_shuffle(0, 8, seed=1, rounds=rounds)
    for index in (-1, 9):
        with pytest.raises(ValueError, match="index must be in"):
            index_shuffle(index, 8, seed=1, rounds=4)
    with pytest.raises(TypeError, match="seed"):
        index_shuffle(0, 8, seed=2**32, rounds=4)


def outcome(make):
    """What came, or the type of the error."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - both packages must fail alike
        return type(error).__name__


def sampled(g, config):
    records, shard, arguments, index = config
    options = g.NoSharding() if shard is None else g.ShardOptions(*shard)
    if arguments is None:
        sampler = g.SequentialSampler(records, options, seed=5)
    else:
        sampler = g.IndexSampler(records, shard_options=options, **arguments)
    metadata = sampler[index]
    draw = None if metadata.rng is None else (metadata.rng.random(), int(metadata.rng.integers(2**32)))
    return repr(sampler), len(sampler), metadata.index, int(metadata.record_key), draw


def some_config(rng: random.Random):
    records = rng.choice(
        [
            rng.randint(0, 40),
            rng.randint(1, 70_000),
            65_537,
            262_145,
            rng.randint(1, 2**40),
            rng.randint(1, 2**50),
        ]
    )
    shards = rng.randint(1, 6)
    shard = None if shards == 1 else (rng.randrange(shards), shards, rng.random() < 0.5)
    arguments = None
    if rng.random() < 0.9:
        arguments = {
            "shuffle": rng.random() < 0.7,
            "num_epochs": rng.choice([None, None, 0, 1, 2, 7]),
            "seed": rng.choice([None, 0, 5, 2**32 - 1, 2**32, -1, *(rng.randrange(2**32) for _ in range(6))]),
        }
    index = rng.choice(
        [0, rng.randint(0, 3 * records + 3), records, records - 1, rng.randint(0, records + 1), -1]
    )
    return records, shard, arguments, index


def test_samplers_are_grains(installed_grain, nightly):
    """Records, shards, epochs, seeds: the same key, the same draws, the same repr, and the same kind of error."""
    rng = random.Random(None if nightly else 1)
    for _ in range(20_000 if nightly else 800):
        config = some_config(rng)
        ours = outcome(lambda config=config: sampled(grain, config))
        assert ours == outcome(lambda config=config: sampled(installed_grain, config)), config


@pytest.mark.slow
def test_the_shuffle_is_grains(installed_grain, nightly):
    """Any range up to 2**63, any seed, any number of rounds."""
    theirs = installed_grain.experimental.index_shuffle
    rng = random.Random(None if nightly else 2)
    for _ in range(20_000 if nightly else 400):
        max_index, seed = max(0, some_max_index(rng)), rng.randrange(2**32)
        index = rng.choice([0, max_index, rng.randint(0, max_index)])
        # Many rounds on a short range take Grain seconds: it walks through tens of thousands of blocks.
        rounds = rng.choice([4, 4, 4, 6, 8, *([40, 70, 640, 1024] if max_index > 2**16 else [])])
        expected = theirs(index, max_index, seed, rounds)
        assert index_shuffle(index, max_index, seed, rounds) == expected, (index, max_index, seed, rounds)


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**64 - 3])
def test_the_pooled_generator_is_a_new_one(seed):
    """What an earlier record drew, half words included, leaves nothing; a frozen state goes on where it was."""
    pool = SeedPlusIndex(seed)
    for index in (3, 0, 2**40, 3):
        fresh = np.random.Generator(np.random.Philox(key=seed + index))
        rng = pool.at(index)
        assert rng.integers(0, 100, dtype=np.uint32) == fresh.integers(0, 100, dtype=np.uint32)
        frozen = pool.frozen(rng)
        pool.at(index + 1).random(7)
        assert pool.thawed(np.stack([frozen * 0, frozen])).random(5).tolist() == fresh.random(5).tolist()


def test_a_sampler_without_a_length_is_measured():
    """By asking, halving the range: about 63 questions."""

    class Some:
        def __getitem__(self, index):
            if index >= 1000:
                raise IndexError
            return grain.RecordMetadata(index, index)

    assert grain.samplers.size_of(Some()) == 1000
