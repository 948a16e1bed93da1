"""The chunks of several sources together: numbers, rooms, eviction, and a feeder over a mixture."""

import pickle

import numpy as np
import pytest
from cache_fakes import Index, Ranges
from hypothesis import given
from hypothesis import strategies as st
from test_feeder import Records, feeder_pid

import loaderkit as lk
from loaderkit._runtime.feeder.coming_chunks import ComingChunks
from loaderkit._storage.cache.chunk_feed import NO_CHUNK

SIZES = {"a": 300, "b": 120, "c": 80}


def sources_in(folder, limit=1 << 20, seconds=0.0):
    """Three cached sources, whose caches are apart, and a list between them."""
    made = {}
    for name, records in SIZES.items():
        (folder / name).mkdir()
        index = Index((records - 20, 20), np.full(records, 40), 10, digest=name)
        made[name] = Records(index, folder / name, limit, seconds)
    return {"a": made["a"], "list": [*range(50)], "b": made["b"], "c": made["c"]}


def test_numbers_are_those_of_the_sources_one_behind_the_other(tmp_path):
    sources = sources_in(tmp_path)
    concat = lk.ConcatDataSource(sources)
    feed = pickle.loads(pickle.dumps(concat.chunk_feed))
    numbers = feed.numbers(np.arange(550)).tolist()
    own = {name: sources[name].chunk_feed.numbers(np.arange(size)) for name, size in SIZES.items()}
    starts = dict(zip("abc", feed.starts, strict=True))
    assert numbers == [
        *own["a"].tolist(),
        *[NO_CHUNK] * 50,
        *(own["b"] + starts["b"]).tolist(),
        *(own["c"] + starts["c"]).tolist(),
    ]
    assert starts["a"] == 0 and starts["b"] > own["a"].max() and feed.end > max(numbers)
    assert starts["c"] > own["b"].max() + starts["b"]
    first_keys = feed.first_keys(np.unique(numbers)[1:])
    assert first_keys.tolist() == [numbers.index(number) for number in np.unique(numbers)[1:].tolist()]
    chosen = lk.SubsetDataSource(concat, slice(549, None, -3)).chunk_feed
    assert chosen.numbers(np.arange(20)).tolist() == numbers[549::-3][:20]
    assert chosen.first_keys(np.array([0])) is None
    assert lk.ConcatDataSource([range(3)]).chunk_feed is None
    nested = lk.ConcatDataSource([range(9), concat]).chunk_feed
    assert nested.numbers(np.arange(559)).tolist() == [NO_CHUNK] * 9 + numbers
    assert nested.starts == feed.starts


def test_parts_of_one_source_have_its_chunks_once(tmp_path):
    """A source and a subset of it share the numbers, the bytes and the room."""
    source = sources_in(tmp_path)["a"]
    halves = [lk.SubsetDataSource(source, slice(0, 200)), lk.SubsetDataSource(source, slice(200, 300))]
    feed, whole = lk.ConcatDataSource(halves).chunk_feed, source.chunk_feed
    assert np.array_equal(feed.numbers(np.arange(300)), whole.numbers(np.arange(300)))
    assert (feed.nbytes, feed.limit, feed.starts) == (whole.nbytes, whole.limit, (0,))
    assert len(feed.rooms()) == 1


def test_limits_of_caches_count_once_each(tmp_path):
    """Sources with a cache in common have its limit together, those apart the sum."""
    sources = sources_in(tmp_path, limit=10_000)
    feed = lk.ConcatDataSource(sources).chunk_feed
    assert feed.limit == 30_000
    assert lk.ConcatDataSource([sources["a"], sources["a"]]).chunk_feed.limit == 10_000
    assert feed.nbytes == sum(sources[name].index.nbytes for name in "abc")
    assert abs(feed.bytes_of(100) - 4_000) < 20


class Numbers:
    """Chunks of ten in two parts, the second from number 10 on."""

    starts = (0, 10)

    def numbers(self, record_keys):
        return np.where(record_keys >= 200, NO_CHUNK, record_keys // 10)

    def first_keys(self, numbers):
        return None


class Keys:
    def __init__(self, keys):
        self.left = [np.array(keys, np.int64)]

    def next(self, count):
        return (np.arange(len(self.left[0])), self.left.pop()) if self.left and len(self.left[0]) else None


@given(st.lists(st.integers(0, 219), max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_each_part_keeps_to_its_room(keys, first, second):
    """A full part ends nothing of the other; within each part chunks come in the order of need."""
    coming = ComingChunks([Keys(keys)], Numbers(), None, most_ahead=1000)
    got = coming.due(100, [first, second]).tolist()
    needed = list(dict.fromkeys(key // 10 for key in keys if key < 200))
    theirs = [[n for n in needed if (n >= 10) == part] for part in (False, True)]
    numbers = [key // 10 for key in got]
    assert [n for n in numbers if n < 10] == theirs[0][:first]
    assert [n for n in numbers if n >= 10] == theirs[1][:second]
    coming.give([len(keys) + 1])
    assert coming.due(100, [1, 1]).tolist() == [] and coming.ended


@pytest.mark.parametrize(("workers", "limit"), [(0, 1 << 20), (2, 8_000)])
def test_a_mixture_has_a_feeder(tmp_path, workers, limit):
    """The stream is the sampler's; each source's bytes are read once where its cache holds them."""
    sources = sources_in(tmp_path, limit, seconds=0.0005)
    for source in sources.values():
        if isinstance(source, Records):
            source.chunk_records = 10
    source, sampler = lk.mix(
        sources, {"a": 6, "b": 3, "c": 2, "list": 1}, shuffle=True, seed=1, window=2, lanes=2, batch=20
    )
    values = [
        sources[name][key] if name == "list" else Ranges(sources[name].index).spans(np.array([key]))[0][0]
        for name in sources
        for key in range(len(sources[name]))
    ]
    steps = 15 if workers else 50
    with lk.DataLoader(
        data_source=source, sampler=sampler, operations=[int, lk.Batch(20)], worker_count=workers
    ) as loader:
        iterator = iter(loader)
        found = [next(iterator).tolist() for _ in range(steps)]
        assert feeder_pid() is not None
    assert found == [
        [values[key] for key in sampler.record_keys(range(20 * n, 20 * n + 20))] for n in range(steps)
    ]
    if limit > 100_000:
        for name, size in SIZES.items():
            assert sources[name].nbytes_read() <= 1.2 * 40 * size + 400


def test_caches_too_small_for_the_windows_of_a_mixture(tmp_path):
    """An error with the bytes that are needed; a full shuffle of all records gives a warning."""
    sources = sources_in(tmp_path, limit=1_000)
    for source in sources.values():
        if isinstance(source, Records):
            source.chunk_records = 10

    def loader_of(**said):
        source, sampler = lk.mix(sources, shuffle=True, seed=1, **said)
        return lk.DataLoader(data_source=source, sampler=sampler, operations=[int, lk.Batch(4)])

    with (
        pytest.raises(
            ValueError,
            match=r"limit: expected \d+ bytes or more, two windows of 4 chunks .* 2 lanes of 3 components, got 3000",
        ),
        loader_of(window=4, lanes=2, batch=4) as loader,
    ):
        next(iter(loader))
    with pytest.warns(UserWarning, match="MixedSampler shuffles all records"), loader_of() as loader:
        next(iter(loader))
