"""`source[...]` of every source: a record for an int, a view for a slice, keys or a mask, beside a list's."""

import json
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.optional import column_reader, many_reader
from loaderkit.sources.cached import CachedDataSource
from loaderkit.sources.windows import WindowDataSource

N = 12
NUMBERS = lk.RangeDataSource(100, 100 + 7 * N, 7)
TOKENS = lk.TokenDataSource(np.arange(60, dtype=np.uint16), np.arange(0, 61, 5))


def written(path, **how):
    lk.write([{"x": key} for key in range(N)], path, worker_count=0, **how)
    return lk.open(path)


SOURCES = {
    "range": lambda _: NUMBERS,
    "arrays": lambda _: lk.ArrayDataSource({"x": np.arange(N), "y": np.arange(2 * N).reshape(N, 2)}),
    "in memory": lambda _: lk.InMemoryDataSource([{"x": key, "y": "a" * key} for key in range(N)]),
    "concat": lambda _: lk.ConcatDataSource(
        {"a": lk.SubsetDataSource(NUMBERS, range(5)), "b": [1] * (N - 5)}
    ),
    "zip": lambda _: lk.ZipDataSource([NUMBERS, range(N)]),
    "map": lambda _: lk.MapDataSource(NUMBERS, str),
    "cached": lambda _: CachedDataSource(NUMBERS),
    "windows": lambda _: WindowDataSource(lk.RangeDataSource(N + 2), 3, shift=1),
    "subset": lambda _: lk.SubsetDataSource(NUMBERS, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]),
    "tokens": lambda _: TOKENS,
    "packed": lambda _: lk.PackedDataSource(TOKENS, lk.plan_packing(TOKENS.lengths, 5)),
    "mixed": lambda _: lk.mix({"a": NUMBERS[:4], "b": NUMBERS[4:]})[0],
    "grouped": lambda _: lk.formats.GroupedRowsDataSource({"id": [*range(N)], "x": [*range(N)]}, "id"),
    "array_record": lambda path: written(path / "a.array_record"),
    "parquet": lambda path: written(path / "a.parquet"),
    "tar": lambda path: written(path / "a.tar"),
    "lines": lambda path: written(path / "a.jsonl"),
}


def told(record):
    return json.dumps(
        record, default=lambda leaf: np.asarray(leaf).tolist() if hasattr(leaf, "shape") else str(leaf)
    )


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_cut_as_a_list_is(name, tmp_path):
    """By slices, lists, arrays and masks; the view reads in bulk where the source does, and keeps to its ends."""
    source = SOURCES[name](tmp_path)
    records = [told(record) for record in source]
    assert len(records) == N
    mask = np.arange(N) % 3 == 1
    cuts = {
        "slice": (slice(2, 9), records[2:9]),
        "step": (slice(None, None, -2), records[::-2]),
        "from the end": (slice(-4, -1), records[-4:-1]),
        "beyond the end": (slice(9, 99), records[9:]),
        "range": (range(-3, 2), [records[key] for key in (-3, -2, -1, 0, 1)]),
        "list": ([3, 1, -1, 3], [records[key] for key in (3, 1, -1, 3)]),
        "array": (np.array([3, -12], np.int8), [records[3], records[0]]),
        "jax": (jnp.array([5, 2]), [records[5], records[2]]),
        "mask": (mask, records[1::3]),
        "list of bools": (mask.tolist(), records[1::3]),
    }
    for how, (key, expected) in cuts.items():
        part = source[key]
        assert isinstance(part, lk.SubsetDataSource) and len(part) == len(expected), how
        assert [told(record) for record in part] == expected, how
        again = pickle.loads(pickle.dumps(part))
        assert told(again[-1]) == expected[-1] and fingerprint_of(again) == fingerprint_of(part), how
        assert (many_reader(part) is None) == (many_reader(source) is None)
        assert (column_reader(part) is None) == (column_reader(source) is None)
        assert fingerprint_of(part) == fingerprint_of(lk.SubsetDataSource(source, key))
    assert [told(source[key]) for key in range(-N, N)] == records * 2
    assert told(source[np.int64(-2)]) == told(source[jnp.array(N - 2)]) == records[-2]
    for key in (N, -N - 1):
        with pytest.raises(
            IndexError, match=f"expected an int from -{N} to {N - 1}, got {key}; .* has {N} records"
        ):
            source[key]
        with pytest.raises(IndexError, match=f"got {key}; .* has {N} records"):
            source[[0, key]]
    for key, says in (
        ((1, 2), r"expected an int, got \(1, 2\); for several records write source\[\[3, 1\]\]"),
        (1.0, "expected an int, got 1.0"),
        (np.float32(0.5), "record_key: expected an int"),
        ("x", "records have numbers"),
        (None, "expected an int, got None"),
        ([0.5], "expected an int, got 0.5"),
        (np.zeros((2, 2), int), "expected integers in one dimension"),
    ):
        with pytest.raises(TypeError, match=says):
            source[key]
    with pytest.raises(ValueError, match=r"expected one record or more of .* got none with slice"):
        source[5:5]
    with pytest.raises(ValueError, match=rf"mask: expected {N} bools, one for each record of .*got 3"):
        source[[True, False, True]]


SLICES = st.slices(N)


@example([slice(2, None), slice(None, None, -2), slice(1, 3)])
@settings(deadline=None)
@given(st.lists(SLICES, min_size=1, max_size=4))
def test_a_slice_of_slices_is_one_slice(slices):
    """It has the records of a list's, reads the source below itself, and takes no memory."""
    part, records = NUMBERS, [*NUMBERS]
    for place in slices:
        records = records[place]
        if not records:
            with pytest.raises(ValueError, match="expected one record or more"):
                part[place]
            return
        part = part[place]
    assert list(part) == records and part.__getitems__(range(len(part))) == records
    assert part.fingerprint()["source"] == fingerprint_of(NUMBERS) and "range" in part.fingerprint()["keys"]


def test_a_queue_that_is_cut_again_and_again_stays_as_quick():
    """However often the first records are cut off, the rest is one view, of a billion records too."""
    rest = lk.RangeDataSource(1 << 40)
    for _ in range(2000):
        first, rest = rest[:3], rest[3:]
    assert [*first] == [5997, 5998, 5999] and rest[0] == 6000 and len(pickle.dumps(rest)) < 1000


def images(loader):
    return [np.asarray(batch).tolist() for batch in loader]


def by_x(record):
    return record["x"]


@pytest.mark.parametrize("workers", [0, 2])
def test_slices_are_loaded_mixed_and_left_out_of_as_other_sources(workers, tmp_path):
    """In workers, behind a restore, in lk.mix, with lineage and with lists of records that are left out."""
    source = written(tmp_path / "a.array_record")
    part = source[2:10]

    def load(data, **how):
        running = {"worker_count": workers, "worker_kind": "thread", "num_epochs": 2, "operations": [by_x]}
        return lk.load(data, shuffle=True, seed=0, batch_size=3, **running | how)

    expected = images(load([*range(2, 10)], worker_count=0, operations=()))
    with load(part) as loader:
        assert images(loader) == expected
        read = loader.documents(range(len(expected)))
        assert read.document.tolist() == [key for batch in expected for key in batch]
        it = iter(loader)
        next(it)
        state = it.get_state()
    with load(source[2:10]) as loader, iter(loader) as it, load(source[2:11]) as other:
        it.set_state(state)
        assert images(it) == expected[1:]
        with pytest.raises(lk.CheckpointMismatchError, match="source"):
            iter(other).set_state(state)
    blocked = lk.offline.block_list(part, tmp_path / "lists", keys=[1, 5], reason="leaked")
    with load(part, exclude=tmp_path / "lists") as loader:
        seen = [key for batch in images(loader) for key in batch]
    assert blocked and sorted(seen) == sorted([2, 4, 5, 6, 8, 9] * 2)
    mixed, sampler = lk.mix({"a": part, "b": source[::-2]}, weights={"a": 1, "b": 1}, seed=0, shuffle=True)
    with lk.DataLoader(
        data_source=mixed, sampler=sampler, operations=[by_x, lk.Batch(40)], num_steps=1
    ) as loader:
        assert {*images(loader)[0]} == {*range(2, 10), *range(1, 12, 2)}
