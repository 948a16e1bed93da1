"""Shards: all processes together load each global batch once, whatever their number."""

import contextlib
import itertools
import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.sharding import ShardBlocks


def shards_of(
    count: int, operations: list, shards: int, *, drop: bool = False, epochs: int | None = 1, **options
):
    """The loaders of all processes of one run."""
    return [
        lk.DataLoader(
            data_source=range(count),
            sampler=lk.IndexSampler(count, shuffle=True, seed=6, num_epochs=epochs),
            operations=operations,
            shard_options=lk.ShardOptions(h, shards, drop_remainder=drop),
            **options,
        )
        for h in range(shards)
    ]


def batches_of(loader: "lk.DataLoader") -> list[list]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the last step has too few rows|iterating again repeats")
        return [np.asarray(batch).tolist() for batch in loader]


def global_batches(loaders: "list[lk.DataLoader]") -> list[list]:
    """Step by step, the rows of all shards in their order; a shard that has ended gives none."""
    parts = [batches_of(loader) for loader in loaders]
    steps = max(map(len, parts))
    return [
        [row for part in parts for row in (part[step] if step < len(part) else [])] for step in range(steps)
    ]


@given(
    count=st.integers(1, 40),
    shards=st.integers(1, 4),
    rows=st.integers(1, 3),
    group=st.integers(1, 3),
    remainder=st.sampled_from(["keep", "drop"]),
)
def test_shards_make_one_global_batch(count, shards, rows, group, remainder):
    """Of global_batch_size N the shards' rows, one behind the other, are the batches that one process makes."""
    operations = [
        lk.MapWithIndex(lambda index, key: np.array([index, key])),
        lk.Batch(group, drop_remainder=True),
        lk.Batch(global_batch_size=rows * shards, remainder=remainder),
    ]
    together = global_batches(shards_of(count, operations, shards))
    assert together == global_batches(shards_of(count, operations, 1))


@given(count=st.integers(1, 40), shards=st.integers(1, 4), rows=st.integers(1, 3), data=st.data())
def test_shards_of_batch_size(count, shards, rows, data):
    """batch_size is a shard's: the global batch is that many times the shard count."""
    remainder = data.draw(st.sampled_from(["keep", "drop"]))
    together = global_batches(shards_of(count, [lk.Batch(rows, remainder=remainder)], shards))
    assert together == global_batches(shards_of(count, [lk.Batch(rows * shards, remainder=remainder)], 1))


@given(count=st.integers(1, 40), shards=st.integers(1, 4), rows=st.integers(1, 3))
def test_drop_remainder_gives_equal_parts(count, shards, rows):
    """With ShardOptions(drop_remainder=True) every shard makes the same steps of the same size, without a warning."""
    loaders = shards_of(count, [lk.Batch(rows)], shards, drop=True)
    parts = [[len(batch) for batch in loader] for loader in loaders]
    assert all(part == parts[0] for part in parts)
    whole = global_batches(shards_of(count, [lk.Batch(rows * shards)], 1))
    for found, expected in zip(global_batches(loaders), whole, strict=False):
        assert found == expected[: len(expected) // shards * shards]
    assert sum(parts[0]) * shards == count - count % (rows * shards) % shards


@given(count=st.integers(1, 30), shards=st.integers(1, 4), drop=st.booleans())
def test_elements_are_dealt_out_in_turn(count, shards, drop):
    """Without a Batch, step t gives shard h the element of index t*H + h."""
    loaders = shards_of(count, [], shards, drop=drop)
    keys = lk.IndexSampler(count, shuffle=True, seed=6).record_keys(range(count)).tolist()
    if drop:
        keys = keys[: count // shards * shards]
    for h, loader in enumerate(loaders):
        assert batches_of(loader) == keys[h::shards]


@given(
    count=st.integers(1, 40),
    shards=st.integers(1, 4),
    rows=st.integers(1, 3),
    drop=st.booleans(),
    batched=st.booleans(),
)
def test_records_are_those_of_all_shards(count, shards, rows, drop, batched):
    """records(step) names each row of the step over all shards, and is the same on every one of them."""
    loaders = shards_of(count, [lk.Batch(rows)] if batched else [], shards, drop=drop)
    parts = [batches_of(loader) for loader in loaders]
    for step in range(max(map(len, parts))):
        came = [
            key for part in parts if step < len(part) for key in (part[step] if batched else [part[step]])
        ]
        for loader in loaders:
            assert [metadata.record_key for metadata in loader.records(step)] == came


def test_unequal_steps_are_told_at_the_start():
    """When the last shards get nothing of the last step, each shard says so when iteration starts, and what to do."""
    loaders = shards_of(9, [lk.Batch(2)], 4)
    assert [len(loader) for loader in loaders] == [2, 1, 1, 1]
    for loader in loaders:
        with pytest.warns(
            UserWarning, match=r"last 3 make one step fewer.*remainder='drop'.*drop_remainder"
        ) as said:
            iter(loader)
        assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for equal in (
            shards_of(9, [lk.Batch(2, drop_remainder=True)], 4),
            shards_of(9, [lk.Batch(2)], 4, drop=True),
            shards_of(12, [lk.Batch(2)], 4),
            shards_of(8, [lk.Batch(2)], 4),
            shards_of(9, [lk.Batch(2)], 4, epochs=None),
        ):
            for loader in equal:
                iter(loader)


def test_every_shard_writes_the_same_state():
    """The cursor is the end of the global step: at the same step all shards save the same bytes."""
    iterators = [iter(loader) for loader in shards_of(40, [lk.Batch(3)], 4)]
    for _ in range(3):
        for it in iterators:
            next(it)
        assert len({it.get_state() for it in iterators}) == 1
    other_count = shards_of(40, [lk.Batch(global_batch_size=12)], 2)
    for it in [iter(loader) for loader in other_count]:
        it.set_state(iterators[0].get_state())
        assert it.get_state() == iterators[0].get_state()


def test_another_number_of_shards():
    """With global_batch_size any number of shards goes on the same; with batch_size an error has the line to paste."""
    whole = batches_of(shards_of(48, [lk.Batch(12)], 1)[0])
    for shards in (1, 2, 3, 4):
        iterators = [iter(loader) for loader in shards_of(48, [lk.Batch(global_batch_size=12)], shards)]
        saved = iter(shards_of(48, [lk.Batch(global_batch_size=12)], 2)[1])
        next(saved)
        for it in iterators:
            it.set_state(saved.get_state())
        assert [row for it in iterators for row in next(it).tolist()] == whole[1]
    saved = iter(shards_of(48, [lk.Batch(3)], 4)[0])
    with pytest.raises(lk.CheckpointMismatchError, match=r"lk\.Batch\(global_batch_size=12\)"):
        iter(shards_of(48, [lk.Batch(3)], 2)[0]).set_state(saved.get_state())
    elements = iter(shards_of(48, [], 4)[0])
    with pytest.raises(lk.CheckpointMismatchError, match="4 shards"):
        iter(shards_of(48, [], 2)[0]).set_state(elements.get_state())


def test_a_samplers_own_sharding_is_handed_on():
    """The sampler's shard_options are the loader's, unless both are given and differ."""
    half = lk.ShardOptions(1, 2)
    sampler = lk.IndexSampler(8, shard_options=half, num_epochs=1)
    operations = [lk.Batch(2)]
    assert [
        b.tolist() for b in lk.DataLoader(data_source=range(8), sampler=sampler, operations=operations)
    ] == [
        [2, 3],
        [6, 7],
    ]
    same = lk.DataLoader(
        data_source=range(8), sampler=sampler, operations=operations, shard_options=lk.ShardOptions(1, 2)
    )
    assert len(same) == 2
    for other in (lk.ShardOptions(0, 2), lk.NoSharding(), lk.ShardOptions(1, 2, drop_remainder=True)):
        with pytest.raises(
            ValueError, match=r"shard_options: expected none or the sampler's own, .*; give one"
        ):
            lk.DataLoader(data_source=range(8), sampler=sampler, operations=operations, shard_options=other)


class Later:
    """A sharding that is known only when iteration starts."""

    def __init__(self) -> None:
        self.shard: lk.ShardOptions | None = None

    def resolve(self) -> lk.ShardOptions:
        assert self.shard is not None, "asked before iteration started"
        return self.shard


def test_shards_are_asked_for_when_iteration_starts():
    """Building a loader asks nothing; each iter() asks anew."""
    later = Later()
    sampler = lk.IndexSampler(8, num_epochs=1)
    loader = lk.DataLoader(
        data_source=range(8), sampler=sampler, operations=[lk.Batch(2)], shard_options=later
    )
    later.shard = lk.ShardOptions(0, 2)
    assert next(iter(loader)).tolist() == [0, 1]
    later.shard = lk.ShardOptions(1, 4)
    assert next(iter(loader)).tolist() == [2, 3]


def test_a_global_batch_that_cant_be_cut():
    """A global_batch_size that the shards don't divide is an error when iteration starts, with a size that works."""
    loader = shards_of(48, [lk.Batch(global_batch_size=10)], 4)[0]
    for ask in (iter, len, lambda it: it.records(0)):
        with pytest.raises(
            ValueError, match=r"global_batch_size: .* multiple of 4.* got 10; .*global_batch_size=12"
        ):
            ask(loader)


CHANGING = [
    lk.FlatMap(lambda key: [key] * (key % 3)),
    lk.RandomMap(lambda key, rng: np.array([key, rng.integers(1000)])),
    lk.Filter(lambda pair: pair[1] % 4),
]


def taken(loaders: "list[lk.DataLoader]", steps: int) -> list[list]:
    parts = [[next(it).tolist() for _ in range(steps)] for it in map(iter, loaders)]
    return [[row for part in parts for row in part[step]] for step in range(steps)]


@pytest.mark.parametrize("streams", [4, 8])
@pytest.mark.parametrize("workers", [0, 2])
def test_logical_streams_dont_depend_on_the_shards(streams, workers):
    """Operations that change the number of rows: with S streams any number of shards gives the same global batches."""
    operations = [*CHANGING, lk.Batch(global_batch_size=16)]
    options = {"epochs": None, "logical_streams": streams, "worker_count": workers, "worker_kind": "thread"}
    found = {}
    for shards in (1, 2, 4):
        loaders = shards_of(50, operations, shards, **options)
        found[shards] = taken(loaders, 12)
        for loader in loaders:
            loader.close()
    assert found[1] == found[2] == found[4]
    assert all(len(batch) == 16 for batch in found[1])
    other = taken(shards_of(50, operations, 1, epochs=None, logical_streams=2), 12)
    assert other != found[1]


def test_streams_are_filtered_each_on_its_own():
    """Index i belongs to stream (i // q) % S with q = G / S, and gives rows [s*N/S, (s+1)*N/S) of each batch."""
    operations = [lk.MapWithIndex(lambda index, _: index), lk.Filter(lambda index: index % 5), lk.Batch(6)]
    loader = shards_of(50, operations, 1, epochs=None, logical_streams=3)[0]
    members = {s: iter([i for i in range(300) if i // 2 % 3 == s and i % 5]) for s in range(3)}
    for batch, _ in zip(loader, range(20), strict=False):
        assert batch.tolist() == [next(members[s]) for s in range(3) for _ in range(2)]


def test_a_filter_that_drops_nothing_changes_nothing():
    """A Filter that keeps all gives exactly the unfiltered stream, for any number of streams."""
    plain = taken(shards_of(50, [lk.Batch(12)], 1, epochs=None), 8)
    for streams in (1, 2, 3, 4, 6, 12):
        operations = [lk.Filter(lambda _: True), lk.Batch(12)]
        assert taken(shards_of(50, operations, 1, epochs=None, logical_streams=streams), 8) == plain


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (2, 4), (4, 2), (2, 2)])
def test_streams_resume_on_another_number_of_shards(before, after):
    """The states of all processes of a step, given to any number of processes, go on with the same global batches."""
    operations = [*CHANGING, lk.Batch(global_batch_size=8)]
    options = {"epochs": None, "logical_streams": 4}
    expected = taken(shards_of(50, operations, 1, **options), 9)
    iterators = [iter(loader) for loader in shards_of(50, operations, before, **options)]
    for _ in range(5):
        for it in iterators:
            next(it)
    states = [it.get_state() for it in iterators]
    assert len({json.dumps(json.loads(state)["segments"]) for state in states}) == 1
    resumed = [iter(loader) for loader in shards_of(50, operations, after, **options)]
    for it in resumed:
        it.set_state(states)
        assert it.step == 5
    rest = [[row for it in resumed for row in next(it).tolist()] for _ in range(4)]
    assert rest == expected[5:]


def test_a_resize_moves_no_record_to_another_stream():
    """allow={"global_batch_size"} on streams: what each has consumed stays a prefix of it, and q stays."""

    def loader_of(rows: int) -> lk.DataLoader:
        operations = [lk.MapWithIndex(lambda index, _: index), lk.Filter(lambda i: i % 5), lk.Batch(rows)]
        return shards_of(50, operations, 1, epochs=None, logical_streams=2)[0]

    consumed = {0: [], 1: []}
    state = None
    for rows, steps in ((4, 3), (8, 2), (2, 5), (4, 2)):
        it = iter(loader_of(rows))
        if state is not None:
            it.set_state(state, allow={"global_batch_size"})
        for _ in range(steps):
            for place, index in enumerate(next(it).tolist()):
                consumed[place * 2 // rows].append(index)
        state = it.get_state()
    document = json.loads(state)
    assert document["streams"]["q"] == 2
    assert document["segments"] == [[0, None, 4], [3, None, 8], [5, None, 2], [10, None, 4]]
    for stream, indices in consumed.items():
        assert indices == [i for i in range(200) if i // 2 % 2 == stream and i % 5][: len(indices)]
        assert len(indices) == 6 + 8 + 5 + 4


def test_a_missing_processs_state_is_named():
    """Of streams that no given document has a cursor for, the error says which."""
    loaders = shards_of(50, [*CHANGING, lk.Batch(global_batch_size=8)], 2, epochs=None, logical_streams=4)
    first, second = map(iter, loaders)
    with pytest.raises(ValueError, match=r"cursors: expected those of logical streams \[2, 3\] too"):
        second.set_state(first.get_state())
    assert second.step == 0


@pytest.mark.parametrize(
    ("operations", "options", "says"),
    [
        ([lk.Filter(bool), lk.Batch(4)], {"shards": 2}, "logical_streams=2"),
        (
            [lk.Filter(bool), lk.Batch(global_batch_size=12)],
            {"shards": 4, "logical_streams": 6},
            "logical_streams=12",
        ),
        ([lk.Filter(bool), lk.Batch(4)], {"shards": 1, "logical_streams": 3}, "logical_streams=1"),
        ([lk.Batch(4), lk.Filter(bool)], {"shards": 2, "logical_streams": 2}, "after the last Batch"),
        ([lk.Batch(4), lk.FlatMap(list)], {"shards": 1, "logical_streams": 2}, "after the last Batch"),
        ([lk.Filter(bool), lk.Batch(4)], {"shards": 2, "logical_streams": 2, "epochs": 1}, "num_epochs=None"),
    ],
    ids=str,
)
def test_streams_that_cant_be(operations, options, says):
    """What can't be shared by the shards is an error when iteration starts, with the line to paste."""
    loader = shards_of(50, operations, **{"epochs": None, **options})[0]
    with pytest.raises(ValueError, match=says):
        iter(loader)


def shards_of_blocks(*several: tuple[int, ...], count: int = 4) -> list[object]:
    class Blocks:
        def __init__(self, blocks: tuple[int, ...]) -> None:
            self.blocks = blocks

        def resolve(self) -> ShardBlocks:
            writers = tuple(min(h for h, own in enumerate(several) if b in own) for b in range(count))
            return ShardBlocks(self.blocks, count, writers)

    return [Blocks(blocks) for blocks in several]


@pytest.mark.slow
@pytest.mark.parametrize("changing", [False, True], ids=["plain", "row-changing"])
@pytest.mark.parametrize("workers", [0, 2])
def test_shards_of_several_blocks_make_the_global_batches(changing, workers):
    """Shards that hold blocks apart, or the same ones, deliver those rows of one global batch; a lone one resumes."""
    operations = [lk.Filter(lambda x: x % 3 > 0)] if changing else []
    how = {
        "data_source": lk.RangeDataSource(0, 64, 1),
        "sampler": lk.IndexSampler(64, shuffle=True, seed=1, num_epochs=None if changing else 1),
        "operations": [*operations, lk.Batch(global_batch_size=16)],
        "logical_streams": 4,
        "worker_count": workers,
    }
    whole = list(itertools.islice(lk.DataLoader(**how), 4))
    owned = [(0, 3), (1, 2), (1, 2)]
    with contextlib.ExitStack() as stack:
        its = [
            stack.enter_context(iter(lk.DataLoader(**how, shard_options=shard)))
            for shard in shards_of_blocks(*owned)
        ]
        for step in range(4):
            for blocks, it in zip(owned, its, strict=True):
                rows = [row for b in blocks for row in whole[step][4 * b : 4 * b + 4].tolist()]
                assert next(it).tolist() == rows
            if step == 1:
                states = [it.get_state() for it in its]
        single = stack.enter_context(iter(lk.DataLoader(**how)))
        single.set_state(states)
        assert next(single).tolist() == whole[2].tolist()
        one, two = (json.loads(state) for state in states[:2])
        if changing:
            assert (list(one["cursors"]), list(two["cursors"])) == (["0", "3"], ["1", "2"])
            assert one["streams"]["writers"] == two["streams"]["writers"] == [0, 1, 1, 0]
        else:
            assert one == two


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ([], "operations with a Batch, .*got none; add lk.Batch\\(global_batch_size=...\\)"),
        (
            [lk.Batch(4)],
            "batch_size: expected the size of the global batch, .*got .*Batch\\(batch_size=4\\);",
        ),
        ([lk.Batch(global_batch_size=6)], "global_batch_size: expected a multiple of 4, .*, got 6"),
        (
            [lk.Batch(global_batch_size=8)],
            "expected a last step that divides into 4 equal parts, got 2 rows; use remainder=",
        ),
    ],
)
def test_blocks_need_a_global_batch_in_equal_parts(operations, text):
    """The rows of others can't be counted from one's own, so what would need that is refused when iteration starts."""
    (shard,) = shards_of_blocks((0, 1, 2, 3))
    loader = lk.DataLoader(
        data_source=lk.RangeDataSource(0, 10, 1),
        sampler=lk.SequentialSampler(10),
        operations=operations,
        shard_options=shard,
    )
    with pytest.raises(ValueError, match=text):
        iter(loader)
