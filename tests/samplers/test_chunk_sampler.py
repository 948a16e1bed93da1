"""The chunk sampler: its rule written slowly, what an epoch and a host read, and what it refuses."""

import json
import pickle
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order import chunk_order
from loaderkit._order.mixing import fold
from loaderkit._order.permutation import Permutation
from loaderkit.samplers import ChunkSampler, Sampler
from loaderkit.testing import check_sampler

seeds = st.integers(0, (1 << 64) - 1)


@st.composite
def samplers(draw, most=300, **fixed):
    """Chunks larger than the records, more lanes than chunks, and sizes that divide nothing are among them."""
    lanes = draw(st.integers(1, 9))
    said = {
        "num_records": draw(st.integers(1, most)),
        "chunk": draw(st.one_of(st.integers(1, 12), st.integers(1, 2 * most))),
        "window": draw(st.one_of(st.integers(1, 5), st.integers(1, 2 * most))),
        "lanes": lanes,
        "batch": lanes * draw(st.integers(1, 12)),
        "num_epochs": draw(st.none() | st.integers(1, 5)),
        "seed": draw(seeds),
    }
    return ChunkSampler(**{**said, **fixed})


def naive_key(sampler: ChunkSampler, index: int) -> int:
    """The rule for one index, with Python's integers and a search for the short chunk."""
    n, chunk, lanes = sampler.num_records, sampler.chunk, sampler.lanes
    rows = (sampler.batch or 1) // lanes
    reach, batch = sampler.window * chunk, rows * lanes

    def count(end):
        whole, rest = divmod(end, batch)
        return whole * rows + min(max(rest - lane * rows, 0), rows)

    def before(end):
        whole, rest = divmod(end, batch)
        return whole * lane * rows + min(rest, lane * rows)

    epoch, position = divmod(index, n)
    key = fold(sampler.seed, epoch)
    chunks = -(-n // chunk)
    order = Permutation(chunks, fold(key, 1))(np.arange(chunks)).tolist()
    phase = epoch * n % batch
    at = phase + position
    lane = at // rows % lanes
    number, within = divmod(count(at) - count(phase), reach)
    size = min(reach, count(phase + n) - count(phase) - number * reach)
    shuffled = int(Permutation(size, fold(key, 2, lane, number))(np.array([within]))[0])
    place = before(phase + n) - before(phase) + number * reach + shuffled
    short = n - (chunks - 1) * chunk
    if place >= order.index(chunks - 1) * chunk + short:
        place += chunk - short
    return order[place // chunk] * chunk + place % chunk


@given(samplers(num_epochs=None), st.data())
def test_many_at_once_are_the_same_as_one_by_one_and_as_the_slow_rule(sampler, data):
    """Consecutive or scattered over any epochs."""
    last = 40 * sampler.num_records
    scattered = data.draw(st.lists(st.integers(0, last), max_size=8))
    start = data.draw(st.integers(0, last))
    indices = [*scattered, *range(start, start + 8)]
    keys = sampler.record_keys(np.array(indices))
    assert keys.dtype == np.int64
    assert keys.tolist() == [naive_key(sampler, index) for index in indices]
    assert keys.tolist() == [sampler[index].record_key for index in indices]


@given(samplers(num_epochs=None), st.integers(0, 1 << 40))
def test_each_epoch_has_every_record_once(sampler, first):
    """Also the ones whose lanes begin in the middle of a batch."""
    n = sampler.num_records
    keys = sampler.record_keys(np.arange(first * n, (first + 3) * n)).reshape(3, n)
    assert np.array_equal(np.sort(keys, axis=1), np.tile(np.arange(n), (3, 1)))


@pytest.mark.parametrize(
    ("n", "chunk", "window", "lanes", "batch"),
    [
        (100_003, 7, 50, 1, None),
        (100_003, 7, 50, 8, 256),
        (65_536, 16, 64, 4, 64),
        (50_000, 60_000, 1, 16, 16),
        (50_000, 30_000, 3, 1000, 3000),
        (40_000, 1, 1, 1, None),
    ],
)
def test_long_epochs_lose_nothing(n, chunk, window, lanes, batch):
    """More positions than are worked on at once, and more chunks than are ranked by a table."""
    sampler = ChunkSampler(n, chunk=chunk, window=window, lanes=lanes, batch=batch, seed=1)
    keys = sampler.record_keys(np.arange(n // 2, 2 * n))
    assert np.array_equal(np.sort(keys[-n:]), np.arange(n))
    assert len(set(keys[:-n].tolist())) == n - n // 2


@pytest.mark.parametrize("lanes", [1, 8])
def test_how_a_call_is_cut_makes_no_difference(lanes):
    """More positions than are worked on at once, over the end of an epoch."""
    sampler = ChunkSampler(40_000, chunk=7, window=50, lanes=lanes, batch=32, seed=1)
    indices = np.arange(20_000, 60_000)
    parts = [sampler.record_keys(indices[low : low + 777]) for low in range(0, indices.size, 777)]
    assert np.array_equal(sampler.record_keys(indices), np.concatenate(parts))


@pytest.mark.parametrize("n", [10**4, 10**9, (1 << 61) + 3])
def test_an_index_costs_the_same_however_many_records_there_are(n):
    """An index far away moves three numbers: the short chunk, a record in its window, and its chunk."""
    sampler = ChunkSampler(n, chunk=16, window=1024, lanes=8, batch=256, seed=0)
    with (
        mock.patch.object(chunk_order, "permute", side_effect=chunk_order.permute) as moved,
        mock.patch.object(chunk_order, "unpermute", side_effect=chunk_order.unpermute) as back,
    ):
        assert 0 <= sampler[3 * n - 1].record_key < n
    sizes = [call.args[0].size for call in (*moved.call_args_list, *back.call_args_list)]
    assert sizes == [1, 1, 1] if n % 16 else [1, 1]


@given(samplers(lanes=1, batch=None, num_epochs=None))
def test_a_whole_window_reads_the_chunks_of_one_window(sampler):
    """Each window but the last: `window` chunks, and up to two more where the short chunk shifts the others."""
    n, chunk, reach = sampler.num_records, sampler.chunk, sampler.window * sampler.chunk
    keys = sampler.record_keys(np.arange(n))
    for low in range(0, n - reach + 1, reach):
        chunks = set((keys[low : low + reach] // chunk).tolist())
        assert len(chunks) <= sampler.window + (2 if n % chunk else 0)
    if n % chunk == 0:
        seen = [set((keys[low : low + reach] // chunk).tolist()) for low in range(0, n, reach)]
        assert sum(map(len, seen)) == n // chunk  # no chunk is in two windows


@given(samplers(num_epochs=None), st.integers(0, 3))
def test_each_lane_reads_only_its_own_chunks(sampler, epoch):
    """Two lanes that follow each other share at most the chunk at their border; a window of a lane is as small."""
    n, lanes = sampler.num_records, sampler.lanes
    indices = np.arange(epoch * n, (epoch + 1) * n)
    keys = sampler.record_keys(indices)
    rows = (sampler.batch or 1) // lanes
    chunks_of = []
    for lane in range(lanes):
        own = keys[indices // rows % lanes == lane] // sampler.chunk
        chunks_of.append(set(own.tolist()))
        reach = sampler.window * sampler.chunk
        for low in range(0, own.size, reach):
            assert len(set(own[low : low + reach].tolist())) <= sampler.window + 2
    used = [chunks for chunks in chunks_of if chunks]
    assert sum(map(len, used)) <= -(-n // sampler.chunk) + len(used) - 1
    assert all(len(a & b) <= 1 for a, b in pairwise(used))


def hosts_chunks(sampler: ChunkSampler, hosts: int, steps: int) -> list[set[int]]:
    """The chunks that the loader of each host reads in some steps of global batches of `sampler.batch` rows."""
    chunks = []
    for host in range(hosts):
        loader = lk.DataLoader(
            data_source=lk.RangeDataSource(0, sampler.num_records, 1),
            sampler=sampler,
            operations=[lk.Batch(global_batch_size=sampler.batch)],
            shard_options=lk.ShardOptions(host, hosts),
        )
        with iter(loader) as it:
            read = np.concatenate([next(it) for _ in range(steps)])
        chunks.append(set((read // sampler.chunk).tolist()))
    return chunks


@pytest.mark.parametrize("hosts", [1, 2, 4, 8])
def test_all_hosts_together_read_each_chunk_once(hosts):
    """Over an epoch each host reads its share, and at most one chunk that its neighbour reads too."""
    sampler = ChunkSampler(960, chunk=10, window=3, lanes=8, batch=48, seed=3)
    chunks = hosts_chunks(sampler, hosts, steps=20)
    assert sorted(set().union(*chunks)) == list(range(96))
    assert sum(map(len, chunks)) <= 96 + hosts - 1


@pytest.mark.filterwarnings("ignore:shards read the same lanes")
def test_without_lanes_each_host_reads_nearly_every_chunk():
    """What lanes are for."""
    sampler = ChunkSampler(960, chunk=10, window=12, batch=48, seed=3)
    assert sum(map(len, hosts_chunks(sampler, 4, steps=20))) > 3.5 * 96


@pytest.mark.filterwarnings("ignore:shards read the same lanes")
@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_the_stream_is_the_same_for_any_number_of_hosts(hosts):
    """Row by row over an end of an epoch, hosts put in their order; also where a host has a part of a lane only."""
    sampler = ChunkSampler(50, chunk=4, window=2, lanes=2, batch=12, seed=9)
    expected = sampler.record_keys(range(120)).reshape(10, 12)
    loaders = [
        lk.DataLoader(
            data_source=lk.RangeDataSource(0, 50, 1),
            sampler=sampler,
            operations=[lk.Batch(global_batch_size=12)],
            shard_options=lk.ShardOptions(host, hosts),
        )
        for host in range(hosts)
    ]
    its = [iter(loader) for loader in loaders]
    for step in range(10):
        assert np.concatenate([next(it) for it in its]).tolist() == expected[step].tolist()
    for it in its:
        it.close()


@pytest.mark.parametrize(
    ("rows", "shards", "said"),
    [
        (48, 4, None),
        (48, 1, None),
        (24, 1, None),
        (24, 2, "a step takes 24 indices, ChunkSampler has batch=48. The stream is the same"),
        (48, 3, "3 shards, ChunkSampler has lanes=4. The stream is the same"),
    ],
)
def test_a_loader_warns_where_shards_read_the_same_lanes(rows, shards, said):
    """It costs reads only, which is easily overlooked."""
    loader = lk.DataLoader(
        data_source=range(960),
        sampler=ChunkSampler(960, chunk=10, window=3, lanes=4, batch=48, seed=3),
        operations=[lk.Batch(global_batch_size=rows)],
        shard_options=lk.ShardOptions(0, shards),
    )
    if said is None:
        iter(loader).close()
    else:
        with pytest.warns(UserWarning, match=said):
            iter(loader).close()


@pytest.mark.parametrize("saved_at", [0, 1, 4, 5, 11])
def test_a_run_resumes_at_any_step(saved_at):
    """Inside a window, at an epoch's end, and in another loader."""

    def loader():
        sampler = ChunkSampler(50, chunk=4, window=2, lanes=2, batch=12, seed=9)
        return lk.DataLoader(data_source=range(50), sampler=sampler, operations=[lk.Batch(12)])

    with iter(loader()) as it:
        for _ in range(saved_at):
            next(it)
        state = it.get_state()
        expected = [next(it).tolist() for _ in range(5)]
    with iter(loader()) as it:
        it.set_state(state)
        assert [next(it).tolist() for _ in range(5)] == expected
        it.seek(saved_at)
        assert next(it).tolist() == expected[0]


def test_a_state_of_other_chunks_is_refused():
    """And one of another batch only where there are lanes, because it changes the order there only."""

    def loader(**said):
        sampler = ChunkSampler(64, **{"chunk": 4, "window": 2, "seed": 9, **said})
        return lk.DataLoader(data_source=range(64), sampler=sampler, operations=[lk.Batch(8)])

    with iter(loader()) as it:
        state = it.get_state()
    with iter(loader(batch=16)) as it:
        it.set_state(state)
    for said in ({"chunk": 8}, {"window": 3}, {"lanes": 2, "batch": 8}, {"seed": 8}):
        with iter(loader(**said)) as it, pytest.raises(lk.CheckpointMismatchError, match=next(iter(said))):
            it.set_state(state)


@pytest.mark.parametrize("num_epochs", [1, 3])
def test_an_epoch_of_a_loader_has_every_record(num_epochs):
    """Also one past the sampler's last epoch, as an IndexSampler has them."""
    sampler = ChunkSampler(50, chunk=4, window=2, lanes=2, batch=12, seed=9, num_epochs=num_epochs)
    loader = lk.DataLoader(data_source=range(50), sampler=sampler, operations=[lk.Batch(12)])
    for epoch in (0, 4):
        with iter(loader.epoch(epoch)) as it:
            assert sorted(key for batch in it for key in batch.tolist()) == list(range(50))


@given(samplers(most=50, num_epochs=None), st.integers(0, (1 << 32) - 2))
def test_seeds_and_epochs_choose_other_orders(sampler, seed):
    """Sixty records and more: two orders of them are never the same by chance.

    Small seeds: beside the constant of `fold` there are two seeds that share the keys of two epochs.
    """
    n = 60 + sampler.num_records
    one, other = (
        ChunkSampler(n, chunk=3, window=4, lanes=sampler.lanes, batch=sampler.batch, seed=number)
        for number in (seed, seed + 1)
    )
    orders = [sampler.record_keys(np.arange(3 * n)).reshape(3, n).tolist() for sampler in (one, other)]
    assert len({tuple(order) for epochs in orders for order in epochs}) == 6


@settings(max_examples=max(5, settings.default.max_examples // 6))  # each makes all checks
@given(samplers(most=40))
def test_check_sampler_passes(sampler):
    """It keeps what loaderkit relies on; another process is asked once, with all other samplers."""
    report = check_sampler(sampler, num_records=sampler.num_records, skip=["another process"])
    assert {reason for _, reason in report.skipped} <= {"left out by skip=", "the sampler has no end"}


@given(samplers(), st.integers(0, 7))
def test_a_sharding_changes_no_key(sampler, shard):
    """One space of indices for all shards."""
    said = {
        name: getattr(sampler, name) for name in ("chunk", "window", "lanes", "batch", "num_epochs", "seed")
    }
    sharded = ChunkSampler(sampler.num_records, shard_options=lk.ShardOptions(shard, 8), **said)
    wanted = np.arange(min(sampler.num_records, 20))
    assert np.array_equal(sharded.record_keys(wanted), sampler.record_keys(wanted))
    assert sharded.fingerprint() == sampler.fingerprint()


@given(samplers())
def test_samplers_are_values_and_fingerprints_are_json(sampler):
    """Equal when said alike, hashable, picklable, unchangeable; integers of a fingerprint have at most 63 bits."""
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler
    assert hash(copy) == hash(sampler)
    assert isinstance(sampler, Sampler)
    said = sampler.fingerprint()
    assert json.loads(json.dumps(said)) == said
    assert all(value < 1 << 63 for value in said.values() if isinstance(value, int))
    with pytest.raises(AttributeError):
        sampler.seed = 3


def test_its_length_and_its_metadata_are_those_of_an_index_sampler():
    """So that all of a loader works with it in the same way."""
    finite, endless = (
        ChunkSampler(7, chunk=2, window=2, seed=np.uint8(4), num_epochs=epochs) for epochs in (2, None)
    )
    other = lk.IndexSampler(7, shuffle=True, seed=4, num_epochs=2)
    assert len(finite) == len(other) == 14
    assert finite.shuffle is endless.shuffle is True
    assert type(finite.seed) is int
    assert [str(metadata.rng.bit_generator.state) for metadata in finite] == [
        str(metadata.rng.bit_generator.state) for metadata in other
    ]
    with pytest.raises(TypeError, match="endless and has no length"):
        len(endless)
    with pytest.raises(IndexError, match="index: expected an int from 0 to 13, got 14, of ChunkSampler"):
        finite[14]
    assert finite.record_keys([]).shape == (0,)
    assert repr(finite) == (
        "ChunkSampler(num_records=7, shard_options=None, chunk=2, window=2, lanes=1, batch=None, num_epochs=2, seed=4)"
    )


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        ({"num_records": 0}, ValueError, "num_records: expected an int from 1 to .*, got 0; give len"),
        (
            {"chunk": 0},
            ValueError,
            r"chunk: expected an int from 1 to 2\*\*62 - 1, got 0; give the records of",
        ),
        ({"chunk": 2.0}, TypeError, "chunk: expected an int, got 2.0"),
        ({"window": -1}, ValueError, "window: expected an int from 1 .*, got -1"),
        ({"window": None}, TypeError, "window: expected an int, got None"),
        ({"lanes": 0}, ValueError, "lanes: expected an int from 1 .*, got 0; give 1, or"),
        ({"lanes": True, "batch": 8}, TypeError, "lanes: expected an int, got True"),
        ({"lanes": 2}, ValueError, "batch: expected a multiple of lanes=2, got None; give how many indices"),
        ({"lanes": 3, "batch": 8}, ValueError, "batch: expected a multiple of lanes=3, got 8"),
        ({"batch": 0}, ValueError, "batch: expected an int from 1 .*, got 0; give how many indices"),
        ({"batch": "8"}, TypeError, "batch: expected an int, got '8'"),
        ({"seed": None}, TypeError, "seed: expected an int, got None; give for example seed=0"),
        ({"seed": -1}, ValueError, r"seed: expected an int from 0 to 2\*\*64 - 1, got -1"),
        ({"num_epochs": 0}, ValueError, "num_epochs: expected 1 or more, got 0"),
        ({"shard_options": 3}, TypeError, "shard_options: expected ShardOptions.*, got 3"),
    ],
)
def test_bad_arguments_are_refused_by_name(said, error, text):
    """The error names the argument, what was expected, what came and what to do."""
    with pytest.raises(error, match=text):
        ChunkSampler(**{"num_records": 8, "chunk": 2, "window": 2, "seed": 0, **said})


def test_the_largest_sizes_stay_in_64_bits():
    """Chunk, window, lanes and batch of 2**62 - 1, and the last index there is."""
    most = (1 << 62) - 1
    for chunk, window in ((most, most), (1, 1), (3, most), (1, most)):
        for lanes in (1, most):
            sampler = ChunkSampler(most, chunk=chunk, window=window, lanes=lanes, batch=most, seed=0)
            keys = sampler.record_keys(np.array([0, most - 1, most, (1 << 63) - 1]))
            assert keys.min() >= 0 and keys.max() < most


def test_keys_are_part_of_the_stream():
    """These never change: streams that were trained on depend on them."""
    small = ChunkSampler(10, chunk=3, window=2, seed=0)
    large = ChunkSampler(1_281_167, chunk=16, window=64, lanes=64, batch=1024, seed=42)
    assert small.record_keys(range(12)).tolist() == [6, 4, 7, 9, 3, 5, 2, 1, 0, 8, 4, 8]
    far = [0, 1, 16, 1_281_166, 1_281_167, 10**12]
    assert large.record_keys(far).tolist() == [395446, 69332, 362781, 1069376, 77187, 323787]


# --- sizes from a source and a cache ----------------------------------------------------------------------------


class Chunked:
    """A source that says its chunks."""

    def __init__(self, records, chunk_records, chunk_bytes=None):
        self.records, self.chunk_records = records, chunk_records
        if chunk_bytes is not None:
            self.chunk_bytes = chunk_bytes

    def __len__(self):
        return self.records


@given(
    records=st.integers(1, 10**9),
    chunk=st.integers(1, 10**5),
    size=st.integers(1, 10**7),
    lanes=st.integers(1, 64),
    cache=st.integers(1, 10**13),
)
@example(records=25, chunk=10, size=1, lanes=1, cache=10**6)
def test_two_windows_of_each_lane_fit_in_the_cache(records, chunk, size, lanes, cache):
    source = Chunked(records, chunk, chunk_bytes=chunk * size)
    try:
        sampler = ChunkSampler.over(source, cache_bytes=cache, lanes=lanes, batch=lanes, seed=1)
    except ValueError:
        assert 2 * lanes * chunk * size > cache
        return
    assert sampler.chunk == chunk
    assert 2 * lanes * sampler.window * chunk * size <= cache
    all_chunks = -(-records // chunk)  # the last one may be short
    assert sampler.window == all_chunks or 2 * lanes * (sampler.window + 1) * chunk * size > cache


def test_over_passes_on_what_a_sampler_takes():
    sampler = ChunkSampler.over(
        Chunked(5000, 10),
        cache_bytes="128MiB",
        lanes=4,
        batch=8,
        seed=7,
        num_epochs=3,
        shard_options=lk.ShardOptions(1, 4),
    )
    given_by_hand = ChunkSampler(
        5000, chunk=10, window=16, lanes=4, batch=8, seed=7, num_epochs=3, shard_options=lk.ShardOptions(1, 4)
    )
    assert sampler == given_by_hand
    assert sampler.fingerprint() == given_by_hand.fingerprint()


def test_over_refuses_what_has_no_chunks_and_too_small_a_cache():
    with pytest.raises(TypeError, match=r"^source: expected one that says its chunk_records.*got list; give"):
        ChunkSampler.over([1, 2], cache_bytes="1GB", seed=0)
    with pytest.raises(ValueError, match=r"^cache_bytes: expected 8388608 or more.*4 lanes, got '1MB'; give"):
        ChunkSampler.over(Chunked(100, 10), cache_bytes="1MB", lanes=4, batch=4, seed=0)
    with pytest.raises(ValueError, match=r"^cache_bytes: expected a size, got 'x'"):
        ChunkSampler.over(Chunked(100, 10), cache_bytes="x", seed=0)
    with pytest.raises(ValueError, match=r"^lanes: expected 1 or more|^lanes: expected an int from 1"):
        ChunkSampler.over(Chunked(100, 10), cache_bytes="1GB", lanes=0, seed=0)


@given(samplers(60), st.data())
def test_next_uses_are_the_windows_that_a_reader_comes_to(sampler, data):
    sampler = ChunkSampler(**{**sampler_arguments(sampler), "num_epochs": None})
    n, rows = sampler.num_records, (sampler.batch or 1) // sampler.lanes
    at = data.draw(st.integers(0, 2 * n - 1))
    low = data.draw(st.integers(0, sampler.lanes))
    lanes = data.draw(st.sampled_from([None, range(low, sampler.lanes)]))
    keys = sampler.record_keys(np.arange(4 * n)).reshape(4, n)
    reach = min(sampler.window * min(sampler.chunk, n), n)
    windows = {}  # the indices of each window
    of_index = {}
    for epoch in range(4):
        turns = [0] * sampler.lanes
        for index in range(epoch * n, epoch * n + n):
            lane = index_row(index, sampler, epoch) // rows % sampler.lanes
            of_index[index] = window = epoch, lane, turns[lane] // reach
            turns[lane] += 1
            windows.setdefault(window, []).append(index)
    for record, found in enumerate(sampler.next_uses(np.arange(n), at, lanes).tolist()):
        expected = (at // n + 2) * n
        for epoch in (at // n + 1, at // n):
            window = of_index[epoch * n + int(np.flatnonzero(keys[epoch] == record)[0])]
            if windows[window][-1] >= at and (lanes is None or window[1] in lanes):
                expected = windows[window][0]
        assert found == expected


def index_row(index, sampler, epoch):
    n, batch = sampler.num_records, sampler.batch or 1
    return epoch * n % batch + index - epoch * n


def sampler_arguments(sampler):
    names = ("num_records", "chunk", "window", "lanes", "batch", "seed")
    return {name: getattr(sampler, name) for name in names}
