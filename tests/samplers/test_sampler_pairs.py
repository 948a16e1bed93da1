"""Every sampler with every part that takes one: a mixture, a packing plan, a loader over each kind of source.

Each pair is compared with what the sampler's own `sampler[i]` says, one index at a time, or it is refused.
"""

import numpy as np
import pytest

import loaderkit as lk

N, EPOCHS = 24, 2


class Backwards:
    """A user's sampler: the least that one must have, and a length."""

    num_records = N

    def __init__(self, epochs):
        self.epochs = epochs

    def __len__(self):
        return N * self.epochs

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return lk.RecordMetadata(index, N - 1 - index % N)


class Batched(Backwards):
    """A user's sampler that plans whole batches of 4; the last of an epoch uses 2 indices."""

    global_batch_size, sizes, epoch_length = 4, (4,), N

    def shapes(self, firsts):
        return np.zeros(len(firsts), np.int64)

    def rows_of(self, firsts):
        return np.where(np.asarray(firsts) % N == N - 4, 2, 4)


def mixed(epochs):
    parts = {name: lk.IndexSampler(N // 2, shuffle=True, seed=2, num_epochs=epochs) for name in "mn"}
    return lk.samplers.MixedSampler(parts, weights={"m": 2, "n": 1}, when_exhausted="drop")


LENGTHS = np.arange(N) % 7 + 1
SAMPLERS = {
    "sequential": lambda epochs: lk.SequentialSampler(N),
    "in order": lambda epochs: lk.IndexSampler(N, num_epochs=epochs),
    "shuffled": lambda epochs: lk.IndexSampler(N, shuffle=True, seed=3, num_epochs=epochs),
    "keys": lambda epochs: lk.samplers.KeysSampler(
        np.arange(N)[::-3], shuffle=True, seed=1, num_epochs=epochs
    ),
    "weighted": lambda epochs: lk.samplers.WeightedSampler(LENGTHS, seed=0, num_samples=N),
    "chunks": lambda epochs: lk.ChunkSampler(N, chunk=4, window=2, seed=0, num_epochs=epochs),
    "lanes": lambda epochs: lk.ChunkSampler(
        N, chunk=2, window=2, lanes=2, batch=4, seed=0, num_epochs=epochs
    ),
    "interleaved": lambda epochs: lk.samplers.InterleavedSampler([N - 5, 5], num_epochs=epochs),
    "mixed": mixed,
    "sliced": lambda epochs: lk.samplers.SliceSampler(lk.IndexSampler(N, shuffle=True, seed=3), 5, 5 + N),
    "buckets": lambda epochs: lk.samplers.LengthBucketSampler(
        LENGTHS, [3, 7], 4, shuffle=True, seed=0, num_epochs=epochs
    ),
    "user's": Backwards,
    "user's batches": Batched,
}
WHOLE_BATCHES = ("buckets", "user's batches")


def keys_of(sampler):
    """Its record keys one at a time, without the indices that a batch doesn't use."""
    used = range(len(sampler))
    if hasattr(sampler, "rows_of"):
        firsts = range(0, len(sampler), 4)
        used = [first + row for first in firsts for row in range(int(sampler.rows_of([first])[0]))]
    return [sampler[index].record_key for index in used]


@pytest.mark.parametrize("first", SAMPLERS)
@pytest.mark.parametrize("second", ["in order", "mixed"])
def test_components_of_a_mixture(first, second):
    """Each is read in its own order, without a hole; a sampler that plans whole batches is refused."""

    def mixture(order):
        samplers = {"one": SAMPLERS[first](EPOCHS), "two": SAMPLERS[second](EPOCHS)}
        return samplers, lk.samplers.MixedSampler(
            samplers,
            weights={"one": 3, "two": 2},
            when_exhausted="drop",
            offsets={"one": 0, "two": N},
            order=order,
            seed=0,
        )

    if first in WHOLE_BATCHES:
        with pytest.raises(
            ValueError, match=r"components\['one'\]: expected a sampler of single records, got"
        ):
            mixture("even")
        return
    for order in ("even", "shuffled"):
        samplers, sampler = mixture(order)
        keys = sampler.record_keys(range(len(sampler)))
        assert keys.tolist() == keys_of(sampler)
        for name, low in (("one", 0), ("two", N)):
            expected = keys_of(samplers[name])
            assert (keys[(keys >= low) & (keys < low + N)] - low).tolist() == expected
            assert sampler.taken(len(sampler))[name].records == len(expected)


@pytest.mark.parametrize("epochs", [1, EPOCHS])
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("how", ["first_fit", "concat_then_split"])
def test_orders_of_a_plan(name, how, epochs):
    """Each document of the order is in the plan once; one that stands there twice is refused, and whole batches are."""
    order = SAMPLERS[name](epochs)
    keys = keys_of(order)
    if name in WHOLE_BATCHES:
        with pytest.raises(
            ValueError, match=r"^order: expected a sampler of single records, got a .* batches"
        ):
            lk.plan_packing(LENGTHS, 16, order=order, how=how, block=5)
        return
    if len({*keys}) < len(keys):
        again = next(place for place, key in enumerate(keys) if key in keys[:place])
        says = rf"^order: expected each document once at most, got document {keys[again]} again at index {again} of"
        with pytest.raises(ValueError, match=says):
            lk.plan_packing(LENGTHS, 16, order=order, how=how, block=5)
        return
    plan = lk.plan_packing(LENGTHS, 16, order=order, how=how, block=5)
    pieces = plan.rows(range(len(plan)))
    tokens = np.bincount(pieces.documents, weights=pieces.lengths, minlength=N)
    assert tokens.tolist() == [length if key in keys else 0 for key, length in enumerate(LENGTHS)]


FILES = {
    "jsonl": lk.JsonLinesDataSource,
    "tfrecord": lk.TFRecordDataSource,
    "array_record": lk.ArrayRecordDataSource,
    "tar": lk.TarDataSource,
    "parquet": lk.ParquetDataSource,
    "arrow": lk.formats.ArrowDataSource,
}


def source_of(kind, folder):
    """A source of 24 records."""
    array = lk.ArrayDataSource({"x": np.arange(N), "y": np.arange(2 * N, dtype=np.float32).reshape(N, 2)})
    if kind in FILES:
        return FILES[kind](lk.write([{"x": np.int64(key)} for key in range(N)], folder / kind, format=kind))
    if kind == "packed":
        documents = lk.TokenDataSource(np.arange(8 * N), np.arange(0, 8 * N + 1, 8))
        return lk.PackedDataSource(documents, lk.plan_packing(documents.lengths, 8))
    return {
        "list": lambda: [{"x": np.int64(key)} for key in range(N)],
        "columns": lambda: array,
        "memory": lambda: lk.InMemoryDataSource([{"x": np.int64(key)} for key in range(N)]),
        "range": lambda: lk.RangeDataSource(0, N, 1),
        "concatenated": lambda: lk.ConcatDataSource(
            {"a": lk.SubsetDataSource(array, range(N - 5)), "b": lk.SubsetDataSource(array, range(5))}
        ),
        "mapped": lambda: lk.MapDataSource(array, lambda record: record["x"]),
        "subset": lambda: lk.SubsetDataSource(array, np.arange(N)[::-1]),
        "zipped": lambda: lk.ZipDataSource({"one": array, "two": range(N)}),
        "windows": lambda: lk.sources.WindowDataSource(lk.ArrayDataSource(np.arange(N + 2)), 3, shift=1),
        "cached": lambda: lk.CachedDataSource(array, folder / "cache"),
        "tokens": lambda: lk.TokenDataSource(np.arange(LENGTHS.sum()), np.cumsum([0, *LENGTHS])),
    }[kind]()


def leaves_of(element):
    if isinstance(element, dict):
        return [leaf for value in element.values() for leaf in leaves_of(value)]
    return [np.asarray(element)]


IN_MEMORY = "list columns memory range concatenated mapped subset zipped windows cached tokens packed"


@pytest.mark.parametrize("kind", [*IN_MEMORY.split(), *FILES])
def test_sources_under_each_sampler(tmp_path, kind):
    """A loader's rows are the records of the sampler's keys, with a Batch, over epochs and after a resume."""
    source = source_of(kind, tmp_path)
    assert len(source) == N
    ragged = kind == "tokens"
    expected = [leaves_of(source[key]) for key in range(N)]
    for name, make in SAMPLERS.items():
        sampler = make(EPOCHS)
        batch = lk.Batch(global_batch_size=4)
        if ragged:
            batch = lk.PadBatch(
                global_batch_size=4, boundaries={"tokens": [3, 7] if name == "buckets" else [7]}
            )
        loader = lk.DataLoader(data_source=source, sampler=sampler, operations=[batch])
        keys = keys_of(sampler)
        it = iter(loader)
        states, batches = [], []
        for element in it:
            batches.append(leaves_of(element))
            states.append(it.get_state())
        rows = [[leaf[row] for leaf in batch] for batch in batches for row in range(len(batch[0]))]
        assert len(rows) == len(keys), name
        for row, key in zip(rows, keys, strict=True):
            for leaf, one in zip(row, expected[key], strict=True):
                assert np.array_equal(leaf[: len(one)] if ragged else leaf, one), name
        place = len(states) // 2
        again = iter(loader)
        again.set_state(states[place])
        rest = [leaves_of(element) for element in again]
        assert [[x.tobytes() for x in b] for b in rest] == [
            [x.tobytes() for x in b] for b in batches[place + 1 :]
        ]


PARTS = {"b": lk.RangeDataSource(100, 107, 1), "a": lk.RangeDataSource(200, 203, 1)}


@pytest.mark.parametrize(
    ("sampler", "says"),
    [
        (
            lk.samplers.MixedSampler({"a": lk.IndexSampler(3), "b": lk.IndexSampler(7)}),
            "components: .* here 'b' from record 0 on, got 'a' from record 0",
        ),
        (
            lk.samplers.MixedSampler({"b": lk.IndexSampler(5), "a": lk.IndexSampler(3)}),
            "components: .* here 'a' from record 7 on, got 'a' from record 5",
        ),
        (
            lk.samplers.InterleavedSampler([3, 7], num_epochs=1),
            "lengths: .* here 'a' from record 7 on, got 'a' from record 3",
        ),
    ],
)
def test_parts_of_a_concatenation_that_a_sampler_means_otherwise(sampler, says):
    """They were read under other names, or one as a piece of the other, without a word."""
    concatenated = lk.ConcatDataSource(PARTS)
    for source in (concatenated, lk.MapDataSource(concatenated, float)):
        with pytest.raises(ValueError, match=f"^{says}"):
            lk.DataLoader(data_source=source, sampler=sampler)


@pytest.mark.parametrize(
    "sampler",
    [
        lk.samplers.MixedSampler({"b": lk.IndexSampler(7), "a": lk.IndexSampler(2)}),
        lk.samplers.MixedSampler(
            {"a": lk.IndexSampler(3), "b": lk.IndexSampler(7)}, offsets={"a": 7, "b": 0}
        ),
        lk.samplers.MixedSampler({"head": lk.IndexSampler(2), "tail": lk.IndexSampler(8)}),
        lk.samplers.MixedSampler({name: lk.IndexSampler(3) for name in "xyz"}),
        lk.samplers.InterleavedSampler([7, 3], num_epochs=1),
    ],
)
def test_parts_that_fit_and_other_cuts(sampler):
    """The last part may be cut off; names of their own, or places that were given, are the user's."""
    loader = lk.DataLoader(data_source=lk.ConcatDataSource(PARTS), sampler=sampler)
    source = lk.ConcatDataSource(PARTS)
    with iter(loader) as it:
        assert [next(it) for _ in range(8)] == [source[sampler[index].record_key] for index in range(8)]
